// SPDX-License-Identifier: MIT

#include "query/code/die.h"

#include <elf.h>
#include <emmintrin.h>
#include <libdwarf/dwarf.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "base/threads.h"
#include "query/code/dwarf_sections.h"
#include "query/code/names.h"

namespace ttq {
namespace {

constexpr size_t kMaxAbbrevs = 1u << 20;
constexpr size_t kMaxUnits = 1u << 22;

// Codes up to this are found by index.
constexpr uint64_t kDenseCodes = 1u << 16;

// What a form takes in a DIE: bytes, offsets of the unit's size; nothing when that depends.
struct FormSize {
  uint8_t bytes, offsets;
};
std::optional<FormSize> SizeOfForm(uint64_t form) {
  switch (form) {
    case DW_FORM_flag_present:
    case DW_FORM_implicit_const:
      return FormSize{0, 0};
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_flag:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
      return FormSize{1, 0};
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
      return FormSize{2, 0};
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
      return FormSize{3, 0};
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
    case DW_FORM_ref_sup4:
      return FormSize{4, 0};
    case DW_FORM_addr:
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
      return FormSize{8, 0};
    case DW_FORM_data16:
      return FormSize{16, 0};
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_strp_sup:
    case DW_FORM_sec_offset:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
      return FormSize{0, 1};
    default:
      return std::nullopt;
  }
}

}  // namespace

bool DwarfRoot::is_cpp() const {
  return language == DW_LANG_C_plus_plus || language == DW_LANG_C_plus_plus_03 ||
         language == DW_LANG_C_plus_plus_11 || language == DW_LANG_C_plus_plus_14 ||
         language == 0x2b /* C++17 */ || language == 0x2c /* C++20 */;
}

const DwarfAbbrev* DwarfAbbrevs::Find(uint64_t code) const {
  if (code == 0) return nullptr;
  if (code <= dense_.size()) {
    const DwarfAbbrev& found = dense_[code - 1];
    return found.tag != 0 ? &found : nullptr;
  }
  for (const auto& [key, abbrev] : rest_) {
    if (key == code) return &abbrev;
  }
  return nullptr;
}

namespace {

bool IsName(uint64_t attribute) {
  return attribute == DW_AT_name || attribute == DW_AT_linkage_name ||
         attribute == DW_AT_MIPS_linkage_name;
}

// Of an attribute and its form. A DIE of another unit may have the name, or a supplementary file.
bool NamesElsewhere(uint64_t attribute, uint64_t form) {
  switch (form) {
    case DW_FORM_ref_addr:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
    case DW_FORM_GNU_ref_alt:
      return attribute == DW_AT_abstract_origin || attribute == DW_AT_specification;
    case DW_FORM_strp_sup:
    case DW_FORM_GNU_strp_alt:
    case DW_FORM_line_strp:
      return IsName(attribute);
    case DW_FORM_indirect:  // any of these
      return true;
    default:
      return false;
  }
}
bool NamesByIndex(uint64_t attribute, uint64_t form) {
  switch (form) {
    case DW_FORM_strx:
    case DW_FORM_strx1:
    case DW_FORM_strx2:
    case DW_FORM_strx3:
    case DW_FORM_strx4:
    case DW_FORM_GNU_str_index:
      return IsName(attribute);
    default:
      return false;
  }
}

// How a name may end in an identifier: "NAME", "NAME<int>", or mangled, with its length before it.
struct NameEnd {
  size_t at;
  bool plain, mangled;
};

// Calls `use(end)`, which says whether to go on, with each such place in the bytes.
template <class Use>
void ForEachNameEnd(ByteSpan bytes, std::string_view identifier, Use use) {
  const std::string length = std::to_string(identifier.size());
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t at = all.find(identifier); at != all.npos; at = all.find(identifier, at + 1)) {
    const size_t end = at + identifier.size();
    const bool plain = end == all.size() || !IsIdentifierChar(all[end]);
    const bool mangled =
        at >= length.size() && all.substr(at - length.size(), length.size()) == length;
    if ((plain || mangled) && !use(NameEnd{at, plain, mangled})) return;
  }
}

// Calls `use` with each offset in `strings` at which a name begins that may end in the identifier.
// A string may begin within another.
template <class Use>
void ForEachOffsetOfName(ByteSpan strings, std::string_view identifier, Use use) {
  const std::string_view all(reinterpret_cast<const char*>(strings.data()), strings.size());
  size_t end = 0, next = 0;  // of the string, and in it what is to be looked at
  ForEachNameEnd(strings, identifier, [&](const NameEnd& name) {
    if (name.plain) use(name.at);
    if (!name.mangled) return true;
    if (name.at >= end) {
      next = all.rfind('\0', name.at) + 1;  // npos + 1 is 0
      end = std::min(all.find('\0', name.at), all.size());
    }
    // Rust's mangling and D's are told by the beginning alone.
    for (; next + 1 < name.at; ++next) {
      const char kind = all[next + 1];
      if (all[next] == '_' && (kind == 'Z' || kind == 'R' || kind == 'D')) use(next);
    }
    return true;
  });
}

// Offsets in a section of strings: a bit each; and a bit for each 64 of them that has one, which
// stay in the processor's cache. The last 4096, beyond all strings, have none.
class MarkedOffsets {
 public:
  explicit MarkedOffsets(uint64_t size) : marks_(size / 64 + 1), blocks_(size / 4096 + 2) {}
  void Mark(uint64_t offset) {
    if (Has(offset)) return;
    marks_[offset / 64] |= uint64_t{1} << offset % 64;
    blocks_[offset / 4096] |= uint64_t{1} << offset / 64 % 64;
    all_.push_back(static_cast<uint32_t>(offset));
  }
  bool Has(uint64_t offset) const {
    const uint64_t block = blocks_[std::min<uint64_t>(offset / 4096, blocks_.size() - 1)];
    return (block >> offset / 64 % 64 & 1) != 0 && (marks_[offset / 64] >> offset % 64 & 1) != 0;
  }

