// SPDX-License-Identifier: MIT
//
// One plan per source of the language; see query/rows/source_plan.h. Each is defined in the file of
// its family in this folder.

#ifndef TTQ_QUERY_SOURCES_PLANS_H_
#define TTQ_QUERY_SOURCES_PLANS_H_

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/language/ast.h"
#include "query/rows/run_options.h"
#include "query/rows/source_plan.h"

namespace ttq {

#define TTQ_PLAN(Source)                                                              \
  absl::StatusOr<SourcePlan> Plan(const ast::Source& source, const ast::Query& query, \
                                  const Context& context, const RunOptions& options,  \
                                  const TimeOfQuery& ask);

TTQ_SOURCES(TTQ_PLAN)

#undef TTQ_PLAN

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_PLANS_H_
