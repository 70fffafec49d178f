// SPDX-License-Identifier: MIT
//
// Does again and again what takes several records of the log and changes registers on the way, so
// that blocks end between any two of them: a segment register's base, a signal that comes while the
// direction flag is set, instructions such as rdtsc, threads that begin and end.

#include <asm/prctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long call(long number, long a, long b) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
  return result;
}

static void bases(void) {
  for (unsigned long k = 1; k <= 8000; ++k) {
    unsigned long base = 0;
    if (call(SYS_arch_prctl, ARCH_SET_GS, (long)(k << 12)) != 0) abort();
    call(SYS_arch_prctl, ARCH_GET_GS, (long)&base);
    if (base != k << 12) abort();
  }
  call(SYS_arch_prctl, ARCH_SET_GS, 0);
}

static volatile unsigned long handled;

static void handle(int number) {
  unsigned long flags;
  __asm__ volatile("pushfq\n\tpop %0" : "=r"(flags));
  if (flags & 0x400) _exit(3);
  handled += (unsigned long)number;
}

static void signals(void) {
  signal(SIGUSR1, handle);
  const long pid = getpid();
  for (unsigned k = 0; k < 3000; ++k) {
    unsigned long flags;
    long result = SYS_kill;
    __asm__ volatile("std\n\tsyscall\n\tpushfq\n\tpop %0\n\tcld"
                     : "=r"(flags), "+a"(result)
                     : "D"(pid), "S"((long)SIGUSR1)
                     : "rcx", "r11", "memory");
    if (result != 0 || !(flags & 0x400)) abort();
  }
}

static unsigned long stamps(void) {
  unsigned long sum = 0;
  for (unsigned k = 0; k < 20000; ++k) sum |= __builtin_ia32_rdtsc();
  return sum;
}

static void* nothing(void* word) {
  ++*(unsigned long*)word;
  return NULL;
}

static unsigned long threads(void) {
  unsigned long begun = 0;
  for (unsigned k = 0; k < 2000; ++k) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, &begun) != 0) abort();
    pthread_join(thread, NULL);
  }
  return begun;
}

int main(void) {
  bases();
  signals();
  if (stamps() == 0) abort();
  printf("%lu %lu\n", handled, threads());
  return 0;
}
