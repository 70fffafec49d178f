// SPDX-License-Identifier: MIT
//
// The logs of processes that were recorded by their inputs up to a point from which on they cannot
// be run again (docs/inputs-format.md). When the second run of a process has come to that point,
// its log follows in the ring of that run: the reader of the ring sees one stream.

#ifndef TTQ_STORE_WRITE_KEPT_LOGS_H_
#define TTQ_STORE_WRITE_KEPT_LOGS_H_

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "recorder/producer.h"
#include "store/format/inputs_log.h"
#include "store/write/ingest.h"

namespace ttq {

// What the ring says of a process that was forked, but for its name and its parent's.
RingHead RingHeadOf(const RecordedInputs& inputs);

class KeptLogs {
 public:
  // `writer` outlives it.
  KeptLogs(std::string directory, RecordingWriter* writer)
      : directory_(std::move(directory)), writer_(writer) {}
  ~KeptLogs();

  // Before Follow.
  void Add(ProcessNo process, RecordedInputs inputs);
  // Takes on the ring of a process that is run again and whose log then follows (Ring::goes_on);
  // the writer has it, too. Returns at once: a thread waits for the process, and puts the log into
  // the ring, and those of the processes that it forked from there on into rings of their own, for
  // the writer.
  void Follow(std::shared_ptr<Ring> ring);
  // Waits for all threads. The first error: Cancelled where Ctrl-C was pressed; DataLoss where a
  // log is damaged.
  absl::Status Finish();

 private:
  absl::Status FollowOne(const std::shared_ptr<Ring>& ring);
  absl::Status Put(ProcessNo process, RingProducer* out);
  absl::Status PutChild(ProcessNo process, const std::string& parent_ring);

  const std::string directory_;
  RecordingWriter* const writer_;
  std::map<ProcessNo, RecordedInputs> logs_;
  std::map<ProcessNo, std::vector<ProcessNo>> children_;  // that have a log from their beginning
  std::mutex mutex_;
  std::list<std::thread> threads_;
  absl::Status error_;
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_KEPT_LOGS_H_
