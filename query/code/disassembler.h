// SPDX-License-Identifier: MIT
//
// Machine code as text: x86-64 in AT&T syntax, which is what gdb and objdump print unless told
// otherwise. And as data: what an instruction's operands are, and where the bytes that it leaves in
// one of them come from. Thread-safe: a Disassembler is used by one thread at a time, several may
// exist.

#ifndef TTQ_QUERY_CODE_DISASSEMBLER_H_
#define TTQ_QUERY_CODE_DISASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/types.h"

namespace ttq {

struct DisassembledInstruction {
  Address address;
  // Mnemonic and operands, single spaces between: "movq %rsp, %rbp", "callq 0x4011 <main+0x10>".
  std::string text;
  std::vector<uint8_t> bytes;
  size_t size() const { return bytes.size(); }
};

// A register, or the part of one that an instruction names.
struct RegisterName {
  enum class File : uint8_t {
    kNone,
    kGeneral,             // number: a Gpr
    kVector,              // number 0 to 31: xmmN, ymmN
    kInstructionPointer,  // rip
    kFsBase,
    kGsBase,
    kOther,  // x87, mask, control registers
  };
  File file = File::kNone;
  uint8_t number = 0;
  uint8_t offset = 0;  // of the part: 1 for %ah
  uint8_t size = 0;
  bool operator==(const RegisterName&) const = default;
  // "%eax", "%xmm0"; whole registers by their 64-bit and xmm names.
  std::string Text() const;
};

struct Operand {
  enum class Kind : uint8_t { kRegister, kMemory, kImmediate };
  Kind kind = Kind::kRegister;
  uint8_t size = 0;
  RegisterName reg;                   // kRegister
  RegisterName base, index, segment;  // kMemory: segment + base + index * scale + displacement
  uint8_t scale = 1;
  int64_t displacement = 0;
  int64_t immediate = 0;  // kImmediate
  bool read = false, written = false;
};

// What an instruction does, as far as copies are concerned. In the comments `a`, `b` are the first
// and second operand of Operation's instructions, the destination first.
enum class Operation : uint8_t {
  kMove,  // a copy, as Disassembler::SourceOf tells
  kConditionalMove,
  kLoadAddress,  // lea
  kPush,         // a
  kPop,          // a
  kCall,
  kReturn,
  kLeave,
  kExchange,         // a and b
  kExchangeAdd,      // b becomes a, a the sum
  kCompareExchange,  // a becomes b, or rax becomes a
  kStringMove,       // movs
  kStringStore,      // stos
  kStringLoad,       // lods
  kSystemCall,
  kInput,  // something from outside the program: the clock, a random number, the processor's kind
  kCompute,
};

struct DecodedInstruction {
  Address address;
  uint8_t size = 0;
  Operation operation = Operation::kCompute;
  std::vector<Operand> operands;  // the destination first; of cltq and its like those it implies
  // General registers that it reads and that are no operands: %rax of mul.
  std::vector<RegisterName> implied;
  // Vector registers that it writes at least in part, a bit each.
  uint32_t vectors_written = 0;
  uint16_t id = 0;         // for SourceOf
  uint16_t immediate = 0;  // the last operand, when that chooses lanes
  bool is_vex = false;
  bool privileged = false;  // only the kernel may execute it
};

// Where bytes come from.
struct ByteSource {
  enum class Kind : uint8_t {
    kOperand,   // from byte `offset` on of operand `operand` as it was before
    kZero,      // the instruction makes them zero
    kKept,      // it leaves them as they were
    kComputed,  // several operands, or a change
  };
  Kind kind = Kind::kComputed;
  size_t operand = 0;
  uint32_t offset = 0;
  uint32_t size = 0;  // how many of the bytes have the same answer, one after the other
};

class Disassembler {
 public:
  // Gives "func+0x12" for an address, or "" for one without a name.
  using NameOf = std::function<std::string(Address)>;

  // With `name_of`, the target of a direct branch and of a rip-relative operand is followed by
  // " <name>".
  explicit Disassembler(NameOf name_of = nullptr);
  ~Disassembler();

  // All of `bytes`, which lie at `at`, or the first `max_count` instructions. A byte that starts no
  // instruction (or one cut off by the end) is "(bad)", and decoding goes on at the next byte.
  std::vector<DisassembledInstruction> Disassemble(absl::Span<const uint8_t> bytes, Address at,
                                                   size_t max_count = SIZE_MAX) const;

  // The instruction that `bytes` begin with; nullopt: none.
  std::optional<DecodedInstruction> Decode(absl::Span<const uint8_t> bytes, Address at) const;

  // Where `size` bytes from byte `offset` on of operand 0 come from, counted from the start of the
  // whole register, or of the memory. For kMove and kCompute.
  static ByteSource SourceOf(const DecodedInstruction& instruction, uint32_t offset, uint32_t size);
  // Whether it adds operand 1 to operand 0, or takes it from that, and they are not the same one.
  static bool AddsOrSubtracts(const DecodedInstruction& instruction);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_DISASSEMBLER_H_
