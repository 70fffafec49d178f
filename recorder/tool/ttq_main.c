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
#include "recorder/mark.h"
#include "recorder/tool/faults.h"
#include "recorder/tool/recipe.h"
#include "recorder/tool/ring.h"

extern Int ttq_register_offset(Int reg);
extern Int ttq_vector_offset(Int word);
// Valgrind keeps these to itself.
extern SysRes VG_(pread)(Int fd, void* buffer, Int count, OffT offset);
extern Int VG_(fcntl)(Int fd, Int command, Addr argument);
extern SysRes VG_(mk_SysRes_Error)(UWord error);
extern SysRes VG_(mk_SysRes_Success)(UWord value);
extern Addr VG_(clstk_end);
extern Int VG_(cl_exec_fd);
extern UInt VG_(clo_smc_check);
extern void VG_(discard_translations)(Addr start, ULong size, const HChar* who);
extern HChar** VG_(client_envp);  // on the program's stack
extern Addr VG_(trampoline_stuff_start);
extern UWord* VG_(client_auxv);

static const HChar* clo_ring = NULL;
static Long clo_block_bytes = 4 << 20;
static Long clo_block_count = 12;
static Bool clo_verify = False;

enum { kChunk = 256 << 10 };                 // bytes of memory in one record
static const ULong kMaxInline = 1ULL << 30;  // contents of one mapping that are sent

typedef struct {
  Bool alive;
  Bool has_snapshot;
  Bool left_by_fault;  // `snapshot` is of the signal's handler, which the reader does not know of
  TtqRegisters snapshot;  // as the reader knows them
  Long syscall;           // in progress, -1: none
  UWord args[6];
  Addr clear_address;  // the kernel writes 0 there when the thread ends; 0: none
  Addr robust_list;    // the kernel marks the locks in it when the thread ends; 0: none
  ULong turns;         // of the program's threads when its system call began
} ThreadInfo;
static ThreadInfo g_thread[kTtqMaxThreads + 1];

// A piece of memory that the system call in progress may write. Another thread may run, or fork,
// while the kernel has written it and this thread has not come back to say so.
typedef struct {
  Addr address;
  SizeT bytes;
  SizeT saved, at;  // the first `saved` bytes, as they were before the call, are at `memory` + `at`
  Bool guessed;     // nobody says that the call writes it
} Piece;
static struct {
  Piece* piece;
  UChar* memory;
  UInt count, capacity;
  SizeT memory_bytes, memory_capacity;
} g_pieces[kTtqMaxThreads + 1];

static ThreadId g_logged_thread;  // the thread the reader takes records to be of
static ULong g_turns;             // how often that changed
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

static void get_vectors(ThreadId tid, TtqVectors* v) {
  v->tid = tid;
  for (Int i = 0; i < kTtqX87Word; i++)
    VG_(get_shadow_regs_area)(tid, (UChar*)&v->word[i], 0, ttq_vector_offset(i), 8);
  UInt top;
  VG_(get_shadow_regs_area)(tid, (UChar*)&top, 0, offsetof(VexGuestAMD64State, guest_FTOP), 4);
  VG_(get_shadow_regs_area)
  (tid, (UChar*)&v->word[kTtqX87Word], 0, offsetof(VexGuestAMD64State, guest_FPREG) + 8 * (top & 7),
   8);
}

// What every block starts with: all threads' registers, and whose records follow.
static void begin_block(void) {
  for (ThreadId tid = 1; tid <= kTtqMaxThreads; tid++) {
    if (!g_thread[tid].alive) continue;
    TtqRegisters r;
    get_registers(tid, &r);
    ttq_append(kTtqRegisters, &r, sizeof(r), NULL, 0);
    TtqVectors v;
    get_vectors(tid, &v);
    ttq_append(kTtqVectors, &v, sizeof(v), NULL, 0);
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
    g_turns++;
    UInt id = tid;
    ttq_append(kTtqThread, &id, 4, NULL, 0);
  }
  TtqRegisters r;
  get_registers(tid, &r);
  if (!t->has_snapshot || t->left_by_fault || VG_(memcmp)(&r, &t->snapshot, sizeof(r)) != 0)
    ttq_append(kTtqRegisters, &r, sizeof(r), NULL, 0);
  t->left_by_fault = False;
  store_log(tid);
  g_in_client = True;
}

