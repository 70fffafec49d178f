// SPDX-License-Identifier: MIT
//
// Call-frame information made by hand: each instruction of its small machine, the ways a function
// is found, and damage. What compilers make of it is compared with gdb by tests/stacks.

#include "query/code/unwind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "query/code/dwarf_expression.h"
#include "tests/support/elf_bytes.h"

namespace ttq {
namespace {

using Kind = UnwindRule::Kind;
using ::testing::Optional;

constexpr uint64_t kFrames = 0x2000;  // address of .eh_frame
constexpr uint64_t kCode = 0x1000, kCodeEnd = 0x1100;

// A CIE as GCC writes it: factors 1 and -8, CFA = rsp + 8, the return address at CFA - 8.
std::string Cie(std::string_view augmentation = "zR", std::string_view data = "\x03") {
  ElfBytes body;
  body.U32(0).U8(1).Text(augmentation).Uleb(1).Sleb(-8).U8(16);
  if (!augmentation.empty()) body.Uleb(data.size()).Add(data);
  body.U8(0x0c).Uleb(7).Uleb(8);  // def_cfa rsp, 8
  body.U8(0x80 | 16).Uleb(1);     // offset ra, 1
  return ElfBytes().Sized(body.data()).data();
}

// An FDE at `at` in the section, with 32-bit absolute addresses, for the CIE at 0.
std::string Fde(size_t at, std::string_view instructions, uint64_t begin = kCode,
                uint64_t end = kCodeEnd) {
  ElfBytes body;
  body.U32(at + 4).U32(begin).U32(end - begin).Uleb(0).Add(instructions);
  return ElfBytes().Sized(body.data()).data();
}

UnwindTable TableOf(const std::string& elf) {
  auto parsed = ElfFile::Parse(FileImage::FromString(elf));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return UnwindTable(*parsed, nullptr);
}

std::string ElfWith(const std::string& frames) { return MakeElf({{".eh_frame", frames, kFrames}}); }

// The row at `address` of a function with these instructions.
std::optional<UnwindRow> RowAt(std::string_view instructions, uint64_t address) {
  const std::string cie = Cie();
  UnwindTable table = TableOf(ElfWith(cie + Fde(cie.size(), instructions)));
  const UnwindRow* row = table.Find(address);
  return row ? std::optional<UnwindRow>(*row) : std::nullopt;
}

TEST(Unwind, ThePrologueIsFollowed) {
  ElfBytes i;
  i.U8(0x40 | 1).U8(0x0e).Uleb(16).U8(0x80 | 6).Uleb(2);  // push rbp
  i.U8(0x40 | 3).U8(0x0d).Uleb(6);                        // mov rbp, rsp
  i.U8(0x02).U8(0x20).U8(0x0a);                           // remember_state
  i.U8(0xc0 | 6).U8(0x0c).Uleb(7).Uleb(8);                // leave
  i.U8(0x40 | 1).U8(0x0b);                                // ret; restore_state
  struct {
    uint64_t address;
    uint64_t reg;
    int64_t offset;
    Kind rbp;
  } const cases[] = {
      {kCode, 7, 8, Kind::kUnspecified},      {kCode + 1, 7, 16, Kind::kAtOffset},
      {kCode + 3, 7, 16, Kind::kAtOffset},    {kCode + 4, 6, 16, Kind::kAtOffset},
      {kCode + 0x23, 6, 16, Kind::kAtOffset}, {kCode + 0x24, 7, 8, Kind::kUnspecified},
      {kCode + 0x25, 6, 16, Kind::kAtOffset}, {kCodeEnd - 1, 6, 16, Kind::kAtOffset},
  };
  for (const auto& c : cases) {
    const auto row = RowAt(i.data(), c.address);
    ASSERT_TRUE(row) << std::hex << c.address;
    EXPECT_EQ(row->cfa_register, c.reg) << std::hex << c.address;
    EXPECT_EQ(row->cfa_offset, c.offset) << std::hex << c.address;
    EXPECT_EQ(row->rules[6].kind, c.rbp) << std::hex << c.address;
    EXPECT_EQ(row->rules[6].offset, c.rbp == Kind::kAtOffset ? -16 : 0);
    EXPECT_EQ(row->rules[kDwarfReturnAddress].kind, Kind::kAtOffset);
    EXPECT_EQ(row->rules[kDwarfReturnAddress].offset, -8);
    EXPECT_FALSE(row->signal_frame);
  }
  EXPECT_FALSE(RowAt(i.data(), kCode - 1));
  EXPECT_FALSE(RowAt(i.data(), kCodeEnd));
}

TEST(Unwind, EveryRule) {
  ElfBytes i;
  i.U8(0x05).Uleb(3).Uleb(4);                  // offset_extended rbx, 4
  i.U8(0x11).Uleb(12).Sleb(-2);                // offset_extended_sf r12, -2
  i.U8(0x07).Uleb(13);                         // undefined r13
  i.U8(0x08).Uleb(14);                         // same_value r14
  i.U8(0x09).Uleb(15).Uleb(2);                 // register r15 in rcx
  i.U8(0x14).Uleb(0).Uleb(3);                  // val_offset rax, 3
  i.U8(0x15).Uleb(1).Sleb(-3);                 // val_offset_sf rdx, -3
  i.U8(0x2f).Uleb(5).Uleb(2);                  // GNU_negative_offset_extended rdi, 2
  i.U8(0x10).Uleb(8).Uleb(2).Add("\x76\x08");  // expression r8: breg6 + 8
  i.U8(0x16).Uleb(9).Uleb(2).Add("\x77\x10");  // val_expression r9: breg7 + 16
  i.U8(0x2e).Uleb(64);                         // GNU_args_size
  i.U8(0x05).Uleb(40).Uleb(1);                 // a register that is not kept: ignored
  i.U8(0x12).Uleb(6).Sleb(-4);                 // def_cfa_sf rbp, 32
  const auto row = RowAt(i.data(), kCode);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->cfa_register, 6u);
  EXPECT_EQ(row->cfa_offset, 32);
  const auto is = [&](int reg, Kind kind, int64_t offset) {
    EXPECT_EQ(row->rules[reg].kind, kind) << reg;
    EXPECT_EQ(row->rules[reg].offset, offset) << reg;
  };
  is(3, Kind::kAtOffset, -32);
  is(12, Kind::kAtOffset, 16);
  is(13, Kind::kUndefined, 0);
  is(14, Kind::kSameValue, 0);
  is(15, Kind::kRegister, 2);
  is(0, Kind::kOffset, -24);
  is(1, Kind::kOffset, 24);
  is(5, Kind::kAtOffset, 16);
  EXPECT_EQ(row->rules[8].kind, Kind::kAtExpression);
  EXPECT_EQ(row->rules[8].expression.size(), 2u);
  EXPECT_EQ(row->rules[9].kind, Kind::kExpression);
}

TEST(Unwind, TheCfaByExpression) {
  ElfBytes i;
  i.U8(0x0f).Uleb(2).Add("\x77\x08");  // def_cfa_expression: breg7 + 8
  i.U8(0x40 | 4).U8(0x0c).Uleb(7).Uleb(24);
  const auto by_expression = RowAt(i.data(), kCode), plain = RowAt(i.data(), kCode + 4);
  ASSERT_TRUE(by_expression && plain);
  EXPECT_EQ(by_expression->cfa_expression.size(), 2u);
  EXPECT_TRUE(plain->cfa_expression.empty());
  EXPECT_EQ(plain->cfa_offset, 24);
}

TEST(Unwind, ASignalFrameSaysSo) {
  const std::string cie = Cie("zRS");
  UnwindTable table = TableOf(ElfWith(cie + Fde(cie.size(), "")));
  ASSERT_NE(table.Find(kCode), nullptr);
  EXPECT_TRUE(table.Find(kCode)->signal_frame);
}

TEST(Unwind, TheIndexIsSearched) {
  const std::string cie = Cie();
  std::string frames = cie;
  ElfBytes table;
  constexpr uint64_t kHeader = 0x3000;
  constexpr int kFunctions = 5;
  table.U8(1).U8(0x03).U8(0x03).U8(0x3b).U32(kFrames).U32(kFunctions);
  for (int f = 0; f < kFunctions; ++f) {
    const uint64_t begin = kCode + f * 0x40;
    table.U32(begin - kHeader).U32(kFrames + frames.size() - kHeader);
    ElfBytes i;
    i.U8(0x0e).Uleb(16 * (f + 1));
    // The last 16 bytes of each 64 belong to nobody.
    frames += Fde(frames.size(), i.data(), begin, begin + 0x30);
  }
  UnwindTable unwind =
      TableOf(MakeElf({{".text", std::string(0x100, '\x90'), kCode},
                       {".eh_frame", frames, kFrames},
                       {".eh_frame_hdr", table.data(), kHeader, PT_GNU_EH_FRAME}}));
  for (int f = 0; f < kFunctions; ++f) {
    const UnwindRow* row = unwind.Find(kCode + f * 0x40 + 0x2f);
    ASSERT_NE(row, nullptr) << f;
    EXPECT_EQ(row->cfa_offset, 16 * (f + 1));
    EXPECT_EQ(unwind.Find(kCode + f * 0x40 + 0x30), nullptr) << f;
  }
  EXPECT_EQ(unwind.Find(kCode - 1), nullptr);
}

TEST(Unwind, WhatIsDamagedGivesNoRow) {
  const auto none = [](std::string_view instructions) {
    EXPECT_FALSE(RowAt(instructions, kCode + 8)) << testing::PrintToString(instructions);
  };
  none("\x0b");                                // restore_state without remember_state
  none("\x3f");                                // no such instruction
  none("\x0e");                                // cut off in its operand
  none(ElfBytes().U8(0x0f).Uleb(100).data());  // an expression longer than the record
  none(std::string(65, '\x0a'));               // states remembered without end
  // Its CIE is no CIE, or of a version that nobody defined, or somewhere else.
  const std::string cie = Cie();
  std::string unknown = cie;
  unknown[8] = 7;
  for (const std::string& frames :
       {unknown + Fde(cie.size(), ""), cie + Fde(cie.size() + 4, ""), Fde(0, ""),
        cie + Fde(cie.size(), "").substr(0, 10), cie + Fde(cie.size(), "", kCode, kCode)}) {
    EXPECT_EQ(TableOf(ElfWith(frames)).Find(kCode), nullptr);
  }
}

TEST(Unwind, RandomDamageIsSurvived) {
  const std::string cie = Cie();
  ElfBytes i;
  i.U8(0x40 | 1).U8(0x0e).Uleb(16).U8(0x80 | 6).Uleb(2).U8(0x0a).U8(0x40 | 2).U8(0x0b);
  const std::string good = ElfWith(cie + Fde(cie.size(), i.data()));
  std::mt19937 random(1);
  int rows = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (int n = 0; n < 3; ++n) bad[kFrames + random() % (good.size() - kFrames)] = random();
    auto parsed = ElfFile::Parse(FileImage::FromString(bad));
    if (!parsed.ok()) continue;
    UnwindTable table(*parsed, nullptr);
    for (uint64_t address = kCode; address < kCode + 8; ++address) {
      rows += table.Find(address) != nullptr;
    }
  }
  EXPECT_GT(rows, 0);
}

