// SPDX-License-Identifier: MIT
//
// See packet.h.

#include "gdb/packet.h"

#include <algorithm>
#include <utility>

#include "fmt/core.h"

namespace ttq::gdb {
namespace {

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

uint8_t Checksum(std::string_view payload) {
  uint8_t sum = 0;
  for (const char c : payload) sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(c));
  return sum;
}

}  // namespace

std::optional<PacketParser::Item> PacketParser::Next() {
  const size_t start = pending_.find_first_of("$\x03");
  if (start == std::string::npos) {
    pending_.clear();
    return std::nullopt;
  }
  pending_.erase(0, start);
  if (pending_[0] == '\x03') {
    pending_.erase(0, 1);
    return Item{Item::kInterrupt, ""};
  }
  const size_t hash = pending_.find('#');
  if (hash == std::string::npos || hash + 3 > pending_.size()) {
    if (std::min(hash, pending_.size()) <= kMaxPacket + 1) return std::nullopt;
    return Item{Item::kTooLong, ""};
  }
  if (hash > kMaxPacket + 1) return Item{Item::kTooLong, ""};
  Item item{Item::kPacket, pending_.substr(1, hash - 1)};
  const int high = DigitOf(pending_[hash + 1]), low = DigitOf(pending_[hash + 2]);
  pending_.erase(0, hash + 3);
  if (high < 0 || low < 0 || Checksum(item.payload) != high * 16 + low) {
    return Item{Item::kDamaged, ""};
  }
  return item;
}

std::string Framed(std::string_view payload) {
  return fmt::format("${}#{:02x}", payload, Checksum(payload));
}

std::string Escaped(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    if (c == '#' || c == '$' || c == '}' || c == '*') {
      out += '}';
      out += static_cast<char>(c ^ 0x20);
    } else {
      out += c;
    }
  }
  return out;
}

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    out += kDigits[static_cast<uint8_t>(c) >> 4];
    out += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

std::optional<std::string> FromHex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = DigitOf(text[i]), low = DigitOf(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

std::string HexNumber(uint64_t n) { return fmt::format("{:x}", n); }

uint64_t Fields::Hex() {
  uint64_t n = 0;
  size_t digits = 0;
  while (digits < rest_.size() && DigitOf(rest_[digits]) >= 0) {
    if (n >> 60 != 0) ok_ = false;
    n = n << 4 | static_cast<uint64_t>(DigitOf(rest_[digits]));
    ++digits;
  }
  if (digits == 0) ok_ = false;
  rest_.remove_prefix(digits);
  return n;
}

bool Fields::Take(std::string_view text) {
  if (rest_.substr(0, text.size()) != text) return false;
  rest_.remove_prefix(text.size());
  return true;
}

std::string_view Fields::Until(char separator) {
  const size_t at = rest_.find(separator);
  const std::string_view field = rest_.substr(0, at);
  rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + 1);
  return field;
}

}  // namespace ttq::gdb
