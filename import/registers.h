// SPDX-License-Identifier: MIT
//
// Registers as the kernel tells them (core dumps' notes and ptrace alike), as the stream holds
// them.

#ifndef TTQ_IMPORT_REGISTERS_H_
#define TTQ_IMPORT_REGISTERS_H_

#include <sys/user.h>

#include <string_view>

#include "import/moment.h"

namespace ttq {

// General registers, and the system call that the thread is in.
void TakeRegisters(const user_regs_struct& registers, MomentThread* thread);
// From what FXSAVE or XSAVE stored; nothing when it is too short.
void TakeVectors(std::string_view area, MomentThread* thread);

}  // namespace ttq

#endif  // TTQ_IMPORT_REGISTERS_H_
