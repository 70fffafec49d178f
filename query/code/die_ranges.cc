// SPDX-License-Identifier: MIT
//
// Addresses, ranges of code and lists of locations.

#include <libdwarf/dwarf.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "query/code/dwarf_sections.h"

namespace ttq {
namespace {

// Where list number `index` begins in its section, by the table of offsets at `base` (DWARF 5
// sections 7.28 and 7.29). nullopt: it has no such.
std::optional<uint64_t> ListAt(ByteSpan lists, const DwarfUnit& unit, uint64_t base,
                               uint64_t index) {
  if (index > lists.size()) return std::nullopt;
  ByteCursor table(lists, base + index * unit.offset_size);
  const uint64_t offset = base + table.Number(unit.offset_size);
  if (!table.ok()) return std::nullopt;
  return offset;
}

}  // namespace

std::optional<uint64_t> DwarfData::AddressByIndex(const DwarfUnit& unit, uint64_t index) const {
  const ByteSpan table = lazy_->of_code[Lazy::kAddr].bytes();
  if (index > table.size() / 8) return std::nullopt;
  ByteCursor cursor(table, RootOf(unit).addr_base + index * 8);
  const uint64_t address = cursor.Fixed<uint64_t>();
  if (!cursor.ok()) return std::nullopt;
  return address;
}

std::optional<uint64_t> DwarfData::AddressOf(const DwarfUnit& unit, const DieAttribute& a) const {
  switch (a.form) {
    case DW_FORM_addr:
      return a.value;
    case DW_FORM_addrx:
    case DW_FORM_addrx1:
    case DW_FORM_addrx2:
    case DW_FORM_addrx3:
    case DW_FORM_addrx4:
    case DW_FORM_GNU_addr_index:
      return AddressByIndex(unit, a.value);
    default:
      return std::nullopt;
  }
}

// DWARF 5 sections 2.17.3 and 7.25; DWARF 4 section 2.17.3.
std::vector<CodeSpan> DwarfData::Ranges(const DwarfUnit& unit, const DieAttribute& a,
                                        uint64_t* budget) const {
  std::vector<CodeSpan> out;
  const uint64_t limit = std::min<uint64_t>(kMaxListEntries, budget ? *budget : kMaxListEntries);
  uint64_t n = 0;
  const auto next = [&] {
    if (n == limit) return false;
    ++n;
    if (budget) --*budget;
    return true;
  };
  const DwarfRoot& root = RootOf(unit);
  uint64_t base = root.low_pc;
  const auto add = [&out](uint64_t begin, uint64_t end) {
    if (begin < end && begin != 0) out.push_back({begin, end});
  };
  if (unit.version < 5) {
    ByteCursor cursor(lazy_->of_code[Lazy::kRanges].bytes(), a.value);
    while (next()) {
      const uint64_t begin = cursor.Fixed<uint64_t>(), end = cursor.Fixed<uint64_t>();
      if (!cursor.ok() || (begin == 0 && end == 0)) break;
      if (begin == ~uint64_t{0}) {
        base = end;
      } else {
        add(base + begin, base + end);
      }
    }
    return out;
  }
  const ByteSpan lists = lazy_->of_code[Lazy::kRnglists].bytes();
  std::optional<uint64_t> offset = a.value;
  if (a.form == DW_FORM_rnglistx) offset = ListAt(lists, unit, root.rnglists_base, a.value);
  if (!offset) return out;
  ByteCursor cursor(lists, *offset);
  while (cursor.ok() && next()) {
    switch (cursor.Fixed<uint8_t>()) {
      case DW_RLE_base_addressx:
        base = AddressByIndex(unit, cursor.Uleb()).value_or(0);
        break;
      case DW_RLE_startx_endx: {
        const auto begin = AddressByIndex(unit, cursor.Uleb());
        const auto end = AddressByIndex(unit, cursor.Uleb());
        if (begin && end) add(*begin, *end);
        break;
      }
      case DW_RLE_startx_length: {
        const auto begin = AddressByIndex(unit, cursor.Uleb());
        const uint64_t length = cursor.Uleb();
        if (begin) add(*begin, *begin + length);
        break;
      }
      case DW_RLE_offset_pair: {
        const uint64_t begin = cursor.Uleb(), end = cursor.Uleb();
        add(base + begin, base + end);
        break;
      }
      case DW_RLE_base_address:
        base = cursor.Fixed<uint64_t>();
        break;
      case DW_RLE_start_end: {
        const uint64_t begin = cursor.Fixed<uint64_t>(), end = cursor.Fixed<uint64_t>();
        add(begin, end);
        break;
      }
      case DW_RLE_start_length: {
        const uint64_t begin = cursor.Fixed<uint64_t>(), length = cursor.Uleb();
        add(begin, begin + length);
        break;
      }
      default:
        return out;
    }
  }
  return out;
}

// DWARF 5 sections 2.6.2 and 7.29; DWARF 4 section 2.6.2.
std::vector<DwarfData::LocationEntry> DwarfData::Locations(const DwarfUnit& unit,
                                                           const DieAttribute& a) const {
  std::vector<LocationEntry> out;
  const bool list = a.form == DW_FORM_sec_offset || a.form == DW_FORM_loclistx ||
                    (unit.version < 4 && (a.form == DW_FORM_data4 || a.form == DW_FORM_data8));
  if (!list) {
    if (a.form == DW_FORM_exprloc || a.form == DW_FORM_block || a.form == DW_FORM_block1 ||
        a.form == DW_FORM_block2 || a.form == DW_FORM_block4) {
      out.push_back({{0, ~uint64_t{0}}, a.block});
    }
    return out;
  }
  const DwarfRoot& root = RootOf(unit);
  uint64_t base = root.low_pc;
  const auto add = [&out](uint64_t begin, uint64_t end, ByteSpan expression) {
    if (begin <= end) out.push_back({{begin, end}, expression});
  };
  if (unit.version < 5) {
    ByteCursor cursor(lazy_->of_code[Lazy::kLoc].bytes(), a.value);
    for (size_t n = 0; n < kMaxListEntries; ++n) {
      const uint64_t begin = cursor.Fixed<uint64_t>(), end = cursor.Fixed<uint64_t>();
      if (!cursor.ok() || (begin == 0 && end == 0)) break;
      if (begin == ~uint64_t{0}) {
        base = end;
        continue;
      }
      const ByteSpan expression = cursor.Block(cursor.Fixed<uint16_t>());
      if (!cursor.ok()) break;
      add(base + begin, base + end, expression);
    }
    return out;
  }
  const ByteSpan lists = lazy_->of_code[Lazy::kLoclists].bytes();
  std::optional<uint64_t> offset = a.value;
  if (a.form == DW_FORM_loclistx) offset = ListAt(lists, unit, root.loclists_base, a.value);
  if (!offset) return out;
  ByteCursor cursor(lists, *offset);
  const auto expression = [&cursor] { return cursor.Block(cursor.Uleb()); };
  for (size_t n = 0; n < kMaxListEntries && cursor.ok(); ++n) {
    switch (cursor.Fixed<uint8_t>()) {
      case DW_LLE_base_addressx:
        base = AddressByIndex(unit, cursor.Uleb()).value_or(0);
        break;
      case DW_LLE_startx_endx: {
        const auto begin = AddressByIndex(unit, cursor.Uleb());
        const auto end = AddressByIndex(unit, cursor.Uleb());
        const ByteSpan e = expression();
        if (begin && end && cursor.ok()) add(*begin, *end, e);
        break;
      }
      case DW_LLE_startx_length: {
        const auto begin = AddressByIndex(unit, cursor.Uleb());
        const uint64_t length = cursor.Uleb();
        const ByteSpan e = expression();
        if (begin && cursor.ok()) add(*begin, *begin + length, e);
        break;
      }
      case DW_LLE_offset_pair: {
        const uint64_t begin = cursor.Uleb(), end = cursor.Uleb();
        const ByteSpan e = expression();
        if (cursor.ok()) add(base + begin, base + end, e);
        break;
      }
      case DW_LLE_default_location: {
        const ByteSpan e = expression();
        if (cursor.ok()) add(0, ~uint64_t{0}, e);
        break;
      }
      case DW_LLE_base_address:
        base = cursor.Fixed<uint64_t>();
        break;
      case DW_LLE_start_end: {
        const uint64_t begin = cursor.Fixed<uint64_t>(), end = cursor.Fixed<uint64_t>();
        const ByteSpan e = expression();
        if (cursor.ok()) add(begin, end, e);
        break;
      }
      case DW_LLE_start_length: {
        const uint64_t begin = cursor.Fixed<uint64_t>(), length = cursor.Uleb();
        const ByteSpan e = expression();
        if (cursor.ok()) add(begin, begin + length, e);
        break;
      }
      case 9:  // DW_LLE_GNU_view_pair: says at which view of an address; the address suffices.
        cursor.Uleb();
        cursor.Uleb();
        break;
      default:
        return out;
    }
  }
  return out;
}

void DwarfData::ReadUnitRanges() const {
  std::vector<Lazy::UnitRange>& ranges = lazy_->ranges;
  const std::deque<DwarfUnit>& all = units();
  std::vector<bool> listed(all.size(), false);
  // DWARF 5 section 6.1.2.
  const ByteSpan table = lazy_->of_code[Lazy::kAranges].bytes();
  for (uint64_t at = 0; at < table.size();) {
    ByteCursor cursor(table, at);
    uint64_t length = cursor.Fixed<uint32_t>();
    const bool wide = length == 0xffffffff;
    if (wide) length = cursor.Fixed<uint64_t>();
    const uint64_t end = cursor.at() + length;
    cursor.Fixed<uint16_t>();
    const uint64_t unit_begin = cursor.Number(wide ? 8 : 4);
    const uint8_t address_size = cursor.Fixed<uint8_t>(), segment_size = cursor.Fixed<uint8_t>();
    if (!cursor.ok() || end <= at || end > table.size()) break;
    const auto first = all.begin(), last = all.begin() + lazy_->first_unit[kInfo + 1];
    const auto unit = std::lower_bound(first, last, unit_begin,
                                       [](const DwarfUnit& u, uint64_t o) { return u.begin < o; });
    if (address_size == 8 && segment_size == 0 && unit != last && unit->begin == unit_begin) {
      // Tuples are aligned to their own size.
      uint64_t position = (cursor.at() - at + 15) / 16 * 16 + at;
      bool any = false;
      while (position + 16 <= end && ranges.size() < kMaxListEntries * 8) {
        ByteCursor tuple(table, position);
        const uint64_t begin = tuple.Fixed<uint64_t>(), size = tuple.Fixed<uint64_t>();
        if (begin != 0 && size != 0 && begin + size > begin) {
          ranges.push_back({begin, begin + size, unit->index});
          any = true;
        }
        position += 16;
      }
      // An empty table says nothing: some compilers leave it so.
      if (any) listed[unit->index] = true;
    }
    at = end;
  }
  for (size_t i = 0; i < lazy_->first_unit[kInfo + 1]; ++i) {
    if (listed[i]) continue;
    for (const CodeSpan& span : RootDie(all[i]).Ranges()) {
      if (ranges.size() >= kMaxListEntries * 8) break;
      ranges.push_back({span.begin, span.end, i});
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.unit) < std::tie(b.begin, b.end, b.unit);
  });
}

const DwarfUnit* DwarfData::UnitAt(uint64_t address) const {
  std::call_once(lazy_->ranges_read, [this] { ReadUnitRanges(); });
  auto it = std::upper_bound(lazy_->ranges.begin(), lazy_->ranges.end(), address,
                             [](uint64_t a, const Lazy::UnitRange& r) { return a < r.begin; });
  // Units do not overlap, except in damaged files.
  for (int tries = 0; tries < 8 && it != lazy_->ranges.begin(); ++tries) {
    --it;
    if (address < it->end) return &units()[it->unit];
  }
  return nullptr;
}

}  // namespace ttq
