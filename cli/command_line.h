// SPDX-License-Identifier: MIT
//
// The options and arguments that a command takes. CLI11 parses them, in command_line.cc alone: its
// templates would take as long to compile as all else of each command.

#ifndef TTQ_CLI_COMMAND_LINE_H_
#define TTQ_CLI_COMMAND_LINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ttq {

class CommandLine {
 public:
  // What is wrong with a value, or "".
  using Check = std::function<std::string(const std::string& value)>;

  // One that was declared, as `--help` shows it. Lives as long as its command line.
  class Option {
   public:
    // The value's name in `-o FILE`.
    Option& Called(std::string value);
    Option& OneOf(std::vector<std::string> choices);
    Option& Checked(Check check);
    Option& Required();
    // Not shown.
    Option& Hidden();
    // Takes one word each time that it is given, not all that follow.
    Option& OneWordEach();

    const std::vector<std::string>& names() const { return names_; }  // "-o", "--output"
    bool is_argument() const { return names_.empty(); }
    bool is_hidden() const { return hidden_; }
    const std::string& value() const { return value_; }  // of an argument: its name; of a flag: ""
    const std::vector<std::string>& choices() const { return choices_; }
    const std::string& description() const { return description_; }

   private:
    friend class CommandLine;

    CLI::Option* option_ = nullptr;
    std::vector<std::string> names_, choices_;
    std::string value_, description_;
    bool hidden_ = false;
  };

  // `name` is "ttq record".
  explicit CommandLine(std::string name);
  ~CommandLine();

  // An option with a value (`names` is "-o,--output"), or an argument ("TRACE"). Parse writes to
  // `target`, which is a std::string, a number, a std::vector of strings, or a std::optional of
  // one; it keeps what it holds where the option is not given.
  template <class Target>
  Option& Add(const std::string& names, Target* target, const std::string& description);
  // An option without a value.
  Option& AddFlag(const std::string& names, bool* target, const std::string& description);

  // Parses the words of a command, without its name. False where they ask for help, and nothing
  // else was looked at; InvalidArgument for what was not declared, or is missing.
  absl::StatusOr<bool> Parse(std::vector<std::string> words);

  const std::string& name() const { return name_; }
  const std::deque<Option>& options() const { return options_; }  // as declared, --help first
  // Whether `word` is an option's name that stands before its value.
  bool TakesValue(const std::string& word) const;

 private:
  Option& Declare(CLI::Option* option, const std::string& names, const std::string& description);

  std::string name_;
  std::unique_ptr<CLI::App> app_;
  std::deque<Option> options_;
};

// Accepts decimal numbers from `least` to `most`.
CommandLine::Check WholeNumber(uint64_t least, uint64_t most = UINT64_MAX);

}  // namespace ttq

#endif  // TTQ_CLI_COMMAND_LINE_H_
