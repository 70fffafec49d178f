// SPDX-License-Identifier: MIT
//
// Recording a program for an agent: `ttq record` as a child, so that what the program prints is not
// taken for an answer of the server.

#ifndef TTQ_MCP_RECORD_H_
#define TTQ_MCP_RECORD_H_

#include <string>
#include <vector>

#include "mcp/call.h"

namespace ttq::mcp {

struct RecordOptions {
  std::string program;  // the ttq
  std::vector<std::string> argv;
  std::string directory;  // to run it in; "": here
  std::string max_size;   // as `ttq record --max-size` takes it; "": none
  double timeout_s = 60;
};

// What came of it: the recording, the status, the ends of what was printed. When the time is over
// the program is ended, and what was recorded stays.
ToolResult RecordProgram(const RecordOptions& options, Call* call);

}  // namespace ttq::mcp

#endif  // TTQ_MCP_RECORD_H_
