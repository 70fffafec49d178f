// SPDX-License-Identifier: MIT
//
// What is wrong with a query, and where: the payload of every status that the parser and the
// planner return for a bad query. Functions here are thread-safe.

#ifndef TTQ_QUERY_LANGUAGE_DIAGNOSTIC_H_
#define TTQ_QUERY_LANGUAGE_DIAGNOSTIC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "query/language/ast.h"

namespace ttq {

struct Diagnostic {
  std::string message;  // One line, without "ttq:" and without a final full stop.
  // Bytes [begin, end) of the query text. begin == end points between two characters, usually at
  // the end of the text.
  uint32_t begin = 0, end = 0;
  std::string hint;  // What was probably meant, quoted as it should be written; empty: no idea.
};

// InvalidArgumentError whose message is one line (message and hint) and that carries the
// diagnostic.
absl::Status DiagnosticError(Diagnostic diagnostic);

// The diagnostic that DiagnosticError put into the status; nullopt for any other status.
std::optional<Diagnostic> GetDiagnostic(const absl::Status& status);

// The message as a user reads it, with a final newline:
//
//     ttq: expected 'to' or 'of' after 'last write', not 'x'
//       last write x
//                  ^
//     did you mean …?                      (only with a hint)
//
// Of a query of several lines the one where the place begins is shown; a long line is cut around
// the place. Bytes that a terminal would interpret, or that are not UTF-8, are shown as '?'. A
// place outside the text is moved into it.
std::string RenderDiagnostic(std::string_view text, const Diagnostic& diagnostic);

// The one of `candidates` (separated by spaces) that `word` was probably meant to be: the nearest
// by edits, transpositions counting as one, if it is near enough for the word's length. Letter case
// is ignored. Empty if there is none, or if the word is one of them.
std::string NearestWord(std::string_view word, std::string_view candidates);

// An error of the user's, at a place in the query text. `advice`, if any, says what to do instead.
absl::Status ErrorAt(ast::Range range, std::string message, std::string_view advice = "");
// The same for a name that does not exist, with those that were perhaps meant.
absl::Status UnknownAt(ast::Range range, std::string message,
                       const std::vector<std::string>& suggestions);
// Those of `candidates` that a typing slip turns into `name`, nearest first, at most three.
std::vector<std::string> Nearest(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace ttq

#endif  // TTQ_QUERY_LANGUAGE_DIAGNOSTIC_H_
