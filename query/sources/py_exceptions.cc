// SPDX-License-Identifier: MIT
//
// `py exceptions`: what was raised, where, and who caught it (query/cpython/raises.h).

#include "query/sources/py_exceptions.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/raises.h"
#include "query/cpython/source_text.h"
#include "query/cpython/state.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"
#include "store/read/moment_info.h"

namespace ttq {

Object PlaceObject(const python::TracebackEntry& place) {
  Object object;
  object.fields = {{"function", place.function},
                   {"file", OfText(place.file)},
                   {"line", place.line > 0 ? Value(int64_t{place.line}) : Value()}};
  return object;
}

Object EntryValue(const python::TracebackEntry& entry, python::SourceText& source) {
  Object object = PlaceObject(entry);
  object.fields.emplace_back("source", OfText(source.Line(entry.file, entry.line)));
  return object;
}

Value TracebackOf(const std::vector<python::TracebackEntry>& entries, python::SourceText& source) {
  List list;
  for (const python::TracebackEntry& entry : entries) {
    list.emplace_back(EntryValue(entry, source));
  }
  return list.empty() ? Value() : Value(std::move(list));
}

Value RelatedOf(const std::vector<python::RelatedException>& related) {
  List list;
  for (const python::RelatedException& one : related) {
    Object object;
    if (!one.relation.empty()) object.fields.emplace_back("relation", one.relation);
    object.fields.emplace_back("type", one.text.type);
    object.fields.emplace_back("message", one.text.message);
    object.fields.emplace_back("object", Address(one.object));
    object.fields.emplace_back("raised", one.raised ? Value(PlaceObject(*one.raised)) : Value());
    if (!one.members.empty()) object.fields.emplace_back("exceptions", RelatedOf(one.members));
    list.emplace_back(std::move(object));
  }
  return list.empty() ? Value() : Value(std::move(list));
}

namespace {

using python::Raise;

// Rows of exceptions, and what their answer has to say about them.
class RowMaker {
 public:
  RowMaker(const Process* process, std::shared_ptr<Outcome> outcome)
      : outcome_(std::move(outcome)), source_(process) {}

  Row RowOf(const Raise& raise) {
    static const python::RaisedException kUnknown;
    const python::RaisedException& exception = raise.exception ? *raise.exception : kUnknown;
    if (exception.text.own_text && told_.insert(exception.text.type).second) {
      outcome_->AddNote(
          fmt::format("{} has a __str__ of its own: its message is that of its "
                      "arguments",
                      exception.text.type));
    }
    const auto number = [](int n) { return n > 0 ? Value(int64_t{n}) : Value(); };
    const auto address = [](uint64_t a) { return a != 0 ? Value(Address(a)) : Value(); };
    Value caught, caught_time, caught_by;
    if (raise.caught) {
      caught = Value(PlaceObject(raise.caught->place));
      caught_time = OfTime(raise.caught->time);
      caught_by = raise.caught->in_c ? "C" : "python";
    }
    Row row = {raise.time,
               OfThread(raise.thread),
               address(raise.pc.v),
               OfText(exception.text.type),
               exception.text.message,
               raise.place.function,
               OfText(raise.place.file),
               number(raise.place.line),
               std::move(caught),
               TracebackOf(raise.traceback, source_),
               RelatedOf(exception.chain),
               RelatedOf(exception.members),
               OfText(python::RaisedByName(raise.by)),
               std::move(caught_by),
               std::move(caught_time),
               address(exception.object),
               address(raise.frame),
               Value(PlaceObject(raise.place))};
    for (; remarks_ < source_.remarks().size(); ++remarks_) {
      outcome_->AddNote(source_.remarks()[remarks_]);
    }
    return row;
  }

 private:
  std::shared_ptr<Outcome> outcome_;
  python::SourceText source_;
  size_t remarks_ = 0;
  absl::flat_hash_set<std::string> told_;
};

class ExceptionSource : public Operator {
 public:
  ExceptionSource(const Context& context, TimeSpan span, std::optional<ThreadNo> thread,
                  const SourceRequest& request)
      : context_(context),
        span_(span),
        thread_(thread ? thread : request.thread),
        control_(request.options->control),
        outcome_(request.outcome),
        rows_(&context.process(), request.outcome) {}

  absl::StatusOr<bool> Next(Row* row) override { return TellOutcome(TryNext(row), outcome_.get()); }

 private:
  absl::StatusOr<bool> TryNext(Row* row) {
    if (!scanner_) {
      ASSIGN_OR_RETURN(scanner_,
                       python::RaiseScanner::Open(context_.recording(), context_.process(), span_,
                                                  thread_, control_));
    }
    ASSIGN_OR_RETURN(const std::optional<Raise> next, scanner_->Next());
    if (!next) return false;
    *row = rows_.RowOf(*next);
    return true;
  }

