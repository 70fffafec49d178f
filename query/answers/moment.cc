// SPDX-License-Identifier: MIT

#include "query/answers/moment.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/status_macros.h"
#include "query/language/parser.h"

namespace ttq {

absl::StatusOr<Time> MomentOf(const Engine& engine, const std::string& text, ScanControl* control) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return Time(number);
  ASSIGN_OR_RETURN(const ast::Query query, ParseQuery(kMomentQuestion + text));
  const RunOptions run{.control = control};
  ASSIGN_OR_RETURN(const std::unique_ptr<ResultStream> stream, engine.Run(query, run));
  const auto& columns = stream->columns();
  const auto time = std::find_if(columns.begin(), columns.end(),
                                 [](const Column& column) { return column.name == "time"; });
  Row row;
  ASSIGN_OR_RETURN(const bool any, stream->Next(&row));
  if (stream->interrupted()) return absl::CancelledError("interrupted");
  const Time* found = !any || time == columns.end()
                          ? nullptr
                          : row[static_cast<size_t>(time - columns.begin())].get<Time>();
  if (found == nullptr) return absl::NotFoundError("there is no such time");
  return *found;
}

}  // namespace ttq