  // Of the 16 words that begin at `bytes` and at the bytes after it: a bit for each that may be
  // marked. REQUIRES: few(); 17 bytes can be read.
  bool few() const { return all_.size() <= 8; }
  uint32_t MayHold(const uint8_t* bytes) const {
    const auto from = [bytes](int n) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + n));
    };
    const auto all = [](uint32_t byte) { return _mm_set1_epi8(static_cast<char>(byte)); };
    __m128i hits = _mm_setzero_si128();
    for (const uint32_t offset : all_) {
      hits = _mm_or_si128(hits, _mm_and_si128(_mm_cmpeq_epi8(from(0), all(offset)),
                                              _mm_cmpeq_epi8(from(1), all(offset >> 8))));
    }
    return static_cast<uint32_t>(_mm_movemask_epi8(hits));
  }

 private:
  std::vector<uint64_t> marks_, blocks_;
  std::vector<uint32_t> all_;
};

// Whether one of the words of four bytes, each `step` bytes from the last, is marked.
bool RefersToMarked(ByteSpan bytes, uint64_t step, const MarkedOffsets& marked) {
  const auto is_marked = [&](uint64_t at) {
    uint32_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return marked.Has(word);
  };
  uint64_t at = 0;
  for (; step == 1 && marked.few() && at + 19 <= bytes.size(); at += 16) {
    for (uint32_t may = marked.MayHold(bytes.data() + at); may != 0; may &= may - 1) {
      if (is_marked(at + static_cast<uint64_t>(std::countr_zero(may)))) return true;
    }
  }
  for (; at + 4 <= bytes.size(); at += step) {
    if (is_marked(at)) return true;
  }
  return false;
}

// Whether such a name stands in the bytes themselves, as short ones do.
bool HasName(ByteSpan bytes, std::string_view identifier) {
  bool has = false;
  ForEachNameEnd(bytes, identifier, [&has](const NameEnd&) {
    has = true;
    return false;
  });
  return has;
}

}  // namespace

