// SPDX-License-Identifier: MIT
//
// Calls of Python functions and executions of their lines, from the history of all frames
// (query/cpython/frame_history.h).

#include "query/sources/py_history.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "query/cpython/c_functions.h"
#include "query/cpython/code_names.h"
#include "query/cpython/ending.h"
#include "query/cpython/lines.h"
#include "query/cpython/provenance.h"
#include "query/cpython/source_text.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/rows/py_stack.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

using python::FrameHistory;
using python::Provenance;
using python::Transition;
using python::TransitionKind;

// Where the variables of a frame begin.
uint64_t SlotsOf(const FrameHistory& history, const Transition& t) {
  return t.frame + static_cast<uint64_t>(history.layout_of(t.code).frame_localsplus);
}

}  // namespace

Value PyArguments(const FrameHistory& history, python::PythonState::Instance& instance,
                  const Transition& call) {
  const python::Code& code = history.code(call.code);
  const python::Layout& layout = history.layout_of(call.code);
  python::Memory& memory = instance.objects.memory();
  Object args;
  const size_t n = python::ArgumentCount(code);
  for (size_t i = 0; i < n && i < code.variables.size(); ++i) {
    uint64_t object = layout.Untag(memory.Pointer(SlotsOf(history, call) + 8 * i));
    if (object == 0) {
      // Up to 3.10 an argument that inner functions use has been moved to its cell.
      for (size_t v = n; v < code.variables.size(); ++v) {
        if (code.variables[v].name != code.variables[i].name) continue;
        const uint64_t cell = memory.Pointer(SlotsOf(history, call) + 8 * v);
        if (cell != 0) object = memory.Pointer(cell + static_cast<uint64_t>(layout.cell_value));
      }
    }
    args.fields.emplace_back(code.variables[i].name, ObjectValue(instance.objects, object));
  }
  return Value(std::move(args));
}

// What a function returned is left where its value stack, now empty, begins.
Value PyResult(const FrameHistory& history, python::PythonState::Instance& instance,
               const Transition& end) {
  const python::Code& code = history.code(end.code);
  const python::Layout& layout = history.layout_of(end.code);
  python::Memory& memory = instance.objects.memory();
  if (const auto& opcodes = layout.opcodes; opcodes.return_const[0] != 0) {
    const uint64_t at = code.instructions + static_cast<uint64_t>(end.offset);
    const auto unit = memory.Get<uint16_t>(at);
    const int opcode = unit ? *unit & 0xff : 0;
    if (unit && (opcode == opcodes.return_const[0] || opcode == opcodes.return_const[1])) {
      uint64_t index = *unit >> 8;
      const auto before = memory.Get<uint16_t>(at - 2);
      if (end.offset >= 2 && before && (*before & 0xff) == opcodes.extended) {
        index |= *before & 0xff00;
      }
      const uint64_t consts =
          memory.Pointer(code.address + static_cast<uint64_t>(layout.code_consts));
      return ObjectValue(
          instance.objects,
          memory.Pointer(consts + static_cast<uint64_t>(layout.tuple_items) + 8 * index));
    }
  }
  return ObjectValue(instance.objects, layout.Untag(memory.Pointer(SlotsOf(history, end) +
                                                                   8 * code.variables.size())));
}

namespace {

// Gives the calls of some functions, chunk by chunk; when the caller keeps asking, several chunks
// are read at once.
class PyCallSource : public Operator {
 public:
  PyCallSource(const Context& context, python::CodeFinder codes, TimeSpan span,
               const SourceRequest& request)
      : finder_(std::move(codes)),
        history_(finder_.history()),
        span_(span),
        outcome_(request.outcome),
        control_(request.options->control),
        thread_(request.thread),
        backward_(request.direction == Direction::kBackward),
        want_values_(request.want_values),
        provenances_(&context, control_),
        rows_(history_) {
    std::tie(first_, last_) = history_.ChunksOf(span_);
  }

  absl::StatusOr<bool> Next(Row* row) override {
    return TellOutcome(rows_.Next(row, [this] { return BeginChunks(); }), outcome_.get());
  }

 private:
  enum Slot {
    kTime,
    kThread,
    kFunction,
    kFile,
    kLine,
    kArgs,
    kResult,
    kReturnTime,
    kEnded,
    kDepth,
    kCaller,
    kFrame,
    kPython,
    kSlots
  };

