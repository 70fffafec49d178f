// SPDX-License-Identifier: MIT
//
// The state of a process at a time, from the store. Implements Moment (store/read/reader.h).
//
// A moment stands between two superblocks of a block: the walker holds the registers there, and an
// overlay of pages what the block has written so far. Moving forward walks on; moving into a
// superblock applies that superblock's first effects and remembers what to take back. Memory that
// the block has not touched is read from the page index when it is asked for, and kept while the
// moment stays in the block.

#ifndef TTQ_STORE_READ_MOMENT_H_
#define TTQ_STORE_READ_MOMENT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "store/read/process_reader.h"
#include "store/read/track.h"
#include "store/walk/walk.h"

namespace ttq {

class StoredMoment : public Moment {
 public:
  explicit StoredMoment(const ProcessReader& process);
  ~StoredMoment() override;

  const Process& process() const override { return process_; }
  absl::Status MoveTo(Time t) override;
  Time time() const override { return time_; }
  absl::StatusOr<uint64_t> Read(Address begin, uint64_t size, void* out) override;
  absl::StatusOr<Registers> RegistersOf(std::optional<ThreadNo> thread) override;
  absl::StatusOr<ThreadNo> RunningThread() override;

  // Walks a whole block, up to `until`, and tells `visitor`; see store/read/watch.h.
  absl::Status Watch(uint32_t block, Time until, BlockVisitor* visitor);

 private:
  class Sink;
  friend class Sink;
  class WatchSink;
  friend class WatchSink;

  // A page as far as this block has written it; `base` once the rest is filled in too. Begins as
  // machine code needs it.
  struct Page {
    std::array<uint8_t, kPageBytes> bytes;
    std::array<uint8_t, kPageBytes> written;  // 0xff for each byte
    bool base = false, known = true;
  };
  // A change of the address space inside the block.
  struct Layer {
    enum Kind { kMapped, kUnmapped, kMoved } kind;
    uint64_t begin, end;  // whole pages
    Mapping mapping;      // kMapped
    uint64_t from = 0;    // kMoved: where it was
  };
  // What a superblock cut in the middle wrote over.
  struct Undo {
    uint64_t address;
    uint8_t byte, written;
  };

  absl::Status EnterBlock(uint32_t number);
  absl::Status LeaveInside();
  absl::Status EnterInside(uint64_t instructions);

  Page* Touch(uint64_t page);
  void Write(uint64_t address, const uint8_t* bytes, uint64_t size, bool undoable);
  void Control(uint32_t kind, std::string_view payload);
  void Forget(uint64_t begin, uint64_t end);
  // The page with everything filled in; its `known` says whether it is mapped and known.
  absl::StatusOr<const Page*> Filled(uint64_t page);
  // What the page holds where this block has not written it, after the first `layers` changes of
  // the address space.
  struct BaseState {
    bool mapped = true, known = true;
  };
  absl::StatusOr<BaseState> Base(uint64_t page, size_t layers, uint8_t* bytes) const;

  const ProcessReader& process_;
  Time time_ = kTimeMax;
  std::shared_ptr<const LoadedBlock> block_;
  Walker walker_;
  std::optional<ThreadNumbers> threads_;
  size_t offset_ = 0;                   // in the log: the first record not walked
  uint32_t last_tid_ = 0;               // of the last superblock walked
  uint32_t stopped_in_ = 0;             // superblock at offset_; 0: the log's end
  std::optional<ThreadState> outside_;  // registers at offset_, while inside its superblock
  std::vector<Undo> undo_;
  VectorTracker vectors_;  // at offset_
  absl::flat_hash_map<uint64_t, std::unique_ptr<Page>> pages_;
  NativeWalk native_;  // its pages are some of `pages_`, for any walk
  std::vector<Layer> layers_;
  std::vector<std::unique_ptr<Page>> spare_;
  // The requested pages as they were at the start of the block, for going back within it.
  struct Start {
    std::array<uint8_t, kPageBytes> bytes;
    bool known = true;
  };
  mutable absl::flat_hash_map<uint64_t, std::unique_ptr<const Start>> starts_;
  uint32_t starts_of_ = UINT32_MAX;  // the block
};

}  // namespace ttq

#endif  // TTQ_STORE_READ_MOMENT_H_
