// SPDX-License-Identifier: MIT
//
// Code that is made, changed and thrown away while the program runs.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// mov $value, %eax; mov %eax, offset(%rdi); ret
static void Emit(uint8_t* at, uint32_t value, uint8_t offset) {
  uint8_t code[] = {0xb8, 0, 0, 0, 0, 0x89, 0x47, offset, 0xc3};
  memcpy(code + 1, &value, 4);
  memcpy(at, code, sizeof(code));
}

int main(void) {
  static uint32_t out[64];
  uint64_t sum = 0;
  uint8_t* m =
      mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (uint32_t i = 0; i < 3000; ++i) {  // at new places, then over old code
    uint8_t* at = m + 16 * (i % 1000);
    Emit(at, i * 3, 4 * (i % 32));
    sum += ((uint32_t(*)(uint32_t*))at)(out);
  }
  // Written by one mapping, run by another.
  int fd = memfd_create("code", 0);
  if (ftruncate(fd, 4096)) return 1;
  uint8_t* w = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  uint8_t* x = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  for (uint32_t i = 0; i < 200; ++i) {
    Emit(w + 16 * (i % 4), i * 5, 4 * (i % 32));
    sum += ((uint32_t(*)(uint32_t*))(x + 16 * (i % 4)))(out);
  }
  // Code that changes itself before it jumps to what it changed.
  uint8_t self[] = {0x40, 0x88, 0x3d, 3, 0, 0,   0,  // mov %dil, 3(%rip): the constant below
                    0xff, 0xe6,                      // jmp *%rsi
                    0xb8, 0,    0,    0, 0, 0xc3};   // mov $?, %eax; ret
  memcpy(m, self, sizeof(self));
  for (uint32_t i = 0; i < 100; ++i) {
    sum = sum * 3 + ((uint32_t(*)(uint32_t, uint8_t*))m)(i, m + 9);
  }
  // Unmapped, and something else in its place.
  for (uint32_t i = 0; i < 50; ++i) {
    munmap(m, 65536);
    m = mmap(m, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    Emit(m, i, 0);
    mprotect(m, 65536, PROT_READ | PROT_EXEC);
    sum += ((uint32_t(*)(uint32_t*))m)(out);
  }
  for (int i = 0; i < 64; ++i) sum = sum * 31 + out[i];
  printf("%lx\n", sum);
  return 0;
}
