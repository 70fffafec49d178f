// SPDX-License-Identifier: MIT

#include "store/ingest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "store/database.h"
#include "store/digest.h"
#include "store/elf.h"
#include "store/format.h"
#include "store/image.h"
#include "store/message.h"
#include "store/reader.h"
#include "store/seal.h"
#include "store/threads.h"
#include "store/trace.capnp.h"
#include "store/version.h"

namespace ttq {
namespace {

constexpr size_t kGroupBlocks = 32;                              // blocks stored together, at most
constexpr size_t kGroupBytes = 64 << 20;                         // or as many bytes of rows
constexpr auto kFirstGroupAge = std::chrono::milliseconds(250);  // each next twice as old, up to
constexpr auto kGroupAge = std::chrono::milliseconds(2000);
constexpr size_t kReserveBytes = 512 << 10;  // kept free for the last records
constexpr int kWholePageEvery = 16;          // index entries of a page from one whole to the next
constexpr size_t kFileBatchBytes = 8 << 20;  // of a file, added to the store at once
constexpr size_t kVerifyCacheBytes = 512 << 20;  // verifying reads every mapped file at every block
constexpr size_t kMaxForks = 1000;               // whose child has not come yet

// ---- Digest workers -----------------------------------------------------------------------------

class WorkerPool {
 public:
  // As many as can be had; no job is done where there is none.
  explicit WorkerPool(size_t threads) {
    for (size_t i = 0; i < threads && problem_.ok(); ++i) {
      absl::StatusOr<std::thread> thread = StartThread([this] { Work(); });
      if (thread.ok()) {
        threads_.push_back(*std::move(thread));
      } else {
        problem_ = thread.status();
      }
    }
  }
  ~WorkerPool() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  // Why there is no thread at all.
  absl::Status status() const { return threads_.empty() ? problem_ : absl::OkStatus(); }
  template <class F>
  auto Submit(F f) -> std::future<decltype(f())> {
    auto task = std::make_shared<std::packaged_task<decltype(f())()>>(std::move(f));
    auto future = task->get_future();
    {
      std::lock_guard lock(mutex_);
      queue_.emplace_back([task] { (*task)(); });
    }
    wake_.notify_one();
    return future;
  }

 private:
  void Work() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
        if (queue_.empty()) return;
        job = std::move(queue_.front());
        queue_.pop_front();
      }
      job();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  absl::Status problem_;
  std::vector<std::thread> threads_;
};

absl::Status DiskFull(const std::string& directory) {
  return absl::ResourceExhaustedError("the disk is full: " + directory);
}

// Of an error that is a number. ResourceExhausted is a full disk alone: what becomes of the program
// depends on it.
absl::Status NumberedError(int error, const std::string& what, const std::string& directory) {
  if (error == ENOSPC || error == EDQUOT) return DiskFull(directory);
  if (error == EEXIST) return absl::ErrnoToStatus(error, what);
  return absl::UnavailableError(fmt::format("{}: {}", what, strerror(error)));
}

// The status of `work`, also where it runs out of memory, or a library gives up by an exception:
// the threads here are waited for, and have the program wait for them.
template <class Work>
absl::Status Guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::UnavailableError("out of memory");
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  }
}

// Out of the packed record, where they are not aligned.
std::array<uint64_t, 6> ArgumentsOf(const TtqSyscall& s) {
  std::array<uint64_t, 6> out;
  memcpy(out.data(), &s.args, sizeof(out));
  return out;
}

// What a forked child needs of its parent at that moment.
struct ForkPoint {
  std::shared_ptr<const LiveImage> image;
  std::shared_ptr<const RecipeTable> recipes;
  Time time;
  uint32_t blocks;  // of the parent's, that of the fork included
};

}  // namespace

// ---- The recording ------------------------------------------------------------------------------

struct RecordingWriter::Impl {
  std::string directory;
  std::vector<std::string> command;
  int64_t start_wall_ns = 0;
  std::unique_ptr<Database> database;
  std::unique_ptr<WorkerPool> workers;
  ScratchPool scratches;
  IngestTotals totals;

