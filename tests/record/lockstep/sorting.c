// SPDX-License-Identifier: MIT
// qsort, bsearch, a heap, a hash table, lists and trees.
#define _GNU_SOURCE
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void* a, const void* b) {
  const int x = *(const int*)a, y = *(const int*)b;
  return x < y ? -1 : x > y;
}
static int by_text(const void* a, const void* b) {
  return strcmp(*(char* const*)a, *(char* const*)b);
}

struct node {
  struct node *left, *right;
  int key;
};
static struct node* add(struct node* t, int key) {
  if (!t) {
    t = calloc(1, sizeof(*t));
    t->key = key;
  } else if (key != t->key) {
    struct node** side = key < t->key ? &t->left : &t->right;
    *side = add(*side, key);
  }
  return t;
}
static int depth(const struct node* t) {
  if (!t) return 0;
  int l = depth(t->left), r = depth(t->right);
  return 1 + (l > r ? l : r);
}

static void sift(int* v, int i, int n) {
  for (int child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && v[child + 1] > v[child]) ++child;
    if (v[i] >= v[child]) break;
    int t = v[i];
    v[i] = v[child];
    v[child] = t;
  }
}

int main(void) {
  enum { kCount = 48 };
  static int v[kCount], w[kCount];
  uint32_t seed = 7;
  for (int i = 0; i < kCount; ++i) v[i] = w[i] = (int)((seed = seed * 69069 + 1) >> 20);
  qsort(v, kCount, sizeof(int), by_value);
  for (int i = kCount / 2; i-- > 0;) sift(w, i, kCount);
  for (int n = kCount; n-- > 1;) {
    int t = w[0];
    w[0] = w[n];
    w[n] = t;
    sift(w, 0, n);
  }
  long sum = memcmp(v, w, sizeof(v)) == 0;
  for (int k = 0; k < 2000; k += 201) sum += bsearch(&k, v, kCount, sizeof(int), by_value) != NULL;
  struct node* tree = NULL;
  for (int i = 0; i < 24; ++i) tree = add(tree, (int)((seed = seed * 69069 + 1) >> 24));
  sum += depth(tree);
  char names[20][8], *order[20];
  for (int i = 0; i < 20; ++i) {
    snprintf(order[i] = names[i], 8, "n%d", (i * 17) % 20);
  }
  qsort(order, 20, sizeof(*order), by_text);
  hcreate(100);
  for (int i = 0; i < 20; ++i) {
    ENTRY e = {names[i], NULL};
    hsearch(e, ENTER);
  }
  for (int i = 0; i < 20; ++i) {
    ENTRY e = {order[i], NULL};
    sum += hsearch(e, FIND) != NULL;
  }
  printf("%ld %s\n", sum, order[3]);
  return 0;
}
