// SPDX-License-Identifier: MIT
//
// The system calls that are known, as a table: what memory each writes.

#ifndef TTQ_RECORDER_ENGINE_CALLS_H_
#define TTQ_RECORDER_ENGINE_CALLS_H_

#include <cstdint>

namespace ttq::engine {

enum How : uint8_t {
  kNothing,
  kBytes,        // `n` bytes
  kResult,       // result * n bytes
  kReceived,     // result bytes, but no more than argument n
  kArgument,     // (argument n) bytes
  kPolled,       // argument 1 times `n` bytes, also when a signal came
  kTimeLeft,     // `n` bytes, also when a signal came
  kVector,       // result bytes, over an array of buffers of which argument n is the count
  kNamed,        // a name, whose length argument n points to
  kOnInterrupt,  // `n` bytes, when a signal came
  kIfResult,     // `n` bytes, when the result is not 0
};
struct Piece {
  uint8_t argument = 0;
  How how = kNothing;
  uint16_t n = 0;
};
struct Call {
  uint16_t number;
  Piece pieces[3];
};

// Beyond it are calls of kernels to come, which do not exist for the program, as on older kernels.
inline constexpr uint64_t kNewestCall = 456;

// The row of a call that writes memory, or may; null: it is not known, or writes none.
const Call* FindCall(uint64_t number);
// Whether what the call writes is known.
bool IsKnownSyscall(uint64_t number);
// Whether other threads may have to do something before the call returns.
bool MayBlock(uint64_t number, const uint64_t* args);

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_CALLS_H_
