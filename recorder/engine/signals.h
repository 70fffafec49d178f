// SPDX-License-Identifier: MIT
//
// Signals: those that come from outside wait until the program is between two superblocks; those
// that an instruction raises are delivered there. signals.cc opens with how.

#ifndef TTQ_RECORDER_ENGINE_SIGNALS_H_
#define TTQ_RECORDER_ENGINE_SIGNALS_H_

#include "recorder/engine/base.h"

namespace ttq::engine::signals {

// Takes the dispositions and the mask that the program inherits.
void SetUp();
bool Waiting();
// Delivers what waits: goes to the program's handler, or ends the process.
void Deliver();
// The program has jumped to where nothing can be executed.
void RaiseAtJump();
// Ends the recording and the process by a signal.
[[noreturn]] void Die(uint32_t number);

// System calls of the program. Each gives the result.
int64_t SetAction(uint64_t number, uint64_t action, uint64_t old, uint64_t mask_bytes);
int64_t SetMask(uint64_t how, uint64_t set, uint64_t old, uint64_t mask_bytes);
int64_t SetAlternateStack(uint64_t stack, uint64_t old);
void Return();  // rt_sigreturn: changes the context

// For exec: the mask that the program has; and back, when exec failed.
void GiveMaskToKernel();
void TakeMaskBack();

// A system call of the program, which a signal interrupts. kRestart: it was not executed, or is to
// be executed again after the signal's handler.
constexpr int64_t kRestart = -512;
int64_t Interruptible(uint64_t number, const uint64_t* args);

}  // namespace ttq::engine::signals

#endif  // TTQ_RECORDER_ENGINE_SIGNALS_H_
