// SPDX-License-Identifier: MIT
//
// What a call wrote: by its row in calls.cc, and, where it depends on more than one argument, by
// TellOthers.

#include "recorder/engine/kernel_writes.h"

#include <sys/syscall.h>

#include "recorder/engine/calls.h"
#include "recorder/engine/memory.h"

namespace ttq::engine {
namespace {

constexpr int64_t kInterrupted = -4, kNoMemory = -12, kBadAddress = -14, kTooLarge = -75;

struct Buffer {
  uint64_t base, bytes;
};

void Written(uint64_t address, uint64_t bytes) {
  if (address != 0 && bytes != 0) memory::Send(kTtqBySyscall, address, bytes);
}

template <class T>
T Read(uint64_t address) {
  T value = {};
  ReadGuest(address, &value, sizeof(value));
  return value;
}

uint64_t WritableBytes(const MemoryRange& range) {
  const uint64_t end = range.address + range.bytes;
  uint64_t at = range.address;
  while (at < end && memory::IsWritable(at)) at = PageDown(at) + kPage;
  return (at < end ? at : end) - range.address;
}

void TellVector(uint64_t buffers, uint64_t count, uint64_t left) {
  for (uint64_t k = 0; k < count && left > 0; ++k) {
    const auto b = Read<Buffer>(buffers + k * sizeof(Buffer));
    const uint64_t n = Least(b.bytes, left);
    Written(b.base, n);
    left -= n;
  }
}

void TellPiece(const Piece& p, const uint64_t* args, const CallNotes& notes, int64_t result) {
  const uint64_t at = args[p.argument];
  const auto size = static_cast<uint64_t>(result);
  const bool ok = result >= 0;
  switch (p.how) {
    case kNothing:
      break;
    case kBytes:
      if (ok) Written(at, p.n);
      break;
    case kResult:
      if (ok) Written(at, size * p.n);
      break;
    case kReceived:
      if (ok) Written(at, Least(size, args[p.n]));
      break;
    case kArgument:
      if (ok) Written(at, args[p.n]);
      break;
    case kPolled:
      if (ok || result == kInterrupted) Written(at, args[1] * p.n);
      break;
    case kTimeLeft:
      if (ok || result == kInterrupted) Written(at, p.n);
      break;
    case kVector:
      if (ok) TellVector(at, args[p.n], size);
      break;
    case kNamed:
      if (!ok || args[p.n] == 0) break;
      Written(at, Least(notes.named[p.n], Read<uint32_t>(args[p.n])));
      Written(args[p.n], 4);
      break;
    case kOnInterrupt:
      if (result == kInterrupted) Written(at, p.n);
      break;
    case kIfResult:
      if (result > 0) Written(at, p.n);
  }
}

struct Message {  // struct msghdr
  uint64_t name;
  uint32_t name_bytes, padding;
  uint64_t buffers, buffer_count, control, control_bytes;
  int32_t flags, padding2;
};

void TellMessage(uint64_t at, uint64_t bytes, const Buffer& name) {
  const auto m = Read<Message>(at);
  TellVector(m.buffers, m.buffer_count, bytes);
  Written(m.control, m.control_bytes);
  if (name.base != 0) {
    Written(name.base, Least(name.bytes, m.name_bytes));
    Written(at + offsetof(Message, name_bytes), sizeof(m.name_bytes));
  }
  Written(at + offsetof(Message, control_bytes), sizeof(m.control_bytes));
  Written(at + offsetof(Message, flags), sizeof(m.flags));
}

constexpr uint64_t IoctlType(uint64_t request) { return request >> 8 & 0xff; }
constexpr uint64_t IoctlBytes(uint64_t request) { return request >> 16 & 0x3fff; }

// Whether what an ioctl writes is not known: its number does not say it, and no table here.
bool IsUnknownIoctl(uint64_t request, uint64_t at) {
  if (IoctlBytes(request) != 0 || at <= kPage) return false;
  switch (IoctlType(request)) {
    case 'T':   // terminals, and descriptors
    case 0x89:  // sockets
    case 'f':   // of file systems; those that write say so
    case 0x94:
    case 'X':
      return false;
    default:
      return true;
  }
}

// What differs from the saved bytes, in runs that end where eight bytes did not change.
void TellChanges(uint64_t at, const CallNotes& notes) {
  constexpr uint64_t kGap = 8;
  uint8_t now[sizeof(notes.saved)];
  const uint64_t n = ReadGuest(at, now, notes.saved_bytes);
  for (uint64_t i = 0; i < n; ++i) {
    if (now[i] == notes.saved[i]) continue;
    uint64_t last = i;
    for (uint64_t k = i + 1; k < n && k - last <= kGap; ++k) {
      if (now[k] != notes.saved[k]) last = k;
    }
    Written(at + i, last + 1 - i);
    i = last;
  }
}

void TellTerminalControl(uint64_t request, uint64_t at) {
  switch (request) {
    case 0x5401:  // TCGETS
      return Written(at, 36);
    case 0x5405:  // TCGETA
      return Written(at, 18);
    case 0x5413:  // TIOCGWINSZ
      return Written(at, 8);
    case 0x540f:  // TIOCGPGRP
    case 0x5411:  // TIOCOUTQ
    case 0x5415:  // TIOCMGET
    case 0x5419:  // TIOCGSOFTCAR
    case 0x541b:  // FIONREAD
    case 0x5424:  // TIOCGETD
    case 0x5429:  // TIOCGSID
      return Written(at, 4);
    case 0x541e:  // TIOCGSERIAL
      return Written(at, 72);
    default:
      return;
  }
}

void TellSocketControl(uint64_t request, uint64_t at) {
  switch (request) {
    case 0x8901:
    case 0x8902:
    case 0x8903:
    case 0x8904:
    case 0x8905:
      return;
    case 0x8912: {  // SIOCGIFCONF
      const auto list = Read<Buffer>(at);
      Written(list.bytes, static_cast<uint32_t>(list.base));
      return Written(at, 16);
    }
    default:
      return Written(at, 40);  // struct ifreq
  }
}

// What an ioctl writes: as its number says, which has a direction and a size since Linux 2.0; those
// of terminals and the like are older. What changed, where nothing is known.
void TellIoctl(uint64_t request, uint64_t at, const CallNotes& notes) {
  constexpr uint64_t kWritesUser = 2, kFiemap = 0xc020660b;
  if (request == kFiemap) {
    constexpr uint64_t kHead = 32, kExtent = 56;
    const uint64_t mapped = Read<uint32_t>(at + 20), room = Read<uint32_t>(at + 24);
    return Written(at, kHead + Least(mapped, room) * kExtent);
  }
  if (request >> 30 & kWritesUser && IoctlBytes(request) != 0) {
    return Written(at, IoctlBytes(request));
  }
  if (IsUnknownIoctl(request, at)) return TellChanges(at, notes);
  if (IoctlType(request) == 'T') return TellTerminalControl(request, at);
  if (IoctlType(request) == 0x89) return TellSocketControl(request, at);
}

// What quotactl writes, by its command.
uint64_t QuotaBytes(uint64_t command) {
  switch (command >> 8) {
    case 0x800004:  // Q_GETFMT
      return 4;
    case 0x800005:  // Q_GETINFO
      return 24;
    case 0x800007:  // Q_GETQUOTA
      return 72;
    case 0x800009:  // Q_GETNEXTQUOTA
      return 80;
    default:
      return 0;
  }
}

// The controls of shared memory, queues and semaphores: what an argument points to is a structure
// for some, the limits of all for others.
void TellSystemV(uint64_t number, const uint64_t* args, int64_t result) {
  constexpr uint64_t kStatus = 2, kInfo = 3, kGetAll = 13;
  if (result < 0) return;
  const uint64_t command = args[number == SYS_semctl ? 2 : 1] & 0xff;
  const uint64_t at = args[number == SYS_semctl ? 3 : 2];
  if (number == SYS_shmctl) {
    if (command == kInfo) Written(at, 72);
    if (command == 14) Written(at, 48);  // SHM_INFO
    if (command == kStatus || command == 13 || command == 15) Written(at, 112);
  } else if (number == SYS_msgctl) {
    if (command == kInfo || command == 12) Written(at, 32);
    if (command == kStatus || command == 11 || command == 13) Written(at, 120);
  } else if (command == kGetAll) {
    struct {
      uint8_t before[80];
      uint64_t count;
      uint8_t after[16];
    } about = {};
    Syscall(SYS_semctl, args[0], 0, kStatus, reinterpret_cast<uint64_t>(&about));
    Written(at, 2 * about.count);
  } else if (command == kInfo || command == 19) {
    Written(at, 40);
  } else if (command == kStatus || command == 18 || command == 20) {
    Written(at, 104);
  }
}

// What fcntl writes, by its command.
uint64_t ControlBytes(uint64_t command) {
  switch (command) {
    case 5:   // F_GETLK
    case 36:  // F_OFD_GETLK
      return 32;
    case 16:    // F_GETOWN_EX
    case 17:    // F_GETOWNER_UIDS
    case 1035:  // F_GET_RW_HINT
    case 1037:  // F_GET_FILE_RW_HINT
      return 8;
    default:
      return 0;
  }
}

// What prctl wrote, by its option.
void TellProcessControl(const uint64_t* args) {
  switch (args[0]) {
    case 2:   // PR_GET_PDEATHSIG
    case 5:   // PR_GET_UNALIGN
    case 9:   // PR_GET_FPEMU
    case 11:  // PR_GET_FPEXC
    case 19:  // PR_GET_ENDIAN
    case 25:  // PR_GET_TSC
    case 37:  // PR_GET_CHILD_SUBREAPER
      return Written(args[1], 4);
    case 16:  // PR_GET_NAME
      return Written(args[1], 16);
    case 40:  // PR_GET_TID_ADDRESS
      return Written(args[1], 8);
    case 62:  // PR_SCHED_CORE, of which the first command gets something
      return Written(args[1] == 0 ? args[4] : 0, 8);
    case 0x41555856:  // PR_GET_AUXV
      return Written(args[1], args[2]);
    default:
      return;
  }
}

// What ptrace wrote, by its request. It reads a word to memory, where the C library's returns it.
void TellTrace(const uint64_t* args, int64_t result) {
  constexpr uint64_t kWord = 8, kRegisters = 27 * kWord, kVectorRegisters = 512, kSignal = 128;
  switch (args[0]) {
    case 1:       // PTRACE_PEEKTEXT
    case 2:       // PTRACE_PEEKDATA
    case 3:       // PTRACE_PEEKUSER
    case 0x4201:  // PTRACE_GETEVENTMSG
      return Written(args[3], kWord);
    case 12:  // PTRACE_GETREGS
      return Written(args[3], kRegisters);
    case 14:  // PTRACE_GETFPREGS
      return Written(args[3], kVectorRegisters);
    case 0x4202:  // PTRACE_GETSIGINFO
      return Written(args[3], kSignal);
    case 0x420a:  // PTRACE_GETSIGMASK
    case 0x4211:  // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, which takes its own size only
      return Written(args[3], args[2]);
    case 0x420e:  // PTRACE_GET_SYSCALL_INFO and PTRACE_GET_RSEQ_CONFIGURATION, which return how
                  // much
    case 0x420f:  // there is
      return Written(args[3], Least(args[2], static_cast<uint64_t>(result)));
    case 0x4204:  // PTRACE_GETREGSET, which says in the vector how much it wrote
      Written(args[3] + kWord, kWord);
      return Written(Read<uint64_t>(args[3]), Read<uint64_t>(args[3] + kWord));
    case 0x4209:  // PTRACE_PEEKSIGINFO, which returns how many
      return Written(args[3], kSignal * static_cast<uint64_t>(result));
    default:
      return;
  }
}

// A byte for each page up to the first that is not mapped.
uint64_t ResidentBytes(const uint64_t* args) {
  const uint64_t end = args[0] + args[1];
  uint64_t at = args[0];
  while (at < end) {
    const memory::Mapping* m = memory::Find(at);
    if (m == nullptr) break;
    at = Least(m->end, end);
  }
  return (at - args[0] + kPage - 1) / kPage;
}

// A pipe's bytes go to memory where the descriptor is the end that is read.
bool ReadsPipe(uint64_t fd) {
  constexpr uint64_t kGetFlags = 3, kAccess = 3;
  return (static_cast<uint64_t>(Syscall(SYS_fcntl, fd, kGetFlags)) & kAccess) == 0;
}

// The calls of which a program makes few, if any.
void TellSeldom(uint64_t number, const uint64_t* args, int64_t result) {
  const bool ok = result >= 0;
  switch (number) {
    case SYS_modify_ldt:
      if (ok && (args[0] == 0 || args[0] == 2)) Written(args[1], static_cast<uint64_t>(result));
      break;
    case SYS_quotactl:
      if (ok) Written(args[3], QuotaBytes(args[0]));
      break;
    case SYS_sysfs:  // the name of a file system
      if (ok && args[0] == 2) {
        Written(args[2], Length(reinterpret_cast<const char*>(args[2])) + 1);
      }
      break;
    case SYS_get_mempolicy:  // a bit a node
      if (ok) Written(args[1], (args[2] + 62) / 64 * 8);
      break;
    case SYS_move_pages:
      Written(args[4], args[1] * 4);
      break;
    case SYS_keyctl: {
      constexpr uint64_t kDescribe = 6, kRead = 11, kSecurity = 17;
      if (ok && (args[0] == kDescribe || args[0] == kRead || args[0] == kSecurity)) {
        Written(args[2], Least(args[3], static_cast<uint64_t>(result)));
      }
      break;
    }
    case SYS_ptrace:
      if (ok) TellTrace(args, result);
      break;
    case SYS_name_to_handle_at:
      if (!ok && result != kTooLarge) break;
      Written(args[2], 8 + (ok ? Read<uint32_t>(args[2]) : 0));
      Written(args[3], 4);
      break;
    case SYS_mincore:
      if (ok || result == kNoMemory) Written(args[2], ResidentBytes(args));
      break;
    case SYS_vmsplice:
      if (ok && ReadsPipe(args[0])) TellVector(args[1], args[2], static_cast<uint64_t>(result));
      break;
    default:
      break;
  }
}

void TellOthers(uint64_t number, const uint64_t* args, const CallNotes& notes, int64_t result) {
  const bool ok = result >= 0;
  switch (number) {
    case SYS_select:
    case SYS_pselect6:
      for (unsigned k = 1; ok && k <= 3; ++k) Written(args[k], (args[0] + 63) / 64 * 8);
      break;
    case SYS_ioctl:
      if (ok) TellIoctl(args[1], args[2], notes);
      break;
    case SYS_fcntl:
      if (ok) Written(args[2], ControlBytes(args[1]));
      break;
    case SYS_prctl:
      if (ok) TellProcessControl(args);
      break;
    case SYS_futex:
      switch (args[1] & 0x7f) {
        case 5:   // FUTEX_WAKE_OP
        case 11:  // FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI
        case 12:
          Written(args[4], 4);
          break;
        case 6:  // FUTEX_LOCK_PI and its like
        case 7:
        case 8:
        case 13:
          Written(args[0], 4);
          break;
        default:
          break;
      }
      break;
    case SYS_waitid: {  // the siginfo's pid is 0 where no child was found
      if (!ok) break;
      const uint64_t info = args[2];
      Written(info, 12);
      if (info != 0) Written(info + 16, 12);
      if (info == 0 || Read<uint32_t>(info + 16) != 0) Written(args[4], 144);
      break;
    }
    case SYS_recvmsg:
      if (ok) {
        TellMessage(args[1], static_cast<uint64_t>(result), {notes.name, notes.name_bytes});
      }
      break;
    case SYS_recvmmsg:
    case SYS_sendmmsg:
      for (int64_t k = 0; k < result; ++k) {
        const uint64_t at = args[1] + static_cast<uint64_t>(k) * 64;
        if (number == SYS_recvmmsg) {
          const auto m = Read<Message>(at);
          TellMessage(at, Read<uint32_t>(at + 56), {m.name, m.name_bytes});
        }
        Written(at + 56, 4);
      }
      break;
    case SYS_process_vm_writev:
      if (ok && args[0] == static_cast<uint64_t>(Syscall(SYS_getpid))) {
        TellVector(args[3], args[4], static_cast<uint64_t>(result));
      }
      break;
    case SYS_getgroups:
      if (ok && args[0] != 0) Written(args[1], static_cast<uint64_t>(result) * 4);
      break;
    case SYS_capget:
      Written(args[0], 8);
      if (ok) Written(args[1], Read<uint32_t>(args[0]) == 0x19980330 ? 12 : 24);
      break;
    case SYS_getxattr:
    case SYS_lgetxattr:
    case SYS_fgetxattr:
      if (ok && args[3] != 0) Written(args[2], static_cast<uint64_t>(result));
      break;
    case SYS_listxattr:
    case SYS_llistxattr:
    case SYS_flistxattr:
      if (ok && args[2] != 0) Written(args[1], static_cast<uint64_t>(result));
      break;
    case SYS_syslog:
      if (ok && args[0] >= 2 && args[0] <= 4) Written(args[1], static_cast<uint64_t>(result));
      break;
    case SYS_msgrcv:  // the type comes before the text
      if (ok) Written(args[1], 8 + static_cast<uint64_t>(result));
      break;
    case SYS_shmctl:
    case SYS_msgctl:
    case SYS_semctl:
      TellSystemV(number, args, result);
      break;
    default:
      TellSeldom(number, args, result);
      break;
  }
}

}  // namespace

void NoteBeforeSyscall(uint64_t number, const uint64_t* args, CallNotes* notes) {
  memset(notes, 0, offsetof(CallNotes, saved));
  const Call* call = FindCall(number);
  if (call == nullptr) return;
  for (const Piece& p : call->pieces) {
    if (p.how == kNamed) notes->named[p.n] = args[p.n] == 0 ? 0 : Read<uint32_t>(args[p.n]);
  }
  if (number == SYS_recvmsg) {
    const auto m = Read<Message>(args[1]);
    notes->name = m.name;
    notes->name_bytes = m.name_bytes;
  }
  if (number == SYS_ioctl && IsUnknownIoctl(args[1], args[2])) {
    notes->saved_bytes =
        static_cast<uint32_t>(ReadGuest(args[2], notes->saved, sizeof(notes->saved)));
  }
}

void TellSyscallWrites(uint64_t number, const uint64_t* args, const CallNotes& notes,
                       int64_t result) {
  const Call* call = FindCall(number);
  if (call == nullptr) return;
  for (const Piece& p : call->pieces) TellPiece(p, args, notes, result);
  TellOthers(number, args, notes, result);
  if (result != kBadAddress) return;
  // The kernel has written up to where it could not; how much of the rest, nobody says.
  MemoryRange ranges[16];
  const size_t count = PossibleWrites(number, args, notes, ranges, 16);
  for (size_t k = 0; k < count; ++k) Written(ranges[k].address, WritableBytes(ranges[k]));
}

namespace {

// Ranges in an array of the caller's.
class Ranges {
 public:
  Ranges(MemoryRange* out, size_t most) : out_(out), most_(most) {}
  void Add(uint64_t address, uint64_t bytes) {
    if (address != 0 && bytes != 0 && count_ < most_) out_[count_++] = {address, bytes};
  }
  void AddVector(uint64_t buffers, uint64_t count) {
    for (uint64_t k = 0; k < count && count_ < most_; ++k) {
      const auto b = Read<Buffer>(buffers + k * sizeof(Buffer));
      Add(b.base, b.bytes);
    }
  }
  void AddMessage(uint64_t at) {
    const auto m = Read<Message>(at);
    AddVector(m.buffers, m.buffer_count);
    Add(m.name, m.name_bytes);
    Add(m.control, m.control_bytes);
    Add(at + offsetof(Message, name_bytes), sizeof(m.name_bytes));
    Add(at + offsetof(Message, control_bytes), sizeof(m.control_bytes));
    Add(at + offsetof(Message, flags), sizeof(m.flags));
  }
  size_t count() const { return count_; }

