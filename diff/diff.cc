// SPDX-License-Identifier: MIT

#include "diff/diff.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "diff/align.h"
#include "fmt/core.h"
#include "re2/re2.h"

namespace ttq::diff {
namespace {

// Differences passed over before the comparison gives up on a thread.
constexpr uint64_t kMaxPassed = 500;
// Executions of a return address looked at for the one that leaves a frame.
constexpr int kMaxReturns = 256;
constexpr size_t kMaxThreads = 256;

using Flow = InstructionEffects::Flow;

bool Ignored(const RE2* ignore, const std::string& text) {
  return ignore != nullptr && !text.empty() && RE2::PartialMatch(text, *ignore);
}

std::vector<FrameText> TextOf(const Stack& stack) {
  constexpr size_t kMaxFrames = 30;
  std::vector<FrameText> out;
  for (const Frame& f : stack.frames) {
    if (out.size() == kMaxFrames) break;
    out.push_back({f.function, f.module, f.file, f.line});
  }
  return out;
}

SourceLocation LocationOf(const Frame& f) { return {f.function, f.module, f.file, f.line}; }

class Comparison {
 public:
  Comparison(Side* a, Side* b, Inputs* inputs, const RE2* ignore, ScanControl* control)
      : sides_{a, b},
        inputs_(*inputs),
        ignore_(ignore),
        control_(control),
        origins_(a, b, inputs) {}

  absl::Status Run(DiffResult* result);
  // What a value of Python's came from; nullopt where that cannot be followed.
  absl::StatusOr<std::optional<Origin>> OfPython(ThreadNo thread, const PythonEvidence& evidence);

 private:
  // A place where the runs parted. `span`: how long, unless they never came together again.
  struct Candidate {
    FirstDifference first;
    std::array<TimeSpan, 2> span;
    bool final = false;
  };
  // How far to compare, and from where on both are known to be alike.
  struct Part {
    std::array<Time, 2> begin = {Time(0), Time(0)}, end = {kTimeMax, kTimeMax};
    uint64_t most = kMaxPassed;
  };
  absl::Status OfThread(ThreadNo thread, const Part& part, DiffResult* result);
  absl::Status AskForVariable(const Divergence& d, FirstDifference* first, bool* same);
  absl::Status Choose(DiffResult* result);
  absl::StatusOr<FirstDifference> Explain(const Divergence& d);
  absl::StatusOr<Decision> Decide(const Divergence& d, const Origin& origin);
  absl::Status AddOrigin(Origin origin, FirstDifference* first);
  bool NamedToIgnore(const Stack& stack, size_t* frame) const;
  bool OriginIgnored(const FirstDifference& first) const;
  // Where both are back from frame `frame`; nullopt: at least one never is, or not there.
  absl::StatusOr<std::optional<std::array<Time, 2>>> After(const std::array<Stack, 2>& stacks,
                                                           std::array<size_t, 2> frame,
                                                           const Divergence& d);
  absl::StatusOr<std::optional<Time>> ReturnTime(int side, const Stack& stack, size_t frame,
                                                 Time from);
  absl::Status ByOutcome(DiffResult* result);

