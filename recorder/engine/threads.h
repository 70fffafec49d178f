// SPDX-License-Identifier: MIT
//
// The program's threads, each a thread of the kernel's, of which one runs at a time. threads.cc
// opens with how.

#ifndef TTQ_RECORDER_ENGINE_THREADS_H_
#define TTQ_RECORDER_ENGINE_THREADS_H_

#include "recorder/engine/base.h"
#include "recorder/engine/kernel_writes.h"
#include "recorder/engine/signals.h"
#include "recorder/stream.h"

namespace ttq::engine::threads {

struct Thread {
  // The context's fields while it does not run.
  uint64_t r[16];
  uint64_t flags, pc, fs_base, gs_base;
  TtqVectors vectors;  // as they were when it last let others run
  uint32_t number;     // by which records name it
  uint32_t os_number;
  uint32_t parent;
  uint64_t made_as;        // the how many-th of the process
  uint64_t set_address;    // gets its number when it begins; 0: nothing does
  bool taken;              // it has been made and has not ended
  bool alive;              // it has run
  uint64_t clear_address;  // is set to zero, and woken, when it ends; 0: nothing is
  uint64_t robust_list;    // locks that are marked when it ends; 0: none
  signals::OfThread signals;
  const uint64_t* call;  // arguments of the system call in which it lets others run, or null
  uint64_t call_number;
  const CallNotes* call_notes;
  volatile uint32_t in_kernel;  // the kernel sets it to zero when the thread is gone for good
};

// The thread that runs. Only in code of the engine that it executes, but for signal handlers.
Thread* Running();
// The number by which records name it.
uint32_t Current();
// Whether the process has one thread.
bool IsAlone();
// In a handler of the engine's: the thread that it interrupted, whether it runs or not.
Thread* Interrupted();
// Where a thread's signal handlers find their stack.
signals::Stack HandlerStack(const Thread& thread);

// The first thread is made, with the engine's stack of its own. Before signals::SetUp.
void SetUp();
// It begins, as the context has it.
void Begin();
// The same, named so: where a recording is run again.
void BeginAs(uint32_t os_number);
// The same in the child of a fork, whose only thread it is.
void BeginInChild();
// In a child that is run again: as whom it began.
void BeginInChildAs(uint32_t os_number);

// Where a recording is run again by one thread of the kernel's (replay.cc): the thread of this
// number, made if need be; it takes the turn; the one that runs has ended.
Thread* Named(uint32_t number);
void Enter(Thread* self);
void Leave();
// Vector registers, as the processor has them, are this thread's when others run.
void NoteVectors(Thread* self);

// Others may run: from here to Acquire the thread touches nothing that threads share. `call`: a
// system call that it makes meanwhile.
void Release(uint64_t number, const uint64_t* call, const CallNotes* notes);
void Acquire(Thread* self);
// Between two superblocks: a turn is over, or a block is full; others may run that wait for it.
void EndTurn();
// Around the making of a child for which the thread waits, and which lets the others run, by
// LetParentsThreadsRun, once its memory is its own. `failed`: there is no child.
void BeginWaitForChild();
void EndWaitForChild(Thread* self, bool failed);
void LetParentsThreadsRun();

// clone that makes a thread. Gives its number, as the kernel has it, or an error.
int64_t Create(const uint64_t* args);
// The thread ends, and is not the last.
[[noreturn]] void Exit(uint32_t status);
// set_tid_address, set_robust_list.
int64_t SetClearAddress(uint64_t address);
int64_t SetRobustList(uint64_t address, uint64_t bytes);

// The registers of the thread that runs, as the context has them, when something other than its own
// code has changed them.
void TellRegisters();
void TellAllRegisters();  // of all threads
void TellVectors();
// What every block starts with.
void BeginBlock();
// The process ends: where every thread is, and that it ends.
void TellEnd();
// With --verify: memory that system calls of other threads may be writing.
void NotePending(TtqRing* ring);

}  // namespace ttq::engine::threads

#endif  // TTQ_RECORDER_ENGINE_THREADS_H_
