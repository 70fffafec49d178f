// SPDX-License-Identifier: MIT

#include "mcp/ask.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "mcp/text.h"
#include "query/answers/format.h"
#include "query/answers/moment.h"
#include "query/answers/table.h"
#include "query/language/ast.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"
#include "store/read/moment_info.h"

namespace ttq::mcp {
namespace {

using Clock = Deadline::Clock;

// How long the rows behind the limit are counted.
constexpr std::chrono::milliseconds kCounting(1500);
constexpr size_t kFramesOfRow = 12, kElementsOfList = 24;

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// ---- Which questions can go on from a time ----------------------------------------------------

// Rows come in the order of time, and each says the same whatever the question's span is.
bool InOrderOfTime(const ast::Query& query) {
  const ast::Source& source = query.source;
  if (const auto* accesses = std::get_if<ast::Accesses>(&source)) {
    if (accesses->mode != ast::Accesses::Mode::kAll) return false;
  } else if (!std::holds_alternative<ast::Events>(source) &&
             !std::holds_alternative<ast::Executions>(source) &&
             !std::holds_alternative<ast::Calls>(source) &&
             !std::holds_alternative<ast::PyCalls>(source) &&
             !std::holds_alternative<ast::PyExecutions>(source) &&
             !std::holds_alternative<ast::PyChanges>(source)) {
    return false;
  }
  return std::all_of(query.stages.begin(), query.stages.end(), [](const ast::Stage& stage) {
    return std::holds_alternative<ast::Where>(stage.what) ||
           std::holds_alternative<ast::Select>(stage.what) ||
           std::holds_alternative<ast::WithBacktrace>(stage.what) ||
           std::holds_alternative<ast::WithPyBacktrace>(stage.what);
  });
}

// Whether its rows are of all that came, so that they mean little when not all did.
bool IsOfAll(const ast::Query& query) {
  return std::any_of(query.stages.begin(), query.stages.end(), [](const ast::Stage& stage) {
    return std::holds_alternative<ast::Sort>(stage.what) ||
           std::holds_alternative<ast::Last>(stage.what) ||
           std::holds_alternative<ast::Count>(stage.what) ||
           std::holds_alternative<ast::Distinct>(stage.what);
  });
}

// [begin, end) of a question's span, in numbers.
struct Window {
  uint64_t begin = 0;
  std::optional<uint64_t> end;
};

ast::Time TimeNumber(uint64_t t) {
  ast::Time time;
  time.number = t;
  return time;
}

ast::Span SpanOf(const Window& window) {
  ast::Span span;
  if (window.end) {
    span.kind = ast::Span::Kind::kBetween;
    span.first = TimeNumber(window.begin);
    span.second = TimeNumber(*window.end);
  } else {
    span.kind = ast::Span::Kind::kAfter;
    span.first = TimeNumber(window.begin - 1);
  }
  return span;
}

// ---- Pulling rows -----------------------------------------------------------------------------

class Asking {
 public:
  Asking(const Subject& subject, const std::string& question, const AskOptions& options, Call* call)
      : subject_(subject), question_(question), options_(options), call_(call) {}

  ToolResult Answer() {
    if (absl::Status status = Run(); !status.ok()) {
      if (call_->cancelled()) return Fault("cancelled");
      if (absl::IsCancelled(status)) {
        return Fault(
            fmt::format("{}: nothing yet after {} s. Give a larger budget_s, or ask about less "
                        "(before TIME, after TIME, between TIME and TIME).\n",
                        subject_.Title(), RealText(options_.budget_s, false)));
      }
      return Fault(QuestionError(question_, status, HistoryUnknown(subject_.engine->process())));
    }
    return {Text()};
  }

 private:
  absl::Status Run() {
    ASSIGN_OR_RETURN(cursor_, ParseCursor(options_.after));
    ASSIGN_OR_RETURN(query_, ParseQuery(question_));
    in_order_ = InOrderOfTime(query_);
    if (cursor_.time && !in_order_) {
      return absl::InvalidArgumentError(
          "after takes no time for this question, whose rows are not in the order of time; it "
          "takes "
          "what `more` said, #N, the rows after the first N");
    }
    const auto end = Clock::now() + Seconds(options_.budget_s);
    {
      // Where nothing comes of the whole, a part of the budget is left for less than the whole.
      Deadline deadline(call_, Seconds(options_.budget_s * (in_order_ ? 0.7 : 1)));
      if (in_order_) RETURN_IF_ERROR(FindWindow());
      if (nothing_left_) return absl::OkStatus();
      const absl::Status status = Pull(&deadline);
      if (absl::IsCancelled(status) && in_order_) {
        interrupted_ = true;
      } else {
        RETURN_IF_ERROR(status);
      }
    }
    if (call_->cancelled()) return absl::CancelledError("cancelled");
    if (!interrupted_ || !rows_.empty() || !in_order_) return absl::OkStatus();
    return SearchInParts(end);
  }

