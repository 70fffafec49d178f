// SPDX-License-Identifier: MIT
//
// Ends the way its argument says: exit STATUS, or a signal's name or number.

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* Exit(void* status) { exit((int)(long)status); }

static long Overflow(long n) {
  volatile char room[4000];
  room[n % 4000] = 1;
  return Overflow(n + 1) + room[5];
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "exit";
  int n = argc > 2 ? atoi(argv[2]) : 0;
  printf("%s %d\n", how, n);
  fflush(stdout);
  if (!strcmp(how, "exit")) exit(n);
  if (!strcmp(how, "thread")) {
    pthread_t t;
    pthread_create(&t, NULL, Exit, (void*)(long)n);
    for (;;) pause();
  }
  if (!strcmp(how, "last")) {  // the first thread leaves before the process ends
    syscall(SYS_exit, n);
  }
  if (!strcmp(how, "raise")) raise(n);
  if (!strcmp(how, "kill")) kill(getpid(), n);
  if (!strcmp(how, "segv")) *(volatile int*)16 = 1;
  if (!strcmp(how, "jump")) ((void (*)(void))(long)n)();
  if (!strcmp(how, "divide")) printf("%d\n", argc / n);
  if (!strcmp(how, "illegal")) __asm__ volatile("ud2");
  if (!strcmp(how, "trap")) __asm__ volatile("int3");
  if (!strcmp(how, "privileged")) __asm__ volatile("hlt");
  if (!strcmp(how, "general")) *(volatile int*)0x8000000000000000 = 1;
  if (!strcmp(how, "beyond")) {  // the end of a file: 0 to read there, 1 to jump there
    char name[] = "/tmp/ttq-end-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    char* p = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (n) ((void (*)(void))(p + 4096))();
    printf("%d\n", p[4096]);
  }
  if (!strcmp(how, "queue")) sigqueue(getpid(), n, (union sigval){0});
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "overflow")) printf("%ld\n", Overflow(0));
  if (!strcmp(how, "wait")) {
    puts("waiting");
    fflush(stdout);
    for (;;) pause();
  }
  return 99;
}
