// SPDX-License-Identifier: MIT
//
// Functions that end in a jump to another: directly, through a pointer, through the linkage table,
// one after the other and in turn. Each leaves its letter in `trail`, which is printed where the
// stack is asked for: so the program itself says which functions led there.

#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))

static char trail[64];
static int length;
static volatile int seen;
static int (*volatile through)(int);

static inline void leave(char letter) {
  trail[length++] = letter;
  trail[length] = 0;
}

NOINLINE void probe(void) { printf("%s\n", trail); }

NOINLINE int last(int n) {
  leave('l');
  probe();
  return n + seen;
}
NOINLINE int middle(int n) {
  leave('m');
  return last(n * 2);
}
NOINLINE int first(int n) {
  leave('f');
  return n > 100 ? n : middle(n + 1);
}
NOINLINE int pointed(int n) {
  leave('p');
  return through(n + 1);
}
NOINLINE int ping(int n);
NOINLINE int pong(int n) {
  leave('o');
  return n == 0 ? last(n) : ping(n - 1);
}
NOINLINE int ping(int n) {
  leave('i');
  return n == 0 ? last(n) : pong(n - 1);
}
NOINLINE int order(const void* a, const void* b) {
  probe();
  return *(const int*)a - *(const int*)b;
}
NOINLINE void sort(int* numbers, size_t n) {
  leave('s');
  qsort(numbers, n, sizeof *numbers, order);
}

NOINLINE void start(void) { length = 0; }

int main(void) {
  int total = 0, numbers[] = {2, 1};
  for (int i = 0; i < 3; ++i) {
    start(), total += first(i);
    start(), total += middle(i);
    start(), total += last(i);
    through = last;
    start(), total += pointed(i);
    through = first;
    start(), total += pointed(i);
    int (*volatile called)(int) = pointed;
    start(), total += called(i);
    called = middle;
    start(), total += called(i);
    called = last;
    start(), total += called(i);
    start(), total += ping(i);
    start(), total += pong(3);
    start(), sort(numbers, 2);
  }
  return total == 12345;
}