  // Narrows the question's span to what `after` asks for.
  absl::Status FindWindow() {
    const auto number = [&](const ast::Time& time) -> absl::StatusOr<uint64_t> {
      ASSIGN_OR_RETURN(const Time t,
                       MomentOf(*subject_.engine, ast::ToString(time), call_->control()));
      return t.v;
    };
    if (!cursor_.time) return absl::OkStatus();
    if (query_.clauses.span) {
      const ast::Span& span = *query_.clauses.span;
      ASSIGN_OR_RETURN(const uint64_t first, number(span.first));
      if (span.kind == ast::Span::Kind::kBefore) window_.end = first;
      if (span.kind == ast::Span::Kind::kAfter) window_.begin = first + 1;
      if (span.kind == ast::Span::Kind::kBetween) {
        window_.begin = first;
        ASSIGN_OR_RETURN(window_.end, number(*span.second));
      }
    }
    window_.begin = std::max(window_.begin, *cursor_.time + (cursor_.inclusive ? 0 : 1));
    nothing_left_ =
        (window_.end && *window_.end <= window_.begin) || window_.begin > subject_.process().end.v;
    if (window_.begin > 0 || window_.end) query_.clauses.span = SpanOf(window_);
    return absl::OkStatus();
  }

  absl::Status Pull(Deadline* deadline) {
    const RunOptions run{.control = call_->control()};
    // A question whose work is done before its rows come ends as Cancelled.
    ASSIGN_OR_RETURN(stream_, subject_.engine->Run(query_, run));
    const std::vector<Column>& columns = stream_->columns();
    const auto time = std::find_if(columns.begin(), columns.end(),
                                   [](const Column& column) { return column.name == "time"; });
    time_ = static_cast<size_t>(time - columns.begin());
    uint64_t to_skip = cursor_.skip;
    uint64_t before = 0;
    Row row;
    while (true) {
      absl::StatusOr<bool> more = stream_->Next(&row);
      if (absl::IsCancelled(more.status())) break;
      RETURN_IF_ERROR(more.status());
      if (!*more) break;
      const Time* t = time_ < columns.size() ? row[time_].get<Time>() : nullptr;
      if (t == nullptr || t->v < before) rows_in_order_ = false;
      if (t != nullptr) before = t->v;
      if (to_skip > 0 && (!cursor_.time || (t != nullptr && t->v == *cursor_.time))) {
        --to_skip;
        continue;
      }
      ++seen_;
      if (rows_.size() < options_.limit) {
        rows_.push_back(row);
        if (rows_.size() == options_.limit) deadline->Shorten(kCounting);
      } else {
        last_.push_back(row);
        if (last_.size() > options_.last) last_.pop_front();
      }
    }
    interrupted_ = deadline->passed() || call_->cancelled();
    return absl::OkStatus();
  }

  // The time before which nothing was found, from ever larger parts.
  absl::Status SearchInParts(Clock::time_point end) {
    const uint64_t all = subject_.process().end.v + 1;
    if (!cursor_.time) {  // the span in numbers
      cursor_.time = 0;
      cursor_.inclusive = true;
      call_->GoOn();
      Deadline deadline(call_, end - Clock::now());
      if (!FindWindow().ok()) return absl::OkStatus();
    }
    const Window whole = window_;
    const uint64_t stop = whole.end.value_or(all);
    uint64_t at = whole.begin, part = std::max<uint64_t>(1, (stop - std::min(stop, at)) / 64);
    while (at < stop) {
      const Clock::duration rest = end - Clock::now();
      if (rest <= Clock::duration::zero() || call_->cancelled()) break;
      call_->GoOn();
      Deadline deadline(call_, rest);
      const uint64_t to = std::min(stop, at + part);
      query_.clauses.span = SpanOf({at, to});
      const absl::Status status = Pull(&deadline);
      if (absl::IsCancelled(status)) break;
      RETURN_IF_ERROR(status);
      if (interrupted_) break;
      at = to;
      part *= 2;
      if (!rows_.empty()) break;
    }
    if (stream_ == nullptr) return absl::CancelledError("interrupted");
    searched_to_ = at;
    interrupted_ = at < stop;
    return absl::OkStatus();
  }

