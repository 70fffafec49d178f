// SPDX-License-Identifier: MIT
//
// Order and equality of values; see value.h.

#include "query/value.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/hash/hash.h"

namespace ttq {
namespace {

// The rank of a kind in the total order.
int Rank(const Value& v) {
  uint64_t n;
  bool negative;
  if (v.is_null()) return 0;
  if (v.AsNumber(&n, &negative) || v.AsReal()) return 1;
  if (v.get<std::string>()) return 2;
  if (v.get<Bytes>()) return 3;
  return v.object() ? 4 : 5;
}

template <class T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

constexpr double kTwo63 = 9223372036854775808.0, kTwo64 = 2 * kTwo63;

// The whole part of a number that some value of whole numbers could hold.
std::optional<__int128> WholePart(double d) {
  if (!(d >= -kTwo63 && d < kTwo64)) return std::nullopt;
  return static_cast<__int128>(d);
}

int CompareReals(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return Sign(std::isnan(x), std::isnan(y));
  return Sign(x, y);
}

// Exact, where the nearest double of a 64-bit number would not be.
int CompareToWhole(double x, uint64_t magnitude, bool negative) {
  const std::optional<__int128> whole = WholePart(x);
  if (!whole) return x < 0 ? -1 : 1;  // NaN too
  const __int128 y = negative ? __int128{static_cast<int64_t>(magnitude)} : __int128{magnitude};
  if (const int d = Sign(*whole, y)) return d;
  return Sign(x, std::trunc(x));
}

int CompareNumbers(const Value& a, const Value& b) {
  uint64_t x, y;
  bool x_negative, y_negative;
  const bool x_whole = a.AsNumber(&x, &x_negative), y_whole = b.AsNumber(&y, &y_negative);
  if (x_whole && y_whole) {
    if (x_negative != y_negative) return x_negative ? -1 : 1;
    return Sign(x, y);
  }
  if (y_whole) return CompareToWhole(*a.AsReal(), y, y_negative);
  if (x_whole) return -CompareToWhole(*b.AsReal(), x, x_negative);
  return CompareReals(*a.AsReal(), *b.AsReal());
}

}  // namespace

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kTime:
      return "time";
    case Type::kAddress:
      return "address";
    case Type::kInteger:
      return "integer";
    case Type::kString:
      return "string";
    case Type::kBytes:
      return "bytes";
    case Type::kObject:
      return "object";
    case Type::kList:
      return "list";
    case Type::kValue:
      return "value";
    case Type::kReal:
      return "real";
  }
  return "unknown";
}

Value::Value(Represented r) : rep_(std::make_shared<const Boxed>(Boxed{std::move(r)})) {}
Value::Value(Object o) : rep_(std::make_shared<const Boxed>(Boxed{std::move(o)})) {}
Value::Value(List l) : rep_(std::make_shared<const Boxed>(Boxed{std::move(l)})) {}

bool Value::AsNumber(uint64_t* magnitude, bool* negative) const {
  *magnitude = 0;
  *negative = false;
  if (const auto* t = get<Time>()) return *magnitude = t->v, true;
  if (const auto* a = get<Address>()) return *magnitude = a->v, true;
  if (const auto* w = get<Word>()) return *magnitude = w->v, true;
  if (const auto* n = get<int64_t>()) {
    *magnitude = static_cast<uint64_t>(*n);
    *negative = *n < 0;
    return true;
  }
  return false;
}

std::optional<double> Value::ToReal() const {
  uint64_t n;
  bool negative;
  if (!AsNumber(&n, &negative)) return AsReal();
  return negative ? static_cast<double>(static_cast<int64_t>(n)) : static_cast<double>(n);
}

int Compare(const Value& a, const Value& b) {
  if (a.represented() || b.represented()) {
    const int d = Compare(a.operand(), b.operand());
    return d != 0 ? d : Compare(a.shown(), b.shown());
  }
  const int rank = Rank(a);
  if (const int d = Sign(rank, Rank(b))) return d;
  switch (rank) {
    case 1:
      return CompareNumbers(a, b);
    case 2:
      return Sign(*a.get<std::string>(), *b.get<std::string>());
    case 3:
      return Sign(a.get<Bytes>()->data, b.get<Bytes>()->data);
    case 4: {
      const auto& x = a.object()->fields;
      const auto& y = b.object()->fields;
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        if (const int d = Sign(x[i].first, y[i].first)) return d;
        if (const int d = Compare(x[i].second, y[i].second)) return d;
      }
      return Sign(x.size(), y.size());
    }
    case 5: {
      const List& x = *a.list();
      const List& y = *b.list();
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        if (const int d = Compare(x[i], y[i])) return d;
      }
      return Sign(x.size(), y.size());
    }
  }
  return 0;
}

size_t HashOf(const Value& value) {
  if (value.represented()) return HashOf(value.operand());
  uint64_t n;
  bool negative;
  if (value.AsNumber(&n, &negative)) return absl::HashOf(1, n, negative);
  if (const std::optional<double> real = value.AsReal()) {
    // A whole one is equal to a whole number, and all NaNs are to each other.
    const std::optional<__int128> whole = WholePart(*real);
    if (whole && std::trunc(*real) == *real) {
      return absl::HashOf(1, static_cast<uint64_t>(*whole), *whole < 0);
    }
    return std::isnan(*real) ? absl::HashOf(1, 0) : absl::HashOf(1, *real);
  }
  if (const auto* s = value.get<std::string>()) return absl::HashOf(2, *s);
  if (const auto* b = value.get<Bytes>()) return absl::HashOf(3, b->data);
  size_t hash = static_cast<size_t>(Rank(value));
  if (const Object* o = value.object()) {
    for (const auto& [name, field] : o->fields) hash = absl::HashOf(hash, name, HashOf(field));
  }
  if (const List* l = value.list()) {
    for (const Value& item : *l) hash = absl::HashOf(hash, HashOf(item));
  }
  return hash;
}

Value ValueOfBytes(std::string_view bytes) {
  if (bytes.empty()) return Null{};
  if (bytes.size() > 8) return Bytes{std::string(bytes)};
  uint64_t v = 0;
  std::memcpy(&v, bytes.data(), bytes.size());
  return Word{v};
}

}  // namespace ttq
