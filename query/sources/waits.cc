// SPDX-License-Identifier: MIT
//
// Who waits for whom: what each thread does in the kernel, which lock or descriptor that is about,
// who has it, and the circles of threads that wait for each other.
//
// All of it is read from registers and memory of the time, and so is as true of a core dump as of a
// recording; since when a thread waits, only a recording knows.

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/locks.h"
#include "query/cpython/runtime.h"
#include "query/cpython/state.h"
#include "query/cpython/tasks.h"
#include "query/process/stack.h"
#include "query/process/system_call.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

using python::PythonState;

struct Wait {
  ThreadNo thread;
  // "mutex", "condition", "semaphore", "join", "futex", "GIL", "read", "write", "accept",
  // "connect", "poll", "open", "sleep", "child", "signal", "file lock", "system call"; empty: it
  // does not wait.
  std::string kind;
  std::string what;               // "lock_a (0x4040)", "descriptor 3: pipe:[4242] (read end)"
  std::optional<ThreadNo> owner;  // the thread that it waits for, where that can be known
  std::optional<Time> since;
  std::string cycle;  // "deadlock: thread 2 → lock_a → thread 5 → lock_b → thread 2"; empty: none
  // Of a row that is about a task of asyncio: its name, what it awaits, who awaits it.
  std::string task, awaits, awaited_by;
};

// glibc's pthread_mutex_t (sysdeps/x86/nptl/bits/struct_mutex.h): lock, count, owner, users, kind.
constexpr uint64_t kMutexOwner = 8, kMutexKind = 16;
// glibc's pthread_cond_t: the two words that waiters wait on (pthreadtypes-arch.h).
constexpr uint64_t kConditionSignals = 40;
// glibc's pthread_rwlock_t (sysdeps/x86/nptl/bits/struct_rwlock.h): readers, writers, the words
// that readers and writers wait on, and who writes. The count of readers is above three bits.
constexpr uint64_t kRwlockPhase = 8, kRwlockWriters = 12, kRwlockWriter = 24;
constexpr uint32_t kRwlockReaderShift = 3;
constexpr size_t kFrames = 24;
constexpr size_t kMaxDescriptors = 8;  // of a poll that are named
constexpr size_t kMaxEvents = 1 << 20;
constexpr uint64_t kGilBytes = 224;  // as in query/cpython/state.cc

// Functions of a thread's stack, from the inside out, as far as they may be the C library's.
class Functions {
 public:
  explicit Functions(const Stack& stack) {
    for (const Frame& frame : stack.frames) {
      names_.push_back(frame.symbol.empty() ? frame.function : frame.symbol);
    }
  }
  bool Has(std::initializer_list<std::string_view> parts) const {
    constexpr size_t kInner = 8;
    for (size_t i = 0; i < std::min(kInner, names_.size()); ++i) {
      for (const std::string_view part : parts) {
        if (names_[i].find(part) != std::string::npos) return true;
      }
    }
    return false;
  }

 private:
  std::vector<std::string> names_;
};

class Finder {
 public:
  Finder(const Context& context, Time t, ScanControl* control)
      : context_(context), process_(context.process()), time_(t), control_(control) {}

  absl::StatusOr<std::vector<Wait>> Run() {
    ASSIGN_OR_RETURN(moment_, process_.At(time_));
    calls_.emplace(moment_.get(), control_);
    for (const Thread& thread : process_.threads()) {
      if (thread.start > time_ || thread.end < time_) continue;
      absl::StatusOr<Registers> registers = moment_->RegistersOf(thread.number);
      if (absl::IsNotFound(registers.status())) continue;
      if (!registers.ok()) return registers.status();
      alive_.push_back(thread);
      registers_[thread.number] = *registers;
    }
    RETURN_IF_ERROR(FindGil());
    std::vector<Wait> waits;
    for (const Thread& thread : alive_) {
      RETURN_IF_ERROR(NotInterrupted(control_));
      Wait wait;
      wait.thread = thread.number;
      RETURN_IF_ERROR(Fill(registers_[thread.number], &wait));
      waits.push_back(std::move(wait));
    }
    NameCycles(&waits);
    AddTasks(&waits);
    return waits;
  }
  // What is not among them, a sentence; "": nothing.
  const std::string& missing() const { return missing_; }

