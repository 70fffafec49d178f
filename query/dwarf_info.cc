// SPDX-License-Identifier: MIT

#include "query/dwarf_info.h"

#include <libdwarf/dwarf.h>
#include <libdwarf/libdwarf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ttq {
namespace {

using Bytes = absl::Span<const uint8_t>;

// No compiler nests deeper; damaged bytes may.
constexpr int kMaxDepth = 200;
// Steps from a concrete DIE to its name: abstract origin, specification.
constexpr int kMaxReferences = 16;
// Ranges of one unit. Many DIEs may name the same long list, so its length alone bounds nothing.
constexpr size_t kMaxPieces = 8u << 20;
// Entries of range lists read over the life of a file, for the same reason; honest files have
// fewer.
constexpr uint64_t kMaxRangeEntries = 1u << 30;
// Scopes kept over all units; what exceeds it is read again when it is asked for again.
constexpr size_t kMaxScopesKept = 8u << 20;

// Frees the error that a call may leave.
class ErrorSink {
 public:
  explicit ErrorSink(Dwarf_Debug dbg) : dbg_(dbg) {}
  ~ErrorSink() { Free(); }
  ErrorSink(const ErrorSink&) = delete;
  ErrorSink& operator=(const ErrorSink&) = delete;
  operator Dwarf_Error*() {  // NOLINT: made to be passed
    Free();
    return &error_;
  }

 private:
  void Free() {
    if (error_ != nullptr) dwarf_dealloc_error(dbg_, error_);
    error_ = nullptr;
  }
  Dwarf_Debug dbg_;
  Dwarf_Error error_ = nullptr;
};

class Die {
 public:
  Die() = default;
  explicit Die(Dwarf_Die die) : die_(die) {}
  Die(Die&& other) noexcept : die_(std::exchange(other.die_, nullptr)) {}
  Die& operator=(Die&& other) noexcept {
    std::swap(die_, other.die_);
    return *this;
  }
  ~Die() {
    if (die_ != nullptr) dwarf_dealloc_die(die_);
  }
  Dwarf_Die get() const { return die_; }
  explicit operator bool() const { return die_ != nullptr; }

