// SPDX-License-Identifier: MIT
//
// Finds functions that have no frame because they ended in a tail call: a caller called G, G jumped
// to H, and H returns to the caller. Debug information can reconstruct this only where one path
// leads from the called function to the running one; the recording has the executed path.
//
// A call instruction that names the running function is examined once per pair of call and
// function. For a call through a register or memory, the recording is searched for the first such
// frame; if that call reached the function without a jump, later frames are assumed to do so too. A
// function that one call ran more than once (two functions that jump to each other) is listed once.
//
// Of a process without a history the code is all that there is: where one way of direct jumps leads
// from the function that the call names to the running one, it is taken, as gdb does.
//
// Belongs to one thread.

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
#include "query/code/instruction_effects.h"
#include "query/code/symbols.h"
#include "query/process/origin.h"
#include "query/process/process_names.h"
#include "store/read/reader.h"

namespace ttq {

// The jump that ended a function.
struct TailJump {
  Time time;  // of a process without a history: 0
  Address pc;
  Address next;  // the instruction after it, which gdb shows as such a frame's pc
};

class TailCalls {
 public:
  explicit TailCalls(const ProcessNames& names);

  // The jumps from the function that the call before `return_address` called to the one that holds
  // `pc`, the last first. Empty: the call reached that function directly, or the recording does not
  // tell. `slot`: where the return address is on the stack.
  absl::StatusOr<std::vector<TailJump>> Between(Moment& moment, ThreadNo thread, Address pc,
                                                Address slot, Address return_address);

 private:
  using Key = std::pair<const Symbolizer*, uint64_t>;
  // The first instruction of the function that holds `pc`.
  std::optional<Address> EntryOf(const Symbolizer& symbols, Address pc);
  // The target of the call instruction that ends at `return_address`, through the PLT; nullopt: the
  // code does not tell.
  absl::StatusOr<std::optional<Address>> Called(Moment& moment, Address return_address);
  absl::StatusOr<std::optional<Address>> ThroughMemory(Moment& moment, Address at);
  // Where a linkage table's entry at `target` leads; else `target`; nullopt: memory does not tell.
  absl::StatusOr<std::optional<Address>> ThroughLinkage(Moment& moment, Address target);
  // The direct jumps of the function that begins at `entry` to the beginning of another. Null: not
  // all of its code is known.
  struct Exit {
    TailJump jump;
    Address to;
  };
  absl::StatusOr<const std::vector<Exit>*> ExitsOf(Moment& moment, const Symbolizer& symbols,
                                                   Address entry);
  // The only way from one function to another, the last jump first; empty: none, or several.
  absl::StatusOr<std::vector<TailJump>> OnlyWay(Moment& moment, const Symbolizer& symbols,
                                                Address from, Address to);
  // The jump that the thread executed last before `t` and after `call`, without those of the
  // dynamic linker and the PLT; nullopt: another instruction, or none.
  absl::StatusOr<std::optional<TailJump>> JumpBefore(const Symbolizer& symbols, ThreadNo thread,
                                                     Address slot, Time t, Time call);

  const ProcessNames& names_;
  OriginTracer tracer_;
  absl::flat_hash_map<Key, std::optional<Address>> entries_;
  // What is known of one call, by thread, slot, return address and running function: the slot was
  // not written after `call` and before `until`.
  struct Known {
    Time call, until;
    std::vector<TailJump> jumps;
  };
  using Frame = std::tuple<uint32_t, uint64_t, Key, uint64_t>;
  // Whether the slot still holds the same call at `t`; if so, extends `known` to it.
  absl::StatusOr<bool> StillHolds(Known* known, Address slot, Time t);
  absl::flat_hash_map<Frame, Known> known_;
  absl::flat_hash_map<Key, std::optional<std::vector<Exit>>> exits_;
  EffectsReader effects_;
  // Pairs of a return address and a function entry for which no jump was found.
  absl::flat_hash_set<std::pair<Key, uint64_t>> direct_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_TAIL_CALLS_H_
