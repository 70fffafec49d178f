// SPDX-License-Identifier: MIT

#include "store/write/history.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/directory.h"
#include "base/file_image.h"
#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "recorder/launcher.h"
#include "store/format/format.h"
#include "store/format/inputs_log.h"
#include "store/write/disk_errors.h"
#include "store/write/ingest.h"
#include "store/write/kept_logs.h"
#include "store/write/segments.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

// A block has 4 MiB of log, which is 2 to 8 million instructions.
constexpr uint32_t kLastBlocks = 24;
// A program may go on for so long after it has said that it failed: Python takes all down.
constexpr uint32_t kMaxSinceMessage = 500;
// To index so many takes half a second; to index the last of them, half of that.
constexpr uint32_t kShortBlocks = 200;
// Processes that are stored while the next is run again. Each has memory for its ring.
constexpr size_t kMaxRunning = 4;

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

// What a history that was made does not cover.
struct Lacks {
  bool parts = false;
  std::optional<uint64_t> so_far;  // what comes behind so many bytes of inputs
};

// Puts a store in the place of the recording's. The seal comes before it: who finds a store finds
// all.
absl::Status PutInPlace(const std::string& made, const std::string& directory, const Lacks& lacks) {
  std::error_code ec;
  const auto move = [&ec](const std::string& from, const std::string& to) {
    if (ec) return;
    fs::rename(from, to, ec);
  };
  if (fs::exists(directory + "/db", ec)) move(directory + "/db", made + "/replaced");
  for (const std::string& path : {PartialPath(directory), SoFarPath(directory)}) {
    if (!ec) fs::remove(path, ec);
  }
  if (!ec && lacks.parts && !std::ofstream(PartialPath(directory))) return DiskFull(directory);
  if (!ec && lacks.so_far &&
      !(std::ofstream(SoFarPath(directory)) << *lacks.so_far << '\n').flush()) {
    return DiskFull(directory);
  }
  for (const char* name : {"/seal", "/db"}) move(made + name, directory + name);
  if (ec) return absl::UnavailableError(fmt::format("{}: {}", directory, ec.message()));
  return absl::OkStatus();
}

// Where fewer threads index, these are what is waited for, and not the second run.
constexpr size_t kJobsForSegments = 4;
// Of fewer there is little to divide.
constexpr size_t kBlocksForSegments = 128;

struct ForEngine {
  std::vector<std::string> roots;  // files of processes that nobody forked, in the order they began
  uint64_t block_bytes = 0;        // of the log
  std::vector<RingHead> forked;    // that the second run of the parent comes to
  bool is_complete = true;         // of each process all is there
};

// Reads the inputs of each process, in order.
absl::Status ForEachProcess(const std::string& directory, const InputsSummary& summary,
                            const std::function<absl::Status(ProcessNo, RecordedInputs)>& f) {
  ASSIGN_OR_RETURN(const std::vector<ProcessNo> all, ListInputs(directory));
  for (const ProcessNo process : all) {
    absl::StatusOr<RecordedInputs> inputs = ReadInputs(InputsPath(directory, process));
    // It has just begun, or had when the recorder was killed.
    if (absl::IsOutOfRange(inputs.status()) && !summary.info.finished) continue;
    RETURN_IF_ERROR(inputs.status());
    RETURN_IF_ERROR(f(process, *std::move(inputs)));
  }
  return absl::OkStatus();
}

constexpr uint32_t kNone = ~uint32_t{0};
using Blocks = std::vector<TtqInputsBlock>;
// How many of a process's blocks come before its history, kNone: it has none.
using BlocksBefore = std::function<uint32_t(ProcessNo process, const Blocks& blocks)>;

