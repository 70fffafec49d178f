// SPDX-License-Identifier: MIT

#include "diff/origin.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/byte_cursor.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "diff/value_text.h"
#include "fmt/core.h"

namespace ttq::diff {
namespace {

// A chain that is longer is cut, and says so.
constexpr size_t kMaxSteps = 300;
// Blocks walked backwards for the last write of a register.
constexpr int kMaxBlocks = 64;
// Rounds of a loop among which the first that differs is looked for.
constexpr size_t kMaxRounds = 1 << 16;
// How often the same instruction may be met before it counts as a loop's.
constexpr size_t kLoopAfter = 2;
// Instructions back that a loop's rounds are looked for.
constexpr uint64_t kLongestLoop = 8 << 20;

using Flow = InstructionEffects::Flow;

bool IsMachine(std::string_view instruction) {
  for (const char* name : {"rdtsc", "cpuid", "rdrand", "rdseed", "xgetbv", "rdpid"}) {
    if (instruction.substr(0, strlen(name)) == name) return true;
  }
  return false;
}

// Whether the steps come by the same instruction because a loop carries the difference: the last
// rounds took the same way. An interpreter comes by the same instruction too, with another value.
bool IsLoop(absl::Span<const OriginStep> steps, absl::Span<const size_t> rounds) {
  const size_t n = rounds.size();
  if (n <= kLoopAfter) return false;
  const auto last = steps.subspan(rounds[n - 2], rounds[n - 1] - rounds[n - 2]);
  const auto before = steps.subspan(rounds[n - 3], rounds[n - 2] - rounds[n - 3]);
  return std::equal(
      last.begin(), last.end(), before.begin(), before.end(),
      [](const OriginStep& x, const OriginStep& y) { return x.at[0].pc == y.at[0].pc; });
}

}  // namespace

const char* OriginKindName(OriginKind kind) {
  switch (kind) {
    case OriginKind::kCode:
      return "code";
    case OriginKind::kKernel:
      return "system call";
    case OriginKind::kInitial:
      return "first contents";
    case OriginKind::kAddress:
      return "address";
    case OriginKind::kWriters:
      return "writers";
    case OriginKind::kMachine:
      return "machine";
    case OriginKind::kUninitialized:
      return "uninitialised memory";
    case OriginKind::kThreads:
      return "order of threads";
    case OriginKind::kUnknown:
      break;
  }
  return "unknown";
}

// ---- Values -------------------------------------------------------------------------------------

OriginFinder::Same OriginFinder::Compare(uint64_t a, uint64_t b, Time time_a, Time time_b) {
  uint64_t offset_a = 0, offset_b = 0;
  const std::optional<std::string> in_a = sides_[0]->RegionOf(a, time_a, &offset_a);
  const std::optional<std::string> in_b = sides_[1]->RegionOf(b, time_b, &offset_b);
  if (!in_a || !in_b || *in_a != *in_b) return a == b ? Same::kEqual : Same::kDifferent;
  // The bottom of the stack holds arguments and environment, which may be of different length: what
  // is above it lies elsewhere, and by how much is told by the stack pointers.
  if (*in_a == "[stack]") {
    if (a >= sides_[0]->initial_stack().v && b >= sides_[1]->initial_stack().v) {
      return a == b ? Same::kEqual : Same::kPlacement;
    }
    if (a - b != stack_shift_) return Same::kDifferent;
    return a == b ? Same::kEqual : Same::kPlacement;
  }
  if (offset_a == offset_b) return a == b ? Same::kEqual : Same::kPlacement;
  // A place in a rebuilt module has another offset.
  if (sides_[0]->ModuleOf(Address(a)) != nullptr &&
      sides_[0]->KeyOf(Address(a)) == sides_[1]->KeyOf(Address(b))) {
    return Same::kPlacement;
  }
  return a == b ? Same::kPlacement : Same::kDifferent;
}

absl::StatusOr<std::optional<uint64_t>> OriginFinder::ValueOf(int side, const Location& location,
                                                              Time t) {
  if (location.memory) {
    const std::string bytes =
        sides_[side]->Memory(location.address[side], std::min(location.size, 8u), t);
    if (bytes.size() < std::min(location.size, 8u)) return std::optional<uint64_t>();
    return std::optional<uint64_t>(NumberOf(bytes));
  }
  if (location.reg >= kGprCount) return std::optional<uint64_t>();
  ASSIGN_OR_RETURN(const Registers registers, sides_[side]->RegistersAt(t, location.thread[side]));
  return std::optional<uint64_t>(registers.gpr[location.reg]);
}

std::string OriginFinder::Describe(const Location& location) {
  if (!location.memory) return RegisterText(location.reg);
  const absl::StatusOr<const Symbolizer*> symbols = sides_[0]->context().AllSymbols();
  if (symbols.ok()) {
    if (const auto variable = (*symbols)->VariableAt(location.address[0])) return variable->name;
  }
  uint64_t offset = 0;
  const auto region = sides_[0]->RegionOf(location.address[0].v, location.before[0], &offset);
  return fmt::format("{} byte{} at {:#x}{}", location.size, location.size == 1 ? "" : "s",
                     location.address[0].v, region ? " in " + *region : "");
}

std::string OriginFinder::ValueText(int side, const Location& location) {
  if (location.memory) {
    // The string around a byte says more than the byte.
    const std::string bytes =
        sides_[side]->Memory(location.address[side], location.size, location.before[side]);
    return bytes.empty() ? "" : BytesText(bytes);
  }
  const auto value = ValueOf(side, location, location.before[side]);
  return value.ok() && *value ? NumberText(**value) : "";
}

// ---- The last writer ----------------------------------------------------------------------------

absl::StatusOr<std::optional<OriginFinder::Definition>> OriginFinder::DefineRegister(
    int which, const Location& location) {
  Side& side = *sides_[which];
  const uint64_t bit = uint64_t{1} << location.reg;
  const Time before = location.before[which];
  Time t = before;
  for (int blocks = 0; blocks < kMaxBlocks && t.v > 0; ++blocks) {
    ASSIGN_OR_RETURN(const auto runs, side.process().RunsAround(t - 1));
    if (runs->empty() || runs->front().time >= t) break;
    for (size_t i = runs->size(); i-- > 0;) {
      const Run& run = (*runs)[i];
      if (run.time >= before || run.thread != location.thread[which]) continue;
      const Side::Code& code = side.CodeOf(run.code);
      if (!(code.all_writes & bit)) continue;
      size_t n = std::min<uint64_t>(run.instructions, before.v - run.time.v);
      for (n = std::min(n, code.writes.size()); n-- > 0;) {
        if (!(code.writes[n] & bit)) continue;
        return std::optional<Definition>(
            Definition{{run.time + n, code.addresses[n], true}, run.thread});
      }
    }
    t = runs->front().time;
  }
  Definition none;
  none.initial = t.v == 0;
  return none.initial ? std::optional<Definition>(none) : std::nullopt;
}

absl::StatusOr<std::optional<OriginFinder::Definition>> OriginFinder::DefineMemory(
    int which, const Location& location) {
  AccessQuery query;
  query.ranges = {{location.address[which], location.address[which] + location.size}};
  // What the kernel writes before an instruction has that instruction's time.
  query.span = {Time(0), location.before[which] + 1};
  query.direction = Direction::kBackward;
  query.want_values = false;
  ASSIGN_OR_RETURN(auto cursor, sides_[which]->process().Accesses(query, nullptr));
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<Access> row, cursor->Next());
    if (!row) break;
    const Access& access = *row;
    if (access.actor == Actor::kInstruction && access.time >= location.before[which]) continue;
    Definition d;
    d.step = {access.time, access.pc, true};
    d.thread = access.thread;
    d.kernel = access.actor != Actor::kInstruction;
    d.syscall = access.syscall;
    if (access.actor == Actor::kMap) d.initial = true;
    return std::optional<Definition>(d);
  }
  Definition none;
  none.initial = true;
  return std::optional<Definition>(none);
}

