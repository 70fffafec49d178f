// SPDX-License-Identifier: MIT
//
// What gdb's command `monitor` passes on: questions in ttq's language, and moves in time.

#include <algorithm>
#include <charconv>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "gdb/stub.h"
#include "query/answers/format.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace ttq::gdb {
namespace {

constexpr uint64_t kMaxRows = 200;

// What a time is, the language knows: the moment that this query is about.
const std::string kAt = "registers at ";

constexpr char kHelp[] =
    R"(monitor ttq QUERY     a question in ttq's language; $now is the time here
monitor when          the time here
monitor seek TIME     go there: a number, start, end, crash, (QUERY), TIME + N.
                      Then type: maintenance flush register-cache
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
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return Time(number);
  ASSIGN_OR_RETURN(const ast::Query query, ParseQuery(kAt + text));
  const RunOptions run{.control = control};
  ASSIGN_OR_RETURN(const std::unique_ptr<ResultStream> stream, engine_.Run(query, run));
  const auto& columns = stream->columns();
  const auto time = std::find_if(columns.begin(), columns.end(),
                                 [](const Column& column) { return column.name == "time"; });
  Row row;
  ASSIGN_OR_RETURN(const bool any, stream->Next(&row));
  const Time* found = !any || time == columns.end()
                          ? nullptr
                          : row[static_cast<size_t>(time - columns.begin())].get<Time>();
  if (found == nullptr) return absl::NotFoundError("there is no such time");
  return *found;
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
    if (!time.ok()) return Message(time.status(), kAt + rest);
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
