// SPDX-License-Identifier: MIT
//
// The reading side of a ring (see stream.h): blocks of one recorded process, in order.
//
// Thread-safety: Next and Release may be called from two different threads, each by one.

#ifndef TTQ_RECORDER_RING_H_
#define TTQ_RECORDER_RING_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/stream.h"

namespace ttq {

// A block as handed over, its sizes checked. The bytes are the ring's own.
struct BlockView {
  TtqBlock head;
  std::string_view log, recipes;
};

class Ring {
 public:
  // Maps the ring file. Fails when it is not one of this version.
  static absl::StatusOr<std::unique_ptr<Ring>> Open(const std::string& path);
  // A ring that this process fills itself, by a RingProducer; `header` is mapped memory of `bytes`,
  // which the ring unmaps.
  static absl::StatusOr<std::unique_ptr<Ring>> Adopt(TtqRing* header, size_t bytes,
                                                     const std::string& name);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // The next block, or null when there will be none, or when the ring is damaged. Waits. The block
  // stays valid until it is released; blocks are released in the order they were taken. The program
  // waits while all of the ring's blocks are taken or full. `while_waiting` is called several times
  // a second.
  const TtqBlock* Next(const std::function<void()>& while_waiting = {});
  // DataLoss when the ring's counters cannot be true.
  absl::Status status() const;
  void Release();
  // How many blocks Next would give without waiting.
  uint32_t waiting() const;
  // DataLoss when the block's parts do not fit it.
  absl::Status Take(const TtqBlock* block, BlockView* out) const;
  // For a ring that asks for verification: block `number` has been compared, the program may go on.
  void Verified(uint32_t number);

  // Of a process that is run again: before which block it stands still, ends_between_superblocks
  // being set in the one before; 0: nowhere.
  uint32_t hold_before() const;
  // It goes on, and does not stand still again.
  void LetGoOn();
  // The same; what its instructions do is not asked for any more, and may be left out.
  void AskForNoMore();

  // The next block of recorded inputs as far as it is written: TtqInputsBlock, and its records from
  // byte `known` on. nullopt: there are no more, or the block cannot be read now.
  std::optional<std::string> NextSoFar(size_t known) const;

  // Whether the producer has finished or died. Blocks that it handed over may still be waiting.
  bool HasEnded() const;

  // The process replaced itself; no more blocks come after those produced.
  void Supersede() { superseded_ = true; }
  // The program goes on unrecorded.
  void Detach();
  // Of a process that is run again: whether more blocks come when it has ended, by a RingProducer.
  bool goes_on() const;
  // Waits until the process has ended. How many blocks it has handed over.
  uint32_t WaitForEnd() const;

  // Ends the process by SIGKILL, if it is still there.
  void Kill() const;

  const std::string& name() const { return name_; }
  // Of the process; of one that is run again, as it was recorded.
  uint32_t pid() const { return header_->again.pid != 0 ? header_->again.pid : header_->pid; }
  // Of the process that fills the ring.
  uint32_t filler_pid() const { return header_->pid; }
  // Of a process that is run again: its number in the recording, and its parent's; 0: there is
  // none.
  uint32_t process() const { return header_->again.process; }
  uint32_t parent_process() const { return header_->again.parent; }
  // Blocks before this one hold inputs; ~0: all so far.
  uint32_t inputs_before() const;
  // Of a process that was recorded by its inputs first: why a log follows them, one clause.
  std::string log_because() const;
  uint32_t parent_pid() const { return header_->parent_pid; }
  std::string parent_ring() const;
  uint32_t fork_number() const { return header_->fork_number; }
  // Of a process that is run again: it has a segment of the process whose ring parent_ring() is.
  bool is_segment() const { return fork_number() == 0 && header_->parent_ring[0] != 0; }
  uint32_t first_block() const { return first_block_; }
  int64_t start_wall_ns() const { return header_->start_wall_ns; }
  bool verify() const { return header_->verify != 0; }
  uint32_t block_count() const { return block_count_; }
  // The most that a block's log and recipes are, with the block's head.
  uint32_t log_block_bytes() const { return log_block_bytes_; }
  // Program path, working directory, argv.
  std::vector<std::string> arguments() const;
  // With verify(), while the program waits for Verified: address and size of what system calls
  // under way may be writing.
  std::vector<std::pair<uint64_t, uint64_t>> pending() const;
  // The tool said goodbye, rather than being killed or replaced.
  bool finished() const;
  // It has ended, and nobody has said so.
  bool was_killed() const;
  bool became_other() const { return header_->became_other != 0; }
  // 0: from the start of the process; else of one moment of it.
  uint32_t beginning() const { return header_->beginning; }
  // One clause that says why the recording is incomplete from the start; empty: it is complete.
  std::string incomplete() const;
  bool superseded() const { return superseded_ || header_->again.superseded != 0; }
  uint32_t fatal_signal() const { return header_->fatal_signal; }
  uint32_t exit_status() const { return header_->exit_status; }  // as in TtqRing

 private:
  friend class RingProducer;
  Ring() = default;
  bool ProcessIsGone() const;
  void HoldBefore(uint32_t block);
  const char* BlockAt(uint32_t number) const;
  absl::Status CheckHeader(const std::string& path);

  std::string name_;
  TtqRing* header_ = nullptr;
  size_t bytes_ = 0;
  int pidfd_ = -1;
  // As checked when it was opened.
  uint32_t block_bytes_ = 0, block_count_ = 0, log_block_bytes_ = 0;
  uint32_t first_block_ = 0;  // not 0: of a segment
  uint32_t taken_ = 0, released_ = 0;
  std::atomic<bool> superseded_{false}, damaged_{false};
};

}  // namespace ttq

#endif  // TTQ_RECORDER_RING_H_
