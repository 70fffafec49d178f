// SPDX-License-Identifier: MIT

#include "store/walk/recipe.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "store/walk/evaluate.h"
#include "store/walk/native.h"
#include "store/walk/packed_log.h"

namespace ttq {
namespace {

absl::Status Bad(uint32_t id, const char* what) {
  return absl::DataLossError(fmt::format("recipe {}: {}", id, what));
}

// How many operands of a node are node numbers.
int Operands(uint8_t op) {
  switch (op) {
    case kTtqConst:
    case kTtqReg:
    case kTtqSlot:
    case kTtqVectorConst:
      return 0;
    case kTtqAddI:
    case kTtqNot:
    case kTtqExtract:
    case kTtqSext:
      return 1;
    case kTtqIte:
      return 3;
    default:
      return 2;
  }
}

bool IsScalarWidth(uint8_t w) { return w == 1 || w == 2 || w == 4 || w == 8; }

absl::Status CheckNode(uint32_t id, const TtqNode& n, size_t index, uint32_t record_bytes) {
  if (n.op > kTtqVectorConst) return Bad(id, "unknown node");
  int operands = Operands(n.op);
  if ((operands > 0 && n.a >= index) || (operands > 1 && n.b >= index) ||
      (operands > 2 && n.c >= index)) {
    return Bad(id, "a node refers to a later one");
  }
  if (n.op == kTtqReg && n.a >= kTtqRegCount) return Bad(id, "unknown register");
  if (n.op == kTtqSlot) {
    if (n.w == 0 || n.w > 32 || n.imm < 4 || n.imm > record_bytes || n.imm + n.w > record_bytes) {
      return Bad(id, "a slot outside the record");
    }
  } else if (n.op == kTtqVectorConst) {
    if (n.w > 32) return Bad(id, "a vector too wide");
  } else if (!IsScalarWidth(n.w)) {
    return Bad(id, "a node's width");
  }
  if ((n.op == kTtqExtract || n.op == kTtqInsert) && n.c > 7) return Bad(id, "a byte number");
  if (n.op == kTtqSext && !IsScalarWidth(static_cast<uint8_t>(n.c))) return Bad(id, "a width");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recipe>> Recipe::Parse(std::string_view encoded) {
  TtqRecipe head;
  if (encoded.size() < sizeof(head)) return absl::DataLossError("recipe: cut off");
  memcpy(&head, encoded.data(), sizeof(head));
  size_t need = sizeof(head) + head.node_count * sizeof(TtqNode) +
                head.effect_count * sizeof(TtqEffect) + head.instruction_bytes;
  if (head.bytes != need || encoded.size() != need) return Bad(head.id, "its size is wrong");
  if (head.id == 0 || head.id >> (32 - kTtqExitBits)) return Bad(head.id, "its id is wrong");
  if (head.record_bytes < 4 || head.record_bytes > kTtqMaxRecordBytes) {
    return Bad(head.id, "its record size is wrong");
  }
  if (head.node_count > kMaxNodes || head.effect_count > kMaxNodes) {
    return Bad(head.id, "it is too large");
  }
  if (head.instruction_count == 0 || head.instruction_count > 250) {
    return Bad(head.id, "its number of instructions is wrong");
  }
  auto r = std::make_unique<Recipe>();
  r->id_ = SuperblockId(head.id);
  r->record_bytes_ = head.record_bytes;
  r->jump_kind_ = head.jump_kind;
  const char* at = encoded.data() + sizeof(head);
  // memcpy wants no null pointer, not even for nothing.
  auto take = [&at](auto* list, size_t count) {
    list->resize(count);
    if (count == 0) return;
    memcpy(list->data(), at, count * sizeof(*list->data()));
    at += count * sizeof(*list->data());
  };
  take(&r->nodes_, head.node_count);
  take(&r->effects_, head.effect_count);
  const char* end = encoded.data() + encoded.size();
  // There are hundreds of thousands of recipes: none takes more than it needs.
  r->instructions_.reserve(head.instruction_count);
  r->bytes_.reserve(head.instruction_bytes -
                    std::min<size_t>(head.instruction_bytes, 9 * head.instruction_count));
  while (at < end) {
    if (end - at < 9) return Bad(head.id, "its instructions are cut off");
    uint64_t address;
    memcpy(&address, at, 8);
    uint8_t size = static_cast<uint8_t>(at[8]);
    at += 9;
    if (size > end - at) return Bad(head.id, "its instructions are cut off");
    r->instructions_.push_back({Address(address), size, static_cast<uint32_t>(r->bytes_.size())});
    r->bytes_.append(at, size);
    at += size;
  }
  if (r->instructions_.size() != head.instruction_count) {
    return Bad(head.id, "its number of instructions is wrong");
  }
  RETURN_IF_ERROR(r->CheckNodesAndEffects(head));
  return r;
}

absl::Status Recipe::CheckNodesAndEffects(const TtqRecipe& head) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    RETURN_IF_ERROR(CheckNode(head.id, nodes_[i], i, head.record_bytes));
  }
  // How much of the record a node's value needs.
  std::vector<uint32_t> reach(nodes_.size());
  auto scalar = [&](uint16_t n) {
    const TtqNode& node = nodes_[n];
    return node.op != kTtqVectorConst && IsScalarWidth(node.w);
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const TtqNode& n = nodes_[i];
    if (n.op == kTtqSlot) reach[i] = static_cast<uint32_t>(n.imm) + n.w;
    const uint16_t operands[] = {n.a, n.b, n.c};
    for (int k = 0; k < Operands(n.op); ++k) {
      // Vectors are only ever stored whole.
      if (!scalar(operands[k])) return Bad(head.id, "arithmetic on a vector");
      reach[i] = std::max(reach[i], reach[operands[k]]);
    }
  }
  if (head.exit_count > kTtqMaxSideExits + 1) return Bad(head.id, "too many exits");
  exits_.resize(std::max<size_t>(head.exit_count, 1));
  std::vector<bool> have(exits_.size());
  uint32_t instructions = 0, reached = 4;
  for (size_t i = 0; i < effects_.size(); ++i) {
    const TtqEffect& e = effects_[i];
    auto exists = [&](uint16_t n) { return n < nodes_.size(); };
    auto node_ok = [&](uint16_t n) { return exists(n) && scalar(n); };
    auto guard_ok = [&] { return e.guard == kTtqNoNode || node_ok(e.guard); };
    auto needs = [&](uint16_t n) { reached = std::max(reached, reach[n]); };
    switch (e.kind) {
      case kTtqInstruction:
        ++instructions;
        break;
      case kTtqLoad:
      case kTtqStore:
        if (!node_ok(e.addr) || !guard_ok() || instructions == 0 || e.size == 0 || e.size > 64) {
          return Bad(head.id, "a memory effect");
        }
        needs(e.addr);
        if (e.guard != kTtqNoNode) needs(e.guard);
        if (e.kind == kTtqStore) {
          if (!exists(e.value) || e.size > 32) return Bad(head.id, "a store");
          needs(e.value);
          const TtqNode& v = nodes_[e.value];
          // A wide slot is copied as it is; a narrower one counts as zero-extended.
          bool copied = v.op == kTtqSlot || v.op == kTtqVectorConst;
          if (copied && v.w > 8 ? v.w < e.size : e.size > 8) {
            return Bad(head.id, "a store's value");
          }
          if (v.op == kTtqSlot && v.w < e.size && !scalar(e.value)) {
            return Bad(head.id, "a store's value");
          }
        }
        break;
      case kTtqSetReg:
        if (e.size >= kTtqRegCount || !node_ok(e.value)) return Bad(head.id, "a register effect");
        needs(e.value);
        break;
      case kTtqSetVector:
        if (e.size >= kTtqVectorWords || (e.value != kTtqNoNode && !exists(e.value))) {
          return Bad(head.id, "a vector register effect");
        }
        if (e.value != kTtqNoNode) {
          const TtqNode& v = nodes_[e.value];
          if (v.op != kTtqSlot || v.w != 8) return Bad(head.id, "a vector register's value");
          needs(e.value);
        }
        break;
      case kTtqExit:
        if (e.size >= exits_.size() || have[e.size] || e.addr < 4 || e.addr > head.record_bytes) {
          return Bad(head.id, "an exit");
        }
        if (e.addr < reached) return Bad(head.id, "an exit whose record is too short");
        have[e.size] = true;
        exits_[e.size] = {static_cast<uint32_t>(i), e.addr, instructions};
        break;
      default:
        return Bad(head.id, "unknown effect");
    }
  }
  if (instructions != head.instruction_count) return Bad(head.id, "its instruction effects");
  for (bool h : have) {
    if (!h) return Bad(head.id, "an exit is missing");
  }
  return absl::OkStatus();
}

std::vector<AddressRange> Recipe::Extents() const {
  std::vector<AddressRange> out;
  for (const Instruction& i : instructions_) {
    // An instruction that could not be decoded has no size; it still has a place.
    Address end = i.address + std::max<uint64_t>(i.size, 1);
    if (!out.empty() && out.back().end == i.address) {
      out.back().end = end;
    } else {
      out.push_back({i.address, end});
    }
  }
  return out;
}

// ---- Compiling ----------------------------------------------------------------------------------
//
// Effects are compiled in program order, nodes where they are first needed. Registers are written
// only at the end, so that every node sees them as they were at entry. The final writes form a
// parallel assignment: each is one operation whose operands are already values; they are ordered so
// that a register is overwritten only after its last reader, and a cycle is broken by a copy.

class Compiler {
 public:
  explicit Compiler(const Recipe& recipe)
      : recipe_(recipe), value_of_node_(recipe.nodes_.size(), kNone) {}

