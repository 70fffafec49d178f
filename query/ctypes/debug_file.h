// SPDX-License-Identifier: MIT
//
// What one ELF file's DWARF says beyond code: its types, its variables with their places, and which
// of them a name means. Types and units are read when they are needed. A name is found by an index
// of all names of the file, made once and kept on disk (name_index.h).
// Thread-safe. Addresses are the file's own.

#ifndef TTQ_QUERY_CTYPES_DEBUG_FILE_H_
#define TTQ_QUERY_CTYPES_DEBUG_FILE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "query/code/die.h"
#include "query/code/symbols.h"
#include "query/ctypes/name_index.h"
#include "query/ctypes/type.h"

namespace ttq {

// The scopes that hold an address, outermost first: the function, its blocks, functions inlined
// there.
struct CodeScope {
  Die die;  // DW_TAG_subprogram, lexical_block or inlined_subroutine
};

class DebugFile {
 public:
  // Null when the file has no DWARF.
  static std::shared_ptr<const DebugFile> Open(const SymbolFile& file);
  ~DebugFile();

  const DwarfData& data() const { return *data_; }

  // Never null; UnknownType() for what is no type.
  const CType* TypeAt(DieRef ref) const;

  // The DIEs that `name`, perhaps qualified, names: any tail of the qualified name that starts at a
  // component. Those of unit `near` (may be null) come first; of types, before all those that have
  // just that name.
  std::vector<Die> Find(std::string_view name, NameKind kind, const DwarfUnit* near) const;
  // False proves that nothing in the file has the name, not even a local variable.
  bool MayName(std::string_view name) const { return data_->MayName(name); }
  // Adds every name of a kind: for suggestions.
  void ForEachName(NameKind kind, const std::function<void(std::string_view)>& use) const;

  // Empty when DWARF knows no function there.
  std::vector<CodeScope> ScopesAt(uint64_t address) const;

  // DW_AT_name, also of what the DIE is a copy or the definition of.
  static std::string_view NameOf(const Die& die);
  static DieRef TypeOf(const Die& die);
  // An attribute of the DIE itself or of what it is a copy or the definition of.
  static std::optional<DieAttribute> Inherited(const Die& die, uint16_t name, Die* owner);
  // With namespaces and classes.
  std::string QualifiedName(const Die& die) const;

 private:
  DebugFile() = default;
  struct Enclosure;
  struct UnitScopes;
  const UnitScopes& ScopesOf(const DwarfUnit& unit) const;
  std::unique_ptr<CType> ReadType(const Die& die) const;
  void ReadBaseType(const Die& die, CType* type) const;
  void ReadEnum(const Die& die, CType* type) const;
  void ReadArray(const Die& die, CType* type) const;
  void ReadMembers(const Die& die, CType* type) const;
  bool IsCopiedByCode(const Die& die) const;
  bool TakesItsOwnType(const Die& die, const Die& constructor) const;
  const CType* Remember(std::unique_ptr<CType> type) const;
  const NameIndex& Index() const;

  std::shared_ptr<const DwarfData> data_;
  std::string build_id_;
  struct Lazy;
  std::unique_ptr<Lazy> lazy_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_DEBUG_FILE_H_
