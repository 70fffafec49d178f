// SPDX-License-Identifier: MIT
//
// `ttq check`: reads everything in a recording and compares it with itself.

#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "store/format/inputs_log.h"

namespace ttq {

int RunCheck(int argc, char** argv) {
  CommandLine line("ttq check");
  TraceOption trace;
  AddTraceOption(line, &trace);
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  absl::StatusOr<std::unique_ptr<Recording>> recording =
      OpenRecording(trace.name(), FileAccess::kRead, HistoryNeed::kSome);
  if (!recording.ok()) return Complain(recording.status(), kUnreadable);

  ScanControl control;
  InterruptGuard guard(&control);
  Progress progress(&control);
  uint64_t problems = 0;
  const absl::Status status = (*recording)
                                  ->Check(
                                      [&](const std::string& problem) {
                                        ++problems;
                                        progress.Without([&] { Complain(problem, 0); });
                                      },
                                      &control);
  // What the history was made from, where that is there.
  const std::string& directory = (*recording)->info().path;
  if (const auto inputs = ListInputs(directory); inputs.ok()) {
    for (const ProcessNo process : *inputs) {
      const std::string path = InputsPath(directory, process);
      const auto read = ReadInputs(path);
      // A process that had just begun when the recorder was killed.
      if (absl::IsOutOfRange(read.status()) && !(*recording)->info().finished) continue;
      const absl::Status all =
          read.ok()
              ? ForEachLogBlock(path, *read, [](const BlockView&) { return absl::OkStatus(); })
              : read.status();
      if (all.ok()) continue;
      ++problems;
      progress.Without([&] { Complain(all, 0); });
    }
  }
  progress.Stop();
  if (absl::IsCancelled(status)) return Complain("interrupted", kInterrupted);
  if (!status.ok()) return Complain(status, kUnreadable);
  if (problems > 0) {
    return Complain(fmt::format("{} is damaged: {} problem{}", (*recording)->info().path, problems,
                                problems == 1 ? "" : "s"),
                    kUnreadable);
  }
  uint64_t blocks = 0;
  for (const ProcessInfo& p : (*recording)->processes()) {
    blocks += p.blocks;
    if (!p.complete) {
      WriteOut(fmt::format("process {} is incomplete: {}\n", p.number.v,
                           Printable(p.incomplete_reason)));
    }
  }
  WriteOut(fmt::format("ok: {} process{}, {} blocks\n", (*recording)->processes().size(),
                       (*recording)->processes().size() == 1 ? "" : "es", blocks));
  return kAnswered;
}

}  // namespace ttq
