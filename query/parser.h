// SPDX-License-Identifier: MIT
//
// Text to syntax tree. A text is untrusted: whatever it holds, the answer is a tree or a
// diagnostic, in time and memory linear in its length but for expressions, whose length is limited.
// Functions here are thread-safe. The first call costs some milliseconds more, for ANTLR's tables.

#ifndef TTQ_QUERY_PARSER_H_
#define TTQ_QUERY_PARSER_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "query/ast.h"

namespace ttq {

// The one query in the text; `;` after it is allowed. On failure (no query, several, a bad one) an
// InvalidArgumentError with a Diagnostic (query/diagnostic.h).
absl::StatusOr<ast::Query> ParseQuery(std::string_view text);

// The queries of a file, separated by newlines or `;`. A query goes on in the next line inside
// brackets, after a line that ends with `|` and before one that begins with it. Ranges are bytes of
// `text`. On failure as above, for the first bad query; a text without any query is an error.
absl::StatusOr<std::vector<ast::Query>> ParseScript(std::string_view text);

}  // namespace ttq

#endif  // TTQ_QUERY_PARSER_H_
