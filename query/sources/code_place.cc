// SPDX-License-Identifier: MIT

#include "query/sources/code_place.h"

#include <memory>

#include "base/text.h"
#include "fmt/core.h"
#include "query/process/heap.h"
#include "query/process/process_names.h"

namespace ttq {

std::string DescribeCode(const Context& context, Address pc, Time t) {
  absl::StatusOr<const Symbolizer*> symbols = context.SymbolsAt(t);
  if (!symbols.ok()) return "";
  const std::shared_ptr<const CodeLocation> place = (*symbols)->Symbolize(pc);
  if (place->function.empty()) return (*symbols)->NameOf(pc);
  if (place->file.empty() || place->line == 0) return place->function;
  return fmt::format("{} ({}:{})", place->function, BaseName(place->file), place->line);
}

std::string DescribeWriter(const Context& context, Unwinder& unwinder, const Access& access) {
  if (access.pc.v == 0) return "";
  std::string text = DescribeCode(context, access.pc, access.time);
  Address inside = access.pc + 1;
  constexpr size_t kMaxFrames = 32;
  const absl::StatusOr<std::unique_ptr<Moment>> moment = context.process().At(access.time);
  if (!moment.ok()) return text;
  const absl::StatusOr<Stack> stack =
      unwinder.StackOf(**moment, access.thread, {.max_frames = kMaxFrames});
  if (!stack.ok()) return text;
  for (const Frame& frame : stack->frames) {
    if (IsGlibc(frame.module)) continue;
    if (&frame != &stack->frames[0]) inside = frame.pc;
    break;
  }
  const std::string user = DescribeCaller(context, inside, access.time);
  return user.empty() || user == text ? text : fmt::format("{} for {}", text, user);
}

}  // namespace ttq
