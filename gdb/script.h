// SPDX-License-Identifier: MIT

#ifndef TTQ_GDB_SCRIPT_H_
#define TTQ_GDB_SCRIPT_H_

namespace ttq::gdb {

// Commands that `ttq gdb` has gdb run before it connects: settings, and the command `ttq`.
extern const char kGdbScript[];

}  // namespace ttq::gdb

#endif  // TTQ_GDB_SCRIPT_H_
