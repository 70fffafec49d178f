// SPDX-License-Identifier: MIT

#include "cli/row_text.h"

#include <charconv>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/answers/cell.h"
#include "query/answers/format.h"
#include "query/answers/table.h"

namespace ttq {
namespace {

// A row that is there already.
class OneRow : public ResultStream {
 public:
  explicit OneRow(const std::vector<Column>& columns) : columns_(columns) {}
  const std::vector<Column>& columns() const override { return columns_; }
  const Presentation& presentation() const override { return presentation_; }
  absl::StatusOr<bool> Next(Row*) override { return false; }
  bool complete() const override { return true; }
  bool interrupted() const override { return false; }
  const std::string& note() const override { return note_; }

 private:
  const std::vector<Column>& columns_;
  const Presentation presentation_;
  const std::string note_;
};

const Value* ColumnOf(const std::vector<Column>& columns, const Row& row, std::string_view name) {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) return &row[i];
  }
  return nullptr;
}

// As a question reads it back; nullopt for what it cannot.
std::optional<std::string> Literal(const Value& value) {
  if (const auto* text = value.get<std::string>()) {
    std::string quoted = "\"";
    for (const char c : *text) {
      if (c == '"' || c == '\\') {
        quoted += '\\';
        quoted += c;
      } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
        quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      } else {
        quoted += c;
      }
    }
    return quoted + "\"";
  }
  if (value.is_null() || value.object() || value.list() || value.get<Bytes>()) return std::nullopt;
  return CellText(value, value.get<int64_t>() ? Type::kInteger : Type::kValue);
}

// What a row as a whole stands for.
const Value* Stand(const std::vector<Column>& columns, const Row& row) {
  for (const char* name : {"time", "address", "object", "frame_address", "pc"}) {
    const Value* value = ColumnOf(columns, row, name);
    if (value && !value->is_null()) return value;
  }
  return nullptr;
}

// The end of a name that begins at text[at].
size_t EndOfName(std::string_view text, size_t at) {
  while (at < text.size() && IsWordByte(text[at])) ++at;
  return at;
}

// `$N…` at text[at]; moves `at` behind it.
absl::StatusOr<std::string> Replaced(std::string_view text, const std::vector<Column>& columns,
                                     const std::vector<Row>& rows, size_t* at) {
  const size_t begin = *at;
  size_t end = begin + 1;
  while (end < text.size() && IsDigit(text[end])) ++end;
  size_t number = 0;
  std::from_chars(text.data() + begin + 1, text.data() + end, number);
  if (number == 0 || number > rows.size()) {
    return absl::InvalidArgumentError(
        rows.empty() ? fmt::format("there is no ${}: the last answer has no rows", number)
                     : fmt::format("there is no ${}: the last answer has {} row{}", number,
                                   rows.size(), rows.size() == 1 ? "" : "s"));
  }
  const Row& row = rows[number - 1];
  const Value* value = nullptr;
  if (end + 1 >= text.size() || text[end] != '.' || text[end + 1] == '.') {
    value = Stand(columns, row);
    if (!value) {
      return absl::InvalidArgumentError(
          fmt::format("${} has neither a time nor an address; name a column: ${}.{}", number,
                      number, columns.empty() ? "COLUMN" : columns[0].name));
    }
  } else {
    size_t from = end + 1;
    end = EndOfName(text, from);
    value = ColumnOf(columns, row, text.substr(from, end - from));
    if (!value) {
      std::string names;
      for (const Column& column : columns) names += (names.empty() ? "" : ", ") + column.name;
      return absl::InvalidArgumentError(fmt::format("${} has no column {}; it has {}", number,
                                                    text.substr(from, end - from), names));
    }
    while (value && value->object() && end < text.size() && text[end] == '.') {
      from = end + 1;
      end = EndOfName(text, from);
      const Object* object = value->object();
      value = nullptr;
      for (const auto& [name, field] : object->fields) {
        if (name == text.substr(from, end - from)) value = &field;
      }
    }
  }
  const std::optional<std::string> literal = value ? Literal(*value) : std::nullopt;
  if (!literal) {
    return absl::InvalidArgumentError(
        fmt::format("{} is no number, address or text", text.substr(begin, end - begin)));
  }
  *at = end;
  return *literal;
}

}  // namespace

absl::StatusOr<std::string> ReplaceRows(std::string_view text, const std::vector<Column>& columns,
                                        const std::vector<Row>& rows) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (quote) {
      if (c == '\\' && i + 1 < text.size()) out += text[i++];
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'' || c == '`') {
      quote = c;
    } else if (c == '$' && i + 1 < text.size() && IsDigit(text[i + 1])) {
      ASSIGN_OR_RETURN(const std::string value, Replaced(text, columns, rows, &i));
      out += value;
      continue;
    }
    out += text[i++];
  }
  return out;
}

std::optional<size_t> OnlyRow(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  size_t number = 0;
  if (text.size() < 2 || text[0] != '$') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string RowText(const std::vector<Column>& columns, const Row& row) {
  const OneRow stream(columns);
  // All of it is wanted: lines are broken and nothing is cut.
  FormatOptions options = FormatFor("", std::nullopt, /*wide=*/true);
  std::string text;
  TableWriter(stream, options).Record(row, /*all=*/true, &text);
  return text;
}

std::string FrameText(const Answered& stack, uint64_t number) {
  if (number >= stack.rows.size()) return "";
  const Row& row = stack.rows[number];
  const auto get = [&](std::string_view name) {
    const Value* value = ColumnOf(stack.columns, row, name);
    return value ? *value : Value();
  };
  const Cell place = PlaceCell(get("function"), get("module"), get("file"), get("line"));
  const Value args = get("args");
  std::string text = fmt::format("#{:<3} {}", number, place.text);
  if (args.object() && !args.object()->fields.empty()) {
    text += "  " + ReadableCell(args, {"args", Type::kObject}).text;
  }
  const FormatOptions options = FormatFor("", std::nullopt, /*wide=*/false);
  return (options.width > 0 ? FitCell({.text = text}, options.width) : text) + "\n";
}

std::string SourceText(const Answered& source) {
  if (source.rows.empty()) return "";
  const Value* line = ColumnOf(source.columns, source.rows[0], "line");
  const Value* text = ColumnOf(source.columns, source.rows[0], "text");
  if (!line || !text || text->is_null()) return "";
  return fmt::format("{:<4} {}\n", CellText(*line, Type::kInteger), CellText(*text, Type::kString));
}

}  // namespace ttq
