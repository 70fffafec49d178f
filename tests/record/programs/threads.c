// SPDX-License-Identifier: MIT
//
// Hundreds of threads that wait in system calls, come and go, and die holding a robust lock.

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 300 };

static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER, g_robust;
static pthread_cond_t g_all = PTHREAD_COND_INITIALIZER;
static int g_ready, g_pipe[2];
static atomic_long g_sum;
static __thread char g_own[5000];

static void* Wait(void* argument) {
  char got[64] = {0};
  memset(g_own, (int)(long)argument, sizeof(g_own));
  pthread_mutex_lock(&g_lock);
  if (++g_ready == kThreads) pthread_cond_signal(&g_all);
  pthread_mutex_unlock(&g_lock);
  if (read(g_pipe[0], got, 8) != 8) abort();  // the kernel writes it while others run
  long n = atol(got);
  for (int i = 0; i < 100; ++i) atomic_fetch_add(&g_sum, n);
  return (void*)n;
}

static void* Briefly(void* argument) { return (char*)argument + g_own[3]; }

static void* DieHoldingIt(void* argument) {
  pthread_mutex_lock(&g_robust);
  return argument;
}

int main(void) {
  static pthread_t t[kThreads];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  if (pipe(g_pipe)) return 1;
  for (long i = 0; i < kThreads; ++i) {
    if (pthread_create(&t[i], &small, Wait, (void*)i)) return 2;
  }
  pthread_mutex_lock(&g_lock);
  while (g_ready < kThreads) pthread_cond_wait(&g_all, &g_lock);
  pthread_mutex_unlock(&g_lock);
  // A child forked while all of them wait.
  if (fork() == 0) {
    g_sum = 0;
    _exit(g_ready == kThreads ? 0 : 1);
  }
  int status;
  wait(&status);
  for (int i = 0; i < kThreads; ++i) {
    char text[9];
    snprintf(text, sizeof(text), "%08d", i);
    if (write(g_pipe[1], text, 8) != 8) return 3;
    for (volatile int spin = 0; spin < 2000; ++spin) {
    }
  }
  long returned = 0;
  for (int i = 0; i < kThreads; ++i) {
    void* value;
    pthread_join(t[i], &value);
    returned += (long)value;
  }
  printf("%d %ld %ld\n", status, returned, g_sum);

  for (int i = 0; i < 200; ++i) {  // the same stack and tid again and again
    pthread_t one;
    void* value;
    pthread_create(&one, NULL, Briefly, &g_sum);
    pthread_join(one, &value);
    if (value != &g_sum) return 4;
  }
  pthread_mutexattr_t robust;
  pthread_mutexattr_init(&robust);
  pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&g_robust, &robust);
  for (int i = 0; i < 5; ++i) {
    pthread_t one;
    pthread_create(&one, NULL, DieHoldingIt, NULL);
    pthread_join(one, NULL);
    int result = pthread_mutex_lock(&g_robust);
    printf("owner died %d\n", result == EOWNERDEAD);
    pthread_mutex_consistent(&g_robust);
    pthread_mutex_unlock(&g_robust);
  }
  // Threads left alone at the end, some in a system call, some running.
  for (long i = 0; i < 5; ++i) pthread_create(&t[i], &small, Wait, (void*)i);
  usleep(1000);
  return 7;
}
