// SPDX-License-Identifier: MIT
//
// Three stacks of one thread that take turns, each some calls deep.

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

static ucontext_t home, context[2];
static volatile int seen;

__attribute__((noinline)) void step(int n) { seen += n; }

__attribute__((noinline)) void nest(int who, int depth) {
  if (depth == 0) {
    step(who);
    swapcontext(&context[who], &home);
    step(who + 10);
  } else {
    nest(who, depth - 1);
  }
  step(depth + 20);
}

static void body(int who) {
  nest(who, 3 + who);
  swapcontext(&context[who], &home);
  nest(who, 1);
}

int main(void) {
  for (int i = 0; i < 2; ++i) {
    getcontext(&context[i]);
    context[i].uc_stack.ss_sp = malloc(65536);
    context[i].uc_stack.ss_size = 65536;
    context[i].uc_link = &home;
    makecontext(&context[i], (void (*)(void))body, 1, i);
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 2; ++i) {
      swapcontext(&home, &context[i]);
      step(1000);
    }
  }
  printf("%d\n", seen);
  return 0;
}
