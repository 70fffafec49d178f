// SPDX-License-Identifier: MIT

#include "store/walk.h"

#include "fmt/format.h"

namespace ttq {

absl::Status LogDamage(size_t offset, const char* what) {
  return absl::DataLossError(fmt::format("log at byte {}: {}", offset, what));
}

size_t ControlHeadBytes(uint32_t kind) {
  switch (kind) {
    case kTtqRegisters: return sizeof(TtqRegisters);
    case kTtqThread: return 4;
    case kTtqKernelWrite: return sizeof(TtqKernelWrite);
    case kTtqMap: return sizeof(TtqMap);
    case kTtqUnmap:
    case kTtqProtect: return sizeof(TtqRange);
    case kTtqRemap: return sizeof(TtqRemap);
    case kTtqSyscallEnter:
    case kTtqSyscallExit: return sizeof(TtqSyscall);
    case kTtqThreadStart:
    case kTtqThreadExit: return sizeof(TtqThread);
    case kTtqSignal:
    case kTtqFault: return sizeof(TtqSignal);
    case kTtqOutput: return sizeof(TtqOutput);
    case kTtqFork:
    case kTtqExecve:
    case kTtqExitProcess: return 4;
    default: return 0;
  }
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
