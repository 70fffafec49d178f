// SPDX-License-Identifier: MIT
// The C library's functions on strings and memory, at many lengths and alignments.
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>

int main(void) {
  static char a[8192], b[8192];
  size_t sum = 0;
  static const int lengths[] = {0,  1,  2,  3,  5,  8,  13,  16,  17,
                                31, 32, 33, 47, 64, 65, 127, 200, 300};
  for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); ++k) {
    const int n = lengths[k];
    for (int align = 0; align < 20; align += 7) {
      char *p = a + align, *q = b + (align * 5) % 32;
      memset(p, 'a' + n % 7, n);
      p[n] = 0;
      memcpy(q, p, n + 1);
      memmove(p + 1, p, n);
      p[n] = 0;
      sum += strlen(q) + (memcmp(p, q, n) == 0) + (strcmp(p, q) > 0);
      sum += (size_t)(strchr(q, 'c') != NULL) + (strrchr(p, 'a') != NULL) + strspn(q, "abc");
      sum += (memchr(p, 'x', n) != NULL) + strnlen(p, 20) + (strncmp(p, q, 9) < 0);
      sum += (strcasecmp(p, q) == 0) + (rawmemchr(p, 0) != p) + (memrchr(p, 'b', n) != NULL);
      strcpy(q, p);
      strncpy(q, "prefix", 4);
      strcat(q, "tail of it");
      sum += strcspn(q, "fl") + (strstr(q, "of") - q) + (memmem(q, 12, "ta", 2) != NULL);
    }
  }
  memset(b, 'y', 6000);
  memcpy(a + 3, b, 5000);  // longer than what is copied by one string instruction
  memset(a + 1, 'z', 4500);
  sum += memcmp(a, b, 6000) != 0;
  char words[] = "one,two;;three four\tfive";
  for (char* w = strtok(words, ",; \t"); w; w = strtok(NULL, ",; \t"))
    sum += strlen(w) * toupper(*w);
  sum += strtol("-0x7fzz", NULL, 16) + strtoul("0777", NULL, 0) + atoi("  42x");
  sum += (size_t)(1000 * strtod("3.25e2", NULL)) + wcslen(L"wide") + (size_t)strcoll("a", "b");
  for (int c = 0; c < 128; ++c) sum += isalnum(c) && !isdigit(c) ? tolower(c) : ispunct(c) != 0;
  printf("%zu\n", sum);
  return 0;
}
