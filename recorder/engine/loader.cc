// SPDX-License-Identifier: MIT

#include "recorder/engine/loader.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "recorder/engine/context.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/syscalls.h"

namespace ttq::engine {
namespace {

constexpr uint64_t kBreakBegin = 0x100000000;
constexpr size_t kLongestPath = 4096;

[[noreturn]] void CannotLoad(const char* path, const char* why) {
  Refuse(Text() << path << ": " << why);
}

struct Image {
  uint64_t bias = 0, entry = 0, headers = 0, header_count = 0;
  char interpreter[4096] = {};
  bool executable_stack = false;
};

uint32_t ProtectionOf(const Elf64_Phdr& p) {
  return (p.p_flags & PF_R ? PROT_READ : 0u) | (p.p_flags & PF_W ? PROT_WRITE : 0u) |
         (p.p_flags & PF_X ? PROT_EXEC : 0u);
}

memory::FileInfo LookAt(uint64_t fd) {
  memory::FileInfo info;
  // As it is, not as the program names it.
  auto* path = AllocateArray<char>(kLongestPath);
  Text link;
  link << "/proc/self/fd/" << fd;
  Syscall(SYS_readlink, Number(link.c_str()), Number(path), kLongestPath - 1);
  info.path = path;
  info.is_elf = true;
  struct stat st;
  if (!Failed(Syscall(SYS_fstat, fd, Number(&st)))) {
    info.dev = st.st_dev;
    info.ino = st.st_ino;
    info.bytes = static_cast<uint64_t>(st.st_size);
    info.mtime_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec;
  }
  return info;
}

void MapFixed(uint64_t begin, uint64_t bytes, uint32_t protection, int flags, uint64_t fd,
              uint64_t offset, const char* path) {
  const int64_t r =
      Syscall(SYS_mmap, begin, bytes, protection,
              static_cast<uint64_t>(MAP_PRIVATE | MAP_FIXED_NOREPLACE | flags), fd, offset);
  if (static_cast<uint64_t>(r) != begin) CannotLoad(path, "its place in memory is taken");
}

// Maps a segment and tells of it.
void MapSegment(const Elf64_Phdr& p, uint64_t bias, uint64_t fd, const memory::FileInfo& info) {
  const uint32_t protection = ProtectionOf(p);
  const uint64_t begin = PageDown(p.p_vaddr + bias), file_end = p.p_vaddr + bias + p.p_filesz;
  const uint64_t end = PageUp(p.p_vaddr + bias + p.p_memsz);
  const uint64_t mapped_end = p.p_filesz != 0 ? PageUp(file_end) : begin;
  memory::Mapping m;
  m.protection = protection;
  if (p.p_filesz != 0) {
    m.begin = begin;
    m.end = mapped_end;
    m.is_file = m.is_elf = true;
    m.offset = PageDown(p.p_offset);
    MapFixed(begin, mapped_end - begin, protection, 0, fd, m.offset, info.path);
    memory::Map(m, kTtqMapFile, kTtqContentFile, info);
    if (p.p_memsz > p.p_filesz && protection & PROT_WRITE && file_end < mapped_end) {
      uint8_t last;
      if (ReadGuest(file_end - 1, &last, 1) != 1) {
        CannotLoad(info.path, "a segment goes on behind the end of the file");
      }
      memset(reinterpret_cast<void*>(file_end), 0, mapped_end - file_end);
      memory::Send(kTtqInitial, PageDown(file_end), kPage);
    }
  }
  if (end > mapped_end) {
    m = {};
    m.begin = mapped_end;
    m.end = end;
    m.protection = protection;
    MapFixed(mapped_end, end - mapped_end, protection, MAP_ANONYMOUS, ~uint64_t{0}, 0, info.path);
    memory::Map(m, kTtqMapStartup, kTtqContentZero, {});
  }
}

void LoadElf(const char* path, Image* image) {
  constexpr uint64_t kMaxHeaders = 64;
  const int64_t opened = Syscall(SYS_open, Number(path), O_RDONLY | O_CLOEXEC);
  if (Failed(opened)) CannotLoad(path, "cannot be read");
  const auto fd = static_cast<uint64_t>(opened);
  Elf64_Ehdr head = {};
  static Elf64_Phdr headers[kMaxHeaders];
  if (Syscall(SYS_pread64, fd, Number(&head), sizeof(head), 0) != sizeof(head) ||
      memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_machine != EM_X86_64 ||
      (head.e_type != ET_EXEC && head.e_type != ET_DYN) || head.e_phentsize != sizeof(Elf64_Phdr) ||
      head.e_phnum > kMaxHeaders) {
    CannotLoad(path, "not a program for x86-64");
  }
  const uint64_t header_bytes = head.e_phnum * sizeof(Elf64_Phdr);
  if (Syscall(SYS_pread64, fd, Number(headers), header_bytes, head.e_phoff) !=
      static_cast<int64_t>(header_bytes)) {
    CannotLoad(path, "its headers are cut off");
  }
  uint64_t low = ~uint64_t{0}, high = 0;
  for (unsigned k = 0; k < head.e_phnum; ++k) {
    const Elf64_Phdr& p = headers[k];
    if (p.p_type == PT_LOAD && p.p_memsz != 0) {
      constexpr uint64_t kHighest = uint64_t{1} << 46;
      if (p.p_vaddr > kHighest || p.p_memsz > kHighest || p.p_filesz > p.p_memsz) {
        CannotLoad(path, "a segment lies nowhere");
      }
      if (p.p_vaddr < low) low = PageDown(p.p_vaddr);
      if (p.p_vaddr + p.p_memsz > high) high = PageUp(p.p_vaddr + p.p_memsz);
    } else if (p.p_type == PT_INTERP && p.p_filesz < sizeof(image->interpreter)) {
      Syscall(SYS_pread64, fd, Number(image->interpreter), p.p_filesz, p.p_offset);
    } else if (p.p_type == PT_GNU_STACK) {
      image->executable_stack = p.p_flags & PF_X;
    }
  }
  if (high == 0) CannotLoad(path, "it has no segments");
  if (head.e_type == ET_DYN) {
    const uint64_t place = memory::TakeModuleSpace(high - low);
    if (place == 0) CannotLoad(path, "it is too large");
    image->bias = place - low;
  } else if (low < kEngineEnd && high > kCodeBegin) {
    CannotLoad(path, "it lies where the native engine does");
  }
  const memory::FileInfo info = LookAt(fd);
  for (unsigned k = 0; k < head.e_phnum; ++k) {
    const Elf64_Phdr& p = headers[k];
    if (p.p_type != PT_LOAD || p.p_memsz == 0) continue;
    MapSegment(p, image->bias, fd, info);
    if (p.p_offset <= head.e_phoff && head.e_phoff < p.p_offset + p.p_filesz) {
      image->headers = head.e_phoff - p.p_offset + p.p_vaddr + image->bias;
    }
  }
  image->entry = head.e_entry + image->bias;
  image->header_count = head.e_phnum;
  Syscall(SYS_close, fd);
}

// ---- Scripts -----------------------------------------------------------------------------------

// When `path` is a script: its interpreter, and the arguments with the interpreter's before them.
const char* FollowScript(const char* path, char*** arguments) {
  static char lines[4][256];
  for (auto& line : lines) {
    const int64_t fd = Syscall(SYS_open, Number(path), O_RDONLY | O_CLOEXEC);
    if (Failed(fd)) return path;
    const int64_t n = Syscall(SYS_pread64, static_cast<uint64_t>(fd), Number(line), 255, 0);
    Syscall(SYS_close, static_cast<uint64_t>(fd));
    if (n < 3 || line[0] != '#' || line[1] != '!') return path;
    char* end = line;
    while (*end != 0 && *end != '\n') ++end;
    *end = 0;
    const auto blank = [](char c) { return c == ' ' || c == '\t'; };
    while (end > line && blank(end[-1])) *--end = 0;
    char* name = line + 2;
    while (blank(*name)) ++name;
    char* option = name;
    while (*option != 0 && !blank(*option)) ++option;
    while (blank(*option)) *option++ = 0;
    size_t count = 0;
    while ((*arguments)[count] != nullptr) ++count;
    auto** more = AllocateArray<char*>(count + 4);
    size_t used = 0;
    more[used++] = name;
    if (*option != 0) more[used++] = option;
    more[used++] = const_cast<char*>(path);
    for (size_t k = 1; k < count; ++k) more[used++] = (*arguments)[k];
    *arguments = more;
    path = name;
  }
  return path;
}

// ---- The stack ---------------------------------------------------------------------------------

class StackBuilder {
 public:
  explicit StackBuilder(uint64_t end) : at_(end - 16) {}
  uint64_t PushBytes(const void* from, size_t bytes) {
    at_ -= bytes;
    memcpy(reinterpret_cast<void*>(at_), from, bytes);
    return at_;
  }
  uint64_t PushString(const char* s) { return PushBytes(s, Length(s) + 1); }
  // Room for `count` words, so that the first is where a program's stack may begin.
  uint64_t* Words(size_t count) {
    at_ = (at_ - 8 * count) & ~uint64_t{15};
    return reinterpret_cast<uint64_t*>(at_);
  }

