// SPDX-License-Identifier: MIT
//
// What of a stream (stream.h) is not determined by what comes before it: its control records, each
// with its place, but for those that every block starts with. A process of the native engine can be
// run again from them: see docs/engine.md.
//
// A file: one TtqInputs, then each record as one TtqInput and its payload, padded to eight bytes,
// then for each block a hash of what it starts with: where all threads are. Little-endian.

#ifndef TTQ_RECORDER_INPUTS_H_
#define TTQ_RECORDER_INPUTS_H_

#include <cstdint>

#include "recorder/stream.h"

#define TTQ_INPUTS_MAGIC 0x31535455504e4954ull  // "TINPUTS1"

struct TtqInputs {
  uint64_t magic;
  uint32_t stream_version;
  uint32_t block_bytes;
  uint32_t fatal_signal;  // 0: none
  uint32_t blocks;
  uint64_t bytes;  // of the records
  uint64_t hash;   // of all that follows this head
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
