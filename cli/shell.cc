// SPDX-License-Identifier: MIT
//
// `ttq shell`: questions one after another, of a recording that stays open, at a moment and in a
// frame that stay until others are chosen. What is no command of the shell is a question.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <variant>

#include "base/natural_order.h"
#include "base/text.h"
#include "cli/answer.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/completion.h"
#include "cli/line_editor.h"
#include "cli/row_text.h"
#include "cli/terminal.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

// Rows of an answer that `$N` can name.
constexpr uint64_t kKeptRows = 10000;

struct ShellOptions {
  std::string trace, process, format;
  std::optional<uint64_t> limit;
  bool wide = false, no_pager = false;
};

// Splits off the first word.
std::string TakeWord(std::string_view* rest) {
  while (!rest->empty() && isspace(static_cast<unsigned char>(rest->front()))) {
    rest->remove_prefix(1);
  }
  size_t end = 0;
  while (end < rest->size() && !isspace(static_cast<unsigned char>((*rest)[end]))) ++end;
  const std::string word(rest->substr(0, end));
  rest->remove_prefix(end);
  while (!rest->empty() && isspace(static_cast<unsigned char>(rest->front()))) {
    rest->remove_prefix(1);
  }
  return word;
}

std::optional<uint64_t> NumberOf(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Whether a question goes on in the next line: after `|`, inside brackets.
bool GoesOn(std::string_view text) {
  int depth = 0;
  char quote = 0, last = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size() - 1);
      continue;
    }
    if (c == '"' || c == '\'' || c == '`') quote = c;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    if (!isspace(static_cast<unsigned char>(c))) last = c;
  }
  return !quote && (depth > 0 || last == '|');
}

const char* const kCommands[] = {"at", "down", "exit",    "forget", "frame",  "help", "limit",
                                 "ls", "open", "process", "quit",   "thread", "up"};

class Shell {
 public:
  explicit Shell(const ShellOptions& options)
      : options_(options),
        completer_(std::vector<std::string>(std::begin(kCommands), std::end(kCommands))) {}

  // Opens what the options name; what to exit with when that fails.
  std::optional<int> Start() { return Open(options_.trace, options_.process); }

  int Run() {
    const std::string home = HomeDirectory();
    LineEditor editor(home.empty() ? "" : home + "/shell-history",
                      [this](std::string_view before) { return completer_.Complete(before); });
    interactive_ = editor.interactive();
    if (interactive_) WriteOut(Greeting());
    std::string text;
    while (!ended_) {
      const LineEditor::Line line = editor.Read(text.empty() ? Prompt() : "...> ");
      if (line.kind == LineEditor::Line::Kind::kEnd) {
        if (!text.empty()) Execute(text);
        break;
      }
      if (line.kind == LineEditor::Line::Kind::kInterrupted) {
        text.clear();
        continue;
      }
      text += (text.empty() ? "" : "\n") + line.text;
      if (text[0] != '!' && GoesOn(text)) continue;
      std::string remembered = text;
      std::replace(remembered.begin(), remembered.end(), '\n', ' ');
      editor.Remember(remembered);
      Execute(text);
      text.clear();
    }
    return interactive_ ? int{kAnswered} : worst_;
  }

 private:
  // ---- The recording ----

  std::optional<int> Open(const std::string& trace, const std::string& process) {
    Asked asked;
    if (const std::optional<int> failed = OpenAsked(trace, process, &asked)) return failed;
    // It looks at what it was given last until then.
    completer_.SetEngine(asked.recording.get(), asked.engine.get());
    engines_.clear();
    recording_ = std::move(asked.recording);
    const uint32_t number = asked.engine->process().info().number.v;
    engines_[number] = std::move(asked.engine);
    Ask(number);
    return std::nullopt;
  }

  void Ask(uint32_t number) {
    engine_ = engines_[number].get();
    completer_.SetEngine(recording_.get(), engine_);
    std::vector<std::string> programs;
    for (const ProcessInfo& p : recording_->processes()) programs.push_back(NameOf(p));
    completer_.SetProcesses(std::move(programs));
    columns_.clear();
    rows_.clear();
    Forget();
  }

