// SPDX-License-Identifier: MIT
//
// Reads numbers and text off the front of some bytes. After the first read past the end every read
// gives 0, and `ok` is false.

#ifndef TTQ_BASE_BYTE_CURSOR_H_
#define TTQ_BASE_BYTE_CURSOR_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/types/span.h"

namespace ttq {

using ByteSpan = absl::Span<const uint8_t>;

// The first eight bytes, or those that there are, as a little-endian number.
inline uint64_t NumberOf(std::string_view bytes) {
  uint64_t n = 0;
  std::memcpy(&n, bytes.data(), std::min(bytes.size(), sizeof(n)));
  return n;
}

class ByteCursor {
 public:
  ByteCursor() = default;
  ByteCursor(ByteSpan bytes, uint64_t at) : bytes_(bytes), at_(at), ok_(at <= bytes.size()) {}
  bool ok() const { return ok_; }
  uint64_t at() const { return at_; }
  bool AtEnd() const { return !ok_ || at_ >= bytes_.size(); }
  template <class T>
  T Fixed() {
    T value = 0;
    if (!ok_ || bytes_.size() - at_ < sizeof(T)) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void Skip(uint64_t n) {
    if (!ok_ || bytes_.size() - at_ < n) {
      ok_ = false;
      return;
    }
    at_ += n;
  }
  // Little-endian, `size` ≤ 8 bytes.
  uint64_t Number(unsigned size) {
    uint64_t value = 0;
    if (!ok_ || size > 8 || bytes_.size() - at_ < size) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, bytes_.data() + at_, size);
    at_ += size;
    return value;
  }
  uint64_t Uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0; ok_; shift = std::min(shift + 7, 70u)) {
      const uint8_t byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return ok_ ? value : 0;
    }
    return 0;
  }
  int64_t Sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0; ok_; shift = std::min(shift + 7, 70u)) {
      const uint8_t byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) {
        if (shift + 7 < 64 && (byte & 0x40)) value |= ~uint64_t{0} << (shift + 7);
        return static_cast<int64_t>(value);
      }
    }
    return 0;
  }
  ByteSpan Block(uint64_t size) {
    if (!ok_ || bytes_.size() - at_ < size) {
      ok_ = false;
      return {};
    }
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  std::string_view Text() {
    if (AtEnd()) {  // also of a section that is not there
      ok_ = false;
      return {};
    }
    const void* end = std::memchr(bytes_.data() + at_, 0, bytes_.size() - at_);
    if (end == nullptr) {
      ok_ = false;
      return {};
    }
    const auto* begin = reinterpret_cast<const char*>(bytes_.data() + at_);
    const size_t size = static_cast<const char*>(end) - begin;
    at_ += size + 1;
    return {begin, size};
  }

 private:
  ByteSpan bytes_;
  uint64_t at_ = 0;
  bool ok_ = false;
};

}  // namespace ttq

#endif  // TTQ_BASE_BYTE_CURSOR_H_
