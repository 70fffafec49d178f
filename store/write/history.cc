// SPDX-License-Identifier: MIT

#include "store/write/history.h"

#include <signal.h>
#include <unistd.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/file_image.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "recorder/launcher.h"
#include "store/format/format.h"
#include "store/format/inputs_log.h"
#include "store/write/disk_errors.h"
#include "store/write/ingest.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

// A directory that is taken away with all that is in it.
class Scratch {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) { Clear(); }
  ~Scratch() { Clear(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  void Clear() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const std::string path_;
};

absl::StatusOr<InputsSummary> Summary(const std::string& directory) {
  auto inputs = SummariseInputs(directory);
  if (!absl::IsNotFound(inputs.status())) return inputs;
  return absl::FailedPreconditionError(
      fmt::format("{} has no inputs that its history could be made from", directory));
}

// Writes a copy of a mapped file where the file itself is not as it was.
absl::Status PutCopy(const std::string& directory, const TtqMap& map, const std::string& path,
                     const std::string& to) {
  const std::string copy = to + "/" + CopyName(map);
  if (access(copy.c_str(), F_OK) == 0) return absl::OkStatus();
  if (const int fd = OpenUnchanged(map, path); fd >= 0) {
    close(fd);
    return absl::OkStatus();
  }
  const std::string stored = CopiesDirectory(directory) + "/" + CopyName(map);
  const auto packed = FileImage::Read(stored);
  if (!packed.ok() || map.file_bytes > kMaxFileBytes)
    return absl::OkStatus();  // the second run says whether it is needed
  std::string bytes(map.file_bytes, '\0');
  const size_t n =
      ZSTD_decompress(bytes.data(), bytes.size(), packed->bytes().data(), packed->bytes().size());
  if (n != bytes.size()) return absl::DataLossError(stored + " is damaged");
  std::ofstream out(copy, std::ios::binary);
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
    return DiskFull(directory);
  }
  return absl::OkStatus();
}

struct ForEngine {
  std::vector<std::string> roots;  // files of processes that nobody forked, in the order they began
  uint64_t block_bytes = 0;        // of the log
  uint64_t processes = 0;          // forked ones too
};

// Writes the processes' inputs for the engine.
absl::StatusOr<ForEngine> WriteForEngine(const std::string& directory, const std::string& to) {
  ASSIGN_OR_RETURN(const std::vector<ProcessNo> all, ListInputs(directory));
  std::map<uint32_t, std::string> paths;  // by process
  ForEngine written;
  for (const ProcessNo process : all) {
    ASSIGN_OR_RETURN(RecordedInputs inputs, ReadInputs(InputsPath(directory, process)));
    if (!inputs.not_again.empty()) {
      return absl::FailedPreconditionError(
          fmt::format("{}: process {} cannot be run again: {}; record it with --index=now",
                      directory, process.v, inputs.not_again));
    }
    const TtqInputs& head = inputs.file.head;
    std::string path = fmt::format("{}/{}", to, process.v);
    if (head.fork_number != 0) {
      const auto parent = paths.find(head.parent);
      if (parent == paths.end()) continue;  // what it goes on from is not known
      path = fmt::format("{}.{}", parent->second, head.fork_number);
    } else {
      written.roots.push_back(path);
    }
    absl::Status s;
    ForEachMappedFile(inputs.file.records, [&](const TtqMap& map, const std::string& mapped) {
      if (s.ok()) s = PutCopy(directory, map, mapped, to + "/files");
    });
    RETURN_IF_ERROR(s);
    inputs.file.head.cut_off = !inputs.has_ended;
    paths[process.v] = path;
    ++written.processes;
    written.block_bytes = head.block_bytes;
    std::ofstream out(path, std::ios::binary);
    const std::string bytes = inputs.file.Encode();
    if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
      return DiskFull(directory);
    }
  }
  return written;
}

