// SPDX-License-Identifier: MIT
//
// Reading call-frame information; see unwind.h.
//
// An FDE covers a range of code and refers to a CIE with what its FDEs have in common. Both hold
// instructions for a small machine whose state is a row; running them up to an address gives that
// address's row. .eh_frame_hdr is a sorted table of the FDEs of .eh_frame, so that none but the one
// needed is read; without it, and for .debug_frame, all are read once.

#include "query/code/unwind.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ttq {
namespace {

// DW_EH_PE_*: how a pointer is encoded.
constexpr uint8_t kOmit = 0xff, kIndirect = 0x80;

enum Cfa : uint8_t {
  kNop = 0x00,
  kSetLoc = 0x01,
  kAdvanceLoc1 = 0x02,
  kAdvanceLoc2 = 0x03,
  kAdvanceLoc4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefCfa = 0x0c,
  kDefCfaRegister = 0x0d,
  kDefCfaOffset = 0x0e,
  kDefCfaExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSf = 0x11,
  kDefCfaSf = 0x12,
  kDefCfaOffsetSf = 0x13,
  kValOffset = 0x14,
  kValOffsetSf = 0x15,
  kValExpression = 0x16,
  kGnuArgsSize = 0x2e,
  kGnuNegativeOffset = 0x2f,
};

constexpr size_t kMaxEntries = 16 << 20;     // FDEs of a section without an index
constexpr size_t kMaxInstructions = 100000;  // of one FDE
constexpr size_t kMaxRemembered = 64;
constexpr size_t kMaxRows = 1 << 20;  // kept

// What an FDE takes from its CIE.
struct Cie {
  uint64_t code_factor = 1;
  int64_t data_factor = 1;
  uint64_t return_register = kDwarfReturnAddress;
  uint8_t pointer_encoding = 0, lsda_encoding = kOmit;
  bool augmented = false, signal_frame = false;
  absl::Span<const uint8_t> instructions;
};

}  // namespace

// .eh_frame or .debug_frame.
struct UnwindTable::Section {
  bool eh = true;
  uint64_t address = 0;  // of `data`, for pc-relative pointers
  absl::Span<const uint8_t> data;
  FileImage owner;
  // .eh_frame_hdr's table, when it can be searched: pairs of signed 32-bit offsets from `header`.
  uint64_t header = 0;
  absl::Span<const uint8_t> index;
  // Else every FDE, by first address.
  struct Range {
    uint64_t begin, end;
    size_t offset;
  };
  bool scanned = false;
  std::vector<Range> ranges;
};

// One FDE.
struct UnwindTable::Entry {
  uint64_t begin = 0, end = 0;
  Cie cie;
  absl::Span<const uint8_t> instructions;
};

class UnwindTable::Parser {
 public:
  explicit Parser(const Section& section) : section_(section) {}

