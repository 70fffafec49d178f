/* SPDX-License-Identifier: MIT */
/* Two threads that add to a counter, one thread-local variable each, and a crash. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

long counter;
__thread int mine = 5;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
char buffer[300];
struct node {
  struct node* next;
  int value;
} first, second;

void* work(void* argument) {
  long amount = (long)argument;
  mine = (int)amount;
  for (int i = 0; i < 50; ++i) {
    pthread_mutex_lock(&lock);
    counter += amount;
    pthread_mutex_unlock(&lock);
  }
  return &mine;
}

int crash(struct node* node) { return node->next->value; }

int main(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], 0, work, (void*)(i + 1));
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
  first.next = &second;
  memset(buffer, 'x', sizeof buffer);
  printf("%ld\n", counter);
  fflush(stdout);
  second.value = crash(&first);
  first.next = 0;
  return crash(&first);
}
