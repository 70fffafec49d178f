// SPDX-License-Identifier: MIT
//
// See timeline.h.

#include "gdb/timeline.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "gdb/agent_expression.h"
#include "gdb/registers.h"

namespace ttq::gdb {
namespace {

using Phase = Position::Phase;

// Executions that are looked at together, where conditions decide: going back, each costs a walk,
// and a batch of them only one.
constexpr size_t kMaxBatch = 512;

// x86-64's signal frame at the first instruction of a handler: the return address, then ucontext_t,
// whose registers begin at byte 40 (sys/ucontext.h).
constexpr uint64_t kSavedRegisters = 8 + 40;
// In the order of gregset_t.
constexpr Gpr kSavedOrder[] = {kR8,  kR9,  kR10, kR11, kR12, kR13, kR14, kR15,
                               kRdi, kRsi, kRbp, kRbx, kRdx, kRax, kRcx, kRsp};

bool Nearer(Direction direction, const Position& a, const Position& b) {
  return direction == Direction::kForward ? a < b : b < a;
}

// A fault is raised by the instruction of its time; other signals come between two instructions.
bool IsFault(const Event& signal) { return signal.args[2] != 0; }

// Whether a write left all bytes of the range as they were. False where that is not known.
bool ChangesNothing(const Access& access, const AddressRange& range) {
  if (access.value.size() != access.size || access.previous.size() != access.size) return false;
  const uint64_t begin = std::max(access.address.v, range.begin.v) - access.address.v;
  const uint64_t end = std::min(access.address.v + access.size, range.end.v) - access.address.v;
  return memcmp(access.value.data() + begin, access.previous.data() + begin, end - begin) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Timeline>> Timeline::Create(const Process* process) {
  if (process->info().blocks == 0) {
    return absl::FailedPreconditionError("nothing was recorded of this process");
  }
  std::unique_ptr<Timeline> timeline(new Timeline(process));
  ASSIGN_OR_RETURN(timeline->moment_, process->At(Time(0)));
  if (process->info().crash) timeline->now_ = timeline->Last();
  ASSIGN_OR_RETURN(timeline->stop_.thread, process->ThreadAt(timeline->now_.time));
  if (process->info().crash) {
    timeline->stop_.reason = Stop::Reason::kSignal;
    timeline->stop_.signal = process->info().fatal_signal;
    ASSIGN_OR_RETURN(const std::optional<Event> signal, timeline->SignalHere());
    if (signal) {
      timeline->stop_.thread = signal->thread;
      timeline->stop_.fault_address = signal->args[0];
    }
  }
  return timeline;
}

Position Timeline::Last() const {
  const ProcessInfo& info = process_.info();
  if (info.crash) return {*info.crash, Phase::kSignalled};
  return {info.end};
}

absl::Status Timeline::Seek(Time t) {
  RETURN_IF_ERROR(moment_->MoveTo(t));
  ASSIGN_OR_RETURN(const ThreadNo thread, moment_->RunningThread());
  now_ = {t};
  stop_ = Stop{.thread = thread};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Event>> Timeline::SignalsAt(Time t) {
  ASSIGN_OR_RETURN(const auto cursor,
                   process_.Events({.span = {t, t + 1}, .kind = EventKind::kSignal}));
  std::vector<Event> events;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Event> event, cursor->Next());
    if (!event) return events;
    events.push_back(*std::move(event));
  }
}

absl::StatusOr<std::optional<Event>> Timeline::SignalHere() {
  if (now_.phase == Phase::kAt) return std::nullopt;
  ASSIGN_OR_RETURN(const std::vector<Event> signals, SignalsAt(now_.time));
  for (const Event& signal : signals) {
    ASSIGN_OR_RETURN(const Position position, PositionOf(signal));
    if (position == now_) return signal;
  }
  return std::nullopt;
}

absl::StatusOr<bool> Timeline::EntersHandler(const Event& signal) {
  if (IsFault(signal)) return false;
  if (signal.time > process_.info().end) return false;
  RETURN_IF_ERROR(moment_->MoveTo(signal.time));
  const absl::StatusOr<Registers> registers = moment_->RegistersOf(signal.thread);
  if (absl::IsNotFound(registers.status())) return false;
  RETURN_IF_ERROR(registers.status());
  if (registers->gpr[kRdi] != static_cast<uint64_t>(signal.number)) return false;
  ASSIGN_OR_RETURN(
      const std::optional<uint64_t> pc,
      moment_->ReadNumber(Address(registers->gpr[kRsp]) + kSavedRegisters + 8 * 16, 8));
  return pc && *pc == signal.pc.v && registers->pc != signal.pc;
}

absl::StatusOr<Position> Timeline::PositionOf(const Event& signal) {
  if (IsFault(signal)) return Position{signal.time, Phase::kSignalled};
  ASSIGN_OR_RETURN(const bool enters, EntersHandler(signal));
  return Position{signal.time, enters ? Phase::kBeforeHandler : Phase::kSignalled};
}

absl::StatusOr<Registers> Timeline::Interrupted(const Event& signal) {
  RETURN_IF_ERROR(moment_->MoveTo(signal.time));
  ASSIGN_OR_RETURN(Registers registers, moment_->RegistersOf(signal.thread));
  const Address saved = Address(registers.gpr[kRsp]) + kSavedRegisters;
  for (size_t i = 0; i < std::size(kSavedOrder); ++i) {
    ASSIGN_OR_RETURN(const std::optional<uint64_t> value, moment_->ReadNumber(saved + 8 * i, 8));
    if (!value) return absl::NotFoundError("the signal's frame is not known");
    registers.gpr[kSavedOrder[i]] = *value;
  }
  registers.pc = signal.pc;
  registers.xmm_known = registers.xmm_high_known = 0;
  registers.st0_known = false;
  return registers;
}

// ---- The state here -----------------------------------------------------------------------------

absl::StatusOr<Registers> Timeline::RegistersOf(ThreadNo thread) {
  if (now_.phase == Phase::kBeforeHandler) {
    ASSIGN_OR_RETURN(const std::optional<Event> signal, SignalHere());
    if (signal && signal->thread == thread) return Interrupted(*signal);
  }
  RETURN_IF_ERROR(moment_->MoveTo(now_.time));
  return moment_->RegistersOf(thread);
}

absl::StatusOr<uint64_t> Timeline::Read(Address begin, uint64_t size, void* out) {
  RETURN_IF_ERROR(moment_->MoveTo(now_.time));
  return moment_->Read(begin, size, out);
}

bool Timeline::IsAlive(ThreadNo thread) {
  return moment_->MoveTo(now_.time).ok() && moment_->RegistersOf(thread).ok();
}

std::vector<Thread> Timeline::Threads() {
  std::vector<Thread> alive;
  for (const Thread& thread : process_.threads()) {
    if (IsAlive(thread.number)) alive.push_back(thread);
  }
  return alive;
}

// ---- Breakpoints --------------------------------------------------------------------------------

void Timeline::Insert(Address breakpoint, bool hardware, std::vector<std::string> conditions) {
  breakpoints_[{breakpoint, hardware}] = std::move(conditions);
}

void Timeline::Remove(Address breakpoint, bool hardware) {
  breakpoints_.erase({breakpoint, hardware});
}

absl::StatusOr<bool> Timeline::Stops(const Execution& execution) {
  for (const bool hardware : {false, true}) {
    const auto found = breakpoints_.find({execution.pc, hardware});
    if (found == breakpoints_.end()) continue;
    if (found->second.empty()) return true;
    RETURN_IF_ERROR(moment_->MoveTo(execution.time));
    ASSIGN_OR_RETURN(const Registers registers, moment_->RegistersOf(execution.thread));
    absl::Status status;
    const auto reg = [&](uint32_t number) { return RegisterNumbered(registers, number); };
    const auto memory = [&](uint64_t address, uint32_t size) -> std::optional<uint64_t> {
      absl::StatusOr<std::optional<uint64_t>> n = moment_->ReadNumber(Address(address), size);
      if (!n.ok()) status = n.status();
      return n.ok() ? *n : std::nullopt;
    };
    for (const std::string& condition : found->second) {
      const std::optional<uint64_t> value = EvaluateAgentExpression(condition, {reg, memory});
      RETURN_IF_ERROR(status);
      // What cannot be evaluated stops, so that the user sees why.
      if (!value || *value != 0) return true;
    }
  }
  return false;
}

absl::StatusOr<const Execution*> Timeline::FirstThatStops(const std::vector<Execution>& executions,
                                                          Direction direction) {
  const Execution* found = nullptr;
  // Always forward in time: that is cheap.
  const bool forward = direction == Direction::kForward;
  for (size_t i = 0; i < executions.size(); ++i) {
    const Execution& execution = executions[forward ? i : executions.size() - 1 - i];
    ASSIGN_OR_RETURN(const bool stops, Stops(execution));
    if (stops) found = &execution;
    if (stops && forward) break;
  }
  return found;
}

absl::Status Timeline::FindBreakpoint(const Resume& resume, ScanControl* control,
                                      Candidate* nearest) {
  std::vector<AddressRange> code;
  bool conditional = false;
  for (const auto& [key, conditions] : breakpoints_) {
    code.push_back({key.first, key.first + 1});
    conditional |= !conditions.empty();
  }
  if (code.empty()) return absl::OkStatus();
  const bool forward = resume.direction == Direction::kForward;
  // The instruction that raised a signal has been tried.
  const Time from = now_.phase == Phase::kSignalled ? now_.time + 1 : now_.time;
  const TimeSpan span =
      forward ? TimeSpan{from, nearest->at.time + 1} : TimeSpan{nearest->at.time, now_.time};
  if (span.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto cursor,
                   process_.Executions(code, span, resume.direction, resume.only, control));
  bool ended = false;
  for (size_t batch = 1; !ended; batch = std::min(batch * 4, kMaxBatch)) {
    std::vector<Execution> executions;
    while (executions.size() < (conditional ? batch : 1)) {
      ASSIGN_OR_RETURN(const std::optional<Execution> execution, cursor->Next());
      if (!execution) {
        ended = true;
        break;
      }
      // A step executes the instruction that the thread stands at, with a breakpoint or without.
      if (forward && resume.step == execution->thread && execution->time == now_.time) continue;
      executions.push_back(*execution);
    }
    ASSIGN_OR_RETURN(const Execution* found, FirstThatStops(executions, resume.direction));
    if (found == nullptr) continue;
    const Position at{found->time};
    if (Nearer(resume.direction, at, nearest->at)) {
      *nearest = {at, Stop{.reason = Stop::Reason::kBreakpoint,
                           .thread = found->thread,
                           .hardware = !breakpoints_.contains({found->pc, false})}};
    }
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// ---- Watchpoints --------------------------------------------------------------------------------

absl::Status Timeline::FindWatchpoint(const Resume& resume, const Watchpoint& watchpoint,
                                      ScanControl* control, Candidate* nearest) {
  const bool forward = resume.direction == Direction::kForward;
  AccessQuery query;
  query.ranges = {watchpoint.range};
  query.span = forward ? TimeSpan{now_.time, nearest->at.time + 1}
                       : TimeSpan{nearest->at.time, now_.time + 1};
  query.reads = watchpoint.kind != Watchpoint::Kind::kWrite;
  query.writes = watchpoint.kind != Watchpoint::Kind::kRead;
  query.direction = resume.direction;
  query.thread = resume.only;
  // gdb passes over writes that change nothing, and each would cost it a stop.
  query.want_values = watchpoint.kind == Watchpoint::Kind::kWrite;
  ASSIGN_OR_RETURN(const auto cursor, process_.Accesses(query, control));
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Access> access, cursor->Next());
    if (!access) return absl::OkStatus();
    const bool by_instruction = access->actor == Actor::kInstruction;
    // An instruction's access lies between the states of its time and of the next; the kernel's
    // between those of the time before and of its own.
    Position at{access->time};
    if (forward && by_instruction) at.time = access->time + 1;
    if (!forward && !by_instruction) {
      if (access->time.v == 0) continue;
      at.time = access->time - 1;
    }
    if (!Nearer(resume.direction, now_, at)) continue;
    if (!Nearer(resume.direction, at, nearest->at) && at != nearest->at) return absl::OkStatus();
    if (query.want_values && ChangesNothing(*access, watchpoint.range)) continue;
    *nearest = {at, Stop{.reason = Stop::Reason::kWatchpoint,
                         .thread = access->thread,
                         .address = std::max(access->address, watchpoint.range.begin),
                         .kind = watchpoint.kind}};
    return absl::OkStatus();
  }
}

// ---- Signals ------------------------------------------------------------------------------------

absl::Status Timeline::FindSignal(const Resume& resume, Candidate* nearest) {
  ASSIGN_OR_RETURN(const auto cursor, process_.Events({.span = {now_.time, nearest->at.time + 1},
                                                       .kind = EventKind::kSignal,
                                                       .thread = resume.only}));
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Event> signal, cursor->Next());
    if (!signal) return absl::OkStatus();
    // A thread that steps is told of all: its debugger must know why it left its path.
    if (passed_.contains(static_cast<int>(signal->number)) && resume.step != signal->thread) {
      continue;
    }
    ASSIGN_OR_RETURN(const Position at, PositionOf(*signal));
    if (at <= now_) continue;
    if (!(at < nearest->at) && at != nearest->at) return absl::OkStatus();
    *nearest = {at, Stop{.reason = Stop::Reason::kSignal,
                         .thread = signal->thread,
                         .signal = static_cast<int>(signal->number),
                         .fault_address = signal->args[0]}};
    return absl::OkStatus();
  }
}

