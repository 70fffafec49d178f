// SPDX-License-Identifier: MIT
//
// Ingest executes some ten million programs a second of recording, each of about ten operations,
// and an interpreter spends its time on mispredicted jumps from one operation to the next; so do
// questions. So a program that has run often is translated, operation by operation, into x86-64
// code:
//
//   - Values live where the interpreter has them, in the array `values` (kValues points 16 values
//     into it, so that the tracked registers are within a one-byte offset). Temporaries are defined
//     once and are not seen from outside, so they get a machine register from definition to last
//     use as long as there is one free, and constants are not values at all but immediates.
//
//   - A load or store looks its page up in NativeContext::pages, like the TLB of a machine. One
//     unsigned comparison, offset from the slot's page > 4096 - size, finds both the wrong page and
//     the access that runs over its end; then a helper does the access. A load of a number, which
//     most often is aligned, is tested for that at once, and touches one word then. An access with
//     the same base as the one before it goes on from where that was. Then a load is one or more
//     byte stores into PageDelta::read_words, a store copies its bytes and marks them in
//     PageDelta::written_bytes. To follow memory, loads are left out, and a store first looks at
//     WordSet's filter: what is watched is a helper's too. To follow registers, of stores only the
//     last is noted.
//
//   - To digest, the record is then packed (store/walk/packed_log.h), four units at a time and
//   without
//     jumps, since whether a unit is as expected is hard to predict: those that were not are
//     shuffled to the front of a vector register, all of it is stored, and the next ones go behind
//     them. Else what it leaves in vector registers is noted, and whether the time asked for is
//     near.
//
//   - At its end a program advances to the next record and jumps to its code, which it looks up by
//     the record's first word in NativeContext::code; to digest, it keeps that of the record that
//     is expected to follow (ProgramState). Code does not return between records. With a jump for
//     each program the processor predicts them from the program's history. No code, or too near the
//     end of the log: jump to `exit`, which returns to C++ (that interprets the record, and comes
//     back).
//
// What is rare (slow accesses, false guards) is placed after the program's end, out of the way.
// Helpers must not throw: there is nothing to unwind running code with.
//
// Memory for code is one file, mapped twice: to write and to execute. No page is both.

#include "store/walk/native.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <functional>

#include "store/walk/assembler.h"
#include "store/walk/digest.h"
#include "store/walk/evaluate.h"
#include "store/walk/word_set.h"

namespace ttq {

#ifdef __x86_64__

namespace {

using namespace assembler;

constexpr size_t kCodeBytes = 64 << 20;  // of address space; used as it fills
constexpr size_t kMaxOps = 2000;
// How far ahead of a record the log is fetched that another processor has just written: digests
// take a twentieth to an eighth less time for it.
constexpr int32_t kPrefetchBytes = 1024;
// Accesses with the same base that are less far apart share the search for their page. An offset in
// a page that none is near to tells the second of them that the first found none.
constexpr int64_t kMaxDistance = 4096;
constexpr uint64_t kNoOffset = 0x80000000;
constexpr size_t kMaxStateBytes = size_t{1} << 30;  // beyond, a state's place is no displacement
// Interpreted so often, a program is translated. Fewer would be a little faster still, but there is
// room for so much code only.
constexpr uint32_t kRunsToDigest = 50, kRunsToAsk = 60;

// Registers of running code. rax, rcx and rdx are scratch.
constexpr Reg kValues = kBx, kRecord = kBp, kContext = kX12, kTokens = kX13, kStates = kX14,
              kUnits = kX15;
constexpr Reg kWatched = kStates;
constexpr Reg kTemporaries[] = {kSi, kDi, kX8, kX9};
// To digest.
constexpr Reg kHeaders = kX10, kTime = kX11;
constexpr Reg kSaved[] = {kBx, kBp, kX12, kX13, kX14, kX15};

constexpr int32_t kValuesBias = 16 * 8;
constexpr int32_t kContextBias = offsetof(NativeContext, pages);
static_assert(kContextBias <= 128);

#define FIELD(name) At(kContext, static_cast<int32_t>(offsetof(NativeContext, name)) - kContextBias)
Operand ValueAt(uint16_t v) { return At(kValues, 8 * v - kValuesBias); }

// The instructions that look for the code of the next record.
class NativeAssembler : public Assembler {
 public:
  // rax: first word of the record at kRecord. Its code is at CodeFound(), which goes by rcx;
  // returns the jumps taken when there is none, or the record lies beyond the limit.
  std::array<size_t, 2> FindCode() {
    Ins(kCmp, 8, kRecord, FIELD(limit));
    const size_t beyond = JumpIf(kAbove);
    Ins(kMulImm, 4, kCx, R(kAx));  // NativeContext::CodeSlot
    Imm(0x9e3779b1, 4);
    Shift(kDigitShr, 4, kCx, 32 - NativeContext::kCodeBits);
    Ins(kCmp, 4, kAx, BySlot(offsetof(NativeContext, code_word), 4));
    return {beyond, JumpIf(kNotEqual)};
  }
  static Operand CodeFound() { return BySlot(offsetof(NativeContext, code), 8); }

 private:
  static Operand BySlot(size_t array, uint8_t scale) {
    return At(kContext, static_cast<int32_t>(array) - kContextBias, kCx, scale);
  }
};

class Translator {
 public:
  Translator(const Program& program, NativeUse use, const uint8_t* exit, const uint8_t* load,
             const uint8_t* store)
      : program_(program), use_(use), exit_(exit), load_(load), store_(store) {}

