// SPDX-License-Identifier: MIT
//
// Instructions that access some elements of a vector and leave the others alone: loads and stores
// under a mask, gathers. Which elements is known only when they are executed, so that the mask, and
// what else the accesses depend on, are logged before them: each element is an access of its own
// with a guard. An element that the mask leaves out may lie where there is no memory.

#include "recorder/engine/translator.h"

namespace ttq::engine {
namespace {

// The bit of VEX that says whether vectors have 32 bytes: in the last byte before the opcode.
bool IsWideVector(const Instruction& i, const uint8_t* code) {
  return i.space >= kVex && (code[i.head_bytes - 2] & 4) != 0;
}

bool IsMaskedMove(const Instruction& i) {
  return i.has_memory && i.space == kVex + 2 &&
         ((i.opcode >= 0x2c && i.opcode <= 0x2f) || i.opcode == 0x8c || i.opcode == 0x8e);
}
bool IsByteStore(const Instruction& i) {  // maskmovdqu, maskmovq
  return i.opcode == 0xf7 && (i.space == kMap0F || i.space == kVex + 1);
}

}  // namespace

bool Translator::IsMasked(const Instruction& i) {
  const bool gathers = i.form->traits & kVectorIndex && i.space == kVex + 2;
  return gathers || IsMaskedMove(i) || IsByteStore(i);
}

// Logs a vector as numbers of `bytes` each; gives the first's node, after which the others' follow.
Node Translator::LogVector(uint8_t vector, Vector kind, unsigned bytes) {
  const Node first = recipe_.Slot(bytes);
  const int32_t at = recipe_.last_slot();
  const unsigned all = kind == kMmx ? 8 : kind == kYmm ? 32 : 16;
  for (unsigned done = bytes; done < all; done += bytes) recipe_.Slot(bytes);
  code_.StoreVector(vector, kind, log_register_, at);
  return first;
}

// Logs the highest bits of a vector's elements; gives the node of a number made of them.
Node Translator::LogMask(const Instruction& i, uint8_t vector, Vector kind, unsigned element) {
  const uint8_t bits = Borrow(static_cast<uint16_t>(i.reads | i.writes));
  code_.HighBits(bits, vector, kind, element);
  const Node slot = recipe_.Slot(4);
  code_.Store(bits, log_register_, recipe_.last_slot(), 4);
  GiveBack(bits);
  return slot;
}

Node Translator::BitOf(Node mask, unsigned number) {
  const Node from = number == 0 ? mask : recipe_.Make(kTtqShr, 4, mask, recipe_.Constant(number));
  return recipe_.Make(kTtqAnd, 4, from, recipe_.Constant(1));
}

void Translator::EmitGather(const Instruction& i) {
  const bool wide = IsWideVector(i, CodeOf(i));
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
  if (IsByteStore(i)) {
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
    EmitMaskedMove(i, {AddressOf(i), IsWideVector(i, CodeOf(i)) ? kYmm : kXmm, element, i.vvvv,
                       i.reg, stores});
  } else {
    EmitGather(i);
  }
  return true;
}

}  // namespace ttq::engine
