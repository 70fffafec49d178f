// SPDX-License-Identifier: MIT

#include "query/code/symbols.h"

#include <elf.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/threads.h"
#include "query/code/dwarf_info.h"
#include "query/code/elf_file.h"
#include "query/code/names.h"
#include "query/code/separate_debug_file.h"
#include "query/code/unwind.h"

namespace ttq {
namespace {

// A symbol of .symtab, .dynsym or the PLT that has a place.
struct TableSymbol {
  uint64_t address = 0;
  uint64_t size = 0;
  std::string name;
  NameSource source = NameSource::kNone;
  bool global = false;
  bool typed = false;  // STT_FUNC or STT_OBJECT, not a bare label
  bool ifunc = false;  // STT_GNU_IFUNC
};

// Of several names for one address the one people use: "mkdir", not "__mkdir".
auto Rank(const TableSymbol& s) {
  size_t underscores = 0;
  if (!IsMangled(s.name)) {
    underscores = std::min(s.name.find_first_not_of('_'), s.name.size());
  }
  return std::make_tuple(s.typed, s.size > 0, -static_cast<int64_t>(underscores), s.global,
                         -static_cast<int64_t>(s.name.size()));
}

// By address; the best name of an address last.
bool TableOrder(const TableSymbol& a, const TableSymbol& b) {
  if (a.address != b.address) return a.address < b.address;
  return std::tuple_cat(Rank(a), std::tie(b.name)) < std::tuple_cat(Rank(b), std::tie(a.name));
}

// The symbol that holds the address. A symbol without a size reaches to the next one.
const TableSymbol* SymbolAt(const std::vector<TableSymbol>& table, uint64_t address) {
  auto it = std::upper_bound(table.begin(), table.end(), address,
                             [](uint64_t a, const TableSymbol& s) { return a < s.address; });
  if (it == table.begin()) return nullptr;
  const TableSymbol* label = nullptr;
  // Symbols may lie in one another; this many levels and aliases are looked through.
  for (int tries = 0; tries < 32 && it != table.begin(); ++tries) {
    --it;
    if (it->size > 0 && address - it->address < it->size) return &*it;
    if (it->size == 0 && tries == 0) label = &*it;
  }
  return label;
}

// What GCC appends to a static local: "counter.0".
std::string_view WithoutNumber(std::string_view name) {
  size_t end = name.find_last_not_of("0123456789");
  if (end == std::string_view::npos || end == 0 || end + 1 == name.size() || name[end] != '.') {
    return name;
  }
  return name.substr(0, end);
}

DemangledName VariableName(std::string_view symbol) {
  DemangledName name = Demangle(WithoutNumber(symbol));
  name.symbol = std::string(symbol);
  return name;
}

}  // namespace

std::string CodeLocation::NameAndOffset() const {
  if (frames.empty()) return "";
  const std::string& name = frames.back().function;
  return offset_in_function == 0 ? name : absl::StrCat(name, "+0x", absl::Hex(offset_in_function));
}

// --- SymbolFile ---

struct SymbolFile::Impl {
  Impl(ElfFile e, std::string p, SymbolOptions o)
      : elf(std::move(e)), path(std::move(p)), options(std::move(o)) {}

  // Fixed after construction.
  ElfFile elf;
  std::string path;
  SymbolOptions options;

  // Everything below is read when first needed, under the lock.
  std::mutex mutex;
  bool debug_found = false;
  std::optional<SeparateDebugFile> debug_file, alt_file;
  bool dwarf_opened = false;
  std::shared_ptr<const DwarfData> dwarf_data;
  std::unique_ptr<DwarfInfo> dwarf;
  bool tables_read = false;
  std::vector<TableSymbol> functions, data;
  absl::flat_hash_set<std::string_view> function_names;  // those of `functions`, once needed

  static bool HasDwarf(const ElfFile& e) {
    return e.FindSection(".debug_info") != nullptr || e.FindSection(".zdebug_info") != nullptr;
  }
  static bool HasSymtab(const ElfFile& e) {
    const ElfFile::Section* s = e.FindSection(".symtab");
    return s != nullptr && s->type == SHT_SYMTAB;
  }

  void FindDebug() {
    if (debug_found) return;
    debug_found = true;
    if (!HasDwarf(elf) || !HasSymtab(elf)) debug_file = FindSeparateDebugFile(elf, path, options);
    const ElfFile* with_dwarf = DwarfElf();
    if (with_dwarf != nullptr) alt_file = FindAltFile(*with_dwarf, DwarfPath(), options);
  }
  // REQUIRES: FindDebug() was called. Null: no DWARF.
  const ElfFile* DwarfElf() const {
    if (HasDwarf(elf)) return &elf;
    return debug_file && HasDwarf(debug_file->elf) ? &debug_file->elf : nullptr;
  }
  const std::string& DwarfPath() const { return HasDwarf(elf) ? path : debug_file->path; }

