// SPDX-License-Identifier: MIT
// A status that is not OK ends the function that got it, as Abseil's own code writes it.

#ifndef TTQ_BASE_STATUS_MACROS_H_
#define TTQ_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status that the expression gives, unless it is OK. For functions that return
// absl::Status or absl::StatusOr.
#define RETURN_IF_ERROR(...)                                         \
  do {                                                               \
    if (absl::Status ttq_status = (__VA_ARGS__); !ttq_status.ok()) { \
      return ttq_status;                                             \
    }                                                                \
  } while (false)

// Assigns the value of an absl::StatusOr, or returns its status. The target is a variable or the
// declaration of one; a type with a comma in it must be `auto`.
//
//   ASSIGN_OR_RETURN(Time at, context.ResolveAt(clause));
#define ASSIGN_OR_RETURN(target, ...) \
  TTQ_ASSIGN_OR_RETURN(TTQ_JOIN(ttq_status_or_, __LINE__), target, __VA_ARGS__)

#define TTQ_ASSIGN_OR_RETURN(status_or, target, ...)         \
  auto status_or = (__VA_ARGS__);                            \
  if (!status_or.ok()) return std::move(status_or).status(); \
  target = *std::move(status_or)

#define TTQ_JOIN(a, b) TTQ_JOIN_EXPANDED(a, b)
#define TTQ_JOIN_EXPANDED(a, b) a##b

#endif  // TTQ_BASE_STATUS_MACROS_H_
