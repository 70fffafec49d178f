// SPDX-License-Identifier: MIT
//
// See files.h. The operations are described in gdb's manual, "Host I/O Packets".

#include "gdb/files.h"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/status_macros.h"
#include "base/types.h"
#include "fmt/core.h"
#include "gdb/packet.h"
#include "store/read/moment_info.h"

namespace ttq::gdb {
namespace {

constexpr size_t kMaxOpen = 4096;
constexpr size_t kMaxLinked = 10000;
constexpr size_t kMaxText = 4096;
constexpr size_t kMaxAuxiliaryVector = 1 << 10;

// The protocol's own numbers.
enum FileError { kNoEntry = 2, kBadFile = 9, kInvalid = 22, kTooMany = 24, kReadOnlyFiles = 30 };

std::string Failed(FileError error) { return fmt::format("F-1,{:x}", static_cast<int>(error)); }

void AppendBigEndian(uint64_t n, int bytes, std::string* out) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(n >> (8 * i)));
}

// The canonical path of a file of this machine; empty when there is none.
std::string Canonical(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> resolved(realpath(path.c_str(), nullptr), free);
  return resolved ? resolved.get() : "";
}

}  // namespace

std::string Files::Answer(std::string_view request) {
  Fields fields(request);
  const std::string_view operation = fields.Until(':');
  const std::string_view arguments = fields.rest();
  if (operation == "setfs") return "F0";
  if (operation == "open") return Open(arguments);
  if (operation == "pread") return Pread(arguments);
  if (operation == "fstat") return Fstat(arguments);
  if (operation == "close") return Close(arguments);
  if (operation == "readlink") return ReadLink(arguments);
  if (operation == "pwrite" || operation == "unlink") return Failed(kReadOnlyFiles);
  return "";
}

std::string Files::Open(std::string_view arguments) {
  Fields fields(arguments);
  const std::optional<std::string> path = FromHex(fields.Until(','));
  const uint64_t flags = fields.Hex();
  if (!path || !fields.ok()) return Failed(kInvalid);
  if ((flags & 3) != 0) return Failed(kReadOnlyFiles);
  if (open_.size() >= kMaxOpen) return Failed(kTooMany);
  FileImage image;
  if (std::optional<std::string> text = InProc(*path)) {
    image = FileImage::FromString(*std::move(text));
  } else {
    absl::StatusOr<FileImage> contents = Contents(*path);
    if (!contents.ok()) return Failed(kNoEntry);
    image = *std::move(contents);
  }
  while (open_.contains(next_)) ++next_;
  open_[next_] = std::move(image);
  return "F" + HexNumber(next_++);
}

absl::StatusOr<FileImage> Files::Contents(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<LoadedModule> modules, process_.Modules());
  const Time now = timeline_.now().time;
  const auto find = [&](const auto& matches) -> const LoadedModule* {
    const LoadedModule* found = nullptr;
    for (const LoadedModule& module : modules) {
      if (module.file_id == 0 || !matches(module)) continue;
      const bool is_here = module.loaded <= now && now < module.unloaded;
      if (found == nullptr || is_here) found = &module;
    }
    return found;
  };
  const LoadedModule* module = find([&](const LoadedModule& m) { return m.path == path; });
  // The linker knows a library by the name that it looked for, a link perhaps.
  if (module == nullptr) {
    for (const Linked& linked : LinkMaps()) {
      if (linked.name != path) continue;
      module = find([&](const LoadedModule& m) { return m.load_bias == linked.load_bias; });
      break;
    }
  }
  if (module == nullptr) {
    if (const std::string canonical = Canonical(path); !canonical.empty()) {
      module = find([&](const LoadedModule& m) { return m.path == canonical; });
    }
  }
  if (module == nullptr) return absl::NotFoundError("the recording has no such file");
  return recording_.FileContents(module->file_id);
}

