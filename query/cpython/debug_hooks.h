// SPDX-License-Identifier: MIT
//
// Blocks that the debug hooks on CPython's allocators refused (PYTHONMALLOC=debug, a debug build).
//
// The hooks put 16 bytes before each block and 8 behind it, and look at them when the block is
// freed or resized. What is wrong there ends the process; who wrote it, and who had got or freed
// the block, only the recording knows. Layout: Objects/obmalloc.c, above _PyMem_DebugRawAlloc, and
// "Debug hooks on the Python memory allocators" in the C API's manual.
//
// Thread-safe: functions without state.

#ifndef TTQ_QUERY_CPYTHON_DEBUG_HOOKS_H_
#define TTQ_QUERY_CPYTHON_DEBUG_HOOKS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "query/process/failed_check.h"
#include "query/process/process_names.h"
#include "query/process/stack.h"
#include "store/read/reader.h"

namespace ttq::python {

struct RefusedBlock {
  enum class State {
    kDamaged,   // what is around it was overwritten, or it was given back by another interface
    kFreed,     // before
    kNotGiven,  // no block begins there
  };
  State state = State::kNotGiven;
  Address block;
  Time given_back;    // the call of the allocator that refused it
  Gpr with = kRdi;    // what that call passed it in
  FailedCheck check;  // the 8 bytes that the hooks found wrong
  // Where these are: "right after a block of 20 bytes that PyMem_Malloc gave fill (grid.c:5) at
  // 1234"; of a freed block, what it was; else empty.
  std::string text;
};

// The block that the stack's innermost frames are checking; nullopt: they check none, the block is
// as it should be, or the recording does not tell.
absl::StatusOr<std::optional<RefusedBlock>> FindRefusedBlock(const ProcessNames& names,
                                                             const ttq::Stack& stack);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_DEBUG_HOOKS_H_
