// SPDX-License-Identifier: GPL-2.0-or-later
//
// Valgrind makes some signals itself, where its translation of the program cannot fault as the
// program would: a jump, an instruction that it does not know. Here they become those that the
// processor and the kernel make. Pages of a mapping that lie beyond the end of its file are the
// hard case: they look like memory until they are touched, and Valgrind, which reads code to
// translate it, would take its own fault for a bug of its own.
//
// Thread-safety: as in main.c.

#include "recorder/tool/faults.h"

#include "libvex.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcsetjmp.h"
#include "pub_tool_libcsignal.h"
#include "pub_tool_machine.h"
#include "pub_tool_signals.h"
#include "pub_tool_threadstate.h"

// Valgrind keeps these to itself.
extern VexControl vex_control;  // the one in force: VG_(clo_vex_control) is copied at the start
extern void VG_(set_default_handler)(Int number);
extern SysRes VG_(do_sys_sigprocmask)(ThreadId tid, Int how, vki_sigset_t* set, vki_sigset_t* old);
extern Int VG_(sigemptyset)(vki_sigset_t* set);
extern Int VG_(sigaddset)(vki_sigset_t* set, Int number);
extern Int VG_(sigismember)(const vki_sigset_t* set, Int number);
extern void VG_(synth_sigbus)(ThreadId tid);
extern void VG_(synth_fault)(ThreadId tid);
extern void VG_(post_syscall)(ThreadId tid);

enum { kByKernel = 0x80 };  // SI_KERNEL

// The tool's own access, a translation, a system call's wrapper: they nest in this order, innermost
// first.
static VG_MINIMAL_JMP_BUF(g_access);
static VG_MINIMAL_JMP_BUF(g_translation);
static VG_MINIMAL_JMP_BUF(g_wrapper);
static Addr g_fault_address;

static void leave_access(Int number, Addr address) {
  if (number == VKI_SIGBUS) VG_MINIMAL_LONGJMP(g_access);
}

static void leave_translation(Int number, Addr address) {
  if (number != VKI_SIGBUS) return;
  g_fault_address = address;
  VG_MINIMAL_LONGJMP(g_translation);
}

static void leave_wrapper(Int number, Addr address) {
  const NSegment* seg = number == VKI_SIGSEGV ? VG_(am_find_nsegment)(address) : NULL;
  // Where nothing is mapped, the stack may have to grow.
  if (number == VKI_SIGBUS || (seg && (seg->kind & (SkAnonC | SkFileC | SkShmC))))
    VG_MINIMAL_LONGJMP(g_wrapper);
}

// After a fault, whose signal handler was left: it blocks all signals.
static void back_from_fault(void) {
  static const Int kSynchronous[] = {VKI_SIGSEGV, VKI_SIGBUS, VKI_SIGFPE, VKI_SIGILL, VKI_SIGTRAP};
  vki_sigset_t set;
  VG_(sigemptyset)(&set);
  for (UInt i = 0; i < sizeof(kSynchronous) / sizeof(kSynchronous[0]); i++)
    VG_(sigaddset)(&set, kSynchronous[i]);
  VG_(sigprocmask)(VKI_SIG_UNBLOCK, &set, NULL);
}

// The first page from `start` on, up to `end`, that has no contents; `end` when all have.
static Addr first_without_contents(Addr start, Addr end) {
  fault_catcher_t before = VG_(set_fault_catcher)(leave_access);
  volatile Addr at = start;
  if (VG_MINIMAL_SETJMP(g_access) == 0) {
    for (; at < end; at = (at & ~4095UL) + 4096) (void)*(volatile UChar*)at;
  } else {
    back_from_fault();
  }
  VG_(set_fault_catcher)(before);
  return at < end ? at : end;
}

SizeT ttq_readable_prefix(Addr address, SizeT size) {
  Addr a = address, end = address + size < address ? ~0UL : address + size;
  while (a < end) {
    const NSegment* seg = VG_(am_find_nsegment)(a);
    if (!seg) break;
    Addr next = seg->end + 1 < end ? seg->end + 1 : end;
    if (!VG_(am_is_valid_for_client)(a, next - a, VKI_PROT_READ)) break;
    Addr good = seg->kind == SkFileC ? first_without_contents(a, next) : next;
    a = good;
    if (good < next) break;
  }
  return a - address;
}

