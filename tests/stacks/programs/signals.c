// SPDX-License-Identifier: MIT
//
// Handlers on the usual stack and on an alternate one, a fault that a handler leaves by siglongjmp,
// and a handler interrupted by another.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static sigjmp_buf out;
static volatile int seen;

__attribute__((noinline)) void inside(int n) { seen += n; }

static void plain(int n) {
  inside(n);
  raise(SIGUSR2);
}

static void alternate(int n, siginfo_t* info, void* context) {
  inside(n + (info != 0) + (context != 0));
}

static void fault(int n) {
  inside(n);
  siglongjmp(out, 1);
}

__attribute__((noinline)) int touch(volatile int* p) { return *p + 1; }

__attribute__((noinline)) void work(int depth) {
  if (depth > 0) {
    work(depth - 1);
    inside(0);
    return;
  }
  raise(SIGUSR1);
  if (sigsetjmp(out, 1) == 0) touch((volatile int*)8);
}

int main(void) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&stack, 0);
  struct sigaction a = {.sa_handler = plain};
  sigaction(SIGUSR1, &a, 0);
  a = (struct sigaction){.sa_sigaction = alternate, .sa_flags = SA_ONSTACK | SA_SIGINFO};
  sigaction(SIGUSR2, &a, 0);
  a = (struct sigaction){.sa_handler = fault, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &a, 0);
  work(3);
  printf("%d\n", seen);
  return 0;
}