  // Those that come next, of those that have some rows.
  absl::Status BeginChunks() {
    RETURN_IF_ERROR(NotInterrupted(control_));
    while (rows_.wants() && first_ < last_) {
      const size_t number = backward_ ? --last_ : first_++;
      RETURN_IF_ERROR(history_.Wait(number + 1, control_));
      const std::vector<uint32_t>& codes = finder_.Find();
      if (!history_.ChunkEnters(number, codes)) continue;
      rows_.Begin([this, number, codes] { return LoadChunk(number, codes); });
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Row>> LoadChunk(size_t number,
                                             const std::vector<uint32_t>& codes) const {
    ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Transition>> chunk, history_.Chunk(number));
    std::vector<Row> rows;
    // The same few again and again.
    absl::flat_hash_map<std::pair<uint32_t, int64_t>, Value> places;
    const auto place = [&](uint32_t id, int64_t offset) -> const Value& {
      Value& value = places[{id, offset}];
      if (value.is_null()) {
        const python::Code& code = history_.code(id);
        value = python::ValueOf(
            python::SourceLocation{code.qualname, code.filename, history_.LineOf(id, offset), id});
      }
      return value;
    };
    // What is to be read from memory, in order of time.
    struct Visit {
      Time time;
      size_t row;
      const Transition* call;
      std::optional<Transition> end;
    };
    std::vector<Visit> visits;
    for (const Transition& t : *chunk) {
      if (t.kind != TransitionKind::kCall || !span_.Contains(t.current_from())) continue;
      if (thread_ && t.thread != *thread_) continue;
      if (!std::binary_search(codes.begin(), codes.end(), t.code)) continue;
      const python::Code& code = history_.code(t.code);
      Row row(kSlots);
      row[kTime] = t.current_from();
      row[kThread] = OfThread(t.thread);
      row[kFunction] = code.qualname;
      row[kFile] = OfText(code.filename);
      row[kLine] = int64_t{code.first_line};
      row[kDepth] = int64_t{t.depth};
      row[kFrame] = Address(t.frame);
      row[kPython] = place(t.code, t.offset);
      if (t.caller_code != python::kNoCode) row[kCaller] = place(t.caller_code, t.caller_offset);
      if (want_values_) {
        ASSIGN_OR_RETURN(std::optional<Transition> end, history_.EndOf(t, control_));
        if (end) {
          row[kReturnTime] = end->time;
          row[kEnded] = python::TransitionKindName(end->kind);
        }
        visits.push_back({t.current_from(), rows.size(), &t, std::nullopt});
        if (end && end->kind == TransitionKind::kReturn) {
          visits.push_back({end->time, rows.size(), &t, *end});
        }
      }
      rows.push_back(std::move(row));
    }
    std::stable_sort(visits.begin(), visits.end(),
                     [](const Visit& a, const Visit& b) { return a.time < b.time; });
    std::unique_ptr<Provenance> provenance = provenances_.Take();
    for (const Visit& visit : visits) {
      RETURN_IF_ERROR(NotInterrupted(control_));
      ASSIGN_OR_RETURN(python::PythonState * state, provenance->StateAt(visit.time));
      python::PythonState::Instance* instance = nullptr;
      for (const auto& i : state->instances()) {
        if (i->runtime.minor == history_.layout_of(visit.call->code).minor) instance = i.get();
      }
      if (!instance) continue;
      if (visit.end) {
        rows[visit.row][kResult] = PyResult(history_, *instance, *visit.end);
      } else {
        rows[visit.row][kArgs] = PyArguments(history_, *instance, *visit.call);
      }
    }
    if (backward_) std::reverse(rows.begin(), rows.end());
    provenances_.Give(std::move(provenance));
    return rows;
  }

  python::CodeFinder finder_;
  const FrameHistory& history_;  // the finder's
  const TimeSpan span_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  const std::optional<ThreadNo> thread_;
  const bool backward_, want_values_;
  size_t first_ = 0, last_ = 0;  // chunks that are not begun
  mutable python::ProvenancePool provenances_;
  RowsAhead rows_;
};

// With the columns that say when, in which thread and where in Python; the first is the time, the
// second the thread.
SourcePlan PlanOfPlaces() {
  SourcePlan plan;
  plan.scope.code = NameScope::Code::kNone;
  plan.time_slot = 0;
  plan.thread_slot = 1;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "thread", Type::kInteger);
  Add(&plan, "function", Type::kString);
  Add(&plan, "file", Type::kString);
  Add(&plan, "line", Type::kInteger);
  return plan;
}

}  // namespace

