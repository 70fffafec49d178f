// SPDX-License-Identifier: MIT

#include "query/ctypes/floating_point.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/text.h"
#include "fmt/core.h"

namespace ttq {
namespace {

enum class Format : uint8_t { kHalf, kBfloat, kSingle, kDouble, kX87, kQuad };

// DWARF tells formats of one size apart by the type's name only.
Format FormatOf(const CType& type) {
  const uint64_t size = type.size.value_or(0) / (type.kind == CType::Kind::kComplex ? 2 : 1);
  if (size <= 2) {
    return type.name.find("bf") != std::string::npos ? Format::kBfloat : Format::kHalf;
  }
  if (size <= 4) return Format::kSingle;
  if (size <= 8) return Format::kDouble;
  return type.name.find("loat128") != std::string::npos ? Format::kQuad : Format::kX87;
}

template <class T>
T Load(std::string_view bytes) {
  T v{};
  std::memcpy(&v, bytes.data(), std::min(sizeof(v), bytes.size()));
  return v;
}

template <class T>
std::string Store(const T& v, size_t used = sizeof(T)) {
  std::string bytes(sizeof(v), '\0');
  std::memcpy(bytes.data(), &v, used);
  return bytes;
}

constexpr size_t kX87Bytes = 10;  // of the 16 that a long double takes

float HalfOf(uint16_t raw) {
  const int exponent = raw >> 10 & 0x1f, fraction = raw & 0x3ff;
  float v = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                          : std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  if (exponent == 0x1f) {
    v = fraction == 0 ? INFINITY : std::bit_cast<float>(0x7f800000U | uint32_t(fraction) << 13);
  }
  return std::copysign(v, (raw & 0x8000) != 0 ? -1.0F : 1.0F);
}

// Rounds to nearest, ties to even.
uint16_t RawHalf(float v) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  const float magnitude = std::fabs(v);
  if (std::isnan(v)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  int exponent = std::max(magnitude == 0 ? -14 : std::ilogb(magnitude), -14);
  // In units of the last place; 0x800 carries into the exponent by itself.
  const auto fraction = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign | ((exponent + 14) * 0x400 + fraction));
}

std::string Formatted(const char* format, long double v) {
  char text[64];
  std::snprintf(text, sizeof(text), format, v);
  return text;
}

}  // namespace

bool IsQuad(const CType& type) { return FormatOf(type) == Format::kQuad; }

long double FloatOf(const CType& type, std::string_view bytes) {
  switch (FormatOf(type)) {
    case Format::kHalf:
      return HalfOf(Load<uint16_t>(bytes));
    case Format::kBfloat:
      return std::bit_cast<float>(uint32_t{Load<uint16_t>(bytes)} << 16);
    case Format::kSingle:
      return Load<float>(bytes);
    case Format::kDouble:
      return Load<double>(bytes);
    case Format::kX87:
      return Load<long double>(bytes.substr(0, kX87Bytes));
    case Format::kQuad:
      return static_cast<long double>(Load<__float128>(bytes));
  }
  return 0;
}

std::string FloatBytes(const CType& type, long double number) {
  switch (FormatOf(type)) {
    case Format::kHalf:
      return Store(RawHalf(static_cast<float>(number)));
    case Format::kBfloat: {
      // As RawHalf rounds; a NaN keeps a bit.
      const auto raw = std::bit_cast<uint32_t>(static_cast<float>(number));
      if (std::isnan(number)) return Store(static_cast<uint16_t>(raw >> 16 | 0x40));
      return Store(static_cast<uint16_t>((raw + 0x7fff + (raw >> 16 & 1)) >> 16));
    }
    case Format::kSingle:
      return Store(static_cast<float>(number));
    case Format::kDouble:
      return Store(static_cast<double>(number));
    case Format::kX87:
      return Store(number, kX87Bytes);
    case Format::kQuad:
      return Store(static_cast<__float128>(number));
  }
  return "";
}

std::string FloatText(const CType& type, std::string_view bytes) {
  const long double v = FloatOf(type, bytes);
  // The digits of a NaN are its fraction's bits.
  uint64_t fraction = 0;
  const char* format = "%.18Lg";
  switch (FormatOf(type)) {
    case Format::kHalf:
      fraction = Load<uint16_t>(bytes) & 0x3ff;
      format = "%.5Lg";
      break;
    case Format::kBfloat:
      fraction = Load<uint16_t>(bytes) & 0x7f;
      format = "%.4Lg";
      break;
    case Format::kSingle:
      fraction = Load<uint32_t>(bytes) & 0x7fffff;
      format = "%.9Lg";
      break;
    case Format::kDouble:
      fraction = Load<uint64_t>(bytes) & 0xfffffffffffff;
      format = "%.17Lg";
      break;
    case Format::kX87:
    case Format::kQuad:
      fraction = Load<uint64_t>(bytes);
      break;
  }
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  if (std::isnan(v)) return Cat(std::signbit(v) ? "-" : "", fmt::format("nan({:#x})", fraction));
  return Formatted(format, v);
}

Value FloatValue(const CType& type, std::string_view bytes) {
  const long double v = FloatOf(type, bytes);
  if (FormatOf(type) <= Format::kSingle) return static_cast<float>(v);
  return static_cast<double>(v);
}

}  // namespace ttq
