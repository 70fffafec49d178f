/* SPDX-License-Identifier: MIT */
int library_counter;

int library_add(int a, int b) {
  library_counter += a;
  return a + b;
}

int library_twice(int a) {
  int once = library_add(a, 0);
  return library_add(once, a);
}
