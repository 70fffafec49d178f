// SPDX-License-Identifier: GPL-2.0-or-later
//
// ttq's recorder tool: translates, logs values, never interprets.
//
// What the program's own instructions do is logged by the code that recipe.c adds to each
// superblock. This file logs everything else that changes memory or registers: system calls,
// signals, mappings, threads; and it closes the record that a fault left open.
//
// Thread-safety: every function here runs under Valgrind's big lock, or inside the fault handler of
// the thread that holds it.

#include "libvex_guest_amd64.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_xarray.h"
#include "recorder/tool/recipe.h"
#include "recorder/tool/ring.h"

extern Int ttq_register_offset(Int reg);
// Valgrind keeps this one to itself.
extern SysRes VG_(pread)(Int fd, void* buffer, Int count, OffT offset);

static const HChar* clo_ring = NULL;
static Long clo_block_bytes = 4 << 20;
static Long clo_block_count = 12;
static Bool clo_verify = False;

enum { kChunk = 256 << 10 };           // bytes of memory in one record
static const ULong kMaxInline = 1ULL << 30;  // contents of one mapping that are sent

typedef struct {
  Bool alive;
  Bool has_snapshot;
  TtqRegisters snapshot;  // as the reader knows them
  Long syscall;           // in progress, -1: none
  UWord args[6];
  Addr clear_address;     // the kernel writes 0 there when the thread ends; 0: none
} ThreadInfo;
static ThreadInfo g_thread[kTtqMaxThreads + 1];

static ThreadId g_logged_thread;  // the thread the reader takes records to be of
static Bool g_in_client;          // client code is running: the log's words are in its shadow state
static UInt g_forks;

// ---- The log while client code runs -------------------------------------------------------------

static void load_log(ThreadId tid) {
  VG_(get_shadow_regs_area)(tid, (UChar*)&ttq_log.next, 1, kShadowNext, 8);
}

static void store_log(ThreadId tid) {
  VG_(set_shadow_regs_area)(tid, 1, kShadowNext, 8, (const UChar*)&ttq_log.next);
  VG_(set_shadow_regs_area)(tid, 1, kShadowLimit, 8, (const UChar*)&ttq_log.limit);
}

// Appends a control record from anywhere, also from inside the fault handler.
static void append(UInt kind, const void* head, UInt head_bytes, const void* body,
                   UInt body_bytes) {
  ThreadId running = g_in_client ? VG_(get_running_tid)() : VG_INVALID_THREADID;
  if (running != VG_INVALID_THREADID) load_log(running);
  ttq_append(kind, head, head_bytes, body, body_bytes);
  if (running != VG_INVALID_THREADID) store_log(running);
}

static void get_registers(ThreadId tid, TtqRegisters* r) {
  r->tid = tid;
  VG_(get_shadow_regs_area)(tid, (UChar*)r->reg, 0, ttq_register_offset(0), 128);
  for (Int i = 16; i < kTtqRegCount; i++)
    VG_(get_shadow_regs_area)(tid, (UChar*)&r->reg[i], 0, ttq_register_offset(i), 8);
  VG_(get_shadow_regs_area)(tid, (UChar*)&r->pc, 0, offsetof(VexGuestAMD64State, guest_RIP), 8);
}

// What every block starts with: all threads' registers, and whose records follow.
static void begin_block(void) {
  for (ThreadId tid = 1; tid <= kTtqMaxThreads; tid++) {
    if (!g_thread[tid].alive) continue;
    TtqRegisters r;
    get_registers(tid, &r);
    ttq_append(kTtqRegisters, &r, sizeof(r), NULL, 0);
  }
  UInt tid = g_logged_thread;
  if (tid) ttq_append(kTtqThread, &tid, 4, NULL, 0);
}

// Called by client code when the next superblock's record might not fit.
static void room(void) {
  ThreadId tid = VG_(get_running_tid)();
  load_log(tid);
  ttq_ring_next_block(True);
  store_log(tid);
}

