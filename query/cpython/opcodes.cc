// SPDX-License-Identifier: MIT

#include "query/cpython/opcodes.h"

#include <cstddef>
#include <iterator>

namespace ttq::python {
namespace {

constexpr int kFirstMinor = 9;
constexpr Opcodes kOpcodes[] = {
    {.raise = 130,  // 3.9
     .pop_top = 1,
     .extended = 144,
     .reraise = 48,
     .match = 121,
     .match_jumps = true,
     .yield_from = 72},
    {.raise = 130,  // 3.10
     .pop_top = 1,
     .extended = 144,
     .reraise = 119,
     .match = 121,
     .match_jumps = true,
     .yield_from = 72},
    {.raise = 130,  // 3.11
     .pop_top = 1,
     .extended = 144,
     .reraise = 119,
     .push_exc_info = 35,
     .match = 36,
     .match_group = 37,
     .send_again = 134,
     .pairs = {44, 45, 46, 161, 167}},
    {.raise = 130,  // 3.12
     .pop_top = 1,
     .extended = 144,
     .reraise = 119,
     .push_exc_info = 35,
     .match = 36,
     .match_group = 37,
     .send_again = 134,
     .pairs = {84, 86, 88, 154, 158}},
    {.raise = 101,  // 3.13
     .pop_top = 32,
     .extended = 71,
     .reraise = 102,
     .push_exc_info = 33,
     .match = 7,
     .match_group = 6,
     .send_again = 78},
    {.raise = 104,  // 3.14
     .pop_top = 31,
     .extended = 69,
     .reraise = 105,
     .push_exc_info = 32,
     .match = 6,
     .match_group = 5,
     .send_again = 76,
     .end_for = 9,
     .pop_iter = 30},
};

}  // namespace

const Opcodes& OpcodesOf(int minor) {
  static constexpr Opcodes kNone;
  const auto i = static_cast<size_t>(minor - kFirstMinor);
  return minor >= kFirstMinor && i < std::size(kOpcodes) ? kOpcodes[i] : kNone;
}

}  // namespace ttq::python
