// SPDX-License-Identifier: MIT
//
// Names of a process's code and data at a time: symbols and global variables.
//
// Thread-safe. Names are loaded on first use: a query that prints no function reads no ELF file.

#ifndef TTQ_QUERY_PROCESS_PROCESS_NAMES_H_
#define TTQ_QUERY_PROCESS_PROCESS_NAMES_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "query/code/symbols.h"
#include "query/language/ast.h"
#include "store/read/reader.h"

namespace ttq {

// Joins the first three of a list and says how many more there are: "a, b, c, and 2 more".
std::string FirstThree(std::vector<std::string> list, const char* separator);

// Says why a name may be missing: " (libx.so: its bytes were not recorded)"; empty: no known
// reason.
std::string WhyNamesAreMissing(const Symbolizer& symbols);

class ProcessNames {
 public:
  // Both must outlive this object.
  ProcessNames(const Recording* recording, const Process* process);

  const Process& process() const { return *process_; }
  const Recording& recording() const { return *recording_; }

  // The names of the code mapped at `t`. Owned by this object.
  absl::StatusOr<const Symbolizer*> SymbolsAt(Time t) const;
  // The names of all modules ever mapped; where several had the same addresses, those of the
  // latest.
  absl::StatusOr<const Symbolizer*> AllSymbols() const;

  // The global variable called `name` in any module; nullopt: none; an error at `range` when
  // several match.
  absl::StatusOr<std::optional<VariableInfo>> FindGlobal(ast::Range range,
                                                         const std::string& name) const;
  std::vector<std::string> GlobalsLike(const std::string& name) const;
  // The error at `range` for an unknown global; `near`: names that were perhaps meant.
  absl::Status NoGlobal(ast::Range range, const std::string& name,
                        const std::vector<std::string>& near) const;

 private:
  absl::StatusOr<const Symbolizer*> Symbols(size_t epoch) const;
  absl::Status LoadModules() const;

  const Recording* recording_;
  const Process* process_;

  mutable std::mutex mutex_;  // guards what follows
  mutable bool loaded_ = false;
  mutable std::vector<LoadedModule> modules_;
  // Times at which a module is loaded at addresses that an earlier one had. Epoch i ends before
  // boundaries_[i].
  mutable std::vector<Time> boundaries_;
  mutable std::map<size_t, std::unique_ptr<Symbolizer>> symbolizers_;
  mutable std::shared_ptr<SymbolFileCache> cache_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_PROCESS_PROCESS_NAMES_H_