  // ---- The answer as text ----

  std::string More(size_t shown) const {
    if (interrupted_ && rows_.empty()) {
      return searched_to_ ? fmt::format("{}:0", *searched_to_) : "";
    }
    if (!in_order_ || !rows_in_order_) {
      // Rows behind a time that are not in its order cannot be gone on from.
      if (cursor_.time) return "";
      return fmt::format("#{}", cursor_.skip + shown);
    }
    if (shown == 0) return "";
    const uint64_t t = rows_[shown - 1][time_].get<Time>()->v;
    uint64_t same = 0;
    while (same < shown && rows_[shown - 1 - same][time_].get<Time>()->v == t) ++same;
    if (same == shown && cursor_.time == t && cursor_.inclusive) same += cursor_.skip;
    return fmt::format("{}:{}", t, same);
  }

  // Columns that a person would be shown, and the time, by which a row can be asked about again.
  std::vector<size_t> ShownColumns(bool* merge_place) const {
    const std::vector<Column>& columns = stream_->columns();
    const std::vector<std::string>& chosen = stream_->presentation().table_columns;
    std::vector<size_t> shown;
    const auto has = [](const auto& list, std::string_view name, const auto& name_of) {
      return std::any_of(list.begin(), list.end(),
                         [&](const auto& one) { return name_of(one) == name; });
    };
    const auto is_chosen = [&](std::string_view name) {
      return has(chosen, name, [](const std::string& s) -> std::string_view { return s; });
    };
    const auto is_there = [&](std::string_view name) {
      return has(columns, name, [](const Column& c) -> std::string_view { return c.name; });
    };
    *merge_place = !chosen.empty() && is_chosen("function") && is_there("module") &&
                   is_there("file") && is_there("line") && !is_chosen("module") &&
                   !is_chosen("file") && !is_chosen("line");
    for (size_t i = 0; i < columns.size(); ++i) {
      if (chosen.empty() || is_chosen(columns[i].name) || columns[i].name == "time") {
        shown.push_back(i);
      }
    }
    return shown;
  }

  static bool IsStack(const Column& column) {
    return column.name == "backtrace" || column.name == "py_backtrace";
  }

  std::string Cell(const Row& row, size_t i, bool merge_place) const {
    const std::vector<Column>& columns = stream_->columns();
    if (!merge_place || columns[i].name != "function") return CellOf(row[i], columns[i]);
    Value module, file, line;
    for (size_t j = 0; j < columns.size(); ++j) {
      if (columns[j].name == "module") module = row[j];
      if (columns[j].name == "file") file = row[j];
      if (columns[j].name == "line") line = row[j];
    }
    return PlaceOf(row[i], module, file, line);
  }

  // A line, and one more for each frame of its stacks.
  std::string RowText(const Row& row, const std::vector<size_t>& shown, bool merge_place) const {
    const std::vector<Column>& columns = stream_->columns();
    std::string text, stacks;
    for (const size_t i : shown) {
      if (IsStack(columns[i]) && row[i].list() != nullptr) {
        Elements(*row[i].list(), kFramesOfRow, &stacks);
        continue;
      }
      Append(&text, text.empty() ? "" : " | ", Cell(row, i, merge_place));
    }
    return text + "\n" + stacks;
  }

  // A line for each element of a list.
  static void Elements(const List& list, size_t most, std::string* out) {
    for (size_t n = 0; n < list.size() && n < most; ++n) {
      Append(out, "    #", n, " ", FrameOf(list[n]), "\n");
    }
    if (list.size() > most) Append(out, "    … ", list.size() - most, " more\n");
  }

