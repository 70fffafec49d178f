// SPDX-License-Identifier: MIT
//
// Writes machine code: the few instructions that translations add to the program's own. None of
// them changes flags, but for those that say so.

#ifndef TTQ_RECORDER_ENGINE_CODE_H_
#define TTQ_RECORDER_ENGINE_CODE_H_

#include <cstdint>

#include "recorder/engine/base.h"
#include "recorder/engine/context.h"

namespace ttq::engine {

enum Vector : uint8_t { kMmx, kXmm, kYmm, kZmm };

class Code {
 public:
  uint8_t* at() const { return at_; }
  void set_at(uint8_t* at) { at_ = at; }

  void Byte(unsigned b) { *at_++ = static_cast<uint8_t>(b); }
  void Word32(uint64_t v) {
    const auto w = static_cast<uint32_t>(v);
    memcpy(at_, &w, 4);
    at_ += 4;
  }
  void Word64(uint64_t v) {
    memcpy(at_, &v, 8);
    at_ += 8;
  }
  void Bytes(const uint8_t* from, unsigned count) {
    for (unsigned i = 0; i < count; ++i) Byte(from[i]);
  }

  // A field of the context, or another variable below 2 GiB.
  void LoadFrom(uint8_t reg, const void* variable) { Absolute(0x8b, reg, variable); }
  void StoreTo(uint8_t reg, const void* variable) { Absolute(0x89, reg, variable); }
  void StoreConstantTo(uint32_t value, const void* variable) {
    Byte(0xc7);
    AbsoluteOperand(0, variable);
    Word32(value);
  }
  // Changes flags.
  void CompareWith(uint8_t reg, const void* variable) { Absolute(0x3b, reg, variable); }

  // Compare memory; change flags. The first: the last four bytes are the constant.
  void CompareConstantWith(uint32_t value, const void* variable) {
    Byte(0x81);
    AbsoluteOperand(7, variable);
    Word32(value);
  }
  void CompareWord32(uint8_t base, int32_t displacement, uint32_t value) {
    WithConstant(0x81, 7, base, displacement);
    Word32(value);
  }
  void CompareByte(uint8_t base, int32_t displacement, uint8_t value) {
    WithConstant(0x80, 7, base, displacement);
    Byte(value);
  }

  // Sets the carry flag to a bit; changes flags.
  void TestBit(uint8_t reg, unsigned bit) {
    Byte(0x48 | reg >> 3);
    Byte(0x0f);
    Byte(0xba);
    Byte(0xe0 | (reg & 7));
    Byte(bit);
  }

  void LoadConstant(uint8_t reg, uint64_t value) {
    Byte(0x48 | reg >> 3);
    Byte(0xb8 | (reg & 7));
    Word64(value);
  }
  void Move(uint8_t to, uint8_t from) {
    Byte(0x48 | (from >> 3) << 2 | to >> 3);
    Byte(0x89);
    Byte(0xc0 | (from & 7) << 3 | (to & 7));
  }
  void Move32(uint8_t to, uint8_t from) {
    Byte(0x40 | (from >> 3) << 2 | to >> 3);
    Byte(0x89);
    Byte(0xc0 | (from & 7) << 3 | (to & 7));
  }
  // reg = base + displacement
  void AddTo(uint8_t reg, uint8_t base, int32_t displacement) {
    Byte(0x48 | (reg >> 3) << 2 | base >> 3);
    Byte(0x8d);
    Operand(reg, base, displacement);
  }
  // `bytes` (1, 2, 4 or 8) of a register.
  void Load(uint8_t reg, uint8_t base, int32_t displacement, unsigned bytes, uint8_t segment) {
    if (segment != 0) Byte(segment);
    Sized(0x8a, reg, base, displacement, bytes);
  }
  void Store(uint8_t reg, uint8_t base, int32_t displacement, unsigned bytes) {
    Sized(0x88, reg, base, displacement, bytes);
  }
  // Whether what is at `address` can be named by its distance from the next instructions.
  bool Reaches(uint64_t address) const {
    constexpr int64_t kReach = 0x7fff0000;
    const auto d = static_cast<int64_t>(address - reinterpret_cast<uint64_t>(at_));
    return d > -kReach && d < kReach;
  }
  // Eight bytes that the code reaches.
  void LoadNear(uint8_t reg, uint64_t address, uint8_t segment) {
    if (segment != 0) Byte(segment);
    Byte(0x48 | (reg >> 3) << 2);
    Byte(0x8b);
    Byte(0x05 | (reg & 7) << 3);
    Relative(reinterpret_cast<const void*>(address));
  }
  void StoreWord32(uint8_t base, uint32_t value, int32_t displacement = 0) {
    WithConstant(0xc7, 0, base, displacement);
    Word32(value);
  }
  void StoreByte(uint8_t base, int32_t displacement, uint8_t value) {
    WithConstant(0xc6, 0, base, displacement);
    Byte(value);
  }
  // The low or the high half of a vector register (0 to 7).
  void StoreVectorHalf(uint8_t vector, bool high, uint8_t base, int32_t displacement) {
    if (!high) Byte(0x66);
    if (base >= 8) Byte(0x41);
    Byte(0x0f);
    Byte(high ? 0x17 : 0xd6);
    Operand(vector, base, displacement);
  }

