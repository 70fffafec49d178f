// SPDX-License-Identifier: MIT
//
// What of a stream (stream.h) is not determined by what comes before it: its control records, each
// with its place, but for those that every block starts with. A process of the native engine can be
// run again from them: see docs/engine.md.
//
// A file: one TtqInputs, then each record as one TtqInput and its payload, padded to eight bytes.
// Little-endian.

#ifndef TTQ_RECORDER_INPUTS_H_
#define TTQ_RECORDER_INPUTS_H_

#include "recorder/stream.h"

#define TTQ_INPUTS_MAGIC 0x31535455504e4954ull  // "TINPUTS1"

typedef struct {
  ttq_u64 magic;
  ttq_u32 stream_version;
  ttq_u32 block_bytes;
  ttq_u32 fatal_signal;  // 0: none
  ttq_u32 reserved;
} TtqInputs;

typedef struct {
  // Where it was about to be appended, and begins unless it found no room there.
  ttq_u32 block;
  ttq_u32 offset;  // of the block's log
  ttq_u32 kind;    // kTtqRegisters…, or kTtqInputsEnd
  ttq_u32 bytes;   // of its payload
} TtqInput;

enum { kTtqInputsEnd = 255 };  // the stream ends there

#endif  // TTQ_RECORDER_INPUTS_H_
