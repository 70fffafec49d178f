// SPDX-License-Identifier: MIT
//
// Signals: on an alternate stack, nested, restarting a system call, left by longjmp, and handlers
// that repair what faulted.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int depth, deepest, alarms, fixed, on_alternate;
static volatile char* g_page;
static char alternate[65536];
static sigjmp_buf g_back;

static void On(int number, void (*f)(int, siginfo_t*, void*), int flags) {
  struct sigaction a = {0};
  a.sa_sigaction = f;
  a.sa_flags = SA_SIGINFO | flags;
  if (sigaction(number, &a, NULL)) exit(1);
}

static void Nested(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  if (++depth > deepest) deepest = depth;
  char here;
  on_alternate += &here > alternate && &here < alternate + sizeof(alternate);
  if (number == SIGUSR1) raise(SIGUSR2);
  --depth;
}

static void Alarm(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  ++alarms;
}

static void Repair(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  ++fixed;
  mprotect((void*)((unsigned long)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

static void Skip(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ++fixed;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

static void Leave(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  siglongjmp(g_back, number);
}

int main(void) {
  stack_t s = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
  sigaltstack(&s, NULL);
  On(SIGUSR1, Nested, SA_ONSTACK);
  On(SIGUSR2, Nested, SA_ONSTACK);
  for (int i = 0; i < 50; ++i) raise(SIGUSR1);
  printf("nested %d, on the alternate stack %d\n", deepest, on_alternate);

  // A storm, while a pipe is read from and system calls are restarted.
  On(SIGALRM, Alarm, SA_RESTART);
  int p[2];
  if (pipe(p)) return 1;
  struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  pid_t child = fork();
  if (child == 0) {
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 5; ++i) {
      usleep(10000);
      if (write(p[1], "x", 1) != 1) _exit(1);
    }
    _exit(0);
  }
  char c;
  for (int i = 0; i < 5; ++i) {
    if (read(p[0], &c, 1) != 1) return 1;
  }
  waitpid(child, NULL, 0);
  while (alarms < 50) {
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("storm over\n");

  // Pages that become writable when they are touched, from loops that VEX unrolls, from repeated
  // string instructions and from read-modify-write ones.
  enum { kPages = 64 };
  char* m = mmap(NULL, kPages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  On(SIGSEGV, Repair, SA_ONSTACK);
  char* at = m;
  long n = 20 * 4096;
  __asm__ volatile("1: movb $5, (%0); inc %0; dec %1; jnz 1b" : "+r"(at), "+r"(n)::"memory", "cc");
  n = 10 * 4096;
  __asm__ volatile("1: mov %1, (%0); add $8, %0; sub $8, %1; jnz 1b"
                   : "+r"(at), "+r"(n)::"memory", "cc");
  char* from = m;
  n = 10 * 4096;
  __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n)::"memory");
  for (int i = 40; i < kPages - 1; ++i) {
    long* w = (long*)(m + 4096 * i + 4092);  // across two pages
    __asm__ volatile("lock addq $3, %0" : "+m"(*w)::"cc");
    __asm__ volatile("movups %%xmm0, %0" : "=m"(*w));
  }
  printf("repaired %d\n", fixed);

  // A protection game with the same page over and over.
  for (int i = 0; i < 200; ++i) {
    mprotect(m + 4096, 4096, i & 1 ? PROT_NONE : PROT_READ);
    m[4096 + i] = (char)i;
  }
  printf("repaired %d\n", fixed);

  fixed = 0;
  On(SIGFPE, Skip, 0);
  On(SIGILL, Skip, 0);
  int high = 0;
  __asm__ volatile("xor %%ecx, %%ecx; .byte 0xf7, 0xf9" : "+d"(high)::"rax", "rcx", "cc");  // idiv
  __asm__ volatile("ud2");
  printf("skipped %d\n", fixed);

  char name[] = "/tmp/ttq-signals-XXXXXX";
  int fd = mkstemp(name);
  unlink(name);
  if (ftruncate(fd, 8192)) return 1;
  g_page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  g_page[4096] = 1;
  if (ftruncate(fd, 4096)) return 1;
  On(SIGBUS, Leave, SA_ONSTACK);
  On(SIGSEGV, Leave, SA_ONSTACK);
  int number = sigsetjmp(g_back, 1);
  if (number == 0) g_page[4097] = 2;
  printf("bus error %d\n", number == SIGBUS);
  for (volatile int i = 0; i < 20; ++i) {
    number = sigsetjmp(g_back, 1);
    if (number == 0) *(volatile int*)(8 * (unsigned long)i) = 1;
  }
  printf("null %d\n", number == SIGSEGV);

  // Blocked, pending, taken by hand.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  raise(SIGUSR1);
  siginfo_t info;
  printf("waited for %d\n", sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == getpid());
  return 0;
}
