// SPDX-License-Identifier: MIT
//
// A TIME of the language by itself, for front ends that go to a moment. Thread-safe.

#ifndef TTQ_QUERY_ANSWERS_MOMENT_H_
#define TTQ_QUERY_ANSWERS_MOMENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "query/engine/engine.h"
#include "store/read/reader.h"

namespace ttq {

// What stands before a time in the question whose place an error tells.
inline constexpr char kMomentQuestion[] = "registers at ";

// The time that `text` means: a number, start, end, crash, (QUERY), TIME + N. An error of the
// question is about kMomentQuestion + text; NotFound when nothing happened then; Cancelled.
absl::StatusOr<Time> MomentOf(const Engine& engine, const std::string& text, ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_ANSWERS_MOMENT_H_
