// SPDX-License-Identifier: MIT
//
// The heap of a process through time: every block that malloc, operator new and their relatives
// gave out, when and for whom, and when it was given back. Also what an address is: which block,
// stack, module or mapping it lies in.
//
// The allocator is found by its names in the symbol tables, its calls through the store
// (Process::OuterCalls): where operator new calls malloc there is one allocation, by operator new,
// and whoever called that is its caller. Nothing is known of the inside of the allocator, so any
// malloc will do.
//
// An index is made by one walk over the recording and kept in a file of the recording's directory
// where that can be written. Immutable once made; thread-safe.

#ifndef TTQ_QUERY_PROCESS_HEAP_H_
#define TTQ_QUERY_PROCESS_HEAP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "store/read/reader.h"

namespace ttq {

class ProcessNames;

// What a call of the allocator does.
enum class HeapVerb : uint8_t {
  kMalloc = 0,         // in a file: do not renumber. (size) → block
  kCalloc = 1,         // (count, size) → block
  kRealloc = 2,        // (block, size) → block
  kReallocArray = 3,   // (block, count, size) → block
  kAligned = 4,        // (alignment, size) → block
  kPosixMemalign = 5,  // (&block, alignment, size) → status
  kFree = 6,           // (block)
};

struct HeapFunction {
  Address entry;
  HeapVerb verb = HeapVerb::kMalloc;
  std::string name;    // "operator new"
  std::string module;  // base name
};

// Every function of an allocator in any module that was ever loaded.
absl::StatusOr<std::vector<HeapFunction>> FindAllocator(const ProcessNames& names);

// One life of one block. Plain data: stored in files as it is.
struct HeapLife {
  Address begin;
  uint64_t size = 0;         // as asked for
  Time allocated, returned;  // the call's first instruction, and the first after it
  Time freed = kTimeMax;     // the call's first instruction
  // Where the calls came back to, 0: unknown.
  Address allocated_from, freed_from;
  ThreadNo allocated_thread, freed_thread;
  uint16_t allocated_with = 0, freed_with = 0;  // into functions()
  uint32_t reserved = 0;

  // At least one, so that a block of no bytes has an address too.
  uint64_t extent() const { return size == 0 ? 1 : size; }
  bool IsAlive(Time t) const { return allocated < t && t <= freed; }
};

// A block given back that was not out.
struct BadFree {
  Time time;
  Address pointer, from;
  ThreadNo thread;
  uint16_t with = 0, reserved = 0;
};

class HeapIndex {
 public:
  // Reads the file, or walks the recording and writes it. Cancelled when interrupted.
  static absl::StatusOr<std::unique_ptr<const HeapIndex>> Make(const ProcessNames& names,
                                                               ScanControl* control);

  const std::vector<HeapFunction>& functions() const { return functions_; }
  // By address, then by time.
  absl::Span<const HeapLife> lives() const { return lives_; }
  absl::Span<const BadFree> bad_frees() const { return bad_frees_; }
  // Reservations to pass on with every answer, or "".
  const std::string& note() const { return note_; }

  struct Around {
    const HeapLife* inside = nullptr;  // the block allocated last, before t, that holds the address
    const HeapLife* earlier = nullptr;  // the one before that at this address
    uint64_t lives = 0;                 // how many blocks held it before t, with `inside`
    // Blocks alive at t that end at or before the address, and begin after it; the nearest.
    const HeapLife* below = nullptr;
    const HeapLife* above = nullptr;
  };
  Around Find(Address address, Time t) const;

 private:
  HeapIndex() = default;
  absl::Status Build(const ProcessNames& names, ScanControl* control);
  void Finish();
  bool ReadFile(const std::string& path, const ProcessInfo& info);
  void WriteFile(const std::string& path, const ProcessInfo& info) const;

  std::vector<HeapFunction> functions_;
  std::vector<HeapLife> lives_;
  std::vector<BadFree> bad_frees_;
  std::vector<uint64_t> reach_;  // how far the lives up to this one reach
  std::string note_;
};

// Where a call came from: "make_node (list.c:12)"; `return_address` is what follows the call.
// Functions of the standard library that were inlined into others are left out. Empty: unknown.
std::string DescribeCaller(const ProcessNames& names, Address return_address, Time t);

// Bytes that the caller of a block of glibc may use, from the word before the block as of t, when
// it has not been given back by then. Nullopt: another allocator's, or overwritten.
std::optional<uint64_t> UsableSize(const ProcessNames& names, const HeapIndex& heap,
                                   const HeapLife& life, Time t);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_HEAP_H_
