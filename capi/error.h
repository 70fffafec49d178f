// SPDX-License-Identifier: MIT
//
// Errors of the C API: the one guard round every entry point, and what ttq_last_error() shows.
// Nothing that is thrown below passes it.

#ifndef TTQ_CAPI_ERROR_H_
#define TTQ_CAPI_ERROR_H_

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "capi/ttq.h"

namespace ttq::capi {

// How a call ended: TTQ_OK, TTQ_ROW, or an error with its message.
class Ending {
 public:
  Ending() = default;
  Ending(absl::Status status);  // NOLINT: any status of the engine's is an ending
  Ending(ttq_status code, std::string message)
      : code_(code), status_(absl::UnknownError(std::move(message))) {}
  static Ending Row() {
    Ending row;
    row.code_ = TTQ_ROW;
    return row;
  }

  ttq_status code() const { return code_; }
  const absl::Status& status() const { return status_; }

 private:
  ttq_status code_ = TTQ_OK;
  absl::Status status_;
};

inline Ending InvalidArgument(std::string message) {
  return Ending(TTQ_ERROR_INVALID_ARGUMENT, std::move(message));
}

// Makes it the thread's last error, if it is one, and gives its code. `text` is the query it is
// about.
ttq_status Conclude(const Ending& ending, std::string_view text);
// The same for what is caught; never throws.
ttq_status ConcludeOutOfMemory();
ttq_status ConcludeUnexpected(const char* what);

// Runs the body of an entry point: a function without arguments that gives an Ending.
template <class Body>
ttq_status Guard(std::string_view text, Body&& body) {
  try {
    return Conclude(std::forward<Body>(body)(), text);
  } catch (const std::bad_alloc&) {
    return ConcludeOutOfMemory();
  } catch (const std::exception& e) {
    return ConcludeUnexpected(e.what());
  } catch (...) {
    return ConcludeUnexpected("an unknown exception");
  }
}
template <class Body>
ttq_status Guard(Body&& body) {
  return Guard(std::string_view(), std::forward<Body>(body));
}

}  // namespace ttq::capi

#endif  // TTQ_CAPI_ERROR_H_
