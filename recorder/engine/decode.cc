// SPDX-License-Identifier: MIT

#include "recorder/engine/decode.h"

namespace ttq::engine {
namespace {

// Reads bytes as far as there are any.
class Reader {
 public:
  Reader(const uint8_t* code, size_t bytes) : code_(code), bytes_(bytes) {}
  uint8_t Peek() const { return at_ < bytes_ ? code_[at_] : 0; }
  uint8_t PeekNext() const { return at_ + 1 < bytes_ ? code_[at_ + 1] : 0; }
  uint8_t Byte() {
    const uint8_t b = Peek();
    ++at_;
    return b;
  }
  int64_t Signed(unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(Byte()) << (8 * i);
    const unsigned shift = 64 - 8 * bytes;
    return bytes == 0 ? 0 : static_cast<int64_t>(value << shift) >> shift;
  }
  uint8_t at() const { return static_cast<uint8_t>(at_); }
  bool past_end() const { return at_ > bytes_ || at_ > kLongestInstruction; }

 private:
  const uint8_t* code_;
  size_t bytes_;
  size_t at_ = 0;
};

struct Extension {  // of register numbers: fourth bits
  uint8_t r = 0, x = 0, b = 0;
};

struct Head {
  Extension extension;
  unsigned variant = 0;  // without the bit for a register operand
  bool is_evex = false;
  bool clears = false;  // of EVEX: elements that the mask leaves out become zero
};

bool TakeVex(Reader* in, bool three, Instruction* i, Head* head) {
  in->Byte();
  const uint8_t first = in->Byte();
  uint8_t map = 1, last = first;
  head->extension.r = first & 0x80 ? 0 : 8;
  if (three) {
    head->extension.x = first & 0x40 ? 0 : 8;
    head->extension.b = first & 0x20 ? 0 : 8;
    map = first & 31;
    last = in->Byte();
    i->wide = last >> 7;
  }
  if (map == 0 || map > 3) return false;
  i->space = static_cast<Space>(kVex + map);
  i->vvvv = ~(last >> 3) & 15;
  const unsigned pp = last & 3;
  i->narrow = pp == 1;
  i->repeat = pp == 2 ? 1 : pp == 3 ? 2 : 0;
  head->variant = VexVariant(pp, i->wide, last >> 2 & 1, false);
  return true;
}

bool TakeEvex(Reader* in, Instruction* i, Head* head) {
  in->Byte();
  const uint8_t p0 = in->Byte(), p1 = in->Byte(), p2 = in->Byte();
  const uint8_t map = p0 & 7;
  if (map == 0 || map == 4 || map == 7 || !(p1 & 4)) return false;
  head->is_evex = true;
  head->extension.r = static_cast<uint8_t>((p0 & 0x80 ? 0 : 8) | (p0 & 0x10 ? 0 : 16));
  head->extension.x = p0 & 0x40 ? 0 : 8;
  head->extension.b = p0 & 0x20 ? 0 : 8;
  i->space = static_cast<Space>(kEvex + map);
  i->wide = p1 >> 7;
  i->vvvv = static_cast<uint8_t>((~(p1 >> 3) & 15) | (p2 & 8 ? 0 : 16));
  i->mask = p2 & 7;
  head->clears = p2 >> 7;
  if (head->clears && i->mask == 0) return false;
  const unsigned pp = p1 & 3;
  i->narrow = pp == 1;
  i->repeat = pp == 2 ? 1 : pp == 3 ? 2 : 0;
  head->variant = EvexVariant(pp, i->wide, p2 >> 5 & 3, p2 >> 4 & 1, false);
  return true;
}

bool IsRex(uint8_t byte) { return (byte & 0xf0) == 0x40; }

bool IsLegacyPrefix(uint8_t byte) {
  switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case 0x66:
    case 0x67:
    case 0xf0:
    case 0xf2:
    case 0xf3:
      return true;
    default:
      return false;
  }
}

// Legacy prefixes, and which map the opcode is in.
bool TakeHead(Reader* in, Instruction* i, Head* head) {
  for (bool more = true; more;) {
    switch (in->Peek()) {
      case 0x66:
        i->narrow = true;
        break;
      case 0xf3:
        i->repeat = 1;
        break;
      case 0xf2:
        i->repeat = 2;
        break;
      case 0xf0:
        i->lock = true;
        break;
      case 0x67:
        i->memory.narrow = true;
        break;
      case 0x64:
      case 0x65:
        i->memory.segment = in->Peek();
        break;
      case 0x2e:
      case 0x36:
      case 0x3e:
      case 0x26:
        break;  // without meaning in 64 bits
      default:
        // A REX prefix that does not stand before the opcode says nothing.
        more = IsRex(in->Peek()) && (IsLegacyPrefix(in->PeekNext()) || IsRex(in->PeekNext()));
    }
    if (more) in->Byte();
    if (in->past_end()) return false;
  }
  const bool is_vex = in->Peek() == 0xc5 || in->Peek() == 0xc4;
  if (is_vex || in->Peek() == 0x62) {
    if (i->narrow || i->repeat != 0 || i->lock) return false;  // they have these in themselves
    return is_vex ? TakeVex(in, in->Peek() == 0xc4, i, head) : TakeEvex(in, i, head);
  }
  if (IsRex(in->Peek())) {
    const uint8_t rex = in->Byte();
    i->rex = true;
    i->wide = rex >> 3 & 1;
    head->extension = {static_cast<uint8_t>(rex << 1 & 8), static_cast<uint8_t>(rex << 2 & 8),
                       static_cast<uint8_t>(rex << 3 & 8)};
  }
  i->space = kOneByte;
  if (in->Peek() == 0x0f) {
    in->Byte();
    i->space = kMap0F;
    if (in->Peek() == 0x38) i->space = kMap0F38;
    if (in->Peek() == 0x3a) i->space = kMap0F3A;
    if (i->space != kMap0F) in->Byte();
    if (i->space == kMap0F && in->Peek() == 0x01 && in->PeekNext() >= 0xc0) {
      in->Byte();
      i->space = kSystem;
    }
  }
  head->variant = LegacyVariant(i->repeat, i->narrow, i->wide, false);
  return true;
}

void TakeMemory(Reader* in, uint8_t modrm, const Head& head, Instruction* i) {
  MemoryOperand& m = i->memory;
  i->has_memory = true;
  const uint8_t rm = modrm & 7;
  unsigned displacement = i->mod == 1 ? 1 : i->mod == 2 ? 4 : 0;
  if (rm == 4) {
    const uint8_t sib = in->Byte();
    m.shift = sib >> 6;
    const auto index = static_cast<int8_t>((sib >> 3 & 7) | head.extension.x);
    if (index != 4 || i->form->traits & kVectorIndex) m.index = index;
    if ((sib & 7) == 5 && i->mod == 0) {
      displacement = 4;
    } else {
      m.base = static_cast<int8_t>((sib & 7) | head.extension.b);
    }
  } else if (rm == 5 && i->mod == 0) {
    m.relative = true;
    displacement = 4;
  } else {
    m.base = static_cast<int8_t>(rm | head.extension.b);
  }
  i->displacement_at = in->at();
  i->displacement_bytes = static_cast<uint8_t>(displacement);
  m.displacement = in->Signed(displacement);
  if (displacement == 1) m.displacement *= i->form->displacement_scale;
}

// Which general registers it reads and writes.
void NoteRegisters(Instruction* i) {
  const Form& f = *i->form;
  i->reads = f.implicit_read;
  i->writes = f.implicit_write;
  const auto note = [i](uint8_t access, uint8_t number) {
    const auto bit = static_cast<uint16_t>(1u << (number & 15));
    if (access & kRead) i->reads |= bit;
    if (access & kWrite) i->writes |= bit;
  };
  note(f.reg_access, i->Number(i->reg, f.reg_bytes));
  if (!i->has_memory) note(f.rm_access, i->Number(i->rm, f.rm_bytes));
  note(f.vvvv_access, i->vvvv);
  if (i->memory.base >= 0) note(kRead, static_cast<uint8_t>(i->memory.base));
  if (i->memory.index >= 0 && !(f.traits & kVectorIndex)) {
    note(kRead, static_cast<uint8_t>(i->memory.index));
  }
}

bool Take(Reader* reader, Instruction* out) {
  Reader& in = *reader;
  Head head;
  if (!TakeHead(&in, out, &head)) return false;
  out->opcode = in.Byte();
  out->head_bytes = in.at();
  const uint8_t modrm = in.Peek();
  // xchg of rax and r8, which is nop only without REX.B.
  const bool exchange = out->Is(kOneByte, 0x90) && head.extension.b != 0;
  const Row& row = kRows[out->space][exchange ? 0x91 : out->opcode];
  const unsigned variant = head.variant | (out->space == kSystem || modrm >= 0xc0);
  unsigned at = row.first;
  at += row.by_reg ? variant * 8 + (modrm >> 3 & 7) : variant;
  out->form = &kForms[kFormNumbers[at]];
  const Form& f = *out->form;
  if (!(f.traits & kValid)) return false;
  out->mod = 3;
  uint8_t low = 0;
  if (f.traits & kHasModrm && out->space != kSystem) {
    out->modrm_at = in.at();
    in.Byte();
    out->mod = modrm >> 6;
    out->reg = static_cast<uint8_t>((modrm >> 3 & 7) | head.extension.r);
    out->rm = static_cast<uint8_t>((modrm & 7) | head.extension.b);
    if (head.is_evex && out->mod == 3) out->rm |= static_cast<uint8_t>(head.extension.x << 1);
    if (out->mod != 3) TakeMemory(&in, modrm, head, out);
    if (head.is_evex && out->has_memory && f.memory_access & kWrite) {
      const unsigned unused = f.traits & kVectorIndex ? 15 : 31;
      if (head.clears || (out->vvvv & unused) != 0) return false;
    }
  } else if (f.traits & kHasOffset) {
    out->has_memory = true;
    out->displacement_at = in.at();
    out->displacement_bytes = out->memory.narrow ? 4 : 8;
    out->memory.displacement = in.Signed(out->displacement_bytes);
  } else if (f.low_access != 0 || out->space == kOneByte) {
    low = static_cast<uint8_t>((out->opcode & 7) | head.extension.b);
    out->rm = low;
  }
  out->immediate = in.Signed(f.immediate_bytes <= 8 ? f.immediate_bytes : 0);
  if (in.past_end()) return false;
  out->length = in.at();
  if (out->memory.relative) out->memory.displacement += static_cast<int64_t>(out->next());
  NoteRegisters(out);
  if (f.low_access != 0) {
    const auto bit = static_cast<uint16_t>(1u << out->Number(low, f.low_bytes));
    if (f.low_access & kRead) out->reads |= bit;
    if (f.low_access & kWrite) out->writes |= bit;
  }
  return true;
}

}  // namespace

bool Decode(const uint8_t* code, size_t bytes, uint64_t pc, Instruction* out) {
  *out = {};
  out->memory.base = out->memory.index = kNoRegister;
  out->pc = pc;
  Reader in(code, bytes);
  if (Take(&in, out)) return true;
  out->is_cut = bytes < kLongestInstruction && in.past_end();
  return false;
}

}  // namespace ttq::engine
