// SPDX-License-Identifier: MIT

#include "query/cpython/runtime.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "query/code/elf_file.h"
#include "query/cpython/objects.h"

namespace ttq::python {
namespace {

constexpr std::string_view kCookie = "xdebugpy";  // at the head of _Py_DebugOffsets
constexpr size_t kMaxInterpreters = 1024, kMaxThreads = 1 << 16;

// ---- Symbols in memory -----------------------------------------------------------------------

// The tables that a module's dynamic section names, as addresses.
struct DynamicTables {
  uint64_t symbols = 0, strings = 0, gnu_hash = 0, hash = 0;
  uint64_t name = 0;  // DT_SONAME: an offset in `strings`
};

std::optional<DynamicTables> ReadDynamic(Memory& memory, const LoadedModule& module) {
  struct {
    uint8_t ident[16];
    uint16_t type, machine;
    uint32_t version;
    uint64_t entry, phoff, shoff;
    uint32_t flags;
    uint16_t ehsize, phentsize, phnum;
  } header;
  const uint64_t base = module.range.begin.v;
  if (!memory.Read(base, sizeof header, &header) || memcmp(header.ident, "\177ELF", 4) != 0 ||
      header.phentsize != 56 || header.phnum > 256) {
    return std::nullopt;
  }
  for (int i = 0; i < header.phnum; ++i) {
    struct {
      uint32_t type, flags;
      uint64_t offset, vaddr;
    } segment;
    if (!memory.Read(base + header.phoff + 56 * i, sizeof segment, &segment)) return std::nullopt;
    constexpr uint32_t kPtDynamic = 2;
    if (segment.type != kPtDynamic) continue;
    DynamicTables tables;
    constexpr int kMaxEntries = 512;
    for (int n = 0; n < kMaxEntries; ++n) {
      const uint64_t at = segment.vaddr + module.load_bias + 16 * n;
      const auto tag = memory.Get<uint64_t>(at), value = memory.Get<uint64_t>(at + 8);
      if (!tag || !value || *tag == 0) break;
      // The loader has added the bias to some of them already.
      const uint64_t address = *value < module.load_bias ? *value + module.load_bias : *value;
      constexpr uint64_t kHash = 4, kStrtab = 5, kSymtab = 6, kSoname = 14, kGnuHash = 0x6ffffef5;
      if (*tag == kHash) tables.hash = address;
      if (*tag == kStrtab) tables.strings = address;
      if (*tag == kSymtab) tables.symbols = address;
      if (*tag == kGnuHash) tables.gnu_hash = address;
      if (*tag == kSoname) tables.name = *value;
    }
    if (tables.symbols == 0 || tables.strings == 0) return std::nullopt;
    return tables;
  }
  return std::nullopt;
}

// The address of symbol `index` if it is called `name` and defined; else 0.
uint64_t SymbolIfNamed(Memory& memory, const DynamicTables& tables, const LoadedModule& module,
                       uint32_t index, std::string_view name) {
  struct {
    uint32_t name;
    uint8_t info, other;
    uint16_t section;
    uint64_t value, size;
  } symbol;
  if (!memory.Read(tables.symbols + 24 * uint64_t{index}, sizeof symbol, &symbol)) return 0;
  constexpr uint16_t kUndefined = 0, kAbsolute = 0xfff1;
  if (symbol.section == kUndefined || symbol.section == kAbsolute || symbol.value == 0) return 0;
  std::string found(name.size() + 1, '\1');
  if (!memory.Read(tables.strings + symbol.name, found.size(), found.data())) return 0;
  if (found.back() != '\0' || found.compare(0, name.size(), name) != 0) return 0;
  return symbol.value + module.load_bias;
}

uint64_t FindByGnuHash(Memory& memory, const DynamicTables& tables, const LoadedModule& module,
                       std::string_view name) {
  struct {
    uint32_t buckets, first, bloom_words, bloom_shift;
  } head;
  if (!memory.Read(tables.gnu_hash, sizeof head, &head) || head.buckets == 0) return 0;
  uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<uint8_t>(c);
  const uint64_t buckets = tables.gnu_hash + 16 + 8 * uint64_t{head.bloom_words};
  const uint64_t chain = buckets + 4 * uint64_t{head.buckets};
  const auto first = memory.Get<uint32_t>(buckets + 4 * uint64_t{hash % head.buckets});
  if (!first || *first < head.first) return 0;
  constexpr uint32_t kLongestChain = 10000;
  for (uint32_t i = 0; i < kLongestChain; ++i) {
    const uint32_t index = *first + i;
    const auto value = memory.Get<uint32_t>(chain + 4 * uint64_t{index - head.first});
    if (!value) return 0;
    if ((*value | 1) == (hash | 1)) {
      if (const uint64_t at = SymbolIfNamed(memory, tables, module, index, name)) return at;
    }
    if (*value & 1) return 0;
  }
  return 0;
}

uint64_t FindBySysvHash(Memory& memory, const DynamicTables& tables, const LoadedModule& module,
                        std::string_view name) {
  const auto buckets = memory.Get<uint32_t>(tables.hash);
  if (!buckets || *buckets == 0) return 0;
  uint32_t hash = 0;
  for (const char c : name) {
    hash = (hash << 4) + static_cast<uint8_t>(c);
    hash ^= (hash >> 24) & 0xf0;
    hash &= 0x0fffffff;
  }
  auto index = memory.Get<uint32_t>(tables.hash + 8 + 4 * uint64_t{hash % *buckets});
  constexpr int kLongestChain = 10000;
  for (int i = 0; index && *index != 0 && i < kLongestChain; ++i) {
    if (const uint64_t at = SymbolIfNamed(memory, tables, module, *index, name)) return at;
    index = memory.Get<uint32_t>(tables.hash + 8 + 4 * (uint64_t{*buckets} + *index));
  }
  return 0;
}

// ---- Versions --------------------------------------------------------------------------------

// 11 of "libpython3.11.so.1.0", "python3.11-dbg", "libpython3.11d.so"; nullopt without one.
std::optional<std::pair<int, int>> VersionInName(std::string_view name) {
  const size_t at = name.find("python");
  if (at == std::string_view::npos) return std::nullopt;
  int major = 0, minor = 0;
  size_t i = at + 6;
  while (i < name.size() && name[i] >= '0' && name[i] <= '9' && major < 100) {
    major = major * 10 + (name[i++] - '0');
  }
  if (major == 0 || i + 1 >= name.size() || name[i] != '.') return std::nullopt;
  const size_t digits = ++i;
  while (i < name.size() && name[i] >= '0' && name[i] <= '9' && minor < 1000) {
    minor = minor * 10 + (name[i++] - '0');
  }
  if (i == digits) return std::nullopt;
  return std::pair(major, minor);
}

// As PY_VERSION_HEX: 0x030b07f0 is 3.11.7, 0x030d00a2 is 3.13.0a2.
std::string VersionText(uint64_t hex) {
  std::string text = fmt::format("{}.{}.{}", hex >> 24 & 0xff, hex >> 16 & 0xff, hex >> 8 & 0xff);
  const uint64_t level = hex >> 4 & 0xf;
  if (level == 0xa) text += fmt::format("a{}", hex & 0xf);
  if (level == 0xb) text += fmt::format("b{}", hex & 0xf);
  if (level == 0xc) text += fmt::format("rc{}", hex & 0xf);
  return text;
}

void SetVersion(uint64_t hex, Runtime* runtime) {
  runtime->major = hex >> 24 & 0xff;
  runtime->minor = hex >> 16 & 0xff;
  runtime->version = VersionText(hex);
}

// The kernel's id of a thread state's thread; 0: not known.
uint64_t NativeIdOf(Memory& memory, const Layout& layout, uint64_t thread_state) {
  if (layout.thread_native_id != kAbsent) {
    return memory.Pointer(thread_state + layout.thread_native_id);
  }
  const uint64_t pthread = memory.Pointer(thread_state + layout.thread_pthread);
  // `tid` of glibc's struct pthread; the same in all its releases for x86-64.
  constexpr uint64_t kTidInPthread = 0x2d0;
  return pthread == 0 ? 0 : memory.Get<uint32_t>(pthread + kTidInPthread).value_or(0);
}

// The thread that has this kernel's id, of several the youngest; 0: none.
ThreadNo ThreadOf(const Process& process, uint64_t native_id) {
  ThreadNo number;
  for (const Thread& thread : process.threads()) {
    if (native_id != 0 && thread.os_tid == native_id) number = thread.number;
  }
  return number;
}

// The thread states of `interpreter` really are its own.
bool IsInterpreter(Memory& memory, const Layout& layout, uint64_t interpreter) {
  const uint64_t thread = memory.Pointer(interpreter + layout.interp_threads_head);
  return thread != 0 && memory.Pointer(thread + layout.thread_interp) == interpreter &&
         memory.Pointer(thread + layout.thread_prev) == 0;
}

// The interpreters of the list at `head`, the newest first.
std::vector<uint64_t> ListAt(Memory& memory, const Layout& layout, uint64_t head) {
  std::vector<uint64_t> interpreters;
  uint64_t at = memory.Pointer(head);
  while (at != 0 && interpreters.size() < kMaxInterpreters &&
         !absl::c_linear_search(interpreters, at)) {
    interpreters.push_back(at);
    at = memory.Pointer(at + layout.interp_next);
  }
  return interpreters;
}

// The same; empty where it does not lead to the first one, which the word after `head` names: there
// is no such list.
std::vector<uint64_t> WholeListAt(Memory& memory, const Layout& layout, uint64_t head) {
  std::vector<uint64_t> interpreters = ListAt(memory, layout, head);
  if (!absl::c_linear_search(interpreters, memory.Pointer(head + 8))) interpreters.clear();
  return interpreters;
}

// A build with other options may have more before the fields that the walk starts from. Moves those
// to where memory shows an interpreter whose thread states point back at it and belong to threads
// of the process. Not where the fields are seen to be in their place: an interpreter that is being
// made or taken apart has no thread state.
void FindShiftedOffsets(const Process& process, Memory& memory, uint64_t runtime, Layout* layout) {
  constexpr Offset kMaxShift = 512;
  constexpr Offset kMaxInterpreterShift = 8192;
  for (Offset shift = 0; shift <= kMaxShift; shift += 8) {
    const Offset head = layout->runtime_interpreters_head + shift;
    const std::vector<uint64_t> interpreters = WholeListAt(memory, *layout, runtime + head);
    for (const uint64_t interpreter : interpreters) {
      if (memory.Pointer(interpreter + layout->interp_threads_head) == 0) {
        return;
      }
      for (Offset inner = -64; inner <= kMaxInterpreterShift; inner += 8) {
        Layout shifted = *layout;
        shifted.interp_threads_head += inner;
        if (shifted.interp_threads_head < 0) continue;
        if (!IsInterpreter(memory, shifted, interpreter)) continue;
        const uint64_t thread = memory.Pointer(interpreter + shifted.interp_threads_head);
        if (ThreadOf(process, NativeIdOf(memory, shifted, thread)) == ThreadNo()) continue;
        shifted.runtime_interpreters_head = head;
        for (const auto field : {&Layout::runtime_main_thread, &Layout::runtime_tstate_current,
                                 &Layout::runtime_gil}) {
          if (shifted.*field != kAbsent) shifted.*field += shift;
        }
        *layout = shifted;
        return;
      }
    }
  }
}

// sys.hexversion, by a layout that may be wrong; 0: not there.
uint64_t SysHexVersion(const Process& process, Memory& memory, const Runtime& runtime) {
  if (!runtime.layout) return 0;
  const std::vector<Interpreter> interpreters = FindInterpreters(process, memory, runtime);
  if (interpreters.empty()) return 0;
  ObjectReader objects(&memory, *runtime.layout);
  const uint64_t sysdict =
      memory.Pointer(interpreters.back().address + runtime.layout->interp_sysdict);
  const std::optional<int64_t> hex = objects.Int(objects.DictGet(sysdict, "hexversion"));
  return hex && *hex >> 24 == 3 ? static_cast<uint64_t>(*hex) : 0;
}

// Everything about a runtime but where it is.
void Identify(const Process& process, Memory& memory, const LoadedModule& module,
              std::string_view soname, Runtime* runtime) {
  const auto described = ReadDebugOffsetsHead(memory, runtime->address);
  if (described) {
    SetVersion(described->version, runtime);
    runtime->free_threaded = described->free_threaded;
  } else if (const uint64_t constant = FindExported(memory, module, "Py_Version")) {
    if (const auto hex = memory.Get<uint64_t>(constant)) SetVersion(*hex, runtime);
  }
  if (runtime->major == 0) {
    for (const std::string_view name : {soname, BaseName(module.path)}) {
      const auto version = VersionInName(name);
      if (!version || runtime->major != 0) continue;
      runtime->major = version->first;
      runtime->minor = version->second;
      runtime->version = fmt::format("{}.{}", version->first, version->second);
    }
  }
  if (runtime->major == 0) {
    // Of those that say it nowhere else than in sys; there their layouts agree.
    for (int minor = kLastMinor; minor >= kFirstMinor; --minor) {
      runtime->layout = LayoutOf(minor, false);
      if (!runtime->layout->traits.version_in_sys_only) continue;
      const uint64_t hex = SysHexVersion(process, memory, *runtime);
      if (hex != 0) SetVersion(hex, runtime);
      if (runtime->major != 0) break;
    }
    runtime->layout.reset();
  }
  if (runtime->major == 0) {
    runtime->problem = "CPython of a version that it does not tell";
    return;
  }
  if (runtime->major == 3) runtime->layout = LayoutOf(runtime->minor, runtime->free_threaded);
  if (!runtime->layout) {
    runtime->problem = fmt::format(
        "CPython {}: its data structures are not known to this version of ttq, those of 3.{} to "
        "3.{} are",
        runtime->version, kFirstMinor, kLastMinor);
    return;
  }
  ApplyDebugOffsets(memory, runtime->address, &*runtime->layout);
  if (!described && !IsAlive(memory, *runtime)) {
    FindShiftedOffsets(process, memory, runtime->address, &*runtime->layout);
  }
  if (runtime->version.find('.', 2) == std::string::npos) {
    const uint64_t hex = SysHexVersion(process, memory, *runtime);
    if (hex != 0 && static_cast<int>(hex >> 16 & 0xff) == runtime->minor) SetVersion(hex, runtime);
  }
}

// `_PyRuntime` where the dynamic symbols do not name it: the section, the symbol table.
uint64_t FindInFile(const Recording& recording, const LoadedModule& module) {
  if (module.file_id == 0) return 0;
  absl::StatusOr<FileImage> contents = recording.FileContents(module.file_id);
  if (!contents.ok()) return 0;
  absl::StatusOr<ElfFile> elf = ElfFile::Parse(*std::move(contents));
  if (!elf.ok()) return 0;
  if (const ElfFile::Section* section = elf->FindSection(".PyRuntime")) {
    return section->address + module.load_bias;
  }
  for (const ElfFile::Symbol& symbol : elf->Symbols(/*dynamic=*/false)) {
    if (symbol.name == "_PyRuntime" && symbol.section != 0) {
      return symbol.address + module.load_bias;
    }
  }
  return 0;
}

// The cookie of _Py_DebugOffsets in the writable pages of a module.
uint64_t FindCookie(const Process& process, Memory& memory, const LoadedModule& module, Time t) {
  absl::StatusOr<std::vector<Mapping>> mappings = process.MappingsAt(t);
  if (!mappings.ok()) return 0;
  constexpr uint64_t kMaxBytes = 64 << 20;
  for (const Mapping& mapping : *mappings) {
    if (mapping.path != module.path || (mapping.protection & 2) == 0) continue;
    if (mapping.range.size() > kMaxBytes) continue;
    // Statically aligned to at least 8 bytes.
    constexpr uint64_t kPiece = 4096;
    for (uint64_t at = mapping.range.begin.v; at < mapping.range.end.v; at += kPiece) {
      char page[kPiece];
      if (!memory.Read(at, kPiece, page)) continue;
      for (uint64_t i = 0; i < kPiece; i += 8) {
        if (memcmp(page + i, kCookie.data(), kCookie.size()) == 0 &&
            ReadDebugOffsetsHead(memory, at + i)) {
          return at + i;
        }
      }
    }
  }
  return 0;
}

bool LooksLikePython(std::string_view path) {
  return BaseName(path).find("python") != std::string_view::npos;
}

// ---- At any time -----------------------------------------------------------------------------

// When to look for runtimes: for each module there ever was a time about half of its life, at the
// start of a block that is indexed, which costs least to reach, unless none is in it. Of many,
// those of the modules that lived longest.
std::vector<Time> TimesToLook(const Process& process, std::vector<LoadedModule> modules) {
  constexpr uint64_t kLoading = 1'000'000;  // instructions
  constexpr size_t kMaxTimes = 16;
  const auto last_of = [end = process.info().end](const LoadedModule& module) {
    return module.unloaded == kTimeMax ? end : std::max(module.loaded + 1, module.unloaded) - 1;
  };
  const auto life_of = [&](const LoadedModule& module) {
    return last_of(module).v - module.loaded.v;
  };
  std::stable_sort(
      modules.begin(), modules.end(),
      [&](const LoadedModule& a, const LoadedModule& b) { return life_of(a) > life_of(b); });
  const Time first = process.info().indexed.begin;
  const std::vector<Time> starts = process.BlockStarts();
  std::vector<Time> times;
  for (const LoadedModule& module : modules) {
    const Time half = std::max(first, module.loaded + life_of(module) / 2);
    const auto start = std::upper_bound(starts.begin(), starts.end(), half);
    const bool loaded = start != starts.begin() && *std::prev(start) >= module.loaded + kLoading;
    const Time t = loaded ? *std::prev(start) : last_of(module);
    if (times.size() < kMaxTimes && !absl::c_linear_search(times, t)) times.push_back(t);
  }
  return times;
}

// When an interpreter of `runtime` is there, where memory tells: halfway between the writes of the
// word that leads to them, of many writes between those furthest apart.
absl::StatusOr<std::vector<Time>> TimesOfInterpreters(const Process& process,
                                                      const Runtime& runtime) {
  constexpr size_t kMaxWrites = 10000, kMaxTimes = 16;
  const Address head(runtime.address + runtime.layout->runtime_interpreters_head);
  AccessQuery query;
  query.ranges = {{head, head + 8}};
  query.span = {Time(0), kTimeMax};
  ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Access>> writes,
                   process.Accesses(std::move(query), nullptr));
  std::vector<Time> times;
  while (times.size() < kMaxWrites) {
    ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
    if (!write) break;
    times.push_back(write->time + 1);
  }
  times.push_back(process.info().end);
  std::vector<TimeSpan> spans;
  for (size_t i = 0; i + 1 < times.size(); ++i) spans.push_back({times[i], times[i + 1]});
  absl::c_stable_sort(spans, [](const TimeSpan& a, const TimeSpan& b) {
    return a.end.v - a.begin.v > b.end.v - b.begin.v;
  });
  if (spans.size() > kMaxTimes) spans.resize(kMaxTimes);
  std::vector<Time> middles;
  for (const TimeSpan& span : spans) {
    middles.push_back(span.begin + (span.end.v - span.begin.v) / 2);
  }
  return middles;
}

// The runtimes of a process as several times show them.
class RuntimesSeen {
 public:
  RuntimesSeen(const Recording& recording, const Process& process)
      : recording_(recording), process_(process) {}

