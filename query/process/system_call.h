// SPDX-License-Identifier: MIT
//
// The system call that a thread is in: what it waits for in the kernel, or does there.

#ifndef TTQ_QUERY_PROCESS_SYSTEM_CALL_H_
#define TTQ_QUERY_PROCESS_SYSTEM_CALL_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "store/read/reader.h"

namespace ttq {

struct OpenCall {
  int64_t number = 0;
  std::optional<Time> since;  // its `syscall` instruction; none: nothing is known but a moment
};

// nullopt: at the time of `moment` the thread, which has these registers, is in none. That it
// stands behind a `syscall` is not enough: a call that has returned leaves it there, with a result
// in rax that may be the number of another one. `control` may be null.
absl::StatusOr<std::optional<OpenCall>> OpenCallOf(Moment& moment, ThreadNo thread,
                                                   const Registers& registers,
                                                   ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_SYSTEM_CALL_H_
