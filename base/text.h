// SPDX-License-Identifier: MIT
//
// Small helpers for strings and characters, over std::string_view. Debian's abseil is built for
// C++14, so its string functions take an absl::string_view that a std::string_view does not convert
// to.

#ifndef TTQ_BASE_TEXT_H_
#define TTQ_BASE_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "fmt/core.h"

namespace ttq {

// Adds the arguments to `out`, one after another.
template <class... Parts>
void Append(std::string* out, const Parts&... parts) {
  // Not format_to, a template that clang names otherwise than GCC, with which libfmt was compiled.
  (out->append(fmt::format("{}", parts)), ...);
}

// The arguments one after another.
template <class... Parts>
std::string Cat(const Parts&... parts) {
  std::string result;
  Append(&result, parts...);
  return result;
}

// The last part of a path, without slashes after it.
inline std::string_view BaseName(std::string_view path) {
  const size_t end = path.find_last_not_of('/');
  path = path.substr(0, end + 1);
  return path.substr(path.rfind('/') + 1);
}

inline bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// ASCII letters, digits, `_` and every byte of a longer UTF-8 sequence.
inline bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

// ASCII letters in lower case, everything else as it is.
inline std::string Lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return result;
}

// A code point, a lone surrogate too. REQUIRES: below 0x200000.
inline void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3f)));
  }
}

// The length in bytes of the UTF-8 sequence at text[at], and its code point; 0 when there is none.
// REQUIRES: at < text.size().
size_t DecodeUtf8(std::string_view text, size_t at, char32_t* code);

// What Python's str.isprintable() says: false for controls, formats (those that turn the direction
// of text round, too), separators but the space, surrogates, and what Unicode 15 does not assign.
bool IsPrintable(char32_t c);

// `text` with every character that is not printable (see IsPrintable) as an escape: \n, \t, \x1b,
// \u202e, \U000e0041; a byte that is not UTF-8 as \xff. The result is one line, a terminal
// interprets nothing in it, and XML allows it.
std::string Printable(std::string_view text);

// The parts between occurrences of `separator`, at most `limit` of them; the last has the rest.
inline std::vector<std::string_view> Split(std::string_view text, std::string_view separator,
                                           size_t limit = std::string_view::npos) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < limit) {
    const size_t at = text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

}  // namespace ttq

#endif  // TTQ_BASE_TEXT_H_