static void stop_client_code(ThreadId tid, ULong blocks) {
  if (g_in_client) load_log(tid);  // a fault has done so already
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

static Bool is_zero(const UChar* at, SizeT n) {
  const ULong* w = (const ULong*)at;
  for (SizeT i = 0; i < n / 8; i++)
    if (w[i]) return False;
  return True;
}

// Memory that is there before the program starts: its pages that are not zero.
static void send_pages(Addr address, SizeT size) {
  size = ttq_readable_prefix(address, size);
  for (Addr a = address; a < address + size; a += 4096)
    if (!is_zero((UChar*)a, 4096)) send_bytes(kTtqInitial, 0, a, (UChar*)a, 4096);
}

static UInt protection_of(Bool r, Bool w, Bool x) {
  return (r ? 1 : 0) | (w ? 2 : 0) | (x ? 4 : 0);
}

static void send_map(Addr a, SizeT len, UInt protection, UInt kind, UInt content, Bool shared,
                     const NSegment* seg, const struct vg_stat* st, ULong shmid) {
  TtqMap m = {.address = a,
              .bytes = len,
              .protection = protection,
              .kind = kind,
              .content = content,
              .shared = shared};
  const HChar* path = NULL;
  if (seg && (seg->kind == SkFileC)) {
    path = VG_(am_get_filename)(seg);
    m.file_offset = seg->offset + (a - seg->start);
    m.dev = seg->dev;
    m.ino = seg->ino;
  }
  if (kind == kTtqMapSysV) {
    m.dev = ~0ULL;  // no device
    m.ino = shmid + 1;
  }
  if (st) {
    m.dev = st->dev;
    m.ino = st->ino;
    m.file_bytes = st->size;
    m.mtime_ns = st->mtime * 1000000000LL + st->mtime_nsec;
  }
  append(kTtqMap, &m, sizeof(m), path ? path : "", path ? VG_(strlen)(path) : 0);
}

// Memory as it is, whatever its protection: pages that cannot be read, such as those beyond the end
// of a file, are left out.
static void send_real(UInt actor, ThreadId tid, Addr address, SizeT size) {
  SysRes r = VG_(open)("/proc/self/mem", VKI_O_RDONLY, 0);
  if (sr_isError(r)) {
    send_bytes(actor, tid, address, (const UChar*)address, ttq_readable_prefix(address, size));
    return;
  }
  Int fd = sr_Res(r);
  UChar* buffer = VG_(malloc)("ttq.real", kChunk);
  for (Addr end = address + size; address < end;) {
    SizeT want = end - address < kChunk ? end - address : kChunk;
    r = VG_(pread)(fd, buffer, want, address);
    SizeT got = sr_isError(r) ? 0 : sr_Res(r);
    if (got) send_bytes(actor, tid, address, buffer, got);
    address += got;
    if (got < want) address = (address + 4096) & ~4095UL;
  }
  VG_(free)(buffer);
  VG_(close)(fd);
}

// Memory that the tool can read itself, as far as it can.
static void send_memory(UInt actor, ThreadId tid, Addr address, SizeT size) {
  SizeT readable = ttq_readable_prefix(address, size);
  send_bytes(actor, tid, address, (const UChar*)address, readable);
}

// ---- Ranges that need more care than other memory -----------------------------------------------

enum { kShared = 1, kFile = 2, kNotForked = 4, kWipedOnFork = 8 };

typedef struct {
  UInt kind;
  Addr start, end;
  ULong dev, ino, offset;  // of kFile
} Range;
static Range* g_ranges;  // in no order, a few; two of a kind never overlap
static UInt g_range_count, g_range_capacity;

static void add_range(Range r) {
  if (g_range_count == g_range_capacity) {
    g_range_capacity = g_range_capacity ? 2 * g_range_capacity : 64;
    g_ranges = VG_(realloc)("ttq.ranges", g_ranges, g_range_capacity * sizeof(Range));
  }
  g_ranges[g_range_count++] = r;
}

// [start, end) is no longer of these kinds.
static void cut_ranges(Addr start, Addr end, UInt kinds) {
  for (UInt i = g_range_count; i-- > 0;) {
    Range r = g_ranges[i];
    if (!(r.kind & kinds) || r.end <= start || r.start >= end) continue;
    g_ranges[i] = g_ranges[--g_range_count];
    Range head = r, tail = r;
    head.end = start;
    tail.start = end;
    tail.offset += end - r.start;
    if (head.start < head.end) add_range(head);
    if (tail.start < tail.end) add_range(tail);
  }
}

static Bool in_range(Addr a, UInt kind) {
  for (UInt i = 0; i < g_range_count; i++)
    if (g_ranges[i].kind == kind && g_ranges[i].start <= a && a < g_ranges[i].end) return True;
  return False;
}

// The program is to see the environment its user gave it: what Valgrind added goes, before the
// first instruction. The vectors on the stack are closed up; the strings stay.
static void clean_environment(void) {
  UWord *from = (UWord*)VG_(client_envp), *to = from;
  for (; *from; from++) {
    HChar* entry = (HChar*)*from;
    if (VG_(strncmp)(entry, "VALGRIND_LIB=", 13) == 0) continue;
    if (VG_(strncmp)(entry, "LD_PRELOAD=", 11) == 0) {
      HChar* ours = VG_(strstr)(entry, "/vgpreload_core-");
      HChar* rest = ours ? VG_(strstr)(ours, ".so") : NULL;
      if (rest && rest[3] == 0) continue;
      if (rest && rest[3] == ':') {  // the user's own come after it
        HChar* into = entry + 11;
        for (rest += 4; (*into++ = *rest++);) {
        }
      }
    }
    *to++ = *from;
  }
  if (to == from) return;
  SizeT gone = from - to;
  UWord* auxv = from + 1;
  UWord* end = auxv;
  while (*end) end += 2;
  end += 2;
  *to++ = 0;
  if (VG_(client_auxv) == auxv) VG_(client_auxv) = to;
  for (UWord* at = auxv; at < end; at++) *to++ = *at;
  VG_(memset)(to, 0, gone * sizeof(UWord));
}

static void new_mem_startup(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle) {
  const NSegment* seg = VG_(am_find_nsegment)(a);
  if (!seg || !(seg->kind & (SkAnonC | SkFileC | SkShmC))) return;  // Valgrind's own code page
  // No register has its value yet.
  Addr envp = (Addr)VG_(client_envp);
  Bool stack = seg->kind == SkAnonC && a <= envp && envp <= seg->end;
  if (stack) clean_environment();
  Addr start = stack ? seg->start : a;
  SizeT size = stack ? seg->end + 1 - seg->start : len;
  // The one page of this tool that the program may execute: Valgrind's trampolines.
  Addr own = (Addr)&VG_(trampoline_stuff_start);
  Bool trampoline = a <= own && own < a + len;
  Bool file = seg->kind == SkFileC && !trampoline;
  struct vg_stat st;
  Bool known = False;
  if (file) {
    SysRes r = VG_(stat)(VG_(am_get_filename)(seg), &st);
    known = !sr_isError(r);
  }
  send_map(start, size, protection_of(rr, ww, xx),
           stack  ? kTtqMapStack
           : file ? kTtqMapFile
                  : kTtqMapStartup,
           kTtqContentZero, False, trampoline ? NULL : seg, known ? &st : NULL, 0);
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

// Code in a file does not change, Valgrind assumes, and does not look whether it did. A program
// that may write to such code makes it look from now on, at a cost.
static void look_for_changed_code(Addr a, SizeT len) {
  enum { kAlways = 2 };  // Vg_SmcAll
  VG_(clo_smc_check) = kAlways;
  VG_(discard_translations)(a, len, "ttq");
}

static void new_mem_mmap(Addr a, SizeT len, Bool rr, Bool ww, Bool xx, ULong handle) {
  ThreadId tid = VG_(get_running_tid)();
  const NSegment* seg = VG_(am_find_nsegment)(a);
  UInt protection = protection_of(rr, ww, xx);
  const ThreadInfo* t = tid != VG_INVALID_THREADID ? &g_thread[tid] : NULL;
  cut_ranges(a, a + len, ~0u);
  Range range = {.start = a, .end = a + len};
  if (seg && seg->kind == SkShmC) {
    send_map(a, len, protection, kTtqMapSysV, kTtqContentZero, True, seg, NULL,
             t && t->syscall == __NR_shmat ? t->args[0] : 0);
    send_real(kTtqInitial, tid, a, len);
    range.kind = kShared;
    add_range(range);
    return;
  }
  if (t && t->syscall == __NR_mremap) {  // the part that is new
    range.kind = in_range(a - 1, kShared) ? kShared : 0;
    send_map(a, len, protection, seg && seg->kind == SkFileC ? kTtqMapFile : kTtqMapAnonymous,
             len > kMaxInline && seg->kind == SkFileC ? kTtqContentUnknown : kTtqContentZero,
             range.kind == kShared, seg, NULL, 0);
    if (range.kind) add_range(range);
    if (seg && seg->kind == SkFileC) {
      for (UInt i = 0; i < g_range_count; i++) {
        if (g_ranges[i].kind == kFile && g_ranges[i].end == a) g_ranges[i].end = a + len;
      }
      if (len <= kMaxInline) send_real(kTtqInitial, tid, a, len);
    }
    return;
  }
  Bool by_mmap = t && t->syscall == __NR_mmap;
  // Asynchronous I/O keeps a ring in memory that the kernel writes whenever it likes.
  Bool shared = (by_mmap && (t->args[3] & VKI_MAP_SHARED)) || (t && t->syscall == __NR_io_setup);
  if (shared) {
    range.kind = kShared;
    add_range(range);
  }
  if (xx && (shared || ww) && seg && seg->kind == SkFileC) look_for_changed_code(a, len);
  if (!seg || seg->kind != SkFileC || !by_mmap) {
    UInt content = t && t->syscall == __NR_io_setup ? kTtqContentUnknown : kTtqContentZero;
    send_map(a, len, protection, kTtqMapAnonymous, content, shared, seg, NULL, 0);
    return;
  }
  Int fd = t->args[4];
  Off64T offset = t->args[5];
  struct vg_stat st;
  Bool known = VG_(fstat)(fd, &st) == 0;
  UChar magic[4] = {0};
  SysRes r = VG_(pread)(fd, magic, 4, 0);
  Bool elf =
      known && !shared && !sr_isError(r) && sr_Res(r) == 4 && VG_(memcmp)(magic, "\177ELF", 4) == 0;
  UInt content = elf ? kTtqContentFile : len > kMaxInline ? kTtqContentUnknown : kTtqContentZero;
  send_map(a, len, protection, kTtqMapFile, content, shared, seg, known ? &st : NULL, 0);
  if (content == kTtqContentZero) send_file(fd, a, len, offset);
  if (known && !elf) {
    range.kind = kFile;
    range.dev = st.dev;
    range.ino = st.ino;
    range.offset = offset;
    add_range(range);
  }
}

// The break is not a multiple of a page; what lies before it in its page stays.
static Addr page_up(Addr a) { return (a + 4095) & ~4095UL; }

static void new_mem_brk(Addr a, SizeT len, ThreadId tid) {
  Addr start = page_up(a), end = page_up(a + len);
  if (start < end)
    send_map(start, end - start, 3, kTtqMapHeap, kTtqContentZero, False, NULL, NULL, 0);
}

static void die_mem(Addr a, SizeT len) {
  TtqRange r = {.address = a, .bytes = len};
  cut_ranges(a, a + len, ~0u);
  append(kTtqUnmap, &r, sizeof(r), NULL, 0);
}

static void die_mem_brk(Addr a, SizeT len) {
  Addr start = page_up(a), end = page_up(a + len);
  send_memory(kTtqBySyscall, VG_(get_running_tid)(), a, (start < a + len ? start : a + len) - a);
  if (start < end) die_mem(start, end - start);
}

static void change_mem_mprotect(Addr a, SizeT len, Bool rr, Bool ww, Bool xx) {
  TtqRange r = {.address = a, .bytes = len, .protection = protection_of(rr, ww, xx)};
  const NSegment* seg = VG_(am_find_nsegment)(a);
  if (seg && seg->kind == SkFileC && ((ww && (xx || seg->hasT)) || (xx && in_range(a, kShared))))
    look_for_changed_code(a, len);
  append(kTtqProtect, &r, sizeof(r), NULL, 0);
}

static void copy_mem_remap(Addr from, Addr to, SizeT len) {
  TtqRemap r = {.from = from, .to = to, .bytes = len};
  cut_ranges(to, to + len, ~0u);
  for (UInt i = 0, n = g_range_count; i < n; i++) {
    Range moved = g_ranges[i];
    if (moved.end <= from || moved.start >= from + len) continue;
    if (moved.start < from) {
      moved.offset += from - moved.start;
      moved.start = from;
    }
    if (moved.end > from + len) moved.end = from + len;
    moved.start += to - from;
    moved.end += to - from;
    add_range(moved);
  }
  cut_ranges(from, from + len, ~0u);
  append(kTtqRemap, &r, sizeof(r), NULL, 0);
}

// ---- What system calls write --------------------------------------------------------------------
//
// Valgrind tells of most of it, not of all: half a byte too few of a set of descriptors, nothing of
// what a call wrote before it failed, nothing of what it has not heard of. So what a call may write
// is saved before it and compared after it: what Valgrind says that it writes, what it reads and
// may write too, and, as a guess, some bytes from wherever an argument points to.

enum {
  kLargestSaved = 16 << 10,    // bytes of one piece
  kLargestSavedAll = 1 << 20,  // of all of a call's
  kGuess = 512,                // bytes an argument may point to
  kGuessOfIoctl = 4096
};

static void add_piece(ThreadId tid, Addr a, SizeT size, Bool guessed) {
  __typeof__(&g_pieces[0]) p = &g_pieces[tid];
  if (size == 0) return;
  if (p->count == p->capacity) {
    p->capacity = p->capacity ? 2 * p->capacity : 16;
    p->piece = VG_(realloc)("ttq.pieces", p->piece, p->capacity * sizeof(Piece));
  }
  Piece* piece = &p->piece[p->count++];
  *piece = (Piece){.address = a, .bytes = size, .at = p->memory_bytes, .guessed = guessed};
  SizeT n = ttq_readable_prefix(a, size < kLargestSaved + 1 ? size : kLargestSaved + 1);
  if (n > kLargestSaved || p->memory_bytes + n > kLargestSavedAll) return;
  if (p->memory_bytes + n > p->memory_capacity) {
    p->memory_capacity = 2 * (p->memory_bytes + n);
    p->memory = VG_(realloc)("ttq.pieces", p->memory, p->memory_capacity);
  }
  piece->saved = n;
  VG_(memcpy)(p->memory + piece->at, (void*)a, n);
  p->memory_bytes += n;
}

static void guess_piece(ThreadId tid, Addr a, SizeT most) {
  const NSegment* seg = a >= 4096 ? VG_(am_find_nsegment)(a) : NULL;
  // Others may write shared memory at any time.
  if (!seg || !seg->hasW || !(seg->kind & (SkAnonC | SkFileC)) || in_range(a, kShared)) return;
  SizeT room = seg->end + 1 - a;
  add_piece(tid, a, room < most ? room : most, True);
}

// What an ioctl writes is known of few: Valgrind goes by the size in its number, where it has one.
static void add_pieces_of_ioctl(ThreadId tid, UInt request, Addr a) {
  enum {
    kFiemap = 0xc020660b,
    kFiemapHead = 32,
    kFiemapExtent = 56,
    kMostExtents = 1 << 16,
    kLikely = 64,
    kWords = 16
  };
  SizeT n = ttq_readable_prefix(a, 8 * kWords);
  if (n == 0) return;
  if (request == kFiemap && n >= kFiemapHead)
    add_piece(tid, a, kFiemapHead + (SizeT)(((const UInt*)a)[6] % kMostExtents) * kFiemapExtent,
              False);
  else
    add_piece(tid, a, kLikely, False);
  for (UInt i = 0; i < n / 8; i++) guess_piece(tid, ((const UWord*)a)[i], kGuessOfIoctl);
}

static void add_pieces(ThreadId tid, UInt number, const UWord* args) {
  switch (number) {
    case __NR_mmap:  // these change what memory there is
    case __NR_munmap:
    case __NR_mremap:
    case __NR_mprotect:
    case __NR_brk:
    case __NR_madvise:
    case __NR_shmat:
    case __NR_shmdt:
    case __NR_remap_file_pages:
    case __NR_clone:
    case __NR_fork:
    case __NR_vfork:
    case __NR_execve:
    case 322 /* execveat */:
    case __NR_exit:
    case __NR_exit_group:
    case __NR_rt_sigreturn:
    case __NR_set_tid_address:
    case __NR_set_robust_list:
      return;
    case __NR_futex:
      // Of those locks that the kernel hands over itself, and of FUTEX_WAKE_OP, it writes the word.
      switch (args[1] & 0x7f) {
        case 5:
        case 11:
        case 12:
          add_piece(tid, args[4], 4, False);
          break;
        case 6:
        case 7:
        case 8:
        case 13:
          add_piece(tid, args[0], 4, False);
          break;
        default:
          break;
      }
      return;
    case __NR_select:
    case __NR_pselect6: {
      Int count = args[0];
      for (UInt i = 1; i <= 3 && count > 0; i++)
        add_piece(tid, args[i], ((SizeT)count + 63) / 64 * 8, False);
      break;
    }
    default:
      break;
  }
  for (UInt i = 0; i < 6; i++)
    guess_piece(tid, args[i], number == __NR_ioctl ? kGuessOfIoctl : kGuess);
  if (number == __NR_ioctl) add_pieces_of_ioctl(tid, args[1], args[2]);
}

// Only where the kernel writes what it also reads: elsewhere a change is another thread's.
static void pre_mem_read(CorePart part, ThreadId tid, const HChar* what, Addr a, SizeT size) {
  if (part != Vg_CoreSysCall) return;
  switch (g_thread[tid].syscall) {
    case __NR_recvmsg:
    case 299 /* recvmmsg */:
    case 307 /* sendmmsg */:
    case __NR_recvfrom:
    case __NR_accept:
    case 288 /* accept4 */:
    case __NR_getsockname:
    case __NR_getpeername:
    case __NR_getsockopt:
    case __NR_select:
    case __NR_pselect6:
    case __NR_ppoll:
    case __NR_poll:
    case __NR_sendfile:
    case __NR_splice:
    case 326 /* copy_file_range */:
    case __NR_io_submit:
    case 303 /* name_to_handle_at */:
    case __NR_ioctl:
    case __NR_fcntl:
    case __NR_capget:
    case __NR_prctl:
    case __NR_msgctl:
    case __NR_semctl:
    case __NR_shmctl:
    case __NR_quotactl:
    case 315 /* sched_getattr */:
    case __NR_adjtimex:
    case 305 /* clock_adjtime */:
      add_piece(tid, a, size, False);
      break;
    default:
      break;
  }
}

static void pre_mem_write(CorePart part, ThreadId tid, const HChar* what, Addr a, SizeT size) {
  // A futex is the threads' to write, but for what add_pieces knows of.
  if (part == Vg_CoreSysCall && g_thread[tid].syscall != __NR_futex) add_piece(tid, a, size, False);
}

// The block goes to a reader that compares memory: says what the kernel may be writing meanwhile.
static void note_pending(TtqRing* ring) {
  UInt n = 0;
  for (ThreadId tid = 1; tid <= kTtqMaxThreads; tid++) {
    if (!g_thread[tid].alive || g_thread[tid].syscall < 0) continue;
    for (UInt i = 0; i < g_pieces[tid].count && n < kTtqMaxPending; i++) {
      ring->pending[n].address = g_pieces[tid].piece[i].address;
      ring->pending[n++].bytes = g_pieces[tid].piece[i].bytes;
    }
  }
  ring->pending_count = n;
}

// This memory has been sent: no comparison is to send it again.
static void forget_changes(ThreadId tid, Addr a, SizeT size) {
  for (UInt i = 0; i < g_pieces[tid].count; i++) {
    const Piece* p = &g_pieces[tid].piece[i];
    Addr from = p->address > a ? p->address : a;
    Addr to = p->address + p->saved < a + size ? p->address + p->saved : a + size;
    if (from >= to || !ttq_readable(from, to - from)) continue;
    VG_(memcpy)(g_pieces[tid].memory + p->at + (from - p->address), (void*)from, to - from);
  }
}

static void send_written(ThreadId tid, Addr a, SizeT size) {
  send_memory(kTtqBySyscall, tid, a, size);
  forget_changes(tid, a, size);
  if (g_thread[tid].syscall != __NR_futex) return;
  for (ThreadId other = 1; other <= kTtqMaxThreads; other++)
    if (g_thread[other].alive && other != tid) forget_changes(other, a, size);
}

// What Valgrind says was written. It is sent when the result is known.
static struct {
  Addr address;
  SizeT bytes;
} * g_told;
static UInt g_told_count, g_told_capacity;

static void post_mem_write(CorePart part, ThreadId tid, Addr a, SizeT size) {
  if (part == Vg_CoreSignal) return;  // sent as a whole by frame_is_built
  if (part != Vg_CoreSysCall || g_thread[tid].syscall < 0) {
    send_written(tid, a, size);
    return;
  }
  if (g_thread[tid].syscall == __NR_futex) return;
  if (g_told_count == g_told_capacity) {
    g_told_capacity = g_told_capacity ? 2 * g_told_capacity : 64;
    g_told = VG_(realloc)("ttq.told", g_told, g_told_capacity * sizeof(g_told[0]));
  }
  g_told[g_told_count].address = a;
  g_told[g_told_count++].bytes = size;
}

// The word at `a` as it was before the call; 0 where it was not saved.
static UInt word_before(ThreadId tid, Addr a) {
  UInt word = 0;
  for (UInt i = 0; i < g_pieces[tid].count; i++) {
    const Piece* p = &g_pieces[tid].piece[i];
    if (a < p->address || a + 4 > p->address + p->saved) continue;
    VG_(memcpy)(&word, g_pieces[tid].memory + p->at + (a - p->address), 4);
    break;
  }
  return word;
}

static SizeT at_most(SizeT size, Long most) {
  return most < 0 ? 0 : size < (SizeT)most ? size : (SizeT)most;
}

// How many of the bytes that Valgrind says were written really were: it takes some buffers for full
// that are not, and names of sockets for as long as they would have been.
static SizeT really_written(ThreadId tid, UInt number, const UWord* args, Long result, Addr a,
                            SizeT size) {
  switch (number) {
    case __NR_recvfrom:
      if (a == args[1]) return at_most(size, result);
      return a == args[4] && args[4] ? at_most(size, word_before(tid, args[5])) : size;
    case __NR_accept:
    case 288 /* accept4 */:
    case __NR_getsockname:
    case __NR_getpeername:
      return a == args[1] ? at_most(size, word_before(tid, args[2])) : size;
    case __NR_recvmsg:
    case 299 /* recvmmsg */:
      for (Long i = 0; i < (number == __NR_recvmsg ? 1 : result); i++) {
        Addr head = args[1] + 64 * i;  // struct mmsghdr; its name, and the name's length
        if (ttq_readable(head, 12) && *(Addr*)head == a)
          return at_most(size, word_before(tid, head + 8));
      }
      return size;
    case __NR_getxattr:
    case __NR_lgetxattr:
    case __NR_fgetxattr:
      return a == args[2] && args[3] == 0 ? 0 : size;
    case __NR_listxattr:
    case __NR_llistxattr:
    case __NR_flistxattr:
      return a == args[1] && args[2] == 0 ? 0 : size;
    case __NR_sched_getaffinity:
      return a == args[2] ? at_most(size, result) : size;
    case __NR_syslog:
      return a == args[1] ? at_most(size, result) : size;
    case __NR_wait4:
      return result > 0 ? size : 0;
    case __NR_waitid:
      // No child, no usage. Of its siginfo the kernel writes two pieces: up to its code, and pid,
      // uid and status.
      if (a == args[4] && args[2] && ttq_readable(args[2], 20) && ((UInt*)args[2])[4] == 0)
        return 0;
      if (a != args[2]) return size;
      send_written(tid, a + 16, 12);
      return 12;
    case __NR_clone:
      return a == args[3] && !(args[0] & VKI_CLONE_VM) ? 0 : size;
    default:
      return size;
  }
}

static void send_told(ThreadId tid, UInt number, const UWord* args, Long result) {
  for (UInt i = 0; i < g_told_count; i++)
    send_written(tid, g_told[i].address,
                 really_written(tid, number, args, result, g_told[i].address, g_told[i].bytes));
  g_told_count = 0;
  // Valgrind tells nothing of what these wrote, which they do also where nothing changes.
  if ((number != __NR_select && number != __NR_pselect6) || result < 0 || (Int)args[0] <= 0) return;
  for (UInt i = 1; i <= 3; i++) send_written(tid, args[i], 8);
}

// What differs from the saved bytes, in runs that end where eight bytes did not change.
static void send_changes_of_piece(ThreadId tid, const Piece* p) {
  enum { kGap = 8 };
  SizeT n = ttq_readable_prefix(p->address, p->saved);
  const UChar* now = (const UChar*)p->address;
  const UChar* then = g_pieces[tid].memory + p->at;
  for (SizeT i = 0; i < n; i++) {
    if (now[i] == then[i]) continue;
    SizeT last = i;
    for (SizeT j = i + 1; j < n && j - last <= kGap; j++)
      if (now[j] != then[j]) last = j;
    send_written(tid, (Addr)now + i, last + 1 - i);
    i = last;
  }
}

static void send_changes(ThreadId tid, Bool guesses) {
  for (UInt guessed = 0; guessed <= (guesses ? 1 : 0); guessed++)
    for (UInt i = 0; i < g_pieces[tid].count; i++)
      if (g_pieces[tid].piece[i].guessed == guessed)
        send_changes_of_piece(tid, &g_pieces[tid].piece[i]);
}

// What was too large to be saved. It is sent as a whole where any of it may have been written.
static void send_unsaved(ThreadId tid) {
  for (UInt i = 0; i < g_pieces[tid].count; i++) {
    const Piece* p = &g_pieces[tid].piece[i];
    if (!p->guessed && p->saved == 0) send_memory(kTtqBySyscall, tid, p->address, p->bytes);
  }
}

static void forget_pieces(ThreadId tid) { g_pieces[tid].count = g_pieces[tid].memory_bytes = 0; }

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
  ttq_correct_signal(info, VG_(get_IP)(tid));
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
    // The handler's registers are set before client code stops.
    g_thread[tid].left_by_fault = True;
    TtqRegisters r;
    get_registers(tid, &r);
    append(kTtqRegisters, &r, sizeof(r), NULL, 0);
    // When the fault ends the process, other threads run next, and end, before this one stops.
    g_in_client = False;
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

// What a thread that does not run yet will start with.
static struct {
  ThreadId parent;
  Addr clear_address, set_address;
} g_born[kTtqMaxThreads + 1];

static void pre_thread_ll_create(ThreadId tid, ThreadId child) {
  if (child > kTtqMaxThreads) VG_(tool_panic)("ttq: too many threads");
  const UWord* args = g_thread[tid].args;
  Bool clone = tid != VG_INVALID_THREADID && g_thread[tid].syscall == __NR_clone;
  g_born[child].parent = tid;
  g_born[child].clear_address = clone && (args[0] & VKI_CLONE_CHILD_CLEARTID) ? args[3] : 0;
  g_born[child].set_address = clone && (args[0] & VKI_CLONE_CHILD_SETTID) ? args[3] : 0;
}

static void pre_thread_first_insn(ThreadId tid) {
  thread_start(tid, g_born[tid].parent);
  g_thread[tid].clear_address = g_born[tid].clear_address;
  if (g_born[tid].set_address) send_memory(kTtqBySyscall, tid, g_born[tid].set_address, 4);
}

// The kernel marks the robust locks that a thread still holds when it ends: their owner died.
static void leave_robust_locks(ThreadId tid) {
  Addr head = g_thread[tid].robust_list, at = head;
  if (!head || !ttq_readable(head, 24)) return;
  UInt self = VG_(gettid)();
  Addr offset = ((UWord*)head)[1], last = ((UWord*)head)[2] & ~1UL;
  for (Int i = 0; i < 2048; i++) {  // as far as the kernel goes
    if (i) {
      Addr word = at + offset;
      UInt value;
      if (VG_(am_is_valid_for_client)(word, 4, VKI_PROT_READ | VKI_PROT_WRITE)) {
        value = *(UInt*)word;
        if ((value & 0x3fffffff) == self) {
          value = (value & 0x80000000) | 0x40000000;
          send_bytes(kTtqByThreadExit, tid, word, (UChar*)&value, 4);
        }
      }
    }
    if (!ttq_readable(at, 8)) break;
    at = *(UWord*)at & ~1UL;
    if (at == head || at == 0) break;
  }
  if (last && VG_(am_is_valid_for_client)(last + offset, 4, VKI_PROT_READ | VKI_PROT_WRITE)) {
    UInt value = *(UInt*)(last + offset);
    if ((value & 0x3fffffff) == self) {
      value = (value & 0x80000000) | 0x40000000;
      send_bytes(kTtqByThreadExit, tid, last + offset, (UChar*)&value, 4);
    }
  }
}

static void pre_thread_ll_exit(ThreadId tid) {
  ThreadInfo* t = &g_thread[tid];
  if (!t->alive) return;  // the clone that was to make it failed
  t->alive = False;
  Bool last = True;  // the kernel does not clear the word of a process's last thread
  for (ThreadId other = 1; other <= kTtqMaxThreads; other++) last = last && !g_thread[other].alive;
  if (!last) leave_robust_locks(tid);
  TtqThread s = {.tid = tid, .clear_address = last ? 0 : t->clear_address};
  append(kTtqThreadExit, &s, sizeof(s), NULL, 0);
}

// Private memory of no file that the kernel made zero again.
static void zero_range(Addr start, SizeT size) {
  for (Addr a = start; a < start + size;) {
    const NSegment* seg = VG_(am_find_nsegment)(a);
    Addr end = !seg || seg->end + 1 > start + size ? start + size : seg->end + 1;
    if (seg && seg->kind == SkAnonC && !in_range(a, kShared)) {
      Bool stack = VG_(get_running_tid)() != VG_INVALID_THREADID && a <= VG_(clstk_end) &&
                   VG_(clstk_end) <= seg->end + 1;
      send_map(a, end - a, protection_of(seg->hasR, seg->hasW, seg->hasX),
               stack ? kTtqMapStack : kTtqMapAnonymous, kTtqContentZero, False, seg, NULL, 0);
    } else if (seg && seg->kind == SkFileC && end - a <= kMaxInline) {
      send_real(kTtqBySyscall, VG_(get_running_tid)(), a, end - a);
    }
    a = end;
  }
}

// A child made with vfork shares its parent's memory until it execs or ends, and the parent waits
// for that. Valgrind makes it a plain fork that nobody waits for. What programs rely on is done
// here by a pipe: the parent waits for its end, and a child that ends without exec sends through it
// what the parent would have found in its stack frames: posix_spawn reports errors that way.
extern Int VG_(safe_fd)(Int fd);  // moves it out of the program's reach
enum { kSharedStack = 4096 };
static struct {
  Int reader, writer;  // -1: none
  ULong writer_inode;
  Addr begin;  // from the parent's stack pointer on
  UInt bytes;
} g_vfork = {-1, -1};
typedef struct {
  Addr begin;
  UInt bytes;
  UChar content[kSharedStack];
} VforkMessage;  // written and read as a whole: it is smaller than a pipe
static VforkMessage g_vfork_message;

static void close_vfork_pipe(void) {
  if (g_vfork.reader >= 0) VG_(close)(g_vfork.reader);
  if (g_vfork.writer >= 0) VG_(close)(g_vfork.writer);
  g_vfork.reader = g_vfork.writer = -1;
}

static void open_vfork_pipe(ThreadId tid) {
  const ThreadInfo* t = &g_thread[tid];
  const UWord shared = VKI_CLONE_VM | VKI_CLONE_VFORK;
  if (t->syscall != __NR_vfork && !(t->syscall == __NR_clone && (t->args[0] & shared) == shared))
    return;
  // A child of vfork that uses it too: its own parent has the pipe.
  if (g_vfork.writer >= 0) return;
  Int ends[2];
  if (VG_(pipe)(ends) < 0) return;
  // They are closed by exec, and out of the program's reach.
  g_vfork.reader = VG_(safe_fd)(ends[0]);
  g_vfork.writer = VG_(safe_fd)(ends[1]);
  struct vg_stat st;
  if (g_vfork.reader < 0 || g_vfork.writer < 0 || VG_(fstat)(g_vfork.writer, &st) != 0) {
    close_vfork_pipe();
    return;
  }
  g_vfork.writer_inode = st.ino;
  g_vfork.begin = VG_(get_SP)(tid);
  const NSegment* stack = VG_(am_find_nsegment)(g_vfork.begin);
  g_vfork.bytes = 0;
  if (!stack || !stack->hasW) return;
  SizeT room = stack->end + 1 - g_vfork.begin;
  g_vfork.bytes = room < kSharedStack ? room : kSharedStack;
}

// In the child, which is about to end.
static void tell_parent_of_vfork(void) {
  struct vg_stat st;
  if (g_vfork.writer < 0) return;
  // It may have been closed over our heads, and be something else by now.
  if (VG_(fstat)(g_vfork.writer, &st) == 0 && st.ino == g_vfork.writer_inode) {
    g_vfork_message.begin = g_vfork.begin;
    g_vfork_message.bytes = g_vfork.bytes;
    VG_(memcpy)(g_vfork_message.content, (void*)g_vfork.begin, g_vfork.bytes);
    VG_(write)(g_vfork.writer, &g_vfork_message, sizeof(g_vfork_message));
  }
  g_vfork.writer = -1;  // closed when the process is gone
}

// In the parent. A child that waits for another thread of this process, which cannot run now, would
// have it wait for ever.
static void fork_parent(ThreadId tid) {
  enum { kPatience = 5000 };  // milliseconds
  if (g_vfork.reader < 0) return;
  VG_(close)(g_vfork.writer);
  g_vfork.writer = -1;
  struct vki_pollfd wait = {.fd = g_vfork.reader, .events = VKI_POLLIN};
  Bool told = False;
  for (;;) {
    SysRes r = VG_(poll)(&wait, 1, kPatience);
    if (sr_isError(r) || sr_Res(r) == 0) break;
    VforkMessage* m = &g_vfork_message;
    if (VG_(read)(g_vfork.reader, m, sizeof(*m)) != sizeof(*m)) break;  // its end
    told = m->begin == g_vfork.begin && m->bytes == g_vfork.bytes;
  }
  close_vfork_pipe();
  for (UInt i = 0; told && i + 8 <= g_vfork.bytes; i += 8) {
    Addr at = g_vfork.begin + i;
    if (*(ULong*)at == *(ULong*)(g_vfork_message.content + i)) continue;
    *(ULong*)at = *(ULong*)(g_vfork_message.content + i);
    send_memory(kTtqBySyscall, tid, at, 8);
  }
}

static void fork_pre(ThreadId tid) {
  open_vfork_pipe(tid);
  g_forks++;
  append(kTtqFork, &g_forks, 4, NULL, 0);
  // The child's reader needs it, and this process may wait for the child before it fills a block.
  ttq_ring_next_block(False);
}

static void fork_child(ThreadId tid) {
  if (g_vfork.reader >= 0) {
    VG_(close)(g_vfork.reader);
    g_vfork.reader = -1;
  } else {
    close_vfork_pipe();  // of a parent that is a child of vfork itself
  }
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
  ttq_ring_announce();
  for (ThreadId t = 1; t <= kTtqMaxThreads; t++)
    if (t != tid) g_thread[t].alive = False;
  g_logged_thread = VG_INVALID_THREADID;
  TtqThread s = {.tid = tid, .os_tid = VG_(gettid)()};
  append(kTtqThreadStart, &s, sizeof(s), NULL, 0);
  begin_block();
  // Where this memory is not what the parent's last record of it says.
  for (ThreadId other = 1; other <= kTtqMaxThreads; other++) {
    ThreadInfo* o = &g_thread[other];
    if (other == tid || o->syscall < 0) continue;
    send_unsaved(other);
    send_changes(other, False);
    forget_pieces(other);
    o->syscall = -1;
  }
  ThreadInfo* t = &g_thread[tid];
  Bool clone = t->syscall == __NR_clone;
  t->clear_address = clone && (t->args[0] & VKI_CLONE_CHILD_CLEARTID) ? t->args[3] : 0;
  t->robust_list = 0;
  if (clone && (t->args[0] & VKI_CLONE_CHILD_SETTID))
    send_memory(kTtqBySyscall, tid, t->args[3], 4);
  for (UInt i = 0; i < g_range_count; i++) {
    Range r = g_ranges[i];
    if (r.kind == kWipedOnFork) zero_range(r.start, r.end - r.start);
    TtqRange gone = {.address = r.start, .bytes = r.end - r.start};
    if (r.kind == kNotForked) append(kTtqUnmap, &gone, sizeof(gone), NULL, 0);
  }
}

// ---- System calls -------------------------------------------------------------------------------

static void pre_syscall(ThreadId tid, UInt number, UWord* args, UInt count) {
  ThreadInfo* t = &g_thread[tid];
  TtqSyscall s = {.tid = tid, .number = number, .wall_ns = ttq_wall_ns()};
  for (UInt i = 0; i < 6; i++) s.args[i] = t->args[i] = i < count ? args[i] : 0;
  t->syscall = number;
  t->turns = g_turns;
  forget_pieces(tid);
  append(kTtqSyscallEnter, &s, sizeof(s), NULL, 0);
  add_pieces(tid, number, t->args);
  if (number == __NR_execve && ttq_readable(args[0], 1)) {
    UInt head = tid;
    append(kTtqExecve, &head, 4, (void*)args[0], VG_(strlen)((HChar*)args[0]));
    // If it succeeds nothing of this process runs again.
    ttq_ring_next_block(False);
  } else if (number == __NR_exit_group || number == __NR_exit) {
    UInt status = args[0];
    tell_parent_of_vfork();
    if (number == __NR_exit_group) append(kTtqExitProcess, &status, 4, NULL, 0);
  }
}

static void send_output(ThreadId tid, Int fd, Addr from, SizeT size) {
  if (!ttq_readable(from, size)) return;
  TtqOutput o = {.tid = tid, .fd = fd};
  while (size) {
    SizeT n = size < kChunk ? size : kChunk;
    append(kTtqOutput, &o, sizeof(o), (void*)from, n);
    from += n;
    size -= n;
  }
}

static const ULong kAllOfFile = 1ULL << 62;

// `size` bytes from `offset` of a file changed: so did memory that maps it.
static void file_changed(ThreadId tid, const struct vg_stat* st, Off64T offset, ULong size) {
  for (UInt i = 0; i < g_range_count; i++) {
    Range r = g_ranges[i];
    if (r.kind != kFile || r.dev != st->dev || r.ino != st->ino) continue;
    ULong first = offset > r.offset ? offset - r.offset : 0, bytes = r.end - r.start;
    if (first >= bytes || offset + size <= r.offset) continue;
    ULong last = offset + size - r.offset;
    send_real(kTtqBySyscall, tid, r.start + first, (last < bytes ? last : bytes) - first);
  }
}

static void open_file_changed(ThreadId tid, Int fd, Off64T offset, ULong size) {
  struct vg_stat st;
  if (VG_(fstat)(fd, &st) == 0) file_changed(tid, &st, offset, size);
}

// A file got another length. What lies behind its end cannot be read, and is zero when the file
// grows again.
static void file_resized(ThreadId tid, const struct vg_stat* st) {
  static const UChar kZeros[4096];
  file_changed(tid, st, 0, kAllOfFile);
  for (UInt i = 0; i < g_range_count; i++) {
    Range r = g_ranges[i];
    if (r.kind != kFile || r.dev != st->dev || r.ino != st->ino) continue;
    ULong kept = st->size > (Long)r.offset ? page_up(st->size - r.offset) : 0;
    for (Addr a = r.start + kept; a < r.end; a += sizeof(kZeros))
      send_bytes(kTtqBySyscall, tid, a, kZeros, sizeof(kZeros));
  }
}

static void look_for_file_changes(ThreadId tid, UInt number, const UWord* args, Long result) {
  struct vg_stat st;
  switch (number) {
    case __NR_write:
    case __NR_writev:
    case __NR_sendfile: {
      Off64T at = VG_(lseek)(args[0], 0, VKI_SEEK_CUR);
      if (result > 0 && at >= result) open_file_changed(tid, args[0], at - result, result);
      break;
    }
    case __NR_pwrite64:
    case __NR_pwritev:
    case 328 /* pwritev2 */: {
      if (result <= 0) break;
      // It may go to the end, or to where the file is, whatever the offset.
      Int flags = VG_(fcntl)(args[0], VKI_F_GETFL, 0);
      if (number == 328 || (flags & VKI_O_APPEND))
        open_file_changed(tid, args[0], 0, kAllOfFile);
      else
        open_file_changed(tid, args[0], args[3], result);
      break;
    }
    case __NR_ftruncate:
    case __NR_fallocate:
      if (VG_(fstat)(args[0], &st) == 0) file_resized(tid, &st);
      break;
    case __NR_truncate:
      if (!sr_isError(VG_(stat)((const HChar*)args[0], &st))) file_resized(tid, &st);
      break;
    case __NR_open:
    case __NR_openat:
    case __NR_creat: {
      UWord flags = number == __NR_open ? args[1] : number == __NR_openat ? args[2] : VKI_O_TRUNC;
      if ((flags & VKI_O_TRUNC) && VG_(fstat)(result, &st) == 0) file_resized(tid, &st);
      break;
    }
    case __NR_io_submit:
      // Most are done by now. struct iocb: what is to be done, and on which file.
      for (Long i = 0; i < result; i++) {
        enum { kPwrite = 1, kPwritev = 8 };
        const UChar* block = ((UChar**)args[2])[i];
        if (!ttq_readable((Addr)block, 64)) continue;
        UShort what = *(const UShort*)(block + 16);
        if (what == kPwrite || what == kPwritev)
          open_file_changed(tid, *(const Int*)(block + 20), 0, kAllOfFile);
      }
      break;
    case __NR_splice:
    case 326 /* copy_file_range */:
      open_file_changed(tid, args[2], 0, kAllOfFile);
      break;
    default:
      break;
  }
}

// The kernel took pages back, or is told what a fork is to do with them.
static void advised(ThreadId tid, Addr a, SizeT size, Int advice) {
  Addr end = page_up(a + size);
  Range range = {.start = a, .end = end};
  switch (advice) {
    case 4:
    case 8:
    case 24:
      zero_range(a, end - a);
      break;  // DONTNEED, FREE, DONTNEED_LOCKED
    case 9:
      send_real(kTtqBySyscall, tid, a, end - a);
      break;  // REMOVE: a hole in a shared file
    case 10:
    case 18:  // DONTFORK, WIPEONFORK
      range.kind = advice == 10 ? kNotForked : kWipedOnFork;
      cut_ranges(a, end, range.kind);
      add_range(range);
      break;
    case 11:
      cut_ranges(a, end, kNotForked);
      break;
    case 19:
      cut_ranges(a, end, kWipedOnFork);
      break;
    default:
      break;
  }
}

// What the program says to its recorder. Requests of other tools are not answered.
static Bool handle_client_request(ThreadId tid, UWord* args, UWord* result) {
  enum { kLongest = 4095 };
  if (args[0] != TTQ_REQUEST_MARK) return False;
  *result = 0;
  const HChar* text = (const HChar*)args[1];
  UInt bytes = 0;
  while (bytes < kLongest && VG_(am_is_valid_for_client)((Addr)text + bytes, 1, VKI_PROT_READ) &&
         text[bytes] != 0) {
    bytes++;
  }
  if (text == NULL) return True;
  TtqMark mark = {.tid = tid, .wall_ns = ttq_wall_ns()};
  append(kTtqMark, &mark, sizeof(mark), text, bytes);
  return True;
}

// What Valgrind does not tell of the memory that a system call wrote.
static void send_untold_writes(ThreadId tid, UInt number, const UWord* args, Long result) {
  switch (number) {
    case __NR_capget:  // two halves since version 2
      if (args[1] && *(UInt*)args[0] != 0x19980330) send_memory(kTtqBySyscall, tid, args[1], 24);
      break;
    case __NR_madvise:
      advised(tid, args[0], args[1], args[2]);
      break;
    case __NR_process_vm_writev: {
      const struct vki_iovec* v = (const struct vki_iovec*)args[3];
      Long left = result;
      if (args[0] != VG_(getpid)()) break;
      for (UWord i = 0; i < args[4] && left > 0; left -= v[i++].iov_len)
        send_real(kTtqBySyscall, tid, (Addr)v[i].iov_base,
                  (Long)v[i].iov_len < left ? v[i].iov_len : left);
      break;
    }
    default:
      break;
  }
  for (UInt i = 0; i < g_range_count; i++) {
    if (g_ranges[i].kind != kFile) continue;
    look_for_file_changes(tid, number, args, result);
    break;
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
  if (number == __NR_set_robust_list && value == 0) t->robust_list = args[0];
  send_told(tid, number, t->args, value);
  // Where another thread has run meanwhile, a guess may be wrong: what changed may be its doing.
  send_changes(tid, t->turns == g_turns);
  if (value == -VKI_EFAULT) send_unsaved(tid);
  forget_pieces(tid);
  if (value >= 0) send_untold_writes(tid, number, t->args, value);
  TtqSyscall s = {.tid = tid, .number = number, .result = value, .wall_ns = ttq_wall_ns()};
  for (UInt i = 0; i < 6; i++) s.args[i] = t->args[i];
  append(kTtqSyscallExit, &s, sizeof(s), NULL, 0);
  t->syscall = -1;
}

// Valgrind's wrappers of some system calls, wrapped once more. Their interface is Valgrind's own.
typedef struct {
  Word number;
  UWord arg[8];
} SyscallArgs;
typedef struct {
  UInt what;
  SysRes result;
} SyscallStatus;
enum { kSyscallComplete = 1 };
typedef struct SyscallLayout SyscallLayout;
#define WRAP_SYSCALL(name)                                                                      \
  void __real_vgSysWrap_##name##_before(ThreadId, SyscallLayout*, SyscallArgs*, SyscallStatus*, \
                                        UWord*);                                                \
  void __wrap_vgSysWrap_##name##_before(ThreadId, SyscallLayout*, SyscallArgs*, SyscallStatus*, \
                                        UWord*);                                                \
  void __wrap_vgSysWrap_##name##_before(ThreadId tid, SyscallLayout* layout, SyscallArgs* args, \
                                        SyscallStatus* status, UWord* flags)

