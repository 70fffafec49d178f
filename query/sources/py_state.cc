// SPDX-License-Identifier: MIT
//
// What Python was doing at a time: stacks, variables, source, expressions, objects. Everything is
// read from the recorded memory through query/cpython; nothing runs in the program.

#include <algorithm>
#include <functional>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/evaluate.h"
#include "query/cpython/exceptions.h"
#include "query/cpython/lifetime.h"
#include "query/cpython/provenance.h"
#include "query/cpython/source_text.h"
#include "query/cpython/state.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/rows/py_stack.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

using python::PythonState;

// What a query says of time and thread, resolved.
struct AskedMoment {
  const Context* context = nullptr;
  Time at;
  std::optional<ThreadNo> thread;  // none: all threads
  bool all = false;
  std::optional<uint64_t> frame;
  ast::Range thread_range, frame_range;
};

absl::StatusOr<AskedMoment> Resolve(const ast::Query& query, const Context& context,
                                    const TimeOfQuery& ask) {
  AskedMoment asked;
  asked.context = &context;
  ASSIGN_OR_RETURN(asked.at, ResolveAt(context, query.clauses.at, ask));
  ASSIGN_OR_RETURN(asked.thread, ResolveThread(context, query.clauses.thread));
  asked.all = query.clauses.thread && query.clauses.thread->all;
  asked.thread_range = query.clauses.thread ? query.clauses.thread->range : query.source_range;
  asked.frame_range = query.source_range;
  if (query.clauses.frame) {
    asked.frame = query.clauses.frame->value;
    asked.frame_range = query.clauses.frame->range;
  }
  if (!asked.all && !asked.thread) {
    ASSIGN_OR_RETURN(asked.thread, context.process().ThreadAt(asked.at));
  }
  return asked;
}

// Rows made from Python's state at the time asked for, when the first is asked for.
using Make = std::function<absl::Status(PythonState&, Outcome&, std::vector<Row>*)>;
void SetPython(SourcePlan* plan, const Context& context, Time at, std::string description,
               Make make) {
  plan->open = [&context, at, make = std::move(make)](const SourceRequest& request) {
    auto compute = [&context, at, make,
                    outcome = request.outcome]() -> absl::StatusOr<std::vector<Row>> {
      ASSIGN_OR_RETURN(std::unique_ptr<PythonState> state,
                       PythonState::At(&context.recording(), &context.process(), at));
      std::vector<Row> rows;
      if (!state->problem().empty()) outcome->AddNote(state->problem());
      RETURN_IF_ERROR(make(*state, *outcome, &rows));
      if (!state->memory().status().ok()) return state->memory().status();
      return rows;
    };
    return absl::StatusOr<OperatorPtr>(
        std::make_unique<ComputedSource>(std::move(compute), request.outcome));
  };
  plan->explain = [description = std::move(description), at](const SourceRequest&) {
    return absl::StatusOr<std::string>(
        fmt::format("{} at time {}, from the memory of that time", description, at.v));
  };
}

// When the last signal before `t` was delivered: what somebody who stopped a program asks for when
// the program has taken its leave in good order.
std::optional<Time> LastSignal(const Process& process, Time t) {
  EventQuery query;
  query.span.end = t;
  query.kind = EventKind::kSignal;
  query.direction = Direction::kBackward;
  absl::StatusOr<std::unique_ptr<Cursor<Event>>> cursor = process.Events(query);
  if (!cursor.ok()) return std::nullopt;
  absl::StatusOr<std::optional<Event>> event = (*cursor)->Next();
  if (!event.ok() || !*event) return std::nullopt;
  return (*event)->time;
}