  static std::string NameOf(const ProcessInfo& info) { return std::string(BaseName(info.program)); }

  std::string Greeting() const {
    const ProcessInfo& info = engine_->process().info();
    std::string ending = info.fatal_signal != 0 ? ", died of " + SignalName(info.fatal_signal)
                         : info.exit_status     ? fmt::format(", exit {}", *info.exit_status)
                                                : "";
    const MomentInfo& moment = MomentInfoOf(engine_->process());
    const std::string length = moment.history_unknown()
                                   ? fmt::format("one moment ({})", MomentName(moment.beginning))
                                   : HumanCount(info.end.v) + " instructions";
    std::string text = fmt::format(
        "{}: process {} of {}, {}, {}{}\n", Printable(recording_->info().path), info.number.v,
        recording_->processes().size(), Printable(info.program), length, ending);
    return text + "`help shell` tells what there is; Ctrl-D ends.\n";
  }

  std::string Prompt() const {
    std::string prompt = "ttq";
    if (recording_->processes().size() > 1) {
      prompt += fmt::format(" p{}", engine_->process().info().number.v);
    }
    if (moment_) prompt += fmt::format(" {}", moment_->v);
    if (thread_) prompt += fmt::format(" thread {}", *thread_);
    if (frame_ > 0) prompt += fmt::format(" #{}", frame_);
    if (py_frame_ > 0) prompt += fmt::format(" py#{}", py_frame_);
    return prompt + "> ";
  }

  // ---- Lines ----

  void Fail(int status) { worst_ = std::max(worst_, status); }
  void Refuse(std::string_view message) { Fail(Complain(message, kUsage)); }

  void Execute(const std::string& text) {
    std::string_view rest = text;
    if (!rest.empty() && rest.front() == '!') return System(std::string(rest.substr(1)));
    const std::string word = Lower(TakeWord(&rest));
    if (word.empty()) return;
    const std::string argument(rest);
    if (word == "quit" || word == "exit") {
      ended_ = true;
    } else if (word == "help") {
      Help(argument);
    } else if (word == "at") {
      At(text, argument);
    } else if (word == "forget") {
      Forget();
    } else if (word == "up" || word == "down" || word == "frame") {
      Frame(word, argument, &frame_, "backtrace");
    } else if (word == "py" && IsPyFrame(argument)) {
      std::string_view left = argument;
      const std::string command = Lower(TakeWord(&left));
      Frame(command, std::string(left), &py_frame_, "py backtrace");
    } else if (word == "thread") {
      Thread(argument);
    } else if (word == "process") {
      Process(argument);
    } else if (word == "open") {
      const std::optional<int> failed = Open(argument, "");
      if (failed) return Fail(*failed);
      if (interactive_) WriteOut(Greeting());
    } else if (word == "ls") {
      char name[] = "ls";
      char* words[] = {name};
      Fail(RunLs(1, words));
    } else if (word == "limit") {
      Limit(argument);
    } else {
      Question(text);
    }
  }

  static bool IsPyFrame(std::string_view argument) {
    const std::string word = Lower(TakeWord(&argument));
    return word == "up" || word == "down" || word == "frame";
  }

  void System(const std::string& command) {
    if (command.empty()) return Refuse("`!COMMAND` runs a command of the shell");
    const int status = system(command.c_str());
    if (status != 0 && WIFEXITED(status)) {
      Complain(fmt::format("the command ended with {}", WEXITSTATUS(status)), 0);
    }
  }

  void Help(const std::string& topic) {
    std::string name = "help", word = topic.empty() ? "shell" : topic;
    char* words[] = {name.data(), word.data()};
    Fail(RunHelp(2, words));
  }

  void Limit(const std::string& argument) {
    const std::optional<uint64_t> number = NumberOf(argument);
    if (!number) return Refuse("how many rows are to be shown? `limit N`; 0: all");
    options_.limit = *number;
  }

  // ---- Moment, thread, frame ----

  void Forget() {
    moment_.reset();
    thread_.reset();
    frame_ = py_frame_ = 0;
  }

