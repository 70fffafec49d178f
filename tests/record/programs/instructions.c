// SPDX-License-Identifier: MIT
//
// Instructions that write memory in unusual ways, one after the other.

#include <emmintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint8_t a[4096] __attribute__((aligned(64))), b[4096] __attribute__((aligned(64)));

static uint64_t Sum(void) {
  uint64_t s = 0;
  for (unsigned i = 0; i < sizeof(a); ++i) s = s * 31 + a[i] + 7 * b[i];
  return s;
}

static void Strings(int down) {
  for (int i = 0; i < 256; ++i) a[i] = (uint8_t)(i * 7 + 1);
  void *from = a + (down ? 100 : 0), *to = b + (down ? 103 : 3);
  long n = 97;
  if (down) __asm__ volatile("std");
  __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(n)::"memory");
  n = 11, from = a + 200, to = b + 400;
  __asm__ volatile("rep movsl" : "+S"(from), "+D"(to), "+c"(n)::"memory");
  n = 13, from = a + 120, to = a + 128;  // overlapping
  __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(n)::"memory");
  n = 50, to = b + 1000;
  __asm__ volatile("rep stosw" : "+D"(to), "+c"(n) : "a"(0x1234) : "memory");
  n = 0, to = b + 1200;
  __asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(~0L) : "memory");
  n = 300, to = b + 1010;
  __asm__ volatile("repne scasb" : "+D"(to), "+c"(n) : "a"(0x77) : "memory", "cc");
  from = a, to = b + 3, n = 64;
  __asm__ volatile("repe cmpsb" : "+S"(from), "+D"(to), "+c"(n)::"memory", "cc");
  __asm__ volatile("movsb; stosl; lodsw" : "+S"(from), "+D"(to) : "a"(5) : "memory");
  __asm__ volatile("cld");
}

static void Atomics(void) {
  uint64_t* w = (uint64_t*)(a + 512);
  for (int i = 0; i < 4; ++i) {
    uint64_t low = i & 1 ? w[0] : w[0] + 1, high = w[1];
    __asm__ volatile("lock cmpxchg16b %0"
                     : "+m"(*(__int128*)w), "+a"(low), "+d"(high)
                     : "b"(w[0] + 3), "c"(w[1] + 5)
                     : "cc", "memory");
    uint32_t l = (uint32_t)w[2] + (i == 2), h = (uint32_t)(w[2] >> 32);
    __asm__ volatile("lock cmpxchg8b %0" : "+m"(w[2]), "+a"(l), "+d"(h) : "b"(i), "c"(9) : "cc");
    uint64_t old = w[3] + (i & 1);
    __asm__ volatile("lock cmpxchg %2, %0" : "+m"(w[3]), "+a"(old) : "r"(7L * i) : "cc");
    uint8_t byte = a[540];
    __asm__ volatile("cmpxchg %2, %0" : "+m"(a[540]), "+a"(byte) : "r"((uint8_t)(i + 9)) : "cc");
    __asm__ volatile("lock xadd %1, %0" : "+m"(w[4]), "+r"(old)::"cc");
    __asm__ volatile("xchg %1, %0" : "+m"(w[5]), "+r"(old));
    __asm__ volatile(
        "lock incl 48(%0); lock negw 50(%0); lock notb 53(%0)\n"
        "lock addq $-3, 56(%0); lock andb $0x7f, 57(%0); lock xorl $5, 60(%0)" ::"r"(w)
        : "cc", "memory");
  }
  // The bit number reaches beyond the operand.
  for (long bit = -70; bit < 200; bit += 23) {
    __asm__ volatile("bts %1, %0" : "+m"(w[40]) : "r"(bit) : "cc", "memory");
    __asm__ volatile("lock btc %1, %0" : "+m"(w[41]) : "r"(bit + 5) : "cc", "memory");
    __asm__ volatile("btrl %k1, %0" : "+m"(w[42]) : "r"(bit + 1) : "cc", "memory");
    __asm__ volatile("btsw $3, %0; lock btcl $17, %0" : "+m"(w[43])::"cc");
  }
}

static void Stack(void) {
  __asm__ volatile(
      "sub $256, %%rsp\n"  // beyond the red zone
      "pushfq; popq %%rax; pushq %%rax; popfq\n"
      "enter $32, $0; movq $77, -8(%%rbp); leave\n"
      "pushw $5; popw %%ax; pushq %0; popq %0\n"
      "push %%rsp; pop %%rax\n"
      "call 1f; jmp 2f; 1: ret $0; 2:\n"
      "add $256, %%rsp"
      : "+m"(a[2048])::"rax", "memory", "cc");
  uint8_t* at = a + 2100;
  for (int i = 0; i < 16; ++i) {
    __asm__ volatile(
        "cmp $7, %1; setl (%0); sbbb $3, 1(%0); rclb $1, 2(%0); shldw $3, %w1, 3(%0)" ::"r"(at +
                                                                                            8 * i),
        "r"(i)
        : "cc", "memory");
    __asm__ volatile("cmp $9, %1; mov %0, %%rax; cmovl %2, %%rax; mov %%rax, %0"
                     : "+m"(*(uint64_t*)(at + 8 * i))
                     : "r"(i), "r"(0x1122334455667788L)
                     : "rax", "cc");
  }
}

