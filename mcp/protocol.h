// SPDX-License-Identifier: MIT
//
// Messages of the Model Context Protocol, in JSON-RPC 2.0: revision 2026-07-28, whose requests say
// in `_meta` which revision they are of, and 2025-11-25 and before, which begin with `initialize`.
// Nothing is remembered between messages, so that both may come from one client.
//
// https://modelcontextprotocol.io/specification has the revisions. Thread-safe.

#ifndef TTQ_MCP_PROTOCOL_H_
#define TTQ_MCP_PROTOCOL_H_

#include <string>
#include <string_view>

#include "mcp/call.h"
#include "mcp/tools.h"
#include "nlohmann/json.hpp"

namespace ttq::mcp {

inline constexpr char kModernRevision[] = "2026-07-28";

// What a message asks for.
struct Message {
  enum class Kind {
    kNothing,  // a notification, a response: nothing is sent back
    kReply,    // `reply` is sent back
    kCall,     // a tool is called
    kCancel,   // the request `id` is not wanted any more
  };
  Kind kind = Kind::kNothing;
  std::string reply;  // one line, without its end
  nlohmann::ordered_json id;
  bool modern = false;
  std::string tool;
  nlohmann::ordered_json arguments;
};

// Reads one line, which may hold anything.
Message ReadMessage(std::string_view line, const Tools& tools);

// What is sent back for a call.
std::string ResultReply(const Message& call, const ToolResult& result);
std::string InternalError(const Message& call, std::string_view message);
// What is sent back for a line that was too long to be read.
std::string TooLongError(size_t most);

}  // namespace ttq::mcp

#endif  // TTQ_MCP_PROTOCOL_H_
