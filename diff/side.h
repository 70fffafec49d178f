// SPDX-License-Identifier: MIT
//
// One of the two recordings that are compared, and what makes its places comparable with the
// other's: a piece of code is known by its module and offset, or, where the two runs had different
// builds of the module, by its function and its ordinal in it. A pointer is known by what it points
// into.
//
// Belongs to one thread.

#ifndef TTQ_DIFF_SIDE_H_
#define TTQ_DIFF_SIDE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/number_text.h"
#include "query/code/instruction_effects.h"
#include "query/cpython/context.h"
#include "query/process/stack.h"
#include "store/read/reader.h"

namespace ttq::diff {

// A place in a program as people know it.
struct SourceLocation {
  std::string function, module, file;
  int line = 0;
  bool operator==(const SourceLocation&) const = default;
};
// "check (prog.c:12)"
std::string ToText(const SourceLocation& place);

class Side {
 public:
  // `recording` must outlive it.
  static absl::StatusOr<std::unique_ptr<Side>> Open(const Recording* recording,
                                                    std::optional<ProcessNo> number);

  const Recording& recording() const { return *recording_; }
  const Process& process() const { return *process_; }
  const Context& context() const { return *context_; }
  Time end() const { return process_->info().end; }

  // ---- Code -------------------------------------------------------------------------------------

  const LoadedModule* ModuleOf(Address address) const;
  // Equal on both sides for the same place in the program. See MatchModules.
  uint64_t KeyOf(Address pc);
  SourceLocation LocationOf(Address pc) const;
  std::string FunctionOf(Address pc) const;
  InstructionEffects EffectsAt(Address pc, Time t);

  // What is known of a superblock: the key and the effects of each of its instructions.
  struct Code {
    std::vector<Address> addresses;
    std::vector<uint64_t> keys;
    std::vector<uint64_t> writes;  // registers, a bit each
    uint64_t all_writes = 0;
    std::vector<int8_t> calls;  // 1: it calls; -1: it returns
    // Instructions that do not follow the one before them in memory, and the first: where a
    // function may begin.
    std::vector<uint32_t> beginnings;
  };
  const Code& CodeOf(SuperblockId id);

  // ---- State ------------------------------------------------------------------------------------

  absl::StatusOr<Registers> RegistersAt(Time t, ThreadNo thread);
  // Up to the first byte that is not known.
  std::string Memory(Address at, uint32_t size, Time t);
  absl::StatusOr<Stack> StackAt(Time t, ThreadNo thread);
  // The frame that the program's author would name: the innermost one outside of system libraries
  // that has a source line.
  const Frame* OwnFrame(const Stack& stack) const;

  // Whether code is of a module that is no system library.
  bool IsOwnCode(Address pc) const;

  // What `value` points into, when it points into anything: a module's name, "[heap]", "[stack]",
  // "memory". `offset` from its start, such that corresponding pointers of the two sides have the
  // same offset as long as the sides allocated the same.
  std::optional<std::string> RegionOf(uint64_t value, Time t, uint64_t* offset);
  // The stack pointer the program began with: above it are its arguments and environment.
  Address initial_stack();

  // Which modules are the same file on both sides. To be called once, before the first KeyOf.
  static absl::Status MatchModules(Side* a, Side* b);
  // Those of the same name that are not, for a note.
  const std::vector<std::string>& rebuilt() const { return rebuilt_; }

 private:
  // The bytes of the instruction that was executed at `t`; what is there in memory where it was
  // not.
  std::string CodeAt(Address pc, Time t);
  struct ModuleState {
    LoadedModule module;
    std::string name;
    bool same = false;          // as the other side's
    bool shares_place = false;  // another one was mapped at some of its addresses
  };
  struct Function {
    uint64_t begin = 0, end = 0;
    std::string name;
    absl::flat_hash_map<uint64_t, uint64_t> ordinals;  // of addresses, with their kind
  };
  const ModuleState* Find(Address address) const;
  const Function* FunctionAround(Address pc);
  const std::vector<Mapping>& MappingsAt(Time t);

  const Recording* recording_ = nullptr;
  const Process* process_ = nullptr;
  std::unique_ptr<Context> context_;
  std::unique_ptr<Unwinder> unwinder_;
  std::unique_ptr<Moment> moment_;
  EffectsReader effects_;
  std::vector<ModuleState> modules_;  // by address, later loaded ones first
  std::vector<std::string> rebuilt_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Function>> functions_;  // by entry
  absl::flat_hash_map<uint32_t, std::unique_ptr<Code>> codes_;
  std::optional<Address> initial_stack_;
  // What was asked for last; a search asks for the same again and again.
  absl::flat_hash_map<uint64_t, InstructionEffects> effects_at_;  // of modules' code, by address
  absl::flat_hash_map<std::pair<uint64_t, uint32_t>, absl::StatusOr<Registers>> registers_;
  absl::flat_hash_map<std::tuple<uint64_t, uint32_t, uint64_t>, std::string> memory_;
  Time mappings_time_ = kTimeMax;
  std::vector<Mapping> mappings_;
};

}  // namespace ttq::diff

#endif  // TTQ_DIFF_SIDE_H_
