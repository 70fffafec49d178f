// SPDX-License-Identifier: MIT
// Long enough for many groups of small blocks: of `page_marks`, each on a page of its own, one is
// set at a time, and most of what comes after leaves it alone.
#include <stdint.h>
#include <stdio.h>

enum { kMarks = 32, kPage = 4096 / sizeof(uint64_t) };
volatile uint64_t page_marks[kMarks][kPage];
static uint64_t table[1 << 13];

int main(void) {
  uint64_t x = 88172645463325252;
  for (uint64_t mark = 0; mark < kMarks; ++mark) {
    page_marks[mark][mark] = mark + 1;
    for (int i = 0; i < 2000000; ++i) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      table[x % (1 << 13)] += x;
    }
  }
  printf("%d\n", (int)(table[5] & 1));
  return 0;
}
