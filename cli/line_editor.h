// SPDX-License-Identifier: MIT
//
// Lines that a user types: edited, completed and remembered on a terminal; read as they are from
// anything else.

#ifndef TTQ_CLI_LINE_EDITOR_H_
#define TTQ_CLI_LINE_EDITOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ttq {

// What could stand for the bytes [begin, the cursor) of a line.
struct Completion {
  size_t begin = 0;
  std::vector<std::string> candidates;
};

// One at a time; belongs to one thread.
class LineEditor {
 public:
  // Called with what stands before the cursor.
  using Complete = std::function<Completion(std::string_view)>;

  // Lines are remembered in `history_file`, which is made when it is not there; "": only here.
  LineEditor(std::string history_file, Complete complete);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;

  // Whether there is a terminal, and so prompts and editing.
  bool interactive() const;

  struct Line {
    enum class Kind { kText, kInterrupted, kEnd };
    Kind kind = Kind::kEnd;
    std::string text;  // without its newline
  };
  Line Read(const std::string& prompt);
  // A line as a user would find it again by "up". Not the same one twice in a row.
  void Remember(const std::string& line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq

#endif  // TTQ_CLI_LINE_EDITOR_H_
