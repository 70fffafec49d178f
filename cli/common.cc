// SPDX-License-Identifier: MIT
//
// See common.h.

#include "cli/common.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>

#include "absl/strings/str_join.h"
#include "base/display_width.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/status_line.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "store/write/ingest.h"

namespace ttq {
namespace {

std::atomic<ScanControl*> interruptible{nullptr};

void OnInterrupt(int) {
  if (ScanControl* control = interruptible.load()) control->cancelled.store(true);
}

struct Held {
  std::string out, errors;
};
std::optional<Held> g_held;

void WriteError(const std::string& text) {
  if (g_held) {
    g_held->errors += text;
  } else {
    fputs(text.c_str(), stderr);
  }
}

}  // namespace

int Complain(std::string_view message, int exit_status) {
  WriteError(fmt::format("ttq: {}\n", Printable(message)));
  return exit_status;
}

int Complain(const absl::Status& status, int exit_status) {
  return Complain(std::string(status.message()),
                  absl::IsCancelled(status) ? int{kInterrupted} : exit_status);
}

// How far a history is that is being made: a line, from its second second on.
class HistoryLine {
 public:
  void Show(const IngestTotals& totals) {
    const auto now = std::chrono::steady_clock::now();
    if (!started_) started_ = now, next_ = now + std::chrono::seconds(1);
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(500);
    const std::chrono::duration<double> elapsed = now - *started_;
    line_.Show(fmt::format("ttq: making the history, {:.0f} s, {} instructions", elapsed.count(),
                           HumanCount(totals.instructions)));
  }
  void End() {
    line_.Erase();
    started_.reset();
  }

 private:
  StatusLine line_;
  std::optional<std::chrono::steady_clock::time_point> started_;
  std::chrono::steady_clock::time_point next_;
};

void ShowHistories() {
  if (!IsTerminal(STDERR_FILENO)) return;
  SetHistoryWatch([line = std::make_shared<HistoryLine>()](const IngestTotals* totals) {
    if (totals == nullptr) return line->End();
    line->Show(*totals);
  });
}

std::vector<std::string> Arguments(int argc, char** argv) {
  return std::vector<std::string>(argv + std::min(argc, 1), argv + argc);
}

std::optional<int> ParseArguments(CommandLine& line, std::vector<std::string> arguments,
                                  int usage_status) {
  const absl::StatusOr<bool> parsed = line.Parse(std::move(arguments));
  if (!parsed.ok()) {
    return Complain(
        fmt::format("{} (see `{} --help`)", std::string(parsed.status().message()), line.name()),
        usage_status);
  }
  if (*parsed) return std::nullopt;
  ShowHelp(line);
  return kAnswered;
}

void AddTraceOption(CommandLine& line, TraceOption* trace) {
  line.Add("TRACE", &trace->argument, "A path or a name of `ttq ls` (default: the latest)");
  line.Add("-t,--trace", &trace->option, "The same").Called("TRACE");
}

int ComplainOfProcess(const absl::Status& status, bool named) {
  return Complain(status, named && absl::IsNotFound(status) ? kUsage : kUnreadable);
}

absl::StatusOr<ProcessNo> ProcessNumbered(const Recording& recording, uint32_t number) {
  std::optional<ProcessNo> of_pid;
  for (const ProcessInfo& p : recording.processes()) {
    if (p.number.v == number) return p.number;
    if (p.pid == number) of_pid = p.number;
  }
  if (of_pid) return *of_pid;
  return absl::NotFoundError(
      fmt::format("there is no process {0}, and none had pid {0}; `ttq info` lists them", number));
}

absl::StatusOr<ProcessNo> ProcessNamed(const Recording& recording, const std::string& name) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) {
    return ProcessNumbered(recording, number);
  }
  std::optional<ProcessNo> found;
  std::vector<std::string> programs;
  for (const ProcessInfo& p : recording.processes()) {
    const std::string base(BaseName(p.program));
    if (base == name) found = p.number;
    if (std::find(programs.begin(), programs.end(), base) == programs.end()) {
      programs.push_back(base);
    }
  }
  if (found) return *found;
  constexpr size_t kShown = 8;
  const bool more = programs.size() > kShown;
  if (more) programs.resize(kShown);
  return absl::NotFoundError(fmt::format("no process ran {}; there are {}{}", name,
                                         absl::StrJoin(programs, ", "), more ? ", …" : ""));
}

std::string OtherProcesses(const Recording& recording, ProcessNo asked) {
  const std::vector<ProcessInfo>& processes = recording.processes();
  if (processes.size() < 2) return "";
  const auto it = std::find_if(processes.begin(), processes.end(),
                               [&](const ProcessInfo& p) { return p.number == asked; });
  return fmt::format("asked of process {}, {}, one of {}: `ttq info` lists them, -p N asks another",
                     asked.v, it == processes.end() ? "" : it->program, processes.size());
}

