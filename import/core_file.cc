// SPDX-License-Identifier: MIT

#include "import/core_file.h"

#include <elf.h>
#include <signal.h>
#include <sys/procfs.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "base/types.h"
#include "fmt/core.h"
#include "import/arm/arm.h"
#include "import/registers.h"

namespace ttq {
namespace {

// More than any process has (vm.max_map_count is 65,530 by default), and less than hurts.
constexpr size_t kMaxMappings = 1 << 20;
constexpr size_t kMaxThreads = 1 << 16;
constexpr size_t kMaxRemark = 1000;
constexpr uint64_t kUserEnd = uint64_t{1} << 47;

std::string MachineName(uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "i386";
    case EM_AARCH64:
      return "aarch64";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

// An entry of NT_FILE: what was mapped from which file.
struct FileMapping {
  uint64_t begin, end, offset;
  std::string path;
};

template <class T>
std::optional<T> Take(std::string_view bytes, uint64_t offset) {
  T out;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(out)) return std::nullopt;
  memcpy(&out, bytes.data() + offset, sizeof(out));
  return out;
}

std::string TextOf(const char* chars, size_t most) { return {chars, strnlen(chars, most)}; }

}  // namespace

// The parts of a core dump, one after the other.
class CoreFile::Reader {
 public:
  Reader(CoreFile* core, std::string_view bytes, const std::string& name)
      : core_(*core), moment_(core->moment_), bytes_(bytes), name_(name) {}

  absl::Status Run(const std::string& packing) {
    RETURN_IF_ERROR(Headers());
    for (const Elf64_Phdr& p : headers_) {
      if (p.p_type == PT_NOTE) Notes(p);
    }
    if (moment_.threads.empty()) {
      return absl::DataLossError(fmt::format(
          "{}: {}", name_,
          cut_by_ > 0 ? fmt::format("the core dump is cut off before its threads: {} bytes of it "
                                    "are missing",
                                    cut_by_)
                      : "a core dump without a thread in it"));
    }
    if (moment_.signal && moment_.signal->number == SIGSTOP)
      moment_.signal.reset();  // a debugger's
    Mappings();
    LoseUnknown();
    Names();
    if (!packing.empty()) {
      moment_.incomplete = fmt::format("the core dump is damaged: {}", packing);
    } else if (cut_by_ > 0) {
      moment_.incomplete =
          fmt::format("the core dump is cut off: {} bytes of it are missing", cut_by_);
    }
    if (!moment_.incomplete.empty())
      moment_.remarks.insert(moment_.remarks.begin(), moment_.incomplete);
    return absl::OkStatus();
  }

 private:
  absl::Status Headers() {
    const auto bad = [this](std::string_view what) {
      return absl::InvalidArgumentError(fmt::format("{}: {}", name_, what));
    };
    const auto head = Take<Elf64_Ehdr>(bytes_, 0);
    const bool is_elf = bytes_.size() >= EI_NIDENT && bytes_.substr(0, SELFMAG) == ELFMAG;
    if (!is_elf) return bad(bytes_.empty() ? "an empty file" : "not a core dump (not even ELF)");
    if (bytes_[EI_CLASS] != ELFCLASS64) {
      return bad("a 32-bit ELF file; ttq reads core dumps of x86-64");
    }
    if (!head || bytes_[EI_DATA] != ELFDATA2LSB) {
      return bad("a damaged ELF header, or one of another byte order");
    }
    if (head->e_type != ET_CORE) {
      return bad(head->e_type == ET_EXEC || head->e_type == ET_DYN
                     ? "a program or library, not a core dump"
                     : "an ELF file, but not a core dump");
    }
    if (head->e_machine != EM_X86_64) {
      return bad(fmt::format("a core dump of another processor ({}); ttq reads those of x86-64",
                             MachineName(head->e_machine)));
    }
    uint64_t count = head->e_phnum;
    if (count == PN_XNUM) {  // more than fit; the first section says how many
      const auto section = Take<Elf64_Shdr>(bytes_, head->e_shoff);
      count = section ? section->sh_info : 0;
    }
    if (head->e_phentsize != sizeof(Elf64_Phdr) || count == 0 || count > kMaxMappings) {
      return bad("a core dump with damaged program headers");
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (head->e_phoff > bytes_.size()) break;
      const auto p = Take<Elf64_Phdr>(bytes_, head->e_phoff + i * sizeof(Elf64_Phdr));
      if (!p) break;
      headers_.push_back(*p);
      const uint64_t size = bytes_.size();
      if (p->p_filesz > 0 && p->p_offset <= ~p->p_filesz) {
        const uint64_t end = p->p_offset + p->p_filesz;
        if (end > size) cut_by_ = std::max(cut_by_, end - size);
      }
    }
    if (headers_.empty()) return bad("a core dump that is cut off in its program headers");
    return absl::OkStatus();
  }