absl::StatusOr<std::optional<OriginFinder::Definition>> OriginFinder::Define(
    int side, const Location& location) {
  return location.memory ? DefineMemory(side, location) : DefineRegister(side, location);
}

// ---- Rounds of a loop ---------------------------------------------------------------------------

absl::StatusOr<std::array<OriginFinder::Definition, 2>> OriginFinder::EarliestRound(
    const std::array<Definition, 2>& last, const Location& location) {
  if (!location.memory && location.reg >= kGprCount) return last;
  std::array<std::vector<Time>, 2> rounds;
  std::array<uint64_t, 2> frame{};
  for (int i : {0, 1}) {
    const Address pc = last[i].step.pc;
    const Time begin(last[i].step.time.v - std::min(last[i].step.time.v, kLongestLoop));
    ASSIGN_OR_RETURN(auto cursor, sides_[i]->process().Executions(
                                      {{pc, pc + 1}}, {begin, last[i].step.time + 1},
                                      Direction::kBackward, last[i].thread, nullptr));
    while (rounds[i].size() < kMaxRounds) {
      ASSIGN_OR_RETURN(const std::optional<Execution> row, cursor->Next());
      if (!row) break;
      rounds[i].push_back(row->time);
    }
    ASSIGN_OR_RETURN(const Registers r, sides_[i]->RegistersAt(last[i].step.time, last[i].thread));
    frame[i] = r.gpr[kRsp];
  }
  const size_t count = std::min(rounds[0].size(), rounds[1].size());
  // Whether round `k`, counted backwards, is of the same call and leaves different values.
  const auto differs = [&](size_t k) -> absl::StatusOr<bool> {
    std::array<std::optional<uint64_t>, 2> value;
    for (int i : {0, 1}) {
      const Time t = rounds[i][k];
      ASSIGN_OR_RETURN(const Registers r, sides_[i]->RegistersAt(t, last[i].thread));
      if (r.gpr[kRsp] != frame[i]) return false;
      ASSIGN_OR_RETURN(value[i], ValueOf(i, location, t + 1));
    }
    return value[0] && value[1] &&
           Compare(*value[0], *value[1], rounds[0][k], rounds[1][k]) == Same::kDifferent;
  };
  size_t good = 0, bad = count;  // good differs; bad does not, or is none
  for (size_t step = 1; good + step < bad;) {
    ASSIGN_OR_RETURN(const bool d, differs(good + step));
    if (d) {
      good += step;
      step *= 2;
    } else {
      bad = good + step;
    }
    if (good + step >= bad) step = (bad - good) / 2;
    if (step == 0) break;
  }
  std::array<Definition, 2> out = last;
  for (int i : {0, 1}) {
    if (good < rounds[i].size()) out[i].step.time = rounds[i][good];
  }
  return out;
}

