// SPDX-License-Identifier: MIT
//
// Where a value comes from that different instructions wrote on the two sides: why control parted
// before they did, or what a value was before it was copied in other ways.

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "diff/detour.h"
#include "diff/origin.h"

namespace ttq::diff {
namespace {

// Copies of a value that one side is followed through by itself.
constexpr int kMaxCopies = 64;
// Numbers below this are found by chance.
constexpr uint64_t kLeastCopied = 1 << 16;

uint64_t WordOf(std::string_view bytes, size_t at) {
  uint64_t v = 0;
  if (at + 8 <= bytes.size()) memcpy(&v, bytes.data() + at, 8);
  return v;
}

// __memcpy_avx_unaligned_erms, __memmove_evex_unaligned …
bool IsMove(std::string_view function) {
  for (const char* part : {"memcpy", "memmove"}) {
    if (function.find(part) != std::string_view::npos) return true;
  }
  return false;
}

// How many of the pointers that a function of the C library's is given say what it answers; 0: it
// is none of those whose way depends on where in a page they lie, too. __strcmp_avx2, __strlen_evex
// …
size_t LookedAtBy(absl::string_view function) {
  for (const absl::string_view part :
       {"strcmp", "strncmp", "strcasecmp", "strncase", "memcmp", "wcscmp", "wcsncmp", "wmemcmp"}) {
    if (absl::StrContains(function, part)) return 2;
  }
  for (const absl::string_view part :
       {"strlen", "strnlen", "strchr", "strrchr", "memchr", "memrchr", "wcslen", "wcsnlen",
        "wcschr", "wcsrchr", "wmemchr"}) {
    if (absl::StrContains(function, part)) return 1;
  }
  return 0;
}

}  // namespace

// The C library's and CPython's, by what the functions are called.
bool IsAllocator(std::string_view function) {
  for (const char* part :
       {"malloc", "calloc", "realloc", "operator new", "mi_heap_", "_mi_page_"}) {
    if (function.find(part) != std::string_view::npos) return true;
  }
  return function == "_PyObject_Alloc" || function == "PyObject_GC_New" || function == "systrim";
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
  ASSIGN_OR_RETURN(const auto at_pc, PcAt(1 - later, *other, writers[later].thread));
  if (!at_pc || sides_[1 - later]->KeyOf(*at_pc) != sides_[later]->KeyOf(writers[later].step.pc)) {
    return std::optional<Location>();
  }
  std::array<Step, 2> at;
  at[later] = writers[later].step;
  at[1 - later] = {*other, *at_pc, true};
  OriginStep step;
  bool placement = false;
  const ThreadNo thread = writers[later].thread;
  ASSIGN_OR_RETURN(auto input, DifferingInput(at, {thread, thread}, nullptr, origin->steps.size(),
                                              &step, &placement));
  if (!input) return input;
  by_place_ = true;
  origin->steps.push_back(std::move(step));
  return input;
}

absl::StatusOr<std::optional<Time>> OriginFinder::InnermostCall(int side, Time t, ThreadNo thread) {
  const auto stack = sides_[side]->StackAt(t, thread);
  if (!stack.ok()) return std::optional<Time>();  // of a thread that ended
  if (stack->frames.empty() || !stack->frames[0].cfa) return std::optional<Time>();
  return CallOf(sides_[side], stack->frames[0], t);
}

absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::WhyLookedAt(
    const Divergence& parted, OriginStep* step) {
  constexpr uint32_t kMaxLooked = 4096;
  constexpr uint8_t kArguments[] = {kRdi, kRsi};
  std::array<Registers, 2> registers;
  Location location;
  size_t pointers = 0;
  for (int i : {0, 1}) {
    pointers = LookedAtBy(sides_[i]->FunctionOf(parted.last[i].pc));
    if (pointers == 0) return std::optional<Location>();
    ASSIGN_OR_RETURN(auto called, InnermostCall(i, parted.last[i].time, parted.thread));
    if (!called) return std::optional<Location>();
    ASSIGN_OR_RETURN(registers[i], sides_[i]->RegistersAt(*called, parted.thread));
    step->instruction[i] = sides_[i]->FunctionOf(parted.last[i].pc);
    // It may have been called through a stub.
    constexpr uint64_t kLongestStub = 4;
    for (uint64_t k = 0; k <= kLongestStub; ++k) {
      ASSIGN_OR_RETURN(const auto pc, PcAt(i, *called + k, parted.thread));
      if (!pc) return std::optional<Location>();
      step->at[i] = {*called + k, *pc, true};
      if (sides_[i]->FunctionOf(*pc) == step->instruction[i]) break;
    }
    location.before[i] = *called;
    location.thread[i] = parted.thread;
  }
  location.memory = true;
  location.size = 1;
  // The first byte that differs; behind a zero, and behind the other string's end, nothing counts.
  uint64_t first = kMaxLooked;
  for (const uint8_t reg : absl::MakeConstSpan(kArguments).first(pointers)) {
    std::array<std::string, 2> bytes;
    for (int i : {0, 1}) {
      bytes[i] = sides_[i]->Memory(Address(registers[i].gpr[reg]), kMaxLooked, location.before[i]);
    }
    const auto [a, b] =
        std::mismatch(bytes[0].begin(), bytes[0].end(), bytes[1].begin(), bytes[1].end());
    const auto at = static_cast<uint64_t>(a - bytes[0].begin());
    if (a == bytes[0].end() || b == bytes[1].end() || at >= first) continue;
    if (bytes[0].find('\0') < at) continue;
    first = at;
    for (int i : {0, 1}) location.address[i] = Address(registers[i].gpr[reg] + at);
  }
  if (first == kMaxLooked) return std::optional<Location>();
  step->place = sides_[0]->LocationOf(step->at[0].pc);
  step->what = Describe(location);
  step->value = {ValueText(0, location), ValueText(1, location)};
  return std::optional(location);
}

absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::WhyParted(
    const Location& location, const std::array<std::optional<Definition>, 2>& found,
    Origin* origin) {
  constexpr int kMaxReaders = 4;
  absl::flat_hash_set<uint64_t> tried;
  const auto time_of = [](const std::optional<Definition>& d) {
    return !d || d->initial ? Time(0) : d->step.time;
  };
  // What read it first. Where a loop made more rounds on one side, its rounds do not correspond:
  // then what read the loop's result.
  for (size_t k = origin->steps.size(); k-- > 0 && tried.size() < kMaxReaders;) {
    const OriginStep& reader = origin->steps[k];
    if (!tried.insert(reader.at[0].pc.v).second) continue;
    std::array<Time, 2> written, read;
    for (int i : {0, 1}) {
      read[i] = reader.at[i].time;
      written[i] =
          k + 1 < origin->steps.size() ? origin->steps[k + 1].at[i].time : time_of(found[i]);
    }
    ASSIGN_OR_RETURN(auto parted, FindDetour(sides_, location.thread[0], written, read));
    if (!parted) continue;
    OriginStep step;
    ASSIGN_OR_RETURN(auto looked_at, WhyLookedAt(*parted, &step));
    if (looked_at) {
      origin->steps.resize(k + 1);
      origin->steps.push_back(std::move(step));
      return looked_at;
    }
    bool placement = false;
    ASSIGN_OR_RETURN(auto input, DifferingInput(parted->last, location.thread, nullptr, k + 1,
                                                &step, &placement));
    if (!input) return std::optional<Location>();
    origin->steps.resize(k + 1);
    origin->steps.push_back(std::move(step));
    return input;
  }
  return std::optional<Location>();
}

// Different instructions wrote it on the two sides.
absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::WhyWrittenElsewhere(
    const Location& location, const std::array<std::optional<Definition>, 2>& found,
    Origin* origin) {
  const std::array<Definition, 2> now = {*found[0], *found[1]};
  std::optional<Location> why;
  if (location.end_copies > 0) {  // a loop went further
    ASSIGN_OR_RETURN(why, WhyParted(location, found, origin));
  }
  if (!why) {
    ASSIGN_OR_RETURN(why, WhyMoved(location, now, origin));
  }
  if (!why) {
    ASSIGN_OR_RETURN(why, WhyCopied(location, found, origin));
  }
  if (!why) {
    ASSIGN_OR_RETURN(why, WhyElsewhere(now, origin));
  }
  if (!why) {
    ASSIGN_OR_RETURN(why, WhyParted(location, found, origin));
  }
  return why;
}

bool OriginFinder::IsBlockAddress(const Location& location) {
  std::array<uint64_t, 2> value;
  for (int i : {0, 1}) {
    const auto v = WordAt(i, location, location.before[i]);
    if (!v.ok() || !*v) return false;
    value[i] = **v;
  }
  return InHeap(value[0], location.before[0], value[1], location.before[1]);
}

// The word that a location is a part of.
absl::StatusOr<std::optional<uint64_t>> OriginFinder::WordAt(int side, const Location& location,
                                                             Time t) {
  Location word = location;
  if (word.memory) {
    word.address[side] = Address(word.address[side].v & ~uint64_t{7});
    word.size = 8;
  }
  return ValueOf(side, word, t);
}

// Where an instruction of one side had a value from that it wrote; nullopt: it made it.
absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::SourceOf(
    int side, const Definition& writer, uint64_t value) {
  const Time t = writer.step.time;
  ASSIGN_OR_RETURN(const auto registers, sides_[side]->RegistersAt(t, writer.thread));
  const InstructionEffects effects = sides_[side]->EffectsAt(writer.step.pc, t);
  Location source;
  for (int i : {0, 1}) {
    source.before[i] = t;
    source.thread[i] = writer.thread;
  }
  for (const MemoryOperand& m : effects.memory) {
    const std::optional<Address> at = m.AddressOf(registers.gpr);
    if (!m.read || !at || m.size < 8) continue;
    const std::string bytes = sides_[side]->Memory(*at, std::min(m.size, 64u), t);
    for (size_t word = 0; word + 8 <= bytes.size(); word += 8) {
      if (WordOf(bytes, word) != value) continue;
      source.memory = true;
      source.address[side] = *at + word;
      return std::optional(source);
    }
  }
  for (uint8_t reg = 0; reg < kX87Registers; ++reg) {
    if (!(effects.reads >> reg & 1) || reg == kFlagsRegister) continue;
    // What a vector register holds is not recorded; what it was loaded with tells.
    if (reg < kGprCount ? registers.gpr[reg] != value : effects.memory.empty()) continue;
    source.reg = reg;
    return std::optional(source);
  }
  return std::optional<Location>();
}

absl::StatusOr<bool> OriginFinder::IsCopied(const std::array<Definition, 2>& writers,
                                            const Location& location) {
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(const auto value, WordAt(i, location, location.before[i]));
    if (!value) return false;
    ASSIGN_OR_RETURN(auto source, SourceOf(i, writers[i], *value));
    if (!source) return false;
  }
  return true;
}

