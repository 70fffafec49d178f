// SPDX-License-Identifier: MIT
//
// Writing answers; see format.h.

#include "query/answers/format.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/answers/cell.h"
#include "query/answers/colors.h"
#include "query/answers/table.h"

namespace ttq {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFlushAt = 64 << 10;
// A table chooses its widths from this many rows, or from those that came within this time.
constexpr size_t kRowsForWidths = 1000;
constexpr std::chrono::milliseconds kPatience(300);
// Bytes of a long value that a table shows.
constexpr size_t kBytesShown = 16;

void AppendHexBytes(std::string_view data, std::string* out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : data) {
    out->push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    out->push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
}

std::string HexText(const Value& value) {
  if (const auto* a = value.get<Address>()) return fmt::format("{:#x}", a->v);
  return fmt::format("{:#x}", value.get<Word>()->v);
}

// ---- Machine formats -------------------------------------------------------------------------

// What a spreadsheet would take for a formula; behind an apostrophe it takes it for text.
bool IsFormula(std::string_view text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text[0]) == std::string_view::npos) {
    return false;
  }
  double number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error != std::errc() || end != text.data() + text.size();
}

void AppendCsvText(std::string_view text, const FormatOptions& options, std::string* out) {
  const std::string shown = options.terminal ? Printable(text) : Utf8(text);
  AppendCsvCell(options.csv_safe && IsFormula(shown) ? "'" + shown : shown, out);
}

void AppendCsv(const Value& value, Type type, const FormatOptions& options, std::string* out) {
  if (value.is_null()) return;
  if (const auto* s = value.get<std::string>()) return AppendCsvText(*s, options, out);
  std::string json;
  AppendJson(value, type, &json);
  if (json.size() >= 2 && json.front() == '"') json = json.substr(1, json.size() - 2);
  AppendCsvCell(json, out);
}

void AppendJsonRow(const std::vector<std::string>& keys, const std::vector<Column>& columns,
                   const Row& row, std::string* out) {
  *out += '{';
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) *out += ',';
    *out += keys[i];
    AppendJson(row[i], columns[i].type, out);
  }
  *out += '}';
}

}  // namespace

void AppendCsvCell(std::string_view text, std::string* out) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    *out += text;
    return;
  }
  *out += '"';
  for (const char c : text) {
    if (c == '"') *out += '"';
    *out += c;
  }
  *out += '"';
}

std::optional<Format> FormatFromName(std::string_view name) {
  if (name == "table") return Format::kTable;
  if (name == "json") return Format::kJson;
  if (name == "jsonl") return Format::kJsonLines;
  if (name == "csv") return Format::kCsv;
  return std::nullopt;
}

std::string Utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    char32_t code;
    const size_t length = DecodeUtf8(text, i, &code);
    out += length ? text.substr(i, length) : std::string_view("\xef\xbf\xbd");
    i += std::max<size_t>(length, 1);
  }
  return out;
}

void AppendJsonString(std::string_view text, std::string* out) {
  *out += '"';
  for (size_t i = 0; i < text.size();) {
    char32_t code;
    const size_t length = DecodeUtf8(text, i, &code);
    if (code == '"' || code == '\\') {
      *out += '\\';
      *out += text[i];
    } else if (code == '\n') {
      *out += "\\n";
    } else if (code == '\t') {
      *out += "\\t";
    } else if (length == 0) {
      *out += "\\ufffd";
    } else if (IsPrintable(code)) {
      *out += text.substr(i, length);
    } else if (code < 0x10000) {
      *out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {  // a pair of surrogates
      const uint32_t above = static_cast<uint32_t>(code) - 0x10000;
      *out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff));
    }
    i += std::max<size_t>(length, 1);
  }
  *out += '"';
}

