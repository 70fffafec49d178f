// SPDX-License-Identifier: MIT
//
// See error.h.

#include "capi/error.h"

#include <optional>

#include "base/text.h"
#include "query/language/diagnostic.h"

namespace ttq::capi {
namespace {

struct LastError {
  std::string message, hint, rendered;
  ttq_error error = {TTQ_OK, "", TTQ_NOWHERE, TTQ_NOWHERE, "", ""};
};
thread_local LastError last;

ttq_status CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return TTQ_OK;
    case absl::StatusCode::kInvalidArgument:
      return TTQ_ERROR_QUERY;
    case absl::StatusCode::kNotFound:
      return TTQ_ERROR_NOT_FOUND;
    case absl::StatusCode::kFailedPrecondition:
      return TTQ_ERROR_NOT_A_RECORDING;
    case absl::StatusCode::kDataLoss:
      return TTQ_ERROR_DAMAGED;
    case absl::StatusCode::kOutOfRange:
      return TTQ_ERROR_OUT_OF_RANGE;
    case absl::StatusCode::kCancelled:
      return TTQ_ERROR_INTERRUPTED;
    case absl::StatusCode::kResourceExhausted:
      return TTQ_ERROR_OUT_OF_MEMORY;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return TTQ_ERROR_UNAVAILABLE;
    case absl::StatusCode::kUnimplemented:
      return TTQ_ERROR_UNSUPPORTED;
    default:
      return TTQ_ERROR_INTERNAL;
  }
}

// A message whose text needs no memory.
ttq_status ConcludePlainly(ttq_status code, const char* message) {
  last.error = {code, message, TTQ_NOWHERE, TTQ_NOWHERE, "", message};
  return code;
}

}  // namespace

Ending::Ending(absl::Status status) : code_(CodeOf(status)), status_(std::move(status)) {}

ttq_status Conclude(const Ending& ending, std::string_view text) {
  if (ending.code() >= 0) return ending.code();
  const std::optional<Diagnostic> diagnostic = GetDiagnostic(ending.status());
  size_t begin = TTQ_NOWHERE, end = TTQ_NOWHERE;
  if (diagnostic) {
    last.message = Printable(diagnostic->message);
    last.hint = Printable(diagnostic->hint);
    last.rendered = RenderDiagnostic(text, *diagnostic);
    begin = diagnostic->begin;
    end = diagnostic->end;
  } else {
    last.message = Printable(std::string(ending.status().message()));
    last.hint.clear();
    last.rendered = "ttq: " + last.message + "\n";
  }
  last.error = {ending.code(), last.message.c_str(), begin,
                end,           last.hint.c_str(),    last.rendered.c_str()};
  return ending.code();
}

ttq_status ConcludeOutOfMemory() {
  return ConcludePlainly(TTQ_ERROR_OUT_OF_MEMORY, "out of memory");
}

ttq_status ConcludeUnexpected(const char* what) {
  try {
    return Conclude(Ending(TTQ_ERROR_INTERNAL, std::string("unexpected: ") + what), "");
  } catch (...) {
    return ConcludePlainly(TTQ_ERROR_INTERNAL, "unexpected, and no memory to say what");
  }
}

}  // namespace ttq::capi

extern "C" const ttq_error* ttq_last_error(void) { return &ttq::capi::last.error; }

extern "C" const char* ttq_status_name(ttq_status status) {
  switch (status) {
#define TTQ_STATUS(name) \
  case name:             \
    return #name;
    TTQ_STATUS(TTQ_OK)
    TTQ_STATUS(TTQ_ROW)
    TTQ_STATUS(TTQ_ERROR_INVALID_ARGUMENT)
    TTQ_STATUS(TTQ_ERROR_QUERY)
    TTQ_STATUS(TTQ_ERROR_NOT_FOUND)
    TTQ_STATUS(TTQ_ERROR_NOT_A_RECORDING)
    TTQ_STATUS(TTQ_ERROR_DAMAGED)
    TTQ_STATUS(TTQ_ERROR_OUT_OF_RANGE)
    TTQ_STATUS(TTQ_ERROR_INTERRUPTED)
    TTQ_STATUS(TTQ_ERROR_WRONG_TYPE)
    TTQ_STATUS(TTQ_ERROR_NULL)
    TTQ_STATUS(TTQ_ERROR_BUSY)
    TTQ_STATUS(TTQ_ERROR_OUT_OF_MEMORY)
    TTQ_STATUS(TTQ_ERROR_UNAVAILABLE)
    TTQ_STATUS(TTQ_ERROR_UNSUPPORTED)
    TTQ_STATUS(TTQ_ERROR_INTERNAL)
#undef TTQ_STATUS
  }
  return "unknown";
}
