// SPDX-License-Identifier: MIT
//
// What questions about Python's past have in common.

#ifndef TTQ_QUERY_SOURCES_PY_HISTORY_H_
#define TTQ_QUERY_SOURCES_PY_HISTORY_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/threads.h"
#include "query/cpython/context.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/state.h"
#include "query/language/ast.h"
#include "query/rows/run_options.h"
#include "query/rows/source_plan.h"

namespace ttq {

struct HistoryAsked {
  TimeSpan span;
  std::optional<ThreadNo> thread;
  std::shared_ptr<const python::FrameHistory> history;
};

// The span and the thread of a query and the history of frames it is about; kGrowing: which may
// still be made. An error at its place where there is no Python.
enum class HistoryWanted { kWhole, kGrowing };
absl::StatusOr<HistoryAsked> ResolveHistory(const ast::Query& query, const Context& context,
                                            const RunOptions& options, const TimeOfQuery& ask,
                                            HistoryWanted wanted = HistoryWanted::kWhole);

// The arguments of the frame that was entered, an object of name to value, at a state just after;
// and what a frame returned, at a state just before `end`, its return.
Value PyArguments(const python::FrameHistory& history, python::PythonState::Instance& instance,
                  const python::Transition& call);
Value PyResult(const python::FrameHistory& history, python::PythonState::Instance& instance,
               const python::Transition& end);

// Rows of parts of a history, which several threads make ahead of the reader. While threads still
// make the history itself, one part is made at a time. The destructor waits for the threads:
// declare it after the objects that they use.
class RowsAhead {
 public:
  explicit RowsAhead(const python::FrameHistory& history) : history_(history) {}

  // Whether another part should be begun.
  bool wants() const { return history_.complete() ? parts_.wants() : parts_.empty(); }
  void Begin(const std::function<absl::StatusOr<std::vector<Row>>()>& part) { parts_.Begin(part); }
  // The next row of what was begun, after `begin_more` has had its turn. False: there is none.
  absl::StatusOr<bool> Next(Row* row, absl::FunctionRef<absl::Status()> begin_more);

 private:
  const python::FrameHistory& history_;
  std::vector<Row> rows_;  // of the part taken last
  size_t next_ = 0;
  ReadAhead<absl::StatusOr<std::vector<Row>>> parts_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_PY_HISTORY_H_