 private:
  Dwarf_Die die_ = nullptr;
};

// A bounds-checked reading position. After a read past the end ok() is false and reads give 0.
class Cursor {
 public:
  Cursor(Bytes bytes, uint64_t at) : bytes_(bytes), at_(at), ok_(at <= bytes.size()) {}
  bool ok() const { return ok_; }
  uint64_t at() const { return at_; }
  template <class T>
  T Fixed() {
    T value = 0;
    if (!ok_ || bytes_.size() - at_ < sizeof(T)) {
      ok_ = false;
      return 0;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  uint64_t Uleb() {
    uint64_t value = 0;
    for (int shift = 0; ok_; shift += 7) {
      uint8_t byte = Fixed<uint8_t>();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return 0;
  }

 private:
  Bytes bytes_;
  uint64_t at_;
  bool ok_;
};

// Renames every DW_AT_sibling in `abbrev` that a unit of `info` can use to an attribute nobody
// reads. libdwarf 20210528 follows sibling links while it looks for a DIE's sibling, and never ends
// when a damaged one points back; without links it only goes forward, which costs little. False
// when units share abbreviations in a way that only made-up data does.
bool HideSiblings(Bytes info, std::string* abbrev) {
  constexpr uint64_t kUnused = 0x07;
  Bytes table(reinterpret_cast<const uint8_t*>(abbrev->data()), abbrev->size());
  // Tables do not overlap, so that one pass is the honest cost.
  uint64_t budget = 16 * uint64_t{table.size()} + 4096;
  absl::flat_hash_set<uint64_t> done;
  for (uint64_t at = 0; at < info.size();) {
    // DWARF 5 section 7.5.1.
    Cursor header(info, at);
    uint64_t length = header.Fixed<uint32_t>();
    bool wide = length == 0xffffffff;
    if (wide) length = header.Fixed<uint64_t>();
    uint64_t next = header.at() + length;
    uint16_t version = header.Fixed<uint16_t>();
    if (version >= 5) header.Fixed<uint16_t>();  // unit type, address size
    uint64_t offset = wide ? header.Fixed<uint64_t>() : header.Fixed<uint32_t>();
    if (!header.ok()) break;
    if (done.insert(offset).second) {
      Cursor cursor(table, offset);
      // DWARF 5 section 7.5.3: code, tag, children, then pairs of attribute and form.
      while (cursor.ok() && cursor.Uleb() != 0) {
        cursor.Uleb();
        cursor.Fixed<uint8_t>();
        for (;;) {
          uint64_t attribute_at = cursor.at();
          uint64_t attribute = cursor.Uleb(), form = cursor.Uleb();
          if (form == DW_FORM_implicit_const) cursor.Uleb();
          if (!cursor.ok() || (attribute == 0 && form == 0)) break;
          if (attribute == DW_AT_sibling) {
            (*abbrev)[attribute_at] =
                static_cast<char>(table[attribute_at] ^ DW_AT_sibling ^ kUnused);
          }
        }
      }
      uint64_t used = cursor.at() - std::min(offset, cursor.at());
      if (used > budget) return false;
      budget -= used;
    }
    if (next <= at) break;
    at = next;
  }
  return true;
}

// The sections of one file as libdwarf wants to see them, and the Dwarf_Debug over them.
class Debug {
 public:
  static std::unique_ptr<Debug> Open(const ElfFile& file) {
    std::unique_ptr<Debug> debug(new Debug);
    debug->sections_.emplace_back();  // index 0 is no section
    for (const ElfFile::Section& s : file.sections()) {
      std::string name(s.name);
      if (name.substr(0, 8) == ".zdebug_") name = absl::StrCat(".", name.substr(2));
      bool shown = false;
      for (std::string_view wanted : {".debug_info", ".debug_abbrev", ".debug_str", ".debug_line",
                                      ".debug_line_str", ".debug_str_offsets", ".debug_addr"}) {
        shown |= name == wanted;
      }
      // A second section of the same name would not be seen by what is done to the first.
      if (debug->Find(name) != nullptr) continue;
      bool own = name == ".debug_ranges" || name == ".debug_rnglists" || name == ".debug_addr";
      if (!shown && !own) continue;
      absl::StatusOr<FileImage> data = file.Data(s);
      if (!data.ok() || data->empty()) continue;
      if (name == ".debug_ranges") debug->ranges_ = *data;
      if (name == ".debug_rnglists") debug->rnglists_ = *data;
      if (name == ".debug_addr") debug->addresses_ = *data;
      if (shown) debug->sections_.push_back({std::move(name), *std::move(data)});
    }
    const Section* info = debug->Find(".debug_info");
    Section* abbrev = debug->Find(".debug_abbrev");
    if (info == nullptr || abbrev == nullptr) return nullptr;
    std::string changed(reinterpret_cast<const char*>(abbrev->data.bytes().data()),
                        abbrev->data.bytes().size());
    if (!HideSiblings(info->data.bytes(), &changed)) return nullptr;
    abbrev->data = FileImage::FromString(std::move(changed));
    debug->access_ = {debug.get(), &kMethods};
    ErrorSink error(nullptr);
    if (dwarf_object_init_b(&debug->access_, nullptr, nullptr, DW_GROUPNUMBER_ANY, &debug->dbg_,
                            error) != DW_DLV_OK) {
      debug->dbg_ = nullptr;
      return nullptr;
    }
    return debug;
  }

  ~Debug() {
    if (dbg_ == nullptr) return;
    ErrorSink error(dbg_);
    dwarf_object_finish(dbg_, error);
  }

  Dwarf_Debug get() const { return dbg_; }
  // One of the sections that names come from has these bytes.
  bool Contains(std::string_view text) const {
    for (const Section& s : sections_) {
      if (s.name != ".debug_str" && s.name != ".debug_info") continue;
      Bytes b = s.data.bytes();
      if (memmem(b.data(), b.size(), text.data(), text.size()) != nullptr) return true;
    }
    return false;
  }
  Bytes ranges() const { return ranges_.bytes(); }
  Bytes rnglists() const { return rnglists_.bytes(); }
  Bytes addresses() const { return addresses_.bytes(); }

 private:
  struct Section {
    std::string name;
    FileImage data;
  };

  static int SectionInfo(void* self, Dwarf_Half index, Dwarf_Obj_Access_Section* out, int*) {
    auto& sections = static_cast<Debug*>(self)->sections_;
    if (index >= sections.size()) return DW_DLV_NO_ENTRY;
    *out = {};
    out->type = 1;  // SHT_PROGBITS
    out->size = sections[index].data.bytes().size();
    out->name = sections[index].name.c_str();
    return DW_DLV_OK;
  }
  static int LoadSection(void* self, Dwarf_Half index, Dwarf_Small** data, int*) {
    auto& sections = static_cast<Debug*>(self)->sections_;
    if (index >= sections.size() || sections[index].data.empty()) return DW_DLV_NO_ENTRY;
    // libdwarf only reads it; its interface is older than const.
    *data = const_cast<Dwarf_Small*>(sections[index].data.bytes().data());
    return DW_DLV_OK;
  }
  static Dwarf_Endianness ByteOrder(void*) { return DW_OBJECT_LSB; }
  static Dwarf_Small LengthSize(void*) { return 4; }
  static Dwarf_Small PointerSize(void*) { return 8; }
  static Dwarf_Unsigned SectionCount(void* self) {
    return static_cast<Debug*>(self)->sections_.size();
  }
  static constexpr Dwarf_Obj_Access_Methods kMethods = {
      SectionInfo, ByteOrder, LengthSize, PointerSize, SectionCount, LoadSection, nullptr};

  Debug() = default;

  // The first of that name, as in libdwarf; null: none.
  Section* Find(std::string_view name) {
    for (Section& s : sections_) {
      if (s.name == name) return &s;
    }
    return nullptr;
  }

  std::vector<Section> sections_;
  FileImage ranges_, rnglists_, addresses_;
  Dwarf_Obj_Access_Interface access_ = {};
  Dwarf_Debug dbg_ = nullptr;
};

struct Span64 {
  uint64_t begin, end;
};

// Where a name is: an offset in .debug_info of the file (or of its alt file).
struct DieRef {
  Dwarf_Off offset = 0;
  bool alt = false;
  bool operator==(const DieRef&) const = default;
  template <class H>
  friend H AbslHashValue(H h, const DieRef& r) {
    return H::combine(std::move(h), r.offset, r.alt);
  }
};

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

// A namespace or class: names of DIEs in [first, last] are qualified by its own.
struct Enclosure {
  Dwarf_Off first, last;
  int32_t parent;
};

struct UnitCode {
  std::vector<Scope> scopes;
  std::vector<Piece> pieces;          // sorted
  std::vector<Enclosure> enclosures;  // ascending by first; empty in C
};

struct Row {
  uint64_t address;
  uint32_t line;
  uint32_t file;  // index into files
  bool is_stmt;
};

struct Sequence {
  uint64_t begin, end;
  uint32_t first_row, end_row;
};

struct UnitLines {
  std::vector<Row> rows;            // ascending within a sequence
  std::vector<Sequence> sequences;  // ascending
};

struct StaticVariable {
  DieRef name;
  uint64_t address;
  uint64_t size;
  bool external;
};

struct Unit {
  Dwarf_Off die = 0;
  Dwarf_Half version = 0;
  Dwarf_Half offset_size = 4;
  bool is_c = false;  // no name needs to be qualified
  uint64_t low_pc = 0;
  uint64_t rnglists_base = 0;
  uint64_t addr_base = 0;
  std::vector<Span64> ranges;
  std::shared_ptr<const UnitCode> code;
  std::shared_ptr<const UnitLines> lines;
  bool files_read = false;
  // By DWARF file number.
  std::vector<std::string> files;
};

}  // namespace

std::string NormalizePath(std::string_view path) {
  std::vector<std::string_view> parts;
  bool absolute = !path.empty() && path[0] == '/';
  while (!path.empty()) {
    size_t slash = path.find('/');
    std::string_view part = path.substr(0, slash);
    path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else if (part != ".." || !absolute) {
      parts.push_back(part);
    }
  }
  std::string out = absolute ? "/" : "";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.push_back('/');
    out.append(parts[i]);
  }
  return out;
}

bool PathEndsWith(std::string_view path, std::string_view tail) {
  if (tail.empty() || tail.size() > path.size()) return false;
  if (path.substr(path.size() - tail.size()) != tail) return false;
  return tail.size() == path.size() || tail[0] == '/' || path[path.size() - tail.size() - 1] == '/';
}

struct DwarfInfo::Impl {
  std::unique_ptr<Debug> alt;  // outlives `debug`, which is tied to it
  std::unique_ptr<Debug> debug;
  std::function<bool(uint64_t)> is_code;
  std::vector<Unit> units;
  // Ascending; which unit holds an address.
  struct UnitRange {
    uint64_t begin, end;
    uint32_t unit;
  };
  std::vector<UnitRange> unit_ranges;
  size_t scopes_kept = 0;
  // Range list entries that may still be read; see kMaxRangeEntries.
  mutable uint64_t range_entries_left = kMaxRangeEntries;
  absl::node_hash_map<DieRef, DemangledName> names;
  std::optional<std::vector<StaticVariable>> variables;

