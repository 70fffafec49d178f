// SPDX-License-Identifier: MIT
//
// A child made with vfork shares its parent's memory until it execs or ends. Here it is a process
// of its own, for which the parent waits as it would; what it leaves in its parent's stack frames
// when it ends without exec, which is how posix_spawn reports errors, is handed over in a shared
// page.

#include "recorder/engine/process.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <initializer_list>

#include "recorder/engine/code_cache.h"
#include "recorder/engine/context.h"
#include "recorder/engine/memory.h"
#include "recorder/engine/ring.h"
#include "recorder/engine/signals.h"
#include "recorder/engine/syscalls.h"
#include "recorder/engine/threads.h"
#include "recorder/engine/traces.h"

namespace ttq::engine::process {
namespace {

using syscalls::g_program;

constexpr uint64_t kSharedStack = 4096;
struct VforkFrames {
  uint64_t begin;
  uint64_t bytes;  // of its content; 0: the child has not said
  uint8_t content[kSharedStack];
};
VforkFrames* g_frames;  // of a child of vfork: to its parent
uint32_t g_forks;

void BeginChild(const uint64_t* args, uint64_t flags) {
  ring::CreateInChild(g_forks);
  ring::Announce();
  threads::BeginInChild();
  if (flags & CLONE_CHILD_SETTID) {
    memory::Send(kTtqBySyscall, args[3], 4);
  }
  if (flags & CLONE_CHILD_CLEARTID) threads::SetClearAddress(args[3]);
  memory::ForgetNotForked();
}

void TakeFrames(const VforkFrames& frames) {
  for (uint64_t k = 0; k + 8 <= frames.bytes; k += 8) {
    auto* here = reinterpret_cast<uint64_t*>(frames.begin + k);
    uint64_t there;
    memcpy(&there, frames.content + k, 8);
    if (*here == there) continue;
    *here = there;
    memory::Send(kTtqBySyscall, Number(here), 8);
  }
}

// ---- Exec --------------------------------------------------------------------------------------

enum class Kind { kOurs, kForeign, kBroken };

// What execve would find. Scripts may name scripts, a few times.
Kind KindOf(const char* path, int depth) {
  struct stat st;
  if (Failed(Syscall(SYS_stat, Number(path), Number(&st))) || (st.st_mode & S_IFMT) != S_IFREG ||
      Failed(Syscall(SYS_access, Number(path), 1 /* X_OK */))) {
    return Kind::kBroken;
  }
  const bool other_user = st.st_mode & S_ISUID && st.st_uid != Syscall(SYS_geteuid);
  const bool other_group = st.st_mode & S_ISGID && st.st_gid != Syscall(SYS_getegid);
  if (other_user || other_group) return Kind::kForeign;
  const int64_t fd = Syscall(SYS_open, Number(path), O_RDONLY | O_CLOEXEC);
  if (Failed(fd)) return Kind::kForeign;  // may be executed, not read
  char head[256] = {};
  const int64_t n = Syscall(SYS_pread64, static_cast<uint64_t>(fd), Number(head), 255, 0);
  Syscall(SYS_close, static_cast<uint64_t>(fd));
  if (n >= 20 && memcmp(head, ELFMAG, SELFMAG) == 0) {
    uint16_t machine;
    memcpy(&machine, head + 18, 2);
    return head[EI_CLASS] == ELFCLASS64 && machine == EM_X86_64 ? Kind::kOurs : Kind::kForeign;
  }
  constexpr int kDeepest = 4;
  if (n < 3 || head[0] != '#' || head[1] != '!' || depth == kDeepest) return Kind::kBroken;
  char* begin = head + 2;
  while (*begin == ' ' || *begin == '\t') ++begin;
  char* end = begin;
  while (*end != 0 && *end != ' ' && *end != '\t' && *end != '\n') ++end;
  *end = 0;
  return KindOf(begin, depth + 1);
}

uint64_t CountPointers(uint64_t list) {
  uint64_t n = 0, entry = 0;
  while (list != 0 && ReadGuest(list + 8 * n, &entry, 8) == 8 && entry != 0) ++n;
  return n;
}

}  // namespace

int64_t Fork(uint64_t number, const uint64_t* args) {
  constexpr uint64_t kChildSignal = 17;
  uint64_t flags = number == SYS_clone ? args[0] : kChildSignal;
  if (number == SYS_vfork) flags |= CLONE_VM | CLONE_VFORK;
  const bool shares = flags & CLONE_VM;
  if (flags & CLONE_THREAD) return threads::Create(args);
  if (shares && !(flags & CLONE_VFORK)) Refuse(Text() << "clone that shares memory");
  if (flags & (CLONE_FILES | CLONE_FS | CLONE_SIGHAND) && !shares) {
    Refuse(Text() << "clone that shares files");
  }
  const uint64_t stack = number == SYS_clone ? args[1] : 0;
  VforkFrames* frames = nullptr;
  if (shares) {
    const int64_t r = MapOwn(PageUp(sizeof(VforkFrames)), MAP_SHARED | MAP_ANONYMOUS);
    if (Failed(r)) return r;
    frames = reinterpret_cast<VforkFrames*>(r);
    frames->begin = g_context.r[kRsp] & ~uint64_t{7};
  }
  if (memory::SharesWithChild()) memory::TurnToLog("it shares memory with a process it forked");
  ++g_forks;
  ring::Append(kTtqFork, &g_forks, 4);
  // The child's reader needs it, and this process may wait for the child before it fills a block.
  ring::NextBlock(false);
  constexpr uint64_t kNotOurs =
      CLONE_VM | CLONE_SIGHAND | CLONE_FILES | CLONE_FS | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
  // The parent waits for the child, and the child may for another thread of the parent's, which
  // goes on once the child is a process of its own.
  threads::Thread* self = threads::Running();
  const bool lets_others_run = shares && !threads::IsAlone();
  if (lets_others_run) threads::BeginWaitForChild();
  const int64_t r = Syscall(SYS_clone, flags & ~kNotOurs, 0, args[2], args[3], 0);
  if (r == 0 && lets_others_run) threads::LetParentsThreadsRun();
  if (r != 0 && lets_others_run) threads::EndWaitForChild(self, Failed(r));
  if (r != 0) {
    if (frames != nullptr) {
      if (!Failed(r)) TakeFrames(*frames);
      Syscall(SYS_munmap, Number(frames), PageUp(sizeof(VforkFrames)));
    }
    if (!Failed(r) && flags & (CLONE_PARENT_SETTID | CLONE_PIDFD))
      memory::Send(kTtqBySyscall, args[2], 4);
    return r;
  }
  g_frames = frames;
  // What the child finds: the context is that of a system call that returns 0.
  if (stack != 0) g_context.r[kRsp] = stack;
  if (flags & CLONE_SETTLS && number == SYS_clone) {
    constexpr uint64_t kSetFs = 0x1002;
    Syscall(SYS_arch_prctl, kSetFs, args[4]);
    g_context.fs_base = args[4];
  }
  BeginChild(args, number == SYS_clone ? flags : 0);
  return 0;
}

int64_t Execute(uint64_t path, uint64_t arguments, uint64_t environment) {
  static char name[4096];
  const size_t n = ReadGuest(path, name, sizeof(name) - 1);
  name[n] = 0;
  const uint32_t tid = threads::Current();
  const auto tell = [tid] {
    ring::Append(kTtqExecve, &tid, 4, name, Length(name));
    // If it succeeds nothing of this process runs again.
    ring::NextBlock(false);
  };
  const Kind kind = KindOf(name, 0);
  if (kind != Kind::kOurs || ring::IsDetached()) {
    tell();
    ring::Header()->became_other = kind == Kind::kForeign;
    signals::GiveMaskToKernel();
    const int64_t r = Syscall(SYS_execve, path, arguments, environment);
    signals::TakeMaskBack();
    ring::Header()->became_other = 0;
    return r;
  }
  const ring::Options& o = g_program.options;
  static Text directory, block_bytes, block_count, code_cache;
  directory = {}, block_bytes = {}, block_count = {}, code_cache = {};
  directory << "--ring=" << o.directory;
  block_bytes << "--block-bytes=" << o.block_bytes;
  block_count << "--block-count=" << uint64_t{o.block_count};
  if (o.code_cache != nullptr) code_cache << "--code-cache=" << o.code_cache;
  const uint64_t count = CountPointers(arguments);
  constexpr uint64_t kOwn = 10;
  auto* words = AllocateArray<uint64_t>(kOwn + count + 2);
  uint64_t used = 0;
  for (const char* w :
       {g_program.engine, directory.c_str(), block_bytes.c_str(), block_count.c_str(),
        o.verify ? "--verify=yes" : "--verify=no", o.inputs ? "--record=inputs" : "--record=all",
        traces::Left() ? "--seen=yes" : "--seen=no", code_cache.c_str(), "--",
        static_cast<const char*>(name)}) {
    words[used++] = Number(w);
  }
  ReadGuest(arguments, words + used, 8 * count);
  if (count == 0) words[used++] = Number("");
  tell();
  signals::GiveMaskToKernel();
  const int64_t r = Syscall(SYS_execve, Number(g_program.engine), Number(words), environment);
  signals::TakeMaskBack();
  return r;
}

void Exit(uint64_t number, uint32_t status) {
  if (number == SYS_exit && !threads::IsAlone()) threads::Exit(status);
  if (g_frames != nullptr) {
    g_frames->bytes = ReadGuest(g_frames->begin, g_frames->content, kSharedStack);
  }
  ring::Append(kTtqExitProcess, &status, 4);
  ring::Header()->exit_status = (status & 0xff) + 1;
  threads::TellEnd();
  ring::Finish(0);
  code_cache::Save();
  for (;;) Syscall(static_cast<int64_t>(number), status);
}

}  // namespace ttq::engine::process
