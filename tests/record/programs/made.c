// SPDX-License-Identifier: MIT
// Several threads at a time: which of them runs first is for nobody to say; which was made first
// is.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static long sum;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void* work(void* which) {
  pthread_mutex_lock(&lock);
  sum += (long)which;
  pthread_mutex_unlock(&lock);
  return 0;
}

static void round_of(long first) {
  pthread_t threads[8];
  for (long i = 0; i < 8; ++i) pthread_create(&threads[i], 0, work, (void*)(first + i));
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], 0);
}

int main(void) {
  for (long round = 0; round < 3; ++round) round_of(2 + 8 * round);
  // In a child the thread that forked is the first.
  if (fork() == 0) {
    round_of(2);
    _exit(0);
  }
  wait(0);
  return 0;
}