void DwarfAbbrevs::Read(ByteSpan section, uint64_t offset) {
  using Attribute = DwarfAbbrev::Attribute;
  struct Entry {
    uint64_t code;
    size_t first, count;  // in attributes_
    DwarfAbbrev abbrev;
  };
  std::vector<Entry> entries;
  ByteCursor cursor(section, offset);
  for (size_t n = 0; n < kMaxAbbrevs; ++n) {
    Entry entry = {cursor.Uleb(), attributes_.size(), 0, {}};
    if (!cursor.ok() || entry.code == 0) break;
    DwarfAbbrev& abbrev = entry.abbrev;
    abbrev.tag = static_cast<uint16_t>(cursor.Uleb());
    abbrev.children = cursor.Fixed<uint8_t>() != 0;
    for (;;) {
      const uint64_t name = cursor.Uleb(), form = cursor.Uleb();
      const int64_t implicit = form == DW_FORM_implicit_const ? cursor.Sleb() : 0;
      if (!cursor.ok() || (name == 0 && form == 0)) break;
      const bool has_place = abbrev.is_fixed && abbrev.fixed_size < Attribute::kVaries &&
                             abbrev.offsets < Attribute::kVaries;
      attributes_.push_back(
          {static_cast<uint16_t>(name), static_cast<uint16_t>(form),
           has_place ? static_cast<uint16_t>(abbrev.fixed_size) : Attribute::kVaries,
           static_cast<uint16_t>(abbrev.offsets), implicit});
      if (abbrev.tag != DW_TAG_compile_unit) {  // its name is a file's
        names_elsewhere_ = names_elsewhere_ || NamesElsewhere(name, form);
        names_by_index_ = names_by_index_ || NamesByIndex(name, form);
      }
      const std::optional<FormSize> size = SizeOfForm(form);
      abbrev.is_fixed = abbrev.is_fixed && size;
      if (size) {
        abbrev.fixed_size += size->bytes;
        abbrev.offsets += size->offsets;
      }
    }
    if (!cursor.ok()) break;
    entry.count = attributes_.size() - entry.first;
    entries.push_back(entry);
  }
  for (Entry& entry : entries) {
    entry.abbrev.attributes = absl::MakeConstSpan(attributes_).subspan(entry.first, entry.count);
    if (entry.code <= kDenseCodes) {
      if (dense_.size() < entry.code) dense_.resize(entry.code);
      dense_[entry.code - 1] = entry.abbrev;
    } else if (rest_.size() < 1024) {
      rest_.emplace_back(entry.code, entry.abbrev);
    }
  }
}

DwarfData::~DwarfData() = default;

std::shared_ptr<const DwarfData> DwarfData::Open(const ElfFile& file, const ElfFile* alt) {
  std::shared_ptr<DwarfData> data(new DwarfData);
  data->lazy_ = std::make_unique<Lazy>();
  const auto stream = [&data](const ElfFile& from, std::string_view name, Section to) {
    SectionStream& info = data->lazy_->info[to];
    info = SectionOf(from, name);
    data->info_[to] = info.image();
  };
  stream(file, ".debug_info", kInfo);
  if (alt != nullptr) stream(*alt, ".debug_info", kAlt);
  stream(file, ".debug_types", kTypes);
  // Without these no DIE can be read. They are decompressed at the same time.
  std::vector<std::pair<SectionStream, FileImage*>> needed;
  const auto need = [&](const ElfFile& from, int which) {
    needed.emplace_back(SectionOf(from, ".debug_str"), &data->str_[which]);
    needed.emplace_back(SectionOf(from, ".debug_abbrev"), &data->abbrev_[which]);
    needed.emplace_back(SectionOf(from, ".debug_line_str"), &data->line_str_[which]);
    needed.emplace_back(SectionOf(from, ".debug_str_offsets"), &data->str_offsets_[which]);
  };
  need(file, 0);
  if (alt != nullptr) need(*alt, 1);
  for (const auto& [section, to] : needed) {
    if (section.Finish().ok()) *to = section.image();
  }
  const auto later = std::make_shared<const ElfFile>(file);
  for (int i = 0; i < Lazy::kOfCode; ++i) data->lazy_->of_code[i].Set(later, Lazy::kNames[i]);
  if (data->info_[kInfo].empty() || data->abbrev_[0].empty()) return nullptr;
  const auto pending = [](const SectionStream& stream) { return stream.pending(); };
  if (std::none_of(data->lazy_->info, std::end(data->lazy_->info), pending) &&
      data->units().empty()) {
    return nullptr;
  }
  return data;
}

// Reads the next header, should it be there. False: it was the last of all sections.
bool DwarfData::Lazy::ReadUnit() {
  if (has_all_units) return false;
  for (; section < kSections; first_unit[section] = units.size()) {
    if (ReadUnitOf(info[section])) return true;
    ++section;
    next = 0;
  }
  for (const DwarfUnit& unit : units) {
    if (unit.type_die != 0) signatures.emplace(unit.signature, unit.index);
  }
  has_all_units.store(true, std::memory_order_release);
  return false;
}

