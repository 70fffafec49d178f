// SPDX-License-Identifier: MIT
//
// What the rows of `trace of` and `py trace of` have in common: their columns, and how changes and
// calls are shown.

#ifndef TTQ_QUERY_SOURCES_TRACE_ROWS_H_
#define TTQ_QUERY_SOURCES_TRACE_ROWS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "query/language/ast.h"
#include "query/rows/source_plan.h"
#include "query/sources/trace_fold.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

enum TraceSlot : size_t {
  kTraceTime,
  kTraceThread,
  kTracePc,
  kTraceFunction,
  kTraceModule,
  kTraceFile,
  kTraceLine,
  kTraceDepth,
  kTraceTimes,
  kTraceLastTime,
  kTraceSource,
  kTraceChanges,
  kTraceCalls,
  kTraceEnded,
  kTraceFrame,    // Python's
  kTraceInlined,  // of native code
  kTraceWidth
};

// The columns of both; `depth` as TraceDepth has it. The caller adds
// the columns of native or of Python code alone.
SourcePlan PlanOfTrace(uint32_t depth, bool python = false);
// 1 without a clause. An error at its place for one that is too deep.
absl::StatusOr<uint32_t> TraceDepth(const ast::Query& query);
// An activation that a query names needs no span.
absl::Status RefuseSpan(const ast::Query& query);
// The time that a query names an activation by. An error at its place for one past the end.
absl::StatusOr<QueryTime> TimeOfTrace(const Context& context, const ast::Time& time,
                                      const TimeOfQuery& ask);
// Nothing folded.
std::vector<FoldedStep> EachStep(size_t count);

struct Change {
  std::string name;
  std::optional<std::string> before;  // nullopt: it had no value
  std::optional<std::string> after;
};
// A list of objects of `name`, `old` and `new`, with `last_old` and `last_new` where the last time
// that a line of a loop ran changed it too; null without any.
Value ChangeList(const std::vector<Change>& first, const std::vector<Change>& last);

struct CallShown {
  Time time;
  std::optional<Time> returned;
  List arguments;
  std::string arguments_text;
  std::optional<std::string> result;
};
// An object; of several calls the first and the last are shown.
Value CallValue(const std::string& function, uint64_t times, const CallShown& first,
                const CallShown& last, const char* kind);

// Work on states of the process, done in the order of time, whatever order it came in.
class MomentJobs {
 public:
  using Job = std::function<absl::Status(Moment*)>;
  void Add(Time t, Job job) { jobs_.emplace_back(t, std::move(job)); }
  absl::Status Run(const Process& process, ScanControl* control);

 private:
  std::vector<std::pair<Time, Job>> jobs_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_TRACE_ROWS_H_
