// SPDX-License-Identifier: MIT
//
// From a syntax tree to running operators. What the planner decides:
//
// - `last N` right after a source that can run backwards runs it backwards and stops after N;
//   `last write to …` is the same with N = 1. Conditions that follow the source directly come
//   before that limit: `last write to x where size == 8` is the last of the writes of 8 bytes.
// - bounds on `time` and `thread` in those conditions narrow what the store is asked for.
// - nobody looks at values: the store need not compute them.
// - names of code are looked up as late as possible, for rows that are still there.
// - `sort by … | first N` keeps only what can still be among the first N.

#ifndef TTQ_QUERY_ENGINE_PLANNER_H_
#define TTQ_QUERY_ENGINE_PLANNER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/engine/engine.h"
#include "query/engine/operators.h"
#include "query/language/ast.h"
#include "query/outcome.h"
#include "query/rows/source_plan.h"

namespace ttq {

// Why a query has no rows whose source had some.
inline constexpr char kNoRowPasses[] = "no row passes the conditions";

struct Plan {
  OperatorPtr root;
  std::vector<Column> columns;
  Presentation presentation;
  std::shared_ptr<Outcome> outcome;
  std::function<std::string()> explain_nothing;
  std::vector<std::string> steps;  // for --explain
};

// `context` must outlive the plan, as must options.control. With `explain` set, the plan has its
// steps and no root.
absl::StatusOr<Plan> MakePlan(const ast::Query& query, const Context& context,
                              const RunOptions& options, bool explain);

}  // namespace ttq

#endif  // TTQ_QUERY_ENGINE_PLANNER_H_
