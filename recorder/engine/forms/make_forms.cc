// SPDX-License-Identifier: MIT
//
// Writes the table of instruction forms (form.h) as C++: every opcode with every combination of the
// prefixes that matter is put together, with [rbx] or rbx as its ModRM operand, and Zydis is asked
// what it is. Runs when ttq is built.

#include <Zydis/Zydis.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "recorder/engine/forms/form.h"

namespace ttq::engine {
namespace {

using Bytes = std::vector<uint8_t>;

struct Decoded {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

bool Decode(const Bytes& bytes, Decoded* out) {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return d;
  }();
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes.data(), bytes.size(),
                                             &out->instruction, out->operands));
}

int GeneralNumber(ZydisRegister r) {
  if (r == ZYDIS_REGISTER_NONE) return -1;
  const ZydisRegister all = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);
  if (all < ZYDIS_REGISTER_RAX || all > ZYDIS_REGISTER_R15) return -1;
  return all - ZYDIS_REGISTER_RAX;  // in encoding order
}

bool IsVector(ZydisRegister r) {
  const ZydisRegisterClass c = ZydisRegisterGetClass(r);
  return c == ZYDIS_REGCLASS_XMM || c == ZYDIS_REGCLASS_YMM || c == ZYDIS_REGCLASS_ZMM;
}

uint8_t AccessOf(ZydisOperandActions actions) {
  uint8_t access = 0;
  if (actions & ZYDIS_OPERAND_ACTION_MASK_READ) access |= kRead;
  if (actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) access |= kWrite;
  // What may not be written keeps its value, so that it counts as read.
  if (actions & ZYDIS_OPERAND_ACTION_CONDWRITE) access |= kRead;
  return access;
}

uint8_t FlagsOf(ZydisAccessedFlagsMask mask) {
  uint8_t flags = 0;
  if (mask & ZYDIS_CPUFLAG_CF) flags |= kCarry;
  if (mask & ZYDIS_CPUFLAG_PF) flags |= kParity;
  if (mask & ZYDIS_CPUFLAG_AF) flags |= kAuxiliary;
  if (mask & ZYDIS_CPUFLAG_ZF) flags |= kZero;
  if (mask & ZYDIS_CPUFLAG_SF) flags |= kSign;
  if (mask & ZYDIS_CPUFLAG_OF) flags |= kOverflow;
  if (mask & ZYDIS_CPUFLAG_DF) flags |= kDirection;
  return flags;
}

void AddRegister(const ZydisDecodedOperand& o, Form* f) {
  const uint8_t access = AccessOf(o.actions);
  if (IsVector(o.reg.value)) {
    if (!(access & kWrite)) return;
    switch (o.encoding) {
      case ZYDIS_OPERAND_ENCODING_MODRM_REG:
        f->vector_write |= kVectorInReg;
        break;
      case ZYDIS_OPERAND_ENCODING_MODRM_RM:
        f->vector_write |= kVectorInRm;
        break;
      case ZYDIS_OPERAND_ENCODING_NDSNDD:
        f->vector_write |= kVectorInVvvv;
        break;
      default:
        f->traits |= kOtherVectorWrite;
    }
    return;
  }
  const int number = GeneralNumber(o.reg.value);
  if (number < 0) return;
  const auto bytes = static_cast<uint8_t>(o.size / 8);
  switch (o.encoding) {
    case ZYDIS_OPERAND_ENCODING_MODRM_REG:
      f->reg_access |= access;
      f->reg_bytes = bytes;
      break;
    case ZYDIS_OPERAND_ENCODING_MODRM_RM:
      f->rm_access |= access;
      f->rm_bytes = bytes;
      break;
    case ZYDIS_OPERAND_ENCODING_OPCODE:
      f->low_access |= access;
      f->low_bytes = bytes;
      break;
    case ZYDIS_OPERAND_ENCODING_NDSNDD:
      f->vvvv_access |= access;
      f->vvvv_bytes = bytes;
      break;
    default:
      if (access & kRead) f->implicit_read |= static_cast<uint16_t>(1u << number);
      if (access & kWrite) f->implicit_write |= static_cast<uint16_t>(1u << number);
  }
}

