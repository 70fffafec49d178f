// SPDX-License-Identifier: MIT
//
// See shim.h.

#include "cli/shim.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace ttq {
namespace {

std::string ForShell(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::optional<ShimCost> CostlyShim(const std::vector<ProcessInfo>& processes) {
  if (processes.size() < 2) return std::nullopt;
  const ProcessInfo* last = &processes.front();
  for (const ProcessInfo& p : processes) {
    if (p.by_exec && p.parent == last->number) last = &p;
  }
  if (last == &processes.front()) return std::nullopt;
  ShimCost cost;
  // Whether a process is the program or one of its children; parents come before their children.
  std::map<uint32_t, bool> of_program;
  for (const ProcessInfo& p : processes) {
    const auto parent = of_program.find(p.parent.v);
    const bool is_program = &p == last || (parent != of_program.end() && parent->second);
    of_program[p.number.v] = is_program;
    (is_program ? cost.program : cost.bytes) += p.log_bytes;
    if (!is_program) ++cost.processes;
  }
  if (cost.bytes <= cost.program) return std::nullopt;
  cost.command = ForShell(last->program);
  for (size_t i = 1; i < last->arguments.size(); ++i) {
    cost.command += " " + ForShell(last->arguments[i]);
  }
  return cost;
}

}  // namespace ttq
