// SPDX-License-Identifier: MIT

#include "store/write/image.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace ttq {

const LiveImage::Area* LiveImage::Find(uint64_t address, uint64_t* begin) const {
  auto it = areas_.upper_bound(address);
  if (it == areas_.begin()) return nullptr;
  --it;
  if (address >= it->second.end) return nullptr;
  *begin = it->first;
  return &it->second;
}

void LiveImage::Read(uint64_t page, uint8_t* out) const {
  if (auto it = pages_.find(page); it != pages_.end()) {
    memcpy(out, it->second->bytes, kPageBytes);
  } else {
    ReadMapped(page, out);
  }
}

std::vector<uint64_t> LiveImage::PagesIn(uint64_t begin, uint64_t end) const {
  std::vector<uint64_t> out;
  for (const auto& [page, content] : pages_) {
    if (page >= begin / kPageBytes && page < end / kPageBytes) out.push_back(page);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// What was mapped there.
void LiveImage::ReadMapped(uint64_t page, uint8_t* out) const {
  uint64_t begin;
  const Area* area = Find(page * kPageBytes, &begin);
  if (area == nullptr || !area->file) {
    memset(out, 0, kPageBytes);
    return;
  }
  area->file->Read(area->file_offset + (page * kPageBytes - begin), kPageBytes, out);
}

ImagePage& LiveImage::Touch(uint64_t page) {
  auto [it, is_new] = pages_.try_emplace(page);
  if (is_new) {
    it->second = std::make_shared<ImagePage>();
    ReadMapped(page, it->second->bytes);
  } else if (it->second.use_count() > 1) {
    it->second = std::make_shared<ImagePage>(*it->second);
  } else {
    // Who had it, too, has copied it before: use_count() alone does not say so.
    std::atomic_thread_fence(std::memory_order_acquire);
  }
  return *it->second;
}

void LiveImage::Cut(uint64_t at) {
  auto it = areas_.upper_bound(at);
  if (it == areas_.begin()) return;
  --it;
  if (it->first == at || at >= it->second.end) return;
  Area tail = it->second;
  tail.file_offset += at - it->first;
  tail.identity_offset += at - it->first;
  it->second.end = at;
  areas_.emplace(at, std::move(tail));
}

void LiveImage::CollectNoted(uint64_t begin, uint64_t end, std::vector<uint64_t>* out) const {
  uint64_t first = begin / kPageBytes, last = (end + kPageBytes - 1) / kPageBytes;
  for (auto it = noted_.lower_bound(first >> 6); it != noted_.end() && it->first << 6 < last;
       ++it) {
    for (uint64_t bits = it->second; bits != 0; bits &= bits - 1) {
      uint64_t page = (it->first << 6) + static_cast<uint64_t>(__builtin_ctzll(bits));
      if (page >= first && page < last) out->push_back(page);
    }
  }
}

void LiveImage::DropPages(uint64_t begin, uint64_t end) {
  // Every page that exists has been noted, or will be at the end of this block.
  uint64_t first = begin / kPageBytes, last = (end + kPageBytes - 1) / kPageBytes;
  if (last - first < pages_.size()) {
    for (uint64_t page = first; page < last; ++page) pages_.erase(page);
  } else {
    absl::erase_if(pages_, [&](const auto& p) { return p.first >= first && p.first < last; });
  }
}

void LiveImage::Unmap(uint64_t begin, uint64_t end) {
  Cut(begin);
  Cut(end);
  areas_.erase(areas_.lower_bound(begin), areas_.lower_bound(end));
  DropPages(begin, end);
}

void LiveImage::Map(uint64_t begin, const Area& area, std::vector<uint64_t>* replaced) {
  CollectNoted(begin, area.end, replaced);
  Unmap(begin, area.end);
  areas_.emplace(begin, area);
}

void LiveImage::Protect(uint64_t begin, uint64_t end, uint8_t protection) {
  Cut(begin);
  Cut(end);
  for (auto it = areas_.lower_bound(begin); it != areas_.end() && it->first < end; ++it) {
    it->second.protection = protection;
  }
}

void LiveImage::Move(uint64_t from, uint64_t to, uint64_t size, std::vector<uint64_t>* replaced) {
  Cut(from);
  Cut(from + size);
  std::vector<std::pair<uint64_t, Area>> moved(areas_.lower_bound(from),
                                               areas_.lower_bound(from + size));
  uint64_t first = from / kPageBytes, last = (from + size) / kPageBytes;
  std::vector<std::pair<uint64_t, std::shared_ptr<ImagePage>>> pages;
  for (auto& [page, p] : pages_) {
    if (page >= first && page < last) pages.emplace_back(page, p);
  }
  Unmap(from, from + size);
  CollectNoted(to, to + size, replaced);
  Unmap(to, to + size);
  for (auto& [begin, area] : moved) {
    area.end = area.end - from + to;
    areas_.emplace(begin - from + to, std::move(area));
  }
  for (auto& [page, p] : pages) {
    uint64_t target = page - first + to / kPageBytes;
    pages_[target] = std::move(p);
    replaced->push_back(target);
  }
  std::sort(replaced->begin(), replaced->end());
  replaced->erase(std::unique(replaced->begin(), replaced->end()), replaced->end());
}

}  // namespace ttq
