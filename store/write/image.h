// SPDX-License-Identifier: MIT
//
// The live image: the memory of the recorded process at the end of the blocks ingested so far, and
// its mappings. A page exists after the first write to it, or if its content is not the
// mapping's; without a page the content is the mapping's: zero, or the bytes of a file. Pages are
// shared between a forked child and its parent until one writes.
//
// Not thread-safe; one committer owns it.

#ifndef TTQ_STORE_WRITE_IMAGE_H_
#define TTQ_STORE_WRITE_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "store/format/format.h"

namespace ttq {

// The bytes of a mapped file. Thread-safe.
class FileBytes {
 public:
  virtual ~FileBytes() = default;
  // `n` bytes from `offset` on; those beyond the end are zero.
  virtual void Read(uint64_t offset, size_t n, uint8_t* out) const = 0;
};

struct ImagePage {
  uint8_t bytes[kPageBytes];
  uint8_t entries_since_whole = 0;
};

class LiveImage {
 public:
  struct Area {
    uint64_t end = 0;
    uint8_t protection = 0;
    bool shared = false;
    bool content_unknown = false;
    uint8_t kind = 0;  // kTtqMapAnonymous, …
    uint64_t file_id = 0, file_offset = 0;
    std::shared_ptr<const FileBytes> file;  // null: zero
    // Areas of one identity show the same memory, from these offsets on. 0: none does.
    uint64_t identity = 0, identity_offset = 0;
  };

  // A copy that shares pages until either side changes them.
  LiveImage Fork() const { return *this; }

  // The page, for changing. Creates it with its mapped content.
  ImagePage& Touch(uint64_t page);
  // Its content, whether it exists or not.
  void Read(uint64_t page, uint8_t* out) const;

  // The pages in a range that have been touched, in order.
  std::vector<uint64_t> PagesIn(uint64_t begin, uint64_t end) const;

  // Lays an area over whatever was there. Pages in the range that ever had an index entry come back
  // in `replaced`: their old entries no longer tell their content.
  void Map(uint64_t begin, const Area& area, std::vector<uint64_t>* replaced);
  void Unmap(uint64_t begin, uint64_t end);
  void Protect(uint64_t begin, uint64_t end, uint8_t protection);
  // Moves `size` bytes of mappings and pages. `replaced` as for Map, and every page that moved.
  void Move(uint64_t from, uint64_t to, uint64_t size, std::vector<uint64_t>* replaced);

  // The area that holds the address, or null. *begin receives its start.
  const Area* Find(uint64_t address, uint64_t* begin) const;
  const std::map<uint64_t, Area>& areas() const { return areas_; }
  // Remembers that a page has index entries.
  void NoteEntry(uint64_t page) { noted_[page >> 6] |= uint64_t{1} << (page & 63); }

 private:
  void ReadMapped(uint64_t page, uint8_t* out) const;
  void Cut(uint64_t at);
  void CollectNoted(uint64_t begin, uint64_t end, std::vector<uint64_t>* out) const;
  void DropPages(uint64_t begin, uint64_t end);

  std::map<uint64_t, Area> areas_;  // by begin; disjoint
  absl::flat_hash_map<uint64_t, std::shared_ptr<ImagePage>> pages_;
  absl::btree_map<uint64_t, uint64_t> noted_;  // page / 64 -> bits
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_IMAGE_H_
