// SPDX-License-Identifier: MIT
//
// A struct is passed by value, and by the time the callee looks at it a part is zero. Optimised, so
// that a debugger shows little of what was in between.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
  long in, out, count;
};

__attribute__((noinline)) static void drop_unused(struct arguments* args, int outputs) {
  // Meant to clear `out` of a call without outputs; it clears one field too many.
  if (outputs == 0) memset(args, 0, 2 * sizeof(long));
}

__attribute__((noinline)) static long execute(struct arguments full_args) {
  if (full_args.in == 0) abort();
  return full_args.in + full_args.out * full_args.count;
}

__attribute__((noinline)) static long call(long in, int outputs) {
  struct arguments full_args = {in, outputs, 3};
  drop_unused(&full_args, outputs);
  return execute(full_args);
}

int main(void) {
  long sum = 0;
  for (int i = 1; i < 1000; i++) sum += call(i, i % 997);
  printf("%ld\n", sum);
  return 0;
}
