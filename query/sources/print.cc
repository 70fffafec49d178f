// SPDX-License-Identifier: MIT
//
// `print EXPR`: a C expression on the state at a time.

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/ctypes/expression_at.h"
#include "query/ctypes/render.h"
#include "query/language/diagnostic.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
absl::StatusOr<SourcePlan> Plan(const ast::Print& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  ASSIGN_OR_RETURN(std::optional<uint32_t> inlined, InlinedAt(query.clauses.at, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  const uint64_t number = query.clauses.frame ? query.clauses.frame->value : 0;

  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process.At(at));
  if (query.clauses.frame || query.clauses.thread) {
    // Their own mistakes are shown at their own places.
    absl::StatusOr<FrameView> view = FrameAt(context, moment.get(), thread, number, inlined);
    if (absl::IsOutOfRange(view.status()) && query.clauses.frame) {
      return ErrorAt(query.clauses.frame->range, std::string(view.status().message()));
    }
    if (absl::IsNotFound(view.status()) && query.clauses.thread) {
      return ErrorAt(query.clauses.thread->range, std::string(view.status().message()));
    }
    if (!view.ok()) return view.status();
  }
  ASSIGN_OR_RETURN(
      const EvaluatedValue result,
      EvaluateExpression(context, *source.expr, moment.get(), true, thread, number, inlined));
  const CValue& value = result.value;
  if (value.in_memory && value.type->Strip()->kind != CType::Kind::kFunction) {
    // Nothing of it is there: that is a mistake in the expression, not a value.
    char byte;
    ASSIGN_OR_RETURN(uint64_t got, moment->Read(Address(value.address), 1, &byte));
    if (got == 0) {
      return ErrorAt(source.expr->range,
                     fmt::format("its address is {:#x}: {}", value.address,
                                 process.DescribeUnmapped(Address(value.address), at)));
    }
  }
  Renderer renderer(*result.types, moment.get());
  ASSIGN_OR_RETURN(std::string text, renderer.Text(value));
  ASSIGN_OR_RETURN(Value data, renderer.Structured(value));

  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "thread", Type::kInteger);
  Add(&plan, "expression", Type::kString);
  Add(&plan, "type", Type::kString);
  Add(&plan, "value", Type::kString);
  Add(&plan, "address", Type::kAddress);
  // For programs: the value as an object, a list, a number; and when it was known, if not now.
  Add(&plan, "data", Type::kObject);
  Add(&plan, "known_at", Type::kTime);
  plan.presentation.table_columns = {"time", "thread", "expression", "type", "value", "address"};
  Value known_at;
  if (value.past) {
    known_at = value.past->time;
    const std::string line = value.past->file.empty()
                                 ? ""
                                 : Cat(", ", BaseName(value.past->file), ":", value.past->line);
    plan.notes.push_back(
        value.past->at_entry
            ? Cat(ast::ToString(*source.expr),
                  " has no place at this instruction; this is what was passed for it at time ",
                  value.past->time.v, line)
            : Cat(ast::ToString(*source.expr),
                  " has no place at this instruction; this is its last known value, of time ",
                  value.past->time.v, line));
  } else if (!value.missing.empty()) {
    plan.notes.push_back(
        Cat("no value is known of ", ast::ToString(*source.expr), ": ", value.missing));
  }
  if (!result.note.empty()) plan.notes.push_back(result.note);
  Row row = {at,
             result.frame ? OfThread(result.frame->thread) : Value(Null{}),
             ast::ToString(*source.expr),
             ToText(value.type),
             std::move(text),
             value.in_memory ? Value(Address(value.address)) : Value(Null{}),
             std::move(data),
             known_at};
  SetCompute(
      &plan, [row]() -> absl::StatusOr<std::vector<Row>> { return std::vector<Row>{row}; },
      fmt::format("print at time {}: registers and memory of one moment", at.v));
  return plan;
}

}  // namespace ttq