  mutable std::mutex mutex;
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<Ring>> rings;
  size_t running = 0;
  bool storage_failed = false;
  uint32_t next_process = 1;
  absl::Status error;
  absl::flat_hash_map<uint32_t, ProcessNo> process_of_pid;  // the newest
  struct RingState {
    ProcessNo process;
    bool ended = false;
  };
  absl::flat_hash_map<std::string, RingState> ring_states;  // by name, of all there ever were
  std::condition_variable fork_known;
  std::map<std::pair<std::string, uint32_t>, ForkPoint> forks;  // by ring and number

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
    for (auto& ring : rings) ring->Detach();
  }
  // A ring has come to its end. REQUIRES: `mutex` is held.
  void EndLocked(const std::shared_ptr<Ring>& ring) {
    ring_states[ring->name()].ended = true;
    std::erase(rings, ring);
    fork_known.notify_all();
    --running;
  }

  // For what RocksDB or the disk says when something cannot be stored. From then on a group is not
  // stored either: it might need what is missing.
  void StorageFailed(const absl::Status& s) {
    {
      std::lock_guard lock(mutex);
      if (storage_failed) return;
      storage_failed = true;
    }
    Fail(absl::IsResourceExhausted(s) ? DiskFull(directory) : s);
    unlink(Reserve().c_str());
    database->Recover();
  }
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
  absl::Status KeepReserve() const {
    int fd = open(Reserve().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return NumberedError(errno, Reserve(), directory);
    const std::string record = Record(false);
    const ssize_t n = write(fd, record.data(), record.size());
    int error = n == static_cast<ssize_t>(record.size()) ? posix_fallocate(fd, 0, kReserveBytes)
                : n < 0                                  ? errno
                                                         : ENOSPC;
    close(fd);
    if (error == ENOSPC || error == EDQUOT) return DiskFull(directory);
    return absl::OkStatus();  // where it cannot be kept, it is not
  }

  absl::Status Open() {
    if (absl::Status s = KeepReserve(); !s.ok()) return s;
    auto made = Database::Create(directory + "/db");
    if (!made.ok()) return made.status();
    database = std::move(*made);
    return WriteRecord(false);
  }

  absl::Status WriteRecord(bool finished) {
    return database->Put(RecordingKey(), Record(finished));
  }
  std::string Record(bool finished) const {
    capnp::MallocMessageBuilder message;
    auto r = message.initRoot<schema::Recording>();
    r.setStoreVersion(kStoreVersion);
    auto words = r.initCommand(static_cast<unsigned>(command.size()));
    for (unsigned i = 0; i < command.size(); ++i) words.set(i, command[i]);
    char buffer[4096] = "";
    r.setWorkingDirectory(getcwd(buffer, sizeof(buffer)) ? buffer : "");
    gethostname(buffer, sizeof(buffer) - 1);
    r.setHost(buffer);
    r.setRecorderVersion(kVersion);
    r.setStartWallNs(start_wall_ns);
    r.setFinished(finished);
    return BytesOf(message);
  }

  // A mapped file, stored on first sight. Null when it is not there any more as it was mapped.
  std::shared_ptr<const StoredFile> File(const std::string& path, const TtqMap& m) {
    // Copies: the record is packed.
    const std::tuple key(uint64_t{m.dev}, uint64_t{m.ino}, uint64_t{m.file_bytes},
                         int64_t{m.mtime_ns});
    std::lock_guard lock(file_mutex);
    auto it = files.find(key);
    if (it != files.end()) return it->second;
    if (m.file_bytes > kMaxFileBytes) return nullptr;
    // It may be a pipe by now, for which nobody should wait.
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return nullptr;
    std::shared_ptr<const StoredFile> file;
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == m.dev && st.st_ino == m.ino &&
        static_cast<uint64_t>(st.st_size) == m.file_bytes &&
        st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec == m.mtime_ns) {
      file = StoreFile(path, fd, m.file_bytes);
    }
    close(fd);
    if (file != nullptr) files.emplace(key, file);
    return file;
  }

  // Null when it cannot be read, or changes meanwhile.
  std::shared_ptr<const StoredFile> StoreFile(const std::string& path, int fd, uint64_t size) {
    // Chunks are found by the hash of all of it, so it is read twice rather than held in memory.
    const auto hash = HashOf(fd, size, nullptr);
    if (!hash) return nullptr;
    const uint64_t id = FileIdOf(*hash);
    auto file = std::make_shared<StoredFile>(*this, id, size);
    for (const auto& [key, other] : files) {
      if (other->id() == id) return file;
    }
    Database::Batch batch;
    absl::Status s;
    const auto again = HashOf(fd, size, [&](uint32_t number, const std::string& bytes) {
      batch.Put(Family::kFile, FileChunkKey(id, number), bytes);
      if (!s.ok() || batch.bytes() < kFileBatchBytes) return;
      s = database->Add(std::move(batch));
      batch = Database::Batch();
    });
    if (again != hash) return nullptr;
    if (s.ok()) s = database->Add(std::move(batch));
    if (s.ok()) {
      capnp::MallocMessageBuilder message;
      auto r = message.initRoot<schema::File>();
      r.setPath(path);
      r.setSize(size);
      r.setBuildId(ElfBuildId([fd](uint64_t offset, size_t n, void* out) {
        return pread(fd, out, n, static_cast<off_t>(offset)) == static_cast<ssize_t>(n);
      }));
      s = database->Put(FileKey(id), BytesOf(message));
    }
    if (!s.ok()) StorageFailed(s);
    return file;
  }

  // The hash of a file, whose chunks go to `chunk` if there is one. nullopt when it cannot be read.
  static std::optional<uint64_t> HashOf(
      int fd, uint64_t size, const std::function<void(uint32_t, const std::string&)>& chunk) {
    std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                   XXH3_freeState);
    if (state == nullptr) return std::nullopt;
    XXH3_64bits_reset(state.get());
    std::string bytes;
    for (uint64_t at = 0; at < size; at += bytes.size()) {
      bytes.resize(std::min<uint64_t>(kFileChunkBytes, size - at));
      for (size_t done = 0; done < bytes.size();) {
        ssize_t n =
            pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
        if (n <= 0) return std::nullopt;
        done += static_cast<size_t>(n);
      }
      XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
      if (chunk) chunk(static_cast<uint32_t>(at / kFileChunkBytes), bytes);
    }
    return XXH3_64bits_digest(state.get());
  }
};

void RecordingWriter::Impl::StoredFile::Read(uint64_t offset, size_t n, uint8_t* out) const {
  std::lock_guard lock(recording_.chunk_mutex);
  std::string& chunk = recording_.chunk;
  const size_t inside = std::min<uint64_t>(n, bytes_ - std::min(offset, bytes_));
  memset(out + inside, 0, n - inside);
  for (size_t done = 0; done < inside;) {
    const auto number = static_cast<uint32_t>((offset + done) / kFileChunkBytes);
    const size_t from = (offset + done) % kFileChunkBytes;
    const size_t part = std::min<size_t>(inside - done, kFileChunkBytes - from);
    if (recording_.chunk_file != id_ || recording_.chunk_number != number) {
      recording_.chunk_file = 0;
      auto bytes = recording_.database->Get(Family::kFile, FileChunkKey(id_, number));
      absl::Status s = bytes.status();
      if (s.ok() && bytes->size() < from + part) s = absl::DataLossError("a file is cut off");
      if (!s.ok()) {
        recording_.Fail(s);
        memset(out + done, 0, inside - done);
        return;
      }
      chunk = *std::move(bytes);
      recording_.chunk_file = id_;
      recording_.chunk_number = number;
    }
    memcpy(out + done, chunk.data() + from, part);
    done += part;
  }
}

// ---- One process --------------------------------------------------------------------------------

class ProcessIngest {
 public:
  // `parent`: which forked this one, or by exec became it; 0: none that is known.
  ProcessIngest(RecordingWriter::Impl& recording, std::shared_ptr<Ring> ring, ProcessNo number,
                ProcessNo parent)
      : recording_(recording), ring_(std::move(ring)), number_(number) {
    info_.number = number;
    info_.pid = ring_->pid();
    info_.parent = parent;
    info_.by_exec = parent.v != 0 && ring_->parent_ring().empty();
    info_.start_wall_ns = info_.end_wall_ns = ring_->start_wall_ns();
    std::vector<std::string> words = ring_->arguments();
    if (words.size() >= 2) {
      info_.program = words[0];
      info_.working_directory = words[1];
      info_.arguments.assign(words.begin() + 2, words.end());
    }
    stored_.info = info_;
  }

  void Run() {
    absl::Status s = Attempt([this] {
      // So that the process is known from the start, whatever happens.
      absl::Status stored = StoreProcess();
      return stored.ok() ? Ingest() : stored;
    });
    if (!s.ok()) {
      recording_.Fail(s);
      // Keep taking blocks, or the program would wait for ever.
      while (ring_->Next() != nullptr) ring_->Release();
    } else if (!ring_->finished() && !ring_->superseded()) {
      Incomplete(ring_->became_other() ? "it became a program that cannot be recorded"
                                       : "the process was killed; its last block is lost");
    }
    if (!ring_->finished() && !ring_->superseded()) recording_.totals.lost = true;
    if (!broken_) (void)Attempt([this] { return StoreGroup(); });
    (void)FinishStoring();
    if (recording_.StorageHasFailed() || broken_) {
      info_ = stored_.info;
      threads_ = stored_.threads;
    }
    // Another process's trouble is this one's too: it went on unrecorded.
    if (absl::Status error = recording_.Error(); !error.ok()) {
      info_.complete = false;
      info_.incomplete_reason = std::string(error.message());
      crash_.reset();
    } else if (ring_->fatal_signal() != 0) {
      info_.crash = crash_.has_value() ? crash_ : info_.end;
    }
    if (ring_->fatal_signal() != 0) {
      info_.fatal_signal = static_cast<int>(ring_->fatal_signal());
      info_.exit_status.reset();
    }
    closed_ = true;
    (void)StoreProcess();
  }

