// SPDX-License-Identifier: MIT
//
// The recordings that calls name. Those asked last stay open, for the next call to be quick; no
// answer depends on that.
//
// Belongs to one thread; what it gives may outlive it.

#ifndef TTQ_MCP_SUBJECTS_H_
#define TTQ_MCP_SUBJECTS_H_

#include <sys/stat.h>

#include <list>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "query/engine/engine.h"
#include "store/read/reader.h"

namespace ttq::mcp {

// A process of a recording, and what to call it: what a later call finds it by.
struct Subject {
  std::string name;
  std::unique_ptr<Recording> recording;
  std::unique_ptr<Engine> engine;

  const ProcessInfo& process() const { return engine->process().info(); }
  // "python3-1, process 1"; of several, which.
  std::string Title() const;
};

class Subjects {
 public:
  // `name` as -t takes it; `process` by its number. NotFound and what the store says of
  // a recording that cannot be read.
  absl::StatusOr<std::shared_ptr<const Subject>> Open(const std::string& name,
                                                      std::optional<uint32_t> process);

 private:
  struct Kept {
    std::string directory;
    uint32_t process;
    struct stat identity;
    std::shared_ptr<const Subject> subject;
  };
  std::list<Kept> kept_;  // the one asked last first
};

// What `directory` is called in calls: its name, where that finds it, else its path.
std::string CallName(const std::string& directory);

}  // namespace ttq::mcp

#endif  // TTQ_MCP_SUBJECTS_H_
