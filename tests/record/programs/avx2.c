// SPDX-License-Identifier: MIT
//
// Masked vector stores and gathers: which bytes are written is known only when it happens.

#include <immintrin.h>
#include <stdio.h>
#include <string.h>

static unsigned char out[4096] __attribute__((aligned(64)));

__attribute__((target("avx2,fma"))) static void Work(unsigned seed) {
  __m256i v = _mm256_set1_epi32((int)(seed * 2654435761u));
  __m256i mask = _mm256_srlv_epi32(_mm256_set1_epi32((int)(seed * 0x9e3779b9u)),
                                   _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  mask = _mm256_slli_epi32(mask, 31);
  _mm256_maskstore_epi32((int*)(out + 4 * (seed % 50)), mask, v);
  _mm256_maskstore_epi64((long long*)(out + 512 + seed % 64), _mm256_slli_epi64(mask, 3), v);
  _mm256_maskstore_ps((float*)(out + 1024), mask, _mm256_castsi256_ps(v));
  _mm_maskstore_pd((double*)(out + 1100), _mm256_castsi256_si128(mask), _mm_set1_pd((double)seed));
  _mm_maskstore_epi32((int*)(out + 1200), _mm256_extracti128_si256(mask, 1), _mm_set1_epi32(7));
  __m256i index = _mm256_and_si256(v, _mm256_set1_epi32(255));
  __m256i got = _mm256_mask_i32gather_epi32(v, (int*)out, index, mask, 4);
  got = _mm256_add_epi32(got, _mm256_i32gather_epi32((int*)out, index, 2));
  _mm256_storeu_si256((__m256i*)(out + 1301), got);
  _mm256_store_si256((__m256i*)(out + 1408), v);
  _mm256_stream_si256((__m256i*)(out + 1472), got);
  _mm_storeu_si128((__m128i*)(out + 1511), _mm256_extracti128_si256(got, 1));
  // A masked load of elements beyond the end of memory must not fault.
  __m256i part =
      _mm256_maskload_epi32((int*)(out + 4096 - 8), _mm256_setr_epi32(-1, -1, 0, 0, 0, 0, 0, 0));
  _mm256_storeu_si256((__m256i*)(out + 1600), part);
}

int main(void) {
  if (!__builtin_cpu_supports("avx2")) return puts("no avx2"), 0;
  for (unsigned i = 0; i < 3000; ++i) Work(i);
  unsigned long sum = 0;
  for (unsigned i = 0; i < sizeof(out); ++i) sum = sum * 131 + out[i];
  printf("%016lx\n", sum);
  return 0;
}
