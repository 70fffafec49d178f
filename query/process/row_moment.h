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

// The process's state and stacks at the time of a row. The operators that look at a row share one
// object, which moves from row to row: rows in time order are cheap. Belongs to one thread.
class RowMoment {
 public:
  explicit RowMoment(const ProcessNames& names, std::shared_ptr<Outcome> outcome = nullptr)
      : names_(names), outcome_(std::move(outcome)), unwinder_(names) {}
  // Moves to t and returns the moment, which this object owns. OutOfRange past the recording's end.
  absl::StatusOr<Moment*> At(Time t);
  Unwinder& unwinder() { return unwinder_; }
  // Forwarded to the outcome, if there is one.
  void AddNote(std::string_view sentence);
  void MarkIncomplete(std::string_view reason);

 private:
  const ProcessNames& names_;
  std::shared_ptr<Outcome> outcome_;
  Unwinder unwinder_;
  std::unique_ptr<Moment> moment_;
};

// Moves to the row's time and returns its thread's stack (without a thread slot or a value in it:
// the running thread's). nullopt: the row has no time, or the thread does not live then. Adds the
// stack's reservations to `outcome`. `inlined_slot`: where the row has StackOptions::inlined.
absl::StatusOr<std::optional<Stack>> StackOfRow(RowMoment& moment, const Row& row, size_t time_slot,
                                                std::optional<size_t> thread_slot, Outcome* outcome,
                                                std::optional<size_t> inlined_slot = std::nullopt);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_ROW_MOMENT_H_
