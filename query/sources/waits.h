// SPDX-License-Identifier: MIT
//
// Who waits for whom: what each thread does in the kernel, which lock or descriptor that is about,
// who has it, and the circles of threads that wait for each other.
//
// All of it is read from registers and memory of the time, and so is as true of a core dump as of a
// recording; since when a thread waits, only a recording knows.

#ifndef TTQ_QUERY_SOURCES_WAITS_H_
#define TTQ_QUERY_SOURCES_WAITS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/engine/sources.h"

namespace ttq {

struct Wait {
  ThreadNo thread;
  // "mutex", "condition", "semaphore", "join", "futex", "GIL", "read", "write", "accept",
  // "connect", "poll", "sleep", "child", "signal", "file lock", "system call"; empty: it does not
  // wait.
  std::string kind;
  std::string what;               // "lock_a (0x4040)", "descriptor 3: pipe:[4242] (read end)"
  std::optional<ThreadNo> owner;  // the thread that it waits for, where that can be known
  std::optional<Time> since;
  std::string cycle;  // "deadlock: thread 2 → lock_a → thread 5 → lock_b → thread 2"; empty: none
};

// Of every thread alive at t, in order of their numbers.
absl::StatusOr<std::vector<Wait>> FindWaits(const Context& context, Time t, ScanControl* control);

// Adds the columns waits, waits_for, held_by, since and cycle to a plan whose rows have their
// thread in slot 1. They are not among the columns of the answer unless they are asked for.
void AddWaits(const Context& context, Time t, ScanControl* control, SourcePlan* plan);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_WAITS_H_
