// SPDX-License-Identifier: MIT
//
// A moment becomes a recording: the stream that a recorded program would have sent if it had lived
// for no instruction at all. Its last block holds registers alone, so that a question reads those
// pages that it is about and no more.

#ifndef TTQ_IMPORT_WRITE_MOMENT_H_
#define TTQ_IMPORT_WRITE_MOMENT_H_

#include <string>

#include "absl/status/status.h"
#include "import/moment.h"
#include "store/write/ingest.h"

namespace ttq {

// kLeftOut: a reader of the recording reads memory elsewhere (OutsideMemory).
enum class MemoryContents { kStored, kLeftOut };

// Writes the moment as the one process of `writer`, and finishes that. `vdso`: where the kernel's
// own library is mapped, 0: nowhere.
absl::Status WriteMoment(const ProcessMoment& moment, const MomentMemory& memory,
                         MemoryContents contents, uint64_t vdso, RecordingWriter* writer);

}  // namespace ttq

#endif  // TTQ_IMPORT_WRITE_MOMENT_H_
