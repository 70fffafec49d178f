// SPDX-License-Identifier: MIT

#include "store/write/disk_errors.h"

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace ttq {

absl::Status DiskFull(const std::string& directory) {
  return absl::ResourceExhaustedError("the disk is full: " + directory);
}

absl::Status NumberedError(int error, const std::string& what, const std::string& directory) {
  if (error == ENOSPC || error == EDQUOT) return DiskFull(directory);
  if (error == EEXIST) return absl::ErrnoToStatus(error, what);
  return absl::UnavailableError(fmt::format("{}: {}", what, strerror(error)));
}

}  // namespace ttq