bool DwarfData::Lazy::ReadUnitOf(const SectionStream& stream) {
  constexpr uint64_t kLongestHeader = 64;
  const uint64_t size = stream.image().bytes().size();
  while (next < size && units.size() < kMaxUnits) {
    // DWARF 5 section 7.5.1.
    const uint64_t at = next;
    ByteCursor cursor(stream.image().bytes().subspan(0, stream.Wait(at + kLongestHeader)), at);
    DwarfUnit unit;
    unit.section = section;
    unit.begin = at;
    uint64_t length = cursor.Fixed<uint32_t>();
    if (length == 0xffffffff) {
      unit.offset_size = 8;
      length = cursor.Fixed<uint64_t>();
    }
    const uint64_t after = cursor.at();
    if (!cursor.ok() || length > size - after) return false;
    unit.end = after + length;
    unit.version = cursor.Fixed<uint16_t>();
    uint8_t address_size = 8;
    if (unit.version >= 5) {
      unit.type = cursor.Fixed<uint8_t>();
      address_size = cursor.Fixed<uint8_t>();
      unit.abbrev_offset = cursor.Number(unit.offset_size);
      if (unit.type == DW_UT_skeleton || unit.type == DW_UT_split_compile) cursor.Fixed<uint64_t>();
    } else {
      unit.abbrev_offset = cursor.Number(unit.offset_size);
      address_size = cursor.Fixed<uint8_t>();
      unit.type = section == kTypes ? DW_UT_type : DW_UT_compile;
    }
    if (unit.type == DW_UT_type || unit.type == DW_UT_split_type) {
      unit.signature = cursor.Fixed<uint64_t>();
      unit.type_die = at + cursor.Number(unit.offset_size);
    }
    unit.first = cursor.at();
    if (stream.Wait(unit.end) < unit.end) return false;
    next = unit.end;
    if (cursor.ok() && address_size == 8 && unit.version >= 2 && unit.version <= 5 &&
        unit.first < unit.end) {
      unit.index = units.size();
      units.push_back(unit);
      return true;
    }
  }
  return false;
}

void DwarfData::ReadAheadOfCode() const {
  for (SectionOnDemand& section : lazy_->of_code) section.Begin();
}

ByteSpan DwarfData::Lines() const { return lazy_->of_code[Lazy::kLine].bytes(); }

const std::deque<DwarfUnit>& DwarfData::units() const {
  Lazy& lazy = *lazy_;
  if (!lazy.has_all_units.load(std::memory_order_acquire)) {
    std::lock_guard lock(lazy.units_mutex);
    while (lazy.ReadUnit()) {
    }
  }
  return lazy.units;
}

const DwarfUnit* DwarfData::UnitAtIndex(size_t index) const {
  Lazy& lazy = *lazy_;
  std::lock_guard lock(lazy.units_mutex);
  while (index >= lazy.units.size()) {
    if (!lazy.ReadUnit()) return nullptr;
  }
  return &lazy.units[index];
}

size_t DwarfData::ThreadsForUnits() const {
  constexpr uint64_t kWorthAThread = 16 << 20;
  return InfoSize() < kWorthAThread ? 1 : UsefulThreads();
}

void DwarfData::ForEachUnit(const std::function<void(size_t, const DwarfUnit&)>& use) const {
  std::atomic<size_t> next{0};
  InParallel(ThreadsForUnits(), [&](size_t thread) {
    while (const DwarfUnit* unit = UnitAtIndex(next++)) use(thread, *unit);
  });
}

const DwarfUnit* DwarfData::UnitOf(DieRef ref) const {
  if (!ref.valid() || ref.section >= kSections) return nullptr;
  const std::deque<DwarfUnit>& all = units();
  const auto begin = all.begin() + lazy_->first_unit[ref.section],
             end = all.begin() + lazy_->first_unit[ref.section + 1];
  auto it = std::upper_bound(begin, end, ref.offset,
                             [](uint64_t o, const DwarfUnit& u) { return o < u.begin; });
  if (it == begin) return nullptr;
  --it;
  return ref.offset >= it->first && ref.offset < it->end ? &*it : nullptr;
}

