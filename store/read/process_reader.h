// SPDX-License-Identifier: MIT
//
// One process of a recording, read from the store. Implements Process (store/read/reader.h).
//
// Every question finds blocks through an index and decodes as few of them as the answer needs. A
// decoded block is a walk over its log (store/walk/walk.h) with a sink that watches for what was
// asked.

#ifndef TTQ_STORE_READ_PROCESS_READER_H_
#define TTQ_STORE_READ_PROCESS_READER_H_

#include <array>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "store/database.h"
#include "store/format/format.h"
#include "store/format/records.h"
#include "store/read/reader.h"
#include "store/walk/loaded_block.h"
#include "store/walk/recipe.h"
#include "store/walk/walk.h"

namespace ttq {

// Recipes read from the store when they are first needed.
class StoredRecipes : public RecipeTable {
 public:
  StoredRecipes(const Database& database, ProcessNo process,
                std::shared_ptr<const RecipeTable> parent)
      : RecipeTable(std::move(parent)), database_(database), process_(process) {}

 protected:
  void Miss(SuperblockId id) const override;

 private:
  const Database& database_;
  ProcessNo process_;
};

class ScratchPool;

// What answers would have needed that is not indexed. Thread-safe.
class Unindexed {
 public:
  // An answer may go on without it and be wrong, or says that it does without it.
  void Asked(const absl::Status& what) { Note(what, &asked_); }
  void DoneWithout(const absl::Status& what) { Note(what, &done_without_); }
  // The first of each, Ok while there was none.
  absl::Status asked() const { return Of(asked_); }
  absl::Status done_without() const { return Of(done_without_); }

 private:
  void Note(const absl::Status& what, absl::Status* to) {
    std::lock_guard lock(mutex_);
    to->Update(what);
  }
  absl::Status Of(const absl::Status& noted) const {
    std::lock_guard lock(mutex_);
    return noted;
  }
  mutable std::mutex mutex_;
  absl::Status asked_, done_without_;
};

class ProcessReader : public Process {
 public:
  // `parent` is the process that forked this one, or null; it and `recording` outlive the reader.
  // So does `unindexed`, which notes the times that a question needed and that are not indexed.
  ProcessReader(const Recording& recording, const Database& database, ProcessInfo info,
                std::vector<Thread> threads, MomentInfo moment, Time fork_time,
                const ProcessReader* parent, Unindexed* unindexed);
  const MomentInfo& moment() const { return moment_; }
  void UseMemory(const OutsideMemory* memory) { memory_ = memory; }
  // Reads the group records.
  absl::Status Load(bool being_written);

  const ProcessInfo& info() const override { return info_; }
  const std::vector<Thread>& threads() const override { return threads_; }
  void DoWithout(const std::string& what) const override;
  absl::StatusOr<std::unique_ptr<Cursor<Access>>> Accesses(AccessQuery query,
                                                           ScanControl* control) const override;
  absl::StatusOr<ScanPlan> ExplainAccesses(const AccessQuery& query) const override;
  absl::StatusOr<std::unique_ptr<Cursor<Execution>>> Executions(
      std::vector<AddressRange> code, TimeSpan span, Direction direction,
      std::optional<ThreadNo> thread, ScanControl* control) const override;
  absl::StatusOr<ScanPlan> ExplainExecutions(const std::vector<AddressRange>& code,
                                             TimeSpan span) const override;
  absl::StatusOr<std::unique_ptr<Cursor<Call>>> Calls(CallQuery query,
                                                      ScanControl* control) const override;
  absl::StatusOr<MemoryImage> Memory(Address begin, uint64_t size, Time t) const override;
  absl::StatusOr<Registers> RegistersAt(Time t, std::optional<ThreadNo> thread) const override;
  absl::StatusOr<ThreadNo> ThreadAt(Time t) const override;
  absl::Status WatchBlocks(TimeSpan span,
                           const std::function<std::unique_ptr<BlockVisitor>(uint32_t block)>& make,
                           const std::function<absl::Status(std::unique_ptr<BlockVisitor>)>& take,
                           ScanControl* control) const override;
  absl::StatusOr<std::unique_ptr<Moment>> At(Time t) const override;
  absl::StatusOr<std::shared_ptr<const std::vector<Run>>> RunsAround(Time t) const override;
  std::vector<CodeInstruction> CodeOf(SuperblockId code) const override;
  absl::Status OuterCalls(const std::vector<Address>& entries,
                          const std::function<void(const CallRecord&)>& row,
                          ScanControl* control) const override;
  absl::StatusOr<std::vector<Mapping>> MappingsAt(Time t) const override;
  std::vector<Time> BlockStarts() const override;
  absl::StatusOr<std::vector<LoadedModule>> Modules() const override;
  absl::StatusOr<std::unique_ptr<Cursor<Event>>> Events(EventQuery query) const override;
  std::string DescribeUnmapped(Address address, Time t) const override;
  int64_t WallClock(Time t) const override;