// ---- Steps --------------------------------------------------------------------------------------

absl::StatusOr<std::optional<Position>> Timeline::StepForward(const Resume& resume,
                                                              ScanControl* control) {
  const ThreadNo thread = *resume.step;
  if (now_.phase == Phase::kBeforeHandler) {
    ASSIGN_OR_RETURN(const std::optional<Event> signal, SignalHere());
    if (signal && signal->thread == thread) return Position{now_.time};
  }
  const Time end = process_.info().end;
  // The instruction that a step in a range executed last.
  std::optional<Time> last;
  for (Time t = now_.time; t < end;) {
    if (control->cancelled) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(const auto runs, process_.RunsAround(t));
    auto run = std::partition_point(runs->begin(), runs->end(),
                                    [t](const Run& r) { return r.time + r.instructions <= t; });
    if (run == runs->end()) break;
    for (; run != runs->end(); ++run) {
      if (run->thread != thread) continue;
      const Time first = std::max(t, run->time);
      if (resume.range.empty()) return Position{first + 1};
      const std::vector<CodeInstruction> code = process_.CodeOf(run->code);
      for (Time i = first; i < run->time + run->instructions; ++i) {
        const uint64_t number = i.v - run->time.v;
        if (number >= code.size()) return Position{i + 1};
        if (last && !resume.range.Contains(code[number].address)) return Position{*last + 1};
        last = i;
      }
    }
    t = runs->back().time + runs->back().instructions;
  }
  if (last) return Position{*last + 1};
  return std::nullopt;
}

