// SPDX-License-Identifier: MIT

#include "query/process/activation.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "query/code/instruction_effects.h"

namespace ttq {
namespace {

constexpr size_t kMaxSteps = 4'000'000;
// Instructions of the function around it that a copy which is traced may be left for: those that
// the compiler moved between, and where an exception lands before the copy's handler goes on.
constexpr uint32_t kMaxOutside = 64;
// A stack pointer further above a frame than this is of another stack.
constexpr uint64_t kMaxStack = 64 << 20;

using Flow = InstructionEffects::Flow;

struct Instruction {
  Address address;
  Address next;  // behind it
  Flow flow = Flow::kNone;
  bool conditional = false;
  Address store;  // what it writes to, where that is a constant; else 0
  std::shared_ptr<const CodeLocation> location;  // null: not looked up yet
};

// The code of a function that is traced. Without any, whatever is executed counts as its own.
struct Function {
  std::vector<AddressRange> ranges;
  bool Has(Address pc) const {
    return ranges.empty() || std::any_of(ranges.begin(), ranges.end(),
                                         [pc](const AddressRange& r) { return r.Contains(pc); });
  }
};

// An activation whose lines are followed: where it stands, as gdb keeps it of a thread that steps.
struct Level {
  uint32_t activation = 0;
  std::shared_ptr<const Function> function;
  bool is_inlined = false;
  std::string name;   // of an inlined one,
  int call_line = 0;  // and the line of its call
  uint32_t call = kNoIndex;
  std::vector<uint32_t> copies;  // the last call of each function inlined in it
  uint32_t last_step = kNoIndex;
  AddressRange range;
  int line = 0;
  std::string file;
  std::optional<uint64_t> stack_pointer;  // at its first instruction, once that was asked for
};

// A call that is active.
struct Active {
  std::optional<Address> return_address;  // nullopt: of a signal's handler
  size_t level = kNone;                   // of levels; kNone: its lines are not followed
  uint32_t call = kNoIndex;
  static constexpr size_t kNone = ~size_t{0};
};

class Tracer {
 public:
  Tracer(const ProcessNames& names, const ActivationStart& start, uint32_t depth,
         ScanControl* control)
      : names_(names), process_(names.process()), start_(start), depth_(depth), control_(control) {
    trace_.thread = start.thread;
  }

  absl::StatusOr<ActivationTrace> Trace() {
    RETURN_IF_ERROR(Begin());
    Time t = start_.time;
    while (!active_.empty() && !trace_.truncated) {
      if (control_ != nullptr && control_->cancelled) return absl::CancelledError("interrupted");
      ASSIGN_OR_RETURN(const auto runs, process_.RunsAround(t));
      if (runs->empty()) break;
      RETURN_IF_ERROR(Follow(*runs, t));
      const Time end = runs->back().time + runs->back().instructions;
      if (end <= t) break;
      t = end;
      if (t > process_.info().end) break;
    }
    Finish();
    return std::move(trace_);
  }

 private:
  absl::Status Begin() {
    ASSIGN_OR_RETURN(symbols_, names_.SymbolsAt(start_.time));
    ASSIGN_OR_RETURN(const Registers registers, process_.RegistersAt(start_.time, start_.thread));
    ASSIGN_OR_RETURN(const MemoryImage word,
                     process_.Memory(Address(registers.gpr[kRsp]), 8, start_.time));
    Active first;
    if (word.all_present()) {
      uint64_t address = 0;
      for (int i = 7; i >= 0; --i) address = address << 8 | static_cast<uint8_t>(word.bytes[i]);
      first.return_address = Address(address);
    }
    const std::shared_ptr<const CodeLocation> location = symbols_->Symbolize(registers.pc);
    const size_t frames = location->frames.size();
    outermost_inlined_ = start_.inlined && *start_.inlined + 1 < frames;
    if (outermost_inlined_) {
      // Nothing but the copy is followed: the function around it ends it.
      first.return_address = std::nullopt;
      base_frame_ = frames - 1 - *start_.inlined;
    }
    first.level = 0;
    active_.push_back(first);
    PushLevel(registers.pc, start_.time, *location,
              outermost_inlined_ ? *start_.inlined : (frames == 0 ? 0 : frames - 1), 0);
    return absl::OkStatus();
  }