const DwarfRoot& DwarfData::RootOf(const DwarfUnit& unit) const {
  std::lock_guard<std::mutex> lock(lazy_->mutex);
  if (lazy_->roots.size() <= unit.index) lazy_->roots.resize(unit.index + 1);
  std::unique_ptr<const DwarfRoot>& slot = lazy_->roots[unit.index];
  if (slot) return *slot;
  auto root = std::make_unique<DwarfRoot>();
  const bool alt = unit.section == kAlt;
  auto& abbrevs = lazy_->abbrevs[{alt, unit.abbrev_offset}];
  if (!abbrevs) {
    auto table = std::make_shared<DwarfAbbrevs>();
    table->Read(abbrev_[alt].bytes(), unit.abbrev_offset);
    abbrevs = std::move(table);
  }
  root->abbrevs = abbrevs;
  // Without a base attribute the first table of the section is meant, after its header.
  root->str_offsets_base = unit.offset_size == 8 ? 16 : 8;
  root->addr_base = unit.version >= 5 ? 8 : 0;
  Die die;
  die.data_ = this;
  die.unit_ = &unit;
  die.root_ = root.get();
  die.ref_ = {unit.first, unit.section};
  ByteCursor cursor(Bytes(unit.section), unit.first);
  die.abbrev_ = root->abbrevs->Find(cursor.Uleb());
  die.attributes_ = cursor.at();
  root->tag = die.tag();
  std::optional<DieAttribute> low;
  die.ForEach([&](const DieAttribute& a) {
    switch (a.name) {
      case DW_AT_str_offsets_base:
        root->str_offsets_base = a.value;
        break;
      case DW_AT_addr_base:
      case DW_AT_GNU_addr_base:
        root->addr_base = a.value;
        break;
      case DW_AT_rnglists_base:
        root->rnglists_base = a.value;
        break;
      case DW_AT_loclists_base:
        root->loclists_base = a.value;
        break;
      case DW_AT_language:
        root->language = static_cast<uint16_t>(a.value);
        break;
      case DW_AT_low_pc:
        low = a;
        break;
      default:
        break;
    }
  });
  if (low) {
    if (low->form == DW_FORM_addr) {
      root->low_pc = low->value;
    } else {
      ByteCursor table(lazy_->of_code[Lazy::kAddr].bytes(),
                       root->addr_base + (low->value & 0xffffffff) * 8);
      root->low_pc = table.Fixed<uint64_t>();
    }
  }
  slot = std::move(root);
  return *slot;
}

Die DwarfData::At(const DwarfUnit& unit, uint64_t offset) const {
  return At(unit, RootOf(unit), offset);
}

Die DwarfData::At(const DwarfUnit& unit, const DwarfRoot& root, uint64_t offset) const {
  Die die;
  if (offset < unit.first || offset >= unit.end) return die;
  die.data_ = this;
  die.unit_ = &unit;
  die.root_ = &root;
  die.ref_ = {offset, unit.section};
  ByteCursor cursor(Bytes(unit.section), offset);
  die.abbrev_ = die.root_->abbrevs->Find(cursor.Uleb());
  die.attributes_ = cursor.at();
  return die;
}

Die DwarfData::RootDie(const DwarfUnit& unit) const { return At(unit, unit.first); }

Die DwarfData::At(DieRef ref) const {
  const DwarfUnit* unit = UnitOf(ref);
  return unit ? At(*unit, ref.offset) : Die();
}

bool DwarfData::ReadValue(ByteCursor* cursor, const DwarfUnit& unit, uint16_t form,
                          int64_t implicit, DieAttribute* out) {
  // DW_FORM_indirect may name itself; a few steps are more than enough.
  for (int i = 0; form == DW_FORM_indirect && i < 4; ++i) {
    form = static_cast<uint16_t>(cursor->Uleb());
  }
  out->form = form;
  switch (form) {
    case DW_FORM_addr:
    case DW_FORM_data8:
    case DW_FORM_ref8:
    case DW_FORM_ref_sig8:
    case DW_FORM_ref_sup8:
      out->value = cursor->Fixed<uint64_t>();
      break;
    case DW_FORM_data1:
    case DW_FORM_ref1:
    case DW_FORM_flag:
    case DW_FORM_strx1:
    case DW_FORM_addrx1:
      out->value = cursor->Fixed<uint8_t>();
      break;
    case DW_FORM_data2:
    case DW_FORM_ref2:
    case DW_FORM_strx2:
    case DW_FORM_addrx2:
      out->value = cursor->Fixed<uint16_t>();
      break;
    case DW_FORM_strx3:
    case DW_FORM_addrx3:
      out->value = cursor->Number(3);
      break;
    case DW_FORM_data4:
    case DW_FORM_ref4:
    case DW_FORM_strx4:
    case DW_FORM_addrx4:
    case DW_FORM_ref_sup4:
      out->value = cursor->Fixed<uint32_t>();
      break;
    case DW_FORM_data16:
      out->block = cursor->Block(16);
      break;
    case DW_FORM_sdata:
      out->value = static_cast<uint64_t>(cursor->Sleb());
      out->is_signed = true;
      break;
    case DW_FORM_udata:
    case DW_FORM_ref_udata:
    case DW_FORM_strx:
    case DW_FORM_addrx:
    case DW_FORM_loclistx:
    case DW_FORM_rnglistx:
    case DW_FORM_GNU_addr_index:
    case DW_FORM_GNU_str_index:
      out->value = cursor->Uleb();
      break;
    case DW_FORM_implicit_const:
      out->value = static_cast<uint64_t>(implicit);
      out->is_signed = true;
      break;
    case DW_FORM_flag_present:
      out->value = 1;
      break;
    case DW_FORM_string: {
      const std::string_view text = cursor->Text();
      out->block = ByteSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      break;
    }
    case DW_FORM_strp:
    case DW_FORM_line_strp:
    case DW_FORM_strp_sup:
    case DW_FORM_sec_offset:
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_GNU_strp_alt:
      out->value = cursor->Number(unit.offset_size);
      break;
    case DW_FORM_ref_addr:
      out->value = cursor->Number(unit.version <= 2 ? 8 : unit.offset_size);
      break;
    case DW_FORM_block1:
      out->block = cursor->Block(cursor->Fixed<uint8_t>());
      break;
    case DW_FORM_block2:
      out->block = cursor->Block(cursor->Fixed<uint16_t>());
      break;
    case DW_FORM_block4:
      out->block = cursor->Block(cursor->Fixed<uint32_t>());
      break;
    case DW_FORM_block:
    case DW_FORM_exprloc:
      out->block = cursor->Block(cursor->Uleb());
      break;
    default:
      return false;
  }
  return cursor->ok();
}

