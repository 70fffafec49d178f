// SPDX-License-Identifier: MIT

#include "store/packed_log.h"

#include <xxhash.h>

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace ttq {

namespace {

void Append(const void* bytes, size_t n, PackedCursor* out) {
  memcpy(out->units, bytes, n);
  out->units += n;
}

}  // namespace

void PackRecord(const uint8_t* record, uint32_t record_bytes, uint32_t next, uint8_t* last,
                PackedCursor* out) {
  uint32_t token = 0, count = 0;
  auto unit = [&](const uint8_t* value) {
    bool wrong = memcmp(last, value, 4) != 0;
    if (wrong) {
      memcpy(last, value, 4);
      Append(value, 4, out);
    }
    last += 4;
    token |= static_cast<uint32_t>(wrong) << count;
    if (++count < 8) return;
    *out->tokens++ = static_cast<uint8_t>(token);
    token = count = 0;
  };
  const uint8_t *at = record + 4, *end = record + record_bytes;
  for (; end - at >= 4; at += 4) unit(at);
  uint8_t rest[8] = {};
  memcpy(rest, at, end - at);
  memcpy(rest + (end - at), &next, 4);
  unit(rest);
  if (at < end) unit(rest + 4);
  if (count > 0) *out->tokens++ = static_cast<uint8_t>(token);
}

void PackFirst(uint32_t word, PackedCursor* out) { Append(&word, 4, out); }

void PackControl(std::string_view payload, uint32_t next, PackedCursor* out) {
  uint32_t bytes = static_cast<uint32_t>(payload.size());
  Append(&bytes, 4, out);
  Append(payload.data(), payload.size(), out);
  Append(&next, 4, out);
}

namespace {

class Unpacker {
 public:
  Unpacker(const RecipeTable& recipes, std::string_view tokens, std::string_view units,
           size_t log_bytes)
      : recipes_(recipes),
        token_(reinterpret_cast<const uint8_t*>(tokens.data())),
        tokens_end_(token_ + tokens.size()),
        unit_(reinterpret_cast<const uint8_t*>(units.data())),
        units_end_(unit_ + units.size()),
        log_(log_bytes + kCopy, '\0'),
        log_bytes_(log_bytes),
        cache_(kCacheSize, nullptr) {}

  absl::StatusOr<std::string> Run() {
    uint32_t word = 0;
    if (log_bytes_ > 0 && !Take(&word, 4)) return Damage();
    while (size_ < log_bytes_) {
      if (!(word >> kTtqExitBits == 0 ? Control(&word) : Execution(&word))) return Damage();
    }
    if (word != 0 || token_ != tokens_end_ || unit_ != units_end_) return Damage();
    log_.resize(log_bytes_);
    return std::move(log_);
  }

 private:
  // What is expected of the next record with one header.
  struct Expected {
    uint32_t word = 0;
    bool remembers = true;
    size_t bytes = 0;           // of a record
    std::vector<uint8_t> last;  // as PackRecord's; then room for a copy to run over
  };
  static constexpr size_t kCopy = 16;

  static absl::Status Damage() { return absl::DataLossError("its log does not unpack"); }

  bool Take(void* to, size_t n) {
    if (static_cast<size_t>(units_end_ - unit_) < n) return false;
    memcpy(to, unit_, n);
    unit_ += n;
    return true;
  }

  // Room for `n` more bytes of the log; null when it is longer than it can have been.
  uint8_t* Room(size_t n) {
    if (log_bytes_ - size_ < n) return nullptr;
    uint8_t* at = reinterpret_cast<uint8_t*>(log_.data()) + size_;
    size_ += n;
    return at;
  }

  bool Control(uint32_t* word) {
    uint32_t bytes;
    if (!Take(&bytes, 4)) return false;
    uint8_t* to = Room(size_t{8} + bytes);
    if (to == nullptr) return false;
    memcpy(to, word, 4);
    memcpy(to + 4, &bytes, 4);
    return Take(to + 8, bytes) && Take(word, 4);
  }

  bool Execution(uint32_t* word) {
    Expected*& cached = cache_[(*word * 0x9e3779b1u) >> (32 - kCacheBits)];
    if (cached == nullptr || cached->word != *word) [[unlikely]] {
      Expected* found = Find(*word);
      if (found == nullptr) return false;
      cached = found;
    }
    Expected& e = *cached;
    uint8_t* last = e.last.data();
    uint8_t* to = Room(e.bytes);
    size_t count = (e.bytes + 3) / 4, token_bytes = (count + 7) / 8;
    if (to == nullptr || static_cast<size_t>(tokens_end_ - token_) < token_bytes) return false;
    for (size_t first = 0; first < count; first += 8) {
      for (unsigned wrong = *token_++; wrong != 0; wrong &= wrong - 1) {
        size_t unit = first + static_cast<size_t>(std::countr_zero(wrong));
        if (unit >= count || !Take(last + 4 * unit, 4)) return false;
      }
    }
    memcpy(to, word, 4);
    for (size_t i = 0; i < e.bytes - 4; i += kCopy) memcpy(to + 4 + i, last + i, kCopy);
    memcpy(word, last + e.bytes - 4, 4);
    if (!e.remembers) memset(last, 0, e.last.size());
    return true;
  }

  Expected* Find(uint32_t word) {
    std::unique_ptr<Expected>& expected = all_[word];
    if (expected != nullptr) return expected.get();
    uint32_t exit = word & ((1 << kTtqExitBits) - 1);
    const Recipe* recipe = recipes_.Find(SuperblockId(word >> kTtqExitBits));
    if (recipe == nullptr) return nullptr;
    bool open = exit == kTtqExitOpen;
    if (!open && exit >= recipe->exit_count()) return nullptr;
    expected = std::make_unique<Expected>();
    expected->word = word;
    expected->remembers = !open;
    expected->bytes = open ? recipe->record_bytes() : recipe->RecordBytesAtExit(exit);
    expected->last.resize(expected->bytes + kCopy);
    return expected.get();
  }

  static constexpr uint32_t kCacheBits = 13;
  static constexpr uint32_t kCacheSize = 1 << kCacheBits;

  const RecipeTable& recipes_;
  const uint8_t *token_, *tokens_end_, *unit_, *units_end_;
  std::string log_;  // with room for a copy to run over
  const size_t log_bytes_;
  size_t size_ = 0;  // of what is unpacked
  std::vector<Expected*> cache_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Expected>> all_;
};

}  // namespace

absl::StatusOr<std::string> UnpackLog(const RecipeTable& recipes, std::string_view tokens,
                                      std::string_view units, size_t log_bytes) {
  return Unpacker(recipes, tokens, units, log_bytes).Run();
}

uint64_t PackedLogHash(std::string_view tokens, std::string_view units) {
  return XXH3_64bits_withSeed(units.data(), units.size(),
                              XXH3_64bits(tokens.data(), tokens.size()));
}

}  // namespace ttq
