// SPDX-License-Identifier: MIT
//
// What ingest learns from one block by itself: a block starts with all registers, so blocks are
// digested in parallel and in any order. What needs the blocks before it (the content of memory,
// absolute times, thread numbers) is left to the committer, which takes digests in order.

#ifndef TTQ_STORE_DIGEST_H_
#define TTQ_STORE_DIGEST_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "store/format.h"
#include "store/walk.h"

namespace ttq {

// What happened to one page: which of its bytes were written and what they are now; which words
// were read. While a block is digested this is noted byte by byte, which is one store per access
// where bits would take a load, shifts and a store; Seal then makes the bits.
struct PageDelta {
  uint64_t page = 0;
  uint64_t written[64] = {};  // one bit a byte
  uint64_t read[8] = {};      // one bit a word
  bool any_written = false;
  uint8_t bytes[kPageBytes];  // valid where `written` is set

  uint8_t written_bytes[kPageBytes] = {};  // 0xff for each byte written since the last Seal
  uint8_t read_words[kWordsPerPage] = {};  // 0xff for each word read since

  // Turns the byte maps into bits and clears them.
  void Seal();
};

// What one thread works with while it digests a block; see digest.cc.
class DigestScratch;

// Reuses deltas and scratches, which are large. Thread-safe.
class DeltaPool {
 public:
  DeltaPool();
  ~DeltaPool();
  std::unique_ptr<PageDelta> Take(uint64_t page);
  void Give(std::vector<std::unique_ptr<PageDelta>> deltas);
  // One that last worked with these recipes, if there is one.
  std::unique_ptr<DigestScratch> TakeScratch(const RecipeTable& recipes);
  void Give(std::unique_ptr<DigestScratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PageDelta>> free_;
  std::vector<std::unique_ptr<DigestScratch>> free_scratches_;
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
  // In order: the pages touched up to here, then perhaps a control record. Page changes are only
  // split where a control record changes memory itself.
  struct Step {
    std::vector<std::unique_ptr<PageDelta>> pages;
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
  // The log as store/packed_log.h has it: each a zstd frame, with the bytes in it.
  std::string tokens, units;
  uint32_t token_bytes = 0, unit_bytes = 0;
  uint32_t log_bytes = 0;
  uint64_t log_hash = 0;  // PackedLogHash
};

enum class Packing {
  kNone,     // leave the log out of the digest
  kPack,     // put it in
  kCompare,  // put it in and see that it can be had again; Internal when not
};

// DataLoss when the log is not what the recipes say. `native`: run the programs as machine code
// where that pays; the digest is the same.
absl::StatusOr<BlockDigest> DigestBlock(const RecipeTable& recipes, std::string_view log,
                                        DeltaPool* pool, Packing packing, bool native = true);

}  // namespace ttq

#endif  // TTQ_STORE_DIGEST_H_