  // Null: no DWARF.
  const std::shared_ptr<const DwarfData>& Data() {
    if (dwarf_opened) return dwarf_data;
    dwarf_opened = true;
    FindDebug();
    if (const ElfFile* file = DwarfElf()) {
      dwarf_data = DwarfData::Open(*file, alt_file ? &alt_file->elf : nullptr);
    }
    return dwarf_data;
  }
  DwarfInfo* Dwarf() {
    if (dwarf == nullptr && Data() != nullptr) {
      dwarf = DwarfInfo::Open(dwarf_data, [this](uint64_t address) { return elf.IsCode(address); });
    }
    return dwarf.get();
  }

  void ReadTables() {
    if (tables_read) return;
    tables_read = true;
    std::vector<ElfFile::Symbol> symbols = elf.Symbols(/*dynamic=*/false);
    NameSource source = NameSource::kSymtab;
    if (symbols.empty()) {
      FindDebug();
      if (debug_file) symbols = debug_file->elf.Symbols(/*dynamic=*/false);
    }
    if (symbols.empty()) {
      symbols = elf.Symbols(/*dynamic=*/true);
      source = NameSource::kDynsym;
    }
    for (const ElfFile::Symbol& s : symbols) {
      if (s.section == SHN_UNDEF || s.section == SHN_ABS || s.name.empty()) continue;
      TableSymbol t;
      t.address = s.address;
      t.size = s.size;
      t.source = source;
      t.global = s.binding != STB_LOCAL;
      if (s.type == STT_FUNC || s.type == STT_GNU_IFUNC || s.type == STT_NOTYPE) {
        // Labels that only the assembler or the linker made say nothing to a reader.
        if (!elf.IsCode(s.address) || s.name[0] == '.' || s.name[0] == '$') continue;
        t.typed = s.type != STT_NOTYPE;
        t.ifunc = s.type == STT_GNU_IFUNC;
        t.name = std::string(s.name);
        functions.push_back(std::move(t));
      } else if (s.type == STT_OBJECT || s.type == STT_COMMON) {
        t.typed = true;
        t.name = std::string(s.name);
        data.push_back(std::move(t));
      }
    }
    if (source == NameSource::kDynsym) AddStart();
    for (ElfFile::PltEntry& entry : elf.PltEntries()) {
      functions.push_back(
          {entry.address, entry.size, std::move(entry.name), NameSource::kPlt, true, true, false});
    }
    std::sort(functions.begin(), functions.end(), TableOrder);
    std::sort(data.begin(), data.end(), TableOrder);
  }

  // Names where a stripped program begins, and its main. How far they reach is told by their
  // call-frame information.
  void AddStart() {
    const std::optional<uint64_t> main = elf.Main();
    if (!main) return;
    UnwindTable unwind(elf, nullptr);
    for (const auto& start : {std::pair("_start", elf.entry()), std::pair("main", *main)}) {
      const char* const name = start.first;
      const uint64_t address = start.second;
      const auto range = unwind.FunctionAt(address);
      if (!range || range->first != address || !elf.IsCode(address)) continue;
      if (std::any_of(functions.begin(), functions.end(),
                      [&](const TableSymbol& s) { return s.name == name; })) {
        continue;
      }
      functions.push_back({address, range->second - address, name, NameSource::kStart,
                           /*global=*/true, /*typed=*/true, /*ifunc=*/false});
    }
  }

  // Where a function's code ends; for one without a size, where the next or another section begins.
  uint64_t EndOf(const TableSymbol& s) const {
    if (s.size > 0) {
      return s.size > UINT64_MAX - s.address ? UINT64_MAX : s.address + s.size;
    }
    auto next = std::upper_bound(functions.begin(), functions.end(), s.address,
                                 [](uint64_t a, const TableSymbol& t) { return a < t.address; });
    uint64_t end = next == functions.end() ? UINT64_MAX : next->address;
    for (const ElfFile::Segment& segment : elf.segments()) {
      if (segment.type == PT_LOAD && s.address >= segment.address &&
          s.address - segment.address < segment.memory_size) {
        end = std::min(end, segment.address + segment.memory_size);
      }
    }
    for (const ElfFile::Section& section : elf.sections()) {
      if ((section.flags & SHF_ALLOC) != 0 && s.address >= section.address &&
          s.address - section.address < section.size) {
        end = std::min(end, section.address + section.size);
      }
    }
    return end;
  }

