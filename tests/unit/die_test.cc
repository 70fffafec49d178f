// SPDX-License-Identifier: MIT
//
// DWARF made by hand: what the reader of DIEs makes of every form, tree and list, of units that are
// damaged, and the index of names with its file. What compilers write is compared with addr2line
// (symbols_test) and gdb (tests/expressions).

#include "query/code/die.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>
#include <libdwarf/dwarf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "query/code/dwarf_expression.h"
#include "query/code/line_table.h"
#include "query/code/symbols.h"
#include "query/ctypes/name_index.h"
#include "tests/support/elf_bytes.h"

namespace ttq {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr uint64_t kCode = 0x1000;

// The sections of one file.
struct Dwarf {
  ElfBytes abbrev, info, str, line, rnglists, ranges, loclists, aranges, addr, str_offsets;

  // An abbreviation: code, tag, whether it has children, pairs of attribute and form.
  Dwarf& Abbrev(uint64_t code, uint64_t tag, bool children,
                std::vector<std::pair<uint64_t, uint64_t>> attributes) {
    abbrev.Uleb(code).Uleb(tag).U8(children);
    for (const auto& [name, form] : attributes) abbrev.Uleb(name).Uleb(form);
    abbrev.U16(0);
    return *this;
  }
  // A unit of DWARF 5 with these DIEs. Its first DIE is at begin + 12.
  Dwarf& Unit(const std::string& dies) {
    info.Sized(ElfBytes().U16(5).U8(DW_UT_compile).U8(8).U32(0).Add(dies).data());
    return *this;
  }
  std::string Elf(const std::string& build_id = "") const {
    std::vector<ElfPart> parts = {{".text", std::string(0x100, '\x90'), kCode},
                                  {".debug_abbrev", abbrev.data() + '\0'},
                                  {".debug_info", info.data()},
                                  {".debug_str", str.data()},
                                  {".debug_line", line.data()},
                                  {".debug_rnglists", rnglists.data()},
                                  {".debug_ranges", ranges.data()},
                                  {".debug_loclists", loclists.data()},
                                  {".debug_aranges", aranges.data()},
                                  {".debug_addr", addr.data()},
                                  {".debug_str_offsets", str_offsets.data()}};
    if (!build_id.empty()) {
      ElfBytes note;
      note.U32(4).U32(build_id.size()).U32(NT_GNU_BUILD_ID).Text("GNU").Add(build_id);
      parts.push_back({".note.gnu.build-id", note.data(), 0, 0, SHT_NOTE});
    }
    return MakeElf(std::move(parts));
  }
  std::shared_ptr<const DwarfData> Open() const {
    auto elf = ElfFile::Parse(FileImage::FromString(Elf()));
    EXPECT_TRUE(elf.ok());
    return DwarfData::Open(*elf, nullptr);
  }
};

// A small C++ unit: namespace ns { struct S { void method(); }; } with its definition and, inlined
// into it, another function.
Dwarf Small() {
  Dwarf d;
  d.Abbrev(1, DW_TAG_compile_unit, true,
           {{DW_AT_language, DW_FORM_data1},
            {DW_AT_low_pc, DW_FORM_addr},
            {DW_AT_high_pc, DW_FORM_data4}});
  d.Abbrev(2, DW_TAG_namespace, true, {{DW_AT_name, DW_FORM_string}});
  d.Abbrev(3, DW_TAG_structure_type, true,
           {{DW_AT_name, DW_FORM_strp}, {DW_AT_byte_size, DW_FORM_data1}});
  d.Abbrev(4, DW_TAG_subprogram, false, {{DW_AT_name, DW_FORM_string}});  // a declaration
  d.Abbrev(5, DW_TAG_subprogram, true,
           {{DW_AT_specification, DW_FORM_ref4},
            {DW_AT_low_pc, DW_FORM_addr},
            {DW_AT_high_pc, DW_FORM_udata}});
  d.Abbrev(6, DW_TAG_inlined_subroutine, false,
           {{DW_AT_abstract_origin, DW_FORM_ref_addr},
            {DW_AT_low_pc, DW_FORM_addr},
            {DW_AT_high_pc, DW_FORM_data1}});
  d.Abbrev(7, DW_TAG_subprogram, false,
           {{DW_AT_name, DW_FORM_string}, {DW_AT_inline, DW_FORM_data1}});
  d.str.Text("padding").Text("S");
  ElfBytes dies;
  const auto here = [&dies] { return 12 + dies.size(); };
  dies.U8(1).U8(DW_LANG_C_plus_plus_14).U64(kCode).U32(0x100);
  dies.U8(2).Text("ns");
  dies.U8(3).U32(8).U8(4);
  const uint64_t method = here();
  dies.U8(4).Text("method");
  dies.U8(0).U8(0);
  const uint64_t helper = here();
  dies.U8(7).Text("helper").U8(1);
  dies.U8(5).U32(method).U64(kCode + 0x10).Uleb(0x20);
  dies.U8(6).U32(helper).U64(kCode + 0x18).U8(4);
  dies.U8(0).U8(0);
  d.Unit(dies.data());
  return d;
}

TEST(Die, TheTreeAndTheWalkAgree) {
  const auto data = Small().Open();
  ASSERT_NE(data, nullptr);
  ASSERT_EQ(data->units().size(), 1u);
  // By links from DIE to DIE.
  std::vector<std::pair<uint16_t, int>> tree, walked;
  const std::function<void(Die, int)> visit = [&](Die die, int depth) {
    for (; die; die = die.Sibling()) {
      tree.emplace_back(die.tag(), depth);
      visit(die.Child(), depth + 1);
    }
  };
  const Die root = data->RootDie(data->units()[0]);
  tree.emplace_back(root.tag(), 0);
  visit(root.Child(), 1);
  DieWalk walk(*data, data->units()[0]);
  while (walk.Next()) walked.emplace_back(walk.die().tag(), walk.depth());
  EXPECT_FALSE(walk.Next());
  EXPECT_EQ(walked, tree);
  EXPECT_THAT(walked,
              ElementsAre(std::pair(DW_TAG_compile_unit, 0), std::pair(DW_TAG_namespace, 1),
                          std::pair(DW_TAG_structure_type, 2), std::pair(DW_TAG_subprogram, 3),
                          std::pair(DW_TAG_subprogram, 1), std::pair(DW_TAG_subprogram, 1),
                          std::pair(DW_TAG_inlined_subroutine, 2)));
}

TEST(Die, AWalkLeavesOutWhatItIsTold) {
  const auto data = Small().Open();
  DieWalk walk(*data, data->units()[0]);
  std::vector<uint16_t> tags;
  while (walk.Next()) {
    tags.push_back(walk.die().tag());
    if (walk.die().tag() == DW_TAG_namespace) walk.SkipChildren();
  }
  EXPECT_THAT(tags, ElementsAre(DW_TAG_compile_unit, DW_TAG_namespace, DW_TAG_subprogram,
                                DW_TAG_subprogram, DW_TAG_inlined_subroutine));
}

TEST(Die, FunctionsAreNamedThroughWhatTheyCopy) {
  auto file = SymbolFile::FromImage(FileImage::FromString(Small().Elf()), "/made/by/hand", {});
  ASSERT_TRUE(file.ok()) << file.status();
  const CodeLocation inner = (*file)->Symbolize(kCode + 0x19);
  ASSERT_EQ(inner.frames.size(), 2u);
  EXPECT_EQ(inner.frames[0].function, "helper");
  EXPECT_EQ(inner.frames[1].function, "ns::S::method");
  EXPECT_EQ(inner.offset_in_function, 9u);
  EXPECT_EQ((*file)->Symbolize(kCode + 0x1c).function, "ns::S::method");
  EXPECT_EQ((*file)->Symbolize(kCode).function, "");
}

TEST(Die, EveryForm) {
  struct {
    uint64_t form;
    std::string bytes;
    uint64_t value;
  } const cases[] = {
      {DW_FORM_data1, "\xfe", 0xfe},
      {DW_FORM_data2, "\x01\x02", 0x201},
      {DW_FORM_data4, "\x01\x02\x03\x04", 0x4030201},
      {DW_FORM_data8, std::string("\x01\0\0\0\0\0\0\x80", 8), 0x8000000000000001},
      {DW_FORM_sdata, "\x7e", ~uint64_t{1}},
      {DW_FORM_udata, "\xfe\x01", 0xfe},
      {DW_FORM_flag, "\x01", 1},
      {DW_FORM_flag_present, "", 1},
      {DW_FORM_sec_offset, "\x04\x03\x02\x01", 0x1020304},
      {DW_FORM_strx3, "\x03\x02\x01", 0x10203},
      {DW_FORM_indirect, "\x0b\x21", 0x21},  // data1
      {DW_FORM_block1, std::string("\x02\xaa\xbb"), 0},
      {DW_FORM_block2, std::string("\x01\x00\xaa", 3), 0},
      {DW_FORM_exprloc, std::string("\x01\x9c"), 0},
      {DW_FORM_data16, std::string(16, 'x'), 0},
      {DW_FORM_ref_sig8, "abcdefgh", 0x6867666564636261},
  };
  for (const auto& c : cases) {
    Dwarf d;
    // The next attribute tells whether the right number of bytes was read.
    d.Abbrev(1, DW_TAG_compile_unit, true,
             {{DW_AT_const_value, c.form}, {DW_AT_name, DW_FORM_string}});
    d.Abbrev(2, DW_TAG_base_type, false, {{DW_AT_name, DW_FORM_string}});
    d.Unit(ElfBytes().U8(1).Add(c.bytes).Text("after").U8(2).Text("child").U8(0).data());
    const auto data = d.Open();
    ASSERT_NE(data, nullptr);
    const Die root = data->RootDie(data->units()[0]);
    const auto value = root.Find(DW_AT_const_value);
    ASSERT_TRUE(value) << c.form;
    EXPECT_EQ(value->value, c.value) << c.form;
    EXPECT_EQ(root.Text(DW_AT_name), "after") << c.form;
    EXPECT_EQ(root.Child().Text(DW_AT_name), "child") << c.form;
  }
}

TEST(Die, StringsByEveryWay) {
  Dwarf d;
  d.Abbrev(1, DW_TAG_compile_unit, true, {{DW_AT_str_offsets_base, DW_FORM_sec_offset}});
  d.Abbrev(2, DW_TAG_base_type, false, {{DW_AT_name, DW_FORM_string}});
  d.Abbrev(3, DW_TAG_base_type, false, {{DW_AT_name, DW_FORM_strp}});
  d.Abbrev(4, DW_TAG_base_type, false, {{DW_AT_name, DW_FORM_strx1}});
  d.str.Text("zero").Text("one").Text("two");
  d.str_offsets.U32(12).U16(5).U16(0).U32(0).U32(9);
  d.Unit(ElfBytes()
             .U8(1)
             .U32(8)
             .U8(2)
             .Text("here")
             .U8(3)
             .U32(5)
             .U8(4)
             .U8(1)
             .U8(4)
             .U8(9)
             .U8(3)
             .U32(1000)
             .U8(0)
             .data());
  const auto data = d.Open();
  std::vector<std::string> names;
  for (Die die = data->RootDie(data->units()[0]).Child(); die; die = die.Sibling()) {
    names.emplace_back(die.Text(DW_AT_name));
  }
  // The last two point out of their tables.
  EXPECT_THAT(names, ElementsAre("here", "one", "two", "", ""));
  EXPECT_TRUE(data->MayName("two"));
  EXPECT_TRUE(data->MayName("here"));
  EXPECT_TRUE(data->MayName("wo"));  // a string may be the end of another one
  EXPECT_FALSE(data->MayName("tw"));
  EXPECT_TRUE(data->MayContain("wo"));
  EXPECT_FALSE(data->MayContain("three"));
  EXPECT_TRUE(data->UnitsThatMayName("two")[0]);
  EXPECT_TRUE(data->UnitsThatMayName("here")[0]);
}

TEST(Dwarf, UnitsThatMayNameAFunction) {
  Dwarf d;
  d.Abbrev(1, DW_TAG_compile_unit, true, {{DW_AT_name, DW_FORM_line_strp}});
  d.Abbrev(2, DW_TAG_subprogram, false, {{DW_AT_name, DW_FORM_strp}});
  d.Abbrev(3, DW_TAG_subprogram, false, {{DW_AT_name, DW_FORM_string}});
  const std::string strings[] = {"domain", "_ZN3app4mainEv", "main<int>", "mainly",
                                 "remain_4mainly"};
  // Offsets that are no other number of these units.
  d.str.Text(std::string(0x12345, 'x'));
  std::vector<uint32_t> offsets;
  uint32_t end = 0x12346;
  for (const std::string& s : strings) {
    offsets.push_back(end);
    end += static_cast<uint32_t>(s.size()) + 1;
    d.str.Text(s);
  }
  const auto unit = [&d](uint32_t offset) {
    d.Unit(ElfBytes().U8(1).U32(0).U8(2).U32(offset).U8(0).data());
  };
  for (const uint32_t offset : offsets) unit(offset);
  unit(offsets[0] + 2);  // the end of "domain"
  d.Unit(ElfBytes().U8(1).U32(0).U8(3).Text("main").U8(0).data());
  d.Unit(ElfBytes().U8(1).U32(0).U8(3).Text("man").U8(0).data());
  d.Unit(ElfBytes().U8(1).U32(0).U8(3).Text("_ZN1a4mainEv").U8(0).data());
  const auto data = d.Open();
  EXPECT_THAT(data->UnitsThatMayName("main"),
              ElementsAre(false, true, true, false, false, true, true, false, true));
  EXPECT_THAT(data->UnitsThatMayName("other"), testing::Each(false));
  // What is looked for of "ma\u00efn": it ends where its ASCII letters do.
  EXPECT_TRUE(Dwarf(d)
                  .Unit(ElfBytes().U8(1).U32(0).U8(3).Text("ma\xc3\xafn").U8(0).data())
                  .Open()
                  ->UnitsThatMayName("ma")
                  .back());
  // A name may come from another unit.
  d.Abbrev(4, DW_TAG_subprogram, false, {{DW_AT_specification, DW_FORM_ref_addr}});
  EXPECT_THAT(d.Open()->UnitsThatMayName("other"), testing::Each(true));
}

TEST(Dwarf, UnitsThatMayNameAFunctionWhereverTheyDo) {
  for (const int names : {1, 7, 8, 300}) {
    Dwarf d;
    d.Abbrev(1, DW_TAG_compile_unit, true, {{DW_AT_language, DW_FORM_data1}});
    d.Abbrev(2, DW_TAG_subprogram, false, {{DW_AT_name, DW_FORM_strp}});
    d.Abbrev(3, DW_TAG_base_type, false, {{DW_AT_byte_size, DW_FORM_data1}});
    std::vector<uint32_t> offsets;
    uint32_t end = 0;
    const auto add = [&](const std::string& text) {
      const uint32_t at = end;
      d.str.Text(text);
      end += static_cast<uint32_t>(text.size()) + 1;
      return at;
    };
    add(std::string(0x10203, 'x'));
    for (int i = 0; i < names; ++i) {
      offsets.push_back(add("find<" + std::to_string(i) + ">"));
      if (i == 4) add(std::string(0x1000000, 'x'));  // some beyond three bytes
    }
    const uint32_t other = add("other");
    std::vector<bool> want;
    for (int before = 0; before < 40; ++before) {
      for (const uint32_t offset : {offsets.front(), other, offsets.back()}) {
        ElfBytes bytes;
        bytes.U8(1).U8(0);
        for (int i = 0; i < before; ++i) bytes.U8(3).U8(0xff);
        bytes.U8(2).U32(offset).U8(0);
        d.Unit(bytes.data());
        want.push_back(offset != other);
      }
    }
    EXPECT_EQ(d.Open()->UnitsThatMayName("find"), want) << names << " names";
  }
}

std::vector<std::pair<uint64_t, uint64_t>> Spans(const std::vector<CodeSpan>& spans) {
  std::vector<std::pair<uint64_t, uint64_t>> out;
  for (const CodeSpan& s : spans) out.emplace_back(s.begin, s.end);
  return out;
}

TEST(Die, RangesOfEveryKind) {
  Dwarf d;
  d.Abbrev(1, DW_TAG_compile_unit, false,
           {{DW_AT_low_pc, DW_FORM_addr},
            {DW_AT_addr_base, DW_FORM_sec_offset},
            {DW_AT_ranges, DW_FORM_sec_offset}});
  d.Unit(ElfBytes().U8(1).U64(kCode).U32(8).U32(3).data());
  d.addr.U64(0).U64(0x5000).U64(0x5010);
  d.rnglists.Add("...");
  d.rnglists.U8(DW_RLE_offset_pair).Uleb(0x10).Uleb(0x20);
  d.rnglists.U8(DW_RLE_offset_pair).Uleb(0x30).Uleb(0x30);  // empty
  d.rnglists.U8(DW_RLE_base_address).U64(0x2000);
  d.rnglists.U8(DW_RLE_offset_pair).Uleb(1).Uleb(2);
  d.rnglists.U8(DW_RLE_start_end).U64(0x3000).U64(0x3004);
  d.rnglists.U8(DW_RLE_start_length).U64(0x4000).Uleb(8);
  d.rnglists.U8(DW_RLE_startx_endx).Uleb(0).Uleb(1);
  d.rnglists.U8(DW_RLE_startx_length).Uleb(1).Uleb(3);
  d.rnglists.U8(DW_RLE_startx_length).Uleb(100).Uleb(3);  // no such address
  d.rnglists.U8(DW_RLE_base_addressx).Uleb(0);
  d.rnglists.U8(DW_RLE_offset_pair).Uleb(0x100).Uleb(0x101);
  d.rnglists.U8(DW_RLE_end_of_list).U8(DW_RLE_offset_pair).Uleb(0).Uleb(1);
  const auto data = d.Open();
  const Die root = data->RootDie(data->units()[0]);
  using P = std::pair<uint64_t, uint64_t>;
  EXPECT_THAT(
      Spans(root.Ranges()),
      ElementsAre(P(0x1010, 0x1020), P(0x2001, 0x2002), P(0x3000, 0x3004), P(0x4000, 0x4008),
                  P(0x5000, 0x5010), P(0x5010, 0x5013), P(0x5100, 0x5101)));
  // A budget cuts the list, and is what is left of it.
  uint64_t budget = 3;
  EXPECT_EQ(data->Ranges(root.unit(), *root.Find(DW_AT_ranges), &budget).size(), 1u);
  EXPECT_EQ(budget, 0u);
  budget = 100;
  EXPECT_EQ(data->Ranges(root.unit(), *root.Find(DW_AT_ranges), &budget).size(), 7u);
  EXPECT_EQ(budget, 100u - 12);
}

TEST(Die, TheUnitOfAnAddress) {
  Dwarf d = Small();
  d.Unit(ElfBytes().U8(1).U8(DW_LANG_C99).U64(kCode + 0x200).U32(0x10).U8(0).data());
  // A table for the second unit alone, which claims more than its root.
  ElfBytes table;
  table.U16(2).U32(d.Open()->units()[1].begin).U8(8).U8(0).U32(0);
  table.U64(kCode + 0x300).U64(0x10).U64(0).U64(0);
  d.aranges.Sized(table.data());
  const auto data = d.Open();
  ASSERT_EQ(data->units().size(), 2u);
  EXPECT_EQ(data->UnitAt(kCode + 0xff), &data->units()[0]);
  EXPECT_EQ(data->UnitAt(kCode + 0x100), nullptr);
  EXPECT_EQ(data->UnitAt(kCode + 0x305), &data->units()[1]);
}

TEST(Die, DamageIsSurvived) {
  const std::string good = Small().Elf();
  std::mt19937 random(7);
  int named = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int n = 0; n < 3; ++n)
      bad[kCode + 0x100 + random() % (bad.size() - kCode - 0x100)] = random();
    auto file = SymbolFile::FromImage(FileImage::FromString(bad), "/damaged", {});
    if (!file.ok()) continue;
    named += !(*file)->Symbolize(kCode + 0x19).function.empty();
    const auto data = (*file)->dwarf();
    if (data == nullptr) continue;
    for (const DwarfUnit& unit : data->units()) {
      DieWalk walk(*data, unit);
      size_t steps = 0;
      while (walk.Next()) ASSERT_LT(++steps, bad.size());
    }
  }
  EXPECT_GT(named, 0);
}

