// SPDX-License-Identifier: MIT
//
// The history of a recording that has its inputs only: its processes are run again, natively
// (docs/engine.md), and the streams that come of that are stored as those of a program are. The
// second run makes no system call of the program's.

#ifndef TTQ_STORE_WRITE_HISTORY_H_
#define TTQ_STORE_WRITE_HISTORY_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "store/write/ingest.h"

namespace ttq {

// What a history is to cover of each process's time line.
struct HistoryWanted {
  // The last blocks alone, which a second or two are enough for once the second run is there. Of
  // `span` the rest then means nothing.
  bool last = false;
  // With `last`: of a process of few blocks all of them, since that takes little longer.
  bool all_of_short = false;
  // With `last`: of a process that crashed all of it, since what it crashed of may be as old.
  bool all_of_crashed = false;
  // At least that; a block is indexed as a whole. Where a process has a log behind its inputs
  // histories begin at the start.
  TimeSpan span;
  size_t jobs = 0;  // threads that index; 0: one for each processor
};

// Makes the history, unless the wanted part exists; replaces one that covers less. Waits for
// another process that is making one. The history appears when all of the wanted part is made: if
// this process is killed, the next one begins anew. While the program is being recorded, the
// history covers the blocks that exist so far, and is made anew when there are more
// (HistoryIsBehind).
//
// FailedPrecondition says why the recording cannot be run again: it has no inputs, or none yet, or
// a file has changed. DataLoss: its inputs are damaged, or a process took another way in the second
// run. Cancelled: Ctrl-C. `watch` is called at least ten times a second with the totals so far.
absl::Status MakeHistory(const std::string& directory, const HistoryWanted& wanted = {},
                         const std::function<void(const IngestTotals&)>& watch = {});

// Leaves the inputs only. FailedPrecondition when there are none, or when they cannot make it
// again.
absl::Status DropHistory(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_HISTORY_H_
