// SPDX-License-Identifier: MIT

#include "base/text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace ttq {

size_t DecodeUtf8(std::string_view text, size_t at, char32_t* code) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char c = byte(at);
  *code = c;
  if (c < 0x80) return 1;
  size_t length;
  char32_t least;
  if (c >= 0xc2 && c < 0xe0) {
    length = 2, *code = c & 0x1f, least = 0x80;
  } else if (c >= 0xe0 && c < 0xf0) {
    length = 3, *code = c & 0x0f, least = 0x800;
  } else if (c >= 0xf0 && c < 0xf5) {
    length = 4, *code = c & 0x07, least = 0x10000;
  } else {
    return 0;
  }
  if (at + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(at + k) & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (byte(at + k) & 0x3f);
  }
  if (*code < least || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)) return 0;
  return length;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  static constexpr char32_t kNot[][2] = {
      {0x7f, 0xa0},
#include "base/unprintable.inc"
  };
  const auto* range = std::upper_bound(std::begin(kNot), std::end(kNot), c,
                                       [](char32_t c, const auto& r) { return c < r[0]; });
  return range == std::begin(kNot) || c > range[-1][1];
}

std::string Printable(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    char32_t code;
    const size_t length = DecodeUtf8(text, i, &code);
    if (code == '\n') {
      result += "\\n";
    } else if (code == '\t') {
      result += "\\t";
    } else if (length != 0 && IsPrintable(code)) {
      result += text.substr(i, length);
    } else if (length == 0 || code < 0x80) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    } else {
      const auto number = static_cast<uint32_t>(code);
      result +=
          code < 0x10000 ? fmt::format("\\u{:04x}", number) : fmt::format("\\U{:08x}", number);
    }
    i += std::max<size_t>(length, 1);
  }
  return result;
}

}  // namespace ttq