std::optional<int> OpenAsked(const std::string& trace, const std::string& process, Asked* out,
                             HistoryNeed need) {
  absl::StatusOr<std::unique_ptr<Recording>> recording =
      OpenRecording(trace, FileAccess::kMap, need);
  if (!recording.ok()) return Complain(recording.status(), kUnreadable);
  std::optional<ProcessNo> number;
  if (!process.empty()) {
    absl::StatusOr<ProcessNo> named = ProcessNamed(**recording, process);
    if (!named.ok()) return ComplainOfProcess(named.status(), true);
    number = *named;
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(recording->get(), number);
  if (!engine.ok()) return ComplainOfProcess(engine.status(), !process.empty());
  *out = {*std::move(recording), *std::move(engine)};
  return std::nullopt;
}

HeldOutput::HeldOutput(const Recording* recording) : recording_(recording) {
  if (recording == nullptr) return;
  const std::vector<ProcessInfo>& processes = recording->processes();
  const bool all = std::all_of(processes.begin(), processes.end(),
                               [](const ProcessInfo& p) { return p.is_indexed(); });
  if (!all) g_held.emplace();
}

bool HeldOutput::IsOn() { return g_held.has_value(); }

int HeldOutput::End(int status) {
  drop_ = recording_ != nullptr && !recording_->Unindexed().ok();
  return drop_ ? kAskAgain : status;
}

HeldOutput::~HeldOutput() {
  if (!g_held) return;
  const Held held = *std::exchange(g_held, std::nullopt);
  if (drop_) return;
  WriteOut(held.out);
  WriteError(held.errors);
}

int AnswerFromLeast(HistoryNeed need, const std::function<int(HistoryNeed)>& answer) {
  const int status = answer(need);
  return status == kAskAgain ? answer(HistoryNeed::kAll) : status;
}

void WriteOut(std::string_view text) {
  if (g_held) {
    g_held->out += text;
    return;
  }
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(n);
    } else if (errno != EINTR) {
      if (errno == EPIPE) _exit(141);  // as if SIGPIPE were not ignored
      fmt::print(stderr, "ttq: cannot write the answer: {}\n", strerror(errno));
      _exit(kUnreadable);
    }
  }
}

Sink StdoutAfter(Progress* progress) {
  return [progress](std::string_view piece) { progress->Without([&] { WriteOut(piece); }); };
}

InterruptGuard::InterruptGuard(ScanControl* control, bool every) {
  interruptible = control;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART | (every ? 0 : SA_RESETHAND);
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &before_, nullptr);
  interruptible = nullptr;
}

int ReportQueryError(const absl::Status& status, std::string_view text) {
  if (const std::optional<Diagnostic> diagnostic = GetDiagnostic(status)) {
    WriteError(RenderDiagnostic(text, *diagnostic));
    return kUsage;
  }
  if (absl::IsInvalidArgument(status)) return Complain(status, kUsage);
  if (absl::IsCancelled(status)) return Complain("interrupted", kInterrupted);
  return Complain(status, kUnreadable);
}

Progress::Progress(const ScanControl* control) : control_(control) {
  if (!IsTerminal(STDERR_FILENO) || !MovesCursor()) return;
  thread_ = std::thread([this] {
    std::unique_lock<std::mutex> lock(mutex_);
    std::chrono::milliseconds pause(500);
    while (!wake_.wait_for(lock, pause, [this] { return done_; })) {
      Show();
      pause = std::chrono::milliseconds(100);
    }
  });
}

Progress::~Progress() {
  Stop();
  if (thread_.joinable()) thread_.join();
}

void Progress::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    Hide();
  }
  wake_.notify_all();
}

void Progress::Without(const std::function<void()>& write) {
  std::lock_guard<std::mutex> lock(mutex_);
  Hide();
  write();
}

void Progress::Show() {
  const uint64_t total = control_->blocks_total.load(), done = control_->blocks_done.load();
  if (total == 0) return;
  if (first_total_ == 0) first_total_ = total;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started_;
  const std::string text = fmt::format(
      "read {} of {}{} blocks{}, {:.0f} s; Ctrl-C stops", std::min(done, total),
      total > first_total_ ? "at least " : "", total,
      total > first_total_ ? "" : fmt::format(" ({}%)", 100 * std::min(done, total) / total),
      elapsed.count());
  // A line that wraps could not be taken away again.
  fmt::print(stderr, "\r\x1b[K{}", CutEnd(text, SizeOfScreen(STDERR_FILENO).columns - 1));
  fflush(stderr);
  shown_ = true;
}

void Progress::Hide() {
  if (!shown_) return;
  shown_ = false;
  fputs("\r\x1b[K", stderr);
  fflush(stderr);
}

namespace {

std::string Human(uint64_t n, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  double value = static_cast<double>(n);
  size_t i = 0;
  for (; value >= 999.5 && i + 1 < std::size(kPrefixes); ++i) value /= 1000;
  if (i == 0) return fmt::format("{}{}{}", n, *unit ? " " : "", unit);
  return fmt::format("{:.{}f} {}{}", value, value < 9.95 ? 1 : 0, kPrefixes[i], unit);
}

}  // namespace

std::string HumanBytes(uint64_t n) { return Human(n, "B"); }
std::string HumanCount(uint64_t n) { return Human(n, ""); }

std::string HumanTime(int64_t wall_ns) {
  if (wall_ns == 0) return "-";
  const time_t seconds = static_cast<time_t>(wall_ns / 1000000000);
  struct tm local;
  if (!localtime_r(&seconds, &local)) return "-";
  char text[64];
  return std::string(text, strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local));
}

}  // namespace ttq
