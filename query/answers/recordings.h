// SPDX-License-Identifier: MIT
//
// The recordings that lie in a directory, as front ends list them. Thread-safe.

#ifndef TTQ_QUERY_ANSWERS_RECORDINGS_H_
#define TTQ_QUERY_ANSWERS_RECORDINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ttq {

// A recording that lies in a directory. One that cannot be opened says why in `problem`.
struct Listed {
  std::string name, path, command, ending, problem;
  int64_t start_wall_ns = 0;
  // nullopt: what happened is unknown, of a core dump or a snapshot; the history is not made.
  std::optional<uint64_t> instructions = 0;
  uint64_t bytes = 0;
  bool finished = true;
  bool complete = true;  // nothing is known to be missing in its processes
  bool running = false;  // a recorder is at work on it
};

// Newest first.
std::vector<Listed> ListRecordings(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_QUERY_ANSWERS_RECORDINGS_H_