Bool ttq_readable(Addr address, SizeT size) {
  return size != 0 && ttq_readable_prefix(address, size) == size;
}

// ---- Code that is not there ---------------------------------------------------------------------

static Bool g_bus_is_at_address;  // the SIGBUS that is being made is of an access

static void make_sigbus(ThreadId tid, Addr address) {
  vki_sigset_t blocked;
  VG_(do_sys_sigprocmask)(tid, VKI_SIG_BLOCK, NULL, &blocked);
  if (VG_(sigismember)(&blocked, VKI_SIGBUS)) VG_(set_default_handler)(VKI_SIGBUS);
  g_fault_address = address;
  g_bus_is_at_address = True;
  VG_(synth_sigbus)(tid);
  g_bus_is_at_address = False;
}

Bool __real_vgPlain_translate(ThreadId tid, Addr address, Bool debugging, Int verbosity,
                              ULong blocks_done, Bool redirect);
Bool __wrap_vgPlain_translate(ThreadId tid, Addr address, Bool debugging, Int verbosity,
                              ULong blocks_done, Bool redirect);
Bool __wrap_vgPlain_translate(ThreadId tid, Addr address, Bool debugging, Int verbosity,
                              ULong blocks_done, Bool redirect) {
  // Volatile: they are read after a jump out of the translation.
  volatile Int max_insns = 0;
  volatile Bool alone = False;
  fault_catcher_t before = VG_(set_fault_catcher)(leave_translation);
  while (VG_MINIMAL_SETJMP(g_translation) != 0) {
    back_from_fault();
    // The instructions before the one that cannot be read are to be executed first.
    if (!alone) {
      alone = True;
      max_insns = vex_control.guest_max_insns;
      vex_control.guest_max_insns = 1;
      continue;
    }
    vex_control.guest_max_insns = max_insns;
    VG_(set_fault_catcher)(before);
    make_sigbus(tid, g_fault_address);
    return False;
  }
  Bool done = __real_vgPlain_translate(tid, address, debugging, verbosity, blocks_done, redirect);
  if (alone) vex_control.guest_max_insns = max_insns;
  VG_(set_fault_catcher)(before);
  return done;
}

// A jump to memory that may not be executed. Where it has no contents either, that is found first.
void __real_vgPlain_synth_fault_perms(ThreadId tid, Addr address);
void __wrap_vgPlain_synth_fault_perms(ThreadId tid, Addr address);
void __wrap_vgPlain_synth_fault_perms(ThreadId tid, Addr address) {
  if (VG_(am_is_valid_for_client)(address, 1, VKI_PROT_READ) && !ttq_readable(address, 1))
    make_sigbus(tid, address);
  else
    __real_vgPlain_synth_fault_perms(tid, address);
}

// ---- System calls that get addresses of no memory -----------------------------------------------

// Valgrind looks into the arguments of many calls, and does some of them itself. Where it may not
// read or write what it finds there, the kernel would have said EFAULT.
void __real_vgPlain_client_syscall(ThreadId tid, UInt reason);
void __wrap_vgPlain_client_syscall(ThreadId tid, UInt reason);
void __wrap_vgPlain_client_syscall(ThreadId tid, UInt reason) {
  if (VG_MINIMAL_SETJMP(g_wrapper) == 0) {
    VG_(set_fault_catcher)(leave_wrapper);
    __real_vgPlain_client_syscall(tid, reason);
    VG_(set_fault_catcher)(NULL);
    return;
  }
  VG_(set_fault_catcher)(NULL);
  back_from_fault();
  ttq_fail_syscall(tid, VKI_EFAULT);
  VG_(post_syscall)(tid);  // what Valgrind does in the end
}