// Writes the processes' inputs for the engine. Those that have a log are put into `logs`.
absl::StatusOr<ForEngine> WriteForEngine(const std::string& directory, const InputsSummary& summary,
                                         const std::string& to, const BlocksBefore& before,
                                         uint32_t segments, RecordingWriter* writer,
                                         KeptLogs* logs) {
  std::map<uint32_t, std::string> paths;  // by process
  std::map<uint32_t, MappedFiles> files;  // by process
  ForEngine written;
  const auto write = [&](ProcessNo process, RecordedInputs inputs) -> absl::Status {
    TtqInputs& head = inputs.file.head;
    written.block_bytes = head.block_bytes;
    if (const std::string what = WhatIsMissing(inputs, summary); !what.empty()) {
      written.is_complete = false;
      writer->SetMissing(process, what);
    }
    if (BeginsWithLog(inputs) && paths.contains(head.parent)) {
      paths[process.v] = "";
      logs->Add(process, std::move(inputs));
      return absl::OkStatus();
    }
    std::string path = fmt::format("{}/{}", to, process.v);
    if (head.fork_number != 0) {
      written.forked.push_back(RingHeadOf(inputs));
      const auto parent = paths.find(head.parent);
      // What it goes on from is not known. Of one with a log all children have one.
      if (parent == paths.end() || parent->second.empty()) return absl::OkStatus();
      path = fmt::format("{}.{}", parent->second, head.fork_number);
    } else {
      written.roots.push_back(path);
    }
    absl::Status s;
    ForEachMappedFile(inputs.file.records, [&](const TtqMap& map, const std::string& mapped) {
      if (s.ok()) s = PutCopy(directory, map, mapped, to + "/files");
    });
    RETURN_IF_ERROR(s);
    head.hold_before = before(process, inputs.file.blocks);
    if (segments != 0) {
      MappedFiles& mapped = files[process.v];
      if (head.fork_number != 0) mapped = files[head.parent];
      mapped.Look(inputs.file);
      const bool is_long = inputs.file.blocks.size() >= kBlocksForSegments;
      if (is_long && !mapped.may_change()) head.segments = segments;
    }
    head.log_follows = inputs.log_at != 0;
    const uint32_t finished = head.finished;
    if (head.log_follows) head.finished = 0;  // not where the second run ends
    paths[process.v] = path;
    std::ofstream out(path, std::ios::binary);
    const std::string bytes = inputs.file.Encode();
    if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush()) {
      return DiskFull(directory);
    }
    if (head.log_follows == 0) return absl::OkStatus();
    head.finished = finished;
    logs->Add(process, std::move(inputs));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEachProcess(directory, summary, write));
  return written;
}

// Runs a process and those it forked again, and stores what they did. Adds them to `seen`.
absl::Status RunAgain(const LaunchOptions& options, RecordingWriter* writer, KeptLogs* logs,
                      std::set<uint32_t>* seen,
                      const std::function<void(const IngestTotals&)>& watch) {
  std::vector<std::weak_ptr<Ring>> rings;
  const auto take = [&](absl::StatusOr<std::shared_ptr<Ring>> ring) {
    if (!ring.ok()) return writer->Fail(ring.status());
    seen->insert((*ring)->process());
    rings.push_back(*ring);
    writer->Start(*ring);
    if ((*ring)->goes_on()) logs->Follow(*std::move(ring));
  };
  // The next may begin while these are stored.
  const auto have_ended = [&] {
    if (watch) watch(writer->totals());
    return writer->running() <= kMaxRunning &&
           std::all_of(rings.begin(), rings.end(), [](const std::weak_ptr<Ring>& ring) {
             const std::shared_ptr<Ring> alive = ring.lock();
             return alive == nullptr || alive->HasEnded();
           });
  };
  ASSIGN_OR_RETURN(const LaunchResult result, Launch(options, take, have_ended));
  if (result.signal == SIGINT) return absl::CancelledError("interrupted");
  // What the engine says is why a process of it is gone, and not the other way round.
  if (!result.tool_log.empty()) {
    std::string line(*absl::StrSplit(result.tool_log, '\n').begin());
    if (line.starts_with("ttq: ")) line.erase(0, 5);
    return absl::DataLossError(
        line + "; `ttq record --index=now` stores the history while the program runs");
  }
  RETURN_IF_ERROR(writer->error());
  if (result.signal != 0) {
    return absl::UnavailableError(fmt::format("the engine ended by signal {}", result.signal));
  }
  if (result.status != 0) {
    return absl::UnavailableError(fmt::format("the engine ended with status {}", result.status));
  }
  return absl::OkStatus();
}

// Stores that there was a process of which nothing can be known.
absl::Status StoreLost(RingHead head, RecordingWriter* writer) {
  head.name = fmt::format("lost-{}", head.process);
  head.parent_ring = kLostRing;
  ASSIGN_OR_RETURN(const std::unique_ptr<RingProducer> producer, RingProducer::Make(head));
  writer->Start(producer->ring());
  producer->FinishAs(0, false);
  return absl::OkStatus();
}

struct SecondRun {
  const std::string& directory;
  const LaunchOptions& options;
  const InputsSummary& inputs;
  const std::function<void(const IngestTotals&)>& watch;
  size_t jobs;
};

