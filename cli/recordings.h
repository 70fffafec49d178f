// SPDX-License-Identifier: MIT
//
// The recordings that lie in a directory, as `ttq ls` and `ttq rm` need them.

#ifndef TTQ_CLI_RECORDINGS_H_
#define TTQ_CLI_RECORDINGS_H_

#include <cstdint>
#include <string>
#include <vector>

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

// Makes `latest` name a recording, in one step: a reader sees the old one or the new.
void PointLatestAt(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_CLI_RECORDINGS_H_
