// SPDX-License-Identifier: MIT
//
// The lines of a function with how often each ran in one activation of it.

#ifndef TTQ_MCP_SOURCE_H_
#define TTQ_MCP_SOURCE_H_

#include <cstdint>
#include <string>

#include "mcp/call.h"
#include "mcp/subjects.h"

namespace ttq::mcp {

struct SourceOptions {
  std::string place;  // FILE:LINE: the first activation that ran it; or
  std::string time;   // a TIME, and the frame of the stack then
  uint64_t frame = 0;
  bool python = false;
  double budget_s = 20;
};

ToolResult ShowSource(const Subject& subject, const SourceOptions& options, Call* call);

}  // namespace ttq::mcp

#endif  // TTQ_MCP_SOURCE_H_
