// SPDX-License-Identifier: MIT
//
// Opening a recording. See docs/store-format.md.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "fmt/format.h"
#include "store/database.h"
#include "store/format.h"
#include "store/process_reader.h"
#include "store/reader.h"
#include "store/records.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

// Whether somebody holds RocksDB's lock on the store: a recorder at work.
bool IsBeingWritten(const std::string& store) {
  int fd = open((store + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  bool held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return held;
}

// RocksDB would follow links out of the recording, and wait for a pipe for ever.
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
  std::error_code ec;
  bool has_current = false;
  for (auto it = fs::directory_iterator(store, ec); !ec && it != fs::directory_iterator();
       it.increment(ec)) {
    const std::string path = it->path();
    if (lstat(path.c_str(), &st) != 0) continue;  // a recorder at work took it away
    if (S_ISLNK(st.st_mode)) return refuse(path, "a symbolic link");
    if (!S_ISREG(st.st_mode)) return refuse(path, "not a plain file");
    has_current = has_current || it->path().filename() == "CURRENT";
  }
  if (ec) return absl::UnavailableError(fmt::format("{}: {}", store, ec.message()));
  if (!has_current) return refuse(store + "/CURRENT", "missing");
  return absl::OkStatus();
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

// Signals that say that the program went wrong, not that somebody ended it.
bool IsOfFault(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
      return true;
    default:
      return false;
  }
}

class RecordingReader : public Recording {
 public:
  RecordingReader(std::unique_ptr<Database> database, FileAccess files)
      : database_(std::move(database)), files_(files) {}

  absl::Status Load(const std::string& directory, bool being_written) {
    auto record = database_->Get(Family::kMeta, RecordingKey());
    if (!record.ok()) {
      if (absl::IsNotFound(record.status())) {
        return absl::FailedPreconditionError(directory + ": a RocksDB store, but not a recording");
      }
      return record.status();
    }
    auto parsed = ParseRecording(*record);
    if (!parsed.ok()) return parsed.status();
    info_ = *std::move(parsed);
    if (info_.store_version < kOldestStoreVersion || info_.store_version > kStoreVersion) {
      return absl::FailedPreconditionError(
          fmt::format("{}: store version {}, this ttq reads versions {} to {}{}", directory,
                      info_.store_version, kOldestStoreVersion, kStoreVersion,
                      info_.store_version > kStoreVersion ? "; use a newer ttq" : ""));
    }
    info_.path = directory;
    info_.name = fs::path(directory).filename();
    auto it = database_->NewIterator(Family::kMeta);
    std::string prefix = "process/";
    for (it->Seek(prefix); it->Valid() && it->key().substr(0, prefix.size()) == prefix;
         it->Next()) {
      auto process = ParseProcess(it->value());
      if (!process.ok()) return process.status();
      StoredProcess p = *std::move(process);
      if (!p.closed) {
        p.info.complete = false;
        if (p.info.incomplete_reason.empty()) {
          p.info.incomplete_reason = being_written ? "the recording is still being made"
                                                   : "the recorder was killed or failed; what it "
                                                     "had not stored yet is lost";
        }
      }
      infos_.push_back(p.info);
      stored_.push_back(std::move(p));
    }
    return it->status();
  }

  const RecordingInfo& info() const override {
    std::call_once(sized_, [this] {
      std::error_code ec;
      for (const auto& entry : fs::recursive_directory_iterator(info_.path, ec)) {
        if (entry.is_regular_file(ec)) info_.bytes_on_disk += entry.file_size(ec);
      }
    });
    return info_;
  }
  const std::vector<ProcessInfo>& processes() const override { return infos_; }
  ProcessNo default_process() const override {
    for (const ProcessInfo& p : infos_) {
      if (IsOfFault(p.fatal_signal)) return p.number;
    }
    for (const ProcessInfo& p : infos_) {
      if (p.fatal_signal != 0) return p.number;
    }
    return infos_.empty() ? ProcessNo(0) : infos_.front().number;
  }

  absl::StatusOr<const Process*> Open(ProcessNo number) const override {
    auto reader = OpenReader(number);
    if (!reader.ok()) return reader.status();
    return static_cast<const Process*>(*reader);
  }

  absl::StatusOr<FileImage> FileContents(uint64_t id) const override {
    auto record = database_->Get(Family::kMeta, FileKey(id));
    if (!record.ok()) {
      return absl::IsNotFound(record.status())
                 ? absl::NotFoundError(fmt::format("the recording keeps no file {:016x}", id))
                 : record.status();
    }
    auto file = ParseFile(*record);
    if (!file.ok()) return file.status();
    if (auto same = OpenIfUnchanged(*file, id, files_)) return *std::move(same);
    const uint64_t size = file->size;
    std::string out;
    constexpr uint64_t kMostAtOnce = 64 << 20;  // the size may be wrong
    out.reserve(std::min(size, kMostAtOnce));
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
    return FileImage::FromString(std::move(out));
  }

  absl::Status Check(const std::function<void(const std::string&)>& problem,
                     ScanControl* control) const override {
    if (absl::Status s = database_->VerifyChecksums(); !s.ok()) problem(std::string(s.message()));
    for (const ProcessInfo& p : infos_) {
      auto reader = OpenReader(p.number);
      if (!reader.ok()) {
        problem(std::string(reader.status().message()));
        continue;
      }
      if (absl::Status s = (*reader)->Check(problem, control); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<const ProcessReader*> OpenReader(ProcessNo number) const {
    {
      std::lock_guard lock(mutex_);
      auto it = open_.find(number);
      if (it != open_.end()) return it->second.get();
    }
    auto stored = std::find_if(stored_.begin(), stored_.end(),
                               [&](const StoredProcess& p) { return p.info.number == number; });
    if (stored == stored_.end()) {
      return absl::NotFoundError(fmt::format("there is no process {} in this recording", number.v));
    }
    const ProcessReader* parent = nullptr;
    // Numbers grow from parent to child, so this ends.
    if (!stored->info.by_exec && stored->info.parent.v != 0 && stored->info.parent < number) {
      auto opened = OpenReader(stored->info.parent);
      if (!opened.ok()) return opened.status();
      parent = *opened;
    }
    auto reader = std::make_unique<ProcessReader>(*this, *database_, stored->info, stored->threads,
                                                  stored->fork_time, parent);
    if (absl::Status s = reader->Load(); !s.ok()) return s;
    std::lock_guard lock(mutex_);
    return open_.try_emplace(number, std::move(reader)).first->second.get();
  }

  std::unique_ptr<Database> database_;
  const FileAccess files_;
  mutable std::once_flag sized_;
  mutable RecordingInfo info_;
  std::vector<ProcessInfo> infos_;
  std::vector<StoredProcess> stored_;
  mutable std::mutex mutex_;
  mutable std::map<ProcessNo, std::unique_ptr<ProcessReader>> open_;
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
  for (int attempt = 0;; ++attempt) {
    // Asked first: a recording that is finished meanwhile is still taken for one being made.
    const bool being_written = IsBeingWritten(store);
    absl::Status s = CheckFiles(directory, store);
    if (s.ok()) {
      auto database = Database::OpenForReading(store);
      s = database.status();
      if (s.ok()) {
        auto reader = std::make_unique<RecordingReader>(std::move(*database), files);
        if (s = reader->Load(directory, being_written); s.ok()) return reader;
      }
    }
    // The recorder may have replaced a file between two looks at the directory.
    if (!being_written || attempt == 3) return s;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace ttq
