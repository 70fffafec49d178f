// SPDX-License-Identifier: MIT
//
// The variables of one activation of a function: its arguments, as DWARF describes them, at any
// moment of it, at its entry, and what it returned. What the expression evaluator needs to know of
// a frame, and what stacks and calls show of one.
//
// Arguments are the function's formal parameters in order. One without a value says why (`text`)
// and has a null `value`; a function without DWARF has none, and the caller falls back to the ABI's
// registers and says so.

#ifndef TTQ_QUERY_CTYPES_FRAME_H_
#define TTQ_QUERY_CTYPES_FRAME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "query/ctypes/abi.h"
#include "query/ctypes/c_value.h"
#include "query/ctypes/process_types.h"
#include "query/ctypes/type_space.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

// One frame of a stack. The moment it is used with stands at the time the stack is of.
struct FrameView {
  ThreadNo thread;
  // The instruction the frame is at: the one to be executed in frame 0, the call in its callers
  // (the return address minus one will do).
  Address pc;
  // Of the functions inlined into one another at pc, which: 0 is the innermost.
  size_t inlined = 0;
  // As the frame sees them: a caller's callee-saved registers restored, rsp as after the return.
  Registers registers;
  // Bit i: registers.gpr[i] is known.
  uint32_t known = 0xffff;
  // Absent: computed from the registers by the call-frame information at pc.
  std::optional<Address> cfa;
  // The time of the function's first instruction in this activation; absent: looked for when it is
  // needed.
  std::optional<Time> entered;
  // Nothing is looked for in the past of the activation: what the frame does not hold any more has
  // no value. For whole stacks, where each look back would cost a few blocks.
  bool present_only = false;
};

struct Argument {
  std::string name;  // "" when the declaration gives none
  std::string type;  // as C writes it
  // A number, an Address for a pointer, an Object for a struct or union (by member name), a List
  // for an array, text for an enumerator or a floating-point number; null: no value.
  Value value;
  std::string text;  // as `print` shows it; for no value, why
};

// The arguments as they are in the frame now; at the function's first instruction, as they were
// passed. Empty when there is no DWARF for the function. Errors
// are the store's only.
absl::StatusOr<std::vector<Argument>> ArgumentsOf(const ProcessTypes& context,
                                                  const FrameView& frame, Moment* moment);

// All that is in scope and has a value now: arguments and variables, a shadowed one left out, in
// the order of their declarations. Empty when there is no DWARF. Errors are the store's only.
absl::StatusOr<std::vector<Argument>> VariablesOf(const ProcessTypes& context,
                                                  const FrameView& frame, Moment* moment);

// How a function returns its result: its declared type, and where the calling convention puts it.
struct ReturnConvention {
  const TypeSpace* types = nullptr;
  const CType* type = nullptr;
  AbiLocation place;
  // A number, pointer or enumerator in rax: that register is all there is to it.
  bool in_rax = false;
};
// Of the function with its entry at `function`; nullopt: no DWARF says.
absl::StatusOr<std::optional<ReturnConvention>> ReturnConventionOf(const ProcessTypes& context,
                                                                   Time t, Address function);
// The result. `registers` are those just after the return; a result in memory must be read at that
// time. Void, and a result that is not known, are `missing`.
absl::StatusOr<CValue> ResultAtReturn(const ReturnConvention& result, const Registers& registers);

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_FRAME_H_
