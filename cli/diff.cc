// SPDX-License-Identifier: MIT
//
// `ttq diff`: where two recordings part, and why.

#include "diff/diff.h"

#include "absl/strings/numbers.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"

namespace ttq {
namespace {

// "3" or "3,5": the process of each recording.
bool ParseProcesses(const std::string& text, std::array<std::optional<uint32_t>, 2>* out) {
  const size_t comma = text.find(',');
  uint32_t a = 0, b = 0;
  if (!absl::SimpleAtoi(text.substr(0, comma), &a)) return false;
  b = a;
  if (comma != std::string::npos && !absl::SimpleAtoi(text.substr(comma + 1), &b)) return false;
  *out = {a, b};
  return true;
}

}  // namespace

int RunDiff(int argc, char** argv) {
  CommandLine line("ttq diff");
  std::array<std::string, 2> names;
  std::string process, format = "table";
  diff::DiffOptions options;
  bool exit_code = false;
  line.Add("A", &names[0], "A recording").Required();
  line.Add("B", &names[1], "Another one, of the same program").Required();
  line.Add("--ignore", &options.ignore,
           "Functions, system calls and output that this regular expression finds do not count")
      .Called("REGEX");
  line.Add("-p,--process", &process,
           "The process, by its number in `ttq info` or its pid; N,M: of each")
      .Called("N");
  line.Add("-f,--format", &format, "table or json").OneOf({"table", "json"}).Called("FORMAT");
  line.AddFlag("--exit-code", &exit_code, "Exit with 1 when they differ");
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  std::array<std::optional<uint32_t>, 2> named;
  if (!process.empty() && !ParseProcesses(process, &named)) {
    return Complain("diff: -p takes a number, or two with a comma between", kUsage);
  }
  std::array<std::unique_ptr<Recording>, 2> recordings;
  std::array<std::unique_ptr<diff::Side>, 2> sides;
  for (int i : {0, 1}) {
    absl::StatusOr<std::unique_ptr<Recording>> recording =
        OpenRecording(names[i], FileAccess::kMap);
    if (!recording.ok()) return Complain(recording.status(), kUnreadable);
    recordings[i] = *std::move(recording);
    std::optional<ProcessNo> number;
    if (named[i]) {
      absl::StatusOr<ProcessNo> found = ProcessNumbered(*recordings[i], *named[i]);
      if (!found.ok()) return ComplainOfProcess(found.status(), true);
      number = *found;
    }
    absl::StatusOr<std::unique_ptr<diff::Side>> side =
        diff::Side::Open(recordings[i].get(), number);
    if (!side.ok()) return ComplainOfProcess(side.status(), named[i].has_value());
    sides[i] = *std::move(side);
  }
  ScanControl control;
  options.control = &control;
  absl::StatusOr<diff::DiffResult> result;
  {
    InterruptGuard guard(&control);
    result = diff::Compare(sides[0].get(), sides[1].get(), options);
  }
  if (absl::IsCancelled(result.status())) return Complain("interrupted", kInterrupted);
  if (absl::IsInvalidArgument(result.status())) return Complain(result.status(), kUsage);
  if (!result.ok()) return Complain(result.status(), kUnreadable);
  WriteOut(format == "json" ? diff::ToJson(*result, *sides[0], *sides[1])
                            : diff::ToText(*result, *sides[0], *sides[1]));
  return exit_code && !result->same() ? kNoRows : kAnswered;
}

}  // namespace ttq
