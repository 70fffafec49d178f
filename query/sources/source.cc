// SPDX-License-Identifier: MIT
//
// `source`: the lines around the one that a frame is at, from the file on disk.

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/ctypes/expression_at.h"
#include "query/language/diagnostic.h"
#include "query/process/stack.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

constexpr int kLinesAround = 5;
constexpr size_t kMaxLine = 1000;
constexpr int kMaxLines = 10000000;

struct SourceLine {
  int line;
  std::string text;
};

// The lines [first, last] of a text file; fewer where it ends.
std::vector<SourceLine> ReadLines(std::ifstream& file, int first, int last) {
  std::vector<SourceLine> lines;
  std::string text;
  for (int n = 1; n <= std::min(last, kMaxLines) && std::getline(file, text); ++n) {
    if (n < first) continue;
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.size() > kMaxLine) text.resize(kMaxLine);
    lines.push_back({n, text});
  }
  return lines;
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::ShowSource&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  ASSIGN_OR_RETURN(std::optional<uint32_t> inlined, InlinedAt(query.clauses.at, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process.At(at));
  const uint64_t number = query.clauses.frame ? query.clauses.frame->value : 0;
  absl::StatusOr<FrameView> view = FrameAt(context, moment.get(), thread, number, inlined);
  if (absl::IsOutOfRange(view.status()) && query.clauses.frame) {
    return ErrorAt(query.clauses.frame->range, std::string(view.status().message()));
  }
  if (absl::IsNotFound(view.status())) {
    return ErrorAt(query.clauses.thread ? query.clauses.thread->range : query.source_range,
                   std::string(view.status().message()));
  }
  if (!view.ok()) return view.status();
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(at));
  const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(view->pc);
  std::string path = location->file;
  int current = location->line;
  if (view->inlined < location->frames.size()) {
    path = location->frames[view->inlined].file;
    current = location->frames[view->inlined].line;
  }

  SourcePlan plan;
  Add(&plan, "line", Type::kInteger);
  Add(&plan, "text", Type::kString);
  Add(&plan, "current", Type::kInteger);
  Add(&plan, "file", Type::kString);
  plan.presentation.table_columns = {"current", "line", "text"};
  const std::string where = Cat(symbols->NameOf(view->pc),
                                symbols->NameOf(view->pc).empty() ? "" : " ", "at ", Hex(view->pc));
  std::vector<Row> rows;
  if (path.empty() || current <= 0) {
    plan.presentation.no_rows = Cat("no module says which line ", where, " is of");
    const Module* module = symbols->ModuleAt(view->pc);
    if (module && module->file() && module->file()->dwarf() == nullptr) {
      plan.presentation.no_rows = Cat(module->name(), " has no debug information: which line ",
                                      where, " is of is not known");
    }
    plan.notes.push_back(plan.presentation.no_rows);
  } else {
    struct stat status;
    std::ifstream file;
    // A device or a pipe would not end.
    if (stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) file.open(path);
    if (!file.is_open()) {
      plan.notes.push_back(Cat(path, " is not there: line ", current, " cannot be shown"));
      rows.push_back({int64_t{current}, Null{}, int64_t{1}, path});
    } else {
      const std::vector<SourceLine> lines =
          ReadLines(file, std::max(1, current - kLinesAround), current + kLinesAround);
      const int64_t recorded = process.info().start_wall_ns / 1000000000;
      if (recorded > 0 && status.st_mtim.tv_sec > recorded) {
        plan.notes.push_back(
            Cat(path, " was changed after the recording was made: lines may have moved"));
      }
      if (lines.empty() || lines.back().line < current) {
        plan.notes.push_back(
            Cat(path, " has no line ", current, ": it is not the file that was compiled"));
      }
      for (const SourceLine& line : lines) {
        rows.push_back({int64_t{line.line}, line.text,
                        line.line == current ? Value(int64_t{1}) : Value(int64_t{0}), path});
      }
    }
  }
  SetCompute(
      &plan, [rows]() -> absl::StatusOr<std::vector<Row>> { return rows; },
      fmt::format("source at time {}: the line table and the file", at.v));
  return plan;
}

}  // namespace ttq
