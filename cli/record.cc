// SPDX-License-Identifier: MIT
//
// ttq record: runs a program under the recorder and stores its history.

#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/disk_cache.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/page.h"
#include "cli/record_run.h"
#include "cli/units.h"
#include "fmt/core.h"
#include "query/find_trace.h"
#include "store/format/inputs_log.h"
#include "store/write/history.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

// One thread allocates what another frees, a megabyte at a time and for each block. Memory that
// goes back to the system in between, and from there zeroed to another thread's heap, costs a tenth
// of the time that recording takes.
void KeepMemory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
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

// Of a run that was recorded by its inputs.
bool MakeHistoryOf(const RecordedRun& run, bool last, bool quiet) {
  if (!HasInputs(run.directory)) return true;  // Valgrind has recorded it
  const auto started = std::chrono::steady_clock::now();
  if (const absl::Status s = EnsureHistory(run.directory, {.last = last}); !s.ok()) {
    Complain(s, kOwnFailure);
    return false;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  if (!quiet) {
    fmt::print(stderr, "ttq: made {} in {:.1f} s\n",
               HistoryIsPartial(run.directory) ? "the end of its history" : "its history",
               took.count());
  }
  return true;
}

// Options as they were given.
struct Given {
  std::string output, on_full = "stop", until, keep = "all", max_size, max_time, free_space;
  std::string engine = "auto", index;
  std::string block_size;
  uint64_t repeat = 1;
  bool report = false;
};

void Declare(CommandLine& line, RecordOptions* options, Given* given) {
  line.Add("-o,--output", &given->output, "The recording's directory, which must not exist")
      .Called("DIR");
  line.Add("--max-size", &given->max_size, "End when the recording takes that much: 500M, 2G")
      .Called("SIZE");
  line.Add("--max-time", &given->max_time, "End after that long: 90s, 30m, 2h").Called("DURATION");
  line.Add("--free-space", &given->free_space,
           "End when less is free on its disk (default: 1G, or a twentieth of a small disk)")
      .Called("SIZE");
  line.Add("--on-full", &given->on_full,
           "What an end is: stop the program (the default), or detach and let it run on")
      .OneOf({"stop", "detach"})
      .Called("WHAT");
  line.Add("--repeat", &given->repeat, "Record N runs (with -o DIR: DIR-1, DIR-2, …)")
      .Checked(WholeNumber(1))
      .Called("N");
  line.Add("--until", &given->until,
           "Stop after a run that did: crash (died by a signal) or failing (any status but 0)")
      .OneOf({"crash", "failing"})
      .Called("WHAT");
  line.Add("--keep", &given->keep,
           "Of several runs: all, or only those that were failing or a crash")
      .OneOf({"all", "failing", "crash"})
      .Called("WHAT");
  line.AddFlag("--report", &given->report,
               "When the program fails, write the page of `ttq report` beside the recording");
  line.AddFlag("-q,--quiet", &options->quiet, "No summary line");
  line.Add("--engine", &given->engine,
           "What runs the program: native, valgrind (slower), or auto (the default): native, and "
           "valgrind where the program needs it and has done nothing yet that the world could see")
      .OneOf({"auto", "native", "valgrind"})
      .Called("WHAT");
  line.Add("--index", &given->index,
           "When the history is made: none (the default): only the inputs are recorded, and the "
           "first question, or `ttq index`, makes the history from them; last: its last part as "
           "soon as the program has ended; all: all of it then; now: while the program runs (what "
           "valgrind does)")
      .OneOf({"now", "none", "last", "all"})
      .Called("WHEN");
  line.Add("--block-size", &given->block_size,
           "Log per block: MiB, or a size from 512Ki to 256Mi (default: 4)")
      .Called("SIZE");
  line.AddFlag("--verify", &options->launch.verify,
               "Compare all memory with the recording after every block");
}

}  // namespace

int RunRecord(int argc, char** argv) {
  CommandLine line("ttq record");
  RecordOptions options;
  Given given;
  Declare(line, &options, &given);
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
    if (line.TakesValue(own.back()) && at + 1 < argc) own.emplace_back(argv[++at]);
  }
  KeepMemory();
  if (const std::optional<int> done = ParseArguments(line, own, kOwnFailure)) return *done;
  options.launch.command.assign(argv + at, argv + argc);
  options.stop_when_full = given.on_full == "stop";
  if (given.engine == "valgrind") options.launch.recorder = RecorderKind::kValgrind;
  options.may_change_recorder = given.engine == "auto";
  const bool must_be_now = given.engine == "valgrind" || options.launch.verify;
  if (given.index.empty()) given.index = must_be_now ? "now" : "none";
  options.launch.records_inputs = given.index != "now" && !must_be_now;
  if (given.index == "none" && must_be_now) {
    return Complain(
        fmt::format("--index=none: only the native engine runs a program again, and nothing is "
                    "there to verify yet; leave out {}",
                    options.launch.verify ? "--verify" : "--engine=valgrind"),
        kOwnFailure);
  }
  if (!given.block_size.empty()) {
    const bool is_number = given.block_size.find_first_not_of("0123456789") == std::string::npos;
    const std::optional<uint64_t> bytes = ParseBytes(given.block_size + (is_number ? "Mi" : ""));
    if (!bytes || *bytes < 512 << 10 || *bytes > 256 << 20) {
      return Complain(fmt::format("--block-size {}: a size from 512Ki to 256Mi", given.block_size),
                      kOwnFailure);
    }
    options.launch.block_bytes = *bytes & ~uint64_t{4095};
  }
  const auto size_of = [](const char* option, const std::string& text,
                          std::optional<uint64_t>* bytes) {
    if (text.empty()) return true;
    *bytes = ParseBytes(text);
    if (!*bytes)
      Complain(fmt::format("{} {}: a size is a number and K, M, G or T: 2G", option, text),
               kOwnFailure);
    return bytes->has_value();
  };
  if (!size_of("--max-size", given.max_size, &options.limits.max_bytes) ||
      !size_of("--free-space", given.free_space, &options.limits.free_bytes)) {
    return kOwnFailure;
  }
  if (!given.max_time.empty()) {
    options.limits.max_seconds = ParseSeconds(given.max_time);
    if (!options.limits.max_seconds) {
      return Complain(fmt::format("--max-time {}: a duration is a number and s, m, h or d: 30m",
                                  given.max_time),
                      kOwnFailure);
    }
  }
  if (options.launch.command.empty()) return Complain("record: no program given", kOwnFailure);

  auto program = FindProgram(options.launch.command[0]);
  if (!program.ok()) {
    return Complain(std::string(program.status().message()),
                    absl::IsNotFound(program.status()) ? kNotFound : kCannotRun);
  }
  auto tool = FindToolDirectory();
  if (!tool.ok()) return Complain(tool.status(), kOwnFailure);
  options.launch.tool_directory = *tool;
  if (options.launch.records_inputs) {
    constexpr uint64_t kMaxKeptCode = 512 << 20;
    LimitCacheFiles("code", kMaxKeptCode);
    options.launch.code_cache = CachePrefix("code");
  }

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
    } else if ((given.index == "all" || given.index == "last") &&
               !MakeHistoryOf(run, given.index == "last", options.quiet)) {
      return kOwnFailure;
    }
    if (given.report && !run.directory.empty() && fs::exists(run.directory)) {
      ReportOn(run);
    }
    // Ctrl-C reached the program, which was one of its ends; it was meant for all of them.
    if (run.status == 128 + SIGINT && most > 1) break;
    if (!given.until.empty() && Is(outcome(given.until), run)) break;
  }
  return run.status;
}

}  // namespace ttq
