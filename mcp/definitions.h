// SPDX-License-Identifier: MIT
//
// The tools as agents are told of them. Every word of it is read in every conversation: all of it
// has at most 3,000 tokens.

#ifndef TTQ_MCP_DEFINITIONS_H_
#define TTQ_MCP_DEFINITIONS_H_

namespace ttq::mcp {

// JSON: a list of tools. What a tool takes is checked by its inputSchema.
extern const char kDefinitions[];
// The one that is there with --allow-record only.
extern const char kRecordDefinition[];
// What the server says of itself.
extern const char kInstructions[];

}  // namespace ttq::mcp

#endif  // TTQ_MCP_DEFINITIONS_H_
