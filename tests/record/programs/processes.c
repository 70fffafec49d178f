// SPDX-License-Identifier: MIT
//
// Trees of processes: fork, vfork, posix_spawn, exec that fails and exec that works, daemons.

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static int Status(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

static int Tree(int depth) {
  if (depth == 0) return 1;
  volatile char* m = malloc(100000);
  memset((char*)m, depth, 100000);
  pid_t a = fork();
  if (a == 0) _exit(Tree(depth - 1));
  pid_t b = fork();
  if (b == 0) {
    m[5000] = 77;
    _exit(Tree(depth - 1));
  }
  return WEXITSTATUS(Status(a)) + WEXITSTATUS(Status(b)) + (m[5000] == depth);
}

int main(int argc, char** argv) {
  if (argc > 1) {  // exec'ed by ourselves
    printf("%s %s\n", argv[1], getenv("MARK") ? getenv("MARK") : "-");
    return 5;
  }
  setvbuf(stdout, NULL, _IONBF, 0);
  printf("tree %d\n", Tree(3));

  char* words[] = {argv[0], "spawned", NULL};
  char* environment[] = {"MARK=given", NULL};
  pid_t child;
  if (posix_spawn(&child, argv[0], NULL, NULL, words, environment)) return 1;
  printf("spawned: %d\n", WEXITSTATUS(Status(child)));
  child = vfork();
  if (child == 0) {
    execve("/nonexistent", words, environment);  // fails, and the child goes on
    execve(argv[0], words, environment);
    _exit(1);
  }
  printf("vforked: %d\n", WEXITSTATUS(Status(child)));
  child = (pid_t)syscall(SYS_fork);
  if (child == 0) {
    words[1] = "directly";
    execvp(argv[0], words);
    _exit(1);
  }
  printf("forked: %d\n", WEXITSTATUS(Status(child)));
  child = fork();
  if (child == 0) {
    raise(SIGTERM);
    _exit(0);
  }
  printf("killed: %d\n", WTERMSIG(Status(child)));

  // A daemon, which outlives its parent; we hear from it by a pipe.
  int p[2];
  if (pipe(p)) return 1;
  child = fork();
  if (child == 0) {
    setsid();
    if (fork() == 0) {
      if (chdir("/")) _exit(1);
      for (int fd = 0; fd < 1024; ++fd) {
        if (fd != p[1]) close(fd);
      }
      usleep(20000);
      if (write(p[1], "up", 2) != 2) _exit(1);
      _exit(0);
    }
    _exit(0);
  }
  Status(child);
  close(p[1]);
  char text[8] = "";
  ssize_t got = read(p[0], text, 8);
  printf("daemon: %ld %s\n", (long)got, text);
  fflush(stdout);
  words[1] = "in place";
  execv(argv[0], words);
  return 1;
}
