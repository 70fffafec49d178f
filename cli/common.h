// SPDX-License-Identifier: MIT
//
// What several commands need: finding a recording, saying what went wrong, interruption, progress.

#ifndef TTQ_CLI_COMMON_H_
#define TTQ_CLI_COMMON_H_

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/find_trace.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

// Prints "ttq: MESSAGE" and gives `exit_status`; where the user interrupted it, kInterrupted.
int Complain(const absl::Status& status, int exit_status);
int Complain(std::string_view message, int exit_status);

// From here on the terminal shows how far a history is that is being made.
void ShowHistories();

// Parses arguments (without argv[0]); nullopt: go on. --help prints the help of the command. Bad
// usage is complained of, and gives `usage_status`.
std::optional<int> ParseArguments(CommandLine& line, std::vector<std::string> arguments,
                                  int usage_status = kUsage);
std::vector<std::string> Arguments(int argc, char** argv);

// The recording that a command is about: TRACE, or -t TRACE, which is the same.
struct TraceOption {
  std::string argument, option;
  const std::string& name() const { return argument.empty() ? option : argument; }
};
void AddTraceOption(CommandLine& line, TraceOption* trace);

// A recording, and the engine of one of its processes.
struct Asked {
  std::unique_ptr<Recording> recording;
  std::unique_ptr<Engine> engine;
};
// The process that -p names: by its number, else by its pid or its program's name, the last of
// those that had it. NotFound, with what there is, for none.
absl::StatusOr<ProcessNo> ProcessNamed(const Recording& recording, const std::string& name);
absl::StatusOr<ProcessNo> ProcessNumbered(const Recording& recording, uint32_t number);
// Where nobody named a process: which was asked, and which other may have been meant. "" when there
// is one only.
std::string OtherProcesses(const Recording& recording, ProcessNo asked);
// Opens what -t and -p name. When that fails, says why and gives the exit status.
std::optional<int> OpenAsked(const std::string& trace, const std::string& process, Asked* out,
                             HistoryNeed need = HistoryNeed::kAll);

// While it lives, what a command writes about a recording waits, where not all of its history is
// there. Of null nothing waits.
class HeldOutput {
 public:
  explicit HeldOutput(const Recording* recording);
  ~HeldOutput();
  HeldOutput(const HeldOutput&) = delete;
  static bool IsOn();
  // What the command ends with: `status`, or kAskAgain, and nothing was written, when its answer
  // met what is not indexed.
  int End(int status);

 private:
  const Recording* recording_;
  bool drop_ = false;
};
inline constexpr int kAskAgain = -1;
// Gives what `answer` does, from all of the history where less of it was not enough.
int AnswerFromLeast(HistoryNeed need, const std::function<int(HistoryNeed)>& answer);
// Says why a process could not be opened. One that is not there is the user's slip when he named
// it, not the recording's.
int ComplainOfProcess(const absl::Status& status, bool named);

// `text` in full to stdout. Ends the process quietly when nobody reads it, and with status 3 when
// it cannot be written.
void WriteOut(std::string_view text);

// While it lives, the first Ctrl-C cancels `control`; the second ends the process as usual, unless
// `every` one is to cancel. One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(ScanControl* control, bool every = false);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;

 private:
  struct sigaction before_;
};

// Shows the progress of a scan on stderr, if that is a terminal, from half a second on. No
// percentage: a question may need several scans, and the first does not know the others' length.
class Progress {
 public:
  explicit Progress(const ScanControl* control);
  ~Progress();
  Progress(const Progress&) = delete;
  // Runs `write`, which prints something, with the line taken away.
  void Without(const std::function<void()>& write);
  // Takes the line away, and shows nothing any more.
  void Stop();

 private:
  // REQUIRES of both: mutex_ is held.
  void Show();
  void Hide();

  const ScanControl* control_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  bool shown_ = false;
  uint64_t first_total_ = 0;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::thread thread_;
};

// Writes to stdout in full; what tells how far the scan is goes first.
Sink StdoutAfter(Progress* progress);

// Prints what is wrong with a query, with its place in `text`, and gives the exit status.
int ReportQueryError(const absl::Status& status, std::string_view text);

// A field of an object; null: it has none of this name. As a cell; "" where it has none, or null.
const Value* FieldOf(const Object& object, std::string_view name);
std::string FieldText(const Object& object, std::string_view name, Type type = Type::kString);
// Appends frames as `backtrace` has them, at most `most` lines. A function that calls itself takes
// two, however often it does.
void AddNativeFrames(const List& frames, size_t most, std::string* out);
// What is in the column `exception` of `crash`, to be read from top to bottom.
std::string ExceptionLayout(const Object& exception);

// "1.2 GB", "3.4 M" …
std::string HumanBytes(uint64_t n);
std::string HumanCount(uint64_t n);
// "2026-11-21 08:00:53", local time.
std::string HumanTime(int64_t wall_ns);

}  // namespace ttq

#endif  // TTQ_CLI_COMMON_H_
