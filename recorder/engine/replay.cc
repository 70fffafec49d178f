// SPDX-License-Identifier: MIT
//
// All that a program does follows from how it began and from its inputs: what system calls gave and
// wrote, what memory there was, signals and switches of threads at their places, the time stamp
// counter. So a process is run again by the same translator with the same translations, in the same
// order, and the place in the stream is the clock: a superblock that begins where an input came is
// left before it does anything (ring::StopAt), the input is put in force and appended to the stream
// as it was, and the program goes on.
//
// One thread of the kernel's is all threads of the program. Those take turns where they took them
// before; vector registers, fs and gs are put away and in place with the rest.
//
// Segments (TtqInputs::segments). What translated code logs is read by several threads; it is one
// that writes it. So this process only counts, which is quicker, and forks itself every so many
// blocks: the child logs until the next such place, and ends. Blocks, recipes and their numbers are
// those that one process would have made, since both translate the same code in the same order.
// What a child could not be forked for is logged here.
//
// Whatever the program asks for is compared with what it asked for before, and places with places.
// A run that differs ends with one line that says where.

#include "recorder/engine/replay.h"

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <initializer_list>

#include "recorder/engine/context.h"
#include "recorder/engine/cpuid.h"
#include "recorder/engine/dispatch.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/ring.h"
#include "recorder/engine/signals.h"
#include "recorder/engine/syscalls.h"
#include "recorder/engine/threads.h"
#include "recorder/inputs.h"

