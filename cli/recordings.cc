// SPDX-License-Identifier: MIT

#include "cli/recordings.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/status/statusor.h"
#include "base/natural_order.h"
#include "fmt/format.h"
#include "query/find_trace.h"
#include "store/read/reader.h"
#include "store/read/writer_lock.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

Listed Look(const std::string& home, const std::string& name) {
  Listed listed{.name = name, .path = home + "/" + name};
  struct stat st;
  if (stat(listed.path.c_str(), &st) == 0) {
    listed.start_wall_ns = st.st_mtim.tv_sec * int64_t{1000000000} + st.st_mtim.tv_nsec;
  }
  listed.running = IsBeingWritten(listed.path);
  absl::StatusOr<std::unique_ptr<Recording>> recording = Recording::Open(listed.path);
  if (!recording.ok()) {
    listed.problem = std::string(recording.status().message());
    return listed;
  }
  const RecordingInfo& info = (*recording)->info();
  for (const std::string& word : info.command) {
    listed.command += (listed.command.empty() ? "" : " ") + word;
  }
  if (info.start_wall_ns != 0) listed.start_wall_ns = info.start_wall_ns;
  listed.bytes = info.bytes_on_disk;
  listed.finished = info.finished;
  for (const ProcessInfo& p : (*recording)->processes()) {
    listed.instructions += p.end.v;
    if (p.number != (*recording)->default_process()) continue;
    if (p.fatal_signal != 0)
      listed.ending = SignalName(p.fatal_signal);
    else if (p.exit_status)
      listed.ending = fmt::format("exit {}", *p.exit_status);
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

absl::StatusOr<std::unique_ptr<RecordingWriter>> NewRecording(
    const std::string& asked, const std::vector<std::string>& command, std::string* directory) {
  if (!asked.empty()) {
    *directory = asked;
    auto made = RecordingWriter::Create(asked, command);
    if (absl::IsAlreadyExists(made.status())) {
      return absl::AlreadyExistsError(asked + " exists; choose another place with -o");
    }
    return made;
  }
  fs::path home = HomeDirectory();
  if (home.empty()) {
    return absl::FailedPreconditionError(
        "neither TTQ_HOME nor HOME is set; say with -o where the recording goes");
  }
  std::error_code ec;
  fs::create_directories(home, ec);
  if (ec) {
    return absl::UnavailableError(fmt::format("cannot make {}: {}", home.string(), ec.message()));
  }
  std::string base = fs::path(command[0]).filename();
  for (int n = 1; n < 1000000; ++n) {
    *directory = home / fmt::format("{}-{}.ttq", base, n);
    // Somebody else may be taking the same number.
    auto made = RecordingWriter::Create(*directory, command);
    if (!absl::IsAlreadyExists(made.status())) return made;
  }
  return absl::ResourceExhaustedError("too many recordings of " + base + " in " + home.string());
}

void PointLatestAt(const std::string& directory) {
  std::error_code ec;
  fs::path home = HomeDirectory();
  if (home.empty()) return;
  fs::create_directories(home, ec);
  fs::path temporary = home / fmt::format(".latest-{}", getpid());
  fs::remove(temporary, ec);
  fs::create_symlink(fs::absolute(directory, ec), temporary, ec);
  fs::rename(temporary, home / "latest", ec);
}

}  // namespace ttq
