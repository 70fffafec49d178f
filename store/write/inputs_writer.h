// SPDX-License-Identifier: MIT
//
// From rings that hold inputs to the files under `inputs/` of a recording. Each process has a
// thread, which appends what its ring hands over; the disk has it within a second.

#ifndef TTQ_STORE_WRITE_INPUTS_WRITER_H_
#define TTQ_STORE_WRITE_INPUTS_WRITER_H_

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/directory.h"
#include "recorder/ring.h"
#include "store/format/inputs_frame.h"
#include "store/format/inputs_log.h"
#include "store/format/recorded.h"
#include "store/write/file_copies.h"
#include "store/write/ingest.h"
#include "store/write/process_numbers.h"

namespace ttq {

class InputsWriter {
 public:
  // Makes the directory (0700, it must not exist).
  static absl::StatusOr<std::unique_ptr<InputsWriter>> Create(const std::string& directory,
                                                              const RecordingInfo& info);
  ~InputsWriter();

  // Takes on a new process. Returns at once; a thread consumes the ring to its end.
  void Start(std::shared_ptr<Ring> ring);
  // True when every ring started has come to its end.
  bool Idle() const { return running_ == 0; }
  // Waits for that, and says that the recording is finished. The first error of any process.
  absl::Status Finish();

  // As RecordingWriter's.
  void Fail(const absl::Status& why);
  void ReachLimit(const std::string& what) { FailBy(absl::ResourceExhaustedError(what)); }
  // The first error so far; ResourceExhausted when the disk is full. After one the programs run on
  // unrecorded.
  absl::Status error() const;
  // Why a process has a log, one clause; empty: none has.
  std::string log_because() const;
  // Why there is not all of a process, as far as its ring says, one clause; empty: there is.
  std::string incomplete_because() const;
  // Without instructions and writes, which nobody has counted.
  const IngestTotals& totals() const { return totals_; }

 private:
  class File;

  InputsWriter(std::string directory, RecordingInfo info)
      : directory_(std::move(directory)),
        info_(std::move(info)),
        lock_(InputsDirectory(directory_)),
        copies_(directory_) {}
  void FailBy(const absl::Status& why);
  absl::Status KeepRecords(InputsFrame kind, std::string_view block, bool in_haste, File* file);
  absl::Status BeginLog(const Ring& ring, File* file);
  absl::Status Consume(Ring* ring, ProcessNumbers::Numbers numbers);
  absl::Status WriteRecord(bool finished) const;

  const std::string directory_;
  const RecordingInfo info_;
  const DirectoryLock lock_;
  IngestTotals totals_;
  std::atomic<uint32_t> running_{0};
  mutable std::mutex mutex_;
  ProcessNumbers numbers_;
  std::list<std::thread> threads_;
  std::list<std::weak_ptr<Ring>> rings_;
  absl::Status error_;
  std::string log_because_, incomplete_because_;
  FileCopies copies_;
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_INPUTS_WRITER_H_
