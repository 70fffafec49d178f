// SPDX-License-Identifier: MIT

#include "query/sources.h"

#include "query/sources/plans.h"

namespace ttq {

absl::StatusOr<SourcePlan> PlanSource(const ast::Query& query, const Context& context,
                                      const RunOptions& options, const Context::TimeOfQuery& ask) {
  return std::visit([&](const auto& source) { return Plan(source, query, context, options, ask); },
                    query.source);
}

}  // namespace ttq