  void Notes(const Elf64_Phdr& p) {
    if (p.p_offset > bytes_.size()) return;
    std::string_view rest = bytes_.substr(p.p_offset, p.p_filesz);
    const auto aligned = [](uint64_t n) { return (n + 3) & ~uint64_t{3}; };
    while (const auto head = Take<Elf64_Nhdr>(rest, 0)) {
      const uint64_t description = sizeof(*head) + aligned(head->n_namesz);
      if (description > rest.size()) return;
      const std::string_view data = rest.substr(description, head->n_descsz);
      if (data.size() == head->n_descsz) Note(head->n_type, data);
      const uint64_t all = description + aligned(head->n_descsz);
      if (all > rest.size()) return;
      rest.remove_prefix(all);
    }
  }

  void Note(uint32_t type, std::string_view data) {
    MomentThread* last = moment_.threads.empty() ? nullptr : &moment_.threads.back();
    switch (type) {
      case NT_PRSTATUS: {
        const auto status = Take<elf_prstatus>(data, 0);
        if (!status || moment_.threads.size() >= kMaxThreads) return;
        MomentThread thread;
        thread.os_tid = static_cast<uint32_t>(status->pr_pid);
        user_regs_struct registers;
        static_assert(sizeof(registers) == sizeof(status->pr_reg));
        memcpy(&registers, &status->pr_reg, sizeof(registers));
        TakeRegisters(registers, &thread);
        if (moment_.threads.empty() && status->pr_cursig != 0) {
          moment_.signal.emplace();
          moment_.signal->number = status->pr_cursig;
        }
        moment_.threads.push_back(std::move(thread));
        return;
      }
      case NT_FPREGSET:
      case NT_X86_XSTATE:
        if (last != nullptr) TakeVectors(data, last);
        return;
      case NT_PRPSINFO: {
        const auto info = Take<elf_prpsinfo>(data, 0);
        if (!info) return;
        moment_.pid = static_cast<uint32_t>(info->pr_pid);
        name_in_kernel_ = TextOf(info->pr_fname, sizeof(info->pr_fname));
        const std::string line = TextOf(info->pr_psargs, sizeof(info->pr_psargs));
        for (size_t at = 0; at < line.size();) {
          const size_t end = std::min(line.find(' ', at), line.size());
          if (end > at) moment_.arguments.push_back(line.substr(at, end - at));
          at = end + 1;
        }
        return;
      }
      case NT_SIGINFO: {
        const auto info = Take<siginfo_t>(data, 0);
        // One for each thread; the first is of the one that got it.
        if (!info || has_siginfo_) return;
        has_siginfo_ = true;
        if (!moment_.signal || info->si_signo == 0) return;
        moment_.signal->number = info->si_signo;
        moment_.signal->code = info->si_code;
        // A fault's address, or who sent it.
        moment_.signal->address = info->si_code > 0 ? reinterpret_cast<uint64_t>(info->si_addr)
                                                    : static_cast<uint32_t>(info->si_pid);
        return;
      }
      case NT_AUXV:
        for (uint64_t at = 0; const auto entry = Take<Elf64_auxv_t>(data, at);
             at += sizeof(Elf64_auxv_t)) {
          if (entry->a_type == AT_SYSINFO_EHDR) core_.vdso_ = entry->a_un.a_val;
          if (entry->a_type == AT_PHDR) program_headers_ = entry->a_un.a_val;
        }
        return;
      case NT_FILE:
        Files(data);
        return;
      case kTtqRemark:
        moment_.incomplete = std::string(data.substr(0, kMaxRemark));
        return;
      default:
        return;
    }
  }