// How many segments of a process are logged at a time; 0: none is.
uint32_t SegmentsAtOnce(const SecondRun& run, Time end) {
  const size_t jobs = run.jobs != 0 ? run.jobs : UsefulThreads();
  return end != kTimeMax || jobs < kJobsForSegments ? 0 : static_cast<uint32_t>(jobs / 2);
}

// Runs all processes again into a recording at `to`, which is finished and closed then; nothing
// that happens at `end` or later is in it.
absl::StatusOr<std::unique_ptr<RecordingWriter>> RunAllAgain(const SecondRun& run,
                                                             const std::string& to,
                                                             const BlocksBefore& before, Time end) {
  ASSIGN_OR_RETURN(std::unique_ptr<RecordingWriter> writer,
                   RecordingWriter::Create(to, run.inputs.info, run.jobs));
  LaunchOptions options = run.options;
  const std::string again = to + "/again";
  std::error_code ec;
  fs::create_directories(again + "/files", ec);
  options.files = again + "/files";
  writer->SetCopies(options.files);
  writer->SetUnread();
  const uint32_t segments = SegmentsAtOnce(run, end);
  if (segments != 0) writer->SetTakesSegments();
  writer->SetHistoryEnd(end);
  KeptLogs logs(run.directory, writer.get());
  ASSIGN_OR_RETURN(const ForEngine written, WriteForEngine(run.directory, run.inputs, again, before,
                                                           segments, writer.get(), &logs));
  options.block_bytes = written.block_bytes;
  absl::Status s;
  std::set<uint32_t> seen;
  for (const std::string& root : written.roots) {
    options.inputs = root;
    if (s = RunAgain(options, writer.get(), &logs, &seen, run.watch); !s.ok()) break;
  }
  if (const absl::Status put = logs.Finish(); s.ok()) s = put;
  size_t lost = 0;
  for (const RingHead& head : written.forked) {
    if (!s.ok() || seen.contains(head.process)) continue;
    ++lost;
    s = StoreLost(head, writer.get());
  }
  const absl::Status finished = writer->Finish();
  RETURN_IF_ERROR(s);
  RETURN_IF_ERROR(finished);
  // Of a process that is cut off a fork may be missing that its child is there of.
  if (lost > 0 && written.is_complete) {
    return absl::DataLossError(fmt::format("{} of its processes were not run again", lost));
  }
  return writer;
}

// The block in which a process that failed said so, on its standard error; nullopt: it did not.
std::optional<uint32_t> BlockOfLastMessage(const InputsFile& inputs) {
  std::optional<uint32_t> block;
  if (inputs.head.exit_status <= 1 && inputs.head.fatal_signal == 0) return block;
  ForEachInput(inputs.records, [&block](const TtqInput& input, std::string_view payload) {
    TtqSyscall call;
    if (input.kind != kTtqSyscallEnter || payload.size() < sizeof(call)) return;
    memcpy(&call, payload.data(), sizeof(call));
    const bool writes = call.number == SYS_write || call.number == SYS_writev;
    if (writes && call.args[0] == STDERR_FILENO) block = input.block;
  });
  return block;
}

// What must be known of the processes to choose where their histories begin.
struct Endings {
  bool any_has_log = false;
  std::map<ProcessNo, uint32_t> last_message;  // its block
  std::set<ProcessNo> crashed;
};

absl::StatusOr<Endings> FindEndings(const SecondRun& run) {
  Endings out;
  const auto look = [&out](ProcessNo process, const RecordedInputs& inputs) {
    out.any_has_log = out.any_has_log || inputs.log_at != 0 || BeginsWithLog(inputs);
    if (const auto block = BlockOfLastMessage(inputs.file)) out.last_message[process] = *block;
    if (IsCrash(static_cast<int>(inputs.file.head.fatal_signal))) out.crashed.insert(process);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ForEachProcess(run.directory, run.inputs, look));
  return out;
}

// How many of a process's blocks come before its last part.
uint32_t BeginOfLastPart(const Endings& endings, ProcessNo process, uint32_t blocks) {
  uint32_t end = blocks;
  const auto message = endings.last_message.find(process);
  if (message != endings.last_message.end() && blocks - message->second <= kMaxSinceMessage) {
    end = message->second + 1;
  }
  return end - std::min(end, kLastBlocks);
}

