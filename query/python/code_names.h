// SPDX-License-Identifier: MIT
//
// Python functions by what a query calls them: a name, a qualified name or its end, a pattern, or a
// line of a file.

#ifndef TTQ_QUERY_PYTHON_CODE_NAMES_H_
#define TTQ_QUERY_PYTHON_CODE_NAMES_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "query/ast.h"
#include "query/python/frame_history.h"

namespace ttq::python {

// Sorted, not empty. `NAME` is a function's name, its qualified name, or the end of that after a
// dot; a module pattern is of its file's name, with or without `.py`. FILE:LINE is the innermost
// function that has code on that line, or all that have.
enum class OnLine { kInnermost, kAll };
absl::StatusOr<std::vector<uint32_t>> FindCodes(
    const FrameHistory& history, const std::variant<ast::FunctionPattern, ast::FileLine>& what,
    OnLine which = OnLine::kInnermost);

// The functions that have a variable of this name. May be empty.
std::vector<uint32_t> CodesWithVariable(const FrameHistory& history, std::string_view name);

// `path` ends with `file`, at a directory's boundary.
bool IsFile(std::string_view path, std::string_view file);

// How many of a code's variables are its arguments, *args and **kwargs included.
size_t ArgumentCount(const Code& code);

}  // namespace ttq::python

#endif  // TTQ_QUERY_PYTHON_CODE_NAMES_H_
