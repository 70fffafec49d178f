// SPDX-License-Identifier: MIT
//
// Recursion, mutual tail calls, calls through pointers and the linkage table, inlined functions,
// and functions left by longjmp.

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf out;
static volatile int seen;

__attribute__((noinline)) void mark(int n) { seen += n; }
static inline __attribute__((always_inline)) int inlined(int n) {
  mark(n);
  return n + 1;
}
static inline __attribute__((always_inline)) int twice(int n) { return inlined(n) + inlined(n); }

__attribute__((noinline)) int factorial(int n) {
  mark(0);
  return n < 2 ? 1 : n * factorial(n - 1);
}

int odd(int n);
__attribute__((noinline)) int even(int n) {
  if (n == 0) {
    mark(1);
    return 1;
  }
  return odd(n - 1);
}
__attribute__((noinline)) int odd(int n) { return n == 0 ? 0 : even(n - 1); }

__attribute__((noinline)) void jump(int n) {
  mark(n);
  if (n > 2) longjmp(out, n);
  jump(n + 1);
}

static int order(const void* a, const void* b) {
  mark(2);
  return *(const int*)a - *(const int*)b;
}

int main(void) {
  int numbers[] = {3, 1, 2, 5, 4}, total = 0;
  int (*volatile through)(int) = factorial;
  total += factorial(6) + through(3);
  total += even(10) + odd(7);
  qsort(numbers, 5, sizeof(int), order);
  for (int i = 0; i < 2; ++i) {
    if (setjmp(out) == 0) jump(0);
  }
  total += twice(total);
  printf("%d %d %d\n", total, numbers[0], seen);
  puts("done");
  return 0;
}