 private:
  absl::Status FindGil() {
    if (!context_.HasPython()) return absl::OkStatus();
    ASSIGN_OR_RETURN(python_, PythonState::At(&context_.recording(), &process_, time_));
    for (const auto& instance : python_->instances()) {
      const python::Runtime& runtime = instance->runtime;
      for (const python::Interpreter& interpreter : python_->Interpreters(*instance)) {
        uint64_t gil = 0;
        if (runtime.layout->runtime_gil != python::kAbsent) {
          gil = runtime.address + static_cast<uint64_t>(runtime.layout->runtime_gil);
        } else if (runtime.layout->interp_gil != python::kAbsent) {
          gil = python_->memory().Pointer(interpreter.address +
                                          static_cast<uint64_t>(runtime.layout->interp_gil));
        }
        if (gil == 0) continue;
        const uint64_t holder = python::GilHolder(python_->memory(), runtime, interpreter);
        for (const python::ThreadState& state : interpreter.threads) {
          if (state.address == holder) gils_[gil] = state.thread;
        }
        gils_.try_emplace(gil, ThreadNo());
      }
    }
    return absl::OkStatus();
  }

  std::optional<uint32_t> Word(uint64_t address) {
    absl::StatusOr<std::optional<uint64_t>> value = moment_->ReadNumber(Address(address), 4);
    if (!value.ok() || !*value) return std::nullopt;
    return static_cast<uint32_t>(**value);
  }

  const Thread* WithTid(uint32_t tid) const {
    for (const Thread& thread : alive_) {
      if (thread.os_tid == tid && tid != 0) return &thread;
    }
    return nullptr;
  }

  // "lock_a" of a global, with its address.
  std::string NameOf(uint64_t address) {
    absl::StatusOr<const Symbolizer*> symbols = context_.SymbolsAt(time_);
    if (symbols.ok()) {
      if (const std::optional<VariableInfo> v = (*symbols)->VariableAt(Address(address))) {
        const uint64_t offset = address - v->address.v;
        return fmt::format("{}{} ({:#x})", v->name,
                           offset == 0 ? "" : fmt::format("+{:#x}", offset), address);
      }
    }
    return fmt::format("{:#x}", address);
  }