  void Memory(const TtqEffect& e, uint32_t instruction) {
    Op op;
    auto [base, offset] = AddressOf(e.addr);
    op.a = base;
    op.imm = offset;
    op.size = e.size;
    op.instruction = static_cast<uint8_t>(instruction);
    if (e.kind == kTtqLoad) {
      op.code = OpCode::kLoad;
    } else {
      const TtqNode& v = recipe_.nodes_[e.value];
      if (v.op == kTtqSlot && v.w >= e.size) {
        op.code = OpCode::kStoreSlot;
        op.b = static_cast<uint16_t>(v.imm);
      } else if (v.op == kTtqVectorConst) {
        op.code = OpCode::kStoreMask;
        Op mask;
        mask.code = OpCode::kConst;
        mask.imm = v.imm;
        mask.dst = NewValue();
        op.b = mask.dst;
        program_.ops.push_back(mask);
      } else {
        op.code = OpCode::kStoreValue;
        op.b = ValueOf(e.value);
      }
    }
    if (e.guard != kTtqNoNode) {
      Op skip;
      skip.code = OpCode::kSkipUnless;
      skip.a = ValueOf(e.guard);
      program_.ops.push_back(skip);
    }
    program_.ops.push_back(op);
  }

  void SetRegister(uint8_t reg, uint16_t node) { final_[reg] = node; }

