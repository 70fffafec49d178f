// SPDX-License-Identifier: MIT

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/stack.h"

namespace ttq {
namespace {

// Gives the frames of one thread after the other.
class StackSource : public Operator {
 public:
  StackSource(const Context& context, std::vector<ThreadNo> threads, Time t, ast::Range range,
              const SourceRequest& request)
      : context_(context),
        threads_(std::move(threads)),
        time_(t),
        range_(range),
        outcome_(request.outcome),
        control_(request.options->control),
        unwinder_(context) {}

  absl::StatusOr<bool> Next(Row* row) override {
    while (frame_ == stack_.frames.size()) {
      if (thread_ == threads_.size()) {
        outcome_->source_ended = true;
        return false;
      }
      if (control_ && control_->cancelled.load(std::memory_order_relaxed)) {
        outcome_->interrupted = true;
        outcome_->MarkIncomplete(kInterrupted);
        return false;
      }
      if (absl::Status s = LoadThread(threads_[thread_++]); !s.ok()) return s;
    }
    const Frame& frame = stack_.frames[frame_++];
    absl::StatusOr<Value> args = FrameArguments(context_, *moment_, stack_.thread, frame);
    if (!args.ok()) return args.status();
    *row = {time_,
            OfThread(stack_.thread),
            int64_t{frame.number},
            frame.pc,
            OfText(frame.function),
            OfText(frame.module),
            OfText(frame.file),
            frame.line > 0 ? Value(int64_t{frame.line}) : Value(Null{}),
            *std::move(args),
            FrameKindName(frame.kind),
            frame.cfa ? Value(*frame.cfa) : Value(Null{})};
    ++outcome_->source_rows;
    return true;
  }

 private:
  absl::Status LoadThread(ThreadNo thread) {
    stack_ = {};
    frame_ = 0;
    if (!moment_) {
      absl::StatusOr<std::unique_ptr<Moment>> moment = context_.process().At(time_);
      if (!moment.ok()) return moment.status();
      moment_ = *std::move(moment);
    }
    absl::StatusOr<Stack> stack = unwinder_.StackOf(*moment_, thread);
    if (absl::IsNotFound(stack.status())) {
      if (threads_.size() > 1) return absl::OkStatus();
      return ErrorAt(range_, std::string(stack.status().message()));
    }
    if (!stack.ok()) return stack.status();
    stack_ = *std::move(stack);
    Describe(stack_, outcome_.get());
    return absl::OkStatus();
  }

  const Context& context_;
  std::vector<ThreadNo> threads_;
  Time time_;
  ast::Range range_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  Unwinder unwinder_;
  std::unique_ptr<Moment> moment_;
  Stack stack_;
  size_t thread_ = 0, frame_ = 0;
};

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Backtrace&, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  if (query.clauses.mixed) {
    return ErrorAt(query.source_range, "`backtrace mixed` is not yet available in this version",
                   "use `backtrace` and `py backtrace` instead");
  }
  absl::StatusOr<Time> at = context.ResolveAt(query.clauses.at, ask);
  if (!at.ok()) return at.status();
  absl::StatusOr<std::optional<ThreadNo>> asked = context.ResolveThread(query.clauses.thread);
  if (!asked.ok()) return asked.status();
  std::vector<ThreadNo> threads;
  const bool all = query.clauses.thread && query.clauses.thread->all;
  if (all) {
    for (const Thread& thread : process.threads()) {
      if (thread.start <= *at && *at <= thread.end) threads.push_back(thread.number);
    }
  } else if (*asked) {
    threads.push_back(**asked);
  } else {
    absl::StatusOr<ThreadNo> running = process.ThreadAt(*at);
    if (!running.ok()) return running.status();
    threads.push_back(*running);
  }
  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "thread", Type::kInteger);
  Add(&plan, "frame", Type::kInteger);
  Add(&plan, "pc", Type::kAddress);
  Add(&plan, "function", Type::kString);
  Add(&plan, "module", Type::kString);
  Add(&plan, "file", Type::kString);
  Add(&plan, "line", Type::kInteger);
  Add(&plan, "args", Type::kObject);
  Add(&plan, "kind", Type::kString);
  Add(&plan, "cfa", Type::kAddress);
  plan.time_slot = 0;
  plan.pc_slot = 3;
  plan.presentation.table_columns = {"frame", "pc", "function", "args"};
  if (all) {
    plan.presentation.table_columns.insert(plan.presentation.table_columns.begin(), "thread");
  }
  const ast::Range range = query.clauses.thread ? query.clauses.thread->range : query.source_range;
  plan.open = [&context, threads, t = *at,
               range](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    return OperatorPtr(std::make_unique<StackSource>(context, threads, t, range, request));
  };
  plan.explain = [t = *at, n = threads.size()](const SourceRequest&) {
    return absl::StatusOr<std::string>(
        fmt::format("the stack of {} at time {}: registers and memory then, and the modules' "
                    "unwind information",
                    n == 1 ? "one thread" : fmt::format("{} threads", n), t.v));
  };
  return plan;
}

}  // namespace ttq
