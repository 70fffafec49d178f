// SPDX-License-Identifier: MIT
//
// A step of a running query, which gives rows one at a time. Sources are the first ones; those of
// the pipeline (query/engine/operators.h) pull from the one below.
//
// An operator belongs to one thread. Once Next has given false or an error it must not be called
// again.

#ifndef TTQ_QUERY_ROWS_OPERATOR_H_
#define TTQ_QUERY_ROWS_OPERATOR_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "query/value.h"

namespace ttq {

class Operator {
 public:
  virtual ~Operator() = default;
  // Puts the next row into `row`; false at the end.
  virtual absl::StatusOr<bool> Next(Row* row) = 0;
};
using OperatorPtr = std::unique_ptr<Operator>;

// Adds values to each row.
using Extend = std::function<absl::Status(Row*)>;

// Rows that are known.
OperatorPtr MakeRows(std::vector<Row> rows);

}  // namespace ttq

#endif  // TTQ_QUERY_ROWS_OPERATOR_H_