static void complete(SyscallStatus* status, SysRes result) {
  status->what = kSyscallComplete;
  status->result = result;
}

// Where Valgrind does the whole of a call itself, it calls it complete before it is.
static SyscallStatus* g_status;  // of the call in progress, where it is such a one
#define NOTE_STATUS(name)                                               \
  WRAP_SYSCALL(name) {                                                  \
    g_status = status;                                                  \
    __real_vgSysWrap_##name##_before(tid, layout, args, status, flags); \
    g_status = NULL;                                                    \
  }
NOTE_STATUS(linux_sys_rt_sigaction)
NOTE_STATUS(linux_sys_rt_sigprocmask)
NOTE_STATUS(linux_sys_prlimit64)
NOTE_STATUS(generic_sys_sigaltstack)

void ttq_fail_syscall(ThreadId tid, UInt error) {
  const SysRes failure = VG_(mk_SysRes_Error)(error);
  UWord result = -(UWord)error;
  VG_(set_shadow_regs_area)
  (tid, 0, offsetof(VexGuestAMD64State, guest_RAX), 8, (const UChar*)&result);
  g_told_count = 0;
  if (g_status)
    complete(g_status, failure);  // post_syscall is called for it
  else
    post_syscall(tid, g_thread[tid].syscall, g_thread[tid].args, 6, failure);
  g_status = NULL;
}

