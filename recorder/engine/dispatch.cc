// SPDX-License-Identifier: MIT
//
// Superblocks are found by a hash of their address; a direct jump between two is patched the first
// time that it is taken. Indirect ones go through Context::jump, a hash table whose chains are
// code: the checks that superblocks begin with (translate.cc), each of which leads to the next. All
// translations are given up at once when memory changes that code was translated from, or when
// there is no room.
//
// Code that a just-in-time compiler has made may change without a system call. A superblock of such
// code begins with a comparison of the instructions with what was translated, and leaves to the
// engine where they differ. The body of one that another takes the place of jumps to the other's.
// Nothing can change the instructions while it runs: it ends behind the first store, and no other
// thread runs meanwhile. Whether they can still be executed it learns from a count of changes of
// mappings.

#include "recorder/engine/dispatch.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "recorder/engine/clock.h"
#include "recorder/engine/code_cache.h"
#include "recorder/engine/cpuid.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/replay.h"
#include "recorder/engine/ring.h"
#include "recorder/engine/signals.h"
#include "recorder/engine/syscalls.h"
#include "recorder/engine/threads.h"
#include "recorder/mark.h"

namespace ttq::engine {

alignas(4096) Context g_context;
Translations g_translations;

namespace {

constexpr unsigned kHashBits = 20;
constexpr size_t kHashSize = size_t{1} << kHashBits;
constexpr uint64_t kLongestTranslation = 256 << 10;

uint32_t* g_by_hash;                         // number + 1
uint8_t g_check_count[1 << kJumpTableBits];  // behind each place in Context::jump
uint64_t g_generation;                       // of translations
Translator g_translator;

uint32_t* Slot(uint64_t pc) {
  size_t i = HashOfPc(pc, kHashBits);
  while (g_by_hash[i] != 0 && g_translations.superblocks[g_by_hash[i] - 1].pc != pc) {
    i = (i + 1) & (kHashSize - 1);
  }
  return &g_by_hash[i];
}

void* Reserve(size_t bytes, uint64_t at) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  const int64_t r = at == 0 ? MapOwn(bytes, kFlags)
                            : Syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                                      kFlags | MAP_FIXED_NOREPLACE, ~uint64_t{0}, 0);
  if (Failed(r) || (at != 0 && static_cast<uint64_t>(r) != at)) {
    Refuse(Text() << "the engine gets no memory for its code (see ulimit -v)");
  }
  auto* reserved = reinterpret_cast<void*>(r);
  PreferHugePages(reserved, bytes);
  return reserved;
}

void Clear() {
  Translations& t = g_translations;
  t.made = t.taken = 0;
  t.exit_count = 0;
  t.code = reinterpret_cast<uint8_t*>(kCodeBegin);
  t.stubs = reinterpret_cast<uint8_t*>(kStubsBegin);
  t.literals = reinterpret_cast<uint64_t*>(kLiteralsBegin);
  for (const void*& entry : g_context.jump) entry = reinterpret_cast<const void*>(&EngineMiss);
  memset(g_check_count, 0, sizeof(g_check_count));
}

bool IsFull() {
  const Translations& t = g_translations;
  return Number(t.code) + kLongestTranslation > kCodeBegin + kCodeBytes ||
         Number(t.stubs) + kLongestTranslation > kLiteralsBegin ||
         Number(t.literals) + kPage > kStubsBegin + kStubsBytes ||
         t.made + t.taken == kMaxSuperblocks || t.exit_count + 1024 > kMaxExits;
}

bool IsUnchanged(const Superblock& s) {
  for (unsigned k = 0; k < s.run_count; ++k) {
    const CodeRun& run = s.runs[k];
    if (memory::ExecutableBytes(run.pc, run.bytes) != run.bytes ||
        memcmp(reinterpret_cast<const void*>(run.pc), run.content, run.bytes) != 0) {
      return false;
    }
  }
  return s.run_count != 0;
}

// What leads to a superblock whose code has changed leads to another from now on.
void TakePlace(const Superblock& changed, const Superblock& now) {
  if (!changed.can_be_linked() || !now.can_be_linked()) return;
  Code code;
  code.set_at(changed.body);
  code.Jump(now.body);
}