void AddMemory(const ZydisDecodedInstruction& i, const ZydisDecodedOperand& o, Form* f) {
  const bool named = o.encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM ||
                     o.encoding == ZYDIS_OPERAND_ENCODING_DISP16_32_64;
  if (!named) {
    f->traits |= kImplicitMemory;
    for (ZydisRegister r : {o.mem.base, o.mem.index}) {
      if (const int n = GeneralNumber(r); n >= 0)
        f->implicit_read |= static_cast<uint16_t>(1u << n);
    }
    return;
  }
  const auto category = i.meta.category;
  if (o.mem.type == ZYDIS_MEMOP_TYPE_AGEN || category == ZYDIS_CATEGORY_PREFETCH ||
      category == ZYDIS_CATEGORY_NOP || category == ZYDIS_CATEGORY_WIDENOP ||
      i.mnemonic == ZYDIS_MNEMONIC_CLFLUSH || i.mnemonic == ZYDIS_MNEMONIC_CLFLUSHOPT ||
      i.mnemonic == ZYDIS_MNEMONIC_CLWB || i.mnemonic == ZYDIS_MNEMONIC_CLDEMOTE) {
    f->traits |= kAddressOnly;
  } else {
    f->memory_access = AccessOf(o.actions);
  }
  if (o.mem.type == ZYDIS_MEMOP_TYPE_VSIB) f->traits |= kVectorIndex;
  f->memory_bytes = static_cast<uint16_t>(o.size / 8);
  f->element_bytes = static_cast<uint8_t>(o.element_size / 8);
  if (i.raw.disp.size == 8) f->displacement_scale = static_cast<uint8_t>(o.mem.disp.value);
}

Form FormOf(const Decoded& d, size_t bytes_before_operand) {
  const ZydisDecodedInstruction& i = d.instruction;
  Form f = {};
  f.traits = kValid;
  f.displacement_scale = 1;
  size_t used = bytes_before_operand;
  if (i.attributes & ZYDIS_ATTRIB_HAS_MODRM) {
    f.traits |= kHasModrm;
    used += 1 + (i.raw.modrm.mod != 3 && i.raw.modrm.rm == 4) + i.raw.disp.size / 8;
  } else if (i.raw.disp.size != 0) {
    f.traits |= kHasOffset;
    used += i.raw.disp.size / 8;
  }
  f.immediate_bytes = static_cast<uint8_t>(i.length - used);
  if (i.raw.imm[0].size != 0 && i.raw.imm[0].is_relative) f.traits |= kRelativeTarget;
  for (int k = 0; k < i.operand_count; ++k) {
    if (d.operands[k].type == ZYDIS_OPERAND_TYPE_REGISTER) AddRegister(d.operands[k], &f);
    if (d.operands[k].type == ZYDIS_OPERAND_TYPE_MEMORY) AddMemory(i, d.operands[k], &f);
  }
  const auto category = i.meta.category;
  if (category == ZYDIS_CATEGORY_SHIFT || category == ZYDIS_CATEGORY_ROTATE ||
      (i.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE))) {
    f.traits |= kMayKeepFlags;
  }
  if (i.mnemonic == ZYDIS_MNEMONIC_AND || i.mnemonic == ZYDIS_MNEMONIC_OR ||
      i.mnemonic == ZYDIS_MNEMONIC_XOR || i.mnemonic == ZYDIS_MNEMONIC_TEST) {
    f.traits |= kLogic;
  }
  if (i.cpu_flags != nullptr) {
    f.flags_read = FlagsOf(i.cpu_flags->tested);
    f.flags_write = FlagsOf(i.cpu_flags->modified | i.cpu_flags->set_0 | i.cpu_flags->set_1);
  }
  return f;
}

// The prefixes and the opcode of a form.
Bytes Head(unsigned space, unsigned opcode, unsigned variant, unsigned vvvv, unsigned mask) {
  Bytes b;
  const auto add = [&b](unsigned byte) { b.push_back(static_cast<uint8_t>(byte)); };
  if (space < kVex || space == kSystem) {
    const unsigned repeat = variant / 8;
    if (variant >> 2 & 1) add(0x66);
    if (repeat != 0) add(repeat == 1 ? 0xf3 : 0xf2);
    if (variant >> 1 & 1) add(0x48);
    if (space != kOneByte) add(0x0f);
    if (space == kMap0F38) add(0x38);
    if (space == kMap0F3A) add(0x3a);
    if (space == kSystem) add(0x01);
  } else if (space < kEvex) {
    const unsigned pp = variant / 8, wide = variant >> 2 & 1, length = variant >> 1 & 1;
    add(0xc4);
    add(0xe0 | (space - kVex));
    add(wide << 7 | (~vvvv & 15) << 3 | length << 2 | pp);
  } else {
    const unsigned pp = variant / 32, wide = variant >> 4 & 1, length = variant >> 2 & 3;
    const unsigned broadcast = variant >> 1 & 1;
    add(0x62);
    add(0xf0 | (space - kEvex));
    add(wide << 7 | (~vvvv & 15) << 3 | 4 | pp);
    add(length << 5 | broadcast << 4 | 8 | mask);
  }
  add(opcode);
  return b;
}