  const TableSymbol* FunctionSymbolAt(uint64_t address) {
    ReadTables();
    const TableSymbol* s = elf.IsCode(address) ? SymbolAt(functions, address) : nullptr;
    return s != nullptr && s->size == 0 && address >= EndOf(*s) ? nullptr : s;
  }

  // The mangled symbol that starts at `entry` when `symbol`, from DWARF, is none: compilers leave
  // linkage names out where the linkage is internal, and a lambda has no other.
  std::optional<DemangledName> BetterName(const std::string& symbol, uint64_t entry) {
    if (IsMangled(symbol)) return std::nullopt;
    ReadTables();
    const TableSymbol* s = SymbolAt(functions, entry);
    if (s == nullptr || s->address != entry || !IsMangled(s->name)) return std::nullopt;
    return Demangle(WithoutCloneSuffix(s->name));
  }

  bool HasOwnConvention(uint64_t entry) {
    ReadTables();
    const TableSymbol* s = SymbolAt(functions, entry);
    return s != nullptr && s->address == entry && HasOtherParameters(s->name);
  }

  CodeLocation Symbolize(uint64_t address) {
    std::lock_guard lock(mutex);
    CodeLocation location;
    DwarfInfo::Location place;
    DwarfInfo* info = elf.IsCode(address) ? Dwarf() : nullptr;
    if (info != nullptr && info->Locate(address, &place)) {
      location.file = std::move(place.file);
      location.line = place.line;
      location.frames = std::move(place.frames);
      location.offset_in_function = place.offset;
      location.step = {Address(place.step.begin), Address(place.step.end)};
      location.step_line = static_cast<int>(place.step.line);
      location.step_file = std::move(place.step_file);
      location.step_is_stmt = place.step.is_stmt;
      location.begun = place.begun;
      if (!location.frames.empty()) {
        location.source = NameSource::kDwarf;
        InlineFrame& outer = location.frames.back();
        if (auto better = BetterName(outer.symbol, address - place.offset)) {
          outer.function = std::move(better->name);
          outer.symbol = std::move(better->symbol);
        }
      }
    }
    if (location.frames.empty()) {
      if (const TableSymbol* s = FunctionSymbolAt(address)) {
        location.frames.push_back({Demangle(s->name).name, s->name, location.file, location.line});
        location.offset_in_function = address - s->address;
        location.source = s->source;
      }
    }
    if (!location.frames.empty()) {
      location.function = location.frames.front().function;
      location.inlined = location.frames.size() > 1;
      location.own_convention = HasOwnConvention(address - location.offset_in_function);
    } else {
      location.offset_in_function = address;
    }
    return location;
  }

  void UseBetterName(FunctionInfo* f) {
    if (!f->entry) return;
    if (auto better = BetterName(f->symbol, f->entry->v)) {
      f->name = std::move(better->name);
      f->symbol = std::move(better->symbol);
    }
  }

  FunctionInfo FromTable(const TableSymbol& s) const {
    FunctionInfo f;
    f.name = Demangle(s.name).name;
    f.symbol = s.name;
    f.source = s.source;
    f.is_resolver = s.ifunc;
    f.entry = Address(s.address);
    f.ranges.push_back({{Address(s.address), Address(EndOf(s))},
                        IsColdPart(s.name) ? CodeRange::Kind::kCold : CodeRange::Kind::kBody,
                        Address(s.address),
                        ""});
    return f;
  }

