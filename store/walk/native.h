// SPDX-License-Identifier: MIT
//
// Programs (store/walk/recipe.h) as x86-64 machine code: the same effects as walking them, several
// times faster, for ingest (DigestBlock) and for questions (NativeWalk, store/read/track.h). See
// native.cc for how.
//
// A NativeCode belongs to a RecipeTable and is shared by all threads; what changes while code runs
// is in the NativeContext of each. Code reads at most kReach bytes from `limit` on, whatever the
// log holds.

#ifndef TTQ_STORE_WALK_NATIVE_H_
#define TTQ_STORE_WALK_NATIVE_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "recorder/stream.h"
#include "store/walk/packed_log.h"
#include "store/walk/recipe.h"
#include "store/walk/walk.h"

namespace ttq {

// What running code reads and changes. Code addresses it by offsets: standard layout, and what
// comes before `pages` within 128 bytes of it.
struct NativeContext {
  static constexpr uint32_t kPageBits = 10, kCodeBits = 14;
  static constexpr uint64_t kPageMask = 0xfff;

  uint64_t* values = nullptr;       // the walker's
  const uint8_t* record = nullptr;  // in: where to start; out: the first record not executed
  const uint8_t* last = nullptr;    // the last record executed; left alone when there was none
  const uint8_t* limit = nullptr;   // records beyond it are not begun
  uint64_t time = 0;
  uint64_t until = 0;                              // not to digest: no record reaches beyond it
  uint64_t skipped_reads = 0, skipped_writes = 0;  // to digest: whose guard was false
  void* sink = nullptr;
  // Accesses that are not plainly within a page of `pages`. They may change `pages`. For memory,
  // there are stores only, also those to words that `watched` names; `record` is then the one that
  // is being executed, `time` when it began.
  void (*load)(void* sink, uint64_t address, uint64_t size) = nullptr;
  void (*store)(void* sink, uint64_t address, const uint8_t* bytes, uint64_t size) = nullptr;
  // To digest: where the packed log goes, see store/walk/packed_log.h, and each program's
  // ProgramState.
  PackedCursor packed;
  union {
    uint8_t* states = nullptr;
    const uint8_t* watched;  // for memory: see WordSet::filter
  };

  // Pages in use, direct-mapped by page number. `content` begins as PageContent does; to digest, it
  // is a PageDelta.
  struct PageContent {
    uint8_t bytes[kPageMask + 1], written[kPageMask + 1];  // `written`: 0xff where a byte was
  };
  struct Page {
    uint64_t address;
    void* content;
  } pages[1 << kPageBits];
  // By a mask of four units, which of them to put where to have those in front that it names.
  alignas(16) uint8_t gather[16][16];
  // The code of a record by its first word, direct-mapped by CodeSlot.
  uint32_t code_word[1 << kCodeBits];
  const void* code[1 << kCodeBits];
  uint64_t instruction = 0;  // for memory: which of the record's instructions `store` is told of
  // For registers: the last store, when it was one of eight bytes, else ~0.
  uint64_t stored_at = ~uint64_t{0}, stored = 0;
  VectorState vectors;  // not to digest: of the thread that runs

  NativeContext() {
    for (unsigned mask = 0; mask < 16; ++mask) {
      uint8_t* to = gather[mask];
      for (uint8_t unit = 0; unit < 4; ++unit) {
        for (uint8_t byte = 0; byte < 4 && (mask >> unit & 1) != 0; ++byte) *to++ = 4 * unit + byte;
      }
      std::fill(to, std::end(gather[mask]), 0);
    }
  }

  // The first word of a record.
  static uint32_t WordOf(const uint8_t* record) {
    uint32_t word;
    memcpy(&word, record, 4);
    return word;
  }
  static uint32_t CodeSlot(uint32_t word) { return (word * 0x9e3779b1u) >> (32 - kCodeBits); }
  // REQUIRES: it is known.
  const void* CodeOf(const uint8_t* record) const { return code[CodeSlot(WordOf(record))]; }
  Page& PageSlot(uint64_t address) { return pages[(address >> 12) & ((1 << kPageBits) - 1)]; }
  // Empty slots hold a page that belongs in another slot.
  void ClearPages() {
    for (uint64_t i = 0; i < std::size(pages); ++i) pages[i] = {(i ^ 1) << 12, nullptr};
  }

  // Whether `code` has that of a record, now that it was looked for. It is not taken in where
  // wanted(program, id) is false.
  template <class F>
  bool KnowsCode(const uint8_t* record, NativeUse use, Walker* walker, F wanted) {
    const uint32_t word = WordOf(record);
    const uint32_t slot = CodeSlot(word);
    uint32_t id = word >> kTtqExitBits, exit = word & ((1 << kTtqExitBits) - 1);
    if (id == 0 || exit == kTtqExitOpen) return false;
    if (code_word[slot] == word) return true;
    const Program* program = walker->ProgramOf(word);
    if (program == nullptr) return false;
    const void* made = std::atomic_ref(program->native[static_cast<size_t>(use)].code)
                           .load(std::memory_order_acquire);
    if (made == nullptr || !wanted(*program, id)) return false;
    code_word[slot] = word;
    code[slot] = made;
    return true;
  }
};

// Thread-safe.
class NativeCode {
 public:
  // The longest record that there is code for. Almost all are shorter, and so near the end of a log
  // all are interpreted.
  static constexpr uint32_t kLongest = 1024;
  // No code reads further than this from its record's start: the longest and what is read of the
  // next with it.
  static constexpr ptrdiff_t kReach = kLongest + 24;

  // Null when the system gives no memory to execute from, or the processor is older than SSSE3:
  // programs are then interpreted.
  static std::shared_ptr<NativeCode> Create(NativeUse use);
  ~NativeCode();
  NativeCode(const NativeCode&) = delete;
  NativeCode& operator=(const NativeCode&) = delete;

  // To be called when a program was interpreted: makes its code when that is worth it.
  void Interpreted(const Program& program);

  void ClearCode(NativeContext* context) const {
    std::fill_n(context->code_word, std::size(context->code_word), 0);
    std::fill_n(context->code, std::size(context->code), exit_);
  }
  // Takes a superblock's code out again.
  void DropCode(uint32_t id, NativeContext* context) const {
    for (uint32_t exit = 0; exit <= kTtqMaxSideExits; ++exit) {
      const uint32_t slot = NativeContext::CodeSlot(id << kTtqExitBits | exit);
      if (context->code_word[slot] >> kTtqExitBits != id) continue;
      context->code_word[slot] = 0;
      context->code[slot] = exit_;
    }
  }

  // Code for records of which nothing is known: Run returns.
  const void* exit() const { return exit_; }
  // Executes records from context->record on until one has no code, lies beyond the limit or would
  // reach beyond `until`.
  void Run(NativeContext* context) const { enter_(context); }

 private:
  explicit NativeCode(NativeUse use) : use_(use) {}
  // Null when it is too long or memory is used up.
  const void* Compile(const Program& program);
  const uint8_t* Append(const std::vector<uint8_t>& code);

  const NativeUse use_;
  std::mutex mutex_;
  uint8_t* writable_ = nullptr;
  const uint8_t* executable_ = nullptr;
  size_t used_ = 0;
  void (*enter_)(NativeContext*) = nullptr;
  const uint8_t *exit_ = nullptr, *load_ = nullptr, *store_ = nullptr;
};

}  // namespace ttq

#endif  // TTQ_STORE_WALK_NATIVE_H_
