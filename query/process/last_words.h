// SPDX-License-Identifier: MIT
//
// What a program wrote to stderr before it ended, and what it said that it ends for.
//
// Thread-safe: a function without state.

#ifndef TTQ_QUERY_PROCESS_LAST_WORDS_H_
#define TTQ_QUERY_PROCESS_LAST_WORDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "store/read/reader.h"

namespace ttq {

struct LastWords {
  // At most 400 bytes: from the line on that says why, or else the end. "…" stands for what is left
  // out.
  std::string message;
  // "Fatal Python error: …", or a sanitizer's summary, "AddressSanitizer: heap-use-after-free …";
  // empty: it did not say.
  std::string reason;
};

absl::StatusOr<LastWords> FindLastWords(const Process& process, Time end);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_LAST_WORDS_H_