std::string Files::Pread(std::string_view arguments) {
  Fields fields(arguments);
  const uint64_t fd = fields.Hex();
  fields.Expect(",");
  const uint64_t count = fields.Hex();
  fields.Expect(",");
  const uint64_t offset = fields.Hex();
  if (!fields.ok()) return Failed(kInvalid);
  const auto file = open_.find(static_cast<uint32_t>(fd));
  if (file == open_.end() || fd > UINT32_MAX) return Failed(kBadFile);
  const auto bytes = file->second.bytes();
  if (offset >= bytes.size()) return "F0;";
  // Each byte may take two.
  const uint64_t n = std::min<uint64_t>({count, bytes.size() - offset, (kMaxPacket - 32) / 2});
  return "F" + HexNumber(n) + ";" +
         Escaped({reinterpret_cast<const char*>(bytes.data()) + offset, n});
}

std::string Files::Fstat(std::string_view arguments) {
  Fields fields(arguments);
  const uint64_t fd = fields.Hex();
  const auto file = open_.find(static_cast<uint32_t>(fd));
  if (!fields.ok() || fd > UINT32_MAX || file == open_.end()) return Failed(kBadFile);
  const uint64_t size = file->second.bytes().size();
  std::string stat;
  AppendBigEndian(0, 4, &stat);                              // device
  AppendBigEndian(fd, 4, &stat);                             // inode
  AppendBigEndian(S_IFREG | 0444, 4, &stat);                 // mode
  AppendBigEndian(1, 4, &stat);                              // links
  for (int i = 0; i < 3; ++i) AppendBigEndian(0, 4, &stat);  // uid, gid, rdev
  AppendBigEndian(size, 8, &stat);
  AppendBigEndian(4096, 8, &stat);  // size of a block
  AppendBigEndian((size + 511) / 512, 8, &stat);
  for (int i = 0; i < 3; ++i) AppendBigEndian(0, 4, &stat);  // times
  return "F" + HexNumber(stat.size()) + ";" + Escaped(stat);
}

std::string Files::Close(std::string_view arguments) {
  Fields fields(arguments);
  const uint64_t fd = fields.Hex();
  if (!fields.ok() || fd > UINT32_MAX || open_.erase(static_cast<uint32_t>(fd)) == 0) {
    return Failed(kBadFile);
  }
  return "F0";
}

std::string Files::ReadLink(std::string_view arguments) {
  const std::optional<std::string> path = FromHex(arguments);
  if (!path) return Failed(kInvalid);
  const std::string base = fmt::format("/proc/{}/", process_.info().pid);
  std::string target;
  if (*path == base + "exe") target = Program();
  if (*path == base + "cwd") target = process_.info().working_directory;
  if (target.empty()) return Failed(kNoEntry);
  return "F" + HexNumber(target.size()) + ";" + Escaped(target);
}

// ---- /proc --------------------------------------------------------------------------------------

std::optional<std::string> Files::InProc(const std::string& path) {
  const std::string base = fmt::format("/proc/{}/", process_.info().pid);
  if (path.compare(0, base.size(), base) != 0) return std::nullopt;
  std::string name = path.substr(base.size());
  if (name.compare(0, 5, "task/") == 0) {
    const size_t slash = name.find('/', 5);
    if (slash == std::string::npos) return std::nullopt;
    name = name.substr(slash + 1);
  }
  if (name == "maps") return Maps();
  if (name == "cmdline") {
    std::string text;
    for (const std::string& argument : process_.info().arguments) text += argument + '\0';
    return text;
  }
  return std::nullopt;
}

std::string Files::Maps() {
  absl::StatusOr<std::vector<Mapping>> mappings = process_.MappingsAt(timeline_.now().time);
  if (!mappings.ok()) return "";
  std::string text;
  for (const Mapping& m : *mappings) {
    text += fmt::format("{:08x}-{:08x} {}{}{}{} {:08x} 00:00 {} {}\n", m.range.begin.v,
                        m.range.end.v, m.protection & 1 ? 'r' : '-', m.protection & 2 ? 'w' : '-',
                        m.protection & 4 ? 'x' : '-', m.shared ? 's' : 'p', m.file_offset,
                        m.path.empty() || m.path[0] == '[' ? 0 : 1, m.path);
  }
  return text;
}

