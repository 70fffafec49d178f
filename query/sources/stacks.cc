// SPDX-License-Identifier: MIT

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/source_text.h"
#include "query/cpython/state.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/process/stack.h"
#include "query/rows/frame_values.h"
#include "query/rows/mixed_stack.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

// Gives the frames of one thread after the other.
class StackSource : public Operator {
 public:
  StackSource(const Context& context, std::vector<ThreadNo> threads, Time t, ast::Range range,
              bool mixed, std::optional<uint32_t> inlined, const SourceRequest& request)
      : context_(context),
        threads_(std::move(threads)),
        time_(t),
        range_(range),
        mixed_(mixed),
        inlined_(inlined),
        outcome_(request.outcome),
        control_(request.options->control),
        unwinder_(context),
        source_(&context.process()) {}

  absl::StatusOr<bool> Next(Row* row) override { return TellOutcome(TryNext(row), outcome_.get()); }

 private:
  absl::StatusOr<bool> TryNext(Row* row) {
    while (frame_ == frames_.size()) {
      if (thread_ == threads_.size()) return false;
      RETURN_IF_ERROR(NotInterrupted(control_));
      RETURN_IF_ERROR(LoadThread(threads_[thread_++]));
    }
    const MixedFrame& frame = frames_[frame_++];
    RETURN_IF_ERROR(frame.native ? Fill(*frame.native, row) : Fill(frame, *frame.python, row));
    return true;
  }

  absl::Status Fill(const Frame& frame, Row* row) {
    ASSIGN_OR_RETURN(Value args, FrameArguments(context_, *moment_, stack_.thread, frame));
    *row = {time_,
            OfThread(stack_.thread),
            int64_t{frame.number},
            frame.pc,
            OfText(frame.function),
            OfText(frame.module),
            OfText(frame.file),
            frame.line > 0 ? Value(int64_t{frame.line}) : Value(Null{}),
            std::move(args),
            FrameKindName(frame.kind),
            frame.cfa ? Value(*frame.cfa) : Value(Null{})};
    if (mixed_) row->insert(row->end(), {"native", Null{}, Null{}});
    return absl::OkStatus();
  }

  absl::Status Fill(const MixedFrame& mixed, const python::Frame& frame, Row* row) {
    const int line = frame.position.line;
    *row = {time_,
            OfThread(stack_.thread),
            OfCount(mixed.number),
            Null{},
            frame.code->qualname,
            Null{},
            OfText(frame.code->filename),
            line > 0 ? Value(int64_t{line}) : Value(Null{}),
            ArgumentsNow(*mixed.instance, frame),
            Null{},
            Null{},
            "python",
            OfText(source_.Line(frame.code->filename, line)),
            Address(frame.address)};
    for (; remarks_ < source_.remarks().size(); ++remarks_) {
      outcome_->AddNote(source_.remarks()[remarks_]);
    }
    return state_->memory().status();
  }

  absl::Status LoadThread(ThreadNo thread) {
    frames_.clear();
    stack_ = {};
    frame_ = 0;
    if (!moment_) {
      ASSIGN_OR_RETURN(moment_, context_.process().At(time_));
    }
    StackOptions options;
    if (inlined_) {
      // It is told of the thread that runs.
      ASSIGN_OR_RETURN(ThreadNo running, moment_->RunningThread());
      if (running == thread) options.inlined = inlined_;
    }
    absl::StatusOr<Stack> stack = unwinder_.StackOf(*moment_, thread, options);
    if (absl::IsNotFound(stack.status())) {
      if (threads_.size() > 1) return absl::OkStatus();
      return ErrorAt(range_, std::string(stack.status().message()));
    }
    if (!stack.ok()) return stack.status();
    stack_ = *std::move(stack);
    Describe(stack_, outcome_.get());
    if (mixed_) {
      RETURN_IF_ERROR(LoadPython(thread));
    }
    ASSIGN_OR_RETURN(frames_, Interleave(context_.process(), stack_, python_, outcome_.get()));
    return absl::OkStatus();
  }

  absl::Status LoadPython(ThreadNo thread) {
    if (!state_) {
      if (!context_.HasPython()) {
        outcome_->AddNote("the process has no Python");
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(state_,
                       python::PythonState::At(&context_.recording(), &context_.process(), time_));
      if (!state_->problem().empty()) outcome_->AddNote(state_->problem());
    }
    python_ = state_->Stacks(thread);
    return state_->memory().status();
  }

  const Context& context_;
  std::vector<ThreadNo> threads_;
  Time time_;
  ast::Range range_;
  bool mixed_;
  std::optional<uint32_t> inlined_;  // of the thread that runs
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  Unwinder unwinder_;
  std::unique_ptr<Moment> moment_;
  std::unique_ptr<python::PythonState> state_;
  python::SourceText source_;
  size_t remarks_ = 0;
  // Of the thread whose frames are being given.
  Stack stack_;
  std::vector<python::PythonState::ThreadStack> python_;
  std::vector<MixedFrame> frames_;
  size_t thread_ = 0, frame_ = 0;
};

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Backtrace&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  absl::StatusOr<std::optional<uint32_t>> inlined = InlinedAt(query.clauses.at, ask);
  if (!inlined.ok()) return inlined.status();
  ASSIGN_OR_RETURN(std::optional<ThreadNo> asked, ResolveThread(context, query.clauses.thread));
  std::vector<ThreadNo> threads;
  const bool all = query.clauses.thread && query.clauses.thread->all;
  if (all) {
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
  const bool mixed = query.clauses.mixed;
  if (mixed) {
    Add(&plan, "language", Type::kString);
    Add(&plan, "source", Type::kString);
    Add(&plan, "frame_address", Type::kAddress);
  }
  plan.time_slot = 0;
  plan.pc_slot = 3;
  plan.presentation.table_columns = {"frame", "pc", "function", "args"};
  if (mixed)
    plan.presentation.table_columns.insert(plan.presentation.table_columns.begin() + 1, "language");
  if (all) {
    plan.presentation.table_columns.insert(plan.presentation.table_columns.begin(), "thread");
  }
  const ast::Range range = query.clauses.thread ? query.clauses.thread->range : query.source_range;
  plan.open = [&context, threads, t = at, range, mixed,
               inlined = *inlined](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    return OperatorPtr(
        std::make_unique<StackSource>(context, threads, t, range, mixed, inlined, request));
  };
  plan.explain = [t = at, n = threads.size(), mixed](const SourceRequest&) {
    return absl::StatusOr<std::string>(
        fmt::format("the stack of {} at time {}: registers and memory then, and the modules' "
                    "unwind information{}",
                    n == 1 ? "one thread" : fmt::format("{} threads", n), t.v,
                    mixed ? "; Python's frames from memory alone" : ""));
  };
  return plan;
}

}  // namespace ttq
