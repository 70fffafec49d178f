// SPDX-License-Identifier: MIT
//
// The conditions of breakpoints, as gdb hands them over: bytecode for a machine with a stack of
// 64-bit numbers (gdb's manual, "Agent Expressions"). Code is untrusted: its steps and its stack
// are bounded.

#ifndef TTQ_GDB_AGENT_EXPRESSION_H_
#define TTQ_GDB_AGENT_EXPRESSION_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"

namespace ttq::gdb {

// The program's state that an expression looks at. Each gives nullopt for what is not known.
struct AgentState {
  absl::FunctionRef<std::optional<uint64_t>(uint32_t number)> reg;  // by gdb's number
  absl::FunctionRef<std::optional<uint64_t>(uint64_t address, uint32_t size)> memory;
};

// The number on top of the stack at the end. nullopt: the code is none that is understood, or it
// needs what is not known.
std::optional<uint64_t> EvaluateAgentExpression(std::string_view code, const AgentState& state);

}  // namespace ttq::gdb

#endif  // TTQ_GDB_AGENT_EXPRESSION_H_
