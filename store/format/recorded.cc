// SPDX-License-Identifier: MIT

#include "store/format/recorded.h"

#include <signal.h>

namespace ttq {

bool IsCrash(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

ProcessNo DefaultProcess(const std::vector<ProcessInfo>& all) {
  for (const ProcessInfo& p : all) {
    if (IsCrash(p.fatal_signal)) return p.number;
  }
  for (const ProcessInfo& p : all) {
    if (p.fatal_signal != 0) return p.number;
  }
  if (all.empty()) return ProcessNo(0);
  // A shell or a shim is not what was meant.
  ProcessNo last = all.front().number;
  for (const ProcessInfo& p : all) {
    if (p.by_exec && p.parent == last) last = p.number;
  }
  return last;
}

}  // namespace ttq