  // What the thread executed from `from` on.
  absl::Status Follow(const std::vector<Run>& runs, Time from) {
    auto run = std::partition_point(runs.begin(), runs.end(),
                                    [from](const Run& r) { return r.time < from; });
    // The one that holds the first instruction.
    if (run != runs.begin() && std::prev(run)->time + std::prev(run)->instructions > from) --run;
    for (; run != runs.end(); ++run) {
      if (run->thread != start_.thread) continue;
      std::vector<Instruction>& code = CodeOf(run->code);
      const size_t count = std::min<size_t>(run->instructions, code.size());
      const size_t first = run->time < from ? from.v - run->time.v : 0;
      for (size_t i = first; i < count; ++i) {
        RETURN_IF_ERROR(Execute(&code[i], run->time + i));
        if (active_.empty() || trace_.truncated) return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  std::vector<Instruction>& CodeOf(SuperblockId id) {
    auto [it, is_new] = code_.try_emplace(id.v);
    if (is_new) {
      for (const CodeInstruction& c : process_.CodeOf(id)) {
        const InstructionEffects effects = effects_.Read(c.address, c.bytes, /*want_text=*/false);
        Address store;
        for (const MemoryOperand& m : effects.memory) {
          if (m.write && m.rip_relative && !m.unknown) {
            store = Address(static_cast<uint64_t>(m.displacement));
          }
        }
        it->second.push_back({c.address, c.address + c.bytes.size(), effects.flow,
                              effects.conditional, store, nullptr});
      }
    }
    return it->second;
  }

  const CodeLocation& LocationOf(Instruction* instruction) {
    if (!instruction->location) instruction->location = symbols_->Symbolize(instruction->address);
    return *instruction->location;
  }

  bool IsTraced() const { return active_.back().level != Active::kNone; }

  absl::Status Execute(Instruction* now, Time time) {
    if (previous_.address.v != 0 || time != start_.time) {
      RETURN_IF_ERROR(Arrive(now, time));
    }
    if (active_.empty()) return absl::OkStatus();
    if (IsTraced()) Line(now, time);
    if (active_.empty()) return absl::OkStatus();
    if (now->store.v != 0 && IsTraced() && !outside_since_ &&
        levels_.back().last_step != kNoIndex) {
      std::vector<Address>& stores = trace_.steps[levels_.back().last_step].stores;
      if (std::find(stores.begin(), stores.end(), now->store) == stores.end()) {
        stores.push_back(now->store);
      }
    }
    previous_ = {now->address, now->next, now->flow, now->conditional, Address(), nullptr};
    previous_location_ = IsTraced() ? now->location : nullptr;
    last_time_ = time;
    return absl::OkStatus();
  }

  // How the thread came to `now` from the instruction before.
  absl::Status Arrive(Instruction* now, Time time) {
    switch (previous_.flow) {
      case Flow::kCall:
        Call(now, time);
        return absl::OkStatus();
      case Flow::kReturn:
        if (active_.back().return_address == now->address) {
          Return(time);
          return absl::OkStatus();
        }
        return Land(now, time);
      case Flow::kBranch:
        if (IsTraced() && !CurrentFunction().Has(now->address)) {
          if (LocationOf(now).offset_in_function != 0) return Land(now, time);
          Jumped(now, time);
          return absl::OkStatus();
        }
        if (!IsTraced()) return LandIfFar(now, time);
        return absl::OkStatus();
      default:
        break;
    }
    if (now->address == previous_.next || now->address == previous_.address) {
      return absl::OkStatus();
    }
    return Discontinued(now, time);
  }

  const Function& CurrentFunction() const { return *levels_[active_.back().level].function; }

  void Call(Instruction* now, Time time) {
    Active call;
    call.return_address = previous_.next;
    if (IsTraced() && !outside_since_) {
      call.call = AddCall(now, time, /*jumped=*/false);
      const uint32_t depth = trace_.activations[levels_.back().activation].depth + 1;
      if (depth < depth_ && LocationOf(now).source != NameSource::kPlt) {
        const CodeLocation& location = LocationOf(now);
        call.level = levels_.size();
        active_.push_back(call);
        trace_.calls[call.call].activation = static_cast<uint32_t>(trace_.activations.size());
        PushLevel(now->address, time, location,
                  location.frames.empty() ? 0 : location.frames.size() - 1, depth);
        return;
      }
      resolving_ = LocationOf(now).source == NameSource::kPlt ? call.call : kNoIndex;
    }
    active_.push_back(call);
  }

  uint32_t AddCall(Instruction* now, Time time, bool jumped) {
    const CodeLocation& location = LocationOf(now);
    TracedCall call;
    call.time = time;
    call.entry = now->address;
    call.jumped = jumped;
    call.function =
        location.frames.empty() ? symbols_->NameOf(now->address) : location.frames.back().function;
    if (call.function.ends_with("@plt")) call.function.resize(call.function.size() - 4);
    const auto index = static_cast<uint32_t>(trace_.calls.size());
    trace_.calls.push_back(std::move(call));
    const uint32_t step = levels_.back().last_step;
    if (step != kNoIndex) trace_.steps[step].calls.push_back(index);
    return index;
  }

  void Return(Time time) {
    const Active left = active_.back();
    if (left.call != kNoIndex) trace_.calls[left.call].returned = time;
    if (left.level != Active::kNone) PopLevels(left.level, time, "returned");
    active_.pop_back();
    resolving_ = kNoIndex;
  }

  // The current function's end: it handed over to another.
  void Jumped(Instruction* now, Time time) {
    if (outside_since_ && active_.size() == 1) return EndAsked();
    Active& current = active_.back();
    const uint32_t index = AddCall(now, time, /*jumped=*/true);
    PopLevels(current.level, time, "tail call");
    current.level = Active::kNone;
    // Who called gets its result from the other.
    if (current.call == kNoIndex) {
      current.call = index;
    } else {
      also_returns_[current.call] = index;
    }
    resolving_ = LocationOf(now).source == NameSource::kPlt ? index : kNoIndex;
  }

  // A jump in code that is not followed.
  absl::Status LandIfFar(Instruction* now, Time time) {
    if (now->address == previous_.next || previous_.conditional) return absl::OkStatus();
    if (resolving_ != kNoIndex) Resolved(now, time);
    // Cheap to tell: nothing that is followed is there, and it is where functions begin.
    bool is_followed = false;
    for (const Active& a : active_) {
      is_followed =
          is_followed || (a.level != Active::kNone && levels_[a.level].function->Has(now->address));
    }
    const int64_t distance = static_cast<int64_t>(now->address.v - previous_.address.v);
    if (!is_followed && distance > -4096 && distance < 4096) return absl::OkStatus();
    if (LocationOf(now).offset_in_function == 0) return absl::OkStatus();
    const std::shared_ptr<const CodeLocation> from = symbols_->Symbolize(previous_.address);
    const CodeLocation& to = LocationOf(now);
    if (!from->frames.empty() && !to.frames.empty() &&
        from->frames.back().symbol == to.frames.back().symbol) {
      return absl::OkStatus();
    }
    return Land(now, time);
  }

  // Behind the linkage table: the function that is called.
  void Resolved(Instruction* now, Time time) {
    const CodeLocation& location = LocationOf(now);
    if (location.source == NameSource::kPlt) return;
    if (location.offset_in_function == 0 && !location.frames.empty() &&
        !location.function.starts_with("_dl_runtime_resolve")) {
      trace_.calls[resolving_].entry = now->address;
      trace_.calls[resolving_].time = time;
      trace_.calls[resolving_].function = location.frames.back().function;
    }
    resolving_ = kNoIndex;
  }

  // Neither by a call nor to where the last one goes back: an exception, longjmp, another stack.
  absl::Status Land(Instruction* now, Time time) {
    ASSIGN_OR_RETURN(const Registers registers, process_.RegistersAt(time, start_.thread));
    const uint64_t sp = registers.gpr[kRsp];
    for (size_t i = active_.size(); i-- > 0;) {
      if (active_[i].level == Active::kNone) {
        if (previous_.flow != Flow::kReturn || active_[i].return_address != now->address) continue;
        while (active_.size() > i + 1) Unwound(time);
        Return(time);
        return absl::OkStatus();
      }
      Level& level = levels_[active_[i].level];
      if (!level.stack_pointer) {
        const Time entered = trace_.activations[level.activation].entered;
        ASSIGN_OR_RETURN(const Registers then, process_.RegistersAt(entered, start_.thread));
        level.stack_pointer = then.gpr[kRsp];
      }
      if (sp <= *level.stack_pointer) {
        if (!level.function->Has(now->address) || level.function->ranges.empty()) {
          return absl::OkStatus();
        }
        while (active_.size() > i + 1) Unwound(time);
        return absl::OkStatus();
      }
      if (sp - *level.stack_pointer > kMaxStack) return absl::OkStatus();
      // Above its frame: it is left. To where it was to return, a return that was not matched.
      const bool returned = active_[i].return_address == now->address;
      while (active_.size() > i + 1) Unwound(time);
      if (returned) {
        Return(time);
        return absl::OkStatus();
      }
      Unwound(time);
    }
    return absl::OkStatus();
  }

  void Unwound(Time time) {
    if (outside_since_ && active_.size() == 1) return EndAsked();
    if (active_.back().level != Active::kNone) PopLevels(active_.back().level, time, "unwound");
    active_.pop_back();
  }

  // The kernel went on elsewhere: it delivers a signal, or its handler is done.
  absl::Status Discontinued(Instruction* now, Time time) {
    if (previous_.flow == Flow::kSyscall || !IsTraced()) {
      for (size_t i = active_.size(); i-- > 0;) {
        if (active_[i].return_address) continue;
        if (i == 0) break;
        // A handler is being left: to the activation below it.
        if (active_[i - 1].level == Active::kNone
                ? previous_.flow == Flow::kSyscall
                : levels_[active_[i - 1].level].function->Has(now->address)) {
          while (active_.size() > i) Unwound(time);
          return absl::OkStatus();
        }
      }
      if (!IsTraced()) return absl::OkStatus();
    }
    if (CurrentFunction().Has(now->address) && !CurrentFunction().ranges.empty()) {
      return absl::OkStatus();
    }
    Active handler;
    handler.call = AddCall(now, time, /*jumped=*/false);
    active_.push_back(handler);
    return absl::OkStatus();
  }

  // ---- Lines ----

  void PushLevel(Address pc, Time time, const CodeLocation& location, size_t frame,
                 uint32_t depth) {
    TracedActivation activation;
    activation.depth = depth;
    activation.entry = pc;
    activation.inlined = static_cast<uint32_t>(frame);
    activation.is_inlined = frame + 1 < location.frames.size();
    activation.entered = time;
    activation.function =
        frame < location.frames.size() ? location.frames[frame].function : symbols_->NameOf(pc);
    Level level;
    level.activation = static_cast<uint32_t>(trace_.activations.size());
    level.is_inlined = activation.is_inlined && !(outermost_inlined_ && levels_.empty());
    if (level.is_inlined) {
      level.name = activation.function;
      level.call_line = location.frames[frame + 1].line;
      level.function = levels_.back().function;
    } else {
      auto function = std::make_shared<Function>();
      if (const std::optional<FunctionInfo> info = symbols_->FunctionAt(pc)) {
        for (const CodeRange& r : info->ranges) {
          if (r.kind != CodeRange::Kind::kInlined) function->ranges.push_back(r.range);
        }
      }
      level.function = std::move(function);
    }
    trace_.activations.push_back(std::move(activation));
    levels_.push_back(std::move(level));
  }

  void PopLevels(size_t to, Time time, const char* ended) {
    while (levels_.size() > to) {
      const Level& level = levels_.back();
      TracedActivation& activation = trace_.activations[level.activation];
      activation.left = time;
      activation.ended = level.is_inlined ? "inlined" : ended;
      if (level.call != kNoIndex) trace_.calls[level.call].returned = time;
      if (level.last_step != kNoIndex) {
        TraceStep& step = trace_.steps[level.last_step];
        const std::string_view how = activation.ended;
        step.seen = how == "returned" || how == "tail call" || how == "inlined" ||
                    (how != "unwound" && !active_.empty() && active_.back().level != Active::kNone);
        step.end = last_time_;
        if (how == "signal" && process_.info().crash) step.end = *process_.info().crash;
        step.seen = step.seen && step.end > step.time;
      }
      levels_.pop_back();
    }
  }

  void Stop(Level* level, size_t frame, const std::string& file, int line, Address pc, Time time) {
    if (level->last_step != kNoIndex) {
      trace_.steps[level->last_step].end = time;
      trace_.steps[level->last_step].seen = true;
    }
    level->last_step = static_cast<uint32_t>(trace_.steps.size());
    TraceStep step;
    step.time = step.end = time;
    step.pc = pc;
    step.activation = level->activation;
    step.inlined = static_cast<uint32_t>(frame);
    step.line = line;
    step.file = file;
    trace_.steps.push_back(std::move(step));
    if (trace_.steps.size() >= kMaxSteps) trace_.truncated = true;
  }

  static void Refresh(Level* level, const CodeLocation& location) {
    level->range = location.step;
    level->line = location.step_line;
    level->file = location.step_file;
  }

  // An instruction of an activation that is followed.
  void Line(Instruction* now, Time time) {
    const size_t base = active_.back().level;
    const CodeLocation& location = LocationOf(now);
    const size_t frames = std::max<size_t>(location.frames.size(), 1);
    // Frames outside of the activation asked for.
    const size_t outside = base == 0 && outermost_inlined_ ? base_frame_ : 0;
    if (outside >= frames || (outside > 0 && !SameCopy(location, frames - 1 - outside))) {
      return Outside(time);
    }
    if (outside_since_) {
      if (location.frames[frames - 1 - outside].at_entry) return EndAsked();
      outside_since_.reset();
    }
    const size_t inner = frames - 1 - outside;  // inlined at pc, below the activation
    const uint32_t depth = trace_.activations[levels_[base].activation].depth;
    const size_t wanted = std::min<size_t>(inner, depth_ - 1 - depth);
    const auto frame_of = [&](size_t i) { return inner - i; };  // i: 0 for the activation itself
    size_t same = 0;
    while (same < wanted && base + 1 + same < levels_.size()) {
      const Level& level = levels_[base + 1 + same];
      const size_t frame = frame_of(same + 1);
      const bool begins = frame < location.begun && !PreviousIsIn(location, frame);
      if (begins || level.name != location.frames[frame].function ||
          level.call_line != location.frames[frame + 1].line) {
        break;
      }
      ++same;
    }
    PopLevels(base + 1 + same, time, "inlined");
    for (size_t i = same; i < wanted; ++i) {
      CallSite(location, frame_of(i), now->address, time);
      PushCopy(location, frame_of(i + 1), now->address, time, depth + static_cast<uint32_t>(i) + 1);
    }
    Level& level = levels_.back();
    if (inner > wanted) {
      // Inlined deeper than is followed.
      const size_t begun_at = inner >= location.begun ? inner - location.begun : 0;
      const bool begins = location.begun > 0 && begun_at <= wanted;
      if (begins) CallSite(location, frame_of(wanted), now->address, time);
      Copies(location, frame_of(wanted), now->address, time);
      return;
    }
    EndCopy(time);
    const int line = location.step_line;
    if (level.last_step == kNoIndex) {
      if (line != 0) Stop(&level, frame_of(wanted), location.step_file, line, now->address, time);
      Refresh(&level, location);
      return;
    }
    if (level.range.Contains(now->address) || line == 0) return;
    if (now->address == location.step.begin &&
        (line != level.line || location.step_file != level.file)) {
      if (!location.step_is_stmt) return;
      Stop(&level, frame_of(wanted), location.step_file, line, now->address, time);
    }
    Refresh(&level, location);
  }

  void PushCopy(const CodeLocation& location, size_t frame, Address pc, Time time, uint32_t depth) {
    const std::string& function = location.frames[frame].function;
    uint32_t call = location.frames[frame].at_entry ? kNoIndex : LastCopy(levels_.back(), function);
    const bool goes_on = call != kNoIndex && trace_.calls[call].activation != kNoIndex;
    if (!goes_on) call = AddCopy(&levels_.back(), function, pc, time);
    PushLevel(pc, time, location, frame, depth);
    Level& level = levels_.back();
    level.call = call;
    if (goes_on) {
      level.activation = trace_.calls[call].activation;
      trace_.activations.pop_back();
    } else {
      trace_.calls[call].activation = level.activation;
    }
  }

  // Not in the copy asked for. It may go on: see kMaxOutside.
  void Outside(Time time) {
    if (!outside_since_) {
      outside_since_ = time;
      last_inside_ = last_time_;
      outside_ = 0;
    }
    if (++outside_ > kMaxOutside) EndAsked();
  }
  void EndAsked() {
    last_time_ = last_inside_;
    PopLevels(0, *outside_since_, "inlined");
    outside_since_.reset();
    active_.clear();
  }

  // Whether the copy asked for is still what runs.
  bool SameCopy(const CodeLocation& location, size_t frame) const {
    return frame < location.frames.size() &&
           location.frames[frame].function == trace_.activations[0].function;
  }

  // Whether the instruction before was in the copy too, and it is not entered anew.
  bool PreviousIsIn(const CodeLocation& location, size_t frame) const {
    if (!previous_location_) return false;
    const size_t from_outside = location.frames.size() - frame;
    const auto& before = previous_location_->frames;
    if (before.size() < from_outside) return false;
    const size_t at = before.size() - from_outside;
    return before[at].function == location.frames[frame].function &&
           before[at + 1].line == location.frames[frame + 1].line;
  }

  // A copy begins: gdb stops at its call where that is on another line.
  void CallSite(const CodeLocation& location, size_t frame, Address pc, Time time) {
    Level& level = levels_.back();
    const int line = location.frames[frame].line;
    if (level.last_step != kNoIndex && level.line == line) return;
    Stop(&level, frame, location.frames[frame].file, line, pc, time);
    level.range = location.step;
    level.line = line;
    level.file = location.frames[frame].file;
  }

  // The calls of copies that are not followed: those that begin here.
  void Copies(const CodeLocation& location, size_t frame, Address pc, Time time) {
    Level& level = levels_.back();
    const std::string& function = location.frames[frame - 1].function;
    const bool begins = frame - 1 < location.begun && !PreviousIsIn(location, frame - 1);
    if (copy_ != kNoIndex && trace_.calls[copy_].function == function && !begins) return;
    EndCopy(time);
    copy_ = location.frames[frame - 1].at_entry ? kNoIndex : LastCopy(level, function);
    if (copy_ == kNoIndex) copy_ = AddCopy(&level, function, pc, time);
  }
  // The last call of an inlined function, which goes on where its code is not entered anew.
  uint32_t LastCopy(const Level& level, const std::string& function) const {
    for (const uint32_t call : level.copies) {
      if (trace_.calls[call].function == function) return call;
    }
    return kNoIndex;
  }
  uint32_t AddCopy(Level* level, const std::string& function, Address pc, Time time) {
    TracedCall call;
    call.time = time;
    call.entry = pc;
    call.inlined = true;
    call.function = function;
    const auto index = static_cast<uint32_t>(trace_.calls.size());
    trace_.calls.push_back(std::move(call));
    if (level->last_step != kNoIndex) trace_.steps[level->last_step].calls.push_back(index);
    std::erase_if(level->copies, [&](uint32_t c) { return trace_.calls[c].function == function; });
    level->copies.push_back(index);
    return index;
  }
  void EndCopy(Time time) {
    if (copy_ != kNoIndex) trace_.calls[copy_].returned = time;
    copy_ = kNoIndex;
  }

  void Finish() {
    if (outside_since_) EndAsked();
    const ProcessInfo& info = process_.info();
    const char* ended = "end";
    if (!trace_.truncated) {
      if (info.crash && last_time_ + 1 >= *info.crash) {
        ended = "signal";
      } else {
        for (const Thread& thread : process_.threads()) {
          if (thread.number == start_.thread && info.complete) ended = "exit";
        }
      }
    }
    PopLevels(0, last_time_ + 1, ended);
    for (const auto& [from, to] : also_returns_)
      trace_.calls[to].returned = trace_.calls[from].returned;
  }

  const ProcessNames& names_;
  const Process& process_;
  const ActivationStart start_;
  const uint32_t depth_;
  ScanControl* control_;
  const Symbolizer* symbols_ = nullptr;
  EffectsReader effects_;
  ActivationTrace trace_;
  absl::flat_hash_map<uint32_t, std::vector<Instruction>> code_;
  std::vector<Active> active_;  // outermost first
  std::vector<Level> levels_;   // those followed, each with the copies inlined in it that run
  Instruction previous_;
  std::shared_ptr<const CodeLocation> previous_location_;  // in code that is followed
  Time last_time_;
  uint32_t resolving_ = kNoIndex;  // a call that is in a linkage table
  uint32_t copy_ = kNoIndex;       // the call of a copy that is not followed and runs
  absl::flat_hash_map<uint32_t, uint32_t> also_returns_;
  bool outermost_inlined_ = false;  // the activation asked for is a copy,
  size_t base_frame_ = 0;           // so many frames are around it
  // That copy is not what runs, though its function is: since when, for how many instructions, and
  // the last of its own.
  std::optional<Time> outside_since_;
  uint32_t outside_ = 0;
  Time last_inside_;
};

}  // namespace

absl::StatusOr<ActivationTrace> TraceActivation(const ProcessNames& names,
                                                const ActivationStart& start, uint32_t depth,
                                                ScanControl* control) {
  return Tracer(names, start, depth, control).Trace();
}

}  // namespace ttq
