// SPDX-License-Identifier: MIT
//
// `ttq export`: an answer as a file that other tools load.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "fmt/core.h"
#include "query/answers/columns.h"
#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace ttq {
namespace {

int Refuse(const absl::Status& status, std::string_view query) {
  if (const std::optional<Diagnostic> diagnostic = GetDiagnostic(status)) {
    fputs(RenderDiagnostic(query, *diagnostic).c_str(), stderr);
    return kUsage;
  }
  if (absl::IsCancelled(status)) return Complain("interrupted", kInterrupted);
  return Complain(status, absl::IsInvalidArgument(status) ? kUsage : kUnreadable);
}

// Takes itself away unless it is kept.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  absl::Status KeepAs(const std::string& name) {
    if (rename(path_.c_str(), name.c_str()) != 0) {
      return absl::ErrnoToStatus(errno, "cannot write " + name);
    }
    path_.clear();
    return absl::OkStatus();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

int RunExport(int argc, char** argv) {
  CommandLine line("ttq export");
  std::string trace, to, output, query;
  std::string process;
  FormatOptions format;
  line.Add("-t,--trace", &trace, "The recording: a path or a name of `ttq ls`").Called("TRACE");
  line.Add("-p,--process", &process,
           "The process: its number in `ttq info`, its pid, or its program's name")
      .Called("N");
  line.Add("--to", &to, "jsonl, csv, parquet or arrow")
      .OneOf({"jsonl", "csv", "parquet", "arrow"})
      .Required()
      .Called("FORMAT");
  line.AddFlag("--csv-safe", &format.csv_safe,
               "csv: put an apostrophe before texts that a spreadsheet would take for formulas");
  line.Add("-o,--output", &output, "The file").Required().Called("FILE");
  line.Add("QUERY", &query, "The query, as one word").Required();
  if (const std::optional<int> done = ParseArguments(line, Arguments(argc, argv))) return *done;
  absl::StatusOr<ast::Query> parsed = ParseQuery(query);
  if (!parsed.ok()) return Refuse(parsed.status(), query);
  Asked asked;
  if (const std::optional<int> failed = OpenAsked(trace, process, &asked)) return *failed;
  ScanControl control;
  InterruptGuard guard(&control);
  Progress progress(&control);
  absl::StatusOr<std::unique_ptr<ResultStream>> stream =
      asked.engine->Run(*parsed, {.control = &control});
  if (!stream.ok()) return Refuse(stream.status(), query);

  // Nothing appears under the name until it is whole.
  Temporary rows(output + ".new");
  FILE* out = fopen(rows.path().c_str(), "we");
  if (!out) return Complain(fmt::format("cannot write {}: {}", output, strerror(errno)), kUsage);
  AnswerContext context;
  AnswerSummary summary;
  format.format = to == "csv" ? Format::kCsv : Format::kJsonLines;
  const Sink sink = [&](std::string_view piece) { fwrite(piece.data(), 1, piece.size(), out); };
  const bool columns = to == "parquet" || to == "arrow";
  const absl::Status status = columns ? WriteColumns(**stream, to, sink, &summary)
                                      : WriteAnswer(**stream, context, format, sink, &summary);
  const bool written = ferror(out) == 0;
  if (fclose(out) != 0 || !written) {
    return Complain(fmt::format("cannot write {}: {}", output, strerror(errno)), kUnreadable);
  }
  if (!status.ok()) return Refuse(status, query);
  if (summary.interrupted) return Complain("interrupted", kInterrupted);
  if (const absl::Status kept = rows.KeepAs(output); !kept.ok()) {
    return Complain(kept, kUnreadable);
  }
  if (!summary.remarks.empty()) Complain("note: " + summary.remarks, 0);
  return kAnswered;
}

}  // namespace ttq
