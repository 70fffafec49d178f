// SPDX-License-Identifier: MIT
//
// hostile SEED COUNT: executes bytes at random, in a child for each sequence, and prints how each
// child ended. All registers point into memory that may be written, rsp to a stack; behind the
// bytes is an instruction that is none. A child that goes on for ever is ended by a timer.

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t g_state;

static uint8_t Random(void) {
  g_state ^= g_state << 13;
  g_state ^= g_state >> 7;
  g_state ^= g_state << 17;
  return (uint8_t)(g_state >> 24);
}

enum { kBytes = 24, kScratch = 1 << 20 };

static void Fill(uint8_t* code, int kind) {
  memset(code, 0, 4096);
  for (int i = 0; i < kBytes; ++i) code[i] = Random();
  static const uint8_t kPrefixes[] = {0x66, 0xf2, 0xf3, 0xf0, 0x48, 0x41, 0x64, 0x67};
  int at = 0;
  if (kind & 1) code[at++] = kPrefixes[Random() % sizeof(kPrefixes)];
  switch (kind >> 1) {
    case 1:  // the second map, and those behind it
      code[at++] = 0x0f;
      break;
    case 2:  // VEX
      code[at++] = 0xc4;
      code[at] = (uint8_t)((code[at] & 0xe0) | (1 + Random() % 3));
      break;
    case 3:  // EVEX
      code[at++] = 0x62;
      code[at] = (uint8_t)((code[at] & 0xf0) | (1 + Random() % 3));
      code[at + 1] |= 4;
      break;
    default:
      break;
  }
  for (int i = kBytes; i < 256; i += 2) code[i] = 0x0f, code[i + 1] = 0x0b;  // ud2
}

static void Execute(uint8_t* code, uint8_t* scratch) {
  const struct itimerval soon = {{0, 0}, {0, 300000}};
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  setitimer(ITIMER_REAL, &soon, NULL);
  __asm__ volatile(
      "mov %1, %%rsp\n mov %0, %%r11\n"
      "lea -0x80000(%%rsp), %%rax\n mov %%rax, %%rbx\n mov %%rax, %%rcx\n mov %%rax, %%rdx\n"
      "mov %%rax, %%rsi\n mov %%rax, %%rdi\n mov %%rax, %%rbp\n mov %%rax, %%r8\n mov %%rax, %%r9\n"
      "mov %%rax, %%r10\n mov %%rax, %%r12\n mov %%rax, %%r13\n mov %%rax, %%r14\n mov %%rax, "
      "%%r15\n"
      "jmp *%%r11" ::"r"(code),
      "r"(scratch + kScratch - 4096)
      : "memory");
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  g_state = 0x9e3779b97f4a7c15 + strtoull(argv[1], NULL, 10);
  // The same places whoever runs it: what is an address depends on them. From here no operand of
  // these seeds that is relative to the code is where the native engine lies (docs/limits.md).
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  uint8_t* code = mmap((void*)0xc0000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0);
  uint8_t* scratch = mmap((void*)0x10000000000, kScratch, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (code == MAP_FAILED || scratch == MAP_FAILED) return 1;
  const int count = atoi(argv[2]);
  for (int n = 0; n < count; ++n) {
    Fill(code, n % 8);
    const pid_t child = fork();
    if (child == 0) {
      close(0), close(1), close(2);
      Execute(code, scratch);
      _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return 1;
    printf("%d %s %d", n, WIFSIGNALED(status) ? "signal" : "exit",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    for (int i = 0; i < kBytes; ++i) printf(" %02x", code[i]);
    printf("\n");
  }
  return 0;
}
