// SPDX-License-Identifier: MIT
//
// `ttq arm`: runs a program that takes snapshots of itself (import/arm/arm.h).

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "query/find_trace.h"
#include "recorder/launcher.h"

namespace ttq {

int RunArm(int argc, char** argv) {
  CommandLine line("ttq arm");
  // Everything from the program's name on is the program's.
  std::vector<std::string> words = Arguments(argc, argv), own_options;
  while (!words.empty() && words[0].starts_with('-')) {
    const std::string word = words[0];
    words.erase(words.begin());
    if (word == "--") break;
    own_options.push_back(word);
  }
  if (const std::optional<int> done = ParseArguments(line, own_options)) return *done;
  if (words.empty()) return Complain("which program? (see `ttq help arm`)", kUsage);
  const absl::StatusOr<std::string> tools = FindToolDirectory();
  if (!tools.ok()) return Complain(tools.status(), kOwnFailure);
  std::string library = *tools + "/libttq_arm.so";
  if (access(library.c_str(), R_OK) != 0) {
    return Complain(fmt::format("{} is missing", library), kOwnFailure);
  }
  if (const char* others = getenv("LD_PRELOAD"); others != nullptr && *others != 0) {
    library += std::string(":") + others;
  }
  std::error_code ec;
  const std::string own = std::filesystem::read_symlink("/proc/self/exe", ec).string();
  setenv("LD_PRELOAD", library.c_str(), 1);
  setenv("TTQ_ARM", own.c_str(), 1);
  // The program may go to another directory before it is needed.
  if (const std::string home = HomeDirectory(); !home.empty()) {
    setenv("TTQ_HOME", std::filesystem::absolute(home, ec).c_str(), 1);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  return Complain(fmt::format("cannot run {}: {}", words[0], strerror(errno)),
                  errno == ENOENT ? kNotFound : kCannotRun);
}

}  // namespace ttq
