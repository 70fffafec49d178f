// SPDX-License-Identifier: MIT

#ifndef TTQ_QUERY_CPYTHON_OPCODES_H_
#define TTQ_QUERY_CPYTHON_OPCODES_H_

#include <cstdint>

namespace ttq::python {

// The opcodes that the history of lines and exceptions is read from (Include/opcode.h,
// Include/opcode_ids.h). 0: the version has none, or it is not needed there.
struct Opcodes {
  uint8_t raise = 0, pop_top = 0, extended = 0;
  uint8_t reraise = 0;  // of lines: sets the word back when it has an argument
  uint8_t push_exc_info = 0;
  uint8_t match = 0;         // followed by a jump that is taken where the class is another one
  uint8_t match_group = 0;   // followed by one more instruction and the jump
  bool match_jumps = false;  // `match` is the jump
  uint8_t yield_from = 0;    // sets the word back, to be executed again
  uint8_t send_again = 0;    // jumps back in a loop that is none to the reader
  uint8_t pairs[5] = {};
  uint8_t end_for = 0;  // with pop_iter, the end of a loop: neither begins a line
  // 3.14: nor does what follows it, on the line of what stands before the two.
  uint8_t pop_iter = 0;
};

// Of CPython 3.`minor`; all 0 for one that is not known.
const Opcodes& OpcodesOf(int minor);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_OPCODES_H_
