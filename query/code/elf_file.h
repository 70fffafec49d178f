// SPDX-License-Identifier: MIT
//
// An x86-64 ELF file read from bytes: sections, segments, symbols, entries of the procedure linkage
// table (PLT), build-id and links to separate debug files. The bytes are untrusted: every offset
// and count is checked against them, and what does not fit is left out. A file without section
// headers (stripped of them, or of which only the mapped part is there) gives its dynamic symbols
// by PT_DYNAMIC. Thread-safe: nothing changes after construction.

#ifndef TTQ_QUERY_CODE_ELF_FILE_H_
#define TTQ_QUERY_CODE_ELF_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/file_image.h"
#include "query/code/decompress.h"

namespace ttq {

class ElfFile {
 public:
  struct Section {
    std::string_view name;
    uint32_t type = 0;
    uint64_t flags = 0, address = 0, offset = 0, size = 0, entry_size = 0;
    uint32_t link = 0, info = 0;
  };
  struct Segment {
    uint32_t type = 0, flags = 0;
    uint64_t offset = 0, address = 0, file_size = 0, memory_size = 0;
    bool executable() const { return flags & 1; }
  };
  struct Symbol {
    std::string_view name;  // without a "@VERSION"
    uint64_t address = 0, size = 0;
    uint8_t type = 0, binding = 0;  // STT_*, STB_*
    uint16_t section = 0;           // SHN_*
  };
  struct PltEntry {
    std::string name;  // "mkdir@plt"
    uint64_t address = 0, size = 0;
  };
  struct DebugLink {
    std::string name;
    uint32_t crc = 0;
  };
  struct AltLink {
    std::string name;
    std::string build_id;
  };

  // kInvalidArgument when the bytes are not the start of an x86-64 ELF file.
  static absl::StatusOr<ElfFile> Parse(FileImage image);

  const FileImage& image() const { return image_; }
  // ET_EXEC: linked to fixed addresses.
  bool fixed_address() const { return fixed_address_; }
  // Where the program begins; 0: it is none.
  uint64_t entry() const { return entry_; }
  // The address of main, which a program that begins as glibc's do (sysdeps/x86_64/start.S) gives
  // to __libc_start_main.
  std::optional<uint64_t> Main() const;
  const std::vector<Section>& sections() const { return sections_; }
  const std::vector<Segment>& segments() const { return segments_; }
  // Null when there is none.
  const Section* FindSection(std::string_view name) const;
  // The bytes of a section in the file; empty for SHT_NOBITS and for one that does not fit.
  absl::Span<const uint8_t> RawData(const Section& section) const;
  // The same, decompressed (SHF_COMPRESSED and .zdebug). kDataLoss when that fails or the size it
  // claims is more than `max_size` or than its compressed bytes could give.
  absl::StatusOr<FileImage> Data(const Section& section, uint64_t max_size = kMaxSection) const;
  // The same, while it is being decompressed; the stream reports damage when it is finished.
  absl::StatusOr<SectionStream> Stream(const Section& section,
                                       uint64_t max_size = kMaxSection) const;
  // Lower-case hexadecimal; empty: none.
  const std::string& build_id() const { return build_id_; }
  std::optional<DebugLink> debug_link() const;
  std::optional<AltLink> alt_link() const;

  // In the order of the file, undefined ones included. `dynamic`: .dynsym, else .symtab. Names
  // point into the image.
  std::vector<Symbol> Symbols(bool dynamic) const;
  // Code in .plt, .plt.sec and .plt.got that jumps through a GOT slot with a named relocation.
  std::vector<PltEntry> PltEntries() const;

  // An executable segment holds [address, address + 1).
  bool IsCode(uint64_t address) const;
  // Up to `size` bytes of the file that are loaded at `address`; fewer at a segment's end.
  absl::Span<const uint8_t> BytesAt(uint64_t address, uint64_t size) const;

  static constexpr uint64_t kMaxSection = uint64_t{4} << 30;

 private:
  ElfFile() = default;
  void ReadSections();
  void ReadSegments();
  void ReadBuildId();
  std::vector<Symbol> SymbolTable(absl::Span<const uint8_t> table,
                                  absl::Span<const uint8_t> strings) const;
  std::vector<Symbol> SymbolsByDynamicSegment() const;
  absl::Span<const uint8_t> Slice(uint64_t offset, uint64_t size) const;

  FileImage image_;
  bool fixed_address_ = false;
  uint64_t entry_ = 0;
  std::vector<Section> sections_;
  std::vector<Segment> segments_;
  std::string build_id_;
};

// The CRC of .gnu_debuglink over a whole file.
uint32_t DebugLinkCrc(absl::Span<const uint8_t> bytes);

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_ELF_FILE_H_