// The superblock at Context::pc, translated if need be.
const Superblock& SuperblockHere() {
  const uint64_t pc = g_context.pc;
  uint32_t* slot = Slot(pc);
  if (*slot != 0) {
    const Superblock& known = g_translations.superblocks[*slot - 1];
    if (!known.may_change) return known;
    if (IsUnchanged(known)) {
      memcpy(known.changes, &g_context.executable_changes, sizeof(g_context.executable_changes));
      return known;
    }
  }
  if (IsFull()) {
    FlushTranslations();
    slot = Slot(pc);
  }
  Translations& t = g_translations;
  const uint64_t generation = g_generation;
  uint32_t number = kMaxSuperblocks - 1 - t.taken;
  const bool is_kept = code_cache::Take(pc, number, &t.superblocks[number]);
  if (!is_kept) number = t.made;
  Superblock& superblock = t.superblocks[number];
  if (!is_kept) {
    const uint32_t exit = t.exit_count, stub = t.stub_bytes(), literal = t.literal_count();
    g_translator.Translate(pc, &superblock);
    superblock.first_exit = exit, superblock.first_stub = stub, superblock.first_literal = literal;
  }
  if (generation != g_generation) {  // the block that began for its recipe keeps something else
    FlushTranslations();
    return SuperblockHere();
  }
  ++(is_kept ? t.taken : t.made);
  if (*slot != 0) TakePlace(t.superblocks[*slot - 1], superblock);
  *slot = number + 1;
  return superblock;
}

// Indirect branches to other superblocks with these low bits look at this one first from now on. Of
// too many, the others are forgotten: to ask the engine is faster then.
void AddCheck(const Superblock& s) {
  constexpr unsigned kMaxChecks = 16;
  const uint64_t place = s.pc & ((1 << kJumpTableBits) - 1);
  const bool is_full = g_check_count[place] == kMaxChecks;
  Code::Patch(s.next_check(),
              is_full ? reinterpret_cast<const void*>(&EngineMiss) : g_context.jump[place]);
  g_context.jump[place] = s.checked;
  g_check_count[place] = static_cast<uint8_t>(is_full ? 1 : g_check_count[place] + 1);
}

bool CanExecute() { return memory::ExecutableBytes(g_context.pc, 1) != 0; }

void GoOnIn(const Superblock& s) {
  g_context.resume = reinterpret_cast<uint64_t>(s.body);
  ring::EnterCode();
}

void GoOn() {
  if (replay::IsOn()) {
    replay::Continue();
    if (!CanExecute()) replay::Differ("code that cannot be executed");
  }
  if (signals::Waiting()) signals::Deliver();
  while (!CanExecute()) signals::RaiseAtFetch(g_context.pc);
  GoOnIn(SuperblockHere());
}

// popf: the value is in Context::target.
void PopFlags() {
  constexpr uint64_t kTrap = 0x100, kProgram = 0x204dd5;
  const uint64_t value = g_context.target;
  if (value & kTrap) Refuse((Text() << "a program that steps itself, at 0x").Hex(g_context.pc));
  g_context.flags = (g_context.flags & ~kProgram) | (value & kProgram);
  g_context.alignment_check = value & kAlignmentCheck;
  const uint64_t direction = value & kDirectionFlag ? ~uint64_t{0} : 1;
  memcpy(reinterpret_cast<void*>(g_context.log - 8), &direction, 8);
}

// The program's instruction at `pc`, whose results nothing determines, has been executed, all but
// cpuid. They are told, and put into the last slots of the record.
void TakeUndetermined(uint64_t pc) {
  constexpr uint64_t kArithmetic = 0x8d5;  // flags
  Instruction i;
  Decode(reinterpret_cast<const uint8_t*>(pc), memory::ExecutableBytes(pc, kLongestInstruction), pc,
         &i);
  g_context.pc = i.next();
  uint64_t* r = g_context.r;
  if (IsCpuid(i)) EmulateCpuid(r);
  TtqUndetermined u = {};
  u.tid = threads::Current();
  u.flags = g_context.flags & kArithmetic;
  const auto for_each = [&i](auto f) {
    for (unsigned reg = 0, k = 0; reg < 16; ++reg) {
      if (i.writes >> reg & 1) f(reg, k++);
    }
  };
  for_each([&](unsigned reg, unsigned k) { u.value[k] = r[reg], u.count = k + 1; });
  if (replay::IsOn()) u = replay::Undetermined(u);
  g_context.flags = (g_context.flags & ~kArithmetic) | u.flags;
  for_each([&](unsigned reg, unsigned k) { r[reg] = u.value[k]; });
  memcpy(reinterpret_cast<void*>(g_context.log - uint64_t{8} * u.count), u.value, 8 * u.count);
  ring::AppendStruct(kTtqUndetermined, u);
}

