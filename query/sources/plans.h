// SPDX-License-Identifier: MIT
//
// One plan per source of the language; see query/sources.h. Each is defined in the file of its
// family in this folder.

#ifndef TTQ_QUERY_SOURCES_PLANS_H_
#define TTQ_QUERY_SOURCES_PLANS_H_

#include "absl/status/statusor.h"
#include "query/ast.h"
#include "query/context.h"
#include "query/engine.h"
#include "query/sources.h"

namespace ttq {

absl::StatusOr<SourcePlan> Plan(const ast::Accesses& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Memory& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::ShowRegisters& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Disassemble& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Threads& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Modules& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Maps& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Events& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Executions& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);

absl::StatusOr<SourcePlan> Plan(const ast::Print& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Backtrace& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::ShowSource& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Calls& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Crash& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PyBacktrace& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PyLocals& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PySource& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PyPrint& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PyCalls& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PyExecutions& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PyChanges& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::PyExceptions& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Creation& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Deallocation& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Lifetime& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Refcounts& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Object& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::ObjectsOfType& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Heap& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::HeapLeaks& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Why& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);
absl::StatusOr<SourcePlan> Plan(const ast::Origin& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_PLANS_H_
