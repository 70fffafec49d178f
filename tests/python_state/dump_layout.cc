// SPDX-License-Identifier: MIT
//
// dump_layout MINOR [t]: the offsets that ttq uses for CPython 3.MINOR, one `name offset` per line.

#include <cstdlib>
#include <cstring>

#include "fmt/core.h"
#include "query/cpython/layout.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto layout = ttq::python::LayoutOf(atoi(argv[1]), argc > 2 && strcmp(argv[2], "t") == 0);
  if (!layout) return 1;
  for (const auto& [name, offset] : ttq::python::NamedOffsets(*layout)) {
    fmt::print("{} {}\n", name, offset);
  }
}
