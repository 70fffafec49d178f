// SPDX-License-Identifier: MIT
//
// Two threads of two recordings, side by side, instruction by instruction: how far they executed
// the same code. Superblocks are compared whole where both sides executed the same one, so that
// little more than decoding is to be paid for what is alike.

#ifndef TTQ_DIFF_ALIGN_H_
#define TTQ_DIFF_ALIGN_H_

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "diff/side.h"
#include "store/read/reader.h"

namespace ttq::diff {

// Where a thread stands: about to execute `pc` at `time`. No pc: it executes nothing more.
struct Step {
  Time time;
  Address pc;
  bool exists = false;
};

// The executions of one thread, in order.
class ThreadStream {
 public:
  ThreadStream(Side* side, ThreadNo thread) : side_(*side), thread_(thread) {}
  // To the first instruction of the thread at or after `t`.
  absl::Status SeekTo(Time t);
  // Null at the end.
  const Run* run() const { return run_; }
  uint32_t offset() const { return offset_; }  // in the run
  absl::Status Advance(uint32_t instructions);
  Step Here() const;
  // The last instruction of the run that was finished last.
  Step Last() const;

 private:
  absl::Status FindRun(size_t from);

  Side& side_;
  const ThreadNo thread_;
  std::shared_ptr<const std::vector<Run>> runs_;
  size_t index_ = 0;
  const Run* run_ = nullptr;
  uint32_t offset_ = 0;
  Run last_;  // of no instructions: none was finished since SeekTo
};

// The first step at which two streams execute different code.
struct Divergence {
  ThreadNo thread;
  std::array<Step, 2> last;  // the last instruction that both executed
  std::array<Step, 2> next;  // and what each did then; one of them exists
  uint64_t alike = 0;        // instructions executed alike since the last start
};

class Aligner {
 public:
  Aligner(Side* a, Side* b, ThreadNo thread, ScanControl* control)
      : sides_{a, b},
        streams_{ThreadStream(a, thread), ThreadStream(b, thread)},
        thread_(thread),
        control_(control) {}

  absl::Status Start(Time a, Time b);
  // Nullopt when both end, or when side A has reached `limit`.
  absl::StatusOr<std::optional<Divergence>> Next(Time limit = kTimeMax);

 private:
  bool SameCode(SuperblockId a, SuperblockId b);

  std::array<Side*, 2> sides_;
  std::array<ThreadStream, 2> streams_;
  const ThreadNo thread_;
  ScanControl* control_;
  std::vector<uint32_t> equal_;  // by id on side A: the id on side B that is the same code
};

}  // namespace ttq::diff

#endif  // TTQ_DIFF_ALIGN_H_
