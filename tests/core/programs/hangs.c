// SPDX-License-Identifier: MIT
// Hangs in the way that its argument names, after it has said "ready".
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

pthread_mutex_t lock_a = PTHREAD_MUTEX_INITIALIZER, lock_b = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t never = PTHREAD_COND_INITIALIZER;
sem_t empty;
static pthread_barrier_t both;
static pthread_t first, second;
static int to_first[2], to_second[2];

static void settle(void) { usleep(200000); }

static void* a_then_b(void* unused) {
  pthread_mutex_lock(&lock_a);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&lock_b);
  return unused;
}
static void* b_then_a(void* unused) {
  pthread_mutex_lock(&lock_b);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(&lock_a);
  return unused;
}
static void* join_second(void* unused) {
  pthread_barrier_wait(&both);
  pthread_join(second, NULL);
  return unused;
}
static void* join_first(void* unused) {
  pthread_barrier_wait(&both);
  pthread_join(first, NULL);
  return unused;
}
static void* lost_wakeup(void* unused) {
  pthread_mutex_lock(&lock_a);
  pthread_cond_wait(&never, &lock_a);
  return unused;
}
static void* sem_taker(void* unused) {
  sem_wait(&empty);
  return unused;
}
static void fill(int fd) {
  static char bytes[1 << 17];
  if (write(fd, bytes, sizeof bytes) < 0) _exit(3);
}
static void* fills_second(void* unused) {
  fill(to_second[1]);
  return unused;
}
static void* fills_first(void* unused) {
  fill(to_first[1]);
  return unused;
}
static void* holds_for_ever(void* unused) {
  pthread_mutex_lock(&lock_a);
  pthread_barrier_wait(&both);
  pause();
  return unused;
}

static void two(void* (*one)(void*), void* (*other)(void*)) {
  pthread_barrier_init(&both, NULL, 2);
  pthread_create(&first, NULL, one, NULL);
  pthread_create(&second, NULL, other, NULL);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  if (argc > 2) alarm((unsigned)atoi(argv[2]));
  if (!strcmp(how, "order")) two(a_then_b, b_then_a);
  if (!strcmp(how, "join")) two(join_second, join_first);
  if (!strcmp(how, "condition")) pthread_create(&first, NULL, lost_wakeup, NULL);
  if (!strcmp(how, "semaphore")) {
    sem_init(&empty, 0, 0);
    pthread_create(&first, NULL, sem_taker, NULL);
  }
  if (!strcmp(how, "pipes")) {
    if (pipe(to_first) != 0 || pipe(to_second) != 0) return 3;
    two(fills_second, fills_first);
  }
  if (!strcmp(how, "fork")) {
    // Whoever holds the lock is not in the child.
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&first, NULL, holds_for_ever, NULL);
    pthread_barrier_wait(&both);
    pid_t child = fork();
    if (child == 0) {
      if (argc > 2) alarm((unsigned)atoi(argv[2]));
      pthread_mutex_lock(&lock_a);
    }
    printf("child %d\n", child);
    fflush(stdout);
    waitpid(child, NULL, 0);
    return 0;
  }
  settle();
  puts("ready");
  fflush(stdout);
  if (!strcmp(how, "self")) {
    pthread_mutex_lock(&lock_a);
    pthread_mutex_lock(&lock_a);
  }
  for (;;) pause();
}
