// SPDX-License-Identifier: MIT
//
// counter FILE [N]: counts, in memory, until FILE is there or N is reached; says how far and exits
// with 7. That `counter` grows by one at a time is what the tests of faults rely on. It ends by
// itself after five minutes: where the recorder was killed nobody else ends it when the test is
// killed too.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile unsigned long counter;
static unsigned long table[4096];

int main(int argc, char** argv) {
  unsigned long most = argc > 2 ? strtoul(argv[2], NULL, 0) : ~0ul;
  if (argc < 2) return 2;
  alarm(300);
  while (counter < most) {
    counter = counter + 1;
    table[counter * 2654435761u % 4096] ^= counter;
    if (counter % (1 << 16) == 0 && access(argv[1], F_OK) == 0) break;
  }
  printf("%lu\n", counter);
  return 7;
}
