// SPDX-License-Identifier: MIT
//
// What the logs of inputs consist of; docs/inputs-format.md has the layout.

#ifndef TTQ_STORE_FORMAT_INPUTS_FRAME_H_
#define TTQ_STORE_FORMAT_INPUTS_FRAME_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace ttq {

enum class InputsFrame : uint32_t {  // stored: do not renumber
  kBegin = 1,                        // TtqInputs as far as it is known, the program's arguments
  kBlock = 2,                        // a block of the ring's
  kLogBecause = 3,                   // why a log follows the blocks
  kEnd = 4,                          // TtqInputs
  kLog = 5,                          // a block of the log: TtqBlock, log, recipes
  kBlockSoFar = 6,  // of a block of the ring's what there was, more of which follows
  kIncomplete = 7,  // why no more blocks follow, though more may have happened
};

// Makes the frames of one file, in order.
class InputsFrameWriter {
 public:
  InputsFrameWriter();
  ~InputsFrameWriter();
  InputsFrameWriter(const InputsFrameWriter&) = delete;
  InputsFrameWriter& operator=(const InputsFrameWriter&) = delete;

  // A frame as it is stored: compressed where that pays. `in_haste`: the program waits.
  std::string Next(InputsFrame kind, std::string_view payload, bool in_haste = false);

 private:
  bool AddToStream(std::string_view payload, bool in_haste, std::string* frame);

  std::unique_ptr<ZSTD_CCtx_s, size_t (*)(ZSTD_CCtx_s*)> stream_;
  int level_ = 0;              // of the stream's frame that is open; 0: none is
  uint64_t stream_bytes_ = 0;  // before compression
  bool has_no_stream_ = false;
  uint32_t frames_ = 0, frames_of_records_ = 0;
};

// Takes frames apart, in order.
class InputsFrameReader {
 public:
  // `bytes` of a file, which outlive it, from a frame on.
  explicit InputsFrameReader(std::string_view bytes);
  ~InputsFrameReader();
  InputsFrameReader(const InputsFrameReader&) = delete;
  InputsFrameReader& operator=(const InputsFrameReader&) = delete;

  struct Frame {
    InputsFrame kind;
    uint32_t number, bytes;  // frames before it in the file; of the payload
    uint64_t at;             // in `bytes`
    bool of_stream;
    uint64_t hash;
    std::string_view stored;
  };
  // nullopt: it is cut off, or there is none. DataLoss, of which the message is the end of a
  // sentence about the file, when it is damaged.
  absl::StatusOr<std::optional<Frame>> Next();
  // Of the frame that Next gave last; of block frames it must be asked for each. DataLoss as above.
  absl::StatusOr<std::string> Payload(const Frame& frame);

 private:
  absl::Status TakeFromStream(std::string_view stored, std::string* payload);

  const std::string_view bytes_;
  size_t at_ = 0;
  std::unique_ptr<ZSTD_DCtx_s, size_t (*)(ZSTD_DCtx_s*)> stream_;
};

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_INPUTS_FRAME_H_
