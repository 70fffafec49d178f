// SPDX-License-Identifier: MIT

#include "query/ctypes/process_types.h"

#include "base/status_macros.h"
#include "query/ctypes/type_space.h"

namespace ttq {

ProcessTypes::ProcessTypes(const Recording* recording, const Process* process)
    : ProcessNames(recording, process), debug_files_(std::make_unique<DebugFiles>()) {}

ProcessTypes::~ProcessTypes() = default;

absl::StatusOr<const TypeSpace*> ProcessTypes::TypesAt(Time t) const {
  ASSIGN_OR_RETURN(const Symbolizer* symbols, SymbolsAt(t));
  std::lock_guard<std::mutex> lock(types_mutex_);
  std::unique_ptr<TypeSpace>& types = types_[symbols];
  if (!types) {
    types = std::make_unique<TypeSpace>(symbols, debug_files_.get(), process().info().program);
  }
  return types.get();
}

}  // namespace ttq
