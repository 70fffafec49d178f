// SPDX-License-Identifier: MIT
//
// The server: a JSON-RPC message per line, from one descriptor to another. A client is untrusted:
// whatever it sends is answered by a line of JSON, or by nothing.

#ifndef TTQ_MCP_SERVER_H_
#define TTQ_MCP_SERVER_H_

#include "mcp/tools.h"

namespace ttq::mcp {

// Serves until `in` ends, and answers what came by then; or until nobody can read `out` any more,
// which ends all work. Tools are called one after another; pings and other questions are answered
// at once. SIGPIPE must be ignored.
void Serve(int in, int out, Options options);

}  // namespace ttq::mcp

#endif  // TTQ_MCP_SERVER_H_