// ---- Lines --------------------------------------------------------------------------------------

// A unit whose line table is `table`, without its length.
std::shared_ptr<const DwarfData> WithLines(const std::string& table) {
  Dwarf d;
  d.Abbrev(1, DW_TAG_compile_unit, false,
           {{DW_AT_stmt_list, DW_FORM_sec_offset}, {DW_AT_comp_dir, DW_FORM_string}});
  d.Unit(ElfBytes().U8(1).U32(0).Text("/src/build").data());
  d.line.Sized(table);
  return d.Open();
}

// Minimal instruction 1, is_stmt, lines from -3 over 12, opcodes from 13.
ElfBytes& LineParameters(ElfBytes& out) {
  return out.U8(1).U8(1).U8(1).U8(0xfd).U8(12).U8(13).Add(
      std::string("\0\1\1\1\1\0\0\0\1\0\0\1", 12));
}

// Rows at kCode: line 10, then +1 after 4 bytes, +2 without is_stmt after 2 more; ends after 20.
std::string LineProgram() {
  ElfBytes p;
  p.U8(0).Uleb(9).U8(DW_LNE_set_address).U64(kCode);
  p.U8(DW_LNS_advance_line).Sleb(9).U8(DW_LNS_copy);
  p.U8(13 + 4 * 12 + 4);  // special: 4 bytes, 1 line
  p.U8(DW_LNS_set_column).Uleb(200).U8(DW_LNS_negate_stmt);
  p.U8(DW_LNS_set_file).Uleb(2).U8(13 + 2 * 12 + 5);  // special: 2 bytes, 2 lines
  p.U8(0).Uleb(2).U8(DW_LNE_set_discriminator).Uleb(3);
  p.U8(DW_LNS_advance_pc).Uleb(14).U8(0).Uleb(1).U8(DW_LNE_end_sequence);
  return p.data();
}

