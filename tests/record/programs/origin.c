// SPDX-License-Identifier: MIT
//
// Values that travel: through registers, the stack, a struct by value, memcpy, a heap block. Each
// is left in a global whose origin the test asks for. Built with -O2: what a debugger calls
// "optimized out" is what this is about.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

// As in numpy: a pair of objects, passed by value in two registers, kept on the stack over a call
// that scribbles over it.
struct full_args {
  long in;
  long out;
};

long constant_result, computed_result, input_result, copied_result, file_result = 0x1234;
long clobbered_result, argument_result, conditional_result;
void* allocated_result;
char small_copy[16], copied_text[200];

NOINLINE void set_constant(void) { constant_result = 77; }

NOINLINE long multiply(long a, long b) { return a * b; }

// Given the wrong length: clears one word more than the buffer has.
NOINLINE void clear(long* words, int n) {
  for (int i = 0; i < n; ++i) words[i] = 0;
}

NOINLINE void callee(struct full_args args, long tag) {
  clobbered_result = args.in + 0;
  argument_result = args.out;
  if (tag == 0) abort();
}

NOINLINE void caller(struct full_args args, int words) {
  struct {
    long scratch[4];
    struct full_args kept;
  } frame;
  frame.kept = args;
  clear(frame.scratch, words);
  __asm__ volatile("" : : "r"(&frame) : "memory");
  callee(frame.kept, words);
}

NOINLINE long choose(long a, long b, long which) { return which ? a : b; }

NOINLINE void copy_text(char* to, const char* from, size_t n) { memcpy(to, from, n); }

int main(void) {
  set_constant();
  computed_result = multiply(constant_result, 3);
  char buffer[32] = {0};
  int fds[2];
  if (pipe(fds) != 0 || write(fds[1], "ABCDEFGHIJKLMNOP", 16) != 16) return 1;
  if (read(fds[0], buffer, 16) != 16) return 1;
  memcpy(&input_result, buffer + 8, 8);
  memcpy(small_copy, buffer, 16);
  char* block = malloc(200);
  memset(block, 'x', 200);
  allocated_result = block;
  long* inside = (long*)(block + 160);
  *inside = constant_result;
  copy_text(copied_text, block, 200);
  memcpy(&copied_result, copied_text + 160, 8);
  conditional_result = choose(input_result, constant_result, getpid() > 0);
  caller((struct full_args){input_result, constant_result}, 5);
  printf("%ld %ld %ld %p %ld\n", computed_result, clobbered_result, argument_result,
         allocated_result, file_result);
  return 0;
}