  std::array<Side*, 2> sides_;
  Inputs& inputs_;
  const RE2* ignore_;
  ScanControl* control_;
  OriginFinder origins_;
  std::vector<Candidate> candidates_;
  std::array<Stack, 2> stacks_;  // at the last common instruction
};

bool Comparison::NamedToIgnore(const Stack& stack, size_t* frame) const {
  bool found = false;
  for (size_t i = 0; i < stack.frames.size(); ++i) {
    if (!Ignored(ignore_, stack.frames[i].function)) continue;
    *frame = i;  // the outermost one
    found = true;
  }
  return found;
}

bool Comparison::OriginIgnored(const FirstDifference& first) const {
  if (ignore_ == nullptr) return false;
  if (first.origin.kind == OriginKind::kKernel || first.origin.kind == OriginKind::kInitial ||
      first.origin.kind == OriginKind::kMachine) {
    if (Ignored(ignore_, first.origin.text)) return true;
  }
  return std::any_of(first.origin_stack.begin(), first.origin_stack.end(),
                     [&](const FrameText& f) { return Ignored(ignore_, f.function); });
}

absl::StatusOr<std::optional<Time>> Comparison::ReturnTime(int side, const Stack& stack,
                                                           size_t frame, Time from) {
  while (frame < stack.frames.size() && stack.frames[frame].kind == Frame::Kind::kInlined) ++frame;
  if (frame + 1 >= stack.frames.size()) return std::optional<Time>();
  const std::optional<Address> cfa = stack.frames[frame].cfa;
  const Address back = stack.frames[frame + 1].pc;
  if (!cfa) return std::optional<Time>();
  ASSIGN_OR_RETURN(auto cursor,
                   sides_[side]->process().Executions({{back, back + 1}}, {from, kTimeMax},
                                                      Direction::kForward, stack.thread, control_));
  for (int i = 0; i < kMaxReturns; ++i) {
    ASSIGN_OR_RETURN(const std::optional<Execution> row, cursor->Next());
    if (!row) break;
    ASSIGN_OR_RETURN(const auto registers, sides_[side]->RegistersAt(row->time, stack.thread));
    if (registers.gpr[kRsp] >= cfa->v) {
      return registers.gpr[kRsp] == cfa->v ? std::optional<Time>(row->time) : std::nullopt;
    }
  }
  return std::optional<Time>();
}

absl::StatusOr<std::optional<std::array<Time, 2>>> Comparison::After(
    const std::array<Stack, 2>& stacks, std::array<size_t, 2> frame, const Divergence& d) {
  constexpr int kMaxFrames = 8;
  for (int tries = 0; tries < kMaxFrames; ++tries, ++frame[0], ++frame[1]) {
    std::array<Time, 2> out;
    bool both = true;
    for (int i : {0, 1}) {
      ASSIGN_OR_RETURN(const auto t, ReturnTime(i, stacks[i], frame[i], d.last[i].time + 1));
      if (!t) {
        both = false;
        break;
      }
      out[i] = *t;
    }
    if (both) return std::optional(out);
    if (frame[0] + 2 >= stacks[0].frames.size() || frame[1] + 2 >= stacks[1].frames.size()) break;
  }
  return std::optional<std::array<Time, 2>>();
}

absl::StatusOr<Decision> Comparison::Decide(const Divergence& d, const Origin& origin) {
  Decision decision;
  decision.place = sides_[0]->LocationOf(d.last[0].pc);
  for (int i : {0, 1}) {
    decision.branch[i] = sides_[i]->EffectsAt(d.last[i].pc, d.last[i].time).text;
  }
  // What set the flags is the next thing the search for the origin came across.
  if (origin.steps.size() < 2 || origin.steps[0].what != RegisterText(kFlagsRegister)) {
    if (!origin.steps.empty()) decision.values = origin.steps[0].value;
    return decision;
  }
  const OriginStep& setter = origin.steps[1];
  decision.compared = setter.instruction;
  for (int i : {0, 1}) {
    const InstructionEffects effects = sides_[i]->EffectsAt(setter.at[i].pc, setter.at[i].time);
    ASSIGN_OR_RETURN(const auto registers, sides_[i]->RegistersAt(setter.at[i].time, d.thread));
    std::vector<std::string> values;
    for (const MemoryOperand& m : effects.memory) {
      const std::optional<Address> at = m.AddressOf(registers.gpr);
      if (!m.read || !at || m.size > 8) continue;
      const std::string bytes = sides_[i]->Memory(*at, m.size, setter.at[i].time);
      uint64_t v = 0;
      for (size_t k = bytes.size(); k-- > 0;) v = v << 8 | static_cast<uint8_t>(bytes[k]);
      const bool negative = m.size == 4 && v >> 31;
      values.push_back(negative ? fmt::format("{}", static_cast<int32_t>(v))
                                : fmt::format("{}", v));
    }
    for (uint8_t reg = 0; reg < kGprCount; ++reg) {
      if (!(effects.reads >> reg & 1)) continue;
      const uint64_t v = registers.gpr[reg];
      values.push_back(fmt::format("{} = {}", RegisterText(reg),
                                   v < 1 << 20 ? fmt::format("{}", v) : fmt::format("{:#x}", v)));
    }
    for (const std::string& value : values) {
      absl::StrAppend(&decision.values[i], decision.values[i].empty() ? "" : ", ", value);
    }
  }
  return decision;
}

absl::Status Comparison::AddOrigin(Origin origin, FirstDifference* first) {
  first->origin = std::move(origin);
  const Origin& o = first->origin;
  if (!o.at[0].exists) return absl::OkStatus();
  const ThreadNo thread = o.thread.v == 0 ? first->thread : o.thread;
  ASSIGN_OR_RETURN(const Stack stack, sides_[0]->StackAt(o.at[0].time, thread));
  first->origin_stack = TextOf(stack);
  if (const Frame* own = sides_[0]->OwnFrame(stack)) first->origin_place = LocationOf(*own);
  return absl::OkStatus();
}

absl::StatusOr<FirstDifference> Comparison::Explain(const Divergence& d) {
  FirstDifference first;
  first.kind = "control flow";
  first.thread = d.thread;
  for (int i : {0, 1}) {
    const Step& where = d.last[i].exists ? d.last[i] : d.next[i];
    first.time[i] = d.next[i].exists ? d.next[i].time : d.last[i].time;
    if (d.next[i].exists) first.next[i] = sides_[i]->LocationOf(d.next[i].pc);
    if (!where.exists) continue;
    ASSIGN_OR_RETURN(stacks_[i], sides_[i]->StackAt(where.time, d.thread));
    first.stacks[i] = TextOf(stacks_[i]);
  }
  if (const Frame* own = sides_[0]->OwnFrame(stacks_[0])) first.place = LocationOf(*own);
  first.in_own_code = d.last[0].exists && sides_[0]->IsOwnCode(d.last[0].pc);
  ASSIGN_OR_RETURN(auto origin, origins_.OfBranch(d));
  if (!origin.steps.empty()) {
    ASSIGN_OR_RETURN(first.decision, Decide(d, origin));
  }
  RETURN_IF_ERROR(AddOrigin(std::move(origin), &first));
  return first;
}

// A branch in getenv says nothing by itself: it went along another list of variables. What counts
// is the variable that was asked for.
absl::Status Comparison::AskForVariable(const Divergence& d, FirstDifference* first, bool* same) {
  *same = false;
  std::array<std::string, 2> name;
  for (int i : {0, 1}) {
    const std::vector<Frame>& frames = stacks_[i].frames;
    const auto found = std::find_if(frames.begin(), frames.end(), [](const Frame& f) {
      return f.function == "getenv" || f.function == "secure_getenv" ||
             f.function == "__libc_secure_getenv";
    });
    if (found == frames.end() || !found->cfa) return absl::OkStatus();
    // The call wrote the return address; its argument is in rdi.
    ASSIGN_OR_RETURN(const auto call,
                     LastAccess(sides_[i]->process(), {.ranges = {{*found->cfa - 8, *found->cfa}},
                                                       .span = {Time(0), d.last[i].time},
                                                       .direction = Direction::kBackward,
                                                       .want_values = false}));
    if (!call) return absl::OkStatus();
    ASSIGN_OR_RETURN(const auto registers, sides_[i]->RegistersAt(call->time, d.thread));
    name[i] = sides_[i]->Memory(Address(registers.gpr[kRdi]), 128, call->time);
    name[i].resize(std::min(name[i].find('\0'), name[i].size()));
  }
  if (name[0].empty() || name[0] != name[1]) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto variable, inputs_.Variable(name[0]));
  if (variable.value[0] == variable.value[1]) {
    *same = true;
    return absl::OkStatus();
  }
  first->origin.kind = OriginKind::kInitial;
  first->origin.text = fmt::format("{} {}", InputKindName(variable.kind), variable.text);
  first->origin.input = std::move(variable);
  return absl::OkStatus();
}

absl::Status Comparison::OfThread(ThreadNo thread, const Part& part, DiffResult* result) {
  Aligner aligner(sides_[0], sides_[1], thread, control_);
  RETURN_IF_ERROR(aligner.Start(part.begin[0], part.begin[1]));
  std::vector<std::array<Time, 2>> starts = {part.begin};
  origins_.SetStarts(starts);
  for (uint64_t passed = 0;; ++passed) {
    ASSIGN_OR_RETURN(auto divergence, aligner.Next(part.end[0]));
    if (!divergence) return absl::OkStatus();
    const Divergence& d = *divergence;
    result->alike += d.alike;
    ASSIGN_OR_RETURN(auto first, Explain(d));
    std::array<size_t, 2> frame{};
    bool ignored = false;
    for (int i : {0, 1}) ignored |= NamedToIgnore(stacks_[i], &frame[i]);
    bool same_variable = false;
    if (ignored) {
      // The same call on both sides, counted from the outside.
      const std::array<size_t, 2> depth = {stacks_[0].frames.size(), stacks_[1].frames.size()};
      for (int i : {0, 1}) {
        size_t own = 0;
        if (NamedToIgnore(stacks_[i], &own)) continue;
        const size_t from_outside = depth[1 - i] - frame[1 - i];
        frame[i] = depth[i] >= from_outside ? depth[i] - from_outside : 0;
      }
    } else {
      ignored = OriginIgnored(first);
      RETURN_IF_ERROR(AskForVariable(d, &first, &same_variable));
    }
    const bool address = first.origin.kind == OriginKind::kAddress;
    // Other code does what it does for a reason that is known; anything else may turn out not to
    // matter.
    std::optional<std::array<Time, 2>> after;
    if (first.origin.kind != OriginKind::kCode || ignored) {
      if (d.next[0].exists && d.next[1].exists && passed < part.most) {
        ASSIGN_OR_RETURN(after, After(stacks_, frame, d));
      }
    }
    for (int i : {0, 1}) {
      if (after && (*after)[i] > part.end[i]) after.reset();
    }
    if (!after) {
      // They never come together again.
      if (ignored && !address) {
        absl::StrAppend(&result->note, "what ", ToText(first.place),
                        " began to do otherwise does not end where both go on alike. ");
        result->complete = false;
      }
      candidates_.push_back({std::move(first), {}, true});
      return absl::OkStatus();
    }
    Parting parting;
    for (int i : {0, 1}) parting.span[i] = {d.last[i].time + 1, (*after)[i]};
    parting.thread = thread;
    parting.origin = first.origin;
    if (ignored) {
      ++result->passed.ignored;
    } else if (address) {
      ++result->passed.addresses;
    } else if (same_variable) {
      ++result->passed.without_effect;
    } else {
      candidates_.push_back({std::move(first), parting.span, false});
    }
    if (result->passed.first.empty() && (ignored || address)) {
      result->passed.first = stacks_[0].frames.empty() ? "" : stacks_[0].frames[0].function;
    }
    if (!ignored && !address && !same_variable) origins_.AddParting(std::move(parting));
    RETURN_IF_ERROR(aligner.Start((*after)[0], (*after)[1]));
    starts.push_back(*after);
    origins_.SetStarts(starts);
  }
}

absl::StatusOr<std::optional<Origin>> Comparison::OfPython(ThreadNo thread,
                                                           const PythonEvidence& evidence) {
  constexpr uint64_t kMaxParts = 16;
  DiffResult ignored;
  origins_.set_effort({.definitions = 40, .loops = 1});
  candidates_.clear();
  const Part part{evidence.from, evidence.to, kMaxParts};
  RETURN_IF_ERROR(OfThread(thread, part, &ignored));
  origins_.set_effort({.definitions = 200, .loops = 4});
  std::optional<Origin> guess;
  for (const PythonEvidence::Memory& memory : evidence.memory) {
    ASSIGN_OR_RETURN(auto origin, origins_.OfMemory(thread, memory.at, memory.size, evidence.to));
    if (!origin.input) continue;
    if (!origin.by_placement) return std::optional(std::move(origin));
    if (!guess) guess = std::move(origin);
  }
  // What decided: the branch after which they did not come together again in time.
  for (Candidate& c : candidates_) {
    if (!c.final || !c.first.origin.input) continue;
    if (!c.first.origin.by_placement) return std::optional(std::move(c.first.origin));
    if (!guess) guess = std::move(c.first.origin);
  }
  return guess;
}

absl::Status Comparison::Choose(DiffResult* result) {
  std::stable_sort(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& x, const Candidate& y) { return x.first.time[0] < y.first.time[0]; });
  const Summary& s = result->summary;
  const bool outcome = s.syscall || !s.outputs.empty() || s.exits[0] != s.exits[1];
  // The first thing that came out differently, and on either side when.
  std::array<Time, 2> out = {kTimeMax, kTimeMax};
  const auto note_time = [&](const EventDifference& d) {
    for (int i : {0, 1}) {
      if (d.event[i]) out[i] = std::min(out[i], d.event[i]->time);
    }
  };
  for (const EventDifference& d : s.outputs) note_time(d);
  if (s.outputs.empty() && s.syscall) note_time(*s.syscall);
  const Candidate* chosen = nullptr;
  for (const Candidate& c : candidates_) {
    // What addresses alone do matters only if nothing else does.
    if (c.first.origin.kind == OriginKind::kAddress) continue;
    bool holds = c.final;
    for (int i : {0, 1}) holds |= out[i] > c.span[i].begin && out[i] <= c.span[i].end;
    if (holds) {
      chosen = &c;
      break;
    }
  }
  std::optional<FirstDifference> by_outcome;
  if (chosen == nullptr && outcome) {
    RETURN_IF_ERROR(ByOutcome(result));
    by_outcome = std::move(result->first);
    result->first.reset();
  }
  if (chosen == nullptr && !by_outcome) {
    for (const Candidate& c : candidates_) {
      if (!c.final && !c.first.in_own_code) continue;
      chosen = &c;
      break;
    }
  }
  // Where the same cause first made a difference.
  const FirstDifference* first = chosen != nullptr ? &chosen->first
                                 : by_outcome      ? &*by_outcome
                                                   : nullptr;
  if (first != nullptr && first->origin.input) {
    const Input& input = *first->origin.input;
    for (const Candidate& c : candidates_) {
      const std::optional<Input>& other = c.first.origin.input;
      if (!other || other->kind != input.kind || other->name != input.name) continue;
      if (c.first.time[0] < first->time[0] && c.first.in_own_code) {
        first = &c.first;
        break;
      }
    }
  }
  for (const Candidate& c : candidates_) {
    if (first == nullptr || c.first.time[0] < first->time[0]) ++result->passed.without_effect;
  }
  if (first != nullptr) result->first = *first;
  return absl::OkStatus();
}

