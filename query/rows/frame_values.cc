// SPDX-License-Identifier: MIT

#include "query/rows/frame_values.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "query/ctypes/frame.h"

namespace ttq {

Value ArgumentsByAbi(const uint64_t* gpr) {
  static constexpr const char* kNames[] = {"arg0", "arg1", "arg2", "arg3", "arg4", "arg5"};
  Object args;
  for (int i = 0; i < 6; ++i) args.fields.emplace_back(kNames[i], Word{gpr[ArgumentRegister(i)]});
  return Value(std::move(args));
}

std::string ArgumentName(const std::string& name, size_t i) {
  return name.empty() ? absl::StrCat("arg", i) : name;
}

Value ArgumentsObject(const std::vector<Argument>& arguments) {
  Object object;
  for (size_t i = 0; i < arguments.size(); ++i) {
    object.fields.emplace_back(ArgumentName(arguments[i].name, i), arguments[i].value);
  }
  return Value(std::move(object));
}

absl::StatusOr<Value> FrameArguments(const Context& context, Moment& moment, ThreadNo thread,
                                     const Frame& frame) {
  if (frame.kind == Frame::Kind::kSignal || frame.kind == Frame::Kind::kJit) return Value(Null{});
  FrameView view;
  view.thread = thread;
  view.pc = frame.lookup_pc;
  view.inlined = frame.inlined;
  std::copy(frame.registers.gpr.begin(), frame.registers.gpr.end(), view.registers.gpr);
  view.registers.pc = frame.pc;
  view.known = frame.registers.known;
  if (!frame.is_gone) view.cfa = frame.cfa;
  view.present_only = true;
  const bool at_entry = frame.at_entry && frame.kind == Frame::Kind::kNormal;
  if (at_entry) {
    absl::StatusOr<Registers> whole = moment.RegistersOf(thread);  // vector registers too
    if (!whole.ok()) return whole.status();
    view.registers = *whole;
  }
  ASSIGN_OR_RETURN(std::vector<Argument> arguments, ArgumentsOf(context, view, &moment));
  if (!arguments.empty()) return ArgumentsObject(arguments);
  return at_entry ? ArgumentsByAbi(frame.registers.gpr.data()) : Value(Null{});
}

absl::StatusOr<Object> FrameObject(const Context& context, Moment& moment, ThreadNo thread,
                                   const Frame& frame) {
  const auto text = [](const std::string& s) { return s.empty() ? Value(Null{}) : Value(s); };
  ASSIGN_OR_RETURN(Value args, FrameArguments(context, moment, thread, frame));
  Object object;
  object.fields = {{"frame", int64_t{frame.number}},
                   {"pc", frame.pc},
                   {"function", text(frame.function)},
                   {"module", text(frame.module)},
                   {"file", text(frame.file)},
                   {"line", frame.line > 0 ? Value(int64_t{frame.line}) : Value(Null{})},
                   {"args", std::move(args)},
                   {"kind", FrameKindName(frame.kind)}};
  return object;
}

absl::StatusOr<Value> FrameList(const Context& context, Moment& moment, const Stack& stack) {
  List list;
  for (const Frame& frame : stack.frames) {
    ASSIGN_OR_RETURN(Object object, FrameObject(context, moment, stack.thread, frame));
    list.emplace_back(std::move(object));
  }
  return Value(std::move(list));
}

}  // namespace ttq