static void start_client_code(ThreadId tid, ULong blocks) {
  ThreadInfo* t = &g_thread[tid];
  if (g_logged_thread != tid) {
    // The reader learns where the other thread stopped.
    ThreadInfo* other = &g_thread[g_logged_thread];
    if (g_logged_thread && other->alive && other->has_snapshot)
      ttq_append(kTtqRegisters, &other->snapshot, sizeof(TtqRegisters), NULL, 0);
    g_logged_thread = tid;
    UInt id = tid;
    ttq_append(kTtqThread, &id, 4, NULL, 0);
  }
  TtqRegisters r;
  get_registers(tid, &r);
  if (!t->has_snapshot || VG_(memcmp)(&r, &t->snapshot, sizeof(r)) != 0) {
    ttq_append(kTtqRegisters, &r, sizeof(r), NULL, 0);
  }
  store_log(tid);
  g_in_client = True;
}

static void stop_client_code(ThreadId tid, ULong blocks) {
  load_log(tid);
  g_in_client = False;
  get_registers(tid, &g_thread[tid].snapshot);
  g_thread[tid].has_snapshot = True;
}

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                        IRType host_word) {
  return ttq_instrument_superblock(in, layout, ttq_store_recipe, room);
}

// ---- Memory -------------------------------------------------------------------------------------

static void send_bytes(UInt actor, ThreadId tid, Addr address, const UChar* bytes, SizeT size) {
  TtqKernelWrite w = {.tid = tid, .actor = actor, .syscall = -1};
  if (tid != VG_INVALID_THREADID && tid <= kTtqMaxThreads) w.syscall = g_thread[tid].syscall;
  while (size) {
    SizeT n = size < kChunk ? size : kChunk;
    w.address = address;
    append(kTtqKernelWrite, &w, sizeof(w), bytes, n);
    address += n;
    bytes += n;
    size -= n;
  }
}

static void send_memory(UInt actor, ThreadId tid, Addr address, SizeT size) {
  if (size == 0 || !VG_(am_is_valid_for_client)(address, size, VKI_PROT_READ)) return;
  send_bytes(actor, tid, address, (const UChar*)address, size);
}

static Bool is_zero(const UChar* at, SizeT n) {
  const ULong* w = (const ULong*)at;
  for (SizeT i = 0; i < n / 8; i++)
    if (w[i]) return False;
  return True;
}

// Memory that is there before the program starts: its pages that are not zero.
static void send_pages(Addr address, SizeT size) {
  if (!VG_(am_is_valid_for_client)(address, size, VKI_PROT_READ)) return;
  for (Addr a = address; a < address + size; a += 4096)
    if (!is_zero((UChar*)a, 4096)) send_bytes(kTtqInitial, 0, a, (UChar*)a, 4096);
}

static UInt protection_of(Bool r, Bool w, Bool x) { return (r ? 1 : 0) | (w ? 2 : 0) | (x ? 4 : 0); }

static void send_map(Addr a, SizeT len, UInt protection, UInt kind, UInt content, Bool shared,
                     const NSegment* seg, const struct vg_stat* st) {
  TtqMap m = {.address = a, .bytes = len, .protection = protection, .kind = kind,
              .content = content, .shared = shared};
  const HChar* path = NULL;
  if (seg && (seg->kind == SkFileC)) {
    path = VG_(am_get_filename)(seg);
    m.file_offset = seg->offset + (a - seg->start);
    m.dev = seg->dev;
    m.ino = seg->ino;
  }
  if (st) {
    m.dev = st->dev;
    m.ino = st->ino;
    m.file_bytes = st->size;
    m.mtime_ns = st->mtime * 1000000000LL + st->mtime_nsec;
  }
  append(kTtqMap, &m, sizeof(m), path ? path : "", path ? VG_(strlen)(path) : 0);
}

static void new_mem_startup(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle) {
  const NSegment* seg = VG_(am_find_nsegment)(a);
  if (!seg || !(seg->kind & (SkAnonC | SkFileC | SkShmC))) return;  // Valgrind's own code page
  Bool stack = seg->kind == SkAnonC && a <= VG_(get_SP)(1) && VG_(get_SP)(1) <= seg->end;
  Addr start = stack ? seg->start : a;
  SizeT size = stack ? seg->end + 1 - seg->start : len;
  struct vg_stat st;
  Bool known = False;
  if (seg->kind == SkFileC) {
    SysRes r = VG_(stat)(VG_(am_get_filename)(seg), &st);
    known = !sr_isError(r);
  }
  send_map(start, size, protection_of(rr, ww, xx),
           stack ? kTtqMapStack : seg->kind == SkFileC ? kTtqMapFile : kTtqMapStartup,
           kTtqContentZero, False, seg, known ? &st : NULL);
  send_pages(start, size);
}

