// SPDX-License-Identifier: MIT
//
// queue [N]: two threads hand N numbers to two others through a bounded queue, and these sum up.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRoom = 64, kThreads = 2 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static unsigned long items[kRoom], head, tail, count;

static void* put(void* from) {
  for (unsigned long i = 0; i < count; ++i) {
    unsigned long value = (unsigned long)from;
    for (int k = 0; k < 200; ++k) value = value * 6364136223846793005u + i;
    pthread_mutex_lock(&lock);
    while (head - tail == kRoom) pthread_cond_wait(&not_full, &lock);
    items[head++ % kRoom] = value;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

static void* take(void* sum) {
  for (unsigned long i = 0; i < count; ++i) {
    pthread_mutex_lock(&lock);
    while (head == tail) pthread_cond_wait(&not_empty, &lock);
    *(unsigned long*)sum += items[tail++ % kRoom];
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[2 * kThreads];
  unsigned long sums[kThreads] = {0};
  count = argc > 1 ? strtoul(argv[1], NULL, 0) : 200000;
  for (unsigned long i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], NULL, put, (void*)(i + 1));
    pthread_create(&threads[kThreads + i], NULL, take, &sums[i]);
  }
  for (int i = 0; i < 2 * kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%lu\n", sums[0] + sums[1]);
}
