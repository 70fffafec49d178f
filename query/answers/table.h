// SPDX-License-Identifier: MIT
//
// Rows as lines for people: a table, a row as one name and value per line, memory as a hex dump.
// Elsewhere than on a terminal lines are as long as they need to be; on a terminal of a known width
// they are never longer than that.
//
// Belongs to one thread.

#ifndef TTQ_QUERY_ANSWERS_TABLE_H_
#define TTQ_QUERY_ANSWERS_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "query/answers/cell.h"
#include "query/answers/format.h"
#include "query/engine/engine.h"
#include "query/value.h"

namespace ttq {

class TableWriter {
 public:
  // Both outlive it.
  TableWriter(const ResultStream& stream, const FormatOptions& options);

  // Chooses the columns' widths from these rows; with a width to keep to, also which columns are
  // left out. Once, before any line.
  void Begin(const std::vector<std::vector<Cell>>& rows);
  std::vector<Cell> Cells(const Row& row) const;
  // Whether a table with this one row would not fit, so that Record shows it better.
  bool IsWide(const std::vector<Cell>& row) const;

  void Header(std::string* out) const;
  void Line(const std::vector<Cell>& cells, std::string* out);
  // What follows the line of a row: a line for each frame of its stacks. With a width to keep to,
  // outer frames that are the same as in the row before are one line.
  void Stacks(const Row& row, std::string* out);
  // One row, a name and a value per line. `all`: every column, else those of the table.
  void Record(const Row& row, bool all, std::string* out);
  // What was left out or cut for want of room, in one line; "" when nothing was.
  std::string WhatIsMissing() const;

 private:
  struct Frame {
    std::string pc, source;
    Cell place;
    bool operator==(const Frame& other) const {
      return pc == other.pc && source == other.source && place.text == other.place.text;
    }
  };

  bool IsStack(size_t column) const;
  bool IsPlace(size_t column) const { return merge_place_ && column == place_[0]; }
  bool RightAligned(size_t column) const;
  Cell CellOf(const Row& row, size_t column) const;
  std::string HeaderOf(size_t column) const;
  size_t WidthOf(std::string_view text) const;
  void LineOf(const std::vector<Cell>& cells, bool header, std::string* out) const;
  // What is left of the terminal's width for columns.
  size_t Room() const { return options_.width - std::min(options_.width, number_width_); }
  // Of a table with these widths.
  static size_t LineWidth(const std::vector<size_t>& widths);
  // Makes widths_ fit, and leaves columns out where that does not do.
  void Fit(const std::vector<std::vector<Cell>>& rows);
  // Takes from the widest columns that can be cut; false when that is not enough.
  bool Shrink();
  void LeaveOut(size_t shown);
  static std::vector<Frame> FramesOf(const Value& value);
  void StackLines(size_t stack, const Value& value, std::string* out);
  void FrameLine(size_t number, const Frame& frame, std::string* out) const;
  void RecordLine(const std::string& name, const Cell& cell, size_t indent, std::string* out);

  const std::vector<Column>& columns_;
  const FormatOptions& options_;
  bool merge_place_ = false;
  std::vector<size_t> place_;   // function, module, file, line
  std::vector<size_t> shown_;   // columns, in order
  std::vector<size_t> stacks_;  // columns that are shown below their row
  std::vector<size_t> widths_;  // of shown_
  std::vector<bool> left_out_;  // of shown_
  std::vector<std::string> missing_;
  mutable bool cut_ = false;
  size_t number_width_ = 0;  // of a row's number and the gap behind it
  uint64_t lines_ = 0;
  std::vector<std::vector<Frame>> last_stacks_;  // of stacks_, of the row before
};

// Lines of sixteen bytes as `hexdump -C` shows them, of fewer where `options.width` is small. False
// when the limit cut them. `lines` counts; `spill` is called after each.
bool HexDump(Address at, std::string_view data, const FormatOptions& options, uint64_t* lines,
             const std::function<void()>& spill, std::string* out);

}  // namespace ttq

#endif  // TTQ_QUERY_ANSWERS_TABLE_H_
