// SPDX-License-Identifier: MIT
//
// The steps of a pipeline. Each pulls rows from the one below it, one at a time; only sorting,
// counting, `distinct` and taking the last rows keep rows, and no more of them than they must.

#ifndef TTQ_QUERY_ENGINE_OPERATORS_H_
#define TTQ_QUERY_ENGINE_OPERATORS_H_

#include <optional>
#include <vector>

#include "query/engine/expression.h"
#include "query/rows/operator.h"

namespace ttq {

struct BoundSortKey {
  BoundExpression expression;
  bool descending = false;
};

// Rows for which the condition is true.
OperatorPtr MakeFilter(OperatorPtr input, BoundExpression condition);
// The first `count` rows; never asks for more.
OperatorPtr MakeFirst(OperatorPtr input, uint64_t count);
// The last `count` rows, in their order. Keeps `count` rows.
OperatorPtr MakeLast(OperatorPtr input, uint64_t count);
// All rows, last to first. Keeps them all.
OperatorPtr MakeReverse(OperatorPtr input);
// Stable. With a limit only that many rows come out, and about twice as many are kept.
OperatorPtr MakeSort(OperatorPtr input, std::vector<BoundSortKey> keys,
                     std::optional<uint64_t> limit);
// One row per distinct combination of `by`, then the number of its rows; most frequent first, then
// by the combination. With an empty `by` one row, even for no input.
OperatorPtr MakeCount(OperatorPtr input, std::vector<BoundExpression> by);
// Rows of `columns`.
OperatorPtr MakeProject(OperatorPtr input, std::vector<BoundExpression> columns);
// Rows that did not occur before, in order of first occurrence. Keeps every distinct row.
OperatorPtr MakeDistinct(OperatorPtr input);
OperatorPtr MakeExtend(OperatorPtr input, Extend extend);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_OPERATORS_H_
