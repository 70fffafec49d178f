// SPDX-License-Identifier: MIT
//
// Python expressions on a frame's variables, without running Python: names, attributes, subscripts,
// literals, arithmetic, comparisons, len() and type(). Properties and __getattr__ do not run; what
// they would compute is not found.

#ifndef TTQ_QUERY_CPYTHON_EVALUATE_H_
#define TTQ_QUERY_CPYTHON_EVALUATE_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "query/cpython/frames.h"
#include "query/language/ast.h"

namespace ttq::python {

// An object of the process, or a value that the expression made.
struct PyValue {
  uint64_t object = 0;
  // Only when `object` is 0: None, bool, int, float, str.
  std::variant<std::monostate, bool, int64_t, double, std::string> made;
  std::string scope;  // of a name: "local", "global", "builtin"
};

// `frame` null: only addresses and literals. Errors carry their place in the query.
absl::StatusOr<PyValue> Evaluate(const ast::Expr& expr, FrameReader& frames, const Frame* frame);

// As Python prints it.
std::string ReprOf(const PyValue& value, ObjectReader& objects, const ReprLimits& limits = {});
std::string TypeNameOf(const PyValue& value, ObjectReader& objects);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_EVALUATE_H_