std::string_view DwarfData::Text(const DwarfUnit& unit, const DieAttribute& a) const {
  const bool alt = unit.section == kAlt;
  switch (a.form) {
    case DW_FORM_string:
      return {reinterpret_cast<const char*>(a.block.data()), a.block.size()};
    case DW_FORM_strp:
      return ByteCursor(str_[alt].bytes(), a.value).Text();
    case DW_FORM_line_strp:
      return ByteCursor(line_str_[alt].bytes(), a.value).Text();
    case DW_FORM_GNU_strp_alt:
    case DW_FORM_strp_sup:
      return ByteCursor(str_[1].bytes(), a.value).Text();
    case DW_FORM_strx:
    case DW_FORM_strx1:
    case DW_FORM_strx2:
    case DW_FORM_strx3:
    case DW_FORM_strx4:
    case DW_FORM_GNU_str_index: {
      const ByteSpan table = str_offsets_[alt].bytes();
      if (a.value > table.size()) return {};
      ByteCursor cursor(table, RootOf(unit).str_offsets_base + a.value * unit.offset_size);
      const uint64_t offset = cursor.Number(unit.offset_size);
      return cursor.ok() ? ByteCursor(str_[alt].bytes(), offset).Text() : std::string_view();
    }
    default:
      return {};
  }
}

DieRef DwarfData::Ref(const DwarfUnit& unit, const DieAttribute& a) const {
  switch (a.form) {
    case DW_FORM_ref1:
    case DW_FORM_ref2:
    case DW_FORM_ref4:
    case DW_FORM_ref8:
    case DW_FORM_ref_udata:
      return {unit.begin + a.value, unit.section};
    case DW_FORM_ref_addr:
      // .debug_types refers into .debug_info.
      return {a.value, unit.section == kTypes ? uint8_t{kInfo} : unit.section};
    case DW_FORM_GNU_ref_alt:
    case DW_FORM_ref_sup4:
    case DW_FORM_ref_sup8:
      return {a.value, kAlt};
    case DW_FORM_ref_sig8: {
      const std::deque<DwarfUnit>& all = units();
      const auto found = lazy_->signatures.find(a.value);
      if (found == lazy_->signatures.end()) return {};
      const DwarfUnit& type = all[found->second];
      return {type.type_die, type.section};
    }
    default:
      return {};
  }
}

bool DwarfData::MayName(std::string_view name) const {
  // Linkers keep a string that is the end of another one only there.
  return MayContain(std::string(name) + '\0');
}

bool DwarfData::MayContain(std::string_view text) const {
  const auto has = [text](ByteSpan bytes) {
    return !bytes.empty() &&
           memmem(bytes.data(), bytes.size(), text.data(), text.size()) != nullptr;
  };
  const auto strings_have = [&](const FileImage& section) { return has(section.bytes()); };
  // Short names stand in the DIEs themselves.
  const auto dies_have = [&](const SectionStream& section) {
    const ByteSpan bytes = section.image().bytes();
    return has(bytes.subspan(0, section.Wait(bytes.size())));
  };
  return std::any_of(str_, std::end(str_), strings_have) ||
         std::any_of(lazy_->info, std::end(lazy_->info), dies_have);
}

