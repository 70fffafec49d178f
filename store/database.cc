// SPDX-License-Identifier: MIT

#include "store/database.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY  // XXH3_state_t
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "store/format/compressor.h"

namespace ttq {
namespace {

rocksdb::Slice SliceOf(std::string_view s) { return {s.data(), s.size()}; }
std::string_view ViewOf(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

absl::Status StatusOf(const rocksdb::Status& s, const std::string& directory,
                      std::string_view family = "") {
  if (s.ok()) return absl::OkStatus();
  const bool no_space = s.IsNoSpace() || s.ToString().find("No space left") != std::string::npos ||
                        s.ToString().find("Disk quota exceeded") != std::string::npos;
  // Files are opened when they are first needed.
  if (!no_space && s.IsIOError() && access(directory.c_str(), F_OK) != 0 && errno == ENOENT) {
    return absl::UnavailableError(
        fmt::format("{} was removed while it was open",
                    std::filesystem::path(directory).parent_path().string()));
  }
  std::string text =
      fmt::format("{}{}{}: {}", directory, family.empty() ? "" : "/", family, s.ToString());
  if (s.IsNotFound()) return absl::NotFoundError(text);
  if (no_space) return absl::ResourceExhaustedError(text);
  return absl::DataLossError(text);
}

// RocksDB has a thread of its own for whatever may come.
absl::Status NoThread(const std::string& directory, const std::system_error& e) {
  return absl::UnavailableError(
      fmt::format("{}: no thread can be had to open it: {}", directory, e.code().message()));
}

constexpr int kLevel = 1;
// Of batches that are added as one, each of which waits for the disk some fifteen times; and how
// many of those are sorted and compressed beside their caller.
constexpr size_t kGatheredBytes = 32 << 20, kMaxBeingAdded = 2;

// Blocks and file chunks are compressed already, or large; pages and the rest profit from RocksDB's
// own blocks.
rocksdb::ColumnFamilyOptions OptionsOf(Family family, std::shared_ptr<rocksdb::Cache> cache) {
  rocksdb::ColumnFamilyOptions o;
  o.disable_auto_compactions = true;
  o.level0_slowdown_writes_trigger = o.level0_stop_writes_trigger = 1 << 30;
  o.write_buffer_size = 4 << 20;
  o.compression = family == Family::kBlock ? rocksdb::kNoCompression : rocksdb::kZSTD;
  o.compression_opts.level = kLevel;
  rocksdb::BlockBasedTableOptions t;
  t.block_cache = std::move(cache);
  // Of kBlock: two pieces, for which RocksDB's buffer then has room.
  t.block_size = family == Family::kPage    ? 32 << 10
                 : family == Family::kBlock ? 130 << 10
                                            : 16 << 10;
  t.checksum = rocksdb::kXXH3;
  t.format_version = 5;
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(t));
  return o;
}

// RocksDB stores what compression makes less than an eighth shorter as it is, but has then tried. A
// sample of large rows, which are whole pages, tells beforehand.
bool CompressionPays(const std::vector<std::pair<std::string, std::string>>& rows) {
  constexpr size_t kRows = 32, kRowBytes = 4 << 10, kEnough = kRows * kRowBytes / 4;
  std::string sample;
  for (size_t i = 0; i < rows.size(); i += std::max<size_t>(rows.size() / kRows, 1)) {
    sample.append(rows[i].second, 0, kRowBytes);
  }
  const Compressor::Ptr compressor = Compressor::Take();
  return compressor == nullptr || sample.size() < kEnough ||
         compressor->Compress(sample, kLevel).size() < sample.size() / 8 * 7;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(
    const std::shared_ptr<rocksdb::Cache>& cache) {
  std::vector<rocksdb::ColumnFamilyDescriptor> out;
  for (int i = 0; i < static_cast<int>(Family::kCount); ++i) {
    auto family = static_cast<Family>(i);
    out.emplace_back(FamilyName(family), OptionsOf(family, cache));
  }
  return out;
}

// RocksDB makes a reader of a sorted file's properties before it compares their checksum, and an
// assertion of that reader, which Debian's build keeps, ends the process should the properties'
// last word say that an index of hashes precedes it (see DataBlockHashIndex::Initialize): one bit
// that damage may set. No other block is used before its checksum was seen to be right.
class CheckingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  CheckingFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "CheckingFileSystem"; }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus s = target()->NewRandomAccessFile(path, options, file, debug);
    uint64_t size = 0;
    if (s.ok()) s = target()->GetFileSize(path, options.io_options, &size, debug);
    if (s.ok() && !PropertiesCanBeRead(**file, size)) {
      s = rocksdb::IOStatus::Corruption(path, "the properties are damaged");
    }
    return s;
  }

