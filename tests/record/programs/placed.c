// SPDX-License-Identifier: MIT
//
// Where a program wishes memory to be, and the kernel may put it, the engine has its own: whatever
// is given can be used.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { kBytes = 0x20000, kCode = 0x1000, kPrivate = MAP_PRIVATE | MAP_ANONYMOUS };
static const uint64_t kStep = 0x1310000, k2GiB = 0x80000000;

// Writes to memory, executes it, and gives every third one back. 0: all of it went well.
static int Use(uint8_t* p, int number) {
  static const uint8_t kReturn[] = {0xb8, 1, 2, 0, 0, 0xc3};  // mov $0x201, %eax; ret
  if (p == MAP_FAILED) return 1;
  memcpy(p + kCode, kReturn, sizeof(kReturn));
  if (mprotect(p, kBytes, PROT_READ | PROT_EXEC)) return 2;
  if (((int (*)(void))(p + kCode))() != 0x201) return 3;
  return number % 3 == 0 && munmap(p, kBytes) ? 4 : 0;
}

static int Wish(uint64_t from, uint64_t to) {
  int wrong = 0, number = 0;
  for (uint64_t at = from; at < to; at += kStep) {
    uint8_t* p = mmap((void*)at, kBytes, PROT_READ | PROT_WRITE, kPrivate, -1, 0);
    const int how = Use(p, number++);
    if (how != 0) printf("wished for %lx, got %p: %d\n", at, (void*)p, how);
    wrong += how != 0;
  }
  return wrong;
}

// Executable memory that SBCL wishes for, and cannot do without: it is given just there.
static int GetsWhatItWishes(void) {
  void* const wish = (void*)0x50000000;
  uint8_t* p = mmap(wish, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, kPrivate, -1, 0);
  if (p != wish) printf("wished for %p, got %p\n", wish, (void*)p);
  return p == wish && Use(p, 0) == 0;
}

int main(void) {
  int wrong = !GetsWhatItWishes();
  wrong += Wish(0x10000000, 0x180000000) + Wish(0x7e8000000000, 0x7e8010000000);
  int low = 0;
  for (int k = 0; k < 900; ++k) {
    const int protection = PROT_READ | PROT_WRITE | (k % 2 ? PROT_EXEC : 0);
    uint8_t* p = mmap(NULL, 1 << 20, protection, kPrivate | MAP_32BIT, -1, 0);
    if (p == MAP_FAILED) break;
    wrong += (uint64_t)p + (1 << 20) > k2GiB || Use(p, 1) != 0;
    ++low;
  }
  printf("%d wrong, %s in the first 2 GiB\n", wrong, low >= 100 ? "enough" : "few");
  return wrong != 0;
}
