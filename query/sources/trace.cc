// SPDX-License-Identifier: MIT
//
// `trace of`: the lines of one activation, what each changed, whom it called.

#include <algorithm>
#include <functional>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/source_text.h"
#include "query/ctypes/expression_at.h"
#include "query/ctypes/frame.h"
#include "query/ctypes/frame_state.h"
#include "query/ctypes/render.h"
#include "query/language/diagnostic.h"
#include "query/process/activation.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"
#include "query/sources/trace_fold.h"
#include "query/sources/trace_rows.h"

namespace ttq {
namespace {

// The frame that a step is of, at a moment at which it is its thread's innermost.
absl::StatusOr<FrameView> ViewAt(Moment* moment, ThreadNo thread, uint32_t inlined) {
  FrameView view;
  view.thread = thread;
  ASSIGN_OR_RETURN(view.registers, moment->RegistersOf(thread));
  view.pc = view.registers.pc;
  view.inlined = inlined;
  view.present_only = true;
  return view;
}

class NativeTrace {
 public:
  NativeTrace(const Context& context, ActivationTrace trace, std::shared_ptr<Outcome> outcome,
              ScanControl* control)
      : context_(context),
        trace_(std::move(trace)),
        outcome_(std::move(outcome)),
        control_(control),
        source_(&context.process()) {}

  absl::StatusOr<std::vector<Row>> Rows(bool unfolded, bool want_values) {
    ASSIGN_OR_RETURN(symbols_, context_.SymbolsAt(trace_.activations[0].entered));
    std::vector<FoldedStep> folded = unfolded ? EachStep(trace_.steps.size()) : Fold();
    std::vector<Row> rows;
    for (const FoldedStep& step : folded) rows.push_back(RowOf(step));
    if (want_values) {
      for (size_t i = 0; i < folded.size(); ++i) AskFor(folded[i]);
      RETURN_IF_ERROR(jobs_.Run(context_.process(), control_));
      for (size_t i = 0; i < folded.size(); ++i) {
        rows[i][kTraceChanges] = Changes(folded[i]);
        ASSIGN_OR_RETURN(rows[i][kTraceCalls], Calls(folded[i]));
      }
      RETURN_IF_ERROR(Endings(folded, &rows));
    }
    for (const std::string& remark : source_.remarks()) outcome_->AddNote(remark);
    if (trace_.truncated) {
      outcome_->MarkIncomplete(
          fmt::format("only the first {} lines of the activation are here", trace_.steps.size()));
    }
    return rows;
  }

 private:
  // Variables at a time, by name.
  using Variables = std::vector<std::pair<std::string, std::string>>;
  using Version = std::pair<Time, uint32_t>;  // and an activation

  std::vector<FoldedStep> Fold() const {
    FoldInput input;
    input.keys.resize(trace_.steps.size());
    input.called.resize(trace_.steps.size());
    input.of_activation.resize(trace_.activations.size());
    for (uint32_t i = 0; i < trace_.steps.size(); ++i) {
      const TraceStep& step = trace_.steps[i];
      const TracedActivation& activation = trace_.activations[step.activation];
      input.keys[i] = absl::HashOf(step.line, step.file, activation.function);
      input.of_activation[step.activation].push_back(i);
      for (const uint32_t call : step.calls) {
        const uint32_t called = trace_.calls[call].activation;
        if (called != kNoIndex) input.called[i].push_back(called);
      }
    }
    return FoldLoops(input, 0);
  }

  Row RowOf(const FoldedStep& folded) {
    const TraceStep& step = trace_.steps[folded.first];
    const TracedActivation& activation = trace_.activations[step.activation];
    Row row(kTraceWidth);
    row[kTraceTime] = step.time;
    row[kTraceThread] = OfThread(trace_.thread);
    row[kTracePc] = step.pc;
    row[kTraceFunction] = OfText(activation.function);
    row[kTraceModule] = OfText(symbols_->Symbolize(step.pc)->module);
    row[kTraceFile] = OfText(step.file);
    if (step.line > 0) row[kTraceLine] = int64_t{step.line};
    row[kTraceDepth] = int64_t{activation.depth};
    row[kTraceTimes] = OfCount(folded.times);
    row[kTraceLastTime] = trace_.steps[folded.last].time;
    if (!step.file.empty()) row[kTraceSource] = OfText(source_.Line(step.file, step.line));
    row[kTraceInlined] = int64_t{step.inlined};
    return row;
  }