void ExpectLines(const DwarfData& data, const std::vector<std::string>& files) {
  const LineHeader header = ReadLineHeader(data, data.units()[0]);
  EXPECT_EQ(header.files, files);
  const LineTable table = ReadLines(header, [](uint64_t a) { return a >= kCode; });
  ASSERT_EQ(table.sequences.size(), 1u);
  EXPECT_EQ(table.sequences[0].begin, kCode);
  EXPECT_EQ(table.sequences[0].end, kCode + 20);
  const auto row = [&](uint64_t offset) { return table.RowAt(kCode + offset); };
  ASSERT_NE(row(0), nullptr);
  EXPECT_EQ(row(3)->line, 10u);
  EXPECT_EQ(row(3)->file, 1u);  // where nothing sets it
  EXPECT_EQ(row(5)->line, 11u);
  EXPECT_TRUE(row(5)->is_stmt);
  EXPECT_EQ(row(19)->line, 13u);
  EXPECT_EQ(row(19)->file, 2u);
  EXPECT_FALSE(row(19)->is_stmt);
  EXPECT_EQ(row(20), nullptr);
  EXPECT_EQ(row(-1), nullptr);
}

std::string LinesOfVersion5() {
  ElfBytes rest;
  LineParameters(rest);
  rest.U8(1).Uleb(DW_LNCT_path).Uleb(DW_FORM_string);
  rest.Uleb(2).Text("/src/build").Text("../include");
  rest.U8(2)
      .Uleb(DW_LNCT_path)
      .Uleb(DW_FORM_string)
      .Uleb(DW_LNCT_directory_index)
      .Uleb(DW_FORM_udata);
  rest.Uleb(3).Text("a.cc").Uleb(0).Text("a.h").Uleb(1).Text("/usr/b.h").Uleb(1);
  return ElfBytes().U16(5).U8(8).U8(0).Sized(rest.data()).Add(LineProgram()).data();
}

