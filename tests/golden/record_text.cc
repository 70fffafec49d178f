// SPDX-License-Identifier: MIT
//
// record_text DIRECTORY < TEXT: a recording of a history in text (tests/support/trace_text.h).

#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/support/trace_text.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fputs("usage: record_text DIRECTORY < TEXT\n", stderr);
    return 2;
  }
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  const absl::Status status = ttq::RecordText(text, argv[1]);
  if (!status.ok()) fprintf(stderr, "record_text: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