// Other threads run from here on.
void __real_vgPlain_release_BigLock(ThreadId tid, UInt status, const HChar* who);
void __wrap_vgPlain_release_BigLock(ThreadId tid, UInt status, const HChar* who);
void __wrap_vgPlain_release_BigLock(ThreadId tid, UInt status, const HChar* who) {
  VG_(set_fault_catcher)(NULL);
  __real_vgPlain_release_BigLock(tid, status, who);
}

// ---- Instructions that Valgrind does not know ---------------------------------------------------

// Whether the instruction is one that only the kernel may execute.
static Bool is_privileged(const UChar* at, const UChar* end) {
  for (; at < end; at++) {
    UChar b = *at;
    Bool prefix = b == 0x66 || b == 0x67 || b == 0xf2 || b == 0xf3 || b == 0x2e || b == 0x36 ||
                  b == 0x3e || b == 0x26 || b == 0x64 || b == 0x65 || (b & 0xf0) == 0x40;
    if (!prefix) break;
  }
  if (at == end) return False;
  switch (*at) {
    case 0x6c ... 0x6f:  // ins, outs
    case 0xe4 ... 0xe7:  // in, out
    case 0xec ... 0xef:
    case 0xcd:  // int n: the kernel lets programs use 3 and 0x80
    case 0xf4:  // hlt
    case 0xfa:  // cli
    case 0xfb:  // sti
      return True;
    case 0x0f:
      if (++at == end) return False;
      // clts, invd, wbinvd, mov to and from control and debug registers, wrmsr, rdmsr
      return *at == 0x06 || *at == 0x08 || *at == 0x09 || (*at >= 0x20 && *at <= 0x23) ||
             *at == 0x30 || *at == 0x32;
    default:
      return False;
  }
}

void __real_vgPlain_synth_sigill(ThreadId tid, Addr address);
void __wrap_vgPlain_synth_sigill(ThreadId tid, Addr address);
void __wrap_vgPlain_synth_sigill(ThreadId tid, Addr address) {
  SizeT bytes = ttq_readable_prefix(address, 15);  // as long as an instruction can be
  if (is_privileged((const UChar*)address, (const UChar*)address + bytes))
    VG_(synth_fault)(tid);
  else
    __real_vgPlain_synth_sigill(tid, address);
}

// ---- What is said of signals --------------------------------------------------------------------

void ttq_correct_signal(vki_siginfo_t* info, Addr pc) {
  switch (info->si_signo) {
    case VKI_SIGFPE:  // where the translation divided
      if (info->si_code > 0 && info->si_code < kByKernel)
        info->_sifields._sigfault._addr = (void*)pc;
      break;
    case VKI_SIGBUS:
      if (!g_bus_is_at_address) break;
      info->si_code = VKI_BUS_ADRERR;
      info->_sifields._sigfault._addr = (void*)g_fault_address;
      break;
    case VKI_SIGILL:
      if (info->si_code == VKI_ILL_ILLOPC) info->si_code = VKI_ILL_ILLOPN;
      break;
    case VKI_SIGTRAP:
      if (info->si_code == VKI_TRAP_BRKPT) info->si_code = kByKernel;
      break;
    default:
      break;
  }
}

// Valgrind leaves SIGSYS, which no instruction of the program makes under it, unblocked while the
// program runs, and then finds a signal that it did not expect.
Int __real_vgPlain_sigprocmask(Int how, const vki_sigset_t* set, vki_sigset_t* old);
Int __wrap_vgPlain_sigprocmask(Int how, const vki_sigset_t* set, vki_sigset_t* old);
Int __wrap_vgPlain_sigprocmask(Int how, const vki_sigset_t* set, vki_sigset_t* old) {
  if (how == VKI_SIG_SETMASK && set && VG_(sigismember)(set, VKI_SIGTERM) &&
      VG_(sigismember)(set, VKI_SIGVTALRM) && !VG_(sigismember)(set, VKI_SIGSEGV)) {
    vki_sigset_t more = *set;
    VG_(sigaddset)(&more, VKI_SIGSYS);
    return __real_vgPlain_sigprocmask(how, &more, old);
  }
  return __real_vgPlain_sigprocmask(how, set, old);
}