  Program Finish(uint32_t record_bytes, uint32_t instructions) {
    AssignRegisters();
    program_.ops.push_back(Op{.code = OpCode::kEnd});
    program_.ops.shrink_to_fit();
    program_.record_bytes = record_bytes;
    program_.instructions = instructions;
    program_.reach = record_bytes;
    for (const Op& op : program_.ops) {
      program_.reach = std::max(program_.reach, SlotEnd(op));
      program_.loads += op.code == OpCode::kLoad;
      program_.stores += op.code == OpCode::kStoreSlot || op.code == OpCode::kStoreValue ||
                         op.code == OpCode::kStoreMask;
    }
    return std::move(program_);
  }

 private:
  static constexpr uint16_t kNone = 0xffff;

  static uint32_t SlotEnd(const Op& op) {
    switch (op.code) {
      case OpCode::kSlot1:
        return static_cast<uint32_t>(op.imm) + 1;
      case OpCode::kSlot2:
        return static_cast<uint32_t>(op.imm) + 2;
      case OpCode::kSlot4:
        return static_cast<uint32_t>(op.imm) + 4;
      case OpCode::kSlot8:
        return static_cast<uint32_t>(op.imm) + 8;
      case OpCode::kStoreSlot:
        return uint32_t{op.b} + op.size;
      default:
        return 0;
    }
  }