  NativeAssembler& Translate() {
    FindLastUses();
    if (use_ == NativeUse::kDigest) {
      a_.Ins(kPrefetch, 4, kDigitPrefetch, At(kRecord, kPrefetchBytes));
      a_.Ins(kGroup5, 4, kDigitInc, State(offsetof(ProgramState, executions)));
    } else {
      a_.Ins(kLoadReg, 8, kAx, FIELD(time));
      a_.Arith(kDigitAdd, 8, R(kAx), static_cast<int32_t>(program_.instructions));
      a_.Ins(kCmp, 8, kAx, FIELD(until));
      a_.Leave(a_.JumpIf(kAbove), exit_);
    }
    for (now_ = 0; now_ < program_.ops.size(); ++now_) {
      Translate(program_.ops[now_]);
      FreeTemporaries();
    }
    const Operand time = use_ == NativeUse::kDigest ? R(kTime) : FIELD(time);
    a_.Arith(kDigitAdd, 8, time, static_cast<int32_t>(program_.instructions));
    if (use_ == NativeUse::kDigest) {
      Pack();
    } else {
      SetVectors();
      ToNext();
      a_.Ins(kLoadReg, 4, kAx, At(kRecord, 0));
      for (const size_t jump : a_.FindCode()) a_.Leave(jump, exit_);
      a_.Ins(kGroup5, 4, kDigitJump, a_.CodeFound());
    }
    for (size_t i = 0; i < rare_.size(); ++i) rare_[i]();
    return a_;
  }

 private:
  struct Value {
    Reg reg = kNoReg;
    bool is_constant = false;
    uint64_t constant = 0;
    size_t last_use = 0;
  };

  template <class F>
  static void ForOperands(const Op& op, F f) {
    switch (op.code) {
      case OpCode::kMove:
      case OpCode::kAddI8:
      case OpCode::kAddI:
      case OpCode::kUnary:
      case OpCode::kLoad:
      case OpCode::kStoreSlot:
      case OpCode::kSkipUnless:
        return f(op.a);
      case OpCode::kBinary:
      case OpCode::kInsert:
      case OpCode::kStoreValue:
      case OpCode::kStoreMask:
        f(op.a), f(op.b);
        return;
      case OpCode::kIte:
        f(op.a), f(op.b), f(static_cast<uint16_t>(op.imm));
        return;
      default:
        return;
    }
  }

  void FindLastUses() {
    uint16_t highest = kZeroValue;
    for (const Op& op : program_.ops) {
      highest = std::max(highest, op.dst);
      ForOperands(op, [&](uint16_t v) { highest = std::max(highest, v); });
    }
    values_.resize(highest + 1);
    values_[kZeroValue].is_constant = true;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      ForOperands(program_.ops[i], [&](uint16_t v) { values_[v].last_use = i; });
    }
  }

  void FreeTemporaries() {
    for (uint16_t& owner : owner_) {
      if (owner != 0 && values_[owner].last_use <= now_) owner = 0;
    }
  }

  // Whether the value is a temporary that nothing uses.
  bool IsDead(uint16_t v) const { return v >= kFirstTemporary && values_[v].last_use <= now_; }

  // Where to compute a value that Define is then told of: the register that it gets, which is none
  // of its operands', or rax.
  Reg Target(uint16_t v) {
    if (v < kFirstTemporary || IsDead(v)) return kAx;
    for (size_t i = 0; i < std::size(kTemporaries); ++i) {
      if (owner_[i] != 0) continue;
      owner_[i] = v;
      return values_[v].reg = kTemporaries[i];
    }
    return kAx;
  }

  // The value is now what `from` holds.
  void Define(uint16_t v, Reg from) {
    if (page_.base == v) page_.known = false;
    Value& value = values_[v];
    value.is_constant = false;
    if (value.reg != kNoReg) {
      if (value.reg != from) a_.Ins(kLoadReg, 8, value.reg, R(from));
    } else if (!IsDead(v)) {
      a_.Ins(kStoreReg, 8, from, ValueAt(v));
    }
  }

  void DefineConstant(uint16_t v, uint64_t constant) {
    if (page_.base == v) page_.known = false;
    if (v >= kFirstTemporary) {
      values_[v].is_constant = true;
      values_[v].constant = constant;
      return;
    }
    StoreConstant(ValueAt(v), constant);
  }

  // Uses rax when the constant is a long one.
  void StoreConstant(const Operand& place, uint64_t constant, Reg scratch = kAx) {
    if (static_cast<int64_t>(constant) == static_cast<int32_t>(constant)) {
      a_.Ins(kMoveImm, 8, 0, place);
      a_.Imm(constant, 4);
    } else {
      a_.Constant(scratch, constant);
      a_.Ins(kStoreReg, 8, scratch, place);
    }
  }

  // REQUIRES: not a constant.
  Operand Place(uint16_t v) const {
    return values_[v].reg != kNoReg ? R(values_[v].reg) : ValueAt(v);
  }

  // The code that follows changes this register.
  void Changes(Reg r) {
    if (r == kCx || r == kDx) page_.known = false;
  }

  void Get(Reg r, uint16_t v) {
    Changes(r);
    if (values_[v].is_constant) {
      a_.Constant(r, values_[v].constant);
    } else {
      a_.Ins(kLoadReg, 8, r, Place(v));
    }
  }

