// SPDX-License-Identifier: MIT

#include "query/cpython/memory.h"

#include <algorithm>
#include <cstring>

namespace ttq::python {

std::optional<std::string> Memory::Bytes(uint64_t at, uint64_t size, uint64_t most) {
  std::string bytes(std::min(size, most), '\0');
  if (!bytes.empty() && !Read(at, bytes.size(), bytes.data())) return std::nullopt;
  return bytes;
}

std::optional<std::string> Memory::CString(uint64_t at, size_t most) {
  std::string text;
  // In pieces that never cross a page: the text may end just before one that is not mapped.
  while (text.size() < most) {
    const size_t piece = std::min<size_t>(64 - at % 64, most - text.size());
    char buffer[64];
    if (!Read(at, piece, buffer)) return std::nullopt;
    const void* end = memchr(buffer, 0, piece);
    if (end) {
      text.append(buffer, static_cast<const char*>(end) - buffer);
      return text;
    }
    text.append(buffer, piece);
    at += piece;
  }
  return std::nullopt;
}

absl::Status MomentMemory::MoveTo(Time t) {
  pages_.clear();
  status_ = absl::OkStatus();
  return moment_->MoveTo(t);
}

const MomentMemory::Page& MomentMemory::Fetch(uint64_t page) {
  // A walk over a whole heap must not keep it.
  constexpr size_t kMaxPages = 1 << 14;
  if (pages_.size() > kMaxPages) pages_.clear();
  std::unique_ptr<Page>& slot = pages_[page];
  if (!slot) {
    slot = std::make_unique<Page>();
    absl::StatusOr<uint64_t> known =
        moment_->Read(Address(page * kPageBytes), kPageBytes, slot->bytes.data());
    if (known.ok()) {
      slot->known = *known;
    } else if (status_.ok()) {
      status_ = known.status();
    }
  }
  return *slot;
}

bool MomentMemory::Read(uint64_t at, size_t size, void* out) {
  // Nothing a process can map lies above, and sums of addresses below cannot wrap.
  if (at >= uint64_t{1} << 47 || size > uint64_t{1} << 40) return false;
  uint8_t* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    const uint64_t offset = at % kPageBytes;
    const size_t piece = std::min<uint64_t>(size, kPageBytes - offset);
    const Page& page = Fetch(at / kPageBytes);
    if (offset + piece <= page.known) {
      memcpy(to, page.bytes.data() + offset, piece);
    } else {
      // Known beyond a gap, or not at all.
      absl::StatusOr<uint64_t> known = moment_->Read(Address(at), piece, to);
      if (!known.ok() && status_.ok()) status_ = known.status();
      if (!known.ok() || *known != piece) return false;
    }
    at += piece;
    to += piece;
    size -= piece;
  }
  return true;
}

}  // namespace ttq::python
