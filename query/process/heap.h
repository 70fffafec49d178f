// SPDX-License-Identifier: MIT
//
// The heap of a process over time: every block that malloc, operator new and their relatives
// allocated, when and for which caller, and when it was freed.
//
// The symbol tables name the allocator's functions and the store finds their calls
// (Process::OuterCalls): where operator new calls malloc, the index has one allocation, by operator
// new, with the caller of operator new. It knows nothing of the allocator's data structures, so any
// malloc will do.
//
// One walk over the recording makes an index, which is kept in a file in the recording's directory
// if that is writable. Immutable once made; thread-safe.

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

// Returns the allocator functions of all modules that were ever loaded.
absl::StatusOr<std::vector<HeapFunction>> FindAllocator(const ProcessNames& names);

// One allocation, from malloc to free. Plain data: stored in files byte by byte.
struct HeapLife {
  Address begin;
  uint64_t size = 0;         // as requested
  Time allocated, returned;  // the allocating call's first instruction; the first after its return
  Time freed = kTimeMax;     // the freeing call's first instruction; kTimeMax: never freed
  // Return addresses of the two calls; 0: unknown.
  Address allocated_from, freed_from;
  ThreadNo allocated_thread, freed_thread;
  uint16_t allocated_with = 0, freed_with = 0;  // indices into functions()
  uint32_t reserved = 0;

  // At least one, so that a block of no bytes has an address too.
  uint64_t extent() const { return size == 0 ? 1 : size; }
  bool IsAlive(Time t) const { return allocated < t && t <= freed; }
};

// A free of an address at which no block was allocated.
struct BadFree {
  Time time;
  Address pointer, from;
  ThreadNo thread;
  uint16_t with = 0, reserved = 0;
};

class HeapIndex {
 public:
  // Reads the index's file, or walks the recording and writes the file. Cancelled when interrupted;
  // ResourceExhausted above 20 million allocations.
  static absl::StatusOr<std::unique_ptr<const HeapIndex>> Make(const ProcessNames& names,
                                                               ScanControl* control);

  const std::vector<HeapFunction>& functions() const { return functions_; }
  // Sorted by address, then by time.
  absl::Span<const HeapLife> lives() const { return lives_; }
  absl::Span<const BadFree> bad_frees() const { return bad_frees_; }
  // What every answer must say about the index's limits, or "".
  const std::string& note() const { return note_; }

  struct Around {
    const HeapLife* inside = nullptr;   // the last block allocated before t that holds the address
    const HeapLife* earlier = nullptr;  // the one before that at this address
    uint64_t lives = 0;                 // how many blocks held it before t, `inside` included
    // The nearest blocks alive at t that end at or before the address, and that begin after it.
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
  std::vector<uint64_t> reach_;  // highest end of the lives up to this one
  std::string note_;
};

// Whether a function of this name may be an allocator's, as it looks: "malloc", "pymalloc_alloc",
// "operator delete", and not "std::vector<int, std::allocator<int> >::size".
bool MayBeAllocator(std::string_view function);
// Whether a module of this base name is glibc's C library.
bool IsGlibc(std::string_view module);

// The caller of a function, from the call's return address: "make_node (list.c:12)". Inlined
// functions of the standard library are skipped. Empty: unknown.
std::string DescribeCaller(const ProcessNames& names, Address return_address, Time t);

// Bytes of a glibc block that the program may use, from the word before the block at t or, if it
// was freed earlier, at its free. nullopt: another allocator's block, an overwritten or unknown
// word, or t is before the allocation returned.
std::optional<uint64_t> UsableSize(const ProcessNames& names, const HeapIndex& heap,
                                   const HeapLife& life, Time t);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_HEAP_H_
