// SPDX-License-Identifier: MIT

#include "base/elf.h"

#include <elf.h>

#include <cstring>
#include <vector>

namespace ttq {
namespace {

// Reads out of `file`, which must outlive what this returns.
auto ReadFrom(std::string_view file) {
  return [file](uint64_t offset, size_t n, void* out) {
    if (offset > file.size() || file.size() - offset < n) return false;
    memcpy(out, file.data() + offset, n);
    return true;
  };
}

std::vector<Elf64_Phdr> ProgramHeaders(ReadFileBytes read) {
  std::vector<Elf64_Phdr> out;
  Elf64_Ehdr head;
  if (!read(0, sizeof(head), &head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr)) {
    return out;
  }
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr p;
    if (!read(head.e_phoff + i * sizeof(p), sizeof(p), &p)) break;
    out.push_back(p);
  }
  return out;
}

}  // namespace

std::string ElfBuildId(ReadFileBytes read) {
  int left = 1000;  // a real file has a handful of notes
  for (const Elf64_Phdr& p : ProgramHeaders(read)) {
    if (p.p_type != PT_NOTE) continue;
    uint64_t at = p.p_offset, end = p.p_offset + p.p_filesz;
    struct {
      Elf64_Nhdr head;
      char name[4];
    } note;
    while (left-- > 0 && at + sizeof(note) <= end && read(at, sizeof(note), &note)) {
      const uint64_t data = at + sizeof(note.head) + ((note.head.n_namesz + 3ull) & ~3ull);
      if (note.head.n_type == NT_GNU_BUILD_ID && note.head.n_namesz == sizeof(note.name) &&
          memcmp(note.name, "GNU", 4) == 0 && note.head.n_descsz <= 64) {
        uint8_t bytes[64];
        if (!read(data, note.head.n_descsz, bytes)) return "";
        static const char kHex[] = "0123456789abcdef";
        std::string out;
        for (unsigned i = 0; i < note.head.n_descsz; ++i) {
          out += kHex[bytes[i] >> 4];
          out += kHex[bytes[i] & 15];
        }
        return out;
      }
      at = data + ((note.head.n_descsz + 3ull) & ~3ull);
    }
  }
  return "";
}

std::string ElfBuildId(std::string_view file) { return ElfBuildId(ReadFrom(file)); }

std::vector<uint64_t> ElfLoadBiases(std::string_view head, uint64_t offset, uint64_t address,
                                    uint8_t protection) {
  std::vector<uint64_t> biases;
  ptrdiff_t same = 0;  // of them, of segments with that protection
  for (const Elf64_Phdr& p : ProgramHeaders(ReadFrom(head))) {
    if (p.p_type != PT_LOAD) continue;
    uint64_t begin = p.p_offset & ~uint64_t{4095};
    if (offset < begin || offset >= p.p_offset + p.p_filesz) continue;
    uint8_t own = static_cast<uint8_t>((p.p_flags & PF_R ? 1 : 0) | (p.p_flags & PF_W ? 2 : 0) |
                                       (p.p_flags & PF_X ? 4 : 0));
    const uint64_t bias = address - ((p.p_vaddr & ~uint64_t{4095}) + (offset - begin));
    biases.insert(own == protection ? biases.begin() + same++ : biases.end(), bias);
  }
  return biases;
}

}  // namespace ttq
