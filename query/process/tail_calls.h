// SPDX-License-Identifier: MIT
//
// Functions that are on no stack because they ended in a jump: a caller called G, G ended in a jump
// to H, and H returns to the caller. Debug information can only tell where one way leads from what
// was called to what runs; the recording has what was executed.
//
// A frame whose call instruction names the function that runs is looked at once for each such pair.
// Of a call through a register or memory, the first such frame is looked up in the recording; that
// the same call reached the same function without a jump is taken to hold for later frames too.
// What one call ran more than once (two functions that jump to each other) is given once.
//
// Belongs to one thread, as the moments do that it is asked about.

#ifndef TTQ_QUERY_PROCESS_TAIL_CALLS_H_
#define TTQ_QUERY_PROCESS_TAIL_CALLS_H_

#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "query/code/symbols.h"
#include "query/process/origin.h"
#include "query/process/process_names.h"
#include "store/read/reader.h"

namespace ttq {

// The last instruction of a function that jumped on.
struct TailJump {
  Time time;
  Address pc;
  Address next;  // of the instruction after it, where gdb says that such a frame is
};

class TailCalls {
 public:
  explicit TailCalls(const ProcessNames& names);

  // The jumps that led from what the call before `return_address` called to the function that holds
  // `pc`, the last first; none when it called that. `slot`: where the return address is on the
  // stack. Also none where the recording does not tell.
  absl::StatusOr<std::vector<TailJump>> Between(Moment& moment, ThreadNo thread, Address pc,
                                                Address slot, Address return_address);

 private:
  using Key = std::pair<const Symbolizer*, uint64_t>;
  // The first instruction of the function that holds `pc`.
  std::optional<Address> EntryOf(const Symbolizer& symbols, Address pc);
  // What the call instruction that ends at an address calls, if it or the linkage table says so.
  absl::StatusOr<std::optional<Address>> Called(Moment& moment, Address return_address);
  absl::StatusOr<std::optional<Address>> ThroughMemory(Moment& moment, Address at);
  // The instruction that the thread executed before `t`, those of the dynamic linker and of linkage
  // tables left out; none before the time `call`.
  absl::StatusOr<std::optional<TailJump>> JumpBefore(const Symbolizer& symbols, ThreadNo thread,
                                                     Address slot, Time t, Time call);

  const ProcessNames& names_;
  OriginTracer tracer_;
  absl::flat_hash_map<Key, std::optional<Address>> entries_;
  // What is known of one call, by its thread, slot, return address and the function that runs:
  // nothing else was put into the slot after `call` and before `until`.
  struct Known {
    Time call, until;
    std::vector<TailJump> jumps;
  };
  using Frame = std::tuple<uint32_t, uint64_t, Key, uint64_t>;
  // Extends what is known up to `t`, where it is still the same call.
  absl::StatusOr<bool> StillHolds(Known* known, Address slot, Time t);
  absl::flat_hash_map<Frame, Known> known_;
  // Return addresses and the entries of functions that were called there without a jump that the
  // recording tells of.
  absl::flat_hash_set<std::pair<Key, uint64_t>> direct_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_TAIL_CALLS_H_
