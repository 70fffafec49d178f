// SPDX-License-Identifier: MIT

#include "query/cpython/code_names.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/cpython/context.h"
#include "query/language/diagnostic.h"
#include "re2/re2.h"

namespace ttq::python {
namespace {

bool MatchesPattern(const ast::Pattern& pattern, const std::string& text) {
  switch (pattern.kind) {
    case ast::Pattern::Kind::kName:
      return text == pattern.text;
    case ast::Pattern::Kind::kGlob:
      return fnmatch(pattern.text.c_str(), text.c_str(), 0) == 0;
    case ast::Pattern::Kind::kRegex:
      return RE2::PartialMatch(text, pattern.text);
  }
  return false;
}

bool IsFunction(const ast::Pattern& pattern, const Code& code) {
  if (MatchesPattern(pattern, code.name) || MatchesPattern(pattern, code.qualname)) return true;
  return pattern.kind == ast::Pattern::Kind::kName &&
         std::string_view(code.qualname).ends_with("." + pattern.text);
}

bool IsModule(const ast::Pattern& pattern, const Code& code) {
  std::string name(BaseName(code.filename));
  if (MatchesPattern(pattern, name)) return true;
  if (std::string_view(name).ends_with(".py")) name.resize(name.size() - 3);
  return MatchesPattern(pattern, name);
}

bool Names(const ast::FunctionPattern& function, const Code& code) {
  return IsFunction(function.function, code) &&
         (!function.module || IsModule(*function.module, code));
}

bool HasLine(const Layout& layout, const Code& code, int line) {
  if (code.first_line == line) return true;
  const std::vector<LineRange> ranges = LineRanges(layout, code);
  return std::any_of(ranges.begin(), ranges.end(),
                     [line](const LineRange& range) { return range.line == line; });
}

}  // namespace

bool IsFile(std::string_view path, std::string_view file) {
  return path == file || (path.ends_with(file) && path[path.size() - file.size() - 1] == '/');
}

size_t ArgumentCount(const Code& code) {
  return static_cast<size_t>(std::max(0, code.argcount)) +
         static_cast<size_t>(std::max(0, code.kwonlyargcount)) +
         ((code.flags & kCodeVarArgs) != 0) + ((code.flags & kCodeVarKeywords) != 0);
}

absl::StatusOr<std::vector<uint32_t>> FindCodes(
    const FrameHistory& history, const std::variant<ast::FunctionPattern, ast::FileLine>& what,
    OnLine which) {
  std::vector<uint32_t> found;
  if (const auto* function = std::get_if<ast::FunctionPattern>(&what)) {
    std::vector<std::string> names;
    for (uint32_t id = 0; id < history.codes(); ++id) {
      const Code& code = history.code(id);
      names.push_back(code.name);
      if (Names(*function, code)) found.push_back(id);
    }
    if (!found.empty()) return found;
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return UnknownAt(function->range,
                     fmt::format("no Python function called {} ever ran", ast::ToString(*function)),
                     Nearest(function->function.text, names));
  }
  const auto& place = std::get<ast::FileLine>(what);
  int innermost = 0;
  bool file_seen = false;
  for (uint32_t id = 0; id < history.codes(); ++id) {
    const Code& code = history.code(id);
    if (!IsFile(code.filename, place.file)) continue;
    file_seen = true;
    const auto line = static_cast<int>(std::min<uint64_t>(place.line, 1 << 30));
    if (!HasLine(history.layout_of(id), code, line)) continue;
    if (which == OnLine::kInnermost) {
      if (code.first_line > innermost) found.clear();
      if (code.first_line < innermost) continue;
      innermost = code.first_line;
    }
    found.push_back(id);
  }
  if (!found.empty()) return found;
  return ErrorAt(place.range, file_seen
                                  ? fmt::format("no function of {} that ran has code on line {}",
                                                place.file, place.line)
                                  : fmt::format("no Python code of a file {} ran", place.file));
}

const std::vector<uint32_t>& CodeFinder::Find() {
  if (!function_) return found_;
  for (const size_t codes = history_->codes(); seen_ < codes; ++seen_) {
    const Code& code = history_->code(seen_);
    if (!Names(*function_, code)) continue;
    if (variable_.empty() || HasVariable(code, variable_)) found_.push_back(seen_);
  }
  return found_;
}

absl::StatusOr<std::vector<uint32_t>> CodeFinder::FindFirst(ScanControl* control) {
  for (size_t chunks = 0; chunks <= history_->chunks(); ++chunks) {
    RETURN_IF_ERROR(history_->Wait(chunks, control));
    if (!Find().empty()) break;
  }
  return found_;
}

bool HasVariable(const Code& code, std::string_view name) {
  return std::any_of(code.variables.begin(), code.variables.end(),
                     [&](const Code::Variable& v) { return v.name == name; });
}

std::vector<uint32_t> CodesWithVariable(const FrameHistory& history, std::string_view name) {
  std::vector<uint32_t> found;
  for (uint32_t id = 0; id < history.codes(); ++id) {
    if (HasVariable(history.code(id), name)) found.push_back(id);
  }
  return found;
}

}  // namespace ttq::python
