// SPDX-License-Identifier: MIT

#include "store/read/process_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <thread>

#include "base/elf.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/read/moment_info.h"
#include "store/read/track.h"

namespace ttq {
namespace {

constexpr size_t kCachedBlocks = 12;
constexpr size_t kCachedBytes = 96 << 20;  // of logs, but always one block
constexpr uint64_t kMaxMemory = uint64_t{1} << 30;
// A superblock's instructions reach no further than this from its start, one extent.
constexpr uint64_t kMaxExtent = 4096;

}  // namespace

void StoredRecipes::Miss(SuperblockId id) const {
  // What was translated soon after is likely to be needed soon.
  constexpr uint32_t kAhead = 32;
  const std::string last = CodeKey(process_, SuperblockId(id.v + kAhead));
  auto it = database_.NewIterator(Family::kCode);
  bool added = true;
  for (it->Seek(CodeKey(process_, id)); added && it->Valid() && it->key() < last; it->Next()) {
    if (absl::Status s = AddConst(it->value(), &added); !s.ok()) return database_.NoteDamage(s);
  }
}

ProcessReader::ProcessReader(const Recording& recording, const Database& database, ProcessInfo info,
                             std::vector<Thread> threads, MomentInfo moment, Time fork_time,
                             const ProcessReader* parent, Unindexed* unindexed)
    : recording_(recording),
      database_(database),
      info_(std::move(info)),
      threads_(std::move(threads)),
      moment_(std::move(moment)),
      fork_time_(fork_time),
      parent_(parent),
      unindexed_(unindexed),
      recipes_(std::make_shared<StoredRecipes>(database, info_.number,
                                               parent ? parent->recipes_ : nullptr)) {}

const MomentInfo& MomentInfoOf(const Process& process) {
  static const MomentInfo kRecorded;
  const auto* stored = dynamic_cast<const ProcessReader*>(&process);
  return stored == nullptr ? kRecorded : stored->moment();
}

absl::Status ProcessReader::Load(bool being_written) {
  auto it = database_.NewIterator(Family::kMeta);
  std::string prefix = GroupKey(info_.number, 0);
  prefix.resize(prefix.size() - 4);
  Time start = info_.indexed.begin;
  for (it->Seek(prefix); it->Valid() && it->key().substr(0, prefix.size()) == prefix; it->Next()) {
    ASSIGN_OR_RETURN(auto stored, ParseGroup(it->value()));
    if (stored.first_block != blocks_.size()) {
      return absl::DataLossError(fmt::format("process {}: the record of block {} is missing",
                                             info_.number.v, blocks_.size()));
    }
    for (const StoredGroup::Block& b : stored.blocks) {
      if (b.end < start) return absl::DataLossError("a block ends before it starts");
      blocks_.push_back({start, b.end, b.wall_start_ns, b.wall_end_ns,
                         static_cast<uint32_t>(groups_.size()),
                         (b.flags & kBlockChangesMappings) != 0});
      start = b.end;
    }
    groups_.push_back({stored.first_block, static_cast<uint32_t>(blocks_.size())});
  }
  if (!it->status().ok()) return it->status();
  if (!info_.is_indexed()) {  // stored as a whole
    const Time end = std::min(info_.indexed.end, info_.end);
    if (blocks_.size() == info_.blocks && (blocks_.empty() || start == end)) {
      return absl::OkStatus();
    }
    info_.complete = false;
    info_.incomplete_reason = "it is damaged: blocks of its history are missing";
    info_.indexed.end = start;
    info_.blocks = blocks_.size();
    return absl::OkStatus();
  }
  // The record is stored after the groups that it counts; of a recording that is being made it may
  // be read after them too.
  if (blocks_.size() < info_.blocks || start < info_.end) {
    info_.complete = false;
    info_.incomplete_reason =
        being_written ? kBeingRecorded
                      : fmt::format("it is damaged: of {} blocks up to time {} it has {} up to {}",
                                    info_.blocks, info_.end.v, blocks_.size(), start.v);
  }
  // A crash between a group and the process's own record: the group counts.
  info_.end = start;
  info_.blocks = blocks_.size();
  return absl::OkStatus();
}

absl::Status ProcessReader::CheckIndexed(Time t) const {
  if (t >= info_.indexed.begin && t <= info_.indexed.end) return absl::OkStatus();
  return t > info_.end ? absl::OkStatus() : NoteUnindexed();
}

absl::Status ProcessReader::CheckIndexed(TimeSpan span) const {
  return LacksBegin(span) || LacksEnd(span) ? NoteUnindexed() : absl::OkStatus();
}

std::string ProcessReader::WhatIsIndexed() const {
  std::string what = "nothing";
  if (!blocks_.empty()) {
    what = fmt::format(
        "what happened from {} {}", info_.indexed.begin.v,
        info_.indexed.end == kTimeMax ? "on" : fmt::format("to {}", info_.indexed.end.v));
  }
  return fmt::format("of process {} {} is indexed; `ttq index` does the rest", info_.number.v,
                     what);
}

absl::Status ProcessReader::NoteUnindexed() const {
  absl::Status s = absl::OutOfRangeError(WhatIsIndexed());
  unindexed_->Asked(s);
  return s;
}

void ProcessReader::DoWithout(const std::string& what) const {
  unindexed_->DoneWithout(absl::OutOfRangeError(fmt::format("{}: {}", what, WhatIsIndexed())));
}

uint32_t ProcessReader::BlockAt(Time t) const {
  auto it = std::upper_bound(blocks_.begin(), blocks_.end(), t,
                             [](Time time, const BlockSpan& b) { return time < b.end; });
  if (it == blocks_.end()) --it;
  return static_cast<uint32_t>(it - blocks_.begin());
}

std::vector<Time> ProcessReader::BlockStarts() const {
  std::vector<Time> starts;
  if (info_.indexed.begin.v != 0) starts.emplace_back(0);
  for (const BlockSpan& block : blocks_) starts.push_back(block.start);
  if (info_.indexed.end < info_.end) starts.push_back(info_.indexed.end);
  return starts;
}

std::pair<uint32_t, uint32_t> ProcessReader::BlocksOf(TimeSpan span) const {
  // A block without instructions still has kernel effects, at the time it starts; and those at the
  // very end of a block carry the time the next one starts with.
  auto first = std::partition_point(blocks_.begin(), blocks_.end(),
                                    [&](const BlockSpan& b) { return b.end < span.begin; });
  auto last = std::partition_point(first, blocks_.end(),
                                   [&](const BlockSpan& b) { return b.start < span.end; });
  return {static_cast<uint32_t>(first - blocks_.begin()),
          static_cast<uint32_t>(last - blocks_.begin())};
}

absl::StatusOr<std::shared_ptr<const LoadedBlock>> ProcessReader::LoadBlock(uint32_t number) const {
  {
    std::lock_guard lock(mutex_);
    for (auto it = cache_.begin(); it != cache_.end(); ++it) {
      if ((*it)->number.v != number) continue;
      cache_.splice(cache_.begin(), cache_, it);
      return cache_.front();
    }
  }
  std::string value;
  const auto key = [&](uint32_t piece) { return BlockKey(info_.number, BlockNo(number), piece); };
  auto row = database_.NewIterator(Family::kBlock);
  row->Seek(key(0));
  for (uint32_t piece = 0; row->Valid() && row->key() == key(piece); ++piece, row->Next()) {
    value += row->value();
  }
  RETURN_IF_ERROR(row->status());
  const auto damaged = [&](std::string_view what) {
    absl::Status s =
        absl::DataLossError(fmt::format("process {} block {}: {}", info_.number.v, number, what));
    database_.NoteDamage(s);
    return s;
  };
  auto parsed = ParseBlock(recipes(), value);
  if (!parsed.ok()) return damaged(std::string(parsed.status().message()));
  auto block = std::make_shared<LoadedBlock>(*std::move(parsed));
  block->number = BlockNo(number);
  // Whoever looks for a time in it counts from there.
  if (number >= blocks_.size() || block->start != blocks_[number].start) {
    return damaged("it starts at another time than the one before ends");
  }
  std::lock_guard lock(mutex_);
  cache_.push_front(block);
  size_t bytes = 0, kept = 0;
  auto it = cache_.begin();
  for (; it != cache_.end() && kept < kCachedBlocks; ++it, ++kept) {
    bytes += (*it)->log.size();
    if (kept > 0 && bytes > kCachedBytes) break;
  }
  cache_.erase(it, cache_.end());
  return block;
}

// ---- Mappings -----------------------------------------------------------------------------------

absl::StatusOr<const std::vector<MapChange>*> ProcessReader::MapChanges() const {
  {
    std::lock_guard lock(mutex_);
    if (changes_) return changes_.get();
  }
  // Without a group there is no row that counts.
  const bool has_rows = !blocks_.empty() || !info_.is_indexed();
  auto changes = std::make_shared<std::vector<MapChange>>();
  if (parent_ != nullptr && has_rows) {
    ASSIGN_OR_RETURN(auto inherited, parent_->MapChanges());
    for (const MapChange& c : *inherited) {
      if (c.time > fork_time_) break;
      changes->push_back(c);
      changes->back().time = Time(0);
      changes->back().thread = ThreadNo(0);
      changes->back().pc = Address(0);
    }
  }
  auto it = database_.NewIterator(Family::kMap);
  std::string prefix = MapKey(info_.number, 0).substr(0, 4);
  uint64_t ordinal = 0;
  if (has_rows) it->Seek(prefix);
  for (; it->Valid() && it->key().substr(0, 4) == prefix; it->Next()) {
    auto change = MapChange::Parse(it->value());
    if (change.ok() && it->key() != MapKey(info_.number, ordinal++)) {
      change = absl::DataLossError(fmt::format(
          "process {}: the record of its mapping {} is missing", info_.number.v, ordinal - 1));
    }
    if (!change.ok()) {
      database_.NoteDamage(change.status());
      return change.status();
    }
    if (change->time > info_.end) break;  // of a group that has no record
    changes->push_back(*std::move(change));
  }
  if (!it->status().ok()) return it->status();
  std::lock_guard lock(mutex_);
  if (!changes_) changes_ = std::move(changes);
  return changes_.get();
}

namespace {

void CutAt(std::map<uint64_t, Mapping>* table, uint64_t at) {
  auto it = table->upper_bound(at);
  if (it == table->begin()) return;
  --it;
  if (it->first == at || at >= it->second.range.end.v) return;
  Mapping tail = it->second;
  if (tail.file_id != 0 || !tail.path.empty()) tail.file_offset += at - it->first;
  tail.range.begin = Address(at);
  it->second.range.end = Address(at);
  table->emplace(at, std::move(tail));
}

void Remove(std::map<uint64_t, Mapping>* table, AddressRange range) {
  CutAt(table, range.begin.v);
  CutAt(table, range.end.v);
  table->erase(table->lower_bound(range.begin.v), table->lower_bound(range.end.v));
}

// Areas that came with their bytes, not their file's.
bool ContentIsFile(const Mapping& m) { return m.file_id != 0 && !m.startup; }

Mapping MappingOf(const MapChange& c) {
  Mapping m;
  m.range = c.range;
  m.protection = c.protection;
  m.shared = c.shared;
  m.path = c.path;
  m.file_offset = c.file_offset;
  m.file_id = c.file_id;
  m.since = c.time;
  m.startup = c.area == kTtqMapStartup;
  m.content_unknown = c.content_unknown;
  return m;
}

void ApplyChange(std::map<uint64_t, Mapping>* table, const MapChange& c) {
  switch (c.kind) {
    case MapChange::kMap: {
      Remove(table, c.range);
      Mapping m = MappingOf(c);
      // brk grows the heap a piece at a time; it is one mapping, as /proc/PID/maps shows it.
      auto next = table->lower_bound(c.range.begin.v);
      if (next != table->begin()) {
        auto before = std::prev(next);
        if (before->second.range.end == c.range.begin && m.path == "[heap]" &&
            before->second.path == m.path && before->second.protection == m.protection) {
          before->second.range.end = c.range.end;
          break;
        }
      }
      if (m.path == "[stack]" && next != table->end() && next->second.path == m.path &&
          next->first == c.range.end.v) {
        m.since = next->second.since;
        m.range.end = next->second.range.end;
        table->erase(next);
      }
      table->emplace(m.range.begin.v, std::move(m));
      break;
    }
    case MapChange::kUnmap:
      Remove(table, c.range);
      break;
    case MapChange::kProtect:
      CutAt(table, c.range.begin.v);
      CutAt(table, c.range.end.v);
      for (auto it = table->lower_bound(c.range.begin.v);
           it != table->end() && it->first < c.range.end.v; ++it) {
        it->second.protection = c.protection;
      }
      break;
    case MapChange::kRemap: {
      CutAt(table, c.range.begin.v);
      CutAt(table, c.range.end.v);
      std::vector<Mapping> moved;
      for (auto it = table->lower_bound(c.range.begin.v);
           it != table->end() && it->first < c.range.end.v; ++it) {
        moved.push_back(it->second);
      }
      Remove(table, c.range);
      Remove(table, {c.to, c.to + c.range.size()});
      for (Mapping& m : moved) {
        uint64_t shift = c.to.v - c.range.begin.v;
        m.range = {Address(m.range.begin.v + shift), Address(m.range.end.v + shift)};
        m.since = c.time;
        table->emplace(m.range.begin.v, m);
      }
      break;
    }
  }
}

}  // namespace

const Mapping* ProcessReader::FindMapping(const Mappings& table, uint64_t address) {
  auto it = table.upper_bound(address);
  if (it == table.begin()) return nullptr;
  --it;
  return address < it->second.range.end.v ? &it->second : nullptr;
}

absl::StatusOr<std::shared_ptr<const ProcessReader::Mappings>> ProcessReader::MappingsTable(
    Time t) const {
  {
    std::lock_guard lock(mutex_);
    for (const auto& [time, table] : last_mappings_) {
      if (time == t) return table;
    }
  }
  ASSIGN_OR_RETURN(auto changes, MapChanges());
  auto table = std::make_shared<Mappings>();
  // The stack grows when it is used; that is noticed, and recorded, later in the block.
  const Time until = blocks_.empty() ? t : std::max(t, blocks_[BlockAt(t)].end);
  for (const MapChange& c : *changes) {
    if (c.time > until) break;
    const bool is_stack = c.kind == MapChange::kMap && c.path == "[stack]";
    if (c.time <= t || is_stack) ApplyChange(table.get(), c);
  }
  std::lock_guard lock(mutex_);
  constexpr size_t kKept = 16;
  if (last_mappings_.size() == kKept) last_mappings_.erase(last_mappings_.begin());
  last_mappings_.emplace_back(t, table);
  return table;
}

absl::StatusOr<std::vector<Mapping>> ProcessReader::MappingsAt(Time t) const {
  ASSIGN_OR_RETURN(auto table, MappingsTable(t));
  std::vector<Mapping> out;
  for (const auto& [begin, m] : *table) out.push_back(m);
  return out;
}

std::string ProcessReader::DescribeUnmapped(Address address, Time t) const {
  auto changes = MapChanges();
  if (!changes.ok()) return std::string(changes.status().message());
  const MapChange* unmapped = nullptr;
  const MapChange* later = nullptr;
  for (const MapChange& c : **changes) {
    bool covers =
        c.range.Contains(address) || (c.kind == MapChange::kRemap &&
                                      AddressRange{c.to, c.to + c.range.size()}.Contains(address));
    if (!covers) continue;
    if (c.time > t) {
      if (later == nullptr && c.kind == MapChange::kMap) later = &c;
      continue;
    }
    unmapped = c.kind == MapChange::kUnmap || c.kind == MapChange::kRemap ? &c : nullptr;
  }
  if (unmapped != nullptr) {
    return fmt::format("unmapped at {} by {}", unmapped->time.v,
                       unmapped->syscall >= 0 ? SyscallName(unmapped->syscall) : "the kernel");
  }
  if (later != nullptr) return fmt::format("not mapped until {}", later->time.v);
  auto table = MappingsTable(t);
  if (table.ok() && !(*table)->empty()) {
    auto above = (*table)->upper_bound(address.v);
    const Mapping* nearest = nullptr;
    if (above != (*table)->end()) nearest = &above->second;
    if (above != (*table)->begin()) {
      const Mapping* below = &std::prev(above)->second;
      if (nearest == nullptr ||
          address.v - below->range.end.v < nearest->range.begin.v - address.v) {
        nearest = below;
      }
    }
    const Mapping* own = FindMapping(**table, address.v);
    if (own != nullptr && moment_.history_unknown()) {
      return fmt::format("not in {}: {}", MomentName(moment_.beginning),
                         own->path.empty() ? "memory that was not dumped"
                                           : "a part of " + own->path + " that was not dumped");
    }
    return fmt::format("{} mapped; the nearest mapping is {:#x}-{:#x}{}{}",
                       moment_.history_unknown() ? "not" : "never", nearest->range.begin.v,
                       nearest->range.end.v, nearest->path.empty() ? "" : " ", nearest->path);
  }
  return moment_.history_unknown() ? "not mapped" : "never mapped";
}

absl::StatusOr<std::vector<LoadedModule>> ProcessReader::Modules() const {
  ASSIGN_OR_RETURN(auto changes, MapChanges());
  std::vector<LoadedModule> out;
  for (const MapChange& c : *changes) {
    if (c.kind == MapChange::kMap && c.file_id != 0) {
      auto head = database_.Get(Family::kFile, FileChunkKey(c.file_id, 0));
      if (!head.ok()) {
        // The module has no names then; whoever answers says so.
        if (absl::IsNotFound(head.status())) CheckBeyondFile(c.file_id, 0).IgnoreError();
        continue;
      }
      const std::vector<uint64_t> biases =
          ElfLoadBiases(*head, c.file_offset, c.range.begin.v, c.protection);
      if (biases.empty()) continue;
      // Rather a part of a module that is there than one of its own.
      auto it = out.rend();
      for (size_t i = 0; i < biases.size() && it == out.rend(); ++i) {
        it = std::find_if(out.rbegin(), out.rend(), [&](const LoadedModule& m) {
          return m.file_id == c.file_id && m.load_bias == biases[i] && m.unloaded == kTimeMax;
        });
      }
      if (it != out.rend()) {
        it->range.begin = std::min(it->range.begin, c.range.begin);
        it->range.end = std::max(it->range.end, c.range.end);
        continue;
      }
      LoadedModule m;
      m.path = c.path;
      m.file_id = c.file_id;
      m.range = c.range;
      m.load_bias = biases.front();
      m.loaded = c.time;
      auto record = database_.Get(Family::kMeta, FileKey(c.file_id));
      if (record.ok()) {
        auto file = ParseFile(*record);
        if (file.ok()) m.build_id = file->build_id;
        database_.NoteDamage(file.status());
      }
      out.push_back(std::move(m));
    } else if (c.kind == MapChange::kUnmap) {
      // A module is gone when its first mapping is.
      for (LoadedModule& m : out) {
        if (m.unloaded == kTimeMax && c.range.Contains(m.range.begin)) m.unloaded = c.time;
      }
    }
  }
  return out;
}

// ---- Memory -------------------------------------------------------------------------------------

Mapping ProcessReader::MappingMadeBy(const TtqMap& record) const {
  Mapping mapping;
  mapping.range = {Address(record.address & ~(kPageBytes - 1)),
                   Address((record.address + record.bytes + kPageBytes - 1) & ~(kPageBytes - 1))};
  mapping.file_offset = record.file_offset;
  mapping.content_unknown = record.content == kTtqContentUnknown;
  if (record.content != kTtqContentFile) return mapping;
  // The store's own record of this change knows the file.
  auto changes = MapChanges();
  if (changes.ok()) {
    for (const MapChange& c : **changes) {
      if (c.kind == MapChange::kMap && c.range.begin.v == record.address &&
          c.file_offset == record.file_offset && c.file_id != 0) {
        mapping.file_id = c.file_id;
      }
    }
  }
  mapping.content_unknown = mapping.file_id == 0;
  return mapping;
}

absl::StatusOr<bool> ProcessReader::CheckBeyondFile(uint64_t id, uint64_t offset) const {
  const auto damaged = [&](const char* how) {
    absl::Status s = absl::DataLossError(fmt::format("the file {:016x} is {}", id, how));
    database_.NoteDamage(s);
    return s;
  };
  auto record = database_.Get(Family::kMeta, FileKey(id));
  if (absl::IsNotFound(record.status())) {
    damaged("missing").IgnoreError();
    return false;
  }
  if (!record.ok()) return record.status();
  auto file = ParseFile(*record);
  if (!file.ok()) return damaged("damaged in its record");
  if (offset < file->size) return damaged("cut off");
  return true;
}

absl::Status ProcessReader::ReadMapped(const Mapping& mapping, uint64_t page, uint8_t* bytes,
                                       bool* known) const {
  memset(bytes, 0, kPageBytes);
  *known = !mapping.content_unknown;
  if (!ContentIsFile(mapping)) return absl::OkStatus();
  uint64_t at = mapping.file_offset + (page * kPageBytes - mapping.range.begin.v);
  auto chunk = database_.Get(
      Family::kFile, FileChunkKey(mapping.file_id, static_cast<uint32_t>(at / kFileChunkBytes)));
  if (absl::IsNotFound(chunk.status())) {
    // Beyond the file's end: zero.
    ASSIGN_OR_RETURN(*known, CheckBeyondFile(mapping.file_id, at));
    return absl::OkStatus();
  }
  if (!chunk.ok()) return chunk.status();
  uint64_t offset = at % kFileChunkBytes;
  if (offset < chunk->size()) {
    memcpy(bytes, chunk->data() + offset, std::min<uint64_t>(kPageBytes, chunk->size() - offset));
  }
  if (chunk->size() < std::min<uint64_t>(kFileChunkBytes, offset + kPageBytes)) {
    return CheckBeyondFile(mapping.file_id, at - offset + chunk->size()).status();
  }
  return absl::OkStatus();
}

// The groups that have content of a page, the latest first, of those before a group. Of spans that
// are not whole, and in recordings that tell of none, it is every group.
class ProcessReader::GroupsOfPage {
 public:
  GroupsOfPage(const ProcessReader& process, uint64_t page, size_t before)
      : process_(process), page_(page), left_(before) {}

