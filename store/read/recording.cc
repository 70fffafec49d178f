// SPDX-License-Identifier: MIT
//
// Opening a recording. See docs/store-format.md.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "base/directory.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/database.h"
#include "store/format/format.h"
#include "store/format/inputs_log.h"
#include "store/format/records.h"
#include "store/format/seal.h"
#include "store/read/process_reader.h"
#include "store/read/reader.h"
#include "store/read/writer_lock.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

// RocksDB, and whoever reads what lies beside the store, would follow links out of the recording,
// and wait for a pipe for ever.
absl::Status CheckFiles(const std::string& directory, const std::string& store) {
  auto refuse = [&](const std::string& path, const char* what) {
    return absl::FailedPreconditionError(
        fmt::format("{}: not a recording ({} is {})", directory, path, what));
  };
  struct stat st;
  if (lstat(store.c_str(), &st) != 0) {
    return absl::FailedPreconditionError(errno == ENOENT
                                             ? directory + ": not a recording (it holds no store)"
                                             : fmt::format("{}: {}", store, strerror(errno)));
  }
  if (S_ISLNK(st.st_mode)) return refuse(store, "a symbolic link");
  if (!S_ISDIR(st.st_mode)) return refuse(store, "not a directory");
  bool has_current = false;
  for (const std::string& folder : {directory, store}) {
    std::error_code ec;
    for (auto it = fs::directory_iterator(folder, ec); !ec && it != fs::directory_iterator();
         it.increment(ec)) {
      const std::string path = it->path();
      if (lstat(path.c_str(), &st) != 0) continue;  // a recorder at work took it away
      if (S_ISLNK(st.st_mode)) return refuse(path, "a symbolic link");
      if (S_ISDIR(st.st_mode) && folder == directory) continue;  // nothing in it is read
      if (!S_ISREG(st.st_mode)) return refuse(path, "not a plain file");
      has_current = has_current || (folder == store && it->path().filename() == "CURRENT");
    }
    if (ec) return absl::UnavailableError(fmt::format("{}: {}", folder, ec.message()));
  }
  if (!has_current) return refuse(store + "/CURRENT", "missing");
  return absl::OkStatus();
}

constexpr char kCutOff[] = "the recorder was killed or failed; what it had not stored yet is lost";

// What a recording says of itself that has no store yet, or one to which nothing was ever put;
// nullopt: it is none, or has more.
std::optional<RecordingInfo> BegunOnly(const std::string& directory, const std::string& store) {
  std::error_code ec;
  const fs::file_type type = fs::symlink_status(store, ec).type();
  if (type == fs::file_type::directory) {
    ec.clear();
    for (auto it = fs::directory_iterator(store, ec); !ec && it != fs::directory_iterator();
         it.increment(ec)) {
      const fs::path name = it->path().filename();
      if (name.extension() == ".sst") return std::nullopt;
      if (name.extension() == ".log" && it->file_size(ec) != 0) return std::nullopt;
    }
    if (ec) return std::nullopt;
  } else if (type != fs::file_type::not_found) {
    return std::nullopt;
  }
  const std::string reserve = directory + "/reserve";
  if (!fs::is_regular_file(fs::symlink_status(reserve, ec))) return std::nullopt;
  constexpr size_t kMaxBytes = 16 << 20;  // a command line has less
  std::string record(std::min<size_t>(fs::file_size(reserve, ec), kMaxBytes), '\0');
  std::ifstream in(reserve, std::ios::binary);
  if (ec || !in.read(record.data(), static_cast<std::streamsize>(record.size()))) {
    return std::nullopt;
  }
  absl::StatusOr<RecordingInfo> info = ParseRecording(record);
  if (!info.ok() || info->store_version != kStoreVersion) return std::nullopt;
  return *std::move(info);
}

// The file itself, where it still is what was recorded: quicker than from the store. Null: it is
// not.
std::optional<FileImage> OpenIfUnchanged(const StoredFile& file, uint64_t id, FileAccess access) {
  std::error_code ec;
  if (file.size > kMaxFileBytes || fs::file_size(file.path, ec) != file.size) return std::nullopt;
  auto image = access == FileAccess::kMap ? FileImage::Map(file.path) : FileImage::Read(file.path);
  if (!image.ok() || image->bytes().size() != file.size ||
      FileIdOf(XXH3_64bits(image->bytes().data(), image->bytes().size())) != id) {
    return std::nullopt;
  }
  return *std::move(image);
}