  uint16_t NewValue() { return next_value_++; }

  std::pair<uint16_t, uint64_t> AddressOf(uint16_t node) {
    const TtqNode& n = recipe_.nodes_[node];
    if (n.op == kTtqConst) return {kZeroValue, n.imm};
    if (n.op == kTtqAddI && n.w == 8 && value_of_node_[node] == kNone) {
      return {ValueOf(n.a), n.imm};
    }
    return {ValueOf(node), 0};
  }

  // The operation that computes a node from values; operands are computed first.
  Op OperationOf(uint16_t node) {
    const TtqNode& n = recipe_.nodes_[node];
    Op op;
    op.size = n.w;
    op.kind = n.op;
    op.imm = n.imm;
    switch (n.op) {
      case kTtqConst:
        op.code = OpCode::kConst;
        break;
      case kTtqReg:
        op.code = OpCode::kMove;
        op.a = n.a;
        break;
      case kTtqSlot:
        op.code = n.w == 1   ? OpCode::kSlot1
                  : n.w == 2 ? OpCode::kSlot2
                  : n.w == 4 ? OpCode::kSlot4
                             : OpCode::kSlot8;
        break;
      case kTtqAddI:
        op.code = n.w == 8 ? OpCode::kAddI8 : OpCode::kAddI;
        op.a = ValueOf(n.a);
        break;
      case kTtqNot:
      case kTtqExtract:
      case kTtqSext:
        op.code = OpCode::kUnary;
        op.a = ValueOf(n.a);
        op.b = n.c;
        break;
      case kTtqInsert:
        op.code = OpCode::kInsert;
        op.a = ValueOf(n.a);
        op.b = ValueOf(n.b);
        op.imm = n.c;
        break;
      case kTtqIte:
        op.code = OpCode::kIte;
        op.a = ValueOf(n.a);
        op.b = ValueOf(n.b);
        op.imm = ValueOf(n.c);
        break;
      default:
        op.code = OpCode::kBinary;
        op.a = ValueOf(n.a);
        op.b = ValueOf(n.b);
        break;
    }
    return op;
  }

  uint16_t ValueOf(uint16_t node) {
    if (value_of_node_[node] != kNone) return value_of_node_[node];
    const TtqNode& n = recipe_.nodes_[node];
    if (n.op == kTtqReg) return value_of_node_[node] = n.a;
    Op op = OperationOf(node);
    op.dst = NewValue();
    program_.ops.push_back(op);
    return value_of_node_[node] = op.dst;
  }

  static bool Reads(const Op& op, uint16_t value) {
    switch (op.code) {
      case OpCode::kMove:
      case OpCode::kAddI8:
      case OpCode::kAddI:
      case OpCode::kUnary:
        return op.a == value;
      case OpCode::kBinary:
      case OpCode::kInsert:
        return op.a == value || op.b == value;
      case OpCode::kIte:
        return op.a == value || op.b == value || op.imm == value;
      default:
        return false;
    }
  }

