// SPDX-License-Identifier: MIT
//
// The tools that agents call: what they are called, what they take, and what they answer. No answer
// depends on an earlier call.
//
// Belongs to one thread at a time.

#ifndef TTQ_MCP_TOOLS_H_
#define TTQ_MCP_TOOLS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mcp/call.h"
#include "nlohmann/json_fwd.hpp"

namespace ttq::mcp {

// A text of the manual, for the tool `language`.
struct ManualTopic {
  std::string_view name, summary, text;
};

struct Options {
  bool allow_record = false;
  std::string program;              // the ttq that records
  std::vector<ManualTopic> topics;  // the first is what is shown when none is named
};

class Tools {
 public:
  explicit Tools(Options options);
  ~Tools();

  // The definitions, as `tools/list` gives them. Thread-safe.
  const nlohmann::ordered_json& Definitions() const;
  // Whether there is a tool of this name; if not, what is there, in `*known`. Thread-safe.
  bool Has(const std::string& name, std::string* known) const;
  // REQUIRES: there is, and `arguments` is an object.
  ToolResult Run(const std::string& name, const nlohmann::ordered_json& arguments, Call* call);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ttq::mcp

#endif  // TTQ_MCP_TOOLS_H_
