// SPDX-License-Identifier: MIT

#include "query/process/system_call.h"

#include "base/status_macros.h"
#include "store/read/moment_info.h"

namespace ttq {

absl::StatusOr<std::optional<OpenCall>> OpenCallOf(Moment& moment, ThreadNo thread,
                                                   const Registers& registers,
                                                   ScanControl* control) {
  const Process& process = moment.process();
  uint8_t code[2] = {};
  const Address instruction = registers.pc - sizeof(code);
  ASSIGN_OR_RETURN(const uint64_t read, moment.Read(instruction, sizeof(code), code));
  const bool is_behind = read == sizeof(code) && code[0] == 0x0f && code[1] == 0x05;
  if (HistoryUnknown(process)) {
    // The code may not have been dumped: what it was in is known all the same.
    if (!is_behind && read == sizeof(code)) return std::nullopt;
    const auto& threads = MomentInfoOf(process).threads;
    const int64_t number = thread.v - 1 < threads.size() ? threads[thread.v - 1].in_syscall : -1;
    if (number < 0) return std::nullopt;
    return OpenCall{number, std::nullopt};
  }
  // Until the kernel is done the number is still in rax.
  const auto number = static_cast<int64_t>(registers.gpr[kRax]);
  if (!is_behind || number < 0) return std::nullopt;
  const Time now = moment.time();
  ASSIGN_OR_RETURN(auto executions,
                   process.Executions({{instruction, registers.pc}}, {Time(0), now},
                                      Direction::kBackward, thread, control));
  ASSIGN_OR_RETURN(const std::optional<Execution> made, executions->Next());
  if (!made) return std::nullopt;  // it was sent there, by a signal's return, say
  // A call has an event when it returns, and its result in rax then, unless a signal ended the
  // process in it.
  ASSIGN_OR_RETURN(auto events, process.Events({.span = {made->time + 1, now + 1},
                                                .kind = EventKind::kSyscall,
                                                .thread = thread}));
  ASSIGN_OR_RETURN(const std::optional<Event> returned, events->Next());
  if (returned && returned->result == number) return std::nullopt;
  return OpenCall{number, made->time};
}

}  // namespace ttq
