// SPDX-License-Identifier: MIT
//
// The arithmetic of recipe nodes (recorder/stream.h), in one place for the two that need it: the
// walk over a log and the look inside one superblock.

#ifndef TTQ_STORE_WALK_EVALUATE_H_
#define TTQ_STORE_WALK_EVALUATE_H_

#include <cstdint>
#include <cstring>

#include "recorder/stream.h"

namespace ttq {

constexpr uint64_t MaskOf(unsigned bytes) {
  return bytes >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
}

constexpr int64_t SignExtend(uint64_t value, unsigned bytes) {
  unsigned shift = bytes >= 8 ? 0 : 64 - 8 * bytes;
  return static_cast<int64_t>(value << shift) >> shift;
}

// kTtqAdd … kTtqLeU on operands of `w` bytes.
inline uint64_t EvaluateBinary(uint8_t op, unsigned w, uint64_t a, uint64_t b) {
  uint64_t mask = MaskOf(w);
  unsigned count = static_cast<unsigned>(b) & (8 * w - 1);
  switch (op) {
    case kTtqAdd:
      return (a + b) & mask;
    case kTtqSub:
      return (a - b) & mask;
    case kTtqAnd:
      return a & b & mask;
    case kTtqOr:
      return (a | b) & mask;
    case kTtqXor:
      return (a ^ b) & mask;
    case kTtqMul:
      return (a * b) & mask;
    case kTtqShl:
      return (a << count) & mask;
    case kTtqShr:
      return (a & mask) >> count;
    case kTtqSar:
      return static_cast<uint64_t>(SignExtend(a, w) >> count) & mask;
    case kTtqEq:
      return ((a ^ b) & mask) == 0;
    case kTtqNe:
      return ((a ^ b) & mask) != 0;
    case kTtqLtS:
      return SignExtend(a, w) < SignExtend(b, w);
    case kTtqLtU:
      return (a & mask) < (b & mask);
    case kTtqLeS:
      return SignExtend(a, w) <= SignExtend(b, w);
    case kTtqLeU:
      return (a & mask) <= (b & mask);
    default:
      return 0;
  }
}

// kTtqNot, kTtqExtract (from byte c), kTtqSext (to c bytes).
inline uint64_t EvaluateUnary(uint8_t op, unsigned w, unsigned c, uint64_t a) {
  switch (op) {
    case kTtqNot:
      return ~a & MaskOf(w);
    case kTtqExtract:
      return (a >> (8 * c)) & MaskOf(w);
    case kTtqSext:
      return static_cast<uint64_t>(SignExtend(a, w)) & MaskOf(c);
    default:
      return 0;
  }
}

inline uint64_t EvaluateInsert(unsigned w, unsigned byte, uint64_t a, uint64_t b) {
  uint64_t mask = MaskOf(w) << (8 * byte);
  return (a & ~mask) | ((b << (8 * byte)) & mask);
}

// `value`: of earlier nodes. `registers`: at entry. `record`: the log record. Vectors give 0.
inline uint64_t EvaluateNode(const TtqNode& n, const uint64_t* value, const uint64_t* registers,
                             const uint8_t* record) {
  switch (n.op) {
    case kTtqConst:
      return n.imm;
    case kTtqReg:
      return registers[n.a];
    case kTtqSlot: {
      uint64_t v = 0;
      if (n.w <= 8) memcpy(&v, record + n.imm, n.w);
      return v;
    }
    case kTtqAddI:
      return (value[n.a] + n.imm) & MaskOf(n.w);
    case kTtqNot:
    case kTtqExtract:
    case kTtqSext:
      return EvaluateUnary(n.op, n.w, n.c, value[n.a]);
    case kTtqInsert:
      return EvaluateInsert(n.w, n.c, value[n.a], value[n.b]);
    case kTtqIte:
      return value[n.a] ? value[n.b] : value[n.c];
    case kTtqVectorConst:
      return 0;
    default:
      return EvaluateBinary(n.op, n.w, value[n.a], value[n.b]);
  }
}

}  // namespace ttq

#endif  // TTQ_STORE_WALK_EVALUATE_H_
