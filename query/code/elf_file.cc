// SPDX-License-Identifier: MIT

#include "query/code/elf_file.h"

#include <elf.h>
#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"

namespace ttq {
namespace {

using Bytes = absl::Span<const uint8_t>;

// REQUIRES: offset + sizeof(T) <= bytes.size().
template <class T>
T Load(Bytes bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

Bytes SubSpan(Bytes bytes, uint64_t offset, uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return {};
  return bytes.subspan(offset, size);
}

// Up to the next NUL; empty when there is none.
std::string_view StringAt(Bytes strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const char* begin = reinterpret_cast<const char*>(strings.data()) + offset;
  const void* end = std::memchr(begin, 0, strings.size() - offset);
  if (end == nullptr) return {};
  return {begin, static_cast<size_t>(static_cast<const char*>(end) - begin)};
}

std::string Hex(Bytes bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace

uint32_t DebugLinkCrc(Bytes bytes) {
  // The polynomial and the conditioning are zlib's.
  return crc32_gzip_refl(0, bytes.data(), bytes.size());
}

absl::StatusOr<ElfFile> ElfFile::Parse(FileImage image) {
  ElfFile file;
  file.image_ = std::move(image);
  Bytes bytes = file.image_.bytes();
  if (bytes.size() < sizeof(Elf64_Ehdr) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) {
    return absl::InvalidArgumentError("not an ELF file");
  }
  auto header = Load<Elf64_Ehdr>(bytes, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64) {
    return absl::InvalidArgumentError("not an x86-64 ELF file");
  }
  file.fixed_address_ = header.e_type == ET_EXEC;
  file.entry_ = header.e_entry;
  file.ReadSegments();
  file.ReadSections();
  file.ReadBuildId();
  return file;
}

Bytes ElfFile::Slice(uint64_t offset, uint64_t size) const {
  return SubSpan(image_.bytes(), offset, size);
}

void ElfFile::ReadSegments() {
  auto header = Load<Elf64_Ehdr>(image_.bytes(), 0);
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return;
  Bytes table = Slice(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  for (uint64_t at = 0; at + sizeof(Elf64_Phdr) <= table.size(); at += sizeof(Elf64_Phdr)) {
    auto p = Load<Elf64_Phdr>(table, at);
    segments_.push_back({p.p_type, p.p_flags, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz});
  }
}

void ElfFile::ReadSections() {
  auto header = Load<Elf64_Ehdr>(image_.bytes(), 0);
  if (header.e_shoff == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) return;
  Bytes first_bytes = Slice(header.e_shoff, sizeof(Elf64_Shdr));
  if (first_bytes.empty()) return;
  // Counts that do not fit sixteen bits are in the first section header (ELF's extended numbering).
  auto first = Load<Elf64_Shdr>(first_bytes, 0);
  uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  uint64_t names_index = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
  if (count > image_.bytes().size() / sizeof(Elf64_Shdr)) return;
  Bytes table = Slice(header.e_shoff, count * sizeof(Elf64_Shdr));
  if (table.empty()) return;
  Bytes names;
  if (names_index < count) {
    auto s = Load<Elf64_Shdr>(table, names_index * sizeof(Elf64_Shdr));
    if (s.sh_type != SHT_NOBITS) names = Slice(s.sh_offset, s.sh_size);
  }
  sections_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    auto s = Load<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr));
    Section section;
    section.name = StringAt(names, s.sh_name);
    section.type = s.sh_type;
    section.flags = s.sh_flags;
    section.address = s.sh_addr;
    section.offset = s.sh_offset;
    section.size = s.sh_size;
    section.entry_size = s.sh_entsize;
    section.link = s.sh_link;
    section.info = s.sh_info;
    sections_.push_back(section);
  }
}

void ElfFile::ReadBuildId() {
  auto read_notes = [this](Bytes notes) {
    while (notes.size() >= sizeof(Elf64_Nhdr)) {
      auto n = Load<Elf64_Nhdr>(notes, 0);
      uint64_t name_at = sizeof(Elf64_Nhdr);
      uint64_t desc_at = name_at + ((uint64_t{n.n_namesz} + 3) & ~uint64_t{3});
      uint64_t end = desc_at + ((uint64_t{n.n_descsz} + 3) & ~uint64_t{3});
      Bytes name = SubSpan(notes, name_at, n.n_namesz);
      Bytes desc = SubSpan(notes, desc_at, n.n_descsz);
      if (n.n_type == NT_GNU_BUILD_ID && name.size() == 4 &&
          std::memcmp(name.data(), "GNU", 4) == 0 && !desc.empty() && desc.size() <= 64) {
        build_id_ = Hex(desc);
        return;
      }
      if (end > notes.size()) return;
      notes.remove_prefix(end);
    }
  };
  // Sections first: in a file made by `objcopy --only-keep-debug` the segments' offsets lie.
  for (const Section& s : sections_) {
    if (s.type == SHT_NOTE && build_id_.empty()) read_notes(RawData(s));
  }
  for (const Segment& s : segments_) {
    if (s.type == PT_NOTE && build_id_.empty()) read_notes(Slice(s.offset, s.file_size));
  }
}

const ElfFile::Section* ElfFile::FindSection(std::string_view name) const {
  for (const Section& s : sections_) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

Bytes ElfFile::RawData(const Section& section) const {
  if (section.type == SHT_NOBITS) return {};
  return Slice(section.offset, section.size);
}

absl::StatusOr<FileImage> ElfFile::Data(const Section& section, uint64_t max_size) const {
  ASSIGN_OR_RETURN(const SectionStream stream, Stream(section, max_size));
  RETURN_IF_ERROR(stream.Finish());
  return stream.image();
}

absl::StatusOr<SectionStream> ElfFile::Stream(const Section& section, uint64_t max_size) const {
  Bytes raw = RawData(section);
  CompressedSection compressed;
  compressed.build_id = build_id_;
  if (section.flags & SHF_COMPRESSED) {
    if (raw.size() < sizeof(Elf64_Chdr)) {
      return absl::DataLossError("a compressed section is cut off");
    }
    auto c = Load<Elf64_Chdr>(raw, 0);
    raw.remove_prefix(sizeof(Elf64_Chdr));
    constexpr uint32_t kZstd = 2;  // ELFCOMPRESS_ZSTD, younger than this elf.h
    if (c.ch_type != ELFCOMPRESS_ZLIB && c.ch_type != kZstd) {
      return absl::DataLossError(absl::StrCat("unknown compression ", c.ch_type));
    }
    compressed.size = c.ch_size;
    compressed.zstd = c.ch_type == kZstd;
  } else if (section.name.substr(0, 7) == ".zdebug" && raw.size() >= 12 &&
             std::memcmp(raw.data(), "ZLIB", 4) == 0) {
    // The older GNU form: "ZLIB" and the size in big-endian.
    for (int i = 4; i < 12; ++i) compressed.size = compressed.size << 8 | raw[i];
    raw.remove_prefix(12);
  } else {
    return SectionStream(FileImage(raw, image_.owner()));
  }
  if (compressed.size > max_size) {
    return absl::DataLossError(
        absl::StrCat("a compressed section claims ", compressed.size, " bytes"));
  }
  compressed.bytes = FileImage(raw, image_.owner());
  return Decompress(std::move(compressed));
}

std::optional<ElfFile::DebugLink> ElfFile::debug_link() const {
  const Section* section = FindSection(".gnu_debuglink");
  if (section == nullptr) return std::nullopt;
  Bytes data = RawData(*section);
  std::string_view name = StringAt(data, 0);
  uint64_t crc_at = (name.size() + 1 + 3) & ~uint64_t{3};
  if (name.empty() || crc_at + 4 > data.size()) return std::nullopt;
  return DebugLink{std::string(name), Load<uint32_t>(data, crc_at)};
}

std::optional<ElfFile::AltLink> ElfFile::alt_link() const {
  const Section* section = FindSection(".gnu_debugaltlink");
  if (section == nullptr) return std::nullopt;
  Bytes data = RawData(*section);
  std::string_view name = StringAt(data, 0);
  if (name.empty()) return std::nullopt;
  data.remove_prefix(name.size() + 1);
  if (data.empty() || data.size() > 64) return std::nullopt;
  return AltLink{std::string(name), Hex(data)};
}

std::vector<ElfFile::Symbol> ElfFile::SymbolTable(Bytes table, Bytes strings) const {
  std::vector<Symbol> symbols;
  symbols.reserve(table.size() / sizeof(Elf64_Sym));
  for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym)) {
    auto s = Load<Elf64_Sym>(table, at);
    std::string_view name = StringAt(strings, s.st_name);
    size_t version = name.find('@');
    if (version != std::string_view::npos && version > 0) name = name.substr(0, version);
    symbols.push_back({name, s.st_value, s.st_size, static_cast<uint8_t>(ELF64_ST_TYPE(s.st_info)),
                       static_cast<uint8_t>(ELF64_ST_BIND(s.st_info)), s.st_shndx});
  }
  return symbols;
}

std::vector<ElfFile::Symbol> ElfFile::Symbols(bool dynamic) const {
  uint32_t wanted = dynamic ? SHT_DYNSYM : SHT_SYMTAB;
  for (const Section& s : sections_) {
    if (s.type != wanted || s.link >= sections_.size()) continue;
    return SymbolTable(RawData(s), RawData(sections_[s.link]));
  }
  if (dynamic && sections_.empty()) return SymbolsByDynamicSegment();
  return {};
}

std::vector<ElfFile::Symbol> ElfFile::SymbolsByDynamicSegment() const {
  for (const Segment& segment : segments_) {
    if (segment.type != PT_DYNAMIC) continue;
    Bytes dynamic = Slice(segment.offset, segment.file_size);
    uint64_t symbols = 0, strings = 0, strings_size = 0, hash = 0, gnu_hash = 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic.size(); at += sizeof(Elf64_Dyn)) {
      auto d = Load<Elf64_Dyn>(dynamic, at);
      if (d.d_tag == DT_NULL) break;
      if (d.d_tag == DT_SYMTAB) symbols = d.d_un.d_ptr;
      if (d.d_tag == DT_STRTAB) strings = d.d_un.d_ptr;
      if (d.d_tag == DT_STRSZ) strings_size = d.d_un.d_val;
      if (d.d_tag == DT_HASH) hash = d.d_un.d_ptr;
      if (d.d_tag == DT_GNU_HASH) gnu_hash = d.d_un.d_ptr;
    }
    // The table has no size of its own: the hash tables know the highest index.
    uint64_t count = 0;
    if (Bytes h = BytesAt(hash, 8); hash != 0 && h.size() == 8) {
      count = Load<uint32_t>(h, 4);
    } else if (Bytes g = BytesAt(gnu_hash, UINT64_MAX); gnu_hash != 0 && g.size() >= 16) {
      uint64_t buckets = Load<uint32_t>(g, 0), first = Load<uint32_t>(g, 4);
      uint64_t bloom_words = Load<uint32_t>(g, 8);
      uint64_t buckets_at = 16 + bloom_words * 8, chains_at = buckets_at + buckets * 4;
      if (chains_at > g.size()) continue;
      uint64_t last = 0;
      for (uint64_t i = 0; i < buckets; ++i) {
        last = std::max<uint64_t>(last, Load<uint32_t>(g, buckets_at + i * 4));
      }
      if (last >= first) {
        // The low bit of a chain's word marks its end.
        uint64_t at = chains_at + (last - first) * 4;
        while (at + 4 <= g.size() && (Load<uint32_t>(g, at) & 1) == 0) at += 4;
        count = first + (at - chains_at) / 4 + 1;
      }
    }
    Bytes table = BytesAt(symbols, UINT64_MAX);
    if (count < table.size() / sizeof(Elf64_Sym))
      table = table.subspan(0, count * sizeof(Elf64_Sym));
    return SymbolTable(table, BytesAt(strings, strings_size));
  }
  return {};
}

