// SPDX-License-Identifier: MIT
//
// Where recordings are made.

#ifndef TTQ_CLI_RECORDINGS_H_
#define TTQ_CLI_RECORDINGS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "store/write/ingest.h"
#include "store/write/recording_record.h"

namespace ttq {

// Calls make(directory) where the recording was asked for, or with PROGRAM-N.ttq and the next free
// N: AlreadyExists is the one error that another N mends.
absl::Status MakeInFreePlace(const std::string& asked, const std::vector<std::string>& command,
                             const std::function<absl::Status(const std::string&)>& make,
                             std::string* directory);

// Makes the recording there.
template <class Writer = RecordingWriter>
absl::StatusOr<std::unique_ptr<Writer>> NewRecording(const std::string& asked,
                                                     const std::vector<std::string>& command,
                                                     std::string* directory) {
  std::unique_ptr<Writer> writer;
  const auto make = [&](const std::string& place) -> absl::Status {
    ASSIGN_OR_RETURN(writer, Writer::Create(place, DescribeRecording(command)));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(MakeInFreePlace(asked, command, make, directory));
  return writer;
}

// Makes `latest` name a recording, in one step: a reader sees the old one or the new.
void PointLatestAt(const std::string& directory);

}  // namespace ttq

#endif  // TTQ_CLI_RECORDINGS_H_
