// SPDX-License-Identifier: MIT
//
// A core dump becomes a recording.

#ifndef TTQ_IMPORT_IMPORT_CORE_H_
#define TTQ_IMPORT_IMPORT_CORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "import/core_file.h"
#include "import/find_file.h"

namespace ttq {

// Reads a core dump, packed or not, and finds the files of its process. `name` is a path or the
// number of one that coredumpctl keeps (a pid). Errors as of CoreFile::Parse and ReadPacked.
absl::StatusOr<std::unique_ptr<CoreFile>> OpenCore(const std::string& name,
                                                   const FileSearch& search);

}  // namespace ttq

#endif  // TTQ_IMPORT_IMPORT_CORE_H_