  const Context& context_;
  const TimeSpan span_;
  const std::optional<ThreadNo> thread_;
  ScanControl* control_;
  std::shared_ptr<Outcome> outcome_;
  RowMaker rows_;
  std::unique_ptr<python::RaiseScanner> scanner_;
};

// Of a process of which one moment is known: the exceptions that its threads have there.
absl::StatusOr<std::vector<Row>> RowsInFlight(const Context& context,
                                              std::optional<ThreadNo> thread,
                                              const std::shared_ptr<Outcome>& outcome) {
  const Time now = context.process().info().end;
  ASSIGN_OR_RETURN(const std::unique_ptr<python::PythonState> state,
                   python::PythonState::At(&context.recording(), &context.process(), now));
  if (!state->problem().empty()) outcome->AddNote(state->problem());
  RowMaker maker(&context.process(), outcome);
  std::vector<Row> rows;
  for (const python::PythonState::ThreadStack& stack : state->Stacks(thread)) {
    // A thread state may belong to no thread that is known.
    const absl::StatusOr<Registers> registers = state->moment().RegistersOf(stack.state.thread);
    if (!registers.ok() && !absl::IsNotFound(registers.status())) return registers.status();
    const std::vector<python::Frame>& frames = stack.stack.frames;
    for (python::ExceptionInFlight& one :
         python::ExceptionsInFlight(stack.instance->frames, stack.state.address)) {
      Raise raise{.time = now, .thread = stack.state.thread};
      if (registers.ok()) raise.pc = registers->pc;
      raise.exception = std::make_shared<python::RaisedException>(std::move(one.exception));
      if (!frames.empty()) {
        const python::Frame& frame = frames.front();
        raise.frame = frame.address;
        raise.place = {frame.code->qualname, frame.code->filename, frame.position.line};
      }
      if (!one.traceback.empty()) {
        raise.place = one.traceback.back();
        // Which line of the function has it in hand is not in memory.
        const python::TracebackEntry& outermost = one.traceback.front();
        const python::TracebackEntry holder{outermost.function, outermost.file};
        if (one.is_handled) raise.caught = Raise::Caught{kTimeMax, holder};
      }
      raise.traceback = std::move(one.traceback);
      rows.push_back(maker.RowOf(raise));
    }
  }
  if (!state->memory().status().ok()) return state->memory().status();
  return rows;
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::PyExceptions&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<TimeSpan> span = ResolveSpan(context, query.clauses.span, ask);
  if (!span.ok()) return span.status();
  absl::StatusOr<std::optional<ThreadNo>> thread = ResolveThread(context, query.clauses.thread);
  if (!thread.ok()) return thread.status();
  if (!context.HasPython()) {
    return ErrorAt(query.source_range,
                   python::DescribeNoRuntime(context.process(), context.process().info().end));
  }
  SourcePlan plan;
  plan.scope.code = NameScope::Code::kNone;
  plan.time_slot = 0;
  plan.thread_slot = 1;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "thread", Type::kInteger);
  Add(&plan, "pc", Type::kAddress);
  Add(&plan, "type", Type::kString);
  Add(&plan, "message", Type::kString);
  Add(&plan, "function", Type::kString);
  Add(&plan, "file", Type::kString);
  Add(&plan, "line", Type::kInteger);
  Add(&plan, "caught_at", Type::kObject);
  Add(&plan, "traceback", Type::kList);
  Add(&plan, "chain", Type::kList);
  Add(&plan, "exceptions", Type::kList);
  Add(&plan, "raised_by", Type::kString);
  Add(&plan, "caught_by", Type::kString);
  Add(&plan, "caught_time", Type::kTime);
  Add(&plan, "object", Type::kAddress);
  Add(&plan, "frame_address", Type::kAddress);
  Add(&plan, "python", Type::kObject);
  plan.presentation.table_columns = {"time", "type", "message", "python", "caught_at"};
  if (*thread || context.process().threads().size() > 1) {
    plan.presentation.table_columns.insert(plan.presentation.table_columns.begin() + 1, "thread");
  }
  if (HistoryUnknown(context.process())) {
    plan.presentation.no_rows = "no exception is on its way or in hand";
    plan.open = [&context, thread = *thread](const SourceRequest& request) {
      auto compute = [&context, thread, outcome = request.outcome] {
        return RowsInFlight(context, thread, outcome);
      };
      return absl::StatusOr<OperatorPtr>(
          std::make_unique<ComputedSource>(std::move(compute), request.outcome));
    };
    plan.explain = [](const SourceRequest&) {
      return absl::StatusOr<std::string>("the exceptions that the thread states have, from memory");
    };
    return plan;
  }
  plan.presentation.no_rows = "no exception went through Python code" + SpanText(*span);
  plan.open = [&context, span = *span,
               thread = *thread](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    return OperatorPtr(
        std::make_unique<ExceptionSource>(context, Intersect(span, request.span), thread, request));
  };
  plan.explain = [span = *span](const SourceRequest& request) {
    return absl::StatusOr<std::string>(
        "writes to the words of each Python thread that hold its "
        "exception and its frame, block by block" +
        SpanText(Intersect(span, request.span)));
  };
  return plan;
}

}  // namespace ttq
