// SPDX-License-Identifier: MIT

#include "query/ctypes/name_index.h"

#include <isa-l/crc.h>
#include <libdwarf/dwarf.h>

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "base/disk_cache.h"
#include "query/ctypes/debug_file.h"

namespace ttq {
namespace {

using Entry = NameIndex::Entry;

// Below this the pass is quicker than a file.
constexpr uint64_t kWorthKeeping = 1u << 20;
constexpr size_t kMaxNames = 1u << 26;
constexpr int kMaxNesting = 100;

constexpr char kMagic[8] = {'t', 't', 'q', 'n', 'a', 'm', 'e', 's'};
// 1: the first. 2: types and enumerators that differ in the scope they are in are kept apart.
// Another number is another content; the file is made again.
constexpr uint32_t kVersion = 2;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t checksum;                     // CRC-32 of the entries
  uint64_t sizes[DwarfData::kSections];  // of the sections it was made from
  uint64_t count;
};

uint32_t Checksum(ByteSpan entries) { return crc32_gzip_refl(0, entries.data(), entries.size()); }

// FNV-1a: stored, so it must be the same in every process. Compilers differ in their spaces.
uint32_t HashName(std::string_view name, uint32_t h = 2166136261u) {
  for (const char c : name) {
    if (c != ' ') h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  }
  return h;
}

bool IsTypeTag(uint16_t tag) {
  switch (tag) {
    case DW_TAG_base_type:
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_typedef:
    case DW_TAG_unspecified_type:
      return true;
    default:
      return false;
  }
}

// Tells what many units describe again: the hashes of its name and scope, and its particulars.
using Identity = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t>;

// The names of some units. Of what several describe, the first in the file is found.
class Pass {
 public:
  explicit Pass(const DwarfData& data) : data_(data) {}

