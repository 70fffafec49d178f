// SPDX-License-Identifier: MIT
//
// `crash`: what ended the process, and what led to it, in one row.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/outcome.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/code_place.h"
#include "query/sources/crash_report.h"
#include "query/sources/plans.h"
#include "query/sources/py_failure.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

Row RowOf(const Context& context, CrashReport r) {
  List origin;
  for (const Hop& hop : r.origin) {
    Object one;
    one.fields = {
        {"time", hop.time},
        {"thread", OfThread(hop.thread)},
        {"pc", hop.pc.v == 0 ? Value(Null{}) : Value(hop.pc)},
        {"kind", hop.kind},
        {"location", hop.place},
        {"value", ValueOfBytes(hop.value)},
        {"origin", OfText(hop.from)},
        {"instruction", OfText(hop.instruction)},
        {"by", hop.pc.v == 0 ? Value(Null{}) : OfText(DescribeCode(context, hop.pc, hop.time))}};
    origin.push_back(Value(std::move(one)));
  }
  const auto address = [](const std::optional<Address>& a) {
    return a ? Value(*a) : Value(Null{});
  };
  // Of a moment alone the lists would say that nothing happened.
  const bool unknown = HistoryUnknown(context.process());
  return {r.time,
          OfThread(r.thread),
          context.process().RegistersAt(r.time, r.thread)->pc,
          r.signal,
          r.cause,
          OfText(r.message),
          OfText(r.instruction),
          r.operands.fields.empty() ? Value(Null{}) : Value(std::move(r.operands)),
          OfText(r.access),
          address(r.address),
          OfText(r.memory.kind),
          OfText(r.memory.text),
          unknown ? Value(Null{}) : Value(std::move(origin)),
          address(r.word),
          OfText(r.word_memory.text),
          std::move(r.stale_pointer),
          unknown ? Value(Null{}) : Value(std::move(r.last_writes)),
          Value(std::move(r.backtraces)),
          std::move(r.python_object),
          Null{}};
}

// Of a program that ended by an exception, or because a test failed by one.
absl::StatusOr<Row> RowOfFailure(const Context& context, const PythonFailure& failure,
                                 const SourcePlan& plan, Outcome* outcome) {
  ASSIGN_OR_RETURN(const Value exception, ValueOf(failure, context, outcome));
  Row row(plan.width);
  const int signal = context.process().info().fatal_signal;
  for (const SourceColumn& column : plan.columns) {
    const std::string& name = column.column.name;
    if (name == "time") row[column.slot] = failure.time();
    if (name == "thread" && failure.raise) row[column.slot] = OfThread(failure.raise->thread);
    if (name == "pc" && failure.raise) row[column.slot] = failure.raise->pc;
    if (name == "signal" && signal != 0) row[column.slot] = SignalName(signal);
    if (name == "cause") row[column.slot] = CauseOf(failure);
    if (name == "exception") row[column.slot] = exception;
  }
  return row;
}

// "it exited with status 0"; of one that Python's sys.exit ended, also where that was.
std::string HowItEnded(const ProcessInfo& info, const std::optional<python::Raise>& exit) {
  if (info.exit_status) {
    std::string text = fmt::format("it exited with status {} at {}", *info.exit_status, info.end.v);
    if (exit) {
      text += fmt::format(", by the SystemExit of {} at {}:{} at {}", exit->place.function,
                          exit->place.file, exit->place.line, exit->time.v);
    }
    return text;
  }
  if (info.fatal_signal != 0) {
    return fmt::format("it was ended by {} at {}", SignalName(info.fatal_signal), info.end.v);
  }
  return fmt::format("how it ended was not recorded; the recording ends at {}", info.end.v);
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Crash&, const ast::Query&, const Context& context,
                                const RunOptions&, const TimeOfQuery&) {
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "signal", Type::kString);
  Add(&plan, "cause", Type::kString);
  Add(&plan, "message", Type::kString);
  Add(&plan, "instruction", Type::kString);
  Add(&plan, "operands", Type::kObject);
  Add(&plan, "access", Type::kString);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "memory_kind", Type::kString);
  Add(&plan, "memory", Type::kString);
  Add(&plan, "origin", Type::kList);
  Add(&plan, "word", Type::kAddress);
  Add(&plan, "word_memory", Type::kString);
  Add(&plan, "stale_pointer", Type::kObject);
  Add(&plan, "last_writes", Type::kList);
  Add(&plan, "backtraces", Type::kList);
  Add(&plan, "python_object", Type::kObject);
  Add(&plan, "exception", Type::kObject);
  plan.presentation.layout = Presentation::Layout::kRecord;
  plan.presentation.table_columns = {"time",    "thread",      "function",   "signal", "cause",
                                     "message", "instruction", "operands",   "access", "address",
                                     "memory",  "word",        "word_memory"};
  plan.open = [&context,
               shape = plan](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const std::shared_ptr<Outcome> outcome = request.outcome;
    ScanControl* control = request.options->control;
    return OperatorPtr(std::make_unique<ComputedSource>(
        [&context, shape, control, outcome]() -> absl::StatusOr<std::vector<Row>> {
          std::vector<Row> rows;
          const ProcessInfo& info = context.process().info();
          ASSIGN_OR_RETURN(const PythonEnding ending, FindPythonEnding(context, control));
          if (ending.failure) {
            ASSIGN_OR_RETURN(Row row, RowOfFailure(context, *ending.failure, shape, outcome.get()));
            rows.push_back(std::move(row));
            return rows;
          }
          if (!info.crash) {
            const std::string how = HistoryUnknown(context.process())
                                        ? "it was running when it was looked at"
                                        : HowItEnded(info, ending.exit);
            outcome->AddNote("the program did not crash: " + how);
            return rows;
          }
          ASSIGN_OR_RETURN(CrashReport report, InvestigateCrash(context, control, outcome.get()));
          rows.push_back(RowOf(context, std::move(report)));
          return rows;
        },
        outcome));
  };
  plan.explain = [](const SourceRequest&) {
    return absl::StatusOr<std::string>(
        "the signal that ended the process; the stacks, the origin of the address and the history "
        "of its memory by index; without a signal the exception that a Python program failed by");
  };
  return plan;
}

}  // namespace ttq
