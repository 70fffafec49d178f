// SPDX-License-Identifier: MIT
//
// What a handler is told of each kind of signal: by faults of every kind, by itself, by the kernel.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum { kMapped = 0x20000000 };  // where files are mapped
static sigjmp_buf g_after;

static void OnSignal(int number, siginfo_t* info, void* context) {
  const greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  printf(" %d: signal %d, code %d, errno %d", number, info->si_signo, info->si_code,
         info->si_errno);
  if (info->si_code > 0) {
    // Where code lies differs.
    if ((long)info->si_addr == registers[REG_RIP])
      printf(", at the instruction");
    else if ((unsigned long)info->si_addr < 4096 || ((long)info->si_addr & ~0xfffffL) == kMapped)
      printf(", address %p", info->si_addr);
  } else if (info->si_pid == getpid()) {
    printf(", by itself, value %d", info->si_code == SI_QUEUE ? info->si_value.sival_int : 0);
  }
  if (info->si_code > 0 && number != SIGALRM && number != SIGXFSZ) siglongjmp(g_after, 1);
}

// A mapping of two pages of a file of 100 bytes.
static volatile char* Map(const char* name, char* at, int protection, int flags) {
  int fd = open(name, O_RDWR);
  void* p = mmap(at, 8192, protection, flags | MAP_FIXED_NOREPLACE, fd, 0);
  close(fd);
  if (p == MAP_FAILED) exit(3);
  return p;
}

#define SHOW(name, ...)               \
  do {                                \
    printf("%s:", name);              \
    if (sigsetjmp(g_after, 1) == 0) { \
      __VA_ARGS__;                    \
    }                                 \
    printf("\n");                     \
  } while (0)
#define CALL(...) printf(" %ld (%d)", (long)(__VA_ARGS__), errno)

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  for (int i = 1; i < 64; ++i) {
    struct sigaction action = {.sa_sigaction = OnSignal, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(i, &action, NULL);
  }
  char name[60] = "/tmp/ttq-siginfo-XXXXXX";
  int fd = mkstemp(name), ends[2];
  if (ftruncate(fd, 100) != 0 || pipe(ends) != 0) return 2;
  close(fd);
  volatile char* p = Map(name, (char*)kMapped, PROT_READ | PROT_WRITE, MAP_SHARED);
  volatile char* code =
      Map(name, (char*)kMapped + 0x10000, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE);
  volatile int zero = 0, minus = -1, least = INT_MIN, result = 0;

  SHOW("read beyond a file", (void)p[4100]);
  SHOW("write beyond a file", p[4100] = 1);
  SHOW("write across its end", *(volatile long*)(p + 4092) = 1);
  SHOW("jump beyond a file", ((void (*)(void))(p + 4096))());
  SHOW("jump beyond a file of code", ((void (*)(void))(code + 4096))());
  memcpy((char*)code + 4090, "\x90\x90\x90\x90\x90\x48", 6);  // nop, and the start of another
  SHOW("run across its end", ((void (*)(void))(code + 4090))());
  SHOW("null", *(volatile char*)16 = 1);
  SHOW("what may not be written", *(volatile char*)"" = 1);
  SHOW("not canonical", *(volatile char*)0x8000000000000000 = 1);
  SHOW("jump to data", ((void (*)(void))p)());
  SHOW("divide by zero", result = 7 / zero);
  SHOW("divide too large", result = least / minus);
  SHOW("remainder", result = 1 % zero);
  printf("%d\n", result);
  SHOW("ud2", __asm__ volatile("ud2"));
  SHOW("int3", __asm__ volatile("int3"));
  SHOW("int 0x42", __asm__ volatile("int $0x42"));
  SHOW("hlt", __asm__ volatile("hlt"));
  SHOW("cli", __asm__ volatile("cli"));
  SHOW("in", __asm__ volatile("inb $5"));
  SHOW("mov to cr3", __asm__ volatile("mov %rax, %cr3"));
  SHOW("rdmsr", __asm__ volatile("rdmsr"));

  for (volatile int i = 1; i < 64; ++i) {
    if (i == SIGKILL || i == SIGSTOP || i == 32 || i == 33) continue;
    SHOW("kill", kill(getpid(), i));
    SHOW("raise", raise(i));
    SHOW("sigqueue", sigqueue(getpid(), i, (union sigval){.sival_int = i + 1000}));
    siginfo_t info = {.si_signo = i, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_value.sival_int = i + 2000;
    SHOW("tgsigqueue", syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), i, &info));
  }
  SHOW("pipe", int q[2]; CALL(pipe(q)); close(q[0]); CALL(write(q[1], "x", 1)); close(q[1]));
  sigset_t alarm_only, none;
  sigemptyset(&none);
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  sigprocmask(SIG_BLOCK, &alarm_only, NULL);
  SHOW("timer", struct itimerval soon = {{0, 0}, {0, 1000}}; setitimer(ITIMER_REAL, &soon, NULL);
       sigsuspend(&none));
  SHOW("file too large", struct rlimit most = {1 << 30, RLIM_INFINITY};
       setrlimit(RLIMIT_FSIZE, &most); int f = open(name, O_RDWR); CALL(ftruncate(f, 1L << 31));
       close(f));

  // The kernel says EFAULT of memory without contents.
  SHOW("read into it", int f = open("/proc/self/exe", O_RDONLY);
       CALL(read(f, (char*)p + 4096, 100)); CALL(read(f, (char*)p + 4090, 100)); close(f));
  SHOW("fstat into it", CALL(syscall(SYS_fstat, 0, p + 4096)));
  SHOW("clock into it", CALL(syscall(SYS_clock_gettime, 0, p + 4090)));
  SHOW("write from it", CALL(write(ends[1], (char*)p + 4096, 10)));
  SHOW("futex in it", CALL(syscall(SYS_futex, p + 4096, 1, 1, 0, 0, 0)));
  SHOW("readv into it", struct iovec v[2] = {{name + 50, 1}, {(char*)p + 4096, 10}};
       CALL(write(ends[1], "some bytes", 10)); CALL(readv(ends[0], v, 2)));
  SHOW("sigaction into it", CALL(syscall(SYS_rt_sigaction, SIGALRM, NULL, p + 4096, 8L)));
  SHOW("sigaction into code", CALL(syscall(SYS_rt_sigaction, SIGALRM, NULL, "", 8L)));
  SHOW("sigprocmask from it", CALL(syscall(SYS_rt_sigprocmask, SIG_BLOCK, p + 4096, NULL, 8L)));
  SHOW("sigaltstack into it", CALL(syscall(SYS_sigaltstack, NULL, p + 4096)));
  SHOW("prlimit into it", CALL(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, p + 4096)));
  SHOW("readv by it", CALL(readv(ends[0], (struct iovec*)(p + 4096), 2)));
  SHOW("writev by it", CALL(writev(ends[1], (struct iovec*)(p + 4096), 2)));
  SHOW("open it", CALL(open((char*)p + 4096, O_RDONLY)));
  SHOW("after all", CALL(write(ends[1], "some bytes", 10)));
  unlink(name);
  return 0;
}
