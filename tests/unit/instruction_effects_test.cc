// SPDX-License-Identifier: MIT
//
// What EffectsReader says of each instruction in instructions.s, against the processor: a child is
// stepped over the instruction by ptrace, again and again, with one register or piece of memory
// changed each time. If anything else comes out then, the instruction has read it. One that this
// processor does not have is passed over.

#include "query/code/instruction_effects.h"

#include <cpuid.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace ttq {
namespace {

struct Listed {
  const uint8_t *begin, *end;
  const char* text;
};
extern "C" const Listed ttq_instructions[];

constexpr uint64_t kArea = 0x5a5a5a000000;
constexpr size_t kApart = 0x400;  // from where one register points to where the next does
constexpr size_t kAreaSize = 17 * kApart;
// The vector register that a gather takes for indices, which are kept small.
constexpr int kIndices = kFirstVectorRegister + 3;
constexpr uint64_t kStatusFlags = 0x8d5, kCarry = 1, kZeroAndSign = 0xc0;
constexpr int kTrials = 16;  // at most, until all that is claimed was seen

// Everything an instruction can depend on, but for its code.
struct State {
  user_regs_struct general = {};
  std::string extended;  // as XSAVE lays it out
  std::string memory;    // of the area
  int signal = 0;        // that came instead of the instruction's end
};

unsigned long long* GprIn(State* state, int number) {
  user_regs_struct& r = state->general;
  unsigned long long* const all[] = {&r.rax, &r.rcx, &r.rdx, &r.rbx, &r.rsp, &r.rbp,
                                     &r.rsi, &r.rdi, &r.r8,  &r.r9,  &r.r10, &r.r11,
                                     &r.r12, &r.r13, &r.r14, &r.r15};
  return all[number];
}

// Where XSAVE puts a component; 0: this processor has none.
size_t OffsetOf(unsigned component) {
  unsigned size = 0, offset = 0, c = 0, d = 0;
  if (!__get_cpuid_count(0xd, component, &size, &offset, &c, &d)) return 0;
  return size == 0 ? 0 : offset;
}

// Where a register (see RegisterName) lies in a state.
using Pieces = absl::InlinedVector<absl::Span<char>, 9>;
Pieces PiecesOf(State* state, int number) {
  Pieces bytes;
  const auto add = [&](char* from, size_t size) { bytes.emplace_back(from, size); };
  char* const x = state->extended.data();
  static const size_t kAvx = OffsetOf(2), kHigh = OffsetOf(6), kUpper = OffsetOf(7);
  if (number < kGprCount) {
    add(reinterpret_cast<char*>(GprIn(state, number)), 8);
  } else if (number == kFlagsRegister) {
    add(reinterpret_cast<char*>(&state->general.eflags), 2);
  } else if (number < kX87Registers) {
    const size_t v = static_cast<size_t>(number - kFirstVectorRegister);
    if (v >= 16) {
      if (kUpper != 0) add(x + kUpper + 64 * (v - 16), 64);
    } else {
      add(x + 160 + 16 * v, 16);
      if (kAvx != 0) add(x + kAvx + 16 * v, 16);
      if (kHigh != 0) add(x + kHigh + 32 * v, 32);
    }
  } else if (number == kX87Registers) {
    add(x, 4);  // control and status
    for (size_t i = 0; i < 8; ++i) add(x + 32 + 16 * i, 10);
  } else {
    static const size_t kMasks = OffsetOf(5);
    if (kMasks != 0) add(x + kMasks, 64);
  }
  return bytes;
}

class Child {
 public:
  Child() {
    memory_ =
        static_cast<char*>(mmap(reinterpret_cast<void*>(kArea), kAreaSize, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    pid_ = fork();
    if (pid_ == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
      _exit(0);
    }
    int status = 0;
    usable_ = memory_ != MAP_FAILED && pid_ > 0 && waitpid(pid_, &status, 0) == pid_ &&
              WIFSTOPPED(status);
    if (!usable_) return;
    start_.extended.resize(16384);
    iovec out = {start_.extended.data(), start_.extended.size()};
    usable_ = ptrace(PTRACE_GETREGS, pid_, nullptr, &start_.general) == 0 &&
              ptrace(PTRACE_GETREGSET, pid_, NT_X86_XSTATE, &out) == 0;
    start_.extended.resize(out.iov_len);
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (memory_ != MAP_FAILED) munmap(memory_, kAreaSize);
  }
  bool usable() const { return usable_; }
  const State& start() const { return start_; }

  State Step(const Listed& instruction, const State& before) {
    State after = before;
    const auto begin = reinterpret_cast<uint64_t>(instruction.begin);
    after.general.rip = begin;
    after.general.orig_rax = ~0ull;
    memcpy(memory_, before.memory.data(), kAreaSize);
    iovec extended = {after.extended.data(), after.extended.size()};
    if (ptrace(PTRACE_SETREGS, pid_, nullptr, &after.general) != 0 ||
        ptrace(PTRACE_SETREGSET, pid_, NT_X86_XSTATE, &extended) != 0) {
      abort();
    }
    int status = 0;
    if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) != 0 ||
        waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status) ||
        ptrace(PTRACE_GETREGS, pid_, nullptr, &after.general) != 0) {
      abort();
    }
    if (WSTOPSIG(status) != SIGTRAP) after.signal = WSTOPSIG(status);
    extended = {after.extended.data(), after.extended.size()};
    if (ptrace(PTRACE_GETREGSET, pid_, NT_X86_XSTATE, &extended) != 0) abort();
    after.memory.assign(memory_, kAreaSize);
    after.general.eflags &= kStatusFlags;
    return after;
  }

