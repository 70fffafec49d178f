// SPDX-License-Identifier: MIT
//
// ttq record: runs a program under the recorder and stores its history.

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
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

#include "base/memory_reserve.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/help.h"
#include "cli/page.h"
#include "cli/record_watch.h"
#include "cli/recordings.h"
#include "cli/shim.h"
#include "cli/units.h"
#include "fmt/format.h"
#include "query/cpython/frame_history.h"
#include "query/cpython/runtime.h"
#include "recorder/launcher.h"
#include "recorder/refusal.h"
#include "store/read/reader.h"
#include "store/write/ingest.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

int Fail(int status, std::string_view message) {
  fmt::print(stderr, "ttq: {}\n", Printable(message));
  return status;
}

std::string Amount(uint64_t n) {
  if (n >= 10'000'000'000) return fmt::format("{:.1f} G", static_cast<double>(n) / 1e9);
  if (n >= 10'000'000) return fmt::format("{:.1f} M", static_cast<double>(n) / 1e6);
  return fmt::format("{}", n);
}

// What the tool had to say, on one line.
std::string OneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (size_t at; (at = text.find('\n')) != std::string::npos;) text.replace(at, 1, "; ");
  return text;
}

// One thread allocates what another frees, a megabyte at a time and for each block. Memory that
// goes back to the system in between, and from there zeroed to another thread's heap, costs a tenth
// of the time that recording takes.
void KeepMemory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
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

// A word where most of what was recorded is not the program that was meant.
void WarnOfShim(const std::string& directory, const std::string& program) {
  const auto made = Recording::Open(directory, FileAccess::kMap);
  if (!made.ok()) return;
  const std::optional<ShimCost> shim = CostlyShim((*made)->processes());
  if (!shim) return;
  fmt::print(
      stderr,
      "ttq: {} took {} instructions in {} {} to find the program, which took {}; this records "
      "the program alone: ttq record {}\n",
      Printable(program), Amount(shim->instructions), shim->processes,
      shim->processes == 1 ? "process" : "processes", Amount(shim->program),
      Printable(shim->command));
}

struct RecordOptions {
  LaunchOptions launch;
  RecordLimits limits;
  bool stop_when_full = true, quiet = false;
  bool may_change_recorder = false;  // to Valgrind, see NeedsValgrind
};

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
std::string WhatStays(const IngestTotals& totals, bool stopped, bool closing) {
  const std::string amount =
      totals.processes == 1 ? fmt::format("its first {} instructions", Amount(totals.instructions))
                            : fmt::format("{} instructions of {} processes",
                                          Amount(totals.instructions), totals.processes.load());
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

struct RecordedRun {
  int status = 0;            // to exit with
  bool crashed = false;      // the program died by a signal
  bool own_failure = false;  // ttq's, not the program's: another try would end the same way
  std::string directory;
};

// Records one run, in `output` or in a place of its own.
RecordedRun RecordOnce(const RecordOptions& options, const std::string& output) {
  RecordedRun run;
  const auto fail = [&run](int status, std::string_view message) {
    run.own_failure = true;
    run.status = Fail(status, message);
    return run;
  };
  std::optional<MemoryReserve> reserve(std::in_place, kReserve, GiveUp);
  auto writer = NewRecording(output, options.launch.command, &run.directory);
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
    WithinMemory([&] { return FindPythonFrames(run.directory, took); }).IgnoreError();
  }
  const IngestTotals& totals = (*writer)->totals();
  if (!options.quiet) {
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    fmt::print(stderr,
               "ttq: recorded {} instructions, {} writes, {} {} in {:.1f} s, {:.1f} MB: {}\n",
               Amount(totals.instructions), Amount(totals.writes), totals.processes.load(),
               totals.processes == 1 ? "process" : "processes", seconds,
               static_cast<double>(BytesUnder(run.directory)) / 1e6, Printable(run.directory));
    if (totals.processes > 1) WarnOfShim(run.directory, options.launch.command[0]);
  }
  if (!finished.ok()) {
    fmt::print(stderr, "ttq: {}; {}\n", Printable(std::string(finished.message())),
               WhatStays(totals, stopped, (*writer)->error().ok()));
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

// Which runs of several end the repetition, or are kept.
enum class Wanted { kAny, kCrash, kFailing };

// The page of a run that failed, beside its recording.
void ReportOn(const RecordedRun& run) {
  if (run.own_failure || run.status == 0 || run.directory.empty()) return;
  std::string path = run.directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.ends_with(".ttq")) path.resize(path.size() - 4);
  WritePage(run.directory, path + ".html");
}

bool Is(Wanted outcome, const RecordedRun& run) {
  switch (outcome) {
    case Wanted::kAny:
      return true;
    case Wanted::kCrash:
      return run.crashed;
    case Wanted::kFailing:
      return run.status != 0;
  }
  return false;
}

// Options as they were given.
struct Given {
  std::string output, on_full = "stop", until, keep = "all", max_size, max_time, free_space;
  std::string engine = "auto";
  uint64_t block_mib = 0, repeat = 1;
  bool report = false;
};

void Declare(CLI::App& app, RecordOptions* options, Given* given) {
  app.add_option("-o,--output", given->output, "The recording's directory, which must not exist")
      ->type_name("DIR");
  app.add_option("--max-size", given->max_size, "End when the recording takes that much: 500M, 2G")
      ->type_name("SIZE");
  app.add_option("--max-time", given->max_time, "End after that long: 90s, 30m, 2h")
      ->type_name("DURATION");
  app.add_option("--free-space", given->free_space,
                 "End when less is free on its disk (default: 1G, or a twentieth of a small disk)")
      ->type_name("SIZE");
  app.add_option("--on-full", given->on_full,
                 "What an end is: stop the program (the default), or detach and let it run on")
      ->check(CLI::IsMember({"stop", "detach"}))
      ->type_name("WHAT");
  app.add_option("--repeat", given->repeat, "Record N runs (with -o DIR: DIR-1, DIR-2, …)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  app.add_option(
         "--until", given->until,
         "Stop after a run that did: crash (died by a signal) or failing (any status but 0)")
      ->check(CLI::IsMember({"crash", "failing"}))
      ->type_name("WHAT");
  app.add_option("--keep", given->keep,
                 "Of several runs: all, or only those that were failing or a crash")
      ->check(CLI::IsMember({"all", "failing", "crash"}))
      ->type_name("WHAT");
  app.add_flag("--report", given->report,
               "When the program fails, write the page of `ttq report` beside the recording");
  app.add_flag("-q,--quiet", options->quiet, "No summary line");
  app.add_option(
         "--engine", given->engine,
         "What runs the program: native, valgrind (slower), or auto (the default): native, and "
         "valgrind where the program needs it and has done nothing yet that the world could see")
      ->check(CLI::IsMember({"auto", "native", "valgrind"}))
      ->type_name("WHAT");
  app.add_option("--block-size", given->block_mib, "MiB of log per block")
      ->check(CLI::Range(1, 256))
      ->type_name("MIB");
  app.add_flag("--verify", options->launch.verify,
               "Compare all memory with the recording after every block");
}

}  // namespace

