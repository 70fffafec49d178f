// SPDX-License-Identifier: MIT
//
// The terminal that a command talks to: its size, and a pager for what is longer than the screen.

#ifndef TTQ_CLI_TERMINAL_H_
#define TTQ_CLI_TERMINAL_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "cli/command_line.h"

namespace ttq {

bool IsTerminal(int fd);

struct ScreenSize {
  size_t rows = 24, columns = 80;
};
// Of the terminal behind `fd`; where it does not say, $LINES and $COLUMNS, else 24 by 80.
ScreenSize SizeOfScreen(int fd);
// $TERM names a terminal that moves its cursor.
bool MovesCursor();

// Adds --no-pager.
void AddPagerOption(CommandLine& line, bool* no_pager);

// Takes what goes to stdout, and shows it in $TTQ_PAGER, else $PAGER, else `less`, when it is
// longer than the screen of the terminal that stdout is. Otherwise, and for what comes slowly, it
// goes straight to stdout. One at a time.
class Pager {
 public:
  struct Options {
    bool enabled = true;
    // Writes to stdout what does not go to the pager; empty: WriteOut.
    std::function<void(std::string_view)> write;
    // The pager is to begin: it has the screen from then on.
    std::function<void()> on_start;
    // The user has left the pager: more is of no use. Called once, by Write.
    std::function<void()> on_quit;
  };
  explicit Pager(Options options);
  // As Finish.
  ~Pager();
  Pager(const Pager&) = delete;

  void Write(std::string_view text);
  // Writes what is held back and waits until the user has left the pager.
  void Finish();
  // The user left the pager before all was written.
  bool quit() const { return quit_; }

 private:
  // REQUIRES of all: mutex_ is held.
  void Direct(std::string_view text);
  void Start();
  void Send(std::string_view text);

  Options options_;
  std::string command_;  // "": none
  ScreenSize screen_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::string held_, sent_;
  size_t rows_ = 0;
  bool direct_ = false, finished_ = false, quit_ = false;
  int pipe_ = -1;
  std::optional<pid_t> pid_;
  std::thread timer_;
};

// All of it at once.
void WritePaged(std::string_view text, bool no_pager);

// `text`, whose lines are broken where the terminal that stdout is has no more room. What follows
// is below what the line says, behind its label. Not a terminal: as it is.
std::string WrappedForScreen(std::string_view text);

}  // namespace ttq

#endif  // TTQ_CLI_TERMINAL_H_
