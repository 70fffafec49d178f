// SPDX-License-Identifier: MIT
//
// One process on its way into the store, and what the processes of a recording share. For
// ingest.cc, process_ingest.cc and commit.cc alone.

#ifndef TTQ_STORE_WRITE_PROCESS_INGEST_H_
#define TTQ_STORE_WRITE_PROCESS_INGEST_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/worker_pool.h"
#include "store/database.h"
#include "store/format/format.h"
#include "store/format/moment_info.h"
#include "store/format/recorded.h"
#include "store/format/trace.capnp.h"
#include "store/walk/digest.h"
#include "store/write/block_source.h"
#include "store/write/disk_errors.h"
#include "store/write/image.h"
#include "store/write/ingest.h"
#include "store/write/process_numbers.h"
#include "store/write/recording_record.h"

namespace ttq {

constexpr size_t kGroupBlocks = 32;                              // blocks stored together, at most
constexpr size_t kGroupBytes = 64 << 20;                         // or as many bytes of rows
constexpr auto kFirstGroupAge = std::chrono::milliseconds(250);  // each next twice as old, up to
constexpr auto kGroupAge = std::chrono::milliseconds(2000);
constexpr size_t kReserveBytes = 512 << 10;  // kept free for the last records
constexpr int kWholePageEvery = 16;          // index entries of a page from one whole to the next
constexpr size_t kFileBatchBytes = 8 << 20;  // of a file, added to the store at once
constexpr size_t kVerifyCacheBytes = 512 << 20;  // verifying reads every mapped file at every block
constexpr size_t kTakenPages = 4096;             // made rows of at once, where a history begins
constexpr size_t kMaxForks = 1000;               // whose child has not come yet

// Out of the packed record, where they are not aligned.
std::array<uint64_t, 6> ArgumentsOf(const TtqSyscall& s);

// What a forked child needs of its parent at that moment.
struct ForkPoint {
  std::shared_ptr<const LiveImage> image;
  std::shared_ptr<const RecipeTable> recipes;
  Time time;
  uint32_t blocks;  // of the parent's, that of the fork included
  bool is_indexed;  // the parent's history goes up to there: `image` has its memory
};

struct RecordingWriter::Impl {
  std::string directory;
  RecordingInfo info;
  std::string copies;  // of mapped files; empty: there are none
  std::map<ProcessNo, std::string> missing;
  Time history_end = kTimeMax;
  std::unique_ptr<Database> database;
  std::unique_ptr<WorkerPool> workers;
  ScratchPool scratches;
  IngestTotals totals;

  mutable std::mutex mutex;
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<Ring>> rings;
  size_t running = 0;
  bool storage_failed = false;
  absl::Status error;
  ProcessNumbers numbers;
  absl::flat_hash_set<std::string> ended;          // rings, by name
  std::map<ProcessNo, std::vector<Time>> skimmed;  // the ends of blocks that were not indexed
  std::condition_variable fork_known;
  std::map<std::pair<std::string, uint32_t>, ForkPoint> forks;  // by ring and number
  bool takes_segments = false;
  // By the process's own ring: what takes its segments, null when it does so no longer; and those
  // that came before it.
  std::map<std::string, BlockSource*> sources;
  std::multimap<std::string, std::shared_ptr<Ring>> early_segments;

  // A mapped file that is in the store, which it is read from: the file itself may change, and all
  // the files of a program together may be large.
  class StoredFile : public FileBytes {
   public:
    StoredFile(Impl& recording, uint64_t id, uint64_t bytes)
        : recording_(recording), id_(id), bytes_(bytes) {}
    uint64_t id() const { return id_; }
    // What cannot be read is zero, and the recording fails.
    void Read(uint64_t offset, size_t n, uint8_t* out) const override;

   private:
    Impl& recording_;
    const uint64_t id_, bytes_;
  };
  std::mutex file_mutex;  // held while a file is stored; taken before `mutex`
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, int64_t>, std::shared_ptr<const StoredFile>>
      files;  // dev ino size mtime
  // The chunk read last, as pages are read one after the other.
  std::mutex chunk_mutex;
  uint64_t chunk_file = 0;  // 0: none
  uint32_t chunk_number = 0;
  std::string chunk;

  void Fail(const absl::Status& s) {
    std::lock_guard lock(mutex);
    FailLocked(s);
  }
  // REQUIRES: `mutex` is held.
  void FailLocked(const absl::Status& s) {
    if (!error.ok()) return;
    error = s;
    for (auto& ring : rings) {
      if (!ring->finished()) totals.ran_on = true;
      ring->Detach();
    }
  }
  // A ring has come to its end. REQUIRES: `mutex` is held.
  void EndLocked(const std::shared_ptr<Ring>& ring);

  // While it lives, the segments of the process of that ring go to `source`.
  class SegmentsOf {
   public:
    SegmentsOf(Impl* recording, std::string ring, BlockSource* source);
    ~SegmentsOf();
    SegmentsOf(const SegmentsOf&) = delete;
    SegmentsOf& operator=(const SegmentsOf&) = delete;