TEST(Lines, Version5) {
  ExpectLines(*WithLines(LinesOfVersion5()), {"/src/build/a.cc", "/src/include/a.h", "/usr/b.h"});
}

TEST(Lines, Version4) {
  ElfBytes rest;
  LineParameters(rest).Text("../include").U8(0);
  rest.Text("a.cc").Uleb(0).Uleb(0).Uleb(0).Text("a.h").Uleb(1).Uleb(7).Uleb(9).U8(0);
  ExpectLines(*WithLines(ElfBytes().U16(4).Sized(rest.data()).Add(LineProgram()).data()),
              {"", "/src/build/a.cc", "/src/include/a.h"});
}

TEST(Lines, DamageIsSurvived) {
  const std::string good = LinesOfVersion5();
  std::mt19937 random(11);
  size_t rows = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good.substr(0, round % 4 == 0 ? random() % good.size() : good.size());
    for (int n = 0; n < 2 && !bad.empty(); ++n) bad[random() % bad.size()] = random();
    const auto data = WithLines(bad);
    const LineTable table =
        ReadLines(ReadLineHeader(*data, data->units()[0]), [](uint64_t) { return true; });
    rows += table.rows.size();
    for (const LineSequence& s : table.sequences) {
      ASSERT_LE(s.end_row, table.rows.size());
      ASSERT_NE(table.RowAt(s.begin), nullptr);
    }
  }
  EXPECT_GT(rows, 0u);
}

