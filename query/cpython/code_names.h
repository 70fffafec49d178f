// SPDX-License-Identifier: MIT
//
// Python functions by what a query calls them: a name, a qualified name or its end, a pattern, or a
// line of a file.

#ifndef TTQ_QUERY_CPYTHON_CODE_NAMES_H_
#define TTQ_QUERY_CPYTHON_CODE_NAMES_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/frame_history.h"
#include "query/language/ast.h"

namespace ttq::python {

// Sorted, not empty. `NAME` is a function's name, its qualified name, or the end of that after a
// dot; a module pattern is of its file's name, with or without `.py`. FILE:LINE is the innermost
// function that has code on that line, or all that have.
enum class OnLine { kInnermost, kAll };
absl::StatusOr<std::vector<uint32_t>> FindCodes(
    const FrameHistory& history, const std::variant<ast::FunctionPattern, ast::FileLine>& what,
    OnLine which = OnLine::kInnermost);

// The codes that a pattern names, of a history that may still be made.
class CodeFinder {
 public:
  // These, whatever is made yet.
  CodeFinder(std::shared_ptr<const FrameHistory> history, std::vector<uint32_t> codes)
      : history_(std::move(history)), found_(std::move(codes)) {}
  // `variable`: only those that have a variable of this name; "": all.
  CodeFinder(std::shared_ptr<const FrameHistory> history, ast::FunctionPattern function,
             std::string variable)
      : history_(std::move(history)),
        function_(std::move(function)),
        variable_(std::move(variable)) {}

  const FrameHistory& history() const { return *history_; }
  // Of the codes there are by now; sorted.
  const std::vector<uint32_t>& Find();
  // Waits until there is one. Empty when there is none in all of the history.
  absl::StatusOr<std::vector<uint32_t>> FindFirst(ScanControl* control);

 private:
  std::shared_ptr<const FrameHistory> history_;
  std::optional<ast::FunctionPattern> function_;
  std::string variable_;
  uint32_t seen_ = 0;  // codes looked at
  std::vector<uint32_t> found_;
};

// Whether a variable of the function has this name.
bool HasVariable(const Code& code, std::string_view name);
// The functions that have a variable of this name. May be empty.
std::vector<uint32_t> CodesWithVariable(const FrameHistory& history, std::string_view name);

// `path` ends with `file`, at a directory's boundary.
bool IsFile(std::string_view path, std::string_view file);

// How many of a code's variables are its arguments, *args and **kwargs included.
size_t ArgumentCount(const Code& code);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_CODE_NAMES_H_
