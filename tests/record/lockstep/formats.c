// SPDX-License-Identifier: MIT
// stdio: formatted input and output, streams over memory.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char text[256];
  long sum = 0;
  for (int i = 0; i < 2; ++i) {
    snprintf(text, sizeof(text), "%d %5x|%-6s|%06ld %c%% %+.3e %g %s", i * 37 - 90, i * 99, "ab",
             i * 1234567L, 'a' + i, i / 7.0, i * 1e5, i % 2 ? "odd" : "even");
    int a = 0, n = 0;
    unsigned b = 0;
    char word[32] = "", set[32] = "";
    double d = 0;
    sum += sscanf(text, "%d %x|%31[a-z ]|%*d %n%c", &a, &b, set, &n, word);
    sum += sscanf("  17 abc 2.5e1 -9", "%d %31s %lf %i", &a, word, &d, &n);
    sum += a + (long)b + n + (long)d + (long)strlen(set) + word[0];
  }
  char* grown = NULL;
  size_t bytes = 0;
  FILE* out = open_memstream(&grown, &bytes);
  for (int i = 0; i < 9; ++i) fprintf(out, "line %d of %zu\n", i, bytes);
  fputs("the end\n", out);
  fclose(out);
  FILE* in = fmemopen(grown, bytes, "r");
  for (int c; (c = fgetc(in)) != EOF && c != '7';) sum += c;
  while (fgets(text, sizeof(text), in)) {
    int at;
    if (sscanf(text, "line %d of", &at) == 1 && at > 3) sum += at;
  }
  sum += feof(in) && !ferror(in);
  fclose(in);
  free(grown);
  printf("%ld %s\n", sum, text);
  puts("done");
  return 0;
}
