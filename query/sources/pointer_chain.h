// SPDX-License-Identifier: MIT
//
// The pointers that led to a fault: the one that was used, the one through which that was read, and
// so on to the variable or the list that it all began with.

#ifndef TTQ_QUERY_SOURCES_POINTER_CHAIN_H_
#define TTQ_QUERY_SOURCES_POINTER_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/types.h"
#include "query/cpython/context.h"
#include "query/process/origin.h"
#include "store/read/reader.h"

namespace ttq {

// Whether the address is where the thread's stack, if it is of that, is not in use: below the stack
// pointer and the red zone.
inline bool IsBelowStack(Address address, const Registers& registers) {
  constexpr uint64_t kRedZone = 128;
  return address.v + kRedZone < registers.gpr[kRsp];
}

// A word that kept a value, on no thread's stack that is in use, from when it was stored to when it
// was read.
struct Holder {
  Address word;
  Time stored, read;
  std::optional<ValueLocation> source;  // what was stored; nullopt: it was made there
};

// The last one that the value at `place` went through; nullopt: none, as far as it was looked for.
absl::StatusOr<std::optional<Holder>> HolderOf(const Context& context, OriginTracer& tracer,
                                               const ValueLocation& place, ScanControl* control);

struct Pointer {
  ValueLocation place;  // where it was when it was used
  uint64_t value = 0;
  std::optional<Holder> holder;
};

// The pointer through which the instruction at `t` read memory; nullopt: there is none, or it is
// the stack pointer.
absl::StatusOr<std::optional<Pointer>> PointerUsedAt(const Context& context, OriginTracer& tracer,
                                                     ThreadNo thread, Time t, ScanControl* control);
// The value at `place`, then the pointer through which its holder was read, and so on.
absl::StatusOr<std::vector<Pointer>> PointersTo(const Context& context, OriginTracer& tracer,
                                                const ValueLocation& place, ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_POINTER_CHAIN_H_
