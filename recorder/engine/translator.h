// SPDX-License-Identifier: MIT
//
// Makes a superblock: translated code and its recipe. translate.cc opens with how.

#ifndef TTQ_RECORDER_ENGINE_TRANSLATOR_H_
#define TTQ_RECORDER_ENGINE_TRANSLATOR_H_

#include "recorder/engine/code.h"
#include "recorder/engine/decode.h"
#include "recorder/engine/recipe.h"
#include "recorder/engine/ring.h"

namespace ttq::engine {

// From `offset` in a superblock's code on, until the next mark, an instruction of the program is
// being executed; the program's values of the registers in `lent` are in the context, and of the
// record no more than `record_bytes` have been written.
struct Mark {
  uint32_t offset;
  uint16_t lent;
  uint16_t record_bytes;
  uint8_t instruction;
  uint16_t added;  // bytes that the log's register has moved on by
};

// Consecutive bytes of a superblock's instructions, as they were when it was translated.
struct CodeRun {
  uint64_t pc;
  uint32_t bytes;
  const uint8_t* content;
};

struct Superblock {
  uint64_t pc;
  uint8_t* begin;
  // Code that indirect branches lead to: checks the target, and goes on to the check of another
  // superblock, or to EngineMiss, by the jump before it.
  uint8_t* checked;
  uint8_t* body;
  const uint8_t* end;
  const Mark* marks;
  uint32_t id;
  uint16_t mark_count;
  uint16_t record_bytes;
  uint8_t log_register;  // while it runs
  uint8_t instruction_count;
  bool may_change;      // what it was made from may, without a system call: see dispatch.cc
  uint8_t run_count;    // where it may change; 0: it cannot compare these, and is not linked
  uint8_t* changes;     // … the number in its code that Context::executable_changes must be
  const uint64_t* pcs;  // of its instructions
  const CodeRun* runs;
  // For the code cache; no bytes: there is no recipe, or not of all instructions looked at.
  uint64_t recipe_hash;
  uint32_t recipe_bytes;
  // The first of what it has in the tables of dispatch.h; the next superblock's follow.
  uint32_t first_exit, first_stub, first_literal;

  bool can_be_linked() const { return !may_change || run_count != 0; }
  // Where the distance of the jump to the next check is.
  uint8_t* next_check() const { return checked - 4; }
};

// How translated code is left, see dispatch.cc.
enum ExitKind : uint8_t {
  kLink,          // to code that may be translated by now
  kRoom,          // no room in the log, or a signal waits; the superblock has done nothing
  kChanged,       // what the superblock was made from is not what it was; the same
  kSyscall,       // the program's instruction was a system call; target: the next one
  kUndetermined,  // as IsUndetermined has it; target: itself
  kPopFlags,
  kRequest,    // to the recorder: recorder/mark.h
  kSaveFloat,  // st(0) may be a result: the engine fills the slot in
  kRefuse,     // an instruction that cannot be recorded
};

class Translator {
 public:
  // Translates what the program has at `pc`. REQUIRES: it can be executed (memory.h), and the
  // context holds the program's state before it.
  void Translate(uint64_t pc, Superblock* out);

 private:
  enum { kMaxInstructions = 48, kMaxSideExits = 24, kMaxMarks = 4 * kMaxInstructions };
  enum { kMaxUnrolled = 40 };  // instructions of all rounds of a loop

  // translate.cc
  void Collect(uint64_t pc);
  void KeepCode(Superblock* out) const;
  bool FlagsAreDeadAtStart() const;
  void ChooseFlags();
  void ChooseLogRegister();
  void EmitCheck(uint64_t pc, Superblock* out);
  void EmitEntry(uint64_t pc, uint8_t* no_room, Superblock* out);
  void EmitRoomCheckWithoutFlags(const uint8_t* no_room);
  void EmitCodeCheck(Superblock* out);
  void EmitRestoreFlags();
  void EmitInstruction(unsigned index);
  void EmitLastBranch(const Instruction& i);
  void EmitSideExit(uint64_t target, uint8_t* distance);
  void EmitSideExits();
  void WriteHeader(unsigned exit);
  int32_t RecordAdds() const;
  void EmitLeave(int32_t adds);  // gives the log register back and moves on in the log
  void EmitLeave();
  void EmitJumpTo(uint64_t target);
  void LinkTo(uint64_t target, uint8_t* distance);
  void EmitLeaveAhead();
  void EmitJumpThroughTable();
  void EmitConditional(const Instruction& i, bool repeats);
  void EmitCounterExit(const Instruction& i, uint8_t opcode, uint64_t target);
  void EmitStringLoop(const Instruction& i);
  void EmitEngineExit(ExitKind kind, uint64_t target);
  void FinishRecipe(uint32_t jump_kind);
  static bool EndsSuperblock(const Instruction& i);
  static bool IsKnown(const Instruction& i);

