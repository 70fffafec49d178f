// SPDX-License-Identifier: GPL-2.0-or-later
//
// System calls: their arguments and results, and those that Valgrind gets wrong.

#include "recorder/tool/tool.h"

void ttq_pre_syscall(ThreadId tid, UInt number, UWord* args, UInt count) {
  ThreadInfo* t = &g_thread[tid];
  TtqSyscall s = {.tid = tid, .number = number, .wall_ns = ttq_wall_ns()};
  for (UInt i = 0; i < 6; i++) s.args[i] = t->args[i] = i < count ? args[i] : 0;
  t->syscall = number;
  t->turns = g_turns;
  ttq_forget_pieces(tid);
  ttq_append_anywhere(kTtqSyscallEnter, &s, sizeof(s), NULL, 0);
  ttq_add_pieces(tid, number, t->args);
  if (number == __NR_execve && ttq_readable(args[0], 1)) {
    UInt head = tid;
    ttq_append_anywhere(kTtqExecve, &head, 4, (void*)args[0], VG_(strlen)((HChar*)args[0]));
    // If it succeeds nothing of this process runs again.
    ttq_ring_next_block(False);
  } else if (number == __NR_exit_group || number == __NR_exit) {
    UInt status = args[0];
    ttq_tell_parent_of_vfork();
    if (number == __NR_exit_group) ttq_append_anywhere(kTtqExitProcess, &status, 4, NULL, 0);
  }
}

static void send_output(ThreadId tid, Int fd, Addr from, SizeT size) {
  if (!ttq_readable(from, size)) return;
  TtqOutput o = {.tid = tid, .fd = fd};
  while (size) {
    SizeT n = size < kChunk ? size : kChunk;
    ttq_append_anywhere(kTtqOutput, &o, sizeof(o), (void*)from, n);
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
    ttq_send_real(kTtqBySyscall, tid, r.start + first, (last < bytes ? last : bytes) - first);
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
    ULong kept = st->size > (Long)r.offset ? ttq_page_up(st->size - r.offset) : 0;
    for (Addr a = r.start + kept; a < r.end; a += sizeof(kZeros))
      ttq_send_bytes(kTtqBySyscall, tid, a, kZeros, sizeof(kZeros));
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
  Addr end = ttq_page_up(a + size);
  Range range = {.start = a, .end = end};
  switch (advice) {
    case 4:
    case 8:
    case 24:
      ttq_zero_range(a, end - a);
      break;  // DONTNEED, FREE, DONTNEED_LOCKED
    case 9:
      ttq_send_real(kTtqBySyscall, tid, a, end - a);
      break;  // REMOVE: a hole in a shared file
    case 10:
    case 18:  // DONTFORK, WIPEONFORK
      range.kind = advice == 10 ? kNotForked : kWipedOnFork;
      ttq_cut_ranges(a, end, range.kind);
      ttq_add_range(range);
      break;
    case 11:
      ttq_cut_ranges(a, end, kNotForked);
      break;
    case 19:
      ttq_cut_ranges(a, end, kWipedOnFork);
      break;
    default:
      break;
  }
}

Bool ttq_handle_client_request(ThreadId tid, UWord* args, UWord* result) {
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
  ttq_append_anywhere(kTtqMark, &mark, sizeof(mark), text, bytes);
  return True;
}

// What Valgrind does not tell of the memory that a system call wrote.
static void send_untold_writes(ThreadId tid, UInt number, const UWord* args, Long result) {
  switch (number) {
    case __NR_capget:  // two halves since version 2
      if (args[1] && *(UInt*)args[0] != 0x19980330)
        ttq_send_memory(kTtqBySyscall, tid, args[1], 24);
      break;
    case __NR_madvise:
      advised(tid, args[0], args[1], args[2]);
      break;
    case __NR_process_vm_writev: {
      const struct vki_iovec* v = (const struct vki_iovec*)args[3];
      Long left = result;
      if (args[0] != VG_(getpid)()) break;
      for (UWord i = 0; i < args[4] && left > 0; left -= v[i++].iov_len)
        ttq_send_real(kTtqBySyscall, tid, (Addr)v[i].iov_base,
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

void ttq_post_syscall(ThreadId tid, UInt number, UWord* args, UInt count, SysRes result) {
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
  ttq_send_told(tid, number, t->args, value);
  // Where another thread has run meanwhile, a guess may be wrong: what changed may be its doing.
  ttq_send_changes(tid, t->turns == g_turns);
  if (value == -VKI_EFAULT) ttq_send_unsaved(tid);
  ttq_forget_pieces(tid);
  if (value >= 0) send_untold_writes(tid, number, t->args, value);
  TtqSyscall s = {.tid = tid, .number = number, .result = value, .wall_ns = ttq_wall_ns()};
  for (UInt i = 0; i < 6; i++) s.args[i] = t->args[i];
  ttq_append_anywhere(kTtqSyscallExit, &s, sizeof(s), NULL, 0);
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
    ttq_post_syscall(tid, g_thread[tid].syscall, g_thread[tid].args, 6, failure);
  g_status = NULL;
}

// MADV_FREE lets the kernel take pages away at any later moment. At once is one of them, and the
// only one that can be recorded.
WRAP_SYSCALL(generic_sys_madvise) {
  if (args->arg[2] == 8) {
    Bool all = True;  // it is an error for anything but private memory of no file
    Addr end = ttq_page_up(args->arg[0] + args->arg[1]);
    for (Addr a = args->arg[0]; a < end && all;) {
      const NSegment* seg = VG_(am_find_nsegment)(a);
      all = seg && seg->kind == SkAnonC && !ttq_in_range(a, kShared);
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
