// SPDX-License-Identifier: MIT
//
// Any bytes as a script: no crash, every error has a place inside the text and can be rendered, and
// what parses has a canonical text that parses to itself.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace {

void Require(bool holds, const char* what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto queries = ttq::ParseScript(text);
  if (!queries.ok()) {
    const auto diagnostic = ttq::GetDiagnostic(queries.status());
    Require(diagnostic.has_value(), "an error without a diagnostic", text);
    Require(diagnostic->begin <= diagnostic->end && diagnostic->end <= size, "a place outside",
            text);
    Require(diagnostic->message.find('\n') == std::string::npos, "a message of two lines", text);
    Require(!ttq::RenderDiagnostic(text, *diagnostic).empty(), "nothing to show", text);
    return 0;
  }
  for (const auto& query : *queries) {
    const std::string canonical = ttq::ast::ToString(query);
    const auto again = ttq::ParseQuery(canonical);
    if (!again.ok()) {
      // The canonical text may be longer than what was read, and then beyond the limits.
      Require(canonical.size() > 900, "the canonical text does not parse", canonical);
      continue;
    }
    Require(ttq::ast::ToString(*again) == canonical, "the canonical text is not stable", canonical);
  }
  return 0;
}
