// SPDX-License-Identifier: MIT
//
// Conditions and computed columns: an expression of the syntax tree, bound to the columns of a row.
//
// Logic has three values, as in SQL: a comparison with null is null, and a condition passes only
// when it is true. Whole numbers are 64-bit, signed or unsigned as their value needs; what does not
// fit wraps. A computation with a real is one of doubles. A division by zero gives null. Patterns
// run in linear time whatever their text (RE2).

#ifndef TTQ_QUERY_ENGINE_EXPRESSION_H_
#define TTQ_QUERY_ENGINE_EXPRESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/ctypes/name_scope.h"
#include "query/language/ast.h"
#include "query/process/row_moment.h"
#include "query/value.h"

namespace ttq {

class RowMoment;

// What a row holds while a plan is made: where the value of a column will be.
class Columns {
 public:
  virtual ~Columns() = default;
  // The state of the process, shared by all that looks at it for a row; null: none is shared.
  virtual std::shared_ptr<RowMoment> moment() { return nullptr; }
  struct Found {
    size_t slot;
    Column column;
  };
  // The slot of a visible column; sees to it that it is filled. Nullopt: no such column.
  virtual std::optional<Found> Find(std::string_view name) = 0;
  // Columns that can be found, for error texts.
  virtual std::vector<std::string> Names() const = 0;
  // The code that the rows are in, for names that are no columns. Must outlive what is bound.
  virtual const NameScope& scope() const;
  // Where a row says which of the functions inlined at its pc it is of, as StackOptions::inlined
  // does; nullopt: the innermost.
  virtual std::optional<size_t> inlined_slot() const { return std::nullopt; }
};

struct BoundExpression {
  std::function<absl::StatusOr<Value>(const Row&)> value;
  Column column;  // of this
};

// `context` must outlive the result. An error at the place of the mistake when a name is no column,
// kinds do not go together, a pattern is not understood or a form is not available.
absl::StatusOr<BoundExpression> Bind(const ast::Expr& expr, Columns& columns,
                                     const Context* context);
// The same for a condition, which must be true or false.
absl::StatusOr<BoundExpression> BindCondition(const ast::Expr& expr, Columns& columns,
                                              const Context* context);
// Null and 0 are not.
bool IsTrue(const Value& value);

// Calls `use` with every Name in the expression.
void ForEachName(const ast::Expr& expr, const std::function<void(const std::string&)>& use);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_EXPRESSION_H_
