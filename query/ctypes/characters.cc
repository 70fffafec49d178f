// SPDX-License-Identifier: MIT

#include "query/ctypes/characters.h"

#include <cstring>

#include "base/text.h"
#include "fmt/core.h"

namespace ttq {
namespace {

bool IsSurrogate(char32_t c, char32_t first) { return c >= first && c < first + 0x400; }

// Whether Unicode has it.
bool IsCharacter(char32_t c) {
  return c <= 0x10ffff && !IsSurrogate(c, 0xd800) && !IsSurrogate(c, 0xdc00);
}

}  // namespace

CharacterType CharacterTypeOf(const CType* type) {
  const CType* plain = type->Strip();
  const uint64_t size = plain->Size().value_or(0);
  if ((size != 1 && size != 2 && size != 4) || !plain->IsIntegral()) return {};
  const auto bytes = static_cast<uint32_t>(size);
  for (;; type = type->target()) {
    if (type->name == "wchar_t") return {bytes, "L"};
    if (type->name == "char16_t") return {bytes, "u"};
    if (type->name == "char32_t") return {bytes, "U"};
    if (type->name == "char8_t") return {bytes, "u8"};
    if (type->kind != CType::Kind::kTypedef && !type->IsQualifier()) break;
  }
  return plain->kind == CType::Kind::kChar ? CharacterType{bytes, ""} : CharacterType();
}

std::u32string Characters(std::string_view bytes, const CharacterType& type) {
  std::u32string out;
  for (size_t at = 0; at + type.bytes <= bytes.size(); at += type.bytes) {
    uint32_t c = 0;
    std::memcpy(&c, bytes.data() + at, type.bytes);
    if (type.bytes == 2 && !out.empty() && IsSurrogate(out.back(), 0xd800) &&
        IsSurrogate(c, 0xdc00)) {
      out.back() = 0x10000 + ((out.back() - 0xd800) << 10) + (c - 0xdc00);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string TextOf(std::string_view bytes, const CharacterType& type) {
  if (type.bytes == 1) return std::string(bytes);
  std::string out;
  for (const char32_t c : Characters(bytes, type)) AppendUtf8(IsCharacter(c) ? c : 0xfffd, &out);
  return out;
}

std::string EscapedCharacter(char32_t c, char quote, const CharacterType& type) {
  switch (c) {
    case '\a':
      return "\\a";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\v':
      return "\\v";
    case 27:
      return "\\033";
    default:
      break;
  }
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    return std::string("\\") + static_cast<char>(c);
  }
  if (c >= 32 && c < 127) return std::string(1, static_cast<char>(c));
  if (type.bytes > 1 && c >= 0xa0 && IsCharacter(c)) {
    std::string out;
    AppendUtf8(c, &out);
    return out;
  }
  return c < 256 ? fmt::format("\\{:03o}", static_cast<uint32_t>(c))
                 : fmt::format("\\x{:x}", static_cast<uint32_t>(c));
}

std::string QuotedString(std::string_view bytes, bool cut, const CharacterType& type) {
  const std::u32string text = Characters(bytes, type);
  std::string out = type.prefix;
  if (text.empty()) return out + (cut ? "\"\"..." : "\"\"");
  bool in_quotes = false;
  for (size_t i = 0; i < text.size();) {
    size_t run = i + 1;
    while (run < text.size() && text[run] == text[i]) ++run;
    if (run - i > kRepeats) {
      if (in_quotes) out += "\"";
      if (i > 0) out += ", ";
      Append(&out, "'", EscapedCharacter(text[i], '\'', type), "' <repeats ", run - i, " times>");
      in_quotes = false;
      i = run;
      continue;
    }
    if (!in_quotes) {
      if (i > 0) out += ", ";
      out += "\"";
      in_quotes = true;
    }
    out += EscapedCharacter(text[i], '"', type);
    ++i;
  }
  if (in_quotes) out += "\"";
  if (cut) out += "...";
  return out;
}

}  // namespace ttq
