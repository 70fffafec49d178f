// SPDX-License-Identifier: MIT
//
// A program's history in text, one thing that happened per line, for tests on one screen:
//
//   program /bin/demo a b           path and arguments; may be left out
//   map 0x1000 0x3000 rw [shared] [/a/file]
//   unmap 0x1000 0x2000             protect 0x1000 0x2000 r            remap 0x1000 0x8000 4096
//   initial 0x1000 "text"           first contents of a mapping
//   thread 2                        what follows is of this thread, which starts when first named
//   0x401000 store 0x1000 4 = 7     the instruction at 0x401000 writes four bytes; or = "text"
//   0x401004 load 0x1000 4
//   0x401008 set rax = 5
//   0x40100c nop
//   enter read 3 0x1000 5           a system call and its arguments, then what it does, then
//   kernel 0x1000 "bytes"
//   return 5                        its result
//   output 1 "hello\n"
//   fault 11 0x0: 0x401010 store 0x0 4 = 1     an instruction that raises a signal
//   fatal 11                        the process ends by it
//   exit 3
//   block                           the next block begins
//   blocks 40                       forty blocks of one nop each
//   thread-exit 2 0x1000            the kernel clears that word (0: none)
//   killed                          by SIGKILL: the last block is lost
//
// Threads and mappings must be there before they are used; the tests of the store rely on ingest
// saying so. Strings know \n \t \0 \\ \" \xHH. # begins a comment. Every instruction advances time
// by 1, so time is the count of instruction lines.

#ifndef TTQ_TESTS_SUPPORT_TRACE_TEXT_H_
#define TTQ_TESTS_SUPPORT_TRACE_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ttq {

// Makes a recording of the history in `directory`, which must not exist. InvalidArgument names the
// line that cannot be read.
absl::Status RecordText(std::string_view text, const std::string& directory);

}  // namespace ttq

#endif  // TTQ_TESTS_SUPPORT_TRACE_TEXT_H_
