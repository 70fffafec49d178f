// SPDX-License-Identifier: MIT
//
// The registers of x86-64 as gdb counts them, and the description of them that the stub sends. What
// a recording does not have (flags, segments, x87 and most of the vector registers) is sent as
// unavailable.

#ifndef TTQ_GDB_REGISTERS_H_
#define TTQ_GDB_REGISTERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"

namespace ttq::gdb {

inline constexpr uint32_t kRegisterCount = 60;
// gdb's numbers of those that every stop tells.
inline constexpr uint32_t kGdbRbp = 6, kGdbRsp = 7, kGdbRip = 16;

// A general register, rip or a segment's base by gdb's number; nullopt for all else.
std::optional<uint64_t> RegisterNumbered(const Registers& registers, uint32_t number);
// Its bytes in hexadecimal, or `xx` for each where it is not known. REQUIRES: number <
// kRegisterCount.
std::string RegisterText(const Registers& registers, uint32_t number);
// target.xml
std::string TargetDescription();

}  // namespace ttq::gdb

#endif  // TTQ_GDB_REGISTERS_H_