// Runs a process and those it forked again, and stores what they did.
absl::Status RunAgain(const LaunchOptions& options, RecordingWriter* writer,
                      const std::function<void(const IngestTotals&)>& watch) {
  ASSIGN_OR_RETURN(const LaunchResult result,
                   Launch(
                       options,
                       [writer](absl::StatusOr<std::shared_ptr<Ring>> ring) {
                         if (!ring.ok()) return writer->Fail(ring.status());
                         writer->Start(*std::move(ring));
                       },
                       [&] {
                         if (watch) watch(writer->totals());
                         return writer->Idle();
                       }));
  RETURN_IF_ERROR(writer->error());
  if (result.signal == SIGINT) return absl::CancelledError("interrupted");
  if (!result.tool_log.empty()) {
    std::string line = result.tool_log.substr(0, result.tool_log.find('\n'));
    if (line.starts_with("ttq: ")) line.erase(0, 5);
    return absl::DataLossError(line);
  }
  if (result.signal != 0) {
    return absl::UnavailableError(fmt::format("the engine ended by signal {}", result.signal));
  }
  if (result.status != 0) {
    return absl::UnavailableError(fmt::format("the engine ended with status {}", result.status));
  }
  return absl::OkStatus();
}

absl::Status Make(const std::string& directory,
                  const std::function<void(const IngestTotals&)>& watch) {
  // Launch is for one thread of a process at a time.
  static std::mutex launching;
  std::lock_guard one_at_a_time(launching);
  ASSIGN_OR_RETURN(const InputsSummary inputs, Summary(directory));
  LaunchOptions options;
  ASSIGN_OR_RETURN(options.tool_directory, FindToolDirectory());
  const Scratch made(directory + "/.history");
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordingWriter> writer,
                   RecordingWriter::Create(made.path(), inputs.info));
  const std::string again = made.path() + "/again";
  std::error_code ec;
  fs::create_directories(again + "/files", ec);
  options.files = again + "/files";
  writer->SetCopies(options.files);
  ASSIGN_OR_RETURN(const ForEngine written, WriteForEngine(directory, again));
  options.block_bytes = written.block_bytes;
  absl::Status s;
  for (const std::string& root : written.roots) {
    options.inputs = root;
    if (s = RunAgain(options, writer.get(), watch); !s.ok()) break;
  }
  const absl::Status finished = writer->Finish();
  RETURN_IF_ERROR(s);
  RETURN_IF_ERROR(finished);
  // Where the recorder was killed a fork may be missing that its child is there of.
  if (inputs.info.finished && writer->totals().processes != written.processes) {
    return absl::DataLossError(fmt::format("of its {} processes {} were run again",
                                           written.processes, writer->totals().processes.load()));
  }
  // The store last: who finds it finds all.
  for (const char* name : {"/seal", "/db"}) {
    fs::rename(made.path() + name, directory + name, ec);
    if (ec) return absl::UnavailableError(fmt::format("{}{}: {}", directory, name, ec.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeHistory(const std::string& directory,
                         const std::function<void(const IngestTotals&)>& watch) {
  std::error_code ignored;
  if (fs::exists(directory + "/db", ignored)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const InputsSummary inputs, Summary(directory));
  if (inputs.being_recorded) {
    return absl::UnavailableError(fmt::format(
        "{} is being recorded; its history can be made when the program has ended", directory));
  }
  const InputsLock lock(directory, true);
  if (!HoldsInputsOnly(directory)) return absl::OkStatus();  // made meanwhile
  const absl::Status s = Make(directory, watch);
  if (s.ok() || absl::IsCancelled(s)) return s;
  return absl::Status(s.code(), fmt::format("the history of {} cannot be made: {}", directory,
                                            std::string(s.message())));
}

absl::Status DropHistory(const std::string& directory) {
  RETURN_IF_ERROR(Summary(directory).status());
  const InputsLock lock(directory, true);
  std::error_code ec;
  for (const char* name : {"/db", "/seal"}) {
    fs::remove_all(directory + name, ec);
    if (ec) return absl::UnavailableError(fmt::format("{}{}: {}", directory, name, ec.message()));
  }
  return absl::OkStatus();
}

}  // namespace ttq
