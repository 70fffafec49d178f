// SPDX-License-Identifier: MIT

#include "store/write/disk_errors.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/core.h"

namespace ttq {

absl::Status DiskFull(const std::string& directory) {
  return absl::ResourceExhaustedError("the disk is full: " + directory);
}

absl::Status NumberedError(int error, const std::string& what, const std::string& directory) {
  if (error == ENOSPC || error == EDQUOT) return DiskFull(directory);
  if (error == EEXIST) return absl::ErrnoToStatus(error, what);
  return absl::UnavailableError(fmt::format("{}: {}", what, strerror(error)));
}

absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path,
                      const std::string& directory) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return NumberedError(n < 0 ? errno : ENOSPC, path, directory);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace ttq