void SetPlace(const std::string& directory, RecordingInfo* info) {
  info->path = directory;
  info->name = fs::path(directory).filename();
}

// A recording that was only just begun.
class EmptyRecording : public Recording {
 public:
  EmptyRecording(RecordingInfo info, bool being_written)
      : info_(std::move(info)),
        nothing_(absl::FailedPreconditionError(
            fmt::format("{}: nothing was recorded: {}", info_.path,
                        being_written ? kBeingRecorded : "the recorder was killed as it began"))) {
    info_.bytes_on_disk = BytesUnder(info_.path);
  }
  const RecordingInfo& info() const override { return info_; }
  const std::vector<ProcessInfo>& processes() const override { return processes_; }
  ProcessNo default_process() const override { return ProcessNo(0); }
  absl::StatusOr<const Process*> Open(ProcessNo) const override { return nothing_; }
  absl::StatusOr<FileImage> FileContents(uint64_t) const override { return nothing_; }
  absl::Status Check(const std::function<void(const std::string&)>&, ScanControl*) const override {
    return absl::OkStatus();
  }

 private:
  RecordingInfo info_;
  const absl::Status nothing_;
  const std::vector<ProcessInfo> processes_;
};

class RecordingReader : public Recording {
 public:
  RecordingReader(std::unique_ptr<Database> database, FileAccess files)
      : database_(std::move(database)), files_(files) {}

  absl::Status Load(const std::string& directory, bool being_written, bool sealed) {
    auto record = database_->Get(Family::kMeta, RecordingKey());
    if (!record.ok()) {
      if (absl::IsNotFound(record.status())) {
        return absl::FailedPreconditionError(directory + ": a RocksDB store, but not a recording");
      }
      return record.status();
    }
    ASSIGN_OR_RETURN(info_, ParseRecording(*record));
    if (info_.store_version < kOldestStoreVersion || info_.store_version > kStoreVersion) {
      return absl::FailedPreconditionError(
          fmt::format("{}: store version {}, this ttq reads versions {} to {}{}", directory,
                      info_.store_version, kOldestStoreVersion, kStoreVersion,
                      info_.store_version > kStoreVersion ? "; use a newer ttq" : ""));
    }
    being_written_ = being_written;
    SetPlace(directory, &info_);
    lost_seal_ = info_.finished && !sealed && info_.store_version >= kStoreVersion7;
    if (lost_seal_) info_.finished = false;
    auto it = database_->NewIterator(Family::kMeta);
    std::string prefix = "process/";
    for (it->Seek(prefix); it->Valid() && it->key().substr(0, prefix.size()) == prefix;
         it->Next()) {
      ASSIGN_OR_RETURN(StoredProcess p, ParseProcess(it->value()));
      if (!p.closed) {
        RETURN_IF_ERROR(TakeLastGroup(&p));
        p.info.complete = false;
        if (p.info.incomplete_reason.empty()) p.info.incomplete_reason = NotStored();
      }
      if (lost_seal_ && !being_written && p.info.complete) {
        p.info.complete = false;
        p.info.incomplete_reason = "its seal is missing: parts of the recording may be missing too";
      }
      CutOffFromParent(&p);
      infos_.push_back(p.info);
      stored_.push_back(std::move(p));
    }
    return it->status();
  }

  // It is finished and should have one.
  bool lost_seal() const { return lost_seal_; }

  const RecordingInfo& info() const override {
    std::call_once(sized_, [this] { info_.bytes_on_disk = BytesUnder(info_.path); });
    return info_;
  }
  const std::vector<ProcessInfo>& processes() const override { return infos_; }
  ProcessNo default_process() const override { return DefaultProcess(infos_); }

  void UseMemory(const OutsideMemory* memory) override { memory_ = memory; }
  absl::StatusOr<const Process*> Open(ProcessNo number) const override {
    ASSIGN_OR_RETURN(auto reader, OpenReader(number));
    return static_cast<const Process*>(reader);
  }

  absl::StatusOr<FileImage> FileContents(uint64_t id) const override {
    auto record = database_->Get(Family::kMeta, FileKey(id));
    if (!record.ok()) {
      return absl::IsNotFound(record.status())
                 ? absl::NotFoundError(fmt::format("the recording keeps no file {:016x}", id))
                 : record.status();
    }
    auto file = ParseFile(*record);
    if (file.ok()) {
      if (auto same = OpenIfUnchanged(*file, id, files_)) return *std::move(same);
    }
    auto stored = file.ok() ? StoredContents(id, file->size) : file.status();
    database_->NoteDamage(stored.status());
    return stored;
  }

