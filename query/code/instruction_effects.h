// SPDX-License-Identifier: MIT
//
// The registers and memory that one x86-64 instruction reads and writes, for following a value from
// instruction to instruction. Thread-safety as Disassembler: an object belongs to one thread at a
// time.

#ifndef TTQ_QUERY_CODE_INSTRUCTION_EFFECTS_H_
#define TTQ_QUERY_CODE_INSTRUCTION_EFFECTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace ttq {

// Registers by number: the general ones as Gpr, then these. A part of a register counts as all.
enum : uint8_t {
  kFlagsRegister = 16,
  kFirstVectorRegister = 17,  // xmm0, and with it ymm0 and zmm0, to xmm31
  kX87Registers = 49,         // all of them, as one
  kOtherRegisters = 50,       // segment, mask, control registers, as one
  kRegisterCount = 51,
};
std::string RegisterText(uint8_t number);

struct MemoryOperand {
  static constexpr uint8_t kNone = 255;
  uint8_t base = kNone, index = kNone;
  uint8_t scale = 1;
  bool rip_relative = false;  // then `displacement` is the address itself
  // The address is not known from base and index alone: fs or gs is added, or the index is one of
  // many (gather), or part of a register (xlat).
  bool unknown = false;
  bool read = false, write = false;
  int64_t displacement = 0;
  uint32_t size = 0;  // bytes
  // Nullopt when `unknown`. `gpr`: the sixteen registers before the instruction.
  std::optional<Address> AddressOf(const uint64_t* gpr) const;
};

// The effects of one instruction; with a rep prefix, of one repetition. xsave stores what its mask
// says: its effects are the part that it may always store, and xmm0 to xmm15.
struct InstructionEffects {
  std::string text;         // as Disassembler gives it, without names
  uint64_t reads = 0;       // a bit per register whose value goes into the result
  uint64_t addressing = 0;  // … that is only used to form addresses
  uint64_t writes = 0;
  std::vector<MemoryOperand> memory;
  enum class Flow : uint8_t { kNone, kBranch, kCall, kReturn, kSyscall };
  Flow flow = Flow::kNone;
  bool conditional = false;  // of a branch
  uint32_t size = 0;         // bytes of code; 0: not an instruction
};

class EffectsReader {
 public:
  EffectsReader();
  ~EffectsReader();
  // Of the instruction whose code starts `bytes`. Without `want_text` its text stays empty.
  InstructionEffects Read(Address at, std::string_view bytes, bool want_text = true) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_INSTRUCTION_EFFECTS_H_
