// SPDX-License-Identifier: MIT

#include "query/cpython/state.h"

#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "fmt/core.h"

namespace ttq::python {

PythonState::PythonState(const Recording* recording, const Process* process,
                         std::unique_ptr<Moment> moment)
    : recording_(recording),
      process_(process),
      moment_(std::move(moment)),
      memory_(std::make_unique<MomentMemory>(moment_.get())) {}

absl::StatusOr<std::unique_ptr<PythonState>> PythonState::At(const Recording* recording,
                                                             const Process* process, Time t) {
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process->At(t));
  std::unique_ptr<PythonState> state(new PythonState(recording, process, std::move(moment)));
  RETURN_IF_ERROR(state->Find());
  return state;
}

absl::Status PythonState::MoveTo(Time t) {
  const Time before = moment_->time();
  calls_.reset();
  RETURN_IF_ERROR(memory_->MoveTo(t));
  for (const std::unique_ptr<Instance>& instance : instances_) {
    instance->objects.Forget();
    instance->frames.Forget();
  }
  if (valid_from_ <= t && t < valid_until_ && (before <= t || AllAlive())) return absl::OkStatus();
  return Find();
}

bool PythonState::AllAlive() const {
  return std::all_of(instances_.begin(), instances_.end(),
                     [this](const auto& instance) { return IsAlive(*memory_, instance->runtime); });
}

absl::Status PythonState::Find() {
  instances_.clear();
  problem_.clear();
  const Time t = moment_->time();
  valid_from_ = valid_until_ = t;
  ASSIGN_OR_RETURN(std::vector<Runtime> runtimes, FindRuntimes(recording_, *process_, *memory_, t));
  if (!memory_->status().ok()) return memory_->status();
  if (runtimes.empty()) problem_ = DescribeNoRuntime(*process_, t);
  bool all_alive = !runtimes.empty();
  for (Runtime& runtime : runtimes) {
    if (!runtime.layout) {
      if (!problem_.empty()) problem_ += "; ";
      problem_ += runtime.problem;
      all_alive = false;
      continue;
    }
    all_alive = all_alive && IsAlive(*memory_, runtime);
    instances_.push_back(std::make_unique<Instance>(std::move(runtime), memory_.get()));
    instances_.back()->frames.set_last_write([this](uint64_t word) { return LastWrite(word); });
  }
  if (all_alive) {
    // Where everything is does not change while the modules stay.
    ASSIGN_OR_RETURN(std::vector<LoadedModule> modules, process_->Modules());
    valid_from_ = Time(0);
    valid_until_ = kTimeMax;
    for (const LoadedModule& module : modules) {
      for (const Time change : {module.loaded, module.unloaded}) {
        if (change > t) valid_until_ = std::min(valid_until_, change);
        if (change <= t) valid_from_ = std::max(valid_from_, change);
      }
    }
  }
  return absl::OkStatus();
}

std::optional<FrameReader::WordWrite> PythonState::LastWrite(uint64_t word) {
  // Entering a frame takes a few tens of instructions, in a build without optimisation some more.
  constexpr uint64_t kEntering = 300;
  AccessQuery query;
  query.ranges = {{Address(word), Address(word + 8)}};
  query.span = {Time(time().v - std::min(time().v, kEntering)), time()};
  absl::StatusOr<std::optional<Access>> access = LastAccess(*process_, std::move(query));
  if (!access.ok() || !*access) return std::nullopt;
  // Stored with its neighbour, as a vector, too.
  const uint64_t skip = word - (*access)->address.v;
  const std::string &value = (*access)->value, &previous = (*access)->previous;
  if ((*access)->address.v > word || skip + 8 > value.size() || skip + 8 > previous.size()) {
    return std::nullopt;
  }
  FrameReader::WordWrite write;
  memcpy(&write.value, value.data() + skip, 8);
  memcpy(&write.previous, previous.data() + skip, 8);
  return write;
}

// Of thread states that do not tell their thread by its kernel id: up to 3.10 they know its
// pthread_t alone, and the kernel's writing of the id into that may not be in the recording; in a
// forked child they know the parent's id until the interpreter puts that right. On x86-64 a
// pthread_t is what the thread's fs points at, in glibc and musl.
void PythonState::MatchByPthread(std::vector<Interpreter>* interpreters) {
  std::optional<std::vector<std::pair<uint64_t, ThreadNo>>> pointers;
  for (Interpreter& interpreter : *interpreters) {
    for (ThreadState& state : interpreter.threads) {
      if (state.thread != ThreadNo() || state.pthread == 0) continue;
      if (!pointers) {
        pointers.emplace();
        for (const Thread& thread : process_->threads()) {
          if (thread.start > time() || thread.end < time()) continue;
          absl::StatusOr<Registers> registers = moment_->RegistersOf(thread.number);
          if (registers.ok()) pointers->emplace_back(registers->fs_base, thread.number);
        }
      }
      for (const auto& [pointer, number] : *pointers) {
        if (pointer == state.pthread) state.thread = number;
      }
    }
  }
}

