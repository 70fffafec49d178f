// SPDX-License-Identifier: MIT
//
// Puts a superblock's recipe together (recorder/stream.h), in program order. Each register has a
// node, which says its value at this point: an expression over registers at entry and slots.

#ifndef TTQ_RECORDER_ENGINE_RECIPE_H_
#define TTQ_RECORDER_ENGINE_RECIPE_H_

#include "recorder/engine/decode.h"
#include "recorder/stream.h"

namespace ttq::engine {

using Node = uint16_t;

class RecipeBuilder {
 public:
  // Instructions of a superblock, and bytes of its records that may not be exceeded.
  static constexpr unsigned kMaxInstructions = 64, kMaxRecordBytes = 16 << 10;

  void Begin();

  Node Register(unsigned number) const { return register_[number]; }
  Node Constant(uint64_t value);
  // What a register is known to hold here; `otherwise` where that is known only when it runs.
  uint64_t KnownValue(unsigned number, uint64_t otherwise) const {
    const TtqNode& n = nodes_[register_[number]];
    return n.op == kTtqConst ? n.imm : otherwise;
  }
  Node Make(unsigned op, unsigned width, Node a, Node b = 0, unsigned c = 0, uint64_t imm = 0);
  Node Add(Node a, int64_t constant);
  // The low bytes of a value: as an operand (what is above may be anything), or as a number.
  Node Low(Node a, unsigned bytes);
  // A slot at the end of the record.
  Node Slot(unsigned bytes);
  unsigned record_bytes() const { return record_bytes_; }
  // Where the slot lies that was made last.
  int32_t last_slot() const { return last_slot_; }

  // The register operand `encoded` of `bytes`, as it is read.
  Node ReadOperand(const Instruction& i, uint8_t encoded, unsigned bytes);
  // … and written; what is left of it stays.
  void WriteOperand(const Instruction& i, uint8_t encoded, unsigned bytes, Node value);

  void StartInstruction(const Instruction& i, const uint8_t* code);
  void Load(Node address, unsigned bytes);
  void Store(Node address, unsigned bytes, Node value);
  // The same where `guard` is not 0.
  void LoadIf(Node address, unsigned bytes, Node guard);
  void StoreIf(Node address, unsigned bytes, Node value, Node guard);
  void SetRegister(unsigned number, Node value);
  void SetVector(unsigned word, Node value);  // kTtqNoNode: not known from here on
  void Exit(unsigned number);

  unsigned instruction_count() const { return instruction_count_; }
  bool HasRoom() const;
  // Bytes of the recipe, and where it goes, with its id.
  uint32_t encoded_bytes() const;
  void Encode(uint32_t id, uint32_t jump_kind, uint8_t* at) const;
  // Equal for equal recipes: one follows from its instructions, and from how many of them and of
  // what they do it has. Never 0.
  uint64_t Hash(uint32_t jump_kind) const;

 private:
  TtqRecipe Head(uint32_t jump_kind) const;  // its id is zero
  void AddEffect(unsigned kind, unsigned size, Node address, Node value, Node guard = kTtqNoNode);

  enum { kMaxNodes = 3000, kMaxEffects = 3000, kMaxInstructionBytes = 64 * 24 };
  Node register_[kTtqRegCount];
  TtqNode nodes_[kMaxNodes];
  TtqEffect effects_[kMaxEffects];
  uint8_t instructions_[kMaxInstructionBytes];
  unsigned node_count_, effect_count_, instruction_count_, instruction_bytes_;
  unsigned record_bytes_, exit_count_;
  int32_t last_slot_;
};

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_RECIPE_H_