void AppendJson(const Value& value, Type type, std::string* out) {
  if (value.is_null()) {
    *out += "null";
  } else if (const auto* t = value.get<Time>()) {
    absl::StrAppend(out, t->v);
  } else if (const auto* n = value.get<int64_t>()) {
    absl::StrAppend(out, *n);
  } else if (const auto real = value.AsReal()) {
    const auto* f = value.get<float>();
    const std::string text = f ? RealText(*f) : RealText(*real);
    // JSON has no numbers for the others.
    absl::StrAppend(out, std::isfinite(*real) ? text : "\"" + text + "\"");
  } else if (const auto* s = value.get<std::string>()) {
    AppendJsonString(*s, out);
  } else if (const auto* b = value.get<Bytes>()) {
    *out += type == Type::kValue ? "\"hex:" : "\"";
    AppendHexBytes(b->data, out);
    *out += '"';
  } else if (const Object* object = value.object()) {
    *out += '{';
    for (size_t i = 0; i < object->fields.size(); ++i) {
      if (i > 0) *out += ',';
      AppendJsonString(object->fields[i].first, out);
      *out += ':';
      AppendJson(object->fields[i].second, Type::kValue, out);
    }
    *out += '}';
  } else if (const List* list = value.list()) {
    *out += '[';
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) *out += ',';
      AppendJson((*list)[i], Type::kValue, out);
    }
    *out += ']';
  } else if (const auto* w = value.get<Word>(); w && type == Type::kInteger) {
    absl::StrAppend(out, w->v);  // a computed number above 2^63
  } else {
    absl::StrAppend(out, "\"", HexText(value), "\"");
  }
}

namespace {

// What a list's objects say of themselves, one after the other; nullopt: not all of them do.
std::optional<std::string> TextsOf(const List& list) {
  std::string texts;
  for (const Value& value : list) {
    const Object* object = value.object();
    const auto* text = object && !object->fields.empty() && object->fields.back().first == "text"
                           ? object->fields.back().second.get<std::string>()
                           : nullptr;
    if (!text) return std::nullopt;
    absl::StrAppend(&texts, texts.empty() ? "" : ", ", Printable(*text));
  }
  return texts;
}

}  // namespace

std::string CellText(const Value& value, Type type) {
  if (value.is_null()) return "-";
  if (const List* list = value.list(); list && !list->empty()) {
    if (std::optional<std::string> texts = TextsOf(*list)) return *texts;
  }
  if (const auto* s = value.get<std::string>()) return Printable(*s);
  if (const auto* b = value.get<Bytes>()) {
    std::string text;
    const size_t shown = std::min(b->data.size(), kBytesShown);
    for (size_t i = 0; i < shown; ++i) {
      if (i > 0) text += ' ';
      AppendHexBytes(std::string_view(b->data).substr(i, 1), &text);
    }
    if (shown < b->data.size()) {
      absl::StrAppend(&text, " … (", b->data.size(), " bytes)");
    }
    return text;
  }
  std::string json;
  AppendJson(value, type, &json);
  if (json.size() >= 2 && json.front() == '"') json = json.substr(1, json.size() - 2);
  return json;
}

namespace {

class AnswerWriter {
 public:
  AnswerWriter(ResultStream& stream, const AnswerContext& context, const FormatOptions& options,
               const Sink& sink, AnswerSummary* summary)
      : stream_(stream), context_(context), options_(options), sink_(sink), summary_(*summary) {}

  absl::Status Write() {
    switch (options_.format) {
      case Format::kTable:
        return Table();
      case Format::kJson:
        return Json();
      case Format::kJsonLines:
        return JsonLines();
      case Format::kCsv:
        return Csv();
    }
    return absl::InternalError("unknown format");
  }

 private:
  void Flush() {
    if (!out_.empty()) sink_(out_);
    out_.clear();
    flushed_ = Clock::now();
  }
  // Rows go out in large pieces, and soon when they come slowly.
  void Spill() {
    if (out_.size() >= kFlushAt || (!out_.empty() && Clock::now() - flushed_ > kPatience)) Flush();
  }

  // Gives each row to `use` until the end, the limit, or until `use` says false.
  template <class Use>
  absl::Status ForEachRow(std::optional<uint64_t> limit, Use use) {
    Row row;
    while (true) {
      ASSIGN_OR_RETURN(bool more, stream_.Next(&row));
      if (!more) break;
      if (limit && summary_.rows >= *limit) {
        summary_.truncated = true;
        break;
      }
      ++summary_.rows;
      if (options_.on_row) options_.on_row(row);
      if (!use(row)) break;
      // Whether there is one more row may take long to find out.
      if (limit && summary_.rows == *limit) Flush();
      Spill();
    }
    summary_.interrupted = stream_.interrupted();
    return absl::OkStatus();
  }