// The bits of a double next to a number of the x87: a mantissa of 64 bits; sign and exponent.
uint64_t ToDouble(uint64_t mantissa, uint32_t sign_and_exponent) {
  constexpr int kBias = 16383 - 1023, kInfinite = 0x7ff;
  constexpr unsigned kDropped = 11;  // bits
  const uint64_t sign = uint64_t{sign_and_exponent >> 15 & 1} << 63;
  const uint32_t from = sign_and_exponent & 0x7fff;
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  if (from == 0x7fff) {  // infinity, or none
    const uint64_t fraction = mantissa >> kDropped & kFraction;
    const bool is_none = mantissa << 1 != 0;
    return sign | uint64_t{kInfinite} << 52 | (is_none ? fraction | uint64_t{1} << 51 : 0);
  }
  int exponent = static_cast<int>(from) - kBias;
  unsigned drop = kDropped;
  if (exponent <= 0) {
    if (exponent < -53) return sign;
    drop += static_cast<unsigned>(1 - exponent);
    exponent = 0;
  }
  if (drop > 63) return sign;
  uint64_t kept = mantissa >> drop;
  const uint64_t rest = mantissa & ((uint64_t{1} << drop) - 1), half = uint64_t{1} << (drop - 1);
  if (rest > half || (rest == half && kept & 1)) ++kept;  // to the nearest, or to the even one
  if (exponent > 0) {
    // The leading bit is not stored: one more is added to the exponent where rounding carried.
    const uint64_t number = (static_cast<uint64_t>(exponent - 1) << 52) + kept;
    return sign | (number >> 52 >= kInfinite ? uint64_t{kInfinite} << 52 : number);
  }
  return sign | kept;
}

void SaveFloat() {
  alignas(16) static uint8_t state[512];
  __asm__ volatile("fxsave64 %0" : "=m"(state));
  constexpr unsigned kFirst = 32;
  uint64_t mantissa;
  uint16_t sign_and_exponent;
  memcpy(&mantissa, state + kFirst, 8);
  memcpy(&sign_and_exponent, state + kFirst + 8, 2);
  const uint64_t bits = ToDouble(mantissa, sign_and_exponent);
  memcpy(reinterpret_cast<void*>(g_context.log - 8), &bits, 8);
}

// `at`: its text.
void LeaveMark(uint64_t at) {
  if (replay::IsOn()) return replay::Repeat(kTtqMark);
  constexpr uint64_t kMaxText = 4095;
  static char text[kMaxText + 1];
  const size_t readable = ReadGuest(at, text, kMaxText);
  text[readable] = 0;
  TtqMark mark = {};
  mark.tid = threads::Current();
  mark.wall_ns = WallNs();
  ring::Append(kTtqMark, &mark, sizeof(mark), text, Length(text));
}

// What the words at rax ask for.
void TakeRequest() {
  uint64_t request[2] = {};
  ReadGuest(g_context.r[kRax], request, sizeof(request));
  if (request[0] == TTQ_REQUEST_MARK && request[1] != 0) LeaveMark(request[1]);
}

// Whether the processor knows no instruction at `pc`, where the engine knows none: a child tries,
// for one step.
bool IsInvalid(uint64_t pc) {
  constexpr uint64_t kTraced = 0x302, kCode = 0x33, kData = 0x2b, kAnyChild = 0x40000000;
  constexpr int kSignalBits = 0x7f, kIllegal = 4;
  const int64_t child = Syscall(SYS_clone, 0);
  if (child == 0) {
    const uint64_t none[2] = {};
    Syscall(SYS_prlimit64, 0, RLIMIT_CORE, reinterpret_cast<uint64_t>(none));
    signals::ForgetActions();
    const uint64_t frame[] = {pc, kCode, kTraced, g_context.r[kRsp], kData};
    __asm__ volatile("mov %0, %%rsp\n\tiretq" ::"r"(frame) : "memory");
    __builtin_unreachable();
  }
  int status = 0;
  return !Failed(child) &&
         Syscall(SYS_wait4, static_cast<uint64_t>(child), reinterpret_cast<uint64_t>(&status),
                 kAnyChild) == child &&
         (status & kSignalBits) == kIllegal;
}

