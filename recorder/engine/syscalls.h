// SPDX-License-Identifier: MIT
//
// System calls of the program: executed, and what they change is told.

#ifndef TTQ_RECORDER_ENGINE_SYSCALLS_H_
#define TTQ_RECORDER_ENGINE_SYSCALLS_H_

#include "recorder/engine/base.h"
#include "recorder/engine/ring.h"

namespace ttq::engine::syscalls {

// How the program was started. /proc/self and exec need it.
struct Program {
  char path[4096];     // of its executable
  const char* engine;  // path of the engine's own
  ring::Options options;
  uint64_t break_begin = 0;  // where its heap begins
};
extern Program g_program;

// The call that the context's registers ask for; Context::pc is behind it.
void Execute();

// arch_prctl has done it.
void NoteSegment(uint64_t which, uint64_t base);

}  // namespace ttq::engine::syscalls

#endif  // TTQ_RECORDER_ENGINE_SYSCALLS_H_
