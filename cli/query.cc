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

#include "base/text.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/format.h"
#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace ttq {
namespace {

// Longer texts are refused before they are parsed.
constexpr size_t kMaxText = 16 << 20;
constexpr uint64_t kTerminalLimit = 50;

struct QueryOptions {
  std::string trace, file, format_name;
  std::string process;
  std::optional<uint64_t> limit;
  bool exit_code = false, explain = false, full_scan = false, csv_safe = false;
};

void Declare(CLI::App& app, QueryOptions* options) {
  app.add_option("-t,--trace", options->trace, "The recording: a path or a name of `ttq ls`")
      ->type_name("TRACE");
  app.add_option("-p,--process", options->process,
                 "The process: its number in `ttq info`, its pid, its program's name, or all")
      ->type_name("P");
  app.add_option("-f,--format", options->format_name, "table, json, jsonl or csv")
      ->check(CLI::IsMember({"table", "json", "jsonl", "csv"}))
      ->type_name("FORMAT");
  app.add_option("-F,--file", options->file, "Read queries from a file")->type_name("FILE");
  app.add_option("--limit", options->limit,
                 "Rows to print at most; 0: all (default: 50 on a terminal, else all)")
      ->check([](const std::string& n) {
        return n.starts_with('-') ? "there are no fewer rows than 0" : "";
      })
      ->type_name("N");
  app.add_flag("--exit-code", options->exit_code, "Exit with 1 when there are no rows");
  app.add_flag("--explain", options->explain, "Say how the query would be run, and do not run it");
  app.add_flag("--csv-safe", options->csv_safe,
               "csv: put an apostrophe before texts that a spreadsheet would take for formulas");
  app.add_flag("--full-scan", options->full_scan,
               "Use no index (for checking; the answer is the same)");
}

// What looks like an option and is not meant as a part of a query: a dash and a letter, two dashes.
bool LooksLikeOption(const std::string& word) {
  return word.size() >= 2 && word[0] == '-' && (isalpha(word[1]) || word[1] == '-');
}

// Splits arguments into options for CLI11 and words of the query.
void Split(const CLI::App& app, const std::vector<std::string>& arguments,
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
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option && option->get_expected_max() > 0 && name.size() == word.size() &&
        i + 1 < arguments.size()) {
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

// Prints what is wrong and gives the exit status.
int Report(const absl::Status& status, std::string_view text) {
  if (const std::optional<Diagnostic> diagnostic = GetDiagnostic(status)) {
    fputs(RenderDiagnostic(text, *diagnostic).c_str(), stderr);
    return kUsage;
  }
  if (absl::IsInvalidArgument(status)) return Complain(status, kUsage);
  if (absl::IsCancelled(status)) return Complain("interrupted", kInterrupted);
  return Complain(status, kUnreadable);
}

class Session {
 public:
  // All outlive it.
  Session(const QueryOptions& options, std::string_view text, const Recording& recording,
          const Engine& engine)
      : options_(options), text_(text), recording_(recording), engine_(engine) {}

  int Answer(const ast::Query& query, const FormatOptions& format) const {
    AnswerContext context;
    context.trace = recording_.info().path;
    context.process = engine_.process().info().number.v;
    context.query =
        std::string(text_.substr(query.range.begin, query.range.end - query.range.begin));
    ScanControl control;
    const RunOptions run{.control = &control, .full_scan = options_.full_scan};
    InterruptGuard guard(&control);
    Progress progress(&control);
    if (options_.explain) {
      absl::StatusOr<std::string> plan = engine_.Explain(query, run);
      progress.Hide();
      if (!plan.ok()) return Report(plan.status(), text_);
      WriteOut(*plan);
      return kAnswered;
    }
    absl::StatusOr<std::unique_ptr<ResultStream>> stream = engine_.Run(query, run);
    if (!stream.ok()) {
      progress.Hide();
      const int exit_status = Report(stream.status(), text_);
      TellOfOthers();
      return exit_status;
    }
    AnswerSummary summary;
    const absl::Status status =
        WriteAnswer(**stream, context, format, StdoutAfter(&progress), &summary);
    progress.Hide();
    if (!summary.remarks.empty()) Complain("note: " + summary.remarks, 0);
    if (!status.ok()) return Report(status, text_);
    if (summary.interrupted) return Complain("interrupted: the answer is partial", kInterrupted);
    if (summary.rows == 0 || format.format == Format::kTable) TellOfOthers();
    return options_.exit_code && summary.rows == 0 ? kNoRows : kAnswered;
  }

 private:
  // Another process may have what this one has not, or more of it.
  void TellOfOthers() const {
    if (!options_.process.empty()) return;
    const std::string others = OtherProcesses(recording_, engine_.process().info().number);
    if (!others.empty()) Complain("note: " + others, 0);
  }

  const QueryOptions& options_;
  const std::string_view text_;
  const Recording& recording_;
  const Engine& engine_;
};

}  // namespace

int RunQuery(int argc, char** argv) {
  CLI::App app("Asks a recording a question.", "ttq query");
  QueryOptions options;
  Declare(app, &options);
  std::vector<std::string> option_words, words;
  Split(app, Arguments(argc, argv), &option_words, &words);
  // `ttq -t TRACE query …`
  if (argc > 0 && std::string_view(argv[0]) != "query" && !words.empty() && words[0] == "query") {
    words.erase(words.begin());
  }
  if (const std::optional<int> done = ParseArguments(app, option_words)) return *done;

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
    if (!parsed.ok()) return Report(parsed.status(), text);
    queries = *std::move(parsed);
  } else {
    absl::StatusOr<ast::Query> parsed = ParseQuery(text);
    if (!parsed.ok()) return Report(parsed.status(), text);
    queries.push_back(*std::move(parsed));
  }

  FormatOptions format;
  if (!options.format_name.empty()) format.format = *FormatFromName(options.format_name);
  const bool terminal = IsTerminal(STDOUT_FILENO);
  format.terminal = terminal;
  format.csv_safe = options.csv_safe;
  format.colour = terminal && !getenv("NO_COLOR");
  if (options.limit) {
    if (*options.limit > 0) format.limit = *options.limit;
  } else if (terminal) {
    format.limit = kTerminalLimit;
  }

  absl::StatusOr<std::unique_ptr<Recording>> recording =
      OpenRecording(options.trace, FileAccess::kMap);
  if (!recording.ok()) return Complain(recording.status(), kUnreadable);
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
    const Session session(options, text, **recording, **engine);
    for (size_t i = 0; i < queries.size(); ++i) {
      if (!first && is_text) WriteOut("\n");
      first = false;
      if (all && i == 0 && format.format == Format::kTable) {
        const ProcessInfo& info = (*engine)->process().info();
        WriteOut(fmt::format("process {}, {}\n", info.number.v, Printable(info.program)));
      }
      const int exit_status = session.Answer(queries[i], format);
      if (exit_status == kInterrupted) return exit_status;
      worst = std::max(worst, exit_status);
    }
  }
  return worst;
}

}  // namespace ttq
