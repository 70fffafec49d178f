// SPDX-License-Identifier: MIT
//
// Where a name occurs in a file's DWARF: one pass over all units, and a table sorted by a hash of
// the name. For large files the table is kept, see base/disk_cache.h, one file per build-id. Such
// a file carries a checksum: a damaged one is made again. An entry only says where to look: its
// user reads the DIE and compares the name. Thread-safe once made.

#ifndef TTQ_QUERY_CTYPES_NAME_INDEX_H_
#define TTQ_QUERY_CTYPES_NAME_INDEX_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "query/code/die.h"

namespace ttq {

enum class NameKind : uint8_t {
  kType = 1,  // stored: do not renumber
  kVariable = 2,
  kFunction = 3,
  kEnumerator = 4,
};

class NameIndex {
 public:
  // A name at a place: stored.
  struct Entry {
    uint32_t hash;
    uint32_t what;  // kind | section << 8
    uint64_t offset;
    auto operator<=>(const Entry&) const = default;
  };
  static_assert(sizeof(Entry) == 16);

  // From the cache, else by reading `data`. An empty `build_id` is not cached.
  NameIndex(NameIndex&&) = default;
  NameIndex& operator=(NameIndex&&) = default;
  static NameIndex Make(const DwarfData& data, const std::string& build_id);

  // Places where the unqualified `name` may be declared, in the order of the file.
  std::vector<DieRef> Find(std::string_view name, NameKind kind) const;
  void ForEach(NameKind kind, const std::function<void(DieRef)>& use) const;
  bool from_cache() const { return from_cache_; }

 private:
  NameIndex() = default;
  void Read(const DwarfData& data);
  bool Load(const std::string& path, const DwarfData& data);
  void Save(const std::string& path, const DwarfData& data) const;

  absl::Span<const Entry> entries_;
  std::vector<Entry> own_;
  FileImage image_;
  bool from_cache_ = false;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_NAME_INDEX_H_
