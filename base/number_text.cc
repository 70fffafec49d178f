// SPDX-License-Identifier: MIT

#include "base/number_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "fmt/core.h"

namespace ttq {

std::string Hex(uint64_t n) { return fmt::format("{:#x}", n); }
std::string Hex(Address a) { return Hex(a.v); }

std::string ToText(const AddressRange& range) {
  if (range.size() == 1) return Hex(range.begin);
  if (range.size() <= 64) return fmt::format("{:#x}+{}", range.begin.v, range.size());
  return fmt::format("{:#x}..{:#x}", range.begin.v, range.end.v);
}

namespace {

// The shortest digits that read back as `value` (finite, not zero), and the decimal exponent of the
// first.
template <class Float>
std::string ShortestDigits(Float value, int* exponent) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific);
  const std::string_view text(buffer, end.ptr - buffer);
  const size_t e = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  *exponent = atoi(std::string(text.substr(e + 1)).c_str());
  return digits;
}

template <class Float>
std::string TextOfReal(Float value, bool point) {
  if (std::isnan(value)) return "nan";
  std::string out = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return out + "inf";
  if (value == 0) return out + (point ? "0.0" : "0");
  int exponent;
  std::string digits = ShortestDigits(value, &exponent);
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (digits.size() > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(-exponent - 1, '0') + digits;
  const size_t whole = exponent + 1;
  if (digits.size() <= whole) {
    return out + digits + std::string(whole - digits.size(), '0') + (point ? ".0" : "");
  }
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

// A real part of zero is not written.
template <class Float>
std::string TextOfComplex(Float real, Float imaginary) {
  const std::string second = TextOfReal(imaginary, false);
  if (real == 0 && !std::signbit(real)) return second + "j";
  return fmt::format("({}{}{}j)", TextOfReal(real, false), second[0] == '-' ? "" : "+", second);
}

}  // namespace

std::string RealText(double value, bool point) { return TextOfReal(value, point); }
std::string RealText(float value, bool point) { return TextOfReal(value, point); }
std::string ComplexText(double real, double imaginary) { return TextOfComplex(real, imaginary); }
std::string ComplexText(float real, float imaginary) { return TextOfComplex(real, imaginary); }

}  // namespace ttq