  // ---- What is to be read, in order of time ----

  void AskFor(const FoldedStep& folded) {
    for (const uint32_t i : {folded.first, folded.last}) {
      const TraceStep& step = trace_.steps[i];
      AskForVariables(step.time, step.activation, step.inlined, step.stores);
      if (step.seen) AskForVariables(step.end, step.activation, step.inlined, step.stores);
    }
    for (const auto& [function, calls] : CallsOf(folded)) {
      for (const uint32_t call : {calls.front(), calls.back()}) AskForCall(call);
    }
  }

  void AskForVariables(Time t, uint32_t activation, uint32_t inlined,
                       const std::vector<Address>& globals) {
    const Version place(t, activation);
    if (variables_.try_emplace(place).second) {
      jobs_.Add(t, [this, place, inlined](Moment* moment) -> absl::Status {
        ASSIGN_OR_RETURN(FrameView view, ViewAt(moment, trace_.thread, inlined));
        // The copies inlined at this very place may be others than where the step began.
        const size_t frames = symbols_->Symbolize(view.pc)->frames.size();
        const TracedActivation& of = trace_.activations[place.second];
        if (!of.is_inlined && frames > 0) view.inlined = frames - 1;
        ASSIGN_OR_RETURN(std::vector<Argument> found, VariablesOf(context_, view, moment));
        Variables& into = variables_[place];
        for (Argument& a : found) into.emplace_back(std::move(a.name), std::move(a.text));
        return absl::OkStatus();
      });
    }
    for (const Address global : globals) {
      jobs_.Add(t, [this, t, global](Moment* moment) -> absl::Status {
        return ReadGlobal(t, global, moment);
      });
    }
  }

  absl::Status ReadGlobal(Time t, Address address, Moment* moment) {
    const std::optional<VariableInfo> info = symbols_->VariableAt(address);
    if (!info || globals_.contains({t, info->name})) return absl::OkStatus();
    global_names_[address] = info->name;
    ast::Expr name;
    name.node = ast::Name{info->name};
    absl::StatusOr<EvaluatedValue> value =
        EvaluateExpression(context_, name, moment, /*in_frame=*/false, std::nullopt, 0);
    // Several of that name, or no type to it.
    if (!value.ok()) return absl::OkStatus();
    if (!value->value.has_address() || value->value.address > address.v ||
        address.v >= info->address.v + std::max<uint64_t>(info->size, 1)) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(globals_[std::pair(t, info->name)],
                     Renderer(*value->types, moment).Text(value->value));
    return absl::OkStatus();
  }

  // Those of a row, by the function called, in the order of their first calls.
  std::vector<std::pair<std::string, std::vector<uint32_t>>> CallsOf(
      const FoldedStep& folded) const {
    std::vector<std::pair<std::string, std::vector<uint32_t>>> groups;
    for (const uint32_t i : folded.steps) {
      for (const uint32_t call : trace_.steps[i].calls) {
        const std::string& function = trace_.calls[call].function;
        auto group = std::find_if(groups.begin(), groups.end(),
                                  [&](const auto& g) { return g.first == function; });
        if (folded.times == 1 || group == groups.end()) {
          groups.push_back({function, {}});
          group = std::prev(groups.end());
        }
        group->second.push_back(call);
      }
    }
    return groups;
  }

  struct CallValues {
    List arguments;  // objects of name, value and text
    std::string arguments_text;
    bool known = false;  // its arguments, by DWARF
    std::optional<std::string> result;
  };

