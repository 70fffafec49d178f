// SPDX-License-Identifier: MIT

#include "tests/support/skimmed.h"

#include <map>
#include <vector>

#include "fmt/core.h"
#include "recorder/stream.h"

namespace ttq {
namespace {

// Control records but for those that write memory.
std::vector<const ControlItem*> ControlsOf(const BlockDigest& digest) {
  std::vector<const ControlItem*> controls;
  for (const BlockDigest::Step& step : digest.steps) {
    if (step.has_control && step.control.kind != kTtqKernelWrite) controls.push_back(&step.control);
  }
  return controls;
}

}  // namespace

std::string SkimmedDifference(const BlockDigest& a, const BlockDigest& b) {
  if (a.instructions != b.instructions) {
    return fmt::format("{} instructions, {}", a.instructions, b.instructions);
  }
  const auto by_thread = [](const auto& list) { return std::map(list.begin(), list.end()); };
  if (by_thread(a.last_pc) != by_thread(b.last_pc)) return "last instructions";
  if (by_thread(a.instructions_of) != by_thread(b.instructions_of)) return "what threads executed";
  if (a.first_tid != b.first_tid || a.end_tid != b.end_tid) return "threads";
  const auto controls = ControlsOf(a), others = ControlsOf(b);
  if (controls.size() != others.size()) {
    return fmt::format("{} control records, {}", controls.size(), others.size());
  }
  for (size_t i = 0; i < controls.size(); ++i) {
    const ControlItem &c = *controls[i], &d = *others[i];
    if (c.time != d.time || c.tid != d.tid || c.last_pc != d.last_pc || c.kind != d.kind ||
        c.payload != d.payload || c.instructions != d.instructions) {
      return fmt::format(
          "control record {}: kind {} of thread {} at {} behind {:#x}, kind {} of thread {} at {} "
          "behind {:#x}",
          i, c.kind, c.tid, c.time, c.last_pc, d.kind, d.tid, d.time, d.last_pc);
    }
  }
  return "";
}

}  // namespace ttq
