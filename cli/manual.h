// SPDX-License-Identifier: MIT
//
// The manual: each command and each topic, once. `ttq help X`, `ttq X --help`, the manual pages and
// the shells' completions are made from it and from the options that each command declares.
//
// A text has lines of at most 80 characters. A line that begins with two spaces is an item, "key
// what it is", or goes on with the item above it when it is indented further; other lines are
// prose.

#ifndef TTQ_CLI_MANUAL_H_
#define TTQ_CLI_MANUAL_H_

#include <span>
#include <string_view>

namespace ttq {

struct Command {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view synopsis;  // lines
  std::string_view summary;   // in the overview
  std::string_view text;      // without its options, which are read from its CommandLine
  // Lines "COMMAND  # what it does". The tests run each, as tests/docs/help_test.py says.
  std::string_view examples;
};

struct Topic {
  std::string_view name, summary, text;
};

// In the order of the overview. Static storage.
std::span<const Command> Commands();
std::span<const Topic> Topics();

}  // namespace ttq

#endif  // TTQ_CLI_MANUAL_H_
