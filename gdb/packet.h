// SPDX-License-Identifier: MIT
//
// The framing of gdb's remote protocol: `$PAYLOAD#CHECKSUM`, acknowledgements, the interrupt byte;
// and the hexadecimal that payloads are written in. What a client sends is untrusted.

#ifndef TTQ_GDB_PACKET_H_
#define TTQ_GDB_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ttq::gdb {

// What PacketSize tells the client, and the longest packet that is taken: bytes.
inline constexpr size_t kMaxPacket = 0x20000;

// Cuts what a client sends into packets.
class PacketParser {
 public:
  struct Item {
    enum Kind {
      kPacket,
      kInterrupt,  // the byte 0x03 outside a packet
      kDamaged,    // a packet whose checksum is wrong
      kTooLong,    // longer than kMaxPacket: what follows cannot be understood
    } kind;
    std::string payload;
  };

  void Feed(std::string_view bytes) { pending_.append(bytes); }
  // The next item, or nullopt until more bytes come. Bytes between packets are passed over.
  std::optional<Item> Next();

 private:
  std::string pending_;
};

// `$payload#xx`.
std::string Framed(std::string_view payload);
// Binary data as the protocol wants it: `#`, `$`, `}` and `*` are escaped.
std::string Escaped(std::string_view bytes);

std::string ToHex(std::string_view bytes);
// nullopt for what is no even number of hexadecimal digits.
std::optional<std::string> FromHex(std::string_view text);
// Lower-case, without leading zeros.
std::string HexNumber(uint64_t n);

// Reads a packet's fields from left to right. After a mismatch `ok` is false and all else is
// without meaning.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}
  bool ok() const { return ok_; }
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  char Peek() const { return rest_.empty() ? '\0' : rest_[0]; }

  // A hexadecimal number of at most 64 bits.
  uint64_t Hex();
  // Whether `text` comes next; it is taken.
  bool Take(std::string_view text);
  void Expect(std::string_view text) {
    if (!Take(text)) ok_ = false;
  }
  // REQUIRES: rest() has that many bytes.
  void Skip(size_t bytes) { rest_.remove_prefix(bytes); }
  // Up to the separator, which is taken too, or to the end.
  std::string_view Until(char separator);

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace ttq::gdb

#endif  // TTQ_GDB_PACKET_H_
