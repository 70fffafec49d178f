// SPDX-License-Identifier: MIT
// Dies, or waits, with two threads: one in a recursion of which each level has its variables, one
// at a lock. `wait`: says "ready" and stays; `abort`: calls abort; else reads through a null
// pointer.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Node {
  struct Node* next;
  int value;
  const char* name;
};
__thread int tls_value = 5;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
double ratio = 2.5;
static volatile int started;

static int depth(struct Node* n, int k) {
  volatile int here = k * 3;
  if (k == 0) return n->next->value + here;
  return depth(n, k - 1) + here;
}

static void* waiter(void* arg) {
  tls_value = 77;
  started = 1;
  pthread_mutex_lock(&lock);
  return arg;
}

int main(int argc, char** argv) {
  char text[32] = "hello from main";
  struct Node* n = malloc(sizeof *n);
  n->next = NULL;
  n->value = 42;
  n->name = "first";
  pthread_mutex_lock(&lock);
  pthread_t t;
  pthread_create(&t, NULL, waiter, n);
  while (!started) usleep(1000);
  usleep(100000);
  if (argc > 1 && !strcmp(argv[1], "wait")) {
    puts("ready");
    fflush(stdout);
    pause();
  }
  if (argc > 1 && !strcmp(argv[1], "abort")) abort();
  return depth(n, 3) + text[0];
}