std::vector<ElfFile::PltEntry> ElfFile::PltEntries() const {
  // GOT slot -> name, by every relocation that fills a slot with a function's address.
  absl::flat_hash_map<uint64_t, std::string> slots;
  std::vector<Symbol> symbols = Symbols(/*dynamic=*/true);
  for (const Section& s : sections_) {
    if (s.type != SHT_RELA) continue;
    Bytes table = RawData(s);
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.size(); at += sizeof(Elf64_Rela)) {
      auto r = Load<Elf64_Rela>(table, at);
      uint32_t type = ELF64_R_TYPE(r.r_info), index = ELF64_R_SYM(r.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      if (index < symbols.size() && !symbols[index].name.empty()) {
        slots[r.r_offset] = symbols[index].name;
      }
    }
  }
  std::vector<PltEntry> entries;
  if (slots.empty()) return entries;
  for (const Section& s : sections_) {
    if (s.name != ".plt" && s.name != ".plt.sec" && s.name != ".plt.got") continue;
    Bytes code = RawData(s);
    uint64_t step = s.entry_size == 8 || s.entry_size == 16 ? s.entry_size : 16;
    for (uint64_t at = 0; at + step <= code.size(); at += step) {
      // jmp *disp32(%rip), perhaps after endbr64 and a bnd prefix.
      for (uint64_t i = at; i + 6 <= at + step; ++i) {
        if (code[i] != 0xff || code[i + 1] != 0x25) continue;
        uint64_t slot = s.address + i + 6 + static_cast<int64_t>(Load<int32_t>(code, i + 2));
        auto it = slots.find(slot);
        if (it != slots.end()) entries.push_back({it->second + "@plt", s.address + at, step});
        break;
      }
    }
  }
  return entries;
}