// The contents of a file mapping, read from the program's own descriptor.
static void send_file(Int fd, Addr address, SizeT size, Off64T offset) {
  UChar* buffer = VG_(malloc)("ttq.file", kChunk);
  for (SizeT done = 0; done < size;) {
    SizeT want = size - done < kChunk ? size - done : kChunk;
    SysRes r = VG_(pread)(fd, buffer, want, offset + done);
    if (sr_isError(r) || sr_Res(r) == 0) break;
    SizeT got = sr_Res(r);
    for (SizeT at = 0; at < got; at += 4096) {
      SizeT n = got - at < 4096 ? got - at : 4096;
      if (n < 4096 || !is_zero(buffer + at, 4096))
        send_bytes(kTtqInitial, 0, address + done + at, buffer + at, n);
    }
    done += got;
  }
  VG_(free)(buffer);
}

static void new_mem_mmap(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle) {
  ThreadId tid = VG_(get_running_tid)();
  const NSegment* seg = VG_(am_find_nsegment)(a);
  UInt protection = protection_of(rr, ww, xx);
  const ThreadInfo* t = tid != VG_INVALID_THREADID ? &g_thread[tid] : NULL;
  if (seg && seg->kind == SkShmC) {
    send_map(a, len, protection, kTtqMapSysV, kTtqContentZero, True, seg, NULL);
    send_memory(kTtqInitial, tid, a, len);
    return;
  }
  Bool by_mmap = t && t->syscall == __NR_mmap;
  Bool shared = by_mmap && (t->args[3] & VKI_MAP_SHARED);
  if (!seg || seg->kind != SkFileC || !by_mmap) {
    send_map(a, len, protection, kTtqMapAnonymous, kTtqContentZero, shared, seg, NULL);
    return;
  }
  Int fd = t->args[4];
  Off64T offset = t->args[5];
  struct vg_stat st;
  Bool known = VG_(fstat)(fd, &st) == 0;
  UChar magic[4] = {0};
  SysRes r = VG_(pread)(fd, magic, 4, 0);
  Bool elf = known && !shared && !sr_isError(r) && sr_Res(r) == 4 &&
             VG_(memcmp)(magic, "\177ELF", 4) == 0;
  UInt content = elf ? kTtqContentFile : len > kMaxInline ? kTtqContentUnknown : kTtqContentZero;
  send_map(a, len, protection, kTtqMapFile, content, shared, seg, known ? &st : NULL);
  if (content == kTtqContentZero) send_file(fd, a, len, offset);
}

static void new_mem_brk(Addr a, SizeT len, ThreadId tid) {
  send_map(a, len, 3, kTtqMapHeap, kTtqContentZero, False, NULL, NULL);
}

static void die_mem(Addr a, SizeT len) {
  TtqRange r = {.address = a, .bytes = len};
  append(kTtqUnmap, &r, sizeof(r), NULL, 0);
}

static void change_mem_mprotect(Addr a, SizeT len, Bool rr, Bool ww, Bool xx) {
  TtqRange r = {.address = a, .bytes = len, .protection = protection_of(rr, ww, xx)};
  append(kTtqProtect, &r, sizeof(r), NULL, 0);
}

static void copy_mem_remap(Addr from, Addr to, SizeT len) {
  TtqRemap r = {.from = from, .to = to, .bytes = len};
  append(kTtqRemap, &r, sizeof(r), NULL, 0);
}

static void post_mem_write(CorePart part, ThreadId tid, Addr a, SizeT size) {
  if (part == Vg_CoreSignal) return;  // sent as a whole by frame_is_built
  send_memory(kTtqBySyscall, tid, a, size);
}

// ---- Signals ------------------------------------------------------------------------------------

static Addr g_frame;  // a signal frame being built, 0: none
static SizeT g_frame_bytes;

static void new_mem_stack_signal(Addr a, SizeT len, ThreadId tid) {
  g_frame = a + 128;  // the core adds the red zone to the address, not to the size
  g_frame_bytes = len;
}

// The frame holds Valgrind's own state of the thread too; nobody else reports that part.
static void post_reg_write(CorePart part, ThreadId tid, PtrdiffT offset, SizeT size) {
  if (part != Vg_CoreSignal || !g_frame) return;
  send_memory(kTtqBySignal, tid, g_frame, g_frame_bytes);
  g_frame = 0;
}