  // r = `width` bytes of a value from that byte on.
  void Extract(Reg r, uint16_t v, unsigned byte, unsigned width) {
    if (values_[v].is_constant || width == 8 || byte + width > 8 ||
        (byte != 0 && values_[v].reg != kNoReg)) {
      Get(r, v);
      a_.Shift(kDigitShr, 8, r, 8 * byte);
      a_.Truncate(r, width);
      return;
    }
    Changes(r);
    Operand from = Place(v);
    if (from.memory) from.offset += static_cast<int32_t>(byte);
    a_.Ins(width == 1 ? kZero1 : width == 2 ? kZero2 : kLoadReg, width == 1 ? 1 : 4, r, from);
  }

  // The second operand of an instruction; a constant goes through rcx.
  Operand Second(uint16_t v) {
    if (!values_[v].is_constant) return Place(v);
    Changes(kCx);
    a_.Constant(kCx, values_[v].constant);
    return R(kCx);
  }

  void AddConstant(Reg r, uint64_t v) {
    if (v == 0) return;
    if (static_cast<int64_t>(v) == static_cast<int32_t>(v)) {
      a_.Arith(kDigitAdd, 8, R(r), static_cast<int32_t>(v));
    } else {
      Changes(kCx);
      a_.Constant(kCx, v);
      a_.Ins(kAdd, 8, r, R(kCx));
    }
  }

  void Translate(const Op& op) {
    Operand slot = At(kRecord, static_cast<int32_t>(op.imm));
    switch (op.code) {
      case OpCode::kEnd:
        return;
      case OpCode::kSlot1:
      case OpCode::kSlot2:
      case OpCode::kSlot4:
      case OpCode::kSlot8: {
        const Reg r = Target(op.dst);
        const uint32_t opcode = op.code == OpCode::kSlot1   ? kZero1
                                : op.code == OpCode::kSlot2 ? kZero2
                                                            : kLoadReg;
        a_.Ins(opcode, op.code == OpCode::kSlot8 ? 8 : 4, r, slot);
        return Define(op.dst, r);
      }
      case OpCode::kConst:
        return DefineConstant(op.dst, op.imm);
      case OpCode::kMove: {
        const Value& from = values_[op.a];
        if (from.is_constant) return DefineConstant(op.dst, from.constant);
        const Reg r = Target(op.dst);
        if (from.reg != kNoReg) return Define(op.dst, from.reg);
        Get(r, op.a);
        return Define(op.dst, r);
      }
      case OpCode::kAddI8:
      case OpCode::kAddI: {
        const auto v = static_cast<int32_t>(op.imm);
        if (op.code == OpCode::kAddI8 && op.dst == op.a && op.dst < kFirstTemporary &&
            v == static_cast<int64_t>(op.imm)) {
          a_.Arith(kDigitAdd, 8, ValueAt(op.dst), v);
          if (page_.base == op.dst) page_.offset -= op.imm;
          return;
        }
        const Reg r = Target(op.dst);
        Get(r, op.a);
        AddConstant(r, op.imm);
        if (op.code == OpCode::kAddI) a_.Truncate(r, op.size);
        return Define(op.dst, r);
      }
      case OpCode::kBinary: {
        const Reg r = Target(op.dst);
        Binary(op, r);
        return Define(op.dst, r);
      }
      case OpCode::kUnary: {
        const Reg r = Target(op.dst);
        if (op.kind == kTtqNot) {
          Get(r, op.a);
          a_.Ins(kGroup3, 8, kDigitNot, R(r));
          a_.Truncate(r, op.size);
        } else if (op.kind == kTtqExtract) {
          Extract(r, op.a, op.b, op.size);
        } else {
          Get(r, op.a);
          a_.SignExtendFrom(r, op.size);
          a_.Truncate(r, op.b);
        }
        return Define(op.dst, r);
      }
      case OpCode::kInsert: {
        unsigned byte = static_cast<unsigned>(op.imm);
        const Reg r = Target(op.dst);
        Get(r, op.a);
        if (byte == 0 && op.size <= 2 && !values_[op.b].is_constant) {
          a_.Ins(op.size == 1 ? kLoadByte : kLoadReg, op.size, r, Place(op.b));
          return Define(op.dst, r);
        }
        Changes(kCx);
        a_.Constant(kCx, ~(MaskOf(op.size) << (8 * byte)));
        a_.Ins(kAnd, 8, r, R(kCx));
        Extract(kCx, op.b, 0, op.size);
        a_.Shift(kDigitShl, 8, kCx, 8 * byte);
        a_.Ins(kOr, 8, r, R(kCx));
        return Define(op.dst, r);
      }
      case OpCode::kIte: {
        const Reg r = Target(op.dst);
        Get(r, static_cast<uint16_t>(op.imm));
        Get(kDx, op.a);
        a_.Arith(kDigitCmp, 8, R(kDx), 0);
        // Second may need an instruction, but only one that leaves the flags alone.
        a_.Ins(kCmovNe, 8, r, Second(op.b));
        return Define(op.dst, r);
      }
      case OpCode::kSkipUnless: {
        if (use_ != NativeUse::kDigest && program_.ops[now_ + 1].code == OpCode::kLoad) {
          ++now_;
          return;
        }
        page_.known = false;
        Get(kAx, op.a);
        a_.Arith(kDigitCmp, 8, R(kAx), 0);
        size_t skip = a_.JumpIf(kEqual);
        // The next operation defines nothing: whichever way is taken, the same registers hold the
        // same temporaries after it.
        FreeTemporaries();
        const Op& guarded = program_.ops[++now_];
        Translate(guarded);
        page_.known = false;
        size_t back = a_.code.size();
        bool load = guarded.code == OpCode::kLoad;
        rare_.push_back([this, skip, back, load] {
          a_.Bind(skip, a_.code.size());
          if (use_ == NativeUse::kDigest) {
            a_.Ins(kGroup5, 8, kDigitInc, load ? FIELD(skipped_reads) : FIELD(skipped_writes));
          }
          a_.JumpTo(back);
        });
        return;
      }
      case OpCode::kLoad:
        if (use_ == NativeUse::kDigest) Load(op);
        return;
      case OpCode::kStoreSlot:
      case OpCode::kStoreValue:
      case OpCode::kStoreMask:
        return Store(op);
    }
  }