  Dwarf_Debug dbg(bool in_alt = false) const { return in_alt ? alt->get() : debug->get(); }

  // False proves that no DIE has the name. A search of bytes is far quicker than reading all DIEs.
  bool MayContain(std::string_view text) const {
    return text.empty() || debug->Contains(text) || (alt != nullptr && alt->Contains(text));
  }

  Die DieAt(DieRef ref) const {
    if (ref.alt && alt == nullptr) return Die();
    Dwarf_Debug d = dbg(ref.alt);
    ErrorSink error(d);
    Dwarf_Die die = nullptr;
    if (dwarf_offdie_b(d, ref.offset, 1, &die, error) != DW_DLV_OK) return Die();
    return Die(die);
  }

  // Calls `visit(number, attribute)` for each attribute of a DIE.
  template <class Visit>
  void ForEachAttribute(Dwarf_Debug d, Dwarf_Die die, Visit visit) const {
    ErrorSink error(d);
    Dwarf_Attribute* list = nullptr;
    Dwarf_Signed count = 0;
    if (dwarf_attrlist(die, &list, &count, error) != DW_DLV_OK) return;
    for (Dwarf_Signed i = 0; i < count; ++i) {
      Dwarf_Half number = 0;
      if (dwarf_whatattr(list[i], &number, error) == DW_DLV_OK) visit(number, list[i]);
      dwarf_dealloc_attribute(list[i]);
    }
    dwarf_dealloc(d, list, DW_DLA_LIST);
  }

  static Dwarf_Half Form(Dwarf_Debug d, Dwarf_Attribute attribute) {
    ErrorSink error(d);
    Dwarf_Half form = 0;
    return dwarf_whatform(attribute, &form, error) == DW_DLV_OK ? form : 0;
  }

  static std::optional<uint64_t> Constant(Dwarf_Debug d, Dwarf_Attribute attribute) {
    ErrorSink error(d);
    Dwarf_Unsigned value = 0;
    if (dwarf_formudata(attribute, &value, error) == DW_DLV_OK) return value;
    Dwarf_Signed number = 0;
    if (dwarf_formsdata(attribute, &number, error) == DW_DLV_OK) {
      return static_cast<uint64_t>(number);
    }
    return std::nullopt;
  }

  static std::optional<uint64_t> SectionOffset(Dwarf_Debug d, Dwarf_Attribute attribute) {
    ErrorSink error(d);
    Dwarf_Off value = 0;
    if (dwarf_global_formref(attribute, &value, error) == DW_DLV_OK) return value;
    return Constant(d, attribute);
  }

  static bool IsAddressIndex(Dwarf_Half form) {
    return form == DW_FORM_addrx || (form >= DW_FORM_addrx1 && form <= DW_FORM_addrx4) ||
           form == DW_FORM_GNU_addr_index;
  }

  std::optional<uint64_t> AddressByIndex(const Unit& unit, uint64_t index) const {
    Bytes table = debug->addresses();
    if (index > table.size() / 8) return std::nullopt;
    Cursor cursor(table, unit.addr_base + index * 8);
    uint64_t address = cursor.Fixed<uint64_t>();
    if (!cursor.ok()) return std::nullopt;
    return address;
  }

  // Of the main file only: alt files hold no code.
  std::optional<uint64_t> AddressOf(const Unit& unit, Dwarf_Attribute attribute) const {
    ErrorSink error(dbg());
    if (IsAddressIndex(Form(dbg(), attribute))) {
      Dwarf_Unsigned index = 0;
      if (dwarf_get_debug_addr_index(attribute, &index, error) != DW_DLV_OK) return std::nullopt;
      return AddressByIndex(unit, index);
    }
    Dwarf_Addr address = 0;
    if (dwarf_formaddr(attribute, &address, error) != DW_DLV_OK) return std::nullopt;
    return address;
  }

  static std::string StringOf(Dwarf_Debug d, Dwarf_Attribute attribute) {
    ErrorSink error(d);
    char* text = nullptr;
    if (dwarf_formstring(attribute, &text, error) != DW_DLV_OK || text == nullptr) return "";
    return text;
  }

  std::optional<DieRef> ReferenceOf(Dwarf_Attribute attribute, bool in_alt) const {
    Dwarf_Debug d = dbg(in_alt);
    ErrorSink error(d);
    Dwarf_Half form = Form(d, attribute);
    if (form == DW_FORM_ref_sig8) return std::nullopt;
    bool to_alt =
        form == DW_FORM_GNU_ref_alt || form == DW_FORM_ref_sup4 || form == DW_FORM_ref_sup8;
    Dwarf_Off offset = 0;
    if (dwarf_global_formref(attribute, &offset, error) != DW_DLV_OK) return std::nullopt;
    return DieRef{offset, in_alt || to_alt};
  }

  // Range lists: DWARF 5 section 2.17.3 and 7.25; DWARF 4 section 2.17.3.
  void ReadRanges(const Unit& unit, Dwarf_Attribute attribute, std::vector<Span64>* out,
                  size_t limit) const {
    if (range_entries_left < 2) return;
    uint64_t base = unit.low_pc;
    auto add = [&](uint64_t begin, uint64_t end) {
      if (begin < end && is_code(begin)) out->push_back({begin, end});
    };
    if (unit.version < 5) {
      std::optional<uint64_t> offset = SectionOffset(dbg(), attribute);
      if (!offset) return;
      Cursor cursor(debug->ranges(), *offset);
      while (out->size() < limit && range_entries_left > 1 && --range_entries_left > 0) {
        uint64_t begin = cursor.Fixed<uint64_t>(), end = cursor.Fixed<uint64_t>();
        if (!cursor.ok() || (begin == 0 && end == 0)) return;
        if (begin == UINT64_MAX) {
          base = end;
        } else {
          add(base + begin, base + end);
        }
      }
      return;
    }
    uint64_t offset = 0;
    if (Form(dbg(), attribute) == DW_FORM_rnglistx) {
      std::optional<uint64_t> index = Constant(dbg(), attribute);
      if (!index || *index > debug->rnglists().size()) return;
      Cursor table(debug->rnglists(), unit.rnglists_base + *index * unit.offset_size);
      offset = unit.rnglists_base +
               (unit.offset_size == 8 ? table.Fixed<uint64_t>() : table.Fixed<uint32_t>());
      if (!table.ok()) return;
    } else {
      std::optional<uint64_t> direct = SectionOffset(dbg(), attribute);
      if (!direct) return;
      offset = *direct;
    }
    Cursor cursor(debug->rnglists(), offset);
    while (cursor.ok() && out->size() < limit && range_entries_left > 1 &&
           --range_entries_left > 0) {
      switch (cursor.Fixed<uint8_t>()) {
        case DW_RLE_base_addressx:
          base = AddressByIndex(unit, cursor.Uleb()).value_or(0);
          break;
        case DW_RLE_startx_endx: {
          auto begin = AddressByIndex(unit, cursor.Uleb());
          auto end = AddressByIndex(unit, cursor.Uleb());
          if (begin && end && cursor.ok()) add(*begin, *end);
          break;
        }
        case DW_RLE_startx_length: {
          auto begin = AddressByIndex(unit, cursor.Uleb());
          uint64_t length = cursor.Uleb();
          if (begin && cursor.ok()) add(*begin, *begin + length);
          break;
        }
        case DW_RLE_offset_pair: {
          uint64_t begin = cursor.Uleb(), end = cursor.Uleb();
          if (cursor.ok()) add(base + begin, base + end);
          break;
        }
        case DW_RLE_base_address:
          base = cursor.Fixed<uint64_t>();
          break;
        case DW_RLE_start_end: {
          uint64_t begin = cursor.Fixed<uint64_t>(), end = cursor.Fixed<uint64_t>();
          if (cursor.ok()) add(begin, end);
          break;
        }
        case DW_RLE_start_length: {
          uint64_t begin = cursor.Fixed<uint64_t>(), length = cursor.Uleb();
          if (cursor.ok()) add(begin, begin + length);
          break;
        }
        default:  // DW_RLE_end_of_list, or what nobody defined
          return;
      }
    }
  }

