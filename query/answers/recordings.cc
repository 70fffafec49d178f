// SPDX-License-Identifier: MIT

#include "query/answers/recordings.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "base/natural_order.h"
#include "fmt/core.h"
#include "store/format/inputs_log.h"
#include "store/read/moment_info.h"
#include "store/read/reader.h"
#include "store/read/writer_lock.h"

namespace ttq {
namespace {

// Empty: it has not ended, or nobody knows how.
std::string EndingOf(const ProcessInfo& process) {
  if (process.fatal_signal != 0) return SignalName(process.fatal_signal);
  return process.exit_status ? fmt::format("exit {}", *process.exit_status) : "";
}

// A recording whose history is not made.
Listed LookAtInputs(Listed listed) {
  listed.instructions.reset();
  const absl::StatusOr<InputsSummary> inputs = SummariseInputs(listed.path);
  if (!inputs.ok()) {
    listed.problem = std::string(inputs.status().message());
    return listed;
  }
  listed.command = absl::StrJoin(inputs->info.command, " ");
  listed.start_wall_ns = inputs->info.start_wall_ns;
  listed.bytes = inputs->bytes;
  listed.running = inputs->being_recorded;
  listed.finished = inputs->info.finished;
  const absl::StatusOr<std::vector<ProcessInfo>> processes = DescribeInputs(listed.path, *inputs);
  if (!processes.ok()) {
    listed.problem = std::string(processes.status().message());
    return listed;
  }
  const ProcessNo about = DefaultProcess(*processes);
  for (const ProcessInfo& p : *processes) {
    if (!p.complete) listed.complete = false;
    if (p.number == about) listed.ending = EndingOf(p);
  }
  return listed;
}

Listed Look(const std::string& home, const std::string& name) {
  Listed listed{.name = name, .path = home + "/" + name};
  struct stat st;
  if (stat(listed.path.c_str(), &st) == 0) {
    listed.start_wall_ns = st.st_mtim.tv_sec * int64_t{1000000000} + st.st_mtim.tv_nsec;
  }
  listed.running = IsBeingWritten(listed.path);
  if (HoldsInputsOnly(listed.path)) return LookAtInputs(std::move(listed));
  absl::StatusOr<std::unique_ptr<Recording>> recording = Recording::Open(listed.path);
  if (!recording.ok()) {
    listed.problem = std::string(recording.status().message());
    return listed;
  }
  const RecordingInfo& info = (*recording)->info();
  listed.command = absl::StrJoin(info.command, " ");
  if (info.start_wall_ns != 0) listed.start_wall_ns = info.start_wall_ns;
  listed.bytes = info.bytes_on_disk;
  listed.finished = info.finished;
  for (const ProcessInfo& p : (*recording)->processes()) {
    if (p.end == Time(0)) {
      const absl::StatusOr<const Process*> process = (*recording)->Open(p.number);
      if (process.ok() && HistoryUnknown(**process)) listed.instructions.reset();
    }
    if (listed.instructions) *listed.instructions += p.end.v;
    if (!p.complete) listed.complete = false;
    if (p.number == (*recording)->default_process()) listed.ending = EndingOf(p);
  }
  return listed;
}

}  // namespace

std::vector<Listed> ListRecordings(const std::string& directory) {
  std::vector<Listed> all;
  if (DIR* opened = opendir(directory.c_str())) {
    while (const dirent* entry = readdir(opened)) {
      const std::string_view name = entry->d_name;
      struct stat st;
      if (name.ends_with(".ttq") && lstat((directory + "/" + entry->d_name).c_str(), &st) == 0 &&
          S_ISDIR(st.st_mode)) {
        all.push_back(Look(directory, entry->d_name));
      }
    }
    closedir(opened);
  }
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
    if (a.start_wall_ns != b.start_wall_ns) return a.start_wall_ns > b.start_wall_ns;
    return NaturalLess(a.name, b.name);
  });
  return all;
}

}  // namespace ttq
