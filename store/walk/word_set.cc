// SPDX-License-Identifier: MIT

#include "store/walk/word_set.h"

#include <cstring>

namespace ttq {

void WordSet::Add(Address a) {
  const uint64_t word = a.v / 8;
  if (!words_.insert(word).second) return;
  uint8_t& count = filter_[Slot(word)];
  if (count < 255) ++count;
}

void WordSet::Remove(Address a) {
  const uint64_t word = a.v / 8;
  if (words_.erase(word) == 0) return;
  uint8_t& count = filter_[Slot(word)];
  if (count < 255) --count;
}

void WordSet::Clear() {
  words_.clear();
  filter_.fill(0);
}

bool WordSet::MayContainMany(uint64_t first, uint64_t last) const {
  if (last - first >= words_.size()) return !words_.empty();
  for (uint64_t w = first; w <= last; ++w) {
    if (filter_[Slot(w)] != 0) return true;
  }
  return false;
}

uint64_t WatchedWrite::After(Address word, uint64_t before) const {
  uint8_t out[8];
  memcpy(out, &before, 8);
  const uint64_t begin = std::max(word.v, address.v);
  const uint64_t end = std::min(word.v + 8, address.v + size);
  if (begin < end) memcpy(out + (begin - word.v), bytes + (begin - address.v), end - begin);
  memcpy(&before, out, 8);
  return before;
}

}  // namespace ttq
