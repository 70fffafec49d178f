// SPDX-License-Identifier: MIT
//
// Names of system calls, signals and event kinds.

#include <signal.h>
#include <string.h>

#include "fmt/core.h"
#include "store/format/moment_info.h"
#include "store/format/recorded.h"

namespace ttq {
namespace {

struct SyscallEntry {
  int64_t number;
  const char* name;
};
constexpr SyscallEntry kSyscalls[] = {
#define TTQ_SYSCALL(name, number) {number, #name},
#include "store/format/syscalls.inc"
#undef TTQ_SYSCALL
};

}  // namespace

std::string SyscallName(int64_t number) {
  for (const SyscallEntry& e : kSyscalls) {
    if (e.number == number) return e.name;
  }
  return fmt::format("syscall_{}", number);
}

const char* MomentName(Beginning beginning) {
  return beginning == Beginning::kCore ? "this core dump" : "this snapshot";
}

std::string SignalName(int64_t number) {
  if (number >= 1 && number < NSIG) {
    if (const char* name = sigabbrev_np(static_cast<int>(number)))
      return fmt::format("SIG{}", name);
    if (number >= 34) return fmt::format("SIGRT{}", number - 34);
  }
  return fmt::format("signal_{}", number);
}

const char* EventKindName(EventKind kind) {
  auto i = static_cast<size_t>(kind);
  return i < kEventKindNames.size() ? kEventKindNames[i] : "";
}

std::optional<EventKind> EventKindFromName(std::string_view name) {
  for (size_t i = 1; i < kEventKindNames.size(); ++i) {
    if (name == kEventKindNames[i]) return static_cast<EventKind>(i);
  }
  return std::nullopt;
}

}  // namespace ttq
