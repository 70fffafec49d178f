// SPDX-License-Identifier: MIT
//
// Recipes (recorder/stream.h) made ready to run: parsed and checked once, then compiled into one
// straight-line program per exit.
//
// A program reads the slots of one log record and the registers, does the loads and stores in
// program order and leaves the registers as they are at that exit. Its values live in an array: the
// tracked registers, a zero, then temporaries. What only intermediate registers need is left out of
// programs; RegistersInside evaluates those for one execution.

#ifndef TTQ_STORE_WALK_RECIPE_H_
#define TTQ_STORE_WALK_RECIPE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/types.h"
#include "recorder/stream.h"
#include "store/walk/packed_log.h"

namespace ttq {

enum class OpCode : uint8_t {
  kEnd,
  kSlot1,
  kSlot2,
  kSlot4,
  kSlot8,  // values[dst] = slot at imm
  kConst,  // values[dst] = imm
  kMove,   // values[dst] = values[a]
  kAddI8,
  kAddI,        // values[dst] = values[a] + imm; kAddI: masked to `size` bytes
  kBinary,      // node operation `kind` on values[a], values[b], `size` bytes
  kUnary,       // kTtqNot, kTtqExtract (byte b), kTtqSext (to b bytes)
  kInsert,      // values[a] with values[b] put in at byte imm, `size` bytes
  kIte,         // values[a] ? values[b] : values[imm]
  kLoad,        // `size` bytes at values[a] + imm
  kStoreSlot,   // … stored from the record's bytes at b
  kStoreValue,  // … stored from values[b]
  kStoreMask,   // … from the byte mask values[b], see kTtqVectorConst
  kSkipUnless,  // skip the next operation unless values[a]
};

struct Op {
  OpCode code;
  uint8_t size = 0;
  uint8_t kind = 0;         // kTtqAdd… for kBinary and kUnary
  uint8_t instruction = 0;  // ordinal of the instruction in the superblock, for loads and stores
  uint16_t a = 0, b = 0, dst = 0;
  uint64_t imm = 0;
};

enum { kZeroValue = kTtqRegCount, kFirstTemporary = kTtqRegCount + 1 };
// No recipe has more nodes, or more effects, than this; no program more values than kMaxValues.
inline constexpr size_t kMaxNodes = 6000;
inline constexpr size_t kMaxValues = kFirstTemporary + 2 * kMaxNodes + kTtqRegCount;

// The vector words (recorder/stream.h), as far as they are known.
struct VectorState {
  std::array<uint64_t, kTtqVectorWords> word{};
  uint32_t known = 0;  // a bit for each
};

// What programs are turned into machine code for, see store/walk/native.h: to digest blocks as they
// are recorded, to follow a process's memory and registers through them, or its registers alone.
enum class NativeUse { kDigest, kMemory, kRegisters };
inline constexpr int kNativeUses = 3;

struct Program {
  std::vector<Op> ops;
  // What it leaves in vector words: the slot of each that it writes, or kNoSlot.
  struct VectorWrite {
    uint8_t word;
    uint16_t slot;
  };
  static constexpr uint16_t kNoSlot = 0xffff;
  std::vector<VectorWrite> vectors;
  uint32_t record_bytes = 0;
  uint32_t reach = 0;  // how far from the record's start it reads; of a sound recipe record_bytes
  uint32_t instructions = 0;  // retired when it leaves here
  // Unique within its table, dense from 0; a program made by CompileOpen is in no table.
  static constexpr uint32_t kNoIndex = ~uint32_t{0};
  uint32_t index = kNoIndex;
  uint32_t loads = 0, stores = 0;  // among `ops`
  // The place of its ProgramState in an array that has one for each program of its table.
  size_t state_at = 0;

  // Its machine code by NativeUse, once it has run often enough to be worth it. Shared by threads:
  // for std::atomic_ref only.
  struct Native {
    const void* code = nullptr;
    uint32_t runs = 0;
  };
  mutable Native native[kNativeUses];
};

// What a digest keeps of a program.
struct ProgramState {
  const void* next_code;  // where code goes on when the header that follows is the expected one
  uint32_t executions;    // by machine code
  uint8_t expected[4];    // and more: ExpectedBytes, see store/walk/packed_log.h

  static size_t BytesOf(const Program& program) {
    return offsetof(ProgramState, expected) + ExpectedBytes(program.record_bytes);
  }
};
static_assert(sizeof(ProgramState) == 16);

struct Instruction {
  Address address;
  uint8_t size;
  uint32_t bytes;  // offset into Recipe::bytes
};

class Recipe {
 public:
  // Checks everything: offsets, node numbers, sizes. DataLoss names what is wrong.
  static absl::StatusOr<std::unique_ptr<Recipe>> Parse(std::string_view encoded);

