// SPDX-License-Identifier: MIT

#include "query/rows/by_python.h"

#include <algorithm>

#include "base/status_macros.h"
#include "query/cpython/code_names.h"
#include "query/language/diagnostic.h"

namespace ttq::python {
namespace {

class Filter : public Operator {
 public:
  Filter(OperatorPtr input, std::shared_ptr<ByPython> by, size_t time_slot, size_t thread_slot)
      : input_(std::move(input)),
        by_(std::move(by)),
        time_slot_(time_slot),
        thread_slot_(thread_slot) {}
  absl::StatusOr<bool> Next(Row* row) override {
    while (true) {
      absl::StatusOr<bool> more = input_->Next(row);
      if (!more.ok() || !*more) return more;
      const Time* time = (*row)[time_slot_].get<Time>();
      const int64_t* thread = (*row)[thread_slot_].get<int64_t>();
      if (!time || !thread) continue;
      absl::StatusOr<bool> passes = by_->Passes(ThreadNo(static_cast<uint32_t>(*thread)), *time);
      if (!passes.ok() || *passes) return passes;
    }
  }

 private:
  OperatorPtr input_;
  std::shared_ptr<ByPython> by_;
  size_t time_slot_, thread_slot_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ByPython>> ByPython::Make(const Context& context, const ast::By& by,
                                                         TimeSpan span, ScanControl* control) {
  auto history = context.PythonFrames(control);
  if (absl::IsNotFound(history.status())) {
    return ErrorAt(by.range, std::string(history.status().message()));
  }
  if (!history.ok()) return history.status();
  ASSIGN_OR_RETURN(std::vector<uint32_t> codes, FindCodes(**history, by.what));
  std::shared_ptr<ByPython> made(new ByPython(&context, control));
  if (const auto* place = std::get_if<ast::FileLine>(&by.what)) made->line_ = place->line;
  ASSIGN_OR_RETURN(made->runs_, (*history)->RunsOf(codes, span));
  std::stable_sort(made->runs_.begin(), made->runs_.end(),
                   [](const FrameHistory::Run& a, const FrameHistory::Run& b) {
                     return std::pair(a.thread, a.span.begin) < std::pair(b.thread, b.span.begin);
                   });
  return made;
}

absl::StatusOr<bool> ByPython::Passes(ThreadNo thread, Time t) {
  auto after = std::partition_point(runs_.begin(), runs_.end(), [&](const FrameHistory::Run& run) {
    return std::pair(run.thread, run.span.begin) <= std::pair(thread, t);
  });
  if (after == runs_.begin()) return false;
  --after;
  if (after->thread != thread || !after->span.Contains(t)) return false;
  if (line_ == 0) return true;
  ASSIGN_OR_RETURN(std::optional<SourceLocation> place, provenance_.Of(thread, t));
  return place && place->line == static_cast<int>(line_);
}

OperatorPtr MakeByPython(OperatorPtr input, std::shared_ptr<ByPython> by, size_t time_slot,
                         size_t thread_slot) {
  return std::make_unique<Filter>(std::move(input), std::move(by), time_slot, thread_slot);
}

}  // namespace ttq::python
