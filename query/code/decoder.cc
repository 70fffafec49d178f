// SPDX-License-Identifier: MIT

#include "query/code/decoder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>

namespace ttq {
namespace {

template <size_t n>
bool IsOneOf(unsigned id, const x86_insn (&ids)[n]) {
  return std::find(std::begin(ids), std::end(ids), static_cast<x86_insn>(id)) != std::end(ids);
}

// Those that change their destination, and do not only set it.
constexpr x86_insn kChange[] = {
    X86_INS_ADD,
    X86_INS_ADC,
    X86_INS_SUB,
    X86_INS_SBB,
    X86_INS_AND,
    X86_INS_OR,
    X86_INS_XOR,
    X86_INS_INC,
    X86_INS_DEC,
    X86_INS_NEG,
    X86_INS_NOT,
    X86_INS_SHL,
    X86_INS_SAL,
    X86_INS_SHR,
    X86_INS_SAR,
    X86_INS_ROL,
    X86_INS_ROR,
    X86_INS_RCL,
    X86_INS_RCR,
    X86_INS_SHLD,
    X86_INS_SHRD,
    X86_INS_BTS,
    X86_INS_BTR,
    X86_INS_BTC,
    X86_INS_XCHG,
    X86_INS_XADD,
    X86_INS_CMPXCHG,
    X86_INS_CMPXCHG8B,
    X86_INS_CMPXCHG16B,
    // What is there already of its header.
    X86_INS_XSAVE,
    X86_INS_XSAVE64,
    X86_INS_XSAVEOPT,
    X86_INS_XSAVEOPT64,
};
constexpr x86_insn kCompare[] = {
    X86_INS_TEST,  X86_INS_CMP,   X86_INS_BT,    X86_INS_CMPSB, X86_INS_CMPSW,
    X86_INS_CMPSQ, X86_INS_SCASB, X86_INS_SCASW, X86_INS_SCASD, X86_INS_SCASQ,
};
// Of those whose only operand is memory, the ones that set it.
constexpr x86_insn kStore[] = {
    X86_INS_FST,     X86_INS_FSTP,     X86_INS_FIST,   X86_INS_FISTP,    X86_INS_FISTTP,
    X86_INS_FBSTP,   X86_INS_FNSTCW,   X86_INS_FNSTSW, X86_INS_FNSTENV,  X86_INS_FNSAVE,
    X86_INS_STMXCSR, X86_INS_VSTMXCSR, X86_INS_FXSAVE, X86_INS_FXSAVE64, X86_INS_POP,
    X86_INS_XSAVEC,  X86_INS_XSAVEC64, X86_INS_SETAE,  X86_INS_SETA,     X86_INS_SETBE,
    X86_INS_SETB,    X86_INS_SETE,     X86_INS_SETGE,  X86_INS_SETG,     X86_INS_SETLE,
    X86_INS_SETL,    X86_INS_SETNE,    X86_INS_SETNO,  X86_INS_SETNP,    X86_INS_SETNS,
    X86_INS_SETO,    X86_INS_SETP,     X86_INS_SETS,   X86_INS_SGDT,     X86_INS_SIDT,
    X86_INS_SLDT,    X86_INS_STR,      X86_INS_SMSW,
};
constexpr x86_insn kNeither[] = {
    X86_INS_LEA,        X86_INS_NOP,        X86_INS_PREFETCH,   X86_INS_PREFETCHNTA,
    X86_INS_PREFETCHT0, X86_INS_PREFETCHT1, X86_INS_PREFETCHT2, X86_INS_PREFETCHW,
    X86_INS_CLFLUSH,    X86_INS_CLFLUSHOPT, X86_INS_CLWB,
};

void Append(uint16_t reg, uint16_t* list, size_t capacity, uint8_t* count) {
  if (*count < capacity && std::find(list, list + *count, reg) == list + *count) {
    list[(*count)++] = reg;
  }
}
void Reads(cs_detail* detail, uint16_t reg) {
  Append(reg, detail->regs_read, std::size(detail->regs_read), &detail->regs_read_count);
}
void Writes(cs_detail* detail, uint16_t reg) {
  Append(reg, detail->regs_write, std::size(detail->regs_write), &detail->regs_write_count);
}

// What the instruction does with its operand `i`, if that is memory. In Intel's syntax the first
// operand is the destination, if there is one.
uint8_t AccessOfMemory(unsigned id, int i, int count) {
  constexpr uint8_t kRead = CS_AC_READ, kWrite = CS_AC_WRITE, kBoth = CS_AC_READ | CS_AC_WRITE;
  if (IsOneOf(id, kNeither)) return 0;
  if (id == X86_INS_XCHG) return kBoth;
  if (i > 0 || IsOneOf(id, kCompare)) return kRead;
  if (id == X86_INS_CMPSD) return kRead;  // of strings: the other one's destination is a register
  if (IsOneOf(id, kChange)) return kBoth;
  return count > 1 || IsOneOf(id, kStore) ? kWrite : kRead;
}

// Capstone's tables know nothing of what many instructions do with memory, above all of those with
// vector registers, or say that they read what they set. The processor's own answers are in
// tests/unit/instruction_effects_test.cc.
void MendOperands(cs_insn* insn) {
  cs_x86& x86 = insn->detail->x86;
  const bool sets_memory = x86.op_count > 1 && x86.operands[0].type == X86_OP_MEM &&
                           AccessOfMemory(insn->id, 0, x86.op_count) == CS_AC_WRITE;
  for (int i = 0; i < x86.op_count; ++i) {
    cs_x86_op& op = x86.operands[i];
    if (op.type == X86_OP_MEM) {
      op.access = AccessOfMemory(insn->id, i, x86.op_count);
    } else if (op.type == X86_OP_REG && (sets_memory || IsOneOf(insn->id, kCompare))) {
      op.access = CS_AC_READ;
    }
  }
}

void MendRegisters(cs_insn* insn) {
  cs_detail* const detail = insn->detail;
  cs_x86& x86 = detail->x86;
  const auto is_memory = [&](int i) { return x86.operands[i].type == X86_OP_MEM; };
  switch (insn->id) {
    case X86_INS_CMPXCHG:
      Reads(detail, X86_REG_RAX);
      Writes(detail, X86_REG_RAX);
      [[fallthrough]];
    case X86_INS_XADD:
      Writes(detail, X86_REG_EFLAGS);
      break;
    case X86_INS_POP:
      // Its address is formed when the stack pointer has moved.
      if (is_memory(0) && x86.operands[0].mem.base == X86_REG_RSP) {
        x86.operands[0].mem.disp += x86.operands[0].size;
      }
      break;
    case X86_INS_ENTER:
      Reads(detail, X86_REG_RSP);
      Reads(detail, X86_REG_RBP);
      break;
    case X86_INS_XLATB:
      Reads(detail, X86_REG_RBX);
      Reads(detail, X86_REG_RAX);
      Writes(detail, X86_REG_RAX);
      break;
    case X86_INS_CQO:
    case X86_INS_CDQ:
    case X86_INS_CWD:
      detail->regs_write_count = 0;
      Writes(detail, X86_REG_RDX);
      break;
    case X86_INS_VPGATHERDD:
    case X86_INS_VPGATHERDQ:
    case X86_INS_VPGATHERQD:
    case X86_INS_VPGATHERQQ:
    case X86_INS_VGATHERDPS:
    case X86_INS_VGATHERDPD:
    case X86_INS_VGATHERQPS:
    case X86_INS_VGATHERQPD:
      // The mask is cleared; without one in a vector register it is a mask register.
      if (x86.op_count == 3 && x86.operands[2].type == X86_OP_REG) {
        x86.operands[2].access = CS_AC_READ | CS_AC_WRITE;
      }
      x86.operands[0].access = CS_AC_READ | CS_AC_WRITE;
      break;
    default:
      break;
  }
}

// Capstone does not look whether it got the memory for its tables. As operator new: who has set a
// handler is asked for some, or ends the process with a word.
void* Allocate(size_t bytes) {
  while (true) {
    if (void* memory = malloc(bytes)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
  }
}
void* AllocateZeros(size_t n, size_t bytes) {
  void* memory = Allocate(n * bytes);
  return memory == nullptr ? nullptr : memset(memory, 0, n * bytes);
}

void UseAllocate() {
  static std::once_flag once;
  std::call_once(once, [] {
    cs_opt_mem memory = {Allocate, AllocateZeros, realloc, free, vsnprintf};
    cs_option(0, CS_OPT_MEM, reinterpret_cast<size_t>(&memory));
  });
}

}  // namespace

Decoder::Decoder(cs_opt_value syntax) : is_intel_(syntax == CS_OPT_SYNTAX_INTEL) {
  UseAllocate();
  if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) != CS_ERR_OK) return;
  cs_option(handle_, CS_OPT_SYNTAX, syntax);
  cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
  insn_ = cs_malloc(handle_);
}

Decoder::~Decoder() {
  if (insn_ != nullptr) cs_free(insn_, 1);
  if (handle_ != 0) cs_close(&handle_);
}

const cs_insn* Decoder::Decode(const uint8_t* bytes, size_t size, uint64_t at) {
  if (insn_ == nullptr || !cs_disasm_iter(handle_, &bytes, &size, &at, insn_)) return nullptr;
  if (is_intel_) {
    MendOperands(insn_);
    MendRegisters(insn_);
  }
  return insn_;
}

}  // namespace ttq
