// SPDX-License-Identifier: MIT
//
// sort_hash [COUNT]. The hardest program for a recorder: random data, little else. Sorts integers,
// two million if nothing is said, then reads them many times.

#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  int x = *(const int*)a, y = *(const int*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  enum { kRounds = 20 };
  const int count = argc > 1 ? atoi(argv[1]) : 2000000;
  int* numbers = malloc((size_t)count * sizeof(int));
  unsigned state = 1;
  for (int i = 0; i < count; i++) {
    state = state * 1103515245 + 12345;
    numbers[i] = (int)(state >> 1);
  }
  qsort(numbers, (size_t)count, sizeof(int), compare);
  unsigned hash = 0;
  for (int round = 0; round < kRounds; round++) {
    for (int i = 0; i < count; i++) hash = hash * 31 + (unsigned)numbers[i];
  }
  printf("%u\n", hash);
  free(numbers);
  return 0;
}
