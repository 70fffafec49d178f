// SPDX-License-Identifier: MIT
//
// Scans over blocks: accesses to memory and executions of code. A scan takes groups one after the
// other, asks the index which of their blocks matter, and decodes those, several at once when more
// than a few are needed. Rows come in time order, or the reverse.

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <thread>

#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "store/read/process_reader.h"
#include "store/read/track.h"

namespace ttq {
namespace {

// A row of a scan with its bytes set aside, since most rows of a block are often not wanted.
using AccessRows = std::vector<Access>;

std::vector<AddressRange> Normalized(std::vector<AddressRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  std::vector<AddressRange> out;
  for (const AddressRange& r : ranges) {
    if (r.empty()) continue;
    if (!out.empty() && r.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, r.end);
    } else {
      out.push_back(r);
    }
  }
  return out;
}

// Sorted, disjoint ranges, asked often.
class RangeSet {
 public:
  explicit RangeSet(std::vector<AddressRange> ranges) : ranges_(Normalized(std::move(ranges))) {
    if (!ranges_.empty()) hull_ = {ranges_.front().begin, ranges_.back().end};
  }
  bool Overlaps(uint64_t address, uint64_t size) const { return Find(address, size) != nullptr; }
  // The first range that has a byte in common with [address, address+size).
  const AddressRange* Find(uint64_t address, uint64_t size) const {
    if (address >= hull_.end.v || address + size <= hull_.begin.v) return nullptr;
    auto it = std::partition_point(ranges_.begin(), ranges_.end(),
                                   [&](const AddressRange& r) { return r.end.v <= address; });
    return it != ranges_.end() && it->begin.v < address + size ? &*it : nullptr;
  }
  const std::vector<AddressRange>& ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }

 private:
  std::vector<AddressRange> ranges_;
  AddressRange hull_{};
};

struct AccessFilter {
  explicit AccessFilter(const AccessQuery& q) : query(q), ranges(q.ranges), code(q.code) {
    // More would be found in too many places where they are not.
    constexpr uint64_t kMaxWords = WordSet::kSlots / 2;
    uint64_t count = 0;
    for (const AddressRange& r : ranges.ranges()) count += r.size() / 8 + 2;
    by_word = count <= kMaxWords;
    if (!by_word) return;
    for (const AddressRange& r : ranges.ranges()) {
      for (uint64_t at = r.begin.v & ~uint64_t{7}; at < r.end.v; at += 8) words.Add(Address(at));
    }
  }
  AccessQuery query;
  RangeSet ranges, code;
  bool by_word = false;  // `words` has those of the ranges: they are few
  WordSet words;
};