  absl::StatusOr<std::optional<size_t>> Next() {
    while (left_ > 0) {
      bool passed = false;
      // The longest spans first.
      for (uint32_t level = kSpanLevels; level-- > 0 && !passed;) {
        const size_t all = GroupsIn(level), part = all / kSpanParts;
        const size_t span = (left_ - 1) / all;
        ASSIGN_OR_RETURN(uint32_t parts, PartsOf(level, span));
        const size_t begun = (left_ - span * all + part - 1) / part;  // parts before left_
        const uint32_t with = parts & ((uint32_t{1} << begun) - 1);
        passed = with == 0;
        left_ = std::min(left_, span * all + part * static_cast<size_t>(std::bit_width(with)));
      }
      if (!passed) return std::optional<size_t>(--left_);
    }
    return std::optional<size_t>();
  }

  // A bit for each part of a span that may have content of the page.
  absl::StatusOr<uint32_t> PartsOf(uint32_t level, size_t span) {
    if (known_[level].span == span) return known_[level].parts;
    uint32_t parts = (uint32_t{1} << kSpanParts) - 1;
    if (process_.recording_.info().store_version >= kStoreVersion6 &&
        span < process_.groups_.size() / GroupsIn(level)) {
      if (!rows_) rows_ = process_.database_.NewIterator(Family::kMeta);
      const std::string key =
          SpanKey(process_.info_.number, level, static_cast<uint32_t>(span), page_);
      const size_t head = key.size() - sizeof(uint64_t);
      rows_->SeekForPrev(key);
      if (!rows_->status().ok()) return rows_->status();
      parts = 0;
      if (rows_->Valid() && rows_->key().size() == key.size() &&
          rows_->key().substr(0, head) == std::string_view(key).substr(0, head)) {
        absl::Status s = SpanPages::ForEach(rows_->value(), ReadBig64(rows_->key().substr(head)),
                                            [&](uint64_t page, uint32_t with) {
                                              if (page == page_) parts = with;
                                              return page < page_;
                                            });
        if (!s.ok()) return s;
      }
    }
    known_[level] = {span, parts};
    return parts;
  }

