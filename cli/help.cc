// SPDX-License-Identifier: MIT
//
// `ttq help`, and what --help shows: the manual's texts (manual.h) with the options that the
// command itself declares. `ttq help --describe` gives all of it as JSON, from which manual pages
// and completions are made (make_manual); `ttq help --complete TEXT` is what a shell asks.

#include "cli/help.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/version.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/manual.h"
#include "fmt/format.h"
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

// What an option takes: "FORMAT" of CLI11's "FORMAT:{table,json}"; what CLI11 calls a type where
// the command names none.
std::string ValueName(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  const std::string name = type.substr(0, type.find_first_of(":{ "));
  return name == "TEXT" || name.empty() ? "VALUE" : name == "UINT" || name == "INT" ? "N" : name;
}

std::vector<std::string> Choices(const CLI::Option& option) {
  std::vector<std::string> choices;
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return choices;
  std::string_view list = std::string_view(type).substr(begin + 1, end - begin - 1);
  while (!list.empty()) {
    const size_t comma = list.find(',');
    choices.emplace_back(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return choices;
}

std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

Json Describe(const CLI::App& app, const Command& command) {
  Json json = {{"name", std::string(command.name)},
               {"synopsis", Lines(command.synopsis)},
               {"summary", std::string(command.summary)},
               {"text", std::string(command.text)},
               {"examples", Lines(command.examples)},
               {"options", Json::array()},
               {"arguments", Json::array()}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    if (option->get_positional()) {
      json["arguments"].push_back(
          {{"name", option->get_name()}, {"description", option->get_description()}});
      continue;
    }
    json["options"].push_back({{"names", NamesOf(*option)},
                               {"value", ValueName(*option)},
                               {"choices", Choices(*option)},
                               {"description", option->get_description()}});
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

std::string OptionsText(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> rows;
  size_t width = 0;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty() || option->get_positional()) continue;
    const std::vector<std::string> names = NamesOf(*option);
    std::string left = names[0].starts_with("--") ? "    " : "";
    for (const std::string& name : names) left += (&name == &names[0] ? "" : ", ") + name;
    if (const std::string value = ValueName(*option); !value.empty()) left += " " + value;
    width = std::max(width, left.size());
    rows.emplace_back(std::move(left), option->get_description());
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

void ShowHelp(const CLI::App& app) {
  const std::string full = app.get_name();
  const Command* command = FindCommand(full.substr(full.find(' ') + 1));
  if (!command) return WriteOut(app.help());
  if (description) return description->push_back(Describe(app, *command));
  std::string text = fmt::format("{}\n\n{}", command->synopsis, command->text);
  text += "\nOptions:\n" + OptionsText(app);
  if (!command->examples.empty()) {
    text += "\nExamples:\n";
    for (const std::string& line : Lines(command->examples)) text += "  " + line + "\n";
  }
  WriteOut(text);
}

std::string UsageText() { return Overview(); }

int RunHelp(int argc, char** argv) {
  CLI::App app("What a command does, or what a topic is about", "ttq help");
  std::string about, complete;
  bool describe = false;
  app.add_option("COMMAND", about, "A command or a topic");
  app.add_flag("--describe", describe, "All of it as JSON")->group("");
  CLI::Option* completes =
      app.add_option("--complete", complete, "Words that may end this query")->group("");
  if (const std::optional<int> done = ParseArguments(app, Arguments(argc, argv))) return *done;
  if (describe) {
    WriteOut(DescribeAll().dump(1) + "\n");
    return kAnswered;
  }
  if (completes->count() > 0) {
    for (const std::string& word : NextWords(complete)) WriteOut(word + "\n");
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
