// SPDX-License-Identifier: MIT
//
// What a recording says of itself: schema::Recording of store/format/trace.capnp. It is read by
// ParseRecording (store/format/records.h).

#ifndef TTQ_STORE_WRITE_RECORDING_RECORD_H_
#define TTQ_STORE_WRITE_RECORDING_RECORD_H_

#include <string>
#include <vector>

#include "store/format/recorded.h"

namespace ttq {

// Of a recording that this process begins now and will finish.
RecordingInfo DescribeRecording(const std::vector<std::string>& command);
std::string EncodeRecording(const RecordingInfo& info, bool finished);

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_RECORDING_RECORD_H_
