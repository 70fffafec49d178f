// SPDX-License-Identifier: MIT
//
// Expressions of the language as trees.

#ifndef TTQ_QUERY_LANGUAGE_AST_WALK_H_
#define TTQ_QUERY_LANGUAGE_AST_WALK_H_

#include <functional>

#include "query/language/ast.h"

namespace ttq::ast {

// A plan may outlive the query it was made from.
ExprPtr Clone(const Expr& expr);
// Null for null.
ExprPtr Clone(const ExprPtr& expr);

// Calls `use` with each operand of the expression's outermost operator.
void ForEachOperand(const Expr& expr, const std::function<void(const Expr&)>& use);

}  // namespace ttq::ast

#endif  // TTQ_QUERY_LANGUAGE_AST_WALK_H_