int RunRecord(int argc, char** argv) {
  CLI::App app("Record a program's whole history", "ttq record");
  RecordOptions options;
  Given given;
  given.block_mib = options.launch.block_bytes >> 20;
  Declare(app, &options, &given);
  app.add_option("program", options.launch.command, "program and its arguments")->required();
  app.prefix_command();
  app.positionals_at_end();
  // Everything from the program's name on is the program's.
  std::vector<std::string> own;
  int at = 1;
  for (; at < argc; ++at) {
    std::string_view word = argv[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (word.empty() || word[0] != '-') break;
    own.emplace_back(word);
    const CLI::Option* option = app.get_option_no_throw(std::string(word));
    const bool takes_value = option && option->get_expected_max() > 0;
    if (takes_value && at + 1 < argc) own.emplace_back(argv[++at]);
  }
  KeepMemory();
  app.remove_option(app.get_option("program"));
  std::reverse(own.begin(), own.end());
  try {
    app.parse(own);
  } catch (const CLI::CallForHelp&) {
    ShowHelp(app);
    return kAnswered;
  } catch (const CLI::ParseError& e) {
    return Fail(kOwnFailure, e.what());
  }
  options.launch.command.assign(argv + at, argv + argc);
  options.launch.block_bytes = given.block_mib << 20;
  options.stop_when_full = given.on_full == "stop";
  if (given.engine == "valgrind") options.launch.recorder = RecorderKind::kValgrind;
  options.may_change_recorder = given.engine == "auto";
  const auto size_of = [](const char* option, const std::string& text,
                          std::optional<uint64_t>* bytes) {
    if (text.empty()) return true;
    *bytes = ParseBytes(text);
    if (!*bytes)
      Fail(kOwnFailure,
           fmt::format("{} {}: a size is a number and K, M, G or T: 2G", option, text));
    return bytes->has_value();
  };
  if (!size_of("--max-size", given.max_size, &options.limits.max_bytes) ||
      !size_of("--free-space", given.free_space, &options.limits.free_bytes)) {
    return kOwnFailure;
  }
  if (!given.max_time.empty()) {
    options.limits.max_seconds = ParseSeconds(given.max_time);
    if (!options.limits.max_seconds) {
      return Fail(kOwnFailure,
                  fmt::format("--max-time {}: a duration is a number and s, m, h or d: 30m",
                              given.max_time));
    }
  }
  if (options.launch.command.empty()) return Fail(kOwnFailure, "record: no program given");

  auto program = FindProgram(options.launch.command[0]);
  if (!program.ok()) {
    return Fail(absl::IsNotFound(program.status()) ? kNotFound : kCannotRun,
                std::string(program.status().message()));
  }
  auto tool = FindToolDirectory();
  if (!tool.ok()) return Fail(kOwnFailure, std::string(tool.status().message()));
  options.launch.tool_directory = *tool;

  const auto outcome = [](const std::string& word) {
    return word == "crash" ? Wanted::kCrash : word == "failing" ? Wanted::kFailing : Wanted::kAny;
  };
  // Without --repeat, --until goes on until it happens.
  const uint64_t most = given.repeat == 1 && !given.until.empty() ? UINT64_MAX : given.repeat;
  RecordedRun run;
  for (uint64_t n = 1; n <= most; ++n) {
    run = RecordOnce(options, given.output.empty() || most == 1
                                  ? given.output
                                  : fmt::format("{}-{}", given.output, n));
    if (run.own_failure) break;
    if (!Is(outcome(given.keep), run)) {
      std::error_code ec;
      fs::remove_all(run.directory, ec);
      if (!options.quiet) {
        fmt::print(stderr, "ttq: run {} ended with status {} and is not kept\n", n, run.status);
      }
    } else if (given.report) {
      ReportOn(run);
    }
    // Ctrl-C reached the program, which was one of its ends; it was meant for all of them.
    if (run.status == 128 + SIGINT && most > 1) break;
    if (!given.until.empty() && Is(outcome(given.until), run)) break;
  }
  return run.status;
}

}  // namespace ttq
