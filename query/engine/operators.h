// SPDX-License-Identifier: MIT
//
// The steps of a running query. Each pulls rows from the one below it, one at a time; only sorting,
// counting, `distinct` and taking the last rows keep rows, and no more of them than they must.
//
// An operator belongs to one thread. Once Next has given false or an error it must not be called
// again.

#ifndef TTQ_QUERY_ENGINE_OPERATORS_H_
#define TTQ_QUERY_ENGINE_OPERATORS_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "query/engine/expression.h"
#include "query/value.h"

namespace ttq {

class Operator {
 public:
  virtual ~Operator() = default;
  // Puts the next row into `row`; false at the end.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;
};
using OperatorPtr = std::unique_ptr<Operator>;

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
// Appends values to each row.
using Extend = std::function<absl::Status(Row*)>;
OperatorPtr MakeExtend(OperatorPtr input, Extend extend);
// Rows that exist already.
OperatorPtr MakeRows(std::vector<Row> rows);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_OPERATORS_H_