class AccessSink {
 public:
  AccessSink(const ProcessReader& process, const LoadedBlock& block, Walker* walker,
             const AccessFilter& filter, AccessRows* rows)
      : process_(process),
        walker_(*walker),
        filter_(filter),
        threads_(block),
        tracker_(process, block.number.v),
        rows_(*rows),
        native_(process.recipes(), NativeUse::kMemory) {
    for (const auto& t : block.threads) last_pc_[t.tid] = t.last_pc;
    for (const AddressRange& r : filter.ranges.ranges()) {
      // An access reaches at most 64 bytes out of the range.
      uint64_t from = r.begin.v > 64 ? r.begin.v - 64 : 0, to = r.end.v + 64;
      watched_.push_back(
          {Address(from & ~(kPageBytes - 1)), Address((to + kPageBytes - 1) & ~(kPageBytes - 1))});
    }
    watched_set_ = RangeSet(watched_);
    values_ = filter.query.want_values;
    native_.TellStores(
        this,
        [](void* self, uint64_t address, const uint8_t* bytes, uint64_t size) {
          static_cast<AccessSink*>(self)->Store(address, bytes, size);
        },
        &filter.words);
  }

  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    if (filter_.query.reads) return at;
    const uint8_t* to = native_.Advance(at, end, filter_.query.span.end, &walker_, nullptr);
    if (to != at) {
      const uint32_t last = NativeContext::WordOf(native_.context().last);
      id_ = last >> kTtqExitBits;
      instructions_ = process_.recipes()
                          .Find(SuperblockId(id_))
                          ->InstructionsAtExit(last & ((1 << kTtqExitBits) - 1));
    }
    return to;
  }

  void Load(const Op& op, uint64_t address) {
    if (!filter_.query.reads || !filter_.ranges.Overlaps(address, op.size)) return;
    Time t = walker_.time() + op.instruction;
    Address pc = PcOf(op);
    if (!Wanted(t, pc, walker_.tid())) return;
    Access a = Row(t, pc, address, op.size);
    if (values_) {
      TrackPages(address, op.size);
      a.value.resize(op.size);
      tracker_.Read(address, op.size, reinterpret_cast<uint8_t*>(a.value.data()));
    }
    rows_.push_back(std::move(a));
  }

  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    if (!watched_set_.Overlaps(address, op.size)) return;
    Time t = walker_.time() + op.instruction;
    if (filter_.query.writes && filter_.ranges.Overlaps(address, op.size)) {
      Address pc = PcOf(op);
      if (Wanted(t, pc, walker_.tid())) {
        Access a = Row(t, pc, address, op.size);
        a.is_write = true;
        AddValues(&a, bytes);
        rows_.push_back(std::move(a));
      }
    }
    Apply(address, op.size, bytes);
  }

  bool Superblock(const Program& program, uint32_t id, const uint8_t*) {
    if (walker_.time() >= filter_.query.span.end) return false;
    id_ = id;
    instructions_ = program.instructions;
    native_.Interpreted(program);
    return true;
  }

  bool Control(uint32_t kind, std::string_view payload) {
    // The last instruction of the thread that just ran is what a kernel effect is attributed to.
    if (id_ != 0) {
      const Recipe* r = process_.recipes().Find(SuperblockId(id_));
      size_t i = std::min<size_t>(std::max<uint32_t>(instructions_, 1), r->instructions().size());
      last_pc_[walker_.tid()] = r->instructions()[i - 1].address.v;
      id_ = 0;
    }
    threads_.Control(kind, payload);
    if (walker_.time() >= filter_.query.span.end && kind != kTtqThread) {
      // Later records may still belong to this time's past only if they are earlier: they are not.
      return false;
    }
    switch (kind) {
      case kTtqKernelWrite:
        KernelWrite(payload);
        break;
      case kTtqThreadExit: {
        auto t = LoadPod<TtqThread>(payload);
        static const uint8_t kZero[4] = {};
        if (t.clear_address != 0 && IsMapped(t.clear_address)) {
          AddKernel(t.tid, Actor::kThreadExit, -1, t.clear_address, 4, kZero);
          Apply(t.clear_address, 4, kZero);
        }
        break;
      }
      case kTtqMap:
      case kTtqUnmap:
      case kTtqRemap:
        if (values_) {
          TrackAll();
          tracker_.Control(kind, payload);
        }
        break;
      default:
        break;
    }
    return true;
  }

  const absl::Status& status() const { return tracker_.status(); }
  MemoryTracker& tracker() { return tracker_; }

 private:
  // Machine code's stores. Those to pages that do not matter are told once, and land nowhere; of
  // the others all, unless the words that matter are few: then those.
  void Store(uint64_t address, const uint8_t* bytes, uint64_t size) {
    NativeContext& context = native_.context();
    const uint64_t page = address & ~(kPageBytes - 1);
    const bool matters = watched_set_.Overlaps(page, kPageBytes);
    if (!matters || (filter_.by_word && !values_)) context.PageSlot(page) = {page, &nowhere_};
    walker_.set_time(Time(context.time));
    id_ = NativeContext::WordOf(context.record) >> kTtqExitBits;
    Op op{.code = OpCode::kStoreSlot};
    op.size = static_cast<uint8_t>(size);
    op.instruction = static_cast<uint8_t>(context.instruction);
    Store(op, address, bytes);
    if (matters && filter_.by_word && values_) {
      context.PageSlot(page) = {page, tracker_.Landing(page / kPageBytes)};
    }
  }

  Address PcOf(const Op& op) const {
    const Recipe* r = process_.recipes().Find(SuperblockId(id_));
    return r->instructions()[std::min<size_t>(op.instruction, r->instructions().size() - 1)]
        .address;
  }

  bool Wanted(Time t, Address pc, uint32_t tid) const {
    const AccessQuery& q = filter_.query;
    if (!q.span.Contains(t)) return false;
    if (q.thread && threads_.NumberOf(tid) != *q.thread) return false;
    return filter_.code.empty() || filter_.code.Overlaps(pc.v, 1);
  }

  Access Row(Time t, Address pc, uint64_t address, uint64_t size) const {
    Access a;
    a.time = t;
    a.thread = threads_.NumberOf(walker_.tid());
    a.pc = pc;
    a.address = Address(address);
    a.size = static_cast<uint32_t>(size);
    return a;
  }

  void AddValues(Access* a, const uint8_t* bytes) {
    if (!values_) return;
    size_t n = std::min<size_t>(a->size, Access::kMaxValueBytes);
    a->value.assign(reinterpret_cast<const char*>(bytes), n);
    TrackPages(a->address.v, n);
    a->previous.resize(n);
    tracker_.Read(a->address.v, n, reinterpret_cast<uint8_t*>(a->previous.data()));
  }

  void AddKernel(uint32_t tid, Actor actor, int32_t syscall, uint64_t address, uint64_t size,
                 const uint8_t* bytes) {
    if (!filter_.query.writes) return;
    for (uint64_t at = address; at < address + size;) {
      // The part of a large write that lies in the range asked for.
      const AddressRange* r = filter_.ranges.Find(at, address + size - at);
      if (r == nullptr) return;
      uint64_t from = std::max(at, r->begin.v), to = std::min(address + size, r->end.v);
      auto it = last_pc_.find(tid);
      Address pc(it == last_pc_.end() ? 0 : it->second);
      if (Wanted(walker_.time(), pc, tid)) {
        Access a = Row(walker_.time(), pc, from, to - from);
        a.thread = threads_.NumberOf(tid);
        a.is_write = true;
        a.actor = actor;
        a.syscall = syscall;
        AddValues(&a, bytes + (from - address));
        rows_.push_back(std::move(a));
      }
      at = to;
    }
  }

  void KernelWrite(std::string_view payload) {
    auto w = LoadPod<TtqKernelWrite>(payload);
    payload.remove_prefix(sizeof(w));
    auto* bytes = reinterpret_cast<const uint8_t*>(payload.data());
    if (w.actor != kTtqInitial) {
      Actor actor = w.actor == kTtqBySyscall ? Actor::kSyscall : Actor::kSignal;
      AddKernel(w.tid, actor, actor == Actor::kSyscall ? static_cast<int32_t>(w.syscall) : -1,
                w.address, payload.size(), bytes);
    }
    Apply(w.address, payload.size(), bytes);
  }

  // Keeps the tracked pages up to date. A page is tracked from its first access on; what it held
  // before is then exactly what it held at the block's start.
  void Apply(uint64_t address, uint64_t size, const uint8_t* bytes) {
    if (!values_ || size == 0) return;
    for (uint64_t page = address / kPageBytes; page <= (address + size - 1) / kPageBytes; ++page) {
      if (watched_set_.Overlaps(page * kPageBytes, kPageBytes)) tracker_.Track(page);
    }
    tracker_.Write(address, size, bytes);
  }

  void TrackPages(uint64_t address, uint64_t size) {
    for (uint64_t page = address / kPageBytes; page <= (address + size - 1) / kPageBytes; ++page) {
      tracker_.Track(page);
    }
  }

  // Before memory moves about, every watched page is tracked (the range may be large: only those
  // that the block touches at all matter, and there are few blocks that change mappings).
  void TrackAll() {
    if (tracked_all_) return;
    tracked_all_ = true;
    constexpr uint64_t kMaxCount = 1 << 16;
    for (const AddressRange& r : watched_set_.ranges()) {
      uint64_t first = r.begin.v / kPageBytes, last = r.end.v / kPageBytes;
      for (uint64_t page = first; page < last && page - first < kMaxCount; ++page) {
        tracker_.Track(page);
      }
    }
    (void)tracker_.TrackSources();
  }

  bool IsMapped(uint64_t address) const {
    auto table = process_.MappingsTable(walker_.time());
    if (!table.ok()) return false;
    return ProcessReader::FindMapping(**table, address) != nullptr;
  }

  const ProcessReader& process_;
  Walker& walker_;
  const AccessFilter& filter_;
  ThreadNumbers threads_;
  MemoryTracker tracker_;
  AccessRows& rows_;
  std::vector<AddressRange> watched_;
  RangeSet watched_set_{std::vector<AddressRange>()};
  absl::flat_hash_map<uint32_t, uint64_t> last_pc_;
  bool values_ = true, tracked_all_ = false;
  uint32_t id_ = 0, instructions_ = 0;
  NativeWalk native_;
  NativeContext::PageContent nowhere_;
};

