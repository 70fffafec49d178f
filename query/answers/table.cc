// SPDX-License-Identifier: MIT

#include "query/answers/table.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/display_width.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/answers/colors.h"

namespace ttq {
namespace {

constexpr size_t kGap = 2;  // between columns
// Columns of a terminal that a cell keeps when it is cut.
constexpr size_t kMinCell = 10, kMinPlace = 12;
// Lines that one value of a record takes at most, where lines are broken.
constexpr size_t kMaxValueLines = 8;
// Fewer common frames are shown again.
constexpr size_t kWorthFolding = 2;

// What a table can do without, the first the soonest. Others follow from the right.
constexpr std::string_view kDispensable[] = {
    "bytes",  "os_tid", "scope",       "actor",  "pc",       "size",      "thread",
    "caller", "depth",  "return_time", "module", "previous", "increments"};

// Cells in a table elsewhere than on a terminal, one per code point.
size_t CodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace

TableWriter::TableWriter(const ResultStream& stream, const FormatOptions& options)
    : columns_(stream.columns()), options_(options) {
  const auto& shown = stream.presentation().table_columns;
  const auto index = [this](std::string_view name) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].name == name) return i;
    }
    return columns_.size();
  };
  const auto is_shown = [&shown](std::string_view name) {
    return std::find(shown.begin(), shown.end(), name) != shown.end();
  };
  place_ = {index("function"), index("module"), index("file"), index("line")};
  merge_place_ = is_shown("function") && !is_shown("file");
  for (const size_t i : place_) merge_place_ = merge_place_ && i < columns_.size();
  if (shown.empty()) {
    for (size_t i = 0; i < columns_.size(); ++i) shown_.push_back(i);
  }
  for (const std::string& name : shown) {
    if (index(name) < columns_.size()) shown_.push_back(index(name));
  }
  std::erase_if(shown_, [this](size_t i) {
    if (IsStack(i)) stacks_.push_back(i);
    return IsStack(i);
  });
  if (options.numbered) number_width_ = Cat("$", options.limit.value_or(1000)).size() + kGap;
  left_out_.resize(shown_.size());
  last_stacks_.resize(stacks_.size());
}

// A column of frames, each an object with the place it is at.
bool TableWriter::IsStack(size_t column) const {
  return columns_[column].type == Type::kList && columns_[column].name.ends_with("backtrace");
}

bool TableWriter::RightAligned(size_t column) const {
  const Type type = columns_[column].type;
  return type == Type::kTime || type == Type::kInteger || type == Type::kReal;
}

size_t TableWriter::WidthOf(std::string_view text) const {
  return options_.terminal ? DisplayWidth(text) : CodePoints(text);
}

Cell TableWriter::CellOf(const Row& row, size_t column) const {
  if (IsPlace(column)) {
    return PlaceCell(row[place_[0]], row[place_[1]], row[place_[2]], row[place_[3]]);
  }
  if (options_.terminal) return ReadableCell(row[column], columns_[column]);
  return {.text = CellText(row[column], columns_[column].type)};
}

std::string TableWriter::HeaderOf(size_t column) const {
  return IsPlace(column) ? "where" : Printable(columns_[column].name);
}

std::vector<Cell> TableWriter::Cells(const Row& row) const {
  std::vector<Cell> cells;
  for (const size_t i : shown_) cells.push_back(CellOf(row, i));
  return cells;
}

size_t TableWriter::LineWidth(const std::vector<size_t>& widths) {
  size_t total = 0, columns = 0;
  for (const size_t width : widths) {
    total += width;
    columns += width > 0;
  }
  return total + kGap * (columns > 0 ? columns - 1 : 0);
}

bool TableWriter::IsWide(const std::vector<Cell>& row) const {
  if (options_.width == 0) return false;
  std::vector<size_t> widths;
  for (size_t i = 0; i < row.size(); ++i) {
    widths.push_back(std::max(WidthOf(HeaderOf(shown_[i])), WidthOf(row[i].text)));
  }
  return LineWidth(widths) > Room();
}

void TableWriter::Begin(const std::vector<std::vector<Cell>>& rows) {
  widths_.assign(shown_.size(), 0);
  for (size_t i = 0; i < shown_.size(); ++i) {
    widths_[i] = WidthOf(HeaderOf(shown_[i]));
    for (const std::vector<Cell>& cells : rows) {
      widths_[i] = std::max(widths_[i], WidthOf(cells[i].text));
    }
  }
  if (options_.width > 0) Fit(rows);
}

