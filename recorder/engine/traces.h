// SPDX-License-Identifier: MIT
//
// Whether anything that the program has done is seen outside of its process: what has not can be
// done once more, from the program's beginning, by another recorder.

#ifndef TTQ_RECORDER_ENGINE_TRACES_H_
#define TTQ_RECORDER_ENGINE_TRACES_H_

#include "recorder/engine/base.h"

namespace ttq::engine::traces {

bool Left();
// What is known at the start of a program: that what it replaced has left some.
void SetLeft();
// The program is about to make a system call, and has made it.
void NoteCall(uint64_t number, const uint64_t* args);
void NoteResult(uint64_t number, const uint64_t* args, int64_t result);

}  // namespace ttq::engine::traces

#endif  // TTQ_RECORDER_ENGINE_TRACES_H_
