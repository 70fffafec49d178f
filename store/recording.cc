// SPDX-License-Identifier: MIT
//
// Opening a recording. See docs/store-format.md.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>

#include "fmt/format.h"
#include "store/database.h"
#include "store/format.h"
#include "store/message.h"
#include "store/process_reader.h"
#include "store/reader.h"
#include "store/trace.capnp.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

struct StoredProcess {
  ProcessInfo info;
  std::vector<Thread> threads;
  Time fork_time{0};
  bool closed = false;
};

absl::Status ReadProcess(std::string_view bytes, StoredProcess* out) {
  return ReadMessage<schema::Process>(bytes, "process", [&](auto p) {
    ProcessInfo& i = out->info;
    i.number = ProcessNo(p.getNumber());
    i.parent = ProcessNo(p.getParent());
    i.by_exec = p.getByExec();
    i.pid = p.getPid();
    i.program = p.getProgram().cStr();
    for (auto a : p.getArguments()) i.arguments.emplace_back(a.cStr());
    i.working_directory = p.getWorkingDirectory().cStr();
    i.end = Time(p.getEnd());
    if (p.getCrash() >= 0) i.crash = Time(static_cast<uint64_t>(p.getCrash()));
    i.fatal_signal = static_cast<int>(p.getFatalSignal());
    if (p.getExitStatus() >= 0) i.exit_status = p.getExitStatus();
    i.start_wall_ns = p.getStartWallNs();
    i.end_wall_ns = p.getEndWallNs();
    i.blocks = p.getBlocks();
    i.writes = p.getWrites();
    i.reads = p.getReads();
    i.log_bytes = p.getLogBytes();
    i.complete = p.getComplete();
    i.incomplete_reason = p.getIncompleteReason().cStr();
    for (auto t : p.getThreads()) {
      out->threads.push_back({ThreadNo(t.getNumber()), t.getOsTid(), Time(t.getStart()),
                              Time(t.getEnd()), t.getInstructions()});
    }
    out->fork_time = Time(p.getForkTime());
    out->closed = p.getClosed();
  });
}

class RecordingReader : public Recording {
 public:
  explicit RecordingReader(std::unique_ptr<Database> database) : database_(std::move(database)) {}

  absl::Status Load(const std::string& directory) {
    auto record = database_->Get(Family::kMeta, RecordingKey());
    if (!record.ok()) {
      if (absl::IsNotFound(record.status())) {
        return absl::FailedPreconditionError(directory + ": a RocksDB store, but not a recording");
      }
      return record.status();
    }
    absl::Status s = ReadMessage<schema::Recording>(*record, "recording", [&](auto r) {
      info_.store_version = r.getStoreVersion();
      for (auto a : r.getCommand()) info_.command.emplace_back(a.cStr());
      info_.working_directory = r.getWorkingDirectory().cStr();
      info_.host = r.getHost().cStr();
      info_.recorder_version = r.getRecorderVersion().cStr();
      info_.start_wall_ns = r.getStartWallNs();
      info_.finished = r.getFinished();
    });
    if (!s.ok()) return s;
    if (info_.store_version != kStoreVersion) {
      return absl::FailedPreconditionError(
          fmt::format("{}: store version {}, this ttq reads version {}{}", directory,
                      info_.store_version, kStoreVersion,
                      info_.store_version > kStoreVersion ? "; use a newer ttq" : ""));
    }
    info_.path = directory;
    info_.name = fs::path(directory).filename();
    auto it = database_->NewIterator(Family::kMeta);
    std::string prefix = "process/";
    for (it->Seek(prefix); it->Valid() && it->key().substr(0, prefix.size()) == prefix;
         it->Next()) {
      StoredProcess p;
      if (s = ReadProcess(it->value(), &p); !s.ok()) return s;
      if (!p.closed) {
        p.info.complete = false;
        if (p.info.incomplete_reason.empty()) {
          p.info.incomplete_reason = info_.finished
                                         ? "recording it was cut off"
                                         : "the recording is still being made, or was cut off";
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
      if (p.fatal_signal != 0) return p.number;
    }
    return infos_.empty() ? ProcessNo(0) : infos_.front().number;
  }

  absl::StatusOr<const Process*> Open(ProcessNo number) const override {
    auto reader = OpenReader(number);
    if (!reader.ok()) return reader.status();
    return static_cast<const Process*>(*reader);
  }

  absl::StatusOr<std::shared_ptr<const std::string>> FileContents(uint64_t id) const override {
    auto out = std::make_shared<std::string>();
    std::string prefix = FileChunkKey(id, 0).substr(0, 8);
    auto it = database_->NewIterator(Family::kFile);
    for (it->Seek(prefix); it->Valid() && it->key().substr(0, 8) == prefix; it->Next()) {
      out->append(it->value());
    }
    if (!it->status().ok()) return it->status();
    if (out->empty()) {
      return absl::NotFoundError(fmt::format("the recording keeps no file {:016x}", id));
    }
    return std::shared_ptr<const std::string>(std::move(out));
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
    auto stored = std::find_if(stored_.begin(), stored_.end(), [&](const StoredProcess& p) {
      return p.info.number == number;
    });
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
  mutable std::once_flag sized_;
  mutable RecordingInfo info_;
  std::vector<ProcessInfo> infos_;
  std::vector<StoredProcess> stored_;
  mutable std::mutex mutex_;
  mutable std::map<ProcessNo, std::unique_ptr<ProcessReader>> open_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Recording>> Recording::Open(const std::string& directory) {
  struct stat st;
  if (stat(directory.c_str(), &st) != 0) {
    return absl::NotFoundError(fmt::format("{}: {}", directory, strerror(errno)));
  }
  if (!S_ISDIR(st.st_mode)) {
    return absl::FailedPreconditionError(directory + ": not a recording (it is not a directory)");
  }
  std::string store = directory + "/db";
  if (stat((store + "/CURRENT").c_str(), &st) != 0) {
    return absl::FailedPreconditionError(directory + ": not a recording (it holds no store)");
  }
  auto database = Database::OpenForReading(store);
  if (!database.ok()) return database.status();
  auto reader = std::make_unique<RecordingReader>(std::move(*database));
  if (absl::Status s = reader->Load(directory); !s.ok()) return s;
  return reader;
}

}  // namespace ttq
