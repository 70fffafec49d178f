// SPDX-License-Identifier: MIT

#include "store/format/inputs_frame.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/status_macros.h"
#include "recorder/inputs.h"

namespace ttq {
namespace {

struct FrameHead {
  uint32_t kind, number;         // kOfStream with the kind
  uint32_t bytes, stored_bytes;  // equal: not compressed
  uint64_t hash;                 // of what is stored; see HashOf
};

// What is stored is a piece of the zstd stream that the file's frames of records are, but for the
// first: what a program reads has much in common with what it has read before.
constexpr uint32_t kOfStream = 0x100;
constexpr size_t kMaxFrameBytes = size_t{1} << 30;
// Of zstd. A log is much, and the program waits for what is not written yet. What a program reads
// when it starts is worth more time than what it works on: three times as much for a tenth less. Of
// one that reads much in the time of a block, that would be more than the time it takes.
constexpr int kFrameLevel = 3, kLogLevel = 1, kHastyLevel = 1, kStartLevel = 6;
constexpr uint64_t kStartBytes = 16 << 20, kMaxOfStart = 512 << 10;

// Of the numbers too, that no frame is taken for another.
uint64_t HashOf(const FrameHead& head, std::string_view stored) {
  const uint64_t numbers[] = {head.kind, head.number, head.bytes,
                              HashBytes(stored.data(), stored.size())};
  return HashBytes(numbers, sizeof(numbers));
}

bool HoldsRecords(InputsFrame kind) {
  return kind == InputsFrame::kBlock || kind == InputsFrame::kBlockSoFar;
}

// A piece of the stream may be longer than what it holds: it may end one zstd frame and begin
// another.
size_t MostStoredBytes(uint64_t bytes, bool of_stream) {
  constexpr size_t kFrameEnds = 64;
  return of_stream ? ZSTD_COMPRESSBOUND(bytes) + kFrameEnds : bytes;
}

enum class Way { kTo, kBack };

// Most of what a record holds was in one before it: registers and system calls of the same thread.
// Replaces these, and each record's offset, by the difference from those before, so that they
// compress; or, back, the difference by what it was made of. Leaves records that are cut off.
void Difference(Way way, std::string* block) {
  absl::flat_hash_map<uint64_t, std::string> before;  // by kind and thread
  uint32_t offset_before = 0;
  size_t at = sizeof(TtqInputsBlock);
  while (at + sizeof(TtqInput) <= block->size()) {
    TtqInput input;
    memcpy(&input, block->data() + at, sizeof(input));
    if (BytesOfInput(input) > block->size() - at) return;
    const uint32_t was = input.offset;
    input.offset = way == Way::kTo ? was - offset_before : was + offset_before;
    offset_before = way == Way::kTo ? was : input.offset;
    memcpy(block->data() + at, &input, sizeof(input));
    char* payload = block->data() + at + sizeof(input);
    at += BytesOfInput(input);
    const bool is_call = input.kind == kTtqSyscallEnter || input.kind == kTtqSyscallExit;
    if (!is_call && input.kind != kTtqRegisters && input.kind != kTtqVectors) continue;
    uint32_t thread = 0;  // which they all begin with
    if (input.bytes <= sizeof(thread)) continue;
    memcpy(&thread, payload, sizeof(thread));
    // A call ends with the number and arguments that it began with.
    const uint32_t kind = is_call ? uint32_t{kTtqSyscallEnter} : input.kind;
    std::string& last = before[uint64_t{kind} << 32 | thread];
    std::string other(payload, input.bytes);
    for (size_t i = sizeof(thread); i < std::min(last.size(), other.size()); ++i) {
      other[i] = static_cast<char>(other[i] ^ last[i]);
    }
    // The one of both that is no difference.
    last = way == Way::kTo ? std::string(payload, input.bytes) : other;
    other.copy(payload, other.size());
  }
}

absl::Status Damaged() { return absl::DataLossError("is damaged"); }

// Appends the payload, compressed where that is shorter.
void AppendCompressed(std::string_view payload, int level, std::string* frame) {
  const size_t begin = frame->size();
  frame->resize(begin + payload.size());
  char* stored = frame->data() + begin;
  const size_t n = ZSTD_compress(stored, payload.size(), payload.data(), payload.size(), level);
  if (ZSTD_isError(n) || n >= payload.size()) {
    payload.copy(stored, payload.size());
  } else {
    frame->resize(begin + n);
  }
}

}  // namespace

InputsFrameWriter::InputsFrameWriter() : stream_(nullptr, ZSTD_freeCCtx) {}
InputsFrameWriter::~InputsFrameWriter() = default;

// Appends the next piece of the stream. False: there is no memory for it, and so no more of it.
bool InputsFrameWriter::AddToStream(std::string_view payload, bool in_haste, std::string* frame) {
  if (stream_ == nullptr && !has_no_stream_) stream_.reset(ZSTD_createCCtx());
  has_no_stream_ = has_no_stream_ || stream_ == nullptr;
  if (has_no_stream_) return false;
  const size_t begin = frame->size();
  frame->resize(begin + MostStoredBytes(payload.size(), true));
  ZSTD_outBuffer to = {frame->data(), frame->size(), begin};
  ZSTD_inBuffer none = {nullptr, 0, 0}, from = {payload.data(), payload.size(), 0};
  const bool is_start = stream_bytes_ < kStartBytes && payload.size() <= kMaxOfStart;
  const int level = in_haste ? kHastyLevel : is_start ? kStartLevel : kFrameLevel;
  stream_bytes_ += payload.size();
  // There is room for all of it.
  const auto write = [&](ZSTD_inBuffer* in, ZSTD_EndDirective how) {
    has_no_stream_ = has_no_stream_ || ZSTD_compressStream2(stream_.get(), &to, in, how) != 0;
  };
  if (level_ != level) {  // which only a new frame of zstd's may have
    if (level_ != 0) write(&none, ZSTD_e_end);
    ZSTD_CCtx_setParameter(stream_.get(), ZSTD_c_compressionLevel, level);
    level_ = level;
  }
  write(&from, ZSTD_e_flush);
  frame->resize(has_no_stream_ ? begin : to.pos);
  return !has_no_stream_;
}

std::string InputsFrameWriter::Next(InputsFrame kind, std::string_view payload, bool in_haste) {
  std::string differences;
  if (HoldsRecords(kind)) {
    differences = payload;
    Difference(Way::kTo, &differences);
    payload = differences;
  }
  FrameHead head = {static_cast<uint32_t>(kind), frames_++, static_cast<uint32_t>(payload.size()),
                    0, 0};
  std::string frame(sizeof(head), '\0');
  // A stream takes 6 MB: not for the many processes that have one block.
  if (HoldsRecords(kind) && frames_of_records_++ != 0 && AddToStream(payload, in_haste, &frame)) {
    head.kind |= kOfStream;
  } else {
    AppendCompressed(payload, kind == InputsFrame::kLog ? kLogLevel : kFrameLevel, &frame);
  }
  const std::string_view stored = std::string_view(frame).substr(sizeof(head));
  head.stored_bytes = static_cast<uint32_t>(stored.size());
  head.hash = HashOf(head, stored);
  memcpy(frame.data(), &head, sizeof(head));
  return frame;
}

InputsFrameReader::InputsFrameReader(std::string_view bytes)
    : bytes_(bytes), stream_(nullptr, ZSTD_freeDCtx) {}
InputsFrameReader::~InputsFrameReader() = default;

absl::StatusOr<std::optional<InputsFrameReader::Frame>> InputsFrameReader::Next() {
  FrameHead head;
  const std::string_view rest = bytes_.substr(at_);
  if (rest.size() < sizeof(head)) return std::nullopt;
  memcpy(&head, rest.data(), sizeof(head));
  const auto kind = static_cast<InputsFrame>(head.kind & ~kOfStream);
  const bool of_stream = (head.kind & kOfStream) != 0;
  if (head.bytes > kMaxFrameBytes || head.stored_bytes > MostStoredBytes(head.bytes, of_stream) ||
      (of_stream && !HoldsRecords(kind))) {
    return Damaged();
  }
  if (rest.size() - sizeof(head) < head.stored_bytes) return std::nullopt;
  const Frame frame = {kind,
                       head.number,
                       head.bytes,
                       at_,
                       of_stream,
                       head.hash,
                       rest.substr(sizeof(head), head.stored_bytes)};
  at_ += sizeof(head) + head.stored_bytes;
  return frame;
}

absl::Status InputsFrameReader::TakeFromStream(std::string_view stored, std::string* payload) {
  if (stream_ == nullptr) stream_.reset(ZSTD_createDCtx());
  if (stream_ == nullptr) return absl::ResourceExhaustedError("cannot be read: no memory");
  ZSTD_inBuffer from = {stored.data(), stored.size(), 0};
  ZSTD_outBuffer to = {payload->data(), payload->size(), 0};
  while (from.pos < from.size) {
    const size_t read = from.pos, written = to.pos;
    const size_t n = ZSTD_decompressStream(stream_.get(), &to, &from);
    if (ZSTD_isError(n) || (from.pos == read && to.pos == written)) return Damaged();
  }
  return to.pos == to.size ? absl::OkStatus() : Damaged();
}

absl::StatusOr<std::string> InputsFrameReader::Payload(const Frame& frame) {
  const std::string_view stored = frame.stored;
  const FrameHead head = {static_cast<uint32_t>(frame.kind) | (frame.of_stream ? kOfStream : 0),
                          frame.number, frame.bytes, 0, 0};
  if (HashOf(head, stored) != frame.hash) return Damaged();
  std::string payload;
  if (frame.of_stream) {
    payload.resize(frame.bytes);
    RETURN_IF_ERROR(TakeFromStream(stored, &payload));
  } else if (stored.size() == frame.bytes) {
    payload = stored;
  } else {
    if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != frame.bytes) return Damaged();
    payload.resize(frame.bytes);
    const size_t n = ZSTD_decompress(payload.data(), payload.size(), stored.data(), stored.size());
    if (n != frame.bytes) return Damaged();
  }
  if (HoldsRecords(frame.kind)) Difference(Way::kBack, &payload);
  return payload;
}

}  // namespace ttq
