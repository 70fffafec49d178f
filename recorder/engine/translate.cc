// SPDX-License-Identifier: MIT
//
// How a superblock is made.
//
// A superblock is a stretch of the program's instructions with one entry and several exits: it goes
// on behind conditional branches, which become side exits, and follows direct jumps. A loop that
// leads back to its start is unrolled a few times. Its
// translation is made of the program's own instructions, copied as they are, and of what is added
// to them:
//
//     miss:    jmp    the next check
//     check:   lea    rcx, [r10-pc+1]   # indirect branches come here, with the target in r10
//              loop   miss
//              mov    r10, [context]; mov rcx, [context]
//     body:    cmp    r11, [limit]      # r11: where the record goes
//              ja     room
//              mov    dword [r11], id   # the record's header
//              …
//              mov    rdx, [rax+8]      # a copy
//              mov    [r11+4], rdx      # what it loaded, for the recipe to use
//              …
//              jcc    side exit
//              …
//              lea    r11, [r11+12]     # the record is complete
//              jmp    the next superblock's body
//
// The registers are the program's, all but r11. Where a superblock uses r11, another register that
// it does not use holds the log's place meanwhile; an instruction whose translation needs one more
// register borrows one. What a lent register holds for the program is in the context, and a list of
// marks tells, for each place in the code, which are lent: after a fault, the program's registers
// are found by it (signals.cc).
//
// No memory of the program is touched but by copies of its instructions, and none of its flags is
// changed where its code could look at it again: the checks at the start change them where the
// superblock's own instructions set all of them before one reads them, and do without, or save and
// restore them in rax, where they do not. (Flags that the manual calls undefined count as kept, but
// for AF behind and, or, xor and test, where the processor sets it.) Only the handler of a fault
// can see the difference.
//
// Everything that a recipe must know is settled in the same pass that emits the code
// (instructions.cc); the id that the recipe gets is patched into the headers at the end.

#include <initializer_list>

#include "recorder/engine/code_cache.h"
#include "recorder/engine/cpuid.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/translator.h"