// Every signal passes here before it is delivered, with all that the kernel said about it (--wrap).
Bool __real_vgPlain_gdbserver_report_signal(vki_siginfo_t* info, ThreadId tid);
Bool __wrap_vgPlain_gdbserver_report_signal(vki_siginfo_t* info, ThreadId tid);
Bool __wrap_vgPlain_gdbserver_report_signal(vki_siginfo_t* info, ThreadId tid) {
  TtqSignal s = {.tid = tid, .number = info->si_signo, .code = info->si_code};
  s.address = (Addr)info->_sifields._sigfault._addr;
  s.pc = VG_(get_IP)(tid);
  s.wall_ns = ttq_wall_ns();
  if (g_in_client && VG_(get_running_tid)() == tid) {
    // A fault inside a superblock. Its record is complete up to the faulting instruction.
    UChar* record;
    UInt header;
    VG_(get_shadow_regs_area)(tid, (UChar*)&record, 1, kShadowRecord, 8);
    VG_(memcpy)(&header, record, 4);
    UInt id = header >> kTtqExitBits;
    header = id << kTtqExitBits | kTtqExitOpen;
    VG_(memcpy)(record, &header, 4);
    ttq_log.next = record + ttq_record_bytes(id);
    VG_(set_shadow_regs_area)(tid, 1, kShadowNext, 8, (const UChar*)&ttq_log.next);
    append(kTtqFault, &s, sizeof(s), NULL, 0);
    TtqRegisters r;
    get_registers(tid, &r);
    append(kTtqRegisters, &r, sizeof(r), NULL, 0);
  } else {
    append(kTtqSignal, &s, sizeof(s), NULL, 0);
  }
  return __real_vgPlain_gdbserver_report_signal(info, tid);
}

// ---- Threads and processes ----------------------------------------------------------------------

static void thread_start(ThreadId tid, ThreadId parent) {
  ThreadInfo* t = &g_thread[tid];
  VG_(memset)(t, 0, sizeof(*t));
  t->alive = True;
  t->syscall = -1;
  TtqThread s = {.tid = tid, .os_tid = VG_(gettid)(), .parent = parent};
  append(kTtqThreadStart, &s, sizeof(s), NULL, 0);
}

static ThreadId g_creator[kTtqMaxThreads + 1];

static void pre_thread_ll_create(ThreadId tid, ThreadId child) {
  if (child > kTtqMaxThreads) VG_(tool_panic)("ttq: too many threads");
  g_creator[child] = tid;
}

static void pre_thread_first_insn(ThreadId tid) {
  thread_start(tid, g_creator[tid]);
  ThreadId parent = g_creator[tid];
  if (parent && parent <= kTtqMaxThreads && g_thread[parent].syscall == __NR_clone &&
      (g_thread[parent].args[0] & 0x00200000 /* CLONE_CHILD_CLEARTID */))
    g_thread[tid].clear_address = g_thread[parent].args[3];
}

static void pre_thread_ll_exit(ThreadId tid) {
  ThreadInfo* t = &g_thread[tid];
  t->alive = False;
  Bool last = True;  // the kernel does not clear the word of a process's last thread
  for (ThreadId other = 1; other <= kTtqMaxThreads; other++) last = last && !g_thread[other].alive;
  TtqThread s = {.tid = tid, .clear_address = last ? 0 : t->clear_address};
  append(kTtqThreadExit, &s, sizeof(s), NULL, 0);
}

static void fork_pre(ThreadId tid) {
  g_forks++;
  append(kTtqFork, &g_forks, 4, NULL, 0);
  // The child's reader needs it, and this process may wait for the child before it fills a block.
  ttq_ring_next_block(False);
}

static void fork_child(ThreadId tid) {
  HChar parent[32];
  UInt parent_pid = ttq_ring()->pid;
  VG_(strcpy)(parent, ttq_ring_name());
  HChar* arguments = VG_(malloc)("ttq.arguments", sizeof(ttq_ring()->arguments));
  UInt bytes = ttq_ring()->argument_bytes;
  VG_(memcpy)(arguments, ttq_ring()->arguments, bytes);
  ttq_ring_forget();
  ttq_ring_create(clo_ring, clo_block_bytes, clo_block_count, clo_verify, parent, parent_pid,
                  g_forks);
  VG_(memcpy)(ttq_ring()->arguments, arguments, bytes);
  ttq_ring()->argument_bytes = bytes;
  VG_(free)(arguments);
  for (ThreadId t = 1; t <= kTtqMaxThreads; t++)
    if (t != tid) g_thread[t].alive = False;
  g_logged_thread = VG_INVALID_THREADID;
  TtqThread s = {.tid = tid, .os_tid = VG_(gettid)()};
  append(kTtqThreadStart, &s, sizeof(s), NULL, 0);
  begin_block();
}

