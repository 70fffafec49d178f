// SPDX-License-Identifier: MIT

#include "query/ctypes/expression_at.h"

#include "base/status_macros.h"
#include "base/text.h"
#include "query/ctypes/evaluator.h"
#include "query/language/diagnostic.h"
#include "query/process/stack.h"

namespace ttq {

namespace {

// The innermost of the other frames that has a variable of this name.
std::optional<uint64_t> FrameWith(const ProcessTypes& context, const TypeSpace& types,
                                  Moment* moment, std::optional<ThreadNo> thread,
                                  const std::string& name, uint64_t not_in) {
  constexpr uint64_t kFramesLookedAt = 33;
  for (uint64_t number = 0; number < kFramesLookedAt; ++number) {
    if (number == not_in) continue;
    absl::StatusOr<FrameView> view = FrameAt(context, moment, thread, number);
    if (!view.ok()) return std::nullopt;
    if (FrameState(context, types, moment, *view).FindLocal(name)) return number;
  }
  return std::nullopt;
}

// With the frame that has the name which nothing has in this one.
absl::Status WithFrame(absl::Status error, const std::string& name, std::optional<uint64_t> frame) {
  const std::optional<Diagnostic> diagnostic = GetDiagnostic(error);
  if (!diagnostic || !frame) return error;
  return ErrorAt({diagnostic->begin, diagnostic->end}, Cat("nothing is called ", name, " here"),
                 Cat("frame ", *frame, " has one: `in frame ", *frame, "`"));
}

}  // namespace

absl::StatusOr<FrameView> FrameAt(const ProcessTypes& context, Moment* moment,
                                  std::optional<ThreadNo> thread, uint64_t number,
                                  std::optional<uint32_t> inlined) {
  FrameView view;
  if (thread) {
    view.thread = *thread;
  } else {
    ASSIGN_OR_RETURN(view.thread, moment->RunningThread());
  }
  if (inlined && thread) {
    // It is told of the thread that runs.
    ASSIGN_OR_RETURN(ThreadNo running, moment->RunningThread());
    if (running != *thread) inlined.reset();
  }
  if (number == 0) {
    ASSIGN_OR_RETURN(Registers registers, moment->RegistersOf(view.thread));
    view.registers = registers;
    view.pc = registers.pc;
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(moment->time()));
    const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(view.pc);
    view.inlined = InnermostAt(*symbols, *location, *moment, view.pc, inlined);
    return view;
  }
  Unwinder unwinder(context);
  StackOptions options;
  options.max_frames = number + 1;
  options.past_main = true;
  options.inlined = inlined;
  ASSIGN_OR_RETURN(Stack stack, unwinder.StackOf(*moment, view.thread, options));
  if (number >= stack.frames.size()) {
    return absl::OutOfRangeError(Cat("there is no frame ", number, ": the stack has ",
                                     stack.frames.size(),
                                     stack.frames.size() == 1 ? " frame" : " frames"));
  }
  const Frame& frame = stack.frames[number];
  view.pc = frame.lookup_pc;
  view.inlined = frame.inlined;
  for (int i = 0; i < kGprCount; ++i) view.registers.gpr[i] = frame.registers.gpr[i];
  view.registers.pc = frame.pc;
  view.known = frame.registers.known;
  if (!frame.is_gone) view.cfa = frame.cfa;
  return view;
}

absl::StatusOr<EvaluatedValue> EvaluateExpression(const ProcessTypes& context,
                                                  const ast::Expr& expr, Moment* moment,
                                                  bool in_frame, std::optional<ThreadNo> thread,
                                                  uint64_t frame, std::optional<uint32_t> inlined) {
  EvaluatedValue result;
  ASSIGN_OR_RETURN(const TypeSpace* types, context.TypesAt(moment->time()));
  result.types = types;
  std::optional<FrameState> state;
  if (in_frame) {
    absl::StatusOr<FrameView> view = FrameAt(context, moment, thread, frame, inlined);
    if (view.ok()) {
      result.frame = *view;
      state.emplace(context, *types, moment, *std::move(view));
    } else if (absl::IsOutOfRange(view.status()) || (thread && absl::IsNotFound(view.status()))) {
      return ErrorAt(expr.range, std::string(view.status().message()));
    } else if (!absl::IsNotFound(view.status())) {
      return view.status();
    }
  }
  Evaluator evaluator(context, *types, moment, state ? &*state : nullptr);
  absl::StatusOr<CValue> value = evaluator.Evaluate(expr);
  if (!value.ok()) {
    const std::string& name = evaluator.unknown_name();
    if (!state || name.empty()) return value.status();
    return WithFrame(value.status(), name, FrameWith(context, *types, moment, thread, name, frame));
  }
  result.value = *std::move(value);
  result.note = evaluator.NoteOnTypes();
  return result;
}

}  // namespace ttq
