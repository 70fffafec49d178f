// SPDX-License-Identifier: MIT
//
// What `ttq record` looks at while a program runs: whether the recording may go on, and how far it
// is, for the line on the terminal.

#ifndef TTQ_CLI_RECORD_WATCH_H_
#define TTQ_CLI_RECORD_WATCH_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/status_line.h"
#include "store/write/ingest.h"

namespace ttq {

struct RecordLimits {
  std::optional<uint64_t> max_bytes;   // of the recording on disk
  std::optional<double> max_seconds;   // of wall clock
  std::optional<uint64_t> free_bytes;  // that stay free on its disk; absent: DefaultFreeSpace
};

// 1 GB, or a twentieth of a disk of less than 20 GB. 0 when it cannot be told.
uint64_t DefaultFreeSpace(const std::string& directory);

// Belongs to one thread.
class RecordWatch {
 public:
  // `show`: a line at the bottom of the terminal, from the second second on.
  RecordWatch(const std::string& directory, const RecordLimits& limits, bool show);
  RecordWatch(const RecordWatch&) = delete;

  // To be called often; looks twice a second. What was exceeded, once: "the recording has reached
  // 2.0 GB (--max-size)".
  std::optional<std::string> Look(const IngestTotals& totals);

 private:
  std::optional<std::string> Exceeded() const;
  void Show(const IngestTotals& totals);

  const std::string directory_;
  const RecordLimits limits_;
  const uint64_t free_bytes_;
  const bool show_;
  bool exceeded_ = false;
  StatusLine line_;
  uint64_t bytes_ = 0;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point next_ = started_;
};

}  // namespace ttq

#endif  // TTQ_CLI_RECORD_WATCH_H_
