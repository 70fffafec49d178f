// SPDX-License-Identifier: MIT

#include "cli/record_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/directory.h"
#include "base/memory_reserve.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/record_watch.h"
#include "cli/recordings.h"
#include "cli/shim.h"
#include "cli/units.h"
#include "fmt/core.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/runtime.h"
#include "recorder/launcher.h"
#include "recorder/refusal.h"
#include "store/format/inputs_log.h"
#include "store/read/reader.h"
#include "store/write/ingest.h"
#include "store/write/inputs_writer.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

std::string Amount(uint64_t n) {
  if (n >= 10'000'000'000) return fmt::format("{:.1f} G", static_cast<double>(n) / 1e9);
  if (n >= 10'000'000) return fmt::format("{:.1f} M", static_cast<double>(n) / 1e6);
  return fmt::format("{}", n);
}

std::string Processes(const IngestTotals& totals) {
  return fmt::format("{} {}", totals.processes.load(),
                     totals.processes == 1 ? "process" : "processes");
}

// What the tool had to say, on one line.
std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (size_t at; (at = text.find('\n')) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

// Finds the frames of what Python there is, as far as that takes no more than a tenth of what
// recording took, opening included: the first question finds the rest, and says what is wrong.
absl::Status FindPythonFrames(const std::string& directory,
                              std::chrono::steady_clock::duration recording) {
  constexpr int kPart = 12;
  constexpr auto kWorthwhile = std::chrono::milliseconds(50);
  const auto deadline = std::chrono::steady_clock::now() + recording / kPart;
  ASSIGN_OR_RETURN(std::unique_ptr<Recording> made, Recording::Open(directory, FileAccess::kMap));
  std::map<uint64_t, bool> files;  // that may be CPython's, of those looked at
  const auto may_be_python = [&](const LoadedModule& module) {
    const auto [file, is_new] = files.try_emplace(module.file_id);
    if (is_new) {
      const auto bytes = made->FileContents(module.file_id);
      file->second = bytes.ok() && python::MayHoldRuntime(bytes->bytes());
    }
    return file->second;
  };
  for (const ProcessInfo& info : made->processes()) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left < kWorthwhile) break;
    ASSIGN_OR_RETURN(const Process* process, made->Open(info.number));
    ASSIGN_OR_RETURN(const std::vector<LoadedModule> modules, process->Modules());
    if (std::none_of(modules.begin(), modules.end(), may_be_python)) continue;
    RETURN_IF_ERROR(python::FrameHistory::MakeFor(*made, *process, left));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ProcessInfo>> ProcessesOf(const RecordingWriter&,
                                                     const std::string& directory) {
  ASSIGN_OR_RETURN(const auto made, Recording::Open(directory, FileAccess::kMap));
  return made->processes();
}

absl::StatusOr<std::vector<ProcessInfo>> ProcessesOf(const InputsWriter&,
                                                     const std::string& directory) {
  ASSIGN_OR_RETURN(const InputsSummary inputs, SummariseInputs(directory));
  return DescribeInputs(directory, inputs);
}

// A word where most of what was recorded is not the program that was meant.
void WarnOfShim(const std::vector<ProcessInfo>& processes, const std::string& program) {
  const std::optional<ShimCost> shim = CostlyShim(processes);
  if (!shim) return;
  fmt::print(
      stderr,
      "ttq: {} took {} {} and {:.0f} % of what was recorded to find the program; this "
      "records the program alone: ttq record {}\n",
      Printable(program), shim->processes, shim->processes == 1 ? "process" : "processes",
      100 * static_cast<double>(shim->bytes) / static_cast<double>(shim->bytes + shim->program),
      Printable(shim->command));
}

// Where the native engine took the program up to some point and nothing that happened until then is
// seen outside: why. The program can be run from its beginning once more, and nobody can tell.
std::optional<std::string> NeedsValgrind(const RecordOptions& options, const LaunchResult& result) {
  if (!options.may_change_recorder || options.launch.recorder != RecorderKind::kNative) return {};
  const size_t end = result.tool_log.find(kRefusedUnseen);
  if (end == std::string::npos) return {};
  // ttq: process 4711 is not recorded any further: why
  const size_t line = result.tool_log.rfind('\n', end) + 1;
  const size_t why = result.tool_log.find(": ", result.tool_log.find("is not recorded", line));
  return why < end ? result.tool_log.substr(why + 2, end - why - 2) : "";
}

// What became of a program whose recording failed, and what the recording holds. `stopped`: it was
// ended for that; `closing`: all of it was stored, but the recording could not be finished.
std::string WhatStays(const IngestTotals& totals, const std::string& amount, bool stopped,
                      bool closing) {
  if (closing) {
    return fmt::format(
        "the program had ended, the recording holds {}, which are all, but could not be finished",
        amount);
  }
  return fmt::format("the program {}; the recording holds {}",
                     stopped         ? "was ended"
                     : totals.ran_on ? "went on unrecorded"
                                     : "had ended by then",
                     amount);
}

// What a recording ends with when memory runs out: what is under way is stored from it.
constexpr size_t kReserve = 16 << 20;

// For want of memory nothing can be done any more. Nothing here allocates.
void GiveUp() {
  static std::atomic<bool> given_up{false};
  while (given_up.exchange(true)) pause();
  constexpr std::string_view kLine =
      "ttq: out of memory: the program is not recorded any further, what was stored stays\n";
  if (write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) {
    // Nobody is there to read it.
  }
  LetProgramsGo();
  _exit(kOwnFailure);
}

std::string AmountOf(const RecordingWriter& writer) {
  const IngestTotals& totals = writer.totals();
  return totals.processes == 1
             ? fmt::format("its first {} instructions", Amount(totals.instructions))
             : fmt::format("{} instructions of {} processes", Amount(totals.instructions),
                           totals.processes.load());
}

std::string AmountOf(const InputsWriter& writer) {
  return fmt::format("the inputs of {}", Processes(writer.totals()));
}

// What came of that beside the inputs, or did not come.
std::string LogOf(const InputsWriter& writer) {
  std::string out;
  if (const std::string why = writer.incomplete_because(); !why.empty()) {
    out = fmt::format(", not all of them, since {},", why);
  }
  if (const std::string why = writer.log_because(); !why.empty()) {
    out += fmt::format("{} and from some point on the log, since {},", out.empty() ? "," : "", why);
  }
  return out;
}

// What was recorded, in a line.
std::string Summary(const RecordingWriter& writer, const std::string& directory, double seconds) {
  const IngestTotals& totals = writer.totals();
  return fmt::format("recorded {} instructions, {} writes, {} in {:.1f} s, {:.1f} MB: {}",
                     Amount(totals.instructions), Amount(totals.writes), Processes(totals), seconds,
                     static_cast<double>(BytesUnder(directory)) / 1e6, Printable(directory));
}

std::string Summary(const InputsWriter& writer, const std::string& directory, double seconds) {
  return fmt::format(
      "recorded {}{} in {:.1f} s, {:.1f} MB; "
      "the first question, or `ttq index`, makes the history: {}",
      AmountOf(writer), LogOf(writer), seconds, static_cast<double>(BytesUnder(directory)) / 1e6,
      Printable(directory));
}

// When all is stored.
void Complete(const RecordingWriter&, const std::string& directory,
              std::chrono::steady_clock::duration took) {
  WithinMemory([&] { return FindPythonFrames(directory, took); }).IgnoreError();
}

void Complete(const InputsWriter&, const std::string&, std::chrono::steady_clock::duration) {}

template <class Writer>
RecordedRun RecordWith(const RecordOptions& options, const std::string& output) {
  RecordedRun run;
  const auto fail = [&run](int status, std::string_view message) {
    run.own_failure = true;
    run.status = Complain(message, status);
    return run;
  };
  std::optional<MemoryReserve> reserve(std::in_place, kReserve, GiveUp);
  auto writer = NewRecording<Writer>(output, options.launch.command, &run.directory);
  if (!writer.ok()) return fail(kOwnFailure, std::string(writer.status().message()));

  auto started = std::chrono::steady_clock::now();
  bool stopped = false;
  std::optional<RecordWatch> watch(std::in_place, run.directory, options.limits,
                                   !options.quiet && IsTerminal(STDERR_FILENO));
  std::vector<std::weak_ptr<Ring>> rings;  // a ring that has come to its end should go
  auto result = Launch(
      options.launch,
      [&](absl::StatusOr<std::shared_ptr<Ring>> ring) {
        if (!ring.ok()) return (*writer)->Fail(ring.status());
        if (rings.empty()) PointLatestAt(run.directory);
        rings.push_back(*ring);
        (*writer)->Start(*std::move(ring));
      },
      [&] {
        if (const std::optional<std::string> reached = watch->Look((*writer)->totals())) {
          (*writer)->ReachLimit(*reached);
        }
        if (MemoryReserve::Spent()) (*writer)->Fail(absl::UnavailableError("out of memory"));
        const bool is_full =
            options.stop_when_full && absl::IsResourceExhausted((*writer)->error());
        stopped = stopped || is_full;
        // More than once: a process may just be starting another.
        if (is_full || InterruptedTwice()) {
          for (const auto& ring : rings) {
            if (auto alive = ring.lock()) alive->Kill();
          }
        }
        return (*writer)->Idle();
      });
  absl::Status finished = (*writer)->Finish();
  reserve.reset();
  watch.reset();
  if (const auto why = result.ok() ? NeedsValgrind(options, *result) : std::nullopt) {
    writer->reset();
    std::error_code ec;
    fs::remove_all(run.directory, ec);
    fmt::print(
        stderr,
        "ttq: the native engine cannot record this program: {}; recording it with Valgrind\n",
        Printable(*why));
    RecordOptions others = options;
    others.launch.recorder = RecorderKind::kValgrind;
    others.launch.records_inputs = false;
    return RecordOnce(others, output);
  }
  if (!result.ok() || rings.empty()) {
    writer->reset();
    std::error_code ec;
    fs::remove_all(run.directory, ec);
    if (!result.ok()) return fail(kOwnFailure, std::string(result.status().message()));
    std::string why = OneLine(result->tool_log);
    if (why.starts_with("ttq: ")) why.erase(0, 5);
    // Either Valgrind would not start the program, or the tool could not record it.
    const bool unrecorded = why.find("is not recorded") != std::string::npos;
    if (!finished.ok() && !unrecorded) {
      return fail(kOwnFailure, fmt::format("{}; the program went on unrecorded",
                                           std::string(finished.message())));
    }
    if (result->signal != 0) {
      return fail(result->status,
                  fmt::format("{}: killed by {} before anything was recorded",
                              options.launch.command[0], SignalName(result->signal)));
    }
    return fail(unrecorded ? kOwnFailure : kCannotRun,
                fmt::format("{}: {}", options.launch.command[0],
                            why.empty() ? "it could not be started" : why));
  }
  if (finished.ok()) {
    const auto took = std::chrono::steady_clock::now() - started;
    Complete(**writer, run.directory, took);
  }
  const IngestTotals& totals = (*writer)->totals();
  if (!options.quiet) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    fmt::print(stderr, "ttq: {}\n", Summary(**writer, run.directory, took.count()));
    if (totals.processes > 1) {
      const auto processes = ProcessesOf(**writer, run.directory);
      if (processes.ok()) WarnOfShim(*processes, options.launch.command[0]);
    }
  }
  if (!finished.ok()) {
    fmt::print(stderr, "ttq: {}; {}\n", Printable(std::string(finished.message())),
               WhatStays(totals, AmountOf(**writer), stopped, (*writer)->error().ok()));
    // To run on was what the user wanted.
    if (!absl::IsResourceExhausted(finished) || options.stop_when_full) run.own_failure = true;
    run.status = run.own_failure ? int{kOwnFailure} : result->status;
    return run;
  }
  // The tool says goodbye when a program ends. Where it did not, it may have said why.
  if (totals.lost || result->tool_log.find("is not recorded") != std::string::npos) {
    std::istringstream lines(result->tool_log);
    for (std::string line; std::getline(lines, line);) {
      fmt::print(stderr, "{}\n", Printable(line));
    }
  }
  run.status = result->status;
  run.crashed = result->signal != 0;
  return run;
}

}  // namespace

RecordedRun RecordOnce(const RecordOptions& options, const std::string& output) {
  return options.launch.records_inputs ? RecordWith<InputsWriter>(options, output)
                                       : RecordWith<RecordingWriter>(options, output);
}

}  // namespace ttq