// Each side moves a value about in its own way (a dictionary that grew, an argument that was saved
// in another register): back to the oldest copy that the same instruction made on both.
absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::WhyCopied(
    const Location& location, const std::array<std::optional<Definition>, 2>& found,
    Origin* origin) {
  std::array<std::vector<Definition>, 2> copies;
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(const auto value, WordAt(i, location, location.before[i]));
    if (!value || *value < kLeastCopied) return std::optional<Location>();
    std::optional<Definition> writer = found[i];
    while (writer && !writer->initial && !writer->kernel && copies[i].size() < kMaxCopies) {
      // Before that the memory was another's.
      if (IsAllocator(sides_[i]->LocationOf(writer->step.pc).function)) break;
      copies[i].push_back(*writer);
      ASSIGN_OR_RETURN(auto source, SourceOf(i, *writer, *value));
      if (!source) break;
      ASSIGN_OR_RETURN(auto next, Define(i, *source));
      writer = std::move(next);
    }
  }
  for (size_t a = copies[0].size(); a-- > 0;) {
    for (size_t b = copies[1].size(); b-- > 0;) {
      const std::array<const Definition*, 2> same = {&copies[0][a], &copies[1][b]};
      if (sides_[0]->KeyOf(same[0]->step.pc) != sides_[1]->KeyOf(same[1]->step.pc)) continue;
      OriginStep step;
      bool placement = false;
      ASSIGN_OR_RETURN(auto input, DifferingInput({same[0]->step, same[1]->step},
                                                  {same[0]->thread, same[1]->thread}, nullptr,
                                                  origin->steps.size(), &step, &placement));
      if (!input) return std::optional<Location>();
      origin->steps.push_back(std::move(step));
      return input;
    }
  }
  return std::optional<Location>();
}