// ---- The chain ----------------------------------------------------------------------------------

// How much an origin says; what ends the search.
int OriginFinder::WeightOf(const Origin& origin) {
  const auto differs = [](const Input& input) {
    return input.value[0] != input.value[1] || input.value[0].empty();
  };
  switch (origin.kind) {
    case OriginKind::kCode:
    case OriginKind::kMachine:
    case OriginKind::kUninitialized:
    case OriginKind::kThreads:
      return kMaxWeight;
    case OriginKind::kKernel:
    case OriginKind::kInitial:
      return !origin.input || !differs(*origin.input) ? 2 : kMaxWeight;
    case OriginKind::kAddress:
    case OriginKind::kWriters:
      return origin.input ? kMaxWeight : 1;
    case OriginKind::kUnknown:
      break;
  }
  return 0;
}

void OriginFinder::Candidate::Describe(OriginStep* step) const {
  step->what = what;
  step->value = value;
  step->number = number;
}

absl::StatusOr<Origin> OriginFinder::Follow(Location location, Origin origin) {
  std::optional<Origin> best;
  definitions_ = loops_ = 0;
  by_place_ = false;
  bool by_placement = false;
  int best_weight = 0;
  for (;;) {
    RETURN_IF_ERROR(FollowOne(location, &origin));
    // In which entry of a table a value lies follows from a hash, and so from its seed, whatever
    // the value was made from.
    const bool by_hash = by_place_ && IsThroughHash(origin);
    origin.by_placement |= by_hash;
    const int weight = WeightOf(origin) - by_hash;
    if (!best || weight > best_weight) {
      best = origin;
      best_weight = weight;
    }
    std::vector<Candidate>& next = alternatives_.empty() ? last_alternatives_ : alternatives_;
    if (best_weight == kMaxWeight || next.empty() || definitions_ > effort_.definitions) {
      return *std::move(best);
    }
    by_placement |= &next == &last_alternatives_;
    by_place_ = next.back().is_place;
    location = next.back().location;
    origin.steps.resize(std::min(origin.steps.size(), next.back().steps));
    if (origin.steps.size() == next.back().steps) next.back().Describe(&origin.steps.back());
    next.pop_back();
    origin.kind = OriginKind::kUnknown;
    origin.text.clear();
    origin.input.reset();
    origin.by_placement = by_placement;
  }
}

