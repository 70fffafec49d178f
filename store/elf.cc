// SPDX-License-Identifier: MIT

#include "store/elf.h"

#include <elf.h>

#include <cstring>
#include <vector>

namespace ttq {
namespace {

template <class T>
bool ReadAt(std::string_view file, uint64_t offset, T* out) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return false;
  memcpy(out, file.data() + offset, sizeof(T));
  return true;
}

std::vector<Elf64_Phdr> ProgramHeaders(std::string_view file) {
  std::vector<Elf64_Phdr> out;
  Elf64_Ehdr head;
  if (!ReadAt(file, 0, &head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr)) {
    return out;
  }
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr p;
    if (!ReadAt(file, head.e_phoff + i * sizeof(p), &p)) break;
    out.push_back(p);
  }
  return out;
}

}  // namespace

std::string ElfBuildId(std::string_view file) {
  int left = 1000;  // a real file has a handful of notes
  for (const Elf64_Phdr& p : ProgramHeaders(file)) {
    if (p.p_type != PT_NOTE) continue;
    uint64_t at = p.p_offset, end = p.p_offset + p.p_filesz;
    Elf64_Nhdr note;
    while (left-- > 0 && at + sizeof(note) <= end && ReadAt(file, at, &note)) {
      uint64_t name = at + sizeof(note), data = name + ((note.n_namesz + 3ull) & ~3ull);
      if (data > file.size() || file.size() - data < note.n_descsz) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          memcmp(file.data() + name, "GNU", 4) == 0 && note.n_descsz <= 64) {
        static const char kHex[] = "0123456789abcdef";
        std::string out;
        for (unsigned i = 0; i < note.n_descsz; ++i) {
          uint8_t b = static_cast<uint8_t>(file[data + i]);
          out += kHex[b >> 4];
          out += kHex[b & 15];
        }
        return out;
      }
      at = data + ((note.n_descsz + 3ull) & ~3ull);
    }
  }
  return "";
}

std::optional<uint64_t> ElfLoadBias(std::string_view file, uint64_t offset, uint64_t address,
                                    uint8_t protection) {
  std::optional<uint64_t> bias;
  for (const Elf64_Phdr& p : ProgramHeaders(file)) {
    if (p.p_type != PT_LOAD) continue;
    uint64_t begin = p.p_offset & ~uint64_t{4095};
    if (offset < begin || offset >= p.p_offset + p.p_filesz) continue;
    uint8_t own = static_cast<uint8_t>((p.p_flags & PF_R ? 1 : 0) | (p.p_flags & PF_W ? 2 : 0) |
                                       (p.p_flags & PF_X ? 4 : 0));
    if (bias && own != protection) continue;
    bias = address - ((p.p_vaddr & ~uint64_t{4095}) + (offset - begin));
    if (own == protection) break;
  }
  return bias;
}

}  // namespace ttq
