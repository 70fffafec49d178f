// SPDX-License-Identifier: MIT

#include "store/format/format.h"

#include <cstring>

namespace ttq {

const char* FamilyName(Family family) {
  static const char* const kNames[] = {"default", "block", "page", "code", "extent",
                                       "exec",    "event", "map",  "file"};
  static_assert(std::size(kNames) == static_cast<size_t>(Family::kCount));
  return kNames[static_cast<int>(family)];
}

void AppendBig32(std::string* out, uint32_t v) {
  v = __builtin_bswap32(v);
  out->append(reinterpret_cast<const char*>(&v), 4);
}

void AppendBig64(std::string* out, uint64_t v) {
  v = __builtin_bswap64(v);
  out->append(reinterpret_cast<const char*>(&v), 8);
}

uint32_t ReadBig32(std::string_view in) {
  uint32_t v = 0;
  memcpy(&v, in.data(), std::min<size_t>(in.size(), 4));
  return __builtin_bswap32(v);
}

uint64_t ReadBig64(std::string_view in) {
  uint64_t v = 0;
  memcpy(&v, in.data(), std::min<size_t>(in.size(), 8));
  return __builtin_bswap64(v);
}

void AppendVarint(std::string* out, uint64_t v) {
  while (v >= 0x80) {
    out->push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out->push_back(static_cast<char>(v));
}

bool ReadVarint(std::string_view* in, uint64_t* v) {
  *v = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (in->empty()) return false;
    uint8_t byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *v |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::string RecordingKey() { return "recording"; }

void AppendInPieces(std::string_view bytes, std::vector<std::string>* pieces) {
  while (!bytes.empty()) {
    if (pieces->empty() || pieces->back().size() == kPieceBytes) {
      pieces->emplace_back().reserve(kPieceBytes);
    }
    std::string& last = pieces->back();
    const size_t n = std::min(bytes.size(), kPieceBytes - last.size());
    last.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
  }
}

namespace {
std::string Named(std::string key, std::initializer_list<uint32_t> words) {
  for (uint32_t w : words) AppendBig32(&key, w);
  return key;
}
}  // namespace

std::string ProcessKey(ProcessNo process) { return Named("process/", {process.v}); }
std::string GroupKey(ProcessNo process, uint32_t group) {
  return Named("group/", {process.v, group});
}
std::string SpanKey(ProcessNo process, uint32_t level, uint32_t span, uint64_t page) {
  std::string key = Named("span/", {process.v, level, span});
  AppendBig64(&key, page);
  return key;
}
std::string SpanPages::Encode(absl::Span<const std::pair<uint64_t, uint32_t>> pages) {
  std::string out;
  uint64_t last = pages.empty() ? 0 : pages[0].first;
  for (const auto& [page, parts] : pages) {
    AppendVarint(&out, page - last);
    AppendVarint(&out, parts);
    last = page;
  }
  return out;
}
absl::Status SpanPages::ForEach(std::string_view value, uint64_t first,
                                absl::FunctionRef<bool(uint64_t, uint32_t)> f) {
  uint64_t page = first, distance, parts;
  while (!value.empty()) {
    if (!ReadVarint(&value, &distance) || !ReadVarint(&value, &parts) || parts >> kSpanParts != 0) {
      return absl::DataLossError("a row that tells which groups have a page is damaged");
    }
    page += distance;
    if (!f(page, static_cast<uint32_t>(parts))) break;
  }
  return absl::OkStatus();
}
std::string FileKey(uint64_t id) {
  std::string key = "file/";
  AppendBig64(&key, id);
  return key;
}
std::string BlockKey(ProcessNo process, BlockNo block, uint32_t piece) {
  return Named("", {process.v, block.v, piece});
}
std::string PageKey(ProcessNo process, uint32_t group, uint64_t page, uint32_t block) {
  std::string key = Named("", {process.v, group});
  AppendBig64(&key, page);
  AppendBig32(&key, block);
  return key;
}
std::string CodeKey(ProcessNo process, SuperblockId id) { return Named("", {process.v, id.v}); }
std::string ExtentKey(ProcessNo process, uint32_t group, uint64_t begin, uint32_t superblock) {
  std::string key = Named("", {process.v, group});
  AppendBig64(&key, begin);
  AppendBig32(&key, superblock);
  return key;
}
std::string ExecKey(ProcessNo process, uint32_t group, uint32_t superblock) {
  return Named("", {process.v, group, superblock});
}
std::string EventKey(ProcessNo process, Time time, uint32_t sequence) {
  std::string key = Named("", {process.v});
  AppendBig64(&key, time.v);
  AppendBig32(&key, sequence);
  return key;
}
std::string MapKey(ProcessNo process, uint64_t ordinal) {
  std::string key = Named("", {process.v});
  AppendBig64(&key, ordinal);
  return key;
}
std::string FileChunkKey(uint64_t id, uint32_t chunk) {
  std::string key;
  AppendBig64(&key, id);
  AppendBig32(&key, chunk);
  return key;
}

namespace {

// flags of an encoded PageEntry; stored: do not renumber
enum : uint8_t { kHasWritten = 1, kHasRead = 2, kHasContent = 4, kWhole = 8 };

// A map of words: its eight 64-bit groups that are not zero, after a byte that names them.
void AppendMap(std::string* out, const WordMap& map) {
  uint64_t groups[8];
  static_assert(sizeof(WordMap) == sizeof(groups));
  memcpy(groups, &map, sizeof(groups));
  uint8_t present = 0;
  for (int i = 0; i < 8; ++i) present |= (groups[i] != 0) << i;
  out->push_back(static_cast<char>(present));
  for (uint64_t g : groups) {
    if (g != 0) out->append(reinterpret_cast<const char*>(&g), 8);
  }
}

bool ReadMap(std::string_view* in, WordMap* map) {
  if (in->empty()) return false;
  uint8_t present = static_cast<uint8_t>(in->front());
  in->remove_prefix(1);
  uint64_t groups[8] = {};
  for (int i = 0; i < 8; ++i) {
    if (!(present >> i & 1)) continue;
    if (in->size() < 8) return false;
    memcpy(&groups[i], in->data(), 8);
    in->remove_prefix(8);
  }
  memcpy(map, groups, sizeof(groups));
  return true;
}

}  // namespace

std::string PageEntry::Encode() const {
  std::string out;
  uint8_t flags = 0;
  bool content_differs = content != written;
  if (written.any()) flags |= kHasWritten;
  if (read.any()) flags |= kHasRead;
  if (content_differs && !whole) flags |= kHasContent;
  if (whole) flags |= kWhole;
  size_t count = whole ? kWordsPerPage : content.count();
  out.reserve(4 + 3 * 65 + 8 * count);
  out.push_back(static_cast<char>(flags));
  if (flags & kHasWritten) AppendMap(&out, written);
  if (flags & kHasRead) AppendMap(&out, read);
  if (flags & kHasContent) AppendMap(&out, content);
  if (whole) {
    out.append(reinterpret_cast<const char*>(words.data()), sizeof(words));
  } else {
    for (uint32_t w = 0; w < kWordsPerPage; ++w) {
      if (content[w]) out.append(reinterpret_cast<const char*>(&words[w]), 8);
    }
  }
  return out;
}

absl::StatusOr<PageEntryView> PageEntryView::Parse(std::string_view value) {
  PageEntryView view;
  auto damaged = [] { return absl::DataLossError("page index: a damaged entry"); };
  if (value.empty()) return damaged();
  uint8_t flags = static_cast<uint8_t>(value.front());
  value.remove_prefix(1);
  if ((flags & kHasWritten && !ReadMap(&value, &view.written_)) ||
      (flags & kHasRead && !ReadMap(&value, &view.read_))) {
    return damaged();
  }
  view.content_ = view.written_;
  if (flags & kHasContent && !ReadMap(&value, &view.content_)) return damaged();
  view.whole_ = flags & kWhole;
  size_t words = view.whole_ ? kWordsPerPage : view.content_.count();
  if (value.size() != 8 * words) return damaged();
  view.words_ = value;
  return view;
}

std::string MapChange::Encode() const {
  std::string out;
  out.push_back(static_cast<char>(kind));
  out.push_back(static_cast<char>(protection));
  out.push_back(static_cast<char>(area));
  out.push_back(static_cast<char>((shared ? 1 : 0) | (content_unknown ? 2 : 0)));
  for (uint64_t v : {time.v, uint64_t{thread.v}, pc.v, range.begin.v, range.end.v, to.v,
                     static_cast<uint64_t>(int64_t{syscall} + 1), file_offset, file_id}) {
    AppendVarint(&out, v);
  }
  out += path;
  return out;
}

absl::StatusOr<MapChange> MapChange::Parse(std::string_view value) {
  MapChange c;
  auto damaged = [] { return absl::DataLossError("map: a damaged entry"); };
  if (value.size() < 4) return damaged();
  c.kind = static_cast<Kind>(value[0]);
  c.protection = static_cast<uint8_t>(value[1]);
  c.area = static_cast<uint8_t>(value[2]);
  c.shared = value[3] & 1;
  c.content_unknown = value[3] & 2;
  value.remove_prefix(4);
  uint64_t v[9];
  for (uint64_t& x : v) {
    if (!ReadVarint(&value, &x)) return damaged();
  }
  if (c.kind < kMap || c.kind > kRemap || v[3] > v[4] || v[6] > INT32_MAX) return damaged();
  if (c.kind == kRemap && v[5] + (v[4] - v[3]) < v[5]) return damaged();
  c.time = Time(v[0]);
  c.thread = ThreadNo(static_cast<uint32_t>(v[1]));
  c.pc = Address(v[2]);
  c.range = {Address(v[3]), Address(v[4])};
  c.to = Address(v[5]);
  c.syscall = static_cast<int32_t>(v[6]) - 1;
  c.file_offset = v[7];
  c.file_id = v[8];
  c.path = std::string(value);
  return c;
}

}  // namespace ttq
