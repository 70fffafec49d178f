// SPDX-License-Identifier: MIT
//
// `ttq index`: makes the history of a recording that has its inputs only, or drops it.

#include <chrono>

#include "base/status_macros.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"
#include "query/sources/resolve.h"
#include "store/format/inputs_log.h"
#include "store/write/history.h"

namespace ttq {

namespace {

// The time that a word of --from or --to names, of the process that a question is about. What is
// not a number is known once there is some history.
absl::StatusOr<Time> TimeNamed(const std::string& directory, const std::string& word) {
  const std::string text = "registers at " + word;
  const absl::StatusOr<ast::Query> query = ParseQuery(text);
  const ast::Time* at = query.ok() && query->clauses.at ? &*query->clauses.at : nullptr;
  if (at == nullptr || at->kind == ast::Time::Kind::kQuery || !query->stages.empty() ||
      query->clauses.thread) {
    return absl::InvalidArgumentError(
        word + ": a time is a number, start, end or crash, perhaps with + N or - N");
  }
  if (at->kind == ast::Time::Kind::kNumber && at->offset == 0) return Time(at->number);
  ASSIGN_OR_RETURN(const std::unique_ptr<Recording> recording,
                   OpenWithHistory(directory, FileAccess::kRead, HistoryNeed::kLast));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Open(recording.get(), std::nullopt));
  const absl::StatusOr<Time> time = ResolveTime(engine->context(), *at, {});
  if (const std::optional<Diagnostic> said = GetDiagnostic(time.status())) {
    return absl::InvalidArgumentError(word + ": " + said->message);
  }
  return time;
}

}  // namespace

int RunIndex(int argc, char** argv) {
  CommandLine line("ttq index");
  TraceOption trace;
  std::string from, to;
  bool drop = false;
  HistoryWanted wanted;
  AddTraceOption(line, &trace);
  line.Add("--from", &from, "Of each process what happens from there on (default: start)")
      .Called("TIME");
  line.Add("--to", &to, "and before that (default: end)").Called("TIME");
  line.Add("-j,--jobs", &wanted.jobs, "Threads that index (default: one for each processor)")
      .Checked(WholeNumber(1, 256))
      .Called("N");
  line.AddFlag("--drop", &drop, "Take the history away, and leave the inputs");
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  const absl::StatusOr<std::string> directory = FindTrace(trace.name());
  if (!directory.ok()) return Complain(directory.status(), kUnreadable);
  if (drop) {
    if (!from.empty() || !to.empty()) {
      return Complain("--drop takes all of the history away: leave out --from and --to", kUsage);
    }
    const absl::Status dropped = DropHistory(*directory);
    return dropped.ok() ? int{kAnswered} : Complain(dropped, kUnreadable);
  }
  const auto has_all = [&] {
    return !HoldsInputsOnly(*directory) && !HistoryIsPartial(*directory);
  };
  if (has_all()) {
    WriteOut(fmt::format("{} has its history\n", Printable(*directory)));
    return kAnswered;
  }
  const auto started = std::chrono::steady_clock::now();
  for (const auto& [word, time] : {std::pair(&from, &wanted.span.begin), {&to, &wanted.span.end}}) {
    if (word->empty() || *word == (word == &from ? "start" : "end")) continue;
    const absl::StatusOr<Time> named = TimeNamed(*directory, *word);
    if (!named.ok()) {
      return Complain(named.status(),
                      absl::IsInvalidArgument(named.status()) ? kUsage : kUnreadable);
    }
    *time = *named;
  }
  if (wanted.span.empty()) return Complain("--to is not after --from", kUsage);
  if (const absl::Status s = EnsureHistory(*directory, wanted); !s.ok()) {
    return Complain(s, kUnreadable);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  WriteOut(fmt::format("made {} of {} in {:.1f} s\n",
                       has_all() ? "the history" : "a part of the history", Printable(*directory),
                       took.count()));
  return kAnswered;
}

}  // namespace ttq
