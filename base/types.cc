// SPDX-License-Identifier: MIT

#include "base/types.h"

namespace ttq {

const char* GprName(Gpr reg) {
  static const char* const kNames[kGprCount] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                                "rsi", "rdi", "r8",  "r9",  "r10", "r11",
                                                "r12", "r13", "r14", "r15"};
  return reg < kGprCount ? kNames[reg] : "?";
}

}  // namespace ttq