// MADV_FREE lets the kernel take pages away at any later moment. At once is one of them, and the
// only one that can be recorded.
WRAP_SYSCALL(generic_sys_madvise) {
  if (args->arg[2] == 8) {
    Bool all = True;  // it is an error for anything but private memory of no file
    Addr end = page_up(args->arg[0] + args->arg[1]);
    for (Addr a = args->arg[0]; a < end && all;) {
      const NSegment* seg = VG_(am_find_nsegment)(a);
      all = seg && seg->kind == SkAnonC && !in_range(a, kShared);
      if (seg) a = seg->end + 1;
    }
    if (all) args->arg[2] = 4;  // MADV_DONTNEED
  }
  __real_vgSysWrap_generic_sys_madvise_before(tid, layout, args, status, flags);
}

// A filter would apply to Valgrind's own system calls, which it does not expect. It is accepted and
// not put in force.
WRAP_SYSCALL(linux_sys_prctl) {
  if (args->arg[0] == VKI_PR_SET_SECCOMP) {
    complete(status, VG_(mk_SysRes_Success)(0));
    return;
  }
  __real_vgSysWrap_linux_sys_prctl_before(tid, layout, args, status, flags);
}

// The program's own executable: the kernel would take it for Valgrind.
static Bool is_own_executable(Addr name) {
  HChar by_number[40];
  SizeT n = ttq_readable_prefix(name, sizeof(by_number));
  VG_(snprintf)(by_number, sizeof(by_number), "/proc/%d/exe", VG_(getpid)());
  return VG_(strnlen)((const HChar*)name, n) < n &&
         (VG_(strcmp)((const HChar*)name, "/proc/self/exe") == 0 ||
          VG_(strcmp)((const HChar*)name, by_number) == 0);
}

