// SPDX-License-Identifier: MIT
// Arithmetic: integers of several widths, floating point, the mathematical library.
#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  volatile double x = 0.7, y = 2.5;
  double sum = 0;
  for (int i = 1; i < 14; ++i) {
    double v = x * i - y;
    sum += sin(v) + cos(v * 3) * exp(-v * v) + log(i) + pow(i, 0.3) + sqrt(i) + fabs(v);
    sum += floor(v) + ceil(v / 3) + fmod(v, 0.9) + atan2(v, x) + tanh(v) + cbrt(i) + hypot(v, i);
    sum +=
        (v > 0 && v < 3) || isnan(v) ? sinf((float)v) : fmax(v, -1) + rint(v) + (double)lround(v);
  }
  sum += creal(csqrt(x + y * I)) + (double)llrint(y) + ldexp(x, 3) + scalbn(y, -2);
  uint64_t h = 1469598103934665603u;
  unsigned __int128 wide = 1;
  for (uint32_t i = 1; i < 120; ++i) {
    h = (h ^ i) * 1099511628211u;
    wide = wide * 3 + h / i + h % (i | 1);
    h ^= (uint64_t)(wide >> 64) >> (i & 63) | (uint64_t)__builtin_popcountll(h) << 7;
    h += (uint64_t)(int64_t)((int32_t)h / (int32_t)i) + (uint16_t)h * (uint8_t)i;
    if ((h & 3) && (int64_t)h > 0 && __builtin_ctzll(h | 256) < 5) h = ~h;
  }
  float f[32], g = 0;
  for (int i = 0; i < 32; ++i) f[i] = (float)(i * i) / 3 + (float)x;
  for (int i = 0; i < 32; ++i) g += f[i] * f[31 - i] > 50 ? f[i] : -f[31 - i];
  div_t q = div(-77, 6);
  printf("%.6f %llx %llx %.3f %d %d\n", sum, (unsigned long long)h, (unsigned long long)wide, g,
         q.quot, q.rem);
  return 0;
}
