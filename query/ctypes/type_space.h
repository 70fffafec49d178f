// SPDX-License-Identifier: MIT
//
// The types and variables of a whole process: the debug files of its modules at their places, C's
// own types, and types made from others (a cast to `T *` needs no DWARF for the pointer). It looks
// names up across modules, and finds the definition of a type that a unit only declares.
// Thread-safe.

#ifndef TTQ_QUERY_CTYPES_TYPE_SPACE_H_
#define TTQ_QUERY_CTYPES_TYPE_SPACE_H_

#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "query/code/symbols.h"
#include "query/code/unwind.h"
#include "query/ctypes/debug_file.h"
#include "query/ctypes/type.h"
#include "query/language/ast.h"

namespace ttq {

// Debug files by the symbol file they belong to, so that all times of a process share them.
class DebugFiles {
 public:
  // Null: no DWARF. Lives as long as this.
  const DebugFile* Open(const SymbolFile& file);

 private:
  struct Slot {
    std::once_flag opened;
    std::shared_ptr<const DebugFile> file;
  };
  std::mutex mutex_;
  std::map<const SymbolFile*, Slot> files_;
};

class TypeSpace {
 public:
  // `symbols` and `files` must outlive it. `program` is the path of the program.
  TypeSpace(const Symbolizer* symbols, DebugFiles* files, std::string program);
  ~TypeSpace();

  const Symbolizer& symbols() const { return *symbols_; }

  // A module with DWARF.
  struct Placed {
    const DebugFile* file = nullptr;
    const Module* module = nullptr;
    uint64_t bias = 0;
  };
  std::optional<Placed> FileAt(Address address) const;
  std::optional<Placed> FileOf(const Module& module) const;
  // It is the program itself, not one of its libraries.
  bool IsProgram(const Module& module) const;
  // Opens the program's debug information on another thread, for a caller that will soon look a
  // name up.
  void OpenProgramAhead() const;
  // Modules in the order names are looked for: `first`, the program, the others.
  std::vector<const Module*> Modules(const Module* first) const;

  // One of C's own types by its name in any order of words: "long unsigned", "uint8_t". Null: none.
  const CType* Builtin(std::string_view name) const;
  // Null when no module defines it. `name` as in ast::TypeName, without pointers.
  const CType* Find(std::string_view name, Address near) const;
  // Names like `name`, nearest first.
  std::vector<std::string> NamesLike(std::string_view name) const;

  const CType* PointerTo(const CType* type) const;
  const CType* ArrayOf(const CType* type, uint64_t count) const;
  // Without typedefs and qualifiers, and the definition instead of a declaration if there is one.
  const CType* Complete(const CType* type) const;
  std::optional<uint64_t> SizeOf(const CType* type) const;

  // The canonical frame address at `pc`, when the registers are known; nullopt: no call-frame
  // information, or it needs what is not known.
  std::optional<uint64_t> FrameAddress(
      Address pc, const std::function<std::optional<uint64_t>(int dwarf_register)>& registers,
      const std::function<std::optional<uint64_t>(uint64_t, uint32_t)>& memory) const;
  // How far below the canonical frame address a register (DWARF's number) is in the body of the
  // function that holds `pc`, where at `pc` it is not set up yet, or not any more; nullopt: it is.
  std::optional<uint64_t> OffsetBeforeBody(Address pc, int base_register) const;

 private:
  // REQUIRES: mutex_ is held.
  UnwindTable& UnwindOf(const SymbolFile* file) const;
  const Symbolizer* symbols_;
  DebugFiles* files_;
  std::string program_;

  mutable std::mutex mutex_;
  mutable std::map<const CType*, std::unique_ptr<const CType>> pointers_;
  mutable std::map<std::pair<const CType*, uint64_t>, std::unique_ptr<const CType>> arrays_;
  mutable std::map<const CType*, const CType*> definitions_;
  mutable std::map<const SymbolFile*, std::unique_ptr<UnwindTable>> unwind_;
  mutable std::once_flag ahead_;
  mutable std::future<void> opening_;  // the last, so that it ends first
};

// "char", "unsigned long", …: C's own types, of no module.
const CType* BuiltinType(std::string_view canonical_name);

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_TYPE_SPACE_H_
