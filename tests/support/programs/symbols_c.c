// SPDX-License-Identifier: MIT
// Functions whose names and lines tests/unit/symbols_test.cc asks for: inlined twice, nested
// inlining, a cold part, static and global variables, a call through the PLT. Tests name lines by
// their text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int global_count = 3;
static int table[16];
static volatile int sink;

static inline int Square(int x) {
  sink = x;  // line: square
  return x * x;
}

static inline int SumOfSquares(int a, int b) {
  int first = Square(a);
  int second = Square(b);  // line: second square
  return first + second;
}

__attribute__((noinline)) static int Work(int n) {
  static int calls;
  ++calls;
  for (int i = 0; i < 16; ++i) table[i] += SumOfSquares(i, n);  // line: loop
  return table[n & 15] + calls;
}

__attribute__((noinline, cold)) static void Complain(int n) {
  fprintf(stderr, "negative: %d\n", n);
  global_count = -1;
}

__attribute__((noinline)) int Risky(int n) {
  if (__builtin_expect(n < 0, 0)) {
    Complain(n);
    n = global_count;
    if (n > 7) abort();
  }
  return Work(n) + global_count;
}

int main(int argc, char** argv) {
  int total = 0;
  for (int i = 0; i < argc; ++i) total += (int)strlen(argv[i]);
  printf("%d\n", Risky(total));
  return 0;
}
