// SPDX-License-Identifier: MIT
//
// Traces where a value came from, hop by hop: from a register or a piece of memory back to the
// instruction that put the value there, and on to the place that it took the value from.
//
// Each hop is exact. For memory it is the last write in the recording; for a general register, the
// last executed instruction that set it; for a vector register (these are not recorded), the
// instruction that last wrote it and the memory or register that this copied. The trace ends where
// the value was made: a constant, a computation, the result of a system call or of an allocation,
// the contents of a file, the program's start.

#ifndef TTQ_QUERY_PROCESS_ORIGIN_H_
#define TTQ_QUERY_PROCESS_ORIGIN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "query/code/disassembler.h"
#include "query/process/process_names.h"
#include "store/read/reader.h"

namespace ttq {

// Something that holds a value just before an instruction.
struct ValueLocation {
  enum class Kind : uint8_t { kMemory, kGeneral, kVector };
  Kind kind = Kind::kMemory;
  Address address;      // kMemory
  uint8_t number = 0;   // of the register
  uint32_t offset = 0;  // of the bytes in the register
  uint32_t size = 8;
  ThreadNo thread;  // owns the register, or used the memory
  Time before;      // the value just before this time
  // It was used as an address: of an element of an array that is a null pointer, the array's is
  // traced; of one some bytes further on than another, the other.
  bool is_pointer = false;
};

struct Hop {
  Time time;
  ThreadNo thread;
  Address pc;
  // Source of the value at `place`: "memory" or "register" (a further hop follows), "constant",
  // "computation", "address", "allocation", "syscall", "input", "signal", "map", "file", "zero",
  // "start", "unknown".
  std::string kind;
  std::string instruction;  // empty: no instruction put it there
  std::string place;        // "%rax", "0x1000+8 (counter)"
  std::string value;        // its bytes; empty: not known
  std::string from;         // "%rdx", "0x2000+8", "$0", "malloc(24) for make_node (list.c:12)"
  std::optional<Address> address;  // of `place` if it is memory
};

class OriginTracer {
 public:
  // `control` may be null.
  OriginTracer(const ProcessNames& names, ScanControl* control);

  // Returns at most `depth` hops, the latest first. `note` gets the reason if the trace stopped
  // early.
  absl::StatusOr<std::vector<Hop>> Trace(ValueLocation place, uint32_t depth, std::string* note);

  // One hop of it. Returns where the source that it names held the value; nullopt: the trace ends.
  absl::StatusOr<std::optional<ValueLocation>> Step(const ValueLocation& place, Hop* hop);

  struct Instruction {
    Time time;
    Address pc;
    std::string_view bytes;  // as executed
  };
  // The instruction executed at t; nullopt: none, or not known.
  absl::StatusOr<std::optional<Instruction>> InstructionAt(Time t);
  // The last instruction that the thread executed before t.
  absl::StatusOr<std::optional<Instruction>> InstructionBefore(ThreadNo thread, Time t);

 private:
  struct Setter {
    enum class Kind : uint8_t { kInstruction, kSignal, kThreadStart, kUnknown };
    Kind kind = Kind::kUnknown;
    Instruction instruction;
  };
  struct Code {
    std::vector<CodeInstruction> instructions;
    std::vector<uint32_t> general, vectors;  // what each instruction writes
    uint32_t all_general = 0, all_vectors = 0;
  };

  absl::StatusOr<std::optional<ValueLocation>> MemoryStep(ValueLocation place, Hop* hop);
  absl::StatusOr<std::optional<ValueLocation>> RegisterStep(ValueLocation place, Hop* hop);
  // Continues from the instruction that wrote the place.
  absl::StatusOr<std::optional<ValueLocation>> FromInstruction(const ValueLocation& place,
                                                               const DecodedInstruction& decoded,
                                                               const Registers& registers,
                                                               Hop* hop);
  // Continues from lea's operand. `is_destination`: the place is in what it wrote.
  absl::StatusOr<std::optional<ValueLocation>> FromAddress(const ValueLocation& place,
                                                           const DecodedInstruction& decoded,
                                                           bool is_destination,
                                                           const Registers& registers, Hop* hop);
  void EndInSystemCall(const ValueLocation& place, Hop* hop);
  absl::StatusOr<std::optional<ValueLocation>> FromOperand(const ValueLocation& place,
                                                           const DecodedInstruction& decoded,
                                                           size_t operand, uint32_t offset,
                                                           const Registers& registers, Hop* hop);
  // The operand's value before the instruction, in the low bytes; nullopt: not known.
  absl::StatusOr<std::optional<uint64_t>> ValueOf(const Operand& operand,
                                                  const DecodedInstruction& decoded,
                                                  const Registers& registers, Time t);
  absl::StatusOr<std::optional<ValueLocation>> FromMemory(const ValueLocation& place,
                                                          Address address, Hop* hop);
  void EndTrace(Hop* hop, std::string kind, std::string from);

  absl::StatusOr<std::string> BytesOf(const ValueLocation& place);
  absl::StatusOr<Setter> FindSetter(const ValueLocation& place);
  // The last instruction before `before` whose code writes the register.
  absl::StatusOr<std::optional<Instruction>> LastWriter(const ValueLocation& place, Time before);
  absl::StatusOr<std::optional<Time>> NextOf(ThreadNo thread, Time after);
  const Code& CodeOf(SuperblockId id);
  // Describes the allocator call that was active at `t` and returned the value at `place`; nullopt:
  // none.
  absl::StatusOr<std::optional<std::string>> AllocationAround(const ValueLocation& place, Time t,
                                                              Address pc, Hop* hop);
  std::string TextOf(const ValueLocation& place, Time t);

  const ProcessNames& names_;
  const Process& process_;
  ScanControl* control_;
  Disassembler disassembler_;
  const Symbolizer* symbols_ = nullptr;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Code>> code_;
  std::optional<std::vector<std::pair<Address, std::string>>> allocator_;  // entries
};

// The address of a memory operand; nullopt: the general registers do not determine it.
std::optional<Address> EffectiveAddress(const Operand& operand, const DecodedInstruction& decoded,
                                        const Registers& registers);

// An operand with its value before the instruction: "%rdi = 0x10", "[0x1000]", "$0x3".
std::string OperandText(const Operand& operand, const DecodedInstruction& decoded,
                        const Registers& registers);

// "0x2a", or "hex:0011…" for more than 8 bytes.
std::string ValueText(std::string_view bytes);

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_ORIGIN_H_