// Bytes that the C library moved: from where. How it moves them depends on how many they are.
absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::WhyMoved(
    const Location& location, const std::array<Definition, 2>& writers, Origin* origin) {
  Location from = location;
  OriginStep step;
  for (int i : {0, 1}) {
    const Definition& writer = writers[i];
    step.instruction[i] = sides_[i]->FunctionOf(writer.step.pc);
    if (!location.memory || !IsMove(step.instruction[i])) return std::optional<Location>();
    ASSIGN_OR_RETURN(auto called, InnermostCall(i, writer.step.time, writer.thread));
    if (!called) return std::optional<Location>();
    ASSIGN_OR_RETURN(const auto registers, sides_[i]->RegistersAt(*called, writer.thread));
    step.at[i] = {*called, registers.pc, true};  // both ways begin there
    const uint64_t offset = location.address[i].v - registers.gpr[kRdi];
    if (offset >= registers.gpr[kRdx]) return std::optional<Location>();
    from.address[i] = Address(registers.gpr[kRsi] + offset);
    from.before[i] = *called;
    from.thread[i] = writer.thread;
  }
  step.place = sides_[0]->LocationOf(step.at[0].pc);
  step.what = Describe(from);
  step.value = {ValueText(0, from), ValueText(1, from)};
  origin->steps.push_back(std::move(step));
  return std::optional(from);
}

