// SPDX-License-Identifier: MIT

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {

absl::StatusOr<SourcePlan> Plan(const ast::Events& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  EventQuery base;
  if (source.kind) {
    std::string_view name = *source.kind;
    base.kind = EventKindFromName(name);
    // "events syscalls" reads well too.
    if (!base.kind && name.ends_with('s')) {
      base.kind = EventKindFromName(name.substr(0, name.size() - 1));
    }
    if (!base.kind) {
      const std::vector<std::string> names(kEventKindNames.begin() + 1, kEventKindNames.end());
      const std::vector<std::string> near = Nearest(name, names);
      const std::string message = fmt::format("there are no events of kind {}", name);
      if (!near.empty()) return UnknownAt(source.kind_range, message, near);
      return ErrorAt(source.kind_range, message,
                     absl::StrCat("the kinds are ", absl::StrJoin(names, ", ")));
    }
  }
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  base.span = span;
  base.thread = thread;
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "kind", Type::kString);
  Add(&plan, "detail", Type::kString);
  Add(&plan, "number", Type::kInteger);
  Add(&plan, "result", Type::kInteger);
  Add(&plan, "bytes", Type::kBytes);
  Add(&plan, "wall_ns", Type::kInteger);
  plan.presentation.table_columns = {"time", "thread", "kind", "detail", "function"};
  plan.presentation.no_rows =
      fmt::format("no {}event{}", source.kind ? absl::StrCat(EventKindName(*base.kind), " ") : "",
                  SpanText(span));
  plan.reversible = true;
  NotePastEnd(span, process.info(), &plan);
  plan.open = [&process, base](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    EventQuery refined = base;
    refined.span = Intersect(base.span, request.span);
    if (refined.span.empty()) return NoRows(request);
    if (!refined.thread) refined.thread = request.thread;
    refined.direction = request.direction;
    auto open = [&process, refined] { return process.Events(refined); };
    auto fill = [](Event&& event, Row* row) {
      row->push_back(event.time);
      row->push_back(OfThread(event.thread));
      row->push_back(event.pc == Address() ? Value(Null{}) : Value(event.pc));
      row->push_back(EventKindName(event.kind));
      row->push_back(std::move(event.detail));
      row->push_back(event.number);
      row->push_back(event.kind == EventKind::kSyscall ? Value(event.result) : Value(Null{}));
      row->push_back(event.kind == EventKind::kOutput ? Value(Bytes{std::move(event.bytes)})
                                                      : Value(Null{}));
      row->push_back(event.wall_ns == 0 ? Value(Null{}) : Value(event.wall_ns));
    };
    return OperatorPtr(std::make_unique<CursorSource<Event>>(open, fill, request.options->control,
                                                             request.outcome));
  };
  plan.explain = [base](const SourceRequest& request) {
    return absl::StatusOr<std::string>(fmt::format(
        "{} events{}, {}: by their order in the store, no block is decoded",
        base.kind ? EventKindName(*base.kind) : "all", SpanText(Intersect(base.span, request.span)),
        request.direction == Direction::kForward ? "first to last" : "last to first"));
  };
  return plan;
}

}  // namespace ttq
