// SPDX-License-Identifier: MIT

#include "query/code/dwarf_info.h"

#include <libdwarf/dwarf.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/threads.h"
#include "query/code/line_table.h"

namespace ttq {
namespace {

// Steps from a concrete DIE to its name: abstract origin, specification.
constexpr int kMaxReferences = 16;
// Ranges of one unit. Many DIEs may name the same long list, so its length alone bounds nothing.
constexpr size_t kMaxRangesOfUnit = 8u << 20;
// Entries of range lists read over the life of a file, for the same reason; honest files have
// fewer.
constexpr int64_t kMaxRangeEntries = 1u << 30;
// Scopes kept over all units; what exceeds it is read again when it is asked for again.
constexpr size_t kMaxScopesKept = 8u << 20;

struct Scope {
  DieRef name;
  int32_t parent = -1;  // the scope it is inlined into; -1: a function of its own
  uint32_t call_file = 0, call_line = 0;
  uint64_t entry = 0;
  bool inlined() const { return parent >= 0; }
};

// [begin, end) belongs to `scope` as seen from its parent.
struct Piece {
  int32_t parent;
  int32_t scope;
  uint64_t begin, end;
  auto operator<=>(const Piece& o) const {
    return std::tie(parent, begin, end, scope) <=> std::tie(o.parent, o.begin, o.end, o.scope);
  }
};

// A namespace or class: names of DIEs in (begin, end) are qualified by its own.
struct Enclosure {
  uint64_t begin, end;
  int32_t parent;
};

struct UnitCode {
  std::vector<Scope> scopes;
  std::vector<Piece> pieces;          // sorted
  std::vector<Enclosure> enclosures;  // ascending by begin; empty in C
};

struct StaticVariable {
  DieRef name;
  uint64_t address;
  uint64_t size;
  bool external;
};

struct Unit {
  std::shared_ptr<const UnitCode> code;
  std::unique_ptr<const LineHeader> line_header;
  std::unique_ptr<const LineTable> lines;
};

bool IsC(const DwarfRoot& root) {
  switch (root.language) {
    case DW_LANG_C89:
    case DW_LANG_C:
    case DW_LANG_C99:
    case DW_LANG_C11:
    case DW_LANG_Mips_Assembler:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool PathEndsWith(std::string_view path, std::string_view tail) {
  if (tail.empty() || tail.size() > path.size()) return false;
  if (path.substr(path.size() - tail.size()) != tail) return false;
  return tail.size() == path.size() || tail[0] == '/' || path[path.size() - tail.size() - 1] == '/';
}

struct DwarfInfo::Impl {
  std::shared_ptr<const DwarfData> data;
  std::function<bool(uint64_t)> is_code;
  std::vector<Unit> units;  // as data->units()
  size_t scopes_kept = 0;
  // Range list entries that may still be read; see kMaxRangeEntries.
  std::atomic<int64_t> range_entries_left = kMaxRangeEntries;
  absl::node_hash_map<DieRef, DemangledName> names;
  std::optional<std::vector<StaticVariable>> variables;

  Unit& Of(const DwarfUnit& unit) {
    if (units.empty()) units.resize(data->units().size());
    return units[unit.index];
  }

  // Calls `use(unit)` with each unit that has code.
  template <class Use>
  void ForEachCodeUnit(Use use) {
    for (const DwarfUnit& unit : data->units()) {
      if (unit.section == DwarfData::kInfo && data->RootDie(unit).MayHaveCode()) use(unit);
    }
  }

  // What the DIEs that hold code have in common.
  struct CodeAttributes {
    std::vector<CodeSpan> ranges;
    uint64_t entry = 0;
    DieRef origin;
    bool has_own_name = false;
    uint32_t call_file = 0, call_line = 0;
  };
  void ReadCode(const Die& die, size_t limit, CodeAttributes* out) {
    if (!die.MayHaveCode()) return;
    const DwarfUnit& unit = die.unit();
    std::optional<uint64_t> low, high, entry;
    bool high_is_offset = false, entry_is_offset = false;
    const auto number = [](const DieAttribute& a) {
      return static_cast<uint32_t>(std::min<uint64_t>(a.value, INT32_MAX));
    };
    const auto address_or_offset = [&](const DieAttribute& a, bool* is_offset) {
      const std::optional<uint64_t> address = data->AddressOf(unit, a);
      *is_offset = !address;
      return address ? *address : a.value;
    };
    die.ForEach([&](const DieAttribute& a) {
      switch (a.name) {
        case DW_AT_low_pc:
          low = data->AddressOf(unit, a);
          break;
        case DW_AT_high_pc:
          high = address_or_offset(a, &high_is_offset);
          break;
        case DW_AT_entry_pc:
          entry = address_or_offset(a, &entry_is_offset);
          break;
        case DW_AT_ranges: {
          const uint64_t most = std::max<int64_t>(range_entries_left, 0);
          uint64_t left = most;
          out->ranges = data->Ranges(unit, a, &left);
          range_entries_left -= static_cast<int64_t>(most - left);
          break;
        }
        case DW_AT_abstract_origin:
          out->origin = data->Ref(unit, a);
          break;
        case DW_AT_name:
        case DW_AT_linkage_name:
        case DW_AT_MIPS_linkage_name:
          out->has_own_name = true;
          break;
        case DW_AT_call_file:
          out->call_file = number(a);
          break;
        case DW_AT_call_line:
          out->call_line = number(a);
          break;
        default:
          break;
      }
    });
    if (low && high && out->ranges.empty()) {
      const uint64_t end = high_is_offset ? *low + *high : *high;
      if (*low < end) out->ranges.push_back({*low, end});
    }
    std::erase_if(out->ranges, [this](const CodeSpan& r) { return !is_code(r.begin); });
    if (out->ranges.size() > limit) out->ranges.resize(limit);
    if (out->ranges.empty()) return;
    out->entry = out->ranges[0].begin;
    if (entry) {
      // As an offset it counts from the DIE's own lowest address (DWARF 5 section 2.18).
      const uint64_t at = entry_is_offset ? low.value_or(out->ranges[0].begin) + *entry : *entry;
      for (const CodeSpan& r : out->ranges) {
        if (r.Contains(at)) out->entry = at;
      }
    }
  }

  // --- functions of a unit ---

  // Null: not wanted.
  void ReadUnit(const DwarfUnit& unit, UnitCode* code, std::vector<StaticVariable>* variables) {
    const bool is_c = IsC(data->RootOf(unit));
    // What the DIEs deeper than `depth` are in: the innermost scope with code, the innermost
    // enclosure.
    struct Level {
      int depth;
      int32_t scope, enclosure;
      bool encloses;
    };
    std::vector<Level> levels = {{-1, -1, -1, false}};
    const auto leave = [&](uint64_t offset) {
      const Level& level = levels.back();
      if (level.encloses) code->enclosures[level.enclosure].end = offset;
      levels.pop_back();
    };
    DieWalk walk(*data, unit);
    while (walk.Next()) {
      const Die& die = walk.die();
      const uint64_t offset = die.ref().offset;
      while (levels.back().depth >= walk.depth()) leave(offset);
      Level inner = {walk.depth(), levels.back().scope, levels.back().enclosure, false};
      switch (die.tag()) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine: {
          const bool inlined = die.tag() == DW_TAG_inlined_subroutine;
          if (!inlined) inner.scope = -1;
          if (code == nullptr) break;
          if (code->pieces.size() >= kMaxRangesOfUnit || code->scopes.size() >= kMaxRangesOfUnit) {
            walk.SkipChildren();
            break;
          }
          CodeAttributes attributes;
          ReadCode(die, kMaxRangesOfUnit - code->pieces.size(), &attributes);
          if (attributes.ranges.empty() || (inlined && inner.scope < 0)) break;
          Scope scope;
          scope.name =
              attributes.origin.valid() && !attributes.has_own_name ? attributes.origin : die.ref();
          scope.parent = inner.scope;
          scope.call_file = attributes.call_file;
          scope.call_line = attributes.call_line;
          scope.entry = attributes.entry;
          inner.scope = static_cast<int32_t>(code->scopes.size());
          for (const CodeSpan& r : attributes.ranges) {
            code->pieces.push_back({scope.parent, inner.scope, r.begin, r.end});
          }
          code->scopes.push_back(scope);
          break;
        }
        case DW_TAG_variable:
          if (variables != nullptr) ReadVariable(die, variables);
          walk.SkipChildren();
          break;
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
          if (is_c) {
            walk.SkipChildren();
          } else if (code != nullptr && die.has_children()) {
            inner.enclosure = static_cast<int32_t>(code->enclosures.size());
            inner.encloses = true;
            code->enclosures.push_back({offset, unit.end, levels.back().enclosure});
          }
          break;
        // Nothing with code or static storage is in these.
        case DW_TAG_enumeration_type:
        case DW_TAG_array_type:
        case DW_TAG_subroutine_type:
        case DW_TAG_GNU_call_site:
        case DW_TAG_call_site:
        case DW_TAG_formal_parameter:
        case DW_TAG_imported_unit:
          walk.SkipChildren();
          break;
        default:
          break;
      }
      if (die.has_children() && (inner.encloses || inner.scope != levels.back().scope)) {
        levels.push_back(inner);
      }
    }
    if (code != nullptr) std::sort(code->pieces.begin(), code->pieces.end());
  }

  std::shared_ptr<const UnitCode> CodeOf(const DwarfUnit& unit) {
    Unit& kept = Of(unit);
    return kept.code != nullptr ? kept.code : Keep(&kept, ReadCodeOf(unit));
  }
  // Thread-safe.
  std::shared_ptr<const UnitCode> ReadCodeOf(const DwarfUnit& unit) {
    auto code = std::make_shared<UnitCode>();
    ReadUnit(unit, code.get(), nullptr);
    return code;
  }
  std::shared_ptr<const UnitCode> Keep(Unit* kept, std::shared_ptr<const UnitCode> code) {
    const size_t size = code->scopes.size() + code->enclosures.size();
    if (scopes_kept + size <= kMaxScopesKept) {
      scopes_kept += size;
      kept->code = code;
    }
    return code;
  }
  // Calls `use(code)` with that of each of the units, in order; they are read by several threads.
  template <class Use>
  void ForEachCodeOf(const std::vector<const DwarfUnit*>& wanted, Use use) {
    constexpr size_t kAtOnce = 128;
    for (size_t first = 0; first < wanted.size(); first += kAtOnce) {
      std::vector<std::shared_ptr<const UnitCode>> read(std::min(kAtOnce, wanted.size() - first));
      for (size_t i = 0; i < read.size(); ++i) read[i] = Of(*wanted[first + i]).code;
      InParallel(read.size(), [&](size_t i) {
        if (read[i] == nullptr) read[i] = ReadCodeOf(*wanted[first + i]);
      });
      for (size_t i = 0; i < read.size(); ++i) {
        Unit& kept = Of(*wanted[first + i]);
        if (kept.code == nullptr) Keep(&kept, read[i]);
        use(*read[i]);
      }
    }
  }

  // The piece of a child of `parent` that holds the address; null: none. Siblings hardly overlap.
  static const Piece* PieceAt(const UnitCode& code, int32_t parent, uint64_t address) {
    auto it = std::upper_bound(code.pieces.begin(), code.pieces.end(), address,
                               [parent](uint64_t a, const Piece& p) {
                                 return p.parent != parent ? parent < p.parent : a < p.begin;
                               });
    for (int tries = 0; tries < 8 && it != code.pieces.begin(); ++tries) {
      --it;
      if (it->parent != parent) return nullptr;
      if (address < it->end) return &*it;
    }
    return nullptr;
  }

  // --- names ---

  // `plain` with the namespaces and classes in front that its DIE is in.
  std::string Qualify(const Die& named, std::string_view plain) {
    std::string qualified(plain);
    const DwarfUnit& unit = named.unit();
    if (IsC(data->RootOf(unit))) return qualified;
    const uint64_t offset = named.ref().offset;
    const std::shared_ptr<const UnitCode> code = CodeOf(unit);
    auto it = std::upper_bound(code->enclosures.begin(), code->enclosures.end(), offset,
                               [](uint64_t o, const Enclosure& e) { return o <= e.begin; });
    int32_t at = static_cast<int32_t>(it - code->enclosures.begin()) - 1;
    for (; at >= 0; at = code->enclosures[at].parent) {
      const Enclosure& e = code->enclosures[at];
      if (offset >= e.end) continue;
      const Die die = data->At(unit, e.begin);
      std::string_view name = die.Whole().Text(DW_AT_name);
      if (name.empty()) {
        name = die.tag() == DW_TAG_namespace ? "(anonymous namespace)"
               : plain == "operator()"       ? "{lambda}"
                                             : "{unnamed}";
      }
      qualified = Cat(name, "::", qualified);
    }
    return qualified;
  }

  const DemangledName& NameOf(DieRef ref) {
    auto [it, inserted] = names.try_emplace(ref);
    if (!inserted) return it->second;
    std::string_view linkage, plain;
    Die named;
    Die die = data->At(ref);
    for (int i = 0; die && i < kMaxReferences; ++i) {
      DieRef next;
      die.ForEach([&](const DieAttribute& a) {
        switch (a.name) {
          case DW_AT_name:
            // Of a member function the declaration, which comes last, is inside its class.
            plain = data->Text(die.unit(), a);
            named = die;
            break;
          case DW_AT_linkage_name:
          case DW_AT_MIPS_linkage_name:
            if (linkage.empty()) linkage = data->Text(die.unit(), a);
            break;
          case DW_AT_abstract_origin:
          case DW_AT_specification:
            next = data->Ref(die.unit(), a);
            break;
          default:
            break;
        }
      });
      if (!next.valid() || !linkage.empty()) break;
      die = data->At(next);
    }
    DemangledName& name = it->second;
    if (IsMangled(linkage)) {
      name = Demangle(linkage);
      // Too intricate: the plain name says more than the mangled one.
      if (name.name == linkage && !plain.empty()) name.name = name.full = Qualify(named, plain);
    } else {
      // Compilers leave the linkage name out where the linkage is internal.
      std::string qualified =
          linkage.empty() && !plain.empty() ? Qualify(named, plain) : std::string(plain);
      name.symbol = linkage.empty() ? qualified : std::string(linkage);
      name.name = name.full = qualified.empty() ? std::string(linkage) : qualified;
    }
    return name;
  }

  // --- lines ---

  const LineHeader& LineHeaderOf(const DwarfUnit& unit) {
    std::unique_ptr<const LineHeader>& kept = Of(unit).line_header;
    if (kept == nullptr) kept = std::make_unique<LineHeader>(ReadLineHeader(*data, unit));
    return *kept;
  }

  const LineTable& LinesOf(const DwarfUnit& unit) {
    std::unique_ptr<const LineTable>& kept = Of(unit).lines;
    if (kept == nullptr) kept = std::make_unique<LineTable>(ReadLines(LineHeaderOf(unit), is_code));
    return *kept;
  }

  const std::string& FileName(const DwarfUnit& unit, uint64_t file) {
    static const std::string kNone;
    const std::vector<std::string>& files = LineHeaderOf(unit).files;
    return file < files.size() ? files[file] : kNone;
  }

  // --- variables ---

  void ReadVariable(const Die& die, std::vector<StaticVariable>* out) const {
    const std::optional<DieAttribute> location = die.Find(DW_AT_location);
    if (!location || location->form != DW_FORM_exprloc) return;
    ByteCursor cursor(location->block, 0);
    const uint8_t op = cursor.Fixed<uint8_t>();
    std::optional<uint64_t> address;
    if (op == DW_OP_addr) {
      address = cursor.Fixed<uint64_t>();
    } else if (op == DW_OP_addrx) {
      address = data->AddressByIndex(die.unit(), cursor.Uleb());
    }
    // Another operator after it: not a plain address.
    if (!address || *address == 0 || !cursor.ok() || !cursor.AtEnd()) return;
    StaticVariable variable{die.ref(), *address, 0, die.Flag(DW_AT_external)};
    DieRef type = die.Ref(DW_AT_type);
    Die declaration = die.Follow(DW_AT_specification);
    if (!declaration) declaration = die.Follow(DW_AT_abstract_origin);
    if (declaration) {
      if (!type.valid()) type = declaration.Ref(DW_AT_type);
      variable.external = variable.external || declaration.Flag(DW_AT_external);
    }
    variable.size = SizeOf(data->At(type), 0);
    out->push_back(variable);
  }

  // In bytes; 0: unknown.
  static uint64_t SizeOf(const Die& die, int depth) {
    if (!die || depth > kMaxReferences) return 0;
    if (const auto size = die.Unsigned(DW_AT_byte_size)) return *size;
    const uint16_t tag = die.tag();
    if (tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type ||
        tag == DW_TAG_rvalue_reference_type) {
      return 8;
    }
    Die target = die.Follow(DW_AT_type);
    if (!target) target = die.Follow(DW_AT_signature);
    uint64_t size = SizeOf(target, depth + 1);
    if (tag != DW_TAG_array_type) return size;
    Die dimension = die.Child();
    for (int i = 0; dimension && i < kMaxReferences; ++i, dimension = dimension.Sibling()) {
      std::optional<uint64_t> count = dimension.Unsigned(DW_AT_count);
      if (const auto bound = dimension.Unsigned(DW_AT_upper_bound)) count = *bound + 1;
      if (!count || (*count != 0 && size > UINT64_MAX / *count)) return 0;
      size *= *count;
    }
    return size;
  }

  const std::vector<StaticVariable>& Variables() {
    if (!variables) {
      variables.emplace();
      for (const DwarfUnit& unit : data->units()) {
        if (unit.section == DwarfData::kInfo) ReadUnit(unit, nullptr, &*variables);
      }
    }
    return *variables;
  }

  // --- functions by name ---

  FunctionInfo ConcreteFunction(const UnitCode& code, int32_t scope) {
    const DemangledName& name = NameOf(code.scopes[scope].name);
    FunctionInfo f;
    f.name = name.name;
    f.symbol = name.symbol;
    f.source = NameSource::kDwarf;
    uint64_t entry = code.scopes[scope].entry;
    f.entry = Address(entry);
    auto it = std::lower_bound(code.pieces.begin(), code.pieces.end(), -1,
                               [](const Piece& p, int32_t parent) { return p.parent < parent; });
    for (; it != code.pieces.end() && it->parent == -1; ++it) {
      if (it->scope != scope) continue;
      bool body = it->begin <= entry && entry < it->end;
      f.ranges.push_back({{Address(it->begin), Address(it->end)},
                          body ? CodeRange::Kind::kBody : CodeRange::Kind::kCold,
                          Address(entry),
                          ""});
    }
    std::stable_sort(f.ranges.begin(), f.ranges.end(),
                     [](const CodeRange& a, const CodeRange& b) { return a.kind < b.kind; });
    return f;
  }
};

DwarfInfo::DwarfInfo(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DwarfInfo::~DwarfInfo() = default;

std::unique_ptr<DwarfInfo> DwarfInfo::Open(std::shared_ptr<const DwarfData> data,
                                           std::function<bool(uint64_t)> is_code) {
  if (data == nullptr) return nullptr;
  auto impl = std::make_unique<Impl>();
  data->ReadAheadOfCode();
  impl->data = std::move(data);
  impl->is_code = std::move(is_code);
  return std::unique_ptr<DwarfInfo>(new DwarfInfo(std::move(impl)));
}

bool DwarfInfo::Locate(uint64_t address, Location* place) {
  const DwarfUnit* unit = impl_->data->UnitAt(address);
  if (unit == nullptr) return false;
  if (const LineRow* row = impl_->LinesOf(*unit).RowAt(address)) {
    place->file = impl_->FileName(*unit, row->file);
    place->line = static_cast<int>(row->line);
  }
  place->step = impl_->LinesOf(*unit).StepAt(address);
  place->step_file = impl_->FileName(*unit, place->step.file);
  std::shared_ptr<const UnitCode> code = impl_->CodeOf(*unit);
  std::vector<int32_t> chain;  // outermost first
  int32_t parent = -1;
  while (const Piece* piece = Impl::PieceAt(*code, parent, address)) {
    if (parent < 0) place->offset = address - piece->begin;
    const bool begins = parent >= 0 && piece->begin == address;
    place->begun = begins ? place->begun + 1 : 0;
    parent = piece->scope;
    chain.push_back(parent);
  }
  std::string file = place->file;
  int line = place->line;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    const Scope& scope = code->scopes[*it];
    const DemangledName& name = impl_->NameOf(scope.name);
    place->frames.push_back({name.name, name.symbol, file, line, scope.entry == address});
    file = impl_->FileName(*unit, scope.call_file);
    line = static_cast<int>(scope.call_line);
  }
  return true;
}

std::optional<FunctionInfo> DwarfInfo::FunctionAt(uint64_t address) {
  const DwarfUnit* unit = impl_->data->UnitAt(address);
  if (unit == nullptr) return std::nullopt;
  std::shared_ptr<const UnitCode> code = impl_->CodeOf(*unit);
  const Piece* piece = Impl::PieceAt(*code, -1, address);
  if (piece == nullptr) return std::nullopt;
  return impl_->ConcreteFunction(*code, piece->scope);
}

std::vector<FunctionInfo> DwarfInfo::FindFunctions(const NameMatcher& matcher) {
  std::vector<FunctionInfo> found;
  std::vector<bool> may_name;  // by unit; empty: any
  if (!matcher.required().empty()) {
    may_name = impl_->data->UnitsThatMayName(matcher.required());
  }
  absl::flat_hash_map<DieRef, bool> matches;
  absl::flat_hash_map<std::string, size_t> by_symbol;  // where inlined copies go
  struct Copy {
    std::string name, symbol;
    std::vector<CodeRange> ranges;
  };
  std::vector<Copy> copies;
  std::vector<const DwarfUnit*> wanted;
  impl_->ForEachCodeUnit([&](const DwarfUnit& unit) {
    if (may_name.empty() || may_name[unit.index]) wanted.push_back(&unit);
  });
  impl_->ForEachCodeOf(wanted, [&](const UnitCode& code) {
    absl::flat_hash_map<int32_t, size_t> copy_of_scope;
    for (size_t i = 0; i < code.scopes.size(); ++i) {
      const Scope& scope = code.scopes[i];
      auto [it, inserted] = matches.try_emplace(scope.name, false);
      if (inserted) {
        const DemangledName& name = impl_->NameOf(scope.name);
        it->second = !name.name.empty() &&
                     (matcher.MayMatch(name.symbol) || matcher.MayMatch(name.name)) &&
                     matcher.Matches(name);
      }
      if (!it->second) continue;
      if (!scope.inlined()) {
        FunctionInfo f = impl_->ConcreteFunction(code, static_cast<int32_t>(i));
        by_symbol.try_emplace(f.symbol, found.size());
        found.push_back(std::move(f));
        continue;
      }
      copy_of_scope[static_cast<int32_t>(i)] = copies.size();
      const DemangledName& name = impl_->NameOf(scope.name);
      copies.push_back({name.name, name.symbol, {}});
    }
    if (copy_of_scope.empty()) return;
    for (const Piece& piece : code.pieces) {
      auto it = copy_of_scope.find(piece.scope);
      if (it == copy_of_scope.end()) continue;
      int32_t outer = piece.scope;
      while (code.scopes[outer].parent >= 0) outer = code.scopes[outer].parent;
      copies[it->second].ranges.push_back({{Address(piece.begin), Address(piece.end)},
                                           CodeRange::Kind::kInlined,
                                           Address(code.scopes[piece.scope].entry),
                                           impl_->NameOf(code.scopes[outer].name).name});
    }
  });
  for (Copy& copy : copies) {
    auto [it, inserted] = by_symbol.try_emplace(copy.symbol, found.size());
    if (inserted) {
      FunctionInfo f;
      f.name = copy.name;
      f.symbol = copy.symbol;
      f.source = NameSource::kDwarf;
      found.push_back(std::move(f));
    }
    auto& ranges = found[it->second].ranges;
    ranges.insert(ranges.end(), copy.ranges.begin(), copy.ranges.end());
  }
  for (FunctionInfo& f : found) {
    std::sort(f.ranges.begin(), f.ranges.end(), [](const CodeRange& a, const CodeRange& b) {
      return std::tie(a.kind, a.range.begin, a.range.end) <
             std::tie(b.kind, b.range.begin, b.range.end);
    });
  }
  return found;
}

void DwarfInfo::AddFunctionNames(Suggestions* suggestions) {
  absl::flat_hash_set<DieRef> seen;
  std::vector<const DwarfUnit*> units;
  impl_->ForEachCodeUnit([&](const DwarfUnit& unit) { units.push_back(&unit); });
  impl_->ForEachCodeOf(units, [&](const UnitCode& code) {
    for (const Scope& scope : code.scopes) {
      if (seen.insert(scope.name).second) suggestions->Add(impl_->NameOf(scope.name).name);
    }
  });
}

std::vector<LineMatch> DwarfInfo::FindLine(std::string_view file, int line, bool next) {
  std::string tail = NormalizePath(file);
  // Files by full name, so that a header seen by several units is one file.
  std::map<std::string, std::vector<std::pair<const DwarfUnit*, std::vector<bool>>>> by_file;
  impl_->ForEachCodeUnit([&](const DwarfUnit& unit) {
    std::map<std::string, std::vector<bool>> here;
    const std::vector<std::string>& files = impl_->LineHeaderOf(unit).files;
    for (size_t i = 0; i < files.size(); ++i) {
      if (!PathEndsWith(files[i], tail)) continue;
      auto& mask = here[files[i]];
      mask.resize(files.size());
      mask[i] = true;
    }
    for (auto& [name, mask] : here) by_file[name].push_back({&unit, std::move(mask)});
  });
  std::vector<LineMatch> found;
  for (auto& [name, places] : by_file) {
    uint32_t best = UINT32_MAX;
    for (auto& [unit, mask] : places) {
      for (const LineRow& row : impl_->LinesOf(*unit).rows) {
        if (row.is_stmt && row.file < mask.size() && mask[row.file] &&
            row.line >= static_cast<uint32_t>(std::max(line, 1)) && row.line < best) {
          best = row.line;
        }
      }
    }
    if (best == UINT32_MAX || (!next && best != static_cast<uint32_t>(line))) continue;
    for (auto& [unit, mask] : places) {
      const LineTable& lines = impl_->LinesOf(*unit);
      for (const LineSequence& sequence : lines.sequences) {
        for (uint32_t i = sequence.first_row; i < sequence.end_row; ++i) {
          const LineRow& row = lines.rows[i];
          if (!row.is_stmt || row.line != best || row.file >= mask.size() || !mask[row.file]) {
            continue;
          }
          // Up to the first address of another line. Of several rows for one address the last
          // says what its code is for.
          uint64_t end = sequence.end;
          for (uint32_t j = i + 1; j < sequence.end_row; ++j) {
            const LineRow& after = lines.rows[j];
            bool last = j + 1 == sequence.end_row || lines.rows[j + 1].address > after.address;
            if (after.address == row.address || !last) continue;
            if (after.line != best || after.file != row.file) {
              end = after.address;
              break;
            }
            i = j;
          }
          found.push_back({{Address(row.address), Address(end)}, name, static_cast<int>(best), ""});
        }
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const LineMatch& a, const LineMatch& b) {
    return std::tie(a.range.begin, a.range.end, a.file) <
           std::tie(b.range.begin, b.range.end, b.file);
  });
  found.erase(std::unique(found.begin(), found.end(),
                          [](const LineMatch& a, const LineMatch& b) {
                            return a.range == b.range && a.file == b.file;
                          }),
              found.end());
  return found;
}

void DwarfInfo::AddFileNames(Suggestions* suggestions) {
  std::set<std::string_view> seen;
  impl_->ForEachCodeUnit([&](const DwarfUnit& unit) {
    for (const std::string& file : impl_->LineHeaderOf(unit).files) {
      std::string_view base = BaseName(file);
      if (seen.insert(base).second) suggestions->Add(base);
    }
  });
}

std::vector<VariableInfo> DwarfInfo::FindVariables(const NameMatcher& matcher) {
  std::vector<VariableInfo> found;
  if (!impl_->data->MayContain(matcher.required())) return found;
  for (const StaticVariable& variable : impl_->Variables()) {
    const DemangledName& name = impl_->NameOf(variable.name);
    if (name.name.empty() || !matcher.Matches(name)) continue;
    VariableInfo info;
    info.name = name.name;
    info.symbol = name.symbol;
    info.address = Address(variable.address);
    info.size = variable.size;
    info.is_static = !variable.external;
    info.source = NameSource::kDwarf;
    found.push_back(std::move(info));
  }
  return found;
}

void DwarfInfo::AddVariableNames(Suggestions* suggestions) {
  for (const StaticVariable& variable : impl_->Variables()) {
    suggestions->Add(impl_->NameOf(variable.name).name);
  }
}

}  // namespace ttq
