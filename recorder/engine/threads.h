// SPDX-License-Identifier: MIT
//
// The program's thread, and what is told of it.

#ifndef TTQ_RECORDER_ENGINE_THREADS_H_
#define TTQ_RECORDER_ENGINE_THREADS_H_

#include "recorder/engine/base.h"

namespace ttq::engine::threads {

// The number by which records name the thread.
uint32_t Current();
// The first thread begins, as the context has it.
void Begin();
// Its registers, as the context has them, when something other than its own code has changed them.
void TellRegisters();
void TellVectors();
// What every block starts with.
void BeginBlock();
// Where the kernel writes a zero when the thread ends; it does not for a process's last one.
void TellExit();

}  // namespace ttq::engine::threads

#endif  // TTQ_RECORDER_ENGINE_THREADS_H_
