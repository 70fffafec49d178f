// SPDX-License-Identifier: MIT
//
// Programs (store/recipe.h) as x86-64 machine code, for ingest only: the same effects as walking
// them with a DigestSink, several times faster. See native.cc for how.
//
// A NativeCode belongs to a RecipeTable and is shared by all threads; what changes while code runs
// is in the NativeContext of each. Code reads at most kTtqMaxRecordBytes + kOverrun bytes from
// `limit` on, whatever the log holds.

#ifndef TTQ_STORE_NATIVE_H_
#define TTQ_STORE_NATIVE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <vector>

#include "recorder/stream.h"
#include "store/packed_log.h"

namespace ttq {

struct PageDelta;
struct Program;

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
  uint32_t* counts = nullptr;  // executions by Program::index; longer than that of any `code`
  uint64_t skipped_reads = 0, skipped_writes = 0;  // whose guard was false
  void* sink = nullptr;
  // Accesses that are not plainly within a page of `pages`. They may change `pages`.
  void (*load)(void* sink, uint64_t address, uint64_t size) = nullptr;
  void (*store)(void* sink, uint64_t address, const uint8_t* bytes, uint64_t size) = nullptr;
  // Where the packed log goes, see store/packed_log.h, and what is expected of each program's
  // record.
  PackedCursor packed;
  uint8_t* lasts = nullptr;
  uint64_t padding[2] = {};

  // Pages in use, direct-mapped by page number.
  struct Page {
    uint64_t address;
    PageDelta* delta;
  } pages[1 << kPageBits];
  // By a mask of four units, which of them to put where to have those in front that it names.
  alignas(16) uint8_t gather[16][16];
  // The code of a record by its first word, direct-mapped by CodeSlot.
  struct Code {
    uint32_t word;
    const void* code;
  } code[1 << kCodeBits];

  NativeContext() {
    for (unsigned mask = 0; mask < 16; ++mask) {
      uint8_t* to = gather[mask];
      for (uint8_t unit = 0; unit < 4; ++unit) {
        for (uint8_t byte = 0; byte < 4 && (mask >> unit & 1) != 0; ++byte) *to++ = 4 * unit + byte;
      }
      std::fill(to, std::end(gather[mask]), 0);
    }
  }

  static uint32_t CodeSlot(uint32_t word) { return (word * 0x9e3779b1u) >> (32 - kCodeBits); }
  Page& PageSlot(uint64_t address) { return pages[(address >> 12) & ((1 << kPageBits) - 1)]; }
  // Empty slots hold a page that belongs in another slot.
  void ClearPages() {
    for (uint64_t i = 0; i < std::size(pages); ++i) pages[i] = {(i ^ 1) << 12, nullptr};
  }
};

// Thread-safe.
class NativeCode {
 public:
  static constexpr int kOverrun = 24;

  // Null when the system gives no memory to execute from, or the processor is older than SSSE3:
  // programs are then interpreted.
  static std::shared_ptr<NativeCode> Create();
  ~NativeCode();
  NativeCode(const NativeCode&) = delete;
  NativeCode& operator=(const NativeCode&) = delete;

  // Null when it is too long or memory is used up.
  const void* Compile(const Program& program);

  // What an empty slot of NativeContext::code must hold.
  const void* exit() const { return exit_; }
  void ClearCode(NativeContext* context) const {
    for (auto& c : context->code) c = {0, exit_};
  }

  // Executes records from context->record on until one has no code or lies beyond the limit.
  void Run(NativeContext* context) const { enter_(context); }

 private:
  NativeCode() = default;
  const uint8_t* Append(const std::vector<uint8_t>& code);

  std::mutex mutex_;
  uint8_t* writable_ = nullptr;
  const uint8_t* executable_ = nullptr;
  size_t used_ = 0;
  void (*enter_)(NativeContext*) = nullptr;
  const uint8_t *exit_ = nullptr, *load_ = nullptr, *store_ = nullptr;
};

}  // namespace ttq

#endif  // TTQ_STORE_NATIVE_H_
