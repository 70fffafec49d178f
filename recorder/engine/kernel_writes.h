// SPDX-License-Identifier: MIT
//
// What each system call writes: told once, as data.

#ifndef TTQ_RECORDER_ENGINE_KERNEL_WRITES_H_
#define TTQ_RECORDER_ENGINE_KERNEL_WRITES_H_

#include "recorder/engine/base.h"

namespace ttq::engine {

// Whether the call is in the table, so that what it writes is known.
bool IsKnownSyscall(uint64_t number);
// Before the call: notes what is needed to tell afterwards.
void NoteBeforeSyscall(uint64_t number, const uint64_t* args);
// After it: tells the memory that it has written.
void TellSyscallWrites(uint64_t number, const uint64_t* args, int64_t result);

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_KERNEL_WRITES_H_
