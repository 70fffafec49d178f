// SPDX-License-Identifier: MIT
//
// The walk over a block's log: every record in order, with registers kept up to date. Ingest walks
// each block once; a query walks the blocks it needs again. What they do with the loads, stores and
// control records they meet is the Sink's business:
//
//   void Load(const Op& op, uint64_t address);                  op.size bytes
//   void Store(const Op& op, uint64_t address, const uint8_t* bytes);
//   bool Superblock(const Program& program, uint32_t id, const uint8_t* record);
//        before the effects of an execution; false stops the walk, before it
//   bool Control(uint32_t kind, std::string_view payload);      false stops the walk, before it
//
// A sink may also have
//
//   const uint8_t* Advance(const uint8_t* at, const uint8_t* end);
//        executes as many records as it likes from `at` on, not control records, by itself; returns
//        the first it did not. It brings time and registers forward as the walk would have.
//
// While a sink is called the walker's time() is that of the first instruction of the superblock, or
// of the next instruction for a control record; op.instruction counts from there. The walk trusts
// nothing: a log that does not fit its recipes ends it with DataLoss.

#ifndef TTQ_STORE_WALK_WALK_H_
#define TTQ_STORE_WALK_WALK_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "recorder/stream.h"
#include "store/walk/evaluate.h"
#include "store/walk/recipe.h"

namespace ttq {

// Registers of a thread as kTtqRegisters gives them. `tid` is Valgrind's number, which is reused.
struct ThreadState {
  uint64_t reg[kTtqRegCount] = {};
  uint64_t pc = 0;  // as of the last snapshot
};

template <class T>
T LoadPod(std::string_view payload) {
  T value{};
  memcpy(&value, payload.data(), payload.size() < sizeof(T) ? payload.size() : sizeof(T));
  return value;
}

// The fixed part of each control record's payload; a shorter one is damaged.
size_t ControlHeadBytes(uint32_t kind);
// The thread a control record names, 0 when its kind names none. REQUIRES: all of the fixed part.
uint32_t ControlThread(uint32_t kind, std::string_view payload);

class Walker {
 public:
  explicit Walker(const RecipeTable& recipes)
      : recipes_(recipes), values_(kMaxValues), programs_(kProgramCacheSize) {
    values_[kZeroValue] = 0;
  }

  // Forgets where it was; not what it knows of the table.
  void Restart() {
    std::fill_n(values_.begin(), kTtqRegCount, 0);
    threads_.clear();
    told_.clear();
    tid_ = 0;
    time_ = Time(0);
    record_ = nullptr;
  }

  // Where the walk stands.
  Time time() const { return time_; }
  void set_time(Time t) { time_ = t; }
  uint32_t tid() const { return tid_; }
  // Registers of the current thread, kTtqRegCount of them.
  uint64_t* registers() { return values_.data(); }
  // The state of any thread as of now.
  ThreadState StateOf(uint32_t tid) const;
  void SetState(uint32_t tid, const ThreadState& state);
  const absl::flat_hash_map<uint32_t, ThreadState>& other_threads() const { return threads_; }
  // Whether a record has told where a thread stands now. No superblock does: where its last one
  // left to is known by the next.
  bool KnowsPc(uint32_t tid) const {
    const auto it = told_.find(tid);
    return it != told_.end() && it->second == time_;
  }
  // Makes `tid` the current thread.
  void SwitchTo(uint32_t tid);
  // The program of a record by its header. Null when the id or exit is unknown.
  const Program* ProgramOf(uint32_t word) {
    CachedProgram& c = programs_[(word * 0x9e3779b1u) >> (32 - kProgramCacheBits)];
    if (c.word != word) [[unlikely]] {
      const Program* program =
          recipes_.FindProgram(word >> kTtqExitBits, word & ((1 << kTtqExitBits) - 1));
      if (program == nullptr) return nullptr;
      c = {word, program};
    }
    return c.program;
  }
  // The record being executed when a sink stopped the walk or is called.
  const uint8_t* record() const { return record_; }

  // Ok at the end of the log or when the sink stopped it.
  template <class Sink>
  absl::Status Walk(std::string_view log, Sink& sink);

 private:
  template <class Sink>
  void Run(const Op* op, const uint8_t* record, Sink& sink);
  // Which instruction of a superblock faulted. A superblock may hold a loop's body several times;
  // the registers, which the record at the front of `next` gives, tell where in it the program was.
  uint32_t FaultInstruction(const Recipe& recipe, uint64_t pc, std::string_view next) const;
  template <class Sink>
  absl::Status RunOpen(uint32_t id, std::string_view rest, size_t* used, bool* stopped, Sink& sink);

