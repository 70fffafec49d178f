// SPDX-License-Identifier: MIT
//
// family FILE [ROUNDS]: a family of processes, each made in another way, until FILE is there or
// ROUNDS are over; exits with 7. Each counts in `counter` by one at a time, a forked child from
// where its parent was, and calls `step` each time. What the tests rely on: in any process a write
// to `counter` adds one to what was there, and what a forked child begins with is what its parent
// had.

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
volatile unsigned long counter;
static volatile unsigned long table[4096];
static volatile unsigned long* fresh;  // memory that each round maps anew

__attribute__((noinline)) static void step(unsigned long n) {
  counter = counter + 1;
  table[n * 2654435761u % 4096] ^= n;
}

static void count(unsigned long n) {
  for (unsigned long i = 0; i < n; i++) step(i);
}

static void wait_for(pid_t child) {
  int status;
  if (child > 0) waitpid(child, &status, 0);
}

static pid_t start_again(char* self, const char* how) {
  char* words[] = {self, "leaf", NULL};
  pid_t child = -1;
  if (strcmp(how, "spawn") == 0) {
    if (posix_spawn(&child, self, NULL, NULL, words, environ) != 0) return -1;
    return child;
  }
  child = fork();
  if (child == 0) {
    count(100);
    execv(self, words);
    _exit(3);
  }
  return child;
}

// A child, its child and its child's, each of which outlives its making by some work.
static void descend(int depth) {
  pid_t child = fork();
  if (child != 0) {
    count(300);
    wait_for(child);
    return;
  }
  fresh = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh != MAP_FAILED) fresh[0] = counter;
  count(2000);
  if (depth > 1) descend(depth - 1);
  count(500);
  _exit(depth);
}

static void* fork_in_thread(void* unused) {
  (void)unused;
  pid_t child = fork();
  if (child == 0) {
    count(3000);
    _exit(4);
  }
  wait_for(child);
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "leaf") == 0) {
    count(4000);
    return 5;
  }
  unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : ~0ul;
  alarm(300);
  for (unsigned long round = 0; round < rounds && access(argv[1], F_OK) != 0; round++) {
    pthread_t thread;
    int threaded = pthread_create(&thread, NULL, fork_in_thread, NULL) == 0;
    descend(3);
    if (threaded) pthread_join(thread, NULL);
    pid_t executed = start_again(argv[0], "exec"), spawned = start_again(argv[0], "spawn");
    count(20000);
    wait_for(executed);
    wait_for(spawned);
  }
  return 7;
}
