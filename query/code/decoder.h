// SPDX-License-Identifier: MIT
//
// Capstone, with its tables' mistakes mended: the one way in which machine code is decoded into
// operands here. Belongs to one thread at a time.

#ifndef TTQ_QUERY_CODE_DECODER_H_
#define TTQ_QUERY_CODE_DECODER_H_

#include <capstone/capstone.h>

#include <cstddef>
#include <cstdint>

namespace ttq {

class Decoder {
 public:
  // `syntax` decides the order of operands too: CS_OPT_SYNTAX_ATT has sources first. What is read
  // and written is true for CS_OPT_SYNTAX_INTEL only.
  explicit Decoder(cs_opt_value syntax);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // The instruction that `bytes` begin with, with details; valid until the next call. Null: none.
  const cs_insn* Decode(const uint8_t* bytes, size_t size, uint64_t at);
  csh handle() const { return handle_; }

 private:
  const bool is_intel_;
  csh handle_ = 0;
  cs_insn* insn_ = nullptr;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_DECODER_H_
