// SPDX-License-Identifier: MIT

#include "diff/value_text.h"

#include "base/byte_cursor.h"
#include "fmt/core.h"

namespace ttq::diff {

std::string NumberText(uint64_t v) {
  const auto n = static_cast<int64_t>(v);
  return n > -4096 && n < 1 << 20 ? fmt::format("{}", n) : fmt::format("{:#x}", v);
}

std::string BytesText(std::string_view bytes) {
  if (bytes.size() <= 8) {
    const uint64_t v = NumberOf(bytes);
    if (bytes.size() == 4) return NumberText(static_cast<uint64_t>(static_cast<int32_t>(v)));
    return NumberText(v);
  }
  std::string text = "hex:";
  for (const char c : bytes.substr(0, 32)) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return text;
}

}  // namespace ttq::diff