void TableWriter::LeaveOut(size_t shown) {
  left_out_[shown] = true;
  widths_[shown] = 0;
  missing_.push_back(HeaderOf(shown_[shown]));
}

void TableWriter::Fit(const std::vector<std::vector<Cell>>& rows) {
  if (LineWidth(widths_) <= Room()) return;
  const std::vector<size_t> natural = widths_;
  // Columns in which nothing stands say least.
  for (size_t i = 1; i < shown_.size(); ++i) {
    if (LineWidth(widths_) <= Room()) return;
    const bool empty = !rows.empty() && std::all_of(rows.begin(), rows.end(), [i](const auto& row) {
      return row[i].text == "-";
    });
    if (empty) LeaveOut(i);
  }
  size_t dispensable = 0;
  while (!Shrink()) {
    std::optional<size_t> least;
    while (!least && dispensable < std::size(kDispensable)) {
      for (size_t i = 1; i < shown_.size(); ++i) {
        if (!left_out_[i] && columns_[shown_[i]].name == kDispensable[dispensable]) least = i;
      }
      ++dispensable;
    }
    for (size_t i = shown_.size(); !least && i > 1; --i) {
      if (!left_out_[i - 1] && !IsPlace(shown_[i - 1])) least = i - 1;
    }
    for (size_t i = shown_.size(); !least && i > 1; --i) {
      if (!left_out_[i - 1]) least = i - 1;
    }
    if (!least) {  // the first column alone is too wide
      if (!widths_.empty()) widths_[0] = std::min(widths_[0], Room());
      return;
    }
    LeaveOut(*least);
    for (size_t i = 0; i < widths_.size(); ++i) widths_[i] = left_out_[i] ? 0 : natural[i];
  }
}

bool TableWriter::Shrink() {
  std::vector<size_t> least = widths_;
  for (size_t i = 0; i < shown_.size(); ++i) {
    const Type type = columns_[shown_[i]].type;
    if (RightAligned(shown_[i]) || type == Type::kAddress) continue;
    least[i] = std::min(widths_[i], IsPlace(shown_[i]) ? kMinPlace : kMinCell);
  }
  if (LineWidth(least) > Room()) return false;
  size_t excess = LineWidth(widths_);
  excess -= std::min(excess, Room());
  while (excess > 0) {
    // The widest that can be cut gives one column of the terminal, until all is well.
    size_t widest = widths_.size();
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (widths_[i] <= least[i]) continue;
      if (widest == widths_.size() || widths_[i] > widths_[widest]) widest = i;
    }
    --widths_[widest];
    --excess;
  }
  return true;
}

void TableWriter::Header(std::string* out) const {
  std::vector<Cell> cells;
  for (const size_t i : shown_) cells.push_back({.text = HeaderOf(i)});
  LineOf(cells, /*header=*/true, out);
}

void TableWriter::Line(const std::vector<Cell>& cells, std::string* out) {
  ++lines_;
  LineOf(cells, /*header=*/false, out);
}

void TableWriter::LineOf(const std::vector<Cell>& cells, bool header, std::string* out) const {
  size_t last = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!left_out_[i]) last = i;
  }
  if (header && options_.colour) *out += kBold;
  if (number_width_ > 0) {
    const std::string number = header ? "" : Cat("$", lines_);
    if (options_.colour && !header) *out += kDim;
    *out += number;
    if (options_.colour && !header) *out += kReset;
    out->append(number_width_ - std::min(number_width_, number.size()), ' ');
  }
  bool first = true;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (left_out_[i]) continue;
    const std::string text = options_.width > 0 ? FitCell(cells[i], widths_[i]) : cells[i].text;
    if (text != cells[i].text) cut_ = true;
    const size_t width = WidthOf(text);
    const size_t pad = widths_[i] > width ? widths_[i] - width : 0;
    const bool right = RightAligned(shown_[i]);
    const bool place = options_.colour && !header && shown_[i] == place_[0];
    if (!first) out->append(kGap, ' ');
    first = false;
    if (right) out->append(pad, ' ');
    if (place) *out += kGreen;
    *out += text;
    if (place) *out += kReset;
    if (!right && i < last) out->append(pad, ' ');
  }
  if (header && options_.colour) *out += kReset;
  *out += '\n';
}

