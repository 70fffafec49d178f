// SPDX-License-Identifier: MIT
//
// `ttq batch`: named questions with expectations, asked of many recordings.

#include "batch/batch.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "batch/questions.h"
#include "batch/report.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/page.h"
#include "fmt/core.h"

namespace ttq {
namespace {

// What a result is about; its trace by the real path, so that a resumed batch may name it
// otherwise.
using Key = std::tuple<std::string, std::string, std::string, std::string>;
Key KeyOf(const BatchResult& r) { return {r.trace, r.question, r.query, r.expect}; }

// Results of an earlier run that was cut short, and of this one as they come.
class Journal {
 public:
  absl::Status Open(const std::string& path) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      std::optional<BatchResult> result = FromJsonLine(line);
      // A line cut short is the last thing a killed run wrote.
      if (!result || result->verdict == Verdict::kUnreadable) continue;
      known_.push_back(*std::move(result));
      keys_.insert(KeyOf(known_.back()));
    }
    // Begins in a new line whatever the last one was.
    file_ = fopen(path.c_str(), "ae");
    if (!file_) {
      return absl::InvalidArgumentError(fmt::format("cannot write {}: {}", path, strerror(errno)));
    }
    if (!known_.empty()) fputs("\n", file_);
    return absl::OkStatus();
  }
  ~Journal() {
    if (file_) fclose(file_);
  }
  const std::vector<BatchResult>& known() const { return known_; }
  bool Knows(const Key& key) const { return keys_.contains(key); }
  absl::Status Add(const BatchResult& result) {
    if (!file_) return absl::OkStatus();
    if (fputs((ToJsonLine(result) + "\n").c_str(), file_) < 0 || fflush(file_) != 0) {
      return absl::ErrnoToStatus(errno, "cannot write the file of --resume");
    }
    return absl::OkStatus();
  }

 private:
  FILE* file_ = nullptr;
  std::vector<BatchResult> known_;
  std::set<Key> keys_;
};

std::string RealPath(const std::string& path) {
  std::error_code ec;
  const std::filesystem::path real = std::filesystem::canonical(path, ec);
  return ec ? path : real.string();
}

// A page for each of the recordings, in `directory`. False: one could not be written.
bool WritePages(const std::set<std::string>& traces, const std::string& directory) {
  std::error_code ec;
  std::filesystem::create_directories(directory, ec);
  bool all = true;
  for (const std::string& trace : traces) {
    std::string name = std::filesystem::path(trace).filename().string();
    if (name.ends_with(".ttq")) name.resize(name.size() - 4);
    all = WritePage(trace, (std::filesystem::path(directory) / (name + ".html")).string()) && all;
  }
  return all;
}

int ExitStatusOf(const std::set<Verdict>& seen) {
  if (seen.contains(Verdict::kUnreadable)) return kUnreadable;
  return seen.contains(Verdict::kNotMet) || seen.contains(Verdict::kFailed) ? kNoRows : kAnswered;
}

}  // namespace