  std::vector<FunctionInfo> FindFunctions(const NameMatcher& matcher, bool plt) {
    std::lock_guard lock(mutex);
    std::vector<FunctionInfo> found;
    if (DwarfInfo* info = Dwarf()) found = info->FindFunctions(matcher);
    for (FunctionInfo& f : found) UseBetterName(&f);
    ReadTables();
    std::vector<const TableSymbol*> matches;
    for (const TableSymbol& s : functions) {
      if (s.source == NameSource::kPlt && !plt) continue;
      if (matcher.MayMatch(s.name) && matcher.Matches(Demangle(s.name))) matches.push_back(&s);
    }
    // What DWARF has found already is left out. The tables are sorted, so its ranges are too.
    std::vector<AddressRange> known;
    for (const FunctionInfo& f : found) {
      for (const CodeRange& r : f.ranges) {
        if (r.kind != CodeRange::Kind::kInlined) known.push_back(r.range);
      }
    }
    std::sort(known.begin(), known.end(),
              [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
    auto is_known = [&](uint64_t address) {
      auto it = std::upper_bound(known.begin(), known.end(), Address(address),
                                 [](Address a, const AddressRange& r) { return a < r.begin; });
      return it != known.begin() && std::prev(it)->Contains(Address(address));
    };
    absl::flat_hash_map<std::string, size_t> by_symbol;
    for (size_t i = 0; i < matches.size(); ++i) {
      const TableSymbol& s = *matches[i];
      // The last of an address is its best name.
      if (i + 1 < matches.size() && matches[i + 1]->address == s.address) continue;
      if (IsColdPart(s.name) || is_known(s.address)) continue;
      FunctionInfo f = FromTable(s);
      // An alias that DWARF does not name: its true extent is still known there.
      if (DwarfInfo* info = Dwarf()) {
        std::optional<FunctionInfo> exact = info->FunctionAt(s.address);
        if (exact && exact->entry == f.entry) f.ranges = std::move(exact->ranges);
      }
      by_symbol.try_emplace(s.name, found.size());
      found.push_back(std::move(f));
    }
    for (const TableSymbol* s : matches) {
      if (!IsColdPart(s->name) || is_known(s->address)) continue;
      FunctionInfo cold = FromTable(*s);
      auto it = by_symbol.find(std::string(WithoutCloneSuffix(s->name)));
      if (it == by_symbol.end()) {
        found.push_back(std::move(cold));
        continue;
      }
      auto& ranges = found[it->second].ranges;
      bool there = false;
      for (const CodeRange& r : ranges) there |= r.range.Contains(Address(s->address));
      if (!there) ranges.push_back(cold.ranges[0]);
    }
    return found;
  }

  std::vector<FunctionInfo> FindSymbol(std::string_view symbol) {
    std::lock_guard lock(mutex);
    ReadTables();
    std::vector<FunctionInfo> found;
    for (const TableSymbol& s : functions) {
      if (s.source == NameSource::kPlt) continue;
      const std::string_view name = s.name;
      if (name.substr(0, name.find('@')) == symbol) found.push_back(FromTable(s));
    }
    return found;
  }

  std::optional<FunctionInfo> FunctionAt(uint64_t address) {
    std::lock_guard lock(mutex);
    if (!elf.IsCode(address)) return std::nullopt;
    if (DwarfInfo* info = Dwarf()) {
      if (auto f = info->FunctionAt(address)) {
        UseBetterName(&*f);
        return f;
      }
    }
    const TableSymbol* s = FunctionSymbolAt(address);
    if (s == nullptr) return std::nullopt;
    return FromTable(*s);
  }

  // As its source has it: clang puts a function's name before a static variable's in it,
  // work.calls.
  DemangledName NameOfVariable(const TableSymbol& s) {
    const std::string_view symbol = s.name;
    const size_t dot = symbol.find('.');
    if (s.global || dot == symbol.npos || dot + 1 == symbol.size() || isdigit(symbol[dot + 1])) {
      return VariableName(symbol);
    }
    if (function_names.empty()) {
      for (const TableSymbol& function : functions) function_names.insert(function.name);
    }
    const bool in_function = function_names.contains(symbol.substr(0, dot));
    return VariableName(in_function ? symbol.substr(dot + 1) : symbol);
  }

  VariableInfo VariableFromTable(const TableSymbol& s) {
    VariableInfo v;
    v.name = NameOfVariable(s).name;
    v.symbol = s.name;
    v.address = Address(s.address);
    v.size = s.size;
    v.is_static = !s.global;
    v.source = s.source;
    return v;
  }

  bool IsStripped() {
    std::lock_guard lock(mutex);
    FindDebug();
    const bool has_table = HasSymtab(elf) || (debug_file && HasSymtab(debug_file->elf));
    return !has_table && DwarfElf() == nullptr;
  }

  std::vector<VariableInfo> FindVariables(const NameMatcher& matcher) {
    std::lock_guard lock(mutex);
    ReadTables();
    std::vector<VariableInfo> found;
    bool full_table = false;
    for (size_t i = 0; i < data.size(); ++i) {
      const TableSymbol& s = data[i];
      full_table |= s.source == NameSource::kSymtab;
      if (!matcher.MayMatch(s.name) || !matcher.Matches(NameOfVariable(s))) continue;
      if (!found.empty() && found.back().address.v == s.address) found.pop_back();
      found.push_back(VariableFromTable(s));
    }
    // .symtab has every static too, if perhaps by another name.
    DwarfInfo* info = full_table && !found.empty() ? nullptr : Dwarf();
    if (info != nullptr) {
      for (VariableInfo& v : info->FindVariables(matcher)) {
        bool known = false;
        for (const VariableInfo& f : found) known |= f.address == v.address;
        if (!known) found.push_back(std::move(v));
      }
    }
    return found;
  }

  std::optional<VariableInfo> VariableAt(uint64_t address) {
    std::lock_guard lock(mutex);
    ReadTables();
    const TableSymbol* s = SymbolAt(data, address);
    if (s == nullptr || (s->size == 0 && s->address != address)) return std::nullopt;
    return VariableFromTable(*s);
  }

  std::vector<LineMatch> FindLine(std::string_view file, int line, bool next) {
    std::lock_guard lock(mutex);
    DwarfInfo* info = Dwarf();
    return info == nullptr ? std::vector<LineMatch>() : info->FindLine(file, line, next);
  }

  enum class What { kFunctions, kVariables, kFiles };
  void Suggest(What what, Suggestions* suggestions) {
    std::lock_guard lock(mutex);
    ReadTables();
    DwarfInfo* info = what == What::kVariables && !data.empty() ? nullptr : Dwarf();
    switch (what) {
      case What::kFunctions:
        for (const TableSymbol& s : functions) {
          if (s.source != NameSource::kPlt) suggestions->Add(s.name);
        }
        // Those that are only ever inlined; every unit has to be read for them.
        if (info != nullptr && !suggestions->HasNear()) info->AddFunctionNames(suggestions);
        break;
      case What::kVariables:
        for (const TableSymbol& s : data) suggestions->Add(WithoutNumber(s.name));
        if (info != nullptr) info->AddVariableNames(suggestions);
        break;
      case What::kFiles:
        if (info != nullptr) info->AddFileNames(suggestions);
        break;
    }
  }
};

SymbolFile::SymbolFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SymbolFile::~SymbolFile() = default;

absl::StatusOr<std::shared_ptr<const SymbolFile>> SymbolFile::FromImage(
    FileImage image, std::string path, const SymbolOptions& options) {
  absl::StatusOr<ElfFile> elf = ElfFile::Parse(std::move(image));
  if (!elf.ok()) {
    return absl::Status(elf.status().code(), absl::StrCat(path, ": ", elf.status().message()));
  }
  auto impl = std::make_unique<Impl>(*std::move(elf), std::move(path), options);
  return std::shared_ptr<const SymbolFile>(new SymbolFile(std::move(impl)));
}

absl::StatusOr<std::shared_ptr<const SymbolFile>> SymbolFile::Open(const std::string& path,
                                                                   const SymbolOptions& options) {
  ASSIGN_OR_RETURN(FileImage image, FileImage::Map(path));
  return FromImage(std::move(image), path, options);
}

const std::string& SymbolFile::path() const { return impl_->path; }
const std::string& SymbolFile::build_id() const { return impl_->elf.build_id(); }

std::shared_ptr<const DwarfData> SymbolFile::dwarf() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->Data();
}

const ElfFile& SymbolFile::elf() const { return impl_->elf; }

const ElfFile* SymbolFile::debug_elf() const {
  std::lock_guard lock(impl_->mutex);
  impl_->FindDebug();
  return impl_->debug_file ? &impl_->debug_file->elf : nullptr;
}

CodeLocation SymbolFile::Symbolize(uint64_t vaddr) const { return impl_->Symbolize(vaddr); }

// --- SymbolFileCache ---

struct SymbolFileCache::Impl {
  SymbolOptions options;
  std::mutex mutex;
  absl::flat_hash_map<std::string, std::shared_ptr<const SymbolFile>> files;