 private:
  struct Pending {
    BlockView block;
    std::future<absl::StatusOr<BlockDigest>> digest;
  };

  // As Guarded. An exception may leave what is to be stored next in part: nothing more is stored.
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

  absl::Status Ingest() {
    if (absl::Status s = Inherit(); !s.ok()) return s;
    std::deque<Pending> pending;
    const size_t limit = std::max<uint32_t>(2, std::min<uint32_t>(6, ring_->block_count() - 1));
    bool more = true;
    // Take ahead as far as the ring has blocks; commit in order.
    std::mutex mutex;
    std::condition_variable changed;
    absl::Status take_error;
    const auto take_blocks = [&]() -> absl::Status {
      for (;;) {
        const TtqBlock* block = ring_->Next();
        if (block == nullptr) return ring_->status();
        BlockView view;
        if (absl::Status s = ring_->Take(block, &view); !s.ok()) return s;
        if (absl::Status s = AddRecipes(view.recipes); !s.ok()) return s;
        std::unique_lock lock(mutex);
        pending.push_back({view, {}});
        try {
          pending.back().digest = recording_.workers->Submit([this, log = view.log] {
            return DigestBlock(*recipes_, log, &recording_.scratches,
                               ring_->verify() ? Packing::kCompare : Packing::kPack);
          });
        } catch (...) {
          pending.pop_back();
          throw;
        }
        changed.notify_all();
        changed.wait(lock, [&] { return pending.size() < limit || !more; });
        if (!more) return absl::OkStatus();
      }
    };
    absl::StatusOr<std::thread> taker = StartThread([&] {
      absl::Status s = Guarded(take_blocks);
      std::lock_guard lock(mutex);
      take_error = std::move(s);
      more = false;
      changed.notify_all();
    });
    if (!taker.ok()) return taker.status();
    absl::Status result;
    for (;;) {
      Pending* next;
      {
        std::unique_lock lock(mutex);
        auto some = [&] { return !pending.empty() || !more; };
        // A program that rests must not keep what it did from being stored.
        if (summaries_.empty()) changed.wait(lock, some);
        if (!changed.wait_until(lock, group_started_ + GroupAge(), some)) {
          lock.unlock();
          if (result = Attempt([this] { return StoreGroup(); }); result.ok()) continue;
          lock.lock();
          more = false;
          changed.notify_all();
          break;
        }
        if (pending.empty()) break;
        next = &pending.front();
      }
      const TtqBlock& block = next->block.head;
      result = Attempt([&] {
        absl::StatusOr<BlockDigest> digest = next->digest.get();
        absl::Status s = digest.ok() ? Commit(block, std::move(*digest)) : digest.status();
        return s.ok() && ring_->verify() && block.ends_between_superblocks ? Verify() : s;
      });
      if (ring_->verify()) ring_->Verified(block.number);
      ring_->Release();
      std::unique_lock lock(mutex);
      pending.pop_front();
      if (!result.ok()) {
        more = false;
        changed.notify_all();
        break;
      }
      changed.notify_all();
    }
    taker->join();
    // Digests still under way use blocks of the ring.
    for (Pending& p : pending) {
      if (p.digest.valid()) p.digest.wait();
      ring_->Release();
    }
    return result.ok() ? take_error : result;
  }

  // A forked child goes on with its parent's memory and code.
  absl::Status Inherit() {
    std::string parent = ring_->parent_ring();
    if (parent.empty()) {
      recipes_ = std::make_shared<RecipeTable>();
      return absl::OkStatus();
    }
    if (info_.parent.v == 0) {  // to wait for it might be for ever
      return absl::DataLossError("the process that forked this one was not recorded");
    }
    std::unique_lock lock(recording_.mutex);
    auto key = std::make_pair(parent, ring_->fork_number());
    recording_.fork_known.wait(lock, [&] {
      return recording_.forks.contains(key) || recording_.ring_states[parent].ended;
    });
    auto it = recording_.forks.find(key);
    if (it == recording_.forks.end()) {
      return absl::DataLossError("the process that forked this one was lost");
    }
    image_ = *it->second.image;
    NoteSharedMemory();
    recipes_ = std::make_shared<RecipeTable>(it->second.recipes);
    fork_time_ = it->second.time;
    fork_blocks_ = it->second.blocks;
    recording_.forks.erase(it);
    return absl::OkStatus();
  }

  absl::Status AddRecipes(std::string_view bytes) {
    // A copy: what is checked must be what is used and stored.
    const std::string all(bytes);
    std::lock_guard lock(recipe_rows_mutex_);
    for (std::string_view rest = all; !rest.empty();) {
      auto size = LoadPod<uint32_t>(rest);
      if (size < sizeof(TtqRecipe) || size > rest.size()) {
        return absl::DataLossError("a recipe is cut off");
      }
      std::string_view encoded = rest.substr(0, size);
      if (absl::Status s = recipes_->Add(encoded); !s.ok()) return s;
      recipe_rows_.emplace_back(encoded);
      rest.remove_prefix(size);
    }
    return absl::OkStatus();
  }

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

  void Apply(const PageChanges::Page& changes) {
    EntryMaps& entry = Entry(changes.number());
    WordMap map;
    static_assert(sizeof(map) == 64);
    memcpy(static_cast<void*>(&map), changes.read(), sizeof(map));
    entry.read |= map;
    if (!changes.any_written()) return;
    EnsureMapped(changes.number());
    ImagePage& page = image_.Touch(changes.number());
    changes.ForEachWord([&](uint32_t word, uint8_t written, const uint8_t* bytes) {
      entry.written.set(word);
      entry.content.set(word);
      if (written == 0xff) {
        memcpy(page.bytes + word * 8, bytes, 8);
      } else {
        for (uint32_t b = 0; b < 8; ++b) {
          if (written >> b & 1) page.bytes[word * 8 + b] = bytes[b];
        }
      }
    });
    if (has_aliases_) CopyToAliases(changes);
  }

  // The same memory may be mapped at several places; what is written at one shows at the others.
  void CopyToAliases(const PageChanges::Page& changes) {
    uint64_t begin;
    const uint64_t address = changes.number() * kPageBytes;
    const LiveImage::Area* area = image_.Find(address, &begin);
    if (area == nullptr || area->identity == 0) return;
    uint64_t at = area->identity_offset + (address - begin);
    for (const auto& [other_begin, other] : image_.areas()) {
      if (other.identity != area->identity || other_begin == begin) continue;
      if (at < other.identity_offset || at - other.identity_offset >= other.end - other_begin) {
        continue;
      }
      Incomplete(
          fmt::format("{:#x} and {:#x} are the same memory: what was written at one is told of the "
                      "other with some delay",
                      begin, other_begin));
      uint64_t page = (other_begin + (at - other.identity_offset)) / kPageBytes;
      EntryMaps& entry = Entry(page);
      uint8_t* target = image_.Touch(page).bytes;
      changes.ForEachPiece([&](uint32_t piece, uint64_t written, const uint8_t* bytes) {
        for (uint32_t i = 0; i < PageChanges::kPieceBytes; ++i) {
          if (!(written >> i & 1)) continue;
          const uint32_t offset = piece * PageChanges::kPieceBytes + i;
          target[offset] = bytes[i];
          entry.content.set(offset / 8);
        }
      });
    }
  }

