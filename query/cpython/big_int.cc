// SPDX-License-Identifier: MIT

#include "query/cpython/big_int.h"

#include "fmt/core.h"

namespace ttq::python {

std::string Decimal(BigInt number) {
  std::string out;
  std::vector<uint32_t>& digits = number.digits;
  while (!digits.empty()) {
    uint64_t rest = 0;
    for (size_t i = digits.size(); i-- > 0;) {
      const uint64_t value = rest << 30 | digits[i];
      digits[i] = static_cast<uint32_t>(value / 1000000000);
      rest = value % 1000000000;
    }
    while (!digits.empty() && digits.back() == 0) digits.pop_back();
    out.insert(0, digits.empty() ? fmt::format("{}", rest) : fmt::format("{:09}", rest));
  }
  if (out.empty()) out = "0";
  return number.negative ? "-" + out : out;
}

std::optional<BigInt> ReadBigInt(Memory& memory, const Layout& layout, uint64_t object,
                                 uint64_t* total) {
  const auto size = memory.Get<int64_t>(object + layout.long_size);
  if (!size) return std::nullopt;
  BigInt number;
  uint64_t count;
  if (layout.traits.tagged_ints) {
    // lv_tag: 0 positive, 1 zero, 2 negative in the low two bits.
    const uint64_t sign = *size & 3;
    if (sign == 3) return std::nullopt;
    number.negative = sign == 2;
    count = sign == 1 ? 0 : static_cast<uint64_t>(*size) >> 3;
  } else {
    number.negative = *size < 0;
    count = number.negative ? -static_cast<uint64_t>(*size) : *size;
  }
  *total = count;
  if (count > kMaxDigits) return number;
  number.digits.resize(count);
  if (count > 0 && !memory.Read(object + layout.long_digits, 4 * count, number.digits.data())) {
    return std::nullopt;
  }
  for (const uint32_t digit : number.digits) {
    if (digit >> 30 != 0) return std::nullopt;
  }
  return number;
}

}  // namespace ttq::python