  // A pointer in the encoding; `at` counts from the section's start. nullopt when it is encoded in
  // a way that only the running program could follow.
  std::optional<uint64_t> Pointer(ByteCursor* in, uint8_t encoding, size_t base) const {
    const uint64_t place = section_.address + base + in->at();
    uint64_t value = 0;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = in->Fixed<uint64_t>();
        break;
      case 0x01:
        value = in->Uleb();
        break;
      case 0x02:
        value = in->Fixed<uint16_t>();
        break;
      case 0x03:
        value = in->Fixed<uint32_t>();
        break;
      case 0x09:
        value = static_cast<uint64_t>(in->Sleb());
        break;
      case 0x0a:
        value = static_cast<uint64_t>(int64_t{in->Fixed<int16_t>()});
        break;
      case 0x0b:
        value = static_cast<uint64_t>(int64_t{in->Fixed<int32_t>()});
        break;
      default:
        return std::nullopt;
    }
    if (!in->ok() || (encoding & kIndirect)) return std::nullopt;
    switch (encoding & 0x70) {
      case 0x00:
        return value;
      case 0x10:
        return value + place;
      case 0x30:
        return value + section_.header;
      default:
        return std::nullopt;
    }
  }

  // The record at `offset`: its body after length and CIE pointer. False at the end of the section
  // or for damage.
  struct Record {
    size_t body = 0, end = 0;  // offsets in the section
    bool is_cie = false;
    uint64_t cie = 0;  // offset of its CIE
  };
  bool Read(size_t offset, Record* record) const {
    if (offset >= section_.data.size()) return false;
    ByteCursor in(section_.data.subspan(offset), 0);
    uint64_t length = in.Fixed<uint32_t>();
    const bool wide = length == 0xffffffff;
    if (wide) length = in.Fixed<uint64_t>();
    const size_t start = offset + in.at();
    if (!in.ok() || length == 0 || length > section_.data.size() - start) return false;
    uint64_t id = wide && !section_.eh ? in.Fixed<uint64_t>() : in.Fixed<uint32_t>();
    if (!in.ok()) return false;
    record->body = offset + in.at();
    record->end = start + length;
    if (record->body > record->end) return false;
    if (section_.eh) {
      record->is_cie = id == 0;
      record->cie = start - id;
    } else {
      record->is_cie = id == (wide ? ~uint64_t{0} : 0xffffffff);
      record->cie = id;
    }
    return true;
  }

  absl::Span<const uint8_t> Body(const Record& record) const {
    return section_.data.subspan(record.body, record.end - record.body);
  }

  bool ReadCie(uint64_t offset, Cie* cie) const {
    Record record;
    if (offset > section_.data.size() || !Read(offset, &record) || !record.is_cie) return false;
    ByteCursor in(Body(record), 0);
    const uint8_t version = in.Fixed<uint8_t>();
    const std::string_view augmentation = in.Text();
    if (version != 1 && version != 3 && version != 4) return false;
    if (version == 4) {
      if (in.Fixed<uint8_t>() != 8) return false;  // address size
      if (in.Fixed<uint8_t>() != 0) return false;  // segment size
    }
    if (augmentation.substr(0, 2) == "eh") return false;  // GCC 2's
    cie->code_factor = in.Uleb();
    cie->data_factor = in.Sleb();
    cie->return_register = version == 1 ? in.Fixed<uint8_t>() : in.Uleb();
    if (!augmentation.empty()) {
      if (augmentation[0] != 'z') return false;
      cie->augmented = true;
      const uint64_t size = in.Uleb();
      const size_t after = in.at() + size;
      for (const char c : augmentation.substr(1)) {
        if (c == 'R') {
          cie->pointer_encoding = in.Fixed<uint8_t>();
        } else if (c == 'L') {
          cie->lsda_encoding = in.Fixed<uint8_t>();
        } else if (c == 'P') {
          const uint8_t encoding = in.Fixed<uint8_t>();
          Pointer(&in, encoding & ~kIndirect, record.body);
        } else if (c == 'S') {
          cie->signal_frame = true;
        } else if (c != 'B') {
          break;
        }
      }
      if (!in.ok() || after < in.at()) return false;
      in.Skip(after - in.at());
    }
    if (!in.ok() || cie->return_register != kDwarfReturnAddress) return false;
    cie->instructions = Body(record).subspan(in.at());
    return true;
  }

  bool ReadFde(size_t offset, Entry* entry) const {
    Record record;
    if (!Read(offset, &record) || record.is_cie || !ReadCie(record.cie, &entry->cie)) return false;
    ByteCursor in(Body(record), 0);
    const auto begin = Pointer(&in, entry->cie.pointer_encoding, record.body);
    const auto size = Pointer(&in, entry->cie.pointer_encoding & 0x0f, record.body);
    if (!begin || !size || *begin + *size < *begin) return false;
    entry->begin = *begin;
    entry->end = *begin + *size;
    if (entry->cie.augmented) in.Skip(in.Uleb());
    if (!in.ok()) return false;
    entry->instructions = Body(record).subspan(in.at());
    return true;
  }

  // Runs instructions up to `address`. `initial` is what DW_CFA_restore goes back to.
  bool Run(const Entry& entry, absl::Span<const uint8_t> instructions, uint64_t address,
           const UnwindRow& initial, UnwindRow* row) const {
    ByteCursor in(instructions, 0);
    uint64_t place = entry.begin;
    std::vector<UnwindRow> remembered;
    UnwindRule ignored;
    const auto rule = [&](uint64_t reg) -> UnwindRule& {
      return reg < kDwarfRegisters ? row->rules[reg] : ignored;
    };
    const auto set = [&](uint64_t reg, UnwindRule::Kind kind, int64_t offset = 0) {
      rule(reg) = {kind, offset, {}};
    };
    const auto restore = [&](uint64_t reg) {
      if (reg < kDwarfRegisters) row->rules[reg] = initial.rules[reg];
    };
    const auto scaled = [&](uint64_t n) {
      return static_cast<int64_t>(n * static_cast<uint64_t>(entry.cie.data_factor));
    };
    using Kind = UnwindRule::Kind;
    for (size_t steps = 0; !in.AtEnd() && in.ok(); ++steps) {
      if (steps > kMaxInstructions) return false;
      const uint8_t op = in.Fixed<uint8_t>();
      const uint8_t low = op & 0x3f;
      uint64_t advance = 0;
      switch (op & 0xc0) {
        case 0x40:
          advance = low;
          break;
        case 0x80:
          set(low, Kind::kAtOffset, scaled(in.Uleb()));
          continue;
        case 0xc0:
          restore(low);
          continue;
        default:
          break;
      }
      if ((op & 0xc0) == 0) {
        switch (op) {
          case kNop:
            continue;
          case kSetLoc: {
            const size_t base = instructions.data() - section_.data.data();
            const auto to = Pointer(&in, entry.cie.pointer_encoding, base);
            if (!to) return false;
            if (*to > address) return true;
            place = *to;
            continue;
          }
          case kAdvanceLoc1:
            advance = in.Fixed<uint8_t>();
            break;
          case kAdvanceLoc2:
            advance = in.Fixed<uint16_t>();
            break;
          case kAdvanceLoc4:
            advance = in.Fixed<uint32_t>();
            break;
          case kOffsetExtended: {
            const uint64_t reg = in.Uleb();
            set(reg, Kind::kAtOffset, scaled(in.Uleb()));
            continue;
          }
          case kRestoreExtended:
            restore(in.Uleb());
            continue;
          case kUndefined:
            set(in.Uleb(), Kind::kUndefined);
            continue;
          case kSameValue:
            set(in.Uleb(), Kind::kSameValue);
            continue;
          case kRegister: {
            const uint64_t reg = in.Uleb();
            set(reg, Kind::kRegister, static_cast<int64_t>(in.Uleb()));
            continue;
          }
          case kRememberState:
            if (remembered.size() >= kMaxRemembered) return false;
            remembered.push_back(*row);
            continue;
          case kRestoreState:
            if (remembered.empty()) return false;
            *row = std::move(remembered.back());
            remembered.pop_back();
            continue;
          case kDefCfa:
            row->cfa_register = in.Uleb();
            row->cfa_offset = static_cast<int64_t>(in.Uleb());
            row->cfa_expression = {};
            continue;
          case kDefCfaSf:
            row->cfa_register = in.Uleb();
            row->cfa_offset = scaled(static_cast<uint64_t>(in.Sleb()));
            row->cfa_expression = {};
            continue;
          case kDefCfaRegister:
            row->cfa_register = in.Uleb();
            row->cfa_expression = {};
            continue;
          case kDefCfaOffset:
            row->cfa_offset = static_cast<int64_t>(in.Uleb());
            continue;
          case kDefCfaOffsetSf:
            row->cfa_offset = scaled(static_cast<uint64_t>(in.Sleb()));
            continue;
          case kDefCfaExpression:
            row->cfa_expression = in.Block(in.Uleb());
            continue;
          case kExpression:
          case kValExpression: {
            const uint64_t reg = in.Uleb();
            rule(reg) = {op == kExpression ? Kind::kAtExpression : Kind::kExpression, 0,
                         in.Block(in.Uleb())};
            continue;
          }
          case kOffsetExtendedSf: {
            const uint64_t reg = in.Uleb();
            set(reg, Kind::kAtOffset, scaled(static_cast<uint64_t>(in.Sleb())));
            continue;
          }
          case kValOffset: {
            const uint64_t reg = in.Uleb();
            set(reg, Kind::kOffset, scaled(in.Uleb()));
            continue;
          }
          case kValOffsetSf: {
            const uint64_t reg = in.Uleb();
            set(reg, Kind::kOffset, scaled(static_cast<uint64_t>(in.Sleb())));
            continue;
          }
          case kGnuArgsSize:
            in.Uleb();
            continue;
          case kGnuNegativeOffset: {
            const uint64_t reg = in.Uleb();
            set(reg, Kind::kAtOffset, -scaled(in.Uleb()));
            continue;
          }
          default:
            return false;
        }
      }
      advance *= entry.cie.code_factor;
      if (advance > address - place) return true;
      place += advance;
    }
    return in.ok();
  }

 private:
  const Section& section_;
};

