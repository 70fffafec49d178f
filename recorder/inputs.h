// SPDX-License-Identifier: MIT
//
// What of a stream (stream.h) is not determined by what comes before it: its control records, each
// with its place, but for those that every block starts with. A process of the native engine can be
// run again from them: see docs/inputs-format.md.
//
// A block of a ring that holds inputs (TtqRing::inputs_before), in place of its log: one
// TtqInputsBlock, then records. A record is one TtqInput and its payload, padded to eight bytes.
//
// A file, for the engine: one TtqInputs, the program's arguments as in TtqRing padded to eight
// bytes, the records of all blocks, then the TtqInputsBlock of each. Little-endian. The inputs of a
// process that fork number N made are in the file of its parent's name and ".N".

#ifndef TTQ_RECORDER_INPUTS_H_
#define TTQ_RECORDER_INPUTS_H_

#include <cstdint>

#include "recorder/stream.h"

#define TTQ_INPUTS_MAGIC 0x32535455504e4954ull  // "TINPUTS2"

// A record has 16 bytes before its payload, and 8 in the log. So blocks of a ring in which there
// may be something else than a log are so many times what a log gets.
enum { kTtqInputsRoom = 2 };

// sizeof is a multiple of eight.
struct TtqInputs {
  uint64_t magic;
  uint32_t stream_version;
  uint32_t block_bytes;
  uint32_t fatal_signal;  // 0: none
  uint32_t blocks;
  uint64_t bytes;  // of the records
  uint64_t hash;   // of all that follows this head
  int64_t start_wall_ns;
  uint32_t pid, process, parent;  // as in TtqRing
  uint32_t finished, superseded, became_other;
  uint32_t argument_bytes;
  uint32_t fork_number;  // of the parent's fork that made it; 0: it was executed
  uint32_t segments;  // for the second run: how many are logged at a time; 0: none is (replay.cc)
  uint32_t hold_before;  // for the second run, as in TtqRing
  uint32_t log_follows;  // behind the blocks, the process's log does
  uint32_t exit_status;  // as in TtqRing
};
static_assert(sizeof(TtqInputs) % 8 == 0);

struct TtqInputsBlock {
  uint64_t hash;       // of what the log starts with: where all threads are
  uint32_t log_bytes;  // of it all
  uint32_t ends_between_superblocks;
  int64_t wall_start_ns, wall_end_ns;
};

struct TtqInput {
  // Where it was about to be appended, and begins unless it found no room there.
  uint32_t block;
  uint32_t offset;  // of the block's log
  uint32_t kind;    // kTtqRegisters…, or kTtqInputsEnd
  uint32_t bytes;   // of its payload
};

enum { kTtqInputsEnd = 255 };  // the stream ends there

namespace ttq {

// Beside the inputs may be copies of the files that are mapped, for when those change:
// DEV-INO-BYTES-MTIME, in hexadecimal, as TtqMap has them.

// Of a record, with its padding.
inline uint64_t BytesOfInput(const TtqInput& input) {
  return (sizeof(TtqInput) + uint64_t{input.bytes} + 7) & ~uint64_t{7};
}

// Never 0. Not meant to withstand anybody.
inline uint64_t HashBytes(const void* bytes, uint64_t size) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  uint64_t h = 0x9e3779b97f4a7c15;
  for (uint64_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    if (size - i >= 8) {
      __builtin_memcpy(&word, at + i, 8);
    } else {
      for (uint64_t k = 0; k < size - i; ++k) word |= uint64_t{at[i + k]} << 8 * k;
    }
    h = (h ^ word) * 0xff51afd7ed558ccd;
    h ^= h >> 32;
  }
  h ^= h >> 29;
  return h != 0 ? h : 1;
}

}  // namespace ttq

#endif  // TTQ_RECORDER_INPUTS_H_
