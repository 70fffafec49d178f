// SPDX-License-Identifier: MIT
//
// The tree of debugging information entries (DIEs) of one file, read in place. Only the headers of
// the units are read at once; an abbreviation table, a unit's root or a DIE when somebody asks. A
// DIE is a position, cheap to copy.
//
// This reads .debug_info itself, rather than by libdwarf, because types are asked for from several
// threads at once, and because one pass over all DIEs of a large file must take less than a second.
// A file has few lists, but they may be long and many DIEs may refer to one: a caller that reads
// the list of every DIE sets a budget.
//
// The sections are untrusted: every read is checked, every loop ends. Damage gives DIEs without
// attributes, never an error. Thread-safe. Addresses are the file's own.

#ifndef TTQ_QUERY_CODE_DIE_H_
#define TTQ_QUERY_CODE_DIE_H_

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "base/byte_cursor.h"
#include "base/file_image.h"
#include "query/code/elf_file.h"

namespace ttq {

struct CodeSpan {
  uint64_t begin, end;
  bool Contains(uint64_t a) const { return begin <= a && a < end; }
};

// A DIE's offset in .debug_info of the file, its .debug_types, or its alternate file.
struct DieRef {
  uint64_t offset = ~uint64_t{0};
  uint8_t section = 0;  // DwarfData::Section
  bool valid() const { return offset != ~uint64_t{0}; }
  auto operator<=>(const DieRef&) const = default;
  template <class H>
  friend H AbslHashValue(H h, const DieRef& r) {
    return H::combine(std::move(h), r.offset, r.section);
  }
};

class DwarfData;

struct DwarfAbbrev {
  struct Attribute {
    uint16_t name, form;
    // The bytes, and the values of the size of an offset, between the start of a DIE's attributes
    // and this one; kVaries: they differ between DIEs.
    uint16_t bytes_before, offsets_before;
    int64_t implicit;
    static constexpr uint16_t kVaries = 0xffff;
  };
  uint16_t tag = 0;
  bool children = false;
  absl::Span<const Attribute> attributes;  // the table's
  // What the attributes take in a DIE when it is the same for all: `fixed_size` bytes and
  // `offsets` times the unit's size of an offset.
  bool is_fixed = true;
  uint32_t fixed_size = 0, offsets = 0;
};

class DwarfAbbrevs {
 public:
  DwarfAbbrevs() = default;
  DwarfAbbrevs(const DwarfAbbrevs&) = delete;
  DwarfAbbrevs& operator=(const DwarfAbbrevs&) = delete;

  // Null: no such code.
  const DwarfAbbrev* Find(uint64_t code) const;
  // REQUIRES: called once.
  void Read(ByteSpan section, uint64_t offset);
  // Some DIE may take its name from another unit or another file, or by an index.
  bool names_elsewhere() const { return names_elsewhere_; }
  bool names_by_index() const { return names_by_index_; }

 private:
  bool names_elsewhere_ = false, names_by_index_ = false;
  std::vector<DwarfAbbrev::Attribute> attributes_;  // of all
  std::vector<DwarfAbbrev> dense_;                  // by code - 1
  std::vector<std::pair<uint64_t, DwarfAbbrev>> rest_;
};

struct DwarfUnit {
  uint8_t section = 0;
  uint16_t version = 0;
  uint8_t offset_size = 4;
  uint8_t type = 0;                        // DW_UT_*
  uint64_t begin = 0, end = 0, first = 0;  // offsets of the header, the end and the root DIE
  uint64_t abbrev_offset = 0;
  uint64_t signature = 0, type_die = 0;  // type units
  size_t index = 0;                      // of this unit in units()
};

// What a unit's root says that its other DIEs are read with.
struct DwarfRoot {
  std::shared_ptr<const DwarfAbbrevs> abbrevs;
  uint64_t str_offsets_base = 0, addr_base = 0, rnglists_base = 0, loclists_base = 0;
  uint64_t low_pc = 0;
  uint16_t tag = 0, language = 0;
  bool is_cpp() const;
};

struct DieAttribute {
  uint16_t name = 0, form = 0;
  uint64_t value = 0;
  bool is_signed = false;  // value was sign-extended
  ByteSpan block;          // of blocks and expressions; a string's bytes for DW_FORM_string
};

class Die {
 public:
  Die() = default;
  explicit operator bool() const { return abbrev_ != nullptr; }
  uint16_t tag() const { return abbrev_ ? abbrev_->tag : 0; }
  bool has_children() const { return abbrev_ && abbrev_->children; }
  DieRef ref() const { return ref_; }
  const DwarfUnit& unit() const { return *unit_; }
  const DwarfData& data() const { return *data_; }

