// SPDX-License-Identifier: MIT

#include "cli/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/display_width.h"
#include "cli/common.h"

namespace ttq {
namespace {

// What has waited so long for a full screen is shown without one.
constexpr std::chrono::milliseconds kPatience(1000);
// Text that is kept for the case that there is no pager after all.
constexpr size_t kMaxKept = 1 << 20;
constexpr int kNoSuchCommand = 127, kCannotExecute = 126;

std::string Environment(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

size_t NumberIn(const char* name) {
  const std::string text = Environment(name);
  size_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// What the user wants to read long texts in; "": nothing.
std::string PagerCommand() {
  for (const char* name : {"TTQ_PAGER", "PAGER"}) {
    if (getenv(name)) {
      const std::string command = Environment(name);
      return command == "cat" ? "" : command;
    }
  }
  return "less";
}

// The escape sequences in what ttq writes are colours.
std::string WithoutColours(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      i = std::min(line.find('m', i), line.size());
    } else {
      text += line[i];
    }
  }
  return text;
}

// Lines of the screen that a text takes.
size_t RowsOf(std::string_view text, size_t columns) {
  size_t rows = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const size_t width = DisplayWidth(WithoutColours(text.substr(0, end)));
    rows += std::max<size_t>(1, (width + columns - 1) / columns);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rows;
}

}  // namespace

bool IsTerminal(int fd) { return isatty(fd) == 1; }

ScreenSize SizeOfScreen(int fd) {
  ScreenSize size;
  if (const size_t n = NumberIn("LINES")) size.rows = n;
  if (const size_t n = NumberIn("COLUMNS")) size.columns = n;
  struct winsize window = {};
  if (ioctl(fd, TIOCGWINSZ, &window) == 0) {
    if (window.ws_row > 0) size.rows = window.ws_row;
    if (window.ws_col > 0) size.columns = window.ws_col;
  }
  return size;
}

bool MovesCursor() {
  const std::string term = Environment("TERM");
  return !term.empty() && term != "dumb";
}

void AddPagerOption(CommandLine& line, bool* no_pager) {
  line.AddFlag("--no-pager", no_pager, "Do not show what is longer than the screen in $PAGER");
}

Pager::Pager(Options options) : options_(std::move(options)) {
  if (options_.enabled && IsTerminal(STDOUT_FILENO) && MovesCursor()) {
    command_ = PagerCommand();
  }
  direct_ = command_.empty();
  if (!direct_) screen_ = SizeOfScreen(STDOUT_FILENO);
}

Pager::~Pager() { Finish(); }

void Pager::Direct(std::string_view text) {
  if (text.empty()) return;
  options_.write ? options_.write(text) : WriteOut(text);
}

void Pager::Write(std::string_view text) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (quit_) return;
  if (pid_) return Send(text);
  if (direct_) return Direct(text);
  held_ += text;
  rows_ += RowsOf(text, screen_.columns);
  if (rows_ + 1 > screen_.rows) {  // the last line is the prompt's
    Start();
  } else if (!timer_.joinable()) {
    timer_ = std::thread([this] {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait_for(lock, kPatience, [this] { return finished_ || pid_ || direct_; });
      if (finished_ || pid_ || direct_) return;
      direct_ = true;
      Direct(held_);
      held_.clear();
    });
  }
}

void Pager::Start() {
  if (options_.on_start) options_.on_start();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    direct_ = true;
  } else {
    // As git does: quit where it fits after all, show colours, leave the text on the screen.
    if (!getenv("LESS")) setenv("LESS", "FRX", 0);
    if (!getenv("LV")) setenv("LV", "-c", 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    std::string shell = "sh", dash_c = "-c";
    char* words[] = {shell.data(), dash_c.data(), command_.data(), nullptr};
    pid_t pid;
    const int error = posix_spawnp(&pid, "sh", &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    if (error != 0) {
      close(ends[1]);
      direct_ = true;
    } else {
      pid_ = pid;
      pipe_ = ends[1];
      signal(SIGPIPE, SIG_IGN);
    }
  }
  std::string text;
  text.swap(held_);
  pid_ ? Send(text) : Direct(text);
  wake_.notify_all();
}

void Pager::Send(std::string_view text) {
  if (sent_.size() + text.size() <= kMaxKept) sent_ += text;
  while (!text.empty() && !quit_) {
    const ssize_t n = write(pipe_, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(n);
    } else if (n < 0 && errno != EINTR) {
      quit_ = true;
      if (options_.on_quit) options_.on_quit();
    }
  }
}

void Pager::Finish() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (finished_) return;
    finished_ = true;
    if (!pid_) Direct(held_);
    held_.clear();
  }
  wake_.notify_all();
  if (timer_.joinable()) timer_.join();
  if (!pid_) return;
  close(pipe_);
  // Ctrl-C is the pager's.
  struct sigaction ignore = {}, before;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &before);
  int status = 0;
  while (waitpid(*pid_, &status, 0) < 0 && errno == EINTR) {
  }
  sigaction(SIGINT, &before, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (WIFEXITED(status) &&
      (WEXITSTATUS(status) == kNoSuchCommand || WEXITSTATUS(status) == kCannotExecute)) {
    WriteOut(sent_);
  }
}

namespace {

// Bytes before what a line says: its indent, and a label that a gap of two columns ends.
size_t LabelOf(std::string_view line) {
  constexpr size_t kMaxLabel = 24;
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", indent);
  const size_t next = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  if (next != std::string_view::npos && next <= kMaxLabel) return next;
  constexpr size_t kDeeper = 4;
  return std::min(indent + kDeeper, kMaxLabel);
}

}  // namespace

std::string WrappedForScreen(std::string_view text) {
  if (!IsTerminal(STDOUT_FILENO)) return std::string(text);
  const size_t width = SizeOfScreen(STDOUT_FILENO).columns;
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    const size_t label = LabelOf(line);
    if (DisplayWidth(line) <= width || label + 2 > width / 2) {
      out += line;
      continue;
    }
    if (line.ends_with('\n')) line.remove_suffix(1);
    // The first piece has the label, which takes as many columns as the others are indented.
    out += line.substr(0, label);
    std::string_view separator;
    for (const std::string& piece : WrapText(line.substr(label), width - label)) {
      out += separator;
      if (!separator.empty()) out.append(label, ' ');
      out += piece;
      separator = "\n";
    }
    out += '\n';
  }
  return out;
}

void WritePaged(std::string_view text, bool no_pager) {
  Pager pager({.enabled = !no_pager && !HeldOutput::IsOn()});
  pager.Write(text);
  pager.Finish();
}

}  // namespace ttq
