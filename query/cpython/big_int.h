// SPDX-License-Identifier: MIT
//
// Python's int, of any size.

#ifndef TTQ_QUERY_CPYTHON_BIG_INT_H_
#define TTQ_QUERY_CPYTHON_BIG_INT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "query/cpython/layout.h"
#include "query/cpython/memory.h"

namespace ttq::python {

// An int as sign and 30-bit digits, the least first.
struct BigInt {
  bool negative = false;
  std::vector<uint32_t> digits;
};

std::string Decimal(BigInt number);

inline constexpr size_t kMaxDigits = 4096;  // 37 thousand decimals
// Gives the number of digits in `total` even where they are more than are read. nullopt: what is at
// `object` is no int.
std::optional<BigInt> ReadBigInt(Memory& memory, const Layout& layout, uint64_t object,
                                 uint64_t* total);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_BIG_INT_H_