  absl::Status LookAt(const std::vector<Time>& times) {
    std::vector<absl::StatusOr<std::vector<Seen>>> seen(times.size());
    InParallel(times.size(), [&](size_t i) { seen[i] = Look(times[i]); });
    for (absl::StatusOr<std::vector<Seen>>& at_time : seen) {
      if (!at_time.ok()) return at_time.status();
      for (Seen& s : *at_time) Add(std::move(s));
    }
    return absl::OkStatus();
  }
  // Those whose interpreters no time showed yet.
  std::vector<Runtime> NotAlive() const {
    std::vector<Runtime> runtimes;
    for (const Seen& s : found_) {
      if (!s.alive) runtimes.push_back(s.runtime);
    }
    return runtimes;
  }
  bool empty() const { return found_.empty(); }
  // Those whose layout is known; where there is none, `problem` says of one why.
  std::vector<Runtime> Known(std::string* problem) && {
    std::vector<Runtime> runtimes;
    for (Seen& s : found_) {
      if (s.runtime.layout) {
        runtimes.push_back(std::move(s.runtime));
      } else {
        *problem = s.runtime.problem;
      }
    }
    return runtimes;
  }

 private:
  struct Seen {
    Runtime runtime;
    bool alive;
  };

  absl::StatusOr<std::vector<Seen>> Look(Time t) const {
    ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process_.At(t));
    MomentMemory memory(moment.get());
    ASSIGN_OR_RETURN(std::vector<Runtime> runtimes, FindRuntimes(&recording_, process_, memory, t));
    std::vector<Seen> out;
    for (Runtime& runtime : runtimes) {
      const bool alive = runtime.layout && IsAlive(memory, runtime);
      out.push_back({std::move(runtime), alive});
    }
    return out;
  }
  void Add(Seen seen) {
    const auto known = absl::c_find_if(
        found_, [&](const Seen& f) { return f.runtime.address == seen.runtime.address; });
    if (known == found_.end()) {
      found_.push_back(std::move(seen));
    } else if (seen.alive || (seen.runtime.layout && !known->runtime.layout)) {
      *known = std::move(seen);
    }
  }