  // What the DIEs that hold code have in common.
  struct CodeAttributes {
    std::vector<Span64> ranges;
    uint64_t entry = 0;
    DieRef origin;
    bool has_origin = false, has_own_name = false;
    uint32_t call_file = 0, call_line = 0;
  };
  void ReadCode(const Unit& unit, Dwarf_Die die, size_t limit, CodeAttributes* out) const {
    std::optional<uint64_t> low, high, entry;
    bool high_is_offset = false, entry_is_offset = false;
    auto constant32 = [&](Dwarf_Attribute a) {
      uint64_t v = Constant(dbg(), a).value_or(0);
      return static_cast<uint32_t>(std::min<uint64_t>(v, std::numeric_limits<int32_t>::max()));
    };
    ForEachAttribute(dbg(), die, [&](Dwarf_Half number, Dwarf_Attribute a) {
      auto address_or_offset = [&](bool* is_offset) {
        Dwarf_Half form = Form(dbg(), a);
        *is_offset = form != DW_FORM_addr && !IsAddressIndex(form);
        return *is_offset ? Constant(dbg(), a) : AddressOf(unit, a);
      };
      switch (number) {
        case DW_AT_low_pc:
          low = AddressOf(unit, a);
          break;
        case DW_AT_high_pc:
          high = address_or_offset(&high_is_offset);
          break;
        case DW_AT_entry_pc:
          entry = address_or_offset(&entry_is_offset);
          break;
        case DW_AT_ranges:
          ReadRanges(unit, a, &out->ranges, limit);
          break;
        case DW_AT_abstract_origin:
          if (auto ref = ReferenceOf(a, false)) {
            out->origin = *ref;
            out->has_origin = true;
          }
          break;
        case DW_AT_name:
        case DW_AT_linkage_name:
        case DW_AT_MIPS_linkage_name:
          out->has_own_name = true;
          break;
        case DW_AT_call_file:
          out->call_file = constant32(a);
          break;
        case DW_AT_call_line:
          out->call_line = constant32(a);
          break;
        default:
          break;
      }
    });
    if (low && high && out->ranges.empty()) {
      uint64_t end = high_is_offset ? *low + *high : *high;
      if (*low < end && is_code(*low)) out->ranges.push_back({*low, end});
    }
    if (out->ranges.empty()) return;
    out->entry = out->ranges[0].begin;
    if (entry) {
      // As an offset it counts from the DIE's own lowest address (DWARF 5 section 2.18).
      uint64_t at = entry_is_offset ? low.value_or(out->ranges[0].begin) + *entry : *entry;
      for (const Span64& r : out->ranges) {
        if (r.begin <= at && at < r.end) out->entry = at;
      }
    }
  }

  static bool IsC(uint64_t language) {
    return language == DW_LANG_C89 || language == DW_LANG_C || language == DW_LANG_C99 ||
           language == DW_LANG_C11 || language == DW_LANG_Mips_Assembler;
  }

  void ReadUnits() {
    ErrorSink error(dbg());
    for (;;) {
      Dwarf_Unsigned length, type_offset, next;
      Dwarf_Off abbrev;
      Dwarf_Half version, address_size, length_size, extension_size, type;
      Dwarf_Sig8 signature;
      if (dwarf_next_cu_header_d(dbg(), 1, &length, &version, &abbrev, &address_size, &length_size,
                                 &extension_size, &signature, &type_offset, &next, &type,
                                 error) != DW_DLV_OK) {
        break;
      }
      if (address_size != 8) continue;
      Dwarf_Die raw = nullptr;
      if (dwarf_siblingof_b(dbg(), nullptr, 1, &raw, error) != DW_DLV_OK) continue;
      Die die(raw);
      Unit unit;
      unit.version = version;
      unit.offset_size = length_size;
      if (dwarf_dieoffset(die.get(), &unit.die, error) != DW_DLV_OK) continue;
      // The bases first: the other attributes are read with them.
      ForEachAttribute(dbg(), die.get(), [&](Dwarf_Half number, Dwarf_Attribute a) {
        if (number == DW_AT_rnglists_base) {
          unit.rnglists_base = SectionOffset(dbg(), a).value_or(0);
        } else if (number == DW_AT_addr_base || number == DW_AT_GNU_addr_base) {
          unit.addr_base = SectionOffset(dbg(), a).value_or(0);
        }
      });
      ForEachAttribute(dbg(), die.get(), [&](Dwarf_Half number, Dwarf_Attribute a) {
        if (number == DW_AT_low_pc) unit.low_pc = AddressOf(unit, a).value_or(0);
        if (number == DW_AT_language) unit.is_c = IsC(Constant(dbg(), a).value_or(0));
      });
      CodeAttributes code;
      ReadCode(unit, die.get(), kMaxPieces, &code);
      unit.ranges = std::move(code.ranges);
      for (const Span64& r : unit.ranges) {
        if (unit_ranges.size() >= kMaxPieces) break;
        unit_ranges.push_back({r.begin, r.end, static_cast<uint32_t>(units.size())});
      }
      units.push_back(std::move(unit));
    }
    std::sort(unit_ranges.begin(), unit_ranges.end(), [](const UnitRange& a, const UnitRange& b) {
      return std::tie(a.begin, a.end, a.unit) < std::tie(b.begin, b.end, b.unit);
    });
  }

