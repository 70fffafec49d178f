// SPDX-License-Identifier: MIT
//
// The engine has a handler of its own for every signal that the program handles, or would die of.
// It runs on a stack of its own and does one of two things.
//
// A signal from outside is noted, all others are blocked until it is delivered, and the limit of
// the log is set to zero: the next superblock then asks for room before it does anything, or the
// system call that the engine is in, or about to enter, returns. That is between two superblocks;
// the engine builds the frame there that the kernel would have built, and goes on in the program's
// handler. rt_sigreturn takes the registers back from the frame.
//
// A fault in translated code is an instruction of the program's, which a superblock's marks name.
// The registers are put together from the processor's and those lent, and the record, which is
// complete up to that instruction, is closed as an open one. Then it is delivered like the others.
//
// Vector registers are the program's all the time, so that frames hold them by xsave.

#include "recorder/engine/signals.h"

#include <asm/signal.h>
#include <sys/syscall.h>

#include "recorder/engine/clock.h"
#include "recorder/engine/code_cache.h"
#include "recorder/engine/cpuid.h"
#include "recorder/engine/dispatch.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/replay.h"
#include "recorder/engine/ring.h"
#include "recorder/engine/threads.h"

namespace ttq::engine {

// What HandleFault is told by the signal's handler.
struct Fault {
  uint64_t record;  // where the open record begins
  uint64_t instruction;
  uint32_t instructions;  // of the superblock, this one included
  uint32_t id, record_bytes, written_bytes;
  uint64_t trap, error, address;
};

extern "C" {
void EngineFault();
void EngineSignalReturn();
int64_t EngineSyscall(uint64_t number, const uint64_t* args, const volatile uint32_t* waits);
extern const char kEngineSyscallBegin, kEngineSyscallInstruction, kEngineSyscallGivenUp;
extern const char kEngineReadInstruction, kEngineReadGivenUp;
}

namespace signals {
namespace {

constexpr uint32_t kSignals = 64;
constexpr int64_t kInvalid = -22, kBadAddress = -14, kNotPermitted = -1, kNoMemory = -12;
constexpr uint64_t kSegv = 11, kBus = 7, kFpe = 8, kIll = 4, kTrapNumber = 5;

constexpr uint64_t Bit(uint64_t number) { return uint64_t{1} << (number - 1); }
constexpr uint64_t kSynchronous = Bit(kSegv) | Bit(kBus) | Bit(kFpe) | Bit(kIll) | Bit(kTrapNumber);
constexpr uint64_t kNeverBlocked = Bit(9) | Bit(19);

struct Action {
  uint64_t handler, flags, restorer, mask;
};
enum : uint64_t { kDefault = 0, kIgnore = 1 };

// The kernel's structures.
enum : int32_t { kOnStack = 1, kDisabled = 2 };
struct SignalContext {
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags;
  uint16_t cs, gs, fs, ss;
  uint64_t error, trap, old_mask, address, state, reserved[8];
};
struct UserContext {
  uint64_t flags, link;
  Stack stack;
  SignalContext registers;
  uint64_t mask;
};
static_assert(sizeof(UserContext) == 304);
struct Frame {
  uint64_t return_address;
  UserContext context;
  Info info;
};

Action g_actions[kSignals + 1];
Fault g_fault;
Info g_fault_info;
uint64_t g_trap, g_error, g_address;  // of the last fault, for frames

// Of the thread that runs.
OfThread& Own() { return threads::Running()->signals; }

bool IsStop(uint64_t n) { return n >= 19 && n <= 22; }
bool IsHarmless(uint64_t n) { return n == 17 || n == 18 || n == 23 || n == 28; }

bool CatchesFaults() { return threads::Running() != nullptr && !Own().blocks_faults; }

void SetKernelMask(uint64_t mask) { Syscall(SYS_rt_sigprocmask, SIG_SETMASK, Number(&mask), 0, 8); }

// While a signal waits, all others are blocked.
void PutMaskInForce() {
  SetKernelMask(Own().waits != 0 ? ~kSynchronous : Own().mask & ~kSynchronous);
  Own().blocks_faults = false;
}

// The kernel is to keep a signal until it is not blocked any more.
void SendAgain(const Info& info) {
  constexpr int32_t kByUser = 0;
  const auto pid = static_cast<uint64_t>(Syscall(SYS_getpid));
  const auto number = static_cast<uint64_t>(info.number);
  if (info.code >= kByUser) {  // for any thread
    Syscall(SYS_rt_sigqueueinfo, pid, number, Number(&info));
  } else {
    const auto thread = static_cast<uint64_t>(Syscall(SYS_gettid));
    Syscall(SYS_rt_tgsigqueueinfo, pid, thread, number, Number(&info));
  }
}

void SetKernelAction(uint32_t number, const Action& a) {
  Syscall(SYS_rt_sigaction, number, Number(&a), 0, 8);
}

void OnSignal(int number, Info* info, UserContext* context);

// What the kernel is to do about a signal for which the program has asked for `a`.
void Install(uint32_t number, const Action& a) {
  if (number == 9 || number == 19) return;
  constexpr uint64_t kPassedOn = SA_RESTART | SA_NOCLDSTOP | SA_NOCLDWAIT;
  const bool synchronous = kSynchronous & Bit(number);
  if (!synchronous &&
      (a.handler == kIgnore || (a.handler == kDefault && (IsStop(number) || IsHarmless(number))))) {
    SetKernelAction(number, {a.handler, a.flags & kPassedOn, 0, 0});
    return;
  }
  constexpr uint64_t kRestorer = 0x04000000;
  SetKernelAction(number,
                  {Number(reinterpret_cast<const void*>(&OnSignal)),
                   SA_SIGINFO | SA_ONSTACK | kRestorer | (a.flags & kPassedOn),
                   Number(reinterpret_cast<const void*>(&EngineSignalReturn)), ~kSynchronous});
}

// ---- In the engine's handler -------------------------------------------------------------------

void TakeRegisters(const SignalContext& from, uint16_t lent) {
  const uint64_t values[16] = {from.rax, from.rcx, from.rdx, from.rbx, from.rsp, from.rbp,
                               from.rsi, from.rdi, from.r8,  from.r9,  from.r10, from.r11,
                               from.r12, from.r13, from.r14, from.r15};
  for (unsigned r = 0; r < 16; ++r) {
    if (!(lent >> r & 1)) g_context.r[r] = values[r];
  }
  g_context.flags = from.flags;
}

uint64_t RegisterOf(const SignalContext& from, unsigned number) {
  const uint64_t values[16] = {from.rax, from.rcx, from.rdx, from.rbx, from.rsp, from.rbp,
                               from.rsi, from.rdi, from.r8,  from.r9,  from.r10, from.r11,
                               from.r12, from.r13, from.r14, from.r15};
  return values[number];
}

[[noreturn]] void OwnFault(int number, const Info& info, const UserContext& c) {
  Text t;
  t << "the engine failed (signal " << static_cast<uint64_t>(number) << " at 0x";
  t.Hex(c.registers.rip) << ", address 0x";
  t.Hex(info.address) << ")";
  Refuse(t);
}

void TakeFault(int number, const Info& info, UserContext* c) {
  const uint64_t pc = c->registers.rip;
  const Superblock* s = FindByCode(pc);
  const Mark* mark = nullptr;
  for (unsigned m = 0; s != nullptr && m < s->mark_count; ++m) {
    if (Number(s->body) + s->marks[m].offset <= pc) mark = &s->marks[m];
  }
  if (mark == nullptr) OwnFault(number, info, *c);
  g_fault = {RegisterOf(c->registers, s->log_register) - mark->added,
             s->pcs[mark->instruction],
             mark->instruction + 1u,
             s->id,
             s->record_bytes,
             mark->record_bytes,
             c->registers.trap,
             c->registers.error,
             c->registers.address};
  TakeRegisters(c->registers, mark->lent);
  g_context.pc = g_fault.instruction + (number == kTrapNumber ? 1 : 0);
  g_fault_info = info;
  if (number == kFpe || number == kIll) g_fault_info.address = g_context.pc;
  c->registers.rip = Number(reinterpret_cast<const void*>(&EngineFault));
  c->registers.flags &= ~kDirectionFlag;
  c->mask = ~kSynchronous;
}

void OnSignal(int number, Info* info, UserContext* c) {
  const uint64_t pc = c->registers.rip;
  const bool in_code = pc >= kCodeBegin && pc < kStubsBegin + kStubsBytes;
  const bool by_instruction = (kSynchronous & Bit(static_cast<uint64_t>(number))) && info->code > 0;
  if (by_instruction) {
    if (in_code) {
      TakeFault(number, *info, c);
    } else if (pc == Number(&kEngineReadInstruction)) {
      c->registers.rip = Number(&kEngineReadGivenUp);
    } else {
      OwnFault(number, *info, *c);
    }
    return;
  }
  threads::Thread* thread = threads::Interrupted();
  c->mask = ~kSynchronous;           // until it is delivered
  if (thread->signals.waits != 0) {  // the mask was just being set
    SendAgain(*info);
    return;
  }
  thread->signals.info = *info;
  thread->signals.waits = 1;
  if (thread == threads::Running()) ring::Interrupt();
  // The last moment before a system call, or one that the kernel would execute again.
  if (pc >= Number(&kEngineSyscallBegin) && pc <= Number(&kEngineSyscallInstruction)) {
    c->registers.rip = Number(&kEngineSyscallGivenUp);
  }
}

// ---- Frames ------------------------------------------------------------------------------------

constexpr uint64_t kStateMagic = 0x46505853, kStateMagicEnd = 0x46505845;
constexpr uint64_t kLegacyBytes = 512, kHeaderBytes = 64, kSoftwareAt = 464;
void SaveState(uint64_t at) {
  auto* state = reinterpret_cast<uint8_t*>(at);
  memset(state, 0, StateBytes());
  const auto mask = static_cast<uint32_t>(EnabledStates());
  __asm__ volatile("xsave64 (%0)" ::"r"(state), "a"(mask), "d"(0) : "memory");
  struct {
    uint32_t magic, all_bytes;
    uint64_t states;
    uint32_t bytes;
  } software = {static_cast<uint32_t>(kStateMagic), StateBytes() + 4, mask, StateBytes()};
  memcpy(state + kSoftwareAt, &software, sizeof(software));
  const auto end = static_cast<uint32_t>(kStateMagicEnd);
  memcpy(state + StateBytes(), &end, 4);
}

void RestoreState(uint64_t at) {
  if (at == 0) return;
  alignas(64) static uint8_t state[16 << 10];
  const size_t want = StateBytes() + 4;
  if (ReadGuest(at, state, want) != want) return Die(kSegv);
  uint32_t magic;
  memcpy(&magic, state + kSoftwareAt, 4);
  constexpr unsigned kControlAt = 24;
  state[kControlAt + 2] = state[kControlAt + 3] = 0;  // reserved bits of MXCSR would fault
  if (magic != kStateMagic) {
    __asm__ volatile("fxrstor64 (%0)" ::"r"(state) : "memory");
    return;
  }
  uint64_t states;
  memcpy(&states, state + kLegacyBytes, 8);
  states &= EnabledStates();
  memcpy(state + kLegacyBytes, &states, 8);
  memset(state + kLegacyBytes + 8, 0, kHeaderBytes - 8);
  const auto mask = static_cast<uint32_t>(EnabledStates());
  __asm__ volatile("xrstor64 (%0)" ::"r"(state), "a"(mask), "d"(0) : "memory");
}

bool OnAlternateStack(uint64_t sp) {
  return !(Own().alternate.flags & kDisabled) &&
         sp - Own().alternate.address <= Own().alternate.bytes && sp > Own().alternate.address;
}

bool CanWrite(uint64_t begin, uint64_t end) {
  for (uint64_t a = begin; a < end; a = PageDown(a) + kPage) {
    if (!memory::IsWritable(a)) return false;
  }
  return memory::IsWritable(end - 1);
}

// Goes to the program's handler.
void BuildFrame(const Info& info, const Action& action) {
  const uint64_t* r = g_context.r;
  constexpr uint64_t kRedZone = 128;
  uint64_t sp = r[kRsp] - kRedZone;
  if (action.flags & SA_ONSTACK && !(Own().alternate.flags & kDisabled) &&
      !OnAlternateStack(r[kRsp])) {
    sp = Own().alternate.address + Own().alternate.bytes;
  }
  const uint64_t end = sp;
  const uint64_t state = (sp - StateBytes() - 4) & ~uint64_t{63};
  sp = ((state - sizeof(Frame)) & ~uint64_t{15}) - 8;
  if (sp > end || !CanWrite(sp, end)) Die(kSegv);
  SaveState(state);
  const uint64_t flags = g_context.flags | g_context.alignment_check;
  Frame f = {};
  f.return_address = action.restorer;
  constexpr uint64_t kHasExtendedState = 1, kStrictStack = 2 | 4;
  f.context.flags = kHasExtendedState | kStrictStack;
  f.context.stack = Own().alternate;
  if (OnAlternateStack(r[kRsp])) f.context.stack.flags |= kOnStack;
  constexpr uint16_t kCode = 0x33, kData = 0x2b;
  f.context.registers = {r[8],    r[9],    r[10],        r[11],      r[12],     r[13],   r[14],
                         r[15],   r[kRdi], r[kRsi],      r[kRbp],    r[kRbx],   r[kRdx], r[kRax],
                         r[kRcx], r[kRsp], g_context.pc, flags,      kCode,     0,       0,
                         kData,   g_error, g_trap,       Own().mask, g_address, state,   {}};
  f.context.mask = Own().mask;
  f.info = info;
  memcpy(reinterpret_cast<void*>(sp), &f, sizeof(f));
  memory::Send(kTtqBySignal, sp, end - sp);
  g_context.r[kRsp] = sp;
  g_context.r[kRdi] = static_cast<uint64_t>(info.number);
  g_context.r[kRsi] = sp + offsetof(Frame, info);
  g_context.r[kRdx] = sp + offsetof(Frame, context);
  g_context.r[kRax] = 0;
  g_context.pc = action.handler;
  g_context.flags &= ~kClearedForHandler;
}

void Tell(uint32_t kind, const Info& info, uint64_t pc) {
  TtqSignal s = {};
  s.tid = threads::Current();
  s.number = static_cast<uint32_t>(info.number);
  s.code = info.code;
  s.address = info.address;
  s.pc = pc;
  s.wall_ns = WallNs();
  s.on_alternate_stack = OnAlternateStack(g_context.r[kRsp]);
  ring::AppendStruct(kind, s);
}

// What becomes of a signal that has been told.
void Act(const Info& info) {
  const auto number = static_cast<uint32_t>(info.number);
  Action& action = g_actions[number];
  const bool by_instruction = (kSynchronous & Bit(number)) && info.code > 0;
  const bool blocked = by_instruction && Own().mask & Bit(number);
  if (action.handler <= kIgnore || blocked) {
    if (!by_instruction && (action.handler == kIgnore || IsHarmless(number))) {
      PutMaskInForce();
      return;
    }
    Die(number);
  }
  const Action taken = action;
  if (action.flags & SA_RESETHAND) {
    action.handler = kDefault;
    Install(number, action);
  }
  BuildFrame(info, taken);
  Own().mask |= taken.mask & ~kNeverBlocked;
  if (!(taken.flags & SA_NODEFER)) Own().mask |= Bit(number);
  threads::TellRegisters();
  PutMaskInForce();
}

// A signal between two superblocks. What frames say of a fault: as the processor does.
void Raise(const Info& info, uint64_t trap, uint64_t error, uint64_t address) {
  g_trap = trap;
  g_error = error;
  g_address = address;
  Tell(kTtqSignal, info, g_context.pc);
  Act(info);
}

}  // namespace

void SetUp() {
  for (uint32_t n = 1; n <= kSignals; ++n) {
    Action a = {};
    Syscall(SYS_rt_sigaction, n, 0, Number(&a), 8);
    g_actions[n] = {a.handler == kIgnore ? uint64_t{kIgnore} : uint64_t{kDefault}, 0, 0, 0};
  }
  Syscall(SYS_rt_sigprocmask, SIG_SETMASK, 0, Number(&Own().mask), 8);
  Own().alternate.flags = kDisabled;
  SetUpThread(threads::HandlerStack(*threads::Running()));
  for (uint32_t n = 1; n <= kSignals; ++n) Install(n, g_actions[n]);
  Unblock();
  SetCatchesFaults(CatchesFaults);
}

void SetUpForFaults() {
  Own().alternate.flags = kDisabled;
  SetUpThread(threads::HandlerStack(*threads::Running()));
  for (uint32_t n = 1; n <= kSignals; ++n) {
    if (kSynchronous & Bit(n)) Install(n, {});
  }
  SetKernelMask(0);
  SetCatchesFaults(CatchesFaults);
}

void SetUpThread(const Stack& stack) { Syscall(SYS_sigaltstack, Number(&stack), 0); }

void BlockAll() {
  Own().blocks_faults = true;
  SetKernelMask(~uint64_t{0});
}
void Unblock() { PutMaskInForce(); }

void PassOn() {
  if (Waiting() && Own().info.code >= 0) SendAgain(Own().info);
}

bool Waiting() { return Own().waits != 0; }

bool WillDie() {
  const auto number = static_cast<uint64_t>(Own().info.number);
  return Waiting() && g_actions[number].handler == kDefault && !IsHarmless(number);
}

void Deliver() {
  // No other signal comes before the mask is set again.
  const Info info = Own().info;
  Own().waits = 0;
  ring::LookForInterrupts();
  Raise(info, 0, 0, 0);
}

void RaiseAtFetch(uint64_t address) {
  constexpr int32_t kNotMapped = 1, kForbidden = 2;
  constexpr uint64_t kPageFault = 14, kUserFetch = 0x14;
  const memory::Mapping* m = memory::Find(address);
  Info info = {};
  info.number = static_cast<int32_t>(kSegv);
  info.code = m != nullptr ? kForbidden : kNotMapped;
  info.address = address;
  // The processor looks at what a page may be used for only where there is one.
  if (memory::IsBeyondFile(address) || (m != nullptr && m->protection & 4)) {
    info.number = static_cast<int32_t>(kBus);
    info.code = 2;
  }
  constexpr uint64_t kHighest = uint64_t{1} << 47;
  if (address >= kHighest) {
    info.code = 0x80;
    info.address = 0;
  }
  Raise(info, kPageFault, kUserFetch, address);
}

void RaiseInvalid() {
  constexpr int32_t kOperand = 2;
  constexpr uint64_t kInvalidOpcode = 6;
  Info info = {};
  info.number = static_cast<int32_t>(kIll);
  info.code = kOperand;
  info.address = g_context.pc;
  Raise(info, kInvalidOpcode, 0, 0);
}

void ForgetActions() {
  SetCatchesFaults(nullptr);
  for (uint32_t n = 1; n <= kSignals; ++n) SetKernelAction(n, {});
  SetKernelMask(0);
}

void Die(uint32_t number) {
  threads::TellEnd();
  ring::Finish(number);
  code_cache::Save();
  SetKernelAction(number, {});
  SetKernelMask(~Bit(number));
  const auto pid = static_cast<uint64_t>(Syscall(SYS_getpid));
  for (;;) {
    Syscall(SYS_tgkill, pid, static_cast<uint64_t>(Syscall(SYS_gettid)), number);
    SetKernelAction(9, {});
  }
}

int64_t SetAction(uint64_t number, uint64_t action, uint64_t old, uint64_t mask_bytes) {
  if (number == 0 || number > kSignals || mask_bytes != 8) return kInvalid;
  if (action != 0 && (number == 9 || number == 19)) return kInvalid;
  Action wanted;
  if (action != 0 && ReadGuest(action, &wanted, sizeof(wanted)) != sizeof(wanted)) {
    return kBadAddress;
  }
  if (old != 0) {
    if (!CanWrite(old, old + sizeof(Action))) return kBadAddress;
    memcpy(reinterpret_cast<void*>(old), &g_actions[number], sizeof(Action));
    memory::Send(kTtqBySyscall, old, sizeof(Action));
  }
  if (action != 0) {
    wanted.mask &= ~kNeverBlocked;
    g_actions[number] = wanted;
    Install(static_cast<uint32_t>(number), wanted);
  }
  return 0;
}

int64_t SetMask(uint64_t how, uint64_t set, uint64_t old, uint64_t mask_bytes) {
  if (mask_bytes != 8) return kInvalid;
  if (Waiting()) return kRestart;  // it came before, when it may not have been blocked
  uint64_t wanted = 0;
  if (set != 0 && ReadGuest(set, &wanted, 8) != 8) return kBadAddress;
  const uint64_t before = Own().mask;
  if (set != 0) {
    wanted &= ~kNeverBlocked;
    switch (how) {
      case SIG_BLOCK:
        Own().mask |= wanted;
        break;
      case SIG_UNBLOCK:
        Own().mask &= ~wanted;
        break;
      case SIG_SETMASK:
        Own().mask = wanted;
        break;
      default:
        return kInvalid;
    }
  }
  if (old != 0) {
    if (!CanWrite(old, old + 8)) return kBadAddress;
    memcpy(reinterpret_cast<void*>(old), &before, 8);
    memory::Send(kTtqBySyscall, old, 8);
  }
  if (set != 0) PutMaskInForce();
  return 0;
}

int64_t SetAlternateStack(uint64_t stack, uint64_t old) {
  constexpr uint64_t kLeast = 2048;
  Stack wanted;
  if (stack != 0 && ReadGuest(stack, &wanted, sizeof(wanted)) != sizeof(wanted)) return kBadAddress;
  const bool on = OnAlternateStack(g_context.r[kRsp]);
  if (old != 0) {
    if (!CanWrite(old, old + sizeof(Stack))) return kBadAddress;
    Stack now = Own().alternate;
    now.padding = 0;
    if (on) now.flags |= kOnStack;
    memcpy(reinterpret_cast<void*>(old), &now, sizeof(now));
    memory::Send(kTtqBySyscall, old, sizeof(now));
  }
  if (stack == 0) return 0;
  if (on) return kNotPermitted;
  if (wanted.flags & ~(kDisabled | kOnStack)) return kInvalid;
  if (wanted.flags & kDisabled) {
    Own().alternate = {0, kDisabled, 0, 0};
    return 0;
  }
  if (wanted.bytes < kLeast) return kNoMemory;
  Own().alternate = {wanted.address, 0, 0, wanted.bytes};
  return 0;
}

void Return() {
  Frame f;
  const uint64_t at = g_context.r[kRsp] - 8;
  if (ReadGuest(at, &f, sizeof(f)) != sizeof(f)) Die(kSegv);
  const SignalContext& c = f.context.registers;
  RestoreState(c.state);
  TakeRegisters(c, 0);
  constexpr uint64_t kProgram = 0x210dd5;
  g_context.flags = (c.flags & kProgram) | 0x202;
  g_context.alignment_check = c.flags & kAlignmentCheck;
  g_context.pc = c.rip;
  Own().mask = f.context.mask & ~kNeverBlocked;
  if (!(f.context.stack.flags & kDisabled)) {
    Own().alternate = {f.context.stack.address, 0, 0, f.context.stack.bytes};
  }
  PutMaskInForce();
}

void GiveMaskToKernel() {
  Own().blocks_faults = true;
  SetKernelMask(Own().mask);
}
void TakeMaskBack() { PutMaskInForce(); }

int64_t Interruptible(OfThread* thread, uint64_t number, const uint64_t* args) {
  return EngineSyscall(number, args, &thread->waits);
}

int64_t Interruptible(uint64_t number, const uint64_t* args) {
  return Interruptible(&Own(), number, args);
}

}  // namespace signals

extern "C" void HandleFault() {
  using signals::g_fault;
  const uint32_t header = g_fault.id << kTtqExitBits | kTtqExitOpen;
  g_context.log = g_fault.record;
  ring::LeaveCode();
  ring::CountOpen(header, g_fault.instructions);
  g_fault.record = g_context.log;
  memcpy(reinterpret_cast<void*>(g_fault.record), &header, 4);
  memset(reinterpret_cast<void*>(g_fault.record + g_fault.written_bytes), 0,
         g_fault.record_bytes - g_fault.written_bytes);
  g_context.log = g_fault.record + g_fault.record_bytes;
  signals::g_trap = g_fault.trap;
  signals::g_error = g_fault.error;
  signals::g_address = g_fault.address;
  if (replay::IsOn()) {
    replay::TakeFault(signals::g_fault_info.number, g_fault.instruction);
    signals::Unblock();
    Resume();
  }
  // It must follow its record at once.
  signals::Tell(kTtqFault, signals::g_fault_info, g_fault.instruction);
  threads::TellRegisters();
  signals::Act(signals::g_fault_info);
  Resume();
}

__asm__(
    ".text\n.globl EngineFault, EngineSignalReturn, EngineSyscall\n"
    ".globl kEngineSyscallBegin, kEngineSyscallInstruction, kEngineSyscallGivenUp\n"
    "EngineFault:\n  mov _ZN3ttq6engine9g_contextE+200, %rsp\n  call HandleFault\n"
    "EngineSignalReturn:\n  mov $15, %eax\n  syscall\n"
    "EngineSyscall:\n  mov %rdi, %rax\n  mov %rsi, %r11\n  mov %rdx, %rcx\n"
    "  mov 0(%r11), %rdi\n  mov 8(%r11), %rsi\n  mov 16(%r11), %rdx\n"
    "  mov 24(%r11), %r10\n  mov 32(%r11), %r8\n  mov 40(%r11), %r9\n"
    "kEngineSyscallBegin:\n  cmpl $0, (%rcx)\n  jne kEngineSyscallGivenUp\n"
    "kEngineSyscallInstruction:\n  syscall\n  ret\n"
    "kEngineSyscallGivenUp:\n  mov $-512, %rax\n  ret\n");

}  // namespace ttq::engine
