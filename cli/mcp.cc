// SPDX-License-Identifier: MIT
//
// `ttq mcp`: recordings for agents, on stdin and stdout.

#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/manual.h"
#include "mcp/server.h"

namespace ttq {
namespace {

// The file of this program; "" when it cannot be told.
std::string OwnProgram() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "";
}

}  // namespace

int RunMcp(int argc, char** argv) {
  CommandLine line("ttq mcp");
  mcp::Options options;
  line.AddFlag("--allow-record", &options.allow_record,
               "Agents may run programs, to record them: the tool `record`");
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  options.program = OwnProgram();
  for (const Topic& topic : Topics()) {
    options.topics.push_back({topic.name, topic.summary, topic.text});
  }
  // A client that hangs up is no reason to die in the middle of something.
  signal(SIGPIPE, SIG_IGN);
  mcp::Serve(STDIN_FILENO, STDOUT_FILENO, std::move(options));
  return kAnswered;
}

}  // namespace ttq