std::vector<bool> DwarfData::UnitsThatMayName(std::string_view identifier) const {
  MarkedOffsets marked(str_[0].bytes().size());
  ForEachOffsetOfName(str_[0].bytes(), identifier, [&](uint64_t offset) { marked.Mark(offset); });
  const auto may_name = [&](const DwarfUnit& unit) {
    const DwarfRoot& root = RootOf(unit);
    // In a damaged file a unit's last DIE may reach into the next unit.
    const uint64_t end =
        lazy_->info[unit.section].Wait(unit.end + identifier.size() + sizeof(uint32_t));
    const ByteSpan bytes = Bytes(unit.section).subspan(0, end).subspan(unit.begin);
    if (unit.section == kAlt || unit.offset_size != 4 || root.abbrevs->names_elsewhere() ||
        RefersToMarked(bytes, 1, marked) || HasName(bytes, identifier)) {
      return true;
    }
    if (!root.abbrevs->names_by_index()) return false;
    // DWARF 5 section 7.26: the table's length stands 8 bytes before its first entry.
    const ByteSpan table = str_offsets_[0].bytes();
    const uint64_t base = root.str_offsets_base;
    ByteCursor length(table, base - 8);
    const uint64_t entries = base < 8 ? 0 : length.Fixed<uint32_t>();
    return !length.ok() || entries < 4 || entries - 4 > table.size() - base ||
           RefersToMarked(table.subspan(base, entries - 4), 4, marked);
  };
  std::vector<std::vector<size_t>> found(ThreadsForUnits());
  ForEachUnit([&](size_t thread, const DwarfUnit& unit) {
    if (may_name(unit)) found[thread].push_back(unit.index);
  });
  std::vector<bool> may(units().size());
  for (const std::vector<size_t>& some : found) {
    for (const size_t i : some) may[i] = true;
  }
  return may;
}

// --- Die ---

bool Die::Has(uint16_t name) const {
  return abbrev_ && std::any_of(abbrev_->attributes.begin(), abbrev_->attributes.end(),
                                [name](const auto& a) { return a.name == name; });
}

std::optional<DieAttribute> Die::Find(uint16_t name) const {
  if (!abbrev_) return std::nullopt;
  const auto& all = abbrev_->attributes;
  const auto wanted =
      std::find_if(all.begin(), all.end(), [name](const auto& a) { return a.name == name; });
  if (wanted == all.end()) return std::nullopt;
  // What has the same place in all DIEs need not be read to; the first attribute has.
  auto at = wanted;
  while (at->bytes_before == DwarfAbbrev::Attribute::kVaries) --at;
  ByteCursor cursor(
      data_->Bytes(ref_.section),
      attributes_ + at->bytes_before + uint64_t{at->offsets_before} * unit_->offset_size);
  for (;; ++at) {
    DieAttribute attribute;
    attribute.name = at->name;
    if (!DwarfData::ReadValue(&cursor, *unit_, at->form, at->implicit, &attribute)) {
      return std::nullopt;
    }
    if (at == wanted) return attribute;
  }
}

std::string_view Die::Text(uint16_t name) const {
  const auto a = Find(name);
  return a ? data_->Text(*unit_, *a) : std::string_view();
}

