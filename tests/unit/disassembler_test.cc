// SPDX-License-Identifier: MIT

#include "query/code/disassembler.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

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

// ---- Operands and copies ------------------------------------------------------------------------

DecodedInstruction Decode(const std::vector<uint8_t>& code) {
  const std::optional<DecodedInstruction> decoded = Disassembler().Decode(code, Address(0x1000));
  EXPECT_TRUE(decoded.has_value());
  return decoded.value_or(DecodedInstruction());
}

TEST(Decode, NamesOperandsDestinationFirst) {
  const DecodedInstruction load =
      Decode({0x64, 0x48, 0x8b, 0x44, 0x8b, 0x10});  // fs: [rbx+rcx*4+16]
  EXPECT_EQ(load.operation, Operation::kMove);
  ASSERT_EQ(load.operands.size(), 2u);
  EXPECT_EQ(load.operands[0].reg, (RegisterName{RegisterName::File::kGeneral, kRax, 0, 8}));
  EXPECT_TRUE(load.operands[0].written);
  const Operand& memory = load.operands[1];
  EXPECT_EQ(memory.kind, Operand::Kind::kMemory);
  EXPECT_EQ(memory.base.number, kRbx);
  EXPECT_EQ(memory.index.number, kRcx);
  EXPECT_EQ(memory.scale, 4);
  EXPECT_EQ(memory.displacement, 16);
  EXPECT_EQ(memory.segment.file, RegisterName::File::kFsBase);
  EXPECT_EQ(Decode({0x88, 0xe0}).operands[1].reg.Text(), "%ah");
  EXPECT_EQ(Decode({0x45, 0x89, 0xc1}).operands[0].reg.Text(), "%r9d");
  EXPECT_EQ(Decode({0x0f, 0x05}).operation, Operation::kSystemCall);
  EXPECT_EQ(Decode({0xf3, 0xa4}).operation, Operation::kStringMove);
  EXPECT_FALSE(Disassembler().Decode(std::vector<uint8_t>{0x06}, Address(0)).has_value());
}

// "OPERAND+OFFSET of SIZE", "zero", "kept", "computed".
std::string Source(const std::vector<uint8_t>& code, uint32_t offset, uint32_t size) {
  const ByteSource source = Disassembler::SourceOf(Decode(code), offset, size);
  switch (source.kind) {
    case ByteSource::Kind::kOperand:
      return std::to_string(source.operand) + "+" + std::to_string(source.offset) + " of " +
             std::to_string(source.size);
    case ByteSource::Kind::kZero:
      return "zero";
    case ByteSource::Kind::kKept:
      return "kept";
    case ByteSource::Kind::kComputed:
      return "computed";
  }
  return "";
}

TEST(SourceOf, GeneralRegisters) {
  EXPECT_EQ(Source({0x48, 0x89, 0xd8}, 0, 8), "1+0 of 8");  // mov rax, rbx
  EXPECT_EQ(Source({0x89, 0xd8}, 0, 8), "1+0 of 4");        // mov eax, ebx: the rest is zero
  EXPECT_EQ(Source({0x89, 0xd8}, 4, 4), "zero");
  EXPECT_EQ(Source({0xb4, 0x07}, 0, 1), "kept");  // mov ah, 7
  EXPECT_EQ(Source({0xb4, 0x07}, 1, 1), "1+0 of 1");
  EXPECT_EQ(Source({0x0f, 0xb6, 0x03}, 0, 8), "1+0 of 1");  // movzx eax, byte [rbx]
  EXPECT_EQ(Source({0x48, 0x63, 0xc3}, 4, 4), "computed");  // movsxd rax, ebx: its sign
  EXPECT_EQ(Source({0x31, 0xc0}, 0, 8), "zero");            // xor eax, eax
  EXPECT_EQ(Source({0x31, 0xd8}, 0, 4), "computed");        // xor eax, ebx
  EXPECT_EQ(Source({0x48, 0x01, 0xd8}, 0, 8), "computed");  // add rax, rbx
}

