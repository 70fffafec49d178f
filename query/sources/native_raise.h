// SPDX-License-Identifier: MIT
//
// Where an extension made an exception of Python's: threw what became one, set it, or returned NULL
// without any.
//
// The interpreter has an exception only once the C function that it called has returned, with its
// frames gone, and what C++ threw only as what a handler made of it (pybind11's, Cython's,
// PyTorch's). So the time at which it is there is only what the search begins with:
//
//   - Code puts the exception that is set away and back again (PyErr_Fetch and PyErr_Restore), the
//     interpreter itself too. The first time that it was set is meant.
//   - What C++ threw is meant where it was set in a handler (between __cxa_begin_catch and
//     __cxa_end_catch) of what was thrown during the same call.
//   - "returned NULL without setting an exception" is raised by what checks a function's result:
//     the origin of that NULL is meant. "returned a result with an exception set": that exception.

#ifndef TTQ_QUERY_SOURCES_NATIVE_RAISE_H_
#define TTQ_QUERY_SOURCES_NATIVE_RAISE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/raises.h"
#include "query/process/stack.h"
#include "query/value.h"

namespace ttq {

struct NativeRaise {
  enum class How : uint8_t { kSet, kThrown, kReturnedNull };
  How how = How::kSet;
  // From the extension's function that did it out to the one that the interpreter called.
  Stack stack;
};

// nullopt: Python code or the interpreter raised it, or that is not known. `control` may be null.
absl::StatusOr<std::optional<NativeRaise>> FindNativeRaise(const Context& context,
                                                           const python::Raise& raise,
                                                           ScanControl* control);

// An object of `how` ("set", "thrown", "returned NULL"), `time`, `function`, `module`, `file`,
// `line` and `frames`, each as `backtrace` has it.
absl::StatusOr<Value> ValueOf(const NativeRaise& raise, const Context& context);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_NATIVE_RAISE_H_
