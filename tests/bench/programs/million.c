// SPDX-License-Identifier: MIT
//
// A million writes to one variable: a question with a million rows.

volatile long counter;

int main(void) {
  for (long i = 0; i < 1000000; i++) counter = i;
  return 0;
}
