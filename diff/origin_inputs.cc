// SPDX-License-Identifier: MIT
//
// One step back: which inputs of an instruction, executed on both sides, make its results differ.

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "base/byte_cursor.h"
#include "base/status_macros.h"
#include "diff/origin.h"
#include "diff/value_text.h"

namespace ttq::diff {

// Gathers the inputs that differ, the likeliest first.
class OriginFinder::InputSearch {
 public:
  // Arguments as DifferingInput's.
  InputSearch(OriginFinder* finder, const std::array<Step, 2>& at,
              const std::array<ThreadNo, 2>& thread, const Location* result)
      : finder_(*finder), sides_(finder->sides_), at_(at), thread_(thread), result_(result) {}

  // What the instruction is, on both sides; false: not the same.
  absl::StatusOr<bool> Look(OriginStep* step);
  std::vector<Candidate> Find();
  // Whether some inputs differ as addresses only.
  bool placement() const { return placement_; }

 private:
  Location OfRegister(uint8_t reg) const;
  bool IsAddress(uint64_t a, uint64_t b);
  // An address that is only used to reach memory is no data.
  Same Compare(uint64_t a, uint64_t b, bool is_data);
  bool Differs(uint8_t reg);
  void FindFocus();
  void TakeRegister(uint8_t reg);
  void TakeAddress(const MemoryOperand& operand);
  void TakeMemory(size_t operand);
  // The first word of an operand that differs.
  void TakeWord(Address a, Address b, uint32_t size);
  void TakeDistances();