[[noreturn]] void RefuseInstruction(uint64_t pc) {
  uint8_t bytes[kLongestInstruction] = {};
  const size_t n = ReadGuest(pc, bytes, sizeof(bytes));
  Text t;
  t << "an instruction that the native engine does not know, at 0x";
  t.Hex(pc) << ":";
  for (size_t i = 0; i < n; ++i) (t << (bytes[i] < 16 ? " 0" : " ")).Hex(bytes[i]);
  Refuse(t);
}

}  // namespace

void SetUpCode() {
  g_translations.superblocks =
      static_cast<Superblock*>(Reserve(kMaxSuperblocks * sizeof(Superblock), 0));
  g_by_hash = static_cast<uint32_t*>(Reserve(kHashSize * sizeof(uint32_t), 0));
  g_translations.exits = static_cast<Exit*>(Reserve(kMaxExits * sizeof(Exit), 0));
  Reserve(kCodeBytes, kCodeBegin);
  Reserve(kStubsBytes, kStubsBegin);
  memory::SetFlush(FlushTranslations);
  Clear();
}

void FlushTranslations() {
  ++g_generation;
  code_cache::Close();
  Syscall(SYS_madvise, reinterpret_cast<uint64_t>(g_by_hash), kHashSize * sizeof(uint32_t),
          MADV_DONTNEED);
  Clear();
}

const Superblock* FindByCode(uint64_t code) {
  const Translations& t = g_translations;
  const Superblock* found = code_cache::Find(code);
  if (found == nullptr) {
    uint32_t low = 0, high = t.made;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (reinterpret_cast<uint64_t>(t.superblocks[middle].end) <= code) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == t.made) return nullptr;
    found = &t.superblocks[low];
  }
  return reinterpret_cast<uint64_t>(found->body) <= code ? found : nullptr;
}

void Resume() {
  GoOn();
  EngineResume();
}

const uint8_t* MakeStub(ExitKind kind, uint64_t target, uint8_t* distance) {
  Translations& t = g_translations;
  const uint8_t* stub = t.stubs;
  t.exits[t.exit_count] = {
      target,
      distance == nullptr
          ? 0
          : static_cast<uint32_t>(distance - reinterpret_cast<uint8_t*>(kCodeBegin)),
      static_cast<uint32_t>(stub - reinterpret_cast<uint8_t*>(kStubsBegin)), kind};
  Code code;
  code.set_at(t.stubs);
  code.StoreConstantTo(t.exit_count++, &g_context.exit);
  code.Jump(reinterpret_cast<const void*>(&EngineExit));
  t.stubs = code.at();
  return stub;
}

const uint64_t* MakeLiteral(uint64_t value) {
  *g_translations.literals = value;
  return g_translations.literals++;
}

uint8_t* NextCode() { return g_translations.code; }
void SetNextCode(uint8_t* at) { g_translations.code = at; }

const uint8_t* FindBody(uint64_t pc) {
  const uint32_t* slot = Slot(pc);
  if (*slot == 0) return nullptr;
  const Superblock& s = g_translations.superblocks[*slot - 1];
  return s.can_be_linked() ? s.body : nullptr;
}

extern "C" {

void HandleExit() {
  ring::LeaveCode();
  const Exit exit = g_translations.exits[static_cast<uint32_t>(g_context.exit)];
  g_context.pc = exit.target;
  switch (exit.kind) {
    case kLink: {
      if (!CanExecute()) break;
      const uint64_t generation = g_generation;
      const Superblock& s = SuperblockHere();
      if (generation == g_generation && s.can_be_linked()) {
        Code::Patch(exit.distance_at(), s.body);
      }
      return GoOnIn(s);
    }
    case kChanged:
      if (!CanExecute()) break;
      return GoOnIn(SuperblockHere());
    case kRoom:
      if (signals::Waiting()) break;
      if (replay::IsOn() && replay::IsDue()) break;
      if (ring::IsFull()) ring::NextBlock(true);
      threads::EndTurn();
      break;
    case kSyscall:
      replay::IsOn() ? replay::Execute() : syscalls::Execute();
      break;
    case kUndetermined:
      TakeUndetermined(exit.target);
      break;
    case kPopFlags:
      PopFlags();
      break;
    case kSaveFloat:
      SaveFloat();
      break;
    case kRequest:
      TakeRequest();
      break;
    case kRefuse: {
      const size_t bytes = memory::ExecutableBytes(exit.target, kLongestInstruction);
      Instruction i;
      const bool known =
          Decode(reinterpret_cast<const uint8_t*>(exit.target), bytes, exit.target, &i);
      if (replay::IsOn()) {
        if (!replay::IsDue()) replay::Differ("code that cannot be executed");
      } else if (!known && i.is_cut) {
        signals::RaiseAtFetch(exit.target + bytes);
      } else if ((!known || i.lock) && IsInvalid(exit.target)) {
        signals::RaiseInvalid();
      } else {
        RefuseInstruction(exit.target);
      }
      break;
    }
  }
  GoOn();
}

void HandleMiss() {
  ring::LeaveCode();
  g_context.pc = g_context.target;
  if (!CanExecute()) return GoOn();
  const Superblock& s = SuperblockHere();
  if (s.can_be_linked()) AddCheck(s);
  GoOnIn(s);
}

}  // extern "C"

