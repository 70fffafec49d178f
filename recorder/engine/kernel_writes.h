// SPDX-License-Identifier: MIT
//
// What each system call writes: told once, as data.

#ifndef TTQ_RECORDER_ENGINE_KERNEL_WRITES_H_
#define TTQ_RECORDER_ENGINE_KERNEL_WRITES_H_

#include "recorder/engine/base.h"

namespace ttq::engine {

// What is needed before the call to tell afterwards what it wrote.
struct CallNotes {
  uint32_t named[6];          // lengths that arguments point to
  uint64_t name, name_bytes;  // of a message
  // What an ioctl that nothing is known of points to, as it was.
  uint32_t saved_bytes;
  uint8_t saved[4096];
};
void NoteBeforeSyscall(uint64_t number, const uint64_t* args, CallNotes* notes);
// After it: tells the memory that it has written.
void TellSyscallWrites(uint64_t number, const uint64_t* args, const CallNotes& notes,
                       int64_t result);

struct MemoryRange {
  uint64_t address, bytes;
};
// While it is under way: memory that it may be writing, at most `most` ranges; how many.
size_t PossibleWrites(uint64_t number, const uint64_t* args, const CallNotes& notes,
                      MemoryRange* out, size_t most);

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_KERNEL_WRITES_H_
