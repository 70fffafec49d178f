// SPDX-License-Identifier: MIT
// Functions to step through: loops of all kinds, branches, recursion, calls in expressions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int steps_taken;

__attribute__((noinline)) int collatz(int n) {
  int count = 0;
  while (n != 1) {
    if (n % 2 == 0)
      n /= 2;
    else
      n = 3 * n + 1;
    count++;
  }
  steps_taken += count;
  return count;
}

__attribute__((noinline)) void sort(int* a, int n) {
  for (int i = 1; i < n; i++) {
    int key = a[i];
    int j = i - 1;
    for (; j >= 0 && a[j] > key; j--) a[j + 1] = a[j];
    a[j + 1] = key;
  }
}

__attribute__((noinline)) int count_words(const char* text) {
  int words = 0, inside = 0;
  for (const char* p = text; *p; p++) {
    switch (*p) {
      case ' ':
      case '\n':
        inside = 0;
        break;
      default:
        if (!inside) words++;
        inside = 1;
    }
  }
  return words;
}

struct item {
  int key;
  double weight;
  char name[16];
};

__attribute__((noinline)) double fill(struct item* items, int n) {
  double sum = 0;
  int i = 0;
  do {
    items[i].key = i * i;
    items[i].weight = i / 2.0;
    snprintf(items[i].name, sizeof items[i].name, "item %d", i);
    sum += items[i].weight;
  } while (++i < n);
  return sum;
}

__attribute__((noinline)) int recurse(int n) {
  if (n <= 1) return 1;
  int left = recurse(n - 1);
  return left + recurse(n - 2);
}

__attribute__((noinline)) const struct item* search(const struct item* items, int n, int key) {
  int low = 0, high = n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (items[middle].key == key) return &items[middle];
    if (items[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

int main(void) {
  int numbers[] = {5, 2, 9, 1, 7};
  struct item items[8];
  int total = collatz(27);
  sort(numbers, 5);
  total += count_words("one two  three\nfour");
  total += (int)fill(items, 8);
  total += recurse(6);
  const struct item* found = search(items, 8, 25);
  if (found)
    printf("%s %d\n", found->name, total);
  else
    puts("nothing");
  return numbers[0] != 1;
}
