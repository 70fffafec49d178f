// SPDX-License-Identifier: MIT
//
// The files under `inputs/` of a recording: of each process a log that grows while it runs, of
// frames. docs/inputs-format.md has the layout.

#ifndef TTQ_STORE_FORMAT_INPUTS_LOG_H_
#define TTQ_STORE_FORMAT_INPUTS_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "recorder/inputs_file.h"
#include "recorder/ring.h"
#include "store/format/recorded.h"

namespace ttq {

// Of a recording's directory.
std::string InputsDirectory(const std::string& directory);
// What the recording says of itself; see ParseRecording.
std::string InputsRecordPath(const std::string& directory);
std::string InputsPath(const std::string& directory, ProcessNo process);
bool HasInputs(const std::string& directory);
// Whether there is nothing but inputs: the history is not made.
bool HoldsInputsOnly(const std::string& directory);
// Whether the history that is there is one of a part only; what is there then.
bool HistoryIsPartial(const std::string& directory);
std::string PartialPath(const std::string& directory);
// Whether the history that is there was made while the program was being recorded, and there is
// more by now; what is there then, which has the number of bytes of the inputs that it was made
// from (InputsSummary).
bool HistoryIsBehind(const std::string& directory);
std::string SoFarPath(const std::string& directory);

// Calls f for each of a block's records.
void ForEachInput(std::string_view records,
                  const std::function<void(const TtqInput&, std::string_view payload)>& f);
// Calls f(map, path) for each mapping of a file among a block's records whose bytes are the file's,
// or whose file is wanted for its symbols.
void ForEachMappedFile(std::string_view records,
                       const std::function<void(const TtqMap&, const std::string&)>& f);
// The name of a copy of such a file (recorder/inputs.h).
std::string CopyName(const TtqMap& map);
// Where a recording has copies, each compressed as one zstd stream.
std::string CopiesDirectory(const std::string& directory);
// The mapped file as it was, opened; -1: it is gone, or has changed.
int OpenUnchanged(const TtqMap& map, const std::string& path);

struct InputsSummary {
  RecordingInfo info;
  bool being_recorded = false;
  uint32_t processes = 0;
  uint64_t bytes = 0;  // on disk, with the copies
};
// What there is, without reading it.
absl::StatusOr<InputsSummary> SummariseInputs(const std::string& directory);

// The recorder of inputs holds the DirectoryLock of InputsDirectory; a process that makes or drops
// a history holds that of CopiesDirectory.
bool IsRecordingInputs(const std::string& directory);

struct RecordedInputs {
  InputsFile file;
  std::string log_because;  // why a log follows, one clause; empty: none does, or its parent's did
  std::string incomplete;   // why the recorder had no more of it, one clause; empty: it had all
  bool has_ended = false;   // else the recorder was killed, or is at work
  uint64_t log_bytes = 0;   // of that, with the recipes
  uint64_t log_at = 0;      // in the file; 0: there is no block of a log
};

// Whether there is a log from the beginning, and nothing to run again: of a process that was forked
// by one whose log had begun.
bool BeginsWithLog(const RecordedInputs& inputs);

// All whole frames of a file. DataLoss, naming it, when a frame is damaged; OutOfRange, when there
// is none yet; FailedPrecondition when it is of another version. A file that is cut off is one of a
// recorder that was killed, or is at work.
absl::StatusOr<RecordedInputs> ReadInputs(const std::string& path);
// Calls f for each block of the log behind a process's inputs, until one is cut off. DataLoss,
// naming the file, when one is damaged, or what f says; what is passed to f lives as long as its
// call.
absl::Status ForEachLogBlock(const std::string& path, const RecordedInputs& inputs,
                             const std::function<absl::Status(const BlockView& block)>& f);
// What the inputs of each process say of it, in order: no times, no numbers of writes and reads. Of
// one that has not ended, or has none yet, it says that it is incomplete.
absl::StatusOr<std::vector<ProcessInfo>> DescribeInputs(const std::string& directory,
                                                        const InputsSummary& summary);
// What is missing of a process, one clause; empty: nothing.
std::string WhatIsMissing(const RecordedInputs& inputs, const InputsSummary& summary);
// A frame's payload.
std::string EncodeLogBlock(const BlockView& block);
// The processes that there are inputs of, in order.
absl::StatusOr<std::vector<ProcessNo>> ListInputs(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_INPUTS_LOG_H_
