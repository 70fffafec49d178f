// SPDX-License-Identifier: MIT
//
// How logs are stored. Most of a log can be predicted from what came before: the same loops run
// again, and load mostly the same values. So a log becomes three sequences, each of which is
// compressed if that pays:
//
//   tokens   flags for each execution: which of its units, and whether the header after it,
//            differ from the prediction
//   headers  those headers
//   units    those units
//
// What an execution adds to the log is taken to be its slots and the header of the record after it.
// The slots are cut into units of four bytes; a last one that is shorter is filled up with zeros. A
// unit, or a header, is expected to be what it was the last time that this execution's own header
// was seen in this block, and zero the first time. The flags of an execution are in the order of
// its units, the first in the lowest bit of the first byte, then that of the header; the last byte
// is filled up with zeros.
//
// Of a record that a fault left open, and of a control record, nothing is expected and nothing
// remembered. A control record has no flags: its length and its payload are in `units`, the header
// that follows is in `headers`, as is the log's first. The header after the last record counts as
// zero.
//
// Headers come from a few, and compress to little; units may be random. Hence they are apart.
//
// Machine code does what PackRecord does for most records; see store/walk/native.cc.

#ifndef TTQ_STORE_WALK_PACKED_LOG_H_
#define TTQ_STORE_WALK_PACKED_LOG_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"

namespace ttq {

class RecipeTable;

// Where packing has come to. Room for a log of n bytes is PackedRoom(n) bytes of each.
struct PackedCursor {
  uint8_t* tokens = nullptr;
  uint8_t* headers = nullptr;
  uint8_t* units = nullptr;
};
inline size_t PackedRoom(size_t log_bytes) { return 2 * log_bytes + 64; }

// What is expected after a record of so many bytes: the header, then its units, with room for whole
// vectors of four.
inline constexpr uint32_t ExpectedBytes(uint32_t record_bytes) {
  return 4 + ((record_bytes - 4 + 15) & ~uint32_t{15});
}

// Packs one execution. `last`: what is expected, ExpectedBytes; brought up to date. `next`: the
// header that follows.
void PackRecord(const uint8_t* record, uint32_t record_bytes, uint32_t next, uint8_t* last,
                PackedCursor* out);
// Packs what is logged first: a header.
void PackFirst(uint32_t word, PackedCursor* out);
// Packs a control record of 8 + `payload`.size() bytes.
void PackControl(std::string_view payload, uint32_t next, PackedCursor* out);

struct PackedLog {
  std::string_view tokens, headers, units;
};

// How each of them is stored: as it is where `stored_bytes` are as many, else as a zstd frame.
struct LogPart {
  uint32_t bytes = 0, stored_bytes = 0;
};

// A block's log in memory.
class Log {
 public:
  Log() = default;
  // With room for `slack` more bytes behind it. What it holds is whatever was there.
  Log(size_t bytes, size_t slack)
      : bytes_(std::make_unique_for_overwrite<char[]>(bytes + slack)), size_(bytes) {}
  char* data() { return bytes_.get(); }
  const char* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  operator std::string_view() const { return {bytes_.get(), size_}; }  // NOLINT

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_ = 0;
};

// The log that was packed. DataLoss when it cannot have been one of `log_bytes` bytes.
absl::StatusOr<Log> UnpackLog(const RecipeTable& recipes, const PackedLog& packed,
                              size_t log_bytes);

// XXH3 of the units, seeded with that of the headers, seeded with that of the tokens.
uint64_t PackedLogHash(const PackedLog& packed);

}  // namespace ttq

#endif  // TTQ_STORE_WALK_PACKED_LOG_H_
