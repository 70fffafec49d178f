// SPDX-License-Identifier: MIT
//
// A running process held still by ptrace, for as short a time as possible, and left as it was: no
// signal is lost or made, and no system call that was interrupted returns early.
//
// To copy its memory it does not stand still: one of its threads is made to fork, and goes on. The
// copy never executes an instruction; it is read, and ended.

#ifndef TTQ_IMPORT_ATTACH_H_
#define TTQ_IMPORT_ATTACH_H_

#include <sys/types.h>
#include <sys/user.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ttq {

class AttachedProcess {
 public:
  struct Task {
    pid_t tid = 0;
    user_regs_struct registers{};
    std::string vectors;  // an FXSAVE area; empty: not known
    int signal = 0;       // that was about to be delivered
  };

  // All threads stand still when it returns. NotFound, or PermissionDenied with the cause and what
  // to do about it; nothing is changed then.
  static absl::StatusOr<std::unique_ptr<AttachedProcess>> Attach(pid_t pid);
  // Lets it go, ends the copy.
  ~AttachedProcess();
  AttachedProcess(const AttachedProcess&) = delete;
  AttachedProcess& operator=(const AttachedProcess&) = delete;

  // The main thread first.
  const std::vector<Task>& tasks() const { return tasks_; }

  // Makes the copy, whose pid it returns. Unavailable when the process cannot fork: it is
  // unchanged then. REQUIRES: not released.
  absl::StatusOr<pid_t> Fork();
  // The process goes on; the copy stays until this object goes.
  void Release();

 private:
  explicit AttachedProcess(pid_t pid) : pid_(pid) {}
  absl::Status SeizeAll();
  absl::Status WaitForStop(Task* task);
  // Has `task`, which stands still, make one system call. Its registers are as before afterwards.
  absl::StatusOr<long> Call(Task* task, long number, unsigned long a, unsigned long b,
                            unsigned long c);
  absl::StatusOr<uint64_t> FindSyscallInstruction(const Task& task) const;
  void EndCopy();

  const pid_t pid_;
  std::vector<Task> tasks_;
  bool released_ = false;
  pid_t copy_ = 0;
};

}  // namespace ttq

#endif  // TTQ_IMPORT_ATTACH_H_