  void Not(uint8_t reg) {
    Byte(0x48 | reg >> 3);
    Byte(0xf7);
    Byte(0xd0 | (reg & 7));
  }
  void ReverseBytes(uint8_t reg) {
    Byte(0x48 | reg >> 3);
    Byte(0x0f);
    Byte(0xc8 | (reg & 7));
  }
  // reg = its lowest byte
  void ExtendByte(uint8_t reg) {
    Byte(0x40 | (reg >> 3) << 2 | reg >> 3);
    Byte(0x0f), Byte(0xb6);
    Byte(0xc0 | (reg & 7) << 3 | (reg & 7));
  }
  // Branches to within 127 bytes. Two look at rcx and at no flag: jrcxz; loop, which counts it down
  // first and branches unless it is zero then.
  void JumpIfCounterIsZero(const uint8_t* to) { ShortBranch(0xe3, to); }
  void Loop(const uint8_t* to) { ShortBranch(0xe2, to); }
  void ShortJump(const uint8_t* to) { ShortBranch(0xeb, to); }

  // The arithmetic flags go to ax, and back from there.
  void SaveFlags() {
    Byte(0x9f);                          // lahf
    Byte(0x0f), Byte(0x90), Byte(0xc0);  // seto al
  }
  void RestoreFlags() {
    Byte(0x04), Byte(0x7f);  // add al, 127
    Byte(0x9e);              // sahf
  }
  // reg = the low `bytes` (2, 4 or 8) of another, sign-extended.
  void SignExtend(uint8_t reg, uint8_t from, unsigned bytes) {
    if (bytes == 8) return Move(reg, from);
    Byte(0x48 | (reg >> 3) << 2 | from >> 3);
    if (bytes == 2) Byte(0x0f);
    Byte(bytes == 2 ? 0xbf : 0x63);
    Byte(0xc0 | (reg & 7) << 3 | (from & 7));
  }
  // Arithmetic; changes flags.
  void ShiftRight(uint8_t reg, unsigned count) {
    Byte(0x48 | reg >> 3);
    Byte(0xc1);
    Byte(0xf8 | (reg & 7));
    Byte(count);
  }
  // reg += other << shift
  void AddScaled(uint8_t reg, uint8_t other, unsigned shift) {
    Byte(0x48 | (reg >> 3) << 2 | (other >> 3) << 1 | reg >> 3);
    Byte(0x8d);
    Byte(0x44 | (reg & 7) << 3);
    Byte(shift << 6 | (other & 7) << 3 | (reg & 7));
    Byte(0);
  }
  // All of a vector register.
  void StoreVector(uint8_t vector, Vector kind, uint8_t base, int32_t displacement) {
    if (kind == kYmm) {
      Vex(vector, base, true, 0);
    } else {
      Byte(0x40 | (vector >> 3) << 2 | base >> 3);
      Byte(0x0f);
    }
    Byte(kind == kMmx ? 0x7f : 0x11);
    Operand(vector, base, displacement);
  }
  // The same of any of the 32 registers of AVX-512.
  void StoreEvexVector(uint8_t vector, Vector kind, uint8_t base, int32_t displacement) {
    constexpr unsigned kOpcode = 0x7f;  // vmovdqu64
    Byte(0x62);
    Byte(0x41u | (vector & 8 ? 0u : 0x80u) | (base & 8 ? 0u : 0x20u) | (vector & 16 ? 0u : 0x10u));
    Byte(0xfe);
    Byte(0x08u | static_cast<unsigned>(kind - kXmm) << 5);
    Byte(kOpcode);
    WideOperand(vector, base, displacement);
  }
  // reg = a mask register, of which `bits` count.
  void LoadMask(uint8_t reg, uint8_t mask, unsigned bits) {
    if (bits <= 16) {  // kmovw
      Byte(0xc5);
      Byte(reg & 8 ? 0x78 : 0xf8);
    } else {  // kmovd, kmovq
      Byte(0xc4);
      Byte(0x61u | (reg & 8 ? 0u : 0x80u));
      Byte(bits <= 32 ? 0x7b : 0xfb);
    }
    Byte(0x93);
    Byte(0xc0 | (reg & 7) << 3 | (mask & 7));
  }
  // reg = the highest bit of each element (of 1, 4 or 8 bytes; of MMX and of bytes: no 32).
  void HighBits(uint8_t reg, uint8_t vector, Vector kind, unsigned element) {
    if (kind == kYmm) {
      Vex(reg, vector, true, element == 8 ? 1 : 0);
    } else {
      if (kind == kXmm && element != 4) Byte(0x66);
      Byte(0x40 | (reg >> 3) << 2 | vector >> 3);
      Byte(0x0f);
    }
    Byte(element == 1 ? 0xd7 : 0x50);
    Byte(0xc0 | (reg & 7) << 3 | (vector & 7));
  }

