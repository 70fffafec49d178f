// SPDX-License-Identifier: MIT
//
// `ttq query`: asks a recording. Options may stand before, among or after the words of the query;
// what only looks like an option to a shell user (`end - 5`, `-5`) is part of the query.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "base/display_width.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"
#include "query/sources/sources.h"

namespace ttq {
namespace {

// Longer texts are refused before they are parsed.
constexpr size_t kMaxText = 16 << 20;

struct QueryOptions {
  std::string trace, file, format_name;
  std::string said_as;  // how the next question is typed; empty: with --trace
  std::string process;
  std::optional<uint64_t> limit;
  bool exit_code = false, explain = false, full_scan = false, indexed = false, csv_safe = false;
  bool wide = false, no_pager = false, quiet = false;
};

void Declare(CommandLine& line, QueryOptions* options) {
  line.Add("-t,--trace", &options->trace, "The recording: a path or a name of `ttq ls`")
      .Called("TRACE");
  line.Add("-p,--process", &options->process,
           "The process: its number in `ttq info`, its pid, its program's name, or all")
      .Called("P");
  line.Add("-f,--format", &options->format_name, "table, json, jsonl or csv")
      .OneOf({"table", "json", "jsonl", "csv"})
      .Called("FORMAT");
  line.Add("-F,--file", &options->file, "Read queries from a file").Called("FILE");
  line.Add("--limit", &options->limit,
           "Rows to print at most; 0: all (default: 50 on a terminal, else all)")
      .Checked([](const std::string& n) -> std::string {
        return n.starts_with('-') ? "there are no fewer rows than 0" : "";
      });
  line.AddFlag("--wide", &options->wide, "Cut nothing to the width of the terminal");
  AddPagerOption(line, &options->no_pager);
  line.AddFlag("-q,--quiet", &options->quiet, "Do not say what could be asked next");
  line.AddFlag("--exit-code", &options->exit_code, "Exit with 1 when there are no rows");
  line.AddFlag("--explain", &options->explain, "Say how the query would be run, and do not run it");
  line.AddFlag("--csv-safe", &options->csv_safe,
               "csv: put an apostrophe before texts that a spreadsheet would take for formulas");
  line.AddFlag("--indexed", &options->indexed,
               "Answer from what of the history is there; an answer that needs more says so");
  line.AddFlag("--full-scan", &options->full_scan,
               "Use no index (for checking; the answer is the same)");
}

// What looks like an option and is not meant as a part of a query: a dash and a letter, two dashes.
bool LooksLikeOption(const std::string& word) {
  return word.size() >= 2 && word[0] == '-' && (isalpha(word[1]) || word[1] == '-');
}

// Splits arguments into options for CLI11 and words of the query.
void SplitCommand(const CommandLine& line, const std::vector<std::string>& arguments,
                  std::vector<std::string>* options, std::vector<std::string>* words) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      words->insert(words->end(), arguments.begin() + i + 1, arguments.end());
      return;
    }
    // A whole query in one word may begin with a dash; an option has no spaces before its value.
    const std::string name = word.substr(0, word.find('='));
    if (!LooksLikeOption(word) || name.find(' ') != std::string::npos) {
      words->push_back(word);
      continue;
    }
    options->push_back(word);
    if (line.TakesValue(word) && i + 1 < arguments.size()) {
      options->push_back(arguments[++i]);
    }
  }
}

absl::StatusOr<std::string> ReadAll(FILE* file, const std::string& name) {
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = fread(buffer, 1, sizeof buffer, file)) {
    text.append(buffer, n);
    if (text.size() > kMaxText) {
      return absl::InvalidArgumentError(name + " is longer than 16 MiB");
    }
  }
  if (ferror(file)) {
    return absl::InvalidArgumentError(fmt::format("cannot read {}: {}", name, strerror(errno)));
  }
  return text;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path == "-") return ReadAll(stdin, "stdin");
  FILE* file = fopen(path.c_str(), "re");
  if (!file) {
    return absl::InvalidArgumentError(fmt::format("cannot open {}: {}", path, strerror(errno)));
  }
  absl::StatusOr<std::string> text = ReadAll(file, path);
  fclose(file);
  return text;
}

// A word as a shell reads it back.
std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return IsWordByte(c) || strchr("./:=+-", c) != nullptr;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

// One dim line with what may be asked next, as it can be typed.
void SuggestNext(const QueryOptions& options, const ast::Query& query, const Answered& answered,
                 const FormatOptions& format) {
  constexpr std::string_view kBetween = "   ";
  std::string line;
  for (const std::string& question : NextQuestions(query, answered)) {
    std::string command = options.said_as.empty() ? "ttq " : options.said_as + " ";
    if (!options.trace.empty() && options.said_as.empty())
      command += "-t " + ShellWord(options.trace) + " ";
    if (!options.process.empty()) command += "-p " + ShellWord(options.process) + " ";
    command += ShellWord(question);
    std::string longer = line.empty() ? "next: " : line + std::string(kBetween);
    longer += Printable(command);
    if (format.width > 0 && DisplayWidth(longer) > format.width) continue;
    line = std::move(longer);
  }
  if (line.empty()) return;
  WriteOut(format.colour ? "\x1b[2m" + line + "\x1b[0m\n" : line + "\n");
}

// Whether the last part of a history is likely to be enough for the answer.
bool IsAboutLast(const ast::Query& query) {
  if (std::holds_alternative<ast::Events>(query.source)) return true;  // all of them are known
  const auto* accesses = std::get_if<ast::Accesses>(&query.source);
  return accesses != nullptr ? accesses->mode == ast::Accesses::Mode::kLast
                             : IsAboutState(query.source);
}

