// SPDX-License-Identifier: MIT

#include "store/walk/recipe.h"

#include <cstring>

#include "gtest/gtest.h"
#include "store/walk/walk.h"

namespace ttq {
namespace {

// A recipe of one superblock, put together by hand.
struct Draft {
  std::vector<TtqNode> nodes;
  std::vector<TtqEffect> effects;
  uint16_t instructions = 0, exits = 1, record_bytes = 4;
  std::string list;

  Draft() {
    for (uint16_t r = 0; r < kTtqRegCount; ++r) nodes.push_back({kTtqReg, 8, r, 0, 0, 0});
  }
  uint16_t Node(uint8_t op, uint8_t w, uint16_t a, uint16_t b = 0, uint16_t c = 0,
                uint64_t imm = 0) {
    nodes.push_back({op, w, a, b, c, imm});
    return static_cast<uint16_t>(nodes.size() - 1);
  }
  uint16_t Slot(uint8_t w) {
    uint16_t n = Node(kTtqSlot, w, 0, 0, 0, record_bytes);
    record_bytes = static_cast<uint16_t>(record_bytes + w);
    return n;
  }
  void Instruction(uint64_t address) {
    effects.push_back({kTtqInstruction, 0, kTtqNoNode, kTtqNoNode, kTtqNoNode});
    list.append(reinterpret_cast<const char*>(&address), 8);
    list += std::string("\x01\x90", 2);
    ++instructions;
  }
  void SetReg(uint8_t reg, uint16_t node) {
    effects.push_back({kTtqSetReg, reg, kTtqNoNode, node, kTtqNoNode});
  }
  void Exit(uint8_t number) {
    effects.push_back({kTtqExit, number, record_bytes, kTtqNoNode, kTtqNoNode});
  }
  std::string Encode() const {
    TtqRecipe r = {};
    r.id = 1;
    r.node_count = static_cast<uint16_t>(nodes.size());
    r.effect_count = static_cast<uint16_t>(effects.size());
    r.instruction_count = instructions;
    r.exit_count = exits;
    r.record_bytes = record_bytes;
    r.instruction_bytes = static_cast<uint16_t>(list.size());
    r.bytes = static_cast<uint32_t>(sizeof(r) + nodes.size() * sizeof(TtqNode) +
                                    effects.size() * sizeof(TtqEffect) + list.size());
    std::string out(reinterpret_cast<const char*>(&r), sizeof(r));
    out.append(reinterpret_cast<const char*>(nodes.data()), nodes.size() * sizeof(TtqNode));
    out.append(reinterpret_cast<const char*>(effects.data()), effects.size() * sizeof(TtqEffect));
    return out + list;
  }
};

struct NullSink {
  void Load(const Op&, uint64_t) {}
  void Store(const Op&, uint64_t, const uint8_t*) {}
  bool Superblock(const Program&, uint32_t, const uint8_t*) { return true; }
  bool Control(uint32_t, std::string_view) { return true; }
};

// Runs one execution of the draft's end exit; rax…r15 start as 100, 101, ….
std::vector<uint64_t> RunOnce(const Draft& d, std::string slots = "") {
  RecipeTable table;
  EXPECT_TRUE(table.Add(d.Encode()).ok());
  Walker walker(table);
  for (uint64_t r = 0; r < kTtqRegCount; ++r) walker.registers()[r] = 100 + r;
  uint32_t header = 1 << kTtqExitBits;
  std::string log(reinterpret_cast<const char*>(&header), 4);
  log += slots;
  NullSink sink;
  EXPECT_TRUE(walker.Walk(log, sink).ok());
  return {walker.registers(), walker.registers() + kTtqRegCount};
}

TEST(RecipeTest, RegistersChangeAllAtOnce) {
  // xchg rax, rcx: each takes the other's old value.
  Draft d;
  d.Instruction(0x1000);
  d.SetReg(kRax, kRcx);
  d.SetReg(kRcx, kRax);
  d.Exit(0);
  auto regs = RunOnce(d);
  EXPECT_EQ(regs[kRax], 101u);
  EXPECT_EQ(regs[kRcx], 100u);
}

TEST(RecipeTest, ACycleThroughArithmetic) {
  // rax = rcx + 1, rcx = rdx + 1, rdx = rax + 1, all of the old values.
  Draft d;
  uint16_t a = d.Node(kTtqAddI, 8, kRcx, 0, 0, 1), b = d.Node(kTtqAddI, 8, kRdx, 0, 0, 1),
           c = d.Node(kTtqAddI, 8, kRax, 0, 0, 1);
  d.Instruction(0x1000);
  d.SetReg(kRax, a);
  d.SetReg(kRcx, b);
  d.SetReg(kRdx, c);
  d.Exit(0);
  auto regs = RunOnce(d);
  EXPECT_EQ(regs[kRax], 102u);
  EXPECT_EQ(regs[kRcx], 103u);
  EXPECT_EQ(regs[kRdx], 101u);
}

TEST(RecipeTest, TwoRegistersOneValue) {
  Draft d;
  uint16_t sum = d.Node(kTtqAdd, 8, kRax, kRcx);
  d.Instruction(0x1000);
  d.SetReg(kRax, sum);
  d.SetReg(kRcx, sum);
  d.Exit(0);
  auto regs = RunOnce(d);
  EXPECT_EQ(regs[kRax], 201u);
  EXPECT_EQ(regs[kRcx], 201u);
}

TEST(RecipeTest, PartsOfRegisters) {
  Draft d;
  uint16_t slot = d.Slot(1);
  uint16_t high = d.Node(kTtqInsert, 1, kRax, slot, 1);
  uint16_t sext = d.Node(kTtqSext, 1, slot, 0, 4);
  d.Instruction(0x1000);
  d.SetReg(kRax, high);  // mov ah, [mem]
  d.SetReg(kRcx, sext);  // movsx ecx, byte [mem]
  d.Exit(0);
  auto regs = RunOnce(d, "\x80");
  EXPECT_EQ(regs[kRax], 0x8064u);
  EXPECT_EQ(regs[kRcx], 0xffffff80u);
}

TEST(RecipeTest, RegistersBetweenItsInstructions) {
  Draft d;
  uint16_t one = d.Node(kTtqAddI, 8, kRax, 0, 0, 1), two = d.Node(kTtqAddI, 8, kRax, 0, 0, 2);
  d.Instruction(0x1000);
  d.SetReg(kRax, one);
  d.Instruction(0x1001);
  d.SetReg(kRax, two);
  d.Exit(0);
  auto recipe = Recipe::Parse(d.Encode());
  ASSERT_TRUE(recipe.ok());
  const uint8_t record[4] = {};
  for (uint32_t i : {0u, 1u, 2u}) {
    uint64_t regs[kTtqRegCount] = {50};
    (*recipe)->RegistersInside(record, i, regs);
    EXPECT_EQ(regs[0], 50 + i);
  }
}

// Written before the first exit and not logged until after it.
TEST(RecipeTest, VectorRegistersAreKnownWhereTheyWereLogged) {
  Draft d;
  d.exits = 2;
  const auto set = [&d](uint8_t reg, uint16_t node) {
    d.effects.push_back({kTtqSetVector, reg, kTtqNoNode, node, kTtqNoNode});
  };
  d.Instruction(0x1000);
  set(2, kTtqNoNode);
  d.Instruction(0x1001);
  d.Exit(1);
  set(2, d.Slot(8));
  d.Instruction(0x1002);
  set(0, kTtqNoNode);
  set(kTtqX87Word, kTtqNoNode);
  d.Exit(0);
  RecipeTable table;
  ASSERT_TRUE(table.Add(d.Encode()).ok());
  const uint64_t logged = 0x3ff8000000000000;
  std::string record(12, '\0');
  memcpy(record.data() + 4, &logged, 8);
  const auto* bytes = reinterpret_cast<const uint8_t*>(record.data());
  const uint32_t all = (1u << kTtqVectorWords) - 1;
  const auto after = [&](uint32_t exit) {
    VectorState state;
    state.known = all;
    SetVectors(table.FindProgram(1, exit)->vectors, bytes, &state);
    return state;
  };
  EXPECT_EQ(after(1).known, all - 4);
  EXPECT_EQ(after(0).known, all - 1 - (1u << kTtqX87Word));
  EXPECT_EQ(after(0).word[2], logged);
  const auto before = [&](uint32_t instruction) {
    VectorState state;
    state.known = all;
    table.Find(SuperblockId(1))->VectorsInside(bytes, instruction, &state);
    return state.known;
  };
  EXPECT_EQ(before(0), all);
  EXPECT_EQ(before(1), all - 4);
  EXPECT_EQ(before(2), all);
  // What is not eight bytes of the record is no value.
  for (const uint16_t node : {uint16_t{0}, d.Slot(4), uint16_t{5000}}) {
    Draft bad = d;
    bad.effects.insert(bad.effects.begin() + 1, {kTtqSetVector, 1, kTtqNoNode, node, kTtqNoNode});
    EXPECT_FALSE(Recipe::Parse(bad.Encode()).ok()) << node;
  }
}

TEST(RecipeTest, AnIdIsTakenOnce) {
  Draft d;
  d.Instruction(0x1000);
  d.Exit(0);
  RecipeTable table;
  ASSERT_TRUE(table.Add(d.Encode()).ok());
  EXPECT_EQ(table.Add(d.Encode()).message(), "recipe 1: it comes twice");
}

TEST(RecipeTest, DamageIsNamed) {
  Draft good;
  good.Instruction(0x1000);
  good.Exit(0);
  ASSERT_TRUE(Recipe::Parse(good.Encode()).ok());
  auto message = [](Draft d) {
    auto r = Recipe::Parse(d.Encode());
    return r.ok() ? std::string("ok") : std::string(r.status().message());
  };
  Draft d = good;
  d.Node(kTtqAdd, 8, static_cast<uint16_t>(d.nodes.size()), 0);
  EXPECT_EQ(message(d), "recipe 1: a node refers to a later one");
  d = good;
  d.Node(kTtqSlot, 8, 0, 0, 0, 4);
  EXPECT_EQ(message(d), "recipe 1: a slot outside the record");
  d = good;
  d.exits = 2;
  EXPECT_EQ(message(d), "recipe 1: an exit is missing");
  d = good;
  d.SetReg(40, 0);
  EXPECT_EQ(message(d), "recipe 1: a register effect");
  std::string encoded = good.Encode();
  for (size_t n = 0; n < encoded.size(); ++n)
    EXPECT_FALSE(Recipe::Parse(encoded.substr(0, n)).ok());
}

TEST(WalkTest, ALogThatDoesNotFitItsRecipes) {
  Draft d;
  d.SetReg(kRax, d.Slot(8));
  d.effects.clear();
  d.Instruction(0x1000);
  d.Exit(0);
  RecipeTable table;
  ASSERT_TRUE(table.Add(d.Encode()).ok());
  auto walk = [&](std::string log) {
    Walker walker(table);
    NullSink sink;
    absl::Status s = walker.Walk(log, sink);
    return s.ok() ? std::string("ok") : std::string(s.message());
  };
  auto header = [](uint32_t id, uint32_t low) {
    uint32_t word = id << kTtqExitBits | low;
    return std::string(reinterpret_cast<const char*>(&word), 4);
  };
  EXPECT_EQ(walk(header(1, 0) + std::string(8, 0)), "ok");
  EXPECT_EQ(walk(header(1, 0)), "log at byte 0: the last record is cut off");
  EXPECT_EQ(walk(header(2, 0)), "log at byte 0: an unknown superblock or exit");
  EXPECT_EQ(walk(header(1, 1)), "log at byte 0: an unknown superblock or exit");
  EXPECT_EQ(walk(header(0, kTtqMap)), "log at byte 0: a control record is cut off");
  EXPECT_EQ(walk(header(1, 0) + std::string(8, 0) + "x"), "log at byte 12: a record is cut off");
  EXPECT_EQ(walk(header(1, kTtqExitOpen) + std::string(8, 0)), "log at byte 0: a fault is cut off");
}

}  // namespace
}  // namespace ttq
