// SPDX-License-Identifier: MIT
//
// What ingest learns from one block by itself: a block starts with all registers, so blocks are
// digested in parallel and in any order. What needs the blocks before it (the content of memory,
// absolute times, thread numbers) is left to the committer, which takes digests in order.

#ifndef TTQ_STORE_WALK_DIGEST_H_
#define TTQ_STORE_WALK_DIGEST_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "store/format/format.h"
#include "store/walk/packed_log.h"
#include "store/walk/walk.h"

namespace ttq {

// What a block has done to one page so far. Noted byte by byte, which is one store per access where
// bits would take a load, shifts and a store. All zero: nothing.
struct PageDelta {
  uint8_t bytes[kPageBytes];          // what was written last, valid where `written_bytes` is set
  uint8_t written_bytes[kPageBytes];  // 0xff for each byte written
  uint8_t read_words[kWordsPerPage];  // 0xff for each word read
  uint64_t page;
};

// What was done to a number of pages, as small as it is: many are only read, of many a few words
// are written, and a PageDelta takes more than two pages.
class PageChanges {
 public:
  static constexpr size_t kPieceBytes = 64;

  class Page {
   public:
    explicit Page(const uint64_t* words) : words_(words) {}
    uint64_t number() const { return words_[0]; }
    // Eight of them: a bit for each word that was read.
    const uint64_t* read() const { return words_ + 1; }
    bool any_written() const { return words_[9] != 0; }
    // Calls f(index, written, bytes) for each piece of the page that was written in: a bit for each
    // of its bytes that was, and those, the others being zero.
    template <class F>
    void ForEachPiece(F f) const {
      const uint64_t* at = words_ + kHeadWords;
      for (uint64_t left = words_[9]; left != 0; left &= left - 1, at += kPieceWords) {
        f(static_cast<uint32_t>(std::countr_zero(left)), at[0],
          reinterpret_cast<const uint8_t*>(at + 1));
      }
    }
    // Calls f(word, written, bytes) for each word of the page that was written in: a bit for each
    // of its bytes that was, and all eight, the others being zero.
    template <class F>
    void ForEachWord(F f) const {
      ForEachPiece([&](uint32_t piece, uint64_t written, const uint8_t* bytes) {
        for (uint32_t i = 0; i < 8; ++i) {
          const uint8_t mask = static_cast<uint8_t>(written >> (8 * i));
          if (mask != 0) f(piece * 8 + i, mask, bytes + 8 * i);
        }
      });
    }
    // Those of two pages are equal when the same was done to the same page.
    std::span<const uint64_t> words() const {
      return {words_, kHeadWords + kPieceWords * static_cast<size_t>(std::popcount(words_[9]))};
    }

   private:
    const uint64_t* words_;
  };

  // Adds what `delta` says and leaves it all zero, but for `bytes`.
  void Add(PageDelta* delta);
  template <class F>
  void ForEach(F f) const {
    for (size_t at = 0; at < words_.size();) {
      Page page(words_.data() + at);
      at += page.words().size();
      f(page);
    }
  }
  bool empty() const { return words_.empty(); }

 private:
  // Of each page its number, what was read, a bit for each piece that was written in, then for each
  // of those which bytes were, and the bytes.
  static constexpr size_t kHeadWords = 10, kPieceWords = 1 + kPieceBytes / 8;
  std::vector<uint64_t> words_;
};

// What one thread works with while it digests a block; see digest.cc.
class DigestScratch;

// Reuses scratches, which are large. Thread-safe.
class ScratchPool {
 public:
  ScratchPool();
  ~ScratchPool();
  // One that last worked with these recipes, if there is one.
  std::unique_ptr<DigestScratch> Take(const RecipeTable& recipes);
  void Give(std::unique_ptr<DigestScratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<DigestScratch>> free_;
};

// A control record and where it stands.
struct ControlItem {
  uint32_t kind = 0;
  uint64_t time = 0;          // relative to the block's start
  uint32_t tid = 0;           // the current thread
  uint64_t last_pc = 0;       // last instruction of the thread it concerns; 0: before this block
  uint64_t instructions = 0;  // kTtqThreadExit: what the thread executed in this block
  std::string payload;
};

struct BlockDigest {
  // In order: the pages touched up to here, then perhaps a control record. Page changes are split
  // where a control record changes memory itself, and when they are many.
  struct Step {
    PageChanges pages;
    bool has_control = false;
    ControlItem control;
  };
  std::vector<Step> steps;
  uint64_t instructions = 0;
  uint64_t writes = 0, reads = 0;
  bool changes_mappings = false;
  std::vector<std::pair<uint32_t, uint32_t>> executions;       // superblock, times
  std::vector<std::pair<uint32_t, uint64_t>> last_pc;          // by tid, for threads that ran
  std::vector<std::pair<uint32_t, uint64_t>> instructions_of;  // by tid
  std::vector<std::pair<uint32_t, ThreadState>> first_states, end_states;  // by tid
  uint32_t first_tid = 0, end_tid = 0;
  // The packed log, its sequences one after the other, in pieces.
  std::vector<std::string> log;
  std::vector<LogPart> log_parts;
  uint32_t log_bytes = 0;  // before it was packed
  uint64_t log_hash = 0;   // PackedLogHash
};

// Whether a block's instructions are only counted (kTtqCounted): all that can be done is to skim
// it.
bool IsCounted(std::string_view log);

enum class Packing {
  kNone,     // leave the log out of the digest
  kPack,     // put it in
  kCompare,  // put it in and see that it can be had again; Internal when not
};

// DataLoss when the log is not what the recipes say. `native`: run the programs as machine code
// where that pays; the digest is the same.
absl::StatusOr<BlockDigest> DigestBlock(const RecipeTable& recipes, std::string_view log,
                                        ScratchPool* pool, Packing packing, bool native = true);

// As much of it as needs no registers: threads and times, and the control records but for those
// that write memory. Its pages, executions, log and end_states are empty. Many times as fast, and
// faster yet where the producer has counted (kTtqCounted of recorder/stream.h).
absl::StatusOr<BlockDigest> SkimBlock(const RecipeTable& recipes, std::string_view log,
                                      ScratchPool* pool);

}  // namespace ttq

#endif  // TTQ_STORE_WALK_DIGEST_H_
