// SPDX-License-Identifier: MIT
// Counts what a snapshot could do to it: signals it did not expect, system calls that ended early
// or oddly, children it did not make. Until its standard input ends; then it says what it counted.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int over, odd, signals;
static char* memory;

static void on_signal(int number) {
  (void)number;
  ++signals;
}
static void expect(int right) {
  if (!right) ++odd;
}
static void* sleeps(void* unused) {
  while (!over) {
    struct timespec t = {0, 20000000};
    expect(nanosleep(&t, NULL) == 0);
  }
  return unused;
}
static void* polls(void* unused) {
  int epoll = epoll_create1(0);
  struct epoll_event event;
  while (!over) {
    expect(poll(NULL, 0, 20) == 0);
    expect(epoll_wait(epoll, &event, 1, 20) == 0);
  }
  return unused;
}
static void* computes(void* unused) {
  unsigned long sum = 0;
  while (!over) {
    unsigned long before = sum;
    for (int i = 0; i < 100000; ++i) sum += (unsigned long)i;
    expect(sum - before == 4999950000ul);
    usleep(1000);
  }
  return unused;
}
static void* waits_for_semaphore(void* semaphore) {
  expect(sem_wait(semaphore) == 0);
  return NULL;
}

int main(void) {
  for (int s = 1; s < 32; ++s) {
    if (s != SIGKILL && s != SIGSTOP) signal(s, on_signal);
  }
  memory = malloc(8 << 20);
  memset(memory, 'x', 8 << 20);
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  pthread_t threads[4];
  void* (*run[])(void*) = {sleeps, polls, computes, waits_for_semaphore};
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, run[i], &semaphore);
  puts("ready");
  fflush(stdout);
  char c;
  ssize_t n = read(0, &c, 1);
  expect(n == 0);
  over = 1;
  sem_post(&semaphore);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  expect(waitpid(-1, NULL, __WALL | WNOHANG) == -1 && errno == ECHILD);
  printf("odd %d signals %d\n", odd, signals);
  return 0;
}