absl::Status OriginFinder::FollowOne(Location location, Origin* result) {
  Origin& origin = *result;
  absl::flat_hash_map<uint64_t, std::vector<size_t>> visits;
  while (origin.steps.size() < kMaxSteps) {
    if (++definitions_ > effort_.definitions) break;
    std::array<std::optional<Definition>, 2> found;
    for (int i : {0, 1}) {
      ASSIGN_OR_RETURN(found[i], Define(i, location));
    }
    if (found[0] && found[1]) {
      // Each ends the search where it applies.
      ASSIGN_OR_RETURN(auto uninitialized, IsUninitialized(location, found, &origin));
      if (uninitialized || IsThreadOrder(location, found, &origin)) return absl::OkStatus();
    }
    if (!found[0] || !found[1] || found[0]->initial || found[1]->initial || found[0]->kernel ||
        found[1]->kernel) {
      if (found[0] && found[1] && IsWrittenApart(found, &origin)) return absl::OkStatus();
      if (found[0] && found[1] &&
          (found[0]->initial != found[1]->initial || found[0]->kernel != found[1]->kernel)) {
        ASSIGN_OR_RETURN(const auto why, WhyParted(location, found, &origin));
        if (why) {
          location = *why;
          continue;
        }
      }
      return Conclude(&origin, location, found);
    }
    std::array<Definition, 2> now = {*found[0], *found[1]};
    if (sides_[0]->KeyOf(now[0].step.pc) != sides_[1]->KeyOf(now[1].step.pc)) {
      if (IsWrittenApart(found, &origin)) return absl::OkStatus();
      ASSIGN_OR_RETURN(const auto why, WhyWrittenElsewhere(location, found, &origin));
      if (why) {
        location = *why;
        continue;
      }
      origin.kind = OriginKind::kWriters;
      origin.thread = now[0].thread;
      origin.at = {now[0].step, now[1].step};
      origin.value = {ValueText(0, location), ValueText(1, location)};
      origin.text = fmt::format("{} was last written in {} here, in {} there", Describe(location),
                                ToText(sides_[0]->LocationOf(now[0].step.pc)),
                                ToText(sides_[1]->LocationOf(now[1].step.pc)));
      return absl::OkStatus();
    }
    // Written by one of them only while the other went another way: that is why it differs.
    if (PartingAt(0, now[0]) != PartingAt(1, now[1]) && IsWrittenApart(found, &origin)) {
      return absl::OkStatus();
    }
    // A place in a block of memory: how far a loop went, or where the block lies.
    if (location.end_copies > 0 || IsBlockAddress(location)) {
      const std::string function = sides_[0]->LocationOf(now[0].step.pc).function;
      if (IsAllocator(function)) {
        origin.kind = OriginKind::kAddress;
        origin.thread = now[0].thread;
        origin.at = {now[0].step, now[1].step};
        origin.text = fmt::format("only addresses differ: {} gave them", function);
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(const bool copied, IsCopied(now, location));
      if (!copied) {
        ASSIGN_OR_RETURN(const auto why, WhyParted(location, found, &origin));
        if (why) {
          location = *why;
          continue;
        }
      }
    }
    std::vector<size_t>& rounds = visits[now[0].step.pc.v];
    rounds.push_back(origin.steps.size());
    if (IsLoop(origin.steps, rounds) && ++loops_ <= effort_.loops) {
      ASSIGN_OR_RETURN(now, EarliestRound(now, location));
    }
    OriginStep step;
    bool placement = false;
    const std::array<Step, 2> at = {now[0].step, now[1].step};
    const std::array<ThreadNo, 2> thread = {now[0].thread, now[1].thread};
    ASSIGN_OR_RETURN(auto input,
                     DifferingInput(at, thread, &location, origin.steps.size(), &step, &placement));
    origin.steps.push_back(step);
    if (input) {
      location = *input;
      continue;
    }
    const bool other_code = step.instruction[0] != step.instruction[1];
    const bool is_syscall = sides_[0]->EffectsAt(at[0].pc, at[0].time).flow == Flow::kSyscall;
    origin.at = at;
    origin.thread = thread[0];
    origin.value = {ValueText(0, location), ValueText(1, location)};
    const std::string place = ToText(step.place);
    if (is_syscall) {
      found = {now[0], now[1]};
      found[0]->kernel = found[1]->kernel = true;
      return Conclude(&origin, location, found);
    }
    if (other_code) {
      origin.kind = OriginKind::kCode;
      origin.text = fmt::format("the code of {} differs: {} | {}", place, step.instruction[0],
                                step.instruction[1]);
    } else if (IsMachine(step.instruction[0])) {
      origin.kind = OriginKind::kMachine;
      origin.text = fmt::format("{} in {} gave another result", step.instruction[0], place);
      origin.input.emplace();
      origin.input->kind = InputKind::kMachine;
      origin.input->name = step.instruction[0];
      origin.input->text = origin.text;
      origin.input->time = {at[0].time, at[1].time};
    } else if (placement) {
      origin.kind = OriginKind::kAddress;
      origin.text = fmt::format("only addresses differ: {} in {}", step.instruction[0], place);
    } else if (!IsWrittenApart(found, &origin)) {
      origin.text =
          fmt::format("{} in {} had no input that is known to differ", step.instruction[0], place);
    }
    return absl::OkStatus();
  }
  origin.text = fmt::format("not found within {} steps", kMaxSteps);
  if (!origin.steps.empty()) origin.at = origin.steps.back().at;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> OriginFinder::NeverWritten(int which,
                                                                      const Location& location,
                                                                      const Definition& found) {
  Side& side = *sides_[which];
  const Address at = location.address[which];
  const Time before = location.before[which];
  const Time written = found.initial ? Time(0) : found.step.time;
  uint64_t offset = 0;
  const std::optional<std::string> region = side.RegionOf(at.v, before, &offset);
  if (!region) return std::optional<std::string>();
  constexpr uint64_t kRedZone = 128, kMaxStack = 64 << 20;
  const auto registers = side.RegistersAt(before, location.thread[which]);
  if (registers.ok() && at.v + kRedZone >= registers->gpr[kRsp] &&
      at.v < registers->gpr[kRsp] + kMaxStack) {
    const absl::StatusOr<Stack> stack = side.StackAt(before, location.thread[which]);
    if (!stack.ok()) return std::optional<std::string>();  // of a thread that ended
    for (const Frame& frame : stack->frames) {
      if (!frame.cfa || frame.cfa->v <= at.v) continue;
      // The frame is as old as the return address at its top.
      if (frame.cfa->v - at.v <= 8) break;
      ASSIGN_OR_RETURN(const auto call,
                       LastAccess(side.process(), {.ranges = {{*frame.cfa - 8, *frame.cfa}},
                                                   .span = {Time(0), before},
                                                   .direction = Direction::kBackward,
                                                   .want_values = false}));
      if (!call || call->time <= written) break;
      return std::optional("a variable of " + ToText(SourceLocation{frame.function, frame.module,
                                                                    frame.file, frame.line}));
    }
    if (*region == "[stack]") return std::optional<std::string>();
  }
  // An interpreter gives its objects out itself, from blocks that live long.
  if (side.context().HasPython()) return std::optional<std::string>();
  if (*region != "[heap]" && !absl::StartsWith(*region, "memory ")) {
    return std::optional<std::string>();
  }
  const auto heap = side.context().Heap(nullptr);
  if (!heap.ok()) return std::optional<std::string>();
  const HeapLife* life = (*heap)->Find(at, before).inside;
  if (life == nullptr || !life->IsAlive(before) || written >= life->returned) {
    return std::optional<std::string>();
  }
  const HeapFunction& function = (*heap)->functions()[life->allocated_with];
  const bool fills = function.verb == HeapVerb::kCalloc || function.verb == HeapVerb::kRealloc ||
                     function.verb == HeapVerb::kReallocArray;
  if (fills) return std::optional<std::string>();
  const std::string caller = DescribeCaller(side.context(), life->allocated_from, life->allocated);
  return std::optional(fmt::format("byte {} of the {} bytes that {} gave {}", at.v - life->begin.v,
                                   life->size, function.name, caller));
}

absl::StatusOr<bool> OriginFinder::IsUninitialized(
    const Location& location, const std::array<std::optional<Definition>, 2>& found,
    Origin* origin) {
  if (!location.memory) return false;
  std::optional<std::string> what;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(auto never, NeverWritten(i, location, *found[i]));
    if (!never) return false;
    if (!what) what = std::move(never);
  }
  std::array<std::string, 2> who;
  Input input;
  for (int i : {0, 1}) {
    const Definition& d = *found[i];
    who[i] = d.initial  ? "nothing"
             : d.kernel ? "the kernel"
                        : ToText(sides_[i]->LocationOf(d.step.pc));
    input.value[i] = ValueText(i, location);
    input.time[i] = location.before[i];
  }
  input.kind = InputKind::kUninitialized;
  input.name = *what;
  input.text =
      fmt::format("{}, read before it was written: {} | {}, left there by {}{}", *what,
                  input.value[0], input.value[1], who[0], who[0] == who[1] ? "" : " | " + who[1]);
  origin->kind = OriginKind::kUninitialized;
  origin->text = input.text;
  origin->value = input.value;
  origin->thread = location.thread[0];
  if (!origin->steps.empty()) origin->at = origin->steps.back().at;
  origin->input = std::move(input);
  return true;
}

bool OriginFinder::IsThreadOrder(const Location& location,
                                 const std::array<std::optional<Definition>, 2>& found,
                                 Origin* origin) {
  if (!location.memory) return false;
  std::array<ThreadNo, 2> writer;
  bool other = false;
  for (int i : {0, 1}) {
    if (!found[i]->initial) writer[i] = found[i]->thread;
    other |= writer[i].v != 0 && location.thread[i].v != 0 && writer[i] != location.thread[i];
  }
  if (!other || writer[0] == writer[1]) return false;
  std::array<std::string, 2> who;
  Input input;
  for (int i : {0, 1}) {
    who[i] = writer[i].v == 0
                 ? "nobody yet"
                 : fmt::format("thread {} in {}", writer[i].v,
                               found[i]->kernel ? "a system call"
                                                : ToText(sides_[i]->LocationOf(found[i]->step.pc)));
    input.value[i] = who[i];
    input.time[i] = found[i]->step.time;
  }
  input.kind = InputKind::kThreads;
  input.name = Describe(location);
  input.text = fmt::format("{} was last written by {} | by {}, when thread {} read it", input.name,
                           who[0], who[1], location.thread[0].v);
  origin->kind = OriginKind::kThreads;
  origin->text = input.text;
  origin->value = {ValueText(0, location), ValueText(1, location)};
  origin->thread = location.thread[0];
  if (!origin->steps.empty()) origin->at = origin->steps.back().at;
  origin->input = std::move(input);
  return true;
}

const Parting* OriginFinder::PartingAt(int side, const Definition& d) const {
  if (d.initial) return nullptr;
  for (size_t k = partings_.size(); k-- > 0;) {
    const Parting& p = partings_[k];
    if (d.step.time >= p.span[side].begin && d.step.time < p.span[side].end &&
        d.thread == p.thread) {
      return &p;
    }
  }
  return nullptr;
}

bool OriginFinder::IsWrittenApart(const std::array<std::optional<Definition>, 2>& found,
                                  Origin* origin) {
  const Parting* parting = PartingAt(0, *found[0]);
  if (parting == nullptr) parting = PartingAt(1, *found[1]);
  if (parting == nullptr) return false;
  std::vector<OriginStep> steps = std::move(origin->steps);
  *origin = parting->origin;
  steps.insert(steps.end(), parting->origin.steps.begin(), parting->origin.steps.end());
  origin->steps = std::move(steps);
  return true;
}

absl::Status OriginFinder::Conclude(Origin* origin, const Location& location,
                                    const std::array<std::optional<Definition>, 2>& found) {
  if (!origin->steps.empty()) origin->at = origin->steps.back().at;
  origin->thread = location.thread[0];
  origin->value = {ValueText(0, location), ValueText(1, location)};
  if (!found[0] || !found[1]) {
    origin->text =
        fmt::format("{} was last written longer ago than was looked", Describe(location));
    return absl::OkStatus();
  }
  if (location.end_copies > 0) {  // and nothing was added to it on the way
    origin->kind = OriginKind::kAddress;
    origin->text = fmt::format("only addresses differ: {}", Describe(location));
    return absl::OkStatus();
  }
  if (found[0]->initial && found[1]->initial) {
    origin->kind = OriginKind::kInitial;
    if (!location.memory) {
      origin->text = fmt::format("{} was so from the start", RegisterText(location.reg));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(origin->input, inputs_.OfFirstContents(location.address, location.before));
    if (origin->input) {
      origin->text = fmt::format("{} {}", InputKindName(origin->input->kind), origin->input->text);
      return absl::OkStatus();
    }
    std::array<std::string, 2> around;
    for (int i : {0, 1}) around[i] = StringAround(i, location);
    if (!around[0].empty() && !around[1].empty()) {
      origin->text = fmt::format("text \"{}\" | \"{}\", there from the start", Printable(around[0]),
                                 Printable(around[1]));
    } else {
      origin->text = fmt::format("the first contents of {}: {} | {}", Describe(location),
                                 origin->value[0], origin->value[1]);
    }
    return absl::OkStatus();
  }
  if (found[0]->kernel && found[1]->kernel && !found[0]->initial && !found[1]->initial) {
    origin->kind = OriginKind::kKernel;
    origin->thread = found[0]->thread;
    origin->at = {found[0]->step, found[1]->step};
    origin->text =
        fmt::format("the kernel: {} | {}", SyscallText(0, *found[0]), SyscallText(1, *found[1]));
    std::array<KernelValue, 2> values;
    for (int i : {0, 1}) {
      ASSIGN_OR_RETURN(auto event, SyscallOf(i, *found[i]));
      if (!event) return absl::OkStatus();
      values[i].event = *std::move(event);
      if (location.memory) values[i].at = location.address[i];
    }
    ASSIGN_OR_RETURN(origin->input, inputs_.OfSystemCalls(values));
    return absl::OkStatus();
  }
  origin->kind = OriginKind::kWriters;
  std::array<std::string, 2> who;
  for (int i : {0, 1}) {
    who[i] = found[i]->initial  ? "nothing"
             : found[i]->kernel ? "the kernel"
                                : ToText(sides_[i]->LocationOf(found[i]->step.pc));
  }
  origin->text = fmt::format("{} was last written by {} here, by {} there", Describe(location),
                             who[0], who[1]);
  return absl::OkStatus();
}

// The text, of bytes up to a NUL, that holds the byte at a location; "" when it is no text.
std::string OriginFinder::StringAround(int side, const Location& location) {
  constexpr uint32_t kMaxCount = 256;
  if (!location.memory) return "";
  const Time t = location.before[side];
  const uint64_t at = location.address[side].v;
  std::string before;
  for (uint32_t reach = kMaxCount; reach >= 8 && before.empty(); reach /= 2) {
    if (at < reach) continue;
    before = sides_[side]->Memory(Address(at - reach), reach, t);
    if (before.size() < reach) before.clear();
  }
  const size_t nul = before.rfind('\0');
  if (nul == std::string::npos) return "";
  std::string text = before.substr(nul + 1) + sides_[side]->Memory(Address(at), kMaxCount, t);
  text.resize(std::min(text.find('\0'), text.size()));
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\t';
  });
  return printable ? text.substr(0, 100) : "";
}