  absl::Status Check(const std::function<void(const std::string&)>& problem,
                     ScanControl* control) const;

  // ---- For the cursors -------------------------------------------------------------------------

  struct Group {
    uint32_t first = 0, end = 0;  // blocks
  };
  struct BlockSpan {
    Time start, end;
    int64_t wall_start_ns, wall_end_ns;
    uint32_t group;  // index into groups()
    bool changes_mappings;
  };
  const std::vector<Group>& groups() const { return groups_; }
  const std::vector<BlockSpan>& blocks() const { return blocks_; }
  const RecipeTable& recipes() const { return *recipes_; }
  const Database& database() const { return database_; }
  const Recording& recording() const { return recording_; }

  absl::StatusOr<std::shared_ptr<const LoadedBlock>> LoadBlock(uint32_t number) const;
  // The block that holds time t; the last one for the end and beyond. REQUIRES: there are blocks.
  uint32_t BlockAt(Time t) const;
  // Blocks that overlap the span: [first, last).
  std::pair<uint32_t, uint32_t> BlocksOf(TimeSpan span) const;

  // Content of a page at the end of block `before` - 1. Sets `known` per word; what no block
  // changed comes from the mapping.
  absl::Status PageBefore(uint64_t page, uint32_t before, uint8_t* bytes, bool* known) const;
  // Blocks of a group in which a word of the ranges was written or read, in order.
  absl::StatusOr<std::vector<uint32_t>> BlocksTouching(const Group& group,
                                                       const std::vector<AddressRange>& ranges,
                                                       bool reads, bool writes) const;
  // Whether a block changed the content of one of the pages.
  absl::StatusOr<bool> PagesChangedIn(uint32_t block, const std::vector<uint64_t>& pages) const;
  // Blocks of a group in which one of the superblocks ran.
  absl::StatusOr<std::vector<uint32_t>> BlocksExecuting(const Group& group,
                                                        const std::vector<uint32_t>& ids) const;
  // Superblocks with an instruction in one of the ranges.
  absl::StatusOr<std::vector<uint32_t>> SuperblocksIn(const std::vector<AddressRange>& code) const;

  // Whether the state at a time, or all that happens in a span, is indexed. OutOfRange, which
  // Recording::Unindexed tells from then on, when it is not.
  absl::Status CheckIndexed(Time t) const;
  absl::Status CheckIndexed(TimeSpan span) const;
  // `make(part)` gives a cursor for the part of a span that is indexed. That ends with the error of
  // CheckIndexed where rows may follow that are not.
  template <class Row, class Make>
  absl::StatusOr<std::unique_ptr<Cursor<Row>>> WhereIndexed(TimeSpan span, Direction direction,
                                                            Make make) const;

  // Every change of the address space, in order. For a forked child the parent's up to the fork
  // come first, at time 0.
  absl::StatusOr<const std::vector<MapChange>*> MapChanges() const;
  // The mappings just after the changes at time t, by first address.
  using Mappings = std::map<uint64_t, Mapping>;
  absl::StatusOr<std::shared_ptr<const Mappings>> MappingsTable(Time t) const;
  // The one that holds `address`, or null.
  static const Mapping* FindMapping(const Mappings& table, uint64_t address);
  // What a kTtqMap record maps, with the file that the store kept for it.
  Mapping MappingMadeBy(const TtqMap& record) const;
  // NotFound, with its life time, when the thread does not live at t.
  absl::Status CheckAlive(ThreadNo thread, Time t) const;
  // For what the store has no bytes of, from an offset on, of a file that was mapped: whether the
  // file is kept and ended there. DataLoss when it goes on. Both are damage and are noted.
  absl::StatusOr<bool> CheckBeyondFile(uint64_t id, uint64_t offset) const;
  absl::Status ReadMapped(const Mapping& mapping, uint64_t page, uint8_t* bytes, bool* known) const;

