// SPDX-License-Identifier: MIT
//
// The system calls that threads are in: what they wait for in the kernel, or do there.

#ifndef TTQ_QUERY_PROCESS_SYSTEM_CALL_H_
#define TTQ_QUERY_PROCESS_SYSTEM_CALL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "store/read/reader.h"

namespace ttq {

// Those of one moment. That a thread stands behind a `syscall` is not enough: a call that has
// returned leaves it there, with a result in rax that may be the number of another one. Events tell
// the two apart; they are read once for all threads.
//
// Belongs to one thread.
class OpenCalls {
 public:
  // `moment` must outlive this, and must not be moved meanwhile. `control` may be null.
  explicit OpenCalls(Moment* moment, ScanControl* control = nullptr)
      : moment_(*moment), control_(control) {}

  // The number of the call that the thread is in, which has these registers; nullopt: in none.
  absl::StatusOr<std::optional<int64_t>> NumberOf(ThreadNo thread, const Registers& registers);

 private:
  struct Returned {
    Time time;
    int64_t result;
  };
  // The thread's last call that has returned; nullopt: none has.
  absl::StatusOr<std::optional<Returned>> LastReturned(ThreadNo thread);

  Moment& moment_;
  ScanControl* const control_;
  std::unique_ptr<Cursor<Event>> events_;  // what is not in `returned_`, backwards
  std::map<ThreadNo, Returned> returned_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_SYSTEM_CALL_H_
