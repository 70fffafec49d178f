// SPDX-License-Identifier: MIT
//
// From what a user calls a recording to its directory. Thread-safe as long as nobody changes the
// environment.

#ifndef TTQ_QUERY_FIND_TRACE_H_
#define TTQ_QUERY_FIND_TRACE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "store/read/reader.h"

namespace ttq {

struct HistoryWanted;
struct IngestTotals;

// Where recordings are kept: $TTQ_HOME, else $XDG_DATA_HOME/ttq, else ~/.local/share/ttq. Empty
// when none of these is set.
std::string HomeDirectory();

// The directory of the recording that `name` (of -t; empty: not given), then $TTQ_TRACE, then
// `latest` means: a path, or a name under HomeDirectory() with or without ".ttq". NotFound, with
// what to do about it, when there is none.
absl::StatusOr<std::string> FindTrace(const std::string& name);

// `watch` is called several times a second while a history is made, with its totals so far, and
// with null at the end. There is one for the whole process: set it before any recording is opened.
void SetHistoryWatch(std::function<void(const IngestTotals*)> watch);

// MakeHistory with that watch.
absl::Status EnsureHistory(const std::string& directory, const HistoryWanted& wanted);
absl::Status EnsureHistory(const std::string& directory);  // all of it

// What of a recording's history is to be there. Whoever opens less than all must ask
// Recording::Unindexed whether that was enough.
enum class HistoryNeed {
  kAll,
  kSome,   // all where there is nothing yet
  kLast,   // the last part where there is nothing yet; of a short run, all
  kCrash,  // the same, but all of a process that crashed
  kNone,   // FailedPrecondition where there is nothing yet
};

// Opens the recording in a directory. What is missing of the history is made before.
absl::StatusOr<std::unique_ptr<Recording>> OpenWithHistory(const std::string& directory,
                                                           FileAccess files = FileAccess::kRead,
                                                           HistoryNeed need = HistoryNeed::kAll);

// Finds it and opens it so.
absl::StatusOr<std::unique_ptr<Recording>> OpenRecording(const std::string& name,
                                                         FileAccess files = FileAccess::kRead,
                                                         HistoryNeed need = HistoryNeed::kAll);

}  // namespace ttq

#endif  // TTQ_QUERY_FIND_TRACE_H_
