// SPDX-License-Identifier: MIT
//
// What gdb's command `monitor` passes on: questions in ttq's language, and moves in time.

#include "fmt/core.h"
#include "gdb/stub.h"
#include "query/answers/format.h"
#include "query/answers/moment.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace ttq::gdb {
namespace {

constexpr uint64_t kMaxRows = 200;

constexpr char kHelp[] =
    R"(monitor ttq QUERY     a question in ttq's language; $now is the time here
monitor when          the time here
monitor seek TIME     go there: a number, start, end, crash, (QUERY), TIME + N.
                      Then type: maintenance flush register-cache, sharedlibrary
)";

std::string Message(const absl::Status& status, std::string_view query) {
  if (const std::optional<Diagnostic> diagnostic = GetDiagnostic(status)) {
    return RenderDiagnostic(query, *diagnostic);
  }
  return std::string(status.message()) + "\n";
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::string Stub::When() {
  const Position& now = timeline_->now();
  const ProcessInfo& info = timeline_->process().info();
  std::string text =
      fmt::format("time {} of {}, thread {}", now.time.v, info.end.v, timeline_->stop().thread.v);
  if (now.phase == Position::Phase::kBeforeHandler) text += ", before a signal's handler";
  return text + "\n";
}

std::string Stub::Ask(const std::string& query, ScanControl* control) {
  std::string text = query;
  const std::string now = fmt::format("{}", timeline_->now().time.v);
  for (size_t at = text.find("$now"); at != std::string::npos; at = text.find("$now", at)) {
    text.replace(at, 4, now);
  }
  const absl::StatusOr<ast::Query> parsed = ParseQuery(text);
  if (!parsed.ok()) return Message(parsed.status(), text);
  const RunOptions run{.control = control};
  const absl::StatusOr<std::unique_ptr<ResultStream>> stream = engine_.Run(*parsed, run);
  if (!stream.ok()) return Message(stream.status(), text);
  std::string answer;
  AnswerContext context;
  context.trace = recording_.info().path;
  context.process = engine_.process().info().number.v;
  context.query = text;
  FormatOptions options;
  options.format = Format::kTable;
  options.limit = kMaxRows;
  AnswerSummary summary;
  const absl::Status status = WriteAnswer(
      **stream, context, options, [&](std::string_view piece) { answer += piece; }, &summary);
  if (!status.ok()) answer += Message(status, text);
  if (summary.interrupted) answer += "interrupted\n";
  return answer;
}

absl::StatusOr<Time> Stub::TimeOf(const std::string& text, ScanControl* control) {
  return MomentOf(engine_, text, control);
}

std::string Stub::MonitorText(const std::string& command, ScanControl* control) {
  Fields fields(Trimmed(command));
  const std::string_view word = fields.Until(' ');
  const std::string rest(Trimmed(fields.rest()));
  if (word == "when") return When();
  if (word == "ttq" && !rest.empty()) return Ask(rest, control);
  // `jump` is for ttq's script in gdb, which goes on with a step: gdb then looks at everything
  // anew.
  if ((word == "seek" || word == "jump") && !rest.empty()) {
    const absl::StatusOr<Time> time = TimeOf(rest, control);
    if (!time.ok()) return Message(time.status(), kMomentQuestion + rest);
    if (*time > timeline_->process().info().end) {
      return fmt::format("time {} is past the end of the recording, {}\n", time->v,
                         timeline_->process().info().end.v);
    }
    if (word == "jump") {
      jump_ = *time;
      return "";
    }
    if (const absl::Status status = timeline_->Seek(*time); !status.ok()) {
      return Message(status, "");
    }
    selected_ = selected_to_run_ = ThreadNo();
    return When() + "now type: maintenance flush register-cache\n";
  }
  return kHelp;
}

std::string Stub::Monitor(std::string_view hex, ScanControl* control, const Send& send) {
  const std::optional<std::string> command = FromHex(hex);
  if (!command) return "E01";
  const std::string text = MonitorText(*command, control);
  constexpr size_t kPiece = kMaxPacket / 4;
  for (size_t i = 0; i < text.size(); i += kPiece) {
    send("O" + ToHex(std::string_view(text).substr(i, kPiece)));
  }
  return "OK";
}

}  // namespace ttq::gdb
