// SPDX-License-Identifier: MIT

#include "store/walk/packed_log.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "store/walk/recipe.h"

namespace ttq {

namespace {

void Append(const void* bytes, size_t n, uint8_t** to) {
  memcpy(*to, bytes, n);
  *to += n;
}

}  // namespace

void PackRecord(const uint8_t* record, uint32_t record_bytes, uint32_t next, uint8_t* last,
                PackedCursor* out) {
  uint32_t token = 0, count = 0;
  auto wrong = [&](uint8_t* expected, const void* value, uint8_t** to) {
    if (memcmp(expected, value, 4) != 0) {
      memcpy(expected, value, 4);
      Append(value, 4, to);
      token |= 1u << count;
    }
    if (++count < 8) return;
    *out->tokens++ = static_cast<uint8_t>(token);
    token = count = 0;
  };
  uint8_t* expected = last + 4;
  for (uint32_t at = 4; at < record_bytes; at += 4, expected += 4) {
    uint32_t unit = 0;
    memcpy(&unit, record + at, std::min<uint32_t>(record_bytes - at, 4));
    wrong(expected, &unit, &out->units);
  }
  wrong(last, &next, &out->headers);
  if (count > 0) *out->tokens++ = static_cast<uint8_t>(token);
}

void PackFirst(uint32_t word, PackedCursor* out) { Append(&word, 4, &out->headers); }

void PackControl(std::string_view payload, uint32_t next, PackedCursor* out) {
  uint32_t bytes = static_cast<uint32_t>(payload.size());
  Append(&bytes, 4, &out->units);
  Append(payload.data(), payload.size(), &out->units);
  Append(&next, 4, &out->headers);
}

namespace {

class Unpacker {
 public:
  Unpacker(const RecipeTable& recipes, const PackedLog& packed, size_t log_bytes)
      : recipes_(recipes),
        tokens_(packed.tokens),
        headers_(packed.headers),
        units_(packed.units),
        log_(log_bytes, kCopy) {}

  absl::StatusOr<Log> Run() {
    uint32_t word = 0;
    if (log_.size() > 0 && !headers_.Take(&word, 4)) return Damage();
    Expected* from = &start_;
    while (size_ < log_.size()) {
      if (word >> kTtqExitBits == 0) {
        if (!Control(&word)) return Damage();
        from = &start_;
        continue;
      }
      // Most often what followed the last time. To guess lets the processor begin with the next
      // record before it knows the header of this one.
      Expected* e = from->next;
      if (e->word != word) [[unlikely]] {
        e = Find(word);
        if (e == nullptr) return Damage();
        from->next = e;
      }
      if (!Execution(e, &word)) return Damage();
      from = e;
    }
    if (word != 0 || !tokens_.empty() || !headers_.empty() || !units_.empty()) return Damage();
    return std::move(log_);
  }

 private:
  // One of the three sequences, and how far it has been read.
  struct Sequence {
    explicit Sequence(std::string_view bytes)
        : at(reinterpret_cast<const uint8_t*>(bytes.data())), end(at + bytes.size()) {}
    bool empty() const { return at == end; }
    bool Take(void* to, size_t n) {
      if (static_cast<size_t>(end - at) < n) return false;
      memcpy(to, at, n);
      at += n;
      return true;
    }
    const uint8_t *at, *end;
  };
  // What is expected of the next record with one header.
  struct Expected {
    uint32_t word = 0;
    uint32_t bytes = 0;        // of a record
    Expected* next = nullptr;  // that of the record that followed the last time, never null
    bool remembers = true;
    uint8_t* last() { return reinterpret_cast<uint8_t*>(this + 1); }
    size_t last_bytes() const { return ExpectedBytes(bytes); }
  };
  static constexpr size_t kCopy = 16;
  static constexpr size_t kChunkBytes = 256 << 10;

  static absl::Status Damage() { return absl::DataLossError("its log does not unpack"); }