   private:
    Impl* const recording_;
    const std::string ring_;
  };
  // REQUIRES: `mutex` is held.
  void AddSegmentLocked(const std::shared_ptr<Ring>& ring);
  // A segment has come to its end.
  void Forget(const std::shared_ptr<Ring>& ring) {
    std::lock_guard lock(mutex);
    std::erase(rings, ring);
  }

  // For what RocksDB or the disk says when something cannot be stored. From then on a group is not
  // stored either: it might need what is missing.
  void StorageFailed(const absl::Status& s);
  bool StorageHasFailed() const {
    std::lock_guard lock(mutex);
    return storage_failed;
  }
  absl::Status Error() const {
    std::lock_guard lock(mutex);
    return error;
  }
  std::string Reserve() const { return directory + "/reserve"; }
  // It begins with what the recording says of itself: until the store is made nothing else does.
  absl::Status KeepReserve() const;

  absl::Status Open() {
    RETURN_IF_ERROR(KeepReserve());
    ASSIGN_OR_RETURN(database, Database::Create(directory + "/db"));
    return WriteRecord(false);
  }

  absl::Status WriteRecord(bool finished) {
    return database->Put(RecordingKey(), EncodeRecording(info, finished && info.finished));
  }

  // A mapped file, stored on first sight, whose bytes are at `bytes_at`, usually `path` itself.
  // Null when it is not there any more as it was mapped.
  std::shared_ptr<const StoredFile> File(const std::string& path, const std::string& bytes_at,
                                         const TtqMap& m);

  // Null when it cannot be read, or changes meanwhile.
  std::shared_ptr<const StoredFile> StoreFile(const std::string& path, int fd, uint64_t size);

  // The hash of a file, whose chunks go to `chunk` if there is one. nullopt when it cannot be read.
  static std::optional<uint64_t> HashOf(
      int fd, uint64_t size, const std::function<void(uint32_t, const std::string&)>& chunk);
};

class ProcessIngest {
 public:
  // `parent`: which forked this one, or by exec became it; 0: none that is known.
  ProcessIngest(RecordingWriter::Impl& recording, std::shared_ptr<Ring> ring, ProcessNo number,
                ProcessNo parent);

  void Run();

 private:
  // As Guarded. After an exception nothing more is stored, since the pending group may be
  // incomplete.
  template <class Work>
  absl::Status Attempt(const Work& work) {
    bool returned = false;
    absl::Status s = Guarded([&] {
      absl::Status result = work();
      returned = true;
      return result;
    });
    broken_ = broken_ || !returned;
    return s;
  }

  absl::Status Ingest();

  // A forked child goes on with its parent's memory and code.
  void NoteWhatRingLacks();
  absl::Status Inherit();

  // ---- Committing -------------------------------------------------------------------------------

  struct LiveThread {
    ThreadNo number;
    uint64_t last_pc = 0;
    ThreadState state;
    Time start{0};
  };

  struct EntryMaps {
    WordMap written, read, content;
    bool whole = false;
  };

  EntryMaps& Entry(uint64_t page) {
    auto [it, is_new] = entries_.try_emplace(page);
    if (is_new) image_.NoteEntry(page);
    return it->second;
  }

  void Apply(const PageChanges::Page& changes);

  // The same memory may be mapped at several places; what is written at one shows at the others.
  void CopyToAliases(const PageChanges::Page& changes);

  // The kernel grows the stack without telling anybody.
  void EnsureMapped(uint64_t page);

  void AddMapChange(const MapChange& change) {
    batch_.Put(Family::kMap, MapKey(number_, next_map_++), change.Encode());
  }

  // The content of these pages is no longer what their last index entry says.
  void Replaced(const std::vector<uint64_t>& pages);

  void WriteInitial(uint64_t address, std::string_view bytes);

  LiveThread& ThreadOf(uint32_t tid);
  void Begin(uint32_t number, LiveThread* thread);
  absl::Status AddThread(const TtqThread& t);

  Thread& Record(ThreadNo number) { return threads_[number.v - 1]; }

  void AddEvent(EventKind kind, ThreadNo thread, uint64_t pc, int64_t number, int64_t result,
                absl::Span<const uint64_t> args, std::string_view text, std::string_view bytes,
                int64_t wall_ns);

  // The thread a record concerns, and the last instruction it executed.
  std::pair<ThreadNo, uint64_t> Concerned(const ControlItem& item, uint32_t tid);
  void EnterSyscall(const ControlItem& item);
  void LeaveSyscall(const ControlItem& item);
  void EndThread(const ControlItem& item);
  void TakeSignal(const ControlItem& item);
  // What a child needs that this fork made.
  absl::Status KeepForChild(uint32_t fork_number);
  absl::Status Control(const ControlItem& item);

  MapChange ChangeOf(const ControlItem& item, uint64_t begin, uint64_t bytes);