// The stacks asked for; says in the outcome what keeps them from being whole.
std::vector<PythonState::ThreadStack> StacksOf(const AskedMoment& asked, PythonState& state,
                                               Outcome& outcome) {
  std::vector<PythonState::ThreadStack> stacks;
  if (asked.all) {
    stacks = state.Stacks(std::nullopt);
  } else if (auto stack = state.StackOf(*asked.thread)) {
    stacks.push_back(*std::move(stack));
  }
  for (const PythonState::ThreadStack& stack : stacks) {
    if (!stack.stack.incomplete.empty()) outcome.MarkIncomplete(stack.stack.incomplete);
  }
  if (state.instances().empty()) return stacks;
  bool any = false;
  for (const PythonState::ThreadStack& stack : stacks) any = any || !stack.stack.frames.empty();
  if (any) return stacks;
  bool interpreters = false, finalizing = false;
  for (const auto& instance : state.instances()) {
    interpreters =
        interpreters ||
        !python::FindInterpreters(state.process(), state.memory(), instance->runtime).empty();
    finalizing = finalizing || python::IsFinalizing(state.memory(), instance->runtime);
  }
  if (!interpreters) {
    if (const std::optional<Time> signal = LastSignal(state.process(), state.time())) {
      outcome.AddNote(
          fmt::format("a signal came at {0}: `py backtrace at {0} all threads` shows "
                      "what it met",
                      signal->v));
    }
    outcome.AddNote(finalizing ? "the interpreter has shut down"
                               : "the interpreter is not there: not started yet, or shut down");
  } else if (asked.all) {
    outcome.AddNote("no thread runs Python code at that time");
  } else {
    outcome.AddNote(
        fmt::format("thread {} runs no Python code at that time; `all threads` shows "
                    "every thread that does",
                    asked.thread->v));
  }
  return stacks;
}

// The one frame that is asked for, of each stack: by default the innermost.
absl::Status ForEachFrame(const AskedMoment& asked, PythonState& state, Outcome& outcome,
                          const std::function<absl::Status(const PythonState::ThreadStack&,
                                                           const python::Frame&, uint64_t)>& use) {
  bool any = false, missed = false;
  size_t deepest = 0;
  for (const PythonState::ThreadStack& stack : StacksOf(asked, state, outcome)) {
    const uint64_t number = asked.frame.value_or(0);
    deepest = std::max(deepest, stack.stack.frames.size());
    if (number >= stack.stack.frames.size()) {
      missed = missed || !stack.stack.frames.empty();
      continue;
    }
    any = true;
    RETURN_IF_ERROR(use(stack, stack.stack.frames[number], number));
  }
  if (!any && missed) {
    return ErrorAt(
        asked.frame_range,
        fmt::format("there is no frame {}: the stack has {}", *asked.frame,
                    deepest == 1 ? "only frame 0" : fmt::format("frames 0 to {}", deepest - 1)));
  }
  return absl::OkStatus();
}

void AddRemarks(const python::SourceText& source, Outcome& outcome) {
  for (const std::string& remark : source.remarks()) outcome.AddNote(remark);
}

const char* KindName(python::LocalVariable::Kind kind) {
  switch (kind) {
    case python::LocalVariable::Kind::kLocal:
      return "local";
    case python::LocalVariable::Kind::kCell:
      return "cell";
    case python::LocalVariable::Kind::kFree:
      return "free";
    case python::LocalVariable::Kind::kHidden:
      return "comprehension";
    case python::LocalVariable::Kind::kName:
      return "name";
  }
  return "";
}

std::string TypeNameAt(python::ObjectReader& objects, uint64_t object) {
  const python::TypeInfo* type = objects.TypeOf(object);
  return type ? objects.FullTypeName(*type) : "";
}

Value ThreadOf(const PythonState::ThreadStack& stack) { return OfThread(stack.state.thread); }

// The columns that say which frame a row is of.
SourcePlan PlanFrame() {
  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "thread", Type::kInteger);
  Add(&plan, "frame", Type::kInteger);
  Add(&plan, "function", Type::kString);
  return plan;
}

// In the table of an answer about one frame of each thread.
void TellThreads(SourcePlan* plan) {
  auto& shown = plan->presentation.table_columns;
  shown.insert(shown.begin(), {"thread", "function"});
}

}  // namespace

// ---- Stacks ----------------------------------------------------------------------------------

