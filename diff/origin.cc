// SPDX-License-Identifier: MIT

#include "diff/origin.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "query/text.h"

namespace ttq::diff {
namespace {

// A chain that is longer is cut, and says so.
constexpr size_t kMostSteps = 300;
// Blocks walked backwards for the last write of a register.
constexpr int kMostBlocks = 64;
// Rounds of a loop among which the first that differs is looked for.
constexpr size_t kMostRounds = 1 << 16;
// How often the same instruction may be met before it counts as a loop's.
constexpr int kLoopAfter = 2;

using Flow = InstructionEffects::Flow;

uint64_t NumberOf(std::string_view bytes) {
  uint64_t v = 0;
  memcpy(&v, bytes.data(), std::min<size_t>(bytes.size(), 8));
  return v;
}

std::string NumberText(uint64_t v) {
  const auto n = static_cast<int64_t>(v);
  return n > -4096 && n < 1 << 20 ? fmt::format("{}", n) : fmt::format("{:#x}", v);
}

std::string BytesText(std::string_view bytes) {
  if (bytes.size() <= 8) {
    const uint64_t v = NumberOf(bytes);
    if (bytes.size() == 4) return NumberText(static_cast<uint64_t>(static_cast<int32_t>(v)));
    return NumberText(v);
  }
  std::string text = "hex:";
  for (const char c : bytes.substr(0, 32)) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return text;
}

bool IsMachine(std::string_view instruction) {
  for (const char* name : {"rdtsc", "cpuid", "rdrand", "rdseed", "xgetbv", "rdpid"}) {
    if (instruction.substr(0, strlen(name)) == name) return true;
  }
  return false;
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
  const absl::StatusOr<Registers> registers =
      sides_[side]->RegistersAt(t, location.thread[side]);
  if (!registers.ok()) return registers.status();
  return std::optional<uint64_t>(registers->gpr[location.reg]);
}

std::string OriginFinder::Describe(const Location& location) {
  if (!location.memory) return RegisterName(location.reg);
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
  for (int blocks = 0; blocks < kMostBlocks && t.v > 0; ++blocks) {
    const auto runs = side.process().RunsAround(t - 1);
    if (!runs.ok()) return runs.status();
    if ((*runs)->empty() || (*runs)->front().time >= t) break;
    for (size_t i = (*runs)->size(); i-- > 0;) {
      const Run& run = (**runs)[i];
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
    t = (*runs)->front().time;
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
  auto cursor = sides_[which]->process().Accesses(query, nullptr);
  if (!cursor.ok()) return cursor.status();
  for (;;) {
    const absl::StatusOr<std::optional<Access>> row = (*cursor)->Next();
    if (!row.ok()) return row.status();
    if (!*row) break;
    const Access& access = **row;
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

// ---- One step back ------------------------------------------------------------------------------

absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::DifferingInput(
    const std::array<Step, 2>& at, const std::array<ThreadNo, 2>& thread, OriginStep* step,
    bool* placement) {
  std::array<Registers, 2> registers;
  std::array<InstructionEffects, 2> effects;
  for (int i : {0, 1}) {
    const absl::StatusOr<Registers> r = sides_[i]->RegistersAt(at[i].time, thread[i]);
    if (!r.ok()) return r.status();
    registers[i] = *r;
    effects[i] = sides_[i]->EffectsAt(at[i].pc, at[i].time);
    step->instruction[i] = effects[i].text;
  }
  stack_shift_ = registers[0].gpr[kRsp] - registers[1].gpr[kRsp];
  step->at = at;
  step->place = sides_[0]->PlaceOf(at[0].pc);
  *placement = false;
  const InstructionEffects& e = effects[0];
  if (e.reads != effects[1].reads || e.memory.size() != effects[1].memory.size()) {
    return std::optional<Location>();  // another instruction
  }
  // An address that is only used to reach memory does not count.
  const auto compare = [&](uint64_t a, uint64_t b, bool is_data) {
    const Same same = Compare(a, b, at[0].time, at[1].time);
    if (same == Same::kPlacement && a != b && is_data) *placement = true;
    return same;
  };
  const auto of_register = [&](uint8_t reg) {
    Location l;
    l.reg = reg;
    l.before = {at[0].time, at[1].time};
    l.thread = thread;
    return l;
  };
  // One whose value is not kept is taken last: it may or may not differ.
  std::optional<Location> found;
  const auto take = [&](const Location& location, std::string what, std::string a, std::string b) {
    if (found) return;
    found = location;
    step->what = std::move(what);
    step->value = {std::move(a), std::move(b)};
  };
  const auto take_register = [&](uint8_t reg) {
    const uint64_t a = registers[0].gpr[reg], b = registers[1].gpr[reg];
    if (compare(a, b, e.reads >> reg & 1) != Same::kDifferent) return;
    if (!found) step->number = {a, b};
    take(of_register(reg), RegisterName(reg), NumberText(a), NumberText(b));
  };
  for (size_t k = 0; k < e.memory.size() && !found; ++k) {
    const std::array<const MemoryOperand*, 2> m = {&e.memory[k], &effects[1].memory[k]};
    if (!m[0]->read) continue;
    const std::optional<Address> a = m[0]->AddressOf(registers[0].gpr);
    const std::optional<Address> b = m[1]->AddressOf(registers[1].gpr);
    if (!a || !b) continue;
    // Another place was read: then what matters is why.
    for (const uint8_t reg : {m[0]->index, m[0]->base}) {
      if (reg < kGprCount) take_register(reg);
    }
    if (found) break;
    const uint32_t size = std::min(m[0]->size, 64u);
    const std::string x = sides_[0]->Memory(*a, size, at[0].time);
    const std::string y = sides_[1]->Memory(*b, size, at[1].time);
    for (size_t word = 0; word < size && word < x.size() && word < y.size(); word += 8) {
      const std::string_view p = std::string_view(x).substr(word, 8),
                             q = std::string_view(y).substr(word, 8);
      if (p == q || (p.size() == 8 && compare(NumberOf(p), NumberOf(q), true) != Same::kDifferent)) {
        continue;
      }
      size_t byte = 0;
      while (byte + 1 < std::min(p.size(), q.size()) && p[byte] == q[byte]) ++byte;
      Location l;
      l.memory = true;
      l.address = {*a, *b};
      l.size = size;
      l.before = {at[0].time, at[1].time};
      l.thread = thread;
      step->number = {NumberOf(p), NumberOf(q)};
      take(l, Describe(l), BytesText(p), BytesText(q));
      found->address = {*a + (word + byte), *b + (word + byte)};
      found->size = 1;
      break;
    }
  }
  for (uint8_t reg = 0; reg < kGprCount && !found; ++reg) {
    if (e.reads >> reg & 1) take_register(reg);
  }
  std::vector<Location> unknown;
  for (uint8_t reg = kGprCount; reg < kOtherRegisters; ++reg) {
    if (e.reads >> reg & 1) unknown.push_back(of_register(reg));
  }
  for (uint8_t reg = 0; reg < kGprCount && !found; ++reg) {
    if (e.addressing >> reg & 1) take_register(reg);
  }
  if (!found && !unknown.empty()) {
    take(unknown.front(), RegisterName(unknown.front().reg), "", "");
    unknown.erase(unknown.begin());
    for (Location& l : unknown) alternatives_.push_back(std::move(l));
  }
  return found;
}

std::optional<Time> OriginFinder::OtherTime(int side, Time t) const {
  for (size_t i = starts_.size(); i-- > 0;) {
    if (starts_[i][side] <= t) return starts_[i][1 - side] + (t.v - starts_[i][side].v);
  }
  return std::nullopt;
}

// The same memory was last written by different instructions: the later one must have been executed
// on the other side too, with another address. Why?
absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::WhyElsewhere(
    const std::array<Definition, 2>& writers, Origin* origin) {
  const std::optional<Time> mapped = OtherTime(0, writers[0].step.time);
  if (!mapped) return std::optional<Location>();
  const int later = *mapped > writers[1].step.time ? 0 : 1;
  const std::optional<Time> other = OtherTime(later, writers[later].step.time);
  if (!other || *other >= sides_[1 - later]->end()) return std::optional<Location>();
  const auto registers = sides_[1 - later]->RegistersAt(*other, writers[later].thread);
  if (!registers.ok()) return std::optional<Location>();
  const auto at_pc = PcAt(1 - later, *other, writers[later].thread);
  if (!at_pc.ok()) return at_pc.status();
  if (!*at_pc || sides_[1 - later]->KeyOf(**at_pc) !=
                     sides_[later]->KeyOf(writers[later].step.pc)) {
    return std::optional<Location>();
  }
  std::array<Step, 2> at;
  at[later] = writers[later].step;
  at[1 - later] = {*other, **at_pc, true};
  OriginStep step;
  bool placement = false;
  const ThreadNo thread = writers[later].thread;
  auto input = DifferingInput(at, {thread, thread}, &step, &placement);
  if (!input.ok()) return input.status();
  if (*input) origin->steps.push_back(std::move(step));
  return input;
}

// What a thread executed at a time; nullopt: it did not run then.
absl::StatusOr<std::optional<Address>> OriginFinder::PcAt(int side, Time t, ThreadNo thread) {
  const auto runs = sides_[side]->process().RunsAround(t);
  if (!runs.ok()) return runs.status();
  const auto run = std::partition_point((*runs)->begin(), (*runs)->end(), [&](const Run& r) {
    return r.time + r.instructions <= t;
  });
  if (run == (*runs)->end() || run->time > t || run->thread != thread) {
    return std::optional<Address>();
  }
  const Side::Code& code = sides_[side]->CodeOf(run->code);
  const uint64_t at = t.v - run->time.v;
  return at < code.addresses.size() ? std::optional<Address>(code.addresses[at]) : std::nullopt;
}

absl::StatusOr<std::array<OriginFinder::Definition, 2>> OriginFinder::EarliestRound(
    const std::array<Definition, 2>& last, const Location& location) {
  if (!location.memory && location.reg >= kGprCount) return last;
  std::array<std::vector<Time>, 2> rounds;
  std::array<uint64_t, 2> frame{};
  for (int i : {0, 1}) {
    const Address pc = last[i].step.pc;
    auto cursor = sides_[i]->process().Executions({{pc, pc + 1}}, {Time(0), last[i].step.time + 1},
                                                  Direction::kBackward, last[i].thread, nullptr);
    if (!cursor.ok()) return cursor.status();
    while (rounds[i].size() < kMostRounds) {
      const absl::StatusOr<std::optional<Execution>> row = (*cursor)->Next();
      if (!row.ok()) return row.status();
      if (!*row) break;
      rounds[i].push_back((*row)->time);
    }
    const absl::StatusOr<Registers> r = sides_[i]->RegistersAt(last[i].step.time, last[i].thread);
    if (!r.ok()) return r.status();
    frame[i] = r->gpr[kRsp];
  }
  const size_t count = std::min(rounds[0].size(), rounds[1].size());
  // Whether round `k`, counted backwards, is of the same call and leaves different values.
  const auto differs = [&](size_t k) -> absl::StatusOr<bool> {
    std::array<std::optional<uint64_t>, 2> value;
    for (int i : {0, 1}) {
      const Time t = rounds[i][k];
      const absl::StatusOr<Registers> r = sides_[i]->RegistersAt(t, last[i].thread);
      if (!r.ok()) return r.status();
      if (r->gpr[kRsp] != frame[i]) return false;
      const absl::StatusOr<std::optional<uint64_t>> v = ValueOf(i, location, t + 1);
      if (!v.ok()) return v.status();
      value[i] = *v;
    }
    return value[0] && value[1] &&
           Compare(*value[0], *value[1], rounds[0][k], rounds[1][k]) == Same::kDifferent;
  };
  size_t good = 0, bad = count;  // good differs; bad does not, or is none
  for (size_t step = 1; good + step < bad;) {
    const absl::StatusOr<bool> d = differs(good + step);
    if (!d.ok()) return d.status();
    if (*d) {
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

absl::StatusOr<Origin> OriginFinder::Follow(Location location, Origin origin) {
  absl::flat_hash_map<uint64_t, int> visits;
  while (origin.steps.size() < kMostSteps) {
    std::array<std::optional<Definition>, 2> found;
    for (int i : {0, 1}) {
      auto d = Define(i, location);
      if (!d.ok()) return d.status();
      found[i] = *std::move(d);
    }
    if (!found[0] || !found[1] || found[0]->initial || found[1]->initial || found[0]->kernel ||
        found[1]->kernel) {
      Conclude(&origin, location, found);
      return origin;
    }
    std::array<Definition, 2> now = {*found[0], *found[1]};
    if (sides_[0]->KeyOf(now[0].step.pc) != sides_[1]->KeyOf(now[1].step.pc)) {
      auto why = WhyElsewhere(now, &origin);
      if (!why.ok()) return why.status();
      if (*why) {
        location = **why;
        continue;
      }
      origin.kind = OriginKind::kWriters;
      origin.thread = now[0].thread;
      origin.at = {now[0].step, now[1].step};
      origin.value = {ValueText(0, location), ValueText(1, location)};
      origin.text = fmt::format("{} was last written in {} here, in {} there", Describe(location),
                                ToText(sides_[0]->PlaceOf(now[0].step.pc)),
                                ToText(sides_[1]->PlaceOf(now[1].step.pc)));
      return origin;
    }
    if (++visits[now[0].step.pc.v] > kLoopAfter) {
      auto earliest = EarliestRound(now, location);
      if (!earliest.ok()) return earliest.status();
      now = *earliest;
    }
    OriginStep step;
    bool placement = false;
    const std::array<Step, 2> at = {now[0].step, now[1].step};
    const std::array<ThreadNo, 2> thread = {now[0].thread, now[1].thread};
    auto input = DifferingInput(at, thread, &step, &placement);
    if (!input.ok()) return input.status();
    origin.steps.push_back(step);
    if (*input) {
      location = **input;
      continue;
    }
    const bool other_code = step.instruction[0] != step.instruction[1];
    const bool is_syscall =
        sides_[0]->EffectsAt(at[0].pc, at[0].time).flow == Flow::kSyscall;
    if (!other_code && !placement && !is_syscall && !alternatives_.empty() &&
        !IsMachine(step.instruction[0])) {
      // This input was none that differs: go back to the last one not tried.
      origin.steps.pop_back();
      location = alternatives_.back();
      alternatives_.pop_back();
      continue;
    }
    origin.at = at;
    origin.thread = thread[0];
    origin.value = {ValueText(0, location), ValueText(1, location)};
    const std::string place = ToText(step.place);
    if (is_syscall) {
      found = {now[0], now[1]};
      found[0]->kernel = found[1]->kernel = true;
      Conclude(&origin, location, found);
    } else if (other_code) {
      origin.kind = OriginKind::kCode;
      origin.text = fmt::format("the code of {} differs: {} | {}", place, step.instruction[0],
                                step.instruction[1]);
    } else if (placement) {
      origin.kind = OriginKind::kAddress;
      origin.text = fmt::format("only addresses differ: {} in {}", step.instruction[0], place);
    } else if (IsMachine(step.instruction[0])) {
      origin.kind = OriginKind::kMachine;
      origin.text = fmt::format("{} in {} gave another result", step.instruction[0], place);
    } else {
      origin.text = fmt::format("{} in {} had no input that is known to differ",
                                step.instruction[0], place);
    }
    return origin;
  }
  origin.text = fmt::format("not found within {} steps", kMostSteps);
  if (!origin.steps.empty()) origin.at = origin.steps.back().at;
  return origin;
}

void OriginFinder::Conclude(Origin* origin, const Location& location,
                            const std::array<std::optional<Definition>, 2>& found) {
  if (!origin->steps.empty()) origin->at = origin->steps.back().at;
  origin->thread = location.thread[0];
  origin->value = {ValueText(0, location), ValueText(1, location)};
  if (!found[0] || !found[1]) {
    origin->text = fmt::format("{} was last written longer ago than was looked", Describe(location));
    return;
  }
  if (found[0]->initial && found[1]->initial) {
    origin->kind = OriginKind::kInitial;
    std::array<std::string, 2> around;
    for (int i : {0, 1}) around[i] = StringAround(i, location);
    uint64_t offset = 0;
    const auto region = sides_[0]->RegionOf(location.address[0].v, location.before[0], &offset);
    if (!location.memory) {
      origin->text = fmt::format("{} was so from the start", RegisterName(location.reg));
    } else if (!around[0].empty() && !around[1].empty()) {
      const bool variable = absl::StrContains(around[0], '=') && region == "[stack]";
      origin->text = fmt::format("{} \"{}\" | \"{}\", there from the start",
                                 variable             ? "environment"
                                 : region == "[stack]" ? "argument"
                                                       : "text",
                                 Printable(around[0]), Printable(around[1]));
    } else {
      origin->text = fmt::format("the first contents of {}: {} | {}", Describe(location),
                                 origin->value[0], origin->value[1]);
    }
    return;
  }
  if (found[0]->kernel && found[1]->kernel && !found[0]->initial && !found[1]->initial) {
    origin->kind = OriginKind::kKernel;
    origin->thread = found[0]->thread;
    origin->at = {found[0]->step, found[1]->step};
    origin->text = fmt::format("the kernel: {} | {}", SyscallText(0, *found[0]),
                               SyscallText(1, *found[1]));
    return;
  }
  origin->kind = OriginKind::kWriters;
  std::array<std::string, 2> who;
  for (int i : {0, 1}) {
    who[i] = found[i]->initial  ? "nothing"
             : found[i]->kernel ? "the kernel"
                                : ToText(sides_[i]->PlaceOf(found[i]->step.pc));
  }
  origin->text = fmt::format("{} was last written by {} here, by {} there", Describe(location),
                             who[0], who[1]);
}

// The text, of bytes up to a NUL, that holds the byte at a location; "" when it is no text.
std::string OriginFinder::StringAround(int side, const Location& location) {
  constexpr uint32_t kMost = 256;
  if (!location.memory) return "";
  const Time t = location.before[side];
  const uint64_t at = location.address[side].v;
  std::string before;
  for (uint32_t reach = kMost; reach >= 8 && before.empty(); reach /= 2) {
    if (at < reach) continue;
    before = sides_[side]->Memory(Address(at - reach), reach, t);
    if (before.size() < reach) before.clear();
  }
  const size_t nul = before.rfind('\0');
  if (nul == std::string::npos) return "";
  std::string text = before.substr(nul + 1) + sides_[side]->Memory(Address(at), kMost, t);
  text.resize(std::min(text.find('\0'), text.size()));
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\t';
  });
  return printable ? text.substr(0, 100) : "";
}

std::string OriginFinder::SyscallText(int side, const Definition& definition) {
  EventQuery query;
  query.kind = EventKind::kSyscall;
  query.thread = definition.thread;
  query.span = {Time(0), definition.step.time + 2};
  query.direction = Direction::kBackward;
  auto cursor = sides_[side]->process().Events(query);
  if (!cursor.ok()) return "";
  for (int i = 0; i < 4; ++i) {
    const absl::StatusOr<std::optional<Event>> event = (*cursor)->Next();
    if (!event.ok() || !*event) break;
    if (definition.syscall >= 0 && (*event)->number != definition.syscall) continue;
    return (*event)->detail;
  }
  return definition.syscall >= 0 ? SyscallName(definition.syscall) : "a system call";
}

absl::StatusOr<Origin> OriginFinder::OfBranch(const Divergence& d) {
  Origin origin;
  alternatives_.clear();
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
      auto input = DifferingInput(d.last, {d.thread, d.thread}, &step, &placement);
      if (!input.ok()) return input.status();
      if (*input) {
        origin.steps.push_back(std::move(step));
        return Follow(**input, std::move(origin));
      }
    }
    origin.at = {d.next[0].exists ? d.next[0] : d.last[0], d.next[1].exists ? d.next[1] : d.last[1]};
    if (!d.next[0].exists || !d.next[1].exists) {
      origin.text = fmt::format("{} ends here", d.next[0].exists ? "the second" : "the first");
    } else if (sides_[0]->PlaceOf(d.next[0].pc).function ==
               sides_[1]->PlaceOf(d.next[1].pc).function) {
      origin.kind = OriginKind::kCode;
      origin.text = fmt::format("the code of {} differs", ToText(sides_[0]->PlaceOf(d.next[0].pc)));
    } else {
      origin.text = "a signal or a change of context on one side";
    }
    return origin;
  }
  OriginStep step;
  bool placement = false;
  auto input = DifferingInput(d.last, {d.thread, d.thread}, &step, &placement);
  if (!input.ok()) return input.status();
  origin.steps.push_back(step);
  if (*input) return Follow(**input, std::move(origin));
  if (placement) {
    origin.kind = OriginKind::kAddress;
    origin.text = "only addresses differ";
  } else {
    origin.kind = step.instruction[0] != step.instruction[1] ? OriginKind::kCode
                                                             : OriginKind::kUnknown;
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
  return Follow(l, Origin());
}

absl::StatusOr<Origin> OriginFinder::OfMemory(std::array<Address, 2> at, uint32_t size,
                                              std::array<Time, 2> before) {
  Location l;
  l.memory = true;
  l.address = at;
  l.size = size;
  l.before = before;
  alternatives_.clear();
  return Follow(l, Origin());
}

}  // namespace ttq::diff
