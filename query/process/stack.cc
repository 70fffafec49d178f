// SPDX-License-Identifier: MIT

#include "query/process/stack.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/code/dwarf_expression.h"
#include "query/outcome.h"
#include "query/process/tail_calls.h"

namespace ttq {
namespace {

// Words of the stack that are looked at for a return address, and how many of those that could be
// one the store is asked about.
constexpr uint64_t kSearchBytes = 64 << 10;
constexpr int kSearchQuestions = 64;
// Returns to one address that are looked at to know whether a call is over.
constexpr int kReturnsLookedAt = 4096;
// Writes where a return address was overwritten that are looked at for the call that pushed it.
constexpr int kWritesLookedAt = 256;

// Whether `access` is a call's, of `thread`, that pushed the return address `back` at `slot`.
bool IsCall(const Access& access, ThreadNo thread, Address slot, Address back) {
  return access.actor == Actor::kInstruction && access.thread == thread && access.address == slot &&
         access.size == 8 && access.pc < back && back.v - access.pc.v <= 8;
}

}  // namespace

Gpr ArgumentRegister(int i) {
  static constexpr Gpr kOrder[] = {kRdi, kRsi, kRdx, kRcx, kR8, kR9};
  return kOrder[i];
}

const char* FrameKindName(Frame::Kind kind) {
  switch (kind) {
    case Frame::Kind::kNormal:
      return "normal";
    case Frame::Kind::kInlined:
      return "inlined";
    case Frame::Kind::kSignal:
      return "signal";
    case Frame::Kind::kJit:
      return "jit";
    case Frame::Kind::kTail:
      return "tail";
  }
  return "";
}

Unwinder::Unwinder(const ProcessNames& names)
    : names_(names), tail_calls_(std::make_unique<TailCalls>(names)) {}
Unwinder::~Unwinder() = default;

UnwindTable* Unwinder::TableOf(const Module& module) {
  const SymbolFile* file = module.file();
  if (file == nullptr) return nullptr;
  std::unique_ptr<UnwindTable>& table = tables_[file];
  if (!table) table = std::make_unique<UnwindTable>(file->elf(), file->debug_elf());
  return table.get();
}

absl::StatusOr<bool> Unwinder::UpByRow(Moment& moment, const UnwindRow& row, uint64_t bias,
                                       Frame* frame, Frame* caller, std::string* why_not) {
  const FrameRegisters& now = frame->registers;
  absl::Status failed;
  LocationInput input;
  input.bias = bias;
  input.register_value = [&](int reg) -> std::optional<uint64_t> {
    if (reg == kDwarfReturnAddress) return frame->pc.v;
    return reg < kDwarfReturnAddress ? now.Get(GprOfDwarf(reg)) : std::nullopt;
  };
  input.memory = [&](uint64_t address, uint32_t size) -> std::optional<uint64_t> {
    absl::StatusOr<std::optional<uint64_t>> value = moment.ReadNumber(Address(address), size);
    if (value.ok()) return *value;
    failed = value.status();
    return std::nullopt;
  };
  std::optional<uint64_t> cfa;
  if (!row.cfa_expression.empty()) {
    cfa = EvaluateNumber(row.cfa_expression, input);
  } else if (row.cfa_register < kDwarfReturnAddress) {
    cfa = now.Get(GprOfDwarf(static_cast<int>(row.cfa_register)));
    if (cfa) *cfa += static_cast<uint64_t>(row.cfa_offset);
  }
  if (!failed.ok()) return failed;
  if (!cfa) {
    *why_not = "the unwind information refers to registers that are not known";
    return false;
  }
  frame->cfa = Address(*cfa);
  frame->method = Frame::Method::kCallFrameInfo;
  std::optional<uint64_t> pc;
  for (int i = 0; i < kDwarfRegisters; ++i) {
    const UnwindRule& rule = row.rules[i];
    const bool is_pc = i == kDwarfReturnAddress;
    const Gpr reg = is_pc ? kRax : GprOfDwarf(i);
    std::optional<uint64_t> value;
    uint64_t at = 0;
    using Kind = UnwindRule::Kind;
    switch (rule.kind) {
      case Kind::kUnspecified:
        if (!is_pc && reg == kRsp) {
          value = *cfa;
        } else if (!is_pc && kPreservedByCalls >> reg & 1) {
          value = now.Get(reg);
          at = now.saved_at[reg];
        }
        break;
      case Kind::kUndefined:
        break;
      case Kind::kSameValue:
        value = is_pc ? std::optional<uint64_t>(frame->pc.v) : now.Get(reg);
        if (!is_pc) at = now.saved_at[reg];
        break;
      case Kind::kAtOffset:
        at = *cfa + static_cast<uint64_t>(rule.offset);
        value = input.memory(at, 8);
        break;
      case Kind::kOffset:
        value = *cfa + static_cast<uint64_t>(rule.offset);
        break;
      case Kind::kRegister:
        if (rule.offset >= 0 && rule.offset <= kDwarfReturnAddress) {
          value = input.register_value(static_cast<int>(rule.offset));
        }
        break;
      case Kind::kAtExpression:
        input.first = cfa;
        if (const auto address = EvaluateNumber(rule.expression, input)) {
          at = *address;
          value = input.memory(at, 8);
        }
        break;
      case Kind::kExpression:
        input.first = cfa;
        value = EvaluateNumber(rule.expression, input);
        break;
    }
    if (!failed.ok()) return failed;
    if (is_pc) {
      pc = value;
    } else if (value) {
      caller->registers.Set(reg, *value);
      caller->registers.saved_at[reg] = at;
    }
  }
  if (row.rules[kDwarfReturnAddress].kind == UnwindRule::Kind::kUndefined) return false;
  if (!pc) {
    *why_not = fmt::format("the stack is not readable at {:#x}", *cfa - 8);
    return false;
  }
  caller->pc = Address(*pc);
  return true;
}

// Whether a call instruction ends at `address`, in memory that is executable.
absl::StatusOr<bool> Unwinder::IsReturnAddress(Moment& moment, Address address) {
  if (mappings_time_ != moment.time()) {
    ASSIGN_OR_RETURN(std::vector<Mapping> mappings, names_.process().MappingsAt(moment.time()));
    executable_.clear();
    for (const Mapping& m : mappings) {
      if (m.protection & 4) executable_.push_back(m.range);
    }
    std::sort(executable_.begin(), executable_.end(),
              [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
    mappings_time_ = moment.time();
  }
  const auto it = std::upper_bound(executable_.begin(), executable_.end(), address,
                                   [](Address a, const AddressRange& r) { return a < r.begin; });
  if (it == executable_.begin() || !std::prev(it)->Contains(address - 1)) return false;
  uint8_t code[7] = {};
  const uint64_t before = std::min<uint64_t>(7, address.v - std::prev(it)->begin.v);
  ASSIGN_OR_RETURN(uint64_t read, moment.Read(address - before, before, code + (7 - before)));
  if (read < before) return false;
  if (before >= 5 && code[2] == 0xe8) return true;
  // call *…: FF /2, with its length by ModRM and SIB.
  for (int length = 2; length <= 7; ++length) {
    if (static_cast<uint64_t>(length) > before) break;
    const uint8_t* at = code + 7 - length;
    if (at[0] != 0xff || (at[1] >> 3 & 7) != 2) continue;
    const int mode = at[1] >> 6, base = at[1] & 7;
    int needs = 2;
    if (mode != 3) {
      if (base == 4) {
        ++needs;
        if (mode == 0 && length > 2 && (at[2] & 7) == 5) needs += 4;
      }
      if (mode == 0 && base == 5) needs += 4;
      if (mode == 1) needs += 1;
      if (mode == 2) needs += 4;
    }
    if (needs == length) return true;
  }
  return false;
}

// Makes `caller` what it was when it made the call that pushed `back` at `slot`; false: that call
// has returned.
absl::StatusOr<bool> Unwinder::UpToCall(const Moment& moment, const Access& call, Address slot,
                                        Address back, Frame* frame, Frame* caller) {
  // A return executes the return address with the word just popped.
  const Process& process = names_.process();
  ASSIGN_OR_RETURN(auto returns,
                   process.Executions({{back, back + 1}}, {call.time + 1, moment.time()},
                                      Direction::kForward, call.thread, nullptr));
  for (int n = 0; n < kReturnsLookedAt; ++n) {
    ASSIGN_OR_RETURN(std::optional<Execution> next, returns->Next());
    if (!next) break;
    ASSIGN_OR_RETURN(Registers then, process.RegistersAt(next->time, call.thread));
    if (then.gpr[kRsp] > slot.v) return false;
  }
  ASSIGN_OR_RETURN(Registers at_call, process.RegistersAt(call.time, call.thread));
  frame->cfa = slot + 8;
  frame->method = Frame::Method::kCallHistory;
  caller->registers = {};
  for (int r = 0; r < kGprCount; ++r) {
    if (kPreservedByCalls >> r & 1) caller->registers.Set(static_cast<Gpr>(r), at_call.gpr[r]);
  }
  caller->registers.Set(kRsp, slot.v + 8);
  caller->pc = back;
  return true;
}

absl::StatusOr<bool> Unwinder::UpByHistory(Moment& moment, ThreadNo thread, Frame* frame,
                                           Frame* caller) {
  const std::optional<uint64_t> rsp = frame->registers.Get(kRsp);
  if (!rsp) return false;
  std::vector<uint64_t> words(kSearchBytes / 8);
  ASSIGN_OR_RETURN(uint64_t read, moment.Read(Address(*rsp), kSearchBytes, words.data()));
  words.resize(read / 8);
  int questions = 0;
  for (size_t i = 0; i < words.size() && questions < kSearchQuestions; ++i) {
    const Address slot(*rsp + 8 * i), back(words[i]);
    ASSIGN_OR_RETURN(bool possible, IsReturnAddress(moment, back));
    if (!possible) continue;
    ++questions;
    AccessQuery query;
    query.ranges = {{slot, slot + 8}};
    query.span.end = moment.time();
    query.want_values = false;
    ASSIGN_OR_RETURN(std::optional<Access> last, LastAccess(names_.process(), std::move(query)));
    if (!last || !IsCall(*last, thread, slot, back)) continue;
    ASSIGN_OR_RETURN(const bool up, UpToCall(moment, *last, slot, back, frame, caller));
    if (up) return true;
  }
  return false;
}

// The call is the last one that pushed a return address where the frame's was. A frame that the
// program made by hand has none.
absl::Status Unwinder::UpByOverwrittenCall(Moment& moment, ThreadNo thread, Frame* frame,
                                           Frame* caller) {
  const Address slot = *frame->cfa - 8;
  AccessQuery query;
  query.ranges = {{slot, slot + 8}};
  query.span = {Time(0), moment.time()};
  query.direction = Direction::kBackward;
  ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Access>> writes,
                   names_.process().Accesses(std::move(query), nullptr));
  for (int n = 0; n < kWritesLookedAt; ++n) {
    ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
    if (!write) return absl::OkStatus();
    uint64_t back = 0;
    if (write->value.size() == sizeof back) memcpy(&back, write->value.data(), sizeof back);
    if (!IsCall(*write, thread, slot, Address(back))) continue;
    if (caller->pc.v == back) return absl::OkStatus();
    ASSIGN_OR_RETURN(const bool up, UpToCall(moment, *write, slot, Address(back), frame, caller));
    frame->overwritten = up;
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Unwinder::UpByFramePointer(Moment& moment, Frame* frame, Frame* caller) {
  const std::optional<uint64_t> rsp = frame->registers.Get(kRsp), rbp = frame->registers.Get(kRbp);
  if (!rsp || !rbp || *rbp < *rsp || *rbp % 8 != 0) return false;
  uint64_t saved[2];
  ASSIGN_OR_RETURN(uint64_t read, moment.Read(Address(*rbp), sizeof(saved), saved));
  if (read < sizeof(saved)) return false;
  absl::StatusOr<bool> possible = IsReturnAddress(moment, Address(saved[1]));
  if (!possible.ok() || !*possible) return possible;
  frame->cfa = Address(*rbp + 16);
  frame->method = Frame::Method::kFramePointer;
  caller->registers.Set(kRsp, *rbp + 16);
  caller->registers.Set(kRbp, saved[0]);
  caller->registers.saved_at[kRbp] = *rbp;
  caller->pc = Address(saved[1]);
  return true;
}

// Finds the frame's CFA and its caller. False, perhaps with a reason, when there is no caller.
absl::StatusOr<bool> Unwinder::Up(Moment& moment, ThreadNo thread, const Symbolizer& symbols,
                                  Frame* frame, Frame* caller, std::string* why_not) {
  const Module* module = symbols.ModuleAt(frame->lookup_pc);
  if (module != nullptr) {
    if (UnwindTable* table = TableOf(*module)) {
      const uint64_t bias = module->load_bias();
      if (const UnwindRow* row = table->Find(frame->lookup_pc.v - bias)) {
        if (row->signal_frame) frame->kind = Frame::Kind::kSignal;
        absl::StatusOr<bool> up = UpByRow(moment, *row, bias, frame, caller, why_not);
        if (!up.ok() || !*up || row->signal_frame || caller->pc.v == 0) return up;
        ASSIGN_OR_RETURN(const bool possible, IsReturnAddress(moment, caller->pc));
        if (!possible) RETURN_IF_ERROR(UpByOverwrittenCall(moment, thread, frame, caller));
        return true;
      }
    }
  }
  // Nothing called the first instruction of a program.
  if (symbols.Symbolize(frame->lookup_pc)->function == "_start") return false;
  // A stack that a program made by hand begins with an address that no call pushed.
  if (frame->lookup_pc != frame->pc) {
    absl::StatusOr<bool> called = IsReturnAddress(moment, frame->pc);
    if (!called.ok() || !*called) return called;
  }
  absl::StatusOr<bool> found = UpByHistory(moment, thread, frame, caller);
  if (found.ok() && !*found) found = UpByFramePointer(moment, frame, caller);
  if (found.ok() && !*found) {
    *why_not = fmt::format(
        "there is no unwind information for {:#x}, and no call that led there "
        "was found on the stack",
        frame->pc.v);
  }
  return found;
}

absl::Status Unwinder::Walk(Moment& moment, ThreadNo thread, bool past_main, std::string* note,
                            const UseFrame& use) {
  ASSIGN_OR_RETURN(Registers registers, moment.RegistersOf(thread));
  ASSIGN_OR_RETURN(const Symbolizer* symbols, names_.SymbolsAt(moment.time()));
  Frame frame;
  frame.pc = frame.lookup_pc = registers.pc;
  for (int r = 0; r < kGprCount; ++r) frame.registers.Set(static_cast<Gpr>(r), registers.gpr[r]);
  for (;;) {
    Frame caller;
    std::string why_not;
    ASSIGN_OR_RETURN(bool up, Up(moment, thread, *symbols, &frame, &caller, &why_not));
    const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(frame.lookup_pc);
    if (frame.kind != Frame::Kind::kSignal && location->module.empty()) {
      frame.kind = Frame::Kind::kJit;
    }
    if (!use(frame, *location)) return absl::OkStatus();
    if (!up) {
      *note = std::move(why_not);
      return absl::OkStatus();
    }
    const bool signal = frame.kind == Frame::Kind::kSignal;
    if (!past_main && !signal && !location->frames.empty() &&
        location->frames.back().symbol == "main" && location->source < NameSource::kStart) {
      return absl::OkStatus();
    }
    if (caller.pc.v == 0) return absl::OkStatus();  // how the first frame of a thread is marked
    if (frame.kind == Frame::Kind::kNormal && frame.cfa) {
      ASSIGN_OR_RETURN(
          std::vector<TailJump> jumps,
          tail_calls_->Between(moment, thread, frame.lookup_pc, *frame.cfa - 8, caller.pc));
      for (const TailJump& jump : jumps) {
        Frame tail;
        tail.kind = Frame::Kind::kTail;
        tail.is_gone = true;
        tail.pc = jump.next;
        tail.lookup_pc = jump.pc;
        tail.cfa = frame.cfa;
        if (!use(tail, *symbols->Symbolize(jump.pc))) return absl::OkStatus();
      }
    }
    const std::optional<uint64_t> now = frame.registers.Get(kRsp),
                                  next = caller.registers.Get(kRsp);
    if (!signal && now && next && *next <= *now) {
      *note = fmt::format("the stack is damaged: the caller's frame at {:#x} is not above {:#x}",
                          *next, *now);
      return absl::OkStatus();
    }
    // After a call the next instruction may belong to another function, or be in another line.
    caller.lookup_pc = signal ? caller.pc : caller.pc - 1;
    frame = std::move(caller);
  }
}

absl::StatusOr<std::optional<Time>> CalledAt(const Process& process, const Frame& frame,
                                             Time before) {
  if (!frame.cfa) return std::optional<Time>();
  AccessQuery query;
  query.ranges = {{*frame.cfa - 8, *frame.cfa}};
  query.span = {Time(0), before};
  query.direction = Direction::kBackward;
  ASSIGN_OR_RETURN(const std::optional<Access> push, LastAccess(process, std::move(query)));
  if (!push || push->actor != Actor::kInstruction) return std::optional<Time>();
  return std::optional<Time>(push->time);
}

bool IsEntry(const Symbolizer& symbols, const CodeLocation& location, Address pc) {
  // The cold part of a function has an offset of its own.
  if (location.offset_in_function != 0 || location.frames.empty()) return false;
  const std::optional<FunctionInfo> function = symbols.FunctionAt(pc);
  return function && function->entry == pc;
}

uint32_t InnermostAt(const Symbolizer& symbols, const CodeLocation& location, const Moment& moment,
                     Address pc, std::optional<uint32_t> asked) {
  const auto count = static_cast<uint32_t>(location.frames.size());
  if (asked && *asked < count) return *asked;
  const bool crashed = moment.process().info().crash == moment.time();
  return count > 1 && !crashed && IsEntry(symbols, location, pc) ? count - 1 : 0;
}

absl::StatusOr<Stack> Unwinder::StackOf(Moment& moment, std::optional<ThreadNo> thread,
                                        const StackOptions& options) {
  Stack stack;
  stack.time = moment.time();
  if (thread) {
    stack.thread = *thread;
  } else {
    ASSIGN_OR_RETURN(stack.thread, moment.RunningThread());
  }
  ASSIGN_OR_RETURN(const Symbolizer* symbols, names_.SymbolsAt(stack.time));
  const auto use = [&](Frame& frame, const CodeLocation& location) {
    if (stack.frames.size() >= options.max_frames) {
      stack.truncated = true;
      stack.note = fmt::format("only the innermost {} frames are given", stack.frames.size());
      return false;
    }
    frame.module = location.module;
    frame.at_entry = stack.frames.empty() && IsEntry(*symbols, location, frame.pc);
    if (frame.kind == Frame::Kind::kSignal) {
      frame.number = static_cast<uint32_t>(stack.frames.size());
      frame.function = "<signal handler called>";
      stack.frames.push_back(frame);
      return true;
    }
    if (location.frames.empty()) {
      frame.number = static_cast<uint32_t>(stack.frames.size());
      frame.file = location.file;
      frame.line = location.line;
      stack.frames.push_back(frame);
      return true;
    }
    const Frame::Kind kind = frame.kind;
    const size_t innermost =
        stack.frames.empty() ? InnermostAt(*symbols, location, moment, frame.pc, options.inlined)
                             : 0;
    for (size_t i = innermost; i < location.frames.size(); ++i) {
      const InlineFrame& inlined = location.frames[i];
      frame.number = static_cast<uint32_t>(stack.frames.size());
      frame.inlined = static_cast<uint32_t>(i);
      const bool is_copy = i + 1 < location.frames.size() && !frame.is_gone;
      frame.kind = is_copy ? Frame::Kind::kInlined : kind;
      frame.function = inlined.function;
      frame.symbol = inlined.symbol;
      frame.file = inlined.file;
      frame.line = inlined.line;
      stack.frames.push_back(frame);
    }
    return true;
  };
  RETURN_IF_ERROR(Walk(moment, stack.thread, options.past_main, &stack.note, use));
  return stack;
}

absl::StatusOr<int64_t> Unwinder::DepthOf(Moment& moment, ThreadNo thread,
                                          const std::string& function) {
  int64_t depth = 0;
  bool innermost = true;
  const auto use = [&](Frame&, const CodeLocation& location) {
    const auto& frames = location.frames;
    if (innermost) {
      innermost = false;
      size_t i = 0;
      while (i + 1 < frames.size() && frames[i].function != function) ++i;
      depth += frames.empty() ? 0 : static_cast<int64_t>(frames.size() - i) - 1;
    } else {
      depth += frames.empty() ? 1 : static_cast<int64_t>(frames.size());
    }
    return true;
  };
  std::string note;
  RETURN_IF_ERROR(Walk(moment, thread, /*past_main=*/false, &note, use));
  return depth;
}

absl::StatusOr<std::optional<std::string>> Unwinder::JumpedFrom(Moment& moment, ThreadNo thread,
                                                                Address entry,
                                                                Address return_address) {
  ASSIGN_OR_RETURN(Registers registers, moment.RegistersOf(thread));
  ASSIGN_OR_RETURN(
      std::vector<TailJump> jumps,
      tail_calls_->Between(moment, thread, entry, Address(registers.gpr[kRsp]), return_address));
  if (jumps.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const Symbolizer* symbols, names_.SymbolsAt(moment.time()));
  return symbols->Symbolize(jumps.front().pc)->function;
}

void Describe(const Stack& stack, Outcome* outcome) {
  if (!stack.note.empty()) {
    const std::string note =
        fmt::format("the stack of thread {} at {}: {}", stack.thread.v, stack.time.v, stack.note);
    if (stack.truncated) {
      outcome->MarkIncomplete(note);
    } else {
      outcome->AddNote(note);
    }
  }
  for (const Frame& frame : stack.frames) {
    if (frame.kind == Frame::Kind::kInlined || frame.is_gone) continue;
    if (frame.method == Frame::Method::kFramePointer) {
      outcome->MarkIncomplete(fmt::format(
          "where {:#x} has no unwind information its caller was guessed from the frame pointer",
          frame.pc.v));
    } else if (frame.overwritten) {
      outcome->AddNote(fmt::format(
          "the return address of {} at {:#x} was overwritten: who had called it was found in the "
          "recorded calls",
          frame.function.empty() ? fmt::format("{:#x}", frame.pc.v) : frame.function,
          frame.cfa->v - 8));
    } else if (frame.method == Frame::Method::kCallHistory) {
      outcome->AddNote(
          "callers of code without unwind information were found in the recorded calls");
    }
  }
}

}  // namespace ttq