std::vector<Interpreter> PythonState::Interpreters(const Instance& instance) {
  std::vector<Interpreter> interpreters = FindInterpreters(*process_, *memory_, instance.runtime);
  MatchByPthread(&interpreters);
  return interpreters;
}

std::vector<PythonState::ThreadStack> PythonState::Stacks(std::optional<ThreadNo> thread) {
  std::vector<ThreadStack> stacks;
  bool any_frames = false;
  for (const std::unique_ptr<Instance>& instance : instances_) {
    for (const Interpreter& interpreter : Interpreters(*instance)) {
      for (const ThreadState& state : interpreter.threads) {
        if (thread && state.thread != *thread) continue;
        ThreadStack stack;
        stack.instance = instance.get();
        stack.interpreter.address = interpreter.address;
        stack.interpreter.id = interpreter.id;
        stack.state = state;
        stack.stack = instance->frames.Walk(state.address);
        any_frames = any_frames || !stack.stack.frames.empty();
        stacks.push_back(std::move(stack));
      }
    }
  }
  if (any_frames) {
    // Also leaves out the state of a thread that is about to begin, which has its parent's id.
    std::erase_if(stacks, [](const ThreadStack& s) {
      return s.stack.frames.empty() && s.stack.incomplete.empty();
    });
  }
  std::stable_sort(stacks.begin(), stacks.end(), [](const ThreadStack& a, const ThreadStack& b) {
    return a.state.thread < b.state.thread;
  });
  return stacks;
}

std::optional<PythonState::ThreadStack> PythonState::StackOf(ThreadNo thread) {
  std::vector<ThreadStack> stacks = Stacks(thread);
  std::optional<ThreadStack> best;
  for (ThreadStack& stack : stacks) {
    if (stack.stack.frames.empty()) continue;
    // Between sub-interpreters the one that holds its GIL is running.
    const uint64_t holder = GilHolder(*memory_, stack.instance->runtime, stack.interpreter);
    if (!best || holder == stack.state.address) best = std::move(stack);
  }
  return best;
}

std::string PythonState::WaitsFor(const ThreadStack& stack) {
  if (stack.state.thread == ThreadNo()) return "";
  absl::StatusOr<Registers> registers = moment_->RegistersOf(stack.state.thread);
  if (!registers.ok()) return "";
  if (!calls_) calls_.emplace(moment_.get());
  const absl::StatusOr<std::optional<int64_t>> number =
      calls_->NumberOf(stack.state.thread, *registers);
  if (!number.ok() || !*number) return "";
  const uint64_t* gpr = registers->gpr;
  const std::string name = SyscallName(**number);
  switch (**number) {
    case SYS_futex: {
      constexpr uint64_t kWait = 0, kWaitBitset = 9, kCommand = 127;
      const uint64_t command = gpr[kRsi] & kCommand;
      if (command != kWait && command != kWaitBitset) return "";
      if (IsOfGil(stack, gpr[kRdi])) return "waits for the GIL";
      return fmt::format("waits for a lock (futex {:#x})", gpr[kRdi]);
    }
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      return fmt::format("sleeps ({})", name);
    case SYS_select:
    case SYS_pselect6:
      if (gpr[kRdi] == 0) return fmt::format("sleeps ({})", name);
      return fmt::format("waits for descriptors ({})", name);
    case SYS_poll:
    case SYS_ppoll:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
      return fmt::format("waits for descriptors ({})", name);
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_write:
    case SYS_sendto:
    case SYS_flock:
      return fmt::format("waits for descriptor {} ({})", static_cast<int32_t>(gpr[kRdi]), name);
    case SYS_wait4:
    case SYS_waitid:
      return fmt::format("waits for a child process ({})", name);
    case SYS_pause:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
      return fmt::format("waits for a signal ({})", name);
    default:
      return "";
  }
}

// The mutexes and conditions of the GIL lie behind its counters.
bool PythonState::IsOfGil(const ThreadStack& stack, uint64_t futex) {
  const Runtime& runtime = stack.instance->runtime;
  uint64_t gil = 0;
  if (runtime.layout->runtime_gil != kAbsent) {
    gil = runtime.address + runtime.layout->runtime_gil;
  } else if (runtime.layout->interp_gil != kAbsent) {
    gil = memory_->Pointer(stack.interpreter.address + runtime.layout->interp_gil);
  }
  constexpr uint64_t kGilBytes = 224;
  return gil != 0 && futex >= gil && futex < gil + kGilBytes;
}

std::string VersionText(const Runtime& runtime) {
  return fmt::format("Python {}{}", runtime.version, runtime.free_threaded ? " free-threaded" : "");
}

}  // namespace ttq::python