absl::StatusOr<bool> RowsAhead::Next(Row* row, absl::FunctionRef<absl::Status()> begin_more) {
  while (next_ == rows_.size()) {
    RETURN_IF_ERROR(begin_more());
    if (parts_.empty()) return false;
    ASSIGN_OR_RETURN(rows_, parts_.Take());
    next_ = 0;
  }
  *row = std::move(rows_[next_++]);
  return true;
}

absl::StatusOr<HistoryAsked> ResolveHistory(const ast::Query& query, const Context& context,
                                            const RunOptions& options, const TimeOfQuery& ask,
                                            HistoryWanted wanted) {
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  auto history = wanted == HistoryWanted::kGrowing ? context.GrowingPythonFrames()
                                                   : context.PythonFrames(options.control);
  if (absl::IsNotFound(history.status())) {
    return ErrorAt(query.source_range, std::string(history.status().message()));
  }
  if (!history.ok()) return history.status();
  return HistoryAsked{span, thread, *std::move(history)};
}

namespace {

// That no Python function has this name; where one in C does, with the question about that.
absl::Status OfferC(const Context& context, const absl::Status& error,
                    const ast::FunctionPattern* function, ScanControl* control) {
  const std::optional<Diagnostic> diagnostic = GetDiagnostic(error);
  const bool is_name =
      function && !function->module && function->function.kind == ast::Pattern::Kind::kName;
  if (!diagnostic || !is_name) return error;
  ASSIGN_OR_RETURN(const Time time,
                   python::FinalizedAt(context.recording(), context.process(), control));
  ASSIGN_OR_RETURN(const std::unique_ptr<python::PythonState> state,
                   python::PythonState::At(&context.recording(), &context.process(), time));
  const std::string& name = function->function.text;
  const uint64_t address = python::FindCFunction(*state, name);
  if (address == 0) return error;
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(time));
  const std::optional<FunctionInfo> info = symbols->FunctionAt(Address(address));
  const std::string called = info ? info->name : fmt::format("{:#x}", address);
  return ErrorAt({diagnostic->begin, diagnostic->end}, diagnostic->message,
                 fmt::format("{} is a function in C: `calls to {}`", name, called));
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::PyCalls& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  // Rows as they are can be given as calls are found. For what a stage may ask of their arguments
  // all functions of that name must be known.
  const auto* function = std::get_if<ast::FunctionPattern>(&source.what);
  const bool grows =
      function &&
      std::all_of(query.stages.begin(), query.stages.end(), [](const ast::Stage& stage) {
        return std::holds_alternative<ast::First>(stage.what);
      });
  absl::StatusOr<HistoryAsked> asked = ResolveHistory(
      query, context, options, ask, grows ? HistoryWanted::kGrowing : HistoryWanted::kWhole);
  if (!asked.ok()) return asked.status();
  const auto& [span, thread, history] = *asked;
  python::CodeFinder finder(history, std::vector<uint32_t>());
  if (grows) {
    finder = python::CodeFinder(history, *function, "");
    ASSIGN_OR_RETURN(std::vector<uint32_t> first, finder.FindFirst(options.control));
  }
  if (finder.Find().empty()) {
    absl::StatusOr<std::vector<uint32_t>> codes = python::FindCodes(*history, source.what);
    if (!codes.ok()) return OfferC(context, codes.status(), function, options.control);
    finder = python::CodeFinder(history, *std::move(codes));
  }
  SourcePlan plan = PlanOfPlaces();
  Add(&plan, "args", Type::kObject);
  Add(&plan, "result", Type::kObject);
  plan.columns.back().column.any = true;
  Add(&plan, "return_time", Type::kTime);
  Add(&plan, "ended", Type::kString);
  Add(&plan, "depth", Type::kInteger);
  Add(&plan, "caller", Type::kObject);
  Add(&plan, "frame_address", Type::kAddress);
  Add(&plan, "python", Type::kObject);
  plan.presentation.table_columns = {"time",        "function", "args",  "result",
                                     "return_time", "depth",    "caller"};
  if (thread || context.process().threads().size() > 1) {
    plan.presentation.table_columns.insert(plan.presentation.table_columns.begin() + 1, "thread");
  }
  plan.reversible = true;
  for (const uint32_t code : finder.Find()) {
    const python::Code& c = history->code(code);
    const size_t n = std::min(python::ArgumentCount(c), c.variables.size());
    for (size_t i = 0; i < n; ++i) plan.fields_of_args.push_back(c.variables[i].name);
  }
  plan.presentation.no_rows = fmt::format("no call of it{}", SpanText(span));
  plan.open = [&context, asked = *asked,
               finder](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    SourceRequest refined = request;
    if (asked.thread) refined.thread = asked.thread;
    return OperatorPtr(std::make_unique<PyCallSource>(
        context, finder, Intersect(asked.span, request.span), refined));
  };
  plan.explain = [asked = *asked,
                  finder](const SourceRequest& request) mutable -> absl::StatusOr<std::string> {
    const FrameHistory& history = *asked.history;
    RETURN_IF_ERROR(history.WaitForAll(nullptr));
    const std::vector<uint32_t>& codes = finder.Find();
    const auto [first, last] = history.ChunksOf(Intersect(asked.span, request.span));
    size_t entering = 0;
    for (size_t i = first; i < last; ++i) entering += history.ChunkEnters(i, codes);
    return fmt::format(
        "calls of {} Python functions{}: from the history of frames, {} of {} "
        "blocks enter one",
        codes.size(), SpanText(asked.span), entering, history.chunks());
  };
  return plan;
}