  // ttq::SetVectors. Temporaries are not needed any more.
  void SetVectors() {
    if (program_.vectors.empty()) return;
    constexpr size_t kVectors = offsetof(NativeContext, vectors);
    const Operand known = Behind(kVectors + offsetof(VectorState, known));
    a_.Ins(kLoadReg, 4, kCx, known);
    for (const Program::VectorWrite& write : program_.vectors) {
      if (write.slot == Program::kNoSlot) {
        a_.Arith(kDigitAnd, 4, R(kCx), ~(1 << write.word));
      } else {
        a_.Arith(kDigitOr, 4, R(kCx), 1 << write.word);
        a_.Ins(kLoadReg, 8, kAx, At(kRecord, write.slot));
        a_.Ins(kStoreReg, 8, kAx, Behind(kVectors + offsetof(VectorState, word) + 8u * write.word));
      }
    }
    a_.Ins(kStoreReg, 4, kCx, known);
  }

  // kRecord: the next.
  void ToNext() {
    a_.Ins(kStoreReg, 8, kRecord, FIELD(last));
    a_.Arith(kDigitAdd, 8, R(kRecord), static_cast<int32_t>(program_.record_bytes));
  }

  Operand State(size_t offset) const {
    return At(kStates, static_cast<int32_t>(program_.state_at + offset));
  }

  // PackRecord, and on to the next record. Temporaries are not needed any more.
  void Pack() {
    const uint32_t slots = program_.record_bytes - 4, units = (slots + 3) / 4;
    const auto expected = [this](uint32_t at) {
      return State(offsetof(ProgramState, expected) + at);
    };
    for (uint32_t first = 0; first < units; first += 4) {
      const uint32_t here = std::min<uint32_t>(units - first, 4), bytes = slots - 4 * first;
      a_.Ins(kLoadVector, 4, 0, At(kRecord, static_cast<int32_t>(4 + 4 * first)));
      if (bytes < 16 && bytes % 4 != 0) AndWithOnes(bytes);
      a_.Ins(kLoadVector, 4, 1, expected(4 + 4 * first));
      a_.Ins(kStoreVector, 4, 0, expected(4 + 4 * first));
      a_.Ins(kEqual4, 4, 1, R(kAx));    // xmm1 == xmm0, by units
      a_.Ins(kSigns4, 4, kCx, R(kCx));  // of xmm1
      a_.Arith(kDigitXor, 4, R(kCx), 15);
      if (here < 4) a_.Arith(kDigitAnd, 4, R(kCx), (1 << here) - 1);
      a_.Ins(kPopCount, 4, kAx, R(kCx));
      const bool high = first % 8 != 0;
      if (!high) a_.Ins(kLoadReg, 4, kDx, R(kCx));
      a_.Shift(kDigitShl, 4, kCx, 4);
      if (high) a_.Ins(kOr, 4, kDx, R(kCx));
      a_.Ins(kShuffle, 4, 0, At(kContext, offsetof(NativeContext, gather) - kContextBias, kCx));
      a_.Ins(kStoreVector, 4, 0, At(kUnits, 0));
      a_.Ins(kLea, 8, kUnits, At(kUnits, 0, kAx, 4));
      if (high && here == 4) PackToken();
    }
    const Operand next_code = State(offsetof(ProgramState, next_code));
    const int flag = 1 << units % 8;
    if (flag == 1) a_.Ins(kXor, 4, kDx, R(kDx));
    a_.Ins(kLoadReg, 4, kAx, At(kRecord, static_cast<int32_t>(program_.record_bytes)));
    a_.Ins(kCmp, 4, kAx, expected(0));
    const size_t unexpected = a_.JumpIf(kNotEqual);
    PackToken();
    ToNext();
    a_.Ins(kCmp, 8, kRecord, FIELD(limit));
    a_.Leave(a_.JumpIf(kAbove), exit_);
    a_.Ins(kGroup5, 4, kDigitJump, next_code);
    rare_.push_back([this, unexpected, flag, next_code, header = expected(0)] {
      a_.Bind(unexpected, a_.code.size());
      a_.Ins(kStoreReg, 4, kAx, header);
      a_.Ins(kStoreReg, 4, kAx, At(kHeaders, 0));
      a_.Arith(kDigitAdd, 8, R(kHeaders), 4);
      a_.Arith(kDigitOr, 4, R(kDx), flag);
      PackToken();
      ToNext();
      const auto none = a_.FindCode();
      a_.Ins(kLoadReg, 8, kCx, a_.CodeFound());
      a_.Ins(kStoreReg, 8, kCx, next_code);
      a_.Ins(kGroup5, 4, kDigitJump, R(kCx));
      for (const size_t jump : none) a_.Bind(jump, a_.code.size());
      StoreConstant(next_code, reinterpret_cast<uint64_t>(exit_), kCx);
      a_.Leave(a_.Jump(), exit_);
    });
  }

