// SPDX-License-Identifier: MIT
//
// What DWARF says about code: functions, inlined copies, lines, static variables. One compile unit
// is read when an address or a name needs it, and kept.
//
// The sections are untrusted. Damage gives fewer answers. Addresses are the file's own.
// NOT thread-safe. The owner (SymbolFile) holds a lock round every call.

#ifndef TTQ_QUERY_CODE_DWARF_INFO_H_
#define TTQ_QUERY_CODE_DWARF_INFO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "query/code/die.h"
#include "query/code/line_table.h"
#include "query/code/names.h"
#include "query/code/symbols.h"

namespace ttq {

class DwarfInfo {
 public:
  // Null only for no `data`. `is_code` tells code of the module from the left-overs of functions
  // that the linker dropped.
  static std::unique_ptr<DwarfInfo> Open(std::shared_ptr<const DwarfData> data,
                                         std::function<bool(uint64_t)> is_code);
  ~DwarfInfo();

  struct Location {
    // Innermost to outermost; empty when the unit names no function there (assembler).
    std::vector<InlineFrame> frames;
    // From the start of the piece of frames.back() that holds the address.
    uint64_t offset = 0;
    std::string file;
    int line = 0;
    LineStep step;
    std::string step_file;  // that step.file is the number of
    // Of the innermost frames, how many inlined copies begin at this very address.
    uint32_t begun = 0;
  };
  // False when no compile unit claims the address.
  bool Locate(uint64_t address, Location* place);

  // Out-of-line functions and inlined copies; `module` is left empty.
  std::vector<FunctionInfo> FindFunctions(const NameMatcher& matcher);
  std::optional<FunctionInfo> FunctionAt(uint64_t address);
  // Every function's symbol, inlined ones too.
  void AddFunctionNames(Suggestions* suggestions);

  // Rows of the line, or of the next one with code when `next` and there are none.
  std::vector<LineMatch> FindLine(std::string_view file, int line, bool next);
  void AddFileNames(Suggestions* suggestions);

  // Variables with one constant address.
  std::vector<VariableInfo> FindVariables(const NameMatcher& matcher);
  void AddVariableNames(Suggestions* suggestions);

 private:
  struct Impl;
  explicit DwarfInfo(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// `tail` is `path` or a tail of it that starts at a component.
bool PathEndsWith(std::string_view path, std::string_view tail);

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_DWARF_INFO_H_
