// SPDX-License-Identifier: MIT
// malloc and its kin, in patterns that split, merge and reuse.
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  enum { kSlots = 48 };
  static char* slot[kSlots];
  static size_t size[kSlots];
  uint32_t seed = 99;
  size_t sum = 0;
  for (int i = 0; i < 70; ++i) {
    seed = seed * 1103515245 + 12345;
    const int s = (seed >> 16) % kSlots;
    const size_t n = (seed >> 8) % (i % 11 == 0 ? 20000 : i % 3 == 0 ? 900 : 120);
    switch ((seed >> 24) % 6) {
      case 0:
        free(slot[s]);
        slot[s] = NULL;
        break;
      case 1:
      case 2:
        if (n) slot[s] = realloc(slot[s], n), size[s] = n;
        break;
      case 3:
        free(slot[s]);
        slot[s] = calloc(1, n), size[s] = n;
        break;
      case 4:
        free(slot[s]);
        slot[s] = aligned_alloc(64, n), size[s] = n;
        break;
      default:
        free(slot[s]);
        slot[s] = malloc(n), size[s] = n;
        break;
    }
    if (slot[s] && size[s]) {
      slot[s][0] = slot[s][size[s] - 1] = (char)i;
      sum += malloc_usable_size(slot[s]);
    }
  }
  char* big = malloc(300000);  // a mapping of its own
  big[299999] = 1;
  big = realloc(big, 500000);
  sum += (size_t)big[299999];
  free(big);
  for (int i = 0; i < kSlots; ++i) free(slot[i]);
  malloc_trim(0);
  printf("%zu\n", sum);
  return 0;
}
