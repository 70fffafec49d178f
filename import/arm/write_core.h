/* SPDX-License-Identifier: MIT
 *
 * A process writes a core dump of itself, in a copy of it that a fork made (core(5); its notes are
 * those of Linux's fs/binfmt_elf.c). No memory is allocated and no lock is taken: the copy may have
 * been made anywhere.
 */
#ifndef TTQ_IMPORT_ARM_WRITE_CORE_H_
#define TTQ_IMPORT_ARM_WRITE_CORE_H_

#include <elf.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/user.h>

enum {
  kMaxThreads = 4096,
  kFxsaveBytes = 512,
  kMaxVectorBytes = 4096, /* of all states up to AVX-512 */
  kMaxSegments = 60000,   /* a 16-bit number */
  kMapsBytes = 16 << 20,  /* the text of /proc/self/maps */
  kPathBytes = 4096,
};

enum { kThreadGone, kThreadAsked, kThreadKnown };

struct ArmedThread {
  pid_t tid;
  atomic_int state;
  struct user_regs_struct registers;
  char call[256]; /* of /proc/self/task/TID/syscall, before the signal */
  uint32_t vector_bytes;
  unsigned char vectors[kMaxVectorBytes]; /* as NT_X86_XSTATE has them */
};

/* Most of it is never touched. */
struct ArmedProcess {
  char command[kPathBytes], folder[kPathBytes];
  pid_t pid;
  int signal; /* 0: somebody asked */
  siginfo_t information;
  atomic_uint thread_count;
  struct ArmedThread threads[kMaxThreads]; /* the one that counts first */
  /* Of the writer. */
  Elf64_Phdr segments[kMaxSegments];
  char maps[kMapsBytes];
  char buffer[64 << 10];
  uint64_t scratch[1024]; /* handlers may have little of a stack */
  char core[kPathBytes + 64];
  char* environment[4096];
};

/* Writes below `folder` and becomes `command import`; _exit, with a line on stderr, when that
 * fails. Called in a copy of the process `pid` that has one thread. */
__attribute__((noreturn)) void WriteCoreAndImport(struct ArmedProcess* process);

/* Appends to a text that has room for it. */
void AppendNumber(char* text, uint64_t number);
/* The number that begins at *text, which goes on behind it. */
uint64_t ReadNumber(const char** text, unsigned base);

#endif /* TTQ_IMPORT_ARM_WRITE_CORE_H_ */
