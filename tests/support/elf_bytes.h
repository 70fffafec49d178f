// SPDX-License-Identifier: MIT
//
// ELF files made by hand, for tests of what reads them: bytes put one after the other, and sections
// put into a file.

#ifndef TTQ_TESTS_SUPPORT_ELF_BYTES_H_
#define TTQ_TESTS_SUPPORT_ELF_BYTES_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace ttq {

// Little-endian numbers as DWARF has them.
class ElfBytes {
 public:
  template <class T>
  ElfBytes& Fixed(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    data_.append(bytes, sizeof(T));
    return *this;
  }
  ElfBytes& U8(uint64_t v) { return Fixed(static_cast<uint8_t>(v)); }
  ElfBytes& U16(uint64_t v) { return Fixed(static_cast<uint16_t>(v)); }
  ElfBytes& U32(uint64_t v) { return Fixed(static_cast<uint32_t>(v)); }
  ElfBytes& U64(uint64_t v) { return Fixed(v); }
  ElfBytes& Uleb(uint64_t v) {
    for (; v >= 0x80; v >>= 7) U8(v | 0x80);
    return U8(v);
  }
  ElfBytes& Sleb(int64_t v) {
    for (; v < -64 || v > 63; v >>= 7) U8((v & 0x7f) | 0x80);
    return U8(v & 0x7f);
  }
  ElfBytes& Text(std::string_view text) {
    data_.append(text);
    return U8(0);
  }
  ElfBytes& Add(std::string_view bytes) {
    data_.append(bytes);
    return *this;
  }
  // `body` after its own length in 32 bits.
  ElfBytes& Sized(std::string_view body) { return U32(body.size()).Add(body); }
  size_t size() const { return data_.size(); }
  const std::string& data() const { return data_; }

 private:
  std::string data_;
};

struct ElfPart {
  std::string name;
  std::string data;
  uint64_t address = 0;  // 0: not in memory
  uint32_t segment = 0;  // a program header of this type over it, besides the PT_LOAD
  uint32_t type = SHT_PROGBITS;
};

// A shared object with these sections and one executable segment, from address 0 over the whole
// file.
inline std::string MakeElf(std::vector<ElfPart> parts) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  std::vector<Elf64_Phdr> segments(1);
  for (const ElfPart& part : parts) segments.resize(segments.size() + (part.segment != 0));
  ElfBytes names;
  names.U8(0);
  parts.push_back({".shstrtab", "", 0, 0, SHT_STRTAB});
  std::vector<Elf64_Shdr> sections(1);
  for (const ElfPart& part : parts) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<uint32_t>(names.size());
    section.sh_type = part.type;
    section.sh_addr = part.address;
    sections.push_back(section);
    names.Text(part.name);
  }
  parts.back().data = names.data();
  std::string body(sizeof(header) + segments.size() * sizeof(Elf64_Phdr), '\0');
  size_t next_segment = 1;
  for (size_t i = 0; i < parts.size(); ++i) {
    Elf64_Shdr& section = sections[i + 1];
    // What is in memory lies at its address in the file too.
    if (parts[i].address > body.size()) body.resize(parts[i].address);
    section.sh_offset = body.size();
    section.sh_size = parts[i].data.size();
    body += parts[i].data;
    if (parts[i].segment == 0) continue;
    Elf64_Phdr& segment = segments[next_segment++];
    segment.p_type = parts[i].segment;
    segment.p_flags = PF_R;
    segment.p_offset = section.sh_offset;
    segment.p_vaddr = parts[i].address;
    segment.p_filesz = segment.p_memsz = section.sh_size;
  }
  segments[0].p_type = PT_LOAD;
  segments[0].p_flags = PF_R | PF_X;
  segments[0].p_filesz = body.size();
  segments[0].p_memsz = body.size() + (1 << 20);
  header.e_phoff = sizeof(header);
  header.e_phnum = static_cast<uint16_t>(segments.size());
  header.e_shoff = body.size();
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  body.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
  std::memcpy(body.data(), &header, sizeof(header));
  std::memcpy(body.data() + sizeof(header), segments.data(), segments.size() * sizeof(Elf64_Phdr));
  return body;
}

}  // namespace ttq

#endif  // TTQ_TESTS_SUPPORT_ELF_BYTES_H_
