// SPDX-License-Identifier: MIT
//
// One question, answered within bounds: rows, characters, seconds. What was left out is counted,
// and how to go on from there is said.
//
// How to go on is a text that `after` takes: "T:K" is the rows from time T on without the first K
// of that time, for rows in the order of time, which are then looked for from T on; "T" the rows
// after time T; "#N" the rows after the first N, for all else: the question is answered anew.

#ifndef TTQ_MCP_ASK_H_
#define TTQ_MCP_ASK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "mcp/call.h"
#include "mcp/subjects.h"

namespace ttq::mcp {

struct AskOptions {
  uint64_t limit = 50;   // rows; above 0
  uint64_t last = 10;    // so many of them are the last ones, where all are counted
  double budget_s = 20;  // seconds
  std::string after;     // "": from the beginning
  size_t most = 19'000;  // bytes of the text
};

// The answer as text, or what is wrong with the question.
ToolResult Ask(const Subject& subject, const std::string& question, const AskOptions& options,
               Call* call);

struct Cursor {
  std::optional<uint64_t> time;
  uint64_t skip = 0;  // rows of that time, or of all
  bool inclusive = false;
};
// InvalidArgument for a text that is none of those above.
absl::StatusOr<mcp::Cursor> ParseCursor(const std::string& text);

}  // namespace ttq::mcp

#endif  // TTQ_MCP_ASK_H_