  bool Has(uint16_t name) const;
  std::optional<DieAttribute> Find(uint16_t name) const;
  template <class Visit>
  void ForEach(Visit visit) const;

  // Of one attribute; nothing when it is not there or has another form.
  std::string_view Text(uint16_t name) const;
  std::optional<uint64_t> Unsigned(uint16_t name) const;
  std::optional<uint64_t> AddressOf(uint16_t name) const;
  // Where the attribute refers to; not valid when it does not.
  DieRef Ref(uint16_t name) const;
  Die Follow(uint16_t name) const;
  // The type that this one stands for, when that is in a unit of its own (DW_AT_signature, as
  // -fdebug-types-section has it); else this.
  Die Whole() const;
  bool Flag(uint16_t name) const;
  // False: it has no Ranges().
  bool MayHaveCode() const;
  // DW_AT_low_pc and high_pc, or DW_AT_ranges.
  std::vector<CodeSpan> Ranges() const;

  Die Child() const;
  Die Sibling() const;

 private:
  friend class DwarfData;
  friend class DieWalk;
  uint64_t EndOfAttributes() const;

  const DwarfData* data_ = nullptr;
  const DwarfUnit* unit_ = nullptr;
  const DwarfRoot* root_ = nullptr;
  const DwarfAbbrev* abbrev_ = nullptr;
  DieRef ref_;
  uint64_t attributes_ = 0;  // offset of the first attribute's value
};

class DwarfData {
 public:
  enum Section : uint8_t { kInfo = 0, kTypes = 1, kAlt = 2, kSections = 3 };

  // Null when `file` has no .debug_info. `alt`, its .gnu_debugaltlink file, may be null.
  // The result shares the bytes that it needs; `file` and `alt` may go after the call.
  static std::shared_ptr<const DwarfData> Open(const ElfFile& file, const ElfFile* alt);
  ~DwarfData();

  // Begins to decompress the sections that describe code, for a caller that will need them.
  void ReadAheadOfCode() const;

  // Ascending by section and offset. Waits for all of them: a compressed section is read while it
  // is being decompressed, and a unit is known as soon as all of it is there.
  const std::deque<DwarfUnit>& units() const;
  // units()[index], without waiting for those after it. Null: there are not so many.
  const DwarfUnit* UnitAtIndex(size_t index) const;
  // Calls `use(thread, unit)` with each unit as soon as it is there: from ThreadsForUnits()
  // threads, which are numbered, and in each of them in order.
  void ForEachUnit(const std::function<void(size_t thread, const DwarfUnit&)>& use) const;
  size_t ThreadsForUnits() const;
  const DwarfUnit* UnitOf(DieRef ref) const;
  const DwarfRoot& RootOf(const DwarfUnit& unit) const;
  Die RootDie(const DwarfUnit& unit) const;
  Die At(DieRef ref) const;
  // The DIE at `offset`, which is known to be in the unit.
  Die At(const DwarfUnit& unit, uint64_t offset) const;

