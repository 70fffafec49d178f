// SPDX-License-Identifier: MIT
//
// ttq record: runs a program under the recorder and stores its history.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "query/cli/commands.h"
#include "query/cli/common.h"
#include "recorder/launcher.h"
#include "store/ingest.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;

// Exit statuses as env(1) and nohup(1) give them.
enum { kOwnFailure = 125, kCannotRun = 126, kNotFound = 127 };

int Fail(int status, std::string_view message) {
  fmt::print(stderr, "ttq: {}\n", message);
  return status;
}

// Makes the recording where it was asked for, or in PROGRAM-N.ttq with the next free N.
absl::StatusOr<std::unique_ptr<RecordingWriter>> NewRecording(
    const std::string& asked, const std::vector<std::string>& command, std::string* directory) {
  if (!asked.empty()) {
    *directory = asked;
    auto made = RecordingWriter::Create(asked, command);
    if (absl::IsAlreadyExists(made.status())) {
      return absl::AlreadyExistsError(asked + " exists; choose another place with -o");
    }
    return made;
  }
  fs::path home = HomeDirectory();
  if (home.empty()) {
    return absl::FailedPreconditionError(
        "neither TTQ_HOME nor HOME is set; say with -o where the recording goes");
  }
  std::error_code ec;
  fs::create_directories(home, ec);
  if (ec) {
    return absl::UnavailableError(fmt::format("cannot make {}: {}", home.string(), ec.message()));
  }
  std::string base = fs::path(command[0]).filename();
  for (int n = 1; n < 1000000; ++n) {
    *directory = home / fmt::format("{}-{}.ttq", base, n);
    // Somebody else may be taking the same number.
    auto made = RecordingWriter::Create(*directory, command);
    if (!absl::IsAlreadyExists(made.status())) return made;
  }
  return absl::ResourceExhaustedError("too many recordings of " + base + " in " + home.string());
}

// Replaces the link in one step, so that a reader sees the old or the new one.
void PointLatestAt(const std::string& directory) {
  std::error_code ec;
  fs::path home = HomeDirectory();
  if (home.empty()) return;
  fs::create_directories(home, ec);
  fs::path temporary = home / fmt::format(".latest-{}", getpid());
  fs::remove(temporary, ec);
  fs::create_symlink(fs::absolute(directory, ec), temporary, ec);
  fs::rename(temporary, home / "latest", ec);
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

uint64_t BytesUnder(const std::string& directory) {
  uint64_t total = 0;
  std::error_code ec;
  for (const auto& entry : fs::recursive_directory_iterator(directory, ec)) {
    if (entry.is_regular_file(ec)) total += entry.file_size(ec);
  }
  return total;
}

}  // namespace

int RunRecord(int argc, char** argv) {
  CLI::App app("Record a program's whole history", "ttq record");
  std::string output, on_full = "stop";
  LaunchOptions options;
  uint64_t block_mib = options.block_bytes >> 20;
  bool quiet = false;
  app.add_option("-o,--output", output, "directory of the recording (must not exist)");
  app.add_flag("--verify", options.verify,
               "compare all memory with the recording after every block");
  app.add_option("--on-full", on_full,
                 "when the disk is full: stop the program, or detach and let it run on")
      ->check(CLI::IsMember({"stop", "detach"}));
  app.add_option("--block-size", block_mib, "MiB of log per block")->check(CLI::Range(1, 256));
  app.add_flag("-q,--quiet", quiet, "no summary line");
  app.add_option("program", options.command, "program and its arguments")->required();
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
    bool takes_value =
        word == "-o" || word == "--output" || word == "--on-full" || word == "--block-size";
    if (takes_value && at + 1 < argc) own.emplace_back(argv[++at]);
  }
  app.remove_option(app.get_option("program"));
  std::reverse(own.begin(), own.end());
  try {
    app.parse(own);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& e) {
    return Fail(kOwnFailure, e.what());
  }
  options.command.assign(argv + at, argv + argc);
  options.block_bytes = block_mib << 20;
  if (options.command.empty()) return Fail(kOwnFailure, "record: no program given");

  auto program = FindProgram(options.command[0]);
  if (!program.ok()) {
    return Fail(absl::IsNotFound(program.status()) ? kNotFound : kCannotRun,
                std::string(program.status().message()));
  }
  auto tool = FindToolDirectory();
  if (!tool.ok()) return Fail(kOwnFailure, std::string(tool.status().message()));
  options.tool_directory = *tool;

  std::string directory;
  auto writer = NewRecording(output, options.command, &directory);
  if (!writer.ok()) return Fail(kOwnFailure, std::string(writer.status().message()));

  auto started = std::chrono::steady_clock::now();
  bool stopped = false;
  std::vector<std::weak_ptr<Ring>> rings;  // a ring that has come to its end should go
  auto result = Launch(
      options,
      [&](std::shared_ptr<Ring> ring) {
        if (rings.empty()) PointLatestAt(directory);
        rings.push_back(ring);
        (*writer)->Start(std::move(ring));
      },
      [&] {
        // More than once: a process may just be starting another.
        if (on_full == "stop" && absl::IsResourceExhausted((*writer)->error())) {
          stopped = true;
          for (const auto& ring : rings) {
            if (auto alive = ring.lock()) alive->Kill();
          }
        }
        return (*writer)->Idle();
      });
  absl::Status finished = (*writer)->Finish();
  if (!result.ok() || rings.empty()) {
    writer->reset();
    std::error_code ec;
    fs::remove_all(directory, ec);
    if (!result.ok()) return Fail(kOwnFailure, std::string(result.status().message()));
    if (result->signal != 0) {
      return Fail(result->status, fmt::format("{}: killed by {} before anything was recorded",
                                              options.command[0], SignalName(result->signal)));
    }
    std::string why = OneLine(result->tool_log);
    // Either Valgrind would not start the program, or the tool could not record it.
    bool unrecorded = why.find("is not recorded") != std::string::npos;
    return Fail(
        unrecorded ? kOwnFailure : kCannotRun,
        fmt::format("{}: {}", options.command[0], why.empty() ? "it could not be started" : why));
  }
  const IngestTotals& totals = (*writer)->totals();
  if (!quiet) {
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    fmt::print(stderr,
               "ttq: recorded {} instructions, {} writes, {} {} in {:.1f} s, {:.1f} MB: {}\n",
               Amount(totals.instructions), Amount(totals.writes), totals.processes.load(),
               totals.processes == 1 ? "process" : "processes", seconds,
               static_cast<double>(BytesUnder(directory)) / 1e6, directory);
  }
  if (!finished.ok()) {
    fmt::print(stderr, "ttq: {}; {}\n", std::string(finished.message()),
               stopped ? "the program was ended, what was recorded before stays"
                       : "the program went on unrecorded, what was recorded before stays");
    // To run on was what the user wanted.
    return absl::IsResourceExhausted(finished) && !stopped ? result->status : kOwnFailure;
  }
  // The tool says goodbye when a program ends. Where it did not, it may have said why.
  if (totals.lost || result->tool_log.find("is not recorded") != std::string::npos) {
    fmt::print(stderr, "{}", result->tool_log);
  }
  return result->status;
}

}  // namespace ttq