WRAP_SYSCALL(generic_sys_execve) {
  // Valgrind wants the name in the program's memory: for as long as the call lasts it is where no
  // frame is.
  enum { kLongest = 1024, kRedZone = 128 };
  static HChar saved[kLongest];
  HChar real[kLongest] = "", link[40];
  UWord name = args->arg[0];
  Addr place = VG_(get_SP)(tid) - kRedZone - kLongest;
  VG_(snprintf)(link, sizeof(link), "/proc/self/fd/%d", VG_(cl_exec_fd));
  if (!is_own_executable(name) || VG_(readlink)(link, real, kLongest - 1) <= 0 ||
      !VG_(am_is_valid_for_client)(place, kLongest, VKI_PROT_READ | VKI_PROT_WRITE)) {
    __real_vgSysWrap_generic_sys_execve_before(tid, layout, args, status, flags);
    return;
  }
  VG_(memcpy)(saved, (void*)place, kLongest);
  VG_(memcpy)((void*)place, real, kLongest);
  args->arg[0] = place;
  __real_vgSysWrap_generic_sys_execve_before(tid, layout, args, status, flags);
  args->arg[0] = name;
  VG_(memcpy)((void*)place, saved, kLongest);
}

// A signal that a thread sends itself is there before the call returns. Valgrind sees to it for
// kill and its like, and not for these.
enum { kPollAfter = 1 << 3 };
WRAP_SYSCALL(linux_sys_rt_sigqueueinfo) {
  __real_vgSysWrap_linux_sys_rt_sigqueueinfo_before(tid, layout, args, status, flags);
  *flags |= kPollAfter;
}
WRAP_SYSCALL(linux_sys_rt_tgsigqueueinfo) {
  __real_vgSysWrap_linux_sys_rt_tgsigqueueinfo_before(tid, layout, args, status, flags);
  *flags |= kPollAfter;
}

