// SPDX-License-Identifier: MIT
//
// A program without libc, on a stack of its own: the same addresses under every Valgrind tool.

__attribute__((aligned(64), used)) static unsigned char g_stack[1 << 16];
static unsigned g_numbers[600];
static unsigned char g_bytes[4096];
static double g_doubles[64];

static void Sort(unsigned* a, int n) {
  if (n < 2) return;
  unsigned pivot = a[n / 2];
  int i = 0, j = n - 1;
  for (;; ++i, --j) {
    while (a[i] < pivot) ++i;
    while (a[j] > pivot) --j;
    if (i >= j) break;
    unsigned t = a[i];
    a[i] = a[j];
    a[j] = t;
  }
  Sort(a, i);
  Sort(a + j + 1, n - j - 1);
}

static long Choose(long n) {
  switch (n % 9) {
    case 0:
      return n * 3;
    case 1:
      return n / 7;
    case 2:
      return (short)n;
    case 3:
      return g_bytes[n & 4095];
    case 4:
      return n << (n & 31);
    case 5:
      return n > 100 ? g_numbers[n % 600] : n;
    case 6:
      return __builtin_clzl((unsigned long)n | 1);
    case 7:
      return -n;
    default:
      return n >> 3;
  }
}

static void Work(void) {
  unsigned x = 12345;
  for (int i = 0; i < 600; ++i) g_numbers[i] = x = x * 1103515245 + 12345;
  Sort(g_numbers, 600);
  long sum = 0;
  for (long i = 0; i < 2000; ++i) {
    sum += Choose(i);
    g_bytes[sum & 4095] ^= (unsigned char)i;
    *(unsigned short*)(g_bytes + (i & 2047)) += 3;
  }
  for (int i = 0; i < 64; ++i) g_doubles[i] = (double)sum / (i + 1) + g_doubles[(i * 7) & 63];
  void *from = g_bytes, *to = g_bytes + 1000;
  long n = 333;
  __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(n)::"memory");
  n = 40;
  __asm__ volatile("std; rep stosq; cld" : "+D"(to), "+c"(n) : "a"(sum) : "memory");
  __asm__ volatile(
      "push %0; pop %0; xchg %0, (%1); movups (%1), %%xmm0; movups %%xmm0, 24(%1)\n"
      "addl $5, 40(%1); bts $77, 48(%1); enter $24, $0; leave; setc 3(%1)"
      : "+r"(sum)
      : "r"(g_bytes)
      : "memory", "cc", "xmm0");
}

__attribute__((used)) static void Main(void) {
  for (int i = 0; i < 3; ++i) Work();
  __asm__ volatile("syscall" ::"a"(231), "D"(0));
}

__asm__(".globl _start\n_start: lea g_stack+65520(%rip), %rsp; call Main");