 private:
  char* memory_ = nullptr;
  pid_t pid_ = -1;
  bool usable_ = false;
  State start_;
};

// A state in which every register but %rcx points to its own part of the area.
State Random(const State& start, std::mt19937_64* random, int trial) {
  State s = start;
  s.memory.resize(kAreaSize);
  for (char& c : s.memory) c = static_cast<char>((*random)());
  const auto fill = [&](int number) {
    for (const absl::Span<char> piece : PiecesOf(&s, number)) {
      for (char& byte : piece) byte = static_cast<char>((*random)());
    }
  };
  for (int v = 0; v < 32; ++v) fill(kFirstVectorRegister + v);
  fill(kOtherRegisters);
  for (int r = 0; r < kGprCount; ++r) {
    *GprIn(&s, r) = kArea + kApart * static_cast<uint64_t>(r + 1);
  }
  s.general.rcx = 3;
  s.general.rax |= 3;  // for xsave: what fxsave saves
  s.general.eflags = 0x202 | ((*random)() & kStatusFlags);
  // What a gather's indices may be.
  for (const absl::Span<char> piece : PiecesOf(&s, kIndices)) {
    for (size_t i = 0; i < piece.size(); ++i) {
      if (i % 4 != 0) piece[i] = 0;
    }
  }
  char* const x = s.extended.data();
  const uint64_t components = 0xe7;
  uint64_t supported = 0;
  memcpy(&supported, x + 464, 8);
  supported &= components;
  memcpy(x + 512, &supported, 8);
  // Numbers on the x87's stack, and room for one more.
  memcpy(x, "\x7f\x03\x00\x00\x7f", 5);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t b = 0; b < 8; ++b) x[32 + 16 * i + b] = static_cast<char>((*random)());
    x[32 + 16 * i + 7] |= static_cast<char>(0x80);
    x[32 + 16 * i + 8] = static_cast<char>(0x04 + i);
    x[32 + 16 * i + 9] = 0x40;
  }
  // Where to return to; what cmpxchg compares with, or calls and jumps go to; zeros.
  memcpy(&s.memory[*GprIn(&s, kRsp) - kArea], GprIn(&s, kRax), 8);
  char* const operand = &s.memory[*GprIn(&s, kRdi) - kArea];
  if (trial % 4 == 0 || trial % 4 == 3) {
    memcpy(operand, GprIn(&s, kRax), 8);
    memcpy(operand + (trial % 4 == 0 ? 8 : 4), GprIn(&s, kRdx), 8);
  }
  if (trial % 4 == 2) memset(operand, 0, 64);
  return s;
}

// Whether two outcomes differ in anything but register `except`, and memory [from, to).
bool Differ(State* a, State* b, int except, size_t from, size_t to) {
  if (a->signal != b->signal) return true;
  if (a->signal != 0) return false;
  if (a->general.rip != b->general.rip) return true;
  for (int r = 0; r < kRegisterCount; ++r) {
    if (r == except) continue;
    if (PiecesOf(a, r) != PiecesOf(b, r)) return true;
  }
  return memcmp(a->memory.data(), b->memory.data(), from) != 0 ||
         memcmp(a->memory.data() + to, b->memory.data() + to, kAreaSize - to) != 0;
}

