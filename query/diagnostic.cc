// SPDX-License-Identifier: MIT

#include "query/diagnostic.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "query/text.h"

namespace ttq {
namespace {

constexpr char kPayload[] = "ttq/diagnostic";
// Columns of a line that are shown around a place.
constexpr size_t kBefore = 60, kWidth = 96;

// Damerau-Levenshtein distance of adjacent transpositions (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

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
    const size_t distance = EditDistance(lower, folded);
    if (distance == 0) return "";
    // A word of which nothing is left is not a misspelling.
    if (distance < best_distance && distance < folded.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace ttq
