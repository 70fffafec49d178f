// SPDX-License-Identifier: MIT
//
// Exceptions read from memory: their type and text, cause and context, and their tracebacks.
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

  bool operator==(const TracebackEntry&) const = default;
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

// The exception that words in memory hold: it, or up to 3.11 its type, its value and its traceback.
struct HeldException {
  uint64_t type = 0, value = 0, traceback = 0;
  // What tells it from others: the instance, or what it is yet to be made from.
  uint64_t key() const { return value != 0 ? value : type; }
};
// nullopt: none.
std::optional<HeldException> ReadHeld(Memory& memory, const Layout& layout, uint64_t word,
                                      int words);

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

// What was read of an exception when it was raised.
struct RaisedException {
  uint64_t object = 0;  // its instance; 0: not made yet
  ExceptionText text;
  std::vector<RelatedException> chain, members;
  // What was in front of its traceback before, the outermost first.
  std::vector<TracebackEntry> before;
};
RaisedException ReadRaised(FrameReader& frames, const HeldException& held);

// One that a thread state has at a time.
struct ExceptionInFlight {
  RaisedException exception;
  std::vector<TracebackEntry> traceback;  // the outermost first
  // An `except`, `finally` or `with` has it in hand; else it is set, and on its way.
  bool is_handled = false;
};
// That on its way first, then those in hand, the latest first.
std::vector<ExceptionInFlight> ExceptionsInFlight(FrameReader& frames, uint64_t thread_state);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_EXCEPTIONS_H_