 private:
  // False only for what the assertion is about: RocksDB finds the other damages itself.
  // A sorted file's end (RocksDB's table/format.h): the meta index, which has the place and size of
  // the properties, as varints, behind their name; its compression and checksum, 5 bytes; the
  // footer, 53.
  static bool PropertiesCanBeRead(const rocksdb::FSRandomAccessFile& file, uint64_t size) {
    constexpr std::string_view kName = "rocksdb.properties";
    constexpr uint64_t kTail = 512, kWord = 4;
    constexpr unsigned char kIndexOfHashes = 0x80;  // of the word's last byte
    char scratch[kTail];
    rocksdb::Slice read;
    const uint64_t tail = std::min(size, kTail);
    if (!file.Read(size - tail, tail, {}, &read, scratch, nullptr).ok()) return true;
    std::string_view text = ViewOf(read);
    const size_t name = text.rfind(kName);
    if (name == text.npos) return true;
    text.remove_prefix(name + kName.size());
    uint64_t at = 0, bytes = 0;
    if (!ReadVarint(&text, &at) || !ReadVarint(&text, &bytes)) return true;
    if (at > size || bytes < kWord || bytes > size - at) return true;
    if (!file.Read(at + bytes - 1, 1, {}, &read, scratch, nullptr).ok()) return true;
    return read.empty() || (static_cast<unsigned char>(read[0]) & kIndexOfHashes) == 0;
  }
};

// A group whose entry in the MANIFEST could not be synced may be in it nevertheless, or not.
// RocksDB then deletes the group's files: a reader would look for files that are gone. From the
// first such failure on sorted files stay; those that no MANIFEST names do no harm.
class KeepingFileSystem : public rocksdb::FileSystemWrapper {
 public:
  KeepingFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "KeepingFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus s = target()->NewWritableFile(path, options, file, debug);
    if (s.ok() && path.find("/MANIFEST-") != path.npos) {
      *file = std::make_unique<Manifest>(std::move(*file), &uncertain_);
    }
    return s;
  }
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    if (uncertain_ && path.ends_with(".sst") && path.find("/new-") == path.npos) {
      return rocksdb::IOStatus::OK();
    }
    return target()->DeleteFile(path, options, debug);
  }

 private:
  class Manifest : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    Manifest(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::atomic<bool>* uncertain)
        : FSWritableFileOwnerWrapper(std::move(file)), uncertain_(*uncertain) {}
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* debug) override {
      return Noted(target()->Sync(options, debug));
    }
    rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                            rocksdb::IODebugContext* debug) override {
      return Noted(target()->Fsync(options, debug));
    }

   private:
    rocksdb::IOStatus Noted(rocksdb::IOStatus s) {
      if (!s.ok()) uncertain_ = true;
      return s;
    }
    std::atomic<bool>& uncertain_;
  };
  std::atomic<bool> uncertain_{false};
};

rocksdb::Env* CheckingEnv() {
  static rocksdb::Env* const kEnv =
      rocksdb::NewCompositeEnv(std::make_shared<CheckingFileSystem>()).release();
  return kEnv;
}

// The checksum of a whole sorted file, which RocksDB keeps in its MANIFEST.
class FileChecksum : public rocksdb::FileChecksumGenerator {
 public:
  static constexpr char kName[] = "XXH3";

  FileChecksum() { XXH3_64bits_reset(&state_); }
  void Update(const char* data, size_t n) override { XXH3_64bits_update(&state_, data, n); }
  void Finalize() override { AppendBig64(&checksum_, XXH3_64bits_digest(&state_)); }
  std::string GetChecksum() const override { return checksum_; }
  const char* Name() const override { return kName; }

 private:
  XXH3_state_t state_;
  std::string checksum_;
};

