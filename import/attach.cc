// SPDX-License-Identifier: MIT

#include "import/attach.h"

#include <dirent.h>
#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "fmt/core.h"

namespace ttq {
namespace {

// <sys/ptrace.h> has them as an enumeration of its own, and not all.
constexpr int kGetSigmask = 0x420a, kSetSigmask = 0x420b;
constexpr int kEventStop = 128;

long Ptrace(int request, pid_t tid, uint64_t address, uint64_t data) {
  return syscall(SYS_ptrace, static_cast<long>(request), static_cast<long>(tid), address, data);
}
uint64_t Bits(const void* p) { return reinterpret_cast<uint64_t>(p); }

std::string StatusField(pid_t pid, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) {
      const size_t at = line.find_first_not_of(" \t", name.size() + 1);
      return at == line.npos ? "" : line.substr(at);
    }
  }
  return "";
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Why ptrace was refused, and what helps.
absl::Status WhyRefused(pid_t pid, int error) {
  if (error == ESRCH || access(fmt::format("/proc/{}", pid).c_str(), F_OK) != 0) {
    return absl::NotFoundError(fmt::format("there is no process {}", pid));
  }
  if (StatusField(pid, "State").starts_with("Z")) {
    return absl::NotFoundError(fmt::format("process {} has ended (a zombie)", pid));
  }
  if (const std::string tracer = StatusField(pid, "TracerPid"); !tracer.empty() && tracer != "0") {
    return absl::PermissionDeniedError(
        fmt::format("process {} is traced by process {} already (a debugger, strace, rr?): only "
                    "one can; end that first",
                    pid, tracer));
  }
  if (error != EPERM) {
    return absl::PermissionDeniedError(
        fmt::format("process {} cannot be traced: {}", pid, strerror(error)));
  }
  if (StatusField(pid, "Kthread") == "1" || pid == getpid()) {
    return absl::PermissionDeniedError(fmt::format("process {} cannot be traced", pid));
  }
  const std::string scope = FirstLine("/proc/sys/kernel/yama/ptrace_scope");
  const unsigned long uid = strtoul(StatusField(pid, "Uid").c_str(), nullptr, 10);
  if (uid != geteuid() && geteuid() != 0) {
    return absl::PermissionDeniedError(
        fmt::format("process {} belongs to user {}: run this as that user, or as root", pid, uid));
  }
  if (scope == "3") {
    return absl::PermissionDeniedError(
        "this system lets nobody trace a process (kernel.yama.ptrace_scope is 3)");
  }
  if (geteuid() == 0) {
    return absl::PermissionDeniedError(fmt::format(
        "process {} cannot be traced: root here lacks CAP_SYS_PTRACE (in a container: start it "
        "with --cap-add=SYS_PTRACE)",
        pid));
  }
  if (scope == "1" || scope == "2") {
    return absl::PermissionDeniedError(fmt::format(
        "process {} cannot be traced: kernel.yama.ptrace_scope is {}; run this as root, or "
        "`sysctl kernel.yama.ptrace_scope=0`",
        pid, scope));
  }
  return absl::PermissionDeniedError(fmt::format(
      "process {} cannot be traced: it has more rights than this one (set-user-id?), or is not "
      "dumpable; run this as root",
      pid));
}

// System calls that the kernel ends with EINTR when a thread was merely stopped: signal(7).
bool IsEndedByStop(uint64_t number) {
  switch (number) {
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_io_getevents:
    case SYS_msgrcv:
    case SYS_msgsnd:
      return true;
    default:
      return false;
  }
}

std::vector<pid_t> TasksOf(pid_t pid) {
  std::vector<pid_t> tids;
  if (DIR* directory = opendir(fmt::format("/proc/{}/task", pid).c_str())) {
    while (const dirent* entry = readdir(directory)) {
      if (const int tid = atoi(entry->d_name); tid > 0) tids.push_back(tid);
    }
    closedir(directory);
  }
  return tids;
}

pid_t WaitFor(pid_t tid, int* status) {
  pid_t got;
  do {
    got = waitpid(tid, status, __WALL);
  } while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachedProcess>> AttachedProcess::Attach(pid_t pid) {
  if (pid <= 0 || pid == getpid()) return WhyRefused(pid, ESRCH);
  // A thread's number is no process's.
  if (const std::string group = StatusField(pid, "Tgid");
      !group.empty() && group != std::to_string(pid)) {
    return absl::NotFoundError(fmt::format("{} is a thread of process {}", pid, group));
  }
  std::unique_ptr<AttachedProcess> process(new AttachedProcess(pid));
  RETURN_IF_ERROR(process->SeizeAll());
  return process;
}

absl::Status AttachedProcess::SeizeAll() {
  // Until there is none that was not there the last time: those that stand still start no more.
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (const pid_t tid : TasksOf(pid_)) {
      const auto known =
          std::any_of(tasks_.begin(), tasks_.end(), [tid](const Task& t) { return t.tid == tid; });
      if (known) continue;
      if (Ptrace(PTRACE_SEIZE, tid, 0, 0) != 0) {
        const int error = errno;
        if (error == ESRCH && tid != pid_) continue;  // it has ended
        return WhyRefused(pid_, error);
      }
      is_new = true;
      Task task;
      task.tid = tid;
      tasks_.push_back(task);
      Ptrace(PTRACE_INTERRUPT, tid, 0, 0);
      const absl::Status stopped = WaitForStop(&tasks_.back());
      if (absl::IsNotFound(stopped)) tasks_.pop_back();
    }
  }
  if (tasks_.empty()) return WhyRefused(pid_, ESRCH);
  return absl::OkStatus();
}

absl::Status AttachedProcess::WaitForStop(Task* task) {
  int status = 0;
  if (WaitFor(task->tid, &status) != task->tid || !WIFSTOPPED(status)) {
    return absl::NotFoundError("it ended");
  }
  // Stopped by us, or as a signal was about to be delivered, which it gets when it goes on.
  task->signal = status >> 16 == kEventStop ? 0 : WSTOPSIG(status);
  iovec registers{&task->registers, sizeof(task->registers)};
  if (Ptrace(PTRACE_GETREGSET, task->tid, NT_PRSTATUS, Bits(&registers)) != 0) {
    return absl::NotFoundError("it ended");
  }
  user_fpregs_struct vectors;
  iovec area{&vectors, sizeof(vectors)};
  if (Ptrace(PTRACE_GETREGSET, task->tid, NT_PRFPREG, Bits(&area)) == 0) {
    task->vectors.assign(reinterpret_cast<const char*>(&vectors), sizeof(vectors));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> AttachedProcess::FindSyscallInstruction(const Task& task) const {
  const auto is_syscall = [&](uint64_t at) {
    uint8_t code[2] = {};
    iovec local{code, sizeof(code)}, remote{reinterpret_cast<void*>(at), sizeof(code)};
    return process_vm_readv(task.tid, &local, 1, &remote, 1, 0) == 2 && code[0] == 0x0f &&
           code[1] == 0x05;
  };
  if (is_syscall(task.registers.rip - 2)) return task.registers.rip - 2;
  // Any in memory that may be executed: of the kernel's own library, or of the C library.
  std::ifstream maps(fmt::format("/proc/{}/maps", pid_));
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0, end = 0;
    char protection[5] = "";
    if (sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, protection) != 3) continue;
    if (protection[2] != 'x' || line.find("[vsyscall]") != line.npos) continue;
    std::vector<char> bytes(std::min<size_t>(end - begin, 4 << 20));
    iovec local{bytes.data(), bytes.size()}, remote{reinterpret_cast<void*>(begin), bytes.size()};
    const ssize_t got = process_vm_readv(task.tid, &local, 1, &remote, 1, 0);
    for (ssize_t i = 0; i + 1 < got; ++i) {
      if (bytes[i] == 0x0f && bytes[i + 1] == 0x05) return begin + static_cast<uint64_t>(i);
    }
  }
  return absl::UnavailableError("it has no system call instruction");
}

absl::StatusOr<long> AttachedProcess::Call(Task* task, long number, unsigned long a,
                                           unsigned long b, unsigned long c) {
  ASSIGN_OR_RETURN(const uint64_t at, FindSyscallInstruction(*task));
  // What arrives meanwhile waits.
  uint64_t mask = 0;
  const uint64_t all = ~uint64_t{0};
  if (Ptrace(kGetSigmask, task->tid, sizeof(mask), Bits(&mask)) != 0 ||
      Ptrace(kSetSigmask, task->tid, sizeof(all), Bits(&all)) != 0) {
    return absl::UnavailableError("its signals cannot be held");
  }
  user_regs_struct call = task->registers;
  call.rip = at;
  call.rax = static_cast<unsigned long>(number);
  call.orig_rax = ~0ul;  // so that the kernel restarts nothing now
  call.rdi = a;
  call.rsi = b;
  call.rdx = c;
  call.r10 = call.r8 = call.r9 = 0;
  iovec registers{&call, sizeof(call)};
  absl::StatusOr<long> result = absl::UnavailableError("it could not be made to call the kernel");
  if (Ptrace(PTRACE_SETREGSET, task->tid, NT_PRSTATUS, Bits(&registers)) == 0) {
    // Entry, perhaps the event of a fork, exit.
    Ptrace(PTRACE_SETOPTIONS, task->tid, 0,
           PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK);
    for (int stops = 0, calls = 0; stops < 16 && calls < 2; ++stops) {
      int status = 0;
      if (Ptrace(PTRACE_SYSCALL, task->tid, 0, 0) != 0 ||
          WaitFor(task->tid, &status) != task->tid || !WIFSTOPPED(status)) {
        return absl::UnavailableError("it ended");
      }
      if (WSTOPSIG(status) == (SIGTRAP | 0x80)) ++calls;
      const int event = status >> 16;
      if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK) {
        unsigned long child = 0;
        Ptrace(PTRACE_GETEVENTMSG, task->tid, 0, Bits(&child));
        copy_ = static_cast<pid_t>(child);
      }
      if (calls < 2) continue;
      user_regs_struct after;
      iovec out{&after, sizeof(after)};
      if (Ptrace(PTRACE_GETREGSET, task->tid, NT_PRSTATUS, Bits(&out)) == 0) {
        result = static_cast<long>(after.rax);
      }
    }
  }
  // As it was, and on the way on which the kernel looks whether a call is to be restarted.
  Ptrace(PTRACE_SETOPTIONS, task->tid, 0, 0);
  iovec before{&task->registers, sizeof(task->registers)};
  Ptrace(PTRACE_SETREGSET, task->tid, NT_PRSTATUS, Bits(&before));
  int status = 0;
  if (Ptrace(PTRACE_INTERRUPT, task->tid, 0, 0) == 0 && Ptrace(PTRACE_CONT, task->tid, 0, 0) == 0) {
    WaitFor(task->tid, &status);
  }
  Ptrace(PTRACE_SETREGSET, task->tid, NT_PRSTATUS, Bits(&before));
  Ptrace(kSetSigmask, task->tid, sizeof(mask), Bits(&mask));
  return result;
}