// Offsets in Context.
static_assert(offsetof(Context, flags) == 128 && offsetof(Context, log) == 144 &&
              offsetof(Context, target) == 176 && offsetof(Context, resume) == 192 &&
              offsetof(Context, engine_stack) == 200);
#define TTQ_CONTEXT "_ZN3ttq6engine9g_contextE"
__asm__(
    ".text\n.globl EngineExit, EngineMiss, EngineResume\n"
    ".macro TTQ_SAVE\n"
    "  mov %rax, " TTQ_CONTEXT
    "+0\n"
    "  mov %rdx, " TTQ_CONTEXT "+16\n  mov %rbx, " TTQ_CONTEXT
    "+24\n"
    "  mov %rsp, " TTQ_CONTEXT "+32\n  mov %rbp, " TTQ_CONTEXT
    "+40\n"
    "  mov %rsi, " TTQ_CONTEXT "+48\n  mov %rdi, " TTQ_CONTEXT
    "+56\n"
    "  mov %r8, " TTQ_CONTEXT "+64\n  mov %r9, " TTQ_CONTEXT "+72\n  mov %r12, " TTQ_CONTEXT
    "+96\n"
    "  mov %r13, " TTQ_CONTEXT "+104\n  mov %r14, " TTQ_CONTEXT
    "+112\n"
    "  mov %r15, " TTQ_CONTEXT "+120\n  mov %r11, " TTQ_CONTEXT
    "+144\n"
    "  mov " TTQ_CONTEXT "+200, %rsp\n  pushfq\n  pop " TTQ_CONTEXT
    "+128\n  cld\n"
    ".endm\n"
    "EngineExit:\n"
    "  mov %rcx, " TTQ_CONTEXT "+8\n  mov %r10, " TTQ_CONTEXT
    "+80\n"
    "  TTQ_SAVE\n  call HandleExit\n  jmp EngineResume\n"
    "EngineMiss:\n"
    "  mov %r10, " TTQ_CONTEXT
    "+176\n"
    "  TTQ_SAVE\n  call HandleMiss\n"
    "EngineResume:\n"
    "  mov " TTQ_CONTEXT "+200, %rsp\n  push " TTQ_CONTEXT
    "+128\n  popfq\n"
    "  mov " TTQ_CONTEXT "+0, %rax\n  mov " TTQ_CONTEXT
    "+8, %rcx\n"
    "  mov " TTQ_CONTEXT "+16, %rdx\n  mov " TTQ_CONTEXT
    "+24, %rbx\n"
    "  mov " TTQ_CONTEXT "+32, %rsp\n  mov " TTQ_CONTEXT
    "+40, %rbp\n"
    "  mov " TTQ_CONTEXT "+48, %rsi\n  mov " TTQ_CONTEXT
    "+56, %rdi\n"
    "  mov " TTQ_CONTEXT "+64, %r8\n  mov " TTQ_CONTEXT
    "+72, %r9\n"
    "  mov " TTQ_CONTEXT "+80, %r10\n  mov " TTQ_CONTEXT
    "+96, %r12\n"
    "  mov " TTQ_CONTEXT "+104, %r13\n  mov " TTQ_CONTEXT
    "+112, %r14\n"
    "  mov " TTQ_CONTEXT "+120, %r15\n  mov " TTQ_CONTEXT
    "+144, %r11\n"
    "  jmp *" TTQ_CONTEXT "+192\n");

}  // namespace ttq::engine