int RunBatchCommand(int argc, char** argv) {
  CommandLine line("ttq batch");
  std::vector<std::string> names;
  std::string format_name = "table", output, resume;
  BatchOptions options;
  BatchStyle style;
  line.Add("files", &names, "Files of questions (.yaml, .yml, .ttql) and recordings").Required();
  line.Add("-f,--format", &format_name, "table, jsonl or junit")
      .OneOf({"table", "jsonl", "junit"})
      .Called("FORMAT");
  line.Add("-o,--output", &output, "Write there instead of to stdout").Called("FILE");
  line.AddFlag("-v,--verbose", &style.verbose, "Show the answers that are as expected, too");
  line.Add("-j,--jobs", &options.jobs, "Questions at a time (default: one per core)").Called("N");
  std::string pages;
  line.Add("--report", &pages, "For each recording that is not as expected, a page there")
      .Called("DIR");
  line.Add("--resume", &resume,
           "Keep results in this file, and do not ask again what it knows already")
      .Called("FILE");
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;

  std::vector<Question> questions;
  std::vector<std::string> traces;
  for (const std::string& name : names) {
    if (IsQuestionFile(name)) {
      absl::StatusOr<std::vector<Question>> loaded = LoadQuestions(name);
      if (!loaded.ok()) return Complain(loaded.status(), kUsage);
      for (Question& question : *loaded) questions.push_back(std::move(question));
      continue;
    }
    // One that does not exist is reported as unreadable, like any other.
    absl::StatusOr<std::string> trace = FindTrace(name);
    traces.push_back(RealPath(trace.ok() ? *trace : name));
  }
  if (questions.empty()) return Complain("batch: no file of questions was given", kUsage);
  if (traces.empty()) return Complain("batch: no recording was given", kUsage);

  Journal journal;
  if (!resume.empty()) {
    if (absl::Status s = journal.Open(resume); !s.ok()) return Complain(s, kUsage);
  }
  FILE* out = stdout;
  const std::string temporary = output + ".new";
  if (!output.empty()) {
    out = fopen(temporary.c_str(), "we");
    if (!out) return Complain(fmt::format("cannot write {}: {}", output, strerror(errno)), kUsage);
  }
  const BatchFormat format = format_name == "jsonl"   ? BatchFormat::kJsonLines
                             : format_name == "junit" ? BatchFormat::kJunit
                                                      : BatchFormat::kTable;
  style.colour = output.empty() && IsTerminal(STDOUT_FILENO) && !getenv("NO_COLOR");
  for (const Question& question : questions) style.questions.push_back(question.name);
  const std::unique_ptr<BatchReport> report =
      MakeBatchReport(format, style, [&](std::string_view piece) {
        if (output.empty()) {
          WriteOut(piece);
        } else {
          fwrite(piece.data(), 1, piece.size(), out);
        }
      });

  std::set<Verdict> seen;
  std::set<std::string> failing;  // recordings that can be read
  const auto note = [&](const BatchResult& result) {
    seen.insert(result.verdict);
    const bool fails = result.verdict == Verdict::kNotMet || result.verdict == Verdict::kFailed;
    if (fails) failing.insert(result.trace);
  };
  absl::Status journal_status;
  std::set<Key> wanted;
  for (const std::string& trace : traces) {
    for (const Question& q : questions) wanted.insert({trace, q.name, q.text, q.expect.text});
  }
  for (const BatchResult& result : journal.known()) {
    if (wanted.erase(KeyOf(result)) == 0) continue;  // of another batch, or said already
    note(result);
    report->Add(result);
  }
  ScanControl control;
  options.control = &control;
  options.skip = [&](const std::string& trace, const Question& q) {
    return !wanted.contains(Key{trace, q.name, q.text, q.expect.text});
  };
  absl::Status status;
  // The table comes at the end: somebody who waits sees how far it is.
  const bool counts = format == BatchFormat::kTable && IsTerminal(STDERR_FILENO);
  size_t answers = 0;
  {
    InterruptGuard guard(&control);
    status = RunBatch(questions, traces, options, [&](const BatchResult& result) {
      if (counts) fmt::print(stderr, "\r\x1b[K{} of {} answers", ++answers, wanted.size());
      note(result);
      if (absl::Status s = journal.Add(result); !s.ok() && journal_status.ok()) journal_status = s;
      report->Add(result);
    });
  }
  if (answers > 0) fputs("\r\x1b[K", stderr);
  report->Finish();
  if (!output.empty()) {
    const bool written = ferror(out) == 0;
    if (fclose(out) != 0 || !written || rename(temporary.c_str(), output.c_str()) != 0) {
      return Complain(fmt::format("cannot write {}: {}", output, strerror(errno)), kUnreadable);
    }
  }
  if (!journal_status.ok()) Complain(journal_status, kUnreadable);
  if (absl::IsCancelled(status)) {
    return Complain(resume.empty() ? "interrupted" : "interrupted; run it again to go on",
                    kInterrupted);
  }
  if (!pages.empty() && !WritePages(failing, pages)) return kUnreadable;
  return ExitStatusOf(seen);
}

}  // namespace ttq
