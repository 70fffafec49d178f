// SPDX-License-Identifier: MIT
//
// The word that a check of a program's own memory failed at: the stack guard that a function found
// changed before it returned, or what the allocator keeps between blocks and in freed ones.
//
// Neither knows who wrote there; the recording does. What the failing function read last is known,
// and so is the last write to each word that it read. A guard is the word that once had the guard's
// value; of the allocator's words the one at fault is one that something else wrote last, while it
// was in no block that was allocated. So this knows nothing of how any allocator works.
//
// Thread-safe: functions without state.

#ifndef TTQ_QUERY_PROCESS_FAILED_CHECK_H_
#define TTQ_QUERY_PROCESS_FAILED_CHECK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "query/process/heap.h"
#include "query/process/process_names.h"
#include "query/process/stack.h"
#include "store/read/reader.h"

namespace ttq {

struct FailedCheck {
  Address word;          // of 8 bytes
  Time read;             // when the check read it
  Time written;          // when it was last written before
  std::string function;  // whose guard it is; empty: the allocator's word
};

// The guard because of which the stack's innermost frames are in __stack_chk_fail; nullopt: they
// are not, or the recording does not tell.
absl::StatusOr<std::optional<FailedCheck>> FindOverwrittenGuard(const ProcessNames& names,
                                                                const Stack& stack);

struct AllocatorCall {
  ThreadNo thread;
  Time begin, end;  // it ran on after `end`, the stack's time
};

// The innermost call of an allocator's function that is on the stack, with those of the allocator's
// own that led to it: operator delete that calls free is one. nullopt: there is none.
absl::StatusOr<std::optional<AllocatorCall>> FindAllocatorCall(const ProcessNames& names,
                                                               const HeapIndex& heap,
                                                               const Stack& stack);

// The word of the allocator that something else has written, of those that the call on the stack
// has read, or the calls that wrote these; nullopt: there is no such call, or no such
// word. `control` may be null.
absl::StatusOr<std::optional<FailedCheck>> FindOverwrittenHeapWord(const ProcessNames& names,
                                                                   const HeapIndex& heap,
                                                                   const Stack& stack,
                                                                   ScanControl* control);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_FAILED_CHECK_H_
