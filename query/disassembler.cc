// SPDX-License-Identifier: MIT

#include "query/disassembler.h"

#include <capstone/capstone.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace ttq {

struct Disassembler::Impl {
  csh handle = 0;
  bool ok = false;
  NameOf name_of;
};

Disassembler::Disassembler(NameOf name_of) : impl_(std::make_unique<Impl>()) {
  impl_->name_of = std::move(name_of);
  impl_->ok = cs_open(CS_ARCH_X86, CS_MODE_64, &impl_->handle) == CS_ERR_OK;
  if (!impl_->ok) return;
  cs_option(impl_->handle, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
  cs_option(impl_->handle, CS_OPT_DETAIL, CS_OPT_ON);
}

Disassembler::~Disassembler() {
  if (impl_->ok) cs_close(&impl_->handle);
}

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
  cs_insn* insn = impl_->ok ? cs_malloc(impl_->handle) : nullptr;
  const uint8_t* code = bytes.data();
  size_t left = bytes.size();
  uint64_t address = at.v;
  while (left > 0 && out.size() < max_count) {
    const uint8_t* start = code;
    DisassembledInstruction instruction;
    instruction.address = Address(address);
    if (insn != nullptr && cs_disasm_iter(impl_->handle, &code, &left, &address, insn)) {
      instruction.bytes.assign(start, code);
      instruction.text = insn->mnemonic;
      if (insn->op_str[0] != '\0') absl::StrAppend(&instruction.text, " ", insn->op_str);
      uint64_t named = impl_->name_of ? NamedAddress(impl_->handle, *insn) : 0;
      if (named != 0) {
        std::string name = impl_->name_of(Address(named));
        if (!name.empty()) absl::StrAppend(&instruction.text, " <", name, ">");
      }
    } else {
      code = start + 1;
      left = bytes.size() - static_cast<size_t>(code - bytes.data());
      address = at.v + static_cast<uint64_t>(code - bytes.data());
      instruction.bytes.assign(start, code);
      instruction.text = "(bad)";
    }
    out.push_back(std::move(instruction));
  }
  if (insn != nullptr) cs_free(insn, 1);
  return out;
}

}  // namespace ttq
