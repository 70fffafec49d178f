// SPDX-License-Identifier: MIT
//
// Where rows come from: one plan per source of the language. A plan knows the columns it gives and
// how it could be run; the planner decides how it is, once it has seen the whole pipeline.

#ifndef TTQ_QUERY_ROWS_SOURCE_PLAN_H_
#define TTQ_QUERY_ROWS_SOURCE_PLAN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/ctypes/name_scope.h"
#include "query/language/ast.h"
#include "query/outcome.h"
#include "query/process/row_moment.h"
#include "query/rows/operator.h"
#include "query/rows/run_options.h"
#include "query/value.h"

namespace ttq {

// The time of the first row of a query, for `(QUERY)` as a time. A row of `calls to` also says
// which of the functions inlined there it is of, as StackOptions::inlined does.
struct QueryTime {
  Time time;
  std::optional<uint32_t> inlined;
};
using TimeOfQuery = std::function<absl::StatusOr<QueryTime>(const ast::Query&)>;

// Columns that are computed only for rows that get so far: from time and pc, from time and thread
// (kPython), or by the source (kComputed).
enum class Derived { kNone, kLocation, kInstruction, kPython, kComputed };

// A value from a row as the source gave it and the state of the process at its time.
using ComputeColumn = std::function<absl::StatusOr<Value>(RowMoment& moment, const Row& row)>;

struct SourceColumn {
  Column column;
  size_t slot = 0;  // of the row the source gives; only for Derived::kNone
  Derived derived = Derived::kNone;
  ComputeColumn compute;  // for Derived::kComputed
  // Can be asked for by name and is not among the columns of the answer.
  bool hidden = false;
};

// What the planner asks of a source.
struct SourceRequest {
  Direction direction = Direction::kForward;
  bool want_values = true;              // somebody looks at `value` or `previous`
  bool want_python = true;              // somebody looks at `python`
  bool want_returns = true;             // somebody looks at `result` or `return_time`
  TimeSpan span;                        // rows outside need not come
  std::optional<ThreadNo> thread;       // rows of other threads need not come
  std::shared_ptr<Outcome> outcome;     // never null
  const RunOptions* options = nullptr;  // never null; only valid during the call
};

struct SourcePlan {
  std::vector<SourceColumn> columns;
  size_t width = 0;      // slots of a row as the source gives it
  size_t time_slot = 0;  // where columns are derived
  size_t pc_slot = 0;
  size_t thread_slot = 1;
  bool reversible = false;  // can give its rows last to first
  // `last …`, `first …`: one row, from this end, that passes the conditions which follow directly.
  std::optional<Direction> take_one;
  Presentation presentation;
  std::vector<std::string> notes;
  // Where the rows are, for names that are no columns; and, of rows in functions inlined into one
  // another, the slot that says which a row is of, as StackOptions::inlined does.
  NameScope scope;
  std::optional<size_t> inlined_slot;
  // Names that stand for fields of the column `args` where no column has them.
  std::vector<std::string> fields_of_args;

  std::function<absl::StatusOr<OperatorPtr>(const SourceRequest&)> open;
  // One line for people.
  std::function<absl::StatusOr<std::string>(const SourceRequest&)> explain;
  // Explains an answer without rows, for people; may be null.
  std::function<std::string()> explain_nothing;
};

}  // namespace ttq

#endif  // TTQ_QUERY_ROWS_SOURCE_PLAN_H_
