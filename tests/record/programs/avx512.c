// SPDX-License-Identifier: MIT
//
// Stores, loads, gathers and scatters under masks of AVX-512. What the processor has is asked by
// whoever runs it: the recorder hides it. The program ends at the end of its memory, beyond which
// nothing is mapped.

#include <immintrin.h>
#include <stdio.h>
#include <sys/mman.h>

enum { kBytes = 8192 };
static unsigned char* out;

static void Work(unsigned seed) {
  const __m512i v =
      _mm512_mullo_epi32(_mm512_set1_epi32((int)(seed * 2654435761u)),
                         _mm512_setr_epi32(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16));
  const __mmask16 mask = (__mmask16)(seed * 0x9e37u);
  const __mmask64 bytes = seed * 0x9e3779b97f4a7c15ull;
  _mm512_mask_storeu_epi32(out + 4 * (seed % 50), mask, v);
  _mm512_mask_storeu_epi64(out + 512 + seed % 64, (__mmask8)mask, v);
  _mm512_mask_storeu_epi8(out + 1024, bytes, v);
  _mm256_mask_storeu_epi16(out + 1200, mask, _mm512_castsi512_si256(v));
  _mm512_mask_compressstoreu_epi32(out + 1400 + seed % 8, mask, v);
  _mm512_mask_cvtepi32_storeu_epi8(out + 1600, mask, v);
  _mm512_mask_cvtepi64_storeu_epi16(out + 1700, (__mmask8)mask, v);
  const __m512i index = _mm512_and_si512(v, _mm512_set1_epi32(255));
  _mm512_mask_i32scatter_epi32(out + 2048, mask, index, v, 4);
  __m512i got = _mm512_mask_i32gather_epi32(v, mask, index, out, 4);
  got = _mm512_add_epi32(got, _mm512_mask_expandloadu_epi32(v, mask, out + 100));
  got = _mm512_mask_add_epi32(got, mask, got, _mm512_set1_epi32(*(int*)(out + 64)));
  _mm512_storeu_si512(out + 4000, got);
  // What the mask leaves out lies beyond the end of memory, and must not fault.
  _mm512_mask_storeu_epi32(out + kBytes - 8, mask & 3, v);
  got = _mm512_maskz_loadu_epi32(mask & 3, out + kBytes - 8);
  got = _mm512_mask_add_epi32(got, mask & 3, v, _mm512_maskz_loadu_epi32(3, out + kBytes - 8));
  _mm512_mask_compressstoreu_epi32(out + kBytes - 4 * __builtin_popcount(mask), mask, got);
  _mm512_storeu_si512(out + 4100, got);
}

int main(void) {
  out = mmap(NULL, kBytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(out + kBytes, 4096);
  for (unsigned i = 0; i < 2000; ++i) Work(i);
  unsigned long sum = 0;
  for (unsigned i = 0; i < kBytes; ++i) sum = sum * 131 + out[i];
  printf("%016lx\n", sum);
  return 0;
}
