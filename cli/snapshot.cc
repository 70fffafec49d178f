// SPDX-License-Identifier: MIT
//
// `ttq snapshot`: a recording of one moment of a running process; with a question, its answer
// alone.

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/directory.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/recordings.h"
#include "fmt/core.h"
#include "import/live.h"
#include "import/write_moment.h"

namespace ttq {
namespace {

// The recording of a question that is kept no longer than its answer takes.
class Passing {
 public:
  Passing() {
    const char* named = getenv("TMPDIR");
    path_ = std::string(named != nullptr && *named != 0 ? named : "/tmp") + "/ttq-snapshot-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Passing() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Passing(const Passing&) = delete;
  std::string directory() const { return path_.empty() ? "" : path_ + "/snapshot.ttq"; }

 private:
  std::string path_;
};

// Makes the recording. Without its memory where `contents` says so and a copy of the process is
// there to be asked; with it, the process goes on when `live` does not live any more.
absl::Status Write(LiveProcess& live, MemoryContents contents, const std::string& output,
                   std::string* directory) {
  const ProcessMoment& moment = live.moment();
  std::vector<std::string> command = moment.arguments;
  command[0] = moment.program;
  auto writer = NewRecording(output, command, directory);
  if (!writer.ok()) return writer.status();
  const absl::Status written = WriteMoment(moment, live, contents, live.vdso(), writer->get());
  if (!written.ok()) return written;
  for (const std::string& remark : moment.remarks) Complain("note: " + remark, 0);
  return absl::OkStatus();
}

std::string Summary(const LiveProcess& live) {
  const ProcessMoment& moment = live.moment();
  const double still = live.stopped_for();
  return fmt::format(
      "snapshot of {} ({}) with {} thread{}{}", BaseName(moment.program), moment.pid,
      moment.threads.size(), moment.threads.size() == 1 ? "" : "s",
      still == 0 ? "" : fmt::format(", which stood still for {:.1f} ms", still * 1000));
}

}  // namespace

int RunSnapshot(int argc, char** argv) {
  CommandLine line("ttq snapshot");
  std::string output, process;
  bool stop = false, quiet = false;
  line.Add("PID", &process, "The process").Required();
  line.Add("-o,--output", &output, "Directory of the recording (must not exist)").Called("DIR");
  line.AddFlag("--stop", &stop, "Have it stand still while it is read, instead of forking it");
  line.AddFlag("-q,--quiet", &quiet, "No summary line");
  std::vector<std::string> own, question;
  bool asks = false;
  for (const std::string& word : Arguments(argc, argv)) {
    if (!asks && word == "--") {
      asks = true;
      continue;
    }
    (asks ? question : own).push_back(word);
  }
  if (const std::optional<int> done = ParseArguments(line, own)) return *done;
  char* end = nullptr;
  const long pid = strtol(process.c_str(), &end, 10);
  if (end == process.c_str() || *end != 0 || pid <= 0 || pid > 1 << 22) {
    return Complain(fmt::format("{} is no process: give its number", process), kUsage);
  }
  if (asks && question.empty()) {
    return Complain("what is the question? (see `ttq help language`)", kUsage);
  }
  std::unique_ptr<Passing> passing;
  if (asks && output.empty()) {
    passing = std::make_unique<Passing>();
    output = passing->directory();
    if (output.empty()) return Complain("cannot make a directory for the snapshot", kUnreadable);
  }
  absl::StatusOr<std::unique_ptr<LiveProcess>> live =
      LiveProcess::Take(static_cast<pid_t>(pid), stop);
  if (!live.ok()) return Complain(live.status(), kUnreadable);
  // A question reads its memory where it is; a process that stands still goes on sooner without.
  const bool left_out = passing != nullptr && (*live)->is_copy();
  const MemoryContents contents = left_out ? MemoryContents::kLeftOut : MemoryContents::kStored;
  std::string directory;
  const absl::Status made = Write(**live, contents, output, &directory);
  if (!made.ok()) return Complain(made, kUnreadable);
  const std::string summary = Summary(**live);
  if (!left_out) live->reset();
  if (asks) {
    const std::string said_as = fmt::format("ttq snapshot {} --", pid);
    return AskMoment(question, directory, said_as, live->get());
  }
  PointLatestAt(directory);
  if (!quiet) {
    Complain(fmt::format("{}, {:.1f} MB: {}", summary,
                         static_cast<double>(BytesUnder(directory)) / 1e6, directory),
             0);
  }
  return kAnswered;
}

}  // namespace ttq