// ---- What is kept on disk -----------------------------------------------------------------------

class CacheTest : public testing::Test {
 protected:
  // In the older GNU form.
  static std::string Compressed(std::string content) {
    std::string deflated(content.size() + 1024, '\0');
    isal_zstream stream;
    isal_deflate_stateless_init(&stream);
    stream.gzip_flag = IGZIP_ZLIB;
    stream.end_of_stream = 1;
    stream.next_in = reinterpret_cast<uint8_t*>(content.data());
    stream.avail_in = static_cast<uint32_t>(content.size());
    stream.next_out = reinterpret_cast<uint8_t*>(deflated.data());
    stream.avail_out = static_cast<uint32_t>(deflated.size());
    EXPECT_EQ(isal_deflate_stateless(&stream), COMP_OK);
    deflated.resize(stream.total_out);
    return ElfBytes().Add("ZLIB").U64(__builtin_bswap64(content.size())).Add(deflated).data();
  }
  static absl::StatusOr<ElfFile> WithInfo(const std::string& section) {
    return ElfFile::Parse(FileImage::FromString(MakeElf({{".zdebug_info", section}})));
  }

  void SetUp() override {
    home_ = testing::TempDir() + "/cache." + std::to_string(getpid());
    fs::remove_all(home_);
    if (const char* old = std::getenv("XDG_CACHE_HOME")) old_ = old;
    setenv("XDG_CACHE_HOME", home_.c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(home_);
    if (old_.empty()) {
      unsetenv("XDG_CACHE_HOME");
    } else {
      setenv("XDG_CACHE_HOME", old_.c_str(), 1);
    }
  }

  std::string home_, old_;
};

TEST_F(CacheTest, InflatedSectionsAreKept) {
  std::string content;
  for (int i = 0; content.size() < 2 << 20; ++i) content += "type_" + std::to_string(i);
  const std::string file = MakeElf({{".zdebug_info", Compressed(content)}});
  const auto read = [&] {
    auto elf = ElfFile::Parse(FileImage::FromString(file));
    EXPECT_TRUE(elf.ok());
    auto data = elf->Data(*elf->FindSection(".zdebug_info"));
    EXPECT_TRUE(data.ok());
    EXPECT_TRUE(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(content.data()),
                                    content.size()) == data->bytes());
  };
  const auto kept = [&] {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(home_ + "/ttq")) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? fs::path() : files[0];
  };
  const auto inode = [](const fs::path& path) {
    struct stat st = {};
    stat(path.c_str(), &st);
    return st.st_ino;
  };
  read();
  const fs::path path = kept();
  const ino_t made = inode(path);
  read();
  EXPECT_EQ(inode(path), made);  // it was not made again
  // Wherever it is damaged, it is made again.
  for (const size_t at : {size_t{0}, size_t{5000}, content.size() / 2 + 9, content.size() + 3}) {
    const ino_t before = inode(path);
    std::fstream damaged(path);
    damaged.seekp(static_cast<std::streamoff>(at));
    damaged << "damage";
    damaged.close();
    read();
    EXPECT_EQ(kept(), path);
    EXPECT_NE(inode(path), before) << at;
  }
}

