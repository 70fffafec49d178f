// SPDX-License-Identifier: MIT

#include "query/sources/builder.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "fmt/core.h"
#include "query/outcome.h"

namespace ttq {

Value OfThread(ThreadNo thread) { return thread.v == 0 ? Value(Null{}) : Value(int64_t{thread.v}); }

Value OfCount(uint64_t n) {
  return static_cast<int64_t>(std::min<uint64_t>(n, std::numeric_limits<int64_t>::max()));
}

// Times that never came are null.
Value OfTime(Time t) { return t == kTimeMax ? Value(Null{}) : Value(t); }

Value OfText(const std::string& s) { return s.empty() ? Value(Null{}) : Value(s); }

std::string ActorName(const Access& access) {
  switch (access.actor) {
    case Actor::kInstruction:
      return "instruction";
    case Actor::kSyscall:
      return "syscall " + SyscallName(access.syscall);
    case Actor::kSignal:
      return "signal";
    case Actor::kMap:
      return "map";
    case Actor::kThreadExit:
      return "thread exit";
  }
  return "unknown";
}

absl::Status NotInterrupted(const ScanControl* control) {
  const bool ends = control != nullptr && control->cancelled.load(std::memory_order_relaxed);
  return ends ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::StatusOr<bool> TellOutcome(absl::StatusOr<bool> more, Outcome* outcome) {
  if (absl::IsCancelled(more.status())) {
    outcome->MarkInterrupted();
    return false;
  }
  if (!more.ok()) return more;
  if (*more) {
    ++outcome->source_rows;
  } else {
    outcome->source_ended = true;
  }
  return more;
}

// Of a question about no time at all.
OperatorPtr NoRows(const SourceRequest& request) {
  request.outcome->source_ended = true;
  return MakeRows({});
}

void SetCompute(SourcePlan* plan, ComputedSource::Compute compute, std::string description) {
  plan->open =
      [compute = std::move(compute)](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    return OperatorPtr(std::make_unique<ComputedSource>(compute, request.outcome));
  };
  plan->explain = [description = std::move(description)](const SourceRequest&) {
    return absl::StatusOr<std::string>(description);
  };
}

// A column at the next free slot.
void Add(SourcePlan* plan, std::string name, Type type) {
  plan->columns.push_back({{std::move(name), type}, plan->width++, Derived::kNone});
}

void AddRepr(SourcePlan* plan, std::string name) {
  Add(plan, std::move(name), Type::kString);
  plan->columns.back().column.any = true;
}

void AddPlace(SourcePlan* plan) {
  plan->columns.push_back({{"function", Type::kString}, 0, Derived::kLocation});
  plan->columns.push_back({{"module", Type::kString}, 0, Derived::kLocation});
  plan->columns.push_back({{"file", Type::kString}, 0, Derived::kLocation});
  plan->columns.push_back({{"line", Type::kInteger}, 0, Derived::kLocation});
}

// The columns of every row that happens at a moment: slots 0, 1 and 2 are time, thread and pc.
void AddMoment(SourcePlan* plan) {
  plan->time_slot = plan->width;
  Add(plan, "time", Type::kTime);
  plan->thread_slot = plan->width;
  Add(plan, "thread", Type::kInteger);
  plan->pc_slot = plan->width;
  Add(plan, "pc", Type::kAddress);
  AddPlace(plan);
  plan->columns.push_back({{"python", Type::kObject}, 0, Derived::kPython});
}

std::string SpanText(const TimeSpan& span) {
  const bool from = span.begin > Time(0), to = span.end != kTimeMax;
  if (from && to) return fmt::format(" between times {} and {}", span.begin.v, span.end.v);
  if (span.begin == kTimeMax) return " after the end of time";
  if (from) return fmt::format(" after time {}", span.begin.v - 1);
  if (to) return fmt::format(" before time {}", span.end.v);
  return "";
}

TimeSpan Intersect(const TimeSpan& a, const TimeSpan& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

void NotePastEnd(const TimeSpan& span, const ProcessInfo& info, SourcePlan* plan) {
  if (span.begin > info.end + 1 && span.begin != kTimeMax) {
    plan->notes.push_back(fmt::format("time {} is past the end of the recording, {}",
                                      span.end == kTimeMax ? span.begin.v - 1 : span.begin.v,
                                      info.end.v));
  }
}

std::string ScanText(std::string_view what, const ScanPlan& scan) {
  return fmt::format("{}: {}, at most {} of {} blocks{}", what,
                     scan.uses_index ? "by index" : "by scanning in parallel", scan.blocks,
                     scan.blocks_total,
                     scan.description.empty() ? "" : absl::StrCat(" (", scan.description, ")"));
}

}  // namespace ttq
