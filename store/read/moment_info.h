// SPDX-License-Identifier: MIT

#ifndef TTQ_STORE_READ_MOMENT_INFO_H_
#define TTQ_STORE_READ_MOMENT_INFO_H_

#include "store/format/moment_info.h"
#include "store/read/reader.h"

namespace ttq {

// Of which moment a process is; Beginning::kStart and nothing else for one that was recorded.
// Valid as long as the process.
const MomentInfo& MomentInfoOf(const Process& process);

// Whether nothing that happened is known of it, only the state of one moment.
inline bool HistoryUnknown(const Process& process) {
  return MomentInfoOf(process).history_unknown();
}

}  // namespace ttq

#endif  // TTQ_STORE_READ_MOMENT_INFO_H_
