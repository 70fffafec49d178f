// SPDX-License-Identifier: MIT
//
// The line table of one unit: which file and line each instruction is of. DWARF 2 to 5 (DWARF 5
// section 6.2).
//
// The section is untrusted: what is damaged ends the table early. Thread-safe: functions without
// state. Addresses are the file's own.

#ifndef TTQ_QUERY_CODE_LINE_TABLE_H_
#define TTQ_QUERY_CODE_LINE_TABLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "query/code/die.h"

namespace ttq {

// What stands before the program that makes the rows.
struct LineHeader {
  // By number: in DWARF 5 from 0, before from 1 (and 0 is empty). Absolute where the compilation
  // directory is known.
  std::vector<std::string> files;
  ByteSpan program;
  uint8_t min_instruction = 1, opcode_base = 1, line_range = 1;
  int8_t line_base = 0;
  bool default_is_stmt = false;
  std::vector<uint8_t> operands;  // of standard opcodes, by opcode - 1
};
// Without files and program when the unit has no table that can be read.
LineHeader ReadLineHeader(const DwarfData& data, const DwarfUnit& unit);

struct LineRow {
  uint64_t address;
  uint32_t line;  // 0: of no line
  uint32_t file;  // its number; perhaps of no file
  bool is_stmt;
  // A debugger that steps takes it for part of the row before: it is of no line, or of the same
  // line, told apart by a discriminator only.
  bool joined;
};

// Code that a debugger steps over as one, and how it shows it.
struct LineStep {
  uint64_t begin = 0, end = 0;
  uint32_t line = 0;  // 0: none
  uint32_t file = 0;
  bool is_stmt = false;
};

// Rows [first_row, end_row) tell of the code [begin, end).
struct LineSequence {
  uint64_t begin, end;
  uint32_t first_row, end_row;
};

struct LineTable {
  std::vector<LineRow> rows;            // ascending within a sequence
  std::vector<LineSequence> sequences;  // ascending
  // The row that an address belongs to; null: none. Of several rows for one address the last: it
  // ends the others' empty ranges. As in gdb, one where a statement begins goes before one where
  // none does.
  const LineRow* RowAt(uint64_t address) const;
  // What gdb takes for the line at an address (gdb/symtab.c, find_pc_sect_line, of the rows that
  // gdb/dwarf2/read.c, dwarf_record_line_p, leaves).
  LineStep StepAt(uint64_t address) const;

 private:
  const LineSequence* SequenceAt(uint64_t address) const;
};
// `is_code` tells code of the module from the left-overs of functions that the linker dropped.
LineTable ReadLines(const LineHeader& header, const std::function<bool(uint64_t)>& is_code);

// "/a/./b/../c" -> "/a/c". Symbolic links are not looked at: the file need not exist here.
std::string NormalizePath(std::string_view path);

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_LINE_TABLE_H_