  // One row, a name and a value per line; what has no value is left out.
  std::string RecordText(const Row& row, bool merge_place) const {
    const std::vector<Column>& columns = stream_->columns();
    std::string text;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string& name = columns[i].name;
      if (row[i].is_null()) continue;
      if (merge_place && (name == "module" || name == "file" || name == "line")) continue;
      if (const List* list = row[i].list(); list != nullptr && !list->empty()) {
        Append(&text, name, ":\n");
        Elements(*list, kElementsOfList, &text);
      } else {
        Append(&text, name, ": ", Cell(row, i, merge_place), "\n");
      }
    }
    return text;
  }

  // A hex dump, of rows that are pieces of memory.
  std::string DumpText() const {
    std::string text;
    const std::vector<Column>& columns = stream_->columns();
    FormatOptions format;
    format.limit = options_.most / 80;
    uint64_t lines = 0;
    for (const Row& row : rows_) {
      Value address, bytes, size;
      for (size_t i = 0; i < columns.size(); ++i) {
        if (columns[i].name == "address") address = row[i];
        if (columns[i].name == "bytes") bytes = row[i];
        if (columns[i].name == "size") size = row[i];
      }
      if (address.get<Address>() == nullptr) continue;
      if (const Bytes* data = bytes.get<Bytes>()) {
        const uint64_t before = lines;
        if (!HexDump(
                *address.get<Address>(), data->data, format, &lines, [] {}, &text)) {
          Append(&text, "… only the first ", (lines - before) * 16, " of ", data->data.size(),
                 " bytes; ask for the rest by its address\n");
          break;
        }
      } else {
        Append(&text, CellOf(address, Column{.type = Type::kAddress}), ": ",
               CellOf(size, Column{.type = Type::kInteger}), " bytes are not mapped\n");
      }
    }
    return text;
  }

  // What is said in the first line, of `shown` rows from the beginning and `last` from the end.
  std::string Summary(size_t shown, size_t last) const {
    const bool ended = !interrupted_;
    std::string text = subject_.Title() + ": ";
    const char* of = cursor_.time || cursor_.skip > 0 ? " further" : "";
    if (nothing_left_) return text + "no further rows";
    if (ended || rows_.size() < options_.limit) {
      Append(&text, seen_ == 0 ? "no" : fmt::format("{}", seen_), of,
             seen_ == 1 ? " row" : " rows");
      if (shown + last < seen_) Append(&text, " (", shown + last, " shown)");
    } else {
      Append(&text, "the first ", shown, of, " rows; there are more (", seen_, " were counted)");
    }
    if (!ended && rows_.size() < options_.limit) {
      Append(&text, " so far; partial: the budget of ", RealText(options_.budget_s, false),
             " s ended the search");
      if (searched_to_) Append(&text, " at time ", *searched_to_);
    } else if (ended) {
      text += stream_->complete() ? "; complete" : "; not complete";
    }
    if (shown + last < seen_ || (!ended && !IsOfAll(query_))) {
      const std::string more = More(shown);
      if (!more.empty() && (more[0] != '#' || ended || rows_.size() == options_.limit)) {
        Append(&text, "; more: after=\"", more, "\"");
      } else {
        text += "; ask about less (before TIME, after TIME) or with a larger budget_s";
      }
    } else if (!ended && IsOfAll(query_)) {
      text += "; these rows are of that part only: ask about less, or with a larger budget_s";
    }
    return text;
  }

  std::string Notes() const {
    std::string text;
    if (nothing_left_) return text;
    const std::string& none = stream_->presentation().no_rows;
    if (seen_ == 0 && !interrupted_ && !none.empty()) Append(&text, Printable(none), "\n");
    if (!stream_->note().empty()) Append(&text, "note: ", Printable(stream_->note()), "\n");
    return Fit(text, 1500);
  }

  std::string Text() {
    if (nothing_left_) return Summary(0, 0) + "\n";
    const Presentation::Layout layout = stream_->presentation().layout;
    if (layout == Presentation::Layout::kHexDump && !rows_.empty()) {
      return Summary(rows_.size(), 0) + "\n" + DumpText() + Notes();
    }
    bool merge_place = false;
    const std::vector<size_t> columns = ShownColumns(&merge_place);
    if (seen_ == 1 && !interrupted_ &&
        (layout == Presentation::Layout::kRecord || columns.size() > 10 || HasLists(rows_[0]))) {
      return Fit(Summary(1, 0) + "\n" + RecordText(rows_[0], merge_place) + Notes(), options_.most);
    }
    std::vector<std::string> first, last;
    for (const Row& row : rows_) first.push_back(RowText(row, columns, merge_place));
    size_t ends = 0;
    if (!interrupted_ && !last_.empty()) {
      for (const Row& row : last_) last.push_back(RowText(row, columns, merge_place));
      ends = std::min<size_t>(last.size(), options_.limit - 1);
      last.erase(last.begin(), last.end() - static_cast<ptrdiff_t>(ends));
      // As many as are at the end are not at the beginning.
      first.resize(options_.limit - ends);
    }
    return Lines(columns, merge_place, std::move(first), std::move(last));
  }