// The kernel would write memory at moments nobody can tell; programs have another way.
WRAP_SYSCALL(linux_sys_io_uring_setup) { complete(status, VG_(mk_SysRes_Error)(VKI_ENOSYS)); }

// ---- The ends -----------------------------------------------------------------------------------

static void add_argument(const HChar* text) {
  TtqRing* r = ttq_ring();
  UInt n = VG_(strlen)(text) + 1;
  if (r->argument_bytes + n > sizeof(r->arguments)) return;
  VG_(memcpy)(r->arguments + r->argument_bytes, text, n);
  r->argument_bytes += n;
}

// Valgrind opens its log with the number that is the program's next, goes on with a copy that is
// out of the program's reach, and leaves the first one open.
typedef struct {
  Int fd;
  UInt kind;
  HChar* name;
} OutputSink;
extern OutputSink VG_(log_output_sink);
static void close_copy_of_log(void) {
  enum { kFile = 1 };
  struct vg_stat log, st;
  if (VG_(log_output_sink).kind != kFile || VG_(fstat)(VG_(log_output_sink).fd, &log) != 0) return;
  for (Int fd = 0; fd < VG_(log_output_sink).fd; fd++) {
    if (VG_(fstat)(fd, &st) != 0 || st.dev != log.dev || st.ino != log.ino) continue;
    VG_(close)(fd);
    return;
  }
}

