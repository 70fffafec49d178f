// SPDX-License-Identifier: MIT

#include "tests/support/extract_inputs.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "fmt/core.h"

namespace ttq {
namespace {

constexpr size_t kControlHead = 8;  // bytes: the kind, the payload's length

template <class T>
T Load(std::string_view bytes) {
  T value = {};
  memcpy(&value, bytes.data(), std::min(sizeof(value), bytes.size()));
  return value;
}

// The control record at `at`. False where there is none.
bool ControlAt(std::string_view log, size_t at, uint32_t* kind, std::string_view* payload) {
  if (at + kControlHead > log.size()) return false;
  *kind = Load<uint32_t>(log.substr(at));
  const auto bytes = Load<uint32_t>(log.substr(at + 4));
  if (*kind >> kTtqExitBits != 0 || bytes > log.size() - at - kControlHead) return false;
  *payload = log.substr(at + kControlHead, bytes);
  return true;
}

}  // namespace

absl::Status InputsExtractor::TakeRecipes(std::string_view recipes) {
  while (!recipes.empty()) {
    const auto head = Load<TtqRecipe>(recipes);
    const size_t effects_at = sizeof(head) + head.node_count * sizeof(TtqNode);
    if (head.bytes < sizeof(head) || head.bytes > recipes.size() ||
        effects_at + head.effect_count * sizeof(TtqEffect) > head.bytes) {
      return absl::DataLossError("a recipe does not fit its block");
    }
    Lengths& lengths = lengths_[head.id];
    lengths.of[kTtqExitOpen] = head.record_bytes;
    for (unsigned e = 0; e < head.effect_count; ++e) {
      const auto effect = Load<TtqEffect>(recipes.substr(effects_at + e * sizeof(TtqEffect)));
      if (effect.kind == kTtqExit && effect.size < kTtqExitOpen) {
        lengths.of[effect.size] = effect.addr;
      }
    }
    recipes.remove_prefix(head.bytes);
  }
  return absl::OkStatus();
}

// What every block but the first starts with: registers of all threads, and the one that runs. A
// block that ended for the record of a thread that begins to run has it twice.
size_t InputsExtractor::BeginningBytes(std::string_view log) const {
  size_t at = 0;
  uint32_t kind;
  std::string_view payload;
  const auto skip = [&](uint32_t wanted) {
    if (!ControlAt(log, at, &kind, &payload) || kind != wanted) return false;
    at += kControlHead + payload.size();
    return true;
  };
  size_t whole = 0;
  while (skip(kTtqRegisters) && skip(kTtqVectors)) whole = at;
  at = whole;
  skip(kTtqThread);
  return at;
}

// Follows which thread runs.
void InputsExtractor::Note(uint32_t kind, std::string_view payload) {
  switch (kind) {
    case kTtqThread:
      thread_ = Load<uint32_t>(payload);
      break;
    case kTtqSyscallEnter:
      calls_[thread_] = Load<TtqSyscall>(payload).number;
      break;
    case kTtqSyscallExit:
      calls_.erase(thread_);
      break;
    case kTtqExitProcess:
      process_ends_ = true;
      break;
    case kTtqThreadExit: {
      // Not where the process ends, of which every thread is told.
      const auto call = calls_.find(thread_);
      if (!process_ends_ && call != calls_.end() && call->second == SYS_exit) {
        calls_.erase(call);
        thread_ = 0;
      }
      break;
    }
    default:
      break;
  }
}

absl::Status InputsExtractor::Take(const BlockView& block) {
  RETURN_IF_ERROR(TakeRecipes(block.recipes));
  const std::string_view log = block.log;
  const uint32_t number = block.head.number;
  size_t at = number == 0 ? 0 : BeginningBytes(log);
  file_.blocks.push_back({HashBytes(log.data(), at), block.head.log_bytes,
                          block.head.ends_between_superblocks, block.head.wall_start_ns,
                          block.head.wall_end_ns});
  // A record for which the block before had no room was to be appended there.
  bool moved = number > 0 && !block.head.between_superblocks;
  while (at < log.size()) {
    if (log.size() - at < 4) return absl::DataLossError("a record is cut off");
    const auto word = Load<uint32_t>(log.substr(at));
    if (const uint32_t id = word >> kTtqExitBits; id != 0) {
      const auto lengths = lengths_.find(id);
      const uint32_t bytes =
          lengths == lengths_.end() ? 0 : lengths->second.of[word & kTtqExitOpen];
      if (bytes < 4) return absl::DataLossError(fmt::format("superblock {} has no recipe", id));
      at += bytes;
    } else {
      uint32_t kind;
      std::string_view payload;
      if (!ControlAt(log, at, &kind, &payload)) return absl::DataLossError("a record is cut off");
      const TtqInput before = {end_.block, end_.offset, kind,
                               static_cast<uint32_t>(payload.size())};
      const TtqInput here = {number, static_cast<uint32_t>(at), kind, before.bytes};
      file_.Add(moved ? before : here, payload);
      Note(kind, payload);
      at += kControlHead + payload.size();
    }
    moved = false;
  }
  end_.block = number;
  end_.offset = static_cast<uint32_t>(log.size());
  return absl::OkStatus();
}

}  // namespace ttq
