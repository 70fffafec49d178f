// SPDX-License-Identifier: MIT
//
// All sources of the language: the plan of whichever a query has.

#ifndef TTQ_QUERY_SOURCES_SOURCES_H_
#define TTQ_QUERY_SOURCES_SOURCES_H_

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/language/ast.h"
#include "query/rows/run_options.h"
#include "query/rows/source_plan.h"

namespace ttq {

// Whether the source is about one time, and so can be asked of a core dump or a snapshot.
bool IsAboutState(const ast::Source& source);

// `ask` answers nested queries. An error with its place for a source that cannot be answered.
absl::StatusOr<SourcePlan> PlanSource(const ast::Query& query, const Context& context,
                                      const RunOptions& options, const TimeOfQuery& ask);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_SOURCES_H_