  void AssignRegisters() {
    std::vector<Op> pending;
    for (uint16_t reg = 0; reg < kTtqRegCount; ++reg) {
      if (final_[reg] == kNone) continue;
      const TtqNode& n = recipe_.nodes_[final_[reg]];
      if (n.op == kTtqReg && n.a == reg) continue;
      Op op;
      if (uint16_t v = value_of_node_[final_[reg]]; v != kNone) {
        op.code = OpCode::kMove;
        op.a = v;
      } else {
        op = OperationOf(final_[reg]);
        // Two registers with the same new value: the second is a copy made now.
        bool shared = false;
        for (uint16_t other = reg + 1; other < kTtqRegCount; ++other) {
          shared = shared || final_[other] == final_[reg];
        }
        if (shared) {
          Op copy;
          copy.code = OpCode::kMove;
          copy.a = ValueOf(final_[reg]);
          op = copy;
        }
      }
      op.dst = reg;
      pending.push_back(op);
    }
    while (!pending.empty()) {
      bool progress = false;
      for (size_t i = 0; i < pending.size(); ++i) {
        bool read_later = false;
        for (size_t j = 0; j < pending.size(); ++j) {
          if (j != i && Reads(pending[j], pending[i].dst)) read_later = true;
        }
        if (read_later) continue;
        program_.ops.push_back(pending[i]);
        pending.erase(pending.begin() + static_cast<ptrdiff_t>(i));
        progress = true;
        break;
      }
      if (progress) continue;
      // A cycle: keep the old value of one register aside and let its readers use that.
      Op copy;
      copy.code = OpCode::kMove;
      copy.a = pending[0].dst;
      copy.dst = NewValue();
      program_.ops.push_back(copy);
      for (size_t j = 1; j < pending.size(); ++j) {
        Op& op = pending[j];
        bool a_is_value = op.code == OpCode::kMove || op.code == OpCode::kAddI8 ||
                          op.code == OpCode::kAddI || op.code == OpCode::kUnary ||
                          op.code == OpCode::kBinary || op.code == OpCode::kInsert ||
                          op.code == OpCode::kIte;
        bool b_is_value =
            op.code == OpCode::kBinary || op.code == OpCode::kInsert || op.code == OpCode::kIte;
        if (a_is_value && op.a == copy.a) op.a = copy.dst;
        if (b_is_value && op.b == copy.a) op.b = copy.dst;
        if (op.code == OpCode::kIte && op.imm == copy.a) op.imm = copy.dst;
      }
    }
  }

