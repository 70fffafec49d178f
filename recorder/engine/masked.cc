// SPDX-License-Identifier: MIT
//
// Instructions that access some elements of a vector and leave the others alone: loads and stores
// under a mask, gathers. Which elements is known only when they are executed, so that the mask, and
// what else the accesses depend on, are logged before them: each element is an access of its own
// with a guard. An element that the mask leaves out may lie where there is no memory.
//
// AVX-512 has masks in registers of their own, for every instruction. Of those that store under a
// mask, what they store is had by executing them once more, into the log.

#include "recorder/engine/translator.h"

namespace ttq::engine {
namespace {

bool IsMaskedMove(const Instruction& i) {
  return i.has_memory && i.space == kVex + 2 &&
         ((i.opcode >= 0x2c && i.opcode <= 0x2f) || i.opcode == 0x8c || i.opcode == 0x8e);
}
bool IsEvex(const Instruction& i) { return i.space > kEvex && i.space != kSystem; }

// The bytes of an AVX-512 vector: from the last byte before the opcode.
unsigned EvexBytes(const Instruction& i, const uint8_t* code) {
  return 16u << (code[i.head_bytes - 2] >> 5 & 3);
}

Vector KindOf(unsigned bytes) { return bytes > 32 ? kZmm : bytes > 16 ? kYmm : kXmm; }

// vpcompressb and its like put the elements that the mask names side by side; vpexpandb takes them
// from there.
bool IsPacked(const Instruction& i) {
  return i.space == kEvex + 2 && (i.opcode == 0x63 || i.opcode == 0x8a || i.opcode == 0x8b ||
                                  i.opcode == 0x62 || i.opcode == 0x88 || i.opcode == 0x89);
}

// Bytes of an element that a masked store of AVX-512 writes; 0: it is not known.
unsigned StoredElement(const Instruction& i) {
  const unsigned number = i.wide ? 8 : 4, part = i.wide ? 2 : 1;
  switch (unsigned{i.space}) {
    case kEvex + 1:
      if (i.opcode == 0x11 || i.opcode == 0x29) return number;      // vmovups, vmovaps
      return i.opcode != 0x7f ? 0 : i.repeat == 2 ? part : number;  // vmovdqu8, vmovdqa32
    case kEvex + 2: {
      if (i.opcode == 0x8a || i.opcode == 0x8b) return number;  // vcompressps, vpcompressd
      if (i.opcode == 0x63) return part;                        // vpcompressb
      // vpmovusdb, vpmovsdb, vpmovdb: numbers cut to smaller ones
      static constexpr uint8_t kCut[] = {1, 1, 1, 2, 2, 4};
      const unsigned which = i.opcode & 15, row = i.opcode >> 4;
      return i.repeat == 1 && which < sizeof(kCut) && row >= 1 && row <= 3 ? kCut[which] : 0;
    }
    case kEvex + 3:
      if (i.opcode == 0x1d) return 2;  // vcvtps2ph
      return i.opcode == 0x19 || i.opcode == 0x1b || i.opcode == 0x39 || i.opcode == 0x3b ? number
                                                                                          : 0;
    default:
      return 0;
  }
}

// How many elements that is.
unsigned StoredCount(const Instruction& i, const uint8_t* code) {
  const unsigned all = EvexBytes(i, code);
  if (i.space == kEvex + 1 && i.opcode == 0x11 && i.repeat != 0) return 1;  // vmovss
  if (i.space == kEvex + 2 && i.repeat == 1) {
    static constexpr uint8_t kFrom[] = {2, 4, 8, 4, 8, 8};
    return all / kFrom[i.opcode & 15];
  }
  if (i.space == kEvex + 3 && i.opcode == 0x1d) return all / 4;
  if (i.space == kEvex + 3) return (i.opcode & 2 ? 32u : 16u) / (i.wide ? 8 : 4);
  return all / StoredElement(i);
}

bool IsMaskedEvexStore(const Instruction& i) {
  return IsEvex(i) && i.has_memory && i.mask != 0 && i.form->memory_access & kWrite &&
         !(i.form->traits & kVectorIndex) && StoredElement(i) != 0;
}

// Gathers and scatters of AVX-512; those that only prefetch are not among them.
bool IsEvexIndexed(const Instruction& i) {
  return IsEvex(i) && i.form->traits & kVectorIndex && i.space == kEvex + 2 &&
         ((i.opcode >= 0x90 && i.opcode <= 0x93) || (i.opcode >= 0xa0 && i.opcode <= 0xa3));
}

bool IsByteStore(const Instruction& i) {  // maskmovdqu, maskmovq
  return i.opcode == 0xf7 && (i.space == kMap0F || i.space == kVex + 1);
}

}  // namespace

bool Translator::IsMasked(const Instruction& i) {
  const bool gathers = i.form->traits & kVectorIndex && i.space == kVex + 2;
  return gathers || IsMaskedMove(i) || IsByteStore(i) || IsEvexIndexed(i) || IsMaskedEvexStore(i);
}

// Logs a vector as numbers of `bytes` each; gives the first's node, after which the others' follow.
Node Translator::LogVector(uint8_t vector, Vector kind, unsigned bytes) {
  const Node first = recipe_.Slot(bytes);
  const int32_t at = recipe_.last_slot();
  const unsigned all = kind == kMmx ? 8 : kind == kYmm ? 32 : 16;
  for (unsigned done = bytes; done < all; done += bytes) recipe_.Slot(bytes);
  ToLog([&] { code_.StoreVector(vector, kind, log_register_, at); });
  return first;
}

// Logs the highest bits of a vector's elements; gives the node of a number made of them.
Node Translator::LogMask(const Instruction& i, uint8_t vector, Vector kind, unsigned element) {
  const Node slot = recipe_.Slot(4);
  ToLog([&] {
    const uint8_t bits = Borrow(static_cast<uint16_t>(i.reads | i.writes));
    code_.HighBits(bits, vector, kind, element);
    code_.Store(bits, log_register_, recipe_.last_slot(), 4);
    GiveBack(bits);
  });
  return slot;
}

Node Translator::BitOf(Node mask, unsigned number) {
  const Node from = number == 0 ? mask : recipe_.Make(kTtqShr, 8, mask, recipe_.Constant(number));
  return recipe_.Make(kTtqAnd, 4, from, recipe_.Constant(1));
}

// ---- AVX-512 -----------------------------------------------------------------------------------

Node Translator::LogEvexMask(const Instruction& i, unsigned count) {
  const Node slot = recipe_.Slot(8);
  ToLog([&] {
    const uint8_t bits = Borrow(static_cast<uint16_t>(i.reads | i.writes));
    code_.LoadMask(bits, i.mask, count);
    code_.Store(bits, log_register_, recipe_.last_slot(), 8);
    GiveBack(bits);
  });
  return slot;
}

// A vector as numbers of `bytes` each, of which `count` matter; gives the first's node.
Node Translator::LogEvexVector(uint8_t vector, unsigned bytes, unsigned count) {
  const Vector kind = KindOf(count * bytes);
  const unsigned all = 16u << (kind - kXmm);
  const Node first = recipe_.Slot(bytes);
  const int32_t at = recipe_.last_slot();
  for (unsigned done = bytes; done < all; done += bytes) recipe_.Slot(bytes);
  ToLog([&] { code_.StoreEvexVector(vector, kind, log_register_, at); });
  return first;
}

// How many of the first `count` bits are set.
Node Translator::CountOf(Node mask, unsigned count) {
  RecipeBuilder& r = recipe_;
  const auto part = [&r](Node a, unsigned shift, uint64_t bits) {
    return r.Make(kTtqAnd, 8, shift == 0 ? a : r.Make(kTtqShr, 8, a, r.Constant(shift)),
                  r.Constant(bits));
  };
  Node sum = count < 64 ? part(mask, 0, (uint64_t{1} << count) - 1) : mask;
  constexpr uint64_t kHalves[] = {0x5555555555555555, 0x3333333333333333, 0x0f0f0f0f0f0f0f0f,
                                  0x00ff00ff00ff00ff, 0x0000ffff0000ffff, 0x00000000ffffffff};
  for (unsigned k = 0; k < 6; ++k) {
    const Node low = part(sum, 0, kHalves[k]);
    sum = r.Make(kTtqAdd, 8, low, part(sum, 1u << k, kHalves[k]));
  }
  return sum;
}

// Not 0 where element `number` in memory is accessed.
Node Translator::EvexGuard(const Instruction& i, Node mask, Node packed, unsigned number) {
  if (!IsPacked(i)) return BitOf(mask, number);
  const Node less = recipe_.Make(kTtqSub, 8, recipe_.Constant(number), packed);
  return recipe_.Make(kTtqShr, 8, less, recipe_.Constant(63));  // the sign
}

void Translator::EmitEvexStore(const Instruction& i) {
  const unsigned element = StoredElement(i), count = StoredCount(i, CodeOf(i));
  const Node address = AddressOf(i);
  const Node mask = LogEvexMask(i, count);
  const Node packed = IsPacked(i) ? CountOf(mask, count) : Node{kTtqNoNode};
  const Node values = recipe_.Slot(element);
  const int32_t at = recipe_.last_slot();
  for (unsigned k = 1; k < count; ++k) recipe_.Slot(element);
  ToLog([&] {  // the same instruction
    const uint8_t* from = CodeOf(i);
    constexpr unsigned kPrefixBytes = 4;  // before the opcode
    const uint8_t* prefix = from + i.head_bytes - kPrefixBytes - 1;
    code_.Byte(prefix[0]);
    code_.Byte((prefix[1] & 0x9fu) | 0x40u | (log_register_ & 8 ? 0u : 0x20u));
    code_.Bytes(prefix + 2, kPrefixBytes - 1);
    code_.WideOperand(i.reg, log_register_, at);
    code_.Bytes(from + i.length - i.form->immediate_bytes, i.form->immediate_bytes);
  });
  for (unsigned k = 0; k < count; ++k) {
    recipe_.StoreIf(recipe_.Add(address, k * element), element, static_cast<Node>(values + k),
                    EvexGuard(i, mask, packed, k));
  }
  Copy(i);
}

void Translator::EmitEvexIndexed(const Instruction& i) {
  const unsigned element = i.wide ? 8 : 4, index_bytes = i.opcode & 1 ? 8 : 4;
  const unsigned larger = element > index_bytes ? element : index_bytes;
  const unsigned count = EvexBytes(i, CodeOf(i)) / larger;
  const bool stores = i.opcode >= 0xa0;
  const auto indexed_by = static_cast<uint8_t>(i.memory.index | (i.vvvv & 16));
  const Node mask = LogEvexMask(i, count);
  const Node indices = LogEvexVector(indexed_by, index_bytes, count);
  const Node values = stores ? LogEvexVector(i.reg, element, count) : Node{kTtqNoNode};
  for (unsigned k = 0; k < count; ++k) {
    const Node index = recipe_.Make(kTtqSext, index_bytes, static_cast<Node>(indices + k), 0, 8);
    const Node address = AddressWith(i.memory, index);
    if (stores) {
      recipe_.StoreIf(address, element, static_cast<Node>(values + k), BitOf(mask, k));
    } else {
      recipe_.LoadIf(address, element, BitOf(mask, k));
    }
  }
  Copy(i);
}

// What an instruction reads of its memory operand.
void Translator::EmitLoads(const Instruction& i, Node address) {
  const Form& f = *i.form;
  const unsigned element = f.element_bytes;
  if (!IsEvex(i) || i.mask == 0 || element == 0 || f.memory_bytes <= element) {
    recipe_.Load(address, f.memory_bytes);
    return;
  }
  const unsigned count = f.memory_bytes / element;
  const Node mask = LogEvexMask(i, count);
  const Node packed = IsPacked(i) ? CountOf(mask, count) : Node{kTtqNoNode};
  for (unsigned k = 0; k < count; ++k) {
    recipe_.LoadIf(recipe_.Add(address, k * element), element, EvexGuard(i, mask, packed, k));
  }
}

// ---- AVX ---------------------------------------------------------------------------------------

void Translator::EmitGather(const Instruction& i) {
  const bool wide = IsWideVector(i);
  const unsigned element = i.wide ? 8 : 4;
  const unsigned index_bytes = i.opcode & 1 ? 8 : 4;
  const unsigned larger = element > index_bytes ? element : index_bytes;
  const unsigned count = (wide ? 32 : 16) / larger;
  const auto vector_of = [count](unsigned bytes) { return count * bytes > 16 ? kYmm : kXmm; };
  const Node mask = LogMask(i, i.vvvv, vector_of(element), element);
  const Node indices =
      LogVector(static_cast<uint8_t>(i.memory.index), vector_of(index_bytes), index_bytes);
  for (unsigned k = 0; k < count; ++k) {
    const Node index = recipe_.Make(kTtqSext, index_bytes, static_cast<Node>(indices + k), 0, 8);
    recipe_.LoadIf(AddressWith(i.memory, index), element, BitOf(mask, k));
  }
  Copy(i);
}

// Consecutive elements.
void Translator::EmitMaskedMove(const Instruction& i, const Masked& m) {
  const unsigned all = m.kind == kMmx ? 8 : m.kind == kYmm ? 32 : 16;
  const Node mask = LogMask(i, m.mask, m.kind, m.element);
  const Node values = m.stores ? LogVector(m.values, m.kind, m.element) : Node{kTtqNoNode};
  for (unsigned k = 0; k < all / m.element; ++k) {
    const Node at = recipe_.Add(m.address, k * m.element);
    if (m.stores) {
      recipe_.StoreIf(at, m.element, static_cast<Node>(values + k), BitOf(mask, k));
    } else {
      recipe_.LoadIf(at, m.element, BitOf(mask, k));
    }
  }
  Copy(i);
}

bool Translator::EmitMasked(const Instruction& i) {
  if (!IsMasked(i)) return false;
  if (IsEvexIndexed(i)) {
    EmitEvexIndexed(i);
  } else if (IsMaskedEvexStore(i)) {
    EmitEvexStore(i);
  } else if (IsByteStore(i)) {
    const bool mmx = i.space == kMap0F && !i.narrow;
    Node address = recipe_.Low(recipe_.Register(kRdi), i.memory.narrow ? 4 : 8);
    if (i.memory.segment != 0) {
      const unsigned base = i.memory.segment == 0x64 ? kTtqRegFs : kTtqRegGs;
      address = recipe_.Make(kTtqAdd, 8, address, recipe_.Register(base));
    }
    EmitMaskedMove(i, {address, mmx ? kMmx : kXmm, 1, i.rm, i.reg, true});
  } else if (IsMaskedMove(i)) {
    const bool of_numbers = i.opcode < 0x30;  // vmaskmovps and vmaskmovpd: the opcode says which
    const unsigned element = (of_numbers ? i.opcode & 1 : i.wide) ? 8 : 4;
    const bool stores = of_numbers ? i.opcode >= 0x2e : i.opcode == 0x8e;
    EmitMaskedMove(i,
                   {AddressOf(i), IsWideVector(i) ? kYmm : kXmm, element, i.vvvv, i.reg, stores});
  } else {
    EmitGather(i);
  }
  return true;
}

}  // namespace ttq::engine
