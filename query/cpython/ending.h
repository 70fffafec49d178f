// SPDX-License-Identifier: MIT
//
// The exception by which a Python program came to its end, found without walking through it: what
// the interpreter keeps of it until it takes itself down (sys.last_value, from 3.12 on
// sys.last_exc) leads to its traceback, and the writes that made a traceback say when it was begun.

#ifndef TTQ_QUERY_CPYTHON_ENDING_H_
#define TTQ_QUERY_CPYTHON_ENDING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/raises.h"
#include "query/cpython/state.h"
#include "store/read/reader.h"

namespace ttq::python {

// What was raised in `span`, in order of time; `control` may be null.
absl::StatusOr<std::vector<Raise>> RaisesIn(const Recording& recording, const Process& process,
                                            TimeSpan span, std::optional<ThreadNo> thread,
                                            ScanControl* control);

// The last of the raises at or before t that `is_wanted`, looked for in at most `most` blocks, the
// latest first. It may have begun before what was looked at: see Raise::begun_before.
absl::StatusOr<std::optional<Raise>> LastRaise(const Recording& recording, const Process& process,
                                               Time t, size_t most,
                                               const std::function<bool(const Raise&)>& is_wanted,
                                               ScanControl* control);

// When the exception `object`, one of `instance` in `state`, was first raised, with its text, chain
// and traceback as `state` has them. nullopt: it has no traceback that the interpreter made.
absl::StatusOr<std::optional<Raise>> RaiseOf(const Recording& recording, const PythonState& state,
                                             PythonState::Instance& instance, uint64_t object,
                                             ScanControl* control);

// When the first interpreter began to take itself down: until then its modules are whole. The end
// where none did. NotFound as of RuntimesEver.
absl::StatusOr<Time> FinalizedAt(const Recording& recording, const Process& process,
                                 ScanControl* control);

struct Ending {
  Time time;  // FinalizedAt
  // What left the outermost frame of a script or a module that `python -m` runs, and ended the
  // program by that.
  std::optional<Raise> raise;
  bool exits = false;  // it is a SystemExit
};
// NotFound as of RuntimesEver.
absl::StatusOr<Ending> FindEnding(const Recording& recording, const Process& process,
                                  ScanControl* control);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_ENDING_H_
