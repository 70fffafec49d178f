// SPDX-License-Identifier: MIT

#include "query/engine/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "query/language/operators.h"

namespace ttq {
namespace {

// An operator of bits: signed, unless an operand has a value that only an unsigned number of 64
// bits has.
Wide OfBits(ast::BinaryOp op, Wide m, Wide n) {
  using Op = ast::BinaryOp;
  bool is_unsigned = m > Wide(INT64_MAX);
  Wide result = 0;
  if (op == Op::kShiftLeft || op == Op::kShiftRight) {
    const bool is_beyond = n < 0 || n >= 64;
    const int by = is_beyond ? 63 : static_cast<int>(n);
    if (op == Op::kShiftRight) return is_beyond ? (m < 0 ? -1 : 0) : m >> by;
    const uint64_t shifted = static_cast<uint64_t>(m) << by;
    if (!is_beyond) result = Wide(shifted);
    is_unsigned |= m >= 0;
  } else {
    is_unsigned |= n > Wide(INT64_MAX);
    result = op == Op::kBitAnd ? m & n : op == Op::kBitOr ? m | n : m ^ n;
  }
  return is_unsigned ? Wide(static_cast<uint64_t>(result)) : Wide(static_cast<int64_t>(result));
}

// Bytes, as an unsigned little-endian number.
std::optional<std::partial_ordering> CompareBytes(const Bytes& bytes, const Value& y) {
  const std::optional<Wide> n = Number(y);
  if (!n) return std::nullopt;
  const std::string_view data = bytes.data;
  const size_t last = data.find_last_not_of('\0');
  if (*n < 0 || (last != std::string_view::npos && last >= 8)) {
    return std::partial_ordering::greater;
  }
  uint64_t low = 0;
  std::memcpy(&low, data.data(), std::min<size_t>(data.size(), 8));
  return Wide(low) <=> *n;
}

bool IsNan(const Value& v) {
  const std::optional<double> real = v.AsReal();
  return real && std::isnan(*real);
}

// Of values that no others represent.
std::optional<std::partial_ordering> ComparePlain(const Value& x, const Value& y) {
  const auto *x_bytes = x.get<Bytes>(), *y_bytes = y.get<Bytes>();
  if (x_bytes && !y_bytes) return CompareBytes(*x_bytes, y);
  if (y_bytes && !x_bytes) {
    const auto c = CompareBytes(*y_bytes, x);
    return c ? std::optional(0 <=> *c) : c;
  }
  const bool x_text = x.get<std::string>(), y_text = y.get<std::string>();
  if (x_text != y_text) return std::nullopt;
  if (IsNan(x) || IsNan(y)) return std::partial_ordering::unordered;
  return Compare(x, y) <=> 0;
}

}  // namespace

std::optional<std::partial_ordering> CompareOrNull(const Value& x, const Value& y) {
  if (x.is_null() || y.is_null()) return std::nullopt;
  const bool one = (x.represented() == nullptr) != (y.represented() == nullptr);
  if (one) {
    const auto c = ComparePlain(x.shown(), y.shown());
    const bool only_shown = x.get<std::string>() && y.get<std::string>() &&
                            !(x.operand().get<std::string>() && y.operand().get<std::string>());
    if (only_shown || (c && *c == 0)) return c;
  }
  return ComparePlain(x.operand(), y.operand());
}

std::optional<Wide> Number(const Value& v) {
  uint64_t n;
  bool negative;
  if (!v.operand().AsNumber(&n, &negative)) return std::nullopt;
  return negative ? Wide(static_cast<int64_t>(n)) : Wide(n);
}

Value FromNumber(Wide n) {
  constexpr Wide kMin = INT64_MIN, kMax = Wide(UINT64_MAX);
  if (n < kMin || n > kMax) n = Wide(static_cast<uint64_t>(n));
  if (n <= Wide(INT64_MAX)) return static_cast<int64_t>(n);
  return Word{static_cast<uint64_t>(n)};
}

bool IsOfWhole(ast::BinaryOp op) {
  using Op = ast::BinaryOp;
  return op == Op::kMod || op == Op::kShiftLeft || op == Op::kShiftRight || op == Op::kBitAnd ||
         op == Op::kBitXor || op == Op::kBitOr;
}

Value Compute(ast::BinaryOp op, const Value& x, const Value& y) {
  using Op = ast::BinaryOp;
  std::optional<Wide> m = Number(x), n = Number(y);
  if (IsOfWhole(op)) {  // a real's bits are what is shown
    if (!m) m = Number(x.shown());
    if (!n) n = Number(y.shown());
  }
  if (!m || !n) {
    const std::optional<double> a = x.operand().ToReal(), b = y.operand().ToReal();
    if (!a || !b || (op == Op::kDiv && *b == 0)) return Null{};
    const std::optional<double> result = Computed(op, *a, *b);
    return result ? Value(*result) : Value(Null{});
  }
  switch (op) {
    case Op::kMul:  // unsigned, so that no product overflows
      return FromNumber(static_cast<Wide>(static_cast<unsigned __int128>(*m) *
                                          static_cast<unsigned __int128>(*n)));
    case Op::kDiv:
      return *n == 0 ? Value(Null{}) : FromNumber(*m / *n);
    case Op::kMod:
      return *n == 0 ? Value(Null{}) : FromNumber(*m % *n);
    case Op::kAdd:
      return FromNumber(*m + *n);
    case Op::kSub:
      return FromNumber(*m - *n);
    default:
      return FromNumber(OfBits(op, *m, *n));
  }
}

}  // namespace ttq
