// SPDX-License-Identifier: MIT
//
// `ttq ls`: the recordings under TTQ_HOME, newest first. One that cannot be opened is listed too,
// with the reason.

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/display_width.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"
#include "query/answers/recordings.h"
#include "query/find_trace.h"

namespace ttq {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

int RunLs(int argc, char** argv) {
  CommandLine line("ttq ls");
  std::string format = "table";
  line.Add("-f,--format", &format, "table or json").OneOf({"table", "json"}).Called("FORMAT");
  bool no_pager = false;
  AddPagerOption(line, &no_pager);
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  const std::string home = HomeDirectory();
  const std::vector<Listed> all = ListRecordings(home);
  if (format == "json") {
    Json list = Json::array();
    for (const Listed& l : all) {
      list.push_back({{"name", l.name},
                      {"trace", l.path},
                      {"command", l.command},
                      {"start_wall_ns", l.start_wall_ns},
                      {"instructions", l.instructions ? Json(*l.instructions) : Json()},
                      {"ended", l.ending.empty() ? Json() : Json(l.ending)},
                      {"finished", l.finished},
                      {"running", l.running},
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
  uint64_t bytes = 0;
  for (const Listed& l : all) width = std::max(width, l.name.size());
  std::string text = fmt::format("{:<{}}  {:<19}  {:>12}  {:>8}  {:<9}  command\n", "name", width,
                                 "recorded", "instructions", "on disk", "ended");
  const size_t room = IsTerminal(STDOUT_FILENO) ? SizeOfScreen(STDOUT_FILENO).columns : 0;
  for (const Listed& l : all) {
    bytes += l.bytes;
    const std::string line =
        fmt::format("{:<{}}  {:<19}  {:>12}  {:>8}  {:<9}  {}", Printable(l.name), width,
                    HumanTime(l.start_wall_ns), l.instructions ? HumanCount(*l.instructions) : "-",
                    HumanBytes(l.bytes),
                    !l.problem.empty() ? "-"
                    : l.running        ? "running"
                    : !l.finished      ? "cut off"
                                       : l.ending,
                    Printable(l.problem.empty() ? l.command : l.problem));
    text += (room > 0 ? CutEnd(line, room) : line) + "\n";
  }
  text += fmt::format("{} recording{}, {} in {}\n", all.size(), all.size() == 1 ? "" : "s",
                      HumanBytes(bytes), Printable(home));
  WritePaged(text, no_pager);
  return kAnswered;
}

}  // namespace ttq
