// SPDX-License-Identifier: MIT
//
// The names and encodings of the store: column families, keys, and the values that are not Cap'n
// Proto. docs/store-format.md describes each with an example. Keys are big-endian, so that
// RocksDB's order is the question's order.

#ifndef TTQ_STORE_FORMAT_FORMAT_H_
#define TTQ_STORE_FORMAT_FORMAT_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/types.h"

namespace ttq {

// Stored in the recording's own record. A reader refuses versions it does not know.
enum StoreVersion : uint32_t {
  kStoreVersion1 = 1,  // first
  kStoreVersion2 = 2,  // logs are packed, see store/walk/packed_log.h; recipes have kTtqSetVector
  kStoreVersion3 = 3,  // logs have kTtqVectors
  kStoreVersion4 = 4,  // packed logs have headers apart, may not be compressed, and come first
  kStoreVersion5 = 5,  // vector words: high halves of vector registers, and st(0)
  kStoreVersion6 = 6,  // spans: which groups have a page
  kStoreVersion7 = 7,  // a seal beside the store; MANIFEST has checksums of sorted files
  kStoreVersion8 = 8,  // Process.indexedFrom and indexedTo
};
inline constexpr uint32_t kStoreVersion = kStoreVersion8;
// What came since then a reader does without.
inline constexpr uint32_t kOldestStoreVersion = kStoreVersion5;

// RocksDB's column families, in the order they are created.
enum class Family : int {
  kMeta,    // names, see the *Key functions -> Cap'n Proto; SpanKey -> SpanPages
  kBlock,   // process, block, piece -> packed log, BlockHeader, its length; in pieces
  kPage,    // process, group, page, block -> PageEntry
  kCode,    // process, superblock -> recipe
  kExtent,  // process, group, begin, superblock -> end
  kExec,    // process, group, superblock -> blocks and counts
  kEvent,   // process, time, sequence -> Event
  kMap,     // process, ordinal -> MapChange
  kFile,    // file id, chunk -> bytes
  kCount,
};
const char* FamilyName(Family family);

inline constexpr uint32_t kWordsPerPage = 512;
inline constexpr uint32_t kFileChunkBytes = 64 << 10;
// The id of a file's content, by its XXH3 of 64 bits; 0 is none.
inline constexpr uint64_t FileIdOf(uint64_t hash) { return hash | 1; }
inline constexpr uint64_t kMaxFileBytes = uint64_t{2} << 30;  // larger ones are not kept
// RocksDB copies a row several times on its way to the file. Pieces that fit in a processor's cache
// cost half of what a megabyte costs.
inline constexpr size_t kPieceBytes = 64 << 10;

// Goes on in the last of the pieces, which are kPieceBytes long but for that.
void AppendInPieces(std::string_view bytes, std::vector<std::string>* pieces);

// Big-endian appenders and readers.
void AppendBig32(std::string* out, uint32_t v);
void AppendBig64(std::string* out, uint64_t v);
uint32_t ReadBig32(std::string_view in);
uint64_t ReadBig64(std::string_view in);
void AppendVarint(std::string* out, uint64_t v);
// False when `in` does not start with one.
bool ReadVarint(std::string_view* in, uint64_t* v);

std::string RecordingKey();
std::string ProcessKey(ProcessNo process);
std::string GroupKey(ProcessNo process, uint32_t group);
std::string FileKey(uint64_t id);
// `page`: the first that is in the row.
std::string SpanKey(ProcessNo process, uint32_t level, uint32_t span, uint64_t page);

std::string BlockKey(ProcessNo process, BlockNo block, uint32_t piece);
std::string PageKey(ProcessNo process, uint32_t group, uint64_t page, uint32_t block);
std::string CodeKey(ProcessNo process, SuperblockId id);
std::string ExtentKey(ProcessNo process, uint32_t group, uint64_t begin, uint32_t superblock);
std::string ExecKey(ProcessNo process, uint32_t group, uint32_t superblock);
std::string EventKey(ProcessNo process, Time time, uint32_t sequence);
std::string MapKey(ProcessNo process, uint64_t ordinal);
std::string FileChunkKey(uint64_t id, uint32_t chunk);

// In a long recording a page's last content may be a thousand groups ago. So groups are taken
// together by spans of so many, and these by longer spans of as many; of each that is whole there
// are rows that tell which of its parts have content of a page.
inline constexpr uint32_t kSpanParts = 16;
inline constexpr uint32_t kSpanLevels = 2;
inline constexpr size_t kSpanPages = 1024;  // told by one row

// A row's value: of each page, in order, the distance to the one before it (of the first, 0), and a
// bit for each part of the span that has content of it.
struct SpanPages {
  static std::string Encode(absl::Span<const std::pair<uint64_t, uint32_t>> pages);
  // Calls f(page, parts) for each, until it is false. `first`: the first page, as the key has it.
  // DataLoss.
  static absl::Status ForEach(std::string_view value, uint64_t first,
                              absl::FunctionRef<bool(uint64_t, uint32_t)> f);
};

using WordMap = std::bitset<kWordsPerPage>;

// What one block did to one page: the words written, the words read, and, at the block's end, the
// content of the words it changed (all written ones, and those that a mapping or the kernel's first
// contents changed), or of the whole page.
struct PageEntry {
  WordMap written, read, content;
  bool whole = false;                           // `words` holds all 512
  std::array<uint64_t, kWordsPerPage> words{};  // valid where content is set, or everywhere

  std::string Encode() const;
};

// The same, read in place: words are looked up without unpacking the rest.
class PageEntryView {
 public:
  static absl::StatusOr<PageEntryView> Parse(std::string_view value);
  const WordMap& written() const { return written_; }
  const WordMap& read() const { return read_; }
  const WordMap& content() const { return content_; }
  bool whole() const { return whole_; }
  // Calls f(word index, value) for each word whose content is stored.
  template <class F>
  void ForEachWord(F f) const {
    size_t at = 0;
    for (uint32_t w = 0; w < kWordsPerPage; ++w) {
      if (!whole_ && !content_[w]) continue;
      uint64_t v;
      __builtin_memcpy(&v, words_.data() + 8 * at++, 8);
      f(w, v);
    }
  }

 private:
  WordMap written_, read_, content_;
  bool whole_ = false;
  std::string_view words_;
};

// One change of the address space. A sequence of them, from the start, gives the mappings at any
// time.
struct MapChange {
  enum Kind : uint8_t {
    kMap = 1,
    kUnmap = 2,
    kProtect = 3,
    kRemap = 4
  };  // stored: do not renumber
  Kind kind = kMap;
  Time time;
  ThreadNo thread;
  Address pc;
  AddressRange range;
  Address to;  // kRemap: the new place of `range`
  uint8_t protection = 0;
  bool shared = false;
  uint8_t area = 0;  // kTtqMapAnonymous, …
  bool content_unknown = false;
  int32_t syscall = -1;
  uint64_t file_offset = 0, file_id = 0;
  std::string path;

  std::string Encode() const;
  static absl::StatusOr<MapChange> Parse(std::string_view value);
};

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_FORMAT_H_