// ---- Expressions --------------------------------------------------------------------------------

std::optional<uint64_t> Evaluate(std::string_view expression,
                                 std::optional<uint64_t> first = std::nullopt) {
  LocationInput input;
  input.first = first;
  input.bias = 0x10000;
  input.register_value = [](int reg) -> std::optional<uint64_t> {
    return reg == 3 ? std::nullopt : std::optional<uint64_t>(reg * 0x100);
  };
  input.memory = [](uint64_t address, uint32_t size) -> std::optional<uint64_t> {
    if (address >= 0x8000) return std::nullopt;
    return address + size;
  };
  return EvaluateNumber(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(expression.data()), expression.size()),
      input);
}

TEST(FrameExpression, Values) {
  const auto bytes = [](std::initializer_list<int> list) {
    std::string out;
    for (int b : list) out.push_back(static_cast<char>(b));
    return out;
  };
  EXPECT_THAT(Evaluate(bytes({0x35})), Optional(5u));                                // lit5
  EXPECT_THAT(Evaluate(bytes({0x77, 0x08})), Optional(0x708u));                      // breg7 8
  EXPECT_THAT(Evaluate(bytes({0x92, 0x06, 0x78})), Optional(0x5f8u));                // bregx 6 -8
  EXPECT_THAT(Evaluate(bytes({0x03, 1, 0, 0, 0, 0, 0, 0, 0})), Optional(0x10001u));  // addr
  EXPECT_THAT(Evaluate(bytes({0x77, 0x00, 0x06})), Optional(0x708u));                // deref
  EXPECT_THAT(Evaluate(bytes({0x77, 0x00, 0x94, 4})), Optional(0x704u));             // deref_size
  EXPECT_THAT(Evaluate(bytes({0x38, 0x33, 0x1c})), Optional(5u));                    // 8 - 3
  EXPECT_THAT(Evaluate(bytes({0x09, 0xf8, 0x32, 0x1b})), Optional(~uint64_t{3}));    // -8 / 2
  EXPECT_THAT(Evaluate(bytes({0x09, 0xf8, 0x32, 0x26})), Optional(~uint64_t{1}));    // -8 >> 2
  EXPECT_THAT(Evaluate(bytes({0x31, 0x32, 0x33, 0x17})), Optional(2u));              // rot
  EXPECT_THAT(Evaluate(bytes({0x31, 0x32, 0x14, 0x22})), Optional(3u));              // over, plus
  EXPECT_THAT(Evaluate(bytes({0x31, 0x32, 0x15, 1})), Optional(1u));                 // pick
  EXPECT_THAT(Evaluate(bytes({0x23, 0x05}), 7), Optional(12u));                      // plus_uconst
  EXPECT_THAT(Evaluate(bytes({0x31, 0x28, 1, 0, 0x13, 0x39})), Optional(9u));        // bra over one
  EXPECT_THAT(Evaluate(bytes({0x39, 0x2f, 1, 0, 0x13})), Optional(9u));              // skip
  EXPECT_THAT(Evaluate(bytes({0x32, 0x33, 0x2d})), Optional(1u));                    // 2 < 3
}

TEST(FrameExpression, WhatCannotBeKnownHasNoValue) {
  const std::string nothing[] = {
      "",                                                   // leaves nothing
      "\x22",                                               // an empty stack
      std::string("\x73\x00", 2),                           // a register that is not known
      "\x30\x30\x1b",                                       // a division by zero
      std::string("\x30\x30\x1d", 3),                       // a remainder by zero
      std::string("\x0a\xff\xff\x06", 4),                   // memory that is not known
      "\x0a\x01",                                           // cut off
      "\xf7",                                               // no such operator
      std::string("\x2f\xfd\xff", 3),                       // a loop
      std::string("\x2f\x40\x00", 3),                       // out of the expression
      std::string(300, '\x31') + std::string(299, '\x22'),  // too deep
      "\x31\x94\x09",                                       // nine bytes
  };
  for (const std::string& e : nothing) {
    EXPECT_EQ(Evaluate(e), std::nullopt) << testing::PrintToString(e);
  }
}

}  // namespace
}  // namespace ttq