  void AskForCall(uint32_t index) {
    if (!call_values_.try_emplace(index).second) return;
    const TracedCall& call = trace_.calls[index];
    jobs_.Add(call.time, [this, index](Moment* moment) -> absl::Status {
      const TracedCall& call = trace_.calls[index];
      ASSIGN_OR_RETURN(FrameView view, ViewAt(moment, trace_.thread, 0));
      const auto location = symbols_->Symbolize(view.pc);
      view.entered = call.time;
      if (call.inlined) {
        while (view.inlined < location->frames.size() &&
               location->frames[view.inlined].function != call.function) {
          ++view.inlined;
        }
        if (view.inlined == location->frames.size()) return absl::OkStatus();
      } else {
        if (view.pc != call.entry) return absl::OkStatus();
        view.inlined = location->frames.empty() ? 0 : location->frames.size() - 1;
        view.cfa = Address(view.registers.gpr[kRsp] + 8);
      }
      ASSIGN_OR_RETURN(std::vector<Argument> arguments, ArgumentsOf(context_, view, moment));
      CallValues& values = call_values_[index];
      values.known = location->source == NameSource::kDwarf;
      for (const Argument& a : arguments) {
        Object one;
        one.fields = {{"name", OfText(a.name)}, {"value", a.text}};
        values.arguments.emplace_back(std::move(one));
        absl::StrAppend(&values.arguments_text, values.arguments_text.empty() ? "" : ", ", a.text);
      }
      return absl::OkStatus();
    });
    if (call.inlined || call.returned == kTimeMax) return;
    jobs_.Add(call.returned, [this, index](Moment* moment) -> absl::Status {
      ASSIGN_OR_RETURN(call_values_[index].result,
                       ResultOf(trace_.calls[index].time, trace_.calls[index].entry, moment));
      return absl::OkStatus();
    });
  }

  // What the function that begins at `entry` has just returned. nullopt: nothing, or not known.
  absl::StatusOr<std::optional<std::string>> ResultOf(Time called, Address entry, Moment* moment) {
    ASSIGN_OR_RETURN(std::optional<ReturnConvention> place,
                     ReturnConventionOf(context_, called, entry));
    ASSIGN_OR_RETURN(const Registers registers, moment->RegistersOf(trace_.thread));
    if (!place) {
      outcome_->AddNote("results are by the ABI: rax, where no debug information has the type");
      return fmt::format("{:#x}", registers.gpr[kRax]);
    }
    if (place->type->Strip()->kind == CType::Kind::kVoid) return std::optional<std::string>();
    ASSIGN_OR_RETURN(CValue value, ResultAtReturn(*place, registers));
    if (!value.missing.empty()) return std::optional<std::string>();
    return Renderer(*place->types, moment).Text(value);
  }

  // ---- What was read ----

  std::vector<Change> ChangesOf(uint32_t index) {
    const TraceStep& step = trace_.steps[index];
    std::vector<Change> changes;
    const Variables& before = variables_[Version(step.time, step.activation)];
    const auto value = [](const Variables& all,
                          const std::string& name) -> std::optional<std::string> {
      for (const auto& [n, v] : all) {
        if (n == name) return v;
      }
      return std::nullopt;
    };
    if (step.seen) {
      for (const auto& [name, after] : variables_[Version(step.end, step.activation)]) {
        const std::optional<std::string> old = value(before, name);
        if (old != after) changes.push_back({name, old, after});
      }
    }
    for (const Address store : step.stores) {
      const auto name = global_names_.find(store);
      if (name == global_names_.end()) continue;
      const auto old = globals_.find({step.time, name->second});
      const auto now = globals_.find({step.end, name->second});
      if (old == globals_.end() || now == globals_.end() || old->second == now->second) continue;
      if (std::none_of(changes.begin(), changes.end(),
                       [&](const Change& c) { return c.name == name->second; })) {
        changes.push_back({name->second, old->second, now->second});
      }
    }
    return changes;
  }

  Value Changes(const FoldedStep& folded) {
    const std::vector<Change> first = ChangesOf(folded.first);
    return ChangeList(first, folded.times > 1 ? ChangesOf(folded.last) : std::vector<Change>());
  }

