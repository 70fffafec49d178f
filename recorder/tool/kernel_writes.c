// SPDX-License-Identifier: GPL-2.0-or-later
//
// What system calls write.
//
// Valgrind tells of most of it, not of all: half a byte too few of a set of descriptors, nothing of
// what a call wrote before it failed, nothing of what it has not heard of. So what a call may write
// is saved before it and compared after it: what Valgrind says that it writes, what it reads and
// may write too, and, as a guess, some bytes from wherever an argument points to.

#include "recorder/tool/tool.h"

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
  if (!seg || !seg->hasW || !(seg->kind & (SkAnonC | SkFileC)) || ttq_in_range(a, kShared)) return;
  SizeT room = seg->end + 1 - a;
  add_piece(tid, a, room < most ? room : most, True);
}

// What an ioctl writes is known of few: Valgrind goes by the size in its number, where it has one.
static void add_pieces_of_ioctl(ThreadId tid, UInt request, Addr a) {
  enum {
    kFiemap = 0xc020660b,
    kFiemapHead = 32,
    kFiemapExtent = 56,
    kMaxExtents = 1 << 16,
    kLikely = 64,
    kWords = 16
  };
  SizeT n = ttq_readable_prefix(a, 8 * kWords);
  if (n == 0) return;
  if (request == kFiemap && n >= kFiemapHead)
    add_piece(tid, a, kFiemapHead + (SizeT)(((const UInt*)a)[6] % kMaxExtents) * kFiemapExtent,
              False);
  else
    add_piece(tid, a, kLikely, False);
  for (UInt i = 0; i < n / 8; i++) guess_piece(tid, ((const UWord*)a)[i], kGuessOfIoctl);
}

// What prctl writes through its second argument; Valgrind tells of the older options alone.
static void add_pieces_of_prctl(ThreadId tid, const UWord* args) {
  enum { kGetName = 16, kNameBytes = 16, kGetTidAddress = 40 };
  switch (args[0]) {
    case 2 /* PR_GET_PDEATHSIG */:
    case 5 /* PR_GET_UNALIGN */:
    case 9 /* PR_GET_FPEMU */:
    case 11 /* PR_GET_FPEXC */:
    case 19 /* PR_GET_ENDIAN */:
    case 25 /* PR_GET_TSC */:
    case 37 /* PR_GET_CHILD_SUBREAPER */:
      add_piece(tid, args[1], 4, False);
      break;
    case kGetTidAddress:
      add_piece(tid, args[1], 8, False);
      break;
    case kGetName:
      add_piece(tid, args[1], kNameBytes, False);
      break;
    default:
      break;
  }
}

void ttq_add_pieces(ThreadId tid, UInt number, const UWord* args) {
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
    case __NR_prctl:
      add_pieces_of_prctl(tid, args);
      break;
    case __NR_msgctl: {
      enum { kSet = 1, kRemove = 0, kQueueBytes = 120 };
      const UWord command = args[1] & 0xff;  // without IPC_64
      if (command != kSet && command != kRemove) add_piece(tid, args[2], kQueueBytes, False);
      break;
    }
    default:
      break;
  }
  for (UInt i = 0; i < 6; i++)
    guess_piece(tid, args[i], number == __NR_ioctl ? kGuessOfIoctl : kGuess);
  if (number == __NR_ioctl) add_pieces_of_ioctl(tid, args[1], args[2]);
}

void ttq_pre_mem_read(CorePart part, ThreadId tid, const HChar* what, Addr a, SizeT size) {
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

void ttq_pre_mem_write(CorePart part, ThreadId tid, const HChar* what, Addr a, SizeT size) {
  // A futex is the threads' to write, but for what add_pieces knows of.
  if (part == Vg_CoreSysCall && g_thread[tid].syscall != __NR_futex) add_piece(tid, a, size, False);
}

void ttq_note_pending(TtqRing* ring) {
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
  ttq_send_memory(kTtqBySyscall, tid, a, size);
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
UInt g_told_count;
static UInt g_told_capacity;

void ttq_post_mem_write(CorePart part, ThreadId tid, Addr a, SizeT size) {
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

void ttq_send_told(ThreadId tid, UInt number, const UWord* args, Long result) {
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

void ttq_send_changes(ThreadId tid, Bool guesses) {
  for (UInt guessed = 0; guessed <= (guesses ? 1 : 0); guessed++)
    for (UInt i = 0; i < g_pieces[tid].count; i++)
      if (g_pieces[tid].piece[i].guessed == guessed)
        send_changes_of_piece(tid, &g_pieces[tid].piece[i]);
}

void ttq_send_unsaved(ThreadId tid) {
  for (UInt i = 0; i < g_pieces[tid].count; i++) {
    const Piece* p = &g_pieces[tid].piece[i];
    if (!p->guessed && p->saved == 0) ttq_send_memory(kTtqBySyscall, tid, p->address, p->bytes);
  }
}

void ttq_forget_pieces(ThreadId tid) { g_pieces[tid].count = g_pieces[tid].memory_bytes = 0; }
