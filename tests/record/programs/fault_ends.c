// SPDX-License-Identifier: MIT
//
// Faults of which some happen where a block of the log ends: what precedes each in its superblock
// is much of the log.

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

static volatile long g_count;
static long g_words[40];

static void Skip(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP] += 2;  // mov (%rax), %eax
  ++g_count;
}

int main(void) {
  struct sigaction action = {0};
  action.sa_sigaction = Skip;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSEGV, &action, NULL)) return 1;
  long sum = 0;
  for (int i = 0; i < 4000; ++i) {
    g_words[i % 40] = i;
    __asm__ volatile(
        "xor %%eax, %%eax\n\t.set at, 0\n\t.rept 40\n\taddq at(%1), %0\n\t.set at, at + "
        "8\n\t.endr\n\t.byte 0x8b, 0x00"
        : "+r"(sum)
        : "r"(g_words)
        : "rax", "memory");
  }
  printf("%ld %ld\n", g_count, sum);
}
