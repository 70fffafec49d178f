// SPDX-License-Identifier: MIT
// Instructions and events that a translator treats specially: repeat prefixes, loops on rcx, jumps
// to the next and to the same instruction, atomic operations, faults, signals, a system call that
// is interrupted and begun again, long jumps, code that changes.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static char a[512], b[512];

static long strings(long n) {
  void *d = b, *s = a;  // in the lowest 4 GiB: the program is not position-independent
  long c = n, left;
  __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(c) : : "memory");
  d = b, c = n / 8;
  __asm__ volatile("rep stosq" : "+D"(d), "+c"(c) : "a"(0x4142434445464748) : "memory");
  d = b, c = n / 4, s = a;
  __asm__ volatile("rep movsl" : "+D"(d), "+S"(s), "+c"(c) : : "memory");
  d = b + 64, c = n / 2, s = a + 64;
  __asm__ volatile("std; rep movsw; cld" : "+D"(d), "+S"(s), "+c"(c) : : "memory");
  b[n / 2 + 1] ^= 5;
  d = b, s = a, c = n;
  __asm__ volatile("repe cmpsb" : "+D"(d), "+S"(s), "+c"(c) : : "memory", "cc");
  left = c;
  d = b, c = n;
  __asm__ volatile("repne scasb" : "+D"(d), "+c"(c) : "a"('q') : "memory", "cc");
  left = left * 1000 + c;
  d = b, c = n;
  __asm__ volatile("repe scasb" : "+D"(d), "+c"(c) : "a"('H') : "memory", "cc");
  s = a;
  long last;
  __asm__ volatile("lodsb; movzbl %%al, %%eax" : "=a"(last), "+S"(s) : : "memory");
  d = b, s = a, c = n;  // the counter is ecx
  __asm__ volatile("addr32 rep movsb" : "+D"(d), "+S"(s), "+c"(c) : : "memory");
  return left * 1000 + c + last;
}

static long loops(long n) {
  long sum = 0, c = n + 1;
  __asm__ volatile("1: add $3, %0; loop 1b" : "+r"(sum), "+c"(c) : : "cc");
  c = n + 1;
  __asm__ volatile("1: add $5, %0; test $4, %0; loopne 1b" : "+r"(sum), "+c"(c) : : "cc");
  c = n;
  __asm__ volatile("jrcxz 1f; inc %0; 1: jecxz 2f; inc %0; 2:" : "+r"(sum), "+c"(c) : : "cc");
  __asm__ volatile("cmp $9, %0; ja 1f; 1: jmp 1f; 1: jbe 2f; cmp $50, %0; ja 2f; inc %0; 2:"
                   : "+r"(sum)
                   :
                   : "cc");
  // A && B with flags that live on, with a carry as data, and with a conditional move.
  __asm__ volatile(
      "cmp $7, %1; jl 1f; test $1, %1; jz 1f; add $100, %0; 1: adc $0, %0\n"
      "cmp %1, %0; jg 2f; setc %b0; cmp $3, %1; je 2f; inc %0; 2: cmovz %1, %0\n"
      "bt $2, %1; jc 3f; bt $1, %1; jnc 3f; neg %0; 3:"
      : "+q"(sum)
      : "r"(n)
      : "cc");
  return sum;
}

static long atomics(long n) {
  static long word, pair[2] __attribute__((aligned(16)));
  for (long i = 0; i < n; ++i) {
    __sync_fetch_and_add(&word, i);
    __sync_fetch_and_or(&word, i * 16);
    __sync_bool_compare_and_swap(&word, i, -i);
    long low = pair[0], high = pair[1];
    __asm__ volatile("lock cmpxchg16b %0"
                     : "+m"(pair), "+a"(low), "+d"(high)
                     : "b"(i), "c"(n)
                     : "cc", "memory");
  }
  return word + pair[0] + __sync_lock_test_and_set(&word, 0);
}

static volatile sig_atomic_t signals;
static sigjmp_buf back;
static void on_signal(int number, siginfo_t* info, void* context) {
  signals += number;
  if (number == SIGSEGV) {
    ucontext_t* c = context;
    if (info->si_addr == (void*)16) siglongjmp(back, 1);
    c->uc_mcontext.gregs[REG_RAX] = (greg_t)(intptr_t)a;  // again, with an address that is right
  }
  if (number == SIGFPE || number == SIGILL) siglongjmp(back, 2);
}

static long faults(void) {
  struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};
  const int caught[] = {SIGUSR1, SIGSEGV, SIGFPE, SIGILL};
  for (int i = 0; i < 4; ++i) sigaction(caught[i], &act, NULL);
  raise(SIGUSR1);
  long value = 0;
  __asm__ volatile("mov $8, %%eax; add $1, %0; mov (%%rax), %%rax; add %%rax, %0"
                   : "+r"(value)
                   :
                   : "rax", "memory", "cc");
  if (sigsetjmp(back, 1) == 0) *(volatile char*)16 = 1;
  volatile int zero = 0;
  if (sigsetjmp(back, 1) == 0) value += 5 / zero;
  if (sigsetjmp(back, 1) == 0) __asm__ volatile("ud2");
  // A fault in the middle of a string instruction.
  if (sigsetjmp(back, 1) == 0) {
    void *d = a + 500, *s = (void*)16;
    long c = 3;
    __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(c) : : "memory");
  }
  return value + signals;
}

static int ends[2];
static void on_alarm(int number) {
  signals += number;
  if (write(ends[1], "x", 1) != 1) signals = -1;
}

static long interrupted(void) {
  struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  struct itimerval soon = {.it_value = {.tv_usec = 50000}};
  char c = 0;
  if (pipe(ends) != 0) return -1;
  sigaction(SIGALRM, &act, NULL);
  setitimer(ITIMER_REAL, &soon, NULL);
  return read(ends[0], &c, 1) + c;
}

static long changing(void) {
  unsigned char* code =
      mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  long sum = 0;
  for (int i = 0; i < 6; ++i) {  // eax = 3 i, and one more for every second i
    unsigned char add[] = {0xb8, (unsigned char)(i * 3), 0, 0, 0, 0xff, 0xc0, 0xc3};
    if (i % 2) add[5] = 0xc3;  // without the increment
    memcpy(code + 64, add, sizeof(add));
    for (int k = 0; k < 3; ++k) sum += ((int (*)(void))(code + 64))();
  }
  munmap(code, 8192);
  return sum;
}

int main(void) {
  long sum = 0;
  memset(a, 'q', sizeof(a));
  for (long n = 0; n < 70; n += n < 4 ? 1 : 13) sum += strings(n) + loops(n) + atomics(n);
  sum += faults() + interrupted() + changing();
  jmp_buf again;
  volatile int times = 0;
  if (setjmp(again) < 3) longjmp(again, ++times);
  printf("%ld %ld\n", sum + times, (long)getppid() > 0);
  return 0;
}
