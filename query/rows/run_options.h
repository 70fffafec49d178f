// SPDX-License-Identifier: MIT
//
// How a query is run, and how its answer is to be shown.

#ifndef TTQ_QUERY_ROWS_RUN_OPTIONS_H_
#define TTQ_QUERY_ROWS_RUN_OPTIONS_H_

#include <string>
#include <vector>

#include "store/read/reader.h"

namespace ttq {

struct RunOptions {
  // Interrupts the query and tells how far it is: set `cancelled` from any thread (or a signal
  // handler), read the block counts from any thread. May be null; must outlive the stream.
  ScanControl* control = nullptr;
  // Decode every block instead of reading indexes. The answer is the same.
  bool full_scan = false;
};

// How people would like to see an answer. Front ends for programs ignore it.
struct Presentation {
  enum class Layout {
    kRows,     // a table
    kRecord,   // one wide row: a name and a value per line
    kHexDump,  // rows of `address`, `size` and `bytes`
  };
  Layout layout = Layout::kRows;
  // The columns a table shows; empty: all. `function` stands for the whole place in the code when
  // module, file and line are among the columns of the answer but not in this list. A list of
  // frames (backtrace, py_backtrace) is shown below its row.
  std::vector<std::string> table_columns;
  // What to say when there are no rows: "nothing wrote 0x10..0x18 before time 5 (proved from the
  // index)". Empty: nothing in particular.
  std::string no_rows;
};

}  // namespace ttq

#endif  // TTQ_QUERY_ROWS_RUN_OPTIONS_H_
