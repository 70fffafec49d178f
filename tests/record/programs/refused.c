// SPDX-License-Identifier: MIT
//
// Makes a system call that the native engine does not know.

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
  syscall(SYS_bpf, -1, NULL, 0);
  puts("done");
  return 7;
}
