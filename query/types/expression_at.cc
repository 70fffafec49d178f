// SPDX-License-Identifier: MIT

#include "query/types/expression_at.h"

#include "query/stack.h"
#include "query/text.h"
#include "query/types/evaluator.h"

namespace ttq {

absl::StatusOr<FrameView> FrameAt(const Context& context, Moment* moment,
                                  std::optional<ThreadNo> thread, uint64_t number,
                                  std::optional<uint32_t> inlined) {
  FrameView view;
  if (thread) {
    view.thread = *thread;
  } else {
    absl::StatusOr<ThreadNo> running = moment->RunningThread();
    if (!running.ok()) return running.status();
    view.thread = *running;
  }
  if (inlined && thread) {
    // It is told of the thread that runs.
    absl::StatusOr<ThreadNo> running = moment->RunningThread();
    if (!running.ok()) return running.status();
    if (*running != *thread) inlined.reset();
  }
  if (number == 0) {
    absl::StatusOr<Registers> registers = moment->RegistersOf(view.thread);
    if (!registers.ok()) return registers.status();
    view.registers = *registers;
    view.pc = registers->pc;
    absl::StatusOr<const Symbolizer*> symbols = context.SymbolsAt(moment->time());
    if (!symbols.ok()) return symbols.status();
    const std::shared_ptr<const CodeLocation> location = (*symbols)->Symbolize(view.pc);
    view.inlined = InnermostAt(**symbols, *location, *moment, view.pc, inlined);
    return view;
  }
  Unwinder unwinder(context);
  StackOptions options;
  options.max_frames = number + 1;
  options.past_main = true;
  options.inlined = inlined;
  absl::StatusOr<Stack> stack = unwinder.StackOf(*moment, view.thread, options);
  if (!stack.ok()) return stack.status();
  if (number >= stack->frames.size()) {
    return absl::OutOfRangeError(Cat("there is no frame ", number, ": the stack has ",
                                     stack->frames.size(),
                                     stack->frames.size() == 1 ? " frame" : " frames"));
  }
  const Frame& frame = stack->frames[number];
  view.pc = frame.lookup_pc;
  view.inlined = frame.inlined;
  for (int i = 0; i < kGprCount; ++i) view.registers.gpr[i] = frame.registers.gpr[i];
  view.registers.pc = frame.pc;
  view.known = frame.registers.known;
  if (!frame.is_gone) view.cfa = frame.cfa;
  return view;
}

absl::StatusOr<EvaluatedValue> EvaluateExpression(const Context& context, const ast::Expr& expr,
                                                  Moment* moment, bool in_frame,
                                                  std::optional<ThreadNo> thread, uint64_t frame,
                                                  std::optional<uint32_t> inlined) {
  EvaluatedValue result;
  absl::StatusOr<const TypeSpace*> types = context.TypesAt(moment->time());
  if (!types.ok()) return types.status();
  result.types = *types;
  std::optional<FrameState> state;
  if (in_frame) {
    absl::StatusOr<FrameView> view = FrameAt(context, moment, thread, frame, inlined);
    if (view.ok()) {
      result.frame = *view;
      state.emplace(context, **types, moment, *std::move(view));
    } else if (absl::IsOutOfRange(view.status()) || (thread && absl::IsNotFound(view.status()))) {
      return ErrorAt(expr.range, std::string(view.status().message()));
    } else if (!absl::IsNotFound(view.status())) {
      return view.status();
    }
  }
  Evaluator evaluator(context, **types, moment, state ? &*state : nullptr);
  absl::StatusOr<CValue> value = evaluator.Evaluate(expr);
  if (!value.ok()) return value.status();
  result.value = *std::move(value);
  return result;
}

}  // namespace ttq
