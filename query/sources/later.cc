// SPDX-License-Identifier: MIT
//
// Sources that parse and that this version does not answer, with what to use instead.

#include "absl/strings/str_cat.h"
#include "query/sources/plans.h"

namespace ttq {

namespace {

// What this version offers somebody who asks for a later one's source.
absl::Status NotYet(const ast::Query& query, const char* instead) {
  return ErrorAt(
      query.source_range,
      absl::StrCat("`", ast::SourceName(query.source), "` is not yet available in this version"),
      absl::StrCat("use ", instead, " instead"));
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Crash&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`events signal | last 1`");
}

absl::StatusOr<SourcePlan> Plan(const ast::PyCalls&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`executions of _PyEval_EvalFrameDefault`");
}

absl::StatusOr<SourcePlan> Plan(const ast::PyChanges&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`writes to ADDR`");
}

absl::StatusOr<SourcePlan> Plan(const ast::Creation&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`first write to ADDR`");
}

absl::StatusOr<SourcePlan> Plan(const ast::Deallocation&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`last write to ADDR`");
}

absl::StatusOr<SourcePlan> Plan(const ast::Lifetime&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`writes to ADDR`");
}

absl::StatusOr<SourcePlan> Plan(const ast::Refcounts&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`writes to ADDR` (the reference count is an object's first word)");
}

absl::StatusOr<SourcePlan> Plan(const ast::Why&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`writes to ADDR`");
}

absl::StatusOr<SourcePlan> Plan(const ast::Origin&, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return NotYet(query, "`last write to LOCATION`");
}

}  // namespace ttq
