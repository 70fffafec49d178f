// SPDX-License-Identifier: MIT
//
// The hardest program for a recorder: random data, little else. Sorts two million integers, then
// reads them many times.

#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  int x = *(const int*)a, y = *(const int*)b;
  return (x > y) - (x < y);
}

int main(void) {
  enum { kCount = 2000000, kRounds = 20 };
  int* numbers = malloc(kCount * sizeof(int));
  unsigned state = 1;
  for (int i = 0; i < kCount; i++) {
    state = state * 1103515245 + 12345;
    numbers[i] = (int)(state >> 1);
  }
  qsort(numbers, kCount, sizeof(int), compare);
  unsigned hash = 0;
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < kCount; i++) hash = hash * 31 + (unsigned)numbers[i];
  }
  printf("%u\n", hash);
  free(numbers);
  return 0;
}
