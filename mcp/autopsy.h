// SPDX-License-Identifier: MIT
//
// The report's document (docs/report.md) in less room: what an agent needs first.

#ifndef TTQ_MCP_AUTOPSY_H_
#define TTQ_MCP_AUTOPSY_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ttq::mcp {

inline constexpr size_t kMaxAutopsy = 6'000;  // bytes

// The document in at most `most` bytes, still as JSON: parts lose rows, texts and at last
// themselves, the least telling ones first. What was left out of a list is an element of it,
// "… N more"; a part's `question` gives all of it. REQUIRES: `document` is of AutopsyJson.
std::string CutAutopsy(std::string_view document, size_t most = kMaxAutopsy);

}  // namespace ttq::mcp

#endif  // TTQ_MCP_AUTOPSY_H_