  absl::Status Damage() const override {
    absl::Status s = database_->Damage();
    s.Update(unindexed_.asked());
    s.Update(unindexed_.done_without());
    return s;
  }
  absl::Status Unindexed() const override { return unindexed_.asked(); }

  absl::Status Check(const std::function<void(const std::string&)>& problem,
                     ScanControl* control) const override {
    if (absl::Status s = database_->VerifyChecksums(); !s.ok()) problem(std::string(s.message()));
    CheckStoredFiles(problem);
    for (const ProcessInfo& p : infos_) {
      auto reader = OpenReader(p.number);
      if (!reader.ok()) {
        problem(std::string(reader.status().message()));
        continue;
      }
      RETURN_IF_ERROR((*reader)->Check(problem, control));
    }
    return absl::OkStatus();
  }

 private:
  // A file's bytes from the store, whose hash its id is.
  absl::StatusOr<FileImage> StoredContents(uint64_t id, uint64_t size) const {
    std::string out;
    constexpr uint64_t kMaxAtOnce = 64 << 20;  // the size may be wrong
    out.reserve(std::min(size, kMaxAtOnce));
    std::string prefix = FileChunkKey(id, 0).substr(0, 8);
    auto it = database_->NewIterator(Family::kFile);
    for (it->Seek(prefix); it->Valid() && it->key().substr(0, 8) == prefix; it->Next()) {
      if (it->value().size() > kFileChunkBytes || out.size() + it->value().size() > size) {
        return absl::DataLossError(fmt::format("the file {:016x} is damaged", id));
      }
      out.append(it->value());
    }
    if (!it->status().ok()) return it->status();
    if (out.size() != size) {
      return absl::DataLossError(fmt::format("the file {:016x} is cut off", id));
    }
    if (FileIdOf(XXH3_64bits(out.data(), out.size())) != id) {
      return absl::DataLossError(fmt::format("the file {:016x} differs from its hash", id));
    }
    return FileImage::FromString(std::move(out));
  }

  // Compares every file with its hash.
  void CheckStoredFiles(const std::function<void(const std::string&)>& problem) const {
    std::string prefix = FileKey(0);
    prefix.resize(prefix.size() - sizeof(uint64_t));
    auto it = database_->NewIterator(Family::kMeta);
    for (it->Seek(prefix); it->Valid() && it->key().substr(0, prefix.size()) == prefix;
         it->Next()) {
      if (it->key().size() != FileKey(0).size()) continue;
      auto file = ParseFile(it->value());
      const absl::Status s =
          file.ok()
              ? StoredContents(ReadBig64(it->key().substr(prefix.size())), file->size).status()
              : file.status();
      if (!s.ok()) problem(std::string(s.message()));
    }
    if (!it->status().ok()) problem(std::string(it->status().message()));
  }

  const char* NotStored() const { return being_written_ ? kBeingRecorded : kCutOff; }

  // Until a process is closed, its last group says how far it is.
  absl::Status TakeLastGroup(StoredProcess* p) const {
    const std::string last = GroupKey(p->info.number, ~uint32_t{0});
    auto it = database_->NewIterator(Family::kMeta);
    it->SeekForPrev(last);
    if (!it->status().ok()) return it->status();
    if (!it->Valid() || it->key().substr(0, last.size() - 4) != last.substr(0, last.size() - 4)) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(StoredGroup group, ParseGroup(it->value()));
    if (!group.process) return absl::OkStatus();
    StoredProcess as_of = *std::move(group.process);
    as_of.info.program = std::move(p->info.program);
    as_of.info.arguments = std::move(p->info.arguments);
    as_of.info.working_directory = std::move(p->info.working_directory);
    *p = std::move(as_of);
    return absl::OkStatus();
  }

