// SPDX-License-Identifier: MIT
//
// `py trace of`: the lines of one activation of a Python function, as sys.settrace would tell them
// (query/cpython/lines.h), what each changed, whom it called. A generator's activation is one
// resumption of it.

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/code_names.h"
#include "query/cpython/lines.h"
#include "query/cpython/provenance.h"
#include "query/cpython/source_text.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/py_history.h"
#include "query/sources/resolve.h"
#include "query/sources/trace_fold.h"
#include "query/sources/trace_rows.h"

namespace ttq {
namespace {

using python::FrameHistory;
using python::PythonState;
using python::Transition;
using python::TransitionKind;

constexpr size_t kMaxSteps = 1'000'000;
constexpr size_t kMaxVariables = 200;

struct Activation {
  Transition call;
  std::optional<Transition> end;  // nullopt: it is never left
  uint32_t depth = 0;
  std::vector<uint32_t> steps;
};

struct MadeCall {
  uint32_t caller = 0;  // an activation
  Transition call;
  std::optional<Transition> end;
  uint32_t activation = ~uint32_t{0};  // ~0: its lines are not asked for
};

struct Step {
  Time time, end;
  uint32_t activation = 0;
  int line = 0;
  std::vector<uint32_t> calls;
};

std::string TextOf(const Value& value) {
  if (const auto* s = value.get<std::string>()) return *s;
  if (const auto* n = value.get<int64_t>()) return absl::StrCat(*n);
  if (const auto* w = value.get<Word>()) return absl::StrCat(w->v);
  if (const auto real = value.AsReal()) return RealText(*real);
  return "?";
}

class PythonTrace {
 public:
  PythonTrace(const Context& context, const FrameHistory& history, const Transition& start,
              uint32_t depth, std::shared_ptr<Outcome> outcome, ScanControl* control)
      : context_(context),
        history_(history),
        start_(start),
        depth_(depth),
        outcome_(std::move(outcome)),
        control_(control),
        provenance_(&context, control),
        source_(&context.process()) {}

  absl::StatusOr<std::vector<Row>> Rows(bool unfolded, bool want_values) {
    RETURN_IF_ERROR(Follow());
    RETURN_IF_ERROR(Lines());
    GiveCalls();
    const std::vector<FoldedStep> folded = unfolded ? EachStep(steps_.size()) : Fold();
    std::vector<Row> rows;
    for (const FoldedStep& step : folded) rows.push_back(RowOf(step));
    if (want_values) {
      for (const FoldedStep& step : folded) AskFor(step);
      RETURN_IF_ERROR(Read());
      for (size_t i = 0; i < folded.size(); ++i) {
        const std::vector<Change> first = ChangesOf(folded[i].first);
        rows[i][kTraceChanges] = ChangeList(
            first, folded[i].times > 1 ? ChangesOf(folded[i].last) : std::vector<Change>());
        rows[i][kTraceCalls] = Calls(folded[i]);
      }
      Endings(folded, &rows);
    }
    for (const std::string& remark : source_.remarks()) outcome_->AddNote(remark);
    return rows;
  }

 private:
  using Variables = std::vector<std::pair<std::string, std::string>>;
  using Version = std::pair<Time, uint64_t>;  // and a frame