 private:
  // What happens at the very beginning of a history may be of the block before.
  bool LacksBegin(TimeSpan span) const {
    return info_.indexed.begin.v != 0 && span.begin <= info_.indexed.begin;
  }
  bool LacksEnd(TimeSpan span) const {
    return info_.indexed.end != kTimeMax && std::min(span.end, info_.end + 1) > info_.indexed.end;
  }
  std::string WhatIsIndexed() const;
  absl::Status NoteUnindexed() const;
  absl::StatusOr<std::unique_ptr<Cursor<Access>>> IndexedAccesses(const AccessQuery& query,
                                                                  ScanControl* control) const;
  absl::StatusOr<std::unique_ptr<Cursor<Execution>>> IndexedExecutions(
      std::vector<AddressRange> code, TimeSpan span, Direction direction,
      std::optional<ThreadNo> thread, ScanControl* control) const;
  absl::StatusOr<std::unique_ptr<Cursor<Call>>> IndexedCalls(CallQuery query,
                                                             ScanControl* control) const;

  class GroupsOfPage;
  // Whether the spans of groups, where there are such, say that a group has content of a page.
  bool SpansTell(size_t group, uint64_t page) const;
  // What blocks have written to a page: its words where `have` says so.
  struct PageContent {
    WordMap have;
    std::array<uint8_t, kPageBytes> bytes;

    // What is not there yet.
    void Add(const PageContent& older);
  };
  // Adds what a group's blocks before `before` wrote. REQUIRES: it has such a block.
  absl::Status AddWritten(uint64_t page, size_t group, uint32_t before, Database::Iterator* it,
                          PageContent* content) const;
  // A page at the beginning of a span of groups, and which of these may have content of it.
  struct KeptPage {
    size_t span = 0;
    uint32_t parts = ~uint32_t{0};
    std::shared_ptr<const PageContent> older;  // null: no block before has written to it
  };
  absl::StatusOr<KeptPage> Keep(uint64_t page, size_t span) const;
  // Check, of one block; not Ok where there is no memory for it.
  absl::Status CheckBlock(uint32_t block, ScratchPool* pool,
                          std::vector<std::string>* problems) const;

  const Recording& recording_;
  const Database& database_;
  ProcessInfo info_;
  std::vector<Thread> threads_;
  MomentInfo moment_;
  Time fork_time_;
  const ProcessReader* parent_;
  Unindexed* const unindexed_;
  const OutsideMemory* memory_ = nullptr;
  std::shared_ptr<StoredRecipes> recipes_;
  std::vector<Group> groups_;
  std::vector<BlockSpan> blocks_;

  mutable std::mutex mutex_;
  mutable std::list<std::shared_ptr<const LoadedBlock>> cache_;  // most recently used first
  // The last block asked for; some tens of MiB.
  mutable std::shared_ptr<const std::vector<Run>> runs_;
  mutable uint32_t runs_block_ = 0;
  mutable std::shared_ptr<const std::vector<MapChange>> changes_;
  // Tables last asked for, most recent last: a few, since several threads ask at once.
  mutable std::vector<std::pair<Time, std::shared_ptr<const Mappings>>> last_mappings_;

  // What Keep found, by page; those not found for as long as kPagesKept others were go.
  using KeptPages = absl::flat_hash_map<uint64_t, std::vector<KeptPage>>;
  static constexpr size_t kPagesKept = 1024;
  mutable std::mutex kept_mutex_;  // guards these two
  mutable KeptPages kept_, kept_before_;
};

// ---- Implementation -----------------------------------------------------------------------------

template <class Row, class Make>
absl::StatusOr<std::unique_ptr<Cursor<Row>>> ProcessReader::WhereIndexed(TimeSpan span,
                                                                         Direction direction,
                                                                         Make make) const {
  const bool forward = direction == Direction::kForward;
  if (forward ? LacksBegin(span) : LacksEnd(span)) return NoteUnindexed();
  const bool lacks_last = forward ? LacksEnd(span) : LacksBegin(span);
  absl::StatusOr<std::unique_ptr<Cursor<Row>>> rows = make(
      TimeSpan{std::max(span.begin, info_.indexed.begin), std::min(span.end, info_.indexed.end)});
  if (!rows.ok() || !lacks_last) return rows;
  class Partial : public Cursor<Row> {
   public:
    Partial(std::unique_ptr<Cursor<Row>> rows, const ProcessReader& process)
        : rows_(std::move(rows)), process_(process) {}
    absl::StatusOr<std::optional<Row>> Next() override {
      absl::StatusOr<std::optional<Row>> row = rows_->Next();
      if (row.ok() && !*row) return process_.NoteUnindexed();
      return row;
    }

   private:
    const std::unique_ptr<Cursor<Row>> rows_;
    const ProcessReader& process_;
  };
  return std::make_unique<Partial>(*std::move(rows), *this);
}

}  // namespace ttq

#endif  // TTQ_STORE_READ_PROCESS_READER_H_
