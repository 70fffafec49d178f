// SPDX-License-Identifier: MIT
//
// `ttq rm`: removes recordings, by name or by age. It touches nothing that is no recording, and
// none that is being made.

#include <time.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/directory.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/recordings.h"
#include "cli/units.h"
#include "fmt/core.h"
#include "query/answers/recordings.h"
#include "query/find_trace.h"
#include "store/format/inputs_log.h"
#include "store/read/writer_lock.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

// Its directory, without links; "" and a complaint when it is no recording.
std::string Resolve(const std::string& name) {
  absl::StatusOr<std::string> found = FindTrace(name);
  if (!found.ok()) {
    Complain(found.status(), 0);
    return "";
  }
  std::error_code error;
  const fs::path path = fs::canonical(*found, error);
  const bool has_store = fs::is_directory(fs::symlink_status(path / "db", error));
  if (!has_store && !HasInputs(path)) {
    Complain(fmt::format("{}: not a recording (it holds no store)", Printable(*found)), 0);
    return "";
  }
  return path.string();
}

// `latest` names the newest recording that is left.
void MendLatest(const std::string& home) {
  const fs::path link = fs::path(home) / "latest";
  std::error_code ignored;
  if (!fs::is_symlink(link, ignored) || fs::exists(link, ignored)) return;
  const std::vector<Listed> left = ListRecordings(home);
  if (left.empty()) {
    fs::remove(link, ignored);
  } else {
    PointLatestAt(left.front().path);
  }
}

}  // namespace

int RunRm(int argc, char** argv) {
  CommandLine line("ttq rm");
  std::vector<std::string> names;
  std::optional<uint64_t> keep;
  std::string age;
  bool dry_run = false;
  line.Add("RECORDING", &names, "Paths, or names of `ttq ls`");
  line.Add("--keep", &keep, "Removes all but the N newest");
  line.Add("--older-than", &age, "Removes those recorded longer ago: 7d, 12h, 30m").Called("AGE");
  line.AddFlag("-n,--dry-run", &dry_run, "Only says which");
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  const bool by_rule = keep || !age.empty();
  if (names.empty() == !by_rule) {
    return Complain(by_rule ? "name recordings or give --keep or --older-than, not both"
                            : "name recordings, or say --keep N or --older-than 7d",
                    kUsage);
  }
  const std::optional<double> seconds = ParseSeconds(age.empty() ? "0" : age);
  if (!seconds) {
    return Complain(
        fmt::format("--older-than {}: an age is a number and s, m, h, d or w: 7d", Printable(age)),
        kUsage);
  }
  const std::string home = HomeDirectory();
  std::vector<std::string> doomed;
  int status = kAnswered;
  if (by_rule) {
    const std::vector<Listed> all = ListRecordings(home);
    const double now = static_cast<double>(time(nullptr));
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].running || (keep && i < *keep)) continue;
      if (!age.empty() && now - static_cast<double>(all[i].start_wall_ns) / 1e9 < *seconds)
        continue;
      doomed.push_back(all[i].path);
    }
  }
  for (const std::string& name : names) {
    const std::string path = Resolve(name);
    if (path.empty()) {
      status = kUnreadable;
    } else if (IsBeingWritten(path)) {
      status = Complain(fmt::format("{} is being recorded; end the program first", Printable(path)),
                        kUnreadable);
    } else if (std::find(doomed.begin(), doomed.end(), path) == doomed.end()) {
      doomed.push_back(path);
    }
  }
  uint64_t bytes = 0;
  size_t removed = 0;
  for (const std::string& path : doomed) {
    const uint64_t size = BytesUnder(path);
    std::error_code error;
    if (dry_run) {
      WriteOut(fmt::format("{}  {}\n", HumanBytes(size), Printable(path)));
    } else if (fs::remove_all(path, error); error) {
      status = Complain(fmt::format("{}: {}", Printable(path), error.message()), kUnreadable);
      continue;
    }
    bytes += size;
    ++removed;
  }
  if (!dry_run) MendLatest(home);
  WriteOut(fmt::format("{} {} recording{}, {}\n", dry_run ? "would remove" : "removed", removed,
                       removed == 1 ? "" : "s", HumanBytes(bytes)));
  return status;
}

}  // namespace ttq