class FileChecksums : public rocksdb::FileChecksumGenFactory {
 public:
  std::unique_ptr<rocksdb::FileChecksumGenerator> CreateFileChecksumGenerator(
      const rocksdb::FileChecksumGenContext& context) override {
    const std::string& wanted = context.requested_checksum_func_name;
    if (!wanted.empty() && wanted != FileChecksum::kName) return nullptr;
    return std::make_unique<FileChecksum>();
  }
  const char* Name() const override { return "XXH3 of sorted files"; }
};

// After an error RocksDB would go on by itself once there is room again. IngestExternalFiles,
// called in between, then ends by an assertion; and a recording with a hole must not go on.
class NoRecovery : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rocksdb::DBOptions DatabaseOptions() {
  rocksdb::DBOptions o;
  o.listeners.push_back(std::make_shared<NoRecovery>());
  o.file_checksum_gen_factory = std::make_shared<FileChecksums>();
  o.max_open_files = 512;
  o.max_file_opening_threads = 1;  // there are few; and where no thread can be had RocksDB aborts
  o.skip_stats_update_on_db_open = true;
  o.skip_checking_sst_file_sizes_on_db_open = true;
  o.keep_log_file_num = 1;
  o.info_log_level = rocksdb::HEADER_LEVEL;
  o.stats_dump_period_sec = 0;
  o.stats_persist_period_sec = 0;
  o.max_background_jobs = 2;
  return o;
}

}  // namespace

struct Database::Impl {
  std::string directory;
  mutable std::mutex damage_mutex;  // guards damage
  mutable absl::Status damage;
  mutable std::atomic<bool> damaged{false};
  std::shared_ptr<rocksdb::Cache> cache;
  std::unique_ptr<rocksdb::Env> writing;  // null: of a reader
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::atomic<uint64_t> next_file{0};
  std::atomic<bool> gathers{false};
  std::mutex gathered_mutex;  // guards what follows
  Batch gathered;
  std::deque<std::future<absl::Status>> being_added;

  // Of a store that is read and so does not change.
  struct KnownKeys {
    std::once_flag once;
    std::vector<std::string> keys;
  };
  mutable std::array<KnownKeys, static_cast<size_t>(Family::kCount)> known;
  bool reading = false;

  rocksdb::ColumnFamilyHandle* handle(Family f) const { return handles[static_cast<int>(f)]; }
  // The first and the last key of each sorted file; while the store is written, none.
  const std::vector<std::string>& KnownRows(Family family) const {
    KnownKeys& out = known[static_cast<size_t>(family)];
    std::call_once(out.once, [&] {
      if (!reading) return;
      rocksdb::ColumnFamilyMetaData files;
      db->GetColumnFamilyMetaData(handle(family), &files);
      for (rocksdb::LevelMetaData& level : files.levels) {
        for (const rocksdb::SstFileMetaData& file : level.files) {
          out.keys.push_back(file.smallestkey);
          out.keys.push_back(file.largestkey);
        }
      }
      std::sort(out.keys.begin(), out.keys.end());
      out.keys.erase(std::unique(out.keys.begin(), out.keys.end()), out.keys.end());
    });
    return out.keys;
  }
  // RocksDB threw, for want of memory: it may hold locks and references for ever.
  std::atomic<bool> threw{false};
  std::mutex write_mutex;  // guards what follows; one writes at a time
  rocksdb::Status failed;  // of the first write that failed: no files are taken in after it
  // The status of work(), which is not done any more once RocksDB threw.
  template <class Work>
  rocksdb::Status Write(const Work& work) {
    std::lock_guard lock(write_mutex);
    if (threw) return rocksdb::Status::Aborted("out of memory");
    try {
      rocksdb::Status s = work();
      if (failed.ok()) failed = s;
      return s;
    } catch (const std::bad_alloc&) {
      threw = true;
      return rocksdb::Status::Aborted("out of memory");
    }
  }
  ~Impl() {
    if (threw) {
      db.release();
      writing.release();
    }
    if (!db) return;
    for (auto* h : handles) db->DestroyColumnFamilyHandle(h);
    db->Close();
  }
};

Database::Database() : impl_(std::make_unique<Impl>()) {}
Database::~Database() { WaitUntilAdded(0).IgnoreError(); }

