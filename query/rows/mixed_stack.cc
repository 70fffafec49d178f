// SPDX-License-Identifier: MIT

#include "query/rows/mixed_stack.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/code_names.h"
#include "query/cpython/provenance.h"
#include "query/outcome.h"
#include "query/process/row_moment.h"
#include "query/rows/frame_values.h"
#include "query/rows/py_stack.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

// Up to 3.10: the stack pointer of the evaluation that runs `frame`, a frame of `thread` at `now`.
// nullopt: nothing of it was executed yet.
absl::StatusOr<std::optional<uint64_t>> EvaluationOf(const Process& process,
                                                     const python::Layout& layout,
                                                     const python::Frame& frame, ThreadNo thread,
                                                     Time now) {
  if (frame.offset < 0) return std::nullopt;
  AccessQuery query;
  const Address at(frame.address + static_cast<uint64_t>(layout.frame_instruction));
  query.ranges = {{at, at + 4}};
  query.span.end = now;
  query.thread = thread;
  query.want_values = false;
  ASSIGN_OR_RETURN(std::optional<Access> access, LastAccess(process, std::move(query)));
  if (!access || access->actor != Actor::kInstruction) return std::nullopt;
  ASSIGN_OR_RETURN(Registers registers, process.RegistersAt(access->time, thread));
  return registers.gpr[kRsp];
}

// Up to 3.10 each frame of Python is run by an evaluation of its own: the stack pointer of the
// number-th one, from the innermost on. For where no history tells more.
std::optional<uint64_t> NthEvaluation(const Stack& native, size_t number) {
  for (const Frame& frame : native.frames) {
    if (!frame.symbol.starts_with("_PyEval_EvalFrameDefault")) continue;
    if (number-- == 0) return frame.registers.Get(kRsp);
  }
  return std::nullopt;
}

// Before which of the native frames those belong that the function with `on_stack` on its stack
// runs; nullopt: no frame has it.
std::optional<size_t> PlaceOf(const Stack& native, uint64_t on_stack) {
  std::optional<size_t> place;
  for (size_t i = 0; i < native.frames.size(); ++i) {
    const Frame& frame = native.frames[i];
    const std::optional<uint64_t> rsp = frame.registers.Get(kRsp);
    if (!rsp || !frame.cfa || on_stack < *rsp || on_stack >= frame.cfa->v) {
      if (place) break;
      continue;
    }
    // Of functions inlined into one another the evaluation is the outermost, unless it says so.
    place = i;
    if (frame.symbol.starts_with("_PyEval_EvalFrameDefault")) break;
  }
  return place;
}

}  // namespace

absl::StatusOr<std::vector<MixedFrame>> Interleave(
    const Process& process, const Stack& native,
    const std::vector<python::PythonState::ThreadStack>& python, Outcome* outcome) {
  std::vector<std::vector<MixedFrame>> before(native.frames.size() + 1);
  for (const python::PythonState::ThreadStack& stack : python) {
    if (!stack.stack.incomplete.empty()) outcome->MarkIncomplete(stack.stack.incomplete);
    const python::Layout& layout = stack.instance->frames.layout();
    size_t place = 0, number = 0, evaluations = 0;
    std::optional<uint64_t> known;  // whose place that is
    for (const python::Frame& frame : stack.stack.frames) {
      std::optional<uint64_t> on_stack;
      if (frame.on_c_stack != 0) {
        on_stack = frame.on_c_stack;
      } else if (layout.traits.frame_is_object && HistoryUnknown(process)) {
        if (frame.offset >= 0) on_stack = NthEvaluation(native, evaluations++);
      } else if (layout.traits.frame_is_object) {
        ASSIGN_OR_RETURN(on_stack,
                         EvaluationOf(process, layout, frame, native.thread, native.time));
      }
      if (on_stack && on_stack != known) {
        known = on_stack;
        const std::optional<size_t> found = PlaceOf(native, *on_stack);
        if (found && *found >= place) {
          place = *found;
        } else {
          place = native.frames.size();
          outcome->AddNote(fmt::format(
              "the Python frames from {} on stand at the end: the native frame that runs them "
              "was not found",
              number));
        }
      }
      before[place].push_back({nullptr, &frame, stack.instance, number++});
    }
  }
  std::vector<MixedFrame> mixed;
  for (size_t i = 0; i < before.size(); ++i) {
    mixed.insert(mixed.end(), before[i].begin(), before[i].end());
    if (i == native.frames.size()) break;
    mixed.push_back({&native.frames[i], nullptr, nullptr, native.frames[i].number});
  }
  return mixed;
}