// ---- What the kernel and the dynamic linker left in memory --------------------------------------

std::optional<uint64_t> Files::Number(uint64_t address) {
  uint64_t n = 0;
  const absl::StatusOr<uint64_t> got = timeline_.Read(Address(address), sizeof(n), &n);
  return got.ok() && *got == sizeof(n) ? std::optional(n) : std::nullopt;
}

std::string Files::Text(uint64_t address) {
  std::string text(kMaxText, '\0');
  const absl::StatusOr<uint64_t> got = timeline_.Read(Address(address), text.size(), text.data());
  text.resize(got.ok() ? *got : 0);
  const size_t end = text.find('\0');
  return end == std::string::npos ? "" : text.substr(0, end);
}

const std::string& Files::AuxiliaryVector() {
  if (auxiliary_vector_) return *auxiliary_vector_;
  auxiliary_vector_.emplace();
  if (HistoryUnknown(process_)) return *auxiliary_vector_ = SearchAuxiliaryVector();
  // Of a forked process it lies where it lay in the program that forked.
  const Process* process = &process_;
  while (process->info().parent.v != 0 && !process->info().by_exec) {
    const absl::StatusOr<const Process*> parent = recording_.Open(process->info().parent);
    if (!parent.ok()) return *auxiliary_vector_;
    process = *parent;
  }
  const absl::StatusOr<Registers> registers = process->RegistersAt(Time(0), std::nullopt);
  const absl::StatusOr<std::unique_ptr<Moment>> moment = process->At(Time(0));
  if (!registers.ok() || !moment.ok()) return *auxiliary_vector_;
  const auto number = [&](uint64_t at) {
    absl::StatusOr<std::optional<uint64_t>> n = (*moment)->ReadNumber(Address(at), 8);
    return n.ok() ? *n : std::nullopt;
  };
  // argc, the arguments, 0, the environment, 0.
  uint64_t at = registers->gpr[kRsp];
  const std::optional<uint64_t> count = number(at);
  if (!count || *count > 1 << 20) return *auxiliary_vector_;
  at += 8 * (*count + 2);
  std::optional<uint64_t> word;
  do {
    word = number(at);
    at += 8;
  } while (word && *word != 0);
  std::string vector;
  while (word && vector.size() < 16 * kMaxAuxiliaryVector) {
    const std::optional<uint64_t> type = number(at), value = number(at + 8);
    if (!type || !value) return *auxiliary_vector_;
    for (const uint64_t n : {*type, *value}) {
      char bytes[8];
      memcpy(bytes, &n, sizeof(bytes));
      vector.append(bytes, sizeof(bytes));
    }
    at += 16;
    if (*type == AT_NULL) {
      auxiliary_vector_ = std::move(vector);
      break;
    }
  }
  return *auxiliary_vector_;
}

// Where nobody knows where the program began: near the end of the first thread's stack, known by
// the size of a page in it.
std::string Files::SearchAuxiliaryVector() {
  constexpr uint64_t kSearched = 256 << 10, kMaxType = 64;
  const absl::StatusOr<std::vector<Mapping>> mappings = process_.MappingsAt(Time(0));
  if (!mappings.ok()) return "";
  for (const Mapping& m : *mappings) {
    if (m.path != "[stack]") continue;
    const uint64_t size = m.range.end.v - m.range.begin.v,
                   begin = m.range.end.v - std::min(size, kSearched);
    std::vector<uint64_t> words((m.range.end.v - begin) / 8);
    const absl::StatusOr<uint64_t> got =
        timeline_.Read(Address(begin), words.size() * 8, words.data());
    if (!got.ok() || *got != words.size() * 8) continue;
    for (size_t at = words.size(); at-- > 1;) {
      if (words[at] != kPageBytes || words[at - 1] != AT_PAGESZ) continue;
      size_t first = at - 1, last = at - 1;
      while (first >= 2 && words[first - 2] > 0 && words[first - 2] < kMaxType) first -= 2;
      while (last + 2 < words.size() && words[last] != AT_NULL) last += 2;
      const size_t bytes = (last + 2 - first) * 8;
      if (words[last] != AT_NULL || bytes > 16 * kMaxAuxiliaryVector) continue;
      return {reinterpret_cast<const char*>(words.data() + first), bytes};
    }
  }
  return "";
}