absl::StatusOr<std::unique_ptr<Database>> Database::Create(const std::string& directory) {
  std::unique_ptr<Database> out(new Database);
  Impl& impl = *out->impl_;
  impl.directory = directory;
  impl.cache = rocksdb::NewLRUCache(8 << 20);
  if (mkdir(directory.c_str(), 0700) != 0) {
    const int error = errno;
    return StatusOf(error == ENOSPC || error == EDQUOT ? rocksdb::Status::NoSpace(strerror(error))
                                                       : rocksdb::Status::IOError(strerror(error)),
                    directory);
  }
  rocksdb::DBOptions o = DatabaseOptions();
  impl.writing = rocksdb::NewCompositeEnv(std::make_shared<KeepingFileSystem>());
  o.env = impl.writing.get();
  o.create_if_missing = true;
  o.error_if_exists = true;
  rocksdb::DB* db = nullptr;
  // One after the other, as Open makes them, each would write a file of options, and wait for it.
  std::vector<rocksdb::ColumnFamilyDescriptor> families = Families(impl.cache);
  const std::vector<rocksdb::ColumnFamilyDescriptor> first = {families[0]};
  families.erase(families.begin());
  rocksdb::Status s;
  try {
    s = rocksdb::DB::Open(o, directory, first, &impl.handles, &db);
  } catch (const std::system_error& e) {
    return NoThread(directory, e);
  }
  if (!s.ok()) return StatusOf(s, directory);
  impl.db.reset(db);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  s = impl.Write([&] { return db->CreateColumnFamilies(families, &handles); });
  impl.handles.insert(impl.handles.end(), handles.begin(), handles.end());
  if (!s.ok()) return StatusOf(s, directory);
  return out;
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenForReading(const std::string& directory) {
  std::unique_ptr<Database> out(new Database);
  Impl& impl = *out->impl_;
  impl.directory = directory;
  impl.cache = rocksdb::NewLRUCache(64 << 20);
  rocksdb::DB* db = nullptr;
  rocksdb::Status s;
  try {
    rocksdb::DBOptions o = DatabaseOptions();
    // A crash cuts the log off; anything else that is wrong with it is damage.
    o.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    o.env = CheckingEnv();
    s = rocksdb::DB::OpenForReadOnly(o, directory, Families(impl.cache), &impl.handles, &db);
  } catch (const std::system_error& e) {
    return NoThread(directory, e);
  } catch (const std::exception& e) {
    return absl::DataLossError(fmt::format("{}: {}", directory, e.what()));
  }
  // There is no other way to tell; a store of ours that lost a family is damaged in its MANIFEST.
  if (s.IsInvalidArgument() && s.ToString().find("olumn famil") != std::string::npos) {
    return absl::FailedPreconditionError(directory + ": a RocksDB store, but not a recording");
  }
  if (!s.ok()) return StatusOf(s, directory);
  impl.db.reset(db);
  impl.reading = true;
  return out;
}

void Database::Batch::Append(Batch more) {
  for (size_t i = 0; i < std::size(rows_); ++i) {
    auto& rows = rows_[i];
    std::move(more.rows_[i].begin(), more.rows_[i].end(), std::back_inserter(rows));
  }
  bytes_ += more.bytes_;
}

void Database::GatherBatches() { impl_->gathers = true; }

absl::Status Database::Add(Batch batch) {
  if (!impl_->gathers || !batch.rows_[static_cast<int>(Family::kFile)].empty()) {
    return AddNow(std::move(batch));
  }
  std::lock_guard lock(impl_->gathered_mutex);
  impl_->gathered.Append(std::move(batch));
  if (impl_->gathered.bytes() < kGatheredBytes) return absl::OkStatus();
  RETURN_IF_ERROR(WaitUntilAdded(kMaxBeingAdded - 1));
  auto full = std::make_shared<Batch>(std::exchange(impl_->gathered, Batch()));
  impl_->being_added.push_back(InThreadIfPossible(
      [this, full] { return Guarded([&] { return AddNow(std::move(*full)); }); }));
  return absl::OkStatus();
}

absl::Status Database::WaitUntilAdded(size_t all_but) {
  absl::Status first;
  for (auto& added = impl_->being_added; added.size() > all_but; added.pop_front()) {
    const absl::Status s = added.front().get();
    if (first.ok()) first = s;
  }
  return first;
}

absl::Status Database::AddNow(Batch batch) {
  std::vector<rocksdb::IngestExternalFileArg> args;
  for (int i = 0; i < static_cast<int>(Family::kCount); ++i) {
    auto& rows = batch.rows_[i];
    if (rows.empty()) continue;
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    auto family = static_cast<Family>(i);
    std::string path = fmt::format("{}/new-{}.sst", impl_->directory, impl_->next_file++);
    rocksdb::Options options(DatabaseOptions(), OptionsOf(family, impl_->cache));
    if (options.compression != rocksdb::kNoCompression && !CompressionPays(rows)) {
      options.compression = rocksdb::kNoCompression;
    }
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options, impl_->handle(family));
    rocksdb::Status s = writer.Open(path);
    for (const auto& [key, value] : rows) {
      if (s.ok()) s = writer.Put(key, value);
    }
    rocksdb::ExternalSstFileInfo made;
    if (s.ok()) s = writer.Finish(&made);
    if (!s.ok()) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
      for (const auto& a : args) std::filesystem::remove(a.external_files[0], ignored);
      return StatusOf(s, impl_->directory);
    }
    rocksdb::IngestExternalFileArg arg;
    arg.column_family = impl_->handle(family);
    arg.external_files = {path};
    arg.options.move_files = true;
    arg.options.failed_move_fall_back_to_copy = false;
    arg.options.snapshot_consistency = false;
    // As it was when it was written: what the checksum is of.
    arg.files_checksums = {made.file_checksum};
    arg.files_checksum_func_names = {made.file_checksum_func_name};
    arg.options.verify_file_checksum = false;
    arg.options.write_global_seqno = false;
    args.push_back(std::move(arg));
    rows.clear();
    rows.shrink_to_fit();
  }
  if (args.empty()) return absl::OkStatus();
  rocksdb::Status s = impl_->Write(
      [&] { return impl_->failed.ok() ? impl_->db->IngestExternalFiles(args) : impl_->failed; });
  if (!s.ok()) {
    std::error_code ignored;
    for (const auto& a : args) std::filesystem::remove(a.external_files[0], ignored);
  }
  return StatusOf(s, impl_->directory);
}