absl::StatusOr<SourcePlan> Plan(const ast::PyBacktrace&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<AskedMoment> asked = Resolve(query, context, ask);
  if (!asked.ok()) return asked.status();
  SourcePlan plan = PlanFrame();
  Add(&plan, "file", Type::kString);
  Add(&plan, "line", Type::kInteger);
  Add(&plan, "source", Type::kString);
  Add(&plan, "frame_address", Type::kAddress);
  Add(&plan, "name", Type::kString);
  Add(&plan, "column", Type::kInteger);
  Add(&plan, "end_line", Type::kInteger);
  Add(&plan, "end_column", Type::kInteger);
  Add(&plan, "code", Type::kAddress);
  Add(&plan, "from_c", Type::kInteger);
  Add(&plan, "interpreter", Type::kInteger);
  Add(&plan, "waits", Type::kString);
  plan.presentation.table_columns = {"frame", "function", "file", "line", "source"};
  if (asked->all) {
    plan.presentation.table_columns.insert(plan.presentation.table_columns.begin(), "thread");
    plan.presentation.table_columns.push_back("waits");
  }
  SetPython(&plan, context, asked->at, "Python's stack",
            [asked = *asked](PythonState& state, Outcome& outcome, std::vector<Row>* rows) {
              python::SourceText source(&state.process());
              bool any = false;
              size_t deepest = 0;
              for (const PythonState::ThreadStack& stack : StacksOf(asked, state, outcome)) {
                deepest = std::max(deepest, stack.stack.frames.size());
                for (size_t i = 0; i < stack.stack.frames.size(); ++i) {
                  if (asked.frame && *asked.frame != i) continue;
                  any = true;
                  const python::Frame& frame = stack.stack.frames[i];
                  const python::Position& at = frame.position;
                  const auto known = [](int n) { return n > 0 ? Value(int64_t{n}) : Value(); };
                  rows->push_back(
                      {state.time(), ThreadOf(stack), OfCount(i), frame.code->qualname,
                       frame.code->filename, known(at.line),
                       OfText(source.Line(frame.code->filename, at.line)), Address(frame.address),
                       frame.code->name, known(at.column), known(at.end_line), known(at.end_column),
                       Address(frame.code->address), int64_t{frame.is_entry}, stack.interpreter.id,
                       i == 0 ? OfText(state.WaitsFor(stack)) : Value()});
                }
              }
              if (asked.frame && !any && deepest > 0) {
                return ErrorAt(asked.frame_range,
                               fmt::format("there is no frame {}: the deepest stack has {} frames",
                                           *asked.frame, deepest));
              }
              AddRemarks(source, outcome);
              return absl::OkStatus();
            });
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::PyLocals&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<AskedMoment> asked = Resolve(query, context, ask);
  if (!asked.ok()) return asked.status();
  SourcePlan plan = PlanFrame();
  Add(&plan, "name", Type::kString);
  AddRepr(&plan, "value");
  Add(&plan, "type", Type::kString);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "kind", Type::kString);
  Add(&plan, "slot", Type::kAddress);
  plan.presentation.table_columns = {"name", "value", "type", "address"};
  if (asked->all) TellThreads(&plan);
  SetPython(&plan, context, asked->at, "the variables of a Python frame",
            [asked = *asked](PythonState& state, Outcome& outcome, std::vector<Row>* rows) {
              return ForEachFrame(
                  asked, state, outcome,
                  [&](const PythonState::ThreadStack& stack, const python::Frame& frame,
                      uint64_t number) {
                    python::FrameReader& frames = stack.instance->frames;
                    python::ObjectReader& objects = frames.objects();
                    for (const python::LocalVariable& variable : frames.Locals(frame)) {
                      rows->push_back({state.time(), ThreadOf(stack), OfCount(number),
                                       frame.code->qualname, variable.name,
                                       ReprValue(objects, variable.value),
                                       OfText(TypeNameAt(objects, variable.value)),
                                       Address(variable.value), KindName(variable.kind),
                                       variable.slot ? Value(Address(variable.slot)) : Value()});
                    }
                    if (rows->empty()) {
                      outcome.AddNote(frame.code->qualname + " has no variables at that time");
                    }
                    return absl::OkStatus();
                  });
            });
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::PySource&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<AskedMoment> asked = Resolve(query, context, ask);
  if (!asked.ok()) return asked.status();
  SourcePlan plan = PlanFrame();
  Add(&plan, "file", Type::kString);
  Add(&plan, "line", Type::kInteger);
  Add(&plan, "current", Type::kString);
  Add(&plan, "source", Type::kString);
  plan.presentation.table_columns = {"current", "line", "source"};
  if (asked->all) TellThreads(&plan);
  SetPython(&plan, context, asked->at, "the source of a Python frame",
            [asked = *asked](PythonState& state, Outcome& outcome, std::vector<Row>* rows) {
              python::SourceText source(&state.process());
              absl::Status status = ForEachFrame(
                  asked, state, outcome,
                  [&](const PythonState::ThreadStack& stack, const python::Frame& frame,
                      uint64_t number) {
                    const std::string& file = frame.code->filename;
                    const std::vector<std::string>* lines = source.Lines(file);
                    if (!lines) {
                      outcome.AddNote(fmt::format(
                          "the source of {} is not there: it is not on this machine, and "
                          "the program did not read it",
                          file));
                      return absl::OkStatus();
                    }
                    // As gdb's py-list: five lines before, four after.
                    const int line = frame.position.line;
                    const int first = std::max(1, line - 5);
                    const int last = std::min<int>(line + 4, static_cast<int>(lines->size()));
                    if (line <= 0 || line > static_cast<int>(lines->size())) {
                      outcome.AddNote(fmt::format(
                          "{} has no line {}: {}", file, line,
                          line <= 0 ? "this instruction belongs to none" : "the file was changed"));
                      return absl::OkStatus();
                    }
                    for (int n = first; n <= last; ++n) {
                      rows->push_back({state.time(), ThreadOf(stack), OfCount(number),
                                       frame.code->qualname, file, int64_t{n},
                                       n == line ? Value(">") : Value(std::string(" ")),
                                       (*lines)[n - 1]});
                    }
                    return absl::OkStatus();
                  });
              AddRemarks(source, outcome);
              return status;
            });
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::PyPrint& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(AskedMoment asked, Resolve(query, context, ask));
  SourcePlan plan = PlanFrame();
  Add(&plan, "name", Type::kString);
  Add(&plan, "value", Type::kString);
  Add(&plan, "type", Type::kString);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "scope", Type::kString);
  plan.presentation.table_columns = {"name", "value", "type", "address", "scope"};
  if (asked.all) TellThreads(&plan);
  // The expression outlives this call with the query that holds it: plans run at once.
  const ast::Expr* expr = source.expr.get();
  ASSIGN_OR_RETURN(std::unique_ptr<PythonState> state,
                   PythonState::At(&context.recording(), &context.process(), asked.at));
  auto outcome = std::make_shared<Outcome>();
  auto rows = std::make_shared<std::vector<Row>>();
  if (!state->problem().empty()) outcome->AddNote(state->problem());
  absl::Status status = ForEachFrame(
      asked, *state, *outcome,
      [&](const PythonState::ThreadStack& stack, const python::Frame& frame, uint64_t number) {
        python::FrameReader& frames = stack.instance->frames;
        ASSIGN_OR_RETURN(python::PyValue value, python::Evaluate(*expr, frames, &frame));
        python::ObjectReader& objects = frames.objects();
        rows->push_back({state->time(), ThreadOf(stack), OfCount(number), frame.code->qualname,
                         ast::ToString(*expr), python::ReprOf(value, objects),
                         python::TypeNameOf(value, objects),
                         value.object ? Value(Address(value.object)) : Value(),
                         OfText(value.scope)});
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (!outcome->note.empty()) plan.notes.push_back(outcome->note);
  SetCompute(
      &plan, [rows]() { return absl::StatusOr<std::vector<Row>>(*rows); },
      fmt::format("a Python expression at time {}, from the memory of that time", asked.at.v));
  return plan;
}

// ---- Objects ---------------------------------------------------------------------------------

namespace {

// The address that an ADDR of an object query gives.
absl::StatusOr<uint64_t> AddressOf(const ast::ObjectAddress& object) {
  if (const auto* number = std::get_if<ast::Number>(&object.address->node)) return number->value;
  return ErrorAt(object.address->range, "an object is named by its address",
                 "write it as 0x…; `py print EXPR` finds one by name");
}

Value RefcountValue(const std::optional<python::Refcount>& refcount) {
  return refcount ? Value(refcount->count) : Value();
}

// Attributes as names with reprs.
Value AttributesValue(python::ObjectReader& objects, uint64_t address) {
  constexpr size_t kMaxCount = 1000;
  Object fields;
  python::ReprLimits limits;
  limits.characters = 256;
  limits.levels = 3;
  for (const python::Attribute& attribute : objects.Attributes(address)) {
    if (fields.fields.size() >= kMaxCount) break;
    fields.fields.emplace_back(attribute.name, objects.Repr(attribute.value, limits));
  }
  return fields.fields.empty() ? Value() : Value(std::move(fields));
}

// Where a generator or a coroutine that does not run goes on: its place and its variables.
Value SuspendedValue(python::FrameReader& frames, uint64_t generator) {
  const std::optional<python::Frame> frame = frames.SuspendedFrame(generator);
  if (!frame) return Value();
  constexpr size_t kMaxCount = 1000;
  python::ReprLimits limits;
  limits.characters = 256;
  limits.levels = 3;
  Object locals;
  for (const python::LocalVariable& variable : frames.Locals(*frame, kMaxCount)) {
    locals.fields.emplace_back(variable.name, frames.objects().Repr(variable.value, limits));
  }
  const int line = frame->position.line;
  Object place;
  place.fields = {{"function", frame->code->qualname},
                  {"file", frame->code->filename},
                  {"line", line > 0 ? Value(int64_t{line}) : Value()},
                  {"locals", Value(std::move(locals))}};
  return Value(std::move(place));
}

// What became of the object at `address` by `t`: "alive", "freed", "replaced" by something else;
// null where there never was one, or where that takes too long to find out.
struct Fate {
  Value state, freed_time, freed_by, freed_in;
  std::string note;
};
absl::StatusOr<Fate> FateOf(const Context& context, uint64_t address, Time t, ScanControl* control,
                            Outcome& outcome) {
  // Of its count; what is counted more often is hardly ever freed.
  constexpr uint64_t kMaxChanges = 300'000;
  Fate fate;
  python::Provenance provenance(&context, control);
  auto scanner = python::EpochScanner::Open(context.process(), &provenance, address, {Time(0), t},
                                            control, /*births_only=*/false, kMaxChanges);
  if (absl::IsNotFound(scanner.status())) return fate;
  if (!scanner.ok()) return scanner.status();
  absl::StatusOr<std::optional<python::Epoch>> epoch = (*scanner)->Next();
  if (absl::IsResourceExhausted(epoch.status())) {
    outcome.MarkIncomplete(
        "whether it was freed before was not found out, for its references were counted too often; "
        "`lifetime of` finds out");
    return fate;
  }
  if (absl::IsCancelled(epoch.status())) {
    outcome.MarkInterrupted();
    return fate;
  }
  if (!epoch.ok()) return epoch.status();
  if (!*epoch) return fate;
  fate.state = python::StateOf(**epoch);
  if (!(*epoch)->death) return fate;
  const Access& access = (*epoch)->death->access;
  fate.freed_time = access.time;
  if ((*epoch)->replaced) {
    fate.note = fmt::format("the memory of the {} there was another's from {} on",
                            (*epoch)->type_name, access.time.v);
    return fate;
  }
  ASSIGN_OR_RETURN(std::optional<python::SourceLocation> place,
                   provenance.Of(access.thread, access.time));
  fate.freed_by = python::ValueOf(place);
  ASSIGN_OR_RETURN(std::string function, python::NativeFunction(context, access.pc, access.time));
  fate.freed_in = OfText(function);
  fate.note = fmt::format("the {} there was freed at {}", (*epoch)->type_name, access.time.v);
  if (place) fate.note += fmt::format(" by {} ({}:{})", place->function, place->file, place->line);
  if (!function.empty()) fate.note += " in " + function;
  if ((*epoch)->use_after) {
    fate.note += fmt::format("; its references were counted after that, first at {}",
                             (*epoch)->use_after->access.time.v);
  }
  return fate;
}

// Where an exception came from: its traceback's entries, the outermost first.
Value TracebackValue(python::FrameReader& frames, uint64_t exception) {
  const uint64_t traceback = frames.objects().memory().Pointer(
      exception + static_cast<uint64_t>(frames.layout().exception_traceback));
  List list;
  for (const python::TracebackEntry& entry : python::ReadTraceback(frames, traceback)) {
    Object object;
    if (!entry.file.empty()) {
      object.fields = {
          {"function", entry.function}, {"file", entry.file}, {"line", int64_t{entry.line}}};
    }
    list.push_back(Value(std::move(object)));
  }
  return list.empty() ? Value() : Value(std::move(list));
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Object& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  absl::StatusOr<uint64_t> address = AddressOf(source.object);
  if (!address.ok()) return address.status();
  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "type", Type::kString);
  AddRepr(&plan, "repr");
  Add(&plan, "refcount", Type::kInteger);
  Add(&plan, "immortal", Type::kInteger);
  Add(&plan, "attributes", Type::kObject);
  Add(&plan, "traceback", Type::kList);
  Add(&plan, "type_address", Type::kAddress);
  Add(&plan, "suspended_at", Type::kObject);
  Add(&plan, "state", Type::kString);
  Add(&plan, "freed_time", Type::kTime);
  Add(&plan, "freed_by", Type::kObject);
  Add(&plan, "freed_in", Type::kString);
  plan.presentation.layout = Presentation::Layout::kRecord;
  SetPython(&plan, context, at, "a Python object",
            [address = *address, wanted = source.object.type, &context, control = options.control](
                PythonState& state, Outcome& outcome, std::vector<Row>* rows) {
              std::string why;
              Fate fate;
              if (!HistoryUnknown(state.process())) {
                ASSIGN_OR_RETURN(fate, FateOf(context, address, state.time(), control, outcome));
              }
              for (const auto& instance : state.instances()) {
                python::ObjectReader& objects = instance->objects;
                const python::TypeInfo* found = objects.TypeOf(address);
                if (!found) {
                  why = objects.WhyNoObject(address);
                  continue;
                }
                const python::TypeInfo type = *found;
                const std::string name = objects.FullTypeName(type);
                if (wanted && !objects.IsCalled(type, *wanted)) {
                  outcome.AddNote(
                      fmt::format("the object at {:#x} is a {}, not a {}", address, name, *wanted));
                }
                const std::optional<python::Refcount> refcount = objects.RefcountOf(address);
                if (!fate.note.empty()) {
                  outcome.AddNote(fate.note);
                } else if (refcount && refcount->count <= 0) {
                  outcome.AddNote("its reference count says that it is not alive");
                }
                Value traceback;
                if (type.Is(python::kExceptionSubclass)) {
                  traceback = TracebackValue(instance->frames, address);
                }
                python::ReprLimits limits;
                limits.characters = 1 << 16;
                limits.attributes = false;  // they have a column
                rows->push_back({state.time(), Address(address), name,
                                 ReprValue(objects, address, limits), RefcountValue(refcount),
                                 int64_t{refcount && refcount->immortal},
                                 AttributesValue(objects, address), std::move(traceback),
                                 Address(type.address), SuspendedValue(instance->frames, address),
                                 fate.state, fate.freed_time, fate.freed_by, fate.freed_in});
                return absl::OkStatus();
              }
              if (!state.instances().empty()) {
                if (why == "no memory there") {
                  why = state.process().DescribeUnmapped(Address(address), state.time());
                }
                outcome.AddNote(fmt::format("no Python object at {:#x}: {}", address, why));
                if (!fate.note.empty()) outcome.AddNote(fate.note);
              }
              return absl::OkStatus();
            });
  return plan;
}

namespace {

// Every object of a type: what the cycle collector tracks, and what it does not by searching the
// memory that can be written for the type's address where an object keeps it.
absl::Status FindObjects(PythonState& state, PythonState::Instance& instance,
                         const std::string& wanted, const ScanControl* control, Outcome& outcome,
                         std::vector<Row>* rows) {
  python::ObjectReader& objects = instance.objects;
  const python::Layout& layout = instance.frames.layout();
  ASSIGN_OR_RETURN(std::vector<Mapping> mappings, state.process().MappingsAt(state.time()));
  constexpr uint64_t kMaxBytes = uint64_t{4} << 30;
  constexpr uint64_t kPiece = 1 << 20;
  constexpr size_t kMaxRows = 1 << 20;
  uint64_t bytes = 0;
  absl::flat_hash_map<uint64_t, bool> is_wanted;  // by the type's address
  python::ReprLimits limits;
  limits.characters = 512;
  limits.levels = 4;
  std::vector<uint64_t> words(kPiece / 8);
  for (const Mapping& mapping : mappings) {
    if ((mapping.protection & 2) == 0 || mapping.path == "[stack]") continue;
    for (uint64_t at = mapping.range.begin.v; at < mapping.range.end.v; at += kPiece) {
      if (control && control->cancelled) {
        outcome.MarkInterrupted();
        return absl::OkStatus();
      }
      const uint64_t size = std::min(kPiece, mapping.range.end.v - at);
      bytes += size;
      if (bytes > kMaxBytes || rows->size() >= kMaxRows) {
        outcome.MarkIncomplete(rows->size() >= kMaxRows
                                   ? fmt::format("only the first {} objects", kMaxRows)
                                   : "more than 4 GiB of memory to search");
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(uint64_t known, state.moment().Read(Address(at), size, words.data()));
      if (known < size && mapping.content_unknown) {
        outcome.MarkIncomplete(fmt::format("the memory at {:#x} is not known", at + known));
      }
      for (uint64_t i = 0; i + 1 <= known / 8; ++i) {
        const uint64_t word = words[i];
        if (word < 4096 || word % 8 != 0 || word >> 47 != 0) continue;
        // Most words are no types; what was found out about them is not kept for ever.
        constexpr size_t kMaxKept = 1 << 20;
        if (is_wanted.size() > kMaxKept) {
          is_wanted.clear();
          objects.Forget();
        }
        const auto [it, is_new] = is_wanted.try_emplace(word, false);
        if (is_new) {
          const python::TypeInfo* type = objects.Type(word);
          it->second = type && objects.IsCalled(*type, wanted);
        }
        if (!it->second) continue;
        const uint64_t object = at + 8 * i - layout.object_type;
        const std::optional<python::Refcount> refcount = objects.RefcountOf(object);
        // A pointer that stands where a count would is larger.
        constexpr int64_t kMaxReferences = 1 << 24;
        if (object % 16 != 0 || !refcount ||
            (!refcount->immortal && (refcount->count <= 0 || refcount->count > kMaxReferences)) ||
            !objects.MayBeObject(object)) {
          continue;
        }
        rows->push_back({state.time(), Address(object), TypeNameAt(objects, object),
                         ReprValue(objects, object, limits), refcount->count});
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::ObjectsOfType& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "type", Type::kString);
  AddRepr(&plan, "repr");
  Add(&plan, "refcount", Type::kInteger);
  plan.presentation.table_columns = {"address", "type", "repr", "refcount"};
  plan.presentation.no_rows =
      fmt::format("no object of a type called {} is alive at time {}", source.type, at.v);
  SetPython(&plan, context, at, "every object of a type",
            [wanted = source.type, control = options.control](PythonState& state, Outcome& outcome,
                                                              std::vector<Row>* rows) {
              for (const auto& instance : state.instances()) {
                RETURN_IF_ERROR(FindObjects(state, *instance, wanted, control, outcome, rows));
              }
              return absl::OkStatus();
            });
  return plan;
}

}  // namespace ttq
