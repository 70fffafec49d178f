/* SPDX-License-Identifier: MIT
 *
 * What another unit defines: a struct of which the first knows only the name. */
#include <stdlib.h>

struct hidden {
  int secret;
  double weight;
};
struct only_here {
  short s;
  long l;
};
struct only_here elsewhere = {1, 2};
static int file_static = 99;
struct hidden* hidden;

struct hidden* make_hidden(void) {
  struct hidden* h = malloc(sizeof(*h));
  h->secret = 1234 + file_static - 99;
  h->weight = 2.5;
  return h;
}
