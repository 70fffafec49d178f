// SPDX-License-Identifier: MIT
//
// Watching words of memory while time passes.

#ifndef TTQ_STORE_WALK_WORD_SET_H_
#define TTQ_STORE_WALK_WORD_SET_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/types.h"
#include "store/format/recorded.h"

namespace ttq {

// Aligned 8-byte words of memory, each named by any address in it. Made to be asked for every store
// of a program: almost all are turned away by one look at a small table.
class WordSet {
 public:
  void Add(Address a);
  void Remove(Address a);
  void Clear();
  bool Contains(Address a) const { return words_.contains(a.v / 8); }
  size_t size() const { return words_.size(); }
  // Whether a word of [address, address + size) may be in the set.
  bool MayContain(uint64_t address, uint64_t size) const {
    const uint64_t first = address / 8, last = (address + size - 1) / 8;
    if (last - first <= 1) return filter_[Slot(first)] != 0 || filter_[Slot(last)] != 0;
    return MayContainMany(first, last);
  }
  // By Slot of a word: 0 when no word of the set has that slot. Stays where it is.
  const uint8_t* filter() const { return filter_.data(); }
  static constexpr int kSlotBits = 12;
  static constexpr size_t kSlots = size_t{1} << kSlotBits;
  // Words that differ in their lowest bits alone have slots that do.
  static size_t Slot(uint64_t word) { return (word ^ word >> kSlotBits) % kSlots; }
  // Calls f(Address) for each word in [address, address + size), in ascending order.
  template <class F>
  void ForEachIn(uint64_t address, uint64_t size, F f) const {
    const uint64_t first = address / 8, last = (address + size - 1) / 8;
    if (last - first > words_.size()) {
      std::vector<uint64_t> found;
      for (const uint64_t w : words_) {
        if (w >= first && w <= last) found.push_back(w);
      }
      std::sort(found.begin(), found.end());
      for (const uint64_t w : found) f(Address(w * 8));
      return;
    }
    for (uint64_t w = first; w <= last; ++w) {
      if (words_.contains(w)) f(Address(w * 8));
    }
  }

 private:
  bool MayContainMany(uint64_t first, uint64_t last) const;

  absl::flat_hash_set<uint64_t> words_;
  // How many of the words share a slot; stays at 255 once it got there.
  std::array<uint8_t, kSlots> filter_{};
};

// A write that has a byte in common with a watched word. What it writes over is still in memory.
struct WatchedWrite {
  Time time;
  ThreadNo thread;
  Address pc;  // of a kernel's write: 0
  Address address;
  uint64_t size = 0;
  const uint8_t* bytes = nullptr;  // `size` of them, valid during the call
  Actor actor = Actor::kInstruction;

  // The 8 bytes of `word`, which this writes in part or in full, after the write. `before`: as they
  // are in memory.
  uint64_t After(Address word, uint64_t before) const;
};

}  // namespace ttq

#endif  // TTQ_STORE_WALK_WORD_SET_H_
