// SPDX-License-Identifier: MIT
// A program whose names and strings would do things to whatever shows them. The file it maps is its
// argument. Compiled without debug information: the function's name is the symbol's, which the test
// changes.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// ESC [ 31 m, U+009B (a C1 control), U+202E (turns the direction of text), markup, a formula.
#define BAD               \
  "=1+1 \x1b[31m\xc2\x9b" \
  "2J\xe2\x80\xae<b onclick=\"x()\">&amp;'"

__attribute__((noinline)) int take(const char* text) {
  __asm__ volatile("" : : "r"(text) : "memory");
  return text[0];
}

static void utf8(unsigned c, char* out) {
  if (c < 0x80) {
    *out++ = c;
  } else if (c < 0x800) {
    *out++ = 0xc0 | c >> 6;
    *out++ = 0x80 | (c & 63);
  } else {
    *out++ = 0xe0 | c >> 12;
    *out++ = 0x80 | (c >> 6 & 63);
    *out++ = 0x80 | (c & 63);
  }
  *out = 0;
}

int main(int argc, char** argv) {
  if (argc > 1) {
    int fd = open(argv[1], O_RDONLY);
    if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED) return 1;
  }
  pthread_setname_np(pthread_self(), "t\x1b[2J\xe2\x80\xae");
  take(BAD);
  take("bad\xef\xbf\xbe\xef\xbf\xbf\xed\xa0\x80 end");
  take("\x80\xff\xc0\xaf");
  take("two\nlines, \"quoted\"\r");
  char all[4 * 8 + 1];
  for (unsigned c = 1; c < 0x10000;
       c += 8) {  // every character of the first plane, a surrogate too
    char* at = all;
    for (unsigned i = 0; i < 8 && c + i < 0x10000; i++) utf8(c + i, at), at += strlen(at);
    if (c < 0x400 || (c >= 0x2000 && c < 0x2100) || c >= 0xd7f0) take(all);
  }
  printf("%s\n", BAD);
  fprintf(stderr, "%s", BAD);
  fflush(stdout);
  __builtin_trap();
}
