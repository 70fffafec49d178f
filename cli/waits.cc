// SPDX-License-Identifier: MIT
//
// `ttq waits`: who waits for whom. The same as the question that it asks.

#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/common.h"

namespace ttq {

int RunWaits(int argc, char** argv) {
  CLI::App app("Says who waits for whom.", "ttq waits");
  std::string trace, process, format;
  std::vector<std::string> at;
  app.add_option("-t,--trace", trace, "The recording: a path or a name of `ttq ls`")
      ->type_name("TRACE");
  app.add_option("-p,--process", process,
                 "The process: its number in `ttq info`, its pid, its program's name, or all")
      ->type_name("P");
  app.add_option("-f,--format", format, "table, json, jsonl or csv")
      ->check(CLI::IsMember({"table", "json", "jsonl", "csv"}))
      ->type_name("FORMAT");
  app.add_option("WHEN", at, "at TIME (default: at the end)");
  if (const std::optional<int> done = ParseArguments(app, Arguments(argc, argv))) return *done;
  std::vector<std::string> words = {"query"};
  for (const auto& [option, value] :
       {std::pair("-t", trace), std::pair("-p", process), std::pair("-f", format)}) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  }
  std::string question = "threads";
  for (const std::string& word : at) question += " " + word;
  if (at.empty()) question += " at end";
  words.push_back(question +
                  " | where waits is not null"
                  " | select thread, waits, waits_for, held_by, since, cycle");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return RunQuery(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace ttq