// What may be enough of a history that there is nothing of yet.
HistoryNeed LeastNeed(const std::vector<ast::Query>& queries) {
  const auto is_crash = [](const ast::Query& query) {
    return std::holds_alternative<ast::Crash>(query.source);
  };
  if (!std::all_of(queries.begin(), queries.end(), IsAboutLast)) return HistoryNeed::kSome;
  return std::any_of(queries.begin(), queries.end(), is_crash) ? HistoryNeed::kCrash
                                                               : HistoryNeed::kLast;
}

// Answers the queries that were read from `text`.
int AskRecording(const QueryOptions& options, std::string_view text,
                 const std::vector<ast::Query>& queries, const OutsideMemory* memory,
                 HistoryNeed need) {
  AnswerOptions answer{.format = FormatFor(options.format_name, options.limit, options.wide),
                       .explain = options.explain,
                       .full_scan = options.full_scan,
                       .pager = !options.no_pager,
                       .keep_rows = 1};
  answer.format.csv_safe = options.csv_safe;
  const FormatOptions& format = answer.format;
  const bool suggest = format.terminal && format.format == Format::kTable && !options.quiet &&
                       !options.explain && queries.size() == 1 && options.process != "all";

  absl::StatusOr<std::unique_ptr<Recording>> recording =
      OpenRecording(options.trace, FileAccess::kMap, need);
  if (!recording.ok()) return Complain(recording.status(), kUnreadable);
  HeldOutput held(need == HistoryNeed::kNone ? nullptr : recording->get());
  if (memory != nullptr) (*recording)->UseMemory(memory);
  std::vector<ProcessNo> processes;
  const bool all = options.process == "all";
  if (all) {
    for (const ProcessInfo& p : (*recording)->processes()) processes.push_back(p.number);
  } else if (options.process.empty()) {
    processes.push_back((*recording)->default_process());
  } else {
    absl::StatusOr<ProcessNo> named = ProcessNamed(**recording, options.process);
    if (!named.ok()) return ComplainOfProcess(named.status(), true);
    processes.push_back(*named);
  }
  int worst = kAnswered;
  bool first = true;
  for (const ProcessNo number : processes) {
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(recording->get(), number);
    if (!engine.ok()) {
      worst = std::max(worst, ComplainOfProcess(engine.status(), !options.process.empty()));
      continue;
    }
    const bool is_text = format.format == Format::kTable || format.format == Format::kCsv;
    for (size_t i = 0; i < queries.size(); ++i) {
      if (!first && is_text) WriteOut("\n");
      first = false;
      if (all && i == 0 && format.format == Format::kTable) {
        const ProcessInfo& info = (*engine)->process().info();
        WriteOut(fmt::format("process {}, {}\n", info.number.v, Printable(info.program)));
      }
      const Answered answered = AnswerQuery(**recording, **engine, text, queries[i], answer);
      if (answered.exit_status == kInterrupted) return answered.exit_status;
      if (held.End(answered.exit_status) == kAskAgain) return kAskAgain;
      // Another process may have what this one has not, or more of it.
      if (options.process.empty() && !options.explain &&
          (answered.row_count == 0 || format.format == Format::kTable)) {
        const std::string others = OtherProcesses(**recording, number);
        if (!others.empty()) Complain("note: " + others, 0);
      }
      if (suggest) SuggestNext(options, queries[i], answered, format);
      worst = std::max(worst, answered.exit_status);
      if (options.exit_code && answered.exit_status == kAnswered && answered.row_count == 0 &&
          !options.explain) {
        worst = std::max<int>(worst, kNoRows);
      }
    }
  }
  return held.End(worst);
}

int Ask(const std::vector<std::string>& arguments, bool may_name_command, QueryOptions options,
        const OutsideMemory* memory) {
  CommandLine line("ttq query");
  Declare(line, &options);
  std::vector<std::string> option_words, words;
  SplitCommand(line, arguments, &option_words, &words);
  // `ttq -t TRACE query …`
  if (may_name_command && !words.empty() && words[0] == "query") words.erase(words.begin());
  if (const std::optional<int> done = ParseArguments(line, option_words)) return *done;

  std::string text;
  bool script = true;
  if (!options.file.empty() || (words.size() == 1 && words[0] == "-")) {
    if (!options.file.empty() && !words.empty()) {
      return Complain("give either a query or -F FILE, not both", kUsage);
    }
    absl::StatusOr<std::string> read = ReadFile(options.file.empty() ? "-" : options.file);
    if (!read.ok()) return Complain(read.status(), kUsage);
    text = *std::move(read);
  } else {
    script = false;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    if (words.empty()) return Complain("what is the question? (see `ttq help language`)", kUsage);
  }

  std::vector<ast::Query> queries;
  if (script) {
    absl::StatusOr<std::vector<ast::Query>> parsed = ParseScript(text);
    if (!parsed.ok()) return ReportQueryError(parsed.status(), text);
    queries = *std::move(parsed);
  } else {
    absl::StatusOr<ast::Query> parsed = ParseQuery(text);
    if (!parsed.ok()) return ReportQueryError(parsed.status(), text);
    queries.push_back(*std::move(parsed));
  }

  const HistoryNeed least = options.indexed ? HistoryNeed::kNone : LeastNeed(queries);
  return AnswerFromLeast(
      least, [&](HistoryNeed need) { return AskRecording(options, text, queries, memory, need); });
}

}  // namespace

int RunQuery(int argc, char** argv) {
  const bool may_name_command = argc > 0 && std::string_view(argv[0]) != "query";
  return Ask(Arguments(argc, argv), may_name_command, {}, nullptr);
}

int AskMoment(const std::vector<std::string>& words, const std::string& directory,
              const std::string& said_as, const OutsideMemory* memory) {
  return Ask(words, false, {.trace = directory, .said_as = said_as}, memory);
}

}  // namespace ttq
