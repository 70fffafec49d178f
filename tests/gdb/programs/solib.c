/* SPDX-License-Identifier: MIT */
/* Calls functions of a shared library with and without lines. */
extern int library_counter;
int library_add(int a, int b);
int library_twice(int a);

int main(void) {
  int a = library_add(1, 2);
  int b = library_twice(a);
  a = library_add(a, b);
  library_counter = 0;
  return a == 100;
}
