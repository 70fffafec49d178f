// SPDX-License-Identifier: MIT
//
// The Python object that a crash has to do with: the one that an address which took part in it is,
// or lies in, or lay in before it was freed.

#ifndef TTQ_QUERY_SOURCES_FAULT_OBJECT_H_
#define TTQ_QUERY_SOURCES_FAULT_OBJECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/cpython/context.h"
#include "query/outcome.h"
#include "query/process/stack.h"
#include "query/rows/source_plan.h"
#include "query/sources/pointer_chain.h"
#include "query/value.h"

namespace ttq {

// An address that took part in a crash.
struct Suspect {
  uint64_t address = 0;
  bool inside = false;  // it may lie within an object; else it is where an object would begin
  // Which objects are of interest.
  enum class Interest : uint8_t {
    kAny,
    kLiving,
    kHolding,  // alive, and the address is not in the collector's header, which links it
    kFreed,
    kCountedAfter,  // freed, and somebody went on to count its references
    kDangling,      // freed, and somebody went on to use a pointer to it
  } interest = Interest::kAny;
  std::string how;  // what it was to the crash: "rax", "the word that was read"
  // What was read there and is no object: of a list or tuple that is sound otherwise, an item.
  std::optional<uint64_t> broken;
  std::optional<Holder> holder;  // kDangling: of the pointer
};

struct FaultObject {
  Value object;
  bool dangling = false;  // found as such
};

// Of the first suspect that is an object at `t`, or was the last one there before: an object of
// `address, found, type, repr, state` (`alive`, `freed`, `overwritten`), `refcount, created_time,
// created_by, created_in, freed_time, freed_by, freed_in, references`, where `…_by` is a place in
// Python, `…_in` a native function, and `references` a list of owners with the numbers that
// they took and gave back, if those differ. Null when no suspect is an object. Cancelled when
// interrupted. `stack`: of the thread that crashed, at `t`.
absl::StatusOr<FaultObject> ObjectAtFault(const Context& context, const ttq::Stack& stack,
                                          const std::vector<Suspect>& suspects, Time t,
                                          ScanControl* control, Outcome* outcome);

}  // namespace ttq

#endif  // TTQ_QUERY_SOURCES_FAULT_OBJECT_H_