namespace ttq::engine::replay {
namespace {

const uint8_t* g_next;  // input; null: not on
const uint8_t* g_end;
const TtqInputsBlock* g_blocks;
const TtqInputs* g_head;
uint64_t g_bytes;  // of the file
const char* g_files_directory;
char g_path[4096];  // its own
uint64_t g_memory;  // descriptor of /proc/self/mem
ring::Position g_also_here = {~uint32_t{0},
                              0};  // where the block before ended, if a record did that
bool g_process_ends;

// What the kernel keeps for a thread.
struct Kept {
  uint8_t* vectors;    // as xsave has them; null: it has not let others run
  uint32_t os_number;  // by which a new one is found
  uint64_t flags;      // of a new one
  int64_t call;        // that it is in; -1: none
  uint64_t output;     // of write: what is left of its buffer
};
Kept g_kept[kTtqMaxThreads + 1];
Kept g_born[kTtqMaxThreads + 1];  // made, and not begun
uint32_t g_born_count;
uint64_t g_call_flags;  // of clone, when it was entered

constexpr uint32_t kMaxSegments = 64;
// Short ones are more forks, and translations; long ones wait for each other to be stored.
constexpr uint32_t kMinSegmentBlocks = 32, kMaxSegmentBlocks = 128;
struct Segments {
  uint32_t at_once;  // 0: this process logs all that is to be logged
  uint32_t blocks;   // of one
  uint32_t next;     // no other one begins before this block
  bool is_one;       // this process
  bool logs;         // this process logs, for want of another
  uint32_t running;
  int64_t pids[kMaxSegments];  // of those
};
Segments g_segments;

const char* NameOf(uint32_t kind) {
  return kind == kTtqInputsEnd ? "the end" : TtqControlKindOf(kind).name;
}

const TtqInput& Next() { return *reinterpret_cast<const TtqInput*>(g_next); }
const uint8_t* Payload() { return g_next + sizeof(TtqInput); }
template <class T>
T Head() {
  T value = {};
  if (Next().bytes < sizeof(T)) Differ("a record that is cut off");
  memcpy(&value, Payload(), sizeof(T));
  return value;
}

[[noreturn]] void CannotRun(const Text& why) {
  EndWith(Text() << "ttq: this process cannot be run again: " << why.c_str() << "\n");
}

bool IsHere(ring::Position a, ring::Position b) {
  return a.block == b.block && a.offset == b.offset;
}

// The input at a place, which is to be all there.
const TtqInput& InputAt(const uint8_t* at) {
  const auto& input = *reinterpret_cast<const TtqInput*>(at);
  if (at >= g_end || static_cast<uint64_t>(g_end - at) < sizeof(input) ||
      static_cast<uint64_t>(g_end - at) - sizeof(input) < input.bytes) {
    CannotRun(Text() << "its inputs are cut off");
  }
  return input;
}

// Where the one behind the next is.
const uint8_t* Behind() { return g_next + BytesOfInput(Next()); }

// The next input has been put in force.
void Advance() {
  g_next = Behind();
  const TtqInput& next = InputAt(g_next);
  ring::StopAt({next.block, next.offset});
}

// Puts the next input into the stream as it was.
void Append() { ring::Append(Next().kind, Payload(), Next().bytes); }

// The engine is not to be hurt, whatever the inputs say.
void CheckRange(uint64_t begin, uint64_t bytes) {
  constexpr uint64_t kHighest = uint64_t{1} << 47;
  if (begin % kPage != 0 || begin > kHighest || bytes > kHighest - begin ||
      memory::OverlapsEngine(begin, bytes)) {
    Differ("memory where the program has none");
  }
}

// ---- Memory ------------------------------------------------------------------------------------

void Write(uint64_t address, const uint8_t* bytes, uint64_t size) {
  for (uint64_t done = 0; done < size;) {
    const uint64_t page = PageDown(address + done);
    const uint64_t n = Least(page + kPage - (address + done), size - done);
    const auto write = [&](uint64_t count) {
      return Syscall(SYS_pwrite64, g_memory, Number(bytes + done), count, address + done);
    };
    // Also where the program may only read, but for memory that is shared.
    const memory::Mapping* m = memory::Find(address + done);
    if (m == nullptr) Differ("memory that is not there");
    int64_t r = write(Least(size - done, m->end - (address + done)));
    if (Failed(r) && m->shared) {
      Syscall(SYS_mprotect, page, kPage, PROT_READ | PROT_WRITE);
      r = write(n);
      Syscall(SYS_mprotect, page, kPage, m->protection);
    }
    if (Failed(r) && !memory::IsBeyondFile(address + done)) Differ("memory that cannot be written");
    done += r > 0 ? static_cast<uint64_t>(r) : n;
  }
}

// A file that is mapped and may change: memory in its place, so that it shows in several mappings
// and ends where the file does.
struct File {
  uint64_t dev, ino;
  uint64_t fd;
  File* next;
};
File* g_files;

uint64_t FileFor(uint64_t dev, uint64_t ino, uint64_t bytes) {
  File* f = g_files;
  while (f != nullptr && (f->dev != dev || f->ino != ino)) f = f->next;
  if (f == nullptr) {
    const int64_t fd = Syscall(SYS_memfd_create, Number("file"), MFD_CLOEXEC);
    if (Failed(fd)) CannotRun(Text() << "there is no memory for the files that it maps");
    f = static_cast<File*>(Allocate(sizeof(File)));
    *f = {dev, ino, static_cast<uint64_t>(fd), g_files};
    g_files = f;
  }
  Syscall(SYS_ftruncate, f->fd, bytes);
  return f->fd;
}

int64_t OpenCopy(const memory::FileInfo& file) {
  if (g_files_directory == nullptr) return -1;
  const int64_t directory =
      Syscall(SYS_open, Number(g_files_directory), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (Failed(directory)) return directory;
  Text name;
  name.Hex(file.dev) << "-";
  name.Hex(file.ino) << "-";
  name.Hex(file.bytes) << "-";
  name.Hex(static_cast<uint64_t>(file.mtime_ns));
  const auto fd = static_cast<uint64_t>(directory);
  const int64_t copy = Syscall(SYS_openat, fd, Number(name.c_str()), O_RDONLY | O_CLOEXEC);
  Syscall(SYS_close, fd);
  return copy;
}

// A descriptor of a program's or library's file as it was.
uint64_t OpenModule(const memory::FileInfo& file) {
  const int64_t copy = OpenCopy(file);
  if (!Failed(copy)) return static_cast<uint64_t>(copy);
  const int64_t fd = Syscall(SYS_open, Number(file.path), O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (Failed(fd)) CannotRun(Text() << file.path << " is gone");
  if (Failed(Syscall(SYS_fstat, static_cast<uint64_t>(fd), Number(&st))) ||
      static_cast<uint64_t>(st.st_size) != file.bytes ||
      st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec != file.mtime_ns) {
    CannotRun(Text() << file.path << " has changed");
  }
  return static_cast<uint64_t>(fd);
}

// Its size says nothing.
bool IsDevice(const char* path) { return path[0] != '/' || After(path, "/dev/") != nullptr; }

void MapMemory() {
  const auto record = Head<TtqMap>();
  static char path[4096];
  const size_t length = Least(Next().bytes - sizeof(record), sizeof(path) - 1);
  memcpy(path, Payload() + sizeof(record), length);
  path[length] = 0;
  memory::FileInfo file;
  file.path = path;
  file.dev = record.dev;
  file.ino = record.ino;
  file.bytes = record.file_bytes;
  file.mtime_ns = record.mtime_ns;
  memory::Mapping m;
  m.begin = record.address;
  m.end = record.address + record.bytes;
  m.protection = record.protection;
  m.shared = record.shared != 0;
  m.is_file = record.kind == kTtqMapFile;
  m.is_system_v = record.kind == kTtqMapSysV;
  m.is_elf = file.is_elf = record.content == kTtqContentFile;
  m.offset = record.file_offset;
  CheckRange(m.begin, record.bytes);
  if (record.content == kTtqContentUnknown) {
    CannotRun(Text() << "what " << path << " held, which it mapped, is not known");
  }
  uint64_t fd = ~uint64_t{0};
  if (m.is_elf) {
    fd = OpenModule(file);
  } else if (m.is_file && (file.bytes != 0 || !IsDevice(path))) {
    fd = FileFor(file.dev, file.ino, file.bytes);
  } else if (m.is_system_v) {
    fd = FileFor(file.dev, file.ino, record.bytes);
  }
  const uint64_t flags = MAP_FIXED | MAP_NORESERVE | (m.shared ? MAP_SHARED : MAP_PRIVATE) |
                         (fd == ~uint64_t{0} ? MAP_ANONYMOUS : 0);
  const int64_t r = Syscall(SYS_mmap, m.begin, record.bytes, m.protection, flags, fd, m.offset);
  if (m.is_elf) Syscall(SYS_close, fd);
  if (static_cast<uint64_t>(r) != m.begin) CannotRun(Text() << "there is no memory for it");
  memory::Map(m, record.kind, record.content, file);
}

void MoveMemory() {
  const auto r = Head<TtqRemap>();
  CheckRange(r.from, r.bytes);
  CheckRange(r.to, r.bytes);
  constexpr uint64_t kHow = MREMAP_MAYMOVE | MREMAP_FIXED;
  if (r.from != r.to && Failed(Syscall(SYS_mremap, r.from, r.bytes, r.bytes, kHow, r.to))) {
    // It may be several mappings here.
    for (uint64_t done = 0; done < r.bytes; done += kPage) {
      if (Failed(Syscall(SYS_mremap, r.from + done, kPage, kPage, kHow, r.to + done))) {
        Differ("memory that cannot be moved");
      }
    }
  }
  memory::Move(r.from, r.to, r.bytes);
}

void WriteAsKernel() {
  const auto w = Head<TtqKernelWrite>();
  Write(w.address, Payload() + sizeof(w), Next().bytes - sizeof(w));
  Append();
  // The last of a frame: behind it are the handler's registers.
  const bool is_last = InputAt(Behind()).kind == kTtqRegisters;
  if (w.actor == kTtqBySignal && is_last) g_context.flags &= ~kClearedForHandler;
}

// ---- Registers and threads ---------------------------------------------------------------------
//
// A record that finds no room begins another block, which starts with all registers. So they change
// in the same order to the records as they did.

void SetSegments(uint64_t fs_base, uint64_t gs_base) {
  Syscall(SYS_arch_prctl, ARCH_SET_FS, fs_base);
  Syscall(SYS_arch_prctl, ARCH_SET_GS, gs_base);
}

void SetRegisters(const TtqRegisters& r) {
  memcpy(g_context.r, r.reg, sizeof(g_context.r));
  g_context.flags &= ~kDirectionFlag;
  if (r.reg[kTtqRegDirection] != 1) g_context.flags |= kDirectionFlag;
  g_context.pc = r.pc;
  const uint64_t fs_base = r.reg[kTtqRegFs], gs_base = r.reg[kTtqRegGs];
  if (g_context.fs_base != fs_base || g_context.gs_base != gs_base) SetSegments(fs_base, gs_base);
  g_context.fs_base = fs_base;
  g_context.gs_base = gs_base;
}

void SaveVectors(uint8_t** to) {
  constexpr uint64_t kAligned = 64;  // as xsave wants it
  if (*to == nullptr) {
    const uint64_t place = Number(Allocate(StateBytes() + kAligned));
    *to = reinterpret_cast<uint8_t*>((place + kAligned - 1) & ~(kAligned - 1));
  }
  __asm__ volatile("xsave64 (%0)" ::"r"(*to), "a"(EnabledStates()), "d"(0) : "memory");
}

void LoadVectors(const uint8_t* from) {
  __asm__ volatile("xrstor64 (%0)" ::"r"(from), "a"(EnabledStates()), "d"(0) : "memory");
}

// A thread begins: it is what clone left.
void BeginThread(threads::Thread* thread, const TtqThread& start) {
  thread->os_number = start.os_tid;
  thread->parent = start.parent;
  thread->made_as = start.number;
  thread->taken = true;
  thread->alive = false;
  Kept& kept = g_kept[start.tid];
  kept.call = -1;
  for (uint32_t k = 0; k < g_born_count; ++k) {
    if (g_born[k].os_number != start.os_tid) continue;
    uint8_t* vectors = kept.vectors;
    kept = g_born[k];
    kept.call = -1;
    thread->flags = kept.flags;
    g_born[k] = g_born[--g_born_count];
    g_born[g_born_count].vectors = vectors;
    return;
  }
  Differ("a thread that nobody has made");
}

uint32_t Checked(uint32_t thread) {
  if (thread == 0 || thread > kTtqMaxThreads) Differ("a thread of no number");
  return thread;
}

// Others run: the records are those of threads::Enter, which tells them again.
void Switch() {
  threads::Thread* before = threads::Running();
  if (before != nullptr) {
    threads::NoteVectors(before);
    SaveVectors(&g_kept[before->number].vectors);
  }
  TtqThread start = {};
  if (Next().kind == kTtqThreadStart) {
    start = Head<TtqThread>();
    Advance();
  }
  if (before != nullptr && Next().kind == kTtqRegisters) Advance();
  if (Next().kind != kTtqThread) Differ("a switch to no thread");
  threads::Thread* self = threads::Named(Checked(Head<uint32_t>()));
  Advance();
  const auto registers = Head<TtqRegisters>();
  if (Next().kind != kTtqRegisters || registers.tid != self->number) Differ("a thread's registers");
  Advance();
  if (Next().kind != kTtqVectors) Differ("a thread's vector registers");
  Advance();
  if (start.tid != 0) {
    BeginThread(self, start);
    memcpy(self->r, registers.reg, sizeof(self->r));
    self->pc = registers.pc;
    self->fs_base = registers.reg[kTtqRegFs];
    self->gs_base = registers.reg[kTtqRegGs];
  }
  if (g_kept[self->number].vectors == nullptr) Differ("a thread that has not run");
  LoadVectors(g_kept[self->number].vectors);
  SetSegments(self->fs_base, self->gs_base);
  threads::Enter(self);
}

// Registers that are followed by another thread are where this one stopped.
void TakeRegisters() {
  const auto registers = Head<TtqRegisters>();
  const threads::Thread* running = threads::Running();
  if (running != nullptr && running->number == registers.tid) {
    if (InputAt(Behind()).kind == kTtqThread) return Switch();
    SetRegisters(registers);
  }
  Append();
  Advance();
}

void EndThread() {
  const auto s = Head<TtqThread>();
  const threads::Thread* self = threads::Running();
  Append();
  Advance();
  // Where the process ends it tells so of all.
  if (g_process_ends || self == nullptr || self->number != s.tid ||
      g_kept[s.tid].call != SYS_exit) {
    return;
  }
  g_kept[s.tid].call = -1;
  threads::Leave();
  const uint32_t zero = 0;
  if (s.clear_address != 0) Write(s.clear_address, reinterpret_cast<const uint8_t*>(&zero), 4);
}

void LeaveCall() {
  const auto s = Head<TtqSyscall>();
  g_kept[Checked(s.tid)].call = -1;
  constexpr uint64_t kThread = CLONE_VM | CLONE_THREAD;
  if (s.number == SYS_clone && (s.args[0] & kThread) == kThread && s.result > 0) {
    if (g_born_count > kTtqMaxThreads) Differ("too many threads");
    Kept& born = g_born[g_born_count++];
    born.os_number = static_cast<uint32_t>(s.result);
    born.flags = g_call_flags;
    SaveVectors(&born.vectors);
  }
  if (s.number == SYS_arch_prctl && s.result == 0) {
    syscalls::NoteSegment(s.args[0], s.args[1]);
    SetSegments(g_context.fs_base, g_context.gs_base);
  }
  Append();
  Advance();
}

// What the program writes is what it wrote.
void CompareOutput() {
  const auto o = Head<TtqOutput>();
  Kept& kept = g_kept[Checked(o.tid)];
  if (kept.call != SYS_write) return;
  const uint8_t* was = Payload() + sizeof(o);
  const uint64_t bytes = Next().bytes - sizeof(o);
  uint8_t is[256];
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t n = Least(bytes - done, sizeof(is));
    if (ReadGuest(kept.output + done, is, n) != n || memcmp(is, was + done, n) != 0) {
      Differ("other output");
    }
    done += n;
  }
  kept.output += bytes;
}

// A record after which the recording began another block.
void EndBlock() {
  Append();
  Advance();
  if (Next().kind == kTtqInputsEnd) return;
  g_also_here = ring::Here();
  ring::NextBlock(false);
}

// Whether `g_path` and a number is a file of inputs, which is then g_path.
bool AddToPath(uint32_t fork_number) {
  Text name;
  name << "." << uint64_t{fork_number};
  const size_t length = Length(g_path);
  if (length + name.size() >= sizeof(g_path)) return false;
  memcpy(g_path + length, name.c_str(), name.size() + 1);
  if (!Failed(Syscall(SYS_access, Number(g_path), 4 /* R_OK */))) return true;
  g_path[length] = 0;
  return false;
}

// The child goes on from here by inputs of its own, beside this process.
void Fork() {
  const auto fork_number = Head<uint32_t>();
  EndBlock();
  if (g_segments.is_one) return;
  const size_t length = Length(g_path);
  if (!AddToPath(fork_number)) return;  // it was not recorded
  const int64_t r = Syscall(SYS_clone, 0, 0, 0, 0, 0);
  if (r != 0) {
    if (Failed(r)) CannotRun(Text() << "there is no process for a child");
    g_path[length] = 0;
    return;
  }
  ring::CreateInChild(fork_number);
  Syscall(SYS_munmap, Number(g_head), g_bytes);
  Syscall(SYS_close, g_memory);
  static char path[sizeof(g_path)];
  memcpy(path, g_path, sizeof(path));
  Open(path, syscalls::g_program.options.block_bytes);
  FillRing();
  Begin();
  ring::Announce();
}

// Waits until a process that this one forked has ended: its number, or an error.
int64_t WaitForChild() {
  constexpr uint64_t kAny = ~uint64_t{0}, kAlsoWithoutSignal = 0x40000000;  // __WALL
  constexpr int64_t kInterrupted = -4;
  int64_t r = kInterrupted;
  while (r == kInterrupted) r = Syscall(SYS_wait4, kAny, 0, kAlsoWithoutSignal, 0);
  return r;
}

void OpenMemory() {
  const int64_t memory = Syscall(SYS_open, Number("/proc/self/mem"), O_RDWR | O_CLOEXEC);
  if (Failed(memory)) CannotRun(Text() << "/proc/self/mem cannot be opened");
  g_memory = static_cast<uint64_t>(memory);
}

void WaitForSegment() {
  const int64_t ended = WaitForChild();
  if (Failed(ended)) g_segments.running = 0;  // cannot be
  for (uint32_t k = 0; k < g_segments.running; ++k) {
    if (g_segments.pids[k] == ended) g_segments.pids[k] = g_segments.pids[--g_segments.running];
  }
}

// A segment begins with this block.
void ForkSegment(uint32_t first) {
  g_segments.next = first + g_segments.blocks;
  while (g_segments.running >= g_segments.at_once) WaitForSegment();
  g_segments.logs = true;
  if (!ring::MakeSegment(first)) return;
  const int64_t r = Syscall(SYS_clone, 0, 0, 0, 0, 0);
  if (Failed(r)) return ring::GiveUpSegment();
  g_segments.logs = false;
  if (r != 0) {
    ring::AnnounceSegment(static_cast<uint32_t>(r));
    g_segments.pids[g_segments.running++] = r;
    return;
  }
  g_segments.is_one = true;
  Syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);  // the other waits for this one, if it can
  ring::EnterSegment();
  Syscall(SYS_close, g_memory);
  OpenMemory();
}

// Memory may be ahead of the log where a block does not end between superblocks.
void DivideIntoSegments(uint32_t block, bool between) {
  if (g_segments.at_once == 0 || !between || block < g_segments.next) return;
  if (!g_segments.is_one) return ForkSegment(block);
  ring::EndSegment();
  for (;;) Syscall(SYS_exit_group, 0);
}

// It ends where its recording does.
[[noreturn]] void End() {
  const uint32_t blocks = g_head->blocks;
  if (g_head->finished) {
    ring::Finish(g_head->fatal_signal, g_blocks[blocks - 1].ends_between_superblocks != 0);
  } else {
    const auto has_begun_another = [&] { return ring::Here().block >= blocks; };
    // It may have been cut off in a system call: where that is, no record has said.
    const bool is_cut_off = !g_head->superseded && !g_head->log_follows;
    if (is_cut_off && !has_begun_another()) threads::TellAllRegisters();
    ring::Break(has_begun_another());
  }
  // When this process is gone, so are those that it forked, and who waits for it knows all rings.
  while (WaitForChild() > 0) {
  }
  for (;;) Syscall(SYS_exit_group, 0);
}

int64_t WallOf(uint32_t block, bool end) {
  if (block >= g_head->blocks) return 0;
  return end ? g_blocks[block].wall_end_ns : g_blocks[block].wall_start_ns;
}

// Puts the next input in force. False where the program's own code is to ask for it.
bool Apply() {
  switch (Next().kind) {
    case kTtqMap:
      MapMemory();
      break;
    case kTtqUnmap: {
      const auto r = Head<TtqRange>();
      CheckRange(r.address, r.bytes);
      Syscall(SYS_munmap, r.address, r.bytes);
      memory::Unmap(r.address, r.address + r.bytes);
      break;
    }
    case kTtqProtect: {
      const auto r = Head<TtqRange>();
      CheckRange(r.address, r.bytes);
      Syscall(SYS_mprotect, r.address, r.bytes, r.protection);
      memory::Protect(r.address, r.address + r.bytes, r.protection);
      break;
    }
    case kTtqRemap:
      MoveMemory();
      break;
    case kTtqKernelWrite:
      WriteAsKernel();
      break;
    case kTtqFileSize: {
      const auto f = Head<TtqFileSize>();
      FileFor(f.dev, f.ino, f.bytes);
      Append();
      break;
    }
    case kTtqRegisters:
      TakeRegisters();
      return true;
    case kTtqThreadStart:
    case kTtqThread:
      Switch();
      return true;
    case kTtqThreadExit:
      EndThread();
      return true;
    case kTtqSyscallExit:
      LeaveCall();
      return true;
    case kTtqOutput:
      CompareOutput();
      Append();
      break;
    case kTtqFork:
      Fork();
      return true;
    case kTtqExecve:
      EndBlock();
      return true;
    case kTtqInputsEnd:
      End();
    case kTtqExitProcess:
      g_process_ends = true;
      [[fallthrough]];
    default:
      if (TtqControlKindOf(Next().kind).by_instruction) return false;
      Append();
      break;
  }
  Advance();
  return true;
}

// A count has less room for a place than a log.
bool CanCount() { return g_head->block_bytes <= 1 << (kPlaceBits - 1); }

// Whether nobody asks for more of a block than how many instructions it had. All is translated anew
// where that changes, which so many blocks pay.
bool CountsIn(uint32_t block) {
  constexpr uint32_t kFew = 64;
  const uint32_t begin = __atomic_load_n(&ring::Header()->hold_before, __ATOMIC_ACQUIRE);
  const bool counted = ring::WhatIsLogged() == ring::Logged::kCount;
  const bool counts = g_segments.at_once != 0
                          ? !g_segments.is_one && !g_segments.logs
                          : CanCount() && begin > block && (counted || begin - block >= kFew);
  if (counts != counted) FlushTranslations();
  return counts;
}

// What the block starts with was the same.
void BeginBlock() {
  while (ring::IsDetached()) Syscall(SYS_exit_group, 125);  // nobody asks any more
  threads::BeginBlock();
  const uint32_t block = ring::Here().block;
  // A block that was not recorded begins only to be left.
  if (block < g_head->blocks && g_blocks[block].hash != ring::HashOfBlock()) {
    Differ("other registers at the start of a block");
  }
}

void Expect(uint32_t kind) {
  // It was killed when its last block had ended, for a record that nothing has kept.
  if (Next().kind == kTtqInputsEnd && !g_head->finished && IsDue()) End();
  if (Next().kind != kind || !IsDue()) Differ(NameOf(kind));
}

}  // namespace

void Differ(const char* what) {
  const ring::Position here = ring::Here();
  Text t;
  t << "ttq: run again, the program differs from its recording: " << what << " at block "
    << uint64_t{here.block} << ", byte " << uint64_t{here.offset} << " (pc 0x";
  t.Hex(g_context.pc) << "), where it had " << NameOf(Next().kind) << " at block "
                      << uint64_t{Next().block} << ", byte " << uint64_t{Next().offset} << "\n";
  EndWith(t);
}

void SetFiles(const char* directory) { g_files_directory = directory; }

bool IsOn() { return g_next != nullptr; }

void Open(const char* path, uint64_t block_bytes) {
  struct stat st;
  const int64_t fd = Syscall(SYS_open, Number(path), O_RDONLY | O_CLOEXEC);
  if (Failed(fd) || Failed(Syscall(SYS_fstat, static_cast<uint64_t>(fd), Number(&st)))) {
    CannotRun(Text() << path << " cannot be read");
  }
  const auto bytes = static_cast<uint64_t>(st.st_size);
  const int64_t r =
      bytes < sizeof(TtqInputs) + sizeof(TtqInput) ? -1 : MapOwn(bytes, MAP_PRIVATE, fd);
  Syscall(SYS_close, static_cast<uint64_t>(fd));
  if (Failed(r)) CannotRun(Text() << path << " holds no inputs");
  const auto& head = *reinterpret_cast<const TtqInputs*>(r);
  if (head.magic != TTQ_INPUTS_MAGIC || head.stream_version != kTtqStreamVersion ||
      head.block_bytes != block_bytes) {
    CannotRun(Text() << path << " is of another version");
  }
  const uint64_t body = bytes - sizeof(head);
  const uint64_t argument_bytes = (uint64_t{head.argument_bytes} + 7) & ~uint64_t{7};
  if (head.bytes > body || argument_bytes > body - head.bytes ||
      (head.finished && head.blocks == 0) ||
      body - head.bytes - argument_bytes != head.blocks * sizeof(TtqInputsBlock) ||
      head.argument_bytes > sizeof(TtqRing::arguments) || head.hash != HashBytes(&head + 1, body)) {
    CannotRun(Text() << path << " is damaged");
  }
  g_head = &head;
  g_bytes = bytes;
  memcpy(g_path, path, Least(Length(path) + 1, sizeof(g_path) - 1));
  g_next = reinterpret_cast<const uint8_t*>(&head + 1) + argument_bytes;
  g_end = g_next + head.bytes;
  g_blocks = reinterpret_cast<const TtqInputsBlock*>(g_end);
  g_also_here = {~uint32_t{0}, 0};
  g_process_ends = false;
  ring::SetBegin(BeginBlock);
  ring::SetWall(WallOf);
  InputAt(g_next);
  OpenMemory();
  g_segments = {};
  if (CanCount() && head.hold_before == 0) {
    g_segments.at_once = static_cast<uint32_t>(Least(head.segments, kMaxSegments));
    const uint32_t even = g_segments.at_once == 0 ? 0 : head.blocks / (2 * g_segments.at_once);
    g_segments.blocks = even < kMinSegmentBlocks   ? kMinSegmentBlocks
                        : even > kMaxSegmentBlocks ? kMaxSegmentBlocks
                                                   : even;
  }
}

void FillRing() {
  TtqRing* ring = ring::Header();
  ring->start_wall_ns = g_head->start_wall_ns;
  ring->became_other = g_head->became_other;
  ring->again.pid = g_head->pid;
  ring->again.process = g_head->process;
  ring->again.parent = g_head->parent;
  ring->again.superseded = g_head->superseded;
  ring->hold_before = g_head->hold_before;
  ring->again.goes_on = g_head->log_follows;
  ring->exit_status = g_head->exit_status;
  ring->argument_bytes = g_head->argument_bytes;
  memcpy(ring->arguments, g_head + 1, g_head->argument_bytes);
}

void Begin() {
  if (g_head->blocks == 0) {  // it was killed before it had handed anything over
    ring::Announce();
    End();
  }
  if (g_segments.at_once != 0) ForkSegment(0);
  ring::SetBeforeBlock(DivideIntoSegments);
  ring::SetCounts(CountsIn);
  while (Next().kind != kTtqThreadStart) {
    if (!Apply()) Differ("a beginning without a thread");
  }
  const auto start = Head<TtqThread>();
  Advance();
  const bool is_child = g_head->fork_number != 0;
  if (!is_child) {
    g_context.flags = 0x202;
    for (Kept& k : g_kept) k.call = -1;
  }
  SetRegisters(Head<TtqRegisters>());
  for (const uint32_t kind : {kTtqRegisters, kTtqVectors, kTtqThread}) {
    if (Next().kind != kind) Differ("a beginning without registers");
    Advance();
  }
  if (is_child) {
    g_born_count = 0;
    threads::BeginInChildAs(start.os_tid);
  } else {
    threads::BeginAs(start.os_tid);
  }
}

bool IsDue() {
  const ring::Position next = {Next().block, Next().offset};
  return IsHere(next, ring::Here()) || IsHere(next, g_also_here);
}

void Continue() {
  while (IsDue() && Apply()) {
  }
  const ring::Position here = ring::Here();
  const TtqInput& next = Next();
  if (next.kind == kTtqInputsEnd && next.block < here.block) End();
  if (IsDue() || next.block < here.block ||
      (next.block == here.block && next.offset < here.offset)) {
    Differ("it went on");
  }
  const threads::Thread* running = threads::Running();
  if (running == nullptr || g_kept[running->number].call >= 0) Differ("no thread goes on");
}

void Execute() {
  Expect(kTtqSyscallEnter);
  const auto s = Head<TtqSyscall>();
  const uint64_t* r = g_context.r;
  const uint64_t args[6] = {r[kRdi], r[kRsi], r[kRdx], r[kR10], r[kR8], r[kR9]};
  if (s.tid != threads::Current() || static_cast<uint64_t>(s.number) != r[kRax] ||
      memcmp(s.args, args, sizeof(args)) != 0) {
    Differ("another system call");
  }
  g_kept[s.tid].call = s.number;
  g_kept[s.tid].output = args[1];
  g_call_flags = g_context.flags | g_context.alignment_check;
  Append();
  Advance();
  if (s.number == SYS_rt_sigreturn) signals::Return();
}

void Repeat(uint32_t kind) {
  Expect(kind);
  Append();
  Advance();
}

TtqUndetermined Undetermined(const TtqUndetermined& now) {
  Expect(kTtqUndetermined);
  const auto was = Head<TtqUndetermined>();
  if (was.tid != now.tid || was.count != now.count) Differ("another instruction");
  Advance();
  return was;
}

void TakeFault(int32_t signal, uint64_t pc) {
  Expect(kTtqFault);
  const auto s = Head<TtqSignal>();
  if (s.number != static_cast<uint32_t>(signal) || s.pc != pc) Differ("another fault");
  Append();
  Advance();
}

}  // namespace ttq::engine::replay