absl::StatusOr<std::optional<Event>> OriginFinder::SyscallOf(int side,
                                                             const Definition& definition) {
  EventQuery query;
  query.kind = EventKind::kSyscall;
  query.thread = definition.thread;
  query.span = {Time(0), definition.step.time + 2};
  query.direction = Direction::kBackward;
  ASSIGN_OR_RETURN(auto cursor, sides_[side]->process().Events(query));
  for (int i = 0; i < 4; ++i) {
    absl::StatusOr<std::optional<Event>> event = cursor->Next();
    if (!event.ok() || !*event) return event;
    if (definition.syscall >= 0 && (*event)->number != definition.syscall) continue;
    return event;
  }
  return std::optional<Event>();
}

std::string OriginFinder::SyscallText(int side, const Definition& definition) {
  const auto event = SyscallOf(side, definition);
  if (event.ok() && *event) return (*event)->detail;
  return definition.syscall >= 0 ? SyscallName(definition.syscall) : "a system call";
}

absl::StatusOr<Origin> OriginFinder::OfBranch(const Divergence& d) {
  Origin origin;
  alternatives_.clear();
  last_alternatives_.clear();
  origin.thread = d.thread;
  origin.at = d.last;
  if (!d.last[0].exists || !d.last[1].exists) {
    origin.text = "they begin in different places";
    return origin;
  }
  const InstructionEffects effects = sides_[0]->EffectsAt(d.last[0].pc, d.last[0].time);
  if (effects.flow == Flow::kNone || effects.flow == Flow::kSyscall) {
    // No decision: one ended (by a fault of this very instruction, perhaps), a signal came, or the
    // code is another.
    if (effects.flow == Flow::kNone && !(d.next[0].exists && d.next[1].exists)) {
      OriginStep step;
      bool placement = false;
      ASSIGN_OR_RETURN(auto input,
                       DifferingInput(d.last, {d.thread, d.thread}, nullptr, 0, &step, &placement));
      if (input) {
        origin.steps.push_back(std::move(step));
        return Follow(*input, std::move(origin));
      }
    }
    origin.at = {d.next[0].exists ? d.next[0] : d.last[0],
                 d.next[1].exists ? d.next[1] : d.last[1]};
    if (!d.next[0].exists || !d.next[1].exists) {
      origin.text = fmt::format("{} ends here", d.next[0].exists ? "the second" : "the first");
    } else if (sides_[0]->LocationOf(d.next[0].pc).function ==
               sides_[1]->LocationOf(d.next[1].pc).function) {
      origin.kind = OriginKind::kCode;
      origin.text =
          fmt::format("the code of {} differs", ToText(sides_[0]->LocationOf(d.next[0].pc)));
    } else {
      origin.text = "a signal or a change of context on one side";
    }
    return origin;
  }
  OriginStep step;
  bool placement = false;
  ASSIGN_OR_RETURN(auto input,
                   DifferingInput(d.last, {d.thread, d.thread}, nullptr, 0, &step, &placement));
  origin.steps.push_back(step);
  if (input) return Follow(*input, std::move(origin));
  if (placement) {
    origin.kind = OriginKind::kAddress;
    origin.text = "only addresses differ";
  } else {
    origin.kind =
        step.instruction[0] != step.instruction[1] ? OriginKind::kCode : OriginKind::kUnknown;
    origin.text = fmt::format("{} | {}", step.instruction[0], step.instruction[1]);
  }
  return origin;
}

absl::StatusOr<Origin> OriginFinder::OfRegister(ThreadNo thread, Gpr reg,
                                                std::array<Time, 2> before) {
  Location l;
  l.reg = reg;
  l.before = before;
  l.thread = {thread, thread};
  alternatives_.clear();
  last_alternatives_.clear();
  return Follow(l, Origin());
}

absl::StatusOr<Origin> OriginFinder::OfMemory(ThreadNo thread, std::array<Address, 2> at,
                                              uint32_t size, std::array<Time, 2> before) {
  Location l;
  l.thread = {thread, thread};
  l.memory = true;
  l.address = at;
  l.size = size;
  l.before = before;
  alternatives_.clear();
  last_alternatives_.clear();
  return Follow(l, Origin());
}

}  // namespace ttq::diff
