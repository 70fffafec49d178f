// SPDX-License-Identifier: MIT
//
// Where recordings are made.

#ifndef TTQ_CLI_RECORDINGS_H_
#define TTQ_CLI_RECORDINGS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/write/ingest.h"

namespace ttq {

// Makes the recording where it was asked for, or in PROGRAM-N.ttq with the next free N.
absl::StatusOr<std::unique_ptr<RecordingWriter>> NewRecording(
    const std::string& asked, const std::vector<std::string>& command, std::string* directory);

// Makes `latest` name a recording, in one step: a reader sees the old one or the new.
void PointLatestAt(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_CLI_RECORDINGS_H_
