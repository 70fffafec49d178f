// SPDX-License-Identifier: MIT
//
// What fuzz targets share: taking values off the input, and ending when something does not hold.

#ifndef TTQ_TESTS_FUZZ_FUZZ_H_
#define TTQ_TESTS_FUZZ_FUZZ_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace ttq {

// Values off the front of the input; zeros when it is used up.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  template <class T>
  T Take() {
    T value{};
    std::string_view bytes = Bytes(sizeof(T));
    memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  // REQUIRES: n > 0.
  uint32_t Below(uint32_t n) { return n <= 256 ? Take<uint8_t>() % n : Take<uint32_t>() % n; }
  // At most n bytes.
  std::string_view Bytes(size_t n) {
    std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(out.size());
    return out;
  }

 private:
  std::string_view rest_;
};

inline void Require(bool holds, const char* what, std::string_view text = {}) {
  if (holds) return;
  std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

}  // namespace ttq

#endif  // TTQ_TESTS_FUZZ_FUZZ_H_
