// SPDX-License-Identifier: MIT
//
// The reader of DWARF on a small file that the input changes: its trees and lists, what it says of
// code, names and types. What it reads twice must be the same.

#include <libdwarf/dwarf.h>

#include "query/code/die.h"
#include "query/code/symbols.h"
#include "query/ctypes/debug_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/elf_bytes.h"

namespace ttq {
namespace {

constexpr uint64_t kCode = 0x1000;
// DIEs looked at: the same bytes may be reached by many ways.
constexpr int kMaxDies = 2000;

void LookAt(const DebugFile& file, const DwarfData& data) {
  int dies = 0;
  // What names a unit's functions have is told without reading its DIEs: it must leave out none.
  const std::string_view looked_for = "work";
  const std::vector<bool> may_name = data.UnitsThatMayName(looked_for);
  Require(may_name.size() == data.units().size(), "every unit is told of");
  for (const DwarfUnit& unit : data.units()) {
    DieWalk walk(data, unit);
    uint64_t last = 0;
    while (walk.Next() && ++dies < kMaxDies) {
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
      const std::string_view name = die.Text(DW_AT_name);
      Require(name != looked_for || die.tag() == DW_TAG_compile_unit || may_name[unit.index],
              "a unit that names it may name it");
      DebugFile::NameOf(die);
      if (dies < 100) file.QualifiedName(die);
      const CType* type = file.TypeAt(die.ref());
      Require(type == file.TypeAt(die.ref()), "a type is one");
      ToText(type);
      type->Size();
    }
  }
}

// A C++ unit with one of everything that the reader looks at; the code comes first.
std::vector<ElfPart> Sections() {
  ElfBytes abbrev, dies, str;
  const auto declare = [&](uint64_t code, uint64_t tag, bool children,
                           std::initializer_list<std::pair<uint64_t, uint64_t>> attributes) {
    abbrev.Uleb(code).Uleb(tag).U8(children);
    for (const auto& [name, form] : attributes) abbrev.Uleb(name).Uleb(form);
    abbrev.U16(0);
  };
  const auto here = [&dies] { return 12 + dies.size(); };
  declare(1, DW_TAG_compile_unit, true,
          {{DW_AT_language, DW_FORM_data1},
           {DW_AT_stmt_list, DW_FORM_sec_offset},
           {DW_AT_comp_dir, DW_FORM_strp},
           {DW_AT_str_offsets_base, DW_FORM_sec_offset},
           {DW_AT_addr_base, DW_FORM_sec_offset},
           {DW_AT_ranges, DW_FORM_sec_offset}});
  declare(2, DW_TAG_namespace, true, {{DW_AT_name, DW_FORM_string}, {DW_AT_sibling, DW_FORM_ref4}});
  declare(3, DW_TAG_structure_type, true,
          {{DW_AT_name, DW_FORM_strx1}, {DW_AT_byte_size, DW_FORM_data1}});
  declare(4, DW_TAG_member, false,
          {{DW_AT_name, DW_FORM_string},
           {DW_AT_type, DW_FORM_ref4},
           {DW_AT_data_member_location, DW_FORM_data1},
           {DW_AT_bit_size, DW_FORM_data1}});
  declare(5, DW_TAG_base_type, false,
          {{DW_AT_name, DW_FORM_string},
           {DW_AT_byte_size, DW_FORM_data1},
           {DW_AT_encoding, DW_FORM_data1}});
  declare(6, DW_TAG_pointer_type, false, {{DW_AT_type, DW_FORM_ref_udata}});
  declare(7, DW_TAG_array_type, true, {{DW_AT_type, DW_FORM_ref4}});
  declare(8, DW_TAG_subrange_type, false, {{DW_AT_upper_bound, DW_FORM_exprloc}});
  declare(9, DW_TAG_enumeration_type, true,
          {{DW_AT_name, DW_FORM_string}, {DW_AT_byte_size, DW_FORM_data1}});
  declare(10, DW_TAG_enumerator, false,
          {{DW_AT_name, DW_FORM_string}, {DW_AT_const_value, DW_FORM_sdata}});
  declare(11, DW_TAG_typedef, false, {{DW_AT_name, DW_FORM_string}, {DW_AT_type, DW_FORM_ref4}});
  declare(12, DW_TAG_subprogram, true,
          {{DW_AT_name, DW_FORM_string},
           {DW_AT_linkage_name, DW_FORM_string},
           {DW_AT_type, DW_FORM_ref4},
           {DW_AT_low_pc, DW_FORM_addrx},
           {DW_AT_high_pc, DW_FORM_data4},
           {DW_AT_frame_base, DW_FORM_exprloc}});
  declare(13, DW_TAG_formal_parameter, false,
          {{DW_AT_name, DW_FORM_string},
           {DW_AT_type, DW_FORM_ref4},
           {DW_AT_location, DW_FORM_sec_offset}});
  declare(14, DW_TAG_inlined_subroutine, false,
          {{DW_AT_abstract_origin, DW_FORM_ref4},
           {DW_AT_ranges, DW_FORM_sec_offset},
           {DW_AT_call_line, DW_FORM_udata}});
  declare(15, DW_TAG_subprogram, false,
          {{DW_AT_name, DW_FORM_string}, {DW_AT_inline, DW_FORM_data1}});
  declare(16, DW_TAG_variable, false,
          {{DW_AT_name, DW_FORM_string},
           {DW_AT_type, DW_FORM_ref4},
           {DW_AT_location, DW_FORM_exprloc}});
  abbrev.U8(0);
  str.Text("/src").Text("Thing");
  dies.U8(1).U8(DW_LANG_C_plus_plus_14).U32(0).U32(0).U32(8).U32(8).U32(0);
  const uint64_t integer = here();
  dies.U8(5).Text("int").U8(4).U8(DW_ATE_signed);
  dies.U8(2).Text("ns").U32(0);
  const uint64_t thing = here();
  dies.U8(3).U8(0).U8(24);
  dies.U8(4).Text("a").U32(integer).U8(0).U8(3);
  dies.U8(4).Text("b").U32(thing).U8(8).U8(0);
  dies.U8(0);
  dies.U8(9).Text("E").U8(4).U8(10).Text("one").Sleb(-1).U8(0).U8(0);
  const uint64_t pointer = here();
  dies.U8(6).Uleb(thing);
  const uint64_t array = here();
  dies.U8(7).U32(pointer).U8(8).Uleb(1).U8(DW_OP_lit3).U8(0);
  dies.U8(11).Text("alias").U32(array);
  const uint64_t helper = here();
  dies.U8(15).Text("helper").U8(1);
  dies.U8(12).Text("work").Text("_ZN2ns4workEv").U32(integer).Uleb(0).U32(0x80);
  dies.Uleb(1).U8(DW_OP_call_frame_cfa);
  dies.U8(13).Text("x").U32(array).U32(0);
  dies.U8(14).U32(helper).U32(0).Uleb(7);
  dies.U8(16).Text("v").U32(pointer).Uleb(2).U8(DW_OP_fbreg).Sleb(-16);
  dies.U8(0).U8(0);
  ElfBytes info, lines, table, ranges, locations, aranges;
  info.Sized(ElfBytes().U16(5).U8(DW_UT_compile).U8(8).U32(0).Add(dies.data()).data());
  table.U8(1).U8(1).U8(1).U8(0xfd).U8(12).U8(4).U8(0).U8(1).U8(1);
  table.U8(1).Uleb(DW_LNCT_path).Uleb(DW_FORM_string).Uleb(1).Text("/src");
  table.U8(2)
      .Uleb(DW_LNCT_path)
      .Uleb(DW_FORM_string)
      .Uleb(DW_LNCT_directory_index)
      .Uleb(DW_FORM_udata);
  table.Uleb(2).Text("a.cc").Uleb(0).Text("b.h").Uleb(0);
  ElfBytes program;
  program.U8(0).Uleb(9).U8(DW_LNE_set_address).U64(kCode).U8(30).U8(60).U8(90);
  program.U8(DW_LNS_advance_pc).Uleb(200).U8(0).Uleb(1).U8(DW_LNE_end_sequence);
  lines.Sized(ElfBytes().U16(5).U8(8).U8(0).Sized(table.data()).Add(program.data()).data());
  ranges.U8(DW_RLE_startx_length).Uleb(0).Uleb(0x100).U8(DW_RLE_end_of_list);
  locations.U8(DW_LLE_startx_length).Uleb(0).Uleb(8).Uleb(1).U8(DW_OP_reg5);
  locations.U8(DW_LLE_end_of_list);
  return {{".text", std::string(0x100, '\x90'), kCode},
          {".debug_abbrev", abbrev.data()},
          {".debug_info", info.data()},
          {".debug_str", str.data()},
          {".debug_line", lines.data()},
          {".debug_rnglists", ranges.data()},
          {".debug_loclists", locations.data()},
          {".debug_aranges", aranges.data()},
          {".debug_str_offsets", ElfBytes().U32(8).U32(5).U32(5).data()},
          {".debug_addr", ElfBytes().U64(0).U64(kCode).data()}};
}

}  // namespace
}  // namespace ttq

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ttq;
  static const std::vector<ElfPart> good = Sections();
  std::vector<ElfPart> parts = good;
  // Each change: a section, a place in it, bytes that replace or lengthen what is there.
  FuzzInput in(data, size);
  while (!in.empty()) {
    std::string& section = parts[1 + in.Below(static_cast<uint32_t>(parts.size() - 1))].data;
    const size_t at = in.Take<uint16_t>() % (section.size() + 1);
    const std::string_view bytes = in.Bytes(1 + in.Below(32));
    section.replace(at, bytes.size(), bytes);
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
