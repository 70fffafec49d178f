// SPDX-License-Identifier: MIT
//
// The program that the examples of docs/query-language.md are asked about; tests/docs runs them
// all.
//
// What it shows: a stack of four numbers whose `counter` is overwritten by a function that has no
// business with it. The crash comes later, in `push`, which is innocent:
//
//     ttq record build/examples/tour/tour
//     ttq "last write to counter before crash"
#include <mark.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

enum { kItems = 4 };

int items[kItems];
int counter;
int* backup;  // never given back

NOINLINE void push(int value) {
  items[counter] = value;
  counter++;
}

NOINLINE int pop(void) {
  counter--;
  return items[counter];
}

// Meant to clear an item; is given the wrong address.
NOINLINE void corrupt(int* place) { *place = 0x10000000; }

int main(void) {
  backup = malloc(sizeof items);
  push(3);
  push(1);
  push(4);
  push(pop() + 1);
  corrupt(&counter), TTQ_MARK("corrupted");
  push(9);  // 1 GiB behind `items`: SIGSEGV
  return 0;
}
