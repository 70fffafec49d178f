// SPDX-License-Identifier: MIT
//
// Answering one question on stdout, as `ttq query` and `ttq shell` do: progress, interruption, the
// pager, and what one may want to ask next.

#ifndef TTQ_CLI_ANSWER_H_
#define TTQ_CLI_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/language/ast.h"
#include "query/value.h"

namespace ttq {

// Rows that a terminal shows when nobody says how many.
inline constexpr uint64_t kTerminalLimit = 50;

// How an answer is written: what `format` names ("": a table) and, on a terminal, its width, its
// colours and a limit, unless `limit` is given (0: all).
FormatOptions FormatFor(const std::string& format, std::optional<uint64_t> limit, bool wide);

struct AnswerOptions {
  FormatOptions format;
  bool explain = false, full_scan = false, pager = true;
  // Every Ctrl-C cancels the question, not only the first.
  bool survive_interrupts = false;
  // Remember this many rows for `rows` below.
  uint64_t keep_rows = 0;
};

struct Answered {
  int exit_status = 0;  // kAnswered also when there are no rows
  uint64_t row_count = 0;
  std::vector<Column> columns;
  std::vector<Row> rows;         // the first of them
  bool history_unknown = false;  // of the process
};

// `query` was read from `text`, which errors and the JSON document quote. What goes wrong is said
// on stderr.
Answered AnswerQuery(const Recording& recording, const Engine& engine, std::string_view text,
                     const ast::Query& query, const AnswerOptions& options);

// At most two questions that one may want to ask after this answer; each is a query that has a
// meaning for the same process.
std::vector<std::string> NextQuestions(const ast::Query& query, const Answered& answered);

}  // namespace ttq

#endif  // TTQ_CLI_ANSWER_H_