  // The rows of a question of the shell's own; nullopt when it was refused, and said so if `loud`.
  std::optional<Answered> Rows(const std::string& text, bool loud = true) {
    const absl::StatusOr<ast::Query> query = ParseQuery(text);
    absl::Status status = query.status();
    Answered answered;
    if (query.ok()) {
      ScanControl control;
      InterruptGuard guard(&control, /*every=*/true);
      Progress progress(&control);
      absl::StatusOr<std::unique_ptr<ResultStream>> stream =
          engine_->Run(*query, {.control = &control});
      status = stream.status();
      if (stream.ok()) {
        answered.columns = (*stream)->columns();
        Row row;
        absl::StatusOr<bool> more = false;
        while ((more = (*stream)->Next(&row)).ok() && *more) {
          answered.rows.push_back(row);
        }
        status = more.status();
      }
    }
    if (status.ok()) return answered;
    if (loud) Report(status, text, 0);
    return std::nullopt;
  }

  // `ahead` bytes of `text` were not typed.
  void Report(const absl::Status& status, std::string_view text, size_t ahead) {
    if (std::optional<Diagnostic> d = GetDiagnostic(status)) {
      d->begin = d->begin < ahead ? 0 : d->begin - static_cast<uint32_t>(ahead);
      d->end = std::max(d->begin, d->end < ahead ? 0 : d->end - static_cast<uint32_t>(ahead));
      fputs(RenderDiagnostic(text.substr(ahead), *d).c_str(), stderr);
      return Fail(kUsage);
    }
    Fail(ReportQueryError(status, text));
  }

  void At(const std::string& typed, const std::string& argument) {
    if (argument.empty()) {
      if (!moment_) return WriteOut("at no moment: questions are about the end\n");
      return ShowWhere();
    }
    const absl::StatusOr<std::string> line = ReplaceRows(typed, columns_, rows_);
    if (!line.ok()) return Refuse(std::string(line.status().message()));
    constexpr std::string_view kAsked = "registers ";
    const std::string text = std::string(kAsked) + *line;
    const absl::StatusOr<ast::Query> query = ParseQuery(text);
    if (!query.ok()) return Report(query.status(), text, kAsked.size());
    if (!query->clauses.at || !query->stages.empty() || query->clauses.thread) {
      return Refuse("`at` takes a time: a number, start, end, crash or (QUERY)");
    }
    ScanControl control;
    std::optional<Time> found;
    {
      InterruptGuard guard(&control, /*every=*/true);
      Progress progress(&control);
      const auto stream = engine_->Run(*query, {.control = &control});
      if (!stream.ok()) return Report(stream.status(), text, kAsked.size());
      Row row;
      const absl::StatusOr<bool> more = (*stream)->Next(&row);
      if (!more.ok()) return Report(more.status(), text, kAsked.size());
      if (*more) found = TimeOf((*stream)->columns(), row);
    }
    if (!found) return Fail(Complain("interrupted", kInterrupted));
    Forget();
    moment_ = *found;
    ShowWhere();
  }

  static std::optional<Time> TimeOf(const std::vector<Column>& columns, const Row& row) {
    for (size_t i = 0; i < columns.size(); ++i) {
      const Time* time = row[i].get<Time>();
      if (columns[i].name == "time" && time) return *time;
    }
    return std::nullopt;
  }

  // " at 12 in thread 3"
  std::string Clauses() const {
    std::string text;
    if (moment_) text += fmt::format(" at {}", moment_->v);
    if (thread_) text += fmt::format(" in thread {}", *thread_);
    return text;
  }

  // The frame that is chosen, and the line that it is at, as far as that can be said.
  void ShowWhere() {
    std::string text = moment_ ? fmt::format("at {}\n", moment_->v) : "";
    if (const auto stack = Rows("backtrace" + Clauses())) {
      text += FrameText(*stack, frame_);
      const auto source =
          Rows(fmt::format("source{} in frame {} | where current == 1", Clauses(), frame_), false);
      if (source) text += SourceText(*source);
    }
    ShowIfPython(&text);
    WriteOut(text);
  }

  void ShowIfPython(std::string* text) {
    if (const auto stack = Rows("py backtrace" + Clauses(), false); stack && !stack->rows.empty()) {
      *text += "py " + FrameText(*stack, py_frame_);
    }
  }