// The runs did the same steps and yet another thing came out: follow that back.
absl::Status Comparison::ByOutcome(DiffResult* result) {
  const Summary& s = result->summary;
  FirstDifference first;
  std::optional<Origin> origin;
  Time earliest = kTimeMax;
  for (const EventDifference& d : s.outputs) {
    if (!d.event[0] || !d.event[1] || d.event[0]->time >= earliest) continue;
    earliest = d.event[0]->time;
    first.kind = "output";
    first.detail = fmt::format("byte {} of descriptor {}", d.bytes, d.fd);
    first.thread = d.event[0]->thread;
    first.time = {d.event[0]->time, d.event[1]->time};
    // The system call that wrote it, and the byte in what it was given.
    std::array<std::optional<Event>, 2> call;
    size_t byte = 0;
    const std::string &x = d.event[0]->bytes, &y = d.event[1]->bytes;
    while (byte + 1 < std::min(x.size(), y.size()) && x[byte] == y[byte]) ++byte;
    for (int i : {0, 1}) {
      ASSIGN_OR_RETURN(auto cursor, sides_[i]->process().Events(
                                        {.span = {d.event[i]->time, d.event[i]->time + 2},
                                         .kind = EventKind::kSyscall,
                                         .thread = d.event[i]->thread}));
      for (int k = 0; k < 4; ++k) {
        ASSIGN_OR_RETURN(auto event, cursor->Next());
        if (!event) break;
        const std::string name = SyscallName(event->number);
        if (name == "write" || name == "pwrite64" || name == "sendto") {
          call[i] = *event;
          break;
        }
      }
    }
    if (call[0] && call[1]) {
      ASSIGN_OR_RETURN(origin, origins_.OfMemory(first.thread,
                                                 {Address(call[0]->args[1] + byte),
                                                  Address(call[1]->args[1] + byte)},
                                                 1, first.time));
    }
  }
  if (s.syscall && s.syscall->event[0] && s.syscall->event[1] &&
      s.syscall->event[0]->time < earliest &&
      s.syscall->event[0]->number == s.syscall->event[1]->number) {
    const std::array<const Event*, 2> e = {&*s.syscall->event[0], &*s.syscall->event[1]};
    static constexpr Gpr kArguments[] = {kRdi, kRsi, kRdx, kR10, kR8, kR9};
    const std::optional<int> argument = DifferentArgument(*e[0], *e[1]);
    // What only its result tells is what came in, not what came out.
    if (argument || first.kind.empty()) {
      first.kind = "system call";
      first.detail = s.syscall->text[0] + " | " + s.syscall->text[1];
      first.thread = e[0]->thread;
      first.time = {e[0]->time, e[1]->time};
      origin.reset();
    }
    if (argument) {
      // Before the syscall instruction, which is the last one before the event.
      ASSIGN_OR_RETURN(origin,
                       origins_.OfRegister(first.thread, kArguments[*argument], first.time));
    } else if (!origin && first.kind == "system call") {
      ASSIGN_OR_RETURN(auto input,
                       inputs_.OfSystemCalls({KernelValue{*e[0], {}}, KernelValue{*e[1], {}}}));
      origin.emplace();
      origin->kind = OriginKind::kKernel;
      origin->text = fmt::format("the kernel: {} | {}", e[0]->detail, e[1]->detail);
      origin->thread = first.thread;
      origin->input = std::move(input);
    }
  }
  if (first.kind.empty() && s.exits[0] != s.exits[1]) first.kind = "exit status";
  if (first.kind.empty()) return absl::OkStatus();
  for (int i : {0, 1}) {
    if (first.thread.v == 0) break;
    auto stack = sides_[i]->StackAt(std::min(first.time[i], sides_[i]->end()), first.thread);
    if (!stack.ok()) continue;  // of a thread that ended there
    first.stacks[i] = TextOf(*stack);
    if (const Frame* own = sides_[i]->OwnFrame(*stack); own != nullptr && i == 0) {
      first.place = LocationOf(*own);
    }
  }
  if (origin) {
    RETURN_IF_ERROR(AddOrigin(*std::move(origin), &first));
  }
  result->first = std::move(first);
  return absl::OkStatus();
}