  // The kernel grows the stack without telling anybody.
  void EnsureMapped(uint64_t page) {
    uint64_t address = page * kPageBytes, begin;
    if (last_mapped_.Contains(Address(address))) return;
    if (const LiveImage::Area* area = image_.Find(address, &begin)) {
      last_mapped_ = {Address(begin), Address(area->end)};
      return;
    }
    if (address + kPageBytes == 0) return;  // a range cannot hold it
    auto above = image_.areas().upper_bound(address);
    LiveImage::Area area;
    area.end = address + kPageBytes;
    area.protection = 3;
    area.kind = kTtqMapAnonymous;
    if (above != image_.areas().end() && above->second.kind == kTtqMapStack &&
        above->first - address < (64 << 20)) {
      area.end = above->first;
      area.kind = kTtqMapStack;
    }
    MapChange change;
    change.kind = MapChange::kMap;
    change.time = now_;  // somewhere after that
    change.range = {Address(address), Address(area.end)};
    change.protection = 3;
    change.area = area.kind;
    if (area.kind == kTtqMapStack) change.path = "[stack]";
    AddMapChange(change);
    std::vector<uint64_t> none;
    image_.Map(address, area, &none);
  }

  void AddMapChange(const MapChange& change) {
    batch_.Put(Family::kMap, MapKey(number_, next_map_++), change.Encode());
  }

  // The content of these pages is no longer what their last index entry says.
  void Replaced(const std::vector<uint64_t>& pages) {
    for (uint64_t page : pages) {
      EntryMaps& entry = Entry(page);
      entry.content.set();
      entry.whole = true;
      image_.Touch(page);
    }
    last_mapped_ = {};
  }

  void WriteInitial(uint64_t address, std::string_view bytes) {
    for (size_t done = 0; done < bytes.size();) {
      uint64_t at = address + done, offset = at & (kPageBytes - 1);
      size_t n = std::min<size_t>(bytes.size() - done, kPageBytes - offset);
      EntryMaps& entry = Entry(at / kPageBytes);
      for (uint64_t w = offset / 8; w <= (offset + n - 1) / 8; ++w) entry.content.set(w);
      memcpy(image_.Touch(at / kPageBytes).bytes + offset, bytes.data() + done, n);
      done += n;
    }
  }

  LiveThread& ThreadOf(uint32_t tid) {
    auto [it, is_new] = live_.try_emplace(tid);
    if (is_new) {
      it->second.number = ThreadNo(next_thread_++);
      it->second.start = now_;
      threads_.push_back({it->second.number, 0, now_, kTimeMax, 0});
    }
    return it->second;
  }

  Thread& Record(ThreadNo number) { return threads_[number.v - 1]; }

  void AddEvent(EventKind kind, ThreadNo thread, uint64_t pc, int64_t number, int64_t result,
                absl::Span<const uint64_t> args, std::string_view text, std::string_view bytes,
                int64_t wall_ns) {
    capnp::MallocMessageBuilder message;
    auto e = message.initRoot<schema::Event>();
    e.setKind(static_cast<uint8_t>(kind));
    e.setThread(thread.v);
    e.setPc(pc);
    e.setNumber(number);
    e.setResult(result);
    auto list = e.initArgs(static_cast<unsigned>(args.size()));
    for (unsigned i = 0; i < args.size(); ++i) list.set(i, args[i]);
    // Cap'n Proto text ends at its terminator; a path has no NUL inside.
    e.setText(std::string(text));
    e.setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
    e.setWallNs(wall_ns);
    if (event_time_ != now_) {
      event_time_ = now_;
      event_sequence_ = 0;
    }
    batch_.Put(Family::kEvent, EventKey(number_, now_, event_sequence_++), BytesOf(message));
  }