// Whether one byte of two that are changed, each by the instruction, differs between two runs.
bool Mixed(char before_a, char after_a, char before_b, char after_b) {
  return after_a != after_b && !(before_a == after_a && before_b == after_b);
}

struct Seen {
  uint64_t reads = 0, writes = 0;
  std::vector<bool> memory_read, memory_written;  // of what is claimed
  std::string wrong;                              // what is not claimed at all
};

class Trial {
 public:
  Trial(Child* child, const Listed& instruction, const InstructionEffects& effects)
      : child_(child), instruction_(instruction), effects_(effects) {
    seen_.memory_read.resize(effects.memory.size());
    seen_.memory_written.resize(effects.memory.size());
  }

  const Seen& seen() const { return seen_; }
  bool executed() const { return executed_; }

  // False: the processor does not have it. What faults says nothing.
  bool Run(State before) {
    before_ = std::move(before);
    after_ = child_->Step(instruction_, before_);
    if (after_.signal != 0) return after_.signal != SIGILL;
    executed_ = true;
    Writes();
    for (int r = 0; r < kOtherRegisters; ++r) {
      // No instruction of the list names the vector registers between.
      const bool is_named =
          r < kFirstVectorRegister + 4 || r == kFirstVectorRegister + 16 || r == kX87Registers;
      if (is_named && !PiecesOf(&before_, r).empty()) Register(r);
    }
    std::vector<bool> claimed(kAreaSize);
    for (size_t k = 0; k < effects_.memory.size(); ++k) {
      const auto [from, to] = RangeOf(effects_.memory[k]);
      seen_.memory_read[k] = seen_.memory_read[k] || MemoryMatters(from, to);
      for (size_t i = from; effects_.memory[k].read && i < to; ++i) claimed[i] = true;
    }
    if (!IsUnknown()) OtherMemory(claimed);
    return true;
  }

 private:
  bool IsUnknown() const {
    return std::any_of(effects_.memory.begin(), effects_.memory.end(),
                       [](const MemoryOperand& m) { return m.unknown; });
  }

  // Of the area; nothing where it lies elsewhere.
  std::pair<size_t, size_t> RangeOf(const MemoryOperand& m) {
    uint64_t gpr[kGprCount];
    for (int r = 0; r < kGprCount; ++r) gpr[r] = *GprIn(&before_, r);
    const std::optional<Address> at = m.AddressOf(gpr);
    if (!at || at->v < kArea || at->v + m.size > kArea + kAreaSize) return {0, 0};
    return {at->v - kArea, at->v - kArea + m.size};
  }

  void Writes() {
    State was = before_;
    was.general.eflags &= kStatusFlags;
    for (int r = 0; r < kOtherRegisters; ++r) {
      if (PiecesOf(&was, r) != PiecesOf(&after_, r)) seen_.writes |= uint64_t{1} << r;
    }
    std::vector<bool> claimed(kAreaSize);
    for (size_t k = 0; k < effects_.memory.size(); ++k) {
      const auto [from, to] = RangeOf(effects_.memory[k]);
      for (size_t i = from; i < to; ++i) {
        if (before_.memory[i] != after_.memory[i]) seen_.memory_written[k] = true;
        if (effects_.memory[k].write) claimed[i] = true;
      }
    }
    for (size_t i = 0; i < kAreaSize; ++i) {
      if (before_.memory[i] != after_.memory[i] && !claimed[i] && !IsUnknown()) {
        seen_.wrong = "it writes memory that is not told of";
      }
    }
  }

  void Register(int r) {
    const uint64_t bit = uint64_t{1} << r;
    for (int way = 0; way < 3 && !(seen_.reads & bit); ++way) {
      State before = before_;
      if (r < kGprCount) {
        *GprIn(&before, r) = way == 0   ? *GprIn(&before, r) + (r == kRcx ? 2 : 0x141)
                             : way == 1 ? *GprIn(&before, r) ^ 0x80808080
                                        : 0;
      } else if (r == kFlagsRegister) {
        before.general.eflags ^= way == 0 ? kStatusFlags : way == 1 ? kCarry : kZeroAndSign;
      } else if (r == kX87Registers) {
        if (way > 0) break;
        for (size_t i = 0; i < 8; ++i) before.extended[32 + 16 * i + 6] ^= 0x55;
      } else {
        const int change = way == 0 ? 0x10 : way == 1 ? 0x81 : 0x6e;
        for (const absl::Span<char> piece : PiecesOf(&before, r)) {
          for (size_t i = 0; i < piece.size(); ++i) {
            // Of indices only what keeps them small.
            if (r != kIndices || i % 4 == 0) piece[i] ^= static_cast<char>(change);
          }
        }
      }
      State after = child_->Step(instruction_, before);
      bool read = Differ(&after_, &after, r, 0, 0);
      const Pieces a = PiecesOf(&before_, r), b = PiecesOf(&after_, r), c = PiecesOf(&before, r),
                   d = PiecesOf(&after, r);
      for (size_t p = 0; p < a.size() && r != kFlagsRegister && after.signal == 0; ++p) {
        for (size_t i = 0; i < a[p].size(); ++i) {
          read = read || Mixed(a[p][i], b[p][i], c[p][i], d[p][i]);
        }
      }
      if (read) seen_.reads |= bit;
    }
  }

