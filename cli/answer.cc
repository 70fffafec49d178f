// SPDX-License-Identifier: MIT

#include "cli/answer.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/terminal.h"
#include "store/read/moment_info.h"

namespace ttq {

FormatOptions FormatFor(const std::string& format, std::optional<uint64_t> limit, bool wide) {
  FormatOptions options;
  if (!format.empty()) options.format = *FormatFromName(format);
  options.terminal = IsTerminal(STDOUT_FILENO);
  options.colour = options.terminal && MovesCursor() && !getenv("NO_COLOR");
  if (options.terminal && !wide) options.width = SizeOfScreen(STDOUT_FILENO).columns;
  if (limit) {
    if (*limit > 0) options.limit = *limit;
  } else if (options.terminal) {
    options.limit = kTerminalLimit;
  }
  return options;
}

Answered AnswerQuery(const Recording& recording, const Engine& engine, std::string_view text,
                     const ast::Query& query, const AnswerOptions& options) {
  Answered answered;
  answered.history_unknown = HistoryUnknown(engine.process());
  const auto end = [&answered](int status) {
    answered.exit_status = status;
    return answered;
  };
  AnswerContext context;
  context.trace = recording.info().path;
  context.process = engine.process().info().number.v;
  context.query = std::string(text.substr(query.range.begin, query.range.end - query.range.begin));
  ScanControl control;
  const RunOptions run{.control = &control, .full_scan = options.full_scan};
  InterruptGuard guard(&control, options.survive_interrupts);
  Progress progress(&control);
  if (options.explain) {
    absl::StatusOr<std::string> plan = engine.Explain(query, run);
    progress.Stop();
    if (!plan.ok()) return end(ReportQueryError(plan.status(), text));
    WriteOut(*plan);
    return end(kAnswered);
  }
  absl::StatusOr<std::unique_ptr<ResultStream>> stream = engine.Run(query, run);
  if (!stream.ok()) {
    progress.Stop();
    return end(ReportQueryError(stream.status(), text));
  }
  answered.columns = (*stream)->columns();
  FormatOptions format = options.format;
  format.on_row = [&](const Row& row) {
    if (answered.rows.size() < options.keep_rows) answered.rows.push_back(row);
  };
  Pager pager({.enabled = options.pager && format.format == Format::kTable && !HeldOutput::IsOn(),
               .write = StdoutAfter(&progress),
               .on_start = [&] { progress.Stop(); },
               .on_quit = [&] { control.cancelled.store(true); }});
  AnswerSummary summary;
  const absl::Status status = WriteAnswer(
      **stream, context, format, [&](std::string_view piece) { pager.Write(piece); }, &summary);
  progress.Stop();
  pager.Finish();
  answered.row_count = summary.rows;
  if (!summary.remarks.empty()) Complain("note: " + summary.remarks, 0);
  if (!status.ok()) return end(ReportQueryError(status, text));
  if (summary.interrupted && !pager.quit()) {
    return end(Complain("interrupted: the answer is partial", kInterrupted));
  }
  return end(kAnswered);
}

}  // namespace ttq
