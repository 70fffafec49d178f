// SPDX-License-Identifier: MIT
//
// One plan per source of the language; see query/engine/sources.h. Each is defined in the file of
// its family in this folder.

#ifndef TTQ_QUERY_SOURCES_PLANS_H_
#define TTQ_QUERY_SOURCES_PLANS_H_

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/engine/engine.h"
#include "query/engine/sources.h"
#include "query/language/ast.h"

namespace ttq {

#define TTQ_PLAN(Source)                                                              \
  absl::StatusOr<SourcePlan> Plan(const ast::Source& source, const ast::Query& query, \
                                  const Context& context, const RunOptions& options,  \
                                  const TimeOfQuery& ask)

TTQ_PLAN(Accesses);
TTQ_PLAN(Memory);
TTQ_PLAN(ShowRegisters);
TTQ_PLAN(Disassemble);
TTQ_PLAN(Threads);
TTQ_PLAN(Waits);
TTQ_PLAN(Modules);
TTQ_PLAN(Maps);
TTQ_PLAN(Events);
TTQ_PLAN(Executions);
TTQ_PLAN(Print);
TTQ_PLAN(Backtrace);
TTQ_PLAN(ShowSource);
TTQ_PLAN(Calls);
TTQ_PLAN(Crash);
TTQ_PLAN(PyBacktrace);
TTQ_PLAN(PyLocals);
TTQ_PLAN(PySource);
TTQ_PLAN(PyPrint);
TTQ_PLAN(PyCalls);
TTQ_PLAN(PyExecutions);
TTQ_PLAN(PyChanges);
TTQ_PLAN(PyExceptions);
TTQ_PLAN(Creation);
TTQ_PLAN(Deallocation);
TTQ_PLAN(Lifetime);
TTQ_PLAN(Refcounts);
TTQ_PLAN(Object);
TTQ_PLAN(ObjectsOfType);
TTQ_PLAN(Heap);
TTQ_PLAN(HeapLeaks);
TTQ_PLAN(Why);
TTQ_PLAN(Origin);
TTQ_PLAN(Trace);
TTQ_PLAN(PyTrace);

#undef TTQ_PLAN

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_PLANS_H_