absl::StatusOr<AccessRows> DecodeAccesses(const ProcessReader& process, uint32_t number,
                                          const AccessFilter& filter) {
  ASSIGN_OR_RETURN(auto block, process.LoadBlock(number));
  AccessRows rows;
  Walker walker(process.recipes());
  StartWalk(*block, &walker);
  AccessSink sink(process, *block, &walker, filter, &rows);
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  if (!sink.status().ok()) return sink.status();
  return rows;
}

struct ExecutionFilter {
  RangeSet code;
  TimeSpan span;
  std::optional<ThreadNo> thread;
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> matches;  // superblock -> instructions
};

class ExecutionSink {
 public:
  ExecutionSink(const LoadedBlock& block, Walker* walker, const ExecutionFilter& filter,
                std::vector<Execution>* rows, const ProcessReader& process)
      : process_(process),
        walker_(*walker),
        filter_(filter),
        threads_(block),
        rows_(*rows),
        native_(process.recipes(), NativeUse::kRegisters) {}
  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    return native_.Advance(at, end, filter_.span.end, &walker_, nullptr,
                           [this](uint32_t id) { return filter_.matches.contains(id); });
  }
  void Load(const Op&, uint64_t) {}
  void Store(const Op&, uint64_t, const uint8_t*) {}
  bool Superblock(const Program& program, uint32_t id, const uint8_t*) {
    if (walker_.time() >= filter_.span.end) return false;
    auto it = filter_.matches.find(id);
    if (it == filter_.matches.end()) {
      native_.Interpreted(program);
      return true;
    }
    const Recipe* recipe = process_.recipes().Find(SuperblockId(id));
    for (uint32_t i : it->second) {
      if (i >= program.instructions) break;
      Time t = walker_.time() + i;
      if (!filter_.span.Contains(t)) continue;
      ThreadNo thread = threads_.NumberOf(walker_.tid());
      if (filter_.thread && thread != *filter_.thread) continue;
      rows_.push_back({t, thread, recipe->instructions()[i].address});
    }
    return true;
  }
  bool Control(uint32_t kind, std::string_view payload) {
    threads_.Control(kind, payload);
    return true;
  }

 private:
  const ProcessReader& process_;
  Walker& walker_;
  const ExecutionFilter& filter_;
  ThreadNumbers threads_;
  std::vector<Execution>& rows_;
  NativeWalk native_;
};

