// SPDX-License-Identifier: MIT
//
// Most system calls are made as the program asks, from a place where a signal can interrupt them
// (signals.cc), and kernel_writes.cc tells what they wrote. This file has those that change what
// memory there is, or that would find the engine where they look for the program.

#include "recorder/engine/syscalls.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "recorder/engine/calls.h"
#include "recorder/engine/clock.h"
#include "recorder/engine/context.h"
#include "recorder/engine/kernel_writes.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/process.h"
#include "recorder/engine/signals.h"
#include "recorder/engine/threads.h"
#include "recorder/engine/traces.h"

namespace ttq::engine::syscalls {

Program g_program;

namespace {

constexpr int64_t kInterrupted = -4, kNoSys = -38, kNoMemory = -12, kInvalid = -22,
                  kNotPermitted = -1;
constexpr uint64_t kMaxInline = uint64_t{1} << 30;  // contents of one mapping that are sent
constexpr size_t kOutputChunk = 256 << 10;

// ---- Mappings ----------------------------------------------------------------------------------

struct OpenFile {
  memory::FileInfo info;
  char path[4096];
};

// What is known of a descriptor's file.
const OpenFile& LookAt(uint64_t fd) {
  static OpenFile file;
  file.info = {};
  file.info.path = file.path;
  Text link;
  link << "/proc/self/fd/" << fd;
  const int64_t n =
      Syscall(SYS_readlink, Number(link.c_str()), Number(file.path), sizeof(file.path) - 1);
  file.path[n > 0 ? n : 0] = 0;
  struct stat st;
  if (!Failed(Syscall(SYS_fstat, fd, Number(&st)))) {
    file.info.dev = st.st_dev;
    file.info.ino = st.st_ino;
    file.info.bytes = static_cast<uint64_t>(st.st_size);
    file.info.mtime_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec;
  }
  char magic[4] = {};
  file.info.is_elf =
      Syscall(SYS_pread64, fd, Number(magic), 4, 0) == 4 && memcmp(magic, "\177ELF", 4) == 0;
  return file;
}

int64_t MapMemory(uint64_t* args) {
  const uint64_t bytes = PageUp(args[1]);
  const auto flags = static_cast<uint32_t>(args[3]);
  const bool fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  const bool anonymous = flags & MAP_ANONYMOUS;
  const bool shared = (flags & MAP_TYPE) != MAP_PRIVATE;
  const auto fd = static_cast<uint64_t>(static_cast<uint32_t>(args[4]));
  if (memory::OverlapsEngine(args[0], bytes)) {
    if (fixed) return kNoMemory;
    args[0] = 0;  // no more than a wish: the engine has room there, which the kernel would give
  }
  const OpenFile* file = anonymous ? nullptr : &LookAt(fd);
  const bool module = (file != nullptr && file->info.is_elf && !shared) || args[2] & PROT_EXEC;
  constexpr int64_t kTaken = -17;
  constexpr uint64_t kFirst2GiB = uint64_t{1} << 31;
  int64_t r = kTaken;
  const auto map_at = [&](uint64_t place) {
    const uint64_t placed[6] = {place,   args[1], args[2], args[3] | MAP_FIXED_NOREPLACE,
                                args[4], args[5]};
    return signals::Interruptible(SYS_mmap, placed);
  };
  // Where translated code reaches it. Some (SBCL) cannot go on elsewhere.
  const uint64_t wished = PageDown(args[0]);
  if (module && !fixed && wished != 0 && wished + bytes <= kModulesEnd) {
    r = map_at(wished);
    if (Failed(r)) r = kTaken;
  }
  while (module && !fixed && r == kTaken) {  // by what the program has put there
    const uint64_t near = memory::TakeModuleSpace(bytes);
    if (near == 0 || (flags & MAP_32BIT && near + bytes > kFirst2GiB)) break;
    r = map_at(near);
  }
  if (r == kNoMemory || r == kTaken) r = signals::Interruptible(SYS_mmap, args);
  if (Failed(r)) return r;
  if (memory::OverlapsEngine(static_cast<uint64_t>(r), bytes)) {  // MAP_32BIT
    Syscall(SYS_munmap, static_cast<uint64_t>(r), bytes);
    return kNoMemory;
  }
  memory::Mapping m;
  m.begin = static_cast<uint64_t>(r);
  m.end = m.begin + bytes;
  m.protection = static_cast<uint32_t>(args[2] & 7);
  m.shared = shared;
  m.is_file = file != nullptr;
  m.offset = args[5];
  if (file == nullptr) {
    memory::Map(m, kTtqMapAnonymous, kTtqContentZero, {});
    return r;
  }
  m.is_elf = file->info.is_elf && !shared;
  const uint32_t content = m.is_elf             ? kTtqContentFile
                           : bytes > kMaxInline ? kTtqContentUnknown
                                                : kTtqContentZero;
  memory::Map(m, kTtqMapFile, content, file->info);
  if (content == kTtqContentZero) memory::Send(kTtqInitial, m.begin, bytes, true);
  return r;
}

int64_t UnmapMemory(const uint64_t* args) {
  if (memory::OverlapsEngine(args[0], args[1])) return kInvalid;
  const int64_t r = signals::Interruptible(SYS_munmap, args);
  if (r == 0) memory::Unmap(args[0], args[0] + PageUp(args[1]));
  return r;
}

int64_t ProtectMemory(const uint64_t* args) {
  if (memory::OverlapsEngine(args[0], args[1])) return kNoMemory;
  const int64_t r = signals::Interruptible(SYS_mprotect, args);
  if (r == 0) {
    memory::Protect(args[0], args[0] + PageUp(args[1]), static_cast<uint32_t>(args[2] & 7));
  }
  return r;
}

// A mapping of what another shows, elsewhere.
void MapLike(const memory::Mapping& other, uint64_t begin, uint64_t bytes, uint64_t offset) {
  memory::Mapping m = other;
  m.begin = begin;
  m.end = begin + bytes;
  m.offset = offset;
  const bool has_content = m.is_file || m.shared;
  memory::Map(m,
              m.is_system_v ? kTtqMapSysV
              : m.is_file   ? kTtqMapFile
                            : kTtqMapAnonymous,
              has_content && bytes > kMaxInline ? kTtqContentUnknown : kTtqContentZero,
              m.file != nullptr ? *m.file : memory::FileInfo{});
  if (has_content) memory::Send(kTtqInitial, begin, bytes, true);
}

int64_t MoveMemory(const uint64_t* args) {
  const uint64_t from = args[0], old_bytes = PageUp(args[1]), bytes = PageUp(args[2]);
  if (memory::OverlapsEngine(from, old_bytes)) return kInvalid;
  const memory::Mapping* m = memory::Find(from);
  const memory::Mapping was = m != nullptr ? *m : memory::Mapping{};
  const uint64_t offset = was.offset + (from - was.begin);
  const int64_t r = signals::Interruptible(SYS_mremap, args);
  if (Failed(r)) return r;
  const auto to = static_cast<uint64_t>(r);
  if (old_bytes == 0) {  // of shared memory: a second mapping
    MapLike(was, to, bytes, offset);
    return r;
  }
  if (bytes < old_bytes) memory::Unmap(from + bytes, from + old_bytes);
  const uint64_t kept = Least(bytes, old_bytes);
  if (to != from) memory::Move(from, to, kept);
  if (args[3] & MREMAP_DONTUNMAP) {  // what was moved has left an empty mapping behind
    for (uint64_t at = to; at < to + kept;) {
      const memory::Mapping moved = *memory::Find(at);
      MapLike(moved, from + (moved.begin - to), moved.end - moved.begin, moved.offset);
      at = moved.end;
    }
  }
  if (bytes > old_bytes) MapLike(was, to + old_bytes, bytes - old_bytes, offset + old_bytes);
  return r;
}

int64_t AttachShared(const uint64_t* args) {
  const int64_t r = signals::Interruptible(SYS_shmat, args);
  if (Failed(r)) return r;
  struct {
    uint8_t permissions[48];
    uint64_t bytes;
    uint8_t rest[56];
  } about = {};
  constexpr uint64_t kStatus = 2;
  Syscall(SYS_shmctl, args[0], kStatus, Number(&about));
  constexpr uint64_t kReadOnly = 010000, kExecutable = 0100000;
  memory::Mapping m;
  m.begin = static_cast<uint64_t>(r);
  m.end = m.begin + PageUp(about.bytes);
  m.protection = PROT_READ | (args[2] & kReadOnly ? 0u : uint32_t{PROT_WRITE}) |
                 (args[2] & kExecutable ? uint32_t{PROT_EXEC} : 0u);
  m.shared = m.is_system_v = true;
  memory::FileInfo info;
  info.dev = ~uint64_t{0};  // no device
  info.ino = args[0] + 1;
  memory::Map(m, kTtqMapSysV, kTtqContentZero, info);
  memory::Send(kTtqInitial, m.begin, m.end - m.begin);
  return r;
}

int64_t DetachShared(const uint64_t* args) {
  const memory::Mapping* m = memory::Find(args[0]);
  const memory::Mapping was = m != nullptr ? *m : memory::Mapping{};
  const int64_t r = signals::Interruptible(SYS_shmdt, args);
  if (r == 0 && was.is_system_v) memory::Unmap(was.begin, was.end);
  return r;
}

int64_t SetBreak(uint64_t wanted) {
  static uint64_t now = 0;
  Program& p = g_program;
  if (now == 0) now = p.break_begin;
  if (wanted < p.break_begin) return static_cast<int64_t>(now);
  const uint64_t end = PageUp(now), wanted_end = PageUp(wanted);
  if (wanted_end > end) {
    if (memory::OverlapsEngine(end, wanted_end - end)) return static_cast<int64_t>(now);
    const int64_t r = Syscall(SYS_mmap, end, wanted_end - end, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~uint64_t{0}, 0);
    if (Failed(r) || static_cast<uint64_t>(r) != end) return static_cast<int64_t>(now);
    memory::Mapping m;
    m.begin = end;
    m.end = wanted_end;
    m.protection = PROT_READ | PROT_WRITE;
    memory::Map(m, kTtqMapHeap, kTtqContentZero, {});
  } else if (wanted_end < end) {
    Syscall(SYS_munmap, wanted_end, end - wanted_end);
    memory::Unmap(wanted_end, end);
  }
  now = wanted;
  return static_cast<int64_t>(now);
}

int64_t AdviseMemory(uint64_t* args) {
  const uint64_t begin = args[0], end = PageUp(args[0] + args[1]);
  // The kernel may take the pages at any later moment: at once is one of them, and the only one
  // that can be recorded.
  const bool free_later = args[2] == MADV_FREE;
  if (free_later) args[2] = MADV_DONTNEED;
  const int64_t r = signals::Interruptible(SYS_madvise, args);
  if (free_later) args[2] = MADV_FREE;
  if (r != 0) return r;
  constexpr uint64_t kDontNeedLocked = 24;
  if (free_later || args[2] == MADV_DONTNEED || args[2] == kDontNeedLocked) {
    memory::Reset(begin, end);
  } else if (args[2] == MADV_REMOVE) {
    memory::Send(kTtqBySyscall, begin, end - begin);
  } else {
    memory::Advise(begin, end, static_cast<int>(args[2]));
  }
  return r;
}

// ---- Where the engine would be found instead of the program ------------------------------------

// Whether a path is the program's own executable by number.
bool IsOwnExecutable(uint64_t path) {
  char name[64] = {};
  ReadGuest(path, name, sizeof(name) - 1);
  Text by_number;
  by_number << "/proc/" << static_cast<uint64_t>(Syscall(SYS_getpid)) << "/exe";
  return Equal(name, "/proc/self/exe") || Equal(name, by_number.c_str());
}

int64_t ReadOwnLink(uint64_t into, uint64_t bytes) {
  size_t n = Length(g_program.path);
  if (n > bytes) n = bytes;
  memcpy(reinterpret_cast<void*>(into), g_program.path, n);
  return static_cast<int64_t>(n);
}

// Whether a process is recorded by an engine: its memory and registers are the engine's.
bool IsRecorded(uint64_t pid) {
  Text link;
  link << "/proc/" << pid << "/exe";
  struct stat own, its;
  return !Failed(Syscall(SYS_stat, Number("/proc/self/exe"), Number(&own))) &&
         !Failed(Syscall(SYS_stat, Number(link.c_str()), Number(&its))) &&
         own.st_dev == its.st_dev && own.st_ino == its.st_ino;
}

// A debugger of what is recorded would see the engine, and hold it where it has to answer signals.
bool TracesRecorded(const uint64_t* args) {
  const bool begins = args[0] == PTRACE_ATTACH || args[0] == PTRACE_SEIZE;
  return args[0] == PTRACE_TRACEME || (begins && IsRecorded(args[1]));
}

int64_t SetProcessor(const uint64_t* args) {
  const int64_t r = signals::Interruptible(SYS_arch_prctl, args);
  if (Failed(r)) return r;
  NoteSegment(args[0], args[1]);
  if (args[0] == ARCH_GET_FS || args[0] == ARCH_GET_GS) memory::Send(kTtqBySyscall, args[1], 8);
  return r;
}

int64_t Control(const uint64_t* args) {
  constexpr uint64_t kSyscallDispatch = 59;
  // A filter would apply to the engine's own calls. It is accepted and not put in force.
  if (args[0] == PR_SET_SECCOMP) return 0;
  if (args[0] == PR_SET_MM || args[0] == kSyscallDispatch) return kInvalid;
  return signals::Interruptible(SYS_prctl, args);
}

// ---- What is told ------------------------------------------------------------------------------

void TellOutput(uint64_t fd, uint64_t from, uint64_t bytes) {
  TtqOutput o = {};
  o.tid = threads::Current();
  o.fd = static_cast<uint32_t>(fd);
  while (bytes > 0) {
    const uint64_t n = bytes < kOutputChunk ? bytes : kOutputChunk;
    ring::Append(kTtqOutput, &o, sizeof(o), reinterpret_cast<const void*>(from), n);
    from += n;
    bytes -= n;
  }
}

void TellWritten(uint64_t number, const uint64_t* args, int64_t result) {
  if (result <= 0 || (args[0] != 1 && args[0] != 2)) return;
  auto left = static_cast<uint64_t>(result);
  if (number == SYS_write) return TellOutput(args[0], args[1], left);
  for (uint64_t k = 0; k < args[2] && left > 0; ++k) {
    uint64_t buffer[2] = {};
    ReadGuest(args[1] + 16 * k, buffer, sizeof(buffer));
    const uint64_t n = buffer[1] < left ? buffer[1] : left;
    TellOutput(args[0], buffer[0], n);
    left -= n;
  }
}

// Memory that shows a file which the call has changed.
void TellFileChanges(uint64_t number, const uint64_t* args, int64_t result) {
  if (Failed(result) || !memory::ShowsFiles()) return;
  uint64_t fd = args[0];
  switch (number) {
    case SYS_write:
    case SYS_writev:
    case SYS_sendfile:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_ftruncate:
    case SYS_fallocate:
      break;
    case SYS_splice:
    case SYS_copy_file_range:
      fd = args[2];
      break;
    case SYS_open:
    case SYS_openat:
    case SYS_creat: {
      const uint64_t flags = number == SYS_open     ? args[1]
                             : number == SYS_openat ? args[2]
                                                    : uint64_t{O_TRUNC};
      if (!(flags & O_TRUNC)) return;
      fd = static_cast<uint64_t>(result);
      break;
    }
    case SYS_truncate:
      break;
    default:
      return;
  }
  struct stat st;
  const int64_t known = number == SYS_truncate ? Syscall(SYS_stat, args[0], Number(&st))
                                               : Syscall(SYS_fstat, fd, Number(&st));
  if (known == 0) memory::FileChanged(st.st_dev, st.st_ino, static_cast<uint64_t>(st.st_size));
}

// The call, while others may run where it may have to wait for one of them.
int64_t MakeCall(uint64_t number, const uint64_t* args, const CallNotes& notes) {
  if (threads::IsAlone() || !MayBlock(number, args)) return signals::Interruptible(number, args);
  threads::Thread* self = threads::Running();
  threads::Release(number, args, &notes);
  const int64_t r = signals::Interruptible(&self->signals, number, args);
  threads::Acquire(self);
  return r;
}

int64_t Run(uint64_t number, uint64_t* args, const CallNotes& notes) {
  if (number > kNewestCall) return kNoSys;
  switch (number) {
    case SYS_mmap:
      return MapMemory(args);
    case SYS_munmap:
      return UnmapMemory(args);
    case SYS_mprotect:
      return ProtectMemory(args);
    case SYS_mremap:
      return MoveMemory(args);
    case SYS_brk:
      return SetBreak(args[0]);
    case SYS_madvise:
      return AdviseMemory(args);
    case SYS_shmat:
      return AttachShared(args);
    case SYS_shmdt:
      return DetachShared(args);
    case SYS_rt_sigaction:
      return signals::SetAction(args[0], args[1], args[2], args[3]);
    case SYS_rt_sigprocmask:
      return signals::SetMask(args[0], args[1], args[2], args[3]);
    case SYS_sigaltstack:
      return signals::SetAlternateStack(args[0], args[1]);
    case SYS_arch_prctl:
      return SetProcessor(args);
    case SYS_prctl:
      return Control(args);
    case SYS_seccomp:
      return args[0] <= 1 ? 0 : kNoSys;
    case SYS_ptrace:
      if (TracesRecorded(args)) return kNotPermitted;
      break;
    case SYS_rseq:
    case SYS_clone3:
    case 425:  // io_uring_setup: the kernel would write memory at moments that nobody can tell
    case SYS_io_setup:  // and here
    case SYS_io_destroy:
    case SYS_io_submit:
    case SYS_io_cancel:
    case SYS_io_getevents:
    case SYS_pkey_mprotect:  // the rights of keys are a register that the engine does not keep
    case SYS_pkey_alloc:
    case SYS_pkey_free:
    case 426:  // io_uring_enter, io_uring_register
    case 427:
    case 333:              // io_pgetevents
    case SYS_userfaultfd:  // memory would change without a call
    case 447:              // memfd_secret: nobody could read it
    case 453:              // map_shadow_stack
    case SYS_execveat:     // a C library then takes execve
    case SYS_remap_file_pages:
      return kNoSys;
    case SYS_fork:
    case SYS_vfork:
    case SYS_clone:
      return process::Fork(number, args);
    case SYS_execve:
      return process::Execute(IsOwnExecutable(args[0]) ? Number(g_program.path) : args[0], args[1],
                              args[2]);
    case SYS_exit:
    case SYS_exit_group:
      process::Exit(number, static_cast<uint32_t>(args[0]));
    case SYS_readlink:
      if (IsOwnExecutable(args[0])) return ReadOwnLink(args[1], args[2]);
      break;
    case SYS_readlinkat:
      if (IsOwnExecutable(args[1])) return ReadOwnLink(args[2], args[3]);
      break;
    case SYS_open:
      if (IsOwnExecutable(args[0])) {
        const uint64_t own[6] = {Number(g_program.path), args[1], args[2]};
        return signals::Interruptible(number, own);
      }
      break;
    case SYS_openat:
      if (IsOwnExecutable(args[1])) {
        const uint64_t own[6] = {args[0], Number(g_program.path), args[2], args[3]};
        return signals::Interruptible(number, own);
      }
      break;
    case SYS_set_tid_address:
      return threads::SetClearAddress(args[0]);
    case SYS_set_robust_list:
      return threads::SetRobustList(args[0], args[1]);
    default:
      break;
  }
  return MakeCall(number, args, notes);
}

}  // namespace

void NoteSegment(uint64_t which, uint64_t base) {
  if (which == ARCH_SET_FS) g_context.fs_base = base;
  if (which == ARCH_SET_GS) g_context.gs_base = base;
}

void Execute() {
  uint64_t* r = g_context.r;
  const uint64_t number = r[kRax];
  uint64_t args[6] = {r[kRdi], r[kRsi], r[kRdx], r[kR10], r[kR8], r[kR9]};
  TtqSyscall s = {};
  s.tid = threads::Current();
  s.number = static_cast<int64_t>(number);
  memcpy(s.args, args, sizeof(args));
  s.wall_ns = WallNs();
  constexpr uint64_t kSyscallBytes = 2;
  if (!IsKnownSyscall(number) && number <= kNewestCall) {
    Refuse((Text() << "system call " << number << ", which the native engine does not know, at 0x")
               .Hex(g_context.pc - kSyscallBytes));
  }
  traces::NoteCall(number, args);
  memory::SetSyscall(s.number);
  ring::AppendStruct(kTtqSyscallEnter, s);
  if (number == SYS_rt_sigreturn) {
    signals::Return();
    s.result = static_cast<int64_t>(r[kRax]);
    s.wall_ns = WallNs();
    ring::AppendStruct(kTtqSyscallExit, s);
    memory::SetSyscall(-1);
    threads::TellRegisters();
    threads::TellVectors();
    return;
  }
  CallNotes notes;
  NoteBeforeSyscall(number, args, &notes);
  ring::NoteSoFar(s.wall_ns);
  const int64_t result = Run(number, args, notes);
  memory::SetSyscall(s.number);  // other threads have made calls meanwhile
  traces::NoteResult(number, args, result);
  if (number == SYS_write || number == SYS_writev) TellWritten(number, args, result);
  TellSyscallWrites(number, args, notes, result);
  TellFileChanges(number, args, result);
  s.result = result;
  s.wall_ns = WallNs();
  ring::AppendStruct(kTtqSyscallExit, s);
  memory::SetSyscall(-1);
  r[kRcx] = g_context.pc;
  r[kR11] = g_context.flags;
  if (result == signals::kRestart) {  // once more, when the signal has been handled
    g_context.pc -= kSyscallBytes;
  } else if (result == kInterrupted && signals::WillDie()) {
    // The program does not see that the call returns.
  } else {
    r[kRax] = static_cast<uint64_t>(result);
  }
  threads::TellRegisters();
}

}  // namespace ttq::engine::syscalls
