// SPDX-License-Identifier: MIT
//
//     descriptors FILE
//
// Appends to FILE what it was given: which descriptors are open, which come next, how signals are
// taken. So do a child that it forks, and a program that the child executes.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void Show(const char* who, int out) {
  char text[8000], *at = text;
  at += sprintf(at, "%s: open", who);
  for (int i = 0; i < 2000; ++i) {
    int flags = fcntl(i, F_GETFD);
    if (flags >= 0 && i != out)
      at += sprintf(at, " %d(%d, %x)", i, flags, fcntl(i, F_GETFL) & O_ACCMODE);
  }
  int fds[6];
  at += sprintf(at, "; next");
  for (int i = 0; i < 6; ++i) {
    fds[i] = open("/dev/zero", O_RDONLY);
    at += sprintf(at, " %d", fds[i]);
  }
  for (int i = 0; i < 6; ++i) close(fds[i]);
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, NULL, &blocked);
  at += sprintf(at, "; ignored");
  for (int i = 1; i < 64; ++i) {
    struct sigaction action;
    if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
      at += sprintf(at, " %d", i);
  }
  at += sprintf(at, "; blocked");
  for (int i = 1; i < 64; ++i)
    if (sigismember(&blocked, i)) at += sprintf(at, " %d", i);
  *at++ = '\n';
  if (write(out, text, (size_t)(at - text)) != at - text) _exit(3);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  // Somewhere in the middle: neither among the first, nor where a tool may keep its own.
  int file = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600);
  int out = fcntl(file, F_DUPFD_CLOEXEC, 700);
  close(file);
  Show(argc > 2 ? argv[2] : "program", out);
  if (argc > 2) return 0;
  if (fork() == 0) {
    Show("child", out);
    execl("/proc/self/exe", argv[0], argv[1], "executed", NULL);
    _exit(4);
  }
  wait(NULL);
  Show("after", out);
  return 0;
}
