// SPDX-License-Identifier: MIT

#include "recorder/engine/recipe.h"

#include "recorder/engine/base.h"
#include "recorder/inputs.h"

namespace ttq::engine {

void RecipeBuilder::Begin() {
  node_count_ = effect_count_ = instruction_count_ = instruction_bytes_ = exit_count_ = 0;
  record_bytes_ = 4;
  for (unsigned r = 0; r < kTtqRegCount; ++r) {
    register_[r] = Make(kTtqReg, 8, static_cast<Node>(r));
  }
}

Node RecipeBuilder::Make(unsigned op, unsigned width, Node a, Node b, unsigned c, uint64_t imm) {
  TtqNode& n = nodes_[node_count_];
  n = {};
  n.op = static_cast<uint8_t>(op);
  n.w = static_cast<uint8_t>(width);
  n.a = a;
  n.b = b;
  n.c = static_cast<uint16_t>(c);
  n.imm = imm;
  return static_cast<Node>(node_count_++);
}

Node RecipeBuilder::Constant(uint64_t value) {
  const unsigned first =
      node_count_ < kTtqRegCount + 12u ? unsigned{kTtqRegCount} : node_count_ - 12;
  for (unsigned i = node_count_; i-- > first;) {
    if (nodes_[i].op == kTtqConst && nodes_[i].imm == value) return static_cast<Node>(i);
  }
  return Make(kTtqConst, 8, 0, 0, 0, value);
}

Node RecipeBuilder::Add(Node a, int64_t constant) {
  if (constant == 0) return a;
  const TtqNode& n = nodes_[a];
  const auto more = static_cast<uint64_t>(constant);
  if (n.op == kTtqConst) return Constant(n.imm + more);
  if (n.op == kTtqAddI && n.w == 8) return Make(kTtqAddI, 8, n.a, 0, 0, n.imm + more);
  return Make(kTtqAddI, 8, a, 0, 0, more);
}

Node RecipeBuilder::Low(Node a, unsigned bytes) {
  const TtqNode& n = nodes_[a];
  if (bytes >= 8) return a;
  const uint64_t mask = (uint64_t{1} << (8 * bytes)) - 1;
  if (n.op == kTtqConst) return Constant(n.imm & mask);
  if (n.w <= bytes && n.op != kTtqInsert && n.op != kTtqSext) return a;
  return Make(kTtqExtract, bytes, a);
}

Node RecipeBuilder::Slot(unsigned bytes) {
  last_slot_ = static_cast<int32_t>(record_bytes_);
  record_bytes_ += bytes;
  return Make(kTtqSlot, bytes, 0, 0, 0, static_cast<uint64_t>(last_slot_));
}

Node RecipeBuilder::ReadOperand(const Instruction& i, uint8_t encoded, unsigned bytes) {
  const Node whole = register_[i.Number(encoded, bytes)];
  return i.IsHigh(encoded, bytes) ? Make(kTtqExtract, 1, whole, 0, 1) : whole;
}

void RecipeBuilder::WriteOperand(const Instruction& i, uint8_t encoded, unsigned bytes,
                                 Node value) {
  const unsigned number = i.Number(encoded, bytes);
  if (bytes < 4) {
    const bool high = i.IsHigh(encoded, bytes);
    value = Make(kTtqInsert, bytes, register_[number], value, high ? 1 : 0);
  }
  SetRegister(number, bytes == 4 ? Low(value, 4) : value);
}

void RecipeBuilder::StartInstruction(const Instruction& i, const uint8_t* code) {
  uint8_t* at = instructions_ + instruction_bytes_;
  memcpy(at, &i.pc, 8);
  at[8] = i.length;
  memcpy(at + 9, code, i.length);
  instruction_bytes_ += 9u + i.length;
  ++instruction_count_;
  AddEffect(kTtqInstruction, 0, kTtqNoNode, kTtqNoNode);
}

void RecipeBuilder::Load(Node address, unsigned bytes) {
  constexpr unsigned kMaxBytes = 64;
  for (unsigned done = 0; done < bytes; done += kMaxBytes) {
    AddEffect(kTtqLoad, bytes - done < kMaxBytes ? bytes - done : kMaxBytes, Add(address, done),
              kTtqNoNode);
  }
}

void RecipeBuilder::Store(Node address, unsigned bytes, Node value) {
  AddEffect(kTtqStore, bytes, address, value);
}

void RecipeBuilder::LoadIf(Node address, unsigned bytes, Node guard) {
  AddEffect(kTtqLoad, bytes, address, kTtqNoNode, guard);
}

void RecipeBuilder::StoreIf(Node address, unsigned bytes, Node value, Node guard) {
  AddEffect(kTtqStore, bytes, address, value, guard);
}

void RecipeBuilder::SetRegister(unsigned number, Node value) {
  register_[number] = value;
  AddEffect(kTtqSetReg, number, kTtqNoNode, value);
}

void RecipeBuilder::SetVector(unsigned word, Node value) {
  AddEffect(kTtqSetVector, word, kTtqNoNode, value);
}

void RecipeBuilder::Exit(unsigned number) {
  if (number >= exit_count_) exit_count_ = number + 1;
  AddEffect(kTtqExit, number, static_cast<Node>(record_bytes_), kTtqNoNode);
}

bool RecipeBuilder::HasRoom() const {
  constexpr unsigned kMaxOfOne = 400;  // nodes or effects of one instruction: xsave has the most
  return instruction_count_ < kMaxInstructions && node_count_ + kMaxOfOne < kMaxNodes &&
         effect_count_ + kMaxOfOne < kMaxEffects && record_bytes_ < kMaxRecordBytes / 2;
}

TtqRecipe RecipeBuilder::Head(uint32_t jump_kind) const {
  TtqRecipe r = {};
  r.bytes = encoded_bytes();
  r.node_count = static_cast<uint16_t>(node_count_);
  r.effect_count = static_cast<uint16_t>(effect_count_);
  r.instruction_count = static_cast<uint16_t>(instruction_count_);
  r.exit_count = static_cast<uint16_t>(exit_count_);
  r.record_bytes = static_cast<uint16_t>(record_bytes_);
  r.instruction_bytes = static_cast<uint16_t>(instruction_bytes_);
  r.jump_kind = jump_kind;
  return r;
}

uint32_t RecipeBuilder::encoded_bytes() const {
  return static_cast<uint32_t>(sizeof(TtqRecipe) + node_count_ * sizeof(TtqNode) +
                               effect_count_ * sizeof(TtqEffect) + instruction_bytes_);
}

void RecipeBuilder::Encode(uint32_t id, uint32_t jump_kind, uint8_t* at) const {
  TtqRecipe head = Head(jump_kind);
  head.id = id;
  const auto append = [&at](const void* bytes, size_t size) {
    memcpy(at, bytes, size);
    at += size;
  };
  append(&head, sizeof(head));
  append(nodes_, node_count_ * sizeof(TtqNode));
  append(effects_, effect_count_ * sizeof(TtqEffect));
  append(instructions_, instruction_bytes_);
}

uint64_t RecipeBuilder::Hash(uint32_t jump_kind) const {
  const TtqRecipe head = Head(jump_kind);
  const uint64_t parts[] = {HashBytes(&head, sizeof(head)),
                            HashBytes(instructions_, instruction_bytes_)};
  return HashBytes(parts, sizeof(parts));
}

void RecipeBuilder::AddEffect(unsigned kind, unsigned size, Node address, Node value, Node guard) {
  effects_[effect_count_++] = {static_cast<uint8_t>(kind), static_cast<uint8_t>(size), address,
                               value, guard};
}

}  // namespace ttq::engine
