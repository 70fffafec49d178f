// SPDX-License-Identifier: MIT
//
// Frames and their arguments as values of a row.

#ifndef TTQ_QUERY_ROWS_FRAME_VALUES_H_
#define TTQ_QUERY_ROWS_FRAME_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/process/stack.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

struct Argument;

// What argument `i` is called in `args`: by its own name, if its declaration gives one.
std::string ArgumentName(const std::string& name, size_t i);
// Name → value.
Value ArgumentsObject(const std::vector<Argument>& arguments);
// The arguments of a frame's function: an object, name → value, by DWARF; without it arg0…arg5 by
// the ABI in the innermost frame at its function's first instruction, else null.
absl::StatusOr<Value> FrameArguments(const Context& context, Moment& moment, ThreadNo thread,
                                     const Frame& frame);

// arg0…arg5 as the ABI passes integers and pointers.
Value ArgumentsByAbi(const uint64_t* gpr);

// A frame as an object with the columns of `backtrace`.
absl::StatusOr<Object> FrameObject(const Context& context, Moment& moment, ThreadNo thread,
                                   const Frame& frame);
// What `| backtrace` gives: a list of these.
absl::StatusOr<Value> FrameList(const Context& context, Moment& moment, const Stack& stack);

}  // namespace ttq

#endif  // TTQ_QUERY_ROWS_FRAME_VALUES_H_
