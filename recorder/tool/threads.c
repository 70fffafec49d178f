// SPDX-License-Identifier: GPL-2.0-or-later
//
// Threads and processes: their beginnings and ends, fork and vfork.

#include "recorder/tool/tool.h"

static void thread_start(ThreadId tid, ThreadId parent, ULong number) {
  ThreadInfo* t = &g_thread[tid];
  VG_(memset)(t, 0, sizeof(*t));
  t->alive = True;
  t->syscall = -1;
  TtqThread s = {.tid = tid, .os_tid = VG_(gettid)(), .parent = parent, .number = number};
  ttq_append_anywhere(kTtqThreadStart, &s, sizeof(s), NULL, 0);
}

// What a thread that does not run yet will start with. Its number is given when it is made: which
// of several runs first may be another one in each run.
static struct {
  ThreadId parent;
  ULong number;
  Addr clear_address, set_address;
} g_born[kTtqMaxThreads + 1];
static ULong g_threads_made;

void ttq_pre_thread_ll_create(ThreadId tid, ThreadId child) {
  if (child > kTtqMaxThreads) VG_(tool_panic)("ttq: too many threads");
  const UWord* args = g_thread[tid].args;
  Bool clone = tid != VG_INVALID_THREADID && g_thread[tid].syscall == __NR_clone;
  g_born[child].parent = tid;
  g_born[child].number = ++g_threads_made;
  g_born[child].clear_address = clone && (args[0] & VKI_CLONE_CHILD_CLEARTID) ? args[3] : 0;
  g_born[child].set_address = clone && (args[0] & VKI_CLONE_CHILD_SETTID) ? args[3] : 0;
}

void ttq_pre_thread_first_insn(ThreadId tid) {
  thread_start(tid, g_born[tid].parent, g_born[tid].number);
  g_thread[tid].clear_address = g_born[tid].clear_address;
  if (g_born[tid].set_address) ttq_send_memory(kTtqBySyscall, tid, g_born[tid].set_address, 4);
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
          ttq_send_bytes(kTtqByThreadExit, tid, word, (UChar*)&value, 4);
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
      ttq_send_bytes(kTtqByThreadExit, tid, last + offset, (UChar*)&value, 4);
    }
  }
}

void ttq_pre_thread_ll_exit(ThreadId tid) {
  ThreadInfo* t = &g_thread[tid];
  if (!t->alive) {  // the clone that was to make it failed
    if (g_born[tid].number == g_threads_made) g_threads_made--;
    return;
  }
  t->alive = False;
  Bool last = True;  // the kernel does not clear the word of a process's last thread
  for (ThreadId other = 1; other <= kTtqMaxThreads; other++) last = last && !g_thread[other].alive;
  if (!last) leave_robust_locks(tid);
  TtqThread s = {.tid = tid, .clear_address = last ? 0 : t->clear_address};
  ttq_append_anywhere(kTtqThreadExit, &s, sizeof(s), NULL, 0);
}

void ttq_zero_range(Addr start, SizeT size) {
  for (Addr a = start; a < start + size;) {
    const NSegment* seg = VG_(am_find_nsegment)(a);
    Addr end = !seg || seg->end + 1 > start + size ? start + size : seg->end + 1;
    if (seg && seg->kind == SkAnonC && !ttq_in_range(a, kShared)) {
      Bool stack = VG_(get_running_tid)() != VG_INVALID_THREADID && a <= VG_(clstk_end) &&
                   VG_(clstk_end) <= seg->end + 1;
      ttq_send_map(a, end - a, ttq_protection_of(seg->hasR, seg->hasW, seg->hasX),
                   stack ? kTtqMapStack : kTtqMapAnonymous, kTtqContentZero, False, seg, NULL, 0);
    } else if (seg && seg->kind == SkFileC && end - a <= kMaxInline) {
      ttq_send_real(kTtqBySyscall, VG_(get_running_tid)(), a, end - a);
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

void ttq_tell_parent_of_vfork(void) {
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

void ttq_fork_parent(ThreadId tid) {
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
    ttq_send_memory(kTtqBySyscall, tid, at, 8);
  }
}

void ttq_fork_pre(ThreadId tid) {
  open_vfork_pipe(tid);
  g_forks++;
  ttq_append_anywhere(kTtqFork, &g_forks, 4, NULL, 0);
  // The child's reader needs it, and this process may wait for the child before it fills a block.
  ttq_ring_next_block(False);
}

void ttq_fork_child(ThreadId tid) {
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
  g_threads_made = 1;
  TtqThread s = {.tid = tid, .os_tid = VG_(gettid)(), .number = 1};
  ttq_append_anywhere(kTtqThreadStart, &s, sizeof(s), NULL, 0);
  ttq_begin_block();
  // Where this memory is not what the parent's last record of it says.
  for (ThreadId other = 1; other <= kTtqMaxThreads; other++) {
    ThreadInfo* o = &g_thread[other];
    if (other == tid || o->syscall < 0) continue;
    ttq_send_unsaved(other);
    ttq_send_changes(other, False);
    ttq_forget_pieces(other);
    o->syscall = -1;
  }
  ThreadInfo* t = &g_thread[tid];
  Bool clone = t->syscall == __NR_clone;
  t->clear_address = clone && (t->args[0] & VKI_CLONE_CHILD_CLEARTID) ? t->args[3] : 0;
  t->robust_list = 0;
  if (clone && (t->args[0] & VKI_CLONE_CHILD_SETTID))
    ttq_send_memory(kTtqBySyscall, tid, t->args[3], 4);
  for (UInt i = 0; i < g_range_count; i++) {
    Range r = g_ranges[i];
    if (r.kind == kWipedOnFork) ttq_zero_range(r.start, r.end - r.start);
    TtqRange gone = {.address = r.start, .bytes = r.end - r.start};
    if (r.kind == kNotForked) ttq_append_anywhere(kTtqUnmap, &gone, sizeof(gone), NULL, 0);
  }
}