// ---- System calls -------------------------------------------------------------------------------

static void pre_syscall(ThreadId tid, UInt number, UWord* args, UInt count) {
  ThreadInfo* t = &g_thread[tid];
  TtqSyscall s = {.tid = tid, .number = number, .wall_ns = ttq_wall_ns()};
  for (UInt i = 0; i < 6; i++) s.args[i] = t->args[i] = i < count ? args[i] : 0;
  t->syscall = number;
  append(kTtqSyscallEnter, &s, sizeof(s), NULL, 0);
  if (number == __NR_execve && VG_(am_is_valid_for_client)(args[0], 1, VKI_PROT_READ)) {
    UInt head = tid;
    append(kTtqExecve, &head, 4, (void*)args[0], VG_(strlen)((HChar*)args[0]));
    // If it succeeds nothing of this process runs again.
    ttq_ring_next_block(False);
  } else if (number == __NR_exit_group || number == __NR_exit) {
    UInt status = args[0];
    if (number == __NR_exit_group) append(kTtqExitProcess, &status, 4, NULL, 0);
  }
}

static void send_output(ThreadId tid, Int fd, Addr from, SizeT size) {
  if (!VG_(am_is_valid_for_client)(from, size, VKI_PROT_READ)) return;
  TtqOutput o = {.tid = tid, .fd = fd};
  while (size) {
    SizeT n = size < kChunk ? size : kChunk;
    append(kTtqOutput, &o, sizeof(o), (void*)from, n);
    from += n;
    size -= n;
  }
}

static void post_syscall(ThreadId tid, UInt number, UWord* args, UInt count, SysRes result) {
  ThreadInfo* t = &g_thread[tid];
  Long value = sr_isError(result) ? -(Long)sr_Err(result) : (Long)sr_Res(result);
  if ((number == __NR_write || number == __NR_writev) && value > 0 &&
      (args[0] == 1 || args[0] == 2)) {
    if (number == __NR_write) {
      send_output(tid, args[0], args[1], value);
    } else {
      const struct vki_iovec* v = (const struct vki_iovec*)args[1];
      SizeT left = value;
      for (UWord i = 0; i < args[2] && left; i++) {
        SizeT n = v[i].iov_len < left ? v[i].iov_len : left;
        if (n) send_output(tid, args[0], (Addr)v[i].iov_base, n);
        left -= n;
      }
    }
  }
  if (number == __NR_set_tid_address) t->clear_address = args[0];
  TtqSyscall s = {.tid = tid, .number = number, .result = value, .wall_ns = ttq_wall_ns()};
  for (UInt i = 0; i < 6; i++) s.args[i] = t->args[i];
  append(kTtqSyscallExit, &s, sizeof(s), NULL, 0);
  t->syscall = -1;
}

// ---- The ends -----------------------------------------------------------------------------------

static void add_argument(const HChar* text) {
  TtqRing* r = ttq_ring();
  UInt n = VG_(strlen)(text) + 1;
  if (r->argument_bytes + n > sizeof(r->arguments)) return;
  VG_(memcpy)(r->arguments + r->argument_bytes, text, n);
  r->argument_bytes += n;
}

static void post_clo_init(void) {
  if (!clo_ring) {
    VG_(fmsg)("ttq: this tool is run by `ttq record`\n");
    VG_(exit)(125);
  }
  ttq_ring_set_begin(begin_block);
  ttq_ring_create(clo_ring, clo_block_bytes, clo_block_count, clo_verify, "", 0, 0);
  add_argument(VG_(args_the_exename));
  add_argument(VG_(get_startup_wd)() ? VG_(get_startup_wd)() : "");
  add_argument(VG_(args_the_exename));
  for (Int i = 0; i < VG_(sizeXA)(VG_(args_for_client)); i++)
    add_argument(*(HChar**)VG_(indexXA)(VG_(args_for_client), i));
  VG_(atfork)(fork_pre, NULL, fork_child);
}