absl::StatusOr<std::vector<Execution>> DecodeExecutions(const ProcessReader& process,
                                                        uint32_t number,
                                                        const ExecutionFilter& filter) {
  ASSIGN_OR_RETURN(auto block, process.LoadBlock(number));
  std::vector<Execution> rows;
  Walker walker(process.recipes());
  StartWalk(*block, &walker);
  ExecutionSink sink(*block, &walker, filter, &rows, process);
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  return rows;
}

// ---- The cursor ---------------------------------------------------------------------------------

// `blocks_of(group)` names the blocks to decode, in order; `decode(block)` gives their rows in time
// order; `extra` are rows from elsewhere, in time order, merged in.
template <class Row>
class BlockCursor : public Cursor<Row> {
 public:
  using BlocksOf = std::function<absl::StatusOr<std::vector<uint32_t>>(uint32_t group)>;
  using Decode = std::function<absl::StatusOr<std::vector<Row>>(uint32_t block)>;

  BlockCursor(const ProcessReader& process, TimeSpan span, Direction direction, BlocksOf blocks_of,
              Decode decode, std::vector<Row> extra, ScanControl* control)
      : direction_(direction),
        blocks_of_(std::move(blocks_of)),
        decode_(std::move(decode)),
        extra_(std::move(extra)),
        control_(control) {
    auto [first, last] = process.BlocksOf(span);
    first_ = first;
    last_ = last;
    if (first_ < last_) {
      uint32_t a = process.blocks()[first_].group, b = process.blocks()[last_ - 1].group;
      for (uint32_t g = a; g <= b; ++g) groups_.push_back(g);
      if (direction_ == Direction::kBackward) std::reverse(groups_.begin(), groups_.end());
    }
    if (direction_ == Direction::kBackward) std::reverse(extra_.begin(), extra_.end());
  }

