// SPDX-License-Identifier: MIT
//
// Splits a query text into tokens and statements, before the grammar reads them. Private to the
// parser.

#ifndef TTQ_QUERY_LANGUAGE_TOKENS_H_
#define TTQ_QUERY_LANGUAGE_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ttq::internal {

struct Token {
  size_t type = 0;              // of the generated lexer
  uint32_t begin = 0, end = 0;  // bytes of the text
};

using Statement = std::vector<Token>;

// Cuts the text into statements, none of them empty, in order. Statements end at `;` and at a
// newline outside brackets, unless the line ends with `|` or the next one begins with it. On
// failure (too long, not UTF-8, control characters, nested so deeply that parsing could exhaust the
// stack) a diagnostic. Malformed tokens are not an error here: the grammar has no place for them.
absl::StatusOr<std::vector<Statement>> Tokenize(std::string_view text);

// The word or sign, as written in the grammar ('write', '->'), without quotes; empty for tokens
// that have no fixed text.
std::string_view FixedText(size_t type);

// Token types from 1 to this exist.
size_t MaxTokenType();

// Whether the token is a word of the language.
bool IsKeyword(size_t type);

}  // namespace ttq::internal

#endif  // TTQ_QUERY_LANGUAGE_TOKENS_H_