UnwindTable::UnwindTable(const ElfFile& elf, const ElfFile* debug) {
  const auto segment_from = [&](uint64_t address) {
    for (const ElfFile::Segment& s : elf.segments()) {
      if (s.type == PT_LOAD && address >= s.address && address - s.address < s.file_size) {
        return elf.BytesAt(address, s.file_size - (address - s.address));
      }
    }
    return absl::Span<const uint8_t>();
  };
  auto eh = std::make_unique<Section>();
  eh->owner = elf.image();
  if (const ElfFile::Section* s = elf.FindSection(".eh_frame"); s && s->type != SHT_NOBITS) {
    eh->address = s->address;
    eh->data = elf.RawData(*s);
  }
  for (const ElfFile::Segment& s : elf.segments()) {
    if (s.type != PT_GNU_EH_FRAME) continue;
    const absl::Span<const uint8_t> header = elf.BytesAt(s.address, s.file_size);
    if (header.size() < 4 || header[0] != 1) break;
    Section at_header;
    at_header.address = at_header.header = s.address;
    const Parser parser(at_header);
    ByteCursor in(header, 0);
    in.Skip(4);
    const auto frames = parser.Pointer(&in, header[1], 0);
    if (!frames) break;
    if (eh->data.empty()) {
      eh->address = *frames;
      eh->data = segment_from(*frames);
    }
    if (header[2] == kOmit || header[3] != 0x3b) break;
    const auto count = parser.Pointer(&in, header[2], 0);
    if (!count || *count == 0 || *count > (header.size() - in.at()) / 8) break;
    eh->header = s.address;
    eh->index = header.subspan(in.at(), *count * 8);
    break;
  }
  if (!eh->data.empty()) sections_.push_back(std::move(eh));
  for (const ElfFile* file : {&elf, debug}) {
    if (file == nullptr) continue;
    for (const char* name : {".debug_frame", ".zdebug_frame"}) {
      const ElfFile::Section* s = file->FindSection(name);
      if (s == nullptr || s->type == SHT_NOBITS) continue;
      absl::StatusOr<FileImage> data = file->Data(*s);
      if (!data.ok()) continue;
      auto section = std::make_unique<Section>();
      section->eh = false;
      section->owner = *data;
      section->data = data->bytes();
      // RawData of an uncompressed section lives as long as the file's image.
      sections_.push_back(std::move(section));
    }
  }
}