absl::Status Database::Put(std::string_view key, std::string_view value) {
  return StatusOf(impl_->Write([&] {
    return impl_->db->Put(rocksdb::WriteOptions(), impl_->handle(Family::kMeta), SliceOf(key),
                          SliceOf(value));
  }),
                  impl_->directory);
}

absl::Status Database::Flush() {
  if (impl_->gathers) {
    std::lock_guard lock(impl_->gathered_mutex);
    RETURN_IF_ERROR(WaitUntilAdded(0));
    RETURN_IF_ERROR(AddNow(std::exchange(impl_->gathered, Batch())));
  }
  return StatusOf(impl_->Write([&] {
    return impl_->db->Flush(rocksdb::FlushOptions(), impl_->handle(Family::kMeta));
  }),
                  impl_->directory);
}

void Database::Recover() {
  // An assertion of Resume, which Debian's build keeps, wants it so after a failed write to the
  // MANIFEST; RocksDB itself sees to it after some of them only.
  impl_
      ->Write([this] {
        impl_->db->DisableFileDeletions().PermitUncheckedError();
        return impl_->db->Resume();
      })
      .PermitUncheckedError();
}

absl::StatusOr<std::string> Database::Get(Family family, std::string_view key) const {
  std::string value;
  rocksdb::Status s =
      impl_->db->Get(rocksdb::ReadOptions(), impl_->handle(family), SliceOf(key), &value);
  if (!s.ok()) {
    absl::Status status = StatusOf(s, impl_->directory, FamilyName(family));
    NoteDamage(status);
    return status;
  }
  return value;
}