Value ArgumentsNow(python::PythonState::Instance& instance, const python::Frame& frame) {
  Object args;
  const python::Code& code = *frame.code;
  const size_t n = std::min(python::ArgumentCount(code), code.variables.size());
  const std::vector<python::LocalVariable> locals = instance.frames.Locals(frame);
  for (size_t i = 0; i < n; ++i) {
    const std::string& name = code.variables[i].name;
    const auto local = std::find_if(locals.begin(), locals.end(), [&](const auto& v) {
      return v.name == name && v.kind != python::LocalVariable::Kind::kName;
    });
    args.fields.emplace_back(
        name, local == locals.end() ? Value() : ObjectValue(instance.objects, local->value));
  }
  return Value(std::move(args));
}

Extend MakeMixedBacktrace(const Context& context, std::shared_ptr<RowMoment> moment,
                          size_t time_slot, std::optional<size_t> thread_slot,
                          std::optional<size_t> inlined_slot, std::shared_ptr<Outcome> outcome) {
  struct Kept {
    explicit Kept(const Context& context)
        : provenance(&context, nullptr), source(&context.process()) {}
    python::Provenance provenance;
    python::SourceText source;
    size_t remarks = 0;
  };
  auto kept = std::make_shared<Kept>(context);
  return [&context, moment = std::move(moment), time_slot, thread_slot, inlined_slot,
          outcome = std::move(outcome), kept](Row* row) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<Stack> native, StackOfRow(*moment, *row, time_slot, thread_slot,
                                                             outcome.get(), inlined_slot));
    if (!native) {
      row->push_back(Null{});
      return absl::OkStatus();
    }
    std::vector<python::PythonState::ThreadStack> python;
    ASSIGN_OR_RETURN(python::PythonState * state, kept->provenance.StateAt(native->time));
    if (state != nullptr) {
      python = state->Stacks(native->thread);
      if (!state->problem().empty()) outcome->AddNote(state->problem());
    }
    ASSIGN_OR_RETURN(std::vector<MixedFrame> frames,
                     Interleave(context.process(), *native, python, outcome.get()));
    ASSIGN_OR_RETURN(Moment * then, moment->At(native->time));
    List list;
    for (const MixedFrame& frame : frames) {
      Object object;
      if (frame.native != nullptr) {
        ASSIGN_OR_RETURN(object, FrameObject(context, *then, native->thread, *frame.native));
      } else {
        const python::Frame& f = *frame.python;
        const int line = f.position.line;
        const std::string text = kept->source.Line(f.code->filename, line);
        object.fields = {{"frame", static_cast<int64_t>(frame.number)},
                         {"function", f.code->qualname},
                         {"file", f.code->filename},
                         {"line", line > 0 ? Value(int64_t{line}) : Value()},
                         {"args", ArgumentsNow(*frame.instance, f)},
                         {"source", text.empty() ? Value() : Value(text)},
                         {"frame_address", Address(f.address)}};
      }
      object.fields.emplace_back("language", frame.native ? "native" : "python");
      list.emplace_back(std::move(object));
    }
    row->push_back(Value(std::move(list)));
    for (; kept->remarks < kept->source.remarks().size(); ++kept->remarks) {
      outcome->AddNote(kept->source.remarks()[kept->remarks]);
    }
    return absl::OkStatus();
  };
}

}  // namespace ttq