namespace ttq::engine {
namespace {

constexpr uint16_t Bit(unsigned reg) { return static_cast<uint16_t>(1u << reg); }

bool IsConditional(const Instruction& i) {
  return (i.space == kOneByte && i.opcode >= 0x70 && i.opcode <= 0x7f) ||
         (i.space == kMap0F && i.opcode >= 0x80 && i.opcode <= 0x8f);
}
bool IsLoop(const Instruction& i) {  // loopne, loope, loop, jrcxz
  return i.space == kOneByte && i.opcode >= 0xe0 && i.opcode <= 0xe3;
}
bool IsJump(const Instruction& i) { return i.Is(kOneByte, 0xe9) || i.Is(kOneByte, 0xeb); }
bool IsCall(const Instruction& i) { return i.Is(kOneByte, 0xe8); }
bool IsIndirect(const Instruction& i, unsigned group) {
  return i.Is(kOneByte, 0xff) && (i.reg & 7) == group;
}
bool IsReturn(const Instruction& i) { return i.Is(kOneByte, 0xc3) || i.Is(kOneByte, 0xc2); }
bool IsString(const Instruction& i) {
  return i.space == kOneByte &&
         ((i.opcode >= 0xa4 && i.opcode <= 0xa7) || (i.opcode >= 0xaa && i.opcode <= 0xaf));
}
bool IsRepeated(const Instruction& i) { return IsString(i) && i.repeat != 0; }
bool MayStore(const Instruction& i) {
  return i.form->memory_access & kWrite || i.form->traits & kImplicitMemory;
}
bool IsBreakpoint(const Instruction& i) { return i.Is(kOneByte, 0xcc); }
// The last of the five instructions of recorder/mark.h, which do nothing.
bool IsRequest(const Instruction& i) {
  static constexpr uint8_t kRequestCode[] = {0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7,
                                             0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1,
                                             0xc7, 0x33, 0x48, 0x87, 0xdb};
  if (!i.Is(kOneByte, 0x87) || !i.wide || i.rm != kRbx || i.reg != kRbx) return false;
  uint8_t code[sizeof(kRequestCode)];
  return ReadGuest(i.next() - sizeof(code), code, sizeof(code)) == sizeof(code) &&
         memcmp(code, kRequestCode, sizeof(code)) == 0;
}
bool IsPortString(const Instruction& i) {
  return i.space == kOneByte && i.opcode >= 0x6c && i.opcode <= 0x6f;
}

}  // namespace

// Whether an instruction is one that the engine knows how to record. Those that only the kernel may
// execute fault, as they should.
bool Translator::IsKnown(const Instruction& i) {
  const Form& f = *i.form;
  if (IsMasked(i)) return true;
  if (f.traits & kVectorIndex) return false;
  if (i.mask != 0 && i.has_memory && f.memory_access & kWrite) return false;
  if (i.space == kMap0F && i.opcode == 0xae && i.repeat == 1 && i.mod == 3 && (i.reg & 7) < 4) {
    return false;  // rdfsbase, wrgsbase, …
  }
  if (i.space == kOneByte) {
    const bool far = i.opcode == 0xff && ((i.reg & 7) == 3 || (i.reg & 7) == 5);
    const bool transaction = (i.opcode == 0xc6 || i.opcode == 0xc7) && (i.reg & 7) == 7;
    const bool segment = i.opcode == 0x8e;
    const bool returns_far = i.opcode == 0xca || i.opcode == 0xcb || i.opcode == 0xcf;
    const bool old_call = i.opcode == 0xcd && (i.immediate & 0xff) == 0x80;
    if (far || transaction || segment || returns_far || old_call ||
        (i.opcode == 0x8f && (i.reg & 7) != 0) ||
        (i.opcode == 0xc8 && i.immediate >> 16 != 0)) {  // a nested enter
      return false;
    }
  }
  // Which the processor refuses, where it is not the engine that executes it.
  if (i.lock && (IsConditional(i) || IsJump(i) || EndsSuperblock(i))) return false;
  if (i.memory.narrow && IsBitString(i)) return false;
  if (i.memory.narrow && IsLoop(i) && i.opcode != 0xe3) return false;
  if (i.Is(kMap0F, 0x34) || i.Is(kMap0F, 0x05 + 0x30)) return false;  // sysenter, sysexit
  if (!(f.traits & kImplicitMemory)) return true;
  const bool pushes =
      i.space == kOneByte && ((i.opcode >= 0x50 && i.opcode <= 0x5f) || i.opcode == 0x68 ||
                              i.opcode == 0x6a || i.opcode == 0x8f);
  if (pushes) return true;
  const bool stack =
      i.space == kOneByte &&
      (i.opcode == 0xc9 || i.opcode == 0xc8 || i.opcode == 0x9c || i.opcode == 0x9d ||
       IsIndirect(i, 6) || IsIndirect(i, 2) || IsReturn(i) || IsCall(i));
  if (stack) return !i.narrow || i.wide;
  return IsString(i) || IsPortString(i) || i.Is(kOneByte, 0xd7);
}

// Whether nothing of the superblock comes after it.
bool Translator::EndsSuperblock(const Instruction& i) {
  return IsCall(i) || IsIndirect(i, 2) || IsIndirect(i, 4) || IsReturn(i) || IsLoop(i) ||
         i.Is(kMap0F, 0x05) || IsUndetermined(i) || i.Is(kOneByte, 0x9d) || IsRepeated(i) ||
         IsBreakpoint(i) || IsRequest(i) || i.Is(kMap0F, 0x0b) || i.Is(kOneByte, 0xf4);
}

// Picks the instructions.
void Translator::Collect(uint64_t pc) {
  count_ = 0;
  used_ = 0;
  ends_by_unknown_ = saves_float_ = false;
  bool has_float = false;
  unsigned exits = 0, round = 0;  // instructions of a loop's body
  repeats_ = 0;
  after_ = pc;
  while (count_ < kMaxInstructions) {
    Instruction& i = instructions_[count_];
    const size_t readable = memory::ExecutableBytes(after_, kLongestInstruction);
    if (readable == 0 && count_ > 0) break;  // its turn comes as a superblock of its own
    const bool may_change = memory::MayChange(after_);
    if (count_ == 0) may_change_ = may_change;
    if (may_change != may_change_) break;
    if (!Decode(reinterpret_cast<const uint8_t*>(after_), readable, after_, &i) || !IsKnown(i)) {
      ends_by_unknown_ = count_ == 0;
      break;
    }
    const auto used = static_cast<uint16_t>(used_ | i.reads | i.writes);
    // One register is left for the log, besides those of the jump table.
    constexpr uint16_t kFree = 0xffff & ~(Bit(kRsp) | Bit(kRcx) | Bit(kR10));
    if (count_ > 0 && (~used & kFree) == 0) break;
    if (count_ > 0 && IsRepeated(i)) break;
    if (IsReturn(i) && has_float) {
      saves_float_ = true;
      break;
    }
    has_float = has_float || IsFloat(i);
    used_ = used;
    ++count_;
    if (!may_change) memory::NoteTranslated(i.pc);
    after_ = i.next();
    if (EndsSuperblock(i)) break;
    // It may have written the next one.
    if (may_change && MayStore(i)) break;
    if (IsConditional(i) && ++exits == kMaxSideExits) break;
    // A loop that leads back to the start is unrolled: a record for several rounds.
    const bool repeats = (IsConditional(i) || IsJump(i)) && i.target() == pc && !may_change;
    if (repeats) {
      if (round == 0) round = count_;
      if (count_ + round <= kMaxUnrolled) {
        repeats_ |= uint64_t{1} << (count_ - 1);
        after_ = pc;
        continue;
      }
    }
    if (IsJump(i)) {
      bool again = false;
      for (unsigned k = 0; k < count_; ++k) again = again || instructions_[k].pc == i.target();
      after_ = i.target();
      if (again || memory::ExecutableBytes(after_, 1) == 0) break;
    }
  }
}

// What the instructions were, to be compared with what they are.
void Translator::KeepCode(Superblock* out) const {
  out->may_change = may_change_;
  if (!may_change_) return;
  auto* runs = AllocateArray<CodeRun>(count_);
  unsigned used = 0;
  for (unsigned k = 0; k < count_; ++k) {
    const Instruction& i = instructions_[k];
    if (used == 0 || runs[used - 1].pc + runs[used - 1].bytes != i.pc) runs[used++] = {i.pc, 0, {}};
    runs[used - 1].bytes += i.length;
  }
  for (unsigned k = 0; k < used; ++k) {
    auto* content = AllocateArray<uint8_t>(runs[k].bytes);
    memcpy(content, reinterpret_cast<const void*>(runs[k].pc), runs[k].bytes);
    runs[k].content = content;
  }
  out->runs = runs;
  out->run_count = static_cast<uint8_t>(used);
}

bool Translator::FlagsAreDeadAtStart() const {
  unsigned left = kAllFlags;
  for (unsigned k = 0; k < count_; ++k) {
    const Instruction& i = instructions_[k];
    const Form& f = *i.form;
    if (f.flags_read & left || i.Is(kMap0F, 0x05)) return false;  // the kernel keeps them
    if (!(f.traits & kMayKeepFlags)) left &= ~unsigned{f.flags_write};
    if (f.traits & kLogic && LogicSetsAuxiliary()) left &= ~unsigned{kAuxiliary};
    if (left == 0) return true;
    if (IsConditional(i) || EndsSuperblock(i)) return false;
  }
  return false;
}

void Translator::ChooseFlags() {
  if (may_change_) {  // where the code has changed, they may not be dead
    flags_ = kFlagsSaved;
  } else if (FlagsAreDeadAtStart()) {
    flags_ = kFlagsDead;
  } else {
    const bool counts = ring::WhatIsLogged() == ring::Logged::kCount;
    flags_ = counts ? kFlagsSaved : kFlagsUntouched;
  }
}

void Translator::ChooseLogRegister() {
  log_register_ = kR11;
  if (used_ & Bit(kR11)) {
    constexpr uint8_t kOrder[] = {kR8,  kR9,  kR15, kR14, kR13, kR12,
                                  kRbx, kRdi, kRsi, kRbp, kRdx, kRax};
    for (uint8_t reg : kOrder) {
      log_register_ = reg;
      if (!(used_ & Bit(reg))) break;
    }
  }
  lent_ = Bit(log_register_);
}

// Indirect branches come with their target in r10 and the program's rcx and r10 in the context. The
// flags are kept: they may not be dead at the target that the next check is for. The body follows,
// so that no branch is taken where the check hits: processors remember a limited number of those
// that are.
void Translator::EmitCheck(uint64_t pc, Superblock* out) {
  const bool loops = LoopIsFast();
  const uint8_t* miss = code_.at();
  code_.Jump(reinterpret_cast<const void*>(&EngineMiss));
  out->checked = code_.at();
  const uint64_t add = (loops ? 1 : 0) - pc;  // the target is then one, or none, too much
  if (const auto near = static_cast<int64_t>(add); near == static_cast<int32_t>(near)) {
    code_.AddTo(kRcx, kR10, static_cast<int32_t>(near));
  } else {
    code_.LoadConstant(kRcx, add);
    code_.AddScaled(kRcx, kR10, 0);
  }
  if (loops) {
    code_.Loop(miss);
  } else {
    constexpr unsigned kShortBytes = 2;  // of each of these branches
    code_.JumpIfCounterIsZero(code_.at() + 2 * kShortBytes);
    code_.ShortJump(miss);
  }
  code_.LoadFrom(kR10, &g_context.r[kR10]);
  code_.LoadFrom(kRcx, &g_context.r[kRcx]);
  out->body = code_.at();
}

// Compares what the superblock was made from with what there is. The flags are saved.
void Translator::EmitCodeCheck(Superblock* out) {
  constexpr unsigned kNotEqual = 5;
  const auto leave_if_other = [this] { Code::Patch(code_.JumpIfLater(kNotEqual), changed_); };
  code_.StoreTo(kRcx, &g_context.spill[1]);
  code_.CompareConstantWith(g_context.executable_changes, &g_context.executable_changes);
  out->changes = code_.at() - 4;
  leave_if_other();
  for (unsigned k = 0; k < out->run_count; ++k) {
    const CodeRun& run = out->runs[k];
    code_.LoadConstant(kRcx, run.pc);
    uint32_t at = 0;
    for (; at + 4 <= run.bytes; at += 4) {
      uint32_t word;
      memcpy(&word, run.content + at, 4);
      code_.CompareWord32(kRcx, static_cast<int32_t>(at), word);
      leave_if_other();
    }
    for (; at < run.bytes; ++at) {
      code_.CompareByte(kRcx, static_cast<int32_t>(at), run.content[at]);
      leave_if_other();
    }
  }
  code_.LoadFrom(kRcx, &g_context.spill[1]);
}

// As they were at the entry.
void Translator::EmitRestoreFlags() {
  code_.RestoreFlags();
  code_.LoadFrom(kRax, &g_context.spill[0]);
}

// Leads to `no_room` where the log has come beyond the limit: the highest byte of their difference
// is zero then, and 255 otherwise.
void Translator::EmitRoomCheckWithoutFlags(const uint8_t* no_room) {
  code_.StoreTo(kRcx, &g_context.spill[0]);
  code_.LoadFrom(kRcx, &g_context.log_limit);
  code_.Not(kRcx);
  code_.AddScaled(kRcx, kR11, 0);
  code_.ReverseBytes(kRcx);
  code_.ExtendByte(kRcx);
  code_.JumpIfCounterIsZero(no_room);
  code_.LoadFrom(kRcx, &g_context.spill[0]);
}

// `no_room`, where the flags are not touched: the distance of a jump that precedes the check.
void Translator::EmitEntry(uint64_t pc, uint8_t* no_room, Superblock* out) {
  if (flags_ == kFlagsUntouched) {
    EmitRoomCheckWithoutFlags(no_room - 1);
  } else {
    if (flags_ == kFlagsSaved) {
      code_.StoreTo(kRax, &g_context.spill[0]);
      code_.SaveFlags();
    }
    constexpr unsigned kCarry = 2, kAbove = 7;
    const bool counts = ring::WhatIsLogged() == ring::Logged::kCount;
    if (counts) {
      code_.TestBit(kR11, kPlaceBits - 1);
    } else {
      code_.CompareWith(kR11, &g_context.log_limit);
    }
    no_room = code_.JumpIfLater(counts ? kCarry : kAbove);
    if (may_change_) EmitCodeCheck(out);
    if (flags_ == kFlagsSaved) EmitRestoreFlags();
  }
  if (log_register_ != kR11) {
    code_.StoreTo(log_register_, &g_context.r[log_register_]);
    code_.Move(log_register_, kR11);
    code_.LoadFrom(kR11, &g_context.r[kR11]);
  }
  // Elsewhere: what the check has changed is put back, and the engine is asked for room.
  side_exits_[side_exit_count_++] = {no_room, pc, 0, 0};
}

// The word that heads the record names the exit; the id is put into it when it is known.
void Translator::WriteHeader(unsigned exit) {
  switch (ring::WhatIsLogged()) {
    case ring::Logged::kNothing:
      return;
    case ring::Logged::kCount:
      code_.StoreConstantTo(exit, &g_context.header);
      break;
    case ring::Logged::kAll:
      code_.StoreWord32(log_register_, exit);
      break;
  }
  headers_[header_count_++] = reinterpret_cast<uint32_t*>(code_.at() - 4);
}

// What the record adds to the log's register.
int32_t Translator::RecordAdds() const {
  const unsigned bytes = recipe_.record_bytes();
  if (ring::WhatIsLogged() != ring::Logged::kCount) return static_cast<int32_t>(bytes);
  static_assert(kMaxInstructions < 1 << (31 - kPlaceBits));
  return static_cast<int32_t>(recipe_.instruction_count() << kPlaceBits | bytes);
}

// Where nothing is written to the log, and its register need not be given back, the record is
// completed before a conditional branch, which then leads straight to the next superblock.
void Translator::EmitLeaveAhead() {
  if (ring::WhatIsLogged() != ring::Logged::kNothing || log_register_ != kR11) return;
  if (const int32_t rest = RecordAdds() - added_; rest != 0) code_.AddTo(kR11, kR11, rest);
  added_ = RecordAdds();
}

// The record is complete.
void Translator::EmitLeave(int32_t adds) {
  if (log_register_ == kR11) {
    if (adds != added_) code_.AddTo(kR11, kR11, adds - added_);
    return;
  }
  code_.StoreTo(kR11, &g_context.r[kR11]);
  code_.AddTo(kR11, log_register_, adds);
  code_.LoadFrom(log_register_, &g_context.r[log_register_]);
}
void Translator::EmitLeave() { EmitLeave(RecordAdds()); }

void Translator::EmitJumpTo(uint64_t target) { LinkTo(target, code_.JumpLater()); }

// Leads a branch, whose distance is at `distance`, to a superblock.
void Translator::LinkTo(uint64_t target, uint8_t* distance) {
  const uint8_t* body = FindBody(target);
  // The code cache takes links out again.
  if (body == nullptr || code_cache::IsOn()) {
    const uint8_t* stub = MakeStub(kLink, target, distance);
    if (body == nullptr) body = stub;
  }
  Code::Patch(distance, body);
}

// With the target in r10, and the program's rcx and r10 in the context.
void Translator::EmitJumpThroughTable() {
  static_assert(kJumpTableBits == 16);
  code_.Byte(0x41), code_.Byte(0x0f), code_.Byte(0xb7), code_.Byte(0xca);  // movzx ecx, r10w
  code_.Byte(0xff), code_.Byte(0x24), code_.Byte(0xcd);                    // jmp [rcx * 8 + table]
  code_.Word32(reinterpret_cast<uint64_t>(g_context.jump));
}

void Translator::EmitEngineExit(ExitKind kind, uint64_t target) {
  code_.Jump(MakeStub(kind, target, nullptr));
}

void Translator::EmitSideExit(uint64_t target, uint8_t* distance) {
  const unsigned number = side_exit_count_;
  recipe_.Exit(number);
  if (added_ == RecordAdds()) {
    LinkTo(target, distance);
    distance = nullptr;
  }
  side_exits_[side_exit_count_++] = {distance, target, number, RecordAdds()};
}

void Translator::EmitConditional(const Instruction& i, bool repeats) {
  const unsigned condition = i.opcode & 15;
  LogNumbers();
  EmitLeaveAhead();
  // The opposite of a condition is next to it.
  EmitSideExit(repeats ? i.next() : i.target(), code_.JumpIfLater(condition ^ unsigned{repeats}));
}

// By one of the branches that look at rcx, of which the instruction has the size: over a short
// jump, to a long one.
void Translator::EmitCounterExit(const Instruction& i, uint8_t opcode, uint64_t target) {
  constexpr unsigned kShort = 2, kJump = 5;
  EmitLeaveAhead();
  if (i.memory.narrow) code_.Byte(0x67);
  code_.Byte(opcode), code_.Byte(kShort);
  code_.Byte(0xeb), code_.Byte(kJump);
  EmitSideExit(target, code_.JumpLater());
}

// Code that is seldom executed comes after the rest.
void Translator::EmitSideExits() {
  for (unsigned k = 0; k < side_exit_count_; ++k) {
    const SideExit& e = side_exits_[k];
    if (e.distance == nullptr) continue;
    Code::Patch(e.distance, code_.at());
    if (k == 0) {  // no room
      if (flags_ == kFlagsSaved) EmitRestoreFlags();
      if (flags_ == kFlagsUntouched) code_.LoadFrom(kRcx, &g_context.spill[0]);
      EmitEngineExit(kRoom, e.target);
      continue;
    }
    WriteHeader(e.number);
    EmitLeave(e.adds);
    EmitJumpTo(e.target);
  }
}

// A repeated string instruction is one instruction for each repetition, as it is for a processor
// that steps. The superblock is one repetition and leads to itself:
//
//     jrcxz next                    exit 1
//     the instruction, once; rcx - 1
//     jrcxz next                    exit 2
//     jne next, or je               exit 3, of those that compare
//     self
void Translator::EmitStringLoop(const Instruction& i) {
  constexpr uint8_t kJrcxz = 0xe3;
  EmitCounterExit(i, kJrcxz, i.next());
  EmitString(i);
  if (i.memory.narrow) {
    code_.Byte(0x8d), code_.Byte(0x49), code_.Byte(0xff);  // lea ecx, [rcx - 1]
    recipe_.SetRegister(kRcx,
                        recipe_.Make(kTtqAddI, 4, recipe_.Register(kRcx), 0, 0, ~uint64_t{0}));
  } else {
    code_.AddTo(kRcx, kRcx, -1);
    recipe_.SetRegister(kRcx, recipe_.Add(recipe_.Register(kRcx), -1));
  }
  EmitCounterExit(i, kJrcxz, i.next());
  const unsigned kind = i.opcode & 0xfe;
  if (kind == 0xa6 || kind == 0xae) {
    constexpr unsigned kEqual = 4, kNotEqual = 5;
    EmitSideExit(i.next(), code_.JumpIfLater(i.repeat == 1 ? kNotEqual : kEqual));
  }
  recipe_.Exit(0);
  FinishRecipe(kTtqJumpPlain);
  EmitLeave();
  EmitJumpTo(i.pc);
}

void Translator::FinishRecipe(uint32_t jump_kind) {
  if (recipe_.record_bytes() > RecipeBuilder::kMaxRecordBytes) {
    Refuse(Text() << "an instruction whose effects are too large");
  }
  finished_hash_ = recipe_.Hash(jump_kind);
  finished_bytes_ = recipe_.encoded_bytes();
  const auto [id, at] = ring::AddRecipe(finished_hash_, finished_bytes_);
  if (at != nullptr) recipe_.Encode(id, jump_kind, at);
  finished_id_ = id;
}

// The instruction that ends the superblock.
void Translator::EmitLastBranch(const Instruction& i) {
  RecipeBuilder& r = recipe_;
  const auto spill = [this] {
    code_.StoreTo(kR10, &g_context.r[kR10]);
    code_.StoreTo(kRcx, &g_context.r[kRcx]);
  };
  const bool calls = IsCall(i) || IsIndirect(i, 2);
  if (IsIndirect(i, 2) || IsIndirect(i, 4)) {
    if (i.has_memory) r.Load(AddressOf(i), 8);
    LogVectors(false);
    spill();
    AddMark();
    // mov r10, operand: the operand's bytes are taken over, but for the register field.
    if (!i.has_memory) {
      code_.Move(kR10, i.rm);
    } else if (i.memory.relative) {
      const auto address = static_cast<uint64_t>(i.memory.displacement);
      if (code_.Reaches(address)) {
        code_.LoadNear(kR10, address, i.memory.segment);
      } else {
        code_.LoadConstant(kR10, address);
        AddMark(static_cast<uint16_t>(lent_ | Bit(kR10)));
        code_.Load(kR10, kR10, 0, 8, i.memory.segment);
      }
    } else {
      const uint8_t* from = CodeOf(i);
      if (i.memory.segment != 0) code_.Byte(i.memory.segment);
      if (i.memory.narrow) code_.Byte(0x67);
      code_.Byte(0x4cu | (i.memory.index > 7) << 1 | (i.memory.base > 7));
      code_.Byte(0x8b);
      code_.Byte((from[i.modrm_at] & 0xc7u) | (kR10 & 7u) << 3);
      code_.Bytes(from + i.modrm_at + 1, i.length - i.modrm_at - 1u);
    }
  } else {
    LogVectors(IsReturn(i));
  }
  if (calls) {
    const Node below = r.Add(r.Register(kRsp), -8);
    r.SetRegister(kRsp, below);
    r.Store(below, 8, r.Constant(i.next()));
    AddMark(static_cast<uint16_t>(lent_ | (IsCall(i) ? 0 : Bit(kR10))));
    constexpr uint64_t kMaxExtended = 0x7fffffff;
    if (i.next() <= kMaxExtended) {
      code_.Byte(0x68), code_.Word32(i.next());  // push of a constant
    } else {
      code_.Byte(0xff), code_.Byte(0x35);  // push of a literal
      code_.Relative(MakeLiteral(i.next()));
    }
  }
  if (IsReturn(i)) {
    const Node top = r.Register(kRsp);
    const int64_t more = i.opcode == 0xc2 ? i.immediate & 0xffff : 0;
    r.Load(top, 8);
    r.SetRegister(kRsp, r.Add(top, 8 + more));
    spill();
    AddMark();
    code_.Byte(0x41), code_.Byte(0x5a);  // pop r10
    if (more != 0) code_.AddTo(kRsp, kRsp, static_cast<int32_t>(more));
  }
  r.Exit(0);
  FinishRecipe(calls ? kTtqJumpCall : IsReturn(i) ? kTtqJumpReturn : kTtqJumpPlain);
  EmitLeave();
  if (IsCall(i)) {
    EmitJumpTo(i.target());
  } else {
    EmitJumpThroughTable();
  }
}

void Translator::EmitInstruction(unsigned index) {
  index_ = index;
  const Instruction& i = instructions_[index];
  const bool last = index + 1 == count_;
  recipe_.StartInstruction(i, CodeOf(i));
  if (IsConditional(i)) {
    EmitConditional(i, repeats_ >> index & 1);
  } else if (IsJump(i)) {
    // Nothing is left of it.
  } else if (IsCall(i) || IsIndirect(i, 2) || IsIndirect(i, 4) || IsReturn(i)) {
    EmitLastBranch(i);
    return;
  } else if (IsRepeated(i)) {
    EmitStringLoop(i);
    return;
  } else if (IsLoop(i)) {
    if (i.opcode != 0xe3) {
      recipe_.SetRegister(kRcx, recipe_.Add(recipe_.Register(kRcx), -1));
    }
    LogNumbers();
    EmitCounterExit(i, i.opcode, i.target());
  } else if (i.Is(kMap0F, 0x05)) {
    recipe_.Exit(0);
    FinishRecipe(kTtqJumpSyscall);
    EmitLeave();
    EmitEngineExit(kSyscall, i.next());
    return;
  } else if (IsRequest(i)) {
    LogNumbers();
    recipe_.Exit(0);
    FinishRecipe(kTtqJumpOther);
    EmitLeave();
    EmitEngineExit(kRequest, i.next());
    return;
  } else if (IsUndetermined(i)) {  // the engine fills the slots in
    LogNumbers();
    if (!IsCpuid(i)) Copy(i);
    for (uint8_t reg = 0; reg < 16; ++reg) {
      if (i.writes >> reg & 1) recipe_.SetRegister(reg, recipe_.Slot(8));
    }
    recipe_.Exit(0);
    FinishRecipe(kTtqJumpOther);
    EmitLeave();
    EmitEngineExit(kUndetermined, i.pc);
    return;
  } else if (i.Is(kOneByte, 0x9d)) {  // popf: it may change the direction flag
    const Node top = recipe_.Register(kRsp);
    recipe_.Load(top, 8);
    recipe_.SetRegister(kRsp, recipe_.Add(top, 8));
    LogNumbers();
    recipe_.SetRegister(kTtqRegDirection, recipe_.Slot(8));
    recipe_.Exit(0);
    FinishRecipe(kTtqJumpOther);
    code_.StoreTo(kR10, &g_context.r[kR10]);
    AddMark();
    code_.Byte(0x41), code_.Byte(0x5a);  // pop r10
    code_.StoreTo(kR10, &g_context.target);
    code_.LoadFrom(kR10, &g_context.r[kR10]);
    EmitLeave();
    EmitEngineExit(kPopFlags, i.next());
    return;
  } else {
    EmitPlain(i);
    // After a breakpoint the kernel names the instruction behind it.
    if (IsBreakpoint(i)) code_.Byte(0x90);
  }
  if (!last) return;
  if (saves_float_) {
    LogVectors(true);
    recipe_.SetVector(kTtqX87Word, recipe_.Slot(8));
  } else {
    LogNumbers();
  }
  recipe_.Exit(0);
  FinishRecipe(kTtqJumpPlain);
  EmitLeave();
  if (saves_float_) {
    EmitEngineExit(kSaveFloat, after_);
  } else {
    EmitJumpTo(after_);
  }
}

void Translator::Translate(uint64_t pc, Superblock* out) {
  *out = {};
  out->pc = pc;
  Collect(pc);
  KeepCode(out);
  code_.set_at(NextCode());
  out->begin = start_ = code_.at();
  if (ends_by_unknown_) {  // found out only if it is executed
    EmitCheck(pc, out);
    EmitEngineExit(kRefuse, pc);
    out->end = code_.at();
    SetNextCode(code_.at());
    return;
  }
  mark_count_ = header_count_ = side_exit_count_ = 0;
  added_ = 0;
  vectors_written_ = numbers_written_ = 0;
  finished_id_ = 0;
  ChooseLogRegister();
  ChooseFlags();
  if (may_change_) {
    changed_ = code_.at();
    code_.LoadFrom(kRcx, &g_context.spill[1]);
    EmitRestoreFlags();
    EmitEngineExit(kChanged, pc);
  }
  uint8_t* no_room = flags_ == kFlagsUntouched ? code_.JumpLater() : nullptr;
  EmitCheck(pc, out);
  start_ = out->body;
  EmitEntry(pc, no_room, out);
  recipe_.Begin();
  WriteHeader(0);
  for (unsigned k = 0; k < count_; ++k) {
    if (!recipe_.HasRoom() && k > 0) {  // the rest becomes a superblock of its own
      after_ = instructions_[k].pc;
      LogNumbers();
      recipe_.Exit(0);
      FinishRecipe(kTtqJumpPlain);
      EmitLeave();
      EmitJumpTo(after_);
      break;
    }
    EmitInstruction(k);
  }
  EmitSideExits();
  for (unsigned h = 0; h < header_count_; ++h) *headers_[h] |= finished_id_ << kTtqExitBits;
  out->end = code_.at();
  SetNextCode(code_.at());
  out->id = finished_id_;
  out->recipe_hash = finished_hash_;
  out->recipe_bytes = recipe_.instruction_count() == count_ ? finished_bytes_ : 0;
  out->record_bytes = static_cast<uint16_t>(recipe_.record_bytes());
  out->log_register = log_register_;
  out->instruction_count = static_cast<uint8_t>(recipe_.instruction_count());
  auto* marks = AllocateArray<Mark>(mark_count_);
  memcpy(marks, marks_, mark_count_ * sizeof(Mark));
  out->marks = marks;
  out->mark_count = static_cast<uint16_t>(mark_count_);
  auto* pcs = AllocateArray<uint64_t>(count_);
  for (unsigned k = 0; k < count_; ++k) pcs[k] = instructions_[k].pc;
  out->pcs = pcs;
}

}  // namespace ttq::engine