  absl::Status Control(const ControlItem& item) {
    std::string_view payload = item.payload;
    now_ = block_start_ + item.time;
    // The thread a record concerns, and the last instruction it executed.
    auto concerned = [&](uint32_t tid) -> std::pair<ThreadNo, uint64_t> {
      LiveThread& t = ThreadOf(tid);
      if (item.last_pc != 0) t.last_pc = item.last_pc;
      return {t.number, t.last_pc};
    };
    switch (item.kind) {
      case kTtqKernelWrite: {
        auto w = LoadPod<TtqKernelWrite>(payload);
        WriteInitial(w.address, payload.substr(sizeof(w)));
        break;
      }
      case kTtqMap:
        MapMemory(item);
        break;
      case kTtqUnmap:
      case kTtqProtect: {
        auto r = LoadPod<TtqRange>(payload);
        MapChange c = ChangeOf(item, r.address, r.bytes);
        c.kind = item.kind == kTtqUnmap ? MapChange::kUnmap : MapChange::kProtect;
        c.protection = r.protection;
        AddMapChange(c);
        if (item.kind == kTtqUnmap) {
          image_.Unmap(c.range.begin.v, c.range.end.v);
        } else {
          image_.Protect(c.range.begin.v, c.range.end.v, r.protection);
        }
        last_mapped_ = {};
        break;
      }
      case kTtqRemap: {
        auto r = LoadPod<TtqRemap>(payload);
        MapChange c = ChangeOf(item, r.from, r.bytes);
        if ((r.from | r.to) % kPageBytes != 0)
          return absl::DataLossError("a move of parts of pages");
        if (r.to + c.range.size() < r.to || c.range.size() < r.bytes) {
          return absl::DataLossError("a move beyond all addresses");
        }
        c.kind = MapChange::kRemap;
        c.to = Address(r.to);
        AddMapChange(c);
        std::vector<uint64_t> replaced;
        image_.Move(r.from, r.to, c.range.size(), &replaced);
        Replaced(replaced);
        break;
      }
      case kTtqSyscallEnter: {
        auto s = LoadPod<TtqSyscall>(payload);
        LiveThread& t = ThreadOf(s.tid);
        if (item.last_pc != 0) t.last_pc = item.last_pc;
        open_syscalls_[s.tid] = s.number;
        // Those that never return are told now.
        if (s.number == 60 || s.number == 231) {
          AddEvent(EventKind::kSyscall, t.number, t.last_pc, s.number, 0, ArgumentsOf(s), "", "",
                   s.wall_ns);
        }
        break;
      }
      case kTtqSyscallExit: {
        auto s = LoadPod<TtqSyscall>(payload);
        auto [thread, pc] = concerned(s.tid);
        open_syscalls_.erase(s.tid);
        if (s.number == 60 || s.number == 231) break;  // told when it was entered
        AddEvent(EventKind::kSyscall, thread, pc, s.number, s.result, ArgumentsOf(s), "", "",
                 s.wall_ns);
        if (s.number == 57 || s.number == 58 || (s.number == 56 && (s.args[0] & 0x100) == 0)) {
          if (s.result > 0) {
            AddEvent(EventKind::kFork, thread, pc, s.result, s.result, {}, "", "", s.wall_ns);
          }
        }
        break;
      }
      case kTtqThreadStart: {
        auto t = LoadPod<TtqThread>(payload);
        live_.erase(t.tid);
        LiveThread& thread = ThreadOf(t.tid);
        Record(thread.number).os_tid = t.os_tid;
        uint64_t parent = t.parent != 0 && live_.contains(t.parent) ? live_[t.parent].number.v : 0;
        AddEvent(EventKind::kThread, thread.number, 0, t.os_tid, 1, {parent}, "", "", 0);
        break;
      }
      case kTtqThreadExit: {
        auto t = LoadPod<TtqThread>(payload);
        auto [thread, pc] = concerned(t.tid);
        Record(thread).end = now_;
        Record(thread).instructions += item.instructions;
        AddEvent(EventKind::kThread, thread, pc, Record(thread).os_tid, 0, {}, "", "", 0);
        uint64_t begin;
        if (t.clear_address != 0 && image_.Find(t.clear_address, &begin) != nullptr) {
          auto d = std::make_unique<PageDelta>();
          d->page = t.clear_address / kPageBytes;
          const uint64_t offset = t.clear_address % kPageBytes;
          memset(d->written_bytes + offset, 0xff, std::min<size_t>(4, kPageBytes - offset));
          PageChanges changes;
          changes.Add(d.get());
          changes.ForEach([this](const PageChanges::Page& page) { Apply(page); });
        }
        break;
      }
      case kTtqSignal:
      case kTtqFault: {
        auto s = LoadPod<TtqSignal>(payload);
        auto [thread, pc] = concerned(s.tid);
        bool from_kernel = s.code > 0;
        if (from_kernel && pc == s.pc && now_.v > 0) {
          crash_ = now_ - 1;  // the instruction before now is the one that raised it
        } else {
          crash_ = now_;
        }
        Time saved = now_;
        if (item.kind == kTtqFault) now_ = *crash_;
        AddEvent(EventKind::kSignal, thread, s.pc, s.number, s.code,
                 {{s.address, uint64_t{from_kernel}, uint64_t{item.kind == kTtqFault}}}, "", "",
                 s.wall_ns);
        now_ = saved;
        break;
      }
      case kTtqOutput: {
        auto o = LoadPod<TtqOutput>(payload);
        auto [thread, pc] = concerned(o.tid);
        AddEvent(EventKind::kOutput, thread, pc, o.fd,
                 static_cast<int64_t>(payload.size()) - static_cast<int64_t>(sizeof(o)), {o.fd}, "",
                 payload.substr(sizeof(o)), 0);
        break;
      }
      case kTtqMark: {
        auto m = LoadPod<TtqMark>(payload);
        auto [thread, pc] = concerned(m.tid);
        AddEvent(EventKind::kMark, thread, pc, 0, 0, {}, payload.substr(sizeof(m)), "", m.wall_ns);
        break;
      }
      case kTtqFork: {
        NoteSharedMemory();
        uint32_t number = LoadPod<uint32_t>(payload);
        std::lock_guard lock(recording_.mutex);
        // Each costs memory until its child takes it.
        if (recording_.forks.size() >= kMaxForks) {
          return absl::DataLossError("too many forks whose child never came");
        }
        recording_.forks[{ring_->name(), number}] = {std::make_shared<LiveImage>(image_.Fork()),
                                                     recipes_, now_,
                                                     static_cast<uint32_t>(info_.blocks) + 1};
        recording_.fork_known.notify_all();
        break;
      }
      case kTtqExecve: {
        auto [thread, pc] = concerned(LoadPod<uint32_t>(payload));
        AddEvent(EventKind::kExec, thread, pc, 0, 0, {}, payload.substr(4), "", 0);
        break;
      }
      case kTtqExitProcess:
        // Said by the program, then again by Valgrind when it ends the process.
        if (info_.exit_status) break;
        info_.exit_status = static_cast<int>(LoadPod<uint32_t>(payload) & 0xff);
        AddEvent(EventKind::kExit, ThreadOf(item.tid).number, ThreadOf(item.tid).last_pc,
                 *info_.exit_status, 0, {}, "", "", 0);
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  MapChange ChangeOf(const ControlItem& item, uint64_t begin, uint64_t bytes) {
    MapChange c;
    c.time = now_;
    if (item.tid != 0) {
      LiveThread& t = ThreadOf(item.tid);
      if (item.last_pc != 0) t.last_pc = item.last_pc;
      c.thread = t.number;
      c.pc = Address(t.last_pc);
      auto it = open_syscalls_.find(item.tid);
      if (it != open_syscalls_.end() && it->second >= 0 && it->second < INT32_MAX) {
        c.syscall = static_cast<int32_t>(it->second);
      }
    }
    // The last page of all is not mapped: its end has no address.
    constexpr uint64_t kTop = ~(kPageBytes - 1);
    uint64_t end = begin + bytes < begin ? kTop : std::min(begin + bytes, kTop);
    begin &= ~(kPageBytes - 1);
    c.range = {Address(begin),
               Address(std::max(begin, (end + kPageBytes - 1) & ~(kPageBytes - 1)))};
    return c;
  }

  void MapMemory(const ControlItem& item) {
    auto m = LoadPod<TtqMap>(item.payload);
    std::string path = item.payload.substr(sizeof(m));
    MapChange c = ChangeOf(item, m.address, m.bytes);
    c.kind = MapChange::kMap;
    c.protection = m.protection;
    c.shared = m.shared;
    c.area = m.kind;
    c.path = path;
    c.file_offset = m.file_offset;
    if (m.kind == kTtqMapHeap) c.path = "[heap]";
    if (m.kind == kTtqMapStack) c.path = "[stack]";
    LiveImage::Area area;
    area.end = c.range.end.v;
    area.protection = m.protection;
    area.shared = m.shared;
    if (m.shared && m.ino != 0) {
      uint64_t key[2] = {m.dev, m.ino};
      area.identity = XXH3_64bits(key, sizeof(key)) | 1;
      area.identity_offset = m.file_offset;
      for (const auto& [begin, other] : image_.areas()) {
        has_aliases_ = has_aliases_ || other.identity == area.identity;
      }
    }
    area.kind = m.kind;
    // Startup areas come with their bytes, which the loader may have changed; the file is still
    // wanted for its symbols.
    bool startup = now_.v == 0 && m.content == kTtqContentZero && m.kind == kTtqMapFile;
    if (m.content == kTtqContentFile || startup) {
      if (auto file = recording_.File(path, m)) {
        c.file_id = area.file_id = file->id();
        if (!startup) {
          area.file = file;
          area.file_offset = m.file_offset;
        }
      } else if (!startup) {
        area.content_unknown = true;
      }
    }
    if (m.content == kTtqContentUnknown) area.content_unknown = true;
    c.content_unknown = area.content_unknown;
    if (startup) c.area = kTtqMapStartup;
    if (area.content_unknown) {
      Incomplete(fmt::format("the contents of {} were not kept",
                             path.empty() ? "memory that the kernel writes at any time" : path));
    }
    if (m.shared && (m.protection & 2) && (!path.empty() || m.kind == kTtqMapSysV)) {
      Incomplete(fmt::format("{} is shared: other processes' writes to it are not seen",
                             path.empty() ? "System V memory" : path));
    }
    AddMapChange(c);
    std::vector<uint64_t> replaced;
    image_.Map(c.range.begin.v, area, &replaced);
    Replaced(replaced);
  }

  // Before and after a fork: what parent and child write to the same memory from now on.
  void NoteSharedMemory() {
    for (const auto& [begin, area] : image_.areas()) {
      if (!area.shared || !(area.protection & 2)) continue;
      Incomplete(
          fmt::format("the memory at {:#x} is shared between processes: the others' writes "
                      "to it are not seen",
                      begin));
    }
  }

  void Incomplete(const std::string& why) {
    info_.complete = false;
    if (info_.incomplete_reason.empty()) info_.incomplete_reason = why;
  }

  absl::Status Commit(const TtqBlock& block, BlockDigest digest) {
    block_start_ = info_.end;
    now_ = block_start_;
    if (absl::Status s = CheckRegisters(block, digest); !s.ok()) return s;
    std::string header = Header(digest);
    for (BlockDigest::Step& step : digest.steps) {
      step.pages.ForEach([this](const PageChanges::Page& page) { Apply(page); });
      if (step.has_control) {
        if (absl::Status s = Control(step.control); !s.ok()) return s;
      }
    }
    now_ = block_start_ + digest.instructions;
    for (const auto& [tid, pc] : digest.last_pc) ThreadOf(tid).last_pc = pc;
    for (const auto& [tid, n] : digest.instructions_of) {
      Record(ThreadOf(tid).number).instructions += n;
    }
    for (const auto& [tid, state] : digest.end_states) {
      if (auto it = live_.find(tid); it != live_.end()) it->second.state = state;
    }
    current_tid_ = digest.end_tid;
    info_.end = now_;
    info_.writes += digest.writes;
    info_.reads += digest.reads;
    info_.log_bytes += digest.log_bytes;
    info_.end_wall_ns = block.wall_end_ns;

    uint32_t number = static_cast<uint32_t>(info_.blocks);
    uint32_t group = group_first_;
    AppendBig32(&header, static_cast<uint32_t>(header.size()));
    AppendInPieces(header, &digest.log);
    for (uint32_t piece = 0; piece < digest.log.size(); ++piece) {
      batch_.Put(Family::kBlock, BlockKey(number_, BlockNo(number), piece),
                 std::move(digest.log[piece]));
    }
    for (const auto& [superblock, times] : digest.executions) {
      std::string& row = exec_[superblock];
      AppendVarint(&row, number - group);
      AppendVarint(&row, times);
    }
    StorePages(group, number);
    if (summaries_.empty()) group_started_ = std::chrono::steady_clock::now();
    summaries_.push_back({now_, block.wall_start_ns, block.wall_end_ns, digest.log_bytes,
                          digest.changes_mappings ? 1u : 0u});
    info_.blocks++;
    if (summaries_.size() >= kGroupBlocks || batch_.bytes() >= kGroupBytes ||
        std::chrono::steady_clock::now() - group_started_ > GroupAge()) {
      return StoreGroup();
    }
    return absl::OkStatus();
  }

  // A block that began while the program ran must begin with the registers the one before it ended
  // with: a check of every derivation, at no cost.
  absl::Status CheckRegisters(const TtqBlock& block, const BlockDigest& digest) {
    if (!block.between_superblocks) return absl::OkStatus();
    for (const auto& [tid, state] : digest.first_states) {
      auto it = live_.find(tid);
      if (tid != current_tid_ || it == live_.end()) continue;
      for (size_t r = 0; r < kTtqRegCount; ++r) {
        if (it->second.state.reg[r] == state.reg[r]) continue;
        return absl::InternalError(fmt::format(
            "recorder bug: at the start of block {} register {} of thread {} is {:#x}, derived "
            "{:#x}",
            block.number, r < 16 ? GprName(static_cast<Gpr>(r)) : "special", it->second.number.v,
            state.reg[r], it->second.state.reg[r]));
      }
    }
    return absl::OkStatus();
  }

  std::string Header(const BlockDigest& digest) {
    capnp::MallocMessageBuilder message;
    auto h = message.initRoot<schema::BlockHeader>();
    h.setStartTime(block_start_.v);
    h.setCurrentTid(current_tid_);
    h.setNextThread(next_thread_);
    h.setLogBytes(digest.log_bytes);
    h.setLogHash(digest.log_hash);
    auto parts = h.initLogParts(static_cast<unsigned>(digest.log_parts.size()));
    for (unsigned p = 0; p < parts.size(); ++p) {
      parts[p].setBytes(digest.log_parts[p].bytes);
      parts[p].setStoredBytes(digest.log_parts[p].stored_bytes);
    }
    auto list = h.initThreads(static_cast<unsigned>(live_.size()));
    unsigned i = 0;
    for (const auto& [tid, t] : live_) {
      auto s = list[i++];
      s.setTid(tid);
      s.setNumber(t.number.v);
      s.setPc(t.state.pc);
      s.setLastPc(t.last_pc);
      auto regs = s.initRegisters(kTtqRegCount);
      for (unsigned r = 0; r < kTtqRegCount; ++r) regs.set(r, t.state.reg[r]);
    }
    return BytesOf(message);
  }

  void StorePages(uint32_t group, uint32_t block) {
    for (auto& [page, maps] : entries_) {
      PageEntry e;
      e.written = maps.written;
      e.read = maps.read;
      e.content = maps.content;
      if (maps.content.any()) {
        ImagePage& p = image_.Touch(page);
        e.whole = maps.whole || maps.content.count() > kWordsPerPage / 2 ||
                  ++p.entries_since_whole >= kWholePageEvery;
        if (e.whole) p.entries_since_whole = 0;
        memcpy(e.words.data(), p.bytes, kPageBytes);
        span_pages_[0][page] |= uint32_t{1} << groups_made_ % kSpanParts;
      }
      batch_.Put(Family::kPage, PageKey(number_, group, page, block), e.Encode());
    }
    entries_.clear();
  }

  std::chrono::milliseconds GroupAge() const {
    return std::min(kGroupAge, kFirstGroupAge * (1 << std::min(groups_made_, 8u)));
  }

  // Stores the group that has come together, while the next one does: the disk takes its time.
  absl::Status StoreGroup() {
    if (absl::Status s = FinishStoring(); !s.ok()) return s;
    CompleteGroup();
    storing_ = {info_, threads_};
    auto batch = std::make_shared<Database::Batch>(std::exchange(batch_, Database::Batch()));
    being_stored_ = InThreadIfPossible([this, batch = std::move(batch)] {
      absl::Status s = Guarded([&] { return recording_.database->Add(std::move(*batch)); });
      if (!s.ok()) recording_.StorageFailed(s);
      return s.ok();
    });
    return absl::OkStatus();
  }

  // Waits for the group that is being stored.
  absl::Status FinishStoring() {
    if (being_stored_.valid() && being_stored_.get()) {
      recording_.totals.instructions += storing_.info.end.v - stored_.info.end.v;
      recording_.totals.writes += storing_.info.writes - stored_.info.writes;
      stored_ = std::move(storing_);
    }
    return recording_.StorageHasFailed() ? recording_.Error() : absl::OkStatus();
  }

  absl::Status StoreProcess() {
    capnp::MallocMessageBuilder message;
    auto p = message.initRoot<schema::Process>();
    Describe(p);
    p.setProgram(info_.program);
    auto words = p.initArguments(static_cast<unsigned>(info_.arguments.size()));
    for (unsigned i = 0; i < info_.arguments.size(); ++i) words.set(i, info_.arguments[i]);
    p.setWorkingDirectory(info_.working_directory);
    absl::Status s = recording_.database->Put(ProcessKey(number_), BytesOf(message));
    if (s.ok()) return s;
    recording_.StorageFailed(s);
    return recording_.Error();
  }

  // Puts what is not about one block alone into the batch, and begins a new group.
  void CompleteGroup() {
    std::vector<std::string> recipes;
    {
      std::lock_guard lock(recipe_rows_mutex_);
      recipes.swap(recipe_rows_);
    }
    for (const std::string& encoded : recipes) {
      auto head = LoadPod<TtqRecipe>(encoded);
      const Recipe* recipe = recipes_->Find(SuperblockId(head.id));
      for (const AddressRange& extent : recipe->Extents()) {
        std::string end;
        AppendBig64(&end, extent.end.v);
        extents_.emplace(ExtentKey(number_, group_first_, extent.begin.v, head.id), end);
      }
      batch_.Put(Family::kCode, CodeKey(number_, SuperblockId(head.id)), encoded);
    }
    for (auto& [key, end] : extents_) batch_.Put(Family::kExtent, key, end);
    extents_.clear();
    for (auto& [superblock, row] : exec_) {
      batch_.Put(Family::kExec, ExecKey(number_, group_first_, superblock), std::move(row));
    }
    exec_.clear();
    if (!summaries_.empty()) {
      // With its rows, not after them: a reader of a recording being made would see one of them
      // only.
      capnp::MallocMessageBuilder message;
      auto g = message.initRoot<schema::Group>();
      g.setFirstBlock(group_first_);
      Describe(g.initProcess());
      auto list = g.initBlocks(static_cast<unsigned>(summaries_.size()));
      for (unsigned i = 0; i < summaries_.size(); ++i) {
        list[i].setEndTime(summaries_[i].end.v);
        list[i].setWallStartNs(summaries_[i].wall_start_ns);
        list[i].setWallEndNs(summaries_[i].wall_end_ns);
        list[i].setLogBytes(summaries_[i].log_bytes);
        list[i].setFlags(summaries_[i].flags);
      }
      batch_.Put(Family::kMeta, GroupKey(number_, group_first_), BytesOf(message));
      ++groups_made_;
      CompleteSpans();
    }
    summaries_.clear();
    group_first_ = static_cast<uint32_t>(info_.blocks);
  }

  // Puts the spans into the batch that the last group completes.
  void CompleteSpans() {
    uint32_t made = groups_made_;  // groups, then spans of a level
    for (uint32_t level = 0; level < kSpanLevels && made % kSpanParts == 0; ++level) {
      made /= kSpanParts;
      const uint32_t span = made - 1;
      const auto pages = std::exchange(span_pages_[level], {});
      std::vector<std::pair<uint64_t, uint32_t>> sorted(pages.begin(), pages.end());
      std::sort(sorted.begin(), sorted.end());
      for (size_t i = 0; i < sorted.size(); i += kSpanPages) {
        const auto row = absl::MakeConstSpan(sorted).subspan(i, kSpanPages);
        batch_.Put(Family::kMeta, SpanKey(number_, level, span, row[0].first),
                   SpanPages::Encode(row));
      }
      if (level + 1 == kSpanLevels) break;
      for (const auto& [page, parts] : sorted) {
        span_pages_[level + 1][page] |= uint32_t{1} << span % kSpanParts;
      }
    }
  }

  // All but what never changes and may be long.
  void Describe(schema::Process::Builder p) const {
    p.setNumber(info_.number.v);
    p.setParent(info_.parent.v);
    p.setByExec(info_.by_exec);
    p.setForkTime(fork_time_.v);
    p.setForkBlocks(fork_blocks_);
    p.setPid(info_.pid);
    p.setEnd(info_.end.v);
    p.setCrash(info_.crash ? static_cast<int64_t>(info_.crash->v) : -1);
    p.setFatalSignal(static_cast<uint32_t>(info_.fatal_signal));
    p.setExitStatus(info_.exit_status.value_or(-1));
    p.setStartWallNs(info_.start_wall_ns);
    p.setEndWallNs(info_.end_wall_ns);
    p.setBlocks(info_.blocks);
    p.setWrites(info_.writes);
    p.setReads(info_.reads);
    p.setLogBytes(info_.log_bytes);
    p.setComplete(info_.complete);
    p.setIncompleteReason(info_.incomplete_reason);
    p.setClosed(closed_);
    auto threads = p.initThreads(static_cast<unsigned>(threads_.size()));
    for (unsigned i = 0; i < threads_.size(); ++i) {
      threads[i].setNumber(threads_[i].number.v);
      threads[i].setOsTid(threads_[i].os_tid);
      threads[i].setStart(threads_[i].start.v);
      threads[i].setEnd(threads_[i].end.v);
      threads[i].setInstructions(threads_[i].instructions);
    }
  }

  // ---- Verification -----------------------------------------------------------------------------

  // Compares all of the program's memory, which stands still, with the image.
  absl::Status Verify() {
    // Memory the kernel may still be about to clear, or others share, gets a second look.
    for (int attempt = 0;; ++attempt) {
      absl::Status s = Compare();
      if (s.ok() || attempt == 20 || !absl::IsAborted(s)) return s;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  // What system calls under way may write is as it is.
  void TakePending(uint64_t begin, const uint8_t* actual, uint8_t* expected) const {
    for (const auto& [address, bytes] : ring_->pending()) {
      uint64_t from = std::max(begin, address);
      uint64_t to = std::min(begin + kPageBytes, address + bytes);
      if (from < to) memcpy(expected + (from - begin), actual + (from - begin), to - from);
    }
  }

  absl::Status Compare() {
    // Other processes' writes to shared memory are not seen.
    const bool alone = recording_.totals.processes == 1;
    std::vector<uint8_t> actual(1 << 20);
    uint8_t expected[kPageBytes];
    for (const auto& [begin, area] : image_.areas()) {
      if ((area.shared && !alone) || area.content_unknown || !(area.protection & 1)) continue;
      for (uint64_t at = begin; at < area.end;) {
        size_t want = std::min<uint64_t>(actual.size(), area.end - at);
        iovec local{actual.data(), want};
        iovec remote{reinterpret_cast<void*>(at), want};
        ssize_t got = process_vm_readv(static_cast<pid_t>(ring_->pid()), &local, 1, &remote, 1, 0);
        if (got <= 0) {
          if (errno == EPERM || errno == ENOSYS) {
            return absl::PermissionDeniedError(
                "--verify needs to read the program's memory, which this system forbids");
          }
          at += kPageBytes;  // beyond the end of a mapped file
          continue;
        }
        for (ssize_t done = 0; done + static_cast<ssize_t>(kPageBytes) <= got; done += kPageBytes) {
          uint64_t page = (at + static_cast<uint64_t>(done)) / kPageBytes;
          image_.Read(page, expected);
          if (memcmp(expected, actual.data() + done, kPageBytes) == 0) continue;
          TakePending(page * kPageBytes, actual.data() + done, expected);
          if (memcmp(expected, actual.data() + done, kPageBytes) == 0) continue;
          uint64_t i = 0;
          while (expected[i] == actual[static_cast<size_t>(done) + i]) ++i;
          i &= ~uint64_t{7};
          uint64_t is, derived;
          memcpy(&is, actual.data() + done + i, 8);
          memcpy(&derived, expected + i, 8);
          return absl::AbortedError(
              fmt::format("verify: at time {} (block {}) word {:#x} is {:#018x} in the program, "
                          "{:#018x} in the "
                          "image; area {:#x}-{:#x} kind {}",
                          now_.v, info_.blocks - 1, page * kPageBytes + i, is, derived, begin,
                          area.end, area.kind));
        }
        at += static_cast<uint64_t>(got);
      }
    }
    return absl::OkStatus();
  }

  struct Summary {
    Time end;
    int64_t wall_start_ns, wall_end_ns;
    uint32_t log_bytes, flags;
  };

  RecordingWriter::Impl& recording_;
  std::shared_ptr<Ring> ring_;
  ProcessNo number_;
  ProcessInfo info_;
  Time fork_time_{0};
  uint32_t fork_blocks_ = 0;
  bool closed_ = false;
  bool broken_ = false;  // an exception left what is to be stored next in part
  std::optional<Time> crash_;
  std::shared_ptr<RecipeTable> recipes_;
  LiveImage image_;
  AddressRange last_mapped_{};
  bool has_aliases_ = false;  // two areas have ever had the same identity

  std::mutex recipe_rows_mutex_;
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

RecordingWriter::RecordingWriter() : impl_(std::make_unique<Impl>()) {}

RecordingWriter::~RecordingWriter() {
  for (std::thread& t : impl_->threads) {
    if (t.joinable()) t.join();
  }
}

absl::StatusOr<std::unique_ptr<RecordingWriter>> RecordingWriter::Create(
    const std::string& directory, const std::vector<std::string>& command) {
  if (mkdir(directory.c_str(), 0700) != 0) {
    return NumberedError(errno, "cannot make " + directory, directory);
  }
  std::unique_ptr<RecordingWriter> out(new RecordingWriter);
  Impl& impl = *out->impl_;
  impl.directory = directory;
  impl.command = command;
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  impl.start_wall_ns = t.tv_sec * 1000000000LL + t.tv_nsec;
  absl::Status s = WithinMemory([&]() -> absl::Status {
    if (absl::Status opened = impl.Open(); !opened.ok()) {
      return absl::IsResourceExhausted(opened) ? DiskFull(directory) : opened;
    }
    impl.workers = std::make_unique<WorkerPool>(std::max<size_t>(2, UsefulThreads()));
    return impl.workers->status();
  });
  if (s.ok()) return out;
  out.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  // That may have needed what was just not to be had.
  if (access((directory + "/db").c_str(), F_OK) == 0) return s;  // the reserve says what it is
  unlink((directory + "/reserve").c_str());
  rmdir(directory.c_str());
  return s;
}

void RecordingWriter::Start(std::shared_ptr<Ring> ring) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.mutex);
  ProcessNo number(impl.next_process++);
  const std::string parent_ring = ring->parent_ring();
  ProcessNo parent;
  if (parent_ring.empty()) {
    auto it = impl.process_of_pid.find(ring->pid());
    if (it != impl.process_of_pid.end()) parent = it->second;
  } else {
    auto it = impl.ring_states.find(parent_ring);
    if (it != impl.ring_states.end()) parent = it->second.process;
  }
  impl.process_of_pid[ring->pid()] = number;
  impl.ring_states[ring->name()].process = number;
  impl.rings.push_back(ring);
  impl.threads.emplace_back();
  if (!impl.error.ok()) ring->Detach();
  ++impl.running;
  ++impl.totals.processes;
  if (ring->verify()) impl.database->SetCacheBytes(kVerifyCacheBytes);
  const absl::Status started = Guarded([&]() -> absl::Status {
    absl::StatusOr<std::thread> thread = StartThread([&impl, ring, number, parent]() mutable {
      absl::Status s = Guarded([&]() -> absl::Status {
        ProcessIngest(impl, ring, number, parent).Run();
        return absl::OkStatus();
      });
      std::lock_guard lock(impl.mutex);
      if (!s.ok()) impl.FailLocked(s);
      // A ring is memory: a program may start thousands of others, one after the other.
      impl.EndLocked(std::exchange(ring, nullptr));
    });
    if (thread.ok()) impl.threads.back() = *std::move(thread);
    return thread.status();
  });
  if (!started.ok()) {
    impl.FailLocked(started);
    impl.EndLocked(ring);
  }
}

void RecordingWriter::Fail(const absl::Status& why) {
  impl_->Fail(absl::IsResourceExhausted(why) ? absl::UnavailableError(why.message()) : why);
}

bool RecordingWriter::Idle() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->running == 0;
}

absl::Status RecordingWriter::Finish() {
  for (std::thread& t : impl_->threads) {
    if (t.joinable()) t.join();
  }
  absl::Status s = error();
  absl::Status record = impl_->WriteRecord(true);
  if (record.ok()) record = impl_->database->Flush();
  impl_->database.reset();
  unlink(impl_->Reserve().c_str());
  if (record.ok()) record = WriteSeal(impl_->directory);
  return s.ok() ? record : s;
}

absl::Status RecordingWriter::error() const { return impl_->Error(); }

const IngestTotals& RecordingWriter::totals() const { return impl_->totals; }

}  // namespace ttq
