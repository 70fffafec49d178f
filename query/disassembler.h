// SPDX-License-Identifier: MIT
//
// Machine code as text: x86-64 in AT&T syntax, which is what gdb and objdump print unless told
// otherwise. Thread-safe: a Disassembler is used by one thread at a time, several may exist.

#ifndef TTQ_QUERY_DISASSEMBLER_H_
#define TTQ_QUERY_DISASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "store/types.h"

namespace ttq {

struct DisassembledInstruction {
  Address address;
  // Mnemonic and operands, single spaces between: "movq %rsp, %rbp", "callq 0x4011 <main+0x10>".
  std::string text;
  std::vector<uint8_t> bytes;
  size_t size() const { return bytes.size(); }
};

class Disassembler {
 public:
  // Gives "func+0x12" for an address, or "" for one without a name.
  using NameOf = std::function<std::string(Address)>;

  // With `name_of`, the target of a direct branch and of a rip-relative operand is followed by
  // " <name>".
  explicit Disassembler(NameOf name_of = nullptr);
  ~Disassembler();

  // All of `bytes`, which lie at `at`, or the first `max_count` instructions. A byte that starts no
  // instruction (or one cut off by the end) is "(bad)", and decoding goes on at the next byte.
  std::vector<DisassembledInstruction> Disassemble(absl::Span<const uint8_t> bytes, Address at,
                                                   size_t max_count = SIZE_MAX) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_DISASSEMBLER_H_