  std::string CutText() const {
    return fmt::format(
        "only the first {} {} are shown; --limit N shows more, --limit 0 all", *options_.limit,
        stream_.presentation().layout == Presentation::Layout::kHexDump ? "lines" : "rows");
  }

  // What jsonl and csv cannot say.
  void SetRemarks() {
    if (summary_.truncated) summary_.remarks = CutText();
    if (!stream_.note().empty()) {
      absl::StrAppend(&summary_.remarks, summary_.remarks.empty() ? "" : "; ", stream_.note());
    }
  }

  absl::Status Json() {
    out_ += "{\"trace\":";
    AppendJsonString(context_.trace, &out_);
    absl::StrAppend(&out_, ",\"process\":", context_.process, ",\"query\":");
    AppendJsonString(context_.query, &out_);
    out_ += ",\"columns\":[";
    const std::vector<std::string> keys = Keys();
    const std::vector<Column>& columns = stream_.columns();
    for (size_t i = 0; i < columns.size(); ++i) {
      absl::StrAppend(&out_, i > 0 ? "," : "", "{\"name\":");
      AppendJsonString(columns[i].name, &out_);
      out_.append(",\"type\":\"").append(TypeName(columns[i].type)).append("\"}");
    }
    out_ += "],\"rows\":[";
    const absl::Status status = ForEachRow(options_.limit, [&](const Row& row) {
      if (summary_.rows > 1) out_ += ',';
      AppendJsonRow(keys, columns, row, &out_);
      return true;
    });
    const bool complete = status.ok() && stream_.complete();
    std::string note = stream_.note();
    if (!status.ok()) note.append(note.empty() ? "" : "; ").append(std::string(status.message()));
    absl::StrAppend(&out_, "],\"truncated\":", summary_.truncated ? "true" : "false",
                    ",\"complete\":", complete ? "true" : "false", ",\"note\":");
    if (note.empty()) {
      out_ += "null";
    } else {
      AppendJsonString(note, &out_);
    }
    const std::chrono::duration<double, std::milli> elapsed = Clock::now() - context_.started;
    out_ += fmt::format(",\"elapsed_ms\":{:.3f}}}\n", elapsed.count());
    Flush();
    return status;
  }

  absl::Status JsonLines() {
    const std::vector<std::string> keys = Keys();
    const absl::Status status = ForEachRow(options_.limit, [&](const Row& row) {
      AppendJsonRow(keys, stream_.columns(), row, &out_);
      out_ += '\n';
      return true;
    });
    Flush();
    SetRemarks();
    return status;
  }