  // Units do not overlap, except that an assembler unit or a damaged one may: a few are tried.
  Unit* UnitAt(uint64_t address) {
    auto it = std::upper_bound(unit_ranges.begin(), unit_ranges.end(), address,
                               [](uint64_t a, const UnitRange& r) { return a < r.begin; });
    for (int tries = 0; tries < 8 && it != unit_ranges.begin(); ++tries) {
      --it;
      if (address < it->end) return &units[it->unit];
    }
    return nullptr;
  }

  // --- functions of a unit ---

  struct Walk {
    const Unit& unit;
    UnitCode* code;                          // null: not wanted
    std::vector<StaticVariable>* variables;  // null: not wanted
  };

  // `die` and its following siblings, each with its children. `parent` is the innermost scope with
  // code that is entered, `enclosure` the innermost enclosure. The offset of the last DIE seen.
  Dwarf_Off WalkSiblings(const Walk& walk, Die die, int32_t parent, int32_t enclosure,
                         int depth) const {
    ErrorSink error(dbg());
    Dwarf_Off last = 0;
    while (die) {
      Dwarf_Off offset = 0;
      // Offsets must grow, or a damaged sibling link would be followed for ever.
      if (dwarf_dieoffset(die.get(), &offset, error) != DW_DLV_OK || offset <= last) return last;
      last = std::max(offset, WalkOne(walk, die.get(), offset, parent, enclosure, depth));
      Dwarf_Die next = nullptr;
      if (dwarf_siblingof_b(dbg(), die.get(), 1, &next, error) != DW_DLV_OK) return last;
      die = Die(next);
    }
    return last;
  }

  // The offset of the last DIE seen below this one.
  Dwarf_Off WalkOne(const Walk& walk, Dwarf_Die die, Dwarf_Off offset, int32_t parent,
                    int32_t enclosure, int depth) const {
    ErrorSink error(dbg());
    Dwarf_Half tag = 0;
    if (dwarf_tag(die, &tag, error) != DW_DLV_OK) return 0;
    int32_t inner = parent;
    bool encloses = false;
    switch (tag) {
      case DW_TAG_subprogram:
        inner = -1;
        [[fallthrough]];
      case DW_TAG_inlined_subroutine: {
        if (walk.code == nullptr) break;
        UnitCode& code = *walk.code;
        if (code.pieces.size() >= kMaxPieces || code.scopes.size() >= kMaxPieces) return 0;
        CodeAttributes attributes;
        ReadCode(walk.unit, die, kMaxPieces - code.pieces.size(), &attributes);
        if (attributes.ranges.empty()) break;
        if (tag == DW_TAG_inlined_subroutine && parent < 0) break;
        Scope scope;
        scope.name = attributes.has_origin && !attributes.has_own_name ? attributes.origin
                                                                       : DieRef{offset, false};
        scope.parent = tag == DW_TAG_subprogram ? -1 : parent;
        scope.call_file = attributes.call_file;
        scope.call_line = attributes.call_line;
        scope.entry = attributes.entry;
        inner = static_cast<int32_t>(code.scopes.size());
        for (const Span64& r : attributes.ranges) {
          code.pieces.push_back({scope.parent, inner, r.begin, r.end});
        }
        code.scopes.push_back(scope);
        break;
      }
      case DW_TAG_variable:
        if (walk.variables != nullptr) ReadVariable(walk.unit, die, offset, walk.variables);
        return 0;
      case DW_TAG_namespace:
      case DW_TAG_module:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
        encloses = walk.code != nullptr && !walk.unit.is_c;
        break;
      // Nothing with code or static storage is in these.
      case DW_TAG_enumeration_type:
      case DW_TAG_array_type:
      case DW_TAG_subroutine_type:
      case DW_TAG_GNU_call_site:
      case DW_TAG_call_site:
      case DW_TAG_formal_parameter:
      case DW_TAG_imported_unit:
        return 0;
      default:
        break;
    }
    if (depth >= kMaxDepth) return 0;
    Dwarf_Die child = nullptr;
    if (dwarf_child(die, &child, error) != DW_DLV_OK) return 0;
    if (!encloses) return WalkSiblings(walk, Die(child), inner, enclosure, depth + 1);
    auto& enclosures = walk.code->enclosures;
    size_t index = enclosures.size();
    enclosures.push_back({offset, offset, enclosure});
    Dwarf_Off last = WalkSiblings(walk, Die(child), inner, static_cast<int32_t>(index), depth + 1);
    enclosures[index].last = last;
    return last;
  }

