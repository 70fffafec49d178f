// SPDX-License-Identifier: MIT

#include "mcp/source.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "mcp/text.h"
#include "query/answers/moment.h"
#include "query/cpython/source_text.h"
#include "query/language/parser.h"
#include "store/read/moment_info.h"

namespace ttq::mcp {
namespace {

constexpr size_t kMaxRows = 20'000;
constexpr int kMaxLines = 80, kAround = 10, kBeyond = 2;

// An answer of few rows, by names.
struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string note;
  bool complete = true;

  const Value& At(size_t row, std::string_view name) const {
    static const Value* const kNone = new Value();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].name == name) return rows[row][i];
    }
    return *kNone;
  }
  int64_t Number(size_t row, std::string_view name) const {
    uint64_t magnitude = 0;
    bool negative = false;
    return At(row, name).AsNumber(&magnitude, &negative) && !negative
               ? static_cast<int64_t>(magnitude)
               : -1;
  }
  std::string Text(size_t row, std::string_view name) const {
    const std::string* text = At(row, name).get<std::string>();
    return text == nullptr ? "" : *text;
  }
};

class SourceView {
 public:
  SourceView(const Subject& subject, const SourceOptions& options, Call* call)
      : subject_(subject), options_(options), call_(call), files_(&subject.engine->process()) {}

  ToolResult Show() {
    const Deadline deadline(call_, std::chrono::duration_cast<Deadline::Clock::duration>(
                                       std::chrono::duration<double>(options_.budget_s)));
    if (absl::Status status = Find(); !status.ok()) {
      if (absl::IsCancelled(status)) return Fault("cancelled, or the budget was too small\n");
      return Fault(QuestionError(asked_, status, HistoryUnknown(subject_.engine->process())));
    }
    if (!found_) {
      return {fmt::format("{}: {} never ran\n", subject_.Title(), Printable(options_.place))};
    }
    if (absl::Status status = Count(); !status.ok()) {
      remarks_ +=
          absl::IsCancelled(status)
              ? "note: no counts: the budget ended before the activation was read\n"
              : fmt::format("note: no counts: {}\n", Printable(std::string(status.message())));
    }
    return {Text()};
  }

 private:
  const char* Py() const { return options_.python ? "py " : ""; }

  absl::StatusOr<Table> AskFor(const std::string& question) {
    asked_ = question;
    ASSIGN_OR_RETURN(const ast::Query query, ParseQuery(question));
    const RunOptions run{.control = call_->control()};
    ASSIGN_OR_RETURN(const auto stream, subject_.engine->Run(query, run));
    Table table;
    table.columns = stream->columns();
    Row row;
    while (table.rows.size() < kMaxRows) {
      ASSIGN_OR_RETURN(const bool more, stream->Next(&row));
      if (!more) break;
      table.rows.push_back(row);
    }
    if (stream->interrupted()) return absl::CancelledError("interrupted");
    table.note = stream->note();
    table.complete = stream->complete() && table.rows.size() < kMaxRows;
    return table;
  }

  // The moment, and the frame there.
  absl::Status Find() {
    if (!options_.place.empty()) {
      ASSIGN_OR_RETURN(const Table ran,
                       AskFor(fmt::format("{}executions of {} | first 1", Py(), options_.place)));
      if (!ran.note.empty()) remarks_ += "note: " + Printable(ran.note) + "\n";
      if (ran.rows.empty()) return absl::OkStatus();
      time_ = static_cast<uint64_t>(ran.Number(0, "time"));
      return TakeFrame(ran, 0);
    }
    asked_ = kMomentQuestion + options_.time;
    ASSIGN_OR_RETURN(const Time time, MomentOf(*subject_.engine, options_.time, call_->control()));
    time_ = time.v;
    ASSIGN_OR_RETURN(const Table stack, AskFor(fmt::format("{}backtrace at {}", Py(), time_)));
    frames_ = stack.rows.size();
    if (frames_ == 0) {
      return absl::NotFoundError(options_.python ? "no Python code runs there"
                                                 : "there is no stack");
    }
    if (options_.frame >= frames_) {
      return absl::InvalidArgumentError(
          fmt::format("there is no frame {}; the last is {}", options_.frame, frames_ - 1));
    }
    return TakeFrame(stack, options_.frame);
  }

  absl::Status TakeFrame(const Table& table, size_t row) {
    found_ = true;
    function_ = table.Text(row, "function");
    file_ = table.Text(row, "file");
    line_ = static_cast<int>(table.Number(row, "line"));
    if (file_.empty() || line_ <= 0) {
      return absl::NotFoundError(
          fmt::format("{} has no line information; `disassemble ADDRESS` shows its instructions",
                      function_.empty() ? "the code there" : function_));
    }
    return absl::OkStatus();
  }

