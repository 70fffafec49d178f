// SPDX-License-Identifier: MIT

#include "query/code/decoder.h"

namespace ttq {

Decoder::Decoder(cs_opt_value syntax) {
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
  // Some forms of these are said to write one of their operands, or to read none.
  if (insn_->id == X86_INS_TEST || insn_->id == X86_INS_CMP) {
    cs_x86& x86 = insn_->detail->x86;
    for (int i = 0; i < x86.op_count; ++i) x86.operands[i].access = CS_AC_READ;
  }
  return insn_;
}

}  // namespace ttq
