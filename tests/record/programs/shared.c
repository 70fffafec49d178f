// SPDX-License-Identifier: MIT
//
// Memory that somebody else writes: a child, or the program itself at another address.

#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

static void ByChild(volatile char* p) {
  if (fork() == 0) {
    p[100] = 7;
    _exit(0);
  }
  wait(NULL);
  printf("%d\n", p[100]);
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  void* const at = (void*)0x30000000;
  if (!strcmp(how, "private")) {  // nobody else can write it
    ByChild(mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  } else if (!strcmp(how, "anonymous")) {
    ByChild(mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  } else if (!strcmp(how, "file")) {
    int fd = memfd_create("shared", 0);
    if (ftruncate(fd, 4096) != 0) return 3;
    ByChild(mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  } else if (!strcmp(how, "sysv")) {
    int id = shmget(IPC_PRIVATE, 4096, 0600);
    volatile char *p = shmat(id, at, 0), *q = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    q[100] = 9;
    printf("%d\n", p[100]);
  }
  return 0;
}
