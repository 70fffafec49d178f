// SPDX-License-Identifier: MIT
//
// Code that is made, changed and thrown away while the program runs.

#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
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

static sigjmp_buf fault_jump;
static void* volatile fault_address;

static void OnFault(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  fault_address = info->si_addr;
  siglongjmp(fault_jump, 1);
}

// What code returns; where it cannot be executed, the low bits of the address.
static uint32_t Call(const uint8_t* code) {
  if (sigsetjmp(fault_jump, 1)) return (uint32_t)(uintptr_t)fault_address & 0xffff;
  return ((uint32_t(*)(void))code)();
}

static void Put(uint8_t* at, uint8_t opcode, uint32_t operand) {
  at[0] = opcode;
  memcpy(at + 1, &operand, 4);
}

// Gives the value, where rcx and the carry flag are what Pass makes them.
static void Return(uint8_t* at, uint32_t value) {
  static const uint8_t kRest[] = {0x83, 0xd0, 0, 0xc3};  // adc $0, %eax; ret
  *at++ = 0x8d;
  Put(at, 0x81, value - 6);  // lea value - 6(%rcx), %eax
  memcpy(at + 5, kRest, sizeof(kRest));
}

static uint8_t* Pass(uint8_t* at) {
  Put(at, 0xb9, 5);  // mov $5, %ecx; stc
  at[5] = 0xf9;
  return at + 6;
}

static void GoTo(uint8_t* at, uint8_t opcode, const uint8_t* target) {
  Put(at, opcode, (uint32_t)(target - (at + 5)));
}

// A function calls another, which jumps to a third; each changes while the others stay.
static uint32_t Linked(void) {
  enum {
    kPage = 4096,
    kAll = PROT_READ | PROT_WRITE | PROT_EXEC,
    kPrivate = MAP_PRIVATE | MAP_ANONYMOUS
  };
  uint8_t *first = mmap(NULL, 8 * kPage, kAll, kPrivate, -1, 0), *second = first + 2 * kPage,
          *third = first + 4 * kPage, *other = first + 6 * kPage;
  uint32_t wrong = 0;
  struct sigaction action = {.sa_sigaction = OnFault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  uint8_t* call = Pass(first);
  GoTo(call, 0xe8, second);
  call[5] = 0xc3;
  GoTo(second, 0xe9, third);
  Return(other, 7);
  for (uint32_t i = 0; i < 400; ++i) {
    Return(third, i % 3);  // what was there before, too
    for (int k = 0; k < 5; ++k) wrong += Call(first) != i % 3;
    if (i % 10 == 3) {  // another function is called, and the first one again
      GoTo(call, 0xe8, other);
      wrong += Call(first) != 7;
      GoTo(call, 0xe8, second);
      wrong += Call(first) != i % 3;
    }
    if (i % 10 == 5) {
      GoTo(second, 0xe9, other);
      wrong += Call(first) != 7 || Call(first) != 7;
      GoTo(second, 0xe9, third);
      wrong += Call(first) != i % 3;
    }
    if (i % 20 == 7) {  // no code any more, and the same code again
      uint8_t* page = i % 40 == 7 ? second : third;
      mprotect(page, kPage, PROT_READ | PROT_WRITE);
      wrong += Call(first) != ((uint32_t)(uintptr_t)page & 0xffff);
      mprotect(page, kPage, kAll);
      wrong += Call(first) != i % 3;
    }
    if (i % 20 == 11) {
      munmap(third, kPage);
      wrong += Call(first) != ((uint32_t)(uintptr_t)third & 0xffff);
      mmap(third, kPage, kAll, kPrivate | MAP_FIXED, -1, 0);
      Return(third, i % 3);
      wrong += Call(first) != i % 3;
    }
    if (i % 20 == 13) {
      madvise(third, kPage, MADV_DONTNEED);
      Return(third, 8);
      wrong += Call(first) != 8;
    }
    if (i % 20 == 17) {  // moved away, and another one to its place
      mremap(other, kPage, kPage, MREMAP_MAYMOVE | MREMAP_FIXED, third);
      wrong += Call(first) != 7;
      mmap(other, kPage, kAll, kPrivate | MAP_FIXED, -1, 0);
      Return(other, 7);
    }
  }
  return wrong;
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
  const uint32_t wrong = Linked();
  printf("%lx, %u wrong\n", sum, wrong);
  return wrong != 0;
}
