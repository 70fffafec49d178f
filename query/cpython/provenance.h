// SPDX-License-Identifier: MIT
//
// Which Python code a thread was running when something happened natively: the innermost Python
// frame with its line, or the whole stack. Best asked in order of time.
//
// A few questions are answered from memory alone; with more of them the history of all frames is
// made (or is there already), which makes each cheap.
//
// Belongs to one thread and must not outlive its context.

#ifndef TTQ_QUERY_CPYTHON_PROVENANCE_H_
#define TTQ_QUERY_CPYTHON_PROVENANCE_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/source_text.h"
#include "query/cpython/state.h"
#include "query/value.h"

namespace ttq::python {

struct SourceLocation {
  std::string function, file;
  int line = 0;             // 0: not known
  uint32_t code = kNoCode;  // in the history, when it was asked
  bool operator==(const SourceLocation&) const = default;
};

// As the column `python` shows it: an object of function, file and line.
Value ValueOf(const SourceLocation& place);
Value ValueOf(const std::optional<SourceLocation>& place);
// Objects of `frame` (from 0), `function`, `file`, `line`, `source` and `frame_address`.
Value ValueOf(const Stack& stack, SourceText& source);

class Provenance {
 public:
  // `control` may be null.
  Provenance(const Context* context, ScanControl* control)
      : context_(*context), control_(control) {}

  // nullopt: the thread runs no Python then.
  absl::StatusOr<std::optional<SourceLocation>> Of(ThreadNo thread, Time t);
  // A list of the frames that `py backtrace` shows, innermost first; null without any.
  absl::StatusOr<Value> StackOf(ThreadNo thread, Time t);

  const Process& process() const { return context_.process(); }
  const Context& context() const { return context_; }

  // Python at t. Moves the one state there is. Null when the process has no Python at all.
  absl::StatusOr<PythonState*> StateAt(Time t);

 private:
  absl::StatusOr<std::optional<SourceLocation>> ByHistory(const FrameHistory& history,
                                                          ThreadNo thread, Time t);

  const Context& context_;
  ScanControl* control_;
  std::unique_ptr<PythonState> state_;
  std::unique_ptr<SourceText> source_;
  size_t asked_ = 0;
};

// For several threads: each has one at a time, which goes on from where it was.
class ProvenancePool {
 public:
  ProvenancePool(const Context* context, ScanControl* control)
      : context_(context), control_(control) {}
  std::unique_ptr<Provenance> Take();
  void Give(std::unique_ptr<Provenance> provenance);

 private:
  const Context* context_;
  ScanControl* control_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Provenance>> idle_;
};

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_PROVENANCE_H_