  bool HasLists(const Row& row) const {
    for (size_t i = 0; i < row.size(); ++i) {
      const List* list = row[i].list();
      if (list != nullptr && list->size() > 1 && !IsStack(stream_->columns()[i])) return true;
    }
    return false;
  }

  // Rows, without those in the middle for which there is no room.
  std::string Lines(const std::vector<size_t>& columns, bool merge_place,
                    std::vector<std::string> first, std::vector<std::string> last) const {
    std::string head;
    if (!first.empty()) {
      for (const size_t i : columns) {
        const Column& column = stream_->columns()[i];
        if (IsStack(column)) continue;
        const bool place = merge_place && column.name == "function";
        Append(&head, head.empty() ? "" : " | ", place ? "where" : Quoted(column.name));
      }
      head += "\n";
    }
    const std::string notes = Notes();
    size_t size = head.size() + notes.size() + 600;
    for (std::string& row : first) size += (row = Fit(row, options_.most / 3)).size();
    for (std::string& row : last) size += (row = Fit(row, options_.most / 3)).size();
    if (size > options_.most && !interrupted_ && last.empty()) {
      const size_t ends = std::min<size_t>(options_.last, first.size() / 2);
      last.assign(std::make_move_iterator(first.end() - static_cast<ptrdiff_t>(ends)),
                  std::make_move_iterator(first.end()));
      first.resize(first.size() - ends);
    }
    while (size > options_.most && first.size() + last.size() > 2) {
      std::vector<std::string>& from =
          last.size() * 4 >= first.size() && last.size() > 1 ? last : first;
      if (from.size() <= 1) break;
      const auto gone = &from == &last ? from.begin() : from.end() - 1;
      size -= gone->size();
      from.erase(gone);
    }
    std::string text = Summary(first.size(), last.size()) + "\n" + head;
    for (const std::string& row : first) text += row;
    const uint64_t between = seen_ - std::min<uint64_t>(seen_, first.size() + last.size());
    if (!last.empty()) {
      if (between > 0) Append(&text, "… ", between, " rows between …\n");
      for (const std::string& row : last) text += row;
    }
    return text + notes;
  }

  const Subject& subject_;
  const std::string& question_;
  const AskOptions& options_;
  Call* const call_;

  Cursor cursor_;
  ast::Query query_;
  Window window_;
  std::unique_ptr<ResultStream> stream_;
  size_t time_ = 0;            // the column
  bool in_order_ = false;      // of time, by what was asked: `after` may be a time
  bool rows_in_order_ = true;  // and by what came
  bool nothing_left_ = false, interrupted_ = false;
  std::optional<uint64_t> searched_to_;
  uint64_t seen_ = 0;
  std::vector<Row> rows_;  // the first of them
  std::deque<Row> last_;   // the last of those behind the limit
};

}  // namespace

absl::StatusOr<mcp::Cursor> ParseCursor(const std::string& text) {
  Cursor cursor;
  if (text.empty()) return cursor;
  const auto number = [](std::string_view digits, uint64_t* value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
    return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  };
  uint64_t time = 0;
  const size_t colon = text.find(':');
  const std::string_view view = text;
  if (view[0] == '#' && number(view.substr(1), &cursor.skip)) return cursor;
  if (number(view.substr(0, colon), &time) && time < UINT64_MAX / 2 &&
      (colon == std::string::npos || number(view.substr(colon + 1), &cursor.skip))) {
    cursor.time = time;
    cursor.inclusive = colon != std::string::npos;
    return cursor;
  }
  return absl::InvalidArgumentError(
      "after takes what `more` said: TIME:N, a time, or #N, the rows after the first N");
}

ToolResult Ask(const Subject& subject, const std::string& question, const AskOptions& options,
               Call* call) {
  return Asking(subject, question, options, call).Answer();
}

}  // namespace ttq::mcp