  absl::Status Csv() {
    const std::vector<Column>& columns = stream_.columns();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) out_ += ',';
      AppendCsvText(columns[i].name, options_, &out_);
    }
    out_ += '\n';
    const absl::Status status = ForEachRow(options_.limit, [&](const Row& row) {
      const size_t begin = out_.size();
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) out_ += ',';
        AppendCsv(row[i], columns[i].type, options_, &out_);
      }
      if (out_.size() == begin) out_ += "\"\"";  // readers pass over empty lines
      out_ += '\n';
      return true;
    });
    Flush();
    SetRemarks();
    return status;
  }

  absl::Status Table() {
    absl::Status status;
    switch (stream_.presentation().layout) {
      case Presentation::Layout::kHexDump:
        status = DumpRows();
        break;
      case Presentation::Layout::kRecord:
        status = RecordRows();
        break;
      case Presentation::Layout::kRows:
        status = TableRows();
        break;
    }
    if (status.ok() && summary_.rows == 0 && !summary_.truncated) {
      const std::string& why = stream_.presentation().no_rows;
      absl::StrAppend(&out_, "no rows",
                      summary_.interrupted || why.empty() ? "" : ": " + Printable(why), "\n");
    }
    if (summary_.truncated) Remark(kDim, "… " + CutText());
    if (!stream_.note().empty()) Remark(kYellow, "note: " + Printable(stream_.note()));
    Flush();
    return status;
  }

  void Remark(std::string_view colour, std::string_view text) {
    if (options_.colour) out_ += colour;
    out_ += text;
    if (options_.colour) out_ += kReset;
    out_ += '\n';
  }

  absl::Status TableRows() {
    TableWriter writer(stream_, options_);
    std::vector<Row> waiting;  // until the widths are chosen
    Clock::time_point first;
    bool started = false;
    const auto write = [&](const Row& row, const std::vector<Cell>& cells) {
      writer.Line(cells, &out_);
      writer.Stacks(row, &out_);
    };
    const auto start = [&] {
      if (started) return;
      started = true;
      std::vector<std::vector<Cell>> cells;
      for (const Row& row : waiting) cells.push_back(writer.Cells(row));
      if (waiting.empty()) return;
      if (waiting.size() == 1 && writer.IsWide(cells[0])) {
        writer.Record(waiting[0], /*all=*/false, &out_);
        return waiting.clear();
      }
      writer.Begin(cells);
      writer.Header(&out_);
      for (size_t i = 0; i < waiting.size(); ++i) write(waiting[i], cells[i]);
      waiting.clear();
    };
    const absl::Status status = ForEachRow(options_.limit, [&](const Row& row) {
      if (started) {
        write(row, writer.Cells(row));
        return true;
      }
      if (waiting.empty()) first = Clock::now();
      waiting.push_back(row);
      // One row alone is known to be the only one when the stream has ended.
      if (waiting.size() >= kRowsForWidths ||
          (waiting.size() > 1 && Clock::now() - first > kPatience) ||
          (options_.limit && summary_.rows == *options_.limit)) {
        start();
      }
      return true;
    });
    start();
    if (const std::string missing = writer.WhatIsMissing(); !missing.empty()) {
      Remark(kDim, missing);
    }
    return status;
  }

  absl::Status RecordRows() {
    TableWriter writer(stream_, options_);
    const absl::Status status = ForEachRow(options_.limit, [&](const Row& row) {
      if (summary_.rows > 1) out_ += '\n';
      writer.Record(row, /*all=*/true, &out_);
      return true;
    });
    if (const std::string missing = writer.WhatIsMissing(); !missing.empty()) {
      Remark(kDim, missing);
    }
    return status;
  }

  absl::Status DumpRows() {
    const std::vector<Column>& columns = stream_.columns();
    const auto index = [&](std::string_view name) {
      size_t i = 0;
      while (i < columns.size() && columns[i].name != name) ++i;
      return i;
    };
    const size_t address = index("address"), size = index("size"), bytes = index("bytes");
    if (std::max({address, size, bytes}) >= columns.size()) return TableRows();
    uint64_t lines = 0;
    return ForEachRow(std::nullopt, [&](const Row& row) {
      const Address* at = row[address].get<Address>();
      const Bytes* data = row[bytes].get<Bytes>();
      if (!at) return true;
      bool all = true;
      if (data) {
        all = HexDump(
            *at, data->data, options_, &lines, [this] { Spill(); }, &out_);
      } else if (options_.limit && lines >= *options_.limit) {
        all = false;
      } else {
        ++lines;
        out_ += fmt::format("{:#018x}  {} bytes not mapped\n", at->v,
                            CellText(row[size], Type::kInteger));
      }
      summary_.truncated = !all;
      return all;
    });
  }

  std::vector<std::string> Keys() const {
    std::vector<std::string> keys;
    for (const Column& column : stream_.columns()) {
      std::string key;
      AppendJsonString(column.name, &key);
      keys.push_back(key + ":");
    }
    return keys;
  }

  ResultStream& stream_;
  const AnswerContext& context_;
  const FormatOptions& options_;
  const Sink& sink_;
  AnswerSummary& summary_;
  std::string out_;
  Clock::time_point flushed_ = Clock::now();
};

}  // namespace

absl::Status WriteAnswer(ResultStream& stream, const AnswerContext& context,
                         const FormatOptions& options, const Sink& sink, AnswerSummary* summary) {
  return AnswerWriter(stream, context, options, sink, summary).Write();
}

}  // namespace ttq
