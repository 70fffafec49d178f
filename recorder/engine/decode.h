// SPDX-License-Identifier: MIT
//
// Machine instructions of the program: prefixes and operands picked apart, and the form (see
// forms/form.h) looked up.

#ifndef TTQ_RECORDER_ENGINE_DECODE_H_
#define TTQ_RECORDER_ENGINE_DECODE_H_

#include <cstddef>
#include <cstdint>

#include "recorder/engine/forms/form.h"

namespace ttq::engine {

enum : int8_t { kNoRegister = -1 };
enum { kLongestInstruction = 15 };

struct MemoryOperand {
  int8_t base, index;  // or kNoRegister
  uint8_t shift;       // of the index
  uint8_t segment;     // prefix: 0x64 (fs), 0x65 (gs), 0
  bool narrow;         // the address has 32 bits
  bool relative;
  int64_t displacement;  // of a relative one: the address
};

struct Instruction {
  uint64_t pc;
  const Form* form;
  uint8_t length;
  bool is_cut;  // see Decode
  Space space;
  uint8_t opcode;
  uint8_t repeat;  // 0, 1: F3, 2: F2; of VEX and EVEX too
  bool narrow;     // 66
  bool wide;       // REX.W
  bool rex;        // has a REX prefix: registers 4 to 7 of one byte are not ah … bh
  bool lock;
  uint8_t mod, reg, rm, vvvv;
  uint8_t mask;        // of EVEX: aaa
  uint8_t head_bytes;  // prefixes and opcode
  uint8_t modrm_at;    // 0: none
  uint8_t displacement_at, displacement_bytes;
  bool has_memory;
  MemoryOperand memory;
  int64_t immediate;       // sign-extended
  uint16_t reads, writes;  // general registers, those of addresses among the first

  uint64_t next() const { return pc + length; }
  uint64_t target() const { return next() + static_cast<uint64_t>(immediate); }
  bool Is(Space s, uint8_t o) const { return space == s && opcode == o; }
  // Number of a general register operand of `bytes`, and whether it is the second byte of it.
  uint8_t Number(uint8_t encoded, unsigned bytes) const {
    return IsHigh(encoded, bytes) ? encoded - 4 : encoded;
  }
  bool IsHigh(uint8_t encoded, unsigned bytes) const {
    return bytes == 1 && !rex && space < kVex && encoded >= 4 && encoded < 8;
  }
};

// bt, bts, btr and btc of memory by a register: the bit number reaches beyond the operand.
inline bool IsBitString(const Instruction& i) {
  return i.has_memory && i.space == kMap0F &&
         (i.opcode == 0xa3 || i.opcode == 0xab || i.opcode == 0xb3 || i.opcode == 0xbb);
}

inline bool IsCpuid(const Instruction& i) { return i.Is(kMap0F, 0xa2); }

// Its results do not follow from the program's state: cpuid, rdtsc, rdtscp, rdrand, rdseed, rdpid.
inline bool IsUndetermined(const Instruction& i) {
  constexpr unsigned kRandom = 6;  // and 7: rdseed, and with F3 rdpid
  return IsCpuid(i) || i.Is(kMap0F, 0x31) || i.Is(kSystem, 0xf9) ||
         (i.Is(kMap0F, 0xc7) && i.mod == 3 && (i.reg & 7) >= kRandom);
}

inline bool IsFloat(const Instruction& i) {  // of the x87
  return i.space == kOneByte && i.opcode >= 0xd8 && i.opcode <= 0xdf;
}

// Decodes the instruction at `code`, of which `bytes` can be read, that the program has at `pc`.
// False when it is none that is known; `is_cut` then tells whether it goes on beyond `bytes`.
bool Decode(const uint8_t* code, size_t bytes, uint64_t pc, Instruction* out);

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_DECODE_H_