// ---- Stacks ----------------------------------------------------------------------------------

std::vector<TableWriter::Frame> TableWriter::FramesOf(const Value& value) {
  std::vector<Frame> frames;
  const List* list = value.list();
  if (!list) return frames;
  for (const Value& element : *list) {
    Value function, module, file, line, source, pc;
    if (const Object* frame = element.object()) {
      for (const auto& [name, field] : frame->fields) {
        if (name == "function") function = field;
        if (name == "module") module = field;
        if (name == "file") file = field;
        if (name == "line") line = field;
        if (name == "source") source = field;
        if (name == "pc") pc = field;
      }
    }
    const auto* text = source.get<std::string>();
    frames.push_back({.pc = pc.is_null() ? "" : CellText(pc, Type::kAddress),
                      .source = text ? Printable(*text) : "",
                      .place = PlaceCell(function, module, file, line)});
  }
  return frames;
}

void TableWriter::FrameLine(size_t number, const Frame& frame, std::string* out) const {
  std::string start = Cat("    #", number, number < 10 ? "  " : " ");
  constexpr size_t kRoomForPc = 60;
  if (!frame.pc.empty() && (options_.width == 0 || options_.width >= kRoomForPc)) {
    start += fmt::format("{:<14} ", frame.pc);
  }
  if (options_.width == 0) {
    Append(out, start, frame.place.text, frame.source.empty() ? "" : "    ", frame.source, "\n");
    return;
  }
  if (start.size() + kMinCell > options_.width) start = Cat("#", number, " ");
  const size_t room = options_.width - std::min(options_.width, start.size());
  std::string line = FitCell(frame.place, room);
  // What is left of the line is the source's.
  const size_t used = DisplayWidth(line) + 4;
  if (!frame.source.empty() && used + kMinCell <= room) {
    line += "    " + CutEnd(frame.source, room - used);
  }
  Append(out, start, line, "\n");
}

void TableWriter::StackLines(size_t stack, const Value& value, std::string* out) {
  std::vector<Frame> frames = FramesOf(value);
  std::vector<Frame>& before = last_stacks_[stack];
  size_t same = 0;
  if (options_.width > 0) {
    const size_t most = std::min(frames.size(), before.size());
    while (same < most && frames[frames.size() - 1 - same] == before[before.size() - 1 - same]) {
      ++same;
    }
    if (same < kWorthFolding) same = 0;
  }
  for (size_t n = 0; n + same < frames.size(); ++n) FrameLine(n, frames[n], out);
  if (same > 0) {
    if (options_.colour) *out += kDim;
    *out +=
        CutEnd(same == frames.size() ? fmt::format("    the same {} frames as above", same)
                                     : fmt::format("    … then the same {} frames as above", same),
               options_.width);
    if (options_.colour) *out += kReset;
    *out += '\n';
  }
  before = std::move(frames);
}

void TableWriter::Stacks(const Row& row, std::string* out) {
  for (size_t i = 0; i < stacks_.size(); ++i) StackLines(i, row[stacks_[i]], out);
}

// ---- Records ---------------------------------------------------------------------------------

void TableWriter::RecordLine(const std::string& name, const Cell& cell, size_t indent,
                             std::string* out) {
  const auto bold = [&](const std::string& text) {
    Append(out, options_.colour ? kBold : "", text, options_.colour ? kReset : "");
  };
  if (options_.width == 0) {
    bold(name);
    out->append(indent - std::min(indent, WidthOf(name)), ' ');
    Append(out, cell.text, "\n");
    return;
  }
  // Without room beside the name the value stands below it.
  const bool beside = indent + kMinCell <= options_.width;
  if (!beside) indent = options_.width > kMinCell ? kGap : 0;
  const size_t room = std::max<size_t>(options_.width - std::min(indent, options_.width), 2);
  std::vector<std::string> lines = WrapText(cell.text, room);
  if (lines.size() > kMaxValueLines) {
    lines.resize(kMaxValueLines);
    lines.back() = CutEnd(lines.back() + "…", room);
    if (!lines.back().ends_with("…")) lines.back() += "…";
    cut_ = true;
  }
  if (beside) {
    bold(CutEnd(name, options_.width));
    out->append(indent - std::min(indent, WidthOf(name)), ' ');
    Append(out, lines[0], "\n");
  } else {
    bold(CutEnd(name, options_.width));
    Append(out, "\n", std::string(indent, ' '), lines[0], "\n");
  }
  for (size_t n = 1; n < lines.size(); ++n) {
    Append(out, std::string(indent, ' '), lines[n], "\n");
  }
}

