// SPDX-License-Identifier: MIT

#include "query/code/instruction_effects.h"

#include "absl/strings/str_cat.h"
#include "query/code/decoder.h"

namespace ttq {
namespace {

constexpr uint64_t Bit(uint8_t number) { return uint64_t{1} << number; }

constexpr uint64_t kLowVectorRegisters = uint64_t{0xffff} << kFirstVectorRegister;

// Every name of a general register, by its encoding.
constexpr uint16_t kGeneral[16][5] = {
    {X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH},
    {X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH},
    {X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH},
    {X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH},
    {X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL, 0},
    {X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL, 0},
    {X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL, 0},
    {X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL, 0},
    {X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B, 0},
    {X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B, 0},
    {X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B, 0},
    {X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B, 0},
    {X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B, 0},
    {X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B, 0},
    {X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B, 0},
    {X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B, 0},
};

struct RegisterTable {
  uint8_t number[X86_REG_ENDING];    // MemoryOperand::kNone: not one that carries a value
  bool narrow[X86_REG_ENDING] = {};  // a write to it leaves the rest of the register as it was
  RegisterTable() {
    for (uint8_t& n : number) n = kOtherRegisters;
    number[X86_REG_INVALID] = number[X86_REG_RIP] = number[X86_REG_EIP] = MemoryOperand::kNone;
    number[X86_REG_IP] = number[X86_REG_EIZ] = number[X86_REG_RIZ] = MemoryOperand::kNone;
    for (uint8_t i = 0; i < 16; ++i) {
      for (int form = 0; form < 5; ++form) {
        if (kGeneral[i][form] == 0) continue;
        number[kGeneral[i][form]] = i;
        narrow[kGeneral[i][form]] = form >= 2;
      }
    }
    number[X86_REG_EFLAGS] = kFlagsRegister;
    for (uint8_t i = 0; i < 32; ++i) {
      number[X86_REG_XMM0 + i] = number[X86_REG_YMM0 + i] = number[X86_REG_ZMM0 + i] =
          kFirstVectorRegister + i;
    }
    for (uint8_t i = 0; i < 8; ++i) {
      number[X86_REG_ST0 + i] = number[X86_REG_FP0 + i] = number[X86_REG_MM0 + i] = kX87Registers;
    }
    number[X86_REG_FPSW] = kX87Registers;
  }
};
const RegisterTable& Table() {
  static const RegisterTable table;
  return table;
}
uint8_t NumberOf(unsigned reg) {
  return reg < unsigned{X86_REG_ENDING} ? Table().number[reg] : uint8_t{MemoryOperand::kNone};
}
uint64_t MaskOf(unsigned reg) {
  const uint8_t n = NumberOf(reg);
  return n == MemoryOperand::kNone ? 0 : Bit(n);
}

// Those whose result is zero whatever the register holds.
bool ClearsRegister(const cs_insn& insn) {
  switch (insn.id) {
    case X86_INS_XOR:
    case X86_INS_SUB:
    case X86_INS_PXOR:
    case X86_INS_XORPS:
    case X86_INS_XORPD:
    case X86_INS_VPXOR:
    case X86_INS_VXORPS:
      break;
    default:
      return false;
  }
  const cs_x86& x = insn.detail->x86;
  if (x.op_count < 2) return false;
  return x.operands[0].type == X86_OP_REG && x.operands[1].type == X86_OP_REG &&
         x.operands[0].reg == x.operands[1].reg;
}

// Those of the x87 that leave its registers as they are.
bool OnlyStoresX87(unsigned id) {
  return id == X86_INS_FST || id == X86_INS_FIST || id == X86_INS_FNSTCW || id == X86_INS_FNSTSW;
}

// What push and pop move. Immediates are as wide as the stack.
uint32_t StackSize(const cs_x86& x86) {
  const bool is_narrow =
      x86.op_count == 1 && x86.operands[0].type != X86_OP_IMM && x86.operands[0].size == 2;
  return is_narrow ? 2 : 8;
}

bool IsXsave(unsigned id) {
  switch (id) {
    case X86_INS_XSAVE:
    case X86_INS_XSAVE64:
    case X86_INS_XSAVEC:
    case X86_INS_XSAVEC64:
    case X86_INS_XSAVEOPT:
    case X86_INS_XSAVEOPT64:
      return true;
    default:
      return false;
  }
}

// Of a memory operand. Capstone does not know how much the instructions store that save a state.
uint32_t SizeOf(const cs_insn& insn, const cs_x86_op& op) {
  switch (insn.id) {
    case X86_INS_FNSAVE:
    case X86_INS_FRSTOR:
      return 108;
    case X86_INS_FXSAVE:
    case X86_INS_FXSAVE64:
    case X86_INS_FXRSTOR:
    case X86_INS_FXRSTOR64:
      return 512;
    case X86_INS_XRSTOR:
    case X86_INS_XRSTOR64:
      return 576;
    default:
      return IsXsave(insn.id) ? 576 : op.size;
  }
}

// Gathers and scatters have a vector of indices, which capstone may call by the general register
// that has its number.
bool HasVectorOfIndices(const cs_insn& insn) {
  const std::string_view name = insn.mnemonic;
  return name.starts_with("vpgather") || name.starts_with("vgather") ||
         name.starts_with("vpscatter") || name.starts_with("vscatter");
}

bool IsSyscall(unsigned id) { return id == X86_INS_SYSCALL || id == X86_INS_SYSENTER; }

// What the operands say.
void AddOperands(const cs_insn& insn, Address at, InstructionEffects* out) {
  const bool clears = ClearsRegister(insn);
  const bool is_lea = insn.id == X86_INS_LEA;
  for (int i = 0; i < insn.detail->x86.op_count; ++i) {
    const cs_x86_op& op = insn.detail->x86.operands[i];
    if (op.type == X86_OP_REG) {
      const unsigned reg = op.reg;
      if (op.access & CS_AC_READ && !clears) out->reads |= MaskOf(reg);
      if (op.access & CS_AC_WRITE) {
        out->writes |= MaskOf(reg);
        if (reg < unsigned{X86_REG_ENDING} && Table().narrow[reg]) out->reads |= MaskOf(reg);
      }
    } else if (op.type == X86_OP_MEM) {
      MemoryOperand m;
      m.base = NumberOf(op.mem.base);
      m.index = NumberOf(op.mem.index);
      m.scale = static_cast<uint8_t>(op.mem.scale);
      m.displacement = op.mem.disp;
      const bool has_indices = HasVectorOfIndices(insn);
      if (has_indices && m.index < kGprCount) m.index += kFirstVectorRegister;
      m.unknown = has_indices || op.mem.segment == X86_REG_FS || op.mem.segment == X86_REG_GS;
      if (op.mem.base == X86_REG_RIP) {
        m.rip_relative = true;
        m.base = MemoryOperand::kNone;
        m.displacement += static_cast<int64_t>(at.v + insn.size);
      }
      m.size = SizeOf(insn, op);
      const uint64_t registers =
          MaskOf(op.mem.base) | (m.index == MemoryOperand::kNone ? 0 : Bit(m.index));
      if (is_lea) {
        out->reads |= registers;
        continue;
      }
      m.read = op.access & CS_AC_READ;
      m.write = op.access & CS_AC_WRITE;
      if (!m.read && !m.write) continue;
      out->addressing |= registers;
      out->memory.push_back(m);
    }
  }
}

// Memory that no operand names.
void Imply(InstructionEffects* out, uint8_t base, int64_t displacement, bool write,
           uint32_t size = 8) {
  MemoryOperand m;
  m.base = base;
  m.displacement = displacement;
  m.size = size;
  m.read = !write;
  m.write = write;
  out->memory.push_back(m);
  out->addressing |= Bit(base);
}

// What some instructions do beside.
void AddImplied(const cs_insn& insn, csh handle, InstructionEffects* out) {
  if (cs_insn_group(handle, &insn, X86_GRP_FPU)) {
    out->reads |= Bit(kX87Registers);
    if (!OnlyStoresX87(insn.id)) out->writes |= Bit(kX87Registers);
  }
  if (IsXsave(insn.id)) out->reads |= Bit(kX87Registers) | kLowVectorRegisters;
  switch (insn.id) {
    case X86_INS_PUSH:
    case X86_INS_PUSHFQ: {
      const uint32_t size = StackSize(insn.detail->x86);
      Imply(out, kRsp, -int64_t{size}, true, size);
      out->writes |= Bit(kRsp);
      break;
    }
    case X86_INS_POP:
    case X86_INS_POPFQ:
      Imply(out, kRsp, 0, false, StackSize(insn.detail->x86));
      out->writes |= Bit(kRsp);
      break;
    case X86_INS_ENTER:
      Imply(out, kRsp, -8, true);
      out->writes |= Bit(kRsp) | Bit(kRbp);
      break;
    case X86_INS_MASKMOVQ:
    case X86_INS_MASKMOVDQU:
    case X86_INS_VMASKMOVDQU:
      Imply(out, kRdi, 0, true, insn.id == X86_INS_MASKMOVQ ? 8 : 16);
      break;
    case X86_INS_FXSAVE:
    case X86_INS_FXSAVE64:
      out->reads |= Bit(kX87Registers) | kLowVectorRegisters;
      break;
    case X86_INS_XLATB:
      Imply(out, kRbx, 0, false, 1);
      out->memory.back().unknown = true;
      break;
    case X86_INS_LEAVE:
      Imply(out, kRbp, 0, false);
      out->addressing |= Bit(kRbp);
      out->reads &= ~(Bit(kRbp) | Bit(kRsp));
      out->writes |= Bit(kRbp) | Bit(kRsp);
      break;
    case X86_INS_CPUID:
      out->reads = Bit(kRax) | Bit(kRcx);
      break;
    default:
      break;
  }
}

}  // namespace

std::string RegisterText(uint8_t number) {
  if (number < kGprCount) return GprName(static_cast<Gpr>(number));
  if (number == kFlagsRegister) return "flags";
  if (number < kX87Registers) return absl::StrCat("xmm", number - kFirstVectorRegister);
  return number == kX87Registers ? "x87" : "other";
}

std::optional<Address> MemoryOperand::AddressOf(const uint64_t* gpr) const {
  if (unknown) return std::nullopt;
  uint64_t at = static_cast<uint64_t>(displacement);
  if (base < kGprCount) at += gpr[base];
  if (index < kGprCount) at += gpr[index] * scale;
  return Address(at);
}

struct EffectsReader::Impl {
  // Operands in Intel's syntax, of which capstone says more; text in AT&T's.
  Decoder operands{CS_OPT_SYNTAX_INTEL}, text{CS_OPT_SYNTAX_ATT};
};

EffectsReader::EffectsReader() : impl_(std::make_unique<Impl>()) {}
EffectsReader::~EffectsReader() = default;

InstructionEffects EffectsReader::Read(Address at, std::string_view bytes, bool want_text) const {
  InstructionEffects out;
  const uint8_t* code = reinterpret_cast<const uint8_t*>(bytes.data());
  const cs_insn* insn = impl_->operands.Decode(code, bytes.size(), at.v);
  if (insn == nullptr) {
    out.text = "(bad)";
    return out;
  }
  out.size = insn->size;
  if (const cs_insn* shown = want_text ? impl_->text.Decode(code, bytes.size(), at.v) : nullptr) {
    out.text = shown->mnemonic;
    if (shown->op_str[0] != '\0') absl::StrAppend(&out.text, " ", shown->op_str);
  }
  const csh handle = impl_->operands.handle();
  const cs_detail& detail = *insn->detail;
  for (int i = 0; i < detail.regs_read_count; ++i) out.reads |= MaskOf(detail.regs_read[i]);
  for (int i = 0; i < detail.regs_write_count; ++i) out.writes |= MaskOf(detail.regs_write[i]);
  const bool is_stack = insn->id == X86_INS_PUSH || insn->id == X86_INS_POP ||
                        cs_insn_group(handle, insn, CS_GRP_CALL) ||
                        cs_insn_group(handle, insn, CS_GRP_RET);
  // The stack pointer of a push moves by itself; what it holds is no input of what is moved.
  if (is_stack) {
    out.addressing |= out.reads & Bit(kRsp);
    out.reads &= ~Bit(kRsp);
  }
  AddOperands(*insn, at, &out);
  AddImplied(*insn, handle, &out);
  using Flow = InstructionEffects::Flow;
  if (IsSyscall(insn->id)) {
    out.flow = Flow::kSyscall;
    out.writes |= Bit(kRax) | Bit(kRcx) | Bit(kR11);
    out.reads |= Bit(kRax) | Bit(kRdi) | Bit(kRsi) | Bit(kRdx) | Bit(kR10) | Bit(kR8) | Bit(kR9);
  } else if (cs_insn_group(handle, insn, CS_GRP_CALL)) {
    out.flow = Flow::kCall;
    Imply(&out, kRsp, -8, true);
    out.writes = Bit(kRsp);
  } else if (cs_insn_group(handle, insn, CS_GRP_RET)) {
    out.flow = Flow::kReturn;
    Imply(&out, kRsp, 0, false);
    out.writes = Bit(kRsp);
  } else if (cs_insn_group(handle, insn, CS_GRP_JUMP)) {
    out.flow = Flow::kBranch;
    out.conditional = insn->id != X86_INS_JMP && insn->id != X86_INS_LJMP;
    if (out.conditional && insn->id != X86_INS_JRCXZ && insn->id != X86_INS_JECXZ) {
      out.reads |= Bit(kFlagsRegister);
    }
  }
  out.reads &= ~Bit(kOtherRegisters);
  out.addressing &= ~out.reads;
  return out;
}

}  // namespace ttq
