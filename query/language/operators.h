// SPDX-License-Identifier: MIT
//
// The results of operators, shared by C expressions, conditions and Python expressions.

#ifndef TTQ_QUERY_LANGUAGE_OPERATORS_H_
#define TTQ_QUERY_LANGUAGE_OPERATORS_H_

#include <optional>

#include "query/language/ast.h"

namespace ttq {

// Whether the comparison holds; nothing for another operator.
template <class T>
std::optional<bool> Compared(ast::BinaryOp op, T x, T y) {
  switch (op) {
    case ast::BinaryOp::kLess:
      return x < y;
    case ast::BinaryOp::kLessEqual:
      return x <= y;
    case ast::BinaryOp::kGreater:
      return x > y;
    case ast::BinaryOp::kGreaterEqual:
      return x >= y;
    case ast::BinaryOp::kEqual:
      return x == y;
    case ast::BinaryOp::kNotEqual:
      return x != y;
    default:
      return std::nullopt;
  }
}

// The result of an operator of reals, in their own precision; nothing for another one. A division
// by zero gives what the processor does.
template <class T>
std::optional<T> Computed(ast::BinaryOp op, T x, T y) {
  switch (op) {
    case ast::BinaryOp::kAdd:
      return x + y;
    case ast::BinaryOp::kSub:
      return x - y;
    case ast::BinaryOp::kMul:
      return x * y;
    case ast::BinaryOp::kDiv:
      return x / y;
    default:
      return std::nullopt;
  }
}

}  // namespace ttq

#endif  // TTQ_QUERY_LANGUAGE_OPERATORS_H_
