// SPDX-License-Identifier: MIT
//
// Each thread of the program is a thread of the kernel's that makes its own system calls, so that
// its number, its signals, futexes and all else that the kernel does for it are as they would be.
// One runs at a time, the program's code or the engine's: the one whose turn it is. It lets others
// run while it is in a system call that may wait for them, and, when some wait, after a turn of so
// many bytes of log; turns are taken in the order in which threads ask. So switches are between two
// superblocks, where the stream says so.
//
// There is one context, at an address that translated code has in its instructions. Whoever gets
// the turn after another thread puts that one's registers away and its own in place: 160 bytes a
// switch, where a context for each thread, by gs, would cost a prefix and a register's worth of
// address in every access, and gs is the program's. Vector registers, fs and gs stay in the
// processor.
//
// Each thread has an area for its Thread, for the stack of its signal handlers and for the engine's
// stack, in this order and aligned, so that a handler finds the thread by its stack pointer.
// Handlers come at any moment, whosever turn it is: they touch nothing but Thread::signals.

#include "recorder/engine/threads.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "recorder/engine/context.h"
#include "recorder/engine/dispatch.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/ring.h"

namespace ttq::engine {

extern "C" int64_t EngineClone(uint64_t flags, uint64_t stack, uint64_t set_in_parent,
                               volatile uint32_t* in_kernel, uint64_t fs_base);

namespace threads {
namespace {

constexpr uint64_t kAreaBytes = 128 << 10, kHandlerStackAt = 8 << 10, kHandlerStackBytes = 32 << 10;
static_assert(sizeof(Thread) <= kHandlerStackAt);
constexpr uint64_t kTurnBytes = 256 << 10;
constexpr int64_t kInvalid = -22;

// Turns are tickets. In memory that a forked child shares with its parent, see
// LetParentsThreadsRun.
struct Turns {
  uint32_t next, current;
};
Turns* g_turns;

uint64_t g_areas;      // of the threads, by number
Thread* g_running;     // null while nobody has taken the turn
Thread* g_in_context;  // whose registers the context holds; null when it has ended
uint32_t g_count;      // of threads
uint64_t g_made;       // of all times
constexpr uint32_t kFirst = 1;

uint64_t Number(const volatile void* p) { return reinterpret_cast<uint64_t>(p); }
uint64_t OwnNumber() { return static_cast<uint64_t>(Syscall(SYS_gettid)); }

Thread& At(uint32_t number) { return *reinterpret_cast<Thread*>(g_areas + number * kAreaBytes); }

template <class F>
void ForEachAlive(F f) {
  for (uint32_t n = 1; n <= kTtqMaxThreads; ++n) {
    if (At(n).alive) f(At(n));
  }
}

// ---- Turns -------------------------------------------------------------------------------------

void MakeTurns() {
  constexpr int kFlags = MAP_SHARED | MAP_ANONYMOUS;
  const int64_t r = g_turns == nullptr
                        ? MapOwn(kPage, kFlags)
                        : Syscall(SYS_mmap, Number(g_turns), kPage, PROT_READ | PROT_WRITE,
                                  static_cast<uint64_t>(kFlags | MAP_FIXED), ~uint64_t{0});
  if (Failed(r)) Refuse(Text() << "the engine gets no memory (see ulimit -v)");
  g_turns = reinterpret_cast<Turns*>(r);
  g_turns->next = 1;
}

uint32_t BitOf(uint32_t ticket) { return 1u << (ticket & 31); }

void Take() {
  const uint32_t ticket = __atomic_fetch_add(&g_turns->next, 1, __ATOMIC_SEQ_CST);
  for (;;) {
    const uint32_t current = __atomic_load_n(&g_turns->current, __ATOMIC_SEQ_CST);
    if (current == ticket) return;
    Syscall(SYS_futex, Number(&g_turns->current), FUTEX_WAIT_BITSET, current, 0, 0, BitOf(ticket));
  }
}

void Give() {
  const uint32_t now = __atomic_add_fetch(&g_turns->current, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&g_turns->next, __ATOMIC_SEQ_CST) == now) return;
  constexpr uint64_t kAll = 0x7fffffff;
  Syscall(SYS_futex, Number(&g_turns->current), FUTEX_WAKE_BITSET, kAll, 0, 0, BitOf(now));
}

bool OthersWait() {
  return __atomic_load_n(&g_turns->next, __ATOMIC_SEQ_CST) - g_turns->current > 1;
}

// ---- What is told ------------------------------------------------------------------------------

// The value of st(0) as a double, as far as one can hold it. `at`: ten bytes.
uint64_t NarrowExtended(const uint8_t* at) {
  uint64_t mantissa;
  uint16_t head;
  memcpy(&mantissa, at, 8);
  memcpy(&head, at + 8, 2);
  constexpr int kBias = 16383 - 1023, kMaxExponent = 2047;
  const uint64_t sign = static_cast<uint64_t>(head >> 15) << 63;
  const int exponent = (head & 0x7fff) - kBias;
  if ((head & 0x7fff) == 0x7fff) {
    const bool is_nan = mantissa << 1 != 0;
    return sign | uint64_t{kMaxExponent} << 52 |
           (is_nan ? uint64_t{1} << 51 | (mantissa >> 11 & ((1ull << 51) - 1)) : 0);
  }
  if (mantissa == 0 || exponent <= 0) return sign;
  // To the nearest, ties to even; a carry goes into the exponent.
  const uint64_t kept = mantissa >> 11 & ((uint64_t{1} << 52) - 1), rest = mantissa & 2047;
  const uint64_t up = rest > 1024 || (rest == 1024 && kept & 1) ? 1 : 0;
  const uint64_t value = (static_cast<uint64_t>(exponent) << 52 | kept) + up;
  if (exponent >= kMaxExponent || value >> 52 >= static_cast<uint64_t>(kMaxExponent)) {
    return sign | uint64_t{kMaxExponent} << 52;
  }
  return sign | value;
}

void ReadVectors(TtqVectors* v) {
  alignas(16) uint8_t state[512];
  __asm__ volatile("fxsave64 %0" : "=m"(state));
  constexpr unsigned kX87 = 32, kXmm = 160, kRegisterBytes = 16;
  for (unsigned i = 0; i < kTtqVectorCount; ++i) {
    memcpy(&v->word[i], state + kXmm + i * kRegisterBytes, 8);
    memcpy(&v->word[kTtqHighWord + i], state + kXmm + i * kRegisterBytes + 8, 8);
  }
  v->word[kTtqX87Word] = NarrowExtended(state + kX87);
}

void TellRegistersOf(const Thread& t) {
  const bool in_context = &t == g_in_context;
  TtqRegisters r = {};
  r.tid = t.number;
  memcpy(r.reg, in_context ? g_context.r : t.r, sizeof(t.r));
  r.reg[kTtqRegFs] = in_context ? g_context.fs_base : t.fs_base;
  r.reg[kTtqRegGs] = in_context ? g_context.gs_base : t.gs_base;
  const uint64_t flags = in_context ? g_context.flags : t.flags;
  r.reg[kTtqRegDirection] = flags & kDirectionFlag ? ~uint64_t{0} : 1;
  r.pc = in_context ? g_context.pc : t.pc;
  ring::AppendStruct(kTtqRegisters, r);
}

void TellVectorsOf(Thread* t) {
  if (t == g_running) ReadVectors(&t->vectors);
  t->vectors.tid = t->number;
  ring::AppendStruct(kTtqVectors, t->vectors);
}

void TellStart(const Thread& t) {
  TtqThread s = {};
  s.tid = t.number;
  s.os_tid = t.os_number;
  s.parent = t.parent;
  s.number = t.made_as;
  ring::AppendStruct(kTtqThreadStart, s);
}

// ---- Contexts ----------------------------------------------------------------------------------

void Save(Thread* t) {
  memcpy(t->r, g_context.r, sizeof(t->r));
  t->flags = g_context.flags | g_context.alignment_check;
  t->pc = g_context.pc;
  t->fs_base = g_context.fs_base;
  t->gs_base = g_context.gs_base;
}

void Load(const Thread& t) {
  memcpy(g_context.r, t.r, sizeof(t.r));
  g_context.flags = t.flags & ~kAlignmentCheck;
  g_context.alignment_check = t.flags & kAlignmentCheck;
  g_context.pc = t.pc;
  g_context.fs_base = t.fs_base;
  g_context.gs_base = t.gs_base;
  g_context.engine_stack = Number(&t) + kAreaBytes;
}

// ---- Ends --------------------------------------------------------------------------------------

// The kernel marks the robust locks that a thread still holds when it ends: their owner died. Here
// it is done before, in its turn.
void LeaveRobustLock(const Thread& t, uint64_t word) {
  constexpr uint32_t kOwner = 0x3fffffff, kDied = 0x40000000, kWaiters = 0x80000000;
  uint32_t value;
  if (ReadGuest(word, &value, 4) != 4 || !memory::IsWritable(word)) return;
  auto* lock = reinterpret_cast<uint32_t*>(word);
  while ((value & kOwner) == t.os_number) {
    const uint32_t marked = (value & kWaiters) | kDied;
    if (!__atomic_compare_exchange_n(lock, &value, marked, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
      continue;
    }
    memory::Send(kTtqByThreadExit, word, 4);
    if (value & kWaiters) Syscall(SYS_futex, word, FUTEX_WAKE, 1);
    return;
  }
}

void LeaveRobustLocks(const Thread& t) {
  struct {
    uint64_t first, offset, pending;
  } head;
  constexpr uint64_t kInherits = 1;     // a flag in the address; the kernel sees to these
  constexpr unsigned kMaxLocks = 2048;  // as far as the kernel goes
  if (t.robust_list == 0 || ReadGuest(t.robust_list, &head, sizeof(head)) != sizeof(head)) return;
  uint64_t at = head.first;
  for (unsigned n = 0; n < kMaxLocks && (at & ~kInherits) != t.robust_list; ++n) {
    uint64_t next;
    if (ReadGuest(at & ~kInherits, &next, 8) != 8) break;
    if (!(at & kInherits)) LeaveRobustLock(t, at + head.offset);
    at = next;
  }
  if (head.pending != 0 && !(head.pending & kInherits)) {
    LeaveRobustLock(t, head.pending + head.offset);
  }
}

Thread* FindFree() {
  for (uint32_t n = 1; n <= kTtqMaxThreads; ++n) {
    if (!At(n).taken && At(n).in_kernel == 0) return &At(n);
  }
  Refuse(Text() << "more than " << uint64_t{kTtqMaxThreads} << " threads");
}

}  // namespace

void Enter(Thread* self) {
  g_running = self;
  memory::SetThread(self->number);
  Thread* before = g_in_context;
  if (before != self) {
    if (before != nullptr) {
      Save(before);
      g_in_context = nullptr;
    }
    Load(*self);
    ring::SetInterruptedBy(&self->signals.waits);
    if (!self->alive) TellStart(*self);
    self->alive = true;
    g_in_context = self;
    if (before != nullptr) TellRegistersOf(*before);  // where it stopped
    ring::Append(kTtqThread, &self->number, 4);
    TellRegisters();
    TellVectors();
  } else {
    ring::LookForInterrupts();
  }
  ring::BeginTurn(IsAlone() ? 0 : kTurnBytes);
}

Thread* Running() { return g_running; }
uint32_t Current() { return g_running->number; }
bool IsAlone() { return g_count == 1; }

Thread* Interrupted() {
  const auto here = Number(__builtin_frame_address(0));
  return reinterpret_cast<Thread*>(here & ~(kAreaBytes - 1));
}

signals::Stack HandlerStack(const Thread& thread) {
  return {Number(&thread) + kHandlerStackAt, 0, 0, kHandlerStackBytes};
}

void SetUp() {
  const int64_t r =
      MapOwn((kTtqMaxThreads + 2) * kAreaBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (Failed(r)) Refuse(Text() << "the engine gets no memory (see ulimit -v)");
  g_areas = (static_cast<uint64_t>(r) + kAreaBytes - 1) & ~(kAreaBytes - 1);
  MakeTurns();
  Thread& t = At(kFirst);
  t.number = kFirst;
  t.taken = true;
  g_running = g_in_context = &t;
  memory::SetThread(kFirst);
  g_count = 1;
  g_context.engine_stack = Number(&t) + kAreaBytes;
  ring::SetInterruptedBy(&t.signals.waits);
}

void Begin() { BeginAs(static_cast<uint32_t>(OwnNumber())); }

void BeginAs(uint32_t os_number) {
  Thread& t = *g_running;
  t.parent = 0;
  t.made_as = g_made = 1;
  t.os_number = os_number;
  t.in_kernel = 1;
  Syscall(SYS_set_tid_address, Number(&t.in_kernel));
  TellStart(t);
  t.alive = true;
  BeginBlock();
}

// The one that forked goes on alone.
static void LeaveOthers() {
  MakeTurns();
  for (uint32_t n = 1; n <= kTtqMaxThreads; ++n) {
    Thread& t = At(n);
    t.alive = false;
    if (&t == g_running) continue;
    t.taken = false;
    t.in_kernel = 0;
  }
  g_count = 1;
  g_running->robust_list = g_running->clear_address = 0;
  ring::BeginTurn(0);
}

void BeginInChildAs(uint32_t os_number) {
  LeaveOthers();
  BeginAs(os_number);
}

void BeginInChild() {
  Thread* self = g_running;
  MemoryRange left[16];
  size_t count[kTtqMaxThreads + 1] = {};
  for (uint32_t n = 1; n <= kTtqMaxThreads; ++n) {
    count[n] = At(n).alive && At(n).call != nullptr ? 1 : 0;
  }
  LeaveOthers();
  Begin();
  // Where this memory is not what the parent's last record of it says.
  for (uint32_t n = 1; n <= kTtqMaxThreads; ++n) {
    Thread& t = At(n);
    if (count[n] == 0 || &t == self) continue;
    const size_t ranges = PossibleWrites(t.call_number, t.call, *t.call_notes, left, 16);
    for (size_t k = 0; k < ranges; ++k) {
      memory::Send(kTtqBySyscall, left[k].address, left[k].bytes);
    }
    t.call = nullptr;
  }
}

Thread* Named(uint32_t number) {
  Thread& t = At(number);
  t.number = number;
  return &t;
}

void Leave() {
  g_running->alive = g_running->taken = false;
  g_running = g_in_context = nullptr;
}

void NoteVectors(Thread* self) { ReadVectors(&self->vectors); }

void Release(uint64_t number, const uint64_t* call, const CallNotes* notes) {
  Thread* self = g_running;
  self->call_number = number;
  self->call_notes = notes;
  self->call = call;
  NoteVectors(self);
  g_running = nullptr;
  Give();
}

void Acquire(Thread* self) {
  Take();
  Enter(self);
  self->call = nullptr;
}

void EndTurn() {
  if (IsAlone()) return;
  if (OthersWait()) {
    Thread* self = g_running;
    Release(0, nullptr, nullptr);
    Acquire(self);
  } else {
    ring::BeginTurn(kTurnBytes);
  }
}

void BeginWaitForChild() { NoteVectors(g_running); }

void EndWaitForChild(Thread* self, bool failed) {
  if (failed) return;
  Take();
  Enter(self);
}

void LetParentsThreadsRun() { Give(); }

int64_t Create(const uint64_t* args) {
  const uint64_t flags = args[0];
  constexpr uint64_t kNeeded = CLONE_VM | CLONE_SIGHAND;
  if ((flags & kNeeded) != kNeeded) return kInvalid;
  if (flags & CLONE_VFORK) Refuse(Text() << "a thread whose maker waits for its end");
  Thread* t = FindFree();
  const Thread* self = g_running;
  const uint32_t number = static_cast<uint32_t>((Number(t) - g_areas) / kAreaBytes);
  *t = {};
  Save(t);
  t->number = number;
  t->parent = self->number;
  t->made_as = ++g_made;
  t->taken = true;
  t->r[kRax] = 0;
  t->r[kRcx] = g_context.pc;
  t->r[kR11] = g_context.flags;
  if (args[1] != 0) t->r[kRsp] = args[1];
  if (flags & CLONE_SETTLS) t->fs_base = args[4];
  if (flags & CLONE_CHILD_CLEARTID) t->clear_address = args[3];
  if (flags & CLONE_CHILD_SETTID) t->set_address = args[3];
  t->signals.mask = self->signals.mask;
  t->signals.alternate.flags = 2;  // none
  t->signals.blocks_faults = true;
  t->in_kernel = 1;
  constexpr uint64_t kRest = CLONE_CHILD_SETTID | 0xff;
  signals::BlockAll();
  const int64_t r = EngineClone((flags & ~kRest) | CLONE_CHILD_CLEARTID, Number(t) + kAreaBytes,
                                args[2], &t->in_kernel, args[4]);
  signals::Unblock();
  if (Failed(r)) {
    t->taken = false;
    t->in_kernel = 0;
    --g_made;
    return r;
  }
  if (flags & CLONE_PARENT_SETTID) memory::Send(kTtqBySyscall, args[2], 4);
  ++g_count;
  ring::BeginTurn(kTurnBytes);
  return r;
}

void Exit(uint32_t status) {
  Thread* self = g_running;
  signals::BlockAll();
  signals::PassOn();
  LeaveRobustLocks(*self);
  const uint64_t clear = memory::IsWritable(self->clear_address) ? self->clear_address : 0;
  TtqThread s = {};
  s.tid = self->number;
  s.clear_address = clear;
  ring::AppendStruct(kTtqThreadExit, s);
  Leave();
  --g_count;
  if (clear != 0) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(clear), 0, __ATOMIC_SEQ_CST);
    Syscall(SYS_futex, clear, FUTEX_WAKE, 1);
  }
  Give();
  for (;;) Syscall(SYS_exit, status);
}

int64_t SetClearAddress(uint64_t address) {
  g_running->clear_address = address;
  return static_cast<int64_t>(OwnNumber());
}

int64_t SetRobustList(uint64_t address, uint64_t bytes) {
  // The kernel has it too, for an end of the whole process.
  const int64_t r = Syscall(SYS_set_robust_list, address, bytes);
  if (r == 0) g_running->robust_list = address;
  return r;
}

void TellRegisters() { TellRegistersOf(*g_running); }
void TellVectors() { TellVectorsOf(g_running); }
void TellAllRegisters() {
  ForEachAlive([](Thread& t) { TellRegistersOf(t); });
}

void BeginBlock() {
  ForEachAlive([](Thread& t) {
    TellRegistersOf(t);
    TellVectorsOf(&t);
  });
  if (g_in_context != nullptr && g_in_context->alive) {
    ring::Append(kTtqThread, &g_in_context->number, 4);
  }
}

void TellEnd() {
  TellAllRegisters();
  ForEachAlive([](Thread& t) {
    TtqThread s = {};
    s.tid = t.number;
    ring::AppendStruct(kTtqThreadExit, s);
  });
}

void NotePending(TtqRing* ring) {
  uint32_t count = 0;
  MemoryRange ranges[16];
  ForEachAlive([&](Thread& t) {
    if (&t == g_running || t.call == nullptr) return;
    const size_t n = PossibleWrites(t.call_number, t.call, *t.call_notes, ranges, 16);
    for (size_t k = 0; k < n && count < kTtqMaxPending; ++k) {
      ring->pending[count].address = ranges[k].address;
      ring->pending[count++].bytes = ranges[k].bytes;
    }
  });
  ring->pending_count = count;
}

}  // namespace threads

extern "C" void EngineThreadMain() {
  using namespace threads;
  Thread* self = Interrupted();
  signals::SetUpThread(HandlerStack(*self));
  self->os_number = static_cast<uint32_t>(Syscall(SYS_gettid));
  Acquire(self);
  if (self->set_address != 0 && memory::IsWritable(self->set_address)) {
    memcpy(reinterpret_cast<void*>(self->set_address), &self->os_number, 4);
    memory::SetSyscall(SYS_clone);
    memory::Send(kTtqBySyscall, self->set_address, 4);
    memory::SetSyscall(-1);
  }
  signals::Unblock();
  Resume();
}

__asm__(
    ".text\n.globl EngineClone\n"
    "EngineClone:\n"
    "  mov %rcx, %r10\n  mov $56, %eax\n  syscall\n"
    "  test %rax, %rax\n  jz 1f\n  ret\n"
    // The area is below, whatever is called.
    "1:\n  xor %ebp, %ebp\n  sub $64, %rsp\n  call EngineThreadMain\n");

}  // namespace ttq::engine