  // The activations and calls, from the history of frames.
  absl::Status Follow() {
    struct Open {
      uint64_t frame;
      uint32_t activation, call;
    };
    constexpr uint32_t kNone = ~uint32_t{0};
    std::vector<Open> open;
    bool is_suspended = false;  // with its greenlet, whose frames are switched all at once
    size_t chunk = history_.ChunksOf({start_.time, start_.time + 1}).first;
    for (; chunk < history_.chunks(); ++chunk) {
      RETURN_IF_ERROR(NotInterrupted(control_));
      RETURN_IF_ERROR(history_.Wait(chunk + 1, control_));
      ASSIGN_OR_RETURN(const auto transitions, history_.Chunk(chunk));
      for (const Transition& t : *transitions) {
        if (t.thread != start_.thread || t.time < start_.time) continue;
        if (open.empty() && (t.frame != start_.frame || t.time != start_.time)) continue;
        const bool is_out = t.kind == TransitionKind::kSwitchOut;
        if (is_out || (!open.empty() && t.kind == TransitionKind::kSwitchIn)) {
          if (t.frame == start_.frame) is_suspended = is_out;
          continue;
        }
        if (is_suspended) continue;
        if (python::Enters(t.kind)) {
          const auto depth = static_cast<uint32_t>(open.size());
          uint32_t call = kNone, activation = kNone;
          if (depth > 0 && open.back().activation != kNone) {
            call = static_cast<uint32_t>(calls_.size());
            calls_.push_back({open.back().activation, t, std::nullopt, kNone});
          }
          if (depth < depth_) {
            activation = static_cast<uint32_t>(activations_.size());
            activations_.push_back({t, std::nullopt, depth, {}});
            if (call != kNone) calls_[call].activation = activation;
          }
          open.push_back({t.frame, activation, call});
          continue;
        }
        size_t left = open.size();
        while (left > 0 && open[left - 1].frame != t.frame) --left;
        if (left == 0) continue;
        while (open.size() >= left) {
          if (open.back().activation != kNone) activations_[open.back().activation].end = t;
          if (open.back().call != kNone) calls_[open.back().call].end = t;
          open.pop_back();
        }
        if (open.empty()) return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::Status Lines() {
    std::vector<uint32_t> codes;
    absl::flat_hash_map<uint64_t, std::vector<uint32_t>> by_frame;
    for (uint32_t i = 0; i < activations_.size(); ++i) {
      codes.push_back(activations_[i].call.code);
      by_frame[activations_[i].call.frame].push_back(i);
    }
    std::sort(codes.begin(), codes.end());
    codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
    TimeSpan span;
    span.begin = start_.time;
    if (activations_[0].end) span.end = activations_[0].end->time + 1;
    ASSIGN_OR_RETURN(auto scanner, python::LineScanner::Open(context_.process(), history_, codes, 0,
                                                             span, start_.thread, control_));
    while (true) {
      ASSIGN_OR_RETURN(std::optional<python::LineEvent> event, scanner->Next());
      if (!event) break;
      const auto of = by_frame.find(event->frame);
      if (of == by_frame.end()) continue;
      for (const uint32_t i : of->second) {
        Activation& activation = activations_[i];
        if (event->time < activation.call.time) break;
        if (activation.end && event->time > activation.end->time) continue;
        if (!activation.steps.empty()) steps_[activation.steps.back()].end = event->time;
        activation.steps.push_back(static_cast<uint32_t>(steps_.size()));
        const Time end = activation.end ? activation.end->time : context_.process().info().end;
        steps_.push_back({event->time, end, i, event->line, {}});
        break;
      }
      if (steps_.size() >= kMaxSteps) {
        outcome_->MarkIncomplete(
            fmt::format("only the first {} lines of the activation are here", kMaxSteps));
        break;
      }
    }
    return absl::OkStatus();
  }

  // Each to the line that made it.
  void GiveCalls() {
    for (uint32_t i = 0; i < calls_.size(); ++i) {
      const std::vector<uint32_t>& steps = activations_[calls_[i].caller].steps;
      auto after = std::upper_bound(steps.begin(), steps.end(), calls_[i].call.time,
                                    [&](Time t, uint32_t s) { return t < steps_[s].time; });
      if (after != steps.begin()) steps_[*std::prev(after)].calls.push_back(i);
    }
  }

  std::vector<FoldedStep> Fold() const {
    FoldInput input;
    input.keys.resize(steps_.size());
    input.called.resize(steps_.size());
    for (const Activation& activation : activations_) {
      input.of_activation.push_back(activation.steps);
    }
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      input.keys[i] = absl::HashOf(steps_[i].line, activations_[steps_[i].activation].call.code);
      for (const uint32_t call : steps_[i].calls) {
        if (calls_[call].activation != ~uint32_t{0}) {
          input.called[i].push_back(calls_[call].activation);
        }
      }
    }
    return FoldLoops(input, 0);
  }

  Row RowOf(const FoldedStep& folded) {
    const Step& step = steps_[folded.first];
    const Activation& activation = activations_[step.activation];
    const python::Code& code = history_.code(activation.call.code);
    Row row(kTraceWidth);
    row[kTraceTime] = step.time;
    row[kTraceThread] = OfThread(start_.thread);
    row[kTraceFunction] = code.qualname;
    row[kTraceFile] = OfText(code.filename);
    row[kTraceLine] = int64_t{step.line};
    row[kTraceDepth] = int64_t{activation.depth};
    row[kTraceTimes] = OfCount(folded.times);
    row[kTraceLastTime] = steps_[folded.last].time;
    row[kTraceSource] = OfText(source_.Line(code.filename, step.line));
    row[kTraceFrame] = Address(activation.call.frame);
    return row;
  }

  // ---- Values ----

  void AskFor(const FoldedStep& folded) {
    for (const uint32_t i : {folded.first, folded.last}) {
      const Step& step = steps_[i];
      const uint64_t frame = activations_[step.activation].call.frame;
      variables_.try_emplace(Version(step.time, frame));
      variables_.try_emplace(Version(step.end, frame));
    }
    for (const auto& group : CallsOf(folded)) {
      for (const uint32_t i : {group.front(), group.back()}) {
        const auto [shown, is_new] = shown_.try_emplace(i);
        if (!is_new) continue;  // it is the row's first and last
        shown->second.time = calls_[i].call.current_from();
        entries_.emplace(calls_[i].call.current_from(), i);
        if (!calls_[i].end) continue;
        shown->second.returned = calls_[i].end->time;
        if (calls_[i].end->kind == TransitionKind::kReturn) {
          returns_.emplace(calls_[i].end->time, i);
        }
      }
    }
  }

  // In the order of time.
  absl::Status Read() {
    auto variable = variables_.begin();
    auto entry = entries_.begin(), end = returns_.begin();
    const auto& root = activations_[0].end;
    bool root_done = !root || root->kind != TransitionKind::kReturn;
    while (true) {
      Time next = kTimeMax;
      if (variable != variables_.end()) next = std::min(next, variable->first.first);
      if (entry != entries_.end()) next = std::min(next, entry->first);
      if (end != returns_.end()) next = std::min(next, end->first);
      if (!root_done) next = std::min(next, root->time);
      if (next == kTimeMax) return absl::OkStatus();
      RETURN_IF_ERROR(NotInterrupted(control_));
      ASSIGN_OR_RETURN(PythonState * state, provenance_.StateAt(next));
      PythonState::Instance* instance = nullptr;
      for (const auto& i : state->instances()) {
        if (i->runtime.minor == history_.layout_of(start_.code).minor) instance = i.get();
      }
      for (; variable != variables_.end() && variable->first.first == next; ++variable) {
        if (instance) ReadVariables(*instance, variable->first.second, &variable->second);
      }
      for (; entry != entries_.end() && entry->first == next; ++entry) {
        if (instance) ReadArguments(*instance, entry->second);
      }
      for (; end != returns_.end() && end->first == next; ++end) {
        if (!instance) continue;
        shown_[end->second].result =
            TextOf(PyResult(history_, *instance, *calls_[end->second].end));
      }
      if (!root_done && root->time == next) {
        if (instance) result_ = TextOf(PyResult(history_, *instance, *root));
        root_done = true;
      }
    }
  }

  void ReadVariables(PythonState::Instance& instance, uint64_t address, Variables* variables) {
    python::Frame frame;
    if (instance.frames.ReadFrame(address, &frame, /*current=*/true) !=
        python::FrameReader::Kind::kPython) {
      return;
    }
    python::ReprLimits limits;
    limits.characters = 200;
    for (const python::LocalVariable& v : instance.frames.Locals(frame, kMaxVariables)) {
      const bool is_namespace = v.kind == python::LocalVariable::Kind::kName;
      if (v.value == 0 || (is_namespace && v.name.starts_with("__"))) continue;
      variables->emplace_back(v.name, instance.objects.Repr(v.value, limits));
    }
  }

  void ReadArguments(PythonState::Instance& instance, uint32_t call) {
    const Value arguments = PyArguments(history_, instance, calls_[call].call);
    const Object* object = arguments.object();
    if (!object) return;
    for (const auto& [name, value] : object->fields) {
      Object one;
      one.fields = {{"name", name}, {"value", value}};
      shown_[call].arguments.emplace_back(std::move(one));
      std::string& text = shown_[call].arguments_text;
      absl::StrAppend(&text, text.empty() ? "" : ", ", TextOf(value));
    }
  }

  std::vector<Change> ChangesOf(uint32_t index) {
    const Step& step = steps_[index];
    const uint64_t frame = activations_[step.activation].call.frame;
    const Variables& before = variables_[Version(step.time, frame)];
    const Variables& after = variables_[Version(step.end, frame)];
    const auto find = [](const Variables& all, const std::string& name) {
      const auto it =
          std::find_if(all.begin(), all.end(), [&](const auto& v) { return v.first == name; });
      return it == all.end() ? std::optional<std::string>() : std::optional(it->second);
    };
    std::vector<Change> changes;
    for (const auto& [name, value] : after) {
      const std::optional<std::string> old = find(before, name);
      if (old != value) changes.push_back({name, old, value});
    }
    // Of a frame that is being left nothing is said.
    if (after.empty()) return changes;
    for (const auto& [name, value] : before) {
      if (!find(after, name)) changes.push_back({name, value, std::nullopt});
    }
    return changes;
  }

  // By the function called, in the order of their first calls.
  std::vector<std::vector<uint32_t>> CallsOf(const FoldedStep& folded) const {
    std::vector<std::vector<uint32_t>> groups;
    for (const uint32_t i : folded.steps) {
      for (const uint32_t call : steps_[i].calls) {
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
          return folded.times > 1 && calls_[g.front()].call.code == calls_[call].call.code;
        });
        if (same == groups.end()) {
          groups.push_back({call});
        } else {
          same->push_back(call);
        }
      }
    }
    return groups;
  }