std::optional<uint64_t> ElfFile::Main() const {
  constexpr uint64_t kLongest = 64;
  Bytes code = BytesAt(entry_, kLongest);
  constexpr uint8_t kEndBranch[] = {0xf3, 0x0f, 0x1e, 0xfa};
  // xor %ebp,%ebp; mov %rdx,%r9; pop %rsi
  constexpr uint8_t kBegin[] = {0x31, 0xed, 0x49, 0x89, 0xd1, 0x5e};
  const auto begins = [&](size_t at, Bytes with) {
    return code.size() >= at + with.size() && memcmp(&code[at], with.data(), with.size()) == 0;
  };
  size_t at = begins(0, kEndBranch) ? sizeof kEndBranch : 0;
  if (!begins(at, kBegin)) return std::nullopt;
  for (at += sizeof kBegin; at + 8 <= code.size(); ++at) {
    // lea main(%rip),%rdi; mov $main,%rdi. A call follows each.
    constexpr uint8_t kLea[] = {0x48, 0x8d, 0x3d}, kMove[] = {0x48, 0xc7, 0xc7};
    const bool lea = begins(at, kLea);
    if (!lea && !begins(at, kMove)) continue;
    const uint8_t call = code[at + 7];
    if (call != 0xe8 && call != 0xff && call != 0x67) continue;
    const auto value = static_cast<uint64_t>(int64_t{Load<int32_t>(code, at + 3)});
    return lea ? entry_ + at + 7 + value : value;
  }
  return std::nullopt;
}

bool ElfFile::IsCode(uint64_t address) const {
  for (const Segment& s : segments_) {
    if (s.type == PT_LOAD && s.executable() && address >= s.address &&
        address - s.address < s.memory_size) {
      return true;
    }
  }
  return false;
}

Bytes ElfFile::BytesAt(uint64_t address, uint64_t size) const {
  for (const Segment& s : segments_) {
    if (s.type != PT_LOAD || address < s.address || address - s.address >= s.file_size) continue;
    uint64_t skip = address - s.address;
    uint64_t offset = s.offset + skip;
    Bytes all = image_.bytes();
    if (offset < skip || offset >= all.size()) return {};
    return all.subspan(offset, std::min({size, s.file_size - skip, all.size() - offset}));
  }
  return {};
}

}  // namespace ttq