  std::shared_ptr<const SymbolFile> Find(const std::string& key) {
    std::lock_guard lock(mutex);
    auto it = files.find(key);
    return it == files.end() ? nullptr : it->second;
  }
  // The one kept under the key, which may be another thread's.
  std::shared_ptr<const SymbolFile> Keep(const std::string& key,
                                         const std::shared_ptr<const SymbolFile>& file) {
    std::lock_guard lock(mutex);
    return files.try_emplace(key, file).first->second;
  }
};

SymbolFileCache::SymbolFileCache(SymbolOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}
SymbolFileCache::~SymbolFileCache() = default;

// --- Module ---

struct Module::Impl {
  ModuleSpec spec;
  std::string name;
  // The Symbolizer, which owns this, keeps it alive.
  SymbolFileCache::Impl* cache = nullptr;

  std::once_flag loaded;
  absl::Status status;
  std::shared_ptr<const SymbolFile> file;
  std::string build_id;
  uint64_t bias = 0;

  void Load(const std::function<uint64_t(const SymbolFile&)>& bias_of) {
    std::call_once(loaded, [&] {
      status = LoadFile();
      build_id = file != nullptr && !file->build_id().empty() ? file->build_id() : spec.build_id;
      if (file != nullptr) bias = bias_of(*file);
    });
  }

