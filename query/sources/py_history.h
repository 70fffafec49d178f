// SPDX-License-Identifier: MIT
//
// What questions about Python's past have in common.

#ifndef TTQ_QUERY_SOURCES_PY_HISTORY_H_
#define TTQ_QUERY_SOURCES_PY_HISTORY_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "query/ast.h"
#include "query/context.h"
#include "query/engine.h"
#include "query/python/frame_history.h"

namespace ttq {

struct HistoryAsked {
  TimeSpan span;
  std::optional<ThreadNo> thread;
  std::shared_ptr<const python::FrameHistory> history;
};

// The span and the thread of a query and the history of frames it is about; kGrowing: which may
// still be made. An error at its place where there is no Python.
enum class HistoryWanted { kWhole, kGrowing };
absl::StatusOr<HistoryAsked> ResolveHistory(const ast::Query& query, const Context& context,
                                            const RunOptions& options,
                                            const Context::TimeOfQuery& ask,
                                            HistoryWanted wanted = HistoryWanted::kWhole);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_PY_HISTORY_H_
