// SPDX-License-Identifier: MIT
//
// What could come next in a question that is being typed: words of the language, the program's
// functions and variables, columns, recordings. Belongs to one thread.

#ifndef TTQ_CLI_COMPLETION_H_
#define TTQ_CLI_COMPLETION_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/line_editor.h"
#include "query/cpython/context.h"
#include "query/engine/engine.h"
#include "query/engine/name_list.h"

namespace ttq {

class Completer {
 public:
  // `commands`: words that may begin a line beside those that begin a question.
  explicit Completer(std::vector<std::string> commands) : commands_(std::move(commands)) {}

  // The recording and process whose names complete a question from now on. Both must outlive this.
  void SetEngine(const Recording* recording, const Engine* engine);
  // The words that complete `process`.
  void SetProcesses(std::vector<std::string> names) { processes_ = std::move(names); }
  // `before`: what stands before the cursor. Candidates are in natural order, and printable.
  Completion Complete(std::string_view before);

 private:
  const std::vector<std::string>& Names(NameClass which);
  // Of the rows that `query` gives, whose last stage is not finished yet; none when that cannot be
  // said soon.
  std::vector<std::string> Columns(std::string_view query) const;

  std::vector<std::string> commands_, processes_;
  const Engine* engine_ = nullptr;
  std::unique_ptr<const Context> context_;  // of the engine's process
  std::map<NameClass, std::vector<std::string>> names_;
};

}  // namespace ttq

#endif  // TTQ_CLI_COMPLETION_H_
