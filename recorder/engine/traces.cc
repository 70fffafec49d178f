// SPDX-License-Identifier: MIT
//
// A list of the calls that change nothing but their process. Any other counts as seen, and so does
// what concerns a descriptor that the process has not opened itself: others may share its position
// and its flags, and what is read from it is gone.

#include "recorder/engine/traces.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

namespace ttq::engine::traces {
namespace {

bool g_left;

// Descriptors that the process has opened; and of them, those whose other end is its own.
constexpr uint64_t kMaxDescriptors = 1024;
class Set {
 public:
  bool Has(uint64_t fd) const {
    return fd < kMaxDescriptors && (words_[fd / 64] >> fd % 64 & 1) != 0;
  }
  void Put(uint64_t fd, bool in) {
    if (fd >= kMaxDescriptors) return;
    const uint64_t bit = uint64_t{1} << fd % 64;
    words_[fd / 64] = in ? words_[fd / 64] | bit : words_[fd / 64] & ~bit;
  }

 private:
  uint64_t words_[kMaxDescriptors / 64];
};
Set g_own, g_channels;

uint64_t Descriptor(uint64_t argument) { return static_cast<uint32_t>(argument); }

bool OpensForReading(uint64_t flags) {
  return (flags & O_ACCMODE) == O_RDONLY && !(flags & (O_CREAT | O_TRUNC));
}

bool IsOwnProcess(uint64_t pid) {
  return static_cast<int64_t>(static_cast<int32_t>(pid)) == Syscall(SYS_getpid);
}

// Files that nobody notices being opened or read: not a pipe with a name, not a terminal.
bool IsQuiet(uint64_t fd) {
  struct stat st;
  if (Failed(Syscall(SYS_fstat, fd, reinterpret_cast<uint64_t>(&st)))) return false;
  constexpr unsigned kMemoryDevices = 1;  // null, zero, urandom
  return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ||
         (S_ISCHR(st.st_mode) && major(st.st_rdev) == kMemoryDevices);
}

bool ControlIsUnseen(const uint64_t* args) {
  switch (args[1]) {
    case 0x5401:  // TCGETS
    case 0x5413:  // TIOCGWINSZ
    case 0x540f:  // TIOCGPGRP
    case 0x5451:  // FIOCLEX
    case 0x5450:  // FIONCLEX
    case 0x541b:  // FIONREAD
      return true;
    case 0x5421:  // FIONBIO
      return g_own.Has(Descriptor(args[0]));
    default:
      return false;
  }
}

bool FlagsAreUnseen(const uint64_t* args) {
  switch (args[1]) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
    case F_GETFD:
    case F_SETFD:
    case F_GETFL:
      return true;
    case F_SETFL:
      return g_own.Has(Descriptor(args[0]));
    default:
      return false;
  }
}

// Of its memory, threads and signals, and what it asks of itself and the system.
bool ConcernsItself(uint64_t number, const uint64_t* args) {
  switch (number) {
    case SYS_mmap:
      return (args[3] & MAP_TYPE) == MAP_PRIVATE || args[3] & MAP_ANONYMOUS ||
             !(args[2] & PROT_WRITE);
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_mremap:
    case SYS_brk:
    case SYS_mincore:
    case SYS_mlock:
    case SYS_munlock:
      return true;
    case SYS_madvise:
      return args[2] != MADV_REMOVE;
    case SYS_clone:
      return (args[0] & CLONE_THREAD) != 0;
    case SYS_clone3:
    case SYS_rseq:
    case SYS_exit:
    case SYS_futex:
    case SYS_set_tid_address:
    case SYS_set_robust_list:
    case SYS_get_robust_list:
    case SYS_arch_prctl:
    case SYS_prctl:
    case SYS_membarrier:
    case SYS_sched_yield:
    case SYS_rt_sigaction:
    case SYS_rt_sigprocmask:
    case SYS_rt_sigreturn:
    case SYS_rt_sigpending:
    case SYS_rt_sigtimedwait:
    case SYS_sigaltstack:
      return true;
    case SYS_tgkill:
    case SYS_kill:
      return IsOwnProcess(args[0]);
    case SYS_getpid:
    case SYS_getppid:
    case SYS_gettid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
    case SYS_getgroups:
    case SYS_getresuid:
    case SYS_getresgid:
    case SYS_getpgrp:
    case SYS_getpgid:
    case SYS_getsid:
    case SYS_getcwd:
    case SYS_chdir:
    case SYS_umask:
    case SYS_uname:
    case SYS_sysinfo:
    case SYS_getrlimit:
    case SYS_setrlimit:
    case SYS_getrusage:
    case SYS_times:
    case SYS_time:
    case SYS_gettimeofday:
    case SYS_clock_gettime:
    case SYS_clock_getres:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_getcpu:
    case SYS_getrandom:
    case SYS_sched_getaffinity:
    case SYS_sched_setaffinity:
    case SYS_sched_getparam:
    case SYS_sched_getscheduler:
    case SYS_getpriority:
      return true;
    case SYS_prlimit64:
      return args[0] == 0;
    default:
      return false;
  }
}

// A descriptor of nothing outside of the process, from a call that makes one.
bool MakesChannel(uint64_t number) {
  switch (number) {
    case SYS_eventfd:
    case SYS_eventfd2:
    case SYS_epoll_create:
    case SYS_epoll_create1:
    case SYS_timerfd_create:
    case SYS_memfd_create:
      return true;
    default:
      return false;
  }
}

// Of files that it only looks at, and of descriptors that are its own alone.
bool ConcernsOwnFiles(uint64_t number, const uint64_t* args) {
  switch (number) {
    case SYS_stat:
    case SYS_fstat:
    case SYS_lstat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_statfs:
    case SYS_fstatfs:
    case SYS_access:
    case SYS_faccessat:
    case 439:  // faccessat2
    case SYS_readlink:
    case SYS_readlinkat:
    case SYS_fadvise64:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_close:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_ctl:
      return true;
    case SYS_open:
      return OpensForReading(args[1]);
    case SYS_openat:
      return OpensForReading(args[2]);
    case SYS_read:
    case SYS_readv:
    case SYS_lseek:
    case SYS_getdents64:
      return g_own.Has(Descriptor(args[0]));
    case SYS_write:
      return g_channels.Has(Descriptor(args[0]));
    case SYS_ioctl:
      return ControlIsUnseen(args);
    case SYS_fcntl:
      return FlagsAreUnseen(args);
    case SYS_dup:
    case SYS_dup2:
    case SYS_dup3:
    case SYS_pipe:
    case SYS_pipe2:
    case SYS_execve:
      return true;
    default:
      return MakesChannel(number);
  }
}

void Copy(uint64_t from, uint64_t to) {
  g_own.Put(to, g_own.Has(from));
  g_channels.Put(to, g_channels.Has(from));
}

void Opened(uint64_t fd, bool is_channel) {
  g_own.Put(fd, true);
  g_channels.Put(fd, is_channel);
}

}  // namespace