static void post_clo_init(void) {
  if (!clo_ring) {
    VG_(fmsg)("ttq: this tool is run by `ttq record`\n");
    VG_(exit)(125);
  }
  ttq_ring_set_begin(begin_block);
  if (clo_verify) ttq_ring_set_before_handing_over(note_pending);
  ttq_ring_create(clo_ring, clo_block_bytes, clo_block_count, clo_verify, "", 0, 0);
  add_argument(VG_(args_the_exename));
  add_argument(VG_(get_startup_wd)() ? VG_(get_startup_wd)() : "");
  add_argument(VG_(args_the_exename));
  for (Int i = 0; i < VG_(sizeXA)(VG_(args_for_client)); i++)
    add_argument(*(HChar**)VG_(indexXA)(VG_(args_for_client), i));
  ttq_ring_announce();
  close_copy_of_log();
  VG_(atfork)(fork_pre, fork_parent, fork_child);
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

// Valgrind keeps what it shows the program as /proc/self/cmdline in a file. It goes beside the
// rings: the user's TMPDIR is for the program, and may not be there. It is made before options are
// read.
extern XArray* VG_(args_for_valgrind);
HChar* __real_vgPlain_getenv(const HChar* name);
HChar* __wrap_vgPlain_getenv(const HChar* name);
HChar* __wrap_vgPlain_getenv(const HChar* name) {
  const Bool asked = VG_(strcmp)(name, "TMPDIR") == 0 && VG_(args_for_valgrind) != NULL;
  for (Int i = 0; asked && i < VG_(sizeXA)(VG_(args_for_valgrind)); i++) {
    HChar* option = *(HChar**)VG_(indexXA)(VG_(args_for_valgrind), i);
    if (VG_(strncmp)(option, "--ring=", 7) == 0) return option + 7;
  }
  return __real_vgPlain_getenv(name);
}

// A forked child goes on with its parent's log. Valgrind would open one by name, and end a child
// that is where it cannot.
void __wrap_vgPlain_logging_atfork_child(ThreadId tid);
void __wrap_vgPlain_logging_atfork_child(ThreadId tid) {}

// A program that is about to be exec'ed runs by itself, unrecorded, where recording would keep it
// from running: with another user's rights, or with another instruction set.
Bool __real_vgPlain_should_we_trace_this_child(const HChar* name, const HChar** argv);
Bool __wrap_vgPlain_should_we_trace_this_child(const HChar* name, const HChar** argv);
Bool __wrap_vgPlain_should_we_trace_this_child(const HChar* name, const HChar** argv) {
  Bool ours = __real_vgPlain_should_we_trace_this_child(name, argv);
  struct vg_stat st;
  if (!name || sr_isError(VG_(stat)(name, &st))) return ours;
  if ((st.mode & 04000) && st.uid != VG_(geteuid)()) ours = False;
  if ((st.mode & 02000) && st.gid != VG_(getegid)()) ours = False;
  SysRes file = VG_(open)(name, VKI_O_RDONLY, 0);
  if (!sr_isError(file)) {
    UChar head[20];
    if (VG_(read)(sr_Res(file), head, sizeof(head)) == sizeof(head) &&
        VG_(memcmp)(head, "\177ELF", 4) == 0 && (head[4] != 2 || head[18] != 62))
      ours = False;  // not 64 bits, or not x86
    VG_(close)(sr_Res(file));
  }
  ttq_ring()->became_other = !ours;
  return ours;
}

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

static void print_usage(void) {
  VG_(printf)("    (run by `ttq record`, which sets the options)\n");
}

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
  VG_(needs_client_requests)(handle_client_request);
  VG_(track_new_mem_startup)(new_mem_startup);
  VG_(track_new_mem_mmap)(new_mem_mmap);
  VG_(track_new_mem_brk)(new_mem_brk);
  VG_(track_new_mem_stack_signal)(new_mem_stack_signal);
  VG_(track_copy_mem_remap)(copy_mem_remap);
  VG_(track_change_mem_mprotect)(change_mem_mprotect);
  VG_(track_die_mem_brk)(die_mem_brk);
  VG_(track_die_mem_munmap)(die_mem);
  VG_(track_pre_mem_read)(pre_mem_read);
  VG_(track_pre_mem_write)(pre_mem_write);
  VG_(track_post_mem_write)(post_mem_write);
  VG_(track_post_reg_write)(post_reg_write);
  VG_(track_start_client_code)(start_client_code);
  VG_(track_stop_client_code)(stop_client_code);
  VG_(track_pre_thread_ll_create)(pre_thread_ll_create);
  VG_(track_pre_thread_first_insn)(pre_thread_first_insn);
  VG_(track_pre_thread_ll_exit)(pre_thread_ll_exit);
  VG_(clo_vex_control).iropt_register_updates_default = VexRegUpdAllregsAtEachInsn;
  VG_(clo_px_file_backed) = VexRegUpdAllregsAtEachInsn;
  // Each execution of a superblock has a record: the further short loops are unrolled, the fewer.
  // An exit takes two statements at least, so there are no more than kTtqMaxSideExits.
  VG_(clo_vex_control).iropt_unroll_thresh = 2 * kTtqMaxSideExits;
}

VG_DETERMINE_INTERFACE_VERSION(pre_clo_init)
