// SPDX-License-Identifier: MIT
//
// What the recordings that damage is done to were recorded of: a list in the heap, a second thread,
// output, and a crash at a pointer that is a number.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
  struct node* next;
  int value;
  char name[16];
};

struct node* head;
long total;
double mean;

__attribute__((noinline)) static struct node* add(struct node* to, int value) {
  struct node* node = malloc(sizeof *node);
  node->next = to;
  node->value = value;
  snprintf(node->name, sizeof node->name, "node %d", value);
  total += value;
  return node;
}

__attribute__((noinline)) static int sum(const struct node* node) {
  int all = 0;
  for (; node != NULL; node = node->next) all += node->value;
  return all;
}

static void* fill(void* count) {
  for (int i = 0; i < *(int*)count; ++i) {
    head = add(head, i);
    if (i % 7 != 6) continue;
    struct node* last = head;
    head = head->next;
    memset(last, 0x55, 8);
    free(last);
  }
  return NULL;
}

int main(void) {
  int count = 200;
  pthread_t thread;
  pthread_create(&thread, NULL, fill, &count);
  pthread_join(thread, NULL);
  mean = (double)sum(head) / count;
  printf("%ld %f\n", total, mean);
  fflush(stdout);
  const double temperature = 19.0;
  memcpy(&head->next->next, &temperature, sizeof temperature);
  return sum(head);
}
