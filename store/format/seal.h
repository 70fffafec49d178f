// SPDX-License-Identifier: MIT
//
// The seal of a finished recording: what the few files of its store were like that nothing else
// vouches for. Sorted files have a checksum of every block, and RocksDB's MANIFEST an id and a
// checksum of each of them; but a MANIFEST that lost its end, or a log that lost records, reads as
// one that never had them. docs/store-format.md describes the file.

#ifndef TTQ_STORE_FORMAT_SEAL_H_
#define TTQ_STORE_FORMAT_SEAL_H_

#include <string>

#include "absl/status/status.h"

namespace ttq {

// Writes it. REQUIRES: `directory` is a recording's, and its store is closed for good. On failure
// there is none.
absl::Status WriteSeal(const std::string& directory);

// Ok when the store's files are as they were sealed; NotFound when there is no seal; DataLoss names
// the file that is another, is missing, or came later.
absl::Status CheckSeal(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_SEAL_H_