  bool MemoryMatters(size_t from, size_t to) {
    for (const int change : {0xff, 0x11, 0x80}) {
      State before = before_;
      for (size_t i = from; i < to; ++i) before.memory[i] ^= static_cast<char>(change);
      State after = child_->Step(instruction_, before);
      if (Differ(&after_, &after, -1, from, to)) return true;
      for (size_t i = from; i < to; ++i) {
        if (Mixed(before_.memory[i], after_.memory[i], before.memory[i], after.memory[i])) {
          return true;
        }
      }
    }
    return false;
  }

  void OtherMemory(const std::vector<bool>& claimed) {
    State before = before_;
    for (size_t i = 0; i < kAreaSize; ++i) {
      if (!claimed[i]) before.memory[i] ^= 0x55;
    }
    State after = child_->Step(instruction_, before);
    bool read = Differ(&after_, &after, -1, 0, kAreaSize);
    for (size_t i = 0; i < kAreaSize; ++i) {
      read = read || Mixed(before_.memory[i], after_.memory[i], before.memory[i], after.memory[i]);
    }
    if (read) seen_.wrong = "it reads memory that is not told of";
  }

  Child* child_;
  const Listed& instruction_;
  const InstructionEffects& effects_;
  State before_, after_;
  Seen seen_;
  bool executed_ = false;
};

std::string NamesOf(uint64_t registers) {
  std::string names;
  for (uint8_t r = 0; r < kRegisterCount; ++r) {
    if (registers >> r & 1) names += " " + RegisterText(r);
  }
  return names;
}

TEST(InstructionEffects, AreTheProcessors) {
  Child child;
  if (!child.usable()) GTEST_SKIP() << "this machine allows no ptrace of a child";
  const EffectsReader reader;
  std::mt19937_64 random(1);
  int executed = 0;
  for (const Listed* i = ttq_instructions; i->begin != nullptr; ++i) {
    const std::string_view code(reinterpret_cast<const char*>(i->begin),
                                static_cast<size_t>(i->end - i->begin));
    const InstructionEffects effects =
        reader.Read(Address(reinterpret_cast<uint64_t>(i->begin)), code);
    if (effects.size != code.size()) continue;  // the decoder does not know it
    Trial trial(&child, *i, effects);
    const Seen& seen = trial.seen();
    const uint64_t claimed = effects.reads | effects.addressing;
    bool exists = true, all = false;
    for (int t = 0; t < kTrials && exists && !all; ++t) {
      exists = trial.Run(Random(child.start(), &random, t));
      all = t >= 1 && (effects.writes >> kRax & 1) <= (seen.writes >> kRax & 1);
      for (size_t k = 0; k < effects.memory.size(); ++k) {
        const MemoryOperand& m = effects.memory[k];
        all = all && (m.unknown ||
                      ((seen.memory_read[k] || !m.read) && (seen.memory_written[k] || !m.write)));
      }
    }
    if (!trial.executed()) continue;
    ++executed;
    EXPECT_EQ(seen.wrong, "") << i->text;
    EXPECT_EQ(NamesOf(seen.reads & ~claimed), "") << i->text << ": reads it";
    EXPECT_EQ(NamesOf(seen.writes & ~effects.writes), "") << i->text << ": writes it";
    for (size_t k = 0; k < effects.memory.size(); ++k) {
      const MemoryOperand& m = effects.memory[k];
      if (m.unknown) continue;
      EXPECT_EQ(m.read, seen.memory_read[k]) << i->text << ": reads operand " << k;
      EXPECT_EQ(m.write, seen.memory_written[k]) << i->text << ": writes operand " << k;
    }
  }
  EXPECT_GT(executed, 150);
}

}  // namespace
}  // namespace ttq