  Value Calls(const FoldedStep& folded) {
    List list;
    for (const auto& group : CallsOf(folded)) {
      const Transition& call = calls_[group.front()].call;
      list.push_back(CallValue(history_.code(call.code).qualname, group.size(),
                               shown_[group.front()], shown_[group.back()],
                               python::TransitionKindName(call.kind)));
    }
    return list.empty() ? Value() : Value(std::move(list));
  }

  void Endings(const std::vector<FoldedStep>& folded, std::vector<Row>* rows) {
    absl::flat_hash_map<uint32_t, size_t> last_row;
    for (size_t i = 0; i < folded.size(); ++i) {
      for (const uint32_t step : folded[i].steps) last_row[steps_[step].activation] = i;
    }
    for (const auto& [index, row] : last_row) {
      const Activation& activation = activations_[index];
      std::string text = "is active where the recording ends";
      if (activation.end) {
        const bool returned = activation.end->kind == TransitionKind::kReturn;
        text = returned                                          ? "returned"
               : activation.end->kind == TransitionKind::kUnwind ? "was left by an exception"
                                                                 : "yielded";
        if (returned && index == 0 && result_) text += " " + *result_;
        for (const MadeCall& call : calls_) {
          const auto shown = shown_.find(static_cast<uint32_t>(&call - calls_.data()));
          if (returned && call.activation == index && shown != shown_.end() &&
              shown->second.result) {
            text += " " + *shown->second.result;
          }
        }
      }
      (*rows)[row][kTraceEnded] = text;
      if (index != 0) continue;
      outcome_->AddNote(
          fmt::format("{} {}{}", history_.code(start_.code).qualname, text,
                      activation.end ? fmt::format(", at time {}", activation.end->time.v) : ""));
    }
  }