  const Recording& recording_;
  const Process& process_;
  std::vector<Seen> found_;
};

}  // namespace

uint64_t FindExported(Memory& memory, const LoadedModule& module, std::string_view symbol) {
  const std::optional<DynamicTables> tables = ReadDynamic(memory, module);
  if (!tables) return 0;
  if (tables->gnu_hash != 0) return FindByGnuHash(memory, *tables, module, symbol);
  if (tables->hash != 0) return FindBySysvHash(memory, *tables, module, symbol);
  return 0;
}

bool MayHoldRuntime(absl::Span<const uint8_t> file) {
  const auto has = [file](std::string_view text) {
    return memmem(file.data(), file.size(), text.data(), text.size()) != nullptr;
  };
  // The symbol's name, in either table, the section's, or the cookie.
  return has("PyRuntime") || has(kCookie);
}

absl::StatusOr<std::vector<Runtime>> FindRuntimes(const Recording* recording,
                                                  const Process& process, Memory& memory, Time t) {
  ASSIGN_OR_RETURN(std::vector<LoadedModule> modules, process.Modules());
  std::erase_if(modules, [t](const LoadedModule& m) { return t < m.loaded || m.unloaded <= t; });
  std::vector<Runtime> runtimes;
  const auto add = [&](const LoadedModule& module, uint64_t address) {
    Runtime runtime;
    runtime.address = address;
    runtime.module = module.path;
    runtime.load_bias = module.load_bias;
    runtime.range = module.range;
    std::string soname;
    if (const std::optional<DynamicTables> tables = ReadDynamic(memory, module)) {
      if (tables->name != 0) soname = memory.CString(tables->strings + tables->name).value_or("");
    }
    Identify(process, memory, module, soname, &runtime);
    runtimes.push_back(std::move(runtime));
  };
  for (const LoadedModule& module : modules) {
    if (const uint64_t at = FindExported(memory, module, "_PyRuntime")) add(module, at);
  }
  if (!runtimes.empty()) return runtimes;
  for (const LoadedModule& module : modules) {
    uint64_t at = 0;
    const bool is_program = module.path == process.info().program;
    if (!is_program && !LooksLikePython(module.path)) continue;
    if (recording) at = FindInFile(*recording, module);
    if (at == 0) at = FindCookie(process, memory, module, t);
    if (at != 0) {
      add(module, at);
    } else if (FindExported(memory, module, "Py_GetVersion") != 0) {
      // Before 3.7 there is no _PyRuntime.
      Runtime runtime;
      runtime.module = module.path;
      const auto version = VersionInName(BaseName(module.path));
      runtime.version =
          version ? fmt::format("{}.{}", version->first, version->second) : "before 3.7";
      runtime.problem = fmt::format(
          "CPython {}: its data structures are not known to this version of ttq, those of 3.{} to "
          "3.{} are",
          runtime.version, kFirstMinor, kLastMinor);
      runtimes.push_back(std::move(runtime));
    }
  }
  return runtimes;
}

