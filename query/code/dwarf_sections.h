// SPDX-License-Identifier: MIT
//
// What a DwarfData has of its file, and when it reads it. For die.cc and die_ranges.cc alone.

#ifndef TTQ_QUERY_CODE_DWARF_SECTIONS_H_
#define TTQ_QUERY_CODE_DWARF_SECTIONS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "query/code/die.h"

namespace ttq {

// Entries of one list; honest lists are far shorter.
constexpr size_t kMaxListEntries = 1u << 20;

inline SectionStream SectionOf(const ElfFile& file, std::string_view name) {
  for (const ElfFile::Section& s : file.sections()) {
    const bool same =
        s.name == name || (s.name.starts_with(".zdebug_") && s.name.substr(8) == name.substr(7) &&
                           name.starts_with(".debug_"));
    if (!same) continue;
    absl::StatusOr<SectionStream> data = file.Stream(s);
    if (data.ok()) return *std::move(data);
  }
  return SectionStream();
}

// A section that is read when it is first needed.
class SectionOnDemand {
 public:
  void Set(std::shared_ptr<const ElfFile> file, std::string_view name) {
    file_ = std::move(file);
    name_ = name;
  }
  // It will be needed: whatever it takes may be done meanwhile.
  void Begin() {
    std::call_once(begun_, [this] { stream_ = SectionOf(*file_, name_); });
  }
  ByteSpan bytes() {
    Begin();
    std::call_once(read_, [this] {
      if (stream_.Finish().ok()) image_ = stream_.image();
    });
    return image_.bytes();
  }

 private:
  std::shared_ptr<const ElfFile> file_;
  std::string_view name_;
  std::once_flag begun_, read_;
  SectionStream stream_;
  FileImage image_;
};

struct DwarfData::Lazy {
  SectionStream info[kSections];
  // What questions about code need, and those about types do not.
  enum OfCode { kLine, kLoclists, kRnglists, kAranges, kAddr, kLoc, kRanges, kOfCode };
  static constexpr std::string_view kNames[kOfCode] = {
      ".debug_line", ".debug_loclists", ".debug_rnglists", ".debug_aranges",
      ".debug_addr", ".debug_loc",      ".debug_ranges"};
  SectionOnDemand of_code[kOfCode];

  std::mutex units_mutex;
  std::atomic<bool> has_all_units = false;  // then what follows changes no more
  std::deque<DwarfUnit> units;
  size_t first_unit[kSections + 1] = {};
  uint8_t section = 0;  // of the next header
  uint64_t next = 0;    // its offset
  std::map<uint64_t, size_t> signatures;

  std::mutex mutex;
  absl::flat_hash_map<std::pair<bool, uint64_t>, std::shared_ptr<const DwarfAbbrevs>> abbrevs;
  std::vector<std::unique_ptr<const DwarfRoot>> roots;
  std::once_flag ranges_read;
  struct UnitRange {
    uint64_t begin, end;
    size_t unit;
  };
  std::vector<UnitRange> ranges;  // ascending

  bool ReadUnit();
  bool ReadUnitOf(const SectionStream& stream);
};

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_DWARF_SECTIONS_H_