TEST_F(CacheTest, NoPlaceToKeepASectionIsNeeded) {
  const std::string content(3 << 20, 'x'), section = Compressed(content);
  for (const std::string& place : {std::string("/dev/null"), home_}) {
    setenv("XDG_CACHE_HOME", place.c_str(), 1);
    auto elf = WithInfo(section);
    ASSERT_TRUE(elf.ok());
    const auto data = elf->Data(*elf->FindSection(".zdebug_info"));
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->bytes().size(), content.size());
  }
}

TEST_F(CacheTest, ADamagedSectionIsAnErrorAndIsNotKept) {
  std::string content;
  for (int i = 0; content.size() < 2 << 20; ++i) content += "type_" + std::to_string(i * 7);
  const std::string good = Compressed(content);
  std::mt19937 random(1);
  for (int i = 0; i < 60; ++i) {
    std::string bad = good;
    if (i % 3 == 0) {
      bad.resize(20 + random() % (bad.size() - 20));
    } else {
      bad[12 + random() % (bad.size() - 12)] ^= static_cast<char>(1 << random() % 8);
    }
    auto elf = WithInfo(bad);
    ASSERT_TRUE(elf.ok());
    const auto data = elf->Data(*elf->FindSection(".zdebug_info"));
    // One bit of a stream's header says nothing about what is in it.
    EXPECT_TRUE(absl::IsDataLoss(data.status()) ||
                (data.ok() && data->bytes().size() == content.size()))
        << data.status();
    if (!data.ok()) {
      EXPECT_TRUE(fs::is_empty(home_ + "/ttq"));
    } else {
      fs::remove_all(home_);
    }
  }
}

// Units of a section that is still being inflated.
class StreamTest : public CacheTest {
 protected:
  static constexpr int kUnits = 3000;
  static std::shared_ptr<const DwarfData> Open(double part_of_the_section) {
    Dwarf d;
    d.Abbrev(1, DW_TAG_compile_unit, true, {{DW_AT_language, DW_FORM_data1}});
    d.Abbrev(2, DW_TAG_typedef, false, {{DW_AT_name, DW_FORM_string}});
    std::mt19937 random(2);
    for (int i = 0; i < kUnits; ++i) {
      ElfBytes dies;
      dies.U8(1).U8(DW_LANG_C99).U8(2).Text("common").U8(2).Text("unit_" + std::to_string(i));
      for (int n = 0; n < 100; ++n) dies.U8(2).Text("t" + std::to_string(random()));
      d.Unit(dies.U8(0).data());
    }
    std::string section = Compressed(d.info.data());
    section.resize(static_cast<size_t>(static_cast<double>(section.size()) * part_of_the_section));
    auto elf = ElfFile::Parse(FileImage::FromString(
        MakeElf({{".debug_abbrev", d.abbrev.data() + '\0'}, {".zdebug_info", section}})));
    EXPECT_TRUE(elf.ok());
    return DwarfData::Open(*elf, nullptr);  // which must not need `elf` any longer
  }
};

TEST_F(StreamTest, UnitsAreReadAsTheyCome) {
  const auto data = Open(1);
  ASSERT_NE(data, nullptr);
  const DwarfUnit* first = data->UnitAtIndex(0);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(data->RootDie(*first).Child().Text(DW_AT_name), "common");
  const NameIndex index = NameIndex::Make(*data, "");
  for (int i : {0, 1, 1499, kUnits - 1}) {
    const std::vector<DieRef> found = index.Find("unit_" + std::to_string(i), NameKind::kType);
    ASSERT_EQ(found.size(), 1u) << i;
    EXPECT_EQ(data->UnitOf(found[0]), data->UnitAtIndex(i));
  }
  // Of what all units have, the first is told of, whichever thread read it.
  ASSERT_EQ(index.Find("common", NameKind::kType).size(), 1u);
  EXPECT_EQ(data->UnitOf(index.Find("common", NameKind::kType)[0]), first);
  EXPECT_EQ(data->units().size(), size_t{kUnits});
  EXPECT_EQ(&data->units()[0], first);
  EXPECT_EQ(data->UnitAtIndex(kUnits), nullptr);
}