  void Frame(const std::string& command, const std::string& argument, uint64_t* frame,
             const std::string& stack_query) {
    std::optional<uint64_t> number = NumberOf(argument);
    if (argument.empty()) number = command == "frame" ? *frame : 1;
    if (!number) return Refuse(fmt::format("`{}` takes a number", command));
    uint64_t wanted = *number;
    if (command == "up") wanted = *frame + *number;
    if (command == "down") {
      if (*number > *frame) return Refuse("that is below the innermost frame");
      wanted = *frame - *number;
    }
    const std::optional<Answered> stack = Rows(stack_query + Clauses());
    if (!stack) return;
    if (wanted >= stack->rows.size()) {
      return Refuse(stack->rows.empty() ? "there is no frame"
                                        : fmt::format("there is no frame {}: the outermost is {}",
                                                      wanted, stack->rows.size() - 1));
    }
    *frame = wanted;
    std::string text = FrameText(*stack, wanted);
    if (frame == &frame_) {
      const auto source =
          Rows(fmt::format("source{} in frame {} | where current == 1", Clauses(), frame_), false);
      if (source) text += SourceText(*source);
    }
    WriteOut(text);
  }

  void Thread(const std::string& argument) {
    const std::optional<uint64_t> number = NumberOf(argument);
    if (!number) return Refuse("which thread? `threads` lists them");
    // That it is there, and where.
    const auto stack = Rows(fmt::format("backtrace{} in thread {}",
                                        moment_ ? fmt::format(" at {}", moment_->v) : "", *number));
    if (!stack) return;
    thread_ = *number;
    frame_ = py_frame_ = 0;
    WriteOut(FrameText(*stack, 0));
  }

  void Process(const std::string& argument) {
    if (argument.empty()) {
      std::string text;
      for (const ProcessInfo& p : recording_->processes()) {
        text += fmt::format("{} {:>3}  pid {:<7} {}\n",
                            p.number == engine_->process().info().number ? "=>" : "  ", p.number.v,
                            p.pid, Printable(p.program));
      }
      return WritePaged(text, options_.no_pager);
    }
    const absl::StatusOr<ProcessNo> number = ProcessNamed(*recording_, argument);
    if (!number.ok()) return Fail(ComplainOfProcess(number.status(), true));
    if (!engines_.contains(number->v)) {
      absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(recording_.get(), *number);
      if (!engine.ok()) return Fail(ComplainOfProcess(engine.status(), true));
      engines_[number->v] = *std::move(engine);
    }
    Ask(number->v);
    if (interactive_) WriteOut(Greeting());
  }

  // ---- Questions ----

  void Question(const std::string& typed) {
    if (const std::optional<size_t> row = OnlyRow(typed)) return ShowRow(*row);
    const absl::StatusOr<std::string> replaced = ReplaceRows(typed, columns_, rows_);
    if (!replaced.ok()) return Refuse(std::string(replaced.status().message()));
    const std::string& text = *replaced;
    absl::StatusOr<std::vector<ast::Query>> queries = ParseScript(text);
    if (!queries.ok()) {
      const std::optional<Diagnostic> d = GetDiagnostic(queries.status());
      if (d && d->message == "the query is empty") return;  // a comment
      return Report(queries.status(), text, 0);
    }
    for (ast::Query& query : *queries) {
      const bool moves = AddWhere(&query);
      AnswerOptions options{.format = FormatFor(options_.format, options_.limit, options_.wide),
                            .pager = !options_.no_pager,
                            .survive_interrupts = true,
                            .keep_rows = kKeptRows};
      options.format.numbered = options.format.terminal;
      if (!interactive_ && answered_any_ && options.format.format == Format::kTable) WriteOut("\n");
      answered_any_ = true;
      Answered answered = AnswerQuery(*recording_, *engine_, text, query, options);
      Fail(answered.exit_status);
      if (moves && !answered.rows.empty()) {
        if (const auto time = TimeOf(answered.columns, answered.rows[0])) {
          moment_ = *time;
          frame_ = py_frame_ = 0;
        }
      }
      if (answered.exit_status == kAnswered || !answered.rows.empty()) {
        columns_ = std::move(answered.columns);
        rows_ = std::move(answered.rows);
      }
      if (answered.exit_status == kInterrupted) break;
    }
  }

