// SPDX-License-Identifier: MIT

#include "query/disassembler.h"

#include <gtest/gtest.h>

namespace ttq {
namespace {

TEST(Disassembler, IsAttSyntaxWithNamesOfTargets) {
  // push %rbp; mov %rsp,%rbp; call +0 ; lea 0x10(%rip),%rax; jne -2; ret
  const std::vector<uint8_t> code = {0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0,    0,    0,   0x48,
                                     0x8d, 0x05, 0x10, 0,    0,    0, 0x75, 0xfe, 0xc3};
  Disassembler d([](Address a) {
    if (a == Address(0x1009)) return std::string("f+0x9");
    if (a == Address(0x1020)) return std::string("table");
    return std::string();
  });
  std::vector<std::string> text;
  std::vector<size_t> sizes;
  for (const DisassembledInstruction& i : d.Disassemble(code, Address(0x1000))) {
    text.push_back(i.text);
    sizes.push_back(i.size());
  }
  EXPECT_EQ(text,
            (std::vector<std::string>{"pushq %rbp", "movq %rsp, %rbp", "callq 0x1009 <f+0x9>",
                                      "leaq 0x10(%rip), %rax <table>", "jne 0x1010", "retq"}));
  EXPECT_EQ(sizes, (std::vector<size_t>{1, 3, 5, 7, 2, 1}));
}

TEST(Disassembler, GoesOnAfterBadBytes) {
  // 0x06 is no instruction in 64-bit mode; the last call is cut off.
  const std::vector<uint8_t> code = {0x06, 0x90, 0xe8, 0x01};
  std::vector<DisassembledInstruction> all = Disassembler().Disassemble(code, Address(0x10));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].text, "(bad)");
  EXPECT_EQ(all[1].text, "nop");
  EXPECT_EQ(all[2].text, "(bad)");
  EXPECT_EQ(all[2].address, Address(0x12));
  EXPECT_EQ(all[3].text, "(bad)");
}

TEST(Disassembler, StopsAtTheCount) {
  const std::vector<uint8_t> nops(100, 0x90);
  EXPECT_EQ(Disassembler().Disassemble(nops, Address(0), 7).size(), 7u);
}

}  // namespace
}  // namespace ttq
