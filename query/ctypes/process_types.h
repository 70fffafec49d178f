// SPDX-License-Identifier: MIT
//
// The names of a process and the C and C++ types behind them. Thread-safe.

#ifndef TTQ_QUERY_CTYPES_PROCESS_TYPES_H_
#define TTQ_QUERY_CTYPES_PROCESS_TYPES_H_

#include <map>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "query/process/process_names.h"

namespace ttq {

class DebugFiles;
class TypeSpace;

class ProcessTypes : public ProcessNames {
 public:
  ProcessTypes(const Recording* recording, const Process* process);
  ~ProcessTypes();

  // The types of what is mapped at `t`. Owned by this object.
  absl::StatusOr<const TypeSpace*> TypesAt(Time t) const;

 private:
  std::unique_ptr<DebugFiles> debug_files_;  // outlives the types, which open files ahead
  mutable std::mutex types_mutex_;           // guards types_
  mutable std::map<const Symbolizer*, std::unique_ptr<TypeSpace>> types_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_PROCESS_TYPES_H_
