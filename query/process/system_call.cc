// SPDX-License-Identifier: MIT

#include "query/process/system_call.h"

#include "base/status_macros.h"
#include "store/read/moment_info.h"

namespace ttq {

absl::StatusOr<std::optional<int64_t>> OpenCalls::NumberOf(ThreadNo thread,
                                                           const Registers& registers) {
  const Process& process = moment_.process();
  uint8_t code[2] = {};
  const Address instruction = registers.pc - sizeof(code);
  ASSIGN_OR_RETURN(const uint64_t read, moment_.Read(instruction, sizeof(code), code));
  const bool is_behind = read == sizeof(code) && code[0] == 0x0f && code[1] == 0x05;
  if (HistoryUnknown(process)) {
    // The code may not have been dumped: what it was in is known all the same.
    if (!is_behind && read == sizeof(code)) return std::nullopt;
    const auto& threads = MomentInfoOf(process).threads;
    const int64_t number = thread.v - 1 < threads.size() ? threads[thread.v - 1].in_syscall : -1;
    if (number < 0) return std::nullopt;
    return number;
  }
  // Until the kernel is done the number is still in rax.
  const auto number = static_cast<int64_t>(registers.gpr[kRax]);
  if (!is_behind || number < 0) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<Returned> returned, LastReturned(thread));
  // A call that a signal ended with the process has an event, too, and no result in rax.
  if (!returned || returned->result != number) return number;
  ASSIGN_OR_RETURN(auto executions,
                   process.Executions({{instruction, registers.pc}}, {Time(0), moment_.time()},
                                      Direction::kBackward, thread, control_));
  ASSIGN_OR_RETURN(const std::optional<Execution> made, executions->Next());
  if (!made || made->time < returned->time) return std::nullopt;
  return number;
}

absl::StatusOr<std::optional<OpenCalls::Returned>> OpenCalls::LastReturned(ThreadNo thread) {
  if (events_ == nullptr) {
    ASSIGN_OR_RETURN(events_, moment_.process().Events({.span = {Time(0), moment_.time() + 1},
                                                        .kind = EventKind::kSyscall,
                                                        .direction = Direction::kBackward}));
  }
  while (!returned_.contains(thread)) {
    if (control_ != nullptr && control_->cancelled) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(const std::optional<Event> event, events_->Next());
    if (!event) return std::nullopt;
    returned_.try_emplace(event->thread, Returned{event->time, event->result});
  }
  return returned_[thread];
}

}  // namespace ttq