  // Room for `n` more bytes of the log; null when it is longer than it can have been.
  uint8_t* Room(size_t n) {
    if (log_.size() - size_ < n) return nullptr;
    uint8_t* at = reinterpret_cast<uint8_t*>(log_.data()) + size_;
    size_ += n;
    return at;
  }

  bool Control(uint32_t* word) {
    uint32_t bytes;
    if (!units_.Take(&bytes, 4)) return false;
    uint8_t* to = Room(size_t{8} + bytes);
    if (to == nullptr) return false;
    memcpy(to, word, 4);
    memcpy(to + 4, &bytes, 4);
    return units_.Take(to + 8, bytes) && headers_.Take(word, 4);
  }

  bool Execution(Expected* e, uint32_t* word) {
    uint8_t* last = e->last();
    uint8_t* to = Room(e->bytes);
    if (to == nullptr) return false;
    const size_t units = (e->bytes - 4 + 3) / 4;
    for (size_t first = 0; first <= units; first += 8) {
      uint8_t token;
      if (!tokens_.Take(&token, 1)) return false;
      for (unsigned wrong = token; wrong != 0; wrong &= wrong - 1) {
        const size_t unit = first + static_cast<size_t>(std::countr_zero(wrong));
        if (unit < units) {
          if (!units_.Take(last + 4 + 4 * unit, 4)) return false;
        } else if (unit > units || !headers_.Take(last, 4)) {
          return false;
        }
      }
    }
    memcpy(to, word, 4);
    for (size_t i = 4; i < e->bytes; i += kCopy) memcpy(to + i, last + i, kCopy);
    memcpy(word, last, 4);
    if (!e->remembers) memset(last, 0, e->last_bytes());
    return true;
  }

  Expected* Find(uint32_t word) {
    Expected*& expected = all_[word];
    if (expected != nullptr) return expected;
    uint32_t exit = word & ((1 << kTtqExitBits) - 1);
    const Recipe* recipe = recipes_.Find(SuperblockId(word >> kTtqExitBits));
    if (recipe == nullptr) return nullptr;
    bool open = exit == kTtqExitOpen;
    if (!open && exit >= recipe->exit_count()) return nullptr;
    Expected made;
    made.word = word;
    made.bytes = open ? recipe->record_bytes() : recipe->RecordBytesAtExit(exit);
    made.next = &start_;
    made.remembers = !open;
    expected = new (Zeros(sizeof(made) + made.last_bytes())) Expected(made);
    return expected;
  }

  // Memory for an Expected with what follows it.
  void* Zeros(size_t bytes) {
    bytes = (bytes + alignof(Expected) - 1) & ~(alignof(Expected) - 1);
    if (bytes > free_) {
      free_ = std::max(bytes, kChunkBytes);
      chunks_.push_back(std::make_unique<uint8_t[]>(free_));
      room_ = chunks_.back().get();
    }
    void* at = room_;
    room_ += bytes;
    free_ -= bytes;
    return at;
  }

  const RecipeTable& recipes_;
  Sequence tokens_, headers_, units_;
  Log log_;          // with room for a copy to run over
  size_t size_ = 0;  // of what is unpacked
  // Of no record: what follows a control record is not foreseen, and no header is 0.
  Expected start_{.next = &start_};
  absl::flat_hash_map<uint32_t, Expected*> all_;
  std::vector<std::unique_ptr<uint8_t[]>> chunks_;
  uint8_t* room_ = nullptr;  // in the last of them
  size_t free_ = 0;
};

}  // namespace

absl::StatusOr<Log> UnpackLog(const RecipeTable& recipes, const PackedLog& packed,
                              size_t log_bytes) {
  return Unpacker(recipes, packed, log_bytes).Run();
}

uint64_t PackedLogHash(const PackedLog& packed) {
  uint64_t hash = 0;
  for (std::string_view bytes : {packed.tokens, packed.headers, packed.units}) {
    hash = XXH3_64bits_withSeed(bytes.data(), bytes.size(), hash);
  }
  return hash;
}

}  // namespace ttq
