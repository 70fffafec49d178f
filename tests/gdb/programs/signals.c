/* SPDX-License-Identifier: MIT */
/* Raises signals that have handlers, one of them by a fault, and says so. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile int handled, last;
int* volatile nowhere;
sigjmp_buf back;

void on_usr1(int number) {
  last = number;
  ++handled;
}

void on_term(int number) {
  last = number;
  ++handled;
}

void on_fault(int number) {
  last = number;
  ++handled;
  siglongjmp(back, 1);
}

void send(int number) {
  kill(getpid(), number);
  last = 0;
}

int main(void) {
  signal(SIGUSR1, on_usr1);
  signal(SIGTERM, on_term);
  signal(SIGSEGV, on_fault);
  send(SIGUSR1);
  send(SIGTERM);
  if (sigsetjmp(back, 1) == 0) {
    *nowhere = 1;
  }
  printf("%d\n", handled);
  abort();
}
