// SPDX-License-Identifier: MIT
//
// Arithmetic with the numbers of rows: integers of 64 bits, signed or not, and reals.

#ifndef TTQ_QUERY_ENGINE_ARITHMETIC_H_
#define TTQ_QUERY_ENGINE_ARITHMETIC_H_

#include <optional>

#include "query/language/ast.h"
#include "query/value.h"

namespace ttq {

using Wide = __int128;

// The integer that a value is; nothing: it is none.
std::optional<Wide> Number(const Value& v);

// Wraps to 64 bits: signed when negative, unsigned otherwise.
Value FromNumber(Wide n);

// Whether an operator has no meaning for reals.
bool IsOfWhole(ast::BinaryOp op);

// `op` is none of comparison or logic. Null: there is no result, as of a division by zero.
Value Compute(ast::BinaryOp op, const Value& x, const Value& y);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_ARITHMETIC_H_
