// SPDX-License-Identifier: MIT

#ifndef TTQ_BASE_DIRECTORY_H_
#define TTQ_BASE_DIRECTORY_H_

#include <cstdint>
#include <string>

namespace ttq {

// The bytes of all files below a directory, but for those that this user may not see.
uint64_t BytesUnder(const std::string& directory);

// A lock (flock) on a directory, which one process at a time holds. The kernel lets go of it
// however the process ends.
class DirectoryLock {
 public:
  // Waits for whoever holds it.
  explicit DirectoryLock(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Whether anybody does.
  static bool IsHeld(const std::string& directory);

 private:
  const int fd_;
};

}  // namespace ttq

#endif  // TTQ_BASE_DIRECTORY_H_