  OriginFinder& finder_;
  const std::array<Side*, 2>& sides_;
  const std::array<Step, 2>& at_;
  const std::array<ThreadNo, 2>& thread_;
  const Location* const result_;
  std::array<Registers, 2> registers_;
  std::array<InstructionEffects, 2> effects_;
  std::optional<uint32_t> focus_;  // of wide copies: which byte is meant
  bool placement_ = false;
  uint64_t taken_ = 0;  // registers
  std::vector<Candidate> candidates_;
  // Where an address came from whose distance from another one matters: see Location::end_copies.
  std::vector<Candidate> bases_;
  bool is_end_ = false;
  int end_copies_ = 0;
};

absl::StatusOr<bool> OriginFinder::InputSearch::Look(OriginStep* step) {
  for (int i : {0, 1}) {
    ASSIGN_OR_RETURN(registers_[i], sides_[i]->RegistersAt(at_[i].time, thread_[i]));
    effects_[i] = sides_[i]->EffectsAt(at_[i].pc, at_[i].time);
    step->instruction[i] = effects_[i].text;
  }
  finder_.stack_shift_ = registers_[0].gpr[kRsp] - registers_[1].gpr[kRsp];
  step->at = at_;
  step->place = sides_[0]->LocationOf(at_[0].pc);
  is_end_ = result_ != nullptr && result_->end_copies > 0;
  end_copies_ = is_end_ ? result_->end_copies - 1 : 0;
  return effects_[0].reads == effects_[1].reads &&
         effects_[0].memory.size() == effects_[1].memory.size();
}

OriginFinder::Location OriginFinder::InputSearch::OfRegister(uint8_t reg) const {
  Location l;
  l.reg = reg;
  l.before = {at_[0].time, at_[1].time};
  l.thread = thread_;
  return l;
}

bool OriginFinder::InputSearch::IsAddress(uint64_t a, uint64_t b) {
  uint64_t offset = 0;
  return sides_[0]->RegionOf(a, at_[0].time, &offset) &&
         sides_[1]->RegionOf(b, at_[1].time, &offset);
}

OriginFinder::Same OriginFinder::InputSearch::Compare(uint64_t a, uint64_t b, bool is_data) {
  const Same same = finder_.Compare(a, b, at_[0].time, at_[1].time);
  if (same == Same::kPlacement && a != b && is_data) placement_ = true;
  return same;
}

bool OriginFinder::InputSearch::Differs(uint8_t reg) {
  return Compare(registers_[0].gpr[reg], registers_[1].gpr[reg], effects_[0].reads >> reg & 1) ==
         Same::kDifferent;
}

void OriginFinder::InputSearch::FindFocus() {
  if (result_ == nullptr) return;
  if (!result_->memory) {
    if (result_->reg > kFlagsRegister) focus_ = result_->focus;
    return;
  }
  const InstructionEffects& e = effects_[0];
  for (const MemoryOperand& m : e.memory) {
    const std::optional<Address> to = m.AddressOf(registers_[0].gpr);
    // What is extracted from a register lies elsewhere in it than in memory.
    if (!m.write || !to || m.size <= 8 || absl::StrContains(e.text, "extract")) continue;
    if (result_->address[0] >= *to && result_->address[0].v < to->v + m.size) {
      focus_ = static_cast<uint32_t>(result_->address[0].v - to->v);
    }
  }
}

void OriginFinder::InputSearch::TakeRegister(uint8_t reg) {
  if (taken_ >> reg & 1) return;
  taken_ |= uint64_t{1} << reg;
  const uint64_t a = registers_[0].gpr[reg], b = registers_[1].gpr[reg];
  const bool is_base = is_end_ && effects_[0].reads >> reg & 1 && a != b && IsAddress(a, b);
  if (is_base ? end_copies_ == 0 : !Differs(reg)) return;
  std::vector<Candidate>& to = is_base ? bases_ : candidates_;
  to.push_back({OfRegister(reg),
                RegisterText(reg),
                {NumberText(a), NumberText(b)},
                {a, b},
                !is_base && finder_.InHeap(a, at_[0].time, b, at_[1].time)});
  if (is_base) to.back().location.end_copies = end_copies_;
}

void OriginFinder::InputSearch::TakeAddress(const MemoryOperand& operand) {
  for (const uint8_t reg : {operand.index, operand.base}) {
    if (reg < kGprCount) TakeRegister(reg);
  }
}

void OriginFinder::InputSearch::TakeWord(Address a, Address b, uint32_t size) {
  const std::string x = sides_[0]->Memory(a, size, at_[0].time);
  const std::string y = sides_[1]->Memory(b, size, at_[1].time);
  const bool has_focus = focus_ && size > 8 && *focus_ < size;
  for (size_t word = 0; word < size && word < x.size() && word < y.size(); word += 8) {
    if (has_focus && word != *focus_ / 8 * 8) continue;
    const std::string_view p = std::string_view(x).substr(word, 8),
                           q = std::string_view(y).substr(word, 8);
    if (p == q) continue;
    const bool is_base = is_end_ && p.size() == 8 && IsAddress(NumberOf(p), NumberOf(q));
    if (is_base ? end_copies_ == 0
                : p.size() == 8 && Compare(NumberOf(p), NumberOf(q), true) != Same::kDifferent) {
      continue;
    }
    size_t byte = 0;
    while (byte + 1 < std::min(p.size(), q.size()) && p[byte] == q[byte]) ++byte;
    if (has_focus && p[*focus_ - word] != q[*focus_ - word]) byte = *focus_ - word;
    Location l;
    l.memory = true;
    l.address = {a, b};
    l.size = size;
    l.before = {at_[0].time, at_[1].time};
    l.thread = thread_;
    std::string what = finder_.Describe(l);
    l.address = {a + (word + byte), b + (word + byte)};
    l.size = 1;
    if (is_base) l.end_copies = end_copies_;
    (is_base ? bases_ : candidates_)
        .push_back({l, std::move(what), {BytesText(p), BytesText(q)}, {NumberOf(p), NumberOf(q)}});
    return;
  }
}

void OriginFinder::InputSearch::TakeMemory(size_t operand) {
  const std::array<const MemoryOperand*, 2> m = {&effects_[0].memory[operand],
                                                 &effects_[1].memory[operand]};
  if (!m[0]->read) return;
  const std::optional<Address> a = m[0]->AddressOf(registers_[0].gpr);
  const std::optional<Address> b = m[1]->AddressOf(registers_[1].gpr);
  if (!a || !b) return;
  // Another place was read: then what matters is why. But where things lie in the heap may differ
  // for no reason that matters: there, what was read comes first.
  // So does whether it was allocated at all: a constant of the program's is as good.
  uint64_t offset = 0;
  const bool by_value = finder_.InHeap(a->v, at_[0].time, b->v, at_[1].time) ||
                        sides_[0]->RegionOf(a->v, at_[0].time, &offset) !=
                            sides_[1]->RegionOf(b->v, at_[1].time, &offset);
  size_t before = candidates_.size();
  if (!by_value) {
    TakeAddress(*m[0]);
    // Another element of a module's table: what it holds says nothing.
    if (candidates_.size() > before && sides_[0]->ModuleOf(*a) != nullptr) return;
  }
  TakeWord(*a, *b, std::min(m[0]->size, 64u));
  if (!by_value) return;
  before = candidates_.size();
  TakeAddress(*m[0]);
  for (size_t c = before; c < candidates_.size(); ++c) {
    candidates_[c].is_place = !(effects_[0].reads >> candidates_[c].location.reg & 1);
  }
}

// Two addresses of one region that are compared or subtracted: how far apart they are is a value,
// though each may lie where it does for no reason that matters.
void OriginFinder::InputSearch::TakeDistances() {
  const auto region_of = [&](int i, uint8_t reg) {
    uint64_t offset = 0;
    return sides_[i]->RegionOf(registers_[i].gpr[reg], at_[i].time, &offset);
  };
  const auto apart = [&](int i, uint8_t x, uint8_t y) {
    return registers_[i].gpr[x] - registers_[i].gpr[y];
  };
  const uint64_t reads = effects_[0].reads;
  for (uint8_t x = 0; x < kGprCount; ++x) {
    for (uint8_t y = x + 1; y < kGprCount; ++y) {
      if (!(reads >> x & 1) || !(reads >> y & 1) || apart(0, x, y) == apart(1, x, y)) continue;
      const auto region = region_of(0, x);
      if (!region || region != region_of(0, y)) continue;
      if (!region_of(1, x) || region_of(1, x) != region_of(1, y)) continue;
      for (const uint8_t reg : {x, y}) {
        const uint64_t a = registers_[0].gpr[reg], b = registers_[1].gpr[reg];
        std::erase_if(candidates_, [&](const Candidate& c) {
          return !c.location.memory && c.location.reg == reg;
        });
        candidates_.push_back(
            {OfRegister(reg), RegisterText(reg), {NumberText(a), NumberText(b)}, {a, b}});
        candidates_.back().location.end_copies = kMaxEndCopies;
      }
    }
  }
}

std::vector<OriginFinder::Candidate> OriginFinder::InputSearch::Find() {
  FindFocus();
  const InstructionEffects& e = effects_[0];
  for (size_t k = 0; k < e.memory.size(); ++k) TakeMemory(k);
  for (uint8_t reg = 0; reg < kGprCount; ++reg) {
    if (e.reads >> reg & 1) TakeRegister(reg);
  }
  TakeDistances();
  std::move(bases_.begin(), bases_.end(), std::back_inserter(candidates_));
  // How an address came about matters only when nothing else does, or when its place was read.
  if (candidates_.empty()) {
    for (uint8_t reg = 0; reg < kGprCount; ++reg) {
      if (e.addressing >> reg & 1) TakeRegister(reg);
    }
  }
  std::stable_partition(candidates_.begin(), candidates_.end(),
                        [](const Candidate& c) { return !c.is_place; });
  // One whose value is not kept comes last: it may differ or not.
  for (uint8_t reg = kGprCount; reg < kOtherRegisters; ++reg) {
    if (!(e.reads >> reg & 1)) continue;
    candidates_.push_back({OfRegister(reg), RegisterText(reg), {}, {}});
    candidates_.back().location.focus = focus_;
  }
  // Where the allocator put things says least.
  std::stable_partition(candidates_.begin(), candidates_.end(),
                        [](const Candidate& c) { return !c.is_block; });
  return std::move(candidates_);
}

absl::StatusOr<std::optional<OriginFinder::Location>> OriginFinder::DifferingInput(
    const std::array<Step, 2>& at, const std::array<ThreadNo, 2>& thread, const Location* result,
    size_t steps, OriginStep* step, bool* placement) {
  *placement = false;
  InputSearch search(this, at, thread, result);
  ASSIGN_OR_RETURN(const bool is_same_instruction, search.Look(step));
  if (!is_same_instruction) return std::optional<Location>();
  std::vector<Candidate> candidates = search.Find();
  *placement = search.placement();
  if (candidates.empty()) return std::optional<Location>();
  candidates[0].Describe(step);
  for (size_t k = candidates.size(); k-- > 1;) {
    candidates[k].steps = steps + 1;
    candidates[k].is_place |= by_place_;
    auto& to = candidates[k].is_block ? last_alternatives_ : alternatives_;
    to.push_back(std::move(candidates[k]));
  }
  by_place_ |= candidates[0].is_place;
  return std::optional(std::move(candidates[0].location));
}

bool OriginFinder::InHeap(uint64_t a, Time time_a, uint64_t b, Time time_b) {
  uint64_t offset = 0;
  const auto in_a = sides_[0]->RegionOf(a, time_a, &offset);
  const auto in_b = sides_[1]->RegionOf(b, time_b, &offset);
  const auto is_heap = [](const std::optional<std::string>& region) {
    return region && (*region == "[heap]" || absl::StartsWith(*region, "memory "));
  };
  return a != b && is_heap(in_a) && is_heap(in_b);
}

}  // namespace ttq::diff
