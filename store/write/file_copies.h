// SPDX-License-Identifier: MIT
//
// Copies of the files that a program maps, under `inputs/files` of a recording. The next recording
// of a program has a name more for the same copy: it takes neither time nor room. The names by
// which they are found again are in the disk cache.

#ifndef TTQ_STORE_WRITE_FILE_COPIES_H_
#define TTQ_STORE_WRITE_FILE_COPIES_H_

#include <map>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "recorder/stream.h"

namespace ttq {

// Thread-safe.
class FileCopies {
 public:
  explicit FileCopies(const std::string& directory);  // of the recording

  // Copies a file that was mapped, unless it is copied. One that is no longer what it was, or is
  // too large to be read again, is left out. Errors are the disk's, or Unavailable.
  absl::Status Keep(const TtqMap& map, const std::string& path);
  // Lets other recordings have the copies that were made. Call it once, when all are.
  void Share();

 private:
  const std::string directory_;
  std::mutex mutex_;                         // held while a file is copied
  std::map<std::string, std::string> kept_;  // by name: where others find one that was made, or ""
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_FILE_COPIES_H_
