// SPDX-License-Identifier: MIT
//
// Characters and strings of C and C++, narrow and wide, as gdb shows them.

#ifndef TTQ_QUERY_CTYPES_CHARACTERS_H_
#define TTQ_QUERY_CTYPES_CHARACTERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "query/ctypes/type.h"

namespace ttq {

// gdb's `set print repeats`.
inline constexpr size_t kRepeats = 10;

struct CharacterType {
  uint32_t bytes = 0;       // of a character: 1, 2 or 4; 0: the type is none of characters
  const char* prefix = "";  // of its literals: "L", "u", "U", "u8"
};
// C has its wide characters as typedefs of integers.
CharacterType CharacterTypeOf(const CType* type);

// Code points: one for each byte, or what UTF-16 or UTF-32 encodes. A last part of a character is
// left out.
std::u32string Characters(std::string_view bytes, const CharacterType& type);
// The text as values have it: narrow characters as they are, others in UTF-8.
std::string TextOf(std::string_view bytes, const CharacterType& type);

// 'a', '\n', '\000' as gdb writes them; `quote` is the quote to escape.
std::string EscapedCharacter(char32_t c, char quote, const CharacterType& type = {1, ""});
// A string in quotes with repeats as gdb shows them; `cut` adds "...".
std::string QuotedString(std::string_view bytes, bool cut, const CharacterType& type = {1, ""});

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_CHARACTERS_H_
