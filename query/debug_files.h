// SPDX-License-Identifier: MIT
//
// Finds the separate debug file of a module, as gdb does ("Debugging Information in Separate
// Files"). A path alone proves nothing: a file counts only when its build-id is the module's or,
// where there is none, when the CRC in .gnu_debuglink is right.
// Thread-safe: functions without state.

#ifndef TTQ_QUERY_DEBUG_FILES_H_
#define TTQ_QUERY_DEBUG_FILES_H_

#include <optional>
#include <string>

#include "query/elf_file.h"
#include "query/symbols.h"

namespace ttq {

struct DebugFile {
  std::string path;
  ElfFile elf;
};

// `path` is where the module was when it ran. nullopt: none found.
std::optional<DebugFile> FindDebugFile(const ElfFile& module, const std::string& path,
                                       const SymbolOptions& options);

// What `debug`, which was found at `path`, names in .gnu_debugaltlink (made by dwz).
std::optional<DebugFile> FindAltFile(const ElfFile& debug, const std::string& path,
                                     const SymbolOptions& options);

}  // namespace ttq

#endif  // TTQ_QUERY_DEBUG_FILES_H_