absl::StatusOr<std::vector<Runtime>> RuntimesEver(const Recording& recording,
                                                  const Process& process) {
  ASSIGN_OR_RETURN(std::vector<LoadedModule> modules, process.Modules());
  const Time end = process.info().end;
  RuntimesSeen seen(recording, process);
  RETURN_IF_ERROR(seen.LookAt(TimesToLook(process, std::move(modules))));
  // A program may have Python for a small part of its life, or begin it more than once.
  if (const std::vector<Runtime> missed = seen.NotAlive(); seen.empty() || !missed.empty()) {
    std::vector<Time> times = {end};
    for (const Runtime& runtime : missed) {
      if (!runtime.layout) continue;
      ASSIGN_OR_RETURN(const std::vector<Time> more, TimesOfInterpreters(process, runtime));
      times.insert(times.end(), more.begin(), more.end());
    }
    RETURN_IF_ERROR(seen.LookAt(times));
  }
  std::string problem;
  std::vector<Runtime> runtimes = std::move(seen).Known(&problem);
  if (runtimes.empty()) {
    return absl::NotFoundError(problem.empty() ? DescribeNoRuntime(process, end) : problem);
  }
  return runtimes;
}

std::string DescribeNoRuntime(const Process& process, Time t) {
  absl::StatusOr<std::vector<LoadedModule>> modules = process.Modules();
  if (modules.ok()) {
    for (const LoadedModule& module : *modules) {
      if (BaseName(module.path).find("pypy") != std::string_view::npos) {
        return "this process runs PyPy, whose data structures are not known";
      }
      if (!LooksLikePython(module.path)) continue;
      if (t < module.loaded) {
        return fmt::format("at time {} Python was not there yet: {} is loaded at {}", t.v,
                           BaseName(module.path), module.loaded.v);
      }
      if (module.unloaded <= t) {
        return fmt::format("at time {} Python was gone: {} is unloaded at {}", t.v,
                           BaseName(module.path), module.unloaded.v);
      }
    }
  }
  return "no module of this process is CPython";
}