  // dl: flags.
  void PackToken() {
    a_.Ins(kStoreByte, 1, kDx, At(kTokens, 0));
    a_.Arith(kDigitAdd, 8, R(kTokens), 1);
  }

  // Clears all but the first `n` bytes of xmm0, 0 < n < 16.
  void AndWithOnes(uint32_t n) {
    // pslldq, then psrldq
    for (int digit : {7, 3}) {
      a_.Ins(kShiftVector, 4, digit, R(kAx));
      a_.Imm(16 - n, 1);
    }
  }

  // r = a op b
  void Binary(const Op& op, Reg r) {
    int width = op.size == 8 ? 8 : 4;  // narrower ones are done in 32 bits and cut
    uint32_t opcode = 0;
    switch (op.kind) {
      case kTtqAdd:
        opcode = kAdd;
        break;
      case kTtqSub:
        opcode = kSub;
        break;
      case kTtqAnd:
        opcode = kAnd;
        break;
      case kTtqOr:
        opcode = kOr;
        break;
      case kTtqXor:
        opcode = kXor;
        break;
      case kTtqMul:
        opcode = kMul;
        break;
      case kTtqShl:
      case kTtqShr:
      case kTtqSar: {
        Get(r, op.a);
        if (op.kind == kTtqShr) a_.Truncate(r, op.size);
        if (op.kind == kTtqSar) a_.SignExtendFrom(r, op.size);
        int digit = op.kind == kTtqShl ? kDigitShl : op.kind == kTtqShr ? kDigitShr : kDigitSar;
        unsigned mask = 8u * op.size - 1;
        if (values_[op.b].is_constant) {
          a_.Shift(digit, 8, r, static_cast<unsigned>(values_[op.b].constant) & mask);
        } else {
          Get(kCx, op.b);
          a_.Arith(kDigitAnd, 4, R(kCx), static_cast<int32_t>(mask));
          a_.Ins(kShiftCl, 8, digit, R(r));
        }
        a_.Truncate(r, op.size);
        return;
      }
      default: {
        Get(r, op.a);
        Operand b = Second(op.b);
        a_.Ins(op.size == 1 ? kCmpByte : kCmp, op.size, r, b);
        int condition = op.kind == kTtqEq    ? kEqual
                        : op.kind == kTtqNe  ? kNotEqual
                        : op.kind == kTtqLtS ? kLess
                        : op.kind == kTtqLtU ? kBelow
                        : op.kind == kTtqLeS ? kNotGreater
                                             : kNotAbove;
        a_.SetIf(condition, r);
        a_.Truncate(r, 1);
        return;
      }
    }
    Get(r, op.a);
    a_.Ins(opcode, width, r, Second(op.b));
    if (op.size < 4) a_.Truncate(r, op.size);
  }

  // rax = the address. Returns the jumps taken when one of the words that are stored to may be
  // watched, or the store is not aligned, which is rare.
  std::vector<size_t> FindWatched(const Op& op) {
    Address(op, values_[op.a]);
    std::vector<size_t> slow;
    if (op.size > 1) {
      a_.Ins(kLoadReg, 4, kDx, R(kAx));
      a_.Arith(kDigitAnd, 4, R(kDx), op.size - 1);
      slow.push_back(a_.JumpIf(kNotEqual));
    }
    // WordSet::Slot of the first; those of the other words are beside it.
    const int words = std::max(op.size / 8, 1);
    a_.Ins(kLoadReg, 8, kCx, R(kAx));
    a_.Shift(kDigitShr, 8, kCx, 3);
    a_.Ins(kLoadReg, 8, kDx, R(kCx));
    a_.Shift(kDigitShr, 8, kDx, WordSet::kSlotBits);
    a_.Ins(kXor, 4, kCx, R(kDx));
    a_.Arith(kDigitAnd, 4, R(kCx), ((1 << WordSet::kSlotBits) - 1) & ~(words - 1));
    a_.Ins(words == 1 ? kZero1 : words == 2 ? kZero2 : kLoadReg, 4, kCx, At(kWatched, 0, kCx));
    a_.Arith(kDigitCmp, 4, R(kCx), 0);
    slow.push_back(a_.JumpIf(kNotEqual));
    return slow;
  }

  // Where an access goes: rdx = its offset in the page, rcx = the page's content. `slow` is taken
  // when the page's slot holds another or the access leaves it, and, if it has to be `aligned`,
  // when it is not. `again`: by the access before it, with the same base; rax is not the address
  // then.
  struct Found {
    size_t slow;
    bool again = false;
    Value base;  // as it is now
  };
  Found FindPage(const Op& op, bool aligned, bool in_rax = false) {
    Found found;
    found.base = values_[op.a];
    const int64_t distance = static_cast<int64_t>(op.imm - page_.offset);
    found.again =
        page_.known && page_.base == op.a && -kMaxDistance < distance && distance < kMaxDistance;
    if (found.again) {
      if (distance != 0) a_.Ins(kLea, 4, kDx, At(kDx, static_cast<int32_t>(distance)));
    } else {
      if (!in_rax) Address(op, found.base);
      a_.Ins(kLoadReg, 4, kCx, R(kAx));
      a_.Shift(kDigitShr, 4, kCx, 12 - 4);
      static_assert(sizeof(NativeContext::Page) == 16);
      a_.Arith(kDigitAnd, 4, R(kCx), ((1 << NativeContext::kPageBits) - 1) << 4);
      a_.Ins(kLoadReg, 8, kDx, R(kAx));
      a_.Ins(kSub, 8, kDx, At(kContext, offsetof(NativeContext::Page, address), kCx));
    }
    if (aligned) {
      a_.Ins(kGroup3, 8, kDigitTest, R(kDx));
      a_.Imm(static_cast<uint64_t>(-static_cast<int64_t>(kPageBytes) | (op.size - 1)), 4);
      found.slow = a_.JumpIf(kNotEqual);
    } else {
      a_.Arith(kDigitCmp, 8, R(kDx), static_cast<int32_t>(kPageBytes) - op.size);
      found.slow = a_.JumpIf(kAbove);
    }
    if (!found.again) LoadContent();
    page_ = {use_ == NativeUse::kDigest, op.a, op.imm};
    return found;
  }

