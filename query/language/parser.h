// SPDX-License-Identifier: MIT
//
// Text to syntax tree. A text is untrusted: whatever it holds, the answer is a tree or a
// diagnostic, in time and memory linear in its length but for expressions, whose length is limited.
// Functions here are thread-safe. The first call costs some milliseconds more, for ANTLR's tables.

#ifndef TTQ_QUERY_LANGUAGE_PARSER_H_
#define TTQ_QUERY_LANGUAGE_PARSER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "query/language/ast.h"

namespace ttq {

// The one query in the text; `;` after it is allowed. On failure (no query, several, a bad one) an
// InvalidArgumentError with a Diagnostic (query/language/diagnostic.h).
absl::StatusOr<ast::Query> ParseQuery(std::string_view text);

// The queries of a file, separated by newlines or `;`. A query goes on in the next line inside
// brackets, after a line that ends with `|` and before one that begins with it. Ranges are bytes of
// `text`. On failure as above, for the first bad query; a text without any query is an error.
absl::StatusOr<std::vector<ast::Query>> ParseScript(std::string_view text);

// ---- Parameters ----
//
// `?` and `:name` may stand where a number, a text or a name may: an address, a time, a function's
// name, a pattern after `matches`, an operand. Their values become nodes of the tree, so they need
// no quoting and cannot change what the query says. ParseQuery and ParseScript above refuse them.

struct Parameter {
  std::string name;  // without the colon; empty: `?`
  ast::Range range;  // where it first stands
};

// Text is what a string in quotes would be, with its wildcards where those have a meaning; a name
// is a variable, or a function's or file's exact name. Nothing: not bound.
using ParameterValue =
    std::variant<std::monostate, uint64_t, int64_t, double, std::string, ast::Name>;

// The parameters of the one query in the text, in the order they first appear; each `?` is one of
// its own, all `:name` of one name are one. On failure as ParseQuery. What depends on values that
// are not known is checked by the overload below.
absl::StatusOr<std::vector<Parameter>> ParseParameters(std::string_view text);

// Words of the language that can stand at the end of the text, or complete the word that ends it,
// in alphabetical order; none where only names, numbers or signs can, and after an error.
std::vector<std::string> NextWords(std::string_view text);

// The query with `values[i]` for parameter i of ParseParameters. Also on failure when a value is
// missing or of a kind that cannot stand in its place.
absl::StatusOr<ast::Query> ParseQuery(std::string_view text,
                                      const std::vector<ParameterValue>& values);

}  // namespace ttq

#endif  // TTQ_QUERY_LANGUAGE_PARSER_H_