std::vector<Interpreter> FindInterpreters(const Process& process, Memory& memory,
                                          const Runtime& runtime) {
  const Layout& layout = *runtime.layout;
  std::vector<Interpreter> interpreters;
  absl::flat_hash_set<uint64_t> seen;
  for (const uint64_t at :
       ListAt(memory, layout, runtime.address + layout.runtime_interpreters_head)) {
    Interpreter interpreter;
    interpreter.address = at;
    interpreter.id = memory.Get<int64_t>(at + layout.interp_id).value_or(-1);
    uint64_t state = memory.Pointer(at + layout.interp_threads_head);
    while (state != 0 && interpreter.threads.size() < kMaxThreads && seen.insert(state).second) {
      if (memory.Pointer(state + layout.thread_interp) != at) break;
      ThreadState thread;
      thread.address = state;
      thread.interpreter = at;
      thread.pthread = memory.Pointer(state + layout.thread_pthread);
      thread.native_id = NativeIdOf(memory, layout, state);
      thread.thread = ThreadOf(process, thread.native_id);
      interpreter.threads.push_back(thread);
      state = memory.Pointer(state + layout.thread_next);
    }
    interpreters.push_back(std::move(interpreter));
  }
  return interpreters;
}

bool IsAlive(Memory& memory, const Runtime& runtime) {
  const Layout& layout = *runtime.layout;
  return absl::c_any_of(
      WholeListAt(memory, layout, runtime.address + layout.runtime_interpreters_head),
      [&](uint64_t at) { return IsInterpreter(memory, layout, at); });
}

bool IsFinalizing(Memory& memory, const Runtime& runtime) {
  return memory.Pointer(runtime.address + runtime.layout->runtime_finalizing) != 0;
}

uint64_t GilHolder(Memory& memory, const Runtime& runtime, const Interpreter& interpreter) {
  const Layout& layout = *runtime.layout;
  if (layout.runtime_tstate_current != kAbsent) {
    return memory.Pointer(runtime.address + layout.runtime_tstate_current);
  }
  const uint64_t gil = memory.Pointer(interpreter.address + layout.interp_gil);
  if (gil == 0 || memory.Get<int32_t>(gil + layout.gil_locked).value_or(0) != 1) return 0;
  return memory.Pointer(gil + layout.gil_last_holder);
}

}  // namespace ttq::python