 private:
  static size_t GroupsIn(uint32_t level) {
    return level == 0 ? kSpanParts : kSpanParts * GroupsIn(level - 1);
  }

  struct Known {
    size_t span = SIZE_MAX;
    uint32_t parts = 0;
  };
  const ProcessReader& process_;
  const uint64_t page_;
  size_t left_;  // the groups before this one are yet to be told
  std::unique_ptr<Database::Iterator> rows_;
  std::array<Known, kSpanLevels> known_;
};

bool ProcessReader::SpansTell(size_t group, uint64_t page) const {
  GroupsOfPage groups(*this, page, group + 1);
  const absl::StatusOr<std::optional<size_t>> last = groups.Next();
  return last.ok() && *last == group;
}

void ProcessReader::PageContent::Add(const PageContent& older) {
  for (uint32_t w = 0; w < kWordsPerPage; ++w) {
    if (have[w] || !older.have[w]) continue;
    have.set(w);
    memcpy(bytes.data() + 8 * w, older.bytes.data() + 8 * w, 8);
  }
}

absl::Status ProcessReader::AddWritten(uint64_t page, size_t number, uint32_t before,
                                       Database::Iterator* it, PageContent* content) const {
  const Group& group = groups_[number];
  std::string prefix = PageKey(info_.number, group.first, page, 0);
  prefix.resize(prefix.size() - 4);
  const uint32_t last = std::min(before, group.end) - 1;
  for (it->SeekForPrev(PageKey(info_.number, group.first, page, last));
       it->Valid() && it->key().substr(0, prefix.size()) == prefix && !content->have.all();
       it->Prev()) {
    ASSIGN_OR_RETURN(auto entry, PageEntryView::Parse(it->value()));
    entry.ForEachWord([&](uint32_t w, uint64_t v) {
      if (content->have[w]) return;
      content->have.set(w);
      memcpy(content->bytes.data() + 8 * w, &v, 8);
    });
  }
  return it->status();
}

absl::StatusOr<ProcessReader::KeptPage> ProcessReader::Keep(uint64_t page, size_t span) const {
  KeptPage nearest;  // of a span before
  {
    std::lock_guard lock(kept_mutex_);
    for (const KeptPages* pages : {&kept_, &kept_before_}) {
      const auto it = pages->find(page);
      if (it == pages->end()) continue;
      for (const KeptPage& kept : it->second) {
        if (kept.span == span) return kept;
        if (kept.span < span && kept.span > nearest.span) nearest = kept;
      }
    }
  }
  KeptPage made;
  made.span = span;
  GroupsOfPage groups(*this, page, span * kSpanParts);
  ASSIGN_OR_RETURN(made.parts, groups.PartsOf(0, span));
  auto content = std::make_shared<PageContent>();
  std::unique_ptr<Database::Iterator> it;
  while (!content->have.all()) {
    ASSIGN_OR_RETURN(std::optional<size_t> group, groups.Next());
    if (!group || *group < nearest.span * kSpanParts) break;
    if (!it) it = database_.NewIterator(Family::kPage);
    RETURN_IF_ERROR(AddWritten(page, *group, ~uint32_t{0}, it.get(), content.get()));
  }
  if (nearest.older) content->Add(*nearest.older);
  if (content->have.any()) made.older = std::move(content);
  std::lock_guard lock(kept_mutex_);
  if (kept_.size() >= kPagesKept) {
    kept_before_ = std::move(kept_);
    kept_.clear();
  }
  std::vector<KeptPage>& kept = kept_[page];
  // Two, for threads that work on neighbouring blocks.
  if (kept.size() == 2) kept.erase(kept.begin());
  kept.push_back(made);
  return made;
}

absl::Status ProcessReader::PageBefore(uint64_t page, uint32_t before, uint8_t* bytes,
                                       bool* known) const {
  PageContent content;
  const WordMap& have = content.have;
  *known = true;
  const auto end = std::partition_point(groups_.begin(), groups_.end(),
                                        [before](const Group& g) { return g.first < before; });
  const auto groups = static_cast<size_t>(end - groups_.begin());
  const size_t span = groups == 0 ? 0 : (groups - 1) / kSpanParts;
  KeptPage kept;
  if (span > 0) {
    ASSIGN_OR_RETURN(kept, Keep(page, span));
  }
  std::unique_ptr<Database::Iterator> it;
  for (size_t g = groups; g-- > span * kSpanParts && !have.all();) {
    if ((kept.parts >> g % kSpanParts & 1) == 0) continue;
    if (!it) it = database_.NewIterator(Family::kPage);
    RETURN_IF_ERROR(AddWritten(page, g, before, it.get(), &content));
  }
  if (kept.older) content.Add(*kept.older);
  memcpy(bytes, content.bytes.data(), kPageBytes);
  if (have.all()) return absl::OkStatus();
  // What no block has changed is as it was mapped.
  uint8_t base[kPageBytes] = {};
  Time start = before < blocks_.size() ? blocks_[before].start : info_.end;
  ASSIGN_OR_RETURN(auto table, MappingsTable(start));
  const Mapping* mapping = FindMapping(*table, page * kPageBytes);
  if (parent_ != nullptr && (mapping == nullptr || mapping->since == Time(0))) {
    ASSIGN_OR_RETURN(auto image,
                     parent_->Memory(Address(page * kPageBytes), kPageBytes, fork_time_));
    // What the parent had not mapped (a heap that has grown since) is fresh.
    if (image.present[0]) memcpy(base, image.bytes.data(), kPageBytes);
  } else if (mapping != nullptr) {
    if (memory_ == nullptr || !memory_->ReadPage(page, base)) {
      RETURN_IF_ERROR(ReadMapped(*mapping, page, base, known));
    }
  } else {
    *known = have.any();
  }
  for (uint32_t w = 0; w < kWordsPerPage; ++w) {
    if (!have[w]) memcpy(bytes + 8 * w, base + 8 * w, 8);
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryImage> ProcessReader::Memory(Address begin, uint64_t size, Time t) const {
  if (size > kMaxMemory) {
    return absl::InvalidArgumentError("at most 1 GiB of memory can be read at once");
  }
  if (begin.v + size < begin.v) return absl::OutOfRangeError("the range wraps around");
  RETURN_IF_ERROR(CheckIndexed(t));
  MemoryImage out;
  out.begin = begin;
  out.bytes.assign(size, '\0');
  out.present.assign(size, false);
  if (size == 0 || blocks_.empty()) return out;
  if (t > info_.end) {
    return absl::OutOfRangeError(
        fmt::format("time {} is past the end of the recording, {}", t.v, info_.end.v));
  }
  uint32_t block = BlockAt(t);
  ASSIGN_OR_RETURN(auto mappings, MappingsTable(t));
  MemoryTracker tracker(*this, block);
  std::vector<uint64_t> pages;
  for (uint64_t page = begin.v / kPageBytes; page <= (begin.v + size - 1) / kPageBytes; ++page) {
    if (FindMapping(*mappings, page * kPageBytes) != nullptr) pages.push_back(page);
  }
  for (uint64_t page : pages) tracker.Track(page);
  RETURN_IF_ERROR(tracker.RunTo(t, pages));
  for (uint64_t page : pages) {
    bool known = false;
    ASSIGN_OR_RETURN(auto bytes, tracker.Page(page, &known));
    uint64_t page_begin = page * kPageBytes;
    uint64_t from = std::max(begin.v, page_begin);
    uint64_t to = std::min(begin.v + size, page_begin + kPageBytes);
    memcpy(out.bytes.data() + (from - begin.v), bytes + (from - page_begin), to - from);
    if (known) {
      std::fill(out.present.begin() + static_cast<ptrdiff_t>(from - begin.v),
                out.present.begin() + static_cast<ptrdiff_t>(to - begin.v), true);
    }
  }
  return out;
}

bool MemoryImage::all_present() const {
  return std::all_of(present.begin(), present.end(), [](bool p) { return p; });
}

// ---- Registers ----------------------------------------------------------------------------------

namespace {

// Stops a walk before the superblock that holds a time.
class StopSink {
 public:
  StopSink(const RecipeTable& recipes, const LoadedBlock& block, Time until, Walker* walker)
      : walker_(*walker), threads_(block), until_(until), native_(recipes, NativeUse::kRegisters) {}
  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    const uint8_t* to = native_.Advance(at, end, until_, &walker_, &vectors_);
    if (to != at) last_tid_ = walker_.tid();
    return to;
  }
  void Load(const Op&, uint64_t) {}
  void Store(const Op&, uint64_t, const uint8_t*) {}
  bool Superblock(const Program& program, uint32_t id, const uint8_t* record) {
    if (walker_.time() + program.instructions > until_) {
      stopped_in_ = id;
      return false;
    }
    last_tid_ = walker_.tid();
    vectors_.Executed(last_tid_, program, record);
    native_.Interpreted(program);
    return true;
  }
  bool Control(uint32_t kind, std::string_view payload) {
    threads_.Control(kind, payload);
    vectors_.Control(kind, payload);
    return true;
  }
  VectorState VectorsOf(uint32_t tid) const { return vectors_.Of(tid); }
  std::optional<uint32_t> stopped_in() const { return stopped_in_; }
  uint32_t last_tid() const { return last_tid_; }
  const ThreadNumbers& threads() const { return threads_; }

 private:
  Walker& walker_;
  ThreadNumbers threads_;
  Time until_;
  std::optional<uint32_t> stopped_in_;
  uint32_t last_tid_ = 0;
  VectorTracker vectors_;
  NativeWalk native_;
};

}  // namespace

absl::Status ProcessReader::CheckAlive(ThreadNo thread, Time t) const {
  auto it = std::find_if(threads_.begin(), threads_.end(),
                         [&](const Thread& x) { return x.number == thread; });
  if (it == threads_.end()) {
    return absl::NotFoundError(fmt::format("there is no thread {}", thread.v));
  }
  if (t < it->start || (t > it->end && it->end != kTimeMax)) {
    return absl::NotFoundError(
        fmt::format("thread {} lives from {} to {}", thread.v, it->start.v, it->end.v));
  }
  return absl::OkStatus();
}

absl::StatusOr<Registers> ProcessReader::RegistersAt(Time t, std::optional<ThreadNo> thread) const {
  RETURN_IF_ERROR(CheckIndexed(t));
  if (blocks_.empty()) return absl::OutOfRangeError("nothing was recorded");
  if (t > info_.end) {
    return absl::OutOfRangeError(
        fmt::format("time {} is past the end of the recording, {}", t.v, info_.end.v));
  }
  if (thread) {
    RETURN_IF_ERROR(CheckAlive(*thread, t));
  }
  ASSIGN_OR_RETURN(auto block, LoadBlock(BlockAt(t)));
  Walker walker(*recipes_);
  StartWalk(*block, &walker);
  StopSink sink(*recipes_, *block, t, &walker);
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  uint32_t tid = walker.tid();
  if (!sink.stopped_in() && sink.last_tid() != 0) tid = sink.last_tid();
  if (thread) {
    auto found = sink.threads().TidOf(*thread);
    if (!found) {
      return absl::NotFoundError(fmt::format("thread {} does not run at {}", thread->v, t.v));
    }
    tid = *found;
  }
  if (EndsBehind(sink.stopped_in().has_value(), tid, sink.last_tid(), walker)) {
    return RegistersAt(t - 1, thread);
  }
  std::optional<Inside> inside;
  if (sink.stopped_in() && tid == walker.tid()) {
    inside = {recipes_->Find(SuperblockId(*sink.stopped_in())), walker.record(),
              static_cast<uint32_t>(t.v - walker.time().v)};
  }
  return RegistersFrom(walker.StateOf(tid), sink.VectorsOf(tid), inside);
}

absl::StatusOr<ThreadNo> ProcessReader::ThreadAt(Time t) const {
  if (threads_.size() == 1) return threads_[0].number;
  RETURN_IF_ERROR(CheckIndexed(t));
  if (blocks_.empty()) return absl::OutOfRangeError("nothing was recorded");
  ASSIGN_OR_RETURN(auto block, LoadBlock(BlockAt(t)));
  Walker walker(*recipes_);
  StartWalk(*block, &walker);
  StopSink sink(*recipes_, *block, t, &walker);
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  uint32_t tid = walker.tid();
  if (!sink.stopped_in() && sink.last_tid() != 0) tid = sink.last_tid();
  return sink.threads().NumberOf(tid);
}

int64_t ProcessReader::WallClock(Time t) const {
  if (blocks_.empty() || !CheckIndexed(t).ok()) return info_.start_wall_ns;
  const BlockSpan& b = blocks_[BlockAt(t)];
  if (b.end == b.start) return b.wall_start_ns;
  // In 128 bits: the clock's values are as stored.
  if (b.wall_end_ns <= b.wall_start_ns) return b.wall_start_ns;
  using Wide = unsigned __int128;
  const uint64_t wall =
      static_cast<uint64_t>(b.wall_end_ns) - static_cast<uint64_t>(b.wall_start_ns);
  const Wide passed = std::min(t, b.end).v - b.start.v;
  return static_cast<int64_t>(static_cast<uint64_t>(b.wall_start_ns) +
                              static_cast<uint64_t>(wall * passed / (b.end.v - b.start.v)));
}

// ---- Indexes ------------------------------------------------------------------------------------

absl::StatusOr<std::vector<uint32_t>> ProcessReader::BlocksTouching(
    const Group& group, const std::vector<AddressRange>& ranges, bool reads, bool writes) const {
  std::vector<uint32_t> out;
  auto it = database_.NewIterator(Family::kPage);
  std::string prefix = PageKey(info_.number, group.first, 0, 0).substr(0, 8);
  for (const AddressRange& range : ranges) {
    uint64_t first = range.begin.v / kPageBytes, last = (range.end.v - 1) / kPageBytes;
    for (it->Seek(PageKey(info_.number, group.first, first, 0));
         it->Valid() && it->key().substr(0, 8) == prefix; it->Next()) {
      uint64_t page = ReadBig64(it->key().substr(8));
      if (page > last) break;
      uint32_t block = ReadBig32(it->key().substr(16));
      ASSIGN_OR_RETURN(auto entry, PageEntryView::Parse(it->value()));
      uint64_t page_begin = page * kPageBytes;
      uint64_t from = std::max(range.begin.v, page_begin) - page_begin;
      uint64_t to = std::min(range.end.v - page_begin, kPageBytes);
      for (uint64_t w = from / 8; w <= (to - 1) / 8; ++w) {
        if ((writes && entry.written()[w]) || (reads && entry.read()[w])) {
          out.push_back(block);
          break;
        }
      }
    }
    if (!it->status().ok()) return it->status();
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

absl::StatusOr<bool> ProcessReader::PagesChangedIn(uint32_t block,
                                                   const std::vector<uint64_t>& pages) const {
  const Group& group = groups_[blocks_[block].group];
  for (uint64_t page : pages) {
    auto value = database_.Get(Family::kPage, PageKey(info_.number, group.first, page, block));
    if (absl::IsNotFound(value.status())) continue;
    if (!value.ok()) return value.status();
    ASSIGN_OR_RETURN(auto entry, PageEntryView::Parse(*value));
    if (entry.whole() || entry.content().any()) return true;
  }
  return false;
}

absl::StatusOr<std::vector<uint32_t>> ProcessReader::SuperblocksIn(
    const std::vector<AddressRange>& code) const {
  std::vector<uint32_t> out;
  if (parent_ != nullptr) {
    ASSIGN_OR_RETURN(out, parent_->SuperblocksIn(code));
  }
  auto it = database_.NewIterator(Family::kExtent);
  for (const Group& group : groups_) {
    std::string prefix = ExtentKey(info_.number, group.first, 0, 0).substr(0, 8);
    for (const AddressRange& range : code) {
      uint64_t from = range.begin.v > kMaxExtent ? range.begin.v - kMaxExtent : 0;
      for (it->Seek(ExtentKey(info_.number, group.first, from, 0));
           it->Valid() && it->key().substr(0, 8) == prefix; it->Next()) {
        if (ReadBig64(it->key().substr(8)) >= range.end.v) break;
        if (it->value().size() != 8) return absl::DataLossError("an extent of code is damaged");
        if (ReadBig64(it->value()) > range.begin.v) {
          out.push_back(ReadBig32(it->key().substr(16)));
        }
      }
      if (!it->status().ok()) return it->status();
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

absl::StatusOr<std::vector<uint32_t>> ProcessReader::BlocksExecuting(
    const Group& group, const std::vector<uint32_t>& ids) const {
  std::vector<uint32_t> out;
  for (uint32_t id : ids) {
    auto row = database_.Get(Family::kExec, ExecKey(info_.number, group.first, id));
    if (absl::IsNotFound(row.status())) continue;
    if (!row.ok()) return row.status();
    std::string_view rest = *row;
    uint64_t block, times;
    while (ReadVarint(&rest, &block) && ReadVarint(&rest, &times)) {
      out.push_back(group.first + static_cast<uint32_t>(block));
    }
    if (!rest.empty()) {
      return absl::DataLossError(
          fmt::format("the record of where superblock {} ran is damaged", id));
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace ttq
