// SPDX-License-Identifier: MIT
//
// Says in words what is wrong with a statement that the grammar does not accept. Private to the
// parser.

#ifndef TTQ_QUERY_LANGUAGE_SYNTAX_ERROR_H_
#define TTQ_QUERY_LANGUAGE_SYNTAX_ERROR_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>

#include "query/language/diagnostic.h"
#include "query/language/tokens.h"

namespace ttq::internal {

// Parses tokens; the index of the first one with which no statement can go on, the number of tokens
// if the statement ends too early, nullopt if it is one.
using Probe = std::function<std::optional<size_t>(const Statement&)>;

// What is wrong at token `bad` of the statement, as `probe` returned it. What could stand there
// instead is found by trying: each kind of token is put after the good ones and probed. That is
// exact whatever the parser was predicting, and an error can afford the microseconds.
Diagnostic ExplainSyntaxError(std::string_view text, const Statement& statement, size_t bad,
                              const Probe& probe);

}  // namespace ttq::internal

#endif  // TTQ_QUERY_LANGUAGE_SYNTAX_ERROR_H_
