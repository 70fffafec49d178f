// SPDX-License-Identifier: MIT
//
// shared_later HOW N [FILE]: three threads count to N each, and half-way the first does what cannot
// be run again from inputs:
//
//   anonymous  shares memory with a child, which counts N further and has a child that does, too
//   file       maps FILE, writable and shared
//   protect    maps it, and makes it writable later
//   sysv       attaches System V memory
//   large      maps so much of it that what it holds is not known
//
// Each process says at its end how far it came. With N 0 it counts until it is killed, or for five
// minutes.

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

volatile unsigned long counter[3];
static unsigned long most;

static void count_to(int which, unsigned long end) {
  while (counter[which] < end) counter[which] = counter[which] + 1;
}

static void* others(void* which) {
  count_to((int)(long)which, most);
  return NULL;
}

static void say(const char* who) {
  char line[100];
  snprintf(line, sizeof(line), "%s %d %lu %lu %lu\n", who, getpid(), counter[0], counter[1],
           counter[2]);
  if (write(1, line, strlen(line)) < 0) abort();
}

static volatile int* share(const char* how, const char* path) {
  const size_t bytes = strcmp(how, "large") == 0 ? (size_t)1100 << 20 : 4096;
  void* at;
  if (strcmp(how, "anonymous") == 0) {
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  } else if (strcmp(how, "sysv") == 0) {
    const int id = shmget(IPC_PRIVATE, bytes, 0600);
    at = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
  } else {
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) abort();
    const int may_write = strcmp(how, "file") == 0 ? PROT_WRITE : 0;
    at = mmap(NULL, bytes, PROT_READ | may_write,
              strcmp(how, "large") == 0 ? MAP_PRIVATE : MAP_SHARED, fd, 0);
    if (strcmp(how, "protect") == 0 && mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) abort();
    close(fd);
  }
  if (at == MAP_FAILED) abort();
  return at;
}

// The child of a process, which has one itself.
static void have_children(volatile int* shared, int depth) {
  if (depth == 2) return;
  const pid_t child = fork();
  if (child == 0) {
    count_to(0, counter[0] + most);
    shared[depth] = depth + 10;
    have_children(shared, depth + 1);
    say("child");
    _exit(0);
  }
  waitpid(child, NULL, 0);
  if (shared[depth] != depth + 10) abort();
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  most = strtoul(argv[2], NULL, 0);
  const int is_endless = most == 0;
  if (is_endless) most = ~0ul;
  alarm(300);
  pthread_t thread[2];
  if (!is_endless) {
    for (long k = 0; k < 2; ++k) pthread_create(&thread[k], NULL, others, (void*)(k + 1));
  }
  count_to(0, is_endless ? 1000000 : most / 2);
  volatile int* shared = share(argv[1], argv[3]);
  if (strcmp(argv[1], "anonymous") == 0) have_children(shared, 0);
  count_to(0, most);
  for (int k = 0; k < 2; ++k) pthread_join(thread[k], NULL);
  say("parent");
  return 0;
}