absl::Status Comparison::Run(DiffResult* result) {
  size_t count = 0;
  for (const Thread& thread : sides_[0]->process().threads()) {
    const auto& others = sides_[1]->process().threads();
    const bool in_both = std::any_of(others.begin(), others.end(),
                                     [&](const Thread& t) { return t.number == thread.number; });
    if (!in_both) continue;
    if (++count > kMaxThreads) {
      absl::StrAppend(&result->note, "only the first ", kMaxThreads, " threads were compared. ");
      result->complete = false;
      break;
    }
    RETURN_IF_ERROR(OfThread(thread.number, {}, result));
  }
  return Choose(result);
}

// Variables that a shell or ttq sets anew for each command.
bool IsOfTheShell(const Input& input) {
  if (input.kind != InputKind::kEnvironment) return false;
  for (const char* name : {"PWD", "OLDPWD", "_", "SHLVL", "COLUMNS", "LINES"}) {
    if (input.name == name) return true;
  }
  return absl::StartsWith(input.name, "TTQ_");
}

// How likely an input that differs is the cause: what runs never have in common comes last.
int LikelihoodOf(const Input& input) {
  if (IsOfTheShell(input)) return 0;
  switch (input.kind) {
    case InputKind::kProcess:
      return 1;
    case InputKind::kTime:
      return 2;
    case InputKind::kRandom:
      return 3;
    default:
      return 4;
  }
}

