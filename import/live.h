// SPDX-License-Identifier: MIT
//
// The moment of a running process.

#ifndef TTQ_IMPORT_LIVE_H_
#define TTQ_IMPORT_LIVE_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "import/attach.h"
#include "import/moment.h"
#include "store/read/reader.h"

namespace ttq {

class LiveProcess : public MomentMemory, public OutsideMemory {
 public:
  // Stops the process, copies it by a fork and lets it go; with `stop`, or where it cannot fork,
  // it stands still as long as this object lives. Errors as of AttachedProcess::Attach.
  static absl::StatusOr<std::unique_ptr<LiveProcess>> Take(pid_t pid, bool stop);

  const ProcessMoment& moment() const { return moment_; }
  uint64_t Read(uint64_t address, uint64_t size, void* out) const override;
  uint64_t NextOwn(const MomentMapping& mapping, uint64_t address) const override;
  bool ReadPage(uint64_t page, uint8_t* bytes) const override {
    return Read(page * kPageBytes, kPageBytes, bytes) == kPageBytes;
  }
  // Its memory is a copy: the process goes on while it is read.
  bool is_copy() const { return memory_of_ != pid_; }

  uint64_t vdso() const { return vdso_; }
  // How long all of it stood still, in seconds; 0 while it does.
  double stopped_for() const { return stopped_for_; }

 private:
  LiveProcess() = default;
  void TakeThreads();
  void TakeMappings();
  void TakeDescriptors();
  void TakeNames();

  std::unique_ptr<AttachedProcess> attached_;
  ProcessMoment moment_;
  pid_t pid_ = 0, memory_of_ = 0;
  uint64_t vdso_ = 0;
  int pagemap_ = -1;
  double stopped_for_ = 0;
};

}  // namespace ttq

#endif  // TTQ_IMPORT_LIVE_H_
