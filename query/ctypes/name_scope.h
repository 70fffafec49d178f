// SPDX-License-Identifier: MIT
//
// Decides before the first row which names of the program can have a meaning in the rows of a
// source. A name that cannot is a typing error, which is reported instead of a column of nulls.
// Belongs to one thread.

#ifndef TTQ_QUERY_CTYPES_NAME_SCOPE_H_
#define TTQ_QUERY_CTYPES_NAME_SCOPE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "query/ctypes/process_types.h"

namespace ttq {

class FrameState;
class TypeSpace;

// Where a copy of a function that was inlined begins.
struct InlinedCopy {
  Address entry;
  std::string function;  // demangled
  auto operator<=>(const InlinedCopy&) const = default;
};

// The code that the rows of a source are in.
struct NameScope {
  enum class Code : uint8_t {
    kAny,      // whatever was executed
    kEntries,  // the first instructions of `entries` and `inlined`
    kNone,     // what runs there is an interpreter's: only what is global means anything
  };
  Code code = Code::kAny;
  std::vector<Address> entries;
  std::vector<InlinedCopy> inlined;
  // With kEntries: the parameters that all of those functions have. In a condition such a name
  // means the argument, whatever column has it.
  std::vector<std::string> arguments;
};

class NamesInScope {
 public:
  NamesInScope(const ProcessTypes& context, const NameScope& scope)
      : context_(context), scope_(scope) {}

  // A variable, local or global, or a member of `this`.
  absl::StatusOr<bool> IsVariable(const std::string& name);
  // Anything that has a value: also an enumerator or a function.
  absl::StatusOr<bool> HasValue(const std::string& name);
  absl::StatusOr<bool> IsType(const std::string& name);
  // Variables of about that name.
  absl::StatusOr<std::vector<std::string>> Near(const std::string& name);
  // Calls `use` with the frame of each of the scope's functions at its first instruction, until it
  // says true. What needs the state of a moment is not to be asked of it.
  absl::Status ForEachEntry(const std::function<bool(FrameState&)>& use);

 private:
  absl::StatusOr<bool> IsLocal(const std::string& name);
  absl::StatusOr<bool> IsLocalOfWhatRan(const std::string& name);
  absl::StatusOr<const TypeSpace*> Types() const;

  const ProcessTypes& context_;
  const NameScope& scope_;
  std::map<std::string, bool> variables_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_NAME_SCOPE_H_