std::optional<uint64_t> Files::FromAuxiliaryVector(uint64_t type) {
  const std::string& vector = AuxiliaryVector();
  for (size_t i = 0; i + 16 <= vector.size(); i += 16) {
    uint64_t pair[2];
    memcpy(pair, vector.data() + i, sizeof(pair));
    if (pair[0] == type) return pair[1];
  }
  return std::nullopt;
}

std::string Files::Program() {
  const std::optional<uint64_t> entry = FromAuxiliaryVector(AT_ENTRY);
  const absl::StatusOr<std::vector<LoadedModule>> modules = process_.Modules();
  if (!entry || !modules.ok()) return "";
  for (const LoadedModule& module : *modules) {
    if (module.range.Contains(Address(*entry))) return module.path;
  }
  return "";
}

std::vector<Files::Linked> Files::LinkMaps() {
  std::vector<Linked> found;
  const std::optional<uint64_t> headers = FromAuxiliaryVector(AT_PHDR);
  const std::optional<uint64_t> count = FromAuxiliaryVector(AT_PHNUM);
  if (!headers || !count) return found;
  uint64_t dynamic = 0, bias = 0;
  for (uint64_t i = 0; i < std::min<uint64_t>(*count, 100); ++i) {
    Elf64_Phdr header;
    const uint64_t at = *headers + i * sizeof(header);
    const absl::StatusOr<uint64_t> got = timeline_.Read(Address(at), sizeof(header), &header);
    if (!got.ok() || *got != sizeof(header)) return found;
    if (header.p_type == PT_PHDR) bias = *headers - header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = header.p_vaddr;
  }
  if (dynamic == 0) return found;
  uint64_t debug = 0;
  for (uint64_t at = dynamic + bias; debug == 0; at += sizeof(Elf64_Dyn)) {
    const std::optional<uint64_t> tag = Number(at), value = Number(at + 8);
    if (!tag || !value || *tag == DT_NULL) return found;
    if (*tag == DT_DEBUG) debug = *value;
  }
  // struct r_debug and struct link_map of <link.h>.
  std::optional<uint64_t> map = Number(debug + 8);
  while (map && *map != 0 && found.size() < kMaxLinked) {
    const std::optional<uint64_t> load_bias = Number(*map), name = Number(*map + 8);
    if (!load_bias || !name) break;
    found.push_back({Address(*map), *load_bias, Text(*name)});
    map = Number(*map + 24);
  }
  return found;
}

std::optional<Address> Files::ThreadLocalBlock(Address link_map, uint64_t fs_base) {
  // glibc says for debuggers where in a link_map the module's number is (nptl_db/db_info.c): three
  // words of 32 bits, the last of which is the offset. The vector of blocks, dtv, is at the same
  // place in each version: the ABI has a pointer to it behind the thread pointer, and 16 bytes for
  // each module.
  const absl::StatusOr<std::optional<VariableInfo>> field =
      names_.FindGlobal({}, "_thread_db_link_map_l_tls_modid");
  if (!field.ok() || !*field) return std::nullopt;
  const std::optional<uint64_t> offset = Number((*field)->address.v + 8);
  if (!offset) return std::nullopt;
  const std::optional<uint64_t> module = Number(link_map.v + (*offset & 0xffffffff));
  const std::optional<uint64_t> dtv = Number(fs_base + 8);
  if (!module || *module == 0 || *module > 1 << 20 || !dtv) return std::nullopt;
  const std::optional<uint64_t> modules = Number(*dtv - 16);
  if (!modules || *modules < *module) return std::nullopt;
  const std::optional<uint64_t> block = Number(*dtv + 16 * *module);
  // -1: not allocated.
  if (!block || *block == ~uint64_t{0} || *block == 0) return std::nullopt;
  return Address(*block);
}

}  // namespace ttq::gdb