  absl::StatusOr<Value> Calls(const FoldedStep& folded) {
    List list;
    for (const auto& [function, calls] : CallsOf(folded)) {
      const auto describe = [&](uint32_t index) {
        const TracedCall& call = trace_.calls[index];
        const CallValues& values = call_values_[index];
        CallShown shown;
        shown.time = call.time;
        if (call.returned != kTimeMax) shown.returned = call.returned;
        shown.arguments = values.arguments;
        shown.arguments_text = values.known || call.inlined ? values.arguments_text : "…";
        shown.result = values.result;
        return shown;
      };
      list.push_back(CallValue(function, calls.size(), describe(calls.front()),
                               describe(calls.back()),
                               trace_.calls[calls.front()].inlined  ? "inlined"
                               : trace_.calls[calls.front()].jumped ? "jump"
                                                                    : "call"));
    }
    return list.empty() ? Value() : Value(std::move(list));
  }

  // How each activation that has a row of its own ended, at its last one.
  absl::Status Endings(const std::vector<FoldedStep>& folded, std::vector<Row>* rows) {
    absl::flat_hash_map<uint32_t, size_t> last_row;  // by activation
    for (size_t i = 0; i < folded.size(); ++i) {
      for (const uint32_t step : folded[i].steps) {
        size_t& row = last_row[trace_.steps[step].activation];
        row = std::max(row, i);
      }
    }
    for (const auto& [index, row] : last_row) {
      const TracedActivation& activation = trace_.activations[index];
      ASSIGN_OR_RETURN(std::string text, EndingText(activation));
      (*rows)[row][kTraceEnded] = text;
      if (index == 0) {
        outcome_->AddNote(fmt::format(
            "{} {}{}", activation.function, text,
            activation.left == kTimeMax ? "" : fmt::format(", at time {}", activation.left.v)));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> EndingText(const TracedActivation& activation) {
    const std::string& ended = activation.ended;
    if (ended == "returned") {
      ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, context_.process().At(activation.left));
      ASSIGN_OR_RETURN(std::optional<std::string> result,
                       ResultOf(activation.entered, activation.entry, moment.get()));
      return result ? "returned " + *result : "returned";
    }
    if (ended == "inlined") return std::string("ended, a copy inlined in another function");
    if (ended == "tail call") return std::string("ended in a jump to the function it calls last");
    if (ended == "unwound") return std::string("was left by an exception or a jump");
    if (ended == "exit") return std::string("was active when its thread ended");
    if (ended == "signal") {
      return "was active when the process died by " +
             SignalName(context_.process().info().fatal_signal);
    }
    return std::string("is active where the trace ends");
  }

  const Context& context_;
  ActivationTrace trace_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  python::SourceText source_;
  const Symbolizer* symbols_ = nullptr;
  MomentJobs jobs_;
  std::map<Version, Variables> variables_;
  std::map<std::pair<Time, std::string>, std::string> globals_;
  absl::flat_hash_map<Address, std::string> global_names_;
  absl::flat_hash_map<uint32_t, CallValues> call_values_;
};

// The first activation of a function in the span.
absl::StatusOr<std::optional<ActivationStart>> FirstCall(const Context& context,
                                                         const ResolvedCode& code, TimeSpan span,
                                                         std::optional<ThreadNo> thread,
                                                         ScanControl* control) {
  std::optional<ActivationStart> start;
  const Process& process = context.process();
  CallQuery query;
  query.entries = code.functions;
  query.span = span;
  query.thread = thread;
  query.want_returns = false;
  if (!query.entries.empty()) {
    ASSIGN_OR_RETURN(auto calls, process.Calls(query, control));
    ASSIGN_OR_RETURN(std::optional<Call> call, calls->Next());
    if (call) start = ActivationStart{call->thread, call->time, std::nullopt};
  }
  if (code.inlined.empty()) return start;
  std::vector<AddressRange> ranges;
  for (const InlinedCopy& copy : code.inlined) ranges.push_back({copy.entry, copy.entry + 1});
  ASSIGN_OR_RETURN(auto copies,
                   process.Executions(ranges, span, Direction::kForward, thread, control));
  ASSIGN_OR_RETURN(std::optional<Execution> copy, copies->Next());
  if (!copy || (start && start->time <= copy->time)) return start;
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(copy->time));
  const auto location = symbols->Symbolize(copy->pc);
  for (uint32_t n = 0; n + 1 < location->frames.size(); ++n) {
    if (std::binary_search(code.inlined.begin(), code.inlined.end(),
                           InlinedCopy{copy->pc, location->frames[n].function})) {
      start = ActivationStart{copy->thread, copy->time, n};
    }
  }
  return start;
}

// The activation that a thread is in at a time.
absl::StatusOr<ActivationStart> ActivationAt(const Context& context, Time t,
                                             std::optional<uint32_t> inlined,
                                             std::optional<ThreadNo> thread, ast::Range range) {
  const Process& process = context.process();
  if (!thread) {
    ASSIGN_OR_RETURN(thread, process.ThreadAt(t));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process.At(t));
  absl::StatusOr<FrameView> view = FrameAt(context, moment.get(), thread, 0, inlined);
  if (absl::IsNotFound(view.status()) || absl::IsOutOfRange(view.status())) {
    return ErrorAt(range, std::string(view.status().message()));
  }
  if (!view.ok()) return view.status();
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(t));
  const auto location = symbols->Symbolize(view->pc);
  const bool is_copy = view->inlined + 1 < location->frames.size();
  if (inlined && is_copy) return ActivationStart{*thread, t, inlined};
  if (location->offset_in_function == 0 && !location->frames.empty()) {
    return ActivationStart{*thread, t, std::nullopt};
  }
  ASSIGN_OR_RETURN(const TypeSpace* types, context.TypesAt(t));
  // Of the function that is really there; what is inlined in it is among its calls.
  view->inlined = location->frames.empty() ? 0 : location->frames.size() - 1;
  view->present_only = false;
  FrameState state(context, *types, moment.get(), *view);
  ASSIGN_OR_RETURN(std::optional<Time> entered, state.EntryTime());
  if (!entered) {
    return ErrorAt(range, fmt::format("where the function at time {} was entered is not known: "
                                      "nothing says where its frame is",
                                      t.v));
  }
  return ActivationStart{*thread, *entered, std::nullopt};
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Trace& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  ASSIGN_OR_RETURN(const uint32_t depth, TraceDepth(query));
  SourcePlan plan = PlanOfTrace(depth);
  std::optional<ActivationStart> start;
  std::string text;
  if (const auto* time = std::get_if<ast::Time>(&source.what)) {
    RETURN_IF_ERROR(RefuseSpan(query));
    ASSIGN_OR_RETURN(const QueryTime at, TimeOfTrace(context, *time, ask));
    ASSIGN_OR_RETURN(start, ActivationAt(context, at.time, at.inlined, thread, time->range));
    text = fmt::format("the activation at time {}", at.time.v);
  } else {
    ASSIGN_OR_RETURN(ResolvedCode code,
                     ResolveFunction(context, std::get<ast::FunctionPattern>(source.what)));
    ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
    NotePastEnd(span, context.process().info(), &plan);
    if (!code.note.empty()) plan.notes.push_back(code.note);
    ASSIGN_OR_RETURN(start, FirstCall(context, code, span, thread, options.control));
    text = "the first call of " + code.text + SpanText(span);
    plan.presentation.no_rows = fmt::format("{} was not called{}", code.text, SpanText(span));
  }
  plan.open = [&context, start, depth, unfolded = query.clauses.unfolded](
                  const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    if (!start) return NoRows(request);
    const std::shared_ptr<Outcome> outcome = request.outcome;
    ScanControl* control = request.options->control;
    return OperatorPtr(std::make_unique<ComputedSource>(
        [&context, start, depth, unfolded, control, outcome,
         want = request.want_values]() -> absl::StatusOr<std::vector<Row>> {
          ASSIGN_OR_RETURN(ActivationTrace trace, TraceActivation(context, *start, depth, control));
          if (trace.steps.empty()) {
            outcome->AddNote(
                fmt::format("{} has no line numbers: `disassemble`, or `executions of` it, shows "
                            "what it does",
                            trace.activations[0].function));
            return std::vector<Row>();
          }
          return NativeTrace(context, std::move(trace), outcome, control).Rows(unfolded, want);
        },
        outcome));
  };
  plan.explain = [text, depth](const SourceRequest&) {
    return absl::StatusOr<std::string>(fmt::format(
        "the lines of {}{}: every instruction of its thread until it ends, block by block", text,
        depth > 1 ? fmt::format(" and of what it calls, {} deep", depth - 1) : ""));
  };
  return plan;
}

}  // namespace ttq
