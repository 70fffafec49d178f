// SPDX-License-Identifier: MIT

#include "query/process/glibc_heap.h"

#include <vector>

#include "base/status_macros.h"

namespace ttq {
namespace {
constexpr uint64_t kHeader = 16;    // before what malloc gave: size of the one before, own size
constexpr uint64_t kSmallest = 32;  // chunk
constexpr uint64_t kPrevInUse = 1, kIsMapped = 2, kNonMainArena = 4, kFlags = 7;
// A thread's arena lies in heaps of this size and alignment (HEAP_MAX_SIZE), each with a heap_info
// at its start; the first of an arena has its malloc_state behind that.
constexpr uint64_t kThreadHeap = 64 << 20;
constexpr uint64_t kHeapInfo = 48, kLongestState = 4096;
constexpr uint64_t kMaxMapped = uint64_t{1} << 40;

class Search {
 public:
  Search(Moment& moment, Address address, ScanControl* control)
      : moment_(moment), address_(address.v), control_(control) {}

  absl::StatusOr<std::optional<GlibcBlock>> Run() {
    ASSIGN_OR_RETURN(std::vector<Mapping> mappings, moment_.process().MappingsAt(moment_.time()));
    for (const Mapping& m : mappings) {
      if (m.range.Contains(Address(address_))) range_ = m.range;
    }
    if (range_.empty()) return std::optional<GlibcBlock>();
    // The break's memory begins with a chunk.
    ASSIGN_OR_RETURN(std::optional<GlibcBlock> found, Walk(range_.begin.v, 0));
    if (found) return found;
    ASSIGN_OR_RETURN(found, InThreadHeap());
    if (found) return found;
    return Mapped();
  }

 private:
  absl::StatusOr<std::optional<uint64_t>> SizeWord(uint64_t chunk) {
    return moment_.ReadNumber(Address(chunk + 8), 8);
  }

  // From chunk to chunk up to the one that holds the address. `flag`: what all of them have set of
  // kNonMainArena.
  absl::StatusOr<std::optional<GlibcBlock>> Walk(uint64_t chunk, uint64_t flag) {
    const std::optional<GlibcBlock> none;
    constexpr int kBetweenChecks = 4096;
    for (int steps = 1; chunk < range_.end.v; ++steps) {
      if (steps % kBetweenChecks == 0 && control_ != nullptr && control_->cancelled) {
        return absl::CancelledError("interrupted");
      }
      ASSIGN_OR_RETURN(const std::optional<uint64_t> word, SizeWord(chunk));
      if (!word) return none;
      const uint64_t size = *word & ~kFlags;
      const bool fits = size >= kSmallest && size % 16 == 0 && size <= range_.end.v - chunk &&
                        (*word & kIsMapped) == 0 && (*word & kNonMainArena) == flag;
      if (!fits) return none;
      const uint64_t next = chunk + size;
      if (address_ >= next) {
        chunk = next;
        continue;
      }
      // The last chunk of all is what is left of the memory, and no block.
      if (next + kHeader > range_.end.v) return none;
      ASSIGN_OR_RETURN(const std::optional<uint64_t> after, SizeWord(next));
      if (!after || (*after & ~kFlags) % 16 != 0) return none;
      // The next one's header begins with the last word of this one.
      return std::optional<GlibcBlock>(
          GlibcBlock{Address(chunk + kHeader), size - 8, (*after & kPrevInUse) == 0, false});
    }
    return none;
  }

  absl::StatusOr<std::optional<GlibcBlock>> InThreadHeap() {
    const uint64_t heap = address_ & ~(kThreadHeap - 1);
    if (heap < range_.begin.v) return std::optional<GlibcBlock>();
    ASSIGN_OR_RETURN(const std::optional<uint64_t> arena, moment_.ReadNumber(Address(heap), 8));
    if (!arena) return std::optional<GlibcBlock>();
    const bool is_first = *arena > heap && *arena - heap <= kHeapInfo;
    // How long its state is depends on glibc's version.
    const uint64_t last = is_first ? kLongestState : kHeapInfo;
    for (uint64_t at = is_first ? *arena - heap : 32; at <= last; at += 16) {
      ASSIGN_OR_RETURN(std::optional<GlibcBlock> found, Walk(heap + at, kNonMainArena));
      if (found) return found;
    }
    return std::optional<GlibcBlock>();
  }

  // One with a mapping to itself, or to several of its kind.
  absl::StatusOr<std::optional<GlibcBlock>> Mapped() {
    for (uint64_t page = address_ & ~(kPageBytes - 1);; page -= kPageBytes) {
      ASSIGN_OR_RETURN(const std::optional<uint64_t> word, SizeWord(page));
      if (word && (*word & kFlags) == kIsMapped) {
        const uint64_t size = *word & ~kFlags;
        if (size % kPageBytes == 0 && size > 0 && size < kMaxMapped && address_ < page + size &&
            size <= range_.end.v - page) {
          return std::optional<GlibcBlock>(
              GlibcBlock{Address(page + kHeader), size - kHeader, false, true});
        }
      }
      if (page <= range_.begin.v) return std::optional<GlibcBlock>();
    }
  }

  Moment& moment_;
  const uint64_t address_;
  ScanControl* control_;
  AddressRange range_{};
};

}  // namespace

absl::StatusOr<std::optional<GlibcBlock>> FindGlibcBlock(Moment& moment, Address address,
                                                         ScanControl* control) {
  return Search(moment, address, control).Run();
}

}  // namespace ttq
