// SPDX-License-Identifier: MIT
//
// What the command line says and how it exits, as far as no recording is needed.

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <set>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

struct Output {
  int exit_status;
  std::string text;  // stdout and stderr
};

// `arguments` as a shell reads them; TTQ_HOME is an empty directory.
Output RunTtq(const std::string& arguments) {
  std::string home = ::testing::TempDir() + "ttq-cli-XXXXXX";
  EXPECT_NE(mkdtemp(home.data()), nullptr);
  const std::string command =
      "unset TTQ_TRACE; TTQ_HOME=" + home + " " TTQ_BINARY " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Output output;
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.text.append(buffer, n);
  output.exit_status = WEXITSTATUS(pclose(pipe));
  // The directory's name is no part of what is tested.
  for (size_t at; (at = output.text.find(home)) != std::string::npos;) {
    output.text.replace(at, home.size(), "HOME");
  }
  EXPECT_EQ(remove(home.c_str()), 0);
  return output;
}

void Expect(const std::string& arguments, int exit_status, const std::string& text) {
  const Output output = RunTtq(arguments);
  EXPECT_EQ(output.exit_status, exit_status) << arguments;
  EXPECT_EQ(output.text, text) << arguments;
}

TEST(Cli, WithoutARecording) {
  Expect("last write to 0x10", 3,
         "ttq: there is no recording in HOME; make one with `ttq record PROGRAM`\n");
  Expect("-t nope last write to 0x10", 3,
         "ttq: there is no recording nope here or in HOME; see `ttq ls`\n");
  Expect("info /no/such", 3, "ttq: there is no recording /no/such\n");
  Expect("check -t /dev/null", 3, "ttq: /dev/null is not a recording: it is not a directory\n");
  Expect("ls", 0, "no recordings in HOME\n");
  Expect("ls -f json", 0, "[]\n");
}

TEST(Cli, ABadQueryIsFoundBeforeTheRecordingIs) {
  Expect("writes to 0x1000 wher size", 2,
         "ttq: unexpected 'wher' after '0x1000'\n"
         "  writes to 0x1000 wher size\n"
         "                   ^~~~\n"
         "did you mean 'where'?\n");
  Expect("query", 2, "ttq: what is the question? (see `ttq help language`)\n");
}

TEST(Cli, DashesInAQueryAreNoOptions) {
  for (const char* query : {"memory 0x10 at end - 5", "'memory 0x10 at end - 5'",
                            "memory 0x10 at end -5", "-- memory 0x10 at end - 5"}) {
    EXPECT_THAT(RunTtq(query).text, StartsWith("ttq: there is no recording")) << query;
  }
}

TEST(Cli, OptionsStandAnywhere) {
  EXPECT_THAT(RunTtq("-f json events").text, StartsWith("ttq: there is no recording in"));
  EXPECT_THAT(RunTtq("events -f json --limit=3").text, StartsWith("ttq: there is no recording in"));
  EXPECT_THAT(RunTtq("-t nope query events").text, StartsWith("ttq: there is no recording nope"));
  EXPECT_EQ(RunTtq("events -f xml").exit_status, 2);
  EXPECT_EQ(RunTtq("events --limit many").exit_status, 2);
  EXPECT_EQ(RunTtq("events --limti 5").exit_status, 2);
  EXPECT_THAT(RunTtq("events --limti 5").text, HasSubstr("--limti"));
}

TEST(Cli, QueriesFromAFile) {
  Expect("-F /no/such/file", 2, "ttq: cannot open /no/such/file: No such file or directory\n");
  Expect("-F /dev/null events", 2, "ttq: give either a query or -F FILE, not both\n");
  EXPECT_EQ(RunTtq("- < /dev/null").exit_status, 2);
}

TEST(Cli, Help) {
  EXPECT_EQ(RunTtq("").exit_status, 2);
  EXPECT_THAT(RunTtq("--version").text, StartsWith("ttq "));
  EXPECT_EQ(RunTtq("--help").exit_status, 0);
  EXPECT_EQ(RunTtq("help").text, RunTtq("--help").text);
  Expect("help tims", 2, "ttq: there is no help on tims; did you mean times?\n");
}

// The commands and topics that the overview names.
TEST(Cli, EverythingInTheOverviewHasHelp) {
  const std::string overview = RunTtq("--help").text;
  std::set<std::string> names;
  std::istringstream lines(overview);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string ttq, name;
    words >> ttq >> name;
    if (ttq == "ttq" && islower(name[0])) names.insert(name);
  }
  EXPECT_THAT(names, IsSupersetOf({"record", "query", "batch", "crash", "diff", "export", "help"}));
  for (const std::string& command : names) {
    EXPECT_THAT(RunTtq("help " + command).text, StartsWith("ttq " + command)) << command;
    EXPECT_EQ(RunTtq(command + " --help").exit_status, 0) << command;
  }
  std::string topics = overview.substr(overview.find("topics: ") + strlen("topics: "));
  topics.resize(topics.find("\n\n"));
  std::replace(topics.begin(), topics.end(), ',', ' ');
  std::istringstream words(topics);
  size_t known = 0;
  for (std::string topic; words >> topic; ++known) {
    EXPECT_EQ(RunTtq("help " + topic).exit_status, 0) << topic;
  }
  EXPECT_GE(known, 8);
}

}  // namespace