  void LoadContent() {
    a_.Ins(kLoadReg, 8, kCx, At(kContext, offsetof(NativeContext::Page, content), kCx));
  }

  // For a helper, at `slow`: rax = the address.
  void AddressOf(const Op& op, const Found& found) {
    if (found.again) Address(op, found.base);
  }

  // After a helper, which leaves nothing in rcx and rdx: what would go by them takes `slow` too.
  void ForgetPage() { a_.Constant(kDx, kNoOffset); }

  // rax = the address.
  void Address(const Op& op, const Value& base) {
    if (base.is_constant) {
      a_.Constant(kAx, base.constant + op.imm);
    } else {
      a_.Ins(kLoadReg, 8, kAx, base.reg != kNoReg ? R(base.reg) : ValueAt(op.a));
      AddConstant(kAx, op.imm);
    }
  }

  void Load(const Op& op) {
    auto by_helper = [this, size = op.size] {
      a_.Constant(kDx, size);
      a_.Call(load_);
    };
    if (op.size > 32) {
      Address(op, values_[op.a]);
      by_helper();
      page_.known = false;
      return;
    }
    // Most numbers are aligned, and within one word then.
    const bool aligned = op.size <= 8 && std::has_single_bit(op.size);
    const Found found = FindPage(op, aligned);
    MarkRead(aligned ? 1 : op.size);
    Rarely({found.slow}, [this, op, aligned, found, by_helper](size_t back) {
      if (aligned && op.size > 1) {
        a_.Arith(kDigitCmp, 8, R(kDx), static_cast<int32_t>(kPageBytes) - op.size);
        const size_t elsewhere = a_.JumpIf(kAbove);
        if (!found.again) LoadContent();
        MarkRead(op.size);
        a_.JumpTo(back);
        a_.Bind(elsewhere, a_.code.size());
      }
      AddressOf(op, found);
      by_helper();
      ForgetPage();
    });
  }

  // Every word that is touched holds the first byte, the last, or one a multiple of eight on.
  void MarkRead(int size) {
    for (int byte = 0;; byte = std::min(byte + 8, size - 1)) {
      if (byte == 0) {
        a_.Ins(kLoadReg, 4, kAx, R(kDx));
      } else {
        a_.Ins(kLea, 4, kAx, At(kDx, byte));
      }
      a_.Shift(kDigitShr, 4, kAx, 3);
      a_.Ins(kMoveImmByte, 4, 0, At(kCx, offsetof(PageDelta, read_words), kAx));
      a_.Imm(0xff, 1);
      if (byte == size - 1) break;
    }
  }

  void Store(const Op& op) {
    if (use_ == NativeUse::kRegisters) {
      Address(op, values_[op.a]);
      return NoteStore(op);
    }
    if (op.code == OpCode::kStoreMask) {
      Address(op, values_[op.a]);
      page_.known = false;
      return StoreMask(op);
    }
    auto by_helper = [this, op] {
      SayWhere(op);
      if (op.code == OpCode::kStoreSlot) {
        a_.Ins(kLea, 8, kDx, At(kRecord, op.b));
      } else {
        a_.Ins(kLea, 8, kDx, ValueAt(op.b));
      }
      a_.Constant(kCx, op.size);
      a_.Call(store_);
    };
    // The helper wants the value in memory. This is placed later, when a temporary's register may
    // have another owner, but it runs now: hence the copy.
    Value value = op.code == OpCode::kStoreValue ? values_[op.b] : Value();
    auto slow_path = [this, op, value, by_helper] {
      if (value.is_constant) {
        StoreConstant(ValueAt(op.b), value.constant, kCx);
      } else if (value.reg != kNoReg) {
        a_.Ins(kStoreReg, 8, value.reg, ValueAt(op.b));
      }
      by_helper();
    };
    bool vector = op.size == 16 || op.size == 32;
    if ((op.size > 8 && !vector) || op.size == 3 || op.size == 5 || op.size == 6 || op.size == 7) {
      Address(op, values_[op.a]);
      slow_path();
      page_.known = false;
      return;
    }
    std::vector<size_t> slow;
    if (use_ == NativeUse::kMemory) slow = FindWatched(op);
    const Found found = FindPage(op, /*aligned=*/false, /*in_rax=*/use_ == NativeUse::kMemory);
    slow.push_back(found.slow);
    static_assert(offsetof(PageDelta, bytes) == 0 &&
                  offsetof(PageDelta, written_bytes) == kPageBytes);
    Operand to = At(kCx, 0, kDx), mark = At(kCx, kPageBytes, kDx);
    if (vector) {
      for (int i = 0; i < op.size; i += 16, to.offset += 16, mark.offset += 16) {
        a_.Ins(kLoadVector, 4, 0, At(kRecord, op.b + i));
        a_.Ins(kStoreVector, 4, 0, to);
        a_.Ins(kOnes, 4, 0, R(kAx));  // xmm0
        a_.Ins(kStoreVector, 4, 0, mark);
      }
    } else {
      Reg from = kAx;
      const bool immediate = value.is_constant && static_cast<int64_t>(value.constant) ==
                                                      static_cast<int32_t>(value.constant);
      if (immediate) {
        a_.Ins(op.size == 1 ? kMoveImmByte : kMoveImm, op.size, 0, to);
        a_.Imm(value.constant, std::min<int>(op.size, 4));
      } else if (op.code == OpCode::kStoreSlot) {
        uint32_t opcode = op.size == 1 ? kZero1 : op.size == 2 ? kZero2 : kLoadReg;
        a_.Ins(opcode, op.size == 8 ? 8 : 4, kAx, At(kRecord, op.b));
      } else if (value.reg != kNoReg) {
        from = value.reg;
      } else {
        Get(kAx, op.b);
      }
      if (!immediate) a_.Ins(op.size == 1 ? kStoreByte : kStoreReg, op.size, from, to);
      a_.Ins(op.size == 1 ? kMoveImmByte : kMoveImm, op.size, 0, mark);
      a_.Imm(~uint64_t{0}, std::min<int>(op.size, 4));
    }
    Rarely(std::move(slow), [this, op, found, slow_path](size_t) {
      AddressOf(op, found);
      slow_path();
      ForgetPage();
    });
  }