// What a thread executed at a time; nullopt: it did not run then.
absl::StatusOr<std::optional<Address>> OriginFinder::PcAt(int side, Time t, ThreadNo thread) {
  ASSIGN_OR_RETURN(const auto runs, sides_[side]->process().RunsAround(t));
  const auto run = std::partition_point(runs->begin(), runs->end(),
                                        [&](const Run& r) { return r.time + r.instructions <= t; });
  if (run == runs->end() || run->time > t || run->thread != thread) {
    return std::optional<Address>();
  }
  const Side::Code& code = sides_[side]->CodeOf(run->code);
  const uint64_t at = t.v - run->time.v;
  return at < code.addresses.size() ? std::optional<Address>(code.addresses[at]) : std::nullopt;
}

// Whether it leads through a hash of CPython's to the seed, which is another one in every run.
bool OriginFinder::IsThroughHash(const Origin& origin) const {
  if (!origin.input || !sides_[0]->context().HasPython()) return false;
  const Input& input = *origin.input;
  const bool is_seed = input.kind == InputKind::kRandom ||
                       (input.kind == InputKind::kEnvironment && input.name == "PYTHONHASHSEED");
  if (!is_seed) return false;
  return std::any_of(origin.steps.begin(), origin.steps.end(), [](const OriginStep& step) {
    return absl::StrContains(step.place.function, "siphash") ||
           step.place.function == "_Py_HashBytes" || step.what == "_Py_HashSecret";
  });
}

}  // namespace ttq::diff
