// SPDX-License-Identifier: MIT
//
// Rows of an answer in the shell: `$3` in a question, one row in full, where a frame is.
// Thread-safe.

#ifndef TTQ_CLI_ROW_TEXT_H_
#define TTQ_CLI_ROW_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/answer.h"
#include "query/value.h"

namespace ttq {

// `text` with the value for each `$N.COLUMN` (`$N.COLUMN.FIELD`), and for each `$N` the time of row
// N, or the address that it is about; rows count from 1. What stands in quotes stays.
// InvalidArgument for a row or a column that is not there, or has no value.
absl::StatusOr<std::string> ReplaceRows(std::string_view text, const std::vector<Column>& columns,
                                        const std::vector<Row>& rows);
// N of a text that is nothing but `$N`.
std::optional<size_t> OnlyRow(std::string_view text);
// All of a row, a name and a value per line, for the terminal or what stdout is.
std::string RowText(const std::vector<Column>& columns, const Row& row);

// The line of frame `number` of the answer to `backtrace` or `py backtrace`; "" when it has none.
std::string FrameText(const Answered& stack, uint64_t number);
// The line of the answer to `source`, with its number.
std::string SourceText(const Answered& source);

}  // namespace ttq

#endif  // TTQ_CLI_ROW_TEXT_H_
