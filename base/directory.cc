// SPDX-License-Identifier: MIT

#include "base/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace ttq {
namespace {

namespace fs = std::filesystem;

int OpenDirectory(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

uint64_t BytesUnder(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code ec;
  fs::recursive_directory_iterator it(directory, fs::directory_options::skip_permission_denied, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    const uint64_t size = it->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

DirectoryLock::DirectoryLock(const std::string& directory) : fd_(OpenDirectory(directory)) {
  if (fd_ < 0) return;
  while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

bool DirectoryLock::IsHeld(const std::string& directory) {
  const int fd = OpenDirectory(directory);
  if (fd < 0) return false;
  // Shared, so that two who ask at the same time do not take each other for the holder.
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

}  // namespace ttq