  // How often each line ran in the activation.
  absl::Status Count() {
    uint64_t entered = time_;
    if (options_.frame > 0) {
      // The call that is as deep as the frame and was not over yet.
      ASSIGN_OR_RETURN(const Table calls, AskFor(fmt::format("{}calls to `{}` before {} | last 50",
                                                             Py(), function_, time_ + 1)));
      std::optional<uint64_t> call;
      for (size_t i = calls.rows.size(); i-- > 0 && !call;) {
        const int64_t returned = calls.Number(i, "return_time"), depth = calls.Number(i, "depth");
        if (returned >= 0 && static_cast<uint64_t>(returned) <= time_) continue;
        if (depth >= 0 && static_cast<uint64_t>(depth) + options_.frame + 1 != frames_) continue;
        call = static_cast<uint64_t>(calls.Number(i, "time"));
      }
      if (!call) return absl::NotFoundError("the frame's call was not found");
      entered = *call;
    }
    ASSIGN_OR_RETURN(const Table trace, AskFor(fmt::format("{}trace of ({}) | select time, depth, "
                                                           "file, line, times, function",
                                                           Py(), entered)));
    for (size_t i = 0; i < trace.rows.size(); ++i) {
      const int line = static_cast<int>(trace.Number(i, "line"));
      if (trace.Number(i, "depth") != 0 || line <= 0 || trace.Text(i, "file") != file_) continue;
      counts_[line] += std::max<int64_t>(1, trace.Number(i, "times"));
      if (i == 0) entered_ = static_cast<uint64_t>(trace.Number(i, "time"));
    }
    if (!trace.complete || trace.rows.size() == kMaxRows) {
      remarks_ +=
          "note: the counts are of a part of the activation: " + Printable(trace.note) + "\n";
    } else if (!trace.note.empty()) {
      remarks_ += "note: " + Printable(trace.note) + "\n";
    }
    if (!counts_.empty() && counts_.find(line_) == counts_.end() && options_.place.empty()) {
      remarks_ +=
          "note: the line itself has no count: the compiler mixed it with its neighbours, or "
          "inlined code into it\n";
    }
    return absl::OkStatus();
  }

  std::string Text() {
    std::string text = fmt::format("{}: {} in {}, at {}", subject_.Title(), Quoted(function_),
                                   Quoted(file_), time_);
    if (entered_) text += fmt::format("; the activation whose first line ran at {}", *entered_);
    text += counts_.empty() ? "\n" : "; line, times it ran, text (=> is the line then)\n";
    int first = line_ - kAround, last = line_ + kAround;
    if (!counts_.empty()) {
      first = std::min(line_, counts_.begin()->first) - kBeyond;
      last = std::max(line_, counts_.rbegin()->first) + kBeyond;
    }
    if (last - first >= kMaxLines) {
      first = std::max(first, line_ - kMaxLines / 2);
      last = std::min(last, first + kMaxLines - 1);
      if (!counts_.empty() && (counts_.begin()->first < first || counts_.rbegin()->first > last)) {
        remarks_ += fmt::format("note: lines {} to {} ran; these are those around\n",
                                counts_.begin()->first, counts_.rbegin()->first);
      }
    }
    first = std::max(first, 1);
    const std::vector<std::string>* lines = files_.Lines(file_);
    if (lines == nullptr) {
      remarks_ += "note: the file is not there: lines have no text\n";
      // Only those that ran say something.
      for (const auto& [line, times] : counts_) {
        if (line >= first && line <= last) LineText(line, times, "", &text);
      }
    } else {
      last = std::min(last, static_cast<int>(lines->size()));
      for (int line = first; line <= last; ++line) {
        const auto times = counts_.find(line);
        LineText(line, times == counts_.end() ? 0 : times->second,
                 (*lines)[static_cast<size_t>(line) - 1], &text);
      }
    }
    for (const std::string& remark : files_.remarks()) {
      remarks_ += "note: " + Printable(remark) + "\n";
    }
    return Fit(text + Fit(remarks_, 1500));
  }

  void LineText(int line, int64_t times, std::string_view source, std::string* out) const {
    std::string shown = Printable(source);
    if (shown.size() > kMaxCell) shown = Quoted(source);
    Append(out, line == line_ ? "=> " : "   ", line, times > 0 ? fmt::format(" ×{}", times) : "",
           " | ", shown, "\n");
  }

  const Subject& subject_;
  const SourceOptions& options_;
  Call* const call_;
  python::SourceText files_;
  std::string asked_, function_, file_, remarks_;
  bool found_ = false;
  int line_ = 0;
  uint64_t time_ = 0;
  size_t frames_ = 0;
  std::optional<uint64_t> entered_;
  std::map<int, int64_t> counts_;
};

}  // namespace

ToolResult ShowSource(const Subject& subject, const SourceOptions& options, Call* call) {
  return SourceView(subject, options, call).Show();
}

}  // namespace ttq::mcp
