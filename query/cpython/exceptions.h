// SPDX-License-Identifier: MIT
//
// Exceptions read from memory: their type and text, what they came of, and their tracebacks.
//
// The text is what str() gives, as the built-in classes make it from their fields. Where a class
// has a __str__ of its own in Python, it is made from the arguments, and `own_text` says so.

#ifndef TTQ_QUERY_CPYTHON_EXCEPTIONS_H_
#define TTQ_QUERY_CPYTHON_EXCEPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "query/cpython/frames.h"
#include "query/cpython/objects.h"

namespace ttq::python {

// A line of code that an exception went through.
struct TracebackEntry {
  std::string function, file;
  int line = 0;  // 0: not known
};
// The entries of a traceback object, the outermost first. Empty when there is none.
inline constexpr size_t kMaxEntries = 1000;
std::vector<TracebackEntry> ReadTraceback(FrameReader& frames, uint64_t traceback,
                                          size_t most = kMaxEntries);

struct ExceptionText {
  std::string type, message;
  bool own_text = false;
};
// Of an exception as a thread state holds it. Up to 3.11 `value` may be what its instance is yet to
// be made from: its arguments, the only one of them, or 0.
ExceptionText ReadException(ObjectReader& objects, uint64_t type, uint64_t value);

// An exception that another one names.
struct RelatedException {
  // "cause" (raise … from it), "context" (was being handled), "suppressed context" (of a raise …
  // from None); of a group's member "".
  std::string relation;
  uint64_t object = 0;
  ExceptionText text;
  std::optional<TracebackEntry> raised;  // the innermost of its traceback
  std::vector<RelatedException> members;
};
// What the exception `object` came of, and what that came of, as far as Python would print them,
// and then the first that it would not.
std::vector<RelatedException> ChainOf(FrameReader& frames, uint64_t object);
// The exceptions of a group; empty where it is none.
std::vector<RelatedException> MembersOf(FrameReader& frames, uint64_t object);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_EXCEPTIONS_H_
