// SPDX-License-Identifier: MIT

#include "query/sources/sources.h"

#include <type_traits>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/rows/by_python.h"
#include "query/rows/run_options.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"
#include "store/read/moment_info.h"

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

// The sources that are about one time: memory and registers then tell all that they say. Everything
// else is about what happened, which of a core dump or a snapshot is not known. A new source counts
// as that until it is listed here.
template <class Source, class... Listed>
constexpr bool kIsOneOf = (std::is_same_v<Source, Listed> || ...);
template <class Source>
constexpr bool kIsAboutState =
    kIsOneOf<Source, ast::Memory, ast::Print, ast::ShowRegisters, ast::Backtrace, ast::ShowSource,
             ast::Disassemble, ast::Threads, ast::Waits, ast::Modules, ast::Maps, ast::Crash,
             ast::PyBacktrace, ast::PyLocals, ast::PySource, ast::PyPrint, ast::PyExceptions,
             ast::Object, ast::ObjectsOfType, ast::Heap>;

// Of a process of which one moment alone is known: that nothing is known to have happened must
// never look like proof that nothing did.
absl::Status RefuseHistory(const ast::Query& query, const Process& process) {
  const MomentInfo& info = MomentInfoOf(process);
  if (IsAboutState(query.source) || !info.history_unknown()) return absl::OkStatus();
  return ErrorAt(query.source_range,
                 fmt::format("what happened before {} is unknown: it is no recording",
                             MomentName(info.beginning)),
                 "it can be asked for its state: `crash`, `backtrace all threads`, `print`, "
                 "`memory`, `py backtrace`, `object`; to know what happened, use `ttq record`");
}

}  // namespace

bool IsAboutState(const ast::Source& source) {
  return std::visit([](const auto& s) { return kIsAboutState<std::decay_t<decltype(s)>>; }, source);
}

absl::StatusOr<SourcePlan> PlanSource(const ast::Query& query, const Context& context,
                                      const RunOptions& options, const TimeOfQuery& ask) {
  RETURN_IF_ERROR(RefuseHistory(query, context.process()));
  absl::StatusOr<SourcePlan> plan = std::visit(
      [&](const auto& source) { return Plan(source, query, context, options, ask); }, query.source);
  if (!plan.ok() || !query.clauses.by || !query.clauses.by->python) return plan;
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  RETURN_IF_ERROR(Restrict(*query.clauses.by, span, context, options, &*plan));
  return plan;
}

}  // namespace ttq
