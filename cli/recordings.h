// SPDX-License-Identifier: MIT
//
// The recordings that lie in a directory, as `ttq ls` and `ttq rm` need them.

#ifndef TTQ_CLI_RECORDINGS_H_
#define TTQ_CLI_RECORDINGS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/write/ingest.h"

namespace ttq {

// One that cannot be opened says why in `problem`.
struct Listed {
  std::string name, path, command, ending, problem;
  int64_t start_wall_ns = 0;
  uint64_t instructions = 0, bytes = 0;
  bool finished = true;
  bool running = false;  // a recorder is at work on it
};

// Newest first.
std::vector<Listed> ListRecordings(const std::string& directory);

// Makes the recording where it was asked for, or in PROGRAM-N.ttq with the next free N.
absl::StatusOr<std::unique_ptr<RecordingWriter>> NewRecording(
    const std::string& asked, const std::vector<std::string>& command, std::string* directory);

// Makes `latest` name a recording, in one step: a reader sees the old one or the new.
void PointLatestAt(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_CLI_RECORDINGS_H_
