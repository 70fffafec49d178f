// SPDX-License-Identifier: MIT
//
// `ttq`: picks the command. Anything whose first word is no command is a query.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/manual.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace {

// `ttq -t TRACE crash`, `ttq -p N crash`.
bool IsCrash(int argc, char** argv) {
  if (std::string_view(argv[argc - 1]) != "crash" || argc % 2 != 0) return false;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option != "-t" && option != "--trace" && option != "-p" && option != "--process") {
      return false;
    }
  }
  return true;
}

// The command that a word was meant to be which begins no query either; "".
std::string MeantCommand(const std::string& word) {
  const absl::Status status = ttq::ParseQuery(word).status();
  const std::optional<ttq::Diagnostic> error = ttq::GetDiagnostic(status);
  if (!error || error->begin != 0 || !error->hint.empty()) return "";
  std::vector<std::string> names;
  for (const ttq::Command& command : ttq::Commands()) names.emplace_back(command.name);
  const std::vector<std::string> near = ttq::Nearest(word, names);
  return near.empty() ? "" : near.front();
}

int failure_status = ttq::kUnreadable;

constexpr char kOutOfMemory[] = "ttq: out of memory\n";

// One line, on any thread, whatever the others do. Allocates nothing.
[[noreturn]] void EndWith(const char* line) {
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  while (told.test_and_set()) pause();
  if (write(STDERR_FILENO, line, strlen(line)) < 0) _exit(failure_status);
  _exit(failure_status);
}

// Where there is nobody to catch what was thrown: in a thread of a library, or while something else
// is thrown, for want of memory.
[[noreturn]] void OnTerminate() {
  const char* what = "ttq: internal error\n";
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      what = kOutOfMemory;
    } catch (...) {
    }
  }
  EndWith(what);
}

// A command that answers one question has nothing to save when `operator new` gets no memory, and
// RocksDB, through which an exception would go, does not survive that. Other commands go on, or
// have files to take away.
bool AnswersOneQuestion(std::string_view command) {
  static constexpr std::string_view kOthers[] = {"record", "import", "snapshot", "shell",
                                                 "mcp",    "gdb",    "batch"};
  return std::find(std::begin(kOthers), std::end(kOthers), command) == std::end(kOthers);
}

int Run(int argc, char** argv) {
  if (argc < 2) {
    fputs(ttq::UsageText().c_str(), stderr);
    return ttq::kUsage;
  }
  const std::string_view first = argv[1];
  if (first == "--version" || first == "-V") {
    ttq::WriteOut(std::string("ttq ") + ttq::kVersion + "\n");
    return ttq::kAnswered;
  }
  if (first == "--help" || first == "-h") {
    ttq::WriteOut(ttq::UsageText());
    return ttq::kAnswered;
  }
  for (const ttq::Command& command : ttq::Commands()) {
    if (first == command.name) return command.run(argc - 1, argv + 1);
  }
  if (IsCrash(argc, argv)) {
    // As `ttq crash -t TRACE`.
    std::vector<char*> words = {argv[argc - 1]};
    words.insert(words.end(), argv + 1, argv + argc - 1);
    return ttq::RunCrash(static_cast<int>(words.size()), words.data());
  }
  if (const std::string meant = MeantCommand(argv[1]); !meant.empty()) {
    return ttq::Complain(
        fmt::format("there is no command {}; did you mean {}?", ttq::Printable(first), meant),
        ttq::kUsage);
  }
  return ttq::RunQuery(argc, argv);
}

// A file of ours must not become descriptor 0, 1 or 2 where that is closed: messages would go into
// it. What takes its place cannot be read or written either, and is closed for who we execute.
void KeepStandardDescriptors() {
  int fd;
  do {
    fd = open("/", O_PATH | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardDescriptors();
  const bool records = argc > 1 && std::string_view(argv[1]) == "record";
  // A closed pipe ends us quietly, whatever our parent ignores. A program that is recorded is to
  // have it from our parent.
  if (!records) signal(SIGPIPE, SIG_DFL);
  std::set_terminate(OnTerminate);
  if (records) failure_status = ttq::kOwnFailure;
  if (argc > 1 && AnswersOneQuestion(argv[1])) {
    std::set_new_handler([] { EndWith(kOutOfMemory); });
  }
  try {
    ttq::ShowHistories();
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    fputs(kOutOfMemory, stderr);
  } catch (const std::system_error& e) {  // "PATH: Too many open files"
    fprintf(stderr, "ttq: %s\n", e.what());
  } catch (const std::exception& e) {
    fprintf(stderr, "ttq: internal error: %s\n", e.what());
  }
  return failure_status;
}
