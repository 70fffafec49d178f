// SPDX-License-Identifier: MIT
//
// `ttq ls`: the recordings under TTQ_HOME, newest first. One that cannot be opened is listed too,
// with the reason.

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "query/cli/commands.h"
#include "query/cli/common.h"
#include "query/text.h"

namespace ttq {
namespace {

using Json = nlohmann::ordered_json;

struct Listed {
  std::string name, path, command, ending, problem;
  int64_t start_wall_ns = 0;
  uint64_t instructions = 0, bytes = 0;
  bool finished = true;
};

Listed Look(const std::string& home, const std::string& name) {
  Listed listed{.name = name, .path = home + "/" + name};
  struct stat st;
  if (stat(listed.path.c_str(), &st) == 0) {
    listed.start_wall_ns = st.st_mtim.tv_sec * int64_t{1000000000} + st.st_mtim.tv_nsec;
  }
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

int RunLs(int argc, char** argv) {
  CLI::App app("Lists recordings, newest first.", "ttq ls");
  std::string format = "table";
  app.add_option("-f,--format", format, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->type_name("FORMAT");
  if (const std::optional<int> done = ParseArguments(app, Arguments(argc, argv))) return *done;
  const std::string home = HomeDirectory();
  std::vector<Listed> all;
  if (DIR* directory = opendir(home.c_str())) {
    while (const dirent* entry = readdir(directory)) {
      const std::string_view name = entry->d_name;
      struct stat st;
      if (name.ends_with(".ttq") && lstat((home + "/" + entry->d_name).c_str(), &st) == 0 &&
          S_ISDIR(st.st_mode)) {
        all.push_back(Look(home, entry->d_name));
      }
    }
    closedir(directory);
  }
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
    return std::tie(b.start_wall_ns, a.name) < std::tie(a.start_wall_ns, b.name);
  });
  if (format == "json") {
    Json list = Json::array();
    for (const Listed& l : all) {
      list.push_back({{"name", l.name},
                      {"trace", l.path},
                      {"command", l.command},
                      {"start_wall_ns", l.start_wall_ns},
                      {"instructions", l.instructions},
                      {"ended", l.ending.empty() ? Json() : Json(l.ending)},
                      {"finished", l.finished},
                      {"bytes_on_disk", l.bytes},
                      {"problem", l.problem.empty() ? Json() : Json(l.problem)}});
    }
    WriteOut(list.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    return kAnswered;
  }
  if (all.empty()) {
    WriteOut(fmt::format("no recordings in {}\n", Printable(home)));
    return kAnswered;
  }
  size_t width = 4;
  for (const Listed& l : all) width = std::max(width, l.name.size());
  std::string text = fmt::format("{:<{}}  {:<19}  {:>12}  {:>8}  {:<9}  command\n", "name", width,
                                 "recorded", "instructions", "on disk", "ended");
  for (const Listed& l : all) {
    text += fmt::format("{:<{}}  {:<19}  {:>12}  {:>8}  {:<9}  {}\n", Printable(l.name), width,
                        HumanTime(l.start_wall_ns), HumanCount(l.instructions), HumanBytes(l.bytes),
                        !l.problem.empty() ? "-"
                        : !l.finished      ? "cut off"
                                           : l.ending,
                        Printable(l.problem.empty() ? l.command : l.problem));
  }
  WriteOut(text);
  return kAnswered;
}

}  // namespace ttq