std::optional<uint64_t> Die::Unsigned(uint16_t name) const {
  const auto a = Find(name);
  if (!a) return std::nullopt;
  switch (a->form) {
    case DW_FORM_data1:
    case DW_FORM_data2:
    case DW_FORM_data4:
    case DW_FORM_data8:
    case DW_FORM_udata:
    case DW_FORM_sdata:
    case DW_FORM_implicit_const:
    case DW_FORM_sec_offset:
    case DW_FORM_flag:
    case DW_FORM_flag_present:
      return a->value;
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> Die::AddressOf(uint16_t name) const {
  const auto a = Find(name);
  return a ? data_->AddressOf(*unit_, *a) : std::nullopt;
}

DieRef Die::Ref(uint16_t name) const {
  const auto a = Find(name);
  return a ? data_->Ref(*unit_, *a) : DieRef();
}

Die Die::Follow(uint16_t name) const {
  const DieRef ref = Ref(name);
  if (!ref.valid()) return Die();
  const bool same_unit =
      ref.section == unit_->section && ref.offset >= unit_->begin && ref.offset < unit_->end;
  return same_unit ? data_->At(*unit_, *root_, ref.offset) : data_->At(ref);
}

Die Die::Whole() const {
  const Die whole = Follow(DW_AT_signature);
  return whole ? whole : *this;
}

bool Die::Flag(uint16_t name) const {
  const auto a = Find(name);
  return a && a->value != 0;
}

bool Die::MayHaveCode() const { return Has(DW_AT_low_pc) || Has(DW_AT_ranges); }

std::vector<CodeSpan> Die::Ranges() const {
  if (!MayHaveCode()) return {};
  std::optional<DieAttribute> low, high, ranges;
  ForEach([&](const DieAttribute& a) {
    if (a.name == DW_AT_low_pc) low = a;
    if (a.name == DW_AT_high_pc) high = a;
    if (a.name == DW_AT_ranges) ranges = a;
  });
  if (ranges) return data_->Ranges(*unit_, *ranges);
  std::vector<CodeSpan> out;
  if (!low || !high) return out;
  const auto begin = data_->AddressOf(*unit_, *low);
  if (!begin || *begin == 0) return out;
  const auto address = data_->AddressOf(*unit_, *high);
  const uint64_t end = address ? *address : *begin + high->value;
  if (*begin < end) out.push_back({*begin, end});
  return out;
}

uint64_t Die::EndOfAttributes() const {
  if (abbrev_->is_fixed) {
    return attributes_ + abbrev_->fixed_size + uint64_t{abbrev_->offsets} * unit_->offset_size;
  }
  ByteCursor cursor(data_->Bytes(ref_.section), attributes_);
  for (const DwarfAbbrev::Attribute& a : abbrev_->attributes) {
    DieAttribute attribute;
    if (!DwarfData::ReadValue(&cursor, *unit_, a.form, a.implicit, &attribute)) return unit_->end;
  }
  return cursor.at();
}

Die Die::Child() const {
  if (!has_children()) return Die();
  return data_->At(*unit_, *root_, EndOfAttributes());
}

Die Die::Sibling() const {
  if (!abbrev_) return Die();
  if (!abbrev_->children) return data_->At(*unit_, *root_, EndOfAttributes());
  if (const auto a = Find(DW_AT_sibling)) {
    const DieRef ref = data_->Ref(*unit_, *a);
    // Forward only, or a damaged link would be followed for ever.
    if (ref.valid() && ref.section == ref_.section && ref.offset > ref_.offset &&
        ref.offset < unit_->end) {
      return data_->At(*unit_, *root_, ref.offset);
    }
  }
  uint64_t at = EndOfAttributes();
  for (int64_t depth = 1; depth > 0;) {
    ByteCursor cursor(data_->Bytes(ref_.section), at);
    const uint64_t code = cursor.Uleb();
    if (!cursor.ok() || at >= unit_->end) return Die();
    if (code == 0) {
      --depth;
      at = cursor.at();
      continue;
    }
    const Die die = data_->At(*unit_, *root_, at);
    if (!die) return Die();
    if (die.has_children()) ++depth;
    at = die.EndOfAttributes();
  }
  return data_->At(*unit_, *root_, at);
}

// --- DieWalk ---

DieWalk::DieWalk(const DwarfData& data, const DwarfUnit& unit)
    : data_(data), unit_(unit), root_(data.RootOf(unit)), at_(unit.first) {}

bool DieWalk::Next() {
  const bool over = skip_ && die_.has_children();
  const int above = depth_;
  skip_ = false;
  if (over) {
    // A link forward saves reading what is skipped; where there is none it is read over.
    const DieRef link = die_.Ref(DW_AT_sibling);
    if (link.valid() && link.section == unit_.section && link.offset > die_.ref().offset) {
      at_ = link.offset;
      next_depth_ = depth_;
    }
  }
  const ByteSpan info = data_.Bytes(unit_.section);
  do {
    // A zero ends a list of children.
    while (next_depth_ > 0 && at_ < unit_.end && info[at_] == 0) {
      --next_depth_;
      ++at_;
    }
    // Only the root has no parent.
    die_ = next_depth_ == 0 && at_ != unit_.first ? Die() : data_.At(unit_, root_, at_);
    if (!die_) {
      at_ = unit_.end;
      return false;
    }
    depth_ = next_depth_;
    at_ = die_.EndOfAttributes();
    if (die_.has_children()) ++next_depth_;
  } while (over && depth_ > above);
  return true;
}

}  // namespace ttq