static void Vectors(void) {
  __m128i value = _mm_set_epi64x(0x0102030405060708, 0x1112131415161718);
  for (int i = 0; i < 16; ++i) {
    __m128i mask = _mm_set1_epi8((char)(i & 1 ? 0x80 : 0));
    mask = _mm_insert_epi16(mask, 0x8000 >> i | 0x80, 3);
    _mm_maskmoveu_si128(value, mask, (char*)b + 2048 + 17 * i);
  }
  _mm_stream_si128((__m128i*)(b + 3072), value);
  _mm_stream_si64((long long*)(b + 3104), 0x5566);
  _mm_stream_si32((int*)(b + 3112), 77);
  _mm_sfence();
  _mm_storeu_si128((__m128i*)(b + 3121), value);
  _mm_storel_epi64((__m128i*)(b + 3141), value);
  _mm_storeh_pd((double*)(b + 3151), _mm_castsi128_pd(value));
  __asm__ volatile("pxor %%mm0, %%mm0; movntq %%mm0, (%0); movq %%mm0, 9(%0); emms" ::"r"(b + 3200)
                   : "memory");
  __asm__ volatile(
      "fld1; fstpt (%0); fld1; fstps 16(%0); fldl2e; fistpll 24(%0); fldz; fstpl 35(%0)" ::"r"(b +
                                                                                               3300)
      : "memory");
}

// As the processor says itself: some virtual machines hide rdtscp. Valgrind has it where the
// processor says so, and its cpuid says so always.
static int HasRdtscp(void) {
  static char flags[8192];
  FILE* f = fopen("/proc/cpuinfo", "r");
  if (!f) return 0;
  flags[fread(flags, 1, sizeof flags - 1, f)] = 0;
  fclose(f);
  return strstr(flags, " rdtscp") != NULL;
}

// Whether an x87 instruction is said to lie elsewhere than it does.
static int States(void) {
  static uint8_t area[4096] __attribute__((aligned(64)));
  __asm__ volatile("fldz; fld1; fnstenv %0; fldenv %0; fnstcw 40+%0; fnstsw 44+%0; stmxcsr 48+%0"
                   : "+m"(area[0])::"memory");
  uint32_t place;
  memcpy(&place, area + 12, sizeof place);
  __asm__ volatile("fnsave %0; frstor %0; fnsave 128+%0; fninit" : "+m"(area[64])::"memory");
  __asm__ volatile("fxsave64 %0; fxrstor64 %0; fxsave %0" : "+m"(area[512])::"memory");
  uint32_t a1 = 1, b1, c1 = 0, d1;
  __asm__ volatile("cpuid" : "+a"(a1), "=b"(b1), "+c"(c1), "=d"(d1));
  if (c1 & 1 << 27) {
    for (uint32_t mask = 1; mask < 8; ++mask) {
      __asm__ volatile("xsave64 %0; xrstor64 %0" : "+m"(area[2048]) : "a"(mask), "d"(0) : "memory");
    }
  }
  long clock, random;
  __asm__ volatile("rdtsc; mov %%eax, %0" : "=m"(clock)::"rax", "rdx");
  if (HasRdtscp()) __asm__ volatile("rdtscp; mov %%ecx, %0" : "=m"(clock)::"rax", "rcx", "rdx");
  if (c1 & 1 << 30) __asm__ volatile("rdrand %%rax; mov %%rax, %0" : "=m"(random)::"rax", "cc");
  // Where the last x87 instruction lay is nowhere, or here: low halves, as memory may lie anywhere.
  return place != 0 && place - (uint32_t)(uintptr_t)States >= 4096;
}

// Short loops, which are unrolled until they are full of long instructions, or of exits.
// Programs that ask what processor there is change AC and look whether it stays changed. Meanwhile
// nothing may be accessed that is not aligned.
static int AlignmentCheck(void) {
  uint64_t before, after;
  __asm__ volatile(
      "sub $256, %%rsp\n"  // beyond the red zone
      "pushfq; pop %0; mov %0, %1; xor $0x40000, %1; push %1; popfq\n"
      "pushfq; pop %1; push %0; popfq\n"
      "add $256, %%rsp"
      : "=&r"(before), "=&r"(after)::"cc", "memory");
  return ((before ^ after) & 0x40000) != 0;
}

static void Loops(void) {
  long n = 300;
  __asm__ volatile(
      "1: .rept 40\n .byte 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
      ".endr\n dec %0\n jnz 1b"
      : "+r"(n)::"cc");
#define EXITS(count)                                                                              \
  n = 300;                                                                                        \
  __asm__ volatile("1: .rept " #count "\n jo 2f\n .endr\n dec %0\n jnz 1b\n 2:" : "+r"(n)::"cc"); \
  a[count] = (uint8_t)n
  EXITS(4);
  EXITS(14);
  EXITS(46);
}

int main(void) {
  int moved = 0;
  for (int i = 0; i < 40; ++i) {
    Loops();
    Strings(i & 1);
    Atomics();
    Stack();
    Vectors();
    moved |= States();
  }
  printf("%016lx %d %d\n", Sum(), AlignmentCheck(), moved);
  return 0;
}
