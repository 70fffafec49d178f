// SPDX-License-Identifier: MIT
// Conditions of several parts in many shapes: what the second part computes must run only when the
// first one lets it.
#include <stdint.h>
#include <stdio.h>

static uint32_t seed = 12345;
static uint32_t next(void) { return seed = seed * 1664525u + 1013904223u; }
static int small(void) { return (int)(next() >> 28) - 8; }

__attribute__((noinline)) static int and_two(int a, int b) { return a > 2 && b < 3; }
__attribute__((noinline)) static int or_two(int a, int b) { return a == 2 || b == 3; }
__attribute__((noinline)) static int and_many(int a, int b, unsigned c, long d) {
  if (a > -3 && b < 5 && c != 7 && (d & 3) != 1) return 1;
  return 0;
}
__attribute__((noinline)) static int mixed(int a, int b, int c, int d) {
  if ((a < b || c < d) && !(a == c && b == d)) return a - d;
  if (a + b > c + d && (a ^ b) < (c ^ d)) return 2;
  return (a & 1) && ((b & 2) || (c & 4)) && !(d & 8);
}
__attribute__((noinline)) static int in_range(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
__attribute__((noinline)) static int of_doubles(double a, double b, float c) {
  if (a < b && b < 3.5) return 1;
  if (a != a || (c > -1.5f && c < 1.5f && b > c)) return 2;
  return 0;
}
__attribute__((noinline)) static long of_bytes(const signed char* p, int n) {
  long found = 0;
  for (int i = 0; i < n && p[i] != 100; ++i) {
    signed char x = p[i], y = (signed char)(x * 3);
    if (x > 0 && y < 0) found += i;
    if (x < 0 && (uint8_t)y > 9 && (x & y) != 4) found ^= i;
  }
  return found;
}
__attribute__((noinline)) static unsigned chosen(unsigned a, unsigned b, unsigned c) {
  unsigned r = a > b && b > c ? a - c : b;
  r += a >= 3 ? (b >= 3 ? c : a) : b;
  while (r > 5 && (r & 1) == 0) r /= 2;
  do r += 3;
  while (r % 7 != 0 && r % 5 != 0);
  return r;
}
__attribute__((noinline)) static int by_case(int a, int b) {
  switch (a) {
    case -8:
    case -7:
    case 3:
      return b > 0 && b < 4;
    case 0:
      return b == 1;
    case 1:
    case 2:
      return b != 0 || a == 2;
    default:
      return a < 0 && b < 0;
  }
}

int main(void) {
  long sum = 0;
  signed char bytes[24];
  for (int i = 0; i < 14; ++i) {
    int a = small(), b = small(), c = small(), d = small();
    for (int k = 0; k < 24; ++k) bytes[k] = (signed char)(next() >> 24);
    sum += and_two(a, b) + 2 * or_two(a, b) + 3 * and_many(a, b, (unsigned)c & 7, d);
    sum += mixed(a, b, c, d) + in_range((int)(next() >> 25)) + by_case(a, b);
    sum += of_doubles(a * 0.5, b * 0.75, (float)c) + of_bytes(bytes, 10 + i);
    sum += chosen(next() >> 29, next() >> 29, next() >> 29);
  }
  printf("%ld\n", sum);
  return 0;
}
