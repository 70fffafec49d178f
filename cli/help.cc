// SPDX-License-Identifier: MIT
//
// `ttq help`, and what --help shows: the manual's texts (manual.h) with the options that the
// command itself declares. `ttq help --describe` gives all of it as JSON, from which manual pages
// and completions are made (make_manual); `ttq help --complete TEXT` is what a shell asks.

#include "cli/help.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/manual.h"
#include "fmt/core.h"
#include "nlohmann/json.hpp"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace ttq {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWidth = 80;

// Where a command's --help goes while all of them are described; null: to the user.
Json* description = nullptr;

const Command* FindCommand(std::string_view name) {
  for (const Command& command : Commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

Json Describe(const CommandLine& line, const Command& command) {
  Json json = {{"name", std::string(command.name)},
               {"synopsis", Lines(command.synopsis)},
               {"summary", std::string(command.summary)},
               {"text", std::string(command.text)},
               {"examples", Lines(command.examples)},
               {"options", Json::array()},
               {"arguments", Json::array()}};
  for (const CommandLine::Option& option : line.options()) {
    if (option.is_hidden()) continue;
    if (option.is_argument()) {
      json["arguments"].push_back(
          {{"name", option.value()}, {"description", option.description()}});
      continue;
    }
    json["options"].push_back({{"names", option.names()},
                               {"value", option.value()},
                               {"choices", option.choices()},
                               {"description", option.description()}});
  }
  return json;
}

// `text` from column `indent` on, in lines of at most kWidth.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string out, line;
  const auto width = [](std::string_view s) {  // characters of UTF-8
    return static_cast<size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  };
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (!line.empty() && indent + width(line) + 1 + width(word) > kWidth) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return out + line + "\n";
}

std::string OptionsText(const CommandLine& line) {
  std::vector<std::pair<std::string, std::string>> rows;
  size_t width = 0;
  for (const CommandLine::Option& option : line.options()) {
    if (option.is_hidden() || option.is_argument()) continue;
    std::string left = option.names()[0].starts_with("--") ? "    " : "";
    left += absl::StrJoin(option.names(), ", ");
    if (!option.value().empty()) left += " " + option.value();
    width = std::max(width, left.size());
    rows.emplace_back(std::move(left), option.description());
  }
  std::string out;
  for (const auto& [left, right] : rows) {
    out += fmt::format("  {:<{}}  {}", left, width, Wrapped(right, width + 4));
  }
  return out;
}

std::string Overview() {
  std::string text = "ttq: record a program once, ask about any moment of its life\n\n";
  size_t width = 0;
  for (const Command& command : Commands()) width = std::max(width, command.name.size());
  for (const Command& command : Commands()) {
    text += fmt::format("  ttq {:<{}}   {}\n", command.name, width, command.summary);
  }
  text += fmt::format("  ttq {:<{}}   ask the latest recording\n\n", "QUERY", width);
  std::string topics = "`ttq help COMMAND` has the rest; other topics: ";
  for (const Topic& topic : Topics()) {
    topics += fmt::format("{}{}", &topic == &Topics().front() ? "" : ", ", topic.name);
  }
  return text + Wrapped(topics, 0) + R"(
  ttq "last write to 0x20003302710"           who changed this memory?
  ttq "writes to counter | count by function, thread"
  ttq "memory 0x20003302710 len 64 at crash"
)";
}

Json DescribeAll() {
  Json commands = Json::array();
  description = &commands;
  for (const Command& command : Commands()) {
    std::string name(command.name), help = "--help";
    char* words[] = {name.data(), help.data(), nullptr};
    command.run(2, words);
  }
  description = nullptr;
  Json topics = Json::array();
  for (const Topic& topic : Topics()) {
    topics.push_back({{"name", std::string(topic.name)},
                      {"summary", std::string(topic.summary)},
                      {"text", std::string(topic.text)}});
  }
  Json all;
  all["version"] = std::string(kVersion);
  all["commands"] = std::move(commands);
  all["topics"] = std::move(topics);
  return all;
}

}  // namespace

void ShowHelp(const CommandLine& line) {
  const Command* command = FindCommand(line.name().substr(line.name().find(' ') + 1));
  if (description) return description->push_back(Describe(line, *command));
  std::string text = fmt::format("{}\n\n{}", command->synopsis, command->text);
  text += "\nOptions:\n" + OptionsText(line);
  if (!command->examples.empty()) {
    text += "\nExamples:\n";
    for (const std::string& example : Lines(command->examples)) text += "  " + example + "\n";
  }
  WriteOut(text);
}

std::string UsageText() { return Overview(); }

int RunHelp(int argc, char** argv) {
  CommandLine line("ttq help");
  std::string about;
  std::optional<std::string> complete;
  bool describe = false;
  line.Add("COMMAND", &about, "A command or a topic");
  line.AddFlag("--describe", &describe, "All of it as JSON").Hidden();
  line.Add("--complete", &complete, "Words that may end this query").Hidden();
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  if (describe) {
    WriteOut(DescribeAll().dump(1) + "\n");
    return kAnswered;
  }
  if (complete) {
    for (const std::string& word : NextWords(*complete)) WriteOut(word + "\n");
    return kAnswered;
  }
  if (about.empty()) {
    WriteOut(Overview());
    return kAnswered;
  }
  if (const Command* command = FindCommand(about)) {
    std::string help = "--help";
    char* words[] = {about.data(), help.data(), nullptr};
    return command->run(2, words);
  }
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.emplace_back(command.name);
  for (const Topic& topic : Topics()) {
    if (topic.name == about) {
      WriteOut(topic.text);
      return kAnswered;
    }
    names.emplace_back(topic.name);
  }
  const std::vector<std::string> near = Nearest(about, names);
  std::string known;
  for (const std::string& name : near.empty() ? names : near) {
    known += (known.empty() ? "" : ", ") + name;
  }
  return Complain(near.empty()
                      ? fmt::format("there is no help on {}; there is on {}", about, known)
                      : fmt::format("there is no help on {}; did you mean {}?", about, known),
                  kUsage);
}

}  // namespace ttq