TEST_F(StreamTest, OfADamagedSectionThereIsWhatCameBefore) {
  for (double part : {0.9, 0.5, 0.001}) {
    const auto data = Open(part);
    if (data == nullptr) continue;  // it was over before it could be asked
    const size_t count = data->units().size();
    EXPECT_LT(count, size_t{kUnits});
    EXPECT_EQ(data->UnitAtIndex(count), nullptr);
    const NameIndex index = NameIndex::Make(*data, "");
    EXPECT_EQ(index.Find("unit_0", NameKind::kType).size(), count > 0 ? 1u : 0u);
    EXPECT_TRUE(index.Find("unit_" + std::to_string(kUnits - 1), NameKind::kType).empty());
  }
}

class NameIndexTest : public CacheTest {
 protected:
  // More than a megabyte: worth a file.
  static std::shared_ptr<const DwarfData> Large() {
    Dwarf d;
    d.Abbrev(1, DW_TAG_compile_unit, true, {{DW_AT_language, DW_FORM_data1}});
    d.Abbrev(2, DW_TAG_typedef, false,
             {{DW_AT_name, DW_FORM_string}, {DW_AT_decl_line, DW_FORM_data4}});
    ElfBytes dies;
    dies.U8(1).U8(DW_LANG_C99);
    for (int i = 0; i < 80000; ++i) dies.U8(2).Text("type_" + std::to_string(i)).U32(i);
    dies.U8(0);
    d.Unit(dies.data());
    return d.Open();
  }
  std::string Path() const { return home_ + "/ttq/names-abcdef"; }
};

TEST_F(NameIndexTest, IsKeptAndReadAgain) {
  const auto data = Large();
  const NameIndex made = NameIndex::Make(*data, "abcdef"), read = NameIndex::Make(*data, "abcdef");
  EXPECT_FALSE(made.from_cache());
  EXPECT_TRUE(read.from_cache());
  for (const NameIndex* index : {&made, &read}) {
    const std::vector<DieRef> found = index->Find("type_4711", NameKind::kType);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(data->At(found[0]).Text(DW_AT_name), "type_4711");
    EXPECT_TRUE(index->Find("type_4711", NameKind::kVariable).empty());
    EXPECT_TRUE(index->Find("type_80000", NameKind::kType).empty());
  }
  // No other name would be safe as a part of a path.
  EXPECT_FALSE(NameIndex::Make(*data, "../x").from_cache());
  EXPECT_FALSE(NameIndex::Make(*data, "").from_cache());
  EXPECT_EQ(std::distance(fs::directory_iterator(home_ + "/ttq"), fs::directory_iterator()), 1);
}

// Two headers with a type each at the same place, of the same name and size.
TEST_F(NameIndexTest, TypesOfDifferentScopesAreKeptApart) {
  Dwarf d;
  d.Abbrev(1, DW_TAG_compile_unit, true, {{DW_AT_language, DW_FORM_data1}});
  d.Abbrev(2, DW_TAG_namespace, true, {{DW_AT_name, DW_FORM_string}});
  d.Abbrev(3, DW_TAG_structure_type, false,
           {{DW_AT_name, DW_FORM_string},
            {DW_AT_byte_size, DW_FORM_data1},
            {DW_AT_decl_line, DW_FORM_data1}});
  const std::string type = ElfBytes().U8(3).Text("Point").U8(8).U8(3).data();
  for (int unit = 0; unit < 2; ++unit) {
    d.Unit(ElfBytes()
               .U8(1)
               .U8(DW_LANG_C_plus_plus_14)
               .U8(2)
               .Text("lib")
               .Add(type)
               .U8(0)
               .Add(type)
               .U8(0)
               .data());
  }
  const auto data = d.Open();
  // Once each, not once for each unit.
  EXPECT_EQ(NameIndex::Make(*data, "").Find("Point", NameKind::kType).size(), 2u);
}

