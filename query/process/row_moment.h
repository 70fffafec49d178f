// SPDX-License-Identifier: MIT

#ifndef TTQ_QUERY_PROCESS_ROW_MOMENT_H_
#define TTQ_QUERY_PROCESS_ROW_MOMENT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "query/outcome.h"
#include "query/process/process_names.h"
#include "query/process/stack.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

// The state of the process at the time of one row after the other, and stacks then. All that looks
// at a row shares one: rows in the order of time are cheap.
class RowMoment {
 public:
  explicit RowMoment(const ProcessNames& names, std::shared_ptr<Outcome> outcome = nullptr)
      : names_(names), outcome_(std::move(outcome)), unwinder_(names) {}
  // Moves there. OutOfRange past the end.
  absl::StatusOr<Moment*> At(Time t);
  Unwinder& unwinder() { return unwinder_; }
  // To the answer, if there is one.
  void AddNote(std::string_view sentence);
  void MarkIncomplete(std::string_view reason);

 private:
  const ProcessNames& names_;
  std::shared_ptr<Outcome> outcome_;
  Unwinder unwinder_;
  std::unique_ptr<Moment> moment_;
};

// The stack of a row's thread (without a slot or a thread there: of the running one) at its time,
// to which the moment moves. nullopt when there is none. `inlined_slot`: of StackOptions::inlined.
absl::StatusOr<std::optional<Stack>> StackOfRow(RowMoment& moment, const Row& row, size_t time_slot,
                                                std::optional<size_t> thread_slot, Outcome* outcome,
                                                std::optional<size_t> inlined_slot = std::nullopt);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_ROW_MOMENT_H_