UnwindTable::~UnwindTable() = default;

namespace {

// The offset in .eh_frame that the index gives for an address.
std::optional<uint64_t> SearchIndex(absl::Span<const uint8_t> index, uint64_t header,
                                    uint64_t address) {
  const auto read = [&](size_t i, size_t which) {
    int32_t value;
    memcpy(&value, index.data() + i * 8 + which * 4, 4);
    return header + static_cast<uint64_t>(int64_t{value});
  };
  size_t low = 0, high = index.size() / 8;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (read(middle, 0) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return std::nullopt;
  return read(low - 1, 1);
}

}  // namespace

bool UnwindTable::FindEntry(Section* section, uint64_t address, Entry* entry) {
  const Parser parser(*section);
  if (!section->index.empty()) {
    const auto at = SearchIndex(section->index, section->header, address);
    return at && *at >= section->address && *at - section->address < section->data.size() &&
           parser.ReadFde(*at - section->address, entry) && address >= entry->begin &&
           address < entry->end;
  }
  if (!section->scanned) {
    section->scanned = true;
    Parser::Record record;
    for (size_t at = 0; section->ranges.size() < kMaxEntries && parser.Read(at, &record);
         at = record.end) {
      Entry e;
      if (!record.is_cie && parser.ReadFde(at, &e) && e.begin < e.end) {
        section->ranges.push_back({e.begin, e.end, at});
      }
    }
    std::stable_sort(section->ranges.begin(), section->ranges.end(),
                     [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }
  auto it = std::upper_bound(section->ranges.begin(), section->ranges.end(), address,
                             [](uint64_t a, const auto& r) { return a < r.begin; });
  return it != section->ranges.begin() && address < std::prev(it)->end &&
         parser.ReadFde(std::prev(it)->offset, entry);
}

std::optional<UnwindRow> UnwindTable::Compute(uint64_t address) {
  for (const auto& section : sections_) {
    Entry entry;
    if (!FindEntry(section.get(), address, &entry)) continue;
    const Parser parser(*section);
    UnwindRow initial, row;
    Entry whole = entry;
    whole.begin = address;  // a CIE's instructions have no places
    if (!parser.Run(whole, entry.cie.instructions, address, initial, &initial)) continue;
    row = initial;
    if (!parser.Run(entry, entry.instructions, address, initial, &row)) continue;
    row.signal_frame = entry.cie.signal_frame;
    return row;
  }
  return std::nullopt;
}

std::optional<std::pair<uint64_t, uint64_t>> UnwindTable::FunctionAt(uint64_t address) {
  for (const auto& section : sections_) {
    Entry entry;
    if (FindEntry(section.get(), address, &entry)) return std::pair(entry.begin, entry.end);
  }
  return std::nullopt;
}

std::optional<UnwindTable::Body> UnwindTable::BodyBy(uint64_t cfa_register, uint64_t address) {
  constexpr uint64_t kLongestPrologue = 512;
  const auto function = FunctionAt(address);
  if (!function) return std::nullopt;
  std::optional<Body> body;
  const uint64_t end = std::min(function->second, function->first + kLongestPrologue);
  for (uint64_t at = function->first; at < end; ++at) {
    const UnwindRow* row = Find(at);
    if (row == nullptr || !row->cfa_expression.empty() || row->cfa_register != cfa_register) {
      continue;
    }
    if (!body || row->cfa_offset > body->cfa_offset) body = Body{at, row->cfa_offset};
  }
  return body;
}

const UnwindRow* UnwindTable::Find(uint64_t address) {
  if (rows_.size() >= kMaxRows) rows_.clear();
  auto [it, is_new] = rows_.try_emplace(address);
  if (is_new) {
    if (std::optional<UnwindRow> row = Compute(address)) {
      it->second = std::make_unique<const UnwindRow>(*std::move(row));
    }
  }
  return it->second.get();
}

}  // namespace ttq