  const Recipe& recipe_;
  Program program_;
  std::vector<uint16_t> value_of_node_;
  std::vector<uint16_t> final_ = std::vector<uint16_t>(kTtqRegCount, kNone);
  uint16_t next_value_ = kFirstTemporary;
};

Program Recipe::Compile(uint32_t exit) const {
  Compiler compiler(*this);
  uint32_t instruction = 0;
  for (uint32_t i = 0; i < exits_[exit].effect; ++i) {
    const TtqEffect& e = effects_[i];
    if (e.kind == kTtqInstruction) ++instruction;
    if (e.kind == kTtqLoad || e.kind == kTtqStore) compiler.Memory(e, instruction - 1);
    if (e.kind == kTtqSetReg) compiler.SetRegister(e.size, e.value);
  }
  Program program = compiler.Finish(exits_[exit].record_bytes, exits_[exit].instructions);
  program.vectors = VectorsWritten(exits_[exit].effect, UINT32_MAX);
  return program;
}

Program Recipe::CompileOpen(uint32_t fault_instruction) const {
  Compiler compiler(*this);
  uint32_t instruction = 0;
  for (const TtqEffect& e : effects_) {
    if (e.kind == kTtqInstruction) ++instruction;
    if (instruction > fault_instruction + 1) break;
    if (e.kind == kTtqLoad || e.kind == kTtqStore) compiler.Memory(e, instruction - 1);
    if (e.kind == kTtqSetReg && instruction <= fault_instruction) {
      compiler.SetRegister(e.size, e.value);
    }
  }
  Program program = compiler.Finish(record_bytes_, fault_instruction + 1);
  program.vectors = VectorsWritten(effects_.size(), fault_instruction);
  return program;
}

std::vector<Program::VectorWrite> Recipe::VectorsWritten(size_t effect,
                                                         uint32_t instruction) const {
  std::array<std::optional<uint16_t>, kTtqVectorWords> last;
  uint32_t seen = 0;
  for (size_t i = 0; i < effect; ++i) {
    const TtqEffect& e = effects_[i];
    if (e.kind == kTtqInstruction && seen++ == instruction) break;
    if (e.kind != kTtqSetVector) continue;
    last[e.size] =
        e.value == kTtqNoNode ? Program::kNoSlot : static_cast<uint16_t>(nodes_[e.value].imm);
  }
  std::vector<Program::VectorWrite> writes;
  for (uint8_t word = 0; word < kTtqVectorWords; ++word) {
    if (last[word]) writes.push_back({word, *last[word]});
  }
  return writes;
}

void SetVectors(std::span<const Program::VectorWrite> writes, const uint8_t* record,
                VectorState* state) {
  for (const Program::VectorWrite& write : writes) {
    const uint32_t bit = 1u << write.word;
    state->known &= ~bit;
    if (write.slot == Program::kNoSlot) continue;
    memcpy(&state->word[write.word], record + write.slot, 8);
    state->known |= bit;
  }
}

void Recipe::VectorsInside(const uint8_t* record, uint32_t instruction,
                           VectorState* vectors) const {
  SetVectors(VectorsWritten(effects_.size(), instruction), record, vectors);
}

void Recipe::RegistersInside(const uint8_t* record, uint32_t instruction,
                             uint64_t* registers) const {
  std::vector<uint64_t> value(nodes_.size());
  std::vector<uint16_t> final(kTtqRegCount, kTtqNoNode);
  uint32_t seen = 0;
  for (const TtqEffect& e : effects_) {
    if (e.kind == kTtqInstruction && seen++ == instruction) break;
    if (e.kind == kTtqSetReg) final[e.size] = e.value;
  }
  // Operands come before their users; what a later instruction logs is not read.
  std::vector<bool> needed(nodes_.size());
  for (uint16_t n : final) {
    if (n != kTtqNoNode) needed[n] = true;
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    if (!needed[i]) continue;
    int operands = Operands(nodes_[i].op);
    if (operands > 0) needed[nodes_[i].a] = true;
    if (operands > 1) needed[nodes_[i].b] = true;
    if (operands > 2) needed[nodes_[i].c] = true;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (needed[i]) value[i] = EvaluateNode(nodes_[i], value.data(), registers, record);
  }
  for (size_t reg = 0; reg < kTtqRegCount; ++reg) {
    if (final[reg] != kTtqNoNode) registers[reg] = value[final[reg]];
  }
}

std::vector<uint32_t> Recipe::RegistersSet() const {
  std::vector<uint32_t> out(instructions_.size());
  size_t seen = 0;
  for (const TtqEffect& e : effects_) {
    if (e.kind == kTtqInstruction) ++seen;
    if (e.kind == kTtqSetReg && seen > 0 && seen <= out.size() && e.size < kGprCount) {
      out[seen - 1] |= 1u << e.size;
    }
  }
  return out;
}

// ---- The table ----------------------------------------------------------------------------------

RecipeTable::~RecipeTable() {
  for (auto& slot : chunks_) {
    Chunk* chunk = slot.load();
    if (chunk == nullptr) continue;
    for (auto& entry : chunk->entries) delete entry.load();
    delete chunk;
  }
}

uint64_t RecipeTable::NewIdentity() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

const std::shared_ptr<NativeCode>& RecipeTable::native(NativeUse use) const {
  const auto i = static_cast<size_t>(use);
  std::call_once(native_once_[i], [&] { native_[i] = NativeCode::Create(use); });
  return native_[i];
}

void RecipeTable::Miss(SuperblockId) const {}

absl::Status RecipeTable::Add(std::string_view encoded) {
  bool added = true;
  if (absl::Status s = AddConst(encoded, &added); !s.ok() || added) return s;
  // Some records would be of one, some of the other.
  TtqRecipe head;
  memcpy(&head, encoded.data(), sizeof(head));
  return Bad(head.id, "it comes twice");
}

RecipeTable::Entry::Entry(std::unique_ptr<Recipe> of)
    : exit_count(of->exit_count()), recipe(std::move(of)) {
  if (exit_count > kNear) {
    far = std::make_unique<std::atomic<const Program*>[]>(exit_count - kNear);
  }
}

absl::Status RecipeTable::AddConst(std::string_view encoded, bool* added) const {
  ASSIGN_OR_RETURN(auto recipe, Recipe::Parse(encoded));
  const bool is_new = AddEntry(std::move(recipe));
  if (added != nullptr) *added = is_new;
  return absl::OkStatus();
}

bool RecipeTable::AddEntry(std::unique_ptr<Recipe> recipe) const {
  const uint32_t id = recipe->id().v;
  auto entry = std::make_unique<Entry>(std::move(recipe));
  std::lock_guard lock(mutex_);
  auto& chunk_slot = chunks_[id >> kChunkBits];
  Chunk* chunk = chunk_slot.load(std::memory_order_acquire);
  if (chunk == nullptr) {
    chunk = new Chunk;
    chunk_slot.store(chunk, std::memory_order_release);
  }
  auto& slot = chunk->entries[id & ((1 << kChunkBits) - 1)];
  if (slot.load() != nullptr) return false;
  slot.store(entry.release(), std::memory_order_release);
  return true;
}

const RecipeTable::Entry* RecipeTable::FindEntry(uint32_t id) const {
  const Chunk* chunk = chunks_[id >> kChunkBits].load(std::memory_order_acquire);
  if (chunk == nullptr) return nullptr;
  return chunk->entries[id & ((1 << kChunkBits) - 1)].load(std::memory_order_acquire);
}

const Recipe* RecipeTable::Find(SuperblockId id) const {
  if (id.v >> (32 - kTtqExitBits)) return nullptr;
  const Entry* entry = FindEntry(id.v);
  if (entry == nullptr) {
    Miss(id);
    entry = FindEntry(id.v);
  }
  if (entry != nullptr) return entry->recipe.get();
  return parent_ ? parent_->Find(id) : nullptr;
}

const Program* RecipeTable::FindProgram(uint32_t id, uint32_t exit) const {
  const Entry* entry = FindEntry(id);
  if (entry == nullptr) {
    const Recipe* recipe = Find(SuperblockId(id));
    if (recipe == nullptr) return nullptr;
    entry = FindEntry(id);
    if (entry == nullptr) {
      // The parent's. Program indexes are per table, so this table gets an entry of its own.
      AddEntry(std::make_unique<Recipe>(*recipe));
      entry = FindEntry(id);
    }
  }
  if (exit >= entry->exit_count) return nullptr;
  const Program* program = entry->program(exit).load(std::memory_order_acquire);
  if (program != nullptr) return program;
  std::lock_guard lock(mutex_);
  program = entry->program(exit).load(std::memory_order_acquire);
  if (program != nullptr) return program;
  programs_.push_back(entry->recipe->Compile(exit));
  programs_.back().index = static_cast<uint32_t>(program_keys_.size());
  programs_.back().state_at = state_bytes_;
  state_bytes_ += ProgramState::BytesOf(programs_.back());
  program_keys_.emplace_back(id, exit);
  program_count_ = static_cast<uint32_t>(program_keys_.size());
  program = &programs_.back();
  entry->program(exit).store(program, std::memory_order_release);
  return program;
}

std::pair<uint32_t, uint32_t> RecipeTable::IdAndExit(uint32_t program_index) const {
  std::lock_guard lock(mutex_);
  return program_keys_[program_index];
}

}  // namespace ttq