void TableWriter::Record(const Row& row, bool all, std::string* out) {
  std::vector<size_t> wanted = shown_;
  wanted.insert(wanted.end(), stacks_.begin(), stacks_.end());
  if (all) {
    wanted.clear();
    for (size_t i = 0; i < columns_.size(); ++i) wanted.push_back(i);
  }
  const bool place = all ? std::all_of(place_.begin(), place_.end(),
                                       [this](size_t i) { return i < columns_.size(); })
                         : merge_place_;
  size_t width = 0;
  for (const size_t i : wanted) {
    width = std::max(width, options_.terminal ? DisplayWidth(Printable(columns_[i].name))
                                              : CodePoints(columns_[i].name));
  }
  for (const size_t i : wanted) {
    std::string name = Printable(columns_[i].name);
    if (place && (i == place_[1] || i == place_[2] || i == place_[3])) continue;
    if (name == "python" && row[i].is_null()) continue;
    if (place && i == place_[0]) {
      RecordLine("where", PlaceCell(row[place_[0]], row[place_[1]], row[place_[2]], row[place_[3]]),
                 width + kGap, out);
      continue;
    }
    if (IsStack(i) && row[i].list()) {
      Append(out, name, "\n");
      const std::vector<Frame> frames = FramesOf(row[i]);
      for (size_t n = 0; n < frames.size(); ++n) FrameLine(n, frames[n], out);
      continue;
    }
    // On a terminal each object of a list is a line.
    const List* list = row[i].list();
    if (options_.terminal && list && !list->empty() && list->front().object()) {
      for (size_t n = 0; n < list->size(); ++n) {
        RecordLine(n == 0 ? name : "", ReadableCell((*list)[n], {"", Type::kObject}), width + kGap,
                   out);
      }
      continue;
    }
    RecordLine(name,
               options_.terminal ? ReadableCell(row[i], columns_[i])
                                 : Cell{.text = CellText(row[i], columns_[i].type)},
               width + kGap, out);
  }
}

std::string TableWriter::WhatIsMissing() const {
  if (!missing_.empty()) {
    return Cat("not shown, for want of room: ", absl::StrJoin(missing_, ", "),
               "; --wide shows all");
  }
  return cut_ ? "cut to the width of the terminal; --wide shows all" : "";
}

// ---- Memory ----------------------------------------------------------------------------------

bool HexDump(Address at, std::string_view data, const FormatOptions& options, uint64_t* lines,
             const std::function<void()>& spill, std::string* out) {
  // Of an address 18, two gaps, three for each byte, four signs around its character.
  size_t step = 16;
  const auto width_of = [](size_t step) { return 18 + (step + 7) / 8 + step * 4 + 4; };
  while (options.width > 0 && step > 1 && width_of(step) > options.width) step /= 2;
  for (size_t i = 0; i < data.size();) {
    if (options.limit && *lines >= *options.limit) return false;
    ++*lines;
    // The first line ends where a multiple of the step does.
    const uint64_t address = at.v + i;
    const size_t skip = address % step;
    const size_t count = std::min<size_t>(step - skip, data.size() - i);
    Append(out, fmt::format("{:#018x} ", address - skip));
    for (size_t k = 0; k < step; ++k) {
      if (k % 8 == 0) *out += ' ';
      if (k < skip || k >= skip + count) {
        *out += "   ";
      } else {
        *out += fmt::format("{:02x} ", static_cast<unsigned char>(data[i + k - skip]));
      }
    }
    *out += " |";
    out->append(skip, ' ');
    for (size_t k = 0; k < count; ++k) {
      const char c = data[i + k];
      *out += c >= 0x20 && c < 0x7f ? c : '.';
    }
    *out += "|\n";
    i += count;
    spill();
  }
  return true;
}

}  // namespace ttq
