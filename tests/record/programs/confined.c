// SPDX-License-Identifier: MIT
//
// Programs that close everything, move to where nothing is, lower their limits, or ask to be
// confined, and then fork.

#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void Say(int fd, const char* text) {
  if (write(fd, text, strlen(text)) < 0) _exit(9);
}

static int Child(void) {
  pid_t child = fork();
  if (child == 0) {
    char* m = malloc(200000);
    memset(m, 3, 200000);
    _exit(m[777]);
  }
  int status;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
  char line[100], directory[] = "/tmp/ttq-confined-XXXXXX";
  int out = fcntl(1, F_DUPFD, 100);
  for (int fd = 3; fd < 100; ++fd) close(fd);
  snprintf(line, sizeof(line), "closed: %d\n", Child());
  Say(out, line);
  syscall(SYS_close_range, 3, 99, 0);
  syscall(SYS_close_range, 101, ~0u, 0);
  snprintf(line, sizeof(line), "closed: %d\n", Child());
  Say(out, line);

  struct rlimit limit = {0, 0};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 1000;
  setrlimit(RLIMIT_FSIZE, &limit);
  snprintf(line, sizeof(line), "small files: %d\n", Child());
  Say(out, line);
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 3;
  setrlimit(RLIMIT_NOFILE, &limit);
  snprintf(line, sizeof(line), "few files: %d\n", Child());
  Say(out, line);

  umask(0777);
  if (mkdtemp(directory) == NULL || chdir(directory) || rmdir(directory)) return 1;
  // Not every machine lets us; the rest is the same.
  int in_jail = chroot(".") == 0;
  snprintf(line, sizeof(line), "elsewhere: %d\n", Child());
  Say(out, line);
  if (!in_jail) rmdir(directory);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  Say(out, "confined\n");
  syscall(SYS_exit, 4);
}