  // The table's lookup is a chain of five loads that miss the cache; the same few thousand headers
  // come again and again.
  struct CachedProgram {
    uint32_t word = 0;  // the record's header
    const Program* program = nullptr;
  };
  static constexpr uint32_t kProgramCacheBits = 14;
  static constexpr uint32_t kProgramCacheSize = 1 << kProgramCacheBits;

  const RecipeTable& recipes_;
  std::vector<uint64_t> values_;
  std::vector<CachedProgram> programs_;
  absl::flat_hash_map<uint32_t, ThreadState> threads_;
  absl::flat_hash_map<uint32_t, Time> told_;  // when registers of which last were
  uint32_t tid_ = 0;
  Time time_{0};
  const uint8_t* record_ = nullptr;
};

// ---- Implementation -----------------------------------------------------------------------------

absl::Status LogDamage(size_t offset, const char* what);

template <class Sink>
inline void Walker::Run(const Op* op, const uint8_t* record, Sink& sink) {
  uint64_t* v = values_.data();
  static const void* const kLabels[] = {&&end,         &&slot1,      &&slot2, &&slot4, &&slot8,
                                        &&constant,    &&move,       &&add8,  &&add,   &&binary,
                                        &&unary,       &&insert,     &&ite,   &&load,  &&store_slot,
                                        &&store_value, &&store_mask, &&skip};
#define NEXT goto* kLabels[static_cast<int>(op->code)]
  NEXT;
slot1:
  v[op->dst] = record[op->imm];
  ++op;
  NEXT;
slot2 : {
  uint16_t x;
  memcpy(&x, record + op->imm, 2);
  v[op->dst] = x;
  ++op;
  NEXT;
}
slot4 : {
  uint32_t x;
  memcpy(&x, record + op->imm, 4);
  v[op->dst] = x;
  ++op;
  NEXT;
}
slot8:
  memcpy(&v[op->dst], record + op->imm, 8);
  ++op;
  NEXT;
constant:
  v[op->dst] = op->imm;
  ++op;
  NEXT;
move:
  v[op->dst] = v[op->a];
  ++op;
  NEXT;
add8:
  v[op->dst] = v[op->a] + op->imm;
  ++op;
  NEXT;
add:
  v[op->dst] = (v[op->a] + op->imm) & MaskOf(op->size);
  ++op;
  NEXT;
binary:
  v[op->dst] = EvaluateBinary(op->kind, op->size, v[op->a], v[op->b]);
  ++op;
  NEXT;
unary:
  v[op->dst] = EvaluateUnary(op->kind, op->size, op->b, v[op->a]);
  ++op;
  NEXT;
insert:
  v[op->dst] = EvaluateInsert(op->size, static_cast<unsigned>(op->imm), v[op->a], v[op->b]);
  ++op;
  NEXT;
ite:
  v[op->dst] = v[op->a] ? v[op->b] : v[op->imm];
  ++op;
  NEXT;
load:
  sink.Load(*op, v[op->a] + op->imm);
  ++op;
  NEXT;
store_slot:
  sink.Store(*op, v[op->a] + op->imm, record + op->b);
  ++op;
  NEXT;
store_value:
  sink.Store(*op, v[op->a] + op->imm, reinterpret_cast<const uint8_t*>(&v[op->b]));
  ++op;
  NEXT;
store_mask : {
  uint8_t bytes[64];
  for (unsigned i = 0; i < op->size; ++i) bytes[i] = v[op->b] >> i & 1 ? 0xff : 0;
  sink.Store(*op, v[op->a] + op->imm, bytes);
  ++op;
  NEXT;
}
skip:
  op += v[op->a] ? 1 : 2;
  NEXT;
#undef NEXT
end:
  return;
}

// A record that a fault cut off. The instruction that faulted is known from the fault's pc, the
// access that did from its address: what that instruction did before it is applied, no more.
template <class Sink>
absl::Status Walker::RunOpen(uint32_t id, std::string_view rest, size_t* used, bool* stopped,
                             Sink& sink) {
  const Recipe* recipe = recipes_.Find(SuperblockId(id));
  size_t at = recipe->record_bytes();
  uint32_t word = 0, payload_bytes = 0;
  if (rest.size() < at + 8) return LogDamage(0, "a fault is cut off");
  memcpy(&word, rest.data() + at, 4);
  memcpy(&payload_bytes, rest.data() + at + 4, 4);
  if (word != kTtqFault || payload_bytes != sizeof(TtqSignal) ||
      rest.size() - at - 8 < payload_bytes) {
    return LogDamage(0, "an open record without its fault");
  }
  std::string_view payload = rest.substr(at + 8, payload_bytes);
  auto fault = LoadPod<TtqSignal>(payload);
  if (fault.tid > kTtqMaxThreads) return LogDamage(0, "a thread number that is too large");
  uint32_t instruction = FaultInstruction(*recipe, fault.pc, rest.substr(at + 8 + payload_bytes));
  Program program = recipe->CompileOpen(instruction);
  if (!sink.Superblock(program, id, record_)) {
    *stopped = true;
    return absl::OkStatus();
  }
  // First find the access that faulted: run with a sink that only looks.
  struct Probe {
    uint64_t fault_address;
    uint32_t instruction;
    size_t accesses = 0, faulting = SIZE_MAX;
    void See(const Op& op, uint64_t address) {
      if (op.instruction != instruction) return;
      if (faulting == SIZE_MAX && fault_address - address < op.size) faulting = accesses;
      ++accesses;
    }
    void Load(const Op& op, uint64_t address) { See(op, address); }
    void Store(const Op& op, uint64_t address, const uint8_t*) { See(op, address); }
  } probe{fault.address, instruction};
  std::vector<uint64_t> saved(values_.begin(), values_.begin() + kTtqRegCount);
  Run(program.ops.data(), record_, probe);
  std::copy(saved.begin(), saved.end(), values_.begin());
  struct Limited {
    Sink& sink;
    uint32_t instruction;
    size_t limit, accesses = 0;
    bool Passes(const Op& op) { return op.instruction != instruction || accesses++ < limit; }
    void Load(const Op& op, uint64_t address) {
      if (Passes(op)) sink.Load(op, address);
    }
    void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
      if (Passes(op)) sink.Store(op, address, bytes);
    }
  } limited{sink, instruction, probe.faulting == SIZE_MAX ? 0 : probe.faulting};
  Run(program.ops.data(), record_, limited);
  time_ += program.instructions;
  *used = at + 8 + payload_bytes;
  if (!sink.Control(kTtqFault, payload)) *stopped = true;
  return absl::OkStatus();
}

