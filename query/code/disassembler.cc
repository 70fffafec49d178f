// SPDX-License-Identifier: MIT

#include "query/code/disassembler.h"

#include <capstone/capstone.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "query/code/decoder.h"

namespace ttq {

struct Disassembler::Impl {
  Decoder text{CS_OPT_SYNTAX_ATT};
  // In Intel's syntax, where operands come destination first and capstone says more of them.
  std::optional<Decoder> operands;
  NameOf name_of;
};

Disassembler::Disassembler(NameOf name_of) : impl_(std::make_unique<Impl>()) {
  impl_->name_of = std::move(name_of);
}

Disassembler::~Disassembler() = default;

namespace {

// The address an instruction names directly: a branch's target, or what a rip-relative operand
// reaches. 0: none.
uint64_t NamedAddress(csh handle, const cs_insn& insn) {
  const cs_x86& x86 = insn.detail->x86;
  bool branch = cs_insn_group(handle, &insn, CS_GRP_JUMP) ||
                cs_insn_group(handle, &insn, CS_GRP_CALL) ||
                cs_insn_group(handle, &insn, CS_GRP_BRANCH_RELATIVE);
  for (int i = 0; i < x86.op_count; ++i) {
    const cs_x86_op& op = x86.operands[i];
    if (op.type == X86_OP_IMM && branch) return static_cast<uint64_t>(op.imm);
    if (op.type == X86_OP_MEM && op.mem.base == X86_REG_RIP && op.mem.index == X86_REG_INVALID) {
      return insn.address + insn.size + static_cast<uint64_t>(op.mem.disp);
    }
  }
  return 0;
}

}  // namespace

std::vector<DisassembledInstruction> Disassembler::Disassemble(absl::Span<const uint8_t> bytes,
                                                               Address at, size_t max_count) const {
  std::vector<DisassembledInstruction> out;
  while (!bytes.empty() && out.size() < max_count) {
    DisassembledInstruction instruction;
    instruction.address = at;
    size_t size = 1;
    if (const cs_insn* insn = impl_->text.Decode(bytes.data(), bytes.size(), at.v)) {
      size = insn->size;
      instruction.text = insn->mnemonic;
      if (insn->op_str[0] != '\0') absl::StrAppend(&instruction.text, " ", insn->op_str);
      uint64_t named = impl_->name_of ? NamedAddress(impl_->text.handle(), *insn) : 0;
      if (named != 0) {
        std::string name = impl_->name_of(Address(named));
        if (!name.empty()) absl::StrAppend(&instruction.text, " <", name, ">");
      }
    } else {
      instruction.text = "(bad)";
    }
    instruction.bytes.assign(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    bytes.remove_prefix(size);
    at += size;
    out.push_back(std::move(instruction));
  }
  return out;
}

// ---- Operands -----------------------------------------------------------------------------------

namespace {

using File = RegisterName::File;

RegisterName NameOfRegister(x86_reg reg) {
  static const std::vector<RegisterName>* const table = [] {
    auto* names = new std::vector<RegisterName>(X86_REG_ENDING, {.file = File::kOther});
    (*names)[X86_REG_INVALID] = {};
    const x86_reg general[kGprCount][4] = {
        {X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL},
        {X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL},
        {X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL},
        {X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL},
        {X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL},
        {X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL},
        {X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL},
        {X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL},
        {X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B},
        {X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B},
        {X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B},
        {X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B},
        {X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B},
        {X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B},
        {X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B},
        {X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B},
    };
    for (uint8_t r = 0; r < kGprCount; ++r) {
      for (uint8_t part = 0; part < 4; ++part) {
        (*names)[general[r][part]] = {File::kGeneral, r, 0, static_cast<uint8_t>(8 >> part)};
      }
    }
    const x86_reg high[] = {X86_REG_AH, X86_REG_CH, X86_REG_DH, X86_REG_BH};
    for (uint8_t r = 0; r < 4; ++r) (*names)[high[r]] = {File::kGeneral, r, 1, 1};
    for (uint8_t v = 0; v < 32; ++v) {
      (*names)[X86_REG_XMM0 + v] = {File::kVector, v, 0, 16};
      (*names)[X86_REG_YMM0 + v] = {File::kVector, v, 0, 32};
      (*names)[X86_REG_ZMM0 + v] = {File::kVector, v, 0, 64};
    }
    (*names)[X86_REG_RIP] = {File::kInstructionPointer, 0, 0, 8};
    (*names)[X86_REG_FS] = {File::kFsBase, 0, 0, 8};
    (*names)[X86_REG_GS] = {File::kGsBase, 0, 0, 8};
    return names;
  }();
  return static_cast<size_t>(reg) < table->size() ? (*table)[reg] : RegisterName{};
}

Operand OperandOf(const cs_x86_op& op) {
  Operand out;
  out.size = op.size;
  out.read = (op.access & CS_AC_READ) != 0;
  out.written = (op.access & CS_AC_WRITE) != 0;
  switch (op.type) {
    case X86_OP_REG:
      out.kind = Operand::Kind::kRegister;
      out.reg = NameOfRegister(op.reg);
      break;
    case X86_OP_MEM:
      out.kind = Operand::Kind::kMemory;
      out.base = NameOfRegister(op.mem.base);
      out.index = NameOfRegister(op.mem.index);
      // Other segments have no base in 64-bit mode.
      if (op.mem.segment == X86_REG_FS || op.mem.segment == X86_REG_GS) {
        out.segment = NameOfRegister(op.mem.segment);
      }
      out.scale = static_cast<uint8_t>(op.mem.scale);
      out.displacement = op.mem.disp;
      break;
    default:
      out.kind = Operand::Kind::kImmediate;
      out.immediate = op.imm;
      break;
  }
  return out;
}

// How the bytes of a move's destination relate to its operands. `n` of kLow… is a size in bytes.
enum class Shape : uint8_t {
  kNone,
  kPlain,       // byte for byte
  kZeroExtend,  // as many as the smaller operand has, then zero
  kSignExtend,
  kScalar,         // movss, movsd: n bytes, between registers the rest is kept
  kLowHalf,        // movlps
  kHighHalf,       // movhps
  kUnpackLow,      // elements of n bytes of the low halves, in turn
  kUnpackHigh,     // … of the high halves
  kHighToLow,      // movhlps
  kShuffleDwords,  // pshufd
  kShufflePairs,   // shufpd
  kInsert,         // pinsr
  kExtract,        // pextr
  kBroadcast,
  kInsertLane,   // vinserti128
  kExtractLane,  // vextracti128
  kClear,        // zero when both operands are the same
  kMask,         // with ones in the lowest bytes: those are kept, the others zero
};
struct ShapeOf {
  Shape shape = Shape::kNone;
  uint8_t n = 0;
};

constexpr struct {
  x86_insn id;
  ShapeOf shape;
} kShapes[] = {
    {X86_INS_MOV, {Shape::kPlain}},
    {X86_INS_MOVABS, {Shape::kPlain}},
    {X86_INS_MOVNTI, {Shape::kPlain}},
    {X86_INS_MOVAPS, {Shape::kPlain}},
    {X86_INS_MOVAPD, {Shape::kPlain}},
    {X86_INS_MOVUPS, {Shape::kPlain}},
    {X86_INS_MOVUPD, {Shape::kPlain}},
    {X86_INS_MOVDQA, {Shape::kPlain}},
    {X86_INS_MOVDQU, {Shape::kPlain}},
    {X86_INS_LDDQU, {Shape::kPlain}},
    {X86_INS_MOVNTDQ, {Shape::kPlain}},
    {X86_INS_MOVNTDQA, {Shape::kPlain}},
    {X86_INS_MOVNTPS, {Shape::kPlain}},
    {X86_INS_MOVNTPD, {Shape::kPlain}},
    {X86_INS_VMOVAPS, {Shape::kPlain}},
    {X86_INS_VMOVAPD, {Shape::kPlain}},
    {X86_INS_VMOVUPS, {Shape::kPlain}},
    {X86_INS_VMOVUPD, {Shape::kPlain}},
    {X86_INS_VMOVDQA, {Shape::kPlain}},
    {X86_INS_VMOVDQU, {Shape::kPlain}},
    {X86_INS_VLDDQU, {Shape::kPlain}},
    {X86_INS_VMOVNTDQ, {Shape::kPlain}},
    {X86_INS_VMOVNTDQA, {Shape::kPlain}},
    {X86_INS_VMOVNTPS, {Shape::kPlain}},
    {X86_INS_VMOVNTPD, {Shape::kPlain}},
    {X86_INS_MOVZX, {Shape::kZeroExtend}},
    {X86_INS_MOVD, {Shape::kZeroExtend}},
    {X86_INS_MOVQ, {Shape::kZeroExtend}},
    {X86_INS_VMOVD, {Shape::kZeroExtend}},
    {X86_INS_VMOVQ, {Shape::kZeroExtend}},
    {X86_INS_MOVSX, {Shape::kSignExtend}},
    {X86_INS_MOVSXD, {Shape::kSignExtend}},
    {X86_INS_CBW, {Shape::kSignExtend}},
    {X86_INS_CWDE, {Shape::kSignExtend}},
    {X86_INS_CDQE, {Shape::kSignExtend}},
    {X86_INS_AND, {Shape::kMask}},
    {X86_INS_MOVSS, {Shape::kScalar, 4}},
    {X86_INS_VMOVSS, {Shape::kScalar, 4}},
    {X86_INS_MOVSD, {Shape::kScalar, 8}},
    {X86_INS_VMOVSD, {Shape::kScalar, 8}},
    {X86_INS_MOVLPS, {Shape::kLowHalf}},
    {X86_INS_MOVLPD, {Shape::kLowHalf}},
    {X86_INS_VMOVLPS, {Shape::kLowHalf}},
    {X86_INS_VMOVLPD, {Shape::kLowHalf}},
    {X86_INS_MOVHPS, {Shape::kHighHalf}},
    {X86_INS_MOVHPD, {Shape::kHighHalf}},
    {X86_INS_VMOVHPS, {Shape::kHighHalf}},
    {X86_INS_VMOVHPD, {Shape::kHighHalf}},
    {X86_INS_MOVLHPS, {Shape::kUnpackLow, 8}},
    {X86_INS_VMOVLHPS, {Shape::kUnpackLow, 8}},
    {X86_INS_PUNPCKLQDQ, {Shape::kUnpackLow, 8}},
    {X86_INS_VPUNPCKLQDQ, {Shape::kUnpackLow, 8}},
    {X86_INS_UNPCKLPD, {Shape::kUnpackLow, 8}},
    {X86_INS_VUNPCKLPD, {Shape::kUnpackLow, 8}},
    {X86_INS_PUNPCKLDQ, {Shape::kUnpackLow, 4}},
    {X86_INS_VPUNPCKLDQ, {Shape::kUnpackLow, 4}},
    {X86_INS_UNPCKLPS, {Shape::kUnpackLow, 4}},
    {X86_INS_VUNPCKLPS, {Shape::kUnpackLow, 4}},
    {X86_INS_PUNPCKHQDQ, {Shape::kUnpackHigh, 8}},
    {X86_INS_VPUNPCKHQDQ, {Shape::kUnpackHigh, 8}},
    {X86_INS_UNPCKHPD, {Shape::kUnpackHigh, 8}},
    {X86_INS_VUNPCKHPD, {Shape::kUnpackHigh, 8}},
    {X86_INS_PUNPCKHDQ, {Shape::kUnpackHigh, 4}},
    {X86_INS_VPUNPCKHDQ, {Shape::kUnpackHigh, 4}},
    {X86_INS_UNPCKHPS, {Shape::kUnpackHigh, 4}},
    {X86_INS_VUNPCKHPS, {Shape::kUnpackHigh, 4}},
    {X86_INS_MOVHLPS, {Shape::kHighToLow}},
    {X86_INS_VMOVHLPS, {Shape::kHighToLow}},
    {X86_INS_PSHUFD, {Shape::kShuffleDwords}},
    {X86_INS_VPSHUFD, {Shape::kShuffleDwords}},
    {X86_INS_SHUFPD, {Shape::kShufflePairs}},
    {X86_INS_VSHUFPD, {Shape::kShufflePairs}},
    {X86_INS_PINSRB, {Shape::kInsert, 1}},
    {X86_INS_VPINSRB, {Shape::kInsert, 1}},
    {X86_INS_PINSRW, {Shape::kInsert, 2}},
    {X86_INS_VPINSRW, {Shape::kInsert, 2}},
    {X86_INS_PINSRD, {Shape::kInsert, 4}},
    {X86_INS_VPINSRD, {Shape::kInsert, 4}},
    {X86_INS_PINSRQ, {Shape::kInsert, 8}},
    {X86_INS_VPINSRQ, {Shape::kInsert, 8}},
    {X86_INS_PEXTRB, {Shape::kExtract, 1}},
    {X86_INS_VPEXTRB, {Shape::kExtract, 1}},
    {X86_INS_PEXTRW, {Shape::kExtract, 2}},
    {X86_INS_VPEXTRW, {Shape::kExtract, 2}},
    {X86_INS_PEXTRD, {Shape::kExtract, 4}},
    {X86_INS_VPEXTRD, {Shape::kExtract, 4}},
    {X86_INS_PEXTRQ, {Shape::kExtract, 8}},
    {X86_INS_VPEXTRQ, {Shape::kExtract, 8}},
    {X86_INS_VPBROADCASTB, {Shape::kBroadcast, 1}},
    {X86_INS_VPBROADCASTW, {Shape::kBroadcast, 2}},
    {X86_INS_VPBROADCASTD, {Shape::kBroadcast, 4}},
    {X86_INS_VBROADCASTSS, {Shape::kBroadcast, 4}},
    {X86_INS_VPBROADCASTQ, {Shape::kBroadcast, 8}},
    {X86_INS_VBROADCASTSD, {Shape::kBroadcast, 8}},
    {X86_INS_MOVDDUP, {Shape::kBroadcast, 8}},
    {X86_INS_VMOVDDUP, {Shape::kBroadcast, 8}},
    {X86_INS_VBROADCASTF128, {Shape::kBroadcast, 16}},
    {X86_INS_VINSERTF128, {Shape::kInsertLane}},
    {X86_INS_VINSERTI128, {Shape::kInsertLane}},
    {X86_INS_VEXTRACTF128, {Shape::kExtractLane}},
    {X86_INS_VEXTRACTI128, {Shape::kExtractLane}},
    {X86_INS_XOR, {Shape::kClear}},
    {X86_INS_SUB, {Shape::kClear}},
    {X86_INS_PXOR, {Shape::kClear}},
    {X86_INS_VPXOR, {Shape::kClear}},
    {X86_INS_XORPS, {Shape::kClear}},
    {X86_INS_XORPD, {Shape::kClear}},
    {X86_INS_VXORPS, {Shape::kClear}},
    {X86_INS_VXORPD, {Shape::kClear}},
};

ShapeOf ShapeOfInstruction(unsigned id) {
  static const auto* const by_id = [] {
    auto* table = new std::array<ShapeOf, X86_INS_ENDING>();
    for (const auto& entry : kShapes) (*table)[entry.id] = entry.shape;
    return table;
  }();
  return id < by_id->size() ? (*by_id)[id] : ShapeOf{};
}

Operation OperationOf(const cs_insn& insn, const std::vector<Operand>& operands) {
  switch (insn.id) {
    case X86_INS_LEA:
      return Operation::kLoadAddress;
    case X86_INS_PUSH:
    case X86_INS_PUSHAW:
    case X86_INS_PUSHAL:
      return Operation::kPush;
    case X86_INS_POP:
      return Operation::kPop;
    case X86_INS_CALL:
      return Operation::kCall;
    case X86_INS_RET:
      return Operation::kReturn;
    case X86_INS_LEAVE:
      return Operation::kLeave;
    case X86_INS_XCHG:
      return Operation::kExchange;
    case X86_INS_XADD:
      return Operation::kExchangeAdd;
    case X86_INS_CMPXCHG:
      return Operation::kCompareExchange;
    case X86_INS_MOVSB:
    case X86_INS_MOVSW:
    case X86_INS_MOVSQ:
      return Operation::kStringMove;
    case X86_INS_MOVSD: {
      // Two instructions have this name.
      const bool is_string = operands.size() == 2 && operands[0].kind == Operand::Kind::kMemory &&
                             operands[1].kind == Operand::Kind::kMemory;
      return is_string ? Operation::kStringMove : Operation::kMove;
    }
    case X86_INS_STOSB:
    case X86_INS_STOSW:
    case X86_INS_STOSD:
    case X86_INS_STOSQ:
      return Operation::kStringStore;
    case X86_INS_LODSB:
    case X86_INS_LODSW:
    case X86_INS_LODSD:
    case X86_INS_LODSQ:
      return Operation::kStringLoad;
    case X86_INS_SYSCALL:
      return Operation::kSystemCall;
    case X86_INS_RDTSC:
    case X86_INS_RDTSCP:
    case X86_INS_CPUID:
    case X86_INS_RDRAND:
    case X86_INS_RDSEED:
    case X86_INS_XGETBV:
    case X86_INS_IN:
      return Operation::kInput;
    case X86_INS_CMOVA:
    case X86_INS_CMOVAE:
    case X86_INS_CMOVB:
    case X86_INS_CMOVBE:
    case X86_INS_CMOVE:
    case X86_INS_CMOVG:
    case X86_INS_CMOVGE:
    case X86_INS_CMOVL:
    case X86_INS_CMOVLE:
    case X86_INS_CMOVNE:
    case X86_INS_CMOVNO:
    case X86_INS_CMOVNP:
    case X86_INS_CMOVNS:
    case X86_INS_CMOVO:
    case X86_INS_CMOVP:
    case X86_INS_CMOVS:
      return Operation::kConditionalMove;
    default: {
      const Shape shape = ShapeOfInstruction(insn.id).shape;
      return shape == Shape::kNone || shape == Shape::kClear || shape == Shape::kMask
                 ? Operation::kCompute
                 : Operation::kMove;
    }
  }
}

// The operands of an instruction that extends a part of %rax, which its name implies.
std::vector<Operand> ImpliedOperands(unsigned id) {
  const auto make = [](x86_reg to, x86_reg from) {
    Operand a, b;
    a.reg = NameOfRegister(to);
    b.reg = NameOfRegister(from);
    a.size = a.reg.size;
    b.size = b.reg.size;
    a.written = b.read = true;
    return std::vector<Operand>{a, b};
  };
  switch (id) {
    case X86_INS_CBW:
      return make(X86_REG_AX, X86_REG_AL);
    case X86_INS_CWDE:
      return make(X86_REG_EAX, X86_REG_AX);
    case X86_INS_CDQE:
      return make(X86_REG_RAX, X86_REG_EAX);
    case X86_INS_CWD:
      return make(X86_REG_DX, X86_REG_AX);
    case X86_INS_CDQ:
      return make(X86_REG_EDX, X86_REG_EAX);
    case X86_INS_CQO:
      return make(X86_REG_RDX, X86_REG_RAX);
    default:
      return {};
  }
}

// Those that capstone's group of privileged instructions lacks.
bool IsPrivilegedBesides(unsigned id) {
  switch (id) {
    case X86_INS_IN:
    case X86_INS_INSB:
    case X86_INS_INSW:
    case X86_INS_INSD:
    case X86_INS_OUT:
    case X86_INS_OUTSB:
    case X86_INS_OUTSW:
    case X86_INS_OUTSD:
    case X86_INS_RDMSR:
    case X86_INS_CLTS:
      return true;
    default:
      return false;
  }
}

// Those that have a vector register first and leave it alone.
bool OnlyTests(unsigned id) {
  switch (id) {
    case X86_INS_PTEST:
    case X86_INS_VPTEST:
    case X86_INS_VTESTPS:
    case X86_INS_VTESTPD:
    case X86_INS_COMISS:
    case X86_INS_COMISD:
    case X86_INS_UCOMISS:
    case X86_INS_UCOMISD:
    case X86_INS_VCOMISS:
    case X86_INS_VCOMISD:
    case X86_INS_VUCOMISS:
    case X86_INS_VUCOMISD:
    case X86_INS_PCMPISTRI:
    case X86_INS_VPCMPISTRI:
    case X86_INS_PCMPESTRI:
    case X86_INS_VPCMPESTRI:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string RegisterName::Text() const {
  switch (file) {
    case File::kGeneral: {
      static const char* const kNames[kGprCount] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                                    "rsi", "rdi", "r8",  "r9",  "r10", "r11",
                                                    "r12", "r13", "r14", "r15"};
      std::string name = kNames[number % kGprCount];
      const bool numbered = number >= kR8;
      if (size == 4) name = numbered ? name + "d" : "e" + name.substr(1);
      if (size <= 2 && !numbered) name = name.substr(1);  // "ax"
      if (size == 2 && numbered) name += "w";
      if (size == 1 && numbered) name += "b";
      if (size == 1 && !numbered) {
        if (number < 4) {
          name[1] = offset == 1 ? 'h' : 'l';
        } else {
          name += "l";
        }
      }
      return "%" + name;
    }
    case File::kVector:
      return absl::StrCat(size == 64 ? "%zmm" : size == 32 ? "%ymm" : "%xmm", number);
    case File::kInstructionPointer:
      return "%rip";
    case File::kFsBase:
      return "%fs";
    case File::kGsBase:
      return "%gs";
    default:
      return "";
  }
}

std::optional<DecodedInstruction> Disassembler::Decode(absl::Span<const uint8_t> bytes,
                                                       Address at) const {
  if (!impl_->operands) impl_->operands.emplace(CS_OPT_SYNTAX_INTEL);
  const cs_insn* insn = impl_->operands->Decode(bytes.data(), bytes.size(), at.v);
  if (insn == nullptr) return std::nullopt;
  DecodedInstruction out;
  out.address = at;
  out.size = static_cast<uint8_t>(insn->size);
  const cs_x86& x86 = insn->detail->x86;
  for (int i = 0; i < x86.op_count; ++i) out.operands.push_back(OperandOf(x86.operands[i]));
  if (out.operands.empty()) out.operands = ImpliedOperands(insn->id);
  for (int i = 0; i < insn->detail->regs_read_count; ++i) {
    const RegisterName name = NameOfRegister(static_cast<x86_reg>(insn->detail->regs_read[i]));
    const auto same = [&](const Operand& operand) {
      return operand.reg.file == File::kGeneral && operand.reg.number == name.number;
    };
    if (name.file == File::kGeneral &&
        std::none_of(out.operands.begin(), out.operands.end(), same)) {
      out.implied.push_back(name);
    }
  }
  out.operation = OperationOf(*insn, out.operands);
  out.id = static_cast<uint16_t>(insn->id);
  out.is_vex = insn->mnemonic[0] == 'v';
  out.privileged = cs_insn_group(impl_->operands->handle(), insn, CS_GRP_PRIVILEGE) ||
                   IsPrivilegedBesides(insn->id);
  if (!out.operands.empty()) {
    const Operand& last = out.operands.back();
    if (last.kind == Operand::Kind::kImmediate) {
      out.immediate = static_cast<uint16_t>(last.immediate & 0xff);
    }
    const Operand& first = out.operands.front();
    if (first.kind == Operand::Kind::kRegister && first.reg.file == File::kVector &&
        !OnlyTests(insn->id)) {
      out.vectors_written = 1u << first.reg.number;
    }
  }
  return out;
}

namespace {

struct ByteAt {
  enum Kind : uint8_t { kOperand, kZero, kKept, kComputed, kSign } kind = kComputed;
  size_t operand = 0;
  uint32_t offset = 0;
};

ByteAt From(size_t operand, uint32_t offset) { return {ByteAt::kOperand, operand, offset}; }

// Where byte `o` of operand 0 comes from.
ByteAt ByteOf(const DecodedInstruction& insn, uint32_t o) {
  const std::vector<Operand>& operands = insn.operands;
  if (operands.empty()) return {};
  const auto is_memory = [&](size_t i) {
    return i < operands.size() && operands[i].kind == Operand::Kind::kMemory;
  };
  const Operand& to = operands[0];
  const bool vector = to.kind == Operand::Kind::kRegister && to.reg.file == File::kVector;
  if (to.kind == Operand::Kind::kRegister && to.reg.file == File::kGeneral) {
    // Writing 32 bits clears the rest, writing fewer keeps it.
    if (o < to.reg.offset || o >= to.reg.offset + to.reg.size) {
      return {to.reg.size == 4 ? ByteAt::kZero : ByteAt::kKept};
    }
    o -= to.reg.offset;
  }
  if (vector) {
    if (!insn.is_vex && o >= 16) return {ByteAt::kKept};
    if (insn.is_vex && o >= to.reg.size) return {ByteAt::kZero};
  }
  const ShapeOf how = ShapeOfInstruction(insn.id);
  const uint32_t n = how.n, lane = o & ~15u, in_lane = o & 15u;
  // The two sources of an instruction that combines: the older encoding's first is its destination.
  const size_t first = insn.is_vex ? 1 : 0, second = first + 1;
  if (how.shape != Shape::kNone && operands.size() < 2) return {};
  const auto source = [&](size_t i, uint32_t at) -> ByteAt {
    if (i >= operands.size()) return {};
    if (i == 0 && at == o) return {ByteAt::kKept};
    return From(i, at);
  };
  switch (how.shape) {
    case Shape::kNone:
      return {};
    case Shape::kPlain:
      return From(1, o);
    case Shape::kZeroExtend: {
      const uint32_t moved =
          std::min<uint32_t>({to.size, operands[1].size,
                              insn.id == X86_INS_MOVD || insn.id == X86_INS_VMOVD ? 4u : 8u});
      return o < moved ? From(1, o) : ByteAt{ByteAt::kZero};
    }
    case Shape::kSignExtend:
      return o < operands[1].size ? From(1, o) : ByteAt{ByteAt::kSign};
    case Shape::kScalar:
      if (is_memory(0)) return From(1, o);
      if (is_memory(1)) return o < n ? From(1, o) : ByteAt{ByteAt::kZero};
      return o < n ? source(second, o) : source(first, o);
    case Shape::kLowHalf:
      if (is_memory(0)) return From(1, o);
      return o < 8 ? source(second, o) : source(first, o);
    case Shape::kHighHalf:
      if (is_memory(0)) return From(1, o + 8);
      return o < 8 ? source(first, o) : source(second, o - 8);
    case Shape::kUnpackLow:
    case Shape::kUnpackHigh: {
      const uint32_t element = in_lane / n;
      const uint32_t at =
          lane + element / 2 * n + in_lane % n + (how.shape == Shape::kUnpackHigh ? 8 : 0);
      return source(element % 2 == 0 ? first : second, at);
    }
    case Shape::kHighToLow:
      return o < 8 ? source(second, o + 8) : source(first, o);
    case Shape::kShuffleDwords:
      return From(1, lane + (insn.immediate >> (2 * (in_lane / 4)) & 3) * 4 + in_lane % 4);
    case Shape::kShufflePairs: {
      const uint32_t pair = o / 8;
      return source(pair % 2 == 0 ? first : second,
                    lane + (insn.immediate >> pair & 1) * 8 + in_lane % 8);
    }
    case Shape::kInsert: {
      const uint32_t at = (insn.immediate & (16 / n - 1)) * n;
      return o >= at && o < at + n ? source(second, o - at) : source(first, o);
    }
    case Shape::kExtract:
      return o < n ? From(1, (insn.immediate & (16 / n - 1)) * n + o) : ByteAt{ByteAt::kZero};
    case Shape::kBroadcast:
      return From(1, o % n);
    case Shape::kInsertLane: {
      const uint32_t at = (insn.immediate & 1) * 16;
      return o >= at && o < at + 16 ? source(2, o - at) : source(1, o);
    }
    case Shape::kExtractLane:
      return o < 16 ? From(1, (insn.immediate & 1) * 16 + o) : ByteAt{ByteAt::kZero};
    case Shape::kClear: {
      const Operand &a = operands[operands.size() - 2], &b = operands.back();
      const bool same = a.kind == Operand::Kind::kRegister && b.kind == Operand::Kind::kRegister &&
                        a.reg == b.reg;
      return same ? ByteAt{ByteAt::kZero} : ByteAt{};
    }
    case Shape::kMask: {
      const Operand& mask = operands[1];
      if (mask.kind != Operand::Kind::kImmediate || to.size == 0 || to.size > 8) return {};
      const uint64_t bits =
          static_cast<uint64_t>(mask.immediate) << (64 - 8 * to.size) >> (64 - 8 * to.size);
      for (uint32_t kept = 1; kept <= to.size; ++kept) {
        if (bits == ~uint64_t{0} >> (64 - 8 * kept)) {
          return {o < kept ? ByteAt::kKept : ByteAt::kZero};
        }
      }
      return {};
    }
  }
  return {};
}

}  // namespace

bool Disassembler::AddsOrSubtracts(const DecodedInstruction& instruction) {
  const bool is_sum = instruction.id == X86_INS_ADD || instruction.id == X86_INS_SUB;
  if (!is_sum || instruction.operands.size() != 2) return false;
  const Operand &to = instruction.operands[0], &from = instruction.operands[1];
  const bool is_same = to.kind == Operand::Kind::kRegister &&
                       from.kind == Operand::Kind::kRegister && to.reg.file == from.reg.file &&
                       to.reg.number == from.reg.number;
  return !is_same;
}

ByteSource Disassembler::SourceOf(const DecodedInstruction& instruction, uint32_t offset,
                                  uint32_t size) {
  ByteSource out;
  const ByteAt first = ByteOf(instruction, offset);
  switch (first.kind) {
    case ByteAt::kOperand:
      out.kind = ByteSource::Kind::kOperand;
      break;
    case ByteAt::kZero:
      out.kind = ByteSource::Kind::kZero;
      break;
    case ByteAt::kKept:
      out.kind = ByteSource::Kind::kKept;
      break;
    case ByteAt::kComputed:
    case ByteAt::kSign:
      break;
  }
  out.operand = first.operand;
  out.offset = first.offset;
  out.size = 1;
  for (; out.size < size; ++out.size) {
    const ByteAt next = ByteOf(instruction, offset + out.size);
    if (next.kind != first.kind) break;
    if (next.kind == ByteAt::kOperand &&
        (next.operand != first.operand || next.offset != first.offset + out.size)) {
      break;
    }
  }
  return out;
}

}  // namespace ttq
