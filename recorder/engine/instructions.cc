// SPDX-License-Identifier: MIT
//
// Instructions that go on to the next one: the copy that is executed, what is logged beside it, and
// its part of the recipe.
//
// Whatever an instruction does, EmitLogged gets it right: the memory that it reads and writes is
// known from its operands, each general register that it writes is logged after it, and so is the
// memory that it has written. The others save bytes: where the recipe can compute a result, nothing
// is logged. To add a form to those, see docs/hacking.md.

#include <initializer_list>

#include "recorder/engine/cpuid.h"
#include "recorder/engine/translator.h"

namespace ttq::engine {
namespace {

constexpr uint16_t Bit(unsigned reg) { return static_cast<uint16_t>(1u << reg); }

unsigned OperandBytes(const Instruction& i) {
  if ((i.opcode & 1) == 0) return 1;
  return i.wide ? 8 : i.narrow ? 2 : 4;
}

// Whether an instruction such as setcc writes no more than the low byte, or two, of a register: the
// rest may be anything.
bool WritesLowBytesOnly(const Instruction& i, uint8_t number) {
  const Form& f = *i.form;
  if (i.has_memory || !(f.rm_access & kWrite) || f.rm_bytes == 0 || f.rm_bytes >= 4) return false;
  if (i.rm != number || i.IsHigh(i.rm, f.rm_bytes)) return false;
  // … nor by another operand.
  return !(f.implicit_write >> number & 1) && !(f.reg_access & kWrite && i.reg == number) &&
         !(f.vvvv_access & kWrite && i.vvvv == number);
}

// Whether an instruction writes a vector register as one number (movsd, addss, cvtsi2sd), or may:
// it copies one, or does something to all of its bits, by which signs are changed.
bool WritesNumber(const Instruction& i) {
  if (i.space != kMap0F && i.space != kVex + 1 && i.space != kEvex + 1) return false;
  const bool single = i.repeat != 0;
  switch (i.opcode) {
    case 0x10:
    case 0x11:
      return single || !i.has_memory;
    case 0x2a:
    case 0x51:
    case 0x58:
    case 0x59:
    case 0x5a:
    case 0x5c:
    case 0x5d:
    case 0x5e:
    case 0x5f:
      return single;
    case 0x12:  // movlps
    case 0x6e:  // movd, movq
    case 0x7e:
    case 0xd6:
      return true;
    case 0x28:  // movaps, movdqa
    case 0x29:
    case 0x6f:
    case 0x7f:
      return !i.has_memory;
    case 0x54:  // andps, andnps, orps, xorps; pand, pandn, por, pxor
    case 0x55:
    case 0x56:
    case 0x57:
    case 0xdb:
    case 0xdf:
    case 0xeb:
    case 0xef:
      return true;
    default:
      return false;
  }
}

}  // namespace

// ---- Borrowed registers ------------------------------------------------------------------------

uint8_t Translator::Borrow(uint16_t busy) {
  busy |= static_cast<uint16_t>(lent_ | Bit(kRsp) | Bit(log_register_));
  uint8_t reg = kRax;
  while (busy >> reg & 1) ++reg;
  code_.StoreTo(reg, &g_context.r[reg]);
  lent_ |= Bit(reg);
  return reg;
}

void Translator::GiveBack(uint8_t reg) {
  code_.LoadFrom(reg, &g_context.r[reg]);
  lent_ &= static_cast<uint16_t>(~Bit(reg));
}

void Translator::AddMark(uint16_t lent) {
  const auto offset = static_cast<uint32_t>(code_.at() - start_);
  if (mark_count_ < kMaxMarks) {
    marks_[mark_count_++] = {offset, lent, static_cast<uint16_t>(recipe_.record_bytes()),
                             static_cast<uint8_t>(index_), static_cast<uint16_t>(added_)};
  }
}

// ---- Copies ------------------------------------------------------------------------------------

void Translator::Copy(const Instruction& i) {
  const uint8_t* from = CodeOf(i);
  AddMark();
  if (!i.memory.relative) {
    code_.Bytes(from, i.length);
    return;
  }
  const auto target = static_cast<uint64_t>(i.memory.displacement);
  uint8_t* at = code_.at();
  if (code_.Reaches(target)) {
    code_.Bytes(from, i.length);
    Code::Patch(at + i.displacement_at, reinterpret_cast<const void*>(target));
    // Patch takes the distance to be the instruction's end.
    int32_t distance;
    memcpy(&distance, at + i.displacement_at, 4);
    distance -= i.length - i.displacement_at - 4;
    memcpy(at + i.displacement_at, &distance, 4);
    return;
  }
  const uint16_t wrong_half = i.rm & 8 ? 0x00ff : 0xff00;
  const uint8_t reg = Borrow(i.reads | i.writes | wrong_half | Bit(5) | Bit(12) | Bit(13));
  code_.LoadConstant(reg, target);
  CopyWithAddressIn(i, reg);
  GiveBack(reg);
  AddMark();
}

// An instruction whose operand is relative, with [reg] instead.
void Translator::CopyWithAddressIn(const Instruction& i, uint8_t reg) {
  const uint8_t* from = CodeOf(i);
  AddMark();
  code_.Bytes(from, i.modrm_at);
  code_.Byte((from[i.modrm_at] & 0x38u) | (reg & 7u));
  const unsigned rest = i.displacement_at + 4u;
  code_.Bytes(from + rest, i.length - rest);
}

// ---- Logging -----------------------------------------------------------------------------------

Node Translator::LogValue(uint8_t reg, unsigned bytes) {
  const Node slot = recipe_.Slot(bytes);
  ToLog([&] { code_.Store(reg, log_register_, recipe_.last_slot(), bytes); });
  return slot;
}

void Translator::LogRegister(uint8_t number, unsigned bytes) {
  recipe_.SetRegister(number, LogValue(number, bytes));
}

void Translator::LogResults(const Instruction& i, uint16_t registers) {
  const Form& f = *i.form;
  for (uint8_t r = 0; r < 16; ++r) {
    if (!(registers >> r & 1)) continue;
    if (WritesLowBytesOnly(i, r)) {
      recipe_.WriteOperand(i, r, f.rm_bytes, LogValue(r, f.rm_bytes));
      continue;
    }
    // A result of four bytes clears the upper half, but for what may leave the register as it was.
    const bool whole = i.space == kMap0F && (i.opcode == 0xbc || i.opcode == 0xbd);
    const bool by_reg = f.reg_access == kWrite && f.reg_bytes == 4 && i.reg == r;
    const bool by_rm = !i.has_memory && f.rm_access == kWrite && f.rm_bytes == 4 && i.rm == r;
    const bool arithmetic = i.space == kOneByte && i.opcode < 0x40 && f.reg_bytes == 4;
    LogRegister(r, !whole && (by_reg || by_rm || arithmetic) ? 4 : 8);
  }
}

// What has been written to [base + displacement], in pieces as large as the stream has them.
void Translator::LogStored(Node address, unsigned bytes, uint8_t base, int32_t displacement,
                           uint8_t segment, uint16_t busy) {
  constexpr unsigned kPiece = 32;
  ToLog([&] {
    const uint8_t value = Borrow(busy | Bit(base));
    for (unsigned done = 0; done < bytes;) {
      const unsigned n = bytes - done < kPiece ? bytes - done : kPiece;
      const Node slot = recipe_.Slot(n);
      for (unsigned k = 0; k < n;) {
        const unsigned left = n - k;
        const unsigned word = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        code_.Load(value, base, displacement + static_cast<int32_t>(done + k), word, segment);
        code_.Store(value, log_register_, recipe_.last_slot() + static_cast<int32_t>(k), word);
        k += word;
      }
      recipe_.Store(recipe_.Add(address, done), n, slot);
      done += n;
    }
    GiveBack(value);
  });
}

Node Translator::AddressOf(const Instruction& i) {
  const MemoryOperand& m = i.memory;
  if (m.relative) return recipe_.Constant(static_cast<uint64_t>(m.displacement));
  return AddressWith(
      m, m.index >= 0 ? recipe_.Register(static_cast<unsigned>(m.index)) : Node{kTtqNoNode});
}

Node Translator::AddressWith(const MemoryOperand& m, Node index) {
  RecipeBuilder& r = recipe_;
  Node sum = kTtqNoNode;
  if (m.base >= 0) sum = r.Register(static_cast<unsigned>(m.base));
  if (index != kTtqNoNode) {
    if (m.shift != 0) index = r.Make(kTtqShl, 8, index, r.Constant(m.shift));
    sum = sum == kTtqNoNode ? index : r.Make(kTtqAdd, 8, sum, index);
  }
  Node address = sum == kTtqNoNode ? r.Constant(static_cast<uint64_t>(m.displacement))
                                   : r.Add(sum, m.displacement);
  if (m.narrow) address = r.Low(address, 4);
  if (m.segment != 0) {
    address = r.Make(kTtqAdd, 8, address, r.Register(m.segment == 0x64 ? kTtqRegFs : kTtqRegGs));
  }
  return address;
}

// ---- Vector registers --------------------------------------------------------------------------

void Translator::NoteVectors(const Instruction& i) {
  const Form& f = *i.form;
  uint32_t words = 0;
  const auto note = [&words](unsigned number) {
    if (number < kTtqVectorCount) words |= (1u | 1u << kTtqHighWord) << number;
  };
  if (f.vector_write & kVectorInReg) note(i.reg);
  if (f.vector_write & kVectorInRm && !i.has_memory) note(i.rm);
  if (f.vector_write & kVectorInVvvv) note(i.vvvv);
  if (f.traits & kOtherVectorWrite) words |= (1u << kTtqX87Word) - 1;
  const bool state = i.space == kMap0F && (i.opcode == 0xae || i.opcode == 0xc7);
  if (state && i.has_memory) words |= (1u << kTtqX87Word) - 1;  // fxrstor, xrstor
  const bool x87 = IsFloat(i);
  const bool mmx = i.space == kMap0F && !i.narrow && i.repeat == 0 &&
                   ((i.opcode >= 0x60 && i.opcode <= 0x7f) || i.opcode >= 0xd1);
  if (x87 || mmx || state) words |= 1u << kTtqX87Word;
  if (words == 0) return;
  for (unsigned w = 0; w < kTtqVectorWords; ++w) {
    if ((words & ~vectors_written_) >> w & 1) recipe_.SetVector(w, kTtqNoNode);
  }
  vectors_written_ |= words;
  numbers_written_ &= ~words;
  if (WritesNumber(i) && !IsWideVector(i)) numbers_written_ |= words & ((1u << kTtqHighWord) - 1);
}

// Before a call, or a return: what may be arguments, or results.
void Translator::LogVectors(bool returning) {
  const unsigned last = returning ? 2 : kTtqVectorCount;
  for (uint8_t n = 0; n < last; ++n) {
    for (unsigned high = 0; high < 2; ++high) {
      const unsigned word = n + (high ? kTtqHighWord : 0);
      if (!(vectors_written_ >> word & 1)) continue;
      const Node slot = recipe_.Slot(8);
      ToLog([&] { code_.StoreVectorHalf(n, high != 0, log_register_, recipe_.last_slot()); });
      recipe_.SetVector(word, slot);
      vectors_written_ &= ~(1u << word);
      numbers_written_ &= ~(1u << word);
    }
  }
}

// Before the superblock may be left otherwise: single numbers.
void Translator::LogNumbers() {
  for (uint8_t n = 0; n < kTtqVectorCount; ++n) {
    if (!(numbers_written_ >> n & 1)) continue;
    const Node slot = recipe_.Slot(8);
    ToLog([&] { code_.StoreVectorHalf(n, false, log_register_, recipe_.last_slot()); });
    recipe_.SetVector(n, slot);
    vectors_written_ &= ~(1u << n);
    numbers_written_ &= ~(1u << n);
  }
}

// ---- Instructions whose results the recipe computes --------------------------------------------

bool Translator::EmitMove(const Instruction& i) {
  const unsigned bytes = OperandBytes(i);
  const bool one = i.space == kOneByte;
  RecipeBuilder& r = recipe_;
  if (one && (i.opcode == 0x88 || i.opcode == 0x89)) {  // mov to ModRM
    if (!i.has_memory) {
      r.WriteOperand(i, i.rm, bytes, r.ReadOperand(i, i.reg, bytes));
    } else {
      const Node value = r.ReadOperand(i, i.reg, bytes);
      r.Store(AddressOf(i), bytes, value);
    }
    Copy(i);
    return true;
  }
  if (one && (i.opcode == 0x8a || i.opcode == 0x8b)) {  // mov from ModRM
    if (!i.has_memory) {
      r.WriteOperand(i, i.reg, bytes, r.ReadOperand(i, i.rm, bytes));
      Copy(i);
      return true;
    }
    if (i.IsHigh(i.reg, bytes)) return false;
    r.Load(AddressOf(i), bytes);
    Copy(i);
    r.WriteOperand(i, i.reg, bytes, LogValue(i.reg, bytes));
    return true;
  }
  if (one && (i.opcode == 0xc6 || i.opcode == 0xc7)) {  // mov of a constant
    if (i.modrm_at == 0 || i.reg & 7) return false;
    const Node value = r.Low(r.Constant(static_cast<uint64_t>(i.immediate)), bytes);
    if (i.has_memory) {
      r.Store(AddressOf(i), bytes, value);
    } else {
      r.WriteOperand(i, i.rm, bytes, value);
    }
    Copy(i);
    return true;
  }
  if (one && i.opcode >= 0xb0 && i.opcode <= 0xbf) {
    const unsigned n = i.opcode < 0xb8 ? 1 : i.wide ? 8 : i.narrow ? 2 : 4;
    r.WriteOperand(i, i.rm, n, r.Low(r.Constant(static_cast<uint64_t>(i.immediate)), n));
    Copy(i);
    return true;
  }
  if (one && i.opcode == 0x8d && !i.narrow && i.memory.segment == 0) {  // lea
    r.WriteOperand(i, i.reg, i.wide ? 8 : 4, AddressOf(i));
    Copy(i);
    return true;
  }
  const bool zero = i.Is(kMap0F, 0xb6) || i.Is(kMap0F, 0xb7);
  const bool sign = i.Is(kMap0F, 0xbe) || i.Is(kMap0F, 0xbf) || (i.Is(kOneByte, 0x63) && i.wide);
  if ((!zero && !sign) || i.narrow) return false;
  const unsigned from = i.opcode == 0x63 ? 4 : (i.opcode & 1) != 0 ? 2 : 1, to = i.wide ? 8 : 4;
  Node value;
  if (i.has_memory) {
    r.Load(AddressOf(i), from);
    Copy(i);
    value = LogValue(i.reg, from);
  } else {
    value = r.ReadOperand(i, i.rm, from);
    Copy(i);
  }
  value = zero ? r.Low(value, from) : r.Make(kTtqSext, from, value, 0, to);
  r.WriteOperand(i, i.reg, to, value);
  return true;
}

bool Translator::EmitArithmetic(const Instruction& i) {
  static constexpr uint8_t kOps[8] = {kTtqAdd, kTtqOr, 0, 0, kTtqAnd, kTtqSub, kTtqXor, 0};
  constexpr unsigned kCompare = 7;
  const unsigned bytes = OperandBytes(i);
  RecipeBuilder& r = recipe_;
  const bool plain = i.space == kOneByte;
  const auto constant = [&] { return r.Constant(static_cast<uint64_t>(i.immediate)); };
  if (plain && i.opcode < 0x40 && (i.opcode & 7) < 6) {
    const unsigned which = i.opcode >> 3;
    const bool to_reg = i.opcode & 2, accumulator = (i.opcode & 7) >= 4;
    if (which == kCompare || kOps[which] == 0 || i.has_memory) return false;
    const uint8_t to = accumulator ? uint8_t{kRax} : to_reg ? i.reg : i.rm;
    Node value;
    if (!accumulator && i.reg == i.rm && i.IsHigh(i.reg, bytes) == i.IsHigh(i.rm, bytes) &&
        (kOps[which] == kTtqXor || kOps[which] == kTtqSub)) {
      value = r.Constant(0);
    } else {
      const Node a = r.ReadOperand(i, to, bytes);
      const Node b = accumulator ? constant() : r.ReadOperand(i, to_reg ? i.rm : i.reg, bytes);
      value = r.Make(kOps[which], bytes, a, b);
    }
    Copy(i);
    r.WriteOperand(i, to, bytes, value);
    return true;
  }
  if (i.has_memory || i.lock) return false;
  if (plain && i.opcode >= 0x80 && i.opcode <= 0x83) {
    const unsigned which = i.reg & 7;
    if (kOps[which] == 0 || i.opcode == 0x82) return false;
    Node value;
    if (bytes == 8 && (kOps[which] == kTtqAdd || kOps[which] == kTtqSub)) {
      value = r.Add(r.Register(i.rm), kOps[which] == kTtqAdd ? i.immediate : -i.immediate);
    } else {
      const Node a = r.ReadOperand(i, i.rm, bytes);
      value = r.Make(kOps[which], bytes, a, constant());
    }
    Copy(i);
    r.WriteOperand(i, i.rm, bytes, value);
    return true;
  }
  if (plain && (i.opcode == 0xfe || i.opcode == 0xff) && (i.reg & 7) < 2) {  // inc, dec
    const Node a = r.ReadOperand(i, i.rm, bytes);
    const uint64_t one = (i.reg & 7) == 0 ? 1 : ~uint64_t{0};
    const Node value =
        bytes == 8 ? r.Add(a, static_cast<int64_t>(one)) : r.Make(kTtqAddI, bytes, a, 0, 0, one);
    Copy(i);
    r.WriteOperand(i, i.rm, bytes, value);
    return true;
  }
  if (plain && (i.opcode == 0xf6 || i.opcode == 0xf7) && ((i.reg & 7) == 2 || (i.reg & 7) == 3)) {
    const Node a = r.ReadOperand(i, i.rm, bytes);
    const Node value =
        (i.reg & 7) == 2 ? r.Make(kTtqNot, bytes, a) : r.Make(kTtqSub, bytes, r.Constant(0), a);
    Copy(i);
    r.WriteOperand(i, i.rm, bytes, value);
    return true;
  }
  const bool by_one = plain && (i.opcode == 0xd0 || i.opcode == 0xd1);
  if (by_one || (plain && (i.opcode == 0xc0 || i.opcode == 0xc1))) {  // shifts by a constant
    static constexpr uint8_t kShifts[8] = {0, 0, 0, 0, kTtqShl, kTtqShr, kTtqShl, kTtqSar};
    const unsigned mask = bytes == 8 ? 63 : 31;
    const unsigned count = by_one ? 1 : static_cast<unsigned>(i.immediate) & mask;
    const unsigned op = kShifts[i.reg & 7];
    if (op == 0 || count >= 8 * bytes) return false;
    const Node a = r.ReadOperand(i, i.rm, bytes);
    const Node value = r.Make(op, bytes, a, r.Constant(count));
    Copy(i);
    r.WriteOperand(i, i.rm, bytes, value);
    return true;
  }
  if (i.Is(kMap0F, 0xaf) || i.Is(kOneByte, 0x69) || i.Is(kOneByte, 0x6b)) {  // imul
    const unsigned n = i.wide ? 8 : i.narrow ? 2 : 4;
    const Node a = r.ReadOperand(i, i.rm, n);
    const Node b = i.space == kMap0F ? r.ReadOperand(i, i.reg, n) : constant();
    const Node value = r.Make(kTtqMul, n, a, b);
    Copy(i);
    r.WriteOperand(i, i.reg, n, value);
    return true;
  }
  if (i.Is(kOneByte, 0x98) && !i.narrow) {  // cdqe, cwde
    const unsigned from = i.wide ? 4 : 2, to = i.wide ? 8 : 4;
    const Node value = r.Make(kTtqSext, from, r.Register(kRax), 0, to);
    Copy(i);
    r.WriteOperand(i, kRax, to, value);
    return true;
  }
  return false;
}

bool Translator::EmitStack(const Instruction& i) {
  if (i.space != kOneByte) return false;
  RecipeBuilder& r = recipe_;
  const Node top = r.Register(kRsp);
  const unsigned bytes = i.narrow ? 2 : 8;
  const bool push_register = i.opcode >= 0x50 && i.opcode <= 0x57;
  if (push_register || i.opcode == 0x68 || i.opcode == 0x6a) {
    const Node value =
        push_register ? r.Register(i.rm) : r.Constant(static_cast<uint64_t>(i.immediate));
    const Node below = r.Add(top, -static_cast<int64_t>(bytes));
    r.SetRegister(kRsp, below);
    r.Store(below, bytes, value);
    Copy(i);
    return true;
  }
  if (i.opcode >= 0x58 && i.opcode <= 0x5f) {
    r.Load(top, bytes);
    Copy(i);
    r.SetRegister(kRsp, r.Add(top, bytes));
    LogRegister(i.rm, 8);
    return true;
  }
  if (i.opcode == 0x8f && i.has_memory) {  // pop to memory: rsp has moved before it is an address
    r.Load(top, bytes);
    r.SetRegister(kRsp, r.Add(top, bytes));
    const Node address = AddressOf(i);
    Copy(i);
    const uint8_t place = Borrow(i.reads);
    LoadAddress(i, place);
    LogStored(address, bytes, place, 0, i.memory.segment, i.reads);
    GiveBack(place);
    return true;
  }
  if (i.narrow && !i.wide) return false;
  if (i.opcode == 0xff && (i.reg & 7) == 6) {  // push of memory
    if (!i.has_memory) return false;
    r.Load(AddressOf(i), 8);
    Copy(i);
    const Node below = r.Add(top, -8);
    r.SetRegister(kRsp, below);
    LogStored(below, 8, kRsp, 0, 0, 0);
    return true;
  }
  if (i.opcode == 0x9c) {  // pushf
    Copy(i);
    const uint8_t value = Borrow(i.reads | i.writes);
    const uint8_t bit = Borrow(i.reads | i.writes | Bit(value));
    code_.Load(value, kRsp, 0, 8, 0);
    code_.LoadFrom(bit, &g_context.alignment_check);
    code_.AddScaled(value, bit, 0);
    code_.Store(value, kRsp, 0, 8);
    GiveBack(bit);
    GiveBack(value);
    const Node below = r.Add(top, -8);
    r.SetRegister(kRsp, below);
    LogStored(below, 8, kRsp, 0, 0, 0);
    return true;
  }
  if (i.opcode == 0xc8) {  // enter
    const Node frame = r.Add(top, -8);
    r.Store(frame, 8, r.Register(kRbp));
    Copy(i);
    r.SetRegister(kRbp, frame);
    r.SetRegister(kRsp, r.Add(frame, -(i.immediate & 0xffff)));
    return true;
  }
  if (i.opcode == 0xc9) {  // leave
    const Node frame = r.Register(kRbp);
    r.Load(frame, 8);
    Copy(i);
    r.SetRegister(kRsp, r.Add(frame, 8));
    LogRegister(kRbp, 8);
    return true;
  }
  return false;
}

// String instructions, once.
bool Translator::EmitString(const Instruction& i) {
  if (i.space != kOneByte) return false;
  const unsigned kind = i.opcode & 0xfe;
  const bool moves = kind == 0xa4, compares = kind == 0xa6, stores = kind == 0xaa,
             loads = kind == 0xac, scans = kind == 0xae;
  if (!moves && !compares && !stores && !loads && !scans) return false;
  RecipeBuilder& r = recipe_;
  const unsigned bytes = OperandBytes(i);
  const Node step = r.Make(kTtqMul, 8, r.Register(kTtqRegDirection), r.Constant(bytes));
  const unsigned width = i.memory.narrow ? 4 : 8;
  const Node source = r.Low(r.Register(kRsi), width);
  const Node destination = r.Low(r.Register(kRdi), width);
  Node from = source;
  if (i.memory.segment != 0) {
    from = r.Make(kTtqAdd, 8, source, r.Register(i.memory.segment == 0x64 ? kTtqRegFs : kTtqRegGs));
  }
  if (moves || compares || loads) r.Load(from, bytes);
  if (compares || scans) r.Load(destination, bytes);
  if (stores) r.Store(destination, bytes, r.ReadOperand(i, kRax, bytes == 1 ? 8 : bytes));
  uint8_t place = 0;
  if (moves) {
    place = Borrow(i.reads | i.writes);
    if (i.memory.narrow) {
      code_.Move32(place, kRdi);
    } else {
      code_.Move(place, kRdi);
    }
  }
  // What repeats it is ours.
  AddMark();
  for (unsigned k = 0; k < i.length; ++k) {
    const uint8_t b = CodeOf(i)[k];
    if (k + 1 == i.head_bytes || (b != 0xf2 && b != 0xf3)) code_.Byte(b);
  }
  if (moves) {
    LogStored(destination, bytes, place, 0, 0, 0);
    GiveBack(place);
  }
  if (loads) {
    r.WriteOperand(i, kRax, bytes == 1 ? 1 : bytes, LogValue(kRax, bytes));
  }
  if (moves || compares || loads) r.SetRegister(kRsi, r.Make(kTtqAdd, width, source, step));
  if (!loads) r.SetRegister(kRdi, r.Make(kTtqAdd, width, destination, step));
  return true;
}

bool Translator::EmitExpression(const Instruction& i) {
  if (i.space != kOneByte && i.space != kMap0F) return false;
  if (i.lock) return false;
  if (i.Is(kOneByte, 0xfc) || i.Is(kOneByte, 0xfd)) {  // cld, std
    Copy(i);
    recipe_.SetRegister(kTtqRegDirection, recipe_.Constant(i.opcode == 0xfc ? 1 : ~uint64_t{0}));
    return true;
  }
  return EmitMove(i) || EmitArithmetic(i) || EmitStack(i) || EmitString(i);
}

// ---- All others --------------------------------------------------------------------------------

// The address of the memory operand, without its segment.
void Translator::LoadAddress(const Instruction& i, uint8_t place) {
  const MemoryOperand& m = i.memory;
  if (m.relative || i.form->traits & kHasOffset) {
    code_.LoadConstant(place, static_cast<uint64_t>(m.displacement));
    return;
  }
  // lea place, [base + index << shift + displacement]
  if (m.narrow) code_.Byte(0x67);
  code_.Byte(0x48u | (place >> 3) << 2 | (m.index > 7) << 1 | (m.base > 7));
  code_.Byte(0x8d);
  const unsigned index = m.index >= 0 ? m.index & 7 : 4, base = m.base >= 0 ? m.base & 7 : 5;
  code_.Byte((m.base >= 0 ? 0x80u : 0u) | (place & 7u) << 3 | 4);
  code_.Byte(m.shift << 6 | index << 3 | base);
  code_.Word32(static_cast<uint64_t>(m.displacement));
}

// Where the operand of a bit string instruction is that the bit number leads to.
Node Translator::BitStringAddress(const Instruction& i) {
  RecipeBuilder& r = recipe_;
  const unsigned bytes = i.wide ? 8 : i.narrow ? 2 : 4, shift = i.wide ? 6 : i.narrow ? 4 : 5;
  const Node number = r.Low(r.ReadOperand(i, i.reg, bytes), bytes);
  const Node words = r.Make(kTtqSar, bytes, number, r.Constant(shift));
  const Node distance = r.Make(kTtqMul, 8, r.Make(kTtqSext, bytes, words, 0, 8), r.Constant(bytes));
  return r.Make(kTtqAdd, 8, AddressOf(i), distance);
}

// The same for a register that holds the address of the operand. Keeps flags in rax meanwhile.
void Translator::MoveToBitString(const Instruction& i, uint8_t place) {
  const unsigned shift = i.wide ? 6 : i.narrow ? 4 : 5;
  const auto busy = static_cast<uint16_t>(i.reads | Bit(place) | Bit(kRax));
  const uint8_t words = Borrow(busy), kept = Borrow(busy);
  code_.SignExtend(words, i.reg, i.wide ? 8 : i.narrow ? 2 : 4);
  code_.Move(kept, kRax);
  code_.SaveFlags();
  code_.ShiftRight(words, shift);
  code_.AddScaled(place, words, shift - 3);
  code_.RestoreFlags();
  code_.Move(kRax, kept);
  GiveBack(kept);
  GiveBack(words);
}

// What an instruction that saves the processor's state, at the address in `place`, has stored and
// what depends on more than the program: after the kernel has put the state away and back, it may
// be another. It becomes what it may be at any time.
void Translator::StoreDetermined(const Instruction& i, uint8_t place, uint64_t components) {
  const unsigned group = i.reg & 7;
  const bool is_environment = i.Is(kOneByte, 0xd9) && group == 6;  // fnstenv
  const bool is_x87 = i.Is(kOneByte, 0xdd) && group == 6;          // fnsave
  const bool is_saved = i.Is(kMap0F, 0xae) && i.repeat == 0;
  const bool is_xsave = is_saved && group == 4 && ~components != 0;
  if (i.memory.segment != 0) return;
  // Where the last x87 instruction lay, here in translated code, its opcode and its operand.
  if ((is_environment || is_x87) && i.narrow) {
    for (const int32_t at : {6, 10}) code_.StoreWord32(place, 0, at);
  } else if (is_environment || is_x87) {
    for (const int32_t at : {12, 16, 20}) code_.StoreWord32(place, 0, at);
    constexpr uint32_t kReserved = 0xffff0000;
    code_.StoreWord32(place, kReserved, 24);
  } else if ((is_saved && group == 0) || (is_xsave && components & 1)) {
    for (const int32_t at : {6, 7}) code_.StoreByte(place, at, 0);
    for (const int32_t at : {8, 12, 16, 20}) code_.StoreWord32(place, 0, at);
  }
  // Which components were in use: all.
  constexpr int32_t kInUse = 512;
  if (is_xsave) {
    code_.StoreByte(place, kInUse, static_cast<uint8_t>(components & EnabledComponents()));
  }
}

void Translator::EmitLogged(const Instruction& i) {
  const Form& f = *i.form;
  const bool xlat = i.Is(kOneByte, 0xd7);
  unsigned stored = i.has_memory && f.memory_access & kWrite ? f.memory_bytes : 0;
  // xsave, xsavec and xsaveopt write what they are asked to; see docs/engine.md.
  const bool saves_state =
      i.has_memory && i.repeat == 0 &&  // F3: ptwrite
      ((i.Is(kMap0F, 0xae) && ((i.reg & 7) == 4 || ((i.reg & 7) == 6 && !i.narrow))) ||
       (i.Is(kMap0F, 0xc7) && (i.reg & 7) == 4));
  uint64_t components = 0;
  if (saves_state) {
    const uint64_t low = recipe_.KnownValue(kRax, ~uint64_t{0});
    const uint64_t high = recipe_.KnownValue(kRdx, ~uint64_t{0});
    components = high << 32 | (low & 0xffffffff);
    stored = StateBytes(components, i.opcode == 0xc7);
  }
  Node address = kTtqNoNode;
  if (i.has_memory && f.memory_access != kNoAccess) {
    address = IsBitString(i) ? BitStringAddress(i) : AddressOf(i);
    if (f.memory_access & kRead && !saves_state) EmitLoads(i, address);
  } else if (xlat) {
    const Node low = recipe_.Make(kTtqExtract, 1, recipe_.Register(kRax));
    recipe_.Load(recipe_.Make(kTtqAdd, 8, recipe_.Register(kRbx), low), 1);
  }
  if (stored == 0) {
    Copy(i);
    LogResults(i, i.writes);
    return;
  }
  // The address is taken before the instruction, which may change what it is made of.
  const bool relative = i.memory.relative;
  const uint16_t wrong_half = !relative ? 0 : i.rm & 8 ? 0x00ff : 0xff00;
  const auto rax = static_cast<uint16_t>(IsBitString(i) ? Bit(kRax) : 0);
  const uint8_t place = Borrow(i.reads | i.writes | wrong_half | rax | Bit(5) | Bit(12) | Bit(13));
  LoadAddress(i, place);
  if (relative) {
    CopyWithAddressIn(i, place);
  } else {
    Copy(i);
  }
  if (IsBitString(i)) MoveToBitString(i, place);
  StoreDetermined(i, place, components);
  LogResults(i, i.writes);
  LogStored(address, stored, place, 0, i.memory.segment, i.reads | i.writes);
  GiveBack(place);
}

void Translator::EmitPlain(const Instruction& i) {
  if (!EmitMasked(i) && !EmitExpression(i)) EmitLogged(i);
  NoteVectors(i);
}

}  // namespace ttq::engine
