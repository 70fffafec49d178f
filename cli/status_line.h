// SPDX-License-Identifier: MIT
//
// A line at the bottom of the terminal that stderr is, while somebody else writes to the same
// terminal: that one's lines scroll above it, and its cursor stays where it was.

#ifndef TTQ_CLI_STATUS_LINE_H_
#define TTQ_CLI_STATUS_LINE_H_

#include <cstddef>
#include <string_view>

namespace ttq {

// Belongs to one thread.
class StatusLine {
 public:
  StatusLine() = default;
  // As Erase.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;

  // Shows `text`, cut to the terminal's width, in place of what it showed before. Nothing happens
  // without a terminal that moves its cursor, in the background, on fewer than four lines, and
  // while a program reads keys instead of lines: the screen is that program's.
  void Show(std::string_view text);
  // Gives the line back to the terminal.
  void Erase();

 private:
  size_t row_ = 0;  // from 1; 0: none is taken
};

}  // namespace ttq

#endif  // TTQ_CLI_STATUS_LINE_H_
