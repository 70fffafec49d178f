// SPDX-License-Identifier: MIT
//
// The values of the store that are Cap'n Proto messages, read into plain structures.
// DataLoss names the kind of record that is damaged. Numbers are not
// validated here: check one before you use it as an index or a size.

#ifndef TTQ_STORE_FORMAT_RECORDS_H_
#define TTQ_STORE_FORMAT_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "store/format/moment_info.h"
#include "store/format/recorded.h"

namespace ttq {

// Without what only the directory says: name, path, bytes_on_disk.
absl::StatusOr<RecordingInfo> ParseRecording(std::string_view value);

struct StoredProcess {
  ProcessInfo info;
  std::vector<Thread> threads;
  MomentInfo moment;
  Time fork_time{0};
  uint32_t fork_blocks = 0;  // of the parent's, which it needs; 0: not a fork, or not known
  bool closed = false;
  bool cut_off = false;  // set by who reads it: its parent is not stored up to the fork
};
absl::StatusOr<StoredProcess> ParseProcess(std::string_view value);

// StoredGroup::Block::flags
enum : uint32_t { kBlockChangesMappings = 1 };

struct StoredGroup {
  struct Block {
    Time end;
    int64_t wall_start_ns = 0, wall_end_ns = 0;
    uint32_t flags = 0;
  };
  uint32_t first_block = 0;
  std::vector<Block> blocks;
  // The process as of their end, without its program, arguments and directory. Older recordings
  // have none.
  std::optional<StoredProcess> process;
};
absl::StatusOr<StoredGroup> ParseGroup(std::string_view value);

// Without what the key says: time, sequence.
absl::StatusOr<Event> ParseEvent(std::string_view value);

struct StoredFile {
  std::string path, build_id;
  uint64_t size = 0;
};
absl::StatusOr<StoredFile> ParseFile(std::string_view value);

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_RECORDS_H_
