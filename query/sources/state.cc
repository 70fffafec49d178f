// SPDX-License-Identifier: MIT

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

// Memory in rows of at most this many bytes.
constexpr uint64_t kMemoryChunk = 16 << 20;
constexpr uint64_t kMemoryMost = 1 << 30;
// Of an address without a length.
constexpr uint64_t kMemoryDefault = 64;

// A row per run of known or of unknown bytes.
class MemorySource : public Operator {
 public:
  MemorySource(const Process& process, AddressRange range, Time t, std::shared_ptr<Outcome> outcome,
               ScanControl* control)
      : process_(process),
        left_(range),
        time_(t),
        outcome_(std::move(outcome)),
        control_(control) {}

  absl::StatusOr<bool> Next(Row* row) override {
    if (begin_ == image_.bytes.size()) {
      if (left_.empty()) return false;
      if (control_ && control_->cancelled) {
        outcome_->MarkInterrupted();
        return false;
      }
      const uint64_t size = std::min(left_.size(), kMemoryChunk);
      ASSIGN_OR_RETURN(image_, process_.Memory(left_.begin, size, time_));
      if (image_.bytes.size() != size || image_.present.size() != size) {
        return absl::InternalError("the store gave less memory than was asked for");
      }
      left_.begin += size;
      begin_ = 0;
    }
    const bool present = image_.present[begin_];
    size_t end = begin_;
    while (end < image_.bytes.size() && image_.present[end] == present) ++end;
    const Address at = image_.begin + begin_;
    if (!present && !explained_) {
      explained_ = true;
      outcome_->AddNote(process_.DescribeUnmapped(at, time_));
    }
    row->clear();
    row->push_back(time_);
    row->push_back(at);
    row->push_back(OfCount(end - begin_));
    row->push_back(present ? Value(Bytes{image_.bytes.substr(begin_, end - begin_)})
                           : Value(Null{}));
    begin_ = end;
    ++outcome_->source_rows;
    return true;
  }

 private:
  const Process& process_;
  AddressRange left_;
  Time time_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  MemoryImage image_;
  size_t begin_ = 0;  // of the next run in image_
  bool explained_ = false;
};

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Memory& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  EvaluateAt where;
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  if (query.clauses.at || query.clauses.frame || thread) where.time = at;
  where.thread = thread;
  ASSIGN_OR_RETURN(where.inlined, InlinedAt(query.clauses.at, ask));
  if (query.clauses.frame) where.frame = query.clauses.frame->value;
  ASSIGN_OR_RETURN(ResolvedLocation location,
                   ResolveLocation(context, source.location, kMemoryDefault, where));
  const AddressRange range = location.ranges[0];
  if (range.size() > kMemoryMost) {
    return ErrorAt(source.location.range, "more than 1 GiB of memory at once",
                   "ask for smaller ranges");
  }
  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "size", Type::kInteger);
  Add(&plan, "bytes", Type::kBytes);
  plan.presentation.layout = Presentation::Layout::kHexDump;
  if (!location.note.empty()) plan.notes.push_back(location.note);
  plan.open = [&process, range, t = at](const SourceRequest& request) {
    return absl::StatusOr<OperatorPtr>(std::make_unique<MemorySource>(
        process, range, t, request.outcome, request.options->control));
  };
  plan.explain = [text = location.text, t = at](const SourceRequest&) {
    return absl::StatusOr<std::string>(
        fmt::format("memory {} at time {}: the pages at the end of the last block that touched "
                    "them, and the writes of one block",
                    text, t.v));
  };
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::ShowRegisters&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> asked, ResolveThread(context, query.clauses.thread));
  std::vector<ThreadNo> threads;
  if (query.clauses.thread && query.clauses.thread->all) {
    for (const Thread& thread : process.threads()) {
      if (thread.start <= at && at <= thread.end) threads.push_back(thread.number);
    }
  } else if (asked) {
    threads.push_back(*asked);
  } else {
    ASSIGN_OR_RETURN(ThreadNo running, process.ThreadAt(at));
    threads.push_back(running);
  }
  SourcePlan plan;
  AddMoment(&plan);
  for (int i = 0; i < kGprCount; ++i) {
    Add(&plan, GprName(static_cast<Gpr>(i)), Type::kValue);
  }
  Add(&plan, "rip", Type::kValue);
  plan.presentation.layout = Presentation::Layout::kRecord;
  const ast::Range range = query.clauses.thread ? query.clauses.thread->range : query.source_range;
  SetCompute(
      &plan,
      [&process, threads, t = at, range,
       one = threads.size() == 1]() -> absl::StatusOr<std::vector<Row>> {
        std::vector<Row> rows;
        for (const ThreadNo thread : threads) {
          absl::StatusOr<Registers> registers = process.RegistersAt(t, thread);
          if (absl::IsNotFound(registers.status())) {
            if (!one) continue;
            return ErrorAt(range, std::string(registers.status().message()));
          }
          if (!registers.ok()) return registers.status();
          Row row = {t, OfThread(thread), registers->pc};
          for (const uint64_t gpr : registers->gpr) row.push_back(Word{gpr});
          row.push_back(Word{registers->pc.v});
          rows.push_back(std::move(row));
        }
        return rows;
      },
      fmt::format("registers at time {}: the block's snapshot and a walk inside the block", at.v));
  return plan;
}

}  // namespace ttq
