// SPDX-License-Identifier: MIT
//
// Answers as an agent reads them: one line per row, no padding, and no more than it can take. What
// a program wrote is data: it stands in quotes, and what is not printable in it as an escape.
//
// Thread-safe.

#ifndef TTQ_MCP_TEXT_H_
#define TTQ_MCP_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "query/value.h"

namespace ttq::mcp {

inline constexpr size_t kMaxAnswer = 20'000;  // bytes, and so characters
inline constexpr size_t kMaxCell = 200;       // characters

// On one line; what is no UTF-8 is replaced.
std::string Dump(const nlohmann::ordered_json& json);
// A name as it is; anything that could be taken for more than one word in quotes, at most
// `most` characters.
std::string Quoted(std::string_view text, size_t most = kMaxCell);
// A value as one cell of at most kMaxCell characters.
std::string CellOf(const Value& value, const Column& column);
// A frame of a stack, or another element of a list, likewise.
std::string FrameOf(const Value& frame);
// "main at main.c:12 (a.out)" of the values of these columns.
std::string PlaceOf(const Value& function, const Value& module, const Value& file,
                    const Value& line);
// `text` in at most `most` bytes: of one that is longer its first and its last lines, with what was
// left out between.
std::string Fit(const std::string& text, size_t most = kMaxAnswer);

// What is wrong with a question: the message, the place, what was perhaps meant, and three
// questions that are right: most are about history, and are not told where that is unknown.
std::string QuestionError(std::string_view question, const absl::Status& status,
                          bool history_unknown = false);
// Questions for `language` and for errors, each with what it answers.
struct Example {
  std::string_view question, answers;
};
const std::vector<Example>& Examples();

}  // namespace ttq::mcp

#endif  // TTQ_MCP_TEXT_H_