  absl::Status LoadFile() {
    if (!spec.build_id.empty()) {
      file = cache->Find(spec.build_id);
      if (file != nullptr) return absl::OkStatus();
    }
    absl::StatusOr<FileImage> image = absl::FailedPreconditionError("its bytes were not recorded");
    if (spec.contents) image = spec.contents();
    std::string id = spec.build_id;
    absl::StatusOr<ElfFile> elf =
        image.ok() ? ElfFile::Parse(*image) : absl::StatusOr<ElfFile>(image.status());
    if (elf.ok() && !elf->build_id().empty()) id = elf->build_id();
    // Only what was mapped is there: the file on disk, if it is the same, has the rest.
    if ((!elf.ok() || elf->sections().empty()) && !id.empty()) {
      absl::StatusOr<FileImage> disk = FileImage::Map(spec.path);
      absl::StatusOr<ElfFile> disk_elf =
          disk.ok() ? ElfFile::Parse(*disk) : absl::StatusOr<ElfFile>(disk.status());
      if (disk_elf.ok() && disk_elf->build_id() == id) {
        elf = std::move(disk_elf);
        image = std::move(disk);
      }
    }
    if (!elf.ok()) {
      return absl::Status(elf.status().code(),
                          absl::StrCat(spec.path, ": ", elf.status().message()));
    }
    std::string key = !id.empty() ? id : absl::StrCat(spec.path, "\n", image->bytes().size());
    if (auto known = cache->Find(key)) {
      file = std::move(known);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(auto opened,
                     SymbolFile::FromImage(*std::move(image), spec.path, cache->options));
    file = cache->Keep(key, std::move(opened));
    return absl::OkStatus();
  }
};

namespace {

constexpr uint64_t kPageMask = ~uint64_t{0xfff};

// A mapping starts where a segment does, both rounded down to pages.
uint64_t LoadBias(const ElfFile& elf, const std::vector<ModuleSpec::Mapping>& mappings) {
  const ElfFile::Segment* first = nullptr;
  for (const ModuleSpec::Mapping& m : mappings) {
    for (const ElfFile::Segment& s : elf.segments()) {
      if (s.type != PT_LOAD) continue;
      if (first == nullptr) first = &s;
      if ((s.offset & kPageMask) == m.file_offset) {
        return m.range.begin.v - (s.address & kPageMask);
      }
    }
  }
  for (const ModuleSpec::Mapping& m : mappings) {
    for (const ElfFile::Segment& s : elf.segments()) {
      uint64_t start = s.offset & kPageMask;
      if (s.type == PT_LOAD && start <= m.file_offset && m.file_offset < s.offset + s.file_size) {
        return m.range.begin.v - (s.address & kPageMask) - (m.file_offset - start);
      }
    }
  }
  if (elf.fixed_address() || mappings.empty() || first == nullptr) return 0;
  return mappings.front().range.begin.v - (first->address & kPageMask);
}

}  // namespace

Module::Module(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Module::~Module() = default;

const std::string& Module::path() const { return impl_->spec.path; }
const std::string& Module::name() const { return impl_->name; }
const std::vector<ModuleSpec::Mapping>& Module::mappings() const { return impl_->spec.mappings; }

const SymbolFile* Module::file() const {
  impl_->Load([this](const SymbolFile& f) { return LoadBias(f.impl_->elf, impl_->spec.mappings); });
  return impl_->file.get();
}
absl::Status Module::status() const {
  file();
  return impl_->status;
}
const std::string& Module::build_id() const {
  file();
  return impl_->build_id;
}
uint64_t Module::load_bias() const {
  file();
  return impl_->bias;
}

// --- Symbolizer ---

struct Symbolizer::Impl {
  std::shared_ptr<SymbolFileCache> cache;
  std::vector<std::unique_ptr<Module>> modules;
  struct Claimed {
    uint64_t end;
    const Module* module;
  };
  std::map<uint64_t, Claimed> places;  // by begin; disjoint

  std::mutex mutex;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const CodeLocation>> locations;
  // Then it starts again: a trace has few hot pcs.
  static constexpr size_t kMaxLocations = 1u << 19;

  // Takes [begin, end) from whoever had it.
  void Claim(uint64_t begin, uint64_t end, const Module* module) {
    if (begin >= end) return;
    auto it = places.upper_bound(begin);
    if (it != places.begin()) --it;
    while (it != places.end() && it->first < end) {
      uint64_t b = it->first;
      Claimed p = it->second;
      if (p.end <= begin) {
        ++it;
        continue;
      }
      it = places.erase(it);
      if (b < begin) places[b] = {begin, p.module};
      if (p.end > end) places[end] = {p.end, p.module};
    }
    places[begin] = {end, module};
  }

  static void Move(FunctionInfo* f, const Module& module) {
    uint64_t bias = module.load_bias();
    f->module = module.name();
    if (f->entry) *f->entry += bias;
    for (CodeRange& r : f->ranges) {
      r.range.begin += bias;
      r.range.end += bias;
      r.entry += bias;
    }
  }
  static void Move(VariableInfo* v, const Module& module) {
    v->module = module.name();
    v->address += module.load_bias();
  }
};

Symbolizer::Symbolizer(std::vector<ModuleSpec> specs, std::shared_ptr<SymbolFileCache> cache)
    : impl_(std::make_unique<Impl>()) {
  impl_->cache = cache != nullptr ? std::move(cache) : std::make_shared<SymbolFileCache>();
  for (ModuleSpec& spec : specs) {
    auto module = std::make_unique<Module::Impl>();
    module->name = BaseName(spec.path);
    module->spec = std::move(spec);
    module->cache = impl_->cache->impl_.get();
    impl_->modules.emplace_back(new Module(std::move(module)));
    const Module* m = impl_->modules.back().get();
    for (const ModuleSpec::Mapping& mapping : m->mappings()) {
      impl_->Claim(mapping.range.begin.v, mapping.range.end.v, m);
    }
  }
  auto first = [](const std::unique_ptr<Module>& m) {
    return m->mappings().empty() ? Address(UINT64_MAX) : m->mappings().front().range.begin;
  };
  std::stable_sort(impl_->modules.begin(), impl_->modules.end(),
                   [&](const auto& a, const auto& b) { return first(a) < first(b); });
}

Symbolizer::~Symbolizer() = default;

const std::vector<std::unique_ptr<Module>>& Symbolizer::modules() const { return impl_->modules; }

const Module* Symbolizer::ModuleAt(Address address) const {
  auto it = impl_->places.upper_bound(address.v);
  if (it == impl_->places.begin()) return nullptr;
  --it;
  return address.v < it->second.end ? it->second.module : nullptr;
}

std::vector<std::string> Symbolizer::Problems() const {
  std::vector<std::string> problems;
  for (const auto& module : impl_->modules) {
    absl::Status status = module->status();
    if (!status.ok()) problems.emplace_back(status.message());
  }
  return problems;
}

std::vector<std::string> Symbolizer::Stripped() const {
  std::vector<std::string> names;
  for (const auto& module : impl_->modules) {
    const SymbolFile* file = module->file();
    if (file != nullptr && file->impl_->IsStripped()) names.push_back(module->name());
  }
  return names;
}

std::shared_ptr<const CodeLocation> Symbolizer::Symbolize(Address pc) const {
  {
    std::lock_guard lock(impl_->mutex);
    auto it = impl_->locations.find(pc.v);
    if (it != impl_->locations.end()) return it->second;
  }
  auto location = std::make_shared<CodeLocation>();
  if (const Module* module = ModuleAt(pc)) {
    if (const SymbolFile* file = module->file()) {
      *location = file->Symbolize(pc.v - module->load_bias());
      location->step.begin += module->load_bias();
      location->step.end += module->load_bias();
    }
    location->module = module->name();
    if (location->frames.empty()) {
      location->offset_in_function = pc.v - module->mappings().front().range.begin.v;
    }
  }
  std::lock_guard lock(impl_->mutex);
  if (impl_->locations.size() >= Impl::kMaxLocations) impl_->locations.clear();
  impl_->locations.try_emplace(pc.v, location);
  return location;
}

std::string Symbolizer::NameOf(Address address) const {
  std::shared_ptr<const CodeLocation> location = Symbolize(address);
  if (!location->frames.empty()) return location->NameAndOffset();
  if (location->module.empty()) return "";
  return absl::StrCat(location->module, "+0x", absl::Hex(location->offset_in_function));
}

namespace {

// What each module has, in their order.
template <class T>
void Append(std::vector<std::vector<T>>* of_modules, std::vector<T>* all) {
  for (std::vector<T>& some : *of_modules) {
    std::move(some.begin(), some.end(), std::back_inserter(*all));
  }
}

}  // namespace

absl::StatusOr<NameMatches<FunctionInfo>> Symbolizer::FindFunctions(
    const NamePattern& pattern) const {
  ASSIGN_OR_RETURN(NameMatcher matcher, NameMatcher::Create(pattern));
  bool plt = pattern.text.find("@plt") != std::string::npos;
  NameMatches<FunctionInfo> matches;
  std::vector<std::vector<FunctionInfo>> found(impl_->modules.size());
  InParallel(found.size(), [&](size_t i) {
    const Module& module = *impl_->modules[i];
    if (!matcher.MatchesModule(module.name()) || module.file() == nullptr) return;
    found[i] = module.file()->impl_->FindFunctions(matcher, plt);
    for (FunctionInfo& f : found[i]) Impl::Move(&f, module);
  });
  Append(&found, &matches.found);
  if (!matches.found.empty() || pattern.kind != NamePattern::Kind::kName) return matches;
  Suggestions suggestions(pattern.text);
  for (const auto& module : impl_->modules) {
    if (!matcher.MatchesModule(module->name()) || module->file() == nullptr) continue;
    module->file()->impl_->Suggest(SymbolFile::Impl::What::kFunctions, &suggestions);
  }
  matches.suggestions = suggestions.Take();
  return matches;
}

std::vector<FunctionInfo> Symbolizer::FindSymbol(std::string_view symbol) const {
  std::vector<FunctionInfo> found;
  for (const auto& module : impl_->modules) {
    if (module->file() == nullptr) continue;
    for (FunctionInfo& f : module->file()->impl_->FindSymbol(symbol)) {
      Impl::Move(&f, *module);
      found.push_back(std::move(f));
    }
  }
  return found;
}

std::optional<FunctionInfo> Symbolizer::FunctionAt(Address address) const {
  const Module* module = ModuleAt(address);
  if (module == nullptr || module->file() == nullptr) return std::nullopt;
  auto f = module->file()->impl_->FunctionAt(address.v - module->load_bias());
  if (f) Impl::Move(&*f, *module);
  return f;
}

NameMatches<LineMatch> Symbolizer::FindLine(std::string_view file, int line) const {
  NameMatches<LineMatch> matches;
  // The exact line in any module goes before a later line in another.
  for (bool next : {false, true}) {
    std::vector<std::vector<LineMatch>> found(impl_->modules.size());
    InParallel(found.size(), [&](size_t i) {
      const Module& module = *impl_->modules[i];
      if (module.file() == nullptr) return;
      found[i] = module.file()->impl_->FindLine(file, line, next);
      for (LineMatch& m : found[i]) {
        m.range.begin += module.load_bias();
        m.range.end += module.load_bias();
        m.module = module.name();
      }
    });
    Append(&found, &matches.found);
    if (!matches.found.empty()) return matches;
  }
  Suggestions suggestions(BaseName(file));
  for (const auto& module : impl_->modules) {
    if (module->file() == nullptr) continue;
    module->file()->impl_->Suggest(SymbolFile::Impl::What::kFiles, &suggestions);
  }
  matches.suggestions = suggestions.Take();
  return matches;
}

absl::StatusOr<std::vector<VariableInfo>> Symbolizer::FindVariables(
    const NamePattern& pattern) const {
  ASSIGN_OR_RETURN(NameMatcher matcher, NameMatcher::Create(pattern));
  std::vector<std::vector<VariableInfo>> found(impl_->modules.size());
  InParallel(found.size(), [&](size_t i) {
    const Module& module = *impl_->modules[i];
    if (!matcher.MatchesModule(module.name()) || module.file() == nullptr) return;
    found[i] = module.file()->impl_->FindVariables(matcher);
    for (VariableInfo& v : found[i]) Impl::Move(&v, module);
  });
  std::vector<VariableInfo> all;
  Append(&found, &all);
  return all;
}

std::vector<std::string> Symbolizer::VariablesLike(std::string_view name) const {
  Suggestions suggestions(name);
  for (const auto& module : impl_->modules) {
    if (module->file() == nullptr) continue;
    module->file()->impl_->Suggest(SymbolFile::Impl::What::kVariables, &suggestions);
  }
  return suggestions.Take();
}

std::optional<VariableInfo> Symbolizer::VariableAt(Address address) const {
  const Module* module = ModuleAt(address);
  if (module == nullptr || module->file() == nullptr) return std::nullopt;
  auto v = module->file()->impl_->VariableAt(address.v - module->load_bias());
  if (v) Impl::Move(&*v, *module);
  return v;
}

}  // namespace ttq