absl::StatusOr<std::optional<Position>> Timeline::StepBackward(ThreadNo thread,
                                                               ScanControl* control) {
  if (now_.phase != Phase::kBeforeHandler) {
    ASSIGN_OR_RETURN(const std::vector<Event> signals, SignalsAt(now_.time));
    for (const Event& signal : signals) {
      if (signal.thread != thread) continue;
      ASSIGN_OR_RETURN(const Position at, PositionOf(signal));
      if (at.phase == Phase::kBeforeHandler) return at;
    }
  }
  for (Time t = now_.time; t.v > 0;) {
    if (control->cancelled) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(const auto runs, process_.RunsAround(t - 1));
    auto run =
        std::partition_point(runs->begin(), runs->end(), [t](const Run& r) { return r.time < t; });
    while (run != runs->begin()) {
      --run;
      if (run->thread == thread) {
        return Position{std::min(t, run->time + run->instructions) - 1};
      }
    }
    if (runs->empty() || runs->front().time >= t) break;
    t = runs->front().time;
  }
  return std::nullopt;
}

absl::StatusOr<Stop> Timeline::Go(const Resume& resume, ScanControl* control) {
  const bool forward = resume.direction == Direction::kForward;
  ASSIGN_OR_RETURN(const ThreadNo at_end, process_.ThreadAt((forward ? Last() : First()).time));
  Candidate nearest{
      forward ? Last() : First(),
      Stop{.reason = forward ? Stop::Reason::kEnd : Stop::Reason::kBegin, .thread = at_end}};
  const auto find = [&]() -> absl::Status {
    if (resume.step) {
      ASSIGN_OR_RETURN(
          const std::optional<Position> step,
          forward ? StepForward(resume, control) : StepBackward(*resume.step, control));
      if (step && Nearer(resume.direction, *step, nearest.at)) {
        nearest = {*step, Stop{.thread = *resume.step}};
      }
    }
    RETURN_IF_ERROR(FindBreakpoint(resume, control, &nearest));
    for (const Watchpoint& watchpoint : watchpoints_) {
      RETURN_IF_ERROR(FindWatchpoint(resume, watchpoint, control, &nearest));
    }
    if (forward) RETURN_IF_ERROR(FindSignal(resume, &nearest));
    return absl::OkStatus();
  };
  if (Nearer(resume.direction, now_, nearest.at)) {
    const absl::Status status = find();
    if (control->cancelled || absl::IsCancelled(status)) {
      stop_ = Stop{.reason = Stop::Reason::kInterrupted, .thread = stop_.thread};
      return stop_;
    }
    RETURN_IF_ERROR(status);
    now_ = nearest.at;
  }
  stop_ = nearest.stop;
  return stop_;
}

}  // namespace ttq::gdb