namespace {

// Gives the lines that some functions begin.
class PyLineSource : public Operator {
 public:
  PyLineSource(const Context& context, const HistoryAsked& asked, std::vector<uint32_t> codes,
               int line, TimeSpan span, const SourceRequest& request)
      : process_(context.process()),
        asked_(asked),
        codes_(std::move(codes)),
        line_(line),
        span_(span),
        thread_(asked.thread ? asked.thread : request.thread),
        outcome_(request.outcome),
        control_(request.options->control),
        source_(&context.process()) {}

  absl::StatusOr<bool> Next(Row* row) override { return TellOutcome(TryNext(row), outcome_.get()); }

 private:
  absl::StatusOr<bool> TryNext(Row* row) {
    ASSIGN_OR_RETURN(std::optional<python::LineEvent> next, Pull());
    if (!next) return false;
    const python::LineEvent& event = *next;
    const python::Code& code = asked_.history->code(event.code);
    *row = {event.time,          OfThread(event.thread),
            code.qualname,       OfText(code.filename),
            int64_t{event.line}, OfText(source_.Line(code.filename, event.line)),
            Address(event.frame)};
    for (; remarks_ < source_.remarks().size(); ++remarks_) {
      outcome_->AddNote(source_.remarks()[remarks_]);
    }
    return true;
  }

  absl::StatusOr<std::optional<python::LineEvent>> Pull() {
    if (!scanner_) {
      ASSIGN_OR_RETURN(scanner_, python::LineScanner::Open(process_, *asked_.history, codes_, line_,
                                                           span_, thread_, control_));
    }
    return scanner_->Next();
  }

  const Process& process_;
  const HistoryAsked asked_;
  const std::vector<uint32_t> codes_;
  const int line_;
  const TimeSpan span_;
  const std::optional<ThreadNo> thread_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  python::SourceText source_;
  size_t remarks_ = 0;
  std::unique_ptr<python::LineScanner> scanner_;
};

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::PyExecutions& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  absl::StatusOr<HistoryAsked> asked = ResolveHistory(query, context, options, ask);
  if (!asked.ok()) return asked.status();
  absl::StatusOr<std::vector<uint32_t>> codes =
      python::FindCodes(*asked->history, source.what, python::OnLine::kAll);
  if (!codes.ok()) return codes.status();
  const auto* place = std::get_if<ast::FileLine>(&source.what);
  const int line = place ? static_cast<int>(std::min<uint64_t>(place->line, 1 << 30)) : 0;
  SourcePlan plan = PlanOfPlaces();
  Add(&plan, "source", Type::kString);
  Add(&plan, "frame_address", Type::kAddress);
  plan.presentation.table_columns = {"time", "thread", "function", "line", "source"};
  plan.presentation.no_rows =
      fmt::format("{} was not executed{}", ast::ToString(source.what), SpanText(asked->span));
  NotePastEnd(asked->span, context.process().info(), &plan);
  plan.open = [&context, asked = *asked, codes = *codes,
               line](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const TimeSpan span = Intersect(asked.span, request.span);
    if (span.empty()) return NoRows(request);
    return OperatorPtr(std::make_unique<PyLineSource>(context, asked, codes, line, span, request));
  };
  plan.explain = [asked = *asked, codes = *codes](const SourceRequest& request) {
    return absl::StatusOr<std::string>(fmt::format(
        "lines of {} Python functions{}: their frames from the history, then every instruction of "
        "theirs",
        codes.size(), SpanText(Intersect(asked.span, request.span))));
  };
  return plan;
}

}  // namespace ttq