  // For memory: which store it is that the helper is about to be told of.
  void SayWhere(const Op& op) {
    if (use_ != NativeUse::kMemory) return;
    a_.Ins(kStoreReg, 8, kRecord, FIELD(record));
    a_.Ins(kMoveImm, 8, 0, Behind(offsetof(NativeContext, instruction)));
    a_.Imm(op.instruction, 4);
  }

  // rax: the address.
  void NoteStore(const Op& op) {
    if (op.size != 8) {
      a_.Ins(kMoveImm, 8, 0, Behind(offsetof(NativeContext, stored_at)));
      a_.Imm(~uint64_t{0}, 4);
      return;
    }
    a_.Ins(kStoreReg, 8, kAx, Behind(offsetof(NativeContext, stored_at)));
    if (op.code == OpCode::kStoreSlot) {
      a_.Ins(kLoadReg, 8, kAx, At(kRecord, op.b));
    } else {
      Get(kAx, op.b);
    }
    a_.Ins(kStoreReg, 8, kAx, Behind(offsetof(NativeContext, stored)));
  }

  // A place of the context that is too far for FIELD.
  static Operand Behind(size_t offset) {
    return At(kContext, static_cast<int32_t>(offset - kContextBias));
  }

  // The mask is a constant: its bytes are put after the code.
  void StoreMask(const Op& op) {
    uint64_t mask = values_[op.b].constant;
    SayWhere(op);
    // lea rdx, [rip + distance]
    a_.Byte(0x48);
    a_.Byte(0x8d);
    a_.Byte(0x15);
    a_.Imm(0, 4);
    size_t distance = a_.code.size() - 4;
    a_.Constant(kCx, op.size);
    a_.Call(store_);
    rare_.push_back([this, distance, mask, size = op.size] {
      a_.Bind(distance, a_.code.size());
      for (unsigned i = 0; i < size; ++i) a_.Byte(mask >> i & 1 ? 0xff : 0);
    });
  }

  // Places code that is jumped to from `jumps` and goes on here.
  template <class F>
  void Rarely(std::vector<size_t> jumps, F emit) {
    rare_.push_back([this, jumps = std::move(jumps), emit, back = a_.code.size()] {
      for (const size_t jump : jumps) a_.Bind(jump, a_.code.size());
      emit(back);
      a_.JumpTo(back);
    });
  }

  const Program& program_;
  const NativeUse use_;
  const uint8_t *exit_, *load_, *store_;
  NativeAssembler a_;
  std::vector<Value> values_;
  uint16_t owner_[std::size(kTemporaries)] = {};
  // What is in rcx and rdx: as FindPage leaves them for this address.
  struct {
    bool known = false;
    uint16_t base = 0;
    uint64_t offset = 0;
  } page_;
  std::vector<std::function<void()>> rare_;
  size_t now_ = 0;
};

}  // namespace

const uint8_t* NativeCode::Append(const std::vector<uint8_t>& code) {
  used_ = (used_ + 15) & ~size_t{15};
  if (code.size() > kCodeBytes - used_) return nullptr;
  memcpy(writable_ + used_, code.data(), code.size());
  const uint8_t* at = executable_ + used_;
  used_ += code.size();
  return at;
}