bool Left() { return g_left; }
void SetLeft() { g_left = true; }

void NoteCall(uint64_t number, const uint64_t* args) {
  if (!g_left && !ConcernsItself(number, args) && !ConcernsOwnFiles(number, args)) g_left = true;
}

void NoteResult(uint64_t number, const uint64_t* args, int64_t result) {
  if (g_left || Failed(result)) return;
  const auto fd = static_cast<uint64_t>(result);
  switch (number) {
    case SYS_open:
    case SYS_openat:
      if (!IsQuiet(fd)) g_left = true;
      Opened(fd, false);
      break;
    case SYS_pipe:
    case SYS_pipe2: {
      uint32_t ends[2];
      if (ReadGuest(args[0], ends, sizeof(ends)) != sizeof(ends)) break;
      Opened(ends[0], true);
      Opened(ends[1], true);
      break;
    }
    case SYS_dup:
    case SYS_dup2:
    case SYS_dup3:
      Copy(Descriptor(args[0]), fd);
      break;
    case SYS_fcntl:
      if (args[1] == F_DUPFD || args[1] == F_DUPFD_CLOEXEC) Copy(Descriptor(args[0]), fd);
      break;
    case SYS_close:
      g_own.Put(Descriptor(args[0]), false);
      g_channels.Put(Descriptor(args[0]), false);
      break;
    default:
      if (MakesChannel(number)) Opened(fd, true);
      break;
  }
}

}  // namespace ttq::engine::traces
