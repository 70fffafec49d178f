// SPDX-License-Identifier: MIT
//
// The reader of DWARF on arbitrary sections: its trees and lists, what it says of code, names and
// types. What it reads twice must be the same.

#include "query/die.h"
#include "query/symbols.h"
#include "query/types/debug_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/elf_bytes.h"

namespace ttq {
namespace {

constexpr uint64_t kCode = 0x1000;
// DIEs looked at: the same bytes may be reached by many ways.
constexpr int kMostDies = 2000;

void LookAt(const DebugFile& file, const DwarfData& data) {
  int dies = 0;
  for (const DwarfUnit& unit : data.units()) {
    DieWalk walk(data, unit);
    uint64_t last = 0;
    while (walk.Next() && ++dies < kMostDies) {
      const Die& die = walk.die();
      Require(die.ref().offset > last && die.ref().offset < unit.end, "a walk goes forward");
      last = die.ref().offset;
      Require(data.At(die.ref()).tag() == die.tag(), "a DIE is found by its offset");
      const Die sibling = die.Sibling();
      Require(!sibling || sibling.ref().offset > last, "a sibling comes later");
      uint64_t budget = 1000;
      die.ForEach([&](const DieAttribute& a) {
        data.Text(unit, a);
        data.Ref(unit, a);
        data.Ranges(unit, a, &budget);
        if (dies < 100) data.Locations(unit, a);
      });
      DebugFile::NameOf(die);
      if (dies < 100) file.QualifiedName(die);
      const CType* type = file.TypeAt(die.ref());
      Require(type == file.TypeAt(die.ref()), "a type is one");
      ToText(type);
      type->Size();
    }
  }
}

}  // namespace
}  // namespace ttq

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  FuzzInput in(data, size);
  std::vector<ElfPart> parts = {{".text", std::string(0x100, '\x90'), kCode}};
  for (const char* name :
       {".debug_abbrev", ".debug_info", ".debug_str", ".debug_line", ".debug_rnglists",
        ".debug_loclists", ".debug_aranges", ".debug_str_offsets", ".debug_addr", ".debug_types"}) {
    parts.push_back({name, std::string(in.Bytes(in.Below(1024)))});
  }
  SymbolOptions options;
  options.debug_directories.clear();
  options.search_beside_module = false;
  auto file = SymbolFile::FromImage(FileImage::FromString(MakeElf(std::move(parts))), "x", options);
  Require(file.ok(), "the file is well-formed");
  for (uint64_t address = kCode; address < kCode + 0x100; address += 13) {
    (*file)->Symbolize(address);
  }
  const auto debug = DebugFile::Open(**file);
  if (debug == nullptr) return 0;
  LookAt(*debug, debug->data());
  for (const NameKind kind :
       {NameKind::kType, NameKind::kVariable, NameKind::kFunction, NameKind::kEnumerator}) {
    debug->ForEachName(kind, [](std::string_view) {});
    debug->Find("a", kind, nullptr);
  }
  debug->ScopesAt(kCode + 5);
  return 0;
}