TEST(SourceOf, ExtensionsAndCuts) {
  EXPECT_EQ(Source({0x48, 0x98}, 0, 8), "1+0 of 4");        // cdqe
  EXPECT_EQ(Source({0x48, 0x98}, 4, 4), "computed");        // its sign
  EXPECT_EQ(Source({0x98}, 0, 8), "1+0 of 2");              // cwde
  EXPECT_EQ(Source({0x66, 0x98}, 0, 8), "1+0 of 1");        // cbw
  EXPECT_EQ(Source({0x48, 0x99}, 0, 8), "computed");        // cqo: rdx is the sign
  EXPECT_EQ(Source({0x0f, 0xb6, 0xc4}, 0, 8), "1+0 of 1");  // movzx eax, ah
  EXPECT_EQ(Source({0x83, 0xe0, 0xff}, 0, 4), "kept");      // and eax, -1
  EXPECT_EQ(Source({0x25, 0xff, 0, 0, 0}, 0, 1), "kept");   // and eax, 255
  EXPECT_EQ(Source({0x25, 0xff, 0, 0, 0}, 1, 7), "zero");
  EXPECT_EQ(Source({0x25, 0, 0xff, 0, 0}, 0, 4), "computed");     // and eax, 0xff00
  EXPECT_EQ(Source({0x48, 0x83, 0xe0, 0xf8}, 0, 8), "computed");  // and rax, -8
}

TEST(Decode, TellsWhatAnInstructionReadsWithoutNamingIt) {
  const DecodedInstruction multiply = Decode({0x48, 0xf7, 0xe1});  // mul rcx
  ASSERT_EQ(multiply.implied.size(), 1u);
  EXPECT_EQ(multiply.implied[0].Text(), "%rax");
  EXPECT_EQ(Decode({0x48, 0x99}).operands[1].reg.Text(), "%rax");  // cqo
}

TEST(SourceOf, VectorRegisters) {
  EXPECT_EQ(Source({0x0f, 0x10, 0x03}, 8, 8), "1+8 of 8");              // movups xmm0, [rbx]
  EXPECT_EQ(Source({0x66, 0x48, 0x0f, 0x6e, 0xc3}, 0, 8), "1+0 of 8");  // movq xmm0, rbx
  EXPECT_EQ(Source({0x66, 0x48, 0x0f, 0x6e, 0xc3}, 8, 8), "zero");
  EXPECT_EQ(Source({0x0f, 0x16, 0x03}, 0, 8), "kept");  // movhps xmm0, [rbx]
  EXPECT_EQ(Source({0x0f, 0x16, 0x03}, 8, 8), "1+0 of 8");
  EXPECT_EQ(Source({0x66, 0x0f, 0x6c, 0xc1}, 8, 8), "1+0 of 8");         // punpcklqdq xmm0, xmm1
  EXPECT_EQ(Source({0x66, 0x0f, 0x6c, 0xc1}, 0, 16), "kept");            // and half of it is not
  EXPECT_EQ(Source({0x66, 0x0f, 0x70, 0xc1, 0x4e}, 0, 8), "1+8 of 8");   // pshufd xmm0, xmm1, 0x4e
  EXPECT_EQ(Source({0xf2, 0x0f, 0x10, 0xc1}, 8, 8), "kept");             // movsd xmm0, xmm1
  EXPECT_EQ(Source({0xf2, 0x0f, 0x10, 0x03}, 8, 8), "zero");             // movsd xmm0, [rbx]
  EXPECT_EQ(Source({0x66, 0x0f, 0xef, 0xc0}, 0, 16), "zero");            // pxor xmm0, xmm0
  EXPECT_EQ(Source({0xc5, 0xf8, 0x10, 0x03}, 16, 16), "zero");           // vmovups xmm0, [rbx]
  EXPECT_EQ(Source({0xc4, 0xe2, 0x7d, 0x78, 0xc1}, 21, 1), "1+0 of 1");  // vpbroadcastb ymm0, xmm1
  EXPECT_EQ(Source({0x66, 0x48, 0x0f, 0x3a, 0x22, 0xc3, 0x01}, 8, 8), "1+0 of 8");  // pinsrq …, 1
  EXPECT_EQ(Source({0x66, 0x0f, 0xfe, 0xc1}, 0, 4), "computed");                    // paddd
}

}  // namespace
}  // namespace ttq
