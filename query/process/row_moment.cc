// SPDX-License-Identifier: MIT

#include "query/process/row_moment.h"

#include "base/status_macros.h"

namespace ttq {

absl::StatusOr<Moment*> RowMoment::At(Time t) {
  if (!moment_) {
    ASSIGN_OR_RETURN(moment_, names_.process().At(t));
  } else if (absl::Status s = moment_->MoveTo(t); !s.ok()) {
    return s;
  }
  return moment_.get();
}

void RowMoment::AddNote(std::string_view sentence) {
  if (outcome_) outcome_->AddNote(sentence);
}

void RowMoment::MarkIncomplete(std::string_view reason) {
  if (outcome_) outcome_->MarkIncomplete(reason);
}

absl::StatusOr<std::optional<Stack>> StackOfRow(RowMoment& moment, const Row& row, size_t time_slot,
                                                std::optional<size_t> thread_slot, Outcome* outcome,
                                                std::optional<size_t> inlined_slot) {
  const Time* time = row[time_slot].get<Time>();
  if (!time) return std::nullopt;
  std::optional<ThreadNo> thread;
  if (thread_slot) {
    if (const int64_t* n = row[*thread_slot].get<int64_t>()) {
      thread = ThreadNo(static_cast<uint32_t>(*n));
    }
  }
  absl::StatusOr<Moment*> then = moment.At(*time);
  if (absl::IsOutOfRange(then.status())) return std::nullopt;
  if (!then.ok()) return then.status();
  StackOptions options;
  if (inlined_slot) {
    if (const int64_t* n = row[*inlined_slot].get<int64_t>()) {
      options.inlined = static_cast<uint32_t>(*n);
    }
  }
  absl::StatusOr<Stack> stack = moment.unwinder().StackOf(**then, thread, options);
  if (absl::IsNotFound(stack.status())) return std::nullopt;
  if (!stack.ok()) return stack.status();
  Describe(*stack, outcome);
  return *std::move(stack);
}

}  // namespace ttq
