// SPDX-License-Identifier: MIT
//
// Arithmetic with the numbers of rows: integers of 64 bits, signed or not, and reals.

#ifndef TTQ_QUERY_ENGINE_ARITHMETIC_H_
#define TTQ_QUERY_ENGINE_ARITHMETIC_H_

#include <compare>
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

// Nothing when either is null, or when a number meets text. NaN is as in C: unequal to all, and
// neither less nor greater. Bytes are an unsigned little-endian number. What is shown as another
// value is that one, too: an enumerator is equal to its name and its number.
std::optional<std::partial_ordering> CompareOrNull(const Value& x, const Value& y);

// `op` is none of comparison or logic. Null: there is no result, as of a division by zero.
Value Compute(ast::BinaryOp op, const Value& x, const Value& y);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_ARITHMETIC_H_