  absl::StatusOr<std::optional<Row>> Next() override {
    for (;;) {
      if (control_ != nullptr && control_->cancelled) {
        return absl::CancelledError("interrupted");
      }
      bool have_row = at_ < rows_.size();
      if (!have_row && !ended_) {
        RETURN_IF_ERROR(Refill());
        continue;
      }
      bool have_extra = extra_at_ < extra_.size();
      if (!have_row && !have_extra) return std::optional<Row>();
      bool take_extra = have_extra;
      if (have_row && have_extra) {
        // The kernel's effects at a time come before that time's instruction.
        take_extra = direction_ == Direction::kForward ? extra_[extra_at_].time <= rows_[at_].time
                                                       : extra_[extra_at_].time > rows_[at_].time;
      }
      return std::optional<Row>(std::move(take_extra ? extra_[extra_at_++] : rows_[at_++]));
    }
  }

 private:
  absl::Status Refill() {
    rows_.clear();
    at_ = 0;
    // One block at first; more at once when the caller keeps asking.
    while (blocks_ahead_.wants()) {
      ASSIGN_OR_RETURN(auto block, NextBlock());
      if (!block) break;
      blocks_ahead_.Begin([this, number = *block] { return decode_(number); });
    }
    if (blocks_ahead_.empty()) {
      ended_ = true;
      return absl::OkStatus();
    }
    auto rows = blocks_ahead_.Take();
    if (control_ != nullptr) ++control_->blocks_done;
    if (!rows.ok()) return rows.status();
    rows_ = *std::move(rows);
    if (direction_ == Direction::kBackward) std::reverse(rows_.begin(), rows_.end());
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<uint32_t>> NextBlock() {
    while (blocks_.empty() && next_group_ < groups_.size()) {
      ASSIGN_OR_RETURN(auto found, blocks_of_(groups_[next_group_++]));
      for (uint32_t b : found) {
        if (b >= first_ && b < last_) blocks_.push_back(b);
      }
      if (control_ != nullptr) control_->blocks_total += blocks_.size();
      if (direction_ == Direction::kBackward) std::reverse(blocks_.begin(), blocks_.end());
    }
    if (blocks_.empty()) return std::optional<uint32_t>();
    uint32_t block = blocks_.front();
    blocks_.pop_front();
    return std::optional<uint32_t>(block);
  }

  Direction direction_;
  BlocksOf blocks_of_;
  Decode decode_;
  std::vector<Row> rows_, extra_;
  size_t at_ = 0, extra_at_ = 0;
  ScanControl* control_;
  uint32_t first_ = 0, last_ = 0;
  std::vector<uint32_t> groups_;
  size_t next_group_ = 0;
  std::deque<uint32_t> blocks_;
  bool ended_ = false;
  ReadAhead<absl::StatusOr<std::vector<Row>>> blocks_ahead_;
};

std::vector<uint32_t> AllBlocks(const ProcessReader::Group& group) {
  std::vector<uint32_t> out;
  for (uint32_t b = group.first; b < group.end; ++b) out.push_back(b);
  return out;
}

// Mappings laid over memory that had content before: those are writes too.
absl::StatusOr<AccessRows> MapWrites(const ProcessReader& process, const AccessFilter& filter) {
  AccessRows out;
  const AccessQuery& q = filter.query;
  if (!q.writes) return out;
  ASSIGN_OR_RETURN(auto changes, process.MapChanges());
  // What was ever mapped, as sorted disjoint ranges, kept only where it matters.
  std::vector<AddressRange> ever;
  auto add = [&](AddressRange r) {
    ever.push_back(r);
    ever = Normalized(std::move(ever));
  };
  for (const MapChange& c : *changes) {
    if (c.time >= q.span.end) break;
    if (c.kind != MapChange::kMap && c.kind != MapChange::kRemap) continue;
    AddressRange r =
        c.kind == MapChange::kMap ? c.range : AddressRange{c.to, c.to + c.range.size()};
    for (const AddressRange& wanted : filter.ranges.ranges()) {
      AddressRange part{std::max(r.begin, wanted.begin), std::min(r.end, wanted.end)};
      if (part.empty()) continue;
      bool had = std::any_of(ever.begin(), ever.end(), [&](const AddressRange& e) {
        return e.Overlaps(part.begin, part.size());
      });
      add(part);
      if (!had || !q.span.Contains(c.time)) continue;
      if (q.thread && c.thread != *q.thread) continue;
      if (!filter.code.empty() && !filter.code.Overlaps(c.pc.v, 1)) continue;
      Access a;
      a.time = c.time;
      a.thread = c.thread;
      a.pc = c.pc;
      a.address = part.begin;
      a.size = static_cast<uint32_t>(std::min<uint64_t>(part.size(), ~uint32_t{0}));
      a.is_write = true;
      a.actor = Actor::kMap;
      a.syscall = c.syscall;
      if (q.want_values) {
        uint64_t n = std::min<uint64_t>(part.size(), Access::kMaxValueBytes);
        ASSIGN_OR_RETURN(auto now, process.Memory(part.begin, n, c.time));
        a.value = std::move(now.bytes);
        if (c.time.v > 0) {
          auto before = process.Memory(part.begin, n, c.time - 1);
          if (before.ok()) a.previous = std::move(before->bytes);
        }
      }
      out.push_back(std::move(a));
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cursor<Access>>> ProcessReader::Accesses(
    AccessQuery query, ScanControl* control) const {
  for (const AddressRange& r : query.ranges) {
    if (r.empty()) return absl::InvalidArgumentError("an empty range");
  }
  return WhereIndexed<Access>(query.span, query.direction, [&](TimeSpan part) {
    query.span = part;
    return IndexedAccesses(query, control);
  });
}

absl::StatusOr<std::unique_ptr<Cursor<Access>>> ProcessReader::IndexedAccesses(
    const AccessQuery& query, ScanControl* control) const {
  auto filter = std::make_shared<const AccessFilter>(query);
  ASSIGN_OR_RETURN(auto extra, MapWrites(*this, *filter));
  auto blocks_of = [this, filter](uint32_t g) -> absl::StatusOr<std::vector<uint32_t>> {
    const AccessQuery& q = filter->query;
    if (q.full_scan) return AllBlocks(groups_[g]);
    return BlocksTouching(groups_[g], filter->ranges.ranges(), q.reads, q.writes);
  };
  auto decode = [this, filter](uint32_t block) { return DecodeAccesses(*this, block, *filter); };
  return std::make_unique<BlockCursor<Access>>(*this, query.span, query.direction, blocks_of,
                                               decode, std::move(extra), control);
}

absl::StatusOr<ScanPlan> ProcessReader::ExplainAccesses(const AccessQuery& query) const {
  RETURN_IF_ERROR(CheckIndexed(query.span));
  ScanPlan plan;
  auto [first, last] = BlocksOf(query.span);
  plan.blocks_total = last - first;
  plan.uses_index = !query.full_scan;
  if (query.full_scan) {
    plan.blocks = plan.blocks_total;
    plan.description = fmt::format("decode all {} blocks of the span", plan.blocks);
    return plan;
  }
  AccessFilter filter(query);
  uint64_t pages = 0;
  for (const AddressRange& r : filter.ranges.ranges()) {
    pages += (r.end.v - 1) / kPageBytes - r.begin.v / kPageBytes + 1;
  }
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].end <= first || groups_[g].first >= last) continue;
    ASSIGN_OR_RETURN(auto blocks,
                     BlocksTouching(groups_[g], filter.ranges.ranges(), query.reads, query.writes));
    for (uint32_t b : blocks) plan.blocks += b >= first && b < last;
  }
  plan.description =
      fmt::format("page index over {} {} in {} groups, then at most {} of {} blocks", pages,
                  pages == 1 ? "page" : "pages", groups_.size(), plan.blocks, plan.blocks_total);
  return plan;
}

absl::StatusOr<std::unique_ptr<Cursor<Execution>>> ProcessReader::Executions(
    std::vector<AddressRange> code, TimeSpan span, Direction direction,
    std::optional<ThreadNo> thread, ScanControl* control) const {
  return WhereIndexed<Execution>(span, direction, [&](TimeSpan part) {
    return IndexedExecutions(std::move(code), part, direction, thread, control);
  });
}

absl::StatusOr<std::unique_ptr<Cursor<Execution>>> ProcessReader::IndexedExecutions(
    std::vector<AddressRange> code, TimeSpan span, Direction direction,
    std::optional<ThreadNo> thread, ScanControl* control) const {
  auto filter = std::make_shared<ExecutionFilter>(
      ExecutionFilter{RangeSet(std::move(code)), span, thread, {}});
  ASSIGN_OR_RETURN(auto ids, SuperblocksIn(filter->code.ranges()));
  for (uint32_t id : ids) {
    const Recipe* recipe = recipes_->Find(SuperblockId(id));
    if (recipe == nullptr) {
      return absl::DataLossError(fmt::format("the recipe of superblock {} is missing", id));
    }
    std::vector<uint32_t> which;
    for (uint32_t i = 0; i < recipe->instructions().size(); ++i) {
      if (filter->code.Overlaps(recipe->instructions()[i].address.v, 1)) which.push_back(i);
    }
    if (!which.empty()) filter->matches[id] = std::move(which);
  }
  auto kept = std::make_shared<std::vector<uint32_t>>();
  for (const auto& [id, which] : filter->matches) kept->push_back(id);
  std::sort(kept->begin(), kept->end());
  auto blocks_of = [this, kept](uint32_t g) { return BlocksExecuting(groups_[g], *kept); };
  std::shared_ptr<const ExecutionFilter> shared = filter;
  auto decode = [this, shared](uint32_t block) { return DecodeExecutions(*this, block, *shared); };
  return std::make_unique<BlockCursor<Execution>>(*this, span, direction, blocks_of, decode,
                                                  std::vector<Execution>(), control);
}

absl::StatusOr<ScanPlan> ProcessReader::ExplainExecutions(const std::vector<AddressRange>& code,
                                                          TimeSpan span) const {
  RETURN_IF_ERROR(CheckIndexed(span));
  ScanPlan plan;
  plan.uses_index = true;
  auto [first, last] = BlocksOf(span);
  plan.blocks_total = last - first;
  ASSIGN_OR_RETURN(auto ids, SuperblocksIn(Normalized(code)));
  for (const Group& group : groups_) {
    if (group.end <= first || group.first >= last) continue;
    ASSIGN_OR_RETURN(auto blocks, BlocksExecuting(group, ids));
    for (uint32_t b : blocks) plan.blocks += b >= first && b < last;
  }
  plan.description =
      fmt::format("{} superblocks hold that code; execution index, then at most {} of {} blocks",
                  ids.size(), plan.blocks, plan.blocks_total);
  return plan;
}

absl::StatusOr<std::optional<Access>> LastAccess(const Process& process, AccessQuery query) {
  query.direction = Direction::kBackward;
  ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Access>> cursor,
                   process.Accesses(std::move(query), nullptr));
  return cursor->Next();
}

}  // namespace ttq
