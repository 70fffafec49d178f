// SPDX-License-Identifier: MIT
//
// Answers as text. Every format streams: a row is written when it comes (a table looks at its first
// rows to choose widths). Nothing here looks for a terminal; the caller says whether there is one.
//
// How values are written:
//
//                 JSON, CSV                               table
//   time, integer 123                                     123
//   real          2.5, 2.0, 1e+16: see RealText           the same
//                 (JSON: "nan", "inf", "-inf")
//   address       "0x401136"                              0x401136
//   value         "0x2a" up to 8 bytes (the little-       the same; long ones are cut
//                 endian number, without leading zeros),
//                 "hex:0011…" for more (in memory order)
//   bytes         "0011…", two digits per byte            hex digits and text
//   string        the text; bytes that are not UTF-8      what is not printable as \x1b, \u202e
//                 become U+FFFD
//   list          JSON                                    the same; of objects whose last field is
//                                                         `text`, these
//   missing       null (CSV: empty)                       -

#ifndef TTQ_QUERY_ANSWERS_FORMAT_H_
#define TTQ_QUERY_ANSWERS_FORMAT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "query/engine/engine.h"
#include "query/value.h"

namespace ttq {

enum class Format { kTable, kJson, kJsonLines, kCsv };
// "table", "json", "jsonl", "csv".
std::optional<Format> FormatFromName(std::string_view name);

struct FormatOptions {
  Format format = Format::kTable;
  bool colour = false;
  // A terminal shows it: csv escapes what a terminal would interpret, as tables always do (json
  // always escapes it, as JSON does). Elsewhere csv is exact.
  bool terminal = false;
  // Columns of that terminal, which no line of a table exceeds: cells are cut, then columns left
  // out, a single row becomes a name and a value per line. 0: lines are as long as they need to be.
  size_t width = 0;
  // Lines of a table begin with the row's number: `$3`.
  bool numbered = false;
  // csv: texts that a spreadsheet would take for formulas begin with an apostrophe.
  bool csv_safe = false;
  // Rows to write at most (lines, of a hex dump); what is left out is announced.
  std::optional<uint64_t> limit;
  // Called with each row that is written. May be null.
  std::function<void(const Row&)> on_row;
};

// What a JSON document says beside the answer.
struct AnswerContext {
  std::string trace;
  uint32_t process = 0;
  std::string query;
  // When the work on this query began, for `elapsed_ms`.
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

struct AnswerSummary {
  uint64_t rows = 0;  // written
  bool truncated = false;
  bool interrupted = false;
  // Said in the text already by table and json; jsonl and csv have no place for these.
  std::string remarks;
};

// Takes pieces of text, in order.
using Sink = std::function<void(std::string_view)>;

// Pulls the stream to its end, or to the limit, and writes it. An error of the stream is returned
// after what came before it was written; a JSON document is closed all the same, with `complete`
// false.
absl::Status WriteAnswer(ResultStream& stream, const AnswerContext& context,
                         const FormatOptions& options, const Sink& sink, AnswerSummary* summary);

// `text` with U+FFFD for each byte that is not UTF-8.
std::string Utf8(std::string_view text);
// A value of a column of type `type` as JSON.
void AppendJson(const Value& value, Type type, std::string* out);
// `text` as a JSON string with its quotes.
void AppendJsonString(std::string_view text, std::string* out);
// A cell of a CSV row, in quotes where RFC 4180 needs them.
void AppendCsvCell(std::string_view text, std::string* out);
// A value as one cell of a table: one line, nothing a terminal would interpret.
std::string CellText(const Value& value, Type type);

}  // namespace ttq

#endif  // TTQ_QUERY_ANSWERS_FORMAT_H_
