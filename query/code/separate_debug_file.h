// SPDX-License-Identifier: MIT
//
// Finds the separate debug file of a module, as gdb does ("Debugging Information in Separate
// Files"). A path alone proves nothing: a file counts only when its build-id is the module's or,
// where there is none, when the CRC in .gnu_debuglink is right.
// Thread-safe: functions without state.

#ifndef TTQ_QUERY_CODE_SEPARATE_DEBUG_FILE_H_
#define TTQ_QUERY_CODE_SEPARATE_DEBUG_FILE_H_

#include <optional>
#include <string>

#include "query/code/elf_file.h"

namespace ttq {

struct SymbolOptions {
  // Where separate debug files are looked for. Tests point it elsewhere.
  std::vector<std::string> debug_directories = {"/usr/lib/debug"};
  // Also beside the module's path and in its .debug/ folder.
  bool search_beside_module = true;
};

struct SeparateDebugFile {
  std::string path;
  ElfFile elf;
};

// `path` is where the module was when it ran. nullopt: none found.
std::optional<SeparateDebugFile> FindSeparateDebugFile(const ElfFile& module,
                                                       const std::string& path,
                                                       const SymbolOptions& options);

// What `debug`, which was found at `path`, names in .gnu_debugaltlink (made by dwz).
std::optional<SeparateDebugFile> FindAltFile(const ElfFile& debug, const std::string& path,
                                             const SymbolOptions& options);

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_SEPARATE_DEBUG_FILE_H_
