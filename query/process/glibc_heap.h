// SPDX-License-Identifier: MIT
//
// Blocks of glibc's malloc as their own headers in memory tell of them (malloc/malloc.c, "struct
// malloc_chunk"): for processes whose calls of the allocator nobody recorded. Headers that a
// program overwrote lead astray: a chain that does not end where its memory ends is not believed.

#ifndef TTQ_QUERY_PROCESS_GLIBC_HEAP_H_
#define TTQ_QUERY_PROCESS_GLIBC_HEAP_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "store/read/reader.h"

namespace ttq {

struct GlibcBlock {
  Address begin;        // what malloc gave
  uint64_t usable = 0;  // bytes that the program may use
  // Given back and merged into the allocator's lists. A block that is not may still lie in one of
  // its caches, which leave the header as it is.
  bool is_free = false;
  bool is_mapping = false;  // has a mapping to itself
};

// The block whose bytes, or whose header, hold the address. nullopt: it lies in no chain of blocks.
absl::StatusOr<std::optional<GlibcBlock>> FindGlibcBlock(Moment& moment, Address address,
                                                         ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_GLIBC_HEAP_H_
