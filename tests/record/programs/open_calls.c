// SPDX-License-Identifier: MIT
// A thread stays in a call; the other one makes calls whose results are numbers of calls that wait:
// 0 of read, 1 of write, 7 of poll.
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static int pipe_ends[2];

static void* reads(void* unused) {
  char c;
  if (read(pipe_ends[0], &c, 1) == 0) return unused;
  return 0;
}

int main(void) {
  pthread_t thread;
  if (pipe(pipe_ends) != 0 || pthread_create(&thread, 0, reads, 0) != 0) return 1;
  usleep(100 * 1000);  // until it is in its call
  char bytes[8] = "abcdefg";
  const int nothing = open("/dev/null", O_RDWR);
  ssize_t sum = 0;
  for (size_t i = 0; i < sizeof(bytes); ++i) sum += write(nothing, bytes, i);
  for (int i = 0; i < 3; ++i) sum += read(nothing, bytes, sizeof(bytes));
  if (sum != 28) return 2;
  abort();
}
