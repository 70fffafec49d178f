// SPDX-License-Identifier: MIT
//
// A pointer, of those that led to a fault, that was not good any more when it was used, though
// where it led to was memory in use:
//
//   - dangling: the block that it was stored for had been freed, and another one may have been
//     given its memory since; or the function had returned whose local variable it was to;
//   - uninitialised: it was read from a word that was written before its block was handed out, or
//     before the function was called whose local variable it is.
//
// Of memory only blocks of the allocator are judged, by HeapIndex. One that realloc left in its
// place goes on, and what realloc and calloc give is initialised.

#ifndef TTQ_QUERY_SOURCES_STALE_POINTER_H_
#define TTQ_QUERY_SOURCES_STALE_POINTER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/process/heap.h"
#include "query/process/origin.h"
#include "query/sources/pointer_chain.h"
#include "store/read/reader.h"

namespace ttq {

struct StalePointer {
  enum class Kind : uint8_t { kDangling, kUninitialised };
  Kind kind = Kind::kDangling;
  uint64_t value = 0;
  std::optional<Holder> holder;  // nullopt: registers and the stack had it all along
  // Of a dangling pointer the block that it was to, else the one that the word is in. Its index
  // owns it. Null: that was a local variable of `function`.
  const HeapLife* block = nullptr;
  std::string function;
};

// The outermost of `pointers` that is stale; nullopt: none is, as far as the recording tells.
// `fault`: when the innermost was used. `control` may be null.
absl::StatusOr<std::optional<StalePointer>> FindStalePointer(const Context& context,
                                                             OriginTracer& tracer,
                                                             const std::vector<Pointer>& pointers,
                                                             Time fault, ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_STALE_POINTER_H_
