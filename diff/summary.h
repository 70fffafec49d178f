// SPDX-License-Identifier: MIT
//
// Two recordings as a whole: what each called how often, what it wrote, what it asked of the
// kernel, how it ended.

#ifndef TTQ_DIFF_SUMMARY_H_
#define TTQ_DIFF_SUMMARY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "diff/side.h"
#include "re2/re2.h"
#include "store/read/reader.h"

namespace ttq::diff {

struct CallCount {
  std::string function, module;
  std::array<uint64_t, 2> calls{};
};

// Where two sequences of events first differ.
struct EventDifference {
  std::array<std::optional<Event>, 2> event;  // none: that side has no more
  std::array<std::string, 2> text;
  size_t index = 0;  // of system calls: among those of the thread, without futex
  // Bytes alike before, of outputs.
  uint64_t bytes = 0;
  int64_t fd = -1;
  ThreadNo thread() const { return event[0] ? event[0]->thread : event[1]->thread; }
};

struct Summary {
  std::array<std::string, 2> exits;
  std::array<uint64_t, 2> instructions{}, syscalls{}, output_bytes{};
  std::array<size_t, 2> threads{};
  std::vector<CallCount> functions;  // whose counts differ, the greatest ratio first
  // Of each thread's own calls, the earliest: the order of two threads' is no difference.
  std::optional<EventDifference> syscall;
  std::vector<EventDifference> outputs;  // one a file descriptor
  std::vector<std::pair<std::string, std::array<uint64_t, 2>>> syscall_counts;  // that differ
  bool same() const {
    return exits[0] == exits[1] && functions.empty() && !syscall && outputs.empty();
  }
};

// A system call without what two runs of one program need not have in common: pointers, process
// numbers. "read(3, …, 4096) = 12".
std::string NormalSyscall(const Event& event);

// The first argument in which two calls of one kind differ, of those that NormalSyscall shows.
std::optional<int> DifferentArgument(const Event& a, const Event& b);

// `ignore` may be null.
absl::StatusOr<Summary> Summarize(Side* a, Side* b, const RE2* ignore, ScanControl* control,
                                  std::string* note);

}  // namespace ttq::diff

#endif  // TTQ_DIFF_SUMMARY_H_
