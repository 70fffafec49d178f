// SPDX-License-Identifier: MIT
//
// Two builds of docs/diff.md differ in LIMIT.
#include <stdio.h>
#include <unistd.h>

#ifndef LIMIT
#define LIMIT 10
#endif

static void emit(long value) {
  char text[32];
  int length = snprintf(text, sizeof text, "%ld\n", value);
  if (write(1, text, length) != length) _exit(1);
}

int main(void) {
  int limit = LIMIT;
  long sum = 0;
  for (int i = 0; i < limit; ++i) sum += i;
  emit(sum);
  return 0;
}