  void Jump(const void* to) {
    Byte(0xe9);
    Relative(to);
  }
  // A jump whose distance is written later, by Patch.
  uint8_t* JumpLater() {
    Byte(0xe9);
    return Later();
  }
  uint8_t* JumpIfLater(unsigned condition) {
    Byte(0x0f);
    Byte(0x80 | condition);
    return Later();
  }
  static void Patch(uint8_t* distance, const void* to) {
    const int64_t d = static_cast<const uint8_t*>(to) - (distance + 4);
    const auto narrow = static_cast<int32_t>(d);
    memcpy(distance, &narrow, 4);
  }
  void Relative(const void* to) {
    at_ += 4;
    Patch(at_ - 4, to);
  }

  // A ModRM operand [base + displacement], with a displacement of 32 bits.
  void WideOperand(unsigned reg, uint8_t base, int32_t displacement) {
    Byte(0x80 | (reg & 7) << 3 | (base & 7));
    if ((base & 7) == 4) Byte(0x24);
    Word32(static_cast<uint32_t>(displacement));
  }
  // A ModRM operand [base + displacement].
  void Operand(unsigned reg, uint8_t base, int32_t displacement) {
    const unsigned mod = displacement == 0 && (base & 7) != 5                ? 0
                         : displacement == static_cast<int8_t>(displacement) ? 1
                                                                             : 2;
    Byte(mod << 6 | (reg & 7) << 3 | (base & 7));
    if ((base & 7) == 4) Byte(0x24);
    if (mod == 1) Byte(static_cast<uint8_t>(displacement));
    if (mod == 2) Word32(static_cast<uint32_t>(displacement));
  }

 private:
  // Up to the constant, of an instruction that has one and [base + displacement].
  void WithConstant(unsigned opcode, unsigned extension, uint8_t base, int32_t displacement) {
    if (base >= 8) Byte(0x41);
    Byte(opcode);
    Operand(extension, base, displacement);
  }
  // A prefix of three bytes, map 0F, one operand unused.
  void Vex(uint8_t reg, uint8_t rm, bool wide_vector, unsigned narrow) {
    Byte(0xc4);
    Byte((reg & 8 ? 0u : 0x80u) | 0x40u | (rm & 8 ? 0u : 0x20u) | 1u);
    Byte(0x78u | (wide_vector ? 4u : 0u) | narrow);
  }
  void ShortBranch(unsigned opcode, const uint8_t* to) {
    Byte(opcode);
    Byte(static_cast<uint8_t>(to - (at_ + 1)));
  }
  uint8_t* Later() {
    at_ += 4;
    return at_ - 4;
  }
  void AbsoluteOperand(unsigned reg, const void* variable) {
    Byte(0x04 | (reg & 7) << 3);
    Byte(0x25);
    Word32(reinterpret_cast<uint64_t>(variable));
  }
  void Absolute(unsigned opcode, uint8_t reg, const void* variable) {
    Byte(0x48 | (reg >> 3) << 2);
    Byte(opcode);
    AbsoluteOperand(reg, variable);
  }
  void Sized(unsigned opcode, uint8_t reg, uint8_t base, int32_t displacement, unsigned bytes) {
    if (bytes == 2) Byte(0x66);
    const unsigned rex = 0x40 | (bytes == 8) << 3 | (reg >> 3) << 2 | base >> 3;
    if (rex != 0x40 || (bytes == 1 && reg >= 4)) Byte(rex);
    Byte(bytes == 1 ? opcode : opcode | 1);
    Operand(reg, base, displacement);
  }

  uint8_t* at_ = nullptr;
};

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_CODE_H_