  // instructions.cc
  void EmitPlain(const Instruction& i);       // any instruction that goes on to the next
  bool EmitExpression(const Instruction& i);  // those whose results the recipe can compute
  bool EmitArithmetic(const Instruction& i);
  bool EmitMove(const Instruction& i);
  bool EmitStack(const Instruction& i);
  bool EmitString(const Instruction& i);
  void EmitLogged(const Instruction& i);  // all others: results are logged
  void Copy(const Instruction& i);
  void CopyWithAddressIn(const Instruction& i, uint8_t reg);
  Node AddressOf(const Instruction& i);
  Node AddressWith(const MemoryOperand& m, Node index);
  void LoadAddress(const Instruction& i, uint8_t place);
  Node BitStringAddress(const Instruction& i);
  void MoveToBitString(const Instruction& i, uint8_t place);
  void StoreDetermined(const Instruction& i, uint8_t place, uint64_t components);
  void LogResults(const Instruction& i, uint16_t registers);
  void LogStored(Node address, unsigned bytes, uint8_t base, int32_t displacement, uint8_t segment,
                 uint16_t busy);
  Node LogValue(uint8_t reg, unsigned bytes);  // in a slot of its own
  void LogRegister(uint8_t number, unsigned bytes);
  void NoteVectors(const Instruction& i);
  void LogVectors(bool returning);
  void LogNumbers();

  // Whether vectors of VEX have 32 bytes, of EVEX 32 or 64: in the last byte before the opcode.
  bool IsWideVector(const Instruction& i) const {
    const uint8_t last = i.space < kVex || i.space == kSystem ? 0 : CodeOf(i)[i.head_bytes - 2];
    return (last & (i.space > kEvex ? 0x60 : 4)) != 0;
  }

  // masked.cc
  struct Masked {  // a masked load or store of consecutive elements
    Node address;
    Vector kind;
    unsigned element;  // bytes of one
    uint8_t mask, values;
    bool stores;
  };
  static bool IsMasked(const Instruction& i);
  bool EmitMasked(const Instruction& i);
  void EmitMaskedMove(const Instruction& i, const Masked& m);
  void EmitGather(const Instruction& i);
  Node LogVector(uint8_t vector, Vector kind, unsigned bytes);
  Node LogMask(const Instruction& i, uint8_t vector, Vector kind, unsigned element);
  Node BitOf(Node mask, unsigned number);
  void EmitEvexStore(const Instruction& i);
  void EmitEvexIndexed(const Instruction& i);
  void EmitLoads(const Instruction& i, Node address);
  Node LogEvexMask(const Instruction& i, unsigned count);
  Node LogEvexVector(uint8_t vector, unsigned bytes, unsigned count);
  Node CountOf(Node mask, unsigned count);
  Node EvexGuard(const Instruction& i, Node mask, Node packed, unsigned number);

  // Emits code that does nothing but write a value to the log: none where no values are kept.
  template <class Emit>
  void ToLog(Emit emit) {
    uint8_t* before = code_.at();
    emit();
    if (ring::WhatIsLogged() != ring::Logged::kAll) code_.set_at(before);
  }
  uint8_t Borrow(uint16_t busy);  // a register, whose value goes to the context
  void GiveBack(uint8_t reg);
  void AddMark(uint16_t lent);
  void AddMark() { AddMark(lent_); }
  const uint8_t* CodeOf(const Instruction& i) const {
    return reinterpret_cast<const uint8_t*>(i.pc);
  }

