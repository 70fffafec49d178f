// SPDX-License-Identifier: MIT

#include "query/engine/sources.h"

#include "base/status_macros.h"
#include "fmt/format.h"
#include "query/engine/by_python.h"
#include "query/engine/engine.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

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
    ASSIGN_OR_RETURN(OperatorPtr rows, open(request));
    return python::MakeByPython(std::move(rows), filter, time, thread);
  };
  const std::string code = ast::ToString(by.what);
  plan->explain = [explain = std::move(plan->explain),
                   code](const SourceRequest& request) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(std::string text, explain(request));
    return fmt::format("{}; those while Python was in {}", text, code);
  };
  plan->presentation.no_rows = fmt::format("none while Python was in {}", code);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SourcePlan> PlanSource(const ast::Query& query, const Context& context,
                                      const RunOptions& options, const TimeOfQuery& ask) {
  absl::StatusOr<SourcePlan> plan = std::visit(
      [&](const auto& source) { return Plan(source, query, context, options, ask); }, query.source);
  if (!plan.ok() || !query.clauses.by || !query.clauses.by->python) return plan;
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  RETURN_IF_ERROR(Restrict(*query.clauses.by, span, context, options, &*plan));
  return plan;
}

}  // namespace ttq
