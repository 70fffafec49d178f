// SPDX-License-Identifier: MIT
//
// A shim: a program that looks for another one and becomes it by exec, as pyenv's python3 does.

#ifndef TTQ_CLI_SHIM_H_
#define TTQ_CLI_SHIM_H_

#include <optional>
#include <string>
#include <vector>

#include "store/format/recorded.h"

namespace ttq {

struct ShimCost {
  size_t processes = 0;  // of the shim: itself and the children that it had
  uint64_t bytes = 0;    // of their log, as ProcessInfo has it
  uint64_t program = 0;  // of the log of what it became, with children
  std::string command;   // that runs this program at once, as a shell reads it
};

// What was spent before the first process became its last program. nullopt when it became none, or
// when the program itself did more: then it is not worth a word. REQUIRES: in order of
// their numbers, as Recording::processes gives them.
std::optional<ShimCost> CostlyShim(const std::vector<ProcessInfo>& processes);

}  // namespace ttq

#endif  // TTQ_CLI_SHIM_H_