 private:
  MemoryRange* out_;
  size_t most_, count_ = 0;
};

void AddPiece(const Piece& p, const uint64_t* args, const CallNotes& notes, Ranges* ranges) {
  const uint64_t at = args[p.argument];
  switch (p.how) {
    case kNothing:
      break;
    case kBytes:
    case kTimeLeft:
    case kOnInterrupt:
    case kIfResult:
      ranges->Add(at, p.n);
      break;
    case kResult:  // no more than the argument behind the address says
      ranges->Add(at, args[p.argument + 1] * p.n);
      break;
    case kReceived:
    case kArgument:
      ranges->Add(at, args[p.n]);
      break;
    case kPolled:
      ranges->Add(at, args[1] * p.n);
      break;
    case kVector:
      ranges->AddVector(at, args[p.n]);
      break;
    case kNamed:
      ranges->Add(at, notes.named[p.n]);
      ranges->Add(args[p.n], 4);
  }
}

}  // namespace

size_t PossibleWrites(uint64_t number, const uint64_t* args, const CallNotes& notes,
                      MemoryRange* out, size_t most) {
  const Call* call = FindCall(number);
  if (call == nullptr) return 0;
  Ranges ranges(out, most);
  for (const Piece& p : call->pieces) AddPiece(p, args, notes, &ranges);
  constexpr uint64_t kMessageBytes = 64;  // in an array of them
  switch (number) {
    case SYS_select:
    case SYS_pselect6:
      for (unsigned k = 1; k <= 3; ++k) ranges.Add(args[k], (args[0] + 63) / 64 * 8);
      break;
    case SYS_waitid:
      ranges.Add(args[2], 28);
      ranges.Add(args[4], 144);
      break;
    case SYS_futex:
      ranges.Add(args[0], 4);
      ranges.Add(args[4], 4);
      break;
    case SYS_recvmsg:
      ranges.AddMessage(args[1]);
      break;
    case SYS_recvmmsg:
    case SYS_sendmmsg:
      for (uint64_t k = 0; k < args[2] && ranges.count() < most; ++k) {
        const uint64_t at = args[1] + k * kMessageBytes;
        if (number == SYS_recvmmsg) ranges.AddMessage(at);
        ranges.Add(at + 56, 4);
      }
      break;
    case SYS_msgrcv:
      ranges.Add(args[1], 8 + args[2]);
      break;
    case SYS_ioctl: {
      const uint64_t size = args[1] >> 16 & 0x3fff;
      ranges.Add(args[2], size != 0 ? size : kMessageBytes);
      break;
    }
    default:
      break;
  }
  return ranges.count();
}

}  // namespace ttq::engine
