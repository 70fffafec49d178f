// SPDX-License-Identifier: MIT
//
// What the files of this folder make their plans with: columns, operators over the store's cursors
// or over rows computed at once, and the words that all answers share.

#ifndef TTQ_QUERY_SOURCES_BUILDER_H_
#define TTQ_QUERY_SOURCES_BUILDER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "query/outcome.h"
#include "query/rows/operator.h"
#include "query/rows/source_plan.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

// Null for no thread.
Value OfThread(ThreadNo thread);
Value OfCount(uint64_t n);
// Times that never came are null.
Value OfTime(Time t);
// Empty text is null.
Value OfText(const std::string& s);
// "instruction", "syscall read", …
std::string ActorName(const Access& access);

// Cancelled when the question is to end.
absl::Status NotInterrupted(const ScanControl* control);
// What a source's Next gives for `more`, and tells its outcome: an interruption becomes the end.
absl::StatusOr<bool> TellOutcome(absl::StatusOr<bool> more, Outcome* outcome);

// Pulls from a cursor of the store.
template <class StoreRow>
class CursorSource : public Operator {
 public:
  using OpenCursor = std::function<absl::StatusOr<std::unique_ptr<Cursor<StoreRow>>>()>;
  using Fill = std::function<void(StoreRow&&, Row*)>;

  CursorSource(OpenCursor open, Fill fill, ScanControl* control, std::shared_ptr<Outcome> outcome)
      : open_(std::move(open)),
        fill_(std::move(fill)),
        control_(control),
        outcome_(std::move(outcome)) {}

  absl::StatusOr<bool> Next(Row* row) override { return TellOutcome(TryNext(row), outcome_.get()); }

 private:
  absl::StatusOr<bool> TryNext(Row* row) {
    RETURN_IF_ERROR(NotInterrupted(control_));
    if (!cursor_) {
      ASSIGN_OR_RETURN(cursor_, open_());
    }
    ASSIGN_OR_RETURN(std::optional<StoreRow> next, cursor_->Next());
    if (!next.has_value()) return false;
    row->clear();
    fill_(std::move(*next), row);
    return true;
  }

  OpenCursor open_;
  Fill fill_;
  ScanControl* control_;
  std::shared_ptr<Outcome> outcome_;
  std::unique_ptr<Cursor<StoreRow>> cursor_;
};

// Rows that are cheap enough to make all at once, when the first is asked for.
class ComputedSource : public Operator {
 public:
  using Compute = std::function<absl::StatusOr<std::vector<Row>>()>;
  ComputedSource(Compute compute, std::shared_ptr<Outcome> outcome)
      : compute_(std::move(compute)), outcome_(std::move(outcome)) {}
  absl::StatusOr<bool> Next(Row* row) override { return TellOutcome(TryNext(row), outcome_.get()); }

 private:
  absl::StatusOr<bool> TryNext(Row* row) {
    if (!rows_) {
      ASSIGN_OR_RETURN(std::vector<Row> rows, compute_());
      rows_ = MakeRows(std::move(rows));
    }
    return rows_->Next(row);
  }

  Compute compute_;
  std::shared_ptr<Outcome> outcome_;
  OperatorPtr rows_;
};

// Of a question about no time at all.
OperatorPtr NoRows(const SourceRequest& request);

// The plan's rows are all computed when the first is asked for; `description` explains how.
void SetCompute(SourcePlan* plan, ComputedSource::Compute compute, std::string description);

// A column at the next free slot.
void Add(SourcePlan* plan, std::string name, Type type);
// Of what Python prints of objects: ReprValue's.
void AddRepr(SourcePlan* plan, std::string name);
// function, module, file and line, derived from time and pc.
void AddPlace(SourcePlan* plan);
// The columns of every row that happens at a moment: slots 0, 1 and 2 are time, thread and pc.
void AddMoment(SourcePlan* plan);

// " after time 5", " between …", or "".
std::string SpanText(const TimeSpan& span);
TimeSpan Intersect(const TimeSpan& a, const TimeSpan& b);
// Adds a note when the span begins after the recording's end.
void NotePastEnd(const TimeSpan& span, const ProcessInfo& info, SourcePlan* plan);
std::string ScanText(std::string_view what, const ScanPlan& scan);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_BUILDER_H_
