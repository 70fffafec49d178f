// SPDX-License-Identifier: GPL-2.0-or-later
//
// Faults that Valgrind does not take as the processor and the kernel do.

#ifndef TTQ_RECORDER_TOOL_FAULTS_H_
#define TTQ_RECORDER_TOOL_FAULTS_H_

#include "pub_tool_basics.h"
#include "pub_tool_vki.h"

// Whether the tool itself may read all of these bytes. A mapping's pages beyond the end of its file
// cannot be read, whatever its protection.
Bool ttq_readable(Addr address, SizeT size);

// How many bytes from `address` on it may read, at most `size`.
SizeT ttq_readable_prefix(Addr address, SizeT size);

// Corrects Valgrind's siginfo of a fault at `pc` to the kernel's.
void ttq_correct_signal(vki_siginfo_t* info, Addr pc);

// In syscalls.c: makes a system call that Valgrind has begun end with an error.
void ttq_fail_syscall(ThreadId tid, UInt error);

#endif  // TTQ_RECORDER_TOOL_FAULTS_H_