  void Run(const DwarfUnit& unit) { Siblings(data_.RootDie(unit).Child(), HashName(""), 0); }
  // What another pass found.
  void Add(const Pass& other) {
    found_.insert(found_.end(), other.found_.begin(), other.found_.end());
    for (const auto& [identity, entry] : other.found_once_) AddOnce(identity, entry);
  }
  // Ascending.
  std::vector<Entry> Take() {
    found_.reserve(found_.size() + found_once_.size());
    for (const auto& [identity, entry] : found_once_) found_.push_back(entry);
    std::sort(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  // `scope`: a hash of the names of the namespaces and classes around.
  void Siblings(Die die, uint32_t scope, int depth) {
    for (; die; die = die.Sibling()) One(die, scope, depth);
  }

  void One(const Die& die, uint32_t scope, int depth) {
    const uint16_t tag = die.tag();
    if (IsTypeTag(tag)) {
      const std::string_view name = die.Text(DW_AT_name);
      if (!die.Flag(DW_AT_declaration) && !name.empty()) {
        AddOnce(IdentityOfType(die, name, scope), EntryOf(name, NameKind::kType, die.ref()));
      }
      if (tag == DW_TAG_enumeration_type) {
        Enumerators(die, HashName(name, scope));
      } else if (depth < kMaxNesting && die.has_children() && tag != DW_TAG_typedef) {
        Members(die.Child(), Within(scope, name), depth + 1);
      }
    } else if (tag == DW_TAG_namespace || tag == DW_TAG_module) {
      if (depth < kMaxNesting) {
        Siblings(die.Child(), Within(scope, die.Text(DW_AT_name)), depth + 1);
      }
    } else if (tag == DW_TAG_variable) {
      if (die.Find(DW_AT_location) || die.Find(DW_AT_const_value)) Add(die, NameKind::kVariable);
    } else if (tag == DW_TAG_subprogram) {
      Add(die, NameKind::kFunction);
    }
  }

  // Types inside a class; its methods are found by their definitions.
  void Members(Die die, uint32_t scope, int depth) {
    for (; die; die = die.Sibling()) {
      if (IsTypeTag(die.tag())) One(die, scope, depth);
    }
  }

  static uint32_t Within(uint32_t scope, std::string_view name) {
    return HashName("::", HashName(name, scope));
  }

  void Enumerators(const Die& type, uint32_t scope) {
    for (Die die = type.Child(); die; die = die.Sibling()) {
      const std::string_view name = die.Text(DW_AT_name);
      const uint64_t value = die.Unsigned(DW_AT_const_value).value_or(0);
      if (die.tag() == DW_TAG_enumerator && !name.empty()) {
        AddOnce(IdentityOf(name, value, ~uint64_t{0}, scope),
                EntryOf(name, NameKind::kEnumerator, type.ref()));
      }
    }
  }

  void Add(const Die& die, NameKind kind) {
    const std::string_view name = DebugFile::NameOf(die);
    if (!name.empty()) found_.push_back(EntryOf(name, kind, die.ref()));
  }
  void AddOnce(const Identity& identity, const Entry& entry) {
    const auto [known, is_new] = found_once_.try_emplace(identity, entry);
    if (!is_new) known->second = std::min(known->second, entry);
  }
  static Entry EntryOf(std::string_view name, NameKind kind, DieRef ref) {
    return {HashName(name), static_cast<uint32_t>(kind) | uint32_t{ref.section} << 8, ref.offset};
  }

  // Every unit that includes a header describes its types again: one of them is enough. In C, types
  // of one name may differ from unit to unit.
  static Identity IdentityOfType(const Die& die, std::string_view name, uint32_t scope) {
    return IdentityOf(name, die.tag() | die.Unsigned(DW_AT_byte_size).value_or(0) << 16,
                      die.Unsigned(DW_AT_decl_line).value_or(0) |
                          die.Unsigned(DW_AT_decl_column).value_or(0) << 32,
                      HashName(die.Child().Text(DW_AT_name), scope));
  }
  static Identity IdentityOf(std::string_view name, uint64_t a, uint64_t b, uint32_t scope) {
    return {HashName(name), scope, name.size() | a << 8, b};
  }

  const DwarfData& data_;
  std::vector<Entry> found_;
  absl::flat_hash_map<Identity, Entry> found_once_;
};

}  // namespace

NameIndex NameIndex::Make(const DwarfData& data, const std::string& build_id) {
  NameIndex index;
  const std::string path = data.InfoSize() >= kWorthKeeping ? CachePath("names", build_id) : "";
  if (!path.empty() && index.Load(path, data)) return index;
  index.Read(data);
  if (!path.empty()) index.Save(path, data);
  return index;
}

void NameIndex::Read(const DwarfData& data) {
  std::vector<Pass> passes(data.ThreadsForUnits(), Pass(data));
  data.ForEachUnit([&](size_t thread, const DwarfUnit& unit) { passes[thread].Run(unit); });
  for (size_t i = 1; i < passes.size(); ++i) passes[0].Add(passes[i]);
  own_ = passes[0].Take();
  if (own_.size() > kMaxNames) own_.resize(kMaxNames);
  entries_ = own_;
}

bool NameIndex::Load(const std::string& path, const DwarfData& data) {
  absl::StatusOr<FileImage> image = FileImage::Map(path);
  if (!image.ok()) return false;
  const ByteSpan bytes = image->bytes();
  Header header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kVersion) {
    return false;
  }
  for (int i = 0; i < DwarfData::kSections; ++i) {
    if (header.sizes[i] != data.Bytes(i).size()) return false;
  }
  const ByteSpan rest = bytes.subspan(sizeof(header));
  if (header.count > kMaxNames || rest.size() != header.count * sizeof(Entry)) return false;
  if (Checksum(rest) != header.checksum) return false;
  static_assert(sizeof(Header) % alignof(Entry) == 0);
  entries_ = absl::MakeConstSpan(reinterpret_cast<const Entry*>(rest.data()), header.count);
  image_ = *std::move(image);
  from_cache_ = true;
  return true;
}

void NameIndex::Save(const std::string& path, const DwarfData& data) const {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  for (int i = 0; i < DwarfData::kSections; ++i) header.sizes[i] = data.Bytes(i).size();
  header.count = entries_.size();
  const std::string_view entries(reinterpret_cast<const char*>(entries_.data()),
                                 entries_.size() * sizeof(Entry));
  header.checksum = Checksum({reinterpret_cast<const uint8_t*>(entries.data()), entries.size()});
  WriteCacheFile(path, {{reinterpret_cast<const char*>(&header), sizeof(header)}, entries});
}

std::vector<DieRef> NameIndex::Find(std::string_view name, NameKind kind) const {
  std::vector<DieRef> found;
  const uint32_t hash = HashName(name);
  auto it = std::lower_bound(entries_.begin(), entries_.end(), hash,
                             [](const Entry& e, uint32_t h) { return e.hash < h; });
  for (; it != entries_.end() && it->hash == hash; ++it) {
    if ((it->what & 0xff) == static_cast<uint32_t>(kind)) {
      found.push_back({it->offset, static_cast<uint8_t>(it->what >> 8)});
    }
  }
  return found;
}

void NameIndex::ForEach(NameKind kind, const std::function<void(DieRef)>& use) const {
  for (const Entry& e : entries_) {
    if ((e.what & 0xff) == static_cast<uint32_t>(kind)) {
      use({e.offset, static_cast<uint8_t>(e.what >> 8)});
    }
  }
}

}  // namespace ttq
