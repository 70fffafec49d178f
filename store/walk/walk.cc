// SPDX-License-Identifier: MIT

#include "store/walk/walk.h"

#include "fmt/core.h"

namespace ttq {

absl::Status LogDamage(size_t offset, const char* what) {
  return absl::DataLossError(fmt::format("log at byte {}: {}", offset, what));
}

size_t ControlHeadBytes(uint32_t kind) { return TtqControlKindOf(kind).head_bytes; }

uint32_t ControlThread(uint32_t kind, std::string_view payload) {
  return TtqControlKindOf(kind).of_thread ? LoadPod<uint32_t>(payload) : 0;
}

uint32_t Walker::FaultInstruction(const Recipe& recipe, uint64_t pc, std::string_view next) const {
  TtqRegisters actual{};
  uint32_t word = 0;
  bool known = next.size() >= 8 + sizeof(actual);
  if (known) {
    memcpy(&word, next.data(), 4);
    memcpy(&actual, next.data() + 8, sizeof(actual));
  }
  known = known && word == kTtqRegisters;
  uint32_t best = 0;
  int best_equal = -1;
  const auto& list = recipe.instructions();
  for (uint32_t i = 0; i < list.size(); ++i) {
    if (list[i].address.v != pc) continue;
    if (!known) return i;
    uint64_t registers[kTtqRegCount];
    memcpy(registers, values_.data(), sizeof(registers));
    recipe.RegistersInside(record_, i, registers);
    // Not all need be equal: a push has moved the stack pointer when it faults.
    int equal = 0;
    for (int r = 0; r < kTtqRegCount; ++r) {
      uint64_t value;
      memcpy(&value, &actual.reg[r], 8);
      equal += registers[r] == value;
    }
    if (equal > best_equal) {
      best = i;
      best_equal = equal;
    }
  }
  return best;
}

ThreadState Walker::StateOf(uint32_t tid) const {
  if (tid == tid_) {
    ThreadState state;
    memcpy(state.reg, values_.data(), sizeof(state.reg));
    auto it = threads_.find(tid);
    if (it != threads_.end()) state.pc = it->second.pc;
    return state;
  }
  auto it = threads_.find(tid);
  return it == threads_.end() ? ThreadState{} : it->second;
}

void Walker::SetState(uint32_t tid, const ThreadState& state) {
  threads_[tid] = state;
  if (tid == tid_) memcpy(values_.data(), state.reg, sizeof(state.reg));
}

void Walker::SwitchTo(uint32_t tid) {
  if (tid == tid_) return;
  if (tid_ != 0) memcpy(threads_[tid_].reg, values_.data(), sizeof(ThreadState::reg));
  tid_ = tid;
  memcpy(values_.data(), threads_[tid].reg, sizeof(ThreadState::reg));
}

}  // namespace ttq
