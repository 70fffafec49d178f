// SPDX-License-Identifier: MIT
//
// What a table of CPython's offsets cannot leave to the one before it.

#include <algorithm>

#include "gtest/gtest.h"
#include "query/cpython/versions.h"

namespace ttq::python {
namespace {

bool Has(absl::Span<const FieldOffset> rows, Offset Layout::*field) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const FieldOffset& row) { return row.field == field; });
}

TEST(Versions, AreInOrderWithoutGaps) {
  int minor = kVersions[0]->minor;
  for (const Version* version : kVersions) EXPECT_EQ(version->minor, minor++);
}

// Its layout is read as its own version's alone: a version without would not be told by it.
TEST(Versions, KeepDebugOffsets) {
  bool before = false;
  for (const Version* version : kVersions) {
    EXPECT_TRUE(!before || !version->debug_offsets.empty()) << "3." << version->minor;
    before = !version->debug_offsets.empty();
  }
  EXPECT_TRUE(before);
}

// A row of an older free-threaded build would replace what a newer version says of the field.
TEST(Versions, MoveFieldsOfTheFreeThreadedBuildToo) {
  for (const Version* version : kVersions) {
    for (const FieldOffset& row : version->offsets) {
      for (const Version* older : kVersions) {
        if (older->minor >= version->minor || !Has(older->free_threaded, row.field)) continue;
        EXPECT_TRUE(Has(version->free_threaded, row.field))
            << "3." << version->minor << " moves to " << row.offset << " what 3." << older->minor
            << "t has elsewhere";
      }
    }
  }
}

}  // namespace
}  // namespace ttq::python