std::shared_ptr<NativeCode> NativeCode::Create(NativeUse use) {
  if (!__builtin_cpu_supports("ssse3") || !__builtin_cpu_supports("popcnt")) return nullptr;
  int fd = memfd_create("ttq-code", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  std::shared_ptr<NativeCode> native(new NativeCode(use));
  if (ftruncate(fd, kCodeBytes) == 0) {
    void* w = mmap(nullptr, kCodeBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (w != MAP_FAILED) native->writable_ = static_cast<uint8_t*>(w);
    void* x = mmap(nullptr, kCodeBytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    if (x != MAP_FAILED) native->executable_ = static_cast<const uint8_t*>(x);
  }
  close(fd);
  if (native->writable_ == nullptr || native->executable_ == nullptr) return nullptr;

  NativeAssembler enter;
  for (Reg r : kSaved) enter.Push(r);
  enter.Arith(kDigitAdd, 8, R(kSp), -8);  // calls from programs find the stack aligned
  enter.Ins(kLea, 8, kContext, At(kDi, kContextBias));
  enter.Ins(kLoadReg, 8, kValues, FIELD(values));
  enter.Arith(kDigitAdd, 8, R(kValues), kValuesBias);
  enter.Ins(kLoadReg, 8, kRecord, FIELD(record));
  enter.Ins(kLoadReg, 8, kTokens, FIELD(packed.tokens));
  enter.Ins(kLoadReg, 8, kUnits, FIELD(packed.units));
  if (use == NativeUse::kDigest) {
    enter.Ins(kLoadReg, 8, kHeaders, FIELD(packed.headers));
    enter.Ins(kLoadReg, 8, kTime, FIELD(time));
  }
  static_assert(offsetof(NativeContext, states) == offsetof(NativeContext, watched));
  enter.Ins(kLoadReg, 8, kStates, FIELD(states));
  enter.Ins(kLoadReg, 4, kAx, At(kRecord, 0));
  const auto exits = enter.FindCode();
  enter.Ins(kGroup5, 4, kDigitJump, enter.CodeFound());
  const size_t exit = enter.code.size();
  for (const size_t jump : exits) enter.Bind(jump, exit);
  enter.Ins(kStoreReg, 8, kRecord, FIELD(record));
  enter.Ins(kStoreReg, 8, kTokens, FIELD(packed.tokens));
  enter.Ins(kStoreReg, 8, kUnits, FIELD(packed.units));
  if (use == NativeUse::kDigest) {
    enter.Ins(kStoreReg, 8, kHeaders, FIELD(packed.headers));
    enter.Ins(kStoreReg, 8, kTime, FIELD(time));
  }
  enter.Arith(kDigitAdd, 8, R(kSp), 8);
  for (size_t i = std::size(kSaved); i-- > 0;) enter.Pop(kSaved[i]);
  enter.Byte(0xc3);
  const uint8_t* at = native->Append(enter.code);
  native->enter_ = reinterpret_cast<void (*)(NativeContext*)>(const_cast<uint8_t*>(at));
  native->exit_ = at + exit;

  // rax: address. load: rdx: size. store: rdx: bytes, rcx: size.
  for (const uint8_t** thunk : {&native->load_, &native->store_}) {
    NativeAssembler a;
    for (Reg r : kTemporaries) a.Push(r);
    a.Push(kHeaders);
    a.Push(kTime);
    a.Arith(kDigitAdd, 8, R(kSp), -8);
    a.Ins(kLoadReg, 8, kSi, R(kAx));
    a.Ins(kLoadReg, 8, kDi, FIELD(sink));
    a.Ins(kGroup5, 4, kDigitCall, thunk == &native->load_ ? FIELD(load) : FIELD(store));
    a.Arith(kDigitAdd, 8, R(kSp), 8);
    a.Pop(kTime);
    a.Pop(kHeaders);
    for (size_t i = std::size(kTemporaries); i-- > 0;) a.Pop(kTemporaries[i]);
    a.Byte(0xc3);
    *thunk = native->Append(a.code);
  }
  return native;
}

NativeCode::~NativeCode() {
  if (writable_ != nullptr) munmap(writable_, kCodeBytes);
  if (executable_ != nullptr) munmap(const_cast<uint8_t*>(executable_), kCodeBytes);
}

const void* NativeCode::Compile(const Program& program) {
  if (program.ops.size() > kMaxOps) return nullptr;
  if (std::max(program.record_bytes, program.reach) > kLongest) return nullptr;
  if (program.state_at > kMaxStateBytes) return nullptr;
  Translator translator(program, use_, exit_, load_, store_);
  NativeAssembler& a = translator.Translate();
  std::lock_guard lock(mutex_);
  size_t start = (used_ + 15) & ~size_t{15};
  for (const NativeAssembler::Outside& o : a.outside) {
    uint32_t distance = static_cast<uint32_t>(o.target - (executable_ + start + o.at + 4));
    memcpy(&a.code[o.at], &distance, 4);
  }
  return Append(a.code);
}

void NativeCode::Interpreted(const Program& program) {
  Program::Native& native = program.native[static_cast<size_t>(use_)];
  const uint32_t worth = use_ == NativeUse::kDigest ? kRunsToDigest : kRunsToAsk;
  // Whoever gets there first compiles; a program that cannot be is not tried again.
  if (std::atomic_ref(native.runs).fetch_add(1, std::memory_order_relaxed) + 1 != worth) return;
  std::atomic_ref(native.code).store(Compile(program), std::memory_order_release);
}

#else  // other machines interpret

std::shared_ptr<NativeCode> NativeCode::Create(NativeUse) { return nullptr; }
void NativeCode::Interpreted(const Program&) {}
NativeCode::~NativeCode() = default;
const uint8_t* NativeCode::Append(const std::vector<uint8_t>&) { return nullptr; }
const void* NativeCode::Compile(const Program&) { return nullptr; }

#endif

}  // namespace ttq