  void MapMemory(const ControlItem& item);

  // Before and after a fork: what parent and child write to the same memory from now on.
  void NoteSharedMemory();

  void Incomplete(const std::string& why) {
    info_.complete = false;
    if (info_.incomplete_reason.empty()) info_.incomplete_reason = why;
  }

  absl::Status Commit(const TtqBlock& block, BlockDigest digest);
  // What comes of a block whether it is indexed or not.
  absl::Status Follow(const TtqBlock& block, const BlockDigest& digest);

  // ---- A history of a part of the process -------------------------------------------------------

  // Blocks are skimmed until BeginHistory.
  void IndexNothingYet();
  // The process stands still before its next block: the history begins there.
  absl::Status BeginHistory(const TtqBlock& before);
  // Stores the pages that differ from their mappings as content of the next block.
  absl::Status TakeMemory();
  absl::Status TakeMemoryOf(int memory, const AddressRange& run);
  // Stores rows before their group is complete: they do not count yet.
  absl::Status StoreEarly();

  // A block that began while the program ran must begin with the registers the one before it ended
  // with: a check of every derivation, at no cost.
  absl::Status CheckRegisters(const TtqBlock& block, const BlockDigest& digest);

  std::string Header(const BlockDigest& digest);

  void StorePages(uint32_t group, uint32_t block);

  std::chrono::milliseconds GroupAge() const {
    return std::min(kGroupAge, kFirstGroupAge * (1 << std::min(groups_made_, 8u)));
  }

  // Stores the group that has come together, while the next one does: the disk takes its time.
  absl::Status StoreGroup();

  // Waits for the group that is being stored.
  absl::Status FinishStoring();

  absl::Status StoreProcess();

  // Puts what is not about one block alone into the batch, and begins a new group.
  void CompleteGroup();

  // Puts the spans into the batch that the last group completes.
  void CompleteSpans();

  // All but what never changes and may be long.
  void Describe(schema::Process::Builder p) const;

  // ---- Verification -----------------------------------------------------------------------------

  // Compares all of the program's memory, which stands still, with the image.
  absl::Status Verify();

  // What system calls under way may write is as it is.
  void TakePending(uint64_t begin, const uint8_t* actual, uint8_t* expected) const;

  absl::Status Compare();
  std::vector<AddressRange> RunsToCompare(uint64_t begin, const LiveImage::Area& area) const;
  absl::Status ComparePages(const AddressRange& run, std::vector<uint8_t>* actual);

  struct Summary {
    Time end;
    int64_t wall_start_ns, wall_end_ns;
    uint32_t log_bytes, flags;
  };

  RecordingWriter::Impl& recording_;
  std::shared_ptr<Ring> ring_;
  ProcessNo number_;
  ProcessInfo info_;
  MomentInfo moment_;
  Time fork_time_{0};
  uint32_t fork_blocks_ = 0;
  bool closed_ = false;
  // Blocks before that are skimmed, not indexed.
  std::atomic<uint32_t> indexed_from_block_{0};
  std::atomic<bool> is_past_history_{false};
  bool indexes_ = true;       // what is committed
  bool starts_anew_ = false;  // the registers that the next block starts with were not derived
  bool broken_ = false;       // an exception left what is to be stored next in part
  bool is_orphan_ = false;    // forked by a process whose memory then is not known
  std::optional<Time> crash_;
  std::shared_ptr<RecipeTable> recipes_;
  LiveImage image_;
  AddressRange last_mapped_{};
  bool has_aliases_ = false;  // two areas have ever had the same identity

  std::vector<std::string> recipe_rows_;

  std::map<uint32_t, LiveThread> live_;  // by Valgrind's tid
  std::vector<Thread> threads_;          // by number - 1
  uint32_t next_thread_ = 1, current_tid_ = 0;
  absl::flat_hash_map<uint32_t, int64_t> open_syscalls_;
  Time block_start_{0}, now_{0}, event_time_ = kTimeMax;
  uint32_t event_sequence_ = 0;
  uint64_t next_map_ = 0;

  absl::flat_hash_map<uint64_t, EntryMaps> entries_;  // of the block being committed
  Database::Batch batch_;
  std::map<std::string, std::string> extents_;
  absl::flat_hash_map<uint32_t, std::string> exec_;
  std::vector<Summary> summaries_;
  uint32_t group_first_ = 0, groups_made_ = 0;
  // Of the spans that are not whole, which parts have content of a page.
  std::array<absl::flat_hash_map<uint64_t, uint32_t>, kSpanLevels> span_pages_;
  struct AsOf {
    ProcessInfo info;
    std::vector<Thread> threads;
  };
  AsOf stored_, storing_;  // of the end of the last group stored, and of the one being stored
  std::future<bool> being_stored_;
  std::chrono::steady_clock::time_point group_started_ = std::chrono::steady_clock::now();
};

}  // namespace ttq

#endif  // TTQ_STORE_WRITE_PROCESS_INGEST_H_
