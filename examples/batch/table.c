// SPDX-License-Identifier: MIT
//
// table N: fills the first N entries of a table that has room for eight. Nine is one too many, and
// nothing fails.
#include <stdio.h>
#include <stdlib.h>

static struct {
  int entries[8];
  int neighbour;
} table = {.neighbour = 1};

static void fill(int count) {
  for (int i = 0; i < count; ++i) table.entries[i] = i * i;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 4;
  fill(count);
  printf("%d entries\n", count);
  return 0;
}
