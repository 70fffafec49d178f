// SPDX-License-Identifier: MIT
//
// The reader of core dumps on a file made up of well-formed parts with arbitrary numbers in them,
// and on arbitrary bytes: what it says must be in order, must be readable where it says so, and
// must find files without harm.

#include <elf.h>
#include <sys/procfs.h>

#include <string>
#include <vector>

#include "import/core_file.h"
#include "import/find_file.h"
#include "tests/fuzz/fuzz.h"

namespace ttq {
namespace {

constexpr uint64_t kPage = 4096;

template <class T>
void Append(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendNote(uint32_t type, std::string_view data, std::string* out) {
  Append(Elf64_Nhdr{5, static_cast<Elf64_Word>(data.size()), type}, out);
  out->append("CORE\0\0\0\0", 8);
  out->append(data);
  out->resize((out->size() + 3) & ~size_t{3});
}

// Small, near a page's end, or anything.
uint64_t Number(FuzzInput* in) {
  switch (in->Below(4)) {
    case 0:
      return in->Below(16);
    case 1:
      return uint64_t{in->Take<uint8_t>()} * kPage;
    case 2:
      return uint64_t{in->Take<uint8_t>()} * kPage + in->Take<int8_t>();
    default:
      return in->Take<uint64_t>();
  }
}

std::string Notes(FuzzInput* in) {
  std::string notes;
  for (uint32_t i = in->Below(8); i > 0; --i) {
    switch (in->Below(6)) {
      case 0: {
        elf_prstatus status{};
        status.pr_pid = in->Take<uint8_t>();
        status.pr_cursig = in->Take<uint8_t>();
        status.pr_reg[19] = Number(in);  // rsp
        AppendNote(NT_PRSTATUS, {reinterpret_cast<const char*>(&status), sizeof(status)}, &notes);
        break;
      }
      case 1: {
        std::string files;
        const uint32_t count = in->Below(4);
        Append(in->Below(8) == 0 ? Number(in) : count, &files);
        files.resize(8);
        Append(in->Below(8) == 0 ? Number(in) : kPage, &files);
        for (uint32_t f = 0; f < 3 * count; ++f) Append(Number(in), &files);
        for (uint32_t f = 0; f < count; ++f) files.append("/proc/self/exe\0", 15);
        AppendNote(NT_FILE, files, &notes);
        break;
      }
      case 2: {
        std::string vector;
        for (uint32_t a = in->Below(4); a > 0; --a) {
          Append(uint64_t{in->Below(40)}, &vector);
          Append(Number(in), &vector);
        }
        AppendNote(NT_AUXV, vector, &notes);
        break;
      }
      case 3:
        AppendNote(NT_PRPSINFO, in->Bytes(sizeof(elf_prpsinfo)), &notes);
        break;
      case 4:
        AppendNote(NT_SIGINFO, in->Bytes(128), &notes);
        break;
      default: {
        const uint32_t type = in->Take<uint32_t>();
        AppendNote(type, in->Bytes(in->Take<uint16_t>() % 1024), &notes);
      }
    }
  }
  return notes;
}

std::string MadeUp(FuzzInput* in) {
  const uint32_t loads = in->Below(6);
  std::string out;
  Elf64_Ehdr head{};
  memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_type = ET_CORE;
  head.e_machine = EM_X86_64;
  head.e_phoff = sizeof(head);
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = static_cast<Elf64_Half>(loads + 1);
  Append(head, &out);
  const std::string notes = Notes(in);
  Elf64_Phdr note{};
  note.p_type = PT_NOTE;
  note.p_offset = sizeof(head) + (loads + 1) * sizeof(note);
  note.p_filesz = notes.size();
  Append(note, &out);
  for (uint32_t i = 0; i < loads; ++i) {
    Elf64_Phdr load{};
    load.p_type = PT_LOAD;
    load.p_flags = in->Below(8);
    load.p_vaddr = Number(in);
    load.p_memsz = Number(in);
    load.p_filesz = in->Below(2) == 0 ? load.p_memsz : Number(in);
    load.p_offset = Number(in);
    Append(load, &out);
  }
  out += notes;
  out += in->Bytes(2 * kPage);
  return out;
}

void Read(std::string file) {
  absl::StatusOr<std::unique_ptr<CoreFile>> core =
      CoreFile::Parse(FileImage::FromString(std::move(file)), "core");
  if (!core.ok()) {
    Require(!core.status().message().empty(), "an error says what is wrong");
    return;
  }
  ProcessMoment& moment = (*core)->moment();
  Require(!moment.threads.empty(), "it has a thread");
  uint64_t end = 0;
  std::vector<char> bytes(kPage);
  for (const MomentMapping& m : moment.mappings) {
    Require(end <= m.begin && m.begin < m.end, "mappings are in order");
    Require(m.begin <= m.known_end && m.known_end <= m.end, "what is known of one is in it");
    end = m.end;
    for (const uint64_t at : {m.begin, m.known_end - 1, m.known_end, m.end - 1}) {
      const uint64_t got = (*core)->Read(at, bytes.size(), bytes.data());
      Require(got <= bytes.size(), "no more than was asked for");
      if (m.begin <= at && at < m.known_end && m.kind != kTtqMapFile) {
        Require(got > 0, "what is known can be read");
      }
    }
  }
  FindFiles({}, **core, &moment);
}

}  // namespace
}  // namespace ttq

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  FuzzInput in(data, size);
  if (in.Below(8) == 0) {
    Read(std::string(in.Bytes(size)));
  } else {
    Read(MadeUp(&in));
  }
  return 0;
}