static void fini(Int exit_code) {
  if (g_in_client) {
    ThreadId tid = VG_(get_running_tid)();
    if (tid != VG_INVALID_THREADID) load_log(tid);
    g_in_client = False;
  }
}

static void send_last_registers(void) {
  for (ThreadId tid = 1; tid <= kTtqMaxThreads; tid++)
    if (g_thread[tid].has_snapshot)
      append(kTtqRegisters, &g_thread[tid].snapshot, sizeof(TtqRegisters), NULL, 0);
}

// Valgrind ends the process by one of these, after fini.
void __real_vgPlain_kill_self(Int number);
void __wrap_vgPlain_kill_self(Int number);
void __wrap_vgPlain_kill_self(Int number) {
  if (ttq_ring()) {
    ttq_ring()->fatal_signal = number;
    send_last_registers();
    ttq_ring_finish();
  }
  __real_vgPlain_kill_self(number);
}

void __real_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_client_exit(Int status) __attribute__((noreturn));
void __wrap_vgPlain_client_exit(Int status) {
  if (ttq_ring()) {
    UInt s = status;
    append(kTtqExitProcess, &s, 4, NULL, 0);
    send_last_registers();
    ttq_ring_finish();
  }
  __real_vgPlain_client_exit(status);
}

// Valgrind would read the symbols of every file that is mapped, which takes seconds for large ones;
// this tool asks for none.
ULong __wrap_vgPlain_di_notify_mmap(Addr a, Bool allow_mapping, Int fd);
ULong __wrap_vgPlain_di_notify_mmap(Addr a, Bool allow_mapping, Int fd) { return 0; }

// Valgrind would write its own core file into the working directory.
void __wrap_vgPlain_make_coredump(ThreadId tid, const vki_siginfo_t* info, ULong max);
void __wrap_vgPlain_make_coredump(ThreadId tid, const vki_siginfo_t* info, ULong max) {}

static Bool process_option(const HChar* arg) {
  if (VG_STR_CLO(arg, "--ring", clo_ring)) {
  } else if (VG_BINT_CLO(arg, "--block-bytes", clo_block_bytes, 1 << 20, 256 << 20)) {
  } else if (VG_BINT_CLO(arg, "--block-count", clo_block_count, 2, 1024)) {
  } else if (VG_BOOL_CLO(arg, "--verify", clo_verify)) {
  } else {
    return False;
  }
  return True;
}

static void print_usage(void) { VG_(printf)("    (run by `ttq record`, which sets the options)\n"); }

static void pre_clo_init(void) {
  VG_(details_name)("ttq");
  VG_(details_version)(NULL);
  VG_(details_description)("records a program's whole history");
  VG_(details_copyright_author)("The ttq authors, GPL-2.0-or-later");
  VG_(details_bug_reports_to)("the ttq project");
  VG_(details_avg_translation_sizeB)(700);
  VG_(basic_tool_funcs)(post_clo_init, instrument, fini);
  VG_(needs_command_line_options)(process_option, print_usage, print_usage);
  VG_(needs_syscall_wrapper)(pre_syscall, post_syscall);
  VG_(track_new_mem_startup)(new_mem_startup);
  VG_(track_new_mem_mmap)(new_mem_mmap);
  VG_(track_new_mem_brk)(new_mem_brk);
  VG_(track_new_mem_stack_signal)(new_mem_stack_signal);
  VG_(track_copy_mem_remap)(copy_mem_remap);
  VG_(track_change_mem_mprotect)(change_mem_mprotect);
  VG_(track_die_mem_brk)(die_mem);
  VG_(track_die_mem_munmap)(die_mem);
  VG_(track_post_mem_write)(post_mem_write);
  VG_(track_post_reg_write)(post_reg_write);
  VG_(track_start_client_code)(start_client_code);
  VG_(track_stop_client_code)(stop_client_code);
  VG_(track_pre_thread_ll_create)(pre_thread_ll_create);
  VG_(track_pre_thread_first_insn)(pre_thread_first_insn);
  VG_(track_pre_thread_ll_exit)(pre_thread_ll_exit);
  VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtEachInsn;
  VG_(clo_px_file_backed) = VexRegUpdAllregsAtEachInsn;
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
