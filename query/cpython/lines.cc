// SPDX-License-Identifier: MIT

#include "query/cpython/lines.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "query/cpython/memory.h"

namespace ttq::python {
namespace {

// Where 3.9 goes on when an exception is caught: the targets of SETUP_FINALLY, SETUP_WITH and
// SETUP_ASYNC_WITH.
std::vector<int64_t> HandlersOf(const std::string& instructions, uint8_t extended) {
  constexpr uint8_t kSetupFinally = 122, kSetupWith = 143, kSetupAsyncWith = 154;
  std::vector<int64_t> handlers;
  int64_t argument = 0;
  for (size_t i = 0; i + 1 < instructions.size(); i += 2) {
    const auto opcode = static_cast<uint8_t>(instructions[i]);
    argument = argument << 8 | static_cast<uint8_t>(instructions[i + 1]);
    if (opcode == kSetupFinally || opcode == kSetupWith || opcode == kSetupAsyncWith) {
      handlers.push_back(static_cast<int64_t>(i) + 2 + argument);
    }
    if (opcode != extended) argument = 0;
  }
  std::sort(handlers.begin(), handlers.end());
  return handlers;
}

// The offset of the instruction that a write to a frame's word says; nullopt: of no instruction.
std::optional<int64_t> OffsetOf(const Layout& layout, const Code& code, const Access& access,
                                uint64_t word) {
  const uint64_t size = layout.instruction_bytes();
  if (access.address.v > word || access.address.v + access.value.size() < word + size) {
    return std::nullopt;
  }
  const char* at = access.value.data() + (word - access.address.v);
  if (layout.traits.frame_is_object) {
    int32_t last;
    memcpy(&last, at, sizeof last);
    if (last < 0) return std::nullopt;
    return layout.OffsetOfLasti(last);
  }
  uint64_t instruction;
  memcpy(&instruction, at, sizeof instruction);
  if (instruction < code.instructions) return std::nullopt;
  return static_cast<int64_t>(instruction - code.instructions);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LineScanner>> LineScanner::Open(
    const Process& process, const FrameHistory& history, const std::vector<uint32_t>& codes,
    int line, TimeSpan span, std::optional<ThreadNo> thread, ScanControl* control) {
  std::unique_ptr<LineScanner> scanner(new LineScanner(process, history, line));
  ASSIGN_OR_RETURN(std::vector<Activation> activations, ActivationsOf(history, codes, span));
  for (const Activation& activation : activations) {
    if (thread && activation.thread != *thread) continue;
    const Layout& layout = history.layout_of(activation.code);
    scanner->tracks_[activation.frame + static_cast<uint64_t>(layout.frame_instruction)]
        .activations.push_back(activation);
  }
  AccessQuery query;
  std::unique_ptr<Moment> moment;
  for (auto& [word, track] : scanner->tracks_) {
    const Activation& first = track.activations.front();
    const Layout& layout = history.layout_of(first.code);
    query.ranges.push_back({Address(word), Address(word + layout.instruction_bytes())});
    track.previous = EnteredAt(layout, first);
    if (first.begin >= span.begin) continue;
    if (!moment) {
      ASSIGN_OR_RETURN(moment, process.At(span.begin));
    }
    MomentMemory memory(moment.get());
    track.previous = FrameOffset(layout, memory, first.frame, history.code(first.code));
    if (!memory.status().ok()) return memory.status();
  }
  if (query.ranges.empty()) return scanner;
  std::sort(query.ranges.begin(), query.ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  query.span = span;
  query.thread = thread;
  ASSIGN_OR_RETURN(scanner->cursor_, process.Accesses(std::move(query), control));
  return scanner;
}

int64_t LineScanner::EnteredAt(const Layout& layout, const Activation& activation) {
  if (activation.kind == TransitionKind::kSwitchIn) return activation.offset;
  // By co_lnotab each evaluation begins anew.
  if (layout.traits.line_table == LineTable::kLnotab || activation.kind == TransitionKind::kCall)
    return kNone;
  return activation.offset;
}

const LineRange* LineScanner::Function::At(int64_t offset) const {
  const auto after =
      std::partition_point(ranges.begin(), ranges.end(),
                           [offset](const LineRange& range) { return range.begin <= offset; });
  if (after == ranges.begin() || std::prev(after)->end <= offset) return nullptr;
  return &*std::prev(after);
}

uint8_t LineScanner::Function::Opcode(int64_t offset) const {
  const auto at = static_cast<uint64_t>(offset);
  return at + 1 < instructions.size() ? static_cast<uint8_t>(instructions[at]) : 0;
}

uint8_t LineScanner::Function::Argument(int64_t offset) const {
  const auto at = static_cast<uint64_t>(offset);
  return at + 1 < instructions.size() ? static_cast<uint8_t>(instructions[at + 1]) : 0;
}

absl::StatusOr<const LineScanner::Function*> LineScanner::FunctionOf(const Activation& activation) {
  std::unique_ptr<const Function>& known = functions_[activation.code];
  if (known) return known.get();
  const Layout& layout = history_.layout_of(activation.code);
  const Code& code = history_.code(activation.code);
  auto function = std::make_unique<Function>();
  function->ranges = LineRanges(layout, code);
  // The instructions as the activations leave them: pairs are made when a function has warmed up.
  const Time t = std::min(activation.end, process_.info().end);
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process_.At(t));
  MomentMemory memory(moment.get());
  constexpr uint64_t kMaxBytes = 4 << 20;
  if (layout.code_bytes != kAbsent) {
    const uint64_t first = InstructionsOf(layout, memory, code);
    const auto size = memory.Get<uint64_t>(first - static_cast<uint64_t>(layout.bytes_data) +
                                           static_cast<uint64_t>(layout.object_size));
    function->instructions = memory.Bytes(first, size.value_or(0), kMaxBytes).value_or("");
  } else if (!function->ranges.empty()) {
    function->instructions =
        memory
            .Bytes(code.instructions, static_cast<uint64_t>(function->ranges.back().end), kMaxBytes)
            .value_or("");
  }
  if (!memory.status().ok()) return memory.status();
  if (layout.traits.line_table == LineTable::kLnotab)
    function->handlers = HandlersOf(function->instructions, layout.opcodes.extended);
  known = std::move(function);
  return known.get();
}

bool LineScanner::Function::MayBegin(int64_t offset, const LineRange& range, uint8_t end_for,
                                     uint8_t pop_iter) const {
  if (pop_iter == 0) return true;
  if (Opcode(offset) == pop_iter) return false;
  int64_t before = offset - 2;
  if (before < 0 || Opcode(before) != pop_iter || Argument(before) != 0) return true;
  while (before >= 0 && (Opcode(before) == pop_iter || Opcode(before) == end_for)) before -= 2;
  const LineRange* ended = before < 0 ? nullptr : At(before);
  return !ended || ended->line != range.line;
}

void LineScanner::Execute(const Activation& activation, const Function& function, Time time,
                          int64_t previous, int64_t offset, bool is_loop) {
  const Layout& layout = history_.layout_of(activation.code);
  const LineRange* range = function.At(offset);
  // What prepares a function is of no line.
  const int64_t prepared = layout.code_firsttraceable == kAbsent
                               ? kNone
                               : history_.code(activation.code).first_traceable;
  if (!range || range->line <= 0 || offset <= prepared) return;
  const LineRange* before = previous <= prepared ? nullptr : function.At(previous);
  bool begins = is_loop && offset < previous;
  if (layout.traits.line_table == LineTable::kLnotab) {
    begins = begins || offset == range->begin;
    // Unless what raised the exception began a line itself.
    const auto& handlers = function.handlers;
    begins = begins || ((!before || previous != before->begin) &&
                        std::binary_search(handlers.begin(), handlers.end(), offset));
  } else {
    const Opcodes& opcodes = layout.opcodes;
    begins = begins || ((!before || before->line != range->line) &&
                        function.MayBegin(offset, *range, opcodes.end_for, opcodes.pop_iter));
  }
  if (!begins || (line_ != 0 && range->line != line_)) return;
  events_.push_back({time, activation.thread, activation.frame, activation.code, range->line});
}

absl::Status LineScanner::Take(const Access& access) {
  if (access.actor != Actor::kInstruction) return absl::OkStatus();
  // A word is written as a whole, or with its neighbours when a frame is made ready.
  auto found = tracks_.end();
  for (uint64_t i = 0; i < access.size && found == tracks_.end(); i += 4) {
    found = tracks_.find(access.address.v + i);
  }
  if (found == tracks_.end()) return absl::OkStatus();
  Track& track = found->second;
  while (track.now + 1 < track.activations.size() &&
         track.activations[track.now].end <= access.time) {
    ++track.now;
    const Activation& next = track.activations[track.now];
    track.previous = EnteredAt(history_.layout_of(next.code), next);
  }
  const Activation& activation = track.activations[track.now];
  if (access.time <= activation.begin || access.time >= activation.end) return absl::OkStatus();
  const Layout& layout = history_.layout_of(activation.code);
  const Opcodes& opcodes = layout.opcodes;
  const std::optional<int64_t> offset =
      OffsetOf(layout, history_.code(activation.code), access, found->first);
  if (!offset) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Function* function, FunctionOf(activation));
  if (!function->At(*offset)) return absl::OkStatus();
  if (const std::optional<Second> second = std::exchange(second_, std::nullopt)) {
    const bool told = second->word == found->first && second->offset == *offset;
    if (told) {
      track.previous = second->offset - 2;  // the two are not one yet
    } else {
      events_.push_back(second->event);
    }
  }
  const int64_t previous = std::exchange(track.previous, *offset);
  const uint8_t last = previous < 0 ? 0 : function->Opcode(previous);
  if (last != 0 && ((last == opcodes.reraise && function->Argument(previous) != 0) ||
                    (last == opcodes.yield_from && *offset == previous - 2))) {
    return absl::OkStatus();
  }
  const bool is_loop = last == 0 || last != opcodes.send_again;
  Execute(activation, *function, access.time, previous, *offset, is_loop);
  const uint8_t opcode = function->Opcode(*offset);
  if (opcode != 0 && std::find(std::begin(opcodes.pairs), std::end(opcodes.pairs), opcode) !=
                         std::end(opcodes.pairs)) {
    const size_t before = events_.size();
    Execute(activation, *function, access.time, *offset, *offset + 2, /*is_loop=*/true);
    if (events_.size() > before) {
      second_ = Second{events_.back(), found->first, *offset + 2};
      events_.pop_back();
    }
    track.previous = *offset + 2;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LineEvent>> LineScanner::Next() {
  while (events_.empty() && cursor_) {
    ASSIGN_OR_RETURN(std::optional<Access> access, cursor_->Next());
    if (!access) {
      cursor_.reset();
      if (second_) events_.push_back(second_->event);
      break;
    }
    RETURN_IF_ERROR(Take(*access));
  }
  if (events_.empty()) return std::optional<LineEvent>();
  const LineEvent event = events_.front();
  events_.pop_front();
  return std::optional<LineEvent>(event);
}

}  // namespace ttq::python