  absl::Status Fill(const Registers& registers, Wait* wait) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> number,
                     calls_->NumberOf(wait->thread, registers));
    if (!number) return absl::OkStatus();
    RETURN_IF_ERROR(FillCall(*number, registers, wait));
    if (wait->kind.empty() || HistoryUnknown(process_)) return absl::OkStatus();
    // When it made the call: its last instruction.
    ASSIGN_OR_RETURN(auto cursor,
                     process_.Executions({{registers.pc - 2, registers.pc}}, {Time(0), time_},
                                         Direction::kBackward, wait->thread, control_));
    ASSIGN_OR_RETURN(std::optional<Execution> made, cursor->Next());
    if (made) wait->since = made->time;
    return absl::OkStatus();
  }

  absl::Status FillCall(int64_t number, const Registers& registers, Wait* wait) {
    const uint64_t* gpr = registers.gpr;
    const auto fd = static_cast<int>(gpr[kRdi]);
    switch (number) {
      case SYS_futex:
        return FillFutex(registers, wait);
      case SYS_nanosleep:
      case SYS_clock_nanosleep:
        return Say("sleep", SyscallName(number), wait);
      case SYS_select:
      case SYS_pselect6:
        return gpr[kRdi] == 0
                   ? Say("sleep", SyscallName(number), wait)
                   : Say("poll", Selected(gpr[kRdi], {gpr[kRsi], gpr[kRdx], gpr[kR10]}), wait);
      case SYS_poll:
      case SYS_ppoll:
        return Say("poll", Polled(gpr[kRdi], gpr[kRsi]), wait);
      case SYS_epoll_wait:
      case SYS_epoll_pwait:
        return Say("poll", DescriptorText(fd), wait);
      case SYS_read:
      case SYS_readv:
      case SYS_pread64:
      case SYS_recvfrom:
      case SYS_recvmsg:
        return Say("read", DescriptorText(fd), wait);
      case SYS_write:
      case SYS_writev:
      case SYS_sendto:
      case SYS_sendmsg:
        return Say("write", DescriptorText(fd), wait);
      case SYS_accept:
      case SYS_accept4:
        return Say("accept", DescriptorText(fd), wait);
      case SYS_open:
      case SYS_openat: {
        // A pipe with a name, or a device; who passes through is not told apart in a recording.
        if (!HistoryUnknown(process_)) return absl::OkStatus();
        return Say("open", TextAt(gpr[number == SYS_open ? kRdi : kRsi], time_), wait);
      }
      case SYS_connect:
        return Say("connect", DescriptorText(fd), wait);
      case SYS_flock:
        return Say("file lock", DescriptorText(fd), wait);
      case SYS_fcntl:
        if (gpr[kRsi] != F_SETLKW && gpr[kRsi] != F_OFD_SETLKW) return absl::OkStatus();
        return Say("file lock", DescriptorText(fd), wait);
      case SYS_wait4:
        return Say("child", fd > 0 ? fmt::format("process {}", fd) : "any child", wait);
      case SYS_waitid:
        return Say("child", gpr[kRsi] != 0 ? fmt::format("process {}", gpr[kRsi]) : "any child",
                   wait);
      case SYS_pause:
      case SYS_rt_sigsuspend:
      case SYS_rt_sigtimedwait:
        return Say("signal", SyscallName(number), wait);
      default:
        // Which it may be only passing through; nothing else is known of a moment.
        return absl::OkStatus();
    }
  }

  static absl::Status Say(std::string kind, std::string what, Wait* wait) {
    wait->kind = std::move(kind);
    wait->what = std::move(what);
    return absl::OkStatus();
  }

  absl::Status FillFutex(const Registers& registers, Wait* wait) {
    const uint64_t address = registers.gpr[kRdi];
    const uint64_t command = registers.gpr[kRsi] & FUTEX_CMD_MASK;
    constexpr uint64_t kLockPi2 = 13;
    if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET && command != FUTEX_LOCK_PI &&
        command != kLockPi2 && command != FUTEX_WAIT_REQUEUE_PI) {
      return absl::OkStatus();
    }
    for (const auto& [gil, holder] : gils_) {
      if (address < gil || address >= gil + kGilBytes) continue;
      if (holder != ThreadNo() && holder != wait->thread) wait->owner = holder;
      return Say("GIL", holder == ThreadNo() ? "held by no thread" : "", wait);
    }
    if (FillPythonLock(address, wait)) return absl::OkStatus();
    const auto expected = static_cast<uint32_t>(registers.gpr[kRdx]);
    const std::optional<uint32_t> word = Word(address);
    ASSIGN_OR_RETURN(const Stack stack,
                     Unwinder(context_).StackOf(*moment_, wait->thread, {.max_frames = kFrames}));
    const Functions functions(stack);
    // The kernel clears the word when the thread ends whose number it is.
    const Thread* ends = WithTid(expected);
    if (ends != nullptr && ends->number != wait->thread && IsThreadWord(*ends, address)) {
      wait->owner = ends->number;
      return Say("join", fmt::format("the end of thread {}", ends->number.v), wait);
    }
    const bool by_owner = command == FUTEX_LOCK_PI || command == kLockPi2;
    if (by_owner || functions.Has({"lll_lock_wait", "pthread_mutex_lock", "mutex_lock_full",
                                   "pthread_mutex_timedlock", "pthread_mutex_clocklock"})) {
      return FillMutex(address, word, wait);
    }
    if (functions.Has({"pthread_cond_"})) {
      uint64_t condition = address - kConditionSignals;
      if (condition % 8 != 0) condition -= 4;
      return Say("condition", NameOf(condition), wait);
    }
    if (functions.Has({"sem_wait", "sem_timedwait", "sem_clockwait"})) {
      return Say("semaphore", NameOf(address), wait);
    }
    if (functions.Has({"pthread_rwlock"})) return FillRwlock(address, wait);
    if (functions.Has({"pthread_barrier"})) return Say("barrier", NameOf(address), wait);
    if (functions.Has({"pthread_join", "pthread_clockjoin", "pthread_timedjoin"})) {
      return Say("join", fmt::format("the end of thread id {}", expected), wait);
    }
    // Without names: a locked word, and behind it who locked it.
    const std::optional<uint32_t> owner = Word(address + kMutexOwner);
    if (word && *word == 2 && expected == 2 && owner && WithTid(*owner) != nullptr) {
      return FillMutex(address, word, wait);
    }
    return Say("futex", NameOf(address), wait);
  }

  // Whether `address` is in the block that glibc keeps of a thread, which its fs points at.
  bool IsThreadWord(const Thread& thread, uint64_t address) const {
    constexpr uint64_t kThreadBytes = 2304;  // struct pthread
    const auto registers = registers_.find(thread.number);
    if (registers == registers_.end()) return false;
    const uint64_t begin = registers->second.fs_base;
    return begin != 0 && begin <= address && address < begin + kThreadBytes;
  }

  absl::Status FillMutex(uint64_t address, std::optional<uint32_t> word, Wait* wait) {
    // The owner of a mutex of the priority-inheriting kind is in the word itself.
    const std::optional<uint32_t> kind = Word(address + kMutexKind);
    constexpr uint32_t kInherits = 32, kTidMask = 0x3fffffff;
    std::optional<uint32_t> owner = Word(address + kMutexOwner);
    if (kind && (*kind & kInherits) != 0 && word) owner = *word & kTidMask;
    std::string what = NameOf(address);
    if (owner && *owner != 0) {
      if (const Thread* thread = WithTid(*owner)) {
        wait->owner = thread->number;
      } else {
        absl::StrAppend(
            &what, fmt::format(", locked by thread id {}, which is not in this process", *owner));
      }
    }
    return Say("mutex", std::move(what), wait);
  }

  // Who reads it is counted, not named.
  absl::Status FillRwlock(uint64_t address, Wait* wait) {
    const uint64_t lock = address % 8 != 0 ? address - kRwlockWriters : address - kRwlockPhase;
    std::string what = NameOf(lock);
    const uint32_t readers = Word(lock).value_or(0);
    const uint32_t writer = Word(lock + kRwlockWriter).value_or(0);
    if (const Thread* thread = WithTid(writer)) {
      wait->owner = thread->number;
    } else if (const uint32_t count = readers >> kRwlockReaderShift; count > 0) {
      absl::StrAppend(&what, fmt::format(", read by {} thread{}", count, count == 1 ? "" : "s"));
    }
    return Say("rwlock", std::move(what), wait);
  }

  // A lock of Python's, or what of its library waits.
  bool FillPythonLock(uint64_t address, Wait* wait) {
    if (python_ == nullptr) return false;
    if (!locks_) locks_.emplace(python_.get());
    const std::optional<python::LockWait> lock = locks_->Find(wait->thread, address);
    if (!lock) return false;
    wait->kind = lock->kind;
    wait->what = lock->what;
    wait->owner = lock->owner;
    return true;
  }

  void AddTasks(std::vector<Wait>* waits) {
    if (python_ == nullptr) return;
    const std::vector<python::TaskWait> tasks = python::FindTaskWaits(*python_, &missing_);
    for (const python::TaskWait& task : tasks) {
      Wait wait;
      wait.thread = task.thread;
      wait.kind = "task";
      wait.task = task.name;
      wait.awaits = task.awaits;
      for (const size_t other : task.awaited_by) {
        absl::StrAppend(&wait.awaited_by, wait.awaited_by.empty() ? "" : ", ", tasks[other].name);
      }
      wait.what = fmt::format("{}{} awaits {}", task.name, task.at.empty() ? "" : ", " + task.at,
                              task.awaits);
      if (!wait.awaited_by.empty()) absl::StrAppend(&wait.what, "; awaited by ", wait.awaited_by);
      wait.cycle = task.cycle;
      waits->push_back(std::move(wait));
    }
  }

  // ---- Descriptors ------------------------------------------------------------------------------

  std::string DescriptorText(int fd) {
    const std::string what = Descriptor(fd);
    return what.empty() ? fmt::format("descriptor {}", fd)
                        : fmt::format("descriptor {}: {}", fd, what);
  }

  std::string DescriptorTexts(const std::vector<int>& fds, uint64_t more) {
    std::vector<std::string> texts;
    for (const int fd : fds) texts.push_back(DescriptorText(fd));
    if (more > 0) texts.push_back(fmt::format("and {} more", more));
    return texts.empty() ? "no descriptor" : absl::StrJoin(texts, ", ");
  }

  std::string Descriptor(int fd) {
    if (!HistoryUnknown(process_)) {
      if (!descriptors_read_) ReadDescriptors();
      const auto known = opened_.find(fd);
      return known == opened_.end() ? "" : known->second;
    }
    for (const auto& known : MomentInfoOf(process_).descriptors) {
      if (known.fd == fd) return known.what;
    }
    return "";
  }

  // From the system calls that made and closed them. Those that the program began with are not
  // known.
  void ReadDescriptors() {
    descriptors_read_ = true;
    EventQuery query;
    query.kind = EventKind::kSyscall;
    query.span.end = time_ + 1;
    auto cursor = process_.Events(query);
    if (!cursor.ok()) return;
    for (size_t i = 0; i < kMaxEvents; ++i) {
      absl::StatusOr<std::optional<Event>> event = (*cursor)->Next();
      if (!event.ok() || !*event) return;
      Apply(**event);
    }
    opened_.clear();  // what came later is not known
  }

  void Apply(const Event& e) {
    if (e.result < 0) return;
    const auto result = static_cast<int>(e.result), first = static_cast<int>(e.args[0]);
    switch (e.number) {
      case SYS_open:
        opened_[result] = TextAt(e.args[0], e.time);
        return;
      case SYS_openat:
        opened_[result] = TextAt(e.args[1], e.time);
        return;
      case SYS_creat:
        opened_[result] = TextAt(e.args[0], e.time);
        return;
      case SYS_socket:
        opened_[result] = "a socket";
        return;
      case SYS_accept:
      case SYS_accept4:
        opened_[result] = fmt::format("a socket accepted from descriptor {}", first);
        return;
      case SYS_epoll_create:
      case SYS_epoll_create1:
        opened_[result] = "an epoll";
        return;
      case SYS_eventfd:
      case SYS_eventfd2:
        opened_[result] = "an eventfd";
        return;
      case SYS_pipe:
      case SYS_pipe2:
      case SYS_socketpair: {
        const bool is_pipe = e.number != SYS_socketpair;
        const uint64_t at = is_pipe ? e.args[0] : e.args[3];
        absl::StatusOr<MemoryImage> pair = process_.Memory(Address(at), 8, e.time);
        if (!pair.ok() || !pair->all_present()) return;
        int32_t ends[2];
        memcpy(ends, pair->bytes.data(), sizeof(ends));
        for (int i = 0; i < 2; ++i) {
          opened_[ends[i]] =
              is_pipe
                  ? fmt::format("the {} end of a pipe whose {} end is descriptor {}",
                                i == 0 ? "read" : "write", i == 0 ? "write" : "read", ends[1 - i])
                  : fmt::format("a socket whose other end is descriptor {}", ends[1 - i]);
        }
        return;
      }
      case SYS_dup:
      case SYS_dup2:
      case SYS_dup3:
        if (const auto known = opened_.find(first); known != opened_.end()) {
          opened_[result] = known->second;
        }
        return;
      case SYS_close:
        opened_.erase(first);
        return;
      default:
        return;
    }
  }

  std::string TextAt(uint64_t address, Time t) {
    constexpr uint64_t kLongest = 256;
    absl::StatusOr<MemoryImage> image = process_.Memory(Address(address), kLongest, t);
    if (!image.ok()) return "a file";
    const size_t known = static_cast<size_t>(
        std::find(image->present.begin(), image->present.end(), false) - image->present.begin());
    return image->bytes.substr(0, std::min(image->bytes.find('\0'), known));
  }

  std::string Polled(uint64_t list, uint64_t count) {
    std::vector<int> fds;
    for (uint64_t i = 0; i < count && fds.size() < kMaxDescriptors; ++i) {
      const std::optional<uint32_t> fd = Word(list + 8 * i);  // struct pollfd
      if (!fd) break;
      if (static_cast<int>(*fd) >= 0) fds.push_back(static_cast<int>(*fd));
    }
    return DescriptorTexts(fds, count > kMaxDescriptors ? count - fds.size() : 0);
  }

  // Three sets of bits, each of which may be missing.
  std::string Selected(uint64_t count, std::initializer_list<uint64_t> sets) {
    std::vector<int> fds;
    uint64_t more = 0;
    for (uint64_t fd = 0; fd < std::min<uint64_t>(count, FD_SETSIZE); ++fd) {
      const bool is_set = std::any_of(sets.begin(), sets.end(), [&](uint64_t set) {
        const auto word = set == 0 ? std::nullopt : Word(set + fd / 32 * 4);
        return word && (*word >> fd % 32 & 1) != 0;
      });
      if (!is_set) continue;
      if (fds.size() == kMaxDescriptors) {
        ++more;
      } else {
        fds.push_back(static_cast<int>(fd));
      }
    }
    return DescriptorTexts(fds, more);
  }

  // ---- Circles ----------------------------------------------------------------------------------

  static void NameCycles(std::vector<Wait>* waits) {
    std::map<ThreadNo, Wait*> by_thread;
    for (Wait& wait : *waits) by_thread[wait.thread] = &wait;
    for (Wait& wait : *waits) {
      if (!wait.cycle.empty()) continue;
      std::vector<Wait*> path;
      Wait* at = &wait;
      while (at != nullptr && at->owner && std::find(path.begin(), path.end(), at) == path.end()) {
        path.push_back(at);
        const auto next = by_thread.find(*at->owner);
        at = next == by_thread.end() ? nullptr : next->second;
      }
      const auto first = std::find(path.begin(), path.end(), at);
      if (at == nullptr || !at->owner || first == path.end()) continue;
      std::string text = "deadlock: ";
      for (auto it = first; it != path.end(); ++it) {
        const std::string& what = (*it)->what;
        absl::StrAppend(&text, "thread ", (*it)->thread.v, " → ", what.empty() ? (*it)->kind : what,
                        " → ");
      }
      absl::StrAppend(&text, "thread ", at->thread.v);
      for (auto it = first; it != path.end(); ++it) (*it)->cycle = text;
    }
  }

  const Context& context_;
  const Process& process_;
  const Time time_;
  ScanControl* control_;
  std::unique_ptr<Moment> moment_;
  std::optional<OpenCalls> calls_;
  std::unique_ptr<PythonState> python_;
  std::vector<Thread> alive_;
  std::map<ThreadNo, Registers> registers_;
  std::map<uint64_t, ThreadNo> gils_;  // by address, who holds them
  std::optional<python::LockFinder> locks_;
  std::string missing_;
  bool descriptors_read_ = false;
  std::map<int, std::string> opened_;
};

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Waits&, const ast::Query& query, const Context& context,
                                const RunOptions&, const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  SourcePlan plan;
  Add(&plan, "thread", Type::kInteger);
  Add(&plan, "kind", Type::kString);
  Add(&plan, "what", Type::kString);
  Add(&plan, "held_by", Type::kInteger);
  Add(&plan, "since", Type::kTime);
  Add(&plan, "cycle", Type::kString);
  Add(&plan, "task", Type::kString);
  Add(&plan, "awaits", Type::kString);
  Add(&plan, "awaited_by", Type::kString);
  plan.presentation.table_columns = {"thread", "kind", "what", "held_by", "since", "cycle"};
  plan.open = [&context, at](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const std::shared_ptr<Outcome> outcome = request.outcome;
    ScanControl* control = request.options->control;
    return OperatorPtr(std::make_unique<ComputedSource>(
        [&context, at, control, outcome]() -> absl::StatusOr<std::vector<Row>> {
          Finder finder(context, at, control);
          ASSIGN_OR_RETURN(std::vector<Wait> waits, finder.Run());
          if (!finder.missing().empty()) outcome->MarkIncomplete(finder.missing());
          std::vector<Row> rows;
          for (const Wait& wait : waits) {
            if (wait.kind.empty()) continue;
            rows.push_back({wait.thread == ThreadNo() ? Value(Null{}) : OfThread(wait.thread),
                            OfText(wait.kind), OfText(wait.what),
                            wait.owner ? OfThread(*wait.owner) : Value(Null{}),
                            wait.since ? Value(*wait.since) : Value(Null{}), OfText(wait.cycle),
                            OfText(wait.task), OfText(wait.awaits), OfText(wait.awaited_by)});
          }
          return rows;
        },
        outcome));
  };
  plan.explain = [](const SourceRequest&) {
    return absl::StatusOr<std::string>("the registers and the memory of each thread");
  };
  plan.presentation.no_rows = "no thread waits";
  return plan;
}

}  // namespace ttq
