// SPDX-License-Identifier: MIT
//
// What the engine knows of an instruction form: all that follows from its opcode and prefixes, and
// not from the numbers of its operands. make_forms.cc asks Zydis for every form when ttq is built;
// the engine itself, which may use no library, looks them up in the table that comes of it.

#ifndef TTQ_RECORDER_ENGINE_FORMS_FORM_H_
#define TTQ_RECORDER_ENGINE_FORMS_FORM_H_

#include <cstdint>

namespace ttq::engine {

enum Access : uint8_t { kNoAccess = 0, kRead = 1, kWrite = 2, kReadWrite = 3 };

// Form::traits
enum : uint16_t {
  kValid = 1,
  kHasModrm = 2,
  kHasOffset = 4,           // of 8 bytes, instead of a ModRM operand
  kImplicitMemory = 8,      // also reads or writes memory that no ModRM byte names
  kVectorIndex = 16,        // addresses are in a vector register
  kAddressOnly = 32,        // lea, nop, prefetch: the memory operand is not accessed
  kMayKeepFlags = 64,       // shifts and repeated instructions, which may leave flags as they were
  kRelativeTarget = 128,    // its immediate is a branch's distance
  kOtherVectorWrite = 256,  // writes vector registers that no field names
  kLogic = 512              // and, or, xor, test: the manuals leave AF undefined
};
enum : uint8_t { kVectorInReg = 1, kVectorInRm = 2, kVectorInVvvv = 4 };  // Form::vector_write

// Form::flags_…; kAllFlags are those of arithmetic.
enum : uint8_t {
  kCarry = 1,
  kParity = 2,
  kAuxiliary = 4,
  kZero = 8,
  kSign = 16,
  kOverflow = 32,
  kAllFlags = 63,
  kDirection = 64
};

struct Form {
  uint16_t traits;
  uint8_t immediate_bytes;
  uint8_t displacement_scale;  // of EVEX: an 8-bit displacement counts in these
  // General registers, where the operand is one, and their sizes.
  uint8_t reg_access, reg_bytes;    // ModRM.reg
  uint8_t rm_access, rm_bytes;      // ModRM.rm
  uint8_t low_access, low_bytes;    // the opcode's low bits
  uint8_t vvvv_access, vvvv_bytes;  // VEX.vvvv
  uint8_t memory_access;            // of the ModRM or offset operand
  uint8_t vector_write;
  uint16_t memory_bytes;
  uint8_t element_bytes;                   // of the memory operand: what a mask has a bit for
  uint16_t implicit_read, implicit_write;  // a bit for each general register
  uint8_t flags_read, flags_write;         // "undefined" does not count as written
};

// Where an opcode is: its map and how that is encoded.
enum Space : uint8_t {
  kOneByte = 0,
  kMap0F = 1,
  kMap0F38 = 2,
  kMap0F3A = 3,
  kVex = 4,      // + map 1 … 3
  kEvex = 8,     // + map 1 … 6
  kSystem = 15,  // 0F 01 with a register operand: the opcode is its ModRM byte
  kSpaces = 16
};

// Number of a form within its opcode's row, without ModRM.reg.
inline unsigned LegacyVariant(unsigned repeat, bool narrow, bool wide, bool reg) {
  return ((repeat * 2 + narrow) * 2 + wide) * 2 + reg;
}
inline unsigned VexVariant(unsigned pp, bool wide, unsigned length, bool reg) {
  return ((pp * 2 + wide) * 2 + (length & 1)) * 2 + reg;
}
inline unsigned EvexVariant(unsigned pp, bool wide, unsigned length, bool broadcast, bool reg) {
  return (((pp * 2 + wide) * 4 + length) * 2 + broadcast) * 2 + reg;
}
enum { kLegacyVariants = 24, kVexVariants = 32, kEvexVariants = 128 };

struct Row {
  uint32_t first;   // in kFormNumbers
  uint32_t by_reg;  // 1: eight numbers a variant, by ModRM.reg; 0: one
};

extern const Form kForms[];
extern const uint16_t kFormNumbers[];
extern const Row kRows[kSpaces][256];

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_FORMS_FORM_H_
