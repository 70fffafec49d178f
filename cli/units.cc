// SPDX-License-Identifier: MIT

#include "cli/units.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace ttq {
namespace {

// A number that is not negative, and what follows it in lower case without spaces.
std::optional<std::pair<double, std::string>> NumberAndUnit(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  text.remove_prefix(end - text.data());
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return std::pair(number, Lower(text));
}

}  // namespace

std::optional<uint64_t> ParseBytes(std::string_view text) {
  auto split = NumberAndUnit(text);
  if (!split) return std::nullopt;
  auto& [number, unit] = *split;
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  double base = 1000;
  if (unit.size() == 2 && unit[1] == 'i') {
    base = 1024;
    unit.pop_back();
  }
  constexpr std::string_view kPowers = "kmgt";
  int power = 0;
  if (!unit.empty()) {
    const size_t at = unit.size() == 1 ? kPowers.find(unit[0]) : std::string_view::npos;
    if (at == std::string_view::npos) return std::nullopt;
    power = static_cast<int>(at) + 1;
  } else if (base != 1000) {
    return std::nullopt;
  }
  const double bytes = number * std::pow(base, power);
  if (bytes >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

std::optional<double> ParseSeconds(std::string_view text) {
  const auto split = NumberAndUnit(text);
  if (!split) return std::nullopt;
  const auto& [number, unit] = *split;
  const double scale = unit.empty() || unit == "s" ? 1
                       : unit == "m"               ? 60
                       : unit == "h"               ? 3600
                       : unit == "d"               ? 86400
                       : unit == "w"               ? 7 * 86400
                                                   : 0;
  if (scale == 0 || number * scale > 1e9) return std::nullopt;
  return number * scale;
}

}  // namespace ttq