absl::Status FindCause(Side* a, Side* b, Inputs* inputs, ScanControl* control, DiffResult* result) {
  std::array<Time, 2> until = {kTimeMax, kTimeMax};
  std::array<TimeSpan, 2> during;
  std::array<std::string, 2> value;
  if (result->python) {
    const PythonDifference& d = *result->python;
    for (size_t i = 0; i < d.evidence.size(); ++i) {
      // The oldest, and the decision itself: each takes seconds in a long recording.
      if (i != 0 && i + 1 != d.evidence.size()) continue;
      const PythonEvidence& evidence = d.evidence[i];
      Comparison comparison(a, b, inputs, nullptr, control);
      ASSIGN_OR_RETURN(auto origin, comparison.OfPython(d.thread, evidence));
      if (!origin) continue;
      result->cause = Cause{*origin->input, !origin->by_placement};
      if (result->cause->established) return absl::OkStatus();
    }
    until = d.time;
    during = d.origin_span;
    if (!d.evidence.empty()) value = d.evidence.front().value;
  } else if (result->first) {
    const Origin& origin = result->first->origin;
    if (origin.input) {
      result->cause = Cause{*origin.input, !origin.by_placement};
      if (result->cause->established) return absl::OkStatus();
    }
    if (origin.kind == OriginKind::kCode) return absl::OkStatus();
    until = result->first->time;
  } else {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(auto different, inputs->Different(until, during));
  if (different.empty()) return absl::OkStatus();
  // One that has in it what the value became, or that came in where the value was computed; else
  // the last one of the likeliest kind.
  const auto holds_value = [&](const Input& input) {
    const bool may_lack =
        input.kind == InputKind::kEnvironment || input.kind == InputKind::kArgument;
    for (int i : {0, 1}) {
      // The side that lacks it may have taken a value of the program's own.
      if (may_lack && input.value[i].empty() && !input.value[1 - i].empty()) continue;
      const std::string word = "(^|\\W)" + RE2::QuoteMeta(value[i]) + "($|\\W)";
      if (value[i].empty() || !RE2::PartialMatch(input.value[i], word)) return false;
    }
    return true;
  };
  const auto weight = [&](const Input& x) {
    const bool reached =
        result->cause && result->cause->input.kind == x.kind && result->cause->input.name == x.name;
    const bool came_then = result->python && during[0].Contains(x.time[0]);
    // Those that the interpreter itself goes by: PYTHONHASHSEED.
    const bool of_python =
        result->python && x.kind == InputKind::kEnvironment && absl::StartsWith(x.name, "PYTHON");
    return LikelihoodOf(x) + of_python + 10 * holds_value(x) + 5 * came_then + reached;
  };
  auto best = different.begin();
  for (auto it = different.begin(); it != different.end(); ++it) {
    if (weight(*it) >= weight(*best)) best = it;
  }
  result->cause = Cause{*best, false};
  different.erase(best);
  result->others = std::move(different);
  result->complete = false;
  absl::StrAppend(&result->note,
                  "the cause is not established: it is the likeliest of the inputs that differ. ");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DiffResult> Compare(Side* a, Side* b, const DiffOptions& options) {
  std::optional<RE2> ignore;
  if (!options.ignore.empty()) {
    ignore.emplace(options.ignore, RE2::Quiet);
    if (!ignore->ok()) {
      return absl::InvalidArgumentError("--ignore: not a regular expression: " + ignore->error());
    }
  }
  const RE2* pattern = ignore ? &*ignore : nullptr;
  DiffResult result;
  RETURN_IF_ERROR(Side::MatchModules(a, b));
  Inputs inputs(a, b);
  ASSIGN_OR_RETURN(result.summary, Summarize(a, b, pattern, options.control, &result.note));
  const Summary& s = result.summary;
  const bool outcome = !s.outputs.empty() || s.exits[0] != s.exits[1];
  bool is_python = false;
  for (const PythonScope scope : {PythonScope::kOwn, PythonScope::kAll}) {
    // What libraries do differently counts where it made a difference.
    if (result.python || (scope == PythonScope::kAll && !outcome)) break;
    ASSIGN_OR_RETURN(result.python, ComparePython(a, b, scope, pattern, options.control,
                                                  &result.note, &is_python));
  }
  // What an interpreter does differently is told better by the program it runs.
  if (!result.python && (!is_python || outcome)) {
    Comparison comparison(a, b, &inputs, pattern, options.control);
    RETURN_IF_ERROR(comparison.Run(&result));
  } else if (!result.python && s.instructions[0] != s.instructions[1]) {
    absl::StrAppend(
        &result.note,
        "the program's own Python code, its output and its end are alike; what libraries and "
        "native code do otherwise made no difference to them and is not looked for. ");
  }
  RETURN_IF_ERROR(FindCause(a, b, &inputs, options.control, &result));
  const std::array<const Side*, 2> sides = {a, b};
  for (int i : {0, 1}) {
    const ProcessInfo& info = sides[i]->process().info();
    const absl::Status damage = sides[i]->recording().Damage();
    if (info.complete && damage.ok()) continue;
    result.complete = false;
    absl::StrAppend(&result.note, i == 0 ? "A: " : "B: ",
                    damage.ok() ? info.incomplete_reason : std::string(damage.message()), ". ");
  }
  if (!a->rebuilt().empty()) {
    std::string names;
    for (const std::string& name : a->rebuilt())
      absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    absl::StrAppend(&result.note, "not the same build: ", names,
                    "; places in it are compared by function and instruction. ");
  }
  return result;
}

}  // namespace ttq::diff
