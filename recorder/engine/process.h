// SPDX-License-Identifier: MIT
//
// Beginnings and ends of processes: fork, vfork, exec, exit.

#ifndef TTQ_RECORDER_ENGINE_PROCESS_H_
#define TTQ_RECORDER_ENGINE_PROCESS_H_

#include "recorder/engine/base.h"

namespace ttq::engine::process {

// fork, vfork or clone. The child is recorded in a ring of its own.
int64_t Fork(uint64_t number, const uint64_t* args);
// execve: the new program runs under the engine too. Gives the error when it cannot be executed.
int64_t Execute(uint64_t path, uint64_t arguments, uint64_t environment);
[[noreturn]] void Exit(uint64_t number, uint32_t status);

}  // namespace ttq::engine::process

#endif  // TTQ_RECORDER_ENGINE_PROCESS_H_