  // binfmt_elf.c, fill_files_note: count, page size, that many of begin, end, offset in pages, then
  // as many paths.
  void Files(std::string_view data) {
    const auto count = Take<uint64_t>(data, 0), page = Take<uint64_t>(data, 8);
    if (!count || !page || *page == 0 || *page > 1 << 20 || *count > data.size() / 24) return;
    uint64_t text = 16 + *count * 24;
    for (uint64_t i = 0; i < *count && text < data.size(); ++i) {
      const auto begin = Take<uint64_t>(data, 16 + i * 24), end = Take<uint64_t>(data, 24 + i * 24),
                 offset = Take<uint64_t>(data, 32 + i * 24);
      const std::string path = TextOf(data.data() + text, data.size() - text);
      text += path.size() + 1;
      if (!begin || !end || !offset || *begin >= *end || *end > kUserEnd) continue;
      files_.push_back({*begin, *end, *offset * *page, path});
    }
    std::stable_sort(files_.begin(), files_.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }

  // A piece of one mapping, all of one file or of none.
  void AddMapping(uint64_t begin, uint64_t end, uint8_t protection, uint64_t known_end,
                  const FileMapping* file) {
    MomentMapping m;
    m.begin = begin;
    m.end = end;
    m.protection = protection;
    m.known_end = std::clamp(known_end, begin, end);
    if (file != nullptr) {
      m.kind = kTtqMapFile;
      m.path = file->path;
      m.file_offset = file->offset + (begin - file->begin);
    }
    if (begin == core_.vdso_ && file == nullptr) {
      m.kind = kTtqMapFile;
      m.path = "[vdso]";
    }
    for (const MomentThread& thread : moment_.threads) {
      const uint64_t rsp = thread.registers.reg[kRsp];
      const bool is_main = thread.os_tid == moment_.pid;
      if (file == nullptr && is_main && begin <= rsp && rsp < end) m.kind = kTtqMapStack;
    }
    moment_.mappings.push_back(std::move(m));
  }

  // Splits [begin, end) where what is mapped there changes.
  void AddPieces(uint64_t begin, uint64_t end, uint8_t protection, uint64_t known_end) {
    while (begin < end) {
      auto it = std::upper_bound(files_.begin(), files_.end(), begin,
                                 [](uint64_t at, const FileMapping& f) { return at < f.begin; });
      const FileMapping* file = it != files_.begin() ? &*std::prev(it) : nullptr;
      if (file != nullptr && file->end <= begin) file = nullptr;
      uint64_t stop = file != nullptr ? std::min(end, file->end) : end;
      if (file == nullptr && it != files_.end()) stop = std::min(stop, it->begin);
      AddMapping(begin, stop, protection, known_end, file);
      begin = stop;
    }
  }

  void Mappings() {
    std::vector<Elf64_Phdr> loads;
    for (const Elf64_Phdr& p : headers_) {
      const bool fits = p.p_vaddr % kPageBytes == 0 && p.p_memsz > 0 && p.p_vaddr < kUserEnd &&
                        p.p_memsz <= kUserEnd - p.p_vaddr;
      if (p.p_type == PT_LOAD && fits) loads.push_back(p);
    }
    std::stable_sort(loads.begin(), loads.end(),
                     [](const auto& a, const auto& b) { return a.p_vaddr < b.p_vaddr; });
    uint64_t done = 0;
    for (const Elf64_Phdr& p : loads) {
      const uint64_t begin = p.p_vaddr,
                     end = (begin + p.p_memsz + kPageBytes - 1) & ~(kPageBytes - 1);
      if (begin < done) {  // no kernel writes that
        if (moment_.remarks.empty()) {
          moment_.remarks.push_back("of mappings that overlap, the first is taken");
        }
        continue;
      }
      OnlyFiles(done, begin);
      const uint64_t in_file = p.p_offset > bytes_.size()
                                   ? 0
                                   : std::min({p.p_filesz, p.p_memsz, bytes_.size() - p.p_offset});
      const uint8_t protection = static_cast<uint8_t>(
          (p.p_flags & PF_R ? 1 : 0) | (p.p_flags & PF_W ? 2 : 0) | (p.p_flags & PF_X ? 4 : 0));
      if (in_file > 0) core_.segments_.push_back({begin, begin + in_file, p.p_offset});
      const size_t first = moment_.mappings.size();
      AddPieces(begin, end, protection, begin + (in_file & ~(kPageBytes - 1)));
      if (in_file < std::min(p.p_filesz, p.p_memsz)) {
        for (size_t i = first; i < moment_.mappings.size(); ++i) {
          cut_[moment_.mappings[i].begin] = begin + std::min(p.p_filesz, p.p_memsz);
        }
      }
      done = end;
    }
    OnlyFiles(done, kUserEnd);
  }

  // What only the list of files tells of, between two mappings. Without a header nothing says what
  // may be done there but that a program is read.
  void OnlyFiles(uint64_t begin, uint64_t end) {
    for (const FileMapping& file : files_) {
      const uint64_t from = std::max(begin, file.begin), to = std::min(end, file.end);
      const uint64_t last = moment_.mappings.empty() ? 0 : moment_.mappings.back().end;
      if (from < to && from >= last) AddMapping(from, to, 1 | 4, from, &file);
    }
  }

  // What a file has tells of a mapping only where the process cannot have changed it: of what was
  // to be in the dump and is cut off, and, where memory of the process's own was not dumped, of all
  // but code, nobody knows. Those parts become mappings whose bytes nothing has.
  void LoseUnknown() {
    const uint64_t rsp = moment_.threads.front().registers.reg[kRsp];
    bool own_is_dumped = false;
    for (const MomentMapping& m : moment_.mappings) {
      own_is_dumped = own_is_dumped || (m.begin <= rsp && rsp < m.known_end);
    }
    std::vector<MomentMapping> pieces;
    for (MomentMapping& m : moment_.mappings) {
      uint64_t lost_end = m.known_end;
      const auto cut = cut_.find(m.begin);
      if (cut != cut_.end()) lost_end = std::max(lost_end, std::min(m.end, cut->second));
      const bool is_code = (m.protection & 6) == 4;
      if (!own_is_dumped && !is_code) lost_end = m.end;
      if (m.kind != kTtqMapFile || lost_end == m.known_end) {
        pieces.push_back(std::move(m));
        continue;
      }
      const auto add = [&](uint64_t begin, uint64_t end, bool of_file) {
        if (begin >= end) return;
        pieces.push_back(m);
        MomentMapping& piece = pieces.back();
        piece.file_offset = m.file_offset + (begin - m.begin);
        piece.begin = begin;
        piece.end = end;
        piece.known_end = std::clamp(m.known_end, begin, end);
        if (!of_file) piece.kind = kTtqMapAnonymous;
      };
      add(m.begin, m.known_end, true);
      add(m.known_end, lost_end, false);
      add(lost_end, m.end, true);
    }
    moment_.mappings = std::move(pieces);
  }

  void Names() {
    for (const FileMapping& file : files_) {
      if (file.begin <= program_headers_ && program_headers_ < file.end) {
        moment_.program = file.path;
        break;
      }
    }
    if (moment_.program.empty()) moment_.program = name_in_kernel_;
    if (moment_.arguments.empty()) moment_.arguments.push_back(moment_.program);
    if (moment_.pid == 0) moment_.pid = moment_.threads.front().os_tid;
  }

  CoreFile& core_;
  ProcessMoment& moment_;
  const std::string_view bytes_;
  const std::string& name_;
  std::vector<Elf64_Phdr> headers_;
  std::vector<FileMapping> files_;
  std::string name_in_kernel_;
  std::map<uint64_t, uint64_t> cut_;  // by a mapping's begin: where what was dumped ended
  uint64_t program_headers_ = 0, cut_by_ = 0;
  bool has_siginfo_ = false;
};

absl::StatusOr<std::unique_ptr<CoreFile>> CoreFile::Parse(FileImage image, const std::string& name,
                                                          const std::string& packing) {
  std::unique_ptr<CoreFile> core(new CoreFile);
  core->image_ = std::move(image);
  const absl::Span<const uint8_t> bytes = core->image_.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  RETURN_IF_ERROR(Reader(core.get(), text, name).Run(packing));
  core->moment_.beginning = Beginning::kCore;
  return core;
}

uint64_t CoreFile::Read(uint64_t address, uint64_t size, void* out) const {
  uint64_t done = 0;
  while (done < size) {
    const uint64_t at = address + done;
    auto it = std::upper_bound(segments_.begin(), segments_.end(), at,
                               [](uint64_t a, const Segment& s) { return a < s.begin; });
    if (it == segments_.begin() || std::prev(it)->end <= at) break;
    --it;
    const uint64_t n = std::min(size - done, it->end - at);
    memcpy(static_cast<char*>(out) + done, image_.bytes().data() + it->offset + (at - it->begin),
           n);
    done += n;
  }
  return done;
}

}  // namespace ttq