absl::StatusOr<pid_t> AttachedProcess::Fork() {
  // Under a filter a fork may end the process.
  if (const std::string filter = StatusField(pid_, "Seccomp"); filter == "1" || filter == "2") {
    return absl::UnavailableError("it runs under a seccomp filter");
  }
  const auto able =
      std::find_if(tasks_.begin(), tasks_.end(), [](const Task& t) { return t.signal == 0; });
  if (able == tasks_.end()) return absl::UnavailableError("all its threads have a signal to take");
  // Without a signal at its end nobody is told of it, and no wait() for any child finds it.
  ASSIGN_OR_RETURN(const long made, Call(&*able, SYS_clone, 0, 0, 0));
  if (made < 0) {
    return absl::UnavailableError(
        fmt::format("it cannot fork: {}", strerror(static_cast<int>(-made))));
  }
  if (copy_ == 0) return absl::UnavailableError("its copy cannot be followed");
  int status = 0;
  WaitFor(copy_, &status);
  Ptrace(PTRACE_SETOPTIONS, copy_, 0, PTRACE_O_EXITKILL);
  return copy_;
}

void AttachedProcess::Release() {
  if (std::exchange(released_, true)) return;
  for (Task& task : tasks_) {
    user_regs_struct& r = task.registers;
    if (task.signal == 0 && static_cast<int64_t>(r.rax) == -EINTR && IsEndedByStop(r.orig_rax)) {
      // Nobody interrupted it but we.
      user_regs_struct again = r;
      again.rax = r.orig_rax;
      again.orig_rax = ~0ul;
      again.rip -= 2;
      iovec registers{&again, sizeof(again)};
      Ptrace(PTRACE_SETREGSET, task.tid, NT_PRSTATUS, Bits(&registers));
    }
    Ptrace(PTRACE_DETACH, task.tid, 0, static_cast<uint64_t>(task.signal));
  }
}

void AttachedProcess::EndCopy() {
  if (copy_ == 0) return;
  const pid_t copy = std::exchange(copy_, 0);
  kill(copy, SIGKILL);
  int status = 0;
  while (WaitFor(copy, &status) == copy && WIFSTOPPED(status)) Ptrace(PTRACE_CONT, copy, 0, 0);
  // Its parent has to take note of its end, or it stays as a zombie.
  Task task;
  task.tid = pid_;
  if (Ptrace(PTRACE_SEIZE, pid_, 0, 0) != 0) return;
  Ptrace(PTRACE_INTERRUPT, pid_, 0, 0);
  if (!WaitForStop(&task).ok()) return;
  if (task.signal == 0) {
    Call(&task, SYS_wait4, static_cast<unsigned long>(copy), 0, WNOHANG | __WALL).IgnoreError();
  }
  tasks_ = {task};
  released_ = false;
  Release();
}

AttachedProcess::~AttachedProcess() {
  Release();
  EndCopy();
}

}  // namespace ttq