template <class Sink>
absl::Status Walker::Walk(std::string_view log, Sink& sink) {
  const uint8_t* const begin = reinterpret_cast<const uint8_t*>(log.data());
  const uint8_t* const end = begin + log.size();
  const uint8_t* at = begin;
  while (end - at >= 4) {
    uint32_t word;
    memcpy(&word, at, 4);
    if constexpr (requires { sink.Advance(at, end); }) {
      at = sink.Advance(at, end);
      memcpy(&word, at, 4);
    }
    uint32_t id = word >> kTtqExitBits, low = word & ((1 << kTtqExitBits) - 1);
    record_ = at;
    if (id != 0 && low != kTtqExitOpen) [[likely]] {
      const Program* program = ProgramOf(word);
      if (program == nullptr) return LogDamage(at - begin, "an unknown superblock or exit");
      if (program->reach > static_cast<size_t>(end - at)) {
        return LogDamage(at - begin, "the last record is cut off");
      }
      if (!sink.Superblock(*program, id, at)) return absl::OkStatus();
      Run(program->ops.data(), at, sink);
      time_ += program->instructions;
      at += program->record_bytes;
      continue;
    }
    std::string_view rest(reinterpret_cast<const char*>(at), end - at);
    if (id != 0) {
      if (recipes_.Find(SuperblockId(id)) == nullptr) {
        return LogDamage(at - begin, "an unknown superblock");
      }
      size_t used = 0;
      bool stopped = false;
      RETURN_IF_ERROR(RunOpen(id, rest, &used, &stopped, sink));
      if (stopped) return absl::OkStatus();
      at += used;
      continue;
    }
    uint32_t payload_bytes = 0;
    if (rest.size() < 8) return LogDamage(at - begin, "a control record is cut off");
    memcpy(&payload_bytes, at + 4, 4);
    if (payload_bytes > rest.size() - 8 || payload_bytes < ControlHeadBytes(low)) {
      return LogDamage(at - begin, "a control record is cut off");
    }
    std::string_view payload = rest.substr(8, payload_bytes);
    // Each thread costs memory, for registers here and in every block's header.
    if (ControlThread(low, payload) > kTtqMaxThreads) {
      return LogDamage(at - begin, "a thread number that is too large");
    }
    if (!sink.Control(low, payload)) return absl::OkStatus();
    if (low == kTtqThread) {
      SwitchTo(LoadPod<uint32_t>(payload));
    } else if (low == kTtqRegisters) {
      auto r = LoadPod<TtqRegisters>(payload);
      ThreadState state;
      memcpy(state.reg, r.reg, sizeof(state.reg));
      state.pc = r.pc;
      SetState(r.tid, state);
      told_[r.tid] = time_;
    }
    at += 8 + payload_bytes;
  }
  if (at != end) return LogDamage(at - begin, "a record is cut off");
  return absl::OkStatus();
}

}  // namespace ttq

#endif  // TTQ_STORE_WALK_WALK_H_
