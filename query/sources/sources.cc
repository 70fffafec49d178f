// SPDX-License-Identifier: MIT

#include "query/sources.h"

#include "fmt/format.h"
#include "query/python/by_python.h"
#include "query/sources/plans.h"

namespace ttq {

namespace {

// Leaves the rows of what was done by that Python code.
absl::Status Restrict(const ast::By& by, TimeSpan span, const Context& context,
                      const RunOptions& options, SourcePlan* plan) {
  auto filter = python::ByPython::Make(context, by, span, options.control);
  if (!filter.ok()) return filter.status();
  plan->open =
      [open = std::move(plan->open), filter = *filter, time = plan->time_slot,
       thread = plan->thread_slot](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    absl::StatusOr<OperatorPtr> rows = open(request);
    if (!rows.ok()) return rows.status();
    return python::MakeByPython(*std::move(rows), filter, time, thread);
  };
  const std::string code = ast::ToString(by.what);
  plan->explain = [explain = std::move(plan->explain),
                   code](const SourceRequest& request) -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> text = explain(request);
    if (!text.ok()) return text.status();
    return fmt::format("{}; those while Python was in {}", *text, code);
  };
  plan->presentation.no_rows = fmt::format("none while Python was in {}", code);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SourcePlan> PlanSource(const ast::Query& query, const Context& context,
                                      const RunOptions& options, const Context::TimeOfQuery& ask) {
  absl::StatusOr<SourcePlan> plan = std::visit(
      [&](const auto& source) { return Plan(source, query, context, options, ask); }, query.source);
  if (!plan.ok() || !query.clauses.by || !query.clauses.by->python) return plan;
  absl::StatusOr<TimeSpan> span = context.ResolveSpan(query.clauses.span, ask);
  if (!span.ok()) return span.status();
  if (absl::Status s = Restrict(*query.clauses.by, *span, context, options, &*plan); !s.ok()) {
    return s;
  }
  return plan;
}

}  // namespace ttq
