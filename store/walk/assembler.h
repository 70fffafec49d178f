// SPDX-License-Identifier: MIT
//
// Machine code of x86-64, an instruction at a time, as far as native.cc needs it. Encodings: Intel
// 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2.

#ifndef TTQ_STORE_WALK_ASSEMBLER_H_
#define TTQ_STORE_WALK_ASSEMBLER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace ttq::assembler {

enum Reg : int8_t {
  kAx,
  kCx,
  kDx,
  kBx,
  kSp,
  kBp,
  kSi,
  kDi,
  kX8,
  kX9,
  kX10,
  kX11,
  kX12,
  kX13,
  kX14,
  kX15,
  kNoReg = -1
};

// What an instruction's second operand is: a register, or memory at base + index * scale + offset.
struct Operand {
  Reg base = kNoReg, index = kNoReg;
  bool memory = false;
  int32_t offset = 0;
  uint8_t scale = 1;  // 1, 2, 4 or 8
};
inline Operand R(Reg r) { return {r}; }
inline Operand At(Reg base, int32_t offset, Reg index = kNoReg, uint8_t scale = 1) {
  return {base, index, true, offset, scale};
}

// Opcodes as Assembler::Ins takes them: two-byte ones carry their 0x0f, three-byte ones their
// 0x0f38, SSE ones their prefix.
enum : uint32_t {
  kAdd = 0x03,
  kOr = 0x0b,
  kAnd = 0x23,
  kSub = 0x2b,
  kXor = 0x33,
  kCmp = 0x3b,
  kLoadReg = 0x8b,
  kStoreReg = 0x89,
  kStoreByte = 0x88,
  kLoadByte = 0x8a,
  kCmpByte = 0x3a,
  kLea = 0x8d,
  kMul = 0x0faf,
  kZero1 = 0x0fb6,
  kZero2 = 0x0fb7,
  kSign1 = 0x0fbe,
  kSign2 = 0x0fbf,
  kSign4 = 0x63,
  kMoveImm = 0xc7,
  kMoveImmByte = 0xc6,
  kGroup3 = 0xf7,
  kGroup5 = 0xff,
  kShiftImm = 0xc1,
  kShiftCl = 0xd3,
  kArithImm = 0x81,
  kArithImm8 = 0x83,
  kMulImm = 0x69,
  kCmovNe = 0x0f45,
  kSet = 0x0f90,
  kLoadVector = 0xf30f6f,
  kStoreVector = 0xf30f7f,
  kOnes = 0x660f76,
  kEqual4 = kOnes,
  kSigns4 = 0x0f50,
  kShiftVector = 0x660f73,
  kPopCount = 0xf30fb8,
  kPrefetch = 0x0f18,
  kShuffle = 0x660f3800,
};
// The /digit of group opcodes.
enum {
  kDigitAdd = 0,
  kDigitOr = 1,
  kDigitAnd = 4,
  kDigitXor = 6,
  kDigitCmp = 7,
  kDigitTest = 0,
  kDigitShl = 4,
  kDigitShr = 5,
  kDigitSar = 7,
  kDigitNot = 2,
  kDigitInc = 0,
  kDigitPrefetch = 1,
  kDigitCall = 2,
  kDigitJump = 4
};
// Conditions.
enum {
  kBelow = 2,
  kEqual = 4,
  kNotEqual = 5,
  kNotAbove = 6,
  kAbove = 7,
  kLess = 12,
  kNotGreater = 14
};

class Assembler {
 public:
  std::vector<uint8_t> code;
  struct Outside {  // a rel32 to code elsewhere
    size_t at;
    const uint8_t* target;
  };
  std::vector<Outside> outside;

