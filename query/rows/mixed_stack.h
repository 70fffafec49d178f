// SPDX-License-Identifier: MIT
//
// The native and the Python frames of a thread in one stack. A Python frame stands right inside the
// C function that runs it, the interpreter's evaluation loop, of which no name needs to be known:
// from 3.11 on the interpreter keeps something of each evaluation on the C stack; up to 3.10 it is
// the frame whose code last stored which instruction of the Python frame is being executed.
//
// Belongs to one thread.

#ifndef TTQ_QUERY_ROWS_MIXED_STACK_H_
#define TTQ_QUERY_ROWS_MIXED_STACK_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/source_text.h"
#include "query/cpython/state.h"
#include "query/outcome.h"
#include "query/process/row_moment.h"
#include "query/process/stack.h"
#include "query/rows/operator.h"
#include "query/rows/source_plan.h"
#include "query/value.h"

namespace ttq {

// One of the two; points into what it was made of.
struct MixedFrame {
  const Frame* native = nullptr;
  const python::Frame* python = nullptr;
  python::PythonState::Instance* instance = nullptr;  // with `python`
  uint64_t number = 0;  // among those of its language, as `backtrace` and `py backtrace` count them
};

// Innermost first. `python` are the stacks of the native stack's thread. That a Python frame has no
// native one to go with is noted in `outcome`.
absl::StatusOr<std::vector<MixedFrame>> Interleave(
    const Process& process, const Stack& native,
    const std::vector<python::PythonState::ThreadStack>& python, Outcome* outcome);

// The arguments of a Python frame's function as its variables hold them now: name → value.
Value ArgumentsNow(python::PythonState::Instance& instance, const python::Frame& frame);

// Appends the stack of each row's thread at its time, a list of frames with the columns of
// `backtrace mixed`.
Extend MakeMixedBacktrace(const Context& context, std::shared_ptr<RowMoment> moment,
                          size_t time_slot, std::optional<size_t> thread_slot,
                          std::optional<size_t> inlined_slot, std::shared_ptr<Outcome> outcome);

}  // namespace ttq

#endif  // TTQ_QUERY_ROWS_MIXED_STACK_H_
