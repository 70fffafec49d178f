// SPDX-License-Identifier: MIT

#include "query/language/diagnostic.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "base/edit_distance.h"
#include "base/text.h"

namespace ttq {
namespace {

constexpr char kPayload[] = "ttq/diagnostic";
// Columns of a line that are shown around a place.
constexpr size_t kBefore = 60, kWidth = 96;

bool ReadNumber(std::string_view text, uint32_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

absl::Status DiagnosticError(Diagnostic diagnostic) {
  absl::Status status = absl::InvalidArgumentError(
      diagnostic.hint.empty() ? diagnostic.message
                              : Cat(diagnostic.message, "; did you mean ", diagnostic.hint, "?"));
  status.SetPayload(kPayload, absl::Cord(Cat(diagnostic.begin, "\n", diagnostic.end, "\n",
                                             diagnostic.message, "\n", diagnostic.hint)));
  return status;
}

std::optional<Diagnostic> GetDiagnostic(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const std::string bytes(*payload);
  const std::vector<std::string_view> parts = Split(bytes, "\n", 4);
  Diagnostic diagnostic;
  if (parts.size() != 4 || !ReadNumber(parts[0], &diagnostic.begin) ||
      !ReadNumber(parts[1], &diagnostic.end)) {
    return std::nullopt;
  }
  diagnostic.message = parts[2];
  diagnostic.hint = parts[3];
  return diagnostic;
}

std::string RenderDiagnostic(std::string_view text, const Diagnostic& diagnostic) {
  const size_t begin = std::min<size_t>(diagnostic.begin, text.size());
  const size_t newline = begin == 0 ? std::string_view::npos : text.rfind('\n', begin - 1);
  const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
  const size_t line_end = std::min(text.find('\n', begin), text.size());
  const size_t end = std::clamp<size_t>(diagnostic.end, begin, line_end);

  // The line as cells, one per character; a tab stays one so that both lines indent alike.
  std::vector<std::string_view> cells;
  size_t caret = 0, caret_end = 0;
  for (size_t i = line_begin; i < line_end;) {
    if (i <= begin) caret = cells.size();
    char32_t code;
    const size_t length = DecodeUtf8(text, i, &code);
    const size_t step = std::max<size_t>(length, 1);
    if (text[i] == '\r' && i + 1 == line_end) break;
    cells.push_back(text[i] == '\t'                     ? "\t"
                    : length == 0 || !IsPrintable(code) ? "?"
                                                        : text.substr(i, length));
    i += step;
    if (i <= begin) caret = cells.size();
    if (i <= end) caret_end = cells.size();
  }
  caret_end = std::max(caret_end, caret + 1);

  size_t shown_begin = 0, shown_end = cells.size();
  if (cells.size() > kWidth) {
    shown_begin = caret > kBefore ? caret - kBefore : 0;
    shown_end = std::min(cells.size(), shown_begin + kWidth);
    caret_end = std::min(caret_end, std::max(shown_end, caret + 1));
  }
  std::string line = "  ", marks = "  ";
  if (shown_begin > 0) {
    line += "…";
    marks += " ";
  }
  for (size_t i = shown_begin; i < shown_end; ++i) {
    line += cells[i];
    if (i < caret) marks += cells[i] == "\t" ? "\t" : " ";
  }
  if (shown_end < cells.size()) line += "…";
  marks += "^";
  marks.append(caret_end - caret - 1, '~');

  std::string result = Cat("ttq: ", Printable(diagnostic.message), "\n");
  if (!cells.empty()) result += Cat(line, "\n", marks, "\n");
  if (!diagnostic.hint.empty()) result += Cat("did you mean ", Printable(diagnostic.hint), "?\n");
  return result;
}

std::string NearestWord(std::string_view word, std::string_view candidates) {
  // Longer than any candidate can be and still be near; bounds the work too.
  if (word.size() > 64) return "";
  const std::string lower = Lower(word);
  std::string_view best;
  // One edit for short words, two from five letters on, three from nine.
  size_t best_distance = lower.size() < 5 ? 2 : lower.size() < 9 ? 3 : 4;
  for (std::string_view candidate : Split(candidates, " ")) {
    const std::string folded = Lower(candidate);
    const size_t distance = EditDistance(lower, folded, best_distance);
    if (distance == 0) return "";
    // A word of which nothing is left is not a misspelling.
    if (distance < best_distance && distance < folded.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

absl::Status ErrorAt(ast::Range range, std::string message, std::string_view advice) {
  if (!advice.empty()) message.append("; ").append(advice);
  // Names come from queries and from modules: a message stays one printable line whatever they are.
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return DiagnosticError({.message = std::move(message), .begin = range.begin, .end = range.end});
}

absl::Status UnknownAt(ast::Range range, std::string message,
                       const std::vector<std::string>& suggestions) {
  if (suggestions.empty()) return ErrorAt(range, std::move(message));
  std::string hint;
  for (size_t i = 0; i < suggestions.size(); ++i) {
    if (i > 0) hint += i + 1 == suggestions.size() ? " or " : ", ";
    hint += suggestions[i];
  }
  for (std::string* text : {&message, &hint}) {
    for (char& c : *text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
  }
  return DiagnosticError({.message = std::move(message),
                          .begin = range.begin,
                          .end = range.end,
                          .hint = std::move(hint)});
}

std::vector<std::string> Nearest(std::string_view name,
                                 const std::vector<std::string>& candidates) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const size_t limit = std::max<size_t>(1, std::min(name.size(), candidate.size()) / 3);
    const size_t distance = EditDistance(name, candidate, limit);
    if (distance <= limit) {
      near.emplace_back(distance, candidate);
    }
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size() && i < 3; ++i) names.push_back(near[i].second);
  return names;
}

}  // namespace ttq