  Code code_;
  RecipeBuilder recipe_;
  Instruction instructions_[kMaxInstructions];
  unsigned count_;
  uint64_t repeats_;        // a bit for each: it is a branch behind which a loop goes on
  const uint8_t* changed_;  // code that leaves by kChanged, where it may
  bool ends_by_unknown_;    // the code after the last instruction is none that can be translated
  bool may_change_;         // the superblock's code
  bool saves_float_;        // a return follows, whose result may be in st(0)
  uint64_t after_;          // where the code after the last instruction is
  uint16_t used_;           // general registers that the instructions use
  uint8_t log_register_;
  uint16_t lent_;   // registers whose value is in the context at this point
  unsigned index_;  // of the instruction being translated
  uint8_t* start_;
  uint32_t* headers_[kMaxSideExits + 2];  // words of code to get the id
  unsigned header_count_;
  struct SideExit {
    uint8_t* distance;  // null: it is linked already
    uint64_t target;
    unsigned number;
    int32_t adds;                    // RecordAdds
  } side_exits_[kMaxSideExits + 1];  // the first: no room
  unsigned side_exit_count_;
  Mark marks_[kMaxMarks];
  unsigned mark_count_;
  // Vector words of the stream: written in this superblock, and of those the ones not yet said to
  // be unknown, and the ones last written as a single number.
  uint32_t vectors_written_, numbers_written_;
  uint32_t finished_id_;  // of the recipe
  uint64_t finished_hash_;
  uint32_t finished_bytes_;
  int32_t added_;  // of the record, to the log's register
  // The program's flags where the entry looks for room in the log.
  enum : uint8_t { kFlagsDead, kFlagsSaved, kFlagsUntouched } flags_;
};

// ---- dispatch.cc -------------------------------------------------------------------------------

// How translated code is left: what Context::exit names.
struct Exit {
  uint64_t target;
  uint32_t distance;   // where that of the jump to the stub is, from kCodeBegin on; 0: nowhere
  uint32_t stub : 28;  // from kStubsBegin on
  uint32_t kind : 4;   // ExitKind

  uint8_t* distance_at() const { return reinterpret_cast<uint8_t*>(kCodeBegin + distance); }
};
static_assert(kStubsBytes <= 1 << 28);

inline constexpr uint32_t kMaxSuperblocks = 1 << 19, kMaxExits = 1 << 22;
inline constexpr uint64_t kLiteralsBytes = 8 << 20;  // at the end of the stubs
inline constexpr uint64_t kLiteralsBegin = kStubsBegin + kStubsBytes - kLiteralsBytes;

// All that is translated, and where the next translation goes.
struct Translations {
  // Those made here from the front, in order of their code; those of the code cache from the end.
  Superblock* superblocks;
  uint32_t made, taken;
  Exit* exits;
  uint32_t exit_count;
  uint8_t *code, *stubs;
  uint64_t* literals;

  // How much there is of each.
  uint32_t code_bytes() const { return static_cast<uint32_t>(Number(code) - kCodeBegin); }
  uint32_t stub_bytes() const { return static_cast<uint32_t>(Number(stubs) - kStubsBegin); }
  uint32_t literal_count() const {
    return static_cast<uint32_t>((Number(literals) - kLiteralsBegin) / sizeof(uint64_t));
  }
};
extern Translations g_translations;

// Where to look first in a table of 2^bits.
inline uint64_t HashOfPc(uint64_t pc, unsigned bits) {
  return pc * 0x9e3779b97f4a7c15 >> (64 - bits);
}

// Makes code that leaves by an exit. `distance` of the jump that leads there is patched once there
// is code at the target.
const uint8_t* MakeStub(ExitKind kind, uint64_t target, uint8_t* distance);
// Eight bytes near translated code.
const uint64_t* MakeLiteral(uint64_t value);
// Where the next translation goes.
uint8_t* NextCode();
void SetNextCode(uint8_t* at);
// Code of a superblock that is translated already; null when it is not.
const uint8_t* FindBody(uint64_t pc);

}  // namespace ttq::engine

#endif  // TTQ_RECORDER_ENGINE_TRANSLATOR_H_