 private:
  uint64_t at_;
};

uint64_t MakeStack(const char* path, char** arguments, char** environment,
                   const uint64_t* auxiliary, const Image& image, uint64_t interpreter_base) {
  constexpr uint64_t kMin = 1 << 20, kMax = 256 << 20;
  uint64_t limit[2] = {};
  Syscall(SYS_prlimit64, 0, RLIMIT_STACK, 0, Number(limit));
  const uint64_t bytes = PageUp(limit[0] < kMin ? kMin : limit[0] > kMax ? kMax : limit[0]);
  const uint32_t protection =
      PROT_READ | PROT_WRITE | (image.executable_stack ? uint32_t{PROT_EXEC} : 0);
  // The kernel keeps other mappings away from one that may grow, so that an overflow is noticed; at
  // its limit from the start, it does not grow.
  const uint64_t grows = limit[0] <= kMax ? uint64_t{MAP_GROWSDOWN} : 0;
  const int64_t r =
      Syscall(SYS_mmap, 0, bytes, protection,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | grows, ~uint64_t{0}, 0);
  if (Failed(r)) CannotLoad(path, "no memory for its stack");
  const auto begin = static_cast<uint64_t>(r);
  StackBuilder stack(begin + bytes);
  size_t argument_count = 0, variable_count = 0, auxiliary_count = 0;
  while (arguments[argument_count] != nullptr) ++argument_count;
  while (environment[variable_count] != nullptr) ++variable_count;
  while (auxiliary[2 * auxiliary_count] != AT_NULL) ++auxiliary_count;
  const uint64_t executed = stack.PushString(path);
  auto* strings = AllocateArray<uint64_t>(argument_count + variable_count);
  for (size_t k = variable_count; k-- > 0;) {
    strings[argument_count + k] = stack.PushString(environment[k]);
  }
  for (size_t k = argument_count; k-- > 0;) strings[k] = stack.PushString(arguments[k]);
  const uint64_t platform = stack.PushString("x86_64");
  uint64_t random = 0;
  for (size_t k = 0; k < auxiliary_count; ++k) {
    if (auxiliary[2 * k] == AT_RANDOM) {
      random = stack.PushBytes(reinterpret_cast<const void*>(auxiliary[2 * k + 1]), 16);
    }
  }
  uint64_t* w = stack.Words(argument_count + variable_count + 2 * auxiliary_count + 6);
  const uint64_t sp = Number(w);
  *w++ = argument_count;
  for (size_t k = 0; k < argument_count; ++k) *w++ = strings[k];
  *w++ = 0;
  for (size_t k = 0; k < variable_count; ++k) *w++ = strings[argument_count + k];
  *w++ = 0;
  for (size_t k = 0; k < auxiliary_count; ++k) {
    const uint64_t type = auxiliary[2 * k];
    uint64_t value = auxiliary[2 * k + 1];
    constexpr uint64_t kRseqBytes = 27, kRseqAlignment = 28, kBaseRegisters = 2;
    // The vDSO reads memory that the kernel changes; rseq would restart the engine's code.
    if (type == AT_SYSINFO_EHDR || type == kRseqBytes || type == kRseqAlignment) continue;
    if (type == AT_PHDR) value = image.headers;
    if (type == AT_PHNUM) value = image.header_count;
    if (type == AT_BASE) value = interpreter_base;
    if (type == AT_ENTRY) value = image.entry;
    if (type == AT_EXECFN) value = executed;
    if (type == AT_PLATFORM) value = platform;
    if (type == AT_RANDOM) value = random;
    if (type == AT_HWCAP2) value &= ~kBaseRegisters;
    *w++ = type;
    *w++ = value;
  }
  *w++ = AT_NULL;
  *w++ = 0;
  memory::Mapping m;
  m.begin = begin;
  m.end = begin + bytes;
  m.protection = protection;
  memory::Map(m, kTtqMapStack, kTtqContentZero, {});
  memory::Send(kTtqInitial, PageDown(sp), begin + bytes - PageDown(sp), true);
  return sp;
}

}  // namespace

void LoadProgram(const char* path, char** arguments, char** environment,
                 const uint64_t* auxiliary) {
  const char* base = path;
  for (const char* c = path; *c != 0; ++c) {
    if (*c == '/') base = c + 1;
  }
  Syscall(SYS_prctl, PR_SET_NAME, Number(base));
  const char* file = FollowScript(path, &arguments);
  auto& real = syscalls::g_program.path;
  if (const int64_t fd = Syscall(SYS_open, Number(file), O_PATH | O_CLOEXEC); !Failed(fd)) {
    Text link;
    link << "/proc/self/fd/" << static_cast<uint64_t>(fd);
    Syscall(SYS_readlink, Number(link.c_str()), Number(real), sizeof(real) - 1);
    Syscall(SYS_close, static_cast<uint64_t>(fd));
  }
  static Image program, interpreter;
  LoadElf(real[0] != 0 ? real : file, &program);
  g_context.pc = program.entry;
  if (program.interpreter[0] != 0) {
    LoadElf(program.interpreter, &interpreter);
    g_context.pc = interpreter.entry;
  }
  syscalls::g_program.break_begin = kBreakBegin;
  g_context.r[kRsp] = MakeStack(path, arguments, environment, auxiliary, program, interpreter.bias);
  g_context.flags = 0x202;
}

}  // namespace ttq::engine
