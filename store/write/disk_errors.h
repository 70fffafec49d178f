// SPDX-License-Identifier: MIT

#ifndef TTQ_STORE_WRITE_DISK_ERRORS_H_
#define TTQ_STORE_WRITE_DISK_ERRORS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ttq {

absl::Status DiskFull(const std::string& directory);

// Of an error that is a number. ResourceExhausted is a full disk alone: what becomes of the program
// depends on it.
absl::Status NumberedError(int error, const std::string& what, const std::string& directory);

// Writes to a file of the directory's; `path` names it in an error.
absl::Status WriteAll(int fd, std::string_view bytes, const std::string& path,
                      const std::string& directory);

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_DISK_ERRORS_H_