Form Ask(unsigned space, unsigned opcode, unsigned variant, unsigned reg) {
  const bool is_register = variant & 1;
  const bool evex = space > kEvex && space != kSystem;
  Decoded d;
  for (unsigned attempt = 0; attempt < (is_register ? 32 : 16); ++attempt) {
    // A register, or what several instructions of one row differ by; [rbx]; a vector of addresses.
    const bool vector = !is_register && attempt & 4;
    const unsigned vvvv = attempt & 2 ? 6 : 0, mask = evex ? attempt & 1 : 0;
    const unsigned rm = is_register ? (attempt / 4 + 3) % 8 : vector ? 4 : 3;
    Bytes b = Head(space, opcode, variant, vvvv, mask);
    const size_t before = b.size() - (space == kSystem ? 1 : 0);
    if (space != kSystem) {
      const unsigned mod = is_register ? 3 : evex ? 1 : 0;
      b.push_back(static_cast<uint8_t>(mod << 6 | reg << 3 | rm));
      // rbx, and a vector register, which may not be one of the others
      if (vector) b.push_back(attempt & 8 ? 0x2b : 0x13);
      if (mod == 1) b.push_back(1);
    }
    b.insert(b.end(), 16, 0);
    if (Decode(b, &d)) return FormOf(d, before);
  }
  return {};
}

class Table {
 public:
  void Add(unsigned space, unsigned opcode) {
    const unsigned variants = space < kVex || space == kSystem ? kLegacyVariants
                              : space < kEvex                  ? kVexVariants
                                                               : kEvexVariants;
    std::vector<uint16_t> row;
    bool by_reg = false;
    for (unsigned v = 0; v < variants; ++v) {
      for (unsigned reg = 0; reg < 8; ++reg) {
        row.push_back(NumberOf(Ask(space, opcode, v, space == kSystem ? 0 : reg)));
        by_reg = by_reg || row.back() != row[row.size() - reg - 1];
      }
    }
    if (!by_reg) {
      for (unsigned v = 0; v < variants; ++v) row[v] = row[v * 8];
      row.resize(variants);
    }
    auto [found, is_new] = rows_.try_emplace(row, static_cast<uint32_t>(numbers_.size()));
    if (is_new) numbers_.insert(numbers_.end(), row.begin(), row.end());
    row_[space][opcode] = {found->second, by_reg};
  }
  void Print() const;

 private:
  uint16_t NumberOf(const Form& f) {
    const std::string key(reinterpret_cast<const char*>(&f), sizeof(f));
    auto [found, is_new] = form_numbers_.try_emplace(key, static_cast<uint16_t>(forms_.size()));
    if (is_new) forms_.push_back(f);
    return found->second;
  }

  std::map<std::string, uint16_t> form_numbers_;
  std::vector<Form> forms_;
  std::map<std::vector<uint16_t>, uint32_t> rows_;
  std::vector<uint16_t> numbers_;
  Row row_[kSpaces][256] = {};
};

void Table::Print() const {
  std::printf(
      "// Made by make_forms.cc.\n#include \"recorder/engine/forms/form.h\"\n"
      "namespace ttq::engine {\nconst Form kForms[] = {\n");
  for (const Form& f : forms_) {
    std::printf("{%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u},\n", f.traits,
                f.immediate_bytes, f.displacement_scale, f.reg_access, f.reg_bytes, f.rm_access,
                f.rm_bytes, f.low_access, f.low_bytes, f.vvvv_access, f.vvvv_bytes, f.memory_access,
                f.vector_write, f.memory_bytes, f.element_bytes, f.implicit_read, f.implicit_write,
                f.flags_read, f.flags_write);
  }
  std::printf("};\nconst uint16_t kFormNumbers[] = {\n");
  for (size_t i = 0; i < numbers_.size(); ++i) {
    std::printf("%u,%s", numbers_[i], i % 24 == 23 ? "\n" : "");
  }
  std::printf("};\nconst Row kRows[kSpaces][256] = {\n");
  for (const auto& space : row_) {
    std::printf("{");
    for (const Row& r : space) std::printf("{%u,%u},", r.first, r.by_reg);
    std::printf("},\n");
  }
  std::printf("};\n}  // namespace ttq::engine\n");
}

}  // namespace
}  // namespace ttq::engine

int main() {
  using namespace ttq::engine;
  Table table;
  for (unsigned space = 0; space < kSpaces; ++space) {
    if (space == kVex || space == kEvex || space == kEvex + 4) continue;  // no such maps
    for (unsigned opcode = 0; opcode < 256; ++opcode) table.Add(space, opcode);
  }
  table.Print();
}