  const Context& context_;
  const FrameHistory& history_;
  const Transition start_;
  const uint32_t depth_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  python::Provenance provenance_;
  python::SourceText source_;
  std::vector<Activation> activations_;
  std::vector<MadeCall> calls_;
  std::vector<Step> steps_;
  std::map<Version, Variables> variables_;
  std::multimap<Time, uint32_t> entries_, returns_;  // of calls, what is to be read
  std::map<uint32_t, CallShown> shown_;
  std::optional<std::string> result_;
};

// The first entry of one of the codes in the span.
absl::StatusOr<std::optional<Transition>> FirstCall(const HistoryAsked& asked,
                                                    const std::vector<uint32_t>& codes,
                                                    ScanControl* control) {
  const auto [first, last] = asked.history->ChunksOf(asked.span);
  for (size_t i = first; i < last; ++i) {
    RETURN_IF_ERROR(NotInterrupted(control));
    if (!asked.history->ChunkEnters(i, codes)) continue;
    ASSIGN_OR_RETURN(const auto chunk, asked.history->Chunk(i));
    for (const Transition& t : *chunk) {
      if (t.kind != TransitionKind::kCall || !asked.span.Contains(t.current_from())) continue;
      if (asked.thread && t.thread != *asked.thread) continue;
      if (std::binary_search(codes.begin(), codes.end(), t.code)) return t;
    }
  }
  return std::nullopt;
}

// How the innermost frame of a thread at a time was entered.
absl::StatusOr<std::optional<Transition>> EntryAt(const FrameHistory& history, ThreadNo thread,
                                                  Time t) {
  ASSIGN_OR_RETURN(const auto frame, history.InnermostAt(thread, t));
  if (!frame) return std::nullopt;
  const size_t chunk = history.ChunksOf({frame->pushed, frame->pushed + 1}).first;
  if (chunk >= history.chunks()) return std::nullopt;
  ASSIGN_OR_RETURN(const auto transitions, history.Chunk(chunk));
  for (const Transition& entry : *transitions) {
    if (entry.time == frame->pushed && entry.frame == frame->frame && python::Enters(entry.kind)) {
      return entry;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::PyTrace& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(HistoryAsked asked, ResolveHistory(query, context, options, ask));
  ASSIGN_OR_RETURN(const uint32_t depth, TraceDepth(query));
  SourcePlan plan = PlanOfTrace(depth, /*python=*/true);
  std::optional<Transition> start;
  std::string text;
  if (const auto* time = std::get_if<ast::Time>(&source.what)) {
    RETURN_IF_ERROR(RefuseSpan(query));
    ASSIGN_OR_RETURN(const QueryTime at, TimeOfTrace(context, *time, ask));
    const Time t = at.time;
    std::optional<ThreadNo> thread = asked.thread;
    if (!thread) {
      ASSIGN_OR_RETURN(thread, context.process().ThreadAt(t));
    }
    ASSIGN_OR_RETURN(start, EntryAt(*asked.history, *thread, t));
    if (!start) {
      return ErrorAt(time->range,
                     fmt::format("thread {} runs no Python function at time {}", thread->v, t.v));
    }
    text = fmt::format("the activation at time {}", t.v);
  } else {
    std::variant<ast::FunctionPattern, ast::FileLine> what;
    if (const auto* function = std::get_if<ast::FunctionPattern>(&source.what)) {
      what = *function;
    } else {
      what = std::get<ast::FileLine>(source.what);
    }
    ASSIGN_OR_RETURN(std::vector<uint32_t> codes, python::FindCodes(*asked.history, what));
    NotePastEnd(asked.span, context.process().info(), &plan);
    ASSIGN_OR_RETURN(start, FirstCall(asked, codes, options.control));
    text = fmt::format("the first call of {}{}", ast::ToString(what), SpanText(asked.span));
    plan.presentation.no_rows =
        fmt::format("{} was not called{}", ast::ToString(what), SpanText(asked.span));
  }
  plan.open = [&context, start, depth, history = asked.history, unfolded = query.clauses.unfolded](
                  const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    if (!start) return NoRows(request);
    const std::shared_ptr<Outcome> outcome = request.outcome;
    ScanControl* control = request.options->control;
    return OperatorPtr(std::make_unique<ComputedSource>(
        [&context, start, depth, unfolded, control, outcome, history,
         want = request.want_values]() {
          return PythonTrace(context, *history, *start, depth, outcome, control)
              .Rows(unfolded, want);
        },
        outcome));
  };
  plan.explain = [text, depth](const SourceRequest&) {
    return absl::StatusOr<std::string>(fmt::format(
        "the lines of {}{}: its frames from the history, then every instruction of theirs", text,
        depth > 1 ? fmt::format(" and of what it calls, {} deep", depth - 1) : ""));
  };
  return plan;
}

}  // namespace ttq