  // A forked process goes on from its parent's memory and code. Each stores what it did when it has
  // a group of it, so a parent that was cut off may be stored up to before the fork: what is there
  // of the child then means nothing.
  void CutOffFromParent(StoredProcess* p) const {
    ProcessInfo& info = p->info;
    if (info.parent.v == 0 || info.by_exec) return;
    // Numbers grow from parent to child.
    const auto parent = std::find_if(stored_.begin(), stored_.end(), [&](const StoredProcess& q) {
      return q.info.number == info.parent;
    });
    if (parent != stored_.end() && !parent->cut_off &&
        (p->fork_blocks != 0 ? parent->info.blocks >= p->fork_blocks
                             : parent->info.end >= p->fork_time)) {
      return;
    }
    p->cut_off = true;
    p->threads.clear();
    info.end = Time(0);
    info.blocks = info.writes = info.reads = info.log_bytes = 0;
    info.crash.reset();
    info.fatal_signal = 0;
    info.exit_status.reset();
    info.complete = false;
    info.incomplete_reason = fmt::format(
        "process {}, which forked this one, is not stored up to there: {}", info.parent.v,
        parent == stored_.end() || parent->info.incomplete_reason.empty()
            ? NotStored()
            : parent->info.incomplete_reason.c_str());
  }

  absl::StatusOr<const ProcessReader*> OpenReader(ProcessNo number) const {
    {
      std::lock_guard lock(mutex_);
      auto it = open_.find(number);
      if (it != open_.end()) return it->second.get();
    }
    auto stored = std::find_if(stored_.begin(), stored_.end(),
                               [&](const StoredProcess& p) { return p.info.number == number; });
    if (stored_.empty()) {
      return absl::FailedPreconditionError(
          fmt::format("{}: nothing was recorded: {}", info_.path, NotStored()));
    }
    if (stored == stored_.end()) {
      return absl::NotFoundError(fmt::format("there is no process {} in this recording", number.v));
    }
    const ProcessReader* parent = nullptr;
    // Numbers grow from parent to child, so this ends.
    if (!stored->cut_off && !stored->info.by_exec && stored->info.parent.v != 0 &&
        stored->info.parent < number) {
      ASSIGN_OR_RETURN(parent, OpenReader(stored->info.parent));
    }
    auto reader =
        std::make_unique<ProcessReader>(*this, *database_, stored->info, stored->threads,
                                        stored->moment, stored->fork_time, parent, &unindexed_);
    reader->UseMemory(memory_);
    if (!stored->cut_off) {
      RETURN_IF_ERROR(reader->Load(being_written_));
    }
    std::lock_guard lock(mutex_);
    return open_.try_emplace(number, std::move(reader)).first->second.get();
  }

  std::unique_ptr<Database> database_;
  const FileAccess files_;
  const OutsideMemory* memory_ = nullptr;
  bool being_written_ = false, lost_seal_ = false;
  mutable std::once_flag sized_;
  mutable RecordingInfo info_;
  std::vector<ProcessInfo> infos_;
  std::vector<StoredProcess> stored_;
  mutable std::mutex mutex_;
  mutable std::map<ProcessNo, std::unique_ptr<ProcessReader>> open_;
  mutable ttq::Unindexed unindexed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Recording>> Recording::Open(const std::string& directory,
                                                           FileAccess files) {
  struct stat st;
  if (stat(directory.c_str(), &st) != 0) {
    return absl::NotFoundError(fmt::format("{}: {}", directory, strerror(errno)));
  }
  if (!S_ISDIR(st.st_mode)) {
    return absl::FailedPreconditionError(directory + ": not a recording (it is not a directory)");
  }
  const std::string store = directory + "/db";
  if (HoldsInputsOnly(directory)) {
    return absl::FailedPreconditionError(
        fmt::format("{} has its inputs only; `ttq index` makes the history", directory));
  }
  for (int attempt = 0;; ++attempt) {
    // Asked first: a recording that is finished meanwhile is still taken for one being made.
    const bool being_written = IsBeingWritten(directory);
    if (std::optional<RecordingInfo> info = BegunOnly(directory, store)) {
      SetPlace(directory, &*info);
      return std::make_unique<EmptyRecording>(*std::move(info), being_written);
    }
    absl::Status s = CheckFiles(directory, store);
    // There is none before the recording is finished.
    const absl::Status seal = s.ok() ? CheckSeal(directory) : s;
    if (!absl::IsNotFound(seal)) s = seal;
    std::unique_ptr<RecordingReader> reader;
    if (s.ok()) {
      auto database = Database::OpenForReading(store);
      s = database.status();
      if (s.ok()) {
        reader = std::make_unique<RecordingReader>(std::move(*database), files);
        s = reader->Load(directory, being_written, seal.ok());
      }
    }
    // The recorder may have replaced a file between two looks at the directory, or have closed the
    // store and not yet sealed it.
    const bool again = s.ok() ? reader->lost_seal() && !being_written : being_written;
    if (!again || attempt == 3) {
      if (!s.ok()) return s;
      return reader;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace ttq
