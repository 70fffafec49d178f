// SPDX-License-Identifier: MIT
//
// Children that share their parent's memory until they run another program or end: what they say
// of a program that is not there must reach the parent.

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

static void spawn(const char* name) {
  pid_t child = -1;
  char* argv[] = {(char*)name, NULL};
  int error = posix_spawnp(&child, name, NULL, NULL, argv, environ);
  printf("%s: %s", name, strerror(error));
  if (error == 0) printf(", status %d", status_of(child));
  printf("\n");
}

// A child of vfork that starts another one first.
static void nested(void) {
  volatile int inner = 0, outer = 0;
  pid_t child = vfork();
  if (child == 0) {
    pid_t grandchild = vfork();
    if (grandchild == 0) {
      execl("/nonexistent", "x", (char*)NULL);
      _exit(3);
    }
    inner = WEXITSTATUS(status_of(grandchild));
    execl("/dev/null", "x", (char*)NULL);
    outer = errno;
    _exit(4);
  }
  printf("nested: %d, %s, status %d\n", inner, strerror(outer), WEXITSTATUS(status_of(child)));
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  spawn("/nonexistent");
  spawn("/dev/null");
  spawn("true");
  spawn("false");
  nested();
  pid_t child = vfork();
  if (child == 0) {
    raise(SIGKILL);
    _exit(1);
  }
  printf("killed: %d\n", WTERMSIG(status_of(child)));
  printf("system: %d %d\n", WEXITSTATUS(system("exit 3")),
         WEXITSTATUS(system("/nonexistent 2>&-")));
  return 0;
}
