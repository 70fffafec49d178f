// SPDX-License-Identifier: MIT

#ifndef TTQ_STORE_READ_WRITER_LOCK_H_
#define TTQ_STORE_READ_WRITER_LOCK_H_

#include <string>

namespace ttq {

// Whether a recorder is at work on the recording in `directory`: somebody holds RocksDB's lock on
// its store.
bool IsBeingWritten(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_STORE_READ_WRITER_LOCK_H_