  std::shared_ptr<const UnitCode> CodeOf(Unit* unit) {
    if (unit->code != nullptr) return unit->code;
    auto code = std::make_shared<UnitCode>();
    WalkSiblings({*unit, code.get(), nullptr}, DieAt({unit->die, false}), -1, -1, 0);
    std::sort(code->pieces.begin(), code->pieces.end());
    size_t size = code->scopes.size() + code->enclosures.size();
    if (scopes_kept + size <= kMaxScopesKept) {
      scopes_kept += size;
      unit->code = code;
    }
    return code;
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
  std::string Qualify(DieRef ref, const std::string& plain) {
    if (ref.alt) return plain;
    auto unit = std::upper_bound(units.begin(), units.end(), ref.offset,
                                 [](Dwarf_Off o, const Unit& u) { return o < u.die; });
    if (unit == units.begin()) return plain;
    --unit;
    if (unit->is_c) return plain;
    std::shared_ptr<const UnitCode> code = CodeOf(&*unit);
    auto it = std::upper_bound(code->enclosures.begin(), code->enclosures.end(), ref.offset,
                               [](Dwarf_Off o, const Enclosure& e) { return o < e.first; });
    int32_t at = static_cast<int32_t>(it - code->enclosures.begin()) - 1;
    std::string qualified = plain;
    for (; at >= 0; at = code->enclosures[at].parent) {
      const Enclosure& e = code->enclosures[at];
      if (ref.offset > e.last) continue;
      Die die = DieAt({e.first, false});
      if (!die) break;
      std::string name;
      ForEachAttribute(dbg(), die.get(), [&](Dwarf_Half number, Dwarf_Attribute a) {
        if (number == DW_AT_name) name = StringOf(dbg(), a);
      });
      if (name.empty()) {
        ErrorSink error(dbg());
        Dwarf_Half tag = 0;
        dwarf_tag(die.get(), &tag, error);
        name = tag == DW_TAG_namespace ? "(anonymous namespace)"
               : plain == "operator()" ? "{lambda}"
                                       : "{unnamed}";
      }
      qualified = absl::StrCat(name, "::", qualified);
    }
    return qualified;
  }

  const DemangledName& NameOf(DieRef ref) {
    auto [it, inserted] = names.try_emplace(ref);
    if (!inserted) return it->second;
    std::string linkage, plain;
    DieRef at = ref, named = ref;
    for (int i = 0; i < kMaxReferences; ++i) {
      Die die = DieAt(at);
      if (!die) break;
      std::optional<DieRef> next;
      ForEachAttribute(dbg(at.alt), die.get(), [&](Dwarf_Half number, Dwarf_Attribute a) {
        switch (number) {
          case DW_AT_name:
            // Of a member function the declaration, which comes last, is inside its class.
            plain = StringOf(dbg(at.alt), a);
            named = at;
            break;
          case DW_AT_linkage_name:
          case DW_AT_MIPS_linkage_name:
            if (linkage.empty()) linkage = StringOf(dbg(at.alt), a);
            break;
          case DW_AT_abstract_origin:
          case DW_AT_specification:
            next = ReferenceOf(a, at.alt);
            break;
          default:
            break;
        }
      });
      if (!next || !linkage.empty()) break;
      at = *next;
    }
    DemangledName& name = it->second;
    if (linkage.substr(0, 2) == "_Z") {
      name = Demangle(linkage);
      // Too intricate: the plain name says more than the mangled one.
      if (name.name == linkage && !plain.empty()) name.name = name.full = Qualify(named, plain);
    } else {
      // Compilers leave the linkage name out where the linkage is internal.
      std::string qualified = linkage.empty() && !plain.empty() ? Qualify(named, plain) : plain;
      name.symbol = linkage.empty() ? qualified : linkage;
      name.name = name.full = qualified.empty() ? linkage : qualified;
    }
    return name;
  }

  // --- lines ---

  void ReadFiles(Unit* unit, Dwarf_Line_Context context, Dwarf_Die die) const {
    if (unit->files_read) return;
    unit->files_read = true;
    ErrorSink error(dbg());
    std::string directory;
    ForEachAttribute(dbg(), die, [&](Dwarf_Half number, Dwarf_Attribute a) {
      if (number == DW_AT_comp_dir) directory = StringOf(dbg(), a);
    });
    Dwarf_Unsigned version = 0;
    Dwarf_Small tables = 0;
    dwarf_srclines_version(context, &version, &tables, error);
    std::vector<std::string> directories;
    Dwarf_Signed count = 0;
    dwarf_srclines_include_dir_count(context, &count, error);
    // Before DWARF 5 directory 0 is not stored.
    if (version < 5) directories.push_back(directory);
    for (Dwarf_Signed i = version < 5 ? 1 : 0; i < count + (version < 5 ? 1 : 0); ++i) {
      const char* text = nullptr;
      if (dwarf_srclines_include_dir_data(context, i, &text, error) != DW_DLV_OK) text = nullptr;
      std::string name = text == nullptr ? "" : text;
      // In DWARF 5 directory 0 is the compilation directory itself.
      if (i > 0 && !name.empty() && name[0] != '/' && !directory.empty()) {
        name = absl::StrCat(directory, "/", name);
      }
      directories.push_back(std::move(name));
    }
    Dwarf_Signed base = 0, end = 0;
    if (dwarf_srclines_files_indexes(context, &base, &count, &end, error) != DW_DLV_OK) return;
    for (Dwarf_Signed i = 0; i < base; ++i) unit->files.emplace_back();
    for (Dwarf_Signed i = base; i < end; ++i) {
      const char* text = nullptr;
      Dwarf_Unsigned dir = 0, modified = 0, size = 0;
      Dwarf_Form_Data16* md5 = nullptr;
      if (dwarf_srclines_files_data_b(context, i, &text, &dir, &modified, &size, &md5, error) !=
              DW_DLV_OK ||
          text == nullptr) {
        unit->files.emplace_back();
        continue;
      }
      std::string name = text;
      if (!name.empty() && name[0] != '/' && dir < directories.size() &&
          !directories[dir].empty()) {
        name = absl::StrCat(directories[dir], "/", name);
      }
      unit->files.push_back(NormalizePath(name));
    }
  }

  // Calls `use(context)` with the unit's line table header, if there is one.
  template <class Use>
  void WithLineContext(Unit* unit, Use use) const {
    Die die = DieAt({unit->die, false});
    if (!die) return;
    ErrorSink error(dbg());
    Dwarf_Unsigned version = 0;
    Dwarf_Small tables = 0;
    Dwarf_Line_Context context = nullptr;
    if (dwarf_srclines_b(die.get(), &version, &tables, &context, error) != DW_DLV_OK) return;
    ReadFiles(unit, context, die.get());
    use(context);
    dwarf_srclines_dealloc_b(context);
  }

  const std::vector<std::string>& FilesOf(Unit* unit) const {
    if (!unit->files_read) WithLineContext(unit, [](Dwarf_Line_Context) {});
    unit->files_read = true;
    return unit->files;
  }

  const UnitLines& LinesOf(Unit* unit) const {
    if (unit->lines != nullptr) return *unit->lines;
    auto lines = std::make_shared<UnitLines>();
    WithLineContext(unit, [&](Dwarf_Line_Context context) {
      ErrorSink error(dbg());
      Dwarf_Line* list = nullptr;
      Dwarf_Signed count = 0;
      if (dwarf_srclines_from_linecontext(context, &list, &count, error) != DW_DLV_OK) return;
      size_t first = 0;
      bool ascending = true;
      for (Dwarf_Signed i = 0; i < count; ++i) {
        Dwarf_Addr address = 0;
        Dwarf_Unsigned line = 0, file = 0;
        Dwarf_Bool is_stmt = 0, end = 0;
        if (dwarf_lineaddr(list[i], &address, error) != DW_DLV_OK ||
            dwarf_lineendsequence(list[i], &end, error) != DW_DLV_OK) {
          continue;
        }
        dwarf_lineno(list[i], &line, error);
        dwarf_line_srcfileno(list[i], &file, error);
        dwarf_linebeginstatement(list[i], &is_stmt, error);
        auto& rows = lines->rows;
        if (rows.size() > first && address < rows.back().address) ascending = false;
        if (!end) {
          rows.push_back({address, static_cast<uint32_t>(std::min<Dwarf_Unsigned>(line, INT32_MAX)),
                          static_cast<uint32_t>(std::min<Dwarf_Unsigned>(file, UINT32_MAX)),
                          is_stmt != 0});
          continue;
        }
        bool keep = ascending && rows.size() > first && rows[first].address < address &&
                    is_code(rows[first].address);
        if (keep) {
          lines->sequences.push_back({rows[first].address, address, static_cast<uint32_t>(first),
                                      static_cast<uint32_t>(rows.size())});
        } else {
          rows.resize(first);
        }
        first = rows.size();
        ascending = true;
      }
      lines->rows.resize(first);
    });
    lines->rows.shrink_to_fit();
    std::sort(lines->sequences.begin(), lines->sequences.end(),
              [](const Sequence& a, const Sequence& b) { return a.begin < b.begin; });
    unit->lines = std::move(lines);
    return *unit->lines;
  }

  static const Row* RowAt(const UnitLines& lines, uint64_t address) {
    auto it = std::upper_bound(lines.sequences.begin(), lines.sequences.end(), address,
                               [](uint64_t a, const Sequence& s) { return a < s.begin; });
    if (it == lines.sequences.begin()) return nullptr;
    --it;
    if (address >= it->end) return nullptr;
    auto begin = lines.rows.begin() + it->first_row, end = lines.rows.begin() + it->end_row;
    // Of several rows for one address the last counts: it ends the others' empty ranges. As in gdb,
    // one where a statement begins goes before one where none does.
    auto row = std::upper_bound(begin, end, address,
                                [](uint64_t a, const Row& r) { return a < r.address; });
    if (row == begin) return nullptr;
    auto statement = --row;
    while (!statement->is_stmt && statement != begin &&
           std::prev(statement)->address == row->address && std::prev(statement)->line != 0) {
      --statement;
    }
    return statement->is_stmt ? &*statement : &*row;
  }

  static const std::string& FileName(const Unit& unit, uint64_t file) {
    static const std::string kNone;
    return file < unit.files.size() ? unit.files[file] : kNone;
  }

  // --- variables ---

  void ReadVariable(const Unit& unit, Dwarf_Die die, Dwarf_Off offset,
                    std::vector<StaticVariable>* out) const {
    StaticVariable variable{{offset, false}, 0, 0, false};
    bool found = false;
    std::optional<DieRef> type, origin;
    ForEachAttribute(dbg(), die, [&](Dwarf_Half number, Dwarf_Attribute a) {
      ErrorSink error(dbg());
      if (number == DW_AT_location && Form(dbg(), a) == DW_FORM_exprloc) {
        Dwarf_Unsigned length = 0;
        Dwarf_Ptr block = nullptr;
        if (dwarf_formexprloc(a, &length, &block, error) != DW_DLV_OK || length == 0) return;
        Cursor cursor(Bytes(static_cast<const uint8_t*>(block), length), 0);
        uint8_t op = cursor.Fixed<uint8_t>();
        if (op == DW_OP_addr && length == 9) {
          variable.address = cursor.Fixed<uint64_t>();
          found = true;
        } else if (op == DW_OP_addrx) {
          std::optional<uint64_t> address = AddressByIndex(unit, cursor.Uleb());
          // Another operator after it: not a plain address.
          if (address && cursor.ok() && (cursor.Fixed<uint8_t>(), !cursor.ok())) {
            variable.address = *address;
            found = true;
          }
        }
      } else if (number == DW_AT_type) {
        type = ReferenceOf(a, false);
      } else if (number == DW_AT_specification || number == DW_AT_abstract_origin) {
        origin = ReferenceOf(a, false);
      } else if (number == DW_AT_external) {
        variable.external = true;
      }
    });
    if (!found || variable.address == 0) return;
    if (origin) {
      Die declaration = DieAt(*origin);
      if (declaration) {
        ForEachAttribute(dbg(origin->alt), declaration.get(),
                         [&](Dwarf_Half number, Dwarf_Attribute a) {
                           if (number == DW_AT_type && !type) type = ReferenceOf(a, origin->alt);
                           if (number == DW_AT_external) variable.external = true;
                         });
      }
    }
    if (type) variable.size = SizeOf(*type, 0);
    out->push_back(variable);
  }

  // In bytes; 0: unknown.
  uint64_t SizeOf(DieRef ref, int depth) const {
    Die die = DieAt(ref);
    if (!die || depth > kMaxReferences) return 0;
    Dwarf_Debug d = dbg(ref.alt);
    ErrorSink error(d);
    Dwarf_Half tag = 0;
    dwarf_tag(die.get(), &tag, error);
    std::optional<uint64_t> size;
    std::optional<DieRef> type;
    ForEachAttribute(d, die.get(), [&](Dwarf_Half number, Dwarf_Attribute a) {
      if (number == DW_AT_byte_size) size = Constant(d, a);
      if (number == DW_AT_type) type = ReferenceOf(a, ref.alt);
    });
    if (size) return *size;
    if (tag == DW_TAG_pointer_type || tag == DW_TAG_reference_type ||
        tag == DW_TAG_rvalue_reference_type) {
      return 8;
    }
    if (!type) return 0;
    uint64_t element = SizeOf(*type, depth + 1);
    if (tag != DW_TAG_array_type) return element;
    Dwarf_Die raw = nullptr;
    int r = dwarf_child(die.get(), &raw, error);
    for (int i = 0; r == DW_DLV_OK && i < kMaxReferences; ++i) {
      Die dimension(raw);
      std::optional<uint64_t> count;
      ForEachAttribute(d, dimension.get(), [&](Dwarf_Half number, Dwarf_Attribute a) {
        if (number == DW_AT_count) count = Constant(d, a);
        if (number == DW_AT_upper_bound) {
          if (auto bound = Constant(d, a)) count = *bound + 1;
        }
      });
      if (!count || (*count != 0 && element > UINT64_MAX / *count)) return 0;
      element *= *count;
      r = dwarf_siblingof_b(d, dimension.get(), 1, &raw, error);
    }
    return element;
  }

  const std::vector<StaticVariable>& Variables() {
    if (!variables) {
      variables.emplace();
      for (Unit& unit : units) {
        WalkSiblings({unit, nullptr, &*variables}, DieAt({unit.die, false}), -1, -1, 0);
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

std::unique_ptr<DwarfInfo> DwarfInfo::Open(const ElfFile& file, const ElfFile* alt,
                                           std::function<bool(uint64_t)> is_code) {
  auto impl = std::make_unique<Impl>();
  impl->is_code = std::move(is_code);
  if (alt != nullptr) impl->alt = Debug::Open(*alt);
  impl->debug = Debug::Open(file);
  if (impl->debug == nullptr) return nullptr;
  if (impl->alt != nullptr) {
    ErrorSink error(impl->dbg());
    dwarf_set_tied_dbg(impl->dbg(), impl->alt->get(), error);
  }
  impl->ReadUnits();
  if (impl->units.empty()) return nullptr;
  return std::unique_ptr<DwarfInfo>(new DwarfInfo(std::move(impl)));
}

bool DwarfInfo::Locate(uint64_t address, Place* place) {
  Unit* unit = impl_->UnitAt(address);
  if (unit == nullptr) return false;
  if (const Row* row = Impl::RowAt(impl_->LinesOf(unit), address)) {
    place->file = Impl::FileName(*unit, row->file);
    place->line = static_cast<int>(row->line);
  }
  std::shared_ptr<const UnitCode> code = impl_->CodeOf(unit);
  std::vector<int32_t> chain;  // outermost first
  int32_t parent = -1;
  while (const Piece* piece = Impl::PieceAt(*code, parent, address)) {
    if (parent < 0) place->offset = address - piece->begin;
    parent = piece->scope;
    chain.push_back(parent);
  }
  std::string file = place->file;
  int line = place->line;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    const Scope& scope = code->scopes[*it];
    const DemangledName& name = impl_->NameOf(scope.name);
    place->frames.push_back({name.name, name.symbol, file, line});
    file = Impl::FileName(*unit, scope.call_file);
    line = static_cast<int>(scope.call_line);
  }
  return true;
}

std::optional<FunctionInfo> DwarfInfo::FunctionAt(uint64_t address) {
  Unit* unit = impl_->UnitAt(address);
  if (unit == nullptr) return std::nullopt;
  std::shared_ptr<const UnitCode> code = impl_->CodeOf(unit);
  const Piece* piece = Impl::PieceAt(*code, -1, address);
  if (piece == nullptr) return std::nullopt;
  return impl_->ConcreteFunction(*code, piece->scope);
}

std::vector<FunctionInfo> DwarfInfo::FindFunctions(const NameMatcher& matcher) {
  std::vector<FunctionInfo> found;
  if (!impl_->MayContain(matcher.required())) return found;
  absl::flat_hash_map<DieRef, bool> matches;
  absl::flat_hash_map<std::string, size_t> by_symbol;  // where inlined copies go
  struct Copy {
    std::string name, symbol;
    std::vector<CodeRange> ranges;
  };
  std::vector<Copy> copies;
  for (Unit& unit : impl_->units) {
    if (unit.ranges.empty()) continue;
    std::shared_ptr<const UnitCode> code = impl_->CodeOf(&unit);
    absl::flat_hash_map<int32_t, size_t> copy_of_scope;
    for (size_t i = 0; i < code->scopes.size(); ++i) {
      const Scope& scope = code->scopes[i];
      auto [it, inserted] = matches.try_emplace(scope.name, false);
      if (inserted) {
        const DemangledName& name = impl_->NameOf(scope.name);
        it->second = !name.name.empty() &&
                     (matcher.MayMatch(name.symbol) || matcher.MayMatch(name.name)) &&
                     matcher.Matches(name);
      }
      if (!it->second) continue;
      if (!scope.inlined()) {
        FunctionInfo f = impl_->ConcreteFunction(*code, static_cast<int32_t>(i));
        by_symbol.try_emplace(f.symbol, found.size());
        found.push_back(std::move(f));
        continue;
      }
      copy_of_scope[static_cast<int32_t>(i)] = copies.size();
      const DemangledName& name = impl_->NameOf(scope.name);
      copies.push_back({name.name, name.symbol, {}});
    }
    if (copy_of_scope.empty()) continue;
    for (const Piece& piece : code->pieces) {
      auto it = copy_of_scope.find(piece.scope);
      if (it == copy_of_scope.end()) continue;
      int32_t outer = piece.scope;
      while (code->scopes[outer].parent >= 0) outer = code->scopes[outer].parent;
      copies[it->second].ranges.push_back({{Address(piece.begin), Address(piece.end)},
                                           CodeRange::Kind::kInlined,
                                           Address(code->scopes[piece.scope].entry),
                                           impl_->NameOf(code->scopes[outer].name).name});
    }
  }
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
  std::set<DieRef, bool (*)(const DieRef&, const DieRef&)> seen(
      [](const DieRef& a, const DieRef& b) {
        return std::tie(a.alt, a.offset) < std::tie(b.alt, b.offset);
      });
  for (Unit& unit : impl_->units) {
    if (unit.ranges.empty()) continue;
    std::shared_ptr<const UnitCode> code = impl_->CodeOf(&unit);
    for (const Scope& scope : code->scopes) {
      if (seen.insert(scope.name).second) suggestions->Add(impl_->NameOf(scope.name).name);
    }
  }
}

std::vector<LineMatch> DwarfInfo::FindLine(std::string_view file, int line, bool next) {
  std::string tail = NormalizePath(file);
  // Files by full name, so that a header seen by several units is one file.
  std::map<std::string, std::vector<std::pair<Unit*, std::vector<bool>>>> by_file;
  for (Unit& unit : impl_->units) {
    if (unit.ranges.empty()) continue;
    std::map<std::string, std::vector<bool>> here;
    const std::vector<std::string>& files = impl_->FilesOf(&unit);
    for (size_t i = 0; i < files.size(); ++i) {
      if (!PathEndsWith(files[i], tail)) continue;
      auto& mask = here[files[i]];
      mask.resize(files.size());
      mask[i] = true;
    }
    for (auto& [name, mask] : here) by_file[name].push_back({&unit, std::move(mask)});
  }
  std::vector<LineMatch> found;
  for (auto& [name, places] : by_file) {
    uint32_t best = UINT32_MAX;
    for (auto& [unit, mask] : places) {
      for (const Row& row : impl_->LinesOf(unit).rows) {
        if (row.is_stmt && row.file < mask.size() && mask[row.file] &&
            row.line >= static_cast<uint32_t>(std::max(line, 1)) && row.line < best) {
          best = row.line;
        }
      }
    }
    if (best == UINT32_MAX || (!next && best != static_cast<uint32_t>(line))) continue;
    for (auto& [unit, mask] : places) {
      const UnitLines& lines = impl_->LinesOf(unit);
      for (const Sequence& sequence : lines.sequences) {
        for (uint32_t i = sequence.first_row; i < sequence.end_row; ++i) {
          const Row& row = lines.rows[i];
          if (!row.is_stmt || row.line != best || row.file >= mask.size() || !mask[row.file]) {
            continue;
          }
          // Up to the first address of another line. Of several rows for one address the last
          // says what its code is for.
          uint64_t end = sequence.end;
          for (uint32_t j = i + 1; j < sequence.end_row; ++j) {
            const Row& after = lines.rows[j];
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
  for (Unit& unit : impl_->units) {
    if (unit.ranges.empty()) continue;
    for (const std::string& file : impl_->FilesOf(&unit)) {
      std::string_view base = std::string_view(file).substr(file.rfind('/') + 1);
      if (seen.insert(base).second) suggestions->Add(base);
    }
  }
}

std::vector<VariableInfo> DwarfInfo::FindVariables(const NameMatcher& matcher) {
  std::vector<VariableInfo> found;
  if (!impl_->MayContain(matcher.required())) return found;
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
