// SPDX-License-Identifier: MIT
//
// From rings to a recording. A RecordingWriter owns the recording's directory; each recorded
// process is a ProcessIngest, run by a thread of its own:
//
//   rings → takers: register recipes, hand blocks to the digest workers (block_source.h)
//        → workers: digest and compress blocks, in parallel
//        → committer: applies digests in order to the live image, makes index rows
//        → RocksDB: a group of blocks at a time, atomically
//
// A block's place in the ring is free again when the block is digested and committed to a group in
// memory; the program waits if ingest falls behind. A crash of the recorder loses the groups that
// are not stored yet: at most about two seconds, less at the start of a process.
//
// When the disk is full, only each process's own record is still stored, in room that was reserved
// for it. The store always holds whole groups.

#ifndef TTQ_STORE_WRITE_INGEST_H_
#define TTQ_STORE_WRITE_INGEST_H_

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "recorder/ring.h"
#include "store/format/recorded.h"

namespace ttq {

class LiveImage;
class RecipeTable;

// Totals of what is stored, for the summary line.
struct IngestTotals {
  std::atomic<bool> lost{false};    // a process ended without having said so
  std::atomic<bool> ran_on{false};  // a process had not come to its end when recording failed
  std::atomic<uint64_t> instructions{0}, writes{0}, processes{0};
};

class RecordingWriter {
 public:
  // Makes the directory (0700, it must not exist) with an empty store in it. `info`: what the
  // recording says of itself; when it is finished, only if that is. `jobs`: threads that digest; 0:
  // one for each processor, at least two.
  static absl::StatusOr<std::unique_ptr<RecordingWriter>> Create(const std::string& directory,
                                                                 const RecordingInfo& info,
                                                                 size_t jobs = 0);
  ~RecordingWriter();

  // The program's, where it is not this process's own, or is not known (""). Before Start.
  void SetWorkingDirectory(const std::string& path);

  // Where copies of mapped files are (recorder/inputs.h) that may have changed. Before Start.
  void SetCopies(const std::string& path);

  // Nobody reads the recording before Finish. Before Start.
  void SetUnread();

  // What is not recorded of a process, one clause. Before its Start.
  void SetMissing(ProcessNo process, const std::string& what);

  // Processes are run again that may be divided into segments. Before Start.
  void SetTakesSegments();

  // The histories end there, each in its process's time. Before Start.
  void SetHistoryEnd(Time end);

  // Takes on a new process, or a segment of one. Returns at once; a thread consumes the ring to its
  // end.
  void Start(std::shared_ptr<Ring> ring);
  // Of the rings started, those that have not come to their end, or whose blocks are not all
  // stored.
  size_t running() const;
  bool Idle() const { return running() == 0; }
  // Waits for that, writes what a finished recording says of itself and closes the store. The first
  // error of any process is returned; what was stored before it stays. An error that error() does
  // not tell is one of closing: all processes are stored, but the recording does not count as
  // finished.
  absl::Status Finish();

  // From outside: no more processes can be had. All go on unrecorded.
  void Fail(const absl::Status& why);
  // From outside: the recording is as large or as long as it may be. As a full disk.
  void ReachLimit(const std::string& what);
  // The first error so far, Ok while there is none; ResourceExhausted when the disk is full or a
  // limit is reached. After an error the programs run on unrecorded.
  absl::Status error() const;
  const IngestTotals& totals() const;
  // Of each process that has them: when the blocks that are not in its history ended.
  const std::map<ProcessNo, std::vector<Time>>& skimmed() const;

 private:
  friend class ProcessIngest;
  RecordingWriter();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_INGEST_H_