namespace {

// RocksDB's iterator ends, and says that all is well, when it comes from one sorted file to another
// whose first block, or which itself, does not read. So the rows are counted on that the MANIFEST
// names, the first and the last of each file: an iterator must not pass one of them over, and must
// not end before it.
class RocksIterator : public Database::Iterator {
 public:
  // `known`: these rows' keys, sorted; they outlive the iterator.
  RocksIterator(std::unique_ptr<rocksdb::Iterator> it, const std::vector<std::string>& known,
                const Database& database, const std::string& directory, Family family)
      : it_(std::move(it)),
        known_(known),
        database_(database),
        directory_(directory),
        family_(family) {}
  void Seek(std::string_view key) override {
    at_ = std::lower_bound(known_.begin(), known_.end(), key) - known_.begin();
    forward_ = true;
    it_->Seek(SliceOf(key));
    Look();
  }
  void SeekForPrev(std::string_view key) override {
    at_ = std::upper_bound(known_.begin(), known_.end(), key) - known_.begin();
    forward_ = false;
    it_->SeekForPrev(SliceOf(key));
    Look();
  }
  void Next() override {
    if (!forward_) {
      at_ = std::upper_bound(known_.begin(), known_.end(), key()) - known_.begin();
      forward_ = true;
    }
    it_->Next();
    Look();
  }
  void Prev() override {
    if (forward_) {
      at_ = std::lower_bound(known_.begin(), known_.end(), key()) - known_.begin();
      forward_ = false;
    }
    it_->Prev();
    Look();
  }
  bool Valid() const override {
    if (it_->Valid() && !lost_) return true;
    database_.NoteDamage(status());
    return false;
  }
  std::string_view key() const override { return ViewOf(it_->key()); }
  std::string_view value() const override { return ViewOf(it_->value()); }
  absl::Status status() const override {
    if (!lost_) return StatusOf(it_->status(), directory_, FamilyName(family_));
    return absl::DataLossError(
        fmt::format("{}/{}: a sorted file does not read", directory_, FamilyName(family_)));
  }

 private:
  // Whether there is a known row before what the iterator has come to. Of those ahead, the next is
  // at_; of those behind, the one before at_.
  void Look() {
    const bool valid = it_->Valid();
    lost_ = !valid && it_->status().ok() && at_ != (forward_ ? known_.size() : 0);
    if (!valid) return;
    if (forward_) {
      if (at_ < known_.size() && known_[at_] <= key()) lost_ = known_[at_++] != key();
    } else if (at_ > 0 && known_[at_ - 1] >= key()) {
      lost_ = known_[--at_] != key();
    }
  }

  std::unique_ptr<rocksdb::Iterator> it_;
  const std::vector<std::string>& known_;
  size_t at_ = 0;
  bool forward_ = true, lost_ = false;
  const Database& database_;
  const std::string directory_;
  const Family family_;
};

}  // namespace

std::unique_ptr<Database::Iterator> Database::NewIterator(Family family) const {
  rocksdb::ReadOptions options;
  options.fill_cache = family != Family::kBlock;  // whoever reads a log keeps it unpacked
  return std::make_unique<RocksIterator>(
      std::unique_ptr<rocksdb::Iterator>(impl_->db->NewIterator(options, impl_->handle(family))),
      impl_->KnownRows(family), *this, impl_->directory, family);
}

void Database::SetCacheBytes(size_t bytes) { impl_->cache->SetCapacity(bytes); }

absl::Status Database::Damage() const {
  if (!impl_->damaged) return absl::OkStatus();
  std::lock_guard lock(impl_->damage_mutex);
  return impl_->damage;
}

void Database::NoteDamage(const absl::Status& damage) const {
  if (damage.ok() || absl::IsNotFound(damage)) return;
  std::lock_guard lock(impl_->damage_mutex);
  if (impl_->damaged) return;
  impl_->damage = damage;
  impl_->damaged = true;
}

absl::Status Database::VerifyChecksums() const {
  std::vector<rocksdb::LiveFileMetaData> files;
  impl_->db->GetLiveFilesMetaData(&files);
  const bool have_checksums = std::all_of(files.begin(), files.end(), [](const auto& file) {
    return file.file_checksum_func_name == FileChecksum::kName;
  });
  return StatusOf(have_checksums ? impl_->db->VerifyFileChecksums(rocksdb::ReadOptions())
                                 : impl_->db->VerifyChecksum(),
                  impl_->directory);
}

}  // namespace ttq
