// SPDX-License-Identifier: MIT
//
// Values as people read them: one cell of a table, or what stands behind a name. Whatever a program
// is called or says comes out printable. Thread-safe.

#ifndef TTQ_QUERY_ANSWERS_CELL_H_
#define TTQ_QUERY_ANSWERS_CELL_H_

#include <cstddef>
#include <string>

#include "query/value.h"

namespace ttq {

struct Cell {
  // What is given up first when there is no room: the end of a text, the beginning of a path, of a
  // place in the code its module, then a part of the function's name.
  enum class Cut { kEnd, kBeginning, kPlace };

  std::string text;
  Cut cut = Cut::kEnd;
  // kPlace: where in `text` " at FILE:LINE" begins, and where " (MODULE)" does.
  size_t at = 0, module = 0;
};

// "main at main.c:12 (a.out)" from the four columns of a place.
Cell PlaceCell(const Value& function, const Value& module, const Value& file, const Value& line);

// A value for a terminal: of an object that is a place in Python "read at report.py:29", of other
// objects `self=0x1000, n=3`, of lists their elements.
Cell ReadableCell(const Value& value, const Column& column);

// The cell's text in at most `width` columns of a terminal.
std::string FitCell(const Cell& cell, size_t width);

}  // namespace ttq

#endif  // TTQ_QUERY_ANSWERS_CELL_H_