  // Adds the moment, the thread and the frame to a question that names none. Whether the answer is
  // where we are from then on.
  bool AddWhere(ast::Query* query) const {
    ast::Clauses& clauses = query->clauses;
    const unsigned takes = std::visit([](const auto& s) { return s.kClauses; }, query->source);
    const auto* accesses = std::get_if<ast::Accesses>(&query->source);
    if (!moment_ && !thread_ && frame_ == 0 && py_frame_ == 0) {
      // `next` is a step also without a moment: from the start.
      return accesses && accesses->mode == ast::Accesses::Mode::kNext && !clauses.span &&
             query->stages.empty();
    }
    const bool named = clauses.at || clauses.span || !(takes & ast::kAtClause);
    bool moves = false;
    if (!named) {
      if (moment_) clauses.at = TimeAt(*moment_);
      const bool python = std::string_view(ast::SourceName(query->source)).starts_with("py ");
      const uint64_t frame = python ? py_frame_ : frame_;
      if (frame > 0 && (takes & ast::kFrameClause) && !clauses.frame && !clauses.thread) {
        clauses.frame = ast::Numeral{.range = query->source_range, .value = frame};
      }
      // Of accesses a thread is a filter.
      if (thread_ && (takes & ast::kThreadClause) && !clauses.thread && !accesses) {
        clauses.thread = ast::ThreadFilter{.range = query->source_range, .number = *thread_};
      }
    }
    if (accesses && moment_ && !clauses.span) {
      using Mode = ast::Accesses::Mode;
      if (accesses->mode == Mode::kNext || accesses->mode == Mode::kLast) {
        clauses.span = ast::Span{.kind = accesses->mode == Mode::kNext ? ast::Span::Kind::kAfter
                                                                       : ast::Span::Kind::kBefore,
                                 .first = TimeAt(*moment_)};
        moves = query->stages.empty();
      }
    }
    return moves;
  }

  static ast::Time TimeAt(Time time) {
    ast::Time at;
    at.kind = ast::Time::Kind::kNumber;
    at.number = time.v;
    return at;
  }

  void ShowRow(size_t number) {
    if (number == 0 || number > rows_.size()) {
      return Refuse(
          fmt::format("the last answer has {} rows; there is no ${}", rows_.size(), number));
    }
    WritePaged(RowText(columns_, rows_[number - 1]), options_.no_pager);
  }

  ShellOptions options_;
  bool interactive_ = false, ended_ = false, answered_any_ = false;
  int worst_ = kAnswered;

  std::unique_ptr<Recording> recording_;
  std::map<uint32_t, std::unique_ptr<Engine>> engines_;  // by the process's number; they stay warm
  const Engine* engine_ = nullptr;
  Completer completer_;

  std::optional<Time> moment_;
  std::optional<uint64_t> thread_;
  uint64_t frame_ = 0, py_frame_ = 0;

  std::vector<Column> columns_;  // of the last answer
  std::vector<Row> rows_;
};

}  // namespace

int RunShell(int argc, char** argv) {
  CommandLine line("ttq shell");
  ShellOptions options;
  std::string option;
  line.Add("TRACE", &options.trace, "The recording: a path or a name of `ttq ls`");
  line.Add("-t,--trace", &option, "The same").Called("TRACE");
  line.Add("-p,--process", &options.process,
           "The process: its number in `ttq info`, its pid, or its program's name")
      .Called("P");
  line.Add("-f,--format", &options.format, "table, json, jsonl or csv")
      .OneOf({"table", "json", "jsonl", "csv"})
      .Called("FORMAT");
  line.Add("--limit", &options.limit, "Rows to print at most; 0: all").Called("N");
  line.AddFlag("--wide", &options.wide, "Cut nothing to the width of the terminal");
  AddPagerOption(line, &options.no_pager);
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  if (options.trace.empty()) options.trace = option;
  Shell shell(options);
  if (const std::optional<int> failed = shell.Start()) return *failed;
  return shell.Run();
}

}  // namespace ttq
