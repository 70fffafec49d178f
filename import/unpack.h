// SPDX-License-Identifier: MIT
//
// Core dumps as they are kept: plain, or packed by zstd, lz4 or gzip.

#ifndef TTQ_IMPORT_UNPACK_H_
#define TTQ_IMPORT_UNPACK_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/file_image.h"

namespace ttq {

// The bytes of a file, unpacked where its first bytes say that it is packed; `*remark` then says
// what is missing of it, a clause, where it is cut off. NotFound when it cannot be opened, DataLoss
// when nothing of it can be unpacked, Unavailable when there is no room for the unpacked file in
// $TMPDIR (/var/tmp by default).
absl::StatusOr<FileImage> ReadPacked(const std::string& path, std::string* remark);

}  // namespace ttq

#endif  // TTQ_IMPORT_UNPACK_H_
