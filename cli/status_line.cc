// SPDX-License-Identifier: MIT

#include "cli/status_line.h"

#include <termios.h>
#include <unistd.h>

#include <string>

#include "base/display_width.h"
#include "cli/terminal.h"
#include "fmt/core.h"

namespace ttq {
namespace {

constexpr size_t kFewestRows = 4;
// Of the VT100, which all that move their cursor understand: save and restore the cursor with its
// colours; one line down at the same column, which scrolls at the bottom; one line up.
constexpr std::string_view kSave = "\0337", kRestore = "\0338", kDown = "\033D", kUp = "\033[A";

// In one piece: the program's output is not to come in between.
bool Send(const std::string& text) {
  return write(STDERR_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

StatusLine::~StatusLine() { Erase(); }

void StatusLine::Show(std::string_view text) {
  struct termios modes;
  if (!MovesCursor() || tcgetattr(STDERR_FILENO, &modes) != 0) return;
  if (!(modes.c_lflag & ICANON) || tcgetpgrp(STDERR_FILENO) != getpgrp()) return;
  const ScreenSize size = SizeOfScreen(STDERR_FILENO);
  if (size.rows < kFewestRows || size.columns < 2) return;
  std::string out;
  if (row_ != size.rows) {
    // The cursor must not stand in the line that is taken.
    out.append(kDown).append(kUp);
    row_ = size.rows;
  }
  // The lines above scroll by themselves. A program may have undone that.
  out.append(kSave).append(
      fmt::format("\x1b[1;{}r\x1b[{};1H\x1b[0m\x1b[2K\x1b[2m", row_ - 1, row_));
  out.append(CutEnd(text, size.columns - 1)).append("\x1b[0m").append(kRestore);
  Send(out);
}

void StatusLine::Erase() {
  if (row_ == 0) return;
  Send(std::string(kSave) + fmt::format("\x1b[r\x1b[{};1H\x1b[0m\x1b[2K", row_) +
       std::string(kRestore));
  row_ = 0;
}

}  // namespace ttq
