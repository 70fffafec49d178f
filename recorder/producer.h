// SPDX-License-Identifier: MIT
//
// Fills a ring from this process (see stream.h): a moment of a program, of which there is nothing
// to execute, or a log that was kept, becomes a recording by the same way as a program under the
// recorder.
//
// Belongs to one thread; the ring's reader is another.

#ifndef TTQ_RECORDER_PRODUCER_H_
#define TTQ_RECORDER_PRODUCER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/ring.h"
#include "recorder/stream.h"

namespace ttq {

constexpr uint32_t kRingBlockBytes = 8 << 20;

constexpr char kLostRing[] = "lost";

// What the ring says of the process.
struct RingHead {
  std::string name = "moment";  // of the ring
  uint32_t pid = 0;
  uint32_t beginning = 0;  // ttq::Beginning
  uint32_t block_bytes = kRingBlockBytes;
  int64_t wall_ns = 0;
  uint32_t fatal_signal = 0;           // 0: none
  std::string incomplete;              // cut where it is too long
  std::vector<std::string> arguments;  // program, working directory, argv; those that find room
  // Of a process that another one forked. kLostRing: from what it goes on is not recorded.
  std::string parent_ring;
  uint32_t fork_number = 0;
  uint32_t process = 0, parent = 0;  // their numbers in the recording, where they are known
  bool superseded = false, became_other = false;  // as Ring has them
};

class RingProducer {
 public:
  // Unavailable when there is no memory for it.
  static absl::StatusOr<std::unique_ptr<RingProducer>> Make(const RingHead& head);
  // Goes on with the ring of a process that has ended (Ring::goes_on).
  static std::unique_ptr<RingProducer> GoOn(std::shared_ptr<Ring> ring);
  ~RingProducer();
  RingProducer(const RingProducer&) = delete;
  RingProducer& operator=(const RingProducer&) = delete;

  // To be consumed by another thread: Put waits for it.
  std::shared_ptr<Ring> ring() const { return ring_; }

  // The most bytes of a record's payload.
  static constexpr size_t kMaxPayload = 1 << 20;
  // One control record; `more` follows `head`. Begins a new block where this one has no room.
  template <class Head>
  void Put(uint32_t kind, const Head& head, std::string_view more = {}) {
    Append(kind, {reinterpret_cast<const char*>(&head), sizeof(head)}, more);
  }
  // What follows is in a block of its own.
  void EndBlock();
  // A whole block. DataLoss when it does not fit the ring, or is not its next one.
  absl::Status PutBlock(const BlockView& block);
  // There will be no more.
  void Finish() { Finish(kTtqFinished); }
  // There will be no more of a process that was recorded. `said_so`: it had come to its end;
  // `fatal_signal`: what ended it, 0: no signal.
  void FinishAs(uint32_t fatal_signal, bool said_so);

 private:
  RingProducer() = default;
  void Append(uint32_t kind, std::string_view head, std::string_view more);
  TtqBlock* Block();
  void Finish(uint32_t state);
  void WaitForRoom();
  void HandOver();

  TtqRing* header_ = nullptr;  // the ring's
  std::shared_ptr<Ring> ring_;
  uint32_t log_bytes_ = 0;  // of the block that is being filled
  bool finished_ = false;
};

}  // namespace ttq

#endif  // TTQ_RECORDER_PRODUCER_H_
