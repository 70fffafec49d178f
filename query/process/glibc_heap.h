// SPDX-License-Identifier: MIT
//
// Finds blocks of glibc's malloc by their headers in memory (malloc/malloc.c, "struct
// malloc_chunk"), for processes whose allocator calls were not recorded. A program may have
// overwritten a header, so the search gives up at one that does not fit its mapping or its
// neighbours.

#ifndef TTQ_QUERY_PROCESS_GLIBC_HEAP_H_
#define TTQ_QUERY_PROCESS_GLIBC_HEAP_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "store/read/reader.h"

namespace ttq {

struct GlibcBlock {
  Address begin;        // the address that malloc returned
  uint64_t usable = 0;  // bytes that the program may use
  // Freed and in the allocator's lists. A block without this flag may still be in one of the
  // allocator's caches, which leave the header unchanged.
  bool is_free = false;
  bool is_mapping = false;  // has its own mmap
};

// Returns the block whose bytes or header hold the address; nullopt: no chain of blocks does.
// Cancelled when `control`, which may be null, says so.
absl::StatusOr<std::optional<GlibcBlock>> FindGlibcBlock(Moment& moment, Address address,
                                                         ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_GLIBC_HEAP_H_