TEST_F(NameIndexTest, AFileThatIsNotRightIsMadeAgain) {
  const auto data = Large();
  ASSERT_FALSE(NameIndex::Make(*data, "abcdef").from_cache());
  std::ifstream in(Path(), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto with = [&](size_t at, char c) {
    std::string bad = good;
    bad[at] = c;
    return bad;
  };
  for (const std::string& bad : {std::string(), good.substr(0, 20), good.substr(0, good.size() - 1),
                                 good + "x", with(0, 'T'), with(8, 99), with(16, good[16] + 1),
                                 with(good.size() - 1, good.back() + 1)}) {
    std::ofstream(Path(), std::ios::binary | std::ios::trunc) << bad;
    const NameIndex index = NameIndex::Make(*data, "abcdef");
    EXPECT_FALSE(index.from_cache());
    EXPECT_EQ(index.Find("type_1", NameKind::kType).size(), 1u);
    EXPECT_TRUE(NameIndex::Make(*data, "abcdef").from_cache());
  }
}

// Numbers with a base type (DWARF 5 section 2.5.1): the unit's, three bytes each from offset 13 on.
TEST(Expressions, NumbersHaveTypes) {
  struct BaseType {
    uint8_t encoding, size;
  };
  const BaseType types[] = {{DW_ATE_unsigned, 4}, {DW_ATE_signed, 4}, {DW_ATE_unsigned, 8},
                            {DW_ATE_signed, 8},   {DW_ATE_float, 4},  {DW_ATE_float, 8},
                            {DW_ATE_float, 16}};
  constexpr int kU32 = 13, kS32 = 16, kU64 = 19, kS64 = 22, kF32 = 25, kF64 = 28, kF128 = 31;
  Dwarf d;
  d.Abbrev(1, DW_TAG_compile_unit, true, {});
  d.Abbrev(2, DW_TAG_base_type, false,
           {{DW_AT_encoding, DW_FORM_data1}, {DW_AT_byte_size, DW_FORM_data1}});
  ElfBytes dies;
  dies.U8(1);
  for (const BaseType& type : types) dies.U8(2).U8(type.encoding).U8(type.size);
  d.Unit(dies.U8(0).data());
  const auto data = d.Open();
  ASSERT_NE(data, nullptr);
  LocationInput input;
  input.data = data.get();
  input.unit = &data->units()[0];
  input.register_value = [](int) { return std::optional<uint64_t>(0x1'8000'0005); };
  const auto evaluate = [&](const ElfBytes& e) {
    const std::string& bytes = e.data();
    return EvaluateNumber(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), input);
  };
  // rdi, as a number of the type.
  const auto rdi = [](int type) { return ElfBytes().U8(DW_OP_regval_type).Uleb(5).Uleb(type); };
  const auto with = [](ElfBytes e, int type, auto constant) {
    e.U8(DW_OP_const_type).Uleb(type).U8(sizeof constant);
    return e.Fixed(constant);
  };
  const auto then = [](ElfBytes e, int op, int type) { return e.U8(op).Uleb(type); };

  EXPECT_EQ(evaluate(rdi(kU32)), 0x80000005u);
  EXPECT_EQ(evaluate(then(rdi(kU32), DW_OP_convert, kS64)), 0x80000005u);
  EXPECT_EQ(evaluate(then(rdi(kS32), DW_OP_convert, kS64)), 0xffffffff80000005u);
  EXPECT_EQ(evaluate(then(rdi(kS32), DW_OP_convert, 0)), 0xffffffff80000005u);
  EXPECT_EQ(evaluate(then(rdi(kS32), DW_OP_reinterpret, kU32)), 0x80000005u);
  EXPECT_EQ(evaluate(with(rdi(kU32), kU32, 0x80000000u).U8(DW_OP_plus)), 5u);
  EXPECT_EQ(evaluate(with(rdi(kU32), kU32, 2u).U8(DW_OP_div)), 0x40000002u);
  EXPECT_EQ(evaluate(with(rdi(kS32), kS32, 2).U8(DW_OP_div)), static_cast<uint64_t>(-0x3ffffffd));
  EXPECT_EQ(evaluate(with(rdi(kS32), kS32, 2).U8(DW_OP_mod)), ~uint64_t{0});
  EXPECT_EQ(evaluate(with(rdi(kU32), kU32, 2u).U8(DW_OP_mod)), 1u);
  EXPECT_EQ(evaluate(with(rdi(kU32), kU32, 1u).U8(DW_OP_gt)), 1u);
  EXPECT_EQ(evaluate(with(rdi(kS32), kS32, 1).U8(DW_OP_gt)), 0u);
  EXPECT_EQ(evaluate(rdi(kS32).U8(DW_OP_lit4).U8(DW_OP_shr)), 0x08000000u);
  EXPECT_EQ(evaluate(rdi(kU32).U8(DW_OP_lit4).U8(DW_OP_shra)), 0xf8000000u);
  EXPECT_EQ(evaluate(rdi(kU32).U8(DW_OP_lit4).U8(DW_OP_shl)), 0x50u);
  EXPECT_EQ(evaluate(rdi(kU32).U8(DW_OP_neg)), 0x7ffffffbu);
  EXPECT_EQ(evaluate(rdi(kS32).U8(DW_OP_abs)), 0x7ffffffbu);
  EXPECT_EQ(evaluate(rdi(kU32).U8(DW_OP_not)), 0x7ffffffau);

  const auto real = [&](auto constant) {
    return with(ElfBytes(), sizeof constant == 4 ? kF32 : kF64, constant);
  };
  EXPECT_EQ(evaluate(then(with(real(1.5f), kF32, 2.25f).U8(DW_OP_plus), DW_OP_reinterpret, kU32)),
            0x40700000u);  // 3.75
  EXPECT_EQ(evaluate(then(with(real(-3.0), kF64, 2.0).U8(DW_OP_mul), DW_OP_convert, kS32)),
            static_cast<uint64_t>(-6));
  EXPECT_EQ(evaluate(then(real(0x1p63), DW_OP_convert, kU64)), uint64_t{1} << 63);
  EXPECT_EQ(evaluate(with(real(1.0), kF64, 3.0).U8(DW_OP_lt)), 1u);
  // 0x80000005 is no float: the nearest is 0x80000000.
  EXPECT_EQ(evaluate(then(then(rdi(kU32), DW_OP_convert, kF32), DW_OP_convert, kU64)), 0x80000000u);
  EXPECT_EQ(evaluate(then(then(rdi(kS32), DW_OP_convert, kF64), DW_OP_convert, kS64)),
            0xffffffff80000005u);

  EXPECT_EQ(evaluate(rdi(kF128)), std::nullopt);
  EXPECT_EQ(evaluate(rdi(12)), std::nullopt);  // no base type
  EXPECT_EQ(evaluate(with(real(1.0), kU64, uint64_t{1}).U8(DW_OP_plus)), std::nullopt);
  EXPECT_EQ(evaluate(real(1.0).U8(DW_OP_not)), std::nullopt);
  EXPECT_EQ(evaluate(rdi(kU32).U8(DW_OP_const1s).U8(0xf8).U8(DW_OP_shl)), std::nullopt);
}

TEST_F(NameIndexTest, WithoutAPlaceToKeepItItStillAnswers) {
  const auto data = Large();
  std::ofstream(home_) << "a file where the folder should be";
  for (int i = 0; i < 2; ++i) {
    const NameIndex index = NameIndex::Make(*data, "abcdef");
    EXPECT_FALSE(index.from_cache());
    EXPECT_EQ(index.Find("type_1", NameKind::kType).size(), 1u);
  }
}

}  // namespace
}  // namespace ttq
