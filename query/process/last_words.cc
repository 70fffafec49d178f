// SPDX-License-Identifier: MIT

#include "query/process/last_words.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "re2/re2.h"

namespace ttq {
namespace {

constexpr size_t kMessageBytes = 400;
// How long before the end what a program wrote still counts as its last words.
constexpr uint64_t kMessageInstructions = 5'000'000;

// What was written to stderr from `begin` on, however small the pieces; of much the end.
absl::StatusOr<std::string> WrittenBetween(const Process& process, Time begin, Time end) {
  constexpr size_t kMaxBytes = 1 << 16;
  EventQuery query;
  query.span = {begin, end + 1};
  query.kind = EventKind::kOutput;
  query.direction = Direction::kBackward;
  ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Event>> cursor, process.Events(query));
  std::vector<std::string> pieces;  // the last first
  for (size_t bytes = 0; bytes < kMaxBytes;) {
    ASSIGN_OR_RETURN(std::optional<Event> event, cursor->Next());
    if (!event) break;
    if (event->number != 2) continue;
    bytes += event->bytes.size();
    pieces.push_back(std::move(event->bytes));
  }
  std::reverse(pieces.begin(), pieces.end());
  return absl::StrJoin(pieces, "");
}

// The last line that matches, a part of `text`; empty: none does.
re2::StringPiece LastLine(const std::string& text, const RE2& pattern) {
  re2::StringPiece rest(text), one, found;
  while (RE2::FindAndConsume(&rest, pattern, &one)) found = one;
  return found;
}

}  // namespace

absl::StatusOr<LastWords> FindLastWords(const Process& process, Time end) {
  // Behind these lines come stacks, which the recording has anyway.
  static const RE2 *const kFatal = new RE2("(?m)^(Fatal Python error: .*)$"),
                          *const kReport =
                              new RE2("(?m)^((?:==\\d+==)?(?:ERROR|WARNING): \\w+Sanitizer: .*)$"),
                          *const kSummary = new RE2("(?m)^SUMMARY: (\\w+Sanitizer: .*)$");
  const Time shortly = end.v < kMessageInstructions ? Time(0) : end - kMessageInstructions;
  ASSIGN_OR_RETURN(std::string text, WrittenBetween(process, shortly, end));
  LastWords words;
  re2::StringPiece from = LastLine(text, *kFatal);
  words.reason = std::string(from);
  if (from.empty()) {
    words.reason = std::string(LastLine(text, *kSummary));
    if (!words.reason.empty()) {  // names for the report's addresses take a sanitizer long
      ASSIGN_OR_RETURN(text, WrittenBetween(process, Time(0), end));
      from = LastLine(text, *kReport);
    }
  }
  const size_t begin = from.empty() ? text.size() - std::min(text.size(), kMessageBytes)
                                    : static_cast<size_t>(from.data() - text.data());
  words.message = text.substr(begin, kMessageBytes);
  if (begin > 0 && words.reason.empty()) words.message.insert(0, "…");
  const bool cut = begin + kMessageBytes < text.size();
  while (!words.message.empty() && words.message.back() == '\n') words.message.pop_back();
  if (cut) words.message += "…";
  return words;
}

}  // namespace ttq
