// SPDX-License-Identifier: MIT
//
// How logs are stored: most of a log can be told from what came before. The same loops run again
// and again, and most of what they load is what they loaded the last time. So a log is kept as two
// sequences, both compressed afterwards:
//
//   tokens   one flag for each unit of each execution: whether it was not as expected
//   units    those that were not
//
// What an execution adds to the log is taken to be its slots and the header of the record after it,
// which are as many bytes as its own record. They are cut into units of four bytes; a last one that
// is shorter is filled up with zeros. A unit is expected to be what it was the last time that this
// header was seen in this block, and zero the first time. The flags of an execution are in the
// order of its units, the first in the lowest bit of the first byte; its last byte is filled up
// with zeros.
//
// Of a record that a fault left open, and of a control record, nothing is expected and nothing
// remembered. A control record has no flags: what is in `units` is its length, its payload and the
// header that follows. `units` begins with the log's first header. The header after the last record
// counts as zero.
//
// Machine code does what PackRecord does for most records; see store/native.cc.

#ifndef TTQ_STORE_PACKED_LOG_H_
#define TTQ_STORE_PACKED_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "store/recipe.h"

namespace ttq {

// Where packing has come to. Room for a log of n bytes is PackedRoom(n) bytes of each.
struct PackedCursor {
  uint8_t* tokens = nullptr;
  uint8_t* units = nullptr;
};
inline size_t PackedRoom(size_t log_bytes) { return 2 * log_bytes + 64; }

// Packs one execution. `last`: what is expected, with room for whole units; brought up to date.
// `next`: the header that follows.
void PackRecord(const uint8_t* record, uint32_t record_bytes, uint32_t next, uint8_t* last,
                PackedCursor* out);
// Packs what is logged first: a header.
void PackFirst(uint32_t word, PackedCursor* out);
// Packs a control record of 8 + `payload`.size() bytes.
void PackControl(std::string_view payload, uint32_t next, PackedCursor* out);

// The log that was packed. DataLoss when it cannot have been one of `log_bytes` bytes.
absl::StatusOr<std::string> UnpackLog(const RecipeTable& recipes, std::string_view tokens,
                                      std::string_view units, size_t log_bytes);

// XXH3 of the units, seeded with that of the tokens.
uint64_t PackedLogHash(std::string_view tokens, std::string_view units);

}  // namespace ttq

#endif  // TTQ_STORE_PACKED_LOG_H_
