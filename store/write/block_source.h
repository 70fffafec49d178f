// SPDX-License-Identifier: MIT
//
// The blocks of a process on their way from its ring to the committer: their recipes are
// registered, and the workers digest several at a time; the committer takes them in order.
//
// A process that is run again may be divided into segments (recorder/engine/replay.cc). Blocks of
// its ring then have no log; that comes from the segments' rings, of which several are read at the
// same time. What is digested and not taken yet has a limit, which the segment that is taken from
// is exempt from: it always goes on.
//
// Thread-safety: one thread takes blocks; others may add segments.

#ifndef TTQ_STORE_WRITE_BLOCK_SOURCE_H_
#define TTQ_STORE_WRITE_BLOCK_SOURCE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/worker_pool.h"
#include "recorder/ring.h"
#include "store/walk/digest.h"

namespace ttq {

class BlockSource {
 public:
  using Clock = std::chrono::steady_clock;
  struct Block {
    TtqBlock head;
    std::vector<std::string> recipes;  // that came with it, as stored
    absl::StatusOr<BlockDigest> digest;
  };
  struct Tools {
    WorkerPool* workers;
    ScratchPool* scratches;
    std::function<bool(uint32_t block)> skims;  // whether that is not indexed; any thread calls it
    std::function<absl::Status()> error;        // of the recording: no block comes after one
    std::function<void(const std::shared_ptr<Ring>&)> ended;  // a segment; any thread calls it
    bool has_segments = false;  // blocks that are only counted, and not skimmed, are theirs
  };

  // `ring` and `recipes` outlive it.
  BlockSource(Ring* ring, RecipeTable* recipes, Tools tools);
  // Lets segments go, and waits for the threads. That of the process's own ring ends with its next
  // block.
  ~BlockSource();

  // Unavailable when there is no thread to be had.
  absl::Status Start();
  // Takes on the ring of a segment. Thread-safe. Unavailable as above.
  absl::Status AddSegment(std::shared_ptr<Ring> ring);

  enum class Next { kBlock, kNotYet, kEnd };
  // Waits for the next block, or until `deadline`. kEnd: there are no more, for status().
  Next WaitForNext(std::optional<Clock::time_point> deadline);
  // REQUIRES: WaitForNext has said kBlock.
  Block Take();
  // The block that was taken last is not needed any more: its room in the ring is free.
  void Release();
  absl::Status status() const;

 private:
  struct Entry {
    TtqBlock head;
    size_t taken;  // how many blocks were taken of the ring before it
    std::vector<std::string> recipes;
    std::future<absl::StatusOr<BlockDigest>> digest;  // none: a segment has it
  };
  struct Digested {
    TtqBlock head;
    absl::StatusOr<BlockDigest> digest;
  };
  // Blocks of a segment that are being digested, in order.
  struct Digesting {
    ~Digesting() {
      for (auto& [head, digest] : blocks) {
        if (digest.valid()) digest.wait();  // it uses a block of the ring
      }
    }
    std::deque<std::pair<TtqBlock, std::future<absl::StatusOr<BlockDigest>>>> blocks;
  };
  struct Segment {
    std::shared_ptr<Ring> ring;
    std::thread thread;
    std::deque<Digested> digested;
    bool has_ended = false;
    absl::Status status;  // when it has
  };

  absl::StatusOr<std::vector<std::string>> AddRecipes(std::string_view bytes);
  std::future<absl::StatusOr<BlockDigest>> Digest(const Ring& ring, const BlockView& block);
  absl::Status TakeRing();
  absl::Status TakeSegment(Segment* segment);
  // Whether the next block is there. Goes on to the next segment. REQUIRES: `mutex_` is held.
  bool IsReady();
  // A block of the ring is done with. REQUIRES: `mutex_` is held.
  void ReleaseLocked(size_t taken);
  void Stop();

  Ring* const ring_;
  RecipeTable* const recipes_;
  const Tools tools_;
  std::thread taker_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  size_t digesting_ = 0;       // entries with a digest of their own
  uint32_t blocks_taken_ = 0;  // of the ring: recipes of those before are known
  bool stops_ = false, has_ended_ = false;
  absl::Status status_;
  std::map<uint32_t, std::unique_ptr<Segment>> segments_;  // by their first block
  Segment* current_ = nullptr;                             // that blocks are taken from
  size_t buffered_ = 0;                                    // blocks of segments that are digested
  std::optional<size_t> last_taken_;  // Entry::taken of the block that was, if it is to be released
  // Blocks of the ring are released in order: whether those that are not are done with.
  std::deque<bool> done_;
  size_t released_ = 0;  // before them
  std::mutex recipes_mutex_;
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_BLOCK_SOURCE_H_
