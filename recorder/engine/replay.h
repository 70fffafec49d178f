// SPDX-License-Identifier: MIT
//
// A process run again from its inputs (recorder/inputs.h) and the program's files, with nothing
// else: no system call of its is made. It fills a ring with the stream that it filled before, byte
// for byte but for the times of blocks. replay.cc opens with how.

#ifndef TTQ_RECORDER_ENGINE_REPLAY_H_
#define TTQ_RECORDER_ENGINE_REPLAY_H_

#include "recorder/engine/base.h"
#include "recorder/stream.h"

namespace ttq::engine::replay {

// Whether this process is run again.
bool IsOn();
// Where copies of mapped files are, that may have changed; null: nowhere.
void SetFiles(const char* directory);
// Takes the inputs from a file. Refuses one of another version, or for blocks of another size.
void Open(const char* path, uint64_t block_bytes);
// The process's ring says what it was.
void FillRing();
// Makes the program as it began; fills in the context.
void Begin();

// `what` did not come in the recording: says so, and ends the process.
[[noreturn]] void Differ(const char* what);

// Whether the next input is of this place.
bool IsDue();
// Between two superblocks: what came here in the recording comes. Does not return at its end.
void Continue();
// What the program's own code asks for: its system call, the results of an instruction, a record
// that is as it was.
void Execute();
void Repeat(uint32_t kind);
TtqUndetermined Undetermined(const TtqUndetermined& now);
// An instruction of the program's has faulted, and its record is closed.
void TakeFault(int32_t signal, uint64_t pc);

}  // namespace ttq::engine::replay

#endif  // TTQ_RECORDER_ENGINE_REPLAY_H_
