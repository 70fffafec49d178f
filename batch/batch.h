// SPDX-License-Identifier: MIT
//
// Running questions over recordings, in parallel: a recording is opened when its first question is
// taken up and closed after its last one.

#ifndef TTQ_BATCH_BATCH_H_
#define TTQ_BATCH_BATCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "batch/questions.h"
#include "store/read/reader.h"

namespace ttq {

enum class Verdict {
  kMet,
  kNotMet,
  kFailed,      // the question cannot be asked of this recording: a name it does not have, …
  kUnreadable,  // the recording, or the one to compare with, cannot be read
};
std::string_view VerdictName(Verdict verdict);  // "met", "not met", "failed", "unreadable"

struct BatchResult {
  std::string trace, question, query, expect;
  Verdict verdict = Verdict::kMet;
  uint64_t rows = 0;                    // seen; at least these when `more`
  bool more = false;                    // the expectation was decided before the last row
  bool complete = true;                 // as of ResultStream
  std::string detail;                   // why, or the answer's note
  std::vector<std::string> first_rows;  // JSON objects, a few
  double elapsed_ms = 0;
};

struct BatchOptions {
  unsigned jobs = 0;               // 0: one per core
  ScanControl* control = nullptr;  // to interrupt; may be null
  // Work that need not be done: true for a (trace, question) whose result is known.
  std::function<bool(const std::string& trace, const Question& question)> skip;
};

// Calls `report` with each result as it comes, one at a time. Cancelled when interrupted; what was
// reported stays true.
absl::Status RunBatch(const std::vector<Question>& questions,
                      const std::vector<std::string>& traces, const BatchOptions& options,
                      const std::function<void(const BatchResult&)>& report);

}  // namespace ttq

#endif  // TTQ_BATCH_BATCH_H_