  std::string_view Text(const DwarfUnit& unit, const DieAttribute& attribute) const;
  DieRef Ref(const DwarfUnit& unit, const DieAttribute& attribute) const;
  std::optional<uint64_t> AddressOf(const DwarfUnit& unit, const DieAttribute& attribute) const;
  std::optional<uint64_t> AddressByIndex(const DwarfUnit& unit, uint64_t index) const;
  // Each entry that is looked at takes one off `budget`, if it is given; without any left the list
  // ends.
  std::vector<CodeSpan> Ranges(const DwarfUnit& unit, const DieAttribute& attribute,
                               uint64_t* budget = nullptr) const;

  struct LocationEntry {
    // Empty: of a place between two instructions' effects (DWARF location views), as they have it
    // who call an inlined function. The state at `begin` is the one it is of.
    CodeSpan span;
    ByteSpan expression;
  };
  // The entries of a location list; a plain expression gives one that is valid everywhere.
  std::vector<LocationEntry> Locations(const DwarfUnit& unit, const DieAttribute& attribute) const;

  // Units that may hold code at `address`: by .debug_aranges, else by their roots.
  const DwarfUnit* UnitAt(uint64_t address) const;

  // Whether some string of the file is `name`; false is certain.
  bool MayName(std::string_view name) const;
  // Whether some string has `text` in it; false is certain. Far quicker than reading all DIEs.
  bool MayContain(std::string_view text) const;
  // For each of units(), whether some DIE of it may have a name, plain or mangled, that ends in the
  // identifier but for template arguments and parameters; false is certain. Reads no DIEs: looks
  // through the bytes for references to such strings.
  std::vector<bool> UnitsThatMayName(std::string_view identifier) const;

  ByteSpan Bytes(uint8_t section) const { return info_[section].bytes(); }
  // .debug_line.
  ByteSpan Lines() const;
  // The sizes that tell one version of the file's information from another.
  uint64_t InfoSize() const { return info_[kInfo].bytes().size(); }
  // Reads one attribute value; false when the bytes end or the form is not known.
  static bool ReadValue(ByteCursor* cursor, const DwarfUnit& unit, uint16_t form, int64_t implicit,
                        DieAttribute* out);

 private:
  friend class Die;
  friend class DieWalk;
  DwarfData() = default;
  // `root` is the unit's.
  Die At(const DwarfUnit& unit, const DwarfRoot& root, uint64_t offset) const;
  void ReadUnitRanges() const;

  struct Lazy;
  FileImage info_[kSections], abbrev_[2], str_[2], line_str_[2], str_offsets_[2];
  std::unique_ptr<Lazy> lazy_;
};

// All DIEs of a unit, one after the other as they lie in the file: each before its children. The
// cost is the bytes read, however deep the tree and whether or not its links skip anything.
class DieWalk {
 public:
  // Before the root.
  DieWalk(const DwarfData& data, const DwarfUnit& unit);
  // Goes to the next DIE; false, and die() is empty, after the last.
  bool Next();
  const Die& die() const { return die_; }
  // Of die(): 0 for the root.
  int depth() const { return depth_; }
  // The next DIE is the one after die() and all that is below it.
  void SkipChildren() { skip_ = true; }

 private:
  const DwarfData& data_;
  const DwarfUnit& unit_;
  const DwarfRoot& root_;
  Die die_;
  uint64_t at_;  // of the next DIE, or of zeros before it
  int depth_ = 0, next_depth_ = 0;
  bool skip_ = false;
};

template <class Visit>
void Die::ForEach(Visit visit) const {
  if (!abbrev_) return;
  ByteCursor cursor(data_->Bytes(ref_.section), attributes_);
  for (const DwarfAbbrev::Attribute& a : abbrev_->attributes) {
    DieAttribute attribute;
    attribute.name = a.name;
    if (!DwarfData::ReadValue(&cursor, *unit_, a.form, a.implicit, &attribute)) return;
    visit(attribute);
  }
}

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_DIE_H_