  SuperblockId id() const { return id_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  std::string_view InstructionBytes(size_t i) const {
    return std::string_view(bytes_).substr(instructions_[i].bytes, instructions_[i].size);
  }
  Address entry() const { return instructions_.front().address; }
  uint32_t exit_count() const { return static_cast<uint32_t>(exits_.size()); }
  uint32_t jump_kind() const { return jump_kind_; }
  uint32_t record_bytes() const { return record_bytes_; }

  // Instructions retired when exit `number` is taken.
  uint32_t InstructionsAtExit(uint32_t number) const { return exits_[number].instructions; }
  uint32_t RecordBytesAtExit(uint32_t number) const { return exits_[number].record_bytes; }

  // Compiles the program of an exit. With `open`, that of a record cut off by a fault: the effects
  // of the instructions before `fault_instruction`, then those of that instruction one by one; the
  // caller stops at the faulting one.
  Program Compile(uint32_t exit) const;
  Program CompileOpen(uint32_t fault_instruction) const;

  // Brings `registers` (as they were at entry) to what they are before instruction `instruction`.
  void RegistersInside(const uint8_t* record, uint32_t instruction, uint64_t* registers) const;
  // The same for vector registers.
  void VectorsInside(const uint8_t* record, uint32_t instruction, VectorState* vectors) const;

  // For each instruction the general registers it sets, a bit each.
  std::vector<uint32_t> RegistersSet() const;

  // The ranges of addresses its instructions cover, one per contiguous run.
  std::vector<AddressRange> Extents() const;

 private:
  // Also fills in exits_.
  absl::Status CheckNodesAndEffects(const TtqRecipe& head);

  struct Exit {
    uint32_t effect = 0, record_bytes = 0, instructions = 0;
  };
  friend class Compiler;
  // By effects before `effect`, or those before instruction `instruction` if there are fewer.
  std::vector<Program::VectorWrite> VectorsWritten(size_t effect, uint32_t instruction) const;

  SuperblockId id_;
  uint32_t record_bytes_ = 0, jump_kind_ = 0;
  std::vector<TtqNode> nodes_;
  std::vector<TtqEffect> effects_;
  std::vector<Instruction> instructions_;
  std::string bytes_;
  std::vector<Exit> exits_;
};

// Applies writes to `state`.
void SetVectors(std::span<const Program::VectorWrite> writes, const uint8_t* record,
                VectorState* state);

class NativeCode;

// Recipes and programs of one process, by id. Add may run while others look up; a pointer stays
// valid as long as the table.
class RecipeTable {
 public:
  // Looks in `parent` for ids it does not have (a forked child goes on with its parent's code).
  explicit RecipeTable(std::shared_ptr<const RecipeTable> parent = nullptr)
      : parent_(std::move(parent)) {}
  virtual ~RecipeTable();

  // DataLoss when it cannot be parsed, or when its id is taken.
  absl::Status Add(std::string_view encoded);
  // Null when there is none.
  const Recipe* Find(SuperblockId id) const;
  // Whether it was added here, not to the parent.
  bool HasOwn(SuperblockId id) const {
    return id.v >> (32 - kTtqExitBits) == 0 && FindEntry(id.v) != nullptr;
  }
  // Null when the id or exit is unknown. Compiles on first use.
  const Program* FindProgram(uint32_t id, uint32_t exit) const;
  // Programs compiled so far; Program::index is below it.
  uint32_t program_count() const { return program_count_; }
  // Size of an array with each program's ProgramState.
  size_t state_bytes() const { return state_bytes_; }
  std::pair<uint32_t, uint32_t> IdAndExit(uint32_t program_index) const;
  // No other table of this run of ours has, or had, the same.
  uint64_t identity() const { return identity_; }
  // Where the code of its programs is; made when first asked for. Null where there is none.
  const std::shared_ptr<NativeCode>& native(NativeUse use) const;

 protected:
  // Called for an id the table does not have; may Add it. Default: nothing.
  virtual void Miss(SuperblockId id) const;
  // The first of an id stays.
  absl::Status AddConst(std::string_view encoded, bool* added = nullptr) const;

 private:
  // A walk comes here for each superblock: what it needs lies together.
  struct Entry {
    explicit Entry(std::unique_ptr<Recipe> of);
    std::atomic<const Program*>& program(uint32_t exit) const {
      return exit < kNear ? near[exit] : far[exit - kNear];
    }
    static constexpr uint32_t kNear = 4;
    uint32_t exit_count;
    mutable std::atomic<const Program*> near[kNear] = {};  // by exit
    std::unique_ptr<std::atomic<const Program*>[]> far;    // of exits from kNear on
    std::unique_ptr<Recipe> recipe;
  };
  static constexpr uint32_t kChunkBits = 12;
  struct Chunk {
    std::atomic<Entry*> entries[1 << kChunkBits] = {};
  };
  const Entry* FindEntry(uint32_t id) const;
  // False when the table has one of this id, which stays.
  bool AddEntry(std::unique_ptr<Recipe> recipe) const;

  static uint64_t NewIdentity();

  std::shared_ptr<const RecipeTable> parent_;
  const uint64_t identity_ = NewIdentity();
  mutable std::once_flag native_once_[kNativeUses];  // by NativeUse
  mutable std::shared_ptr<NativeCode> native_[kNativeUses];
  mutable std::mutex mutex_;
  mutable std::atomic<Chunk*> chunks_[1 << (32 - kTtqExitBits - kChunkBits)] = {};
  mutable std::atomic<uint32_t> program_count_{0};
  mutable std::atomic<size_t> state_bytes_{0};
  mutable std::deque<Program> programs_;
  mutable std::vector<std::pair<uint32_t, uint32_t>> program_keys_;
};

}  // namespace ttq

#endif  // TTQ_STORE_WALK_RECIPE_H_