// Where the history that is wanted begins.
absl::StatusOr<BlocksBefore> FindBegin(const SecondRun& run, const HistoryWanted& wanted) {
  const BlocksBefore whole = [](ProcessNo, const Blocks&) { return 0u; };
  if (!wanted.last && wanted.span.begin.v == 0) return whole;
  // The memory that a history begins with is that of a process which is there.
  ASSIGN_OR_RETURN(const Endings endings, FindEndings(run));
  if (endings.any_has_log) return whole;
  if (wanted.last) {
    const uint32_t most = wanted.all_of_short ? kShortBlocks : kLastBlocks;
    const bool all_of_crashed = wanted.all_of_crashed;
    return [endings, most, all_of_crashed](ProcessNo process, const Blocks& all_blocks) {
      const auto blocks = static_cast<uint32_t>(all_blocks.size());
      const bool all = blocks <= most || (all_of_crashed && endings.crashed.contains(process));
      return all ? 0 : BeginOfLastPart(endings, process, blocks);
    };
  }
  // How many instructions a block has is not known before it has run.
  const Scratch counted(run.directory + "/.history");
  const BlocksBefore all = [](ProcessNo, const Blocks&) { return kNone; };
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordingWriter> writer,
                   RunAllAgain(run, counted.path(), all, kTimeMax));
  return [ends = writer->skimmed(), begin = wanted.span.begin](ProcessNo process, const Blocks&) {
    const auto blocks = ends.find(process);
    if (blocks == ends.end()) return 0u;
    // What happens at the very beginning of a block may be in the one before.
    const auto first = std::lower_bound(blocks->second.begin(), blocks->second.end(), begin);
    if (first == blocks->second.end()) return kNone;
    return static_cast<uint32_t>(first - blocks->second.begin());
  };
}

absl::Status Make(const std::string& directory, const HistoryWanted& wanted,
                  const std::function<void(const IngestTotals&)>& watch) {
  // Launch is for one thread of a process at a time.
  static std::mutex launching;
  std::lock_guard one_at_a_time(launching);
  ASSIGN_OR_RETURN(const InputsSummary inputs, Summary(directory));
  LaunchOptions options;
  ASSIGN_OR_RETURN(options.tool_directory, FindToolDirectory());
  const SecondRun run{directory, options, inputs, watch, wanted.jobs};
  ASSIGN_OR_RETURN(const BlocksBefore before, FindBegin(run, wanted));
  const Scratch made(directory + "/.history");
  Lacks lacks;
  if (inputs.being_recorded) lacks.so_far = inputs.bytes;
  bool any = wanted.span.begin == Time(0);
  const BlocksBefore noted = [&](ProcessNo process, const Blocks& blocks) {
    uint32_t n = before(process, blocks);
    // Where a block ends in the middle of something, memory may be ahead of the log.
    while (n > 0 && n <= blocks.size() && !blocks[n - 1].ends_between_superblocks) --n;
    lacks.parts = lacks.parts || n != 0;
    any = any || n != kNone;
    return n;
  };
  const Time end = wanted.last ? kTimeMax : wanted.span.end;
  RETURN_IF_ERROR(RunAllAgain(run, made.path(), noted, end).status());
  if (!any) {
    return absl::OutOfRangeError(
        fmt::format("no process of it reaches time {}", wanted.span.begin.v));
  }
  lacks.parts = lacks.parts || end != kTimeMax;
  return PutInPlace(made.path(), directory, lacks);
}

}  // namespace

absl::Status MakeHistory(const std::string& directory, const HistoryWanted& wanted,
                         const std::function<void(const IngestTotals&)>& watch) {
  const auto is_there = [&] {
    std::error_code ignored;
    return fs::exists(directory + "/db", ignored) && !HistoryIsBehind(directory) &&
           (wanted.last || !HistoryIsPartial(directory));
  };
  if (is_there()) return absl::OkStatus();
  RETURN_IF_ERROR(Summary(directory).status());
  const DirectoryLock lock(CopiesDirectory(directory));
  if (is_there()) return absl::OkStatus();  // made meanwhile
  absl::Status s = Make(directory, wanted, watch);
  if (s.ok() || absl::IsCancelled(s)) return s;
  return absl::Status(s.code(), fmt::format("the history of {} cannot be made: {}", directory,
                                            std::string(s.message())));
}

absl::Status DropHistory(const std::string& directory) {
  RETURN_IF_ERROR(Summary(directory).status());
  const DirectoryLock lock(CopiesDirectory(directory));
  std::error_code ec;
  for (const std::string& path :
       {directory + "/db", directory + "/seal", PartialPath(directory), SoFarPath(directory)}) {
    fs::remove_all(path, ec);
    if (ec) return absl::UnavailableError(fmt::format("{}: {}", path, ec.message()));
  }
  return absl::OkStatus();
}

}  // namespace ttq
