// SPDX-License-Identifier: MIT

#include "base/display_width.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>

#include "base/text.h"

namespace ttq {
namespace {

constexpr std::string_view kEllipsis = "…";

// Of one character. wcwidth knows characters by the thread's locale, which may be any; C.UTF-8 is
// part of every glibc since 2.35.
size_t WidthOf(char32_t code) {
  if (code < 0x7f) return 1;
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  const int width = wcwidth(static_cast<wchar_t>(code));
  uselocale(before);
  return width < 0 ? 1 : static_cast<size_t>(width);
}

// The bytes of the character at text[at], and its width.
size_t Step(std::string_view text, size_t at, size_t* width) {
  char32_t code;
  const size_t length = DecodeUtf8(text, at, &code);
  *width = length == 0 ? 1 : WidthOf(code);
  return std::max<size_t>(length, 1);
}

// The bytes of the longest beginning that takes at most `width` columns.
size_t FittingBytes(std::string_view text, size_t width) {
  size_t at = 0, used = 0;
  while (at < text.size()) {
    size_t w;
    const size_t length = Step(text, at, &w);
    if (used + w > width) break;
    used += w;
    at += length;
  }
  return at;
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  size_t total = 0;
  for (size_t at = 0; at < text.size();) {
    size_t w;
    at += Step(text, at, &w);
    total += w;
  }
  return total;
}

std::string CutEnd(std::string_view text, size_t width) {
  if (FittingBytes(text, width) == text.size()) return std::string(text);
  if (width == 0) return "";
  return std::string(text.substr(0, FittingBytes(text, width - 1))).append(kEllipsis);
}

std::string CutBeginning(std::string_view text, size_t width) {
  size_t left = DisplayWidth(text);
  if (left <= width) return std::string(text);
  if (width == 0) return "";
  size_t at = 0;
  while (left > width - 1) {
    size_t w;
    at += Step(text, at, &w);
    left -= w;
  }
  return std::string(kEllipsis).append(text.substr(at));
}

std::vector<std::string> WrapText(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  do {
    size_t end = FittingBytes(text, width);
    if (end < text.size()) {
      const size_t space = text.substr(0, end).rfind(' ');
      if (space != std::string_view::npos && space >= end / 2) end = space + 1;
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (!text.empty() && lines.back().ends_with(' ')) lines.back().pop_back();
  } while (!text.empty());
  return lines;
}

}  // namespace ttq
