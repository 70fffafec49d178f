// SPDX-License-Identifier: MIT
//
// Signals: those that come from outside wait until the program is between two superblocks; those
// that an instruction raises are delivered there. signals.cc opens with how.

#ifndef TTQ_RECORDER_ENGINE_SIGNALS_H_
#define TTQ_RECORDER_ENGINE_SIGNALS_H_

#include "recorder/engine/base.h"

namespace ttq::engine::signals {

// The kernel's structures.
struct Stack {
  uint64_t address;
  int32_t flags, padding;
  uint64_t bytes;
};
struct Info {
  int32_t number, error, code, padding;
  uint64_t address;  // or other things
  uint8_t rest[104];
};
static_assert(sizeof(Info) == 128);

// What each thread has of its own.
struct OfThread {
  uint64_t mask;  // the program's; what it says of faults the kernel does not know
  Stack alternate;
  Info info;                // of the signal that waits
  volatile uint32_t waits;  // one does: all others are blocked
  bool blocks_faults;       // … by instructions, too: they would end the process
};

// Takes the dispositions and the mask that the program inherits. The thread that runs is the first.
void SetUp();
// The same where a recording is run again: of signals, only faults come.
void SetUpForFaults();
// Gives the thread that executes it a stack for handlers.
void SetUpThread(const Stack& stack);
void BlockAll();
void Unblock();  // those that the program has not blocked
// A thread ends: a signal that waits for it, and was for any thread, goes to another.
void PassOn();
// Whether one waits for the thread that runs.
bool Waiting();
// … that ends the process.
bool WillDie();
// Delivers what waits: goes to the program's handler, or ends the process.
void Deliver();
// Of the instruction at the program's pc, the byte at `address` cannot be executed.
void RaiseAtFetch(uint64_t address);
// The instruction at the program's pc is none.
void RaiseInvalid();
// In a child that a trap is to end: what the program has asked for holds no longer.
void ForgetActions();
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

// A system call of the program, which a signal for `thread` interrupts. kRestart: it was not
// executed, or is to be executed again after the signal's handler. The second: of the thread that
// runs.
constexpr int64_t kRestart = -512;
int64_t Interruptible(OfThread* thread, uint64_t number, const uint64_t* args);
int64_t Interruptible(uint64_t number, const uint64_t* args);

}  // namespace ttq::engine::signals

#endif  // TTQ_RECORDER_ENGINE_SIGNALS_H_