  void Byte(uint8_t b) { code.push_back(b); }
  void Imm(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) Byte(static_cast<uint8_t>(v >> (8 * i)));
  }

  // `width`: of the operation, in bytes. An immediate follows by Imm.
  void Ins(uint32_t opcode, int width, int reg, const Operand& rm) {
    if (width == 2) Byte(0x66);
    bool three = opcode >> 24 != 0;
    if (uint32_t prefix = opcode >> (three ? 24 : 16)) Byte(static_cast<uint8_t>(prefix));
    int index = rm.index == kNoReg ? 0 : rm.index;
    // With any REX, byte registers 4 to 7 are the low bytes of rsp to rdi.
    int rex = (width == 8) << 3 | (reg >> 3 & 1) << 2 | (index >> 3) << 1 | (rm.base >> 3 & 1);
    if (rex != 0 || width == 1) Byte(static_cast<uint8_t>(0x40 | rex));
    if (three || (opcode >> 8 & 0xff) == 0x0f) Byte(0x0f);
    if (three) Byte(0x38);
    Byte(static_cast<uint8_t>(opcode));
    int low = rm.base & 7, r = (reg & 7) << 3;
    if (!rm.memory) {
      Byte(static_cast<uint8_t>(0xc0 | r | low));
      return;
    }
    int mod = rm.offset == 0 && low != 5 ? 0 : rm.offset == static_cast<int8_t>(rm.offset) ? 1 : 2;
    bool sib = rm.index != kNoReg || low == 4;
    Byte(static_cast<uint8_t>(mod << 6 | r | (sib ? 4 : low)));
    if (sib) {
      Byte(static_cast<uint8_t>(std::countr_zero(rm.scale) << 6 |
                                (rm.index == kNoReg ? 4 : index & 7) << 3 | low));
    }
    if (mod == 1) Imm(static_cast<uint64_t>(rm.offset), 1);
    if (mod == 2) Imm(static_cast<uint64_t>(rm.offset), 4);
  }

  void Constant(Reg r, uint64_t v) {
    if (v <= UINT32_MAX) {
      if (r >= 8) Byte(0x41);
      Byte(static_cast<uint8_t>(0xb8 | (r & 7)));
      Imm(v, 4);
    } else if (static_cast<int64_t>(v) == static_cast<int32_t>(v)) {
      Ins(kMoveImm, 8, 0, R(r));
      Imm(v, 4);
    } else {
      Byte(static_cast<uint8_t>(0x48 | r >> 3));
      Byte(static_cast<uint8_t>(0xb8 | (r & 7)));
      Imm(v, 8);
    }
  }
  void Arith(int digit, int width, const Operand& rm, int32_t v) {
    bool small = v == static_cast<int8_t>(v);
    Ins(small ? kArithImm8 : kArithImm, width, digit, rm);
    Imm(static_cast<uint64_t>(v), small ? 1 : 4);
  }
  void Shift(int digit, int width, Reg r, unsigned count) {
    if (count == 0) return;
    Ins(kShiftImm, width, digit, R(r));
    Imm(count, 1);
  }
  // The low byte becomes 0 or 1.
  void SetIf(int condition, Reg r) { Ins(kSet | static_cast<uint32_t>(condition), 1, 0, R(r)); }
  // Zero above `width` bytes.
  void Truncate(Reg r, unsigned width) {
    if (width == 1) Ins(kZero1, 1, r, R(r));
    if (width == 2) Ins(kZero2, 4, r, R(r));
    if (width == 4) Ins(kLoadReg, 4, r, R(r));
  }
  void SignExtendFrom(Reg r, unsigned width) {
    if (width == 1) Ins(kSign1, 8, r, R(r));
    if (width == 2) Ins(kSign2, 8, r, R(r));
    if (width == 4) Ins(kSign4, 8, r, R(r));
  }
  void Push(Reg r) {
    if (r >= 8) Byte(0x41);
    Byte(static_cast<uint8_t>(0x50 | (r & 7)));
  }
  void Pop(Reg r) {
    if (r >= 8) Byte(0x41);
    Byte(static_cast<uint8_t>(0x58 | (r & 7)));
  }

  // Jumps return where their distance is, for Bind.
  size_t Jump() {
    Byte(0xe9);
    Imm(0, 4);
    return code.size() - 4;
  }
  size_t JumpIf(int condition) {
    Byte(0x0f);
    Byte(static_cast<uint8_t>(0x80 | condition));
    Imm(0, 4);
    return code.size() - 4;
  }
  void Bind(size_t jump, size_t target) {
    uint32_t distance = static_cast<uint32_t>(target - (jump + 4));
    memcpy(&code[jump], &distance, 4);
  }
  void JumpTo(size_t target) { Bind(Jump(), target); }
  void Leave(size_t jump, const uint8_t* target) { outside.push_back({jump, target}); }
  void Call(const uint8_t* target) {
    Byte(0xe8);
    Imm(0, 4);
    Leave(code.size() - 4, target);
  }
};

}  // namespace ttq::assembler

#endif  // TTQ_STORE_WALK_ASSEMBLER_H_
