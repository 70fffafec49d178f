// SPDX-License-Identifier: MIT

#include "query/process/origin.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/byte_cursor.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/code/symbols.h"
#include "query/process/heap.h"
#include "query/process/stack.h"

namespace ttq {
namespace {

// A register that nobody has written for this many blocks is not searched for any longer.
constexpr int kMaxBlocks = 4000;
constexpr int64_t kSigreturn = 15;

std::optional<uint64_t> RegisterValue(const RegisterName& name, const Registers& registers) {
  switch (name.file) {
    case RegisterName::File::kNone:
      return 0;
    case RegisterName::File::kGeneral: {
      const uint64_t whole = registers.gpr[name.number] >> (8 * name.offset);
      return name.size >= 8 ? whole : whole & ((uint64_t{1} << (8 * name.size)) - 1);
    }
    case RegisterName::File::kFsBase:
      return registers.fs_base;
    case RegisterName::File::kGsBase:
      return registers.gs_base;
    default:
      return std::nullopt;
  }
}

absl::Span<const uint8_t> Bytes8(std::string_view bytes) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Makes sure that "the whole of it" is never more than what was recorded of it.
constexpr uint32_t kMaxBytes = 64;

}  // namespace

std::optional<Address> EffectiveAddress(const Operand& operand, const DecodedInstruction& decoded,
                                        const Registers& registers) {
  if (operand.kind != Operand::Kind::kMemory) return std::nullopt;
  uint64_t address = static_cast<uint64_t>(operand.displacement);
  if (operand.base.file == RegisterName::File::kInstructionPointer) {
    address += decoded.address.v + decoded.size;
  } else {
    const std::optional<uint64_t> base = RegisterValue(operand.base, registers);
    if (!base) return std::nullopt;
    address += *base;
  }
  const std::optional<uint64_t> index = RegisterValue(operand.index, registers);
  const std::optional<uint64_t> segment = RegisterValue(operand.segment, registers);
  if (!index || !segment) return std::nullopt;
  address += *index * operand.scale;
  // With an address-size prefix registers count modulo 2^32.
  if (operand.base.size == 4 || operand.index.size == 4) address &= 0xffffffff;
  return Address(address + *segment);
}

std::string OperandText(const Operand& operand, const DecodedInstruction& decoded,
                        const Registers& registers) {
  switch (operand.kind) {
    case Operand::Kind::kImmediate:
      return fmt::format("${:#x}", static_cast<uint64_t>(operand.immediate));
    case Operand::Kind::kRegister: {
      const std::optional<uint64_t> value = RegisterValue(operand.reg, registers);
      if (!value || operand.reg.file == RegisterName::File::kNone) return operand.reg.Text();
      return fmt::format("{} = {:#x}", operand.reg.Text(), *value);
    }
    case Operand::Kind::kMemory: {
      const std::optional<Address> at = EffectiveAddress(operand, decoded, registers);
      return at ? fmt::format("[{:#x}]", at->v) : "memory";
    }
  }
  return "";
}

std::string ValueText(std::string_view bytes) {
  if (bytes.empty()) return "";
  if (bytes.size() <= 8) return fmt::format("{:#x}", NumberOf(bytes));
  std::string out = "hex:";
  for (char c : bytes) out += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return out;
}

OriginTracer::OriginTracer(const ProcessNames& names, ScanControl* control)
    : names_(names),
      process_(names.process()),
      control_(control),
      disassembler_([this](Address a) { return symbols_ ? symbols_->NameOf(a) : std::string(); }) {}

absl::StatusOr<std::vector<Hop>> OriginTracer::Trace(ValueLocation place, uint32_t depth,
                                                     std::string* note) {
  std::vector<Hop> hops;
  for (uint32_t i = 0; i < depth; ++i) {
    Hop hop;
    ASSIGN_OR_RETURN(std::optional<ValueLocation> next, Step(place, &hop));
    // What a vector register held is what was copied out of it.
    if (hop.value.empty() && place.kind == ValueLocation::Kind::kVector && !hops.empty()) {
      hop.value = hops.back().value.substr(0, place.size);
    }
    hops.push_back(std::move(hop));
    if (!next) return hops;
    place = *next;
  }
  *note = fmt::format("after {} hops the value still was a copy; ask with a larger `depth`", depth);
  return hops;
}

absl::StatusOr<std::optional<ValueLocation>> OriginTracer::Step(const ValueLocation& place,
                                                                Hop* hop) {
  if (control_ != nullptr && control_->cancelled) return absl::CancelledError("interrupted");
  ASSIGN_OR_RETURN(symbols_, names_.SymbolsAt(place.before));
  ValueLocation part = place;
  part.size = std::min(part.size, kMaxBytes);
  return part.kind == ValueLocation::Kind::kMemory ? MemoryStep(part, hop)
                                                   : RegisterStep(part, hop);
}

void OriginTracer::EndTrace(Hop* hop, std::string kind, std::string from) {
  hop->kind = std::move(kind);
  hop->from = std::move(from);
}

std::string OriginTracer::TextOf(const ValueLocation& place, Time t) {
  switch (place.kind) {
    case ValueLocation::Kind::kGeneral: {
      const bool part = place.offset == 1 && place.size == 1 && place.number < 4;
      const bool whole = place.offset == 0 &&
                         (place.size == 8 || place.size == 4 || place.size == 2 || place.size == 1);
      const RegisterName name{RegisterName::File::kGeneral, place.number,
                              static_cast<uint8_t>(part ? 1 : 0),
                              static_cast<uint8_t>(part || whole ? place.size : 8)};
      if (part || whole) return name.Text();
      return fmt::format("{} bytes {}..{}", name.Text(), place.offset, place.offset + place.size);
    }
    case ValueLocation::Kind::kVector: {
      const bool wide = place.offset + place.size > 16;
      const RegisterName name{RegisterName::File::kVector, place.number, 0,
                              static_cast<uint8_t>(wide ? 32 : 16)};
      if (place.offset == 0 && place.size == (wide ? 32 : 16)) return name.Text();
      return fmt::format("{} bytes {}..{}", name.Text(), place.offset, place.offset + place.size);
    }
    case ValueLocation::Kind::kMemory:
      break;
  }
  std::string text = fmt::format("{:#x}+{}", place.address.v, place.size);
  absl::StatusOr<const Symbolizer*> symbols = names_.SymbolsAt(t);
  if (!symbols.ok()) return text;
  if (const std::optional<VariableInfo> variable = (*symbols)->VariableAt(place.address)) {
    const uint64_t offset = place.address.v - variable->address.v;
    text += fmt::format(" ({}{})", variable->name, offset == 0 ? "" : fmt::format("+{}", offset));
  }
  return text;
}

absl::StatusOr<std::string> OriginTracer::BytesOf(const ValueLocation& place) {
  switch (place.kind) {
    case ValueLocation::Kind::kMemory: {
      ASSIGN_OR_RETURN(
          MemoryImage image,
          process_.Memory(place.address, place.size, std::min(place.before, process_.info().end)));
      return image.all_present() ? image.bytes : std::string();
    }
    case ValueLocation::Kind::kGeneral: {
      absl::StatusOr<Registers> registers = process_.RegistersAt(place.before, place.thread);
      if (absl::IsNotFound(registers.status())) return std::string();
      if (!registers.ok()) return registers.status();
      char bytes[8];
      memcpy(bytes, &registers->gpr[place.number], 8);
      if (place.offset >= 8) return std::string();
      return std::string(bytes + place.offset, std::min<size_t>(place.size, 8 - place.offset));
    }
    case ValueLocation::Kind::kVector:
      break;
  }
  return std::string();
}

// ---- Code that was executed ---------------------------------------------------------------------

const OriginTracer::Code& OriginTracer::CodeOf(SuperblockId id) {
  std::unique_ptr<Code>& code = code_[id.v];
  if (code) return *code;
  code = std::make_unique<Code>();
  code->instructions = process_.CodeOf(id);
  for (const CodeInstruction& i : code->instructions) {
    const std::optional<DecodedInstruction> decoded =
        disassembler_.Decode(Bytes8(i.bytes), i.address);
    uint32_t general = i.writes;
    // What the kernel sets on return.
    if (decoded && decoded->operation == Operation::kSystemCall) {
      general |= 1u << kRax | 1u << kRcx | 1u << kR11;
    }
    code->general.push_back(general);
    code->vectors.push_back(decoded ? decoded->vectors_written : 0);
    code->all_general |= general;
    code->all_vectors |= code->vectors.back();
  }
  return *code;
}

absl::StatusOr<std::optional<OriginTracer::Instruction>> OriginTracer::LastWriter(
    const ValueLocation& place, Time before) {
  const bool general = place.kind == ValueLocation::Kind::kGeneral;
  const uint32_t bit = 1u << place.number;
  Time at = before.v == 0 ? before : before - 1;
  for (int blocks = 0; blocks < kMaxBlocks && before.v > 0; ++blocks) {
    if (control_ != nullptr && control_->cancelled) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Run>> runs, process_.RunsAround(at));
    const std::vector<Run>& all = *runs;
    auto run =
        std::partition_point(all.begin(), all.end(), [&](const Run& r) { return r.time < before; });
    while (run != all.begin()) {
      --run;
      if (run->thread != place.thread) continue;
      const Code& code = CodeOf(run->code);
      if (((general ? code.all_general : code.all_vectors) & bit) == 0) continue;
      uint64_t count = std::min<uint64_t>(run->instructions, before.v - run->time.v);
      count = std::min<uint64_t>(count, code.instructions.size());
      for (uint64_t i = count; i-- > 0;) {
        if (((general ? code.general[i] : code.vectors[i]) & bit) == 0) continue;
        return std::optional<Instruction>(
            Instruction{run->time + i, code.instructions[i].address, code.instructions[i].bytes});
      }
    }
    // A block without instructions of its own ends the search as the start does.
    const Time first = all.empty() ? Time(0) : all.front().time;
    if (first.v == 0) break;
    at = first - 1;
  }
  return std::optional<Instruction>();
}

absl::StatusOr<std::optional<OriginTracer::Instruction>> OriginTracer::InstructionAt(Time t) {
  ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Run>> runs, process_.RunsAround(t));
  const std::vector<Run>& all = *runs;
  auto run =
      std::partition_point(all.begin(), all.end(), [&](const Run& r) { return r.time <= t; });
  if (run == all.begin()) return std::optional<Instruction>();
  --run;
  const Code& code = CodeOf(run->code);
  const uint64_t i = t.v - run->time.v;
  if (i >= run->instructions || i >= code.instructions.size()) return std::optional<Instruction>();
  return std::optional<Instruction>(
      Instruction{t, code.instructions[i].address, code.instructions[i].bytes});
}

absl::StatusOr<std::optional<OriginTracer::Instruction>> OriginTracer::InstructionBefore(
    ThreadNo thread, Time t) {
  Time at = t.v == 0 ? t : t - 1;
  for (int blocks = 0; blocks < kMaxBlocks && at.v > 0; ++blocks) {
    ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Run>> runs, process_.RunsAround(at));
    const std::vector<Run>& all = *runs;
    auto run =
        std::partition_point(all.begin(), all.end(), [&](const Run& r) { return r.time < t; });
    while (run != all.begin()) {
      --run;
      if (run->thread != thread) continue;
      return InstructionAt(std::min(run->time + run->instructions, t) - 1);
    }
    const Time first = all.empty() ? Time(0) : all.front().time;
    at = first.v == 0 ? first : first - 1;
  }
  return std::optional<Instruction>();
}

// When the thread goes on after instruction `after`, within the same block of the store.
absl::StatusOr<std::optional<Time>> OriginTracer::NextOf(ThreadNo thread, Time after) {
  ASSIGN_OR_RETURN(std::shared_ptr<const std::vector<Run>> runs, process_.RunsAround(after));
  const std::vector<Run>& all = *runs;
  auto run = std::partition_point(
      all.begin(), all.end(), [&](const Run& r) { return r.time + r.instructions <= after + 1; });
  for (; run != all.end(); ++run) {
    if (run->thread == thread) return std::optional<Time>(std::max(run->time, after + 1));
  }
  return std::optional<Time>();
}

// The instruction that left the place as it is. Code is searched backwards for it; where the kernel
// changed the register since (a signal was delivered, a handler returned) the register's value
// right after that instruction is another one, and says so.
absl::StatusOr<OriginTracer::Setter> OriginTracer::FindSetter(const ValueLocation& place) {
  ASSIGN_OR_RETURN(std::string value, BytesOf(place));
  Time before = place.before;
  for (int tries = 0; tries < 64; ++tries) {
    ASSIGN_OR_RETURN(std::optional<Instruction> writer, LastWriter(place, before));
    Setter setter;
    if (writer) {
      setter.kind = Setter::Kind::kInstruction;
      setter.instruction = *writer;
    } else {
      setter.kind = Setter::Kind::kThreadStart;
    }
    if (place.kind == ValueLocation::Kind::kVector) return setter;
    if (writer) {
      ASSIGN_OR_RETURN(std::optional<Time> next, NextOf(place.thread, writer->time));
      if (!next || *next > place.before) return setter;
      ValueLocation then = place;
      then.before = *next;
      ASSIGN_OR_RETURN(std::string value_then, BytesOf(then));
      if (value_then == value) return setter;
    }
    // The kernel's doing: what happened last between the two?
    const Time since = writer ? writer->time : Time(0);
    const auto last_event = [&](EventKind kind, int64_t number,
                                Time until) -> absl::StatusOr<std::optional<Event>> {
      EventQuery query;
      query.span = {since, until + 1};
      query.kind = kind;
      query.thread = place.thread;
      query.direction = Direction::kBackward;
      ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Event>> cursor, process_.Events(query));
      for (;;) {
        absl::StatusOr<std::optional<Event>> event = cursor->Next();
        if (!event.ok() || !*event) return event;
        if (number < 0 || (*event)->number == number) return event;
      }
    };
    ASSIGN_OR_RETURN(std::optional<Event> returned,
                     last_event(EventKind::kSyscall, kSigreturn, before));
    ASSIGN_OR_RETURN(std::optional<Event> signal,
                     last_event(EventKind::kSignal, -1, returned ? returned->time : before));
    if (returned && signal && signal->time < before) {
      // A handler ran in between; the register is what it was when the signal came.
      before = signal->time;
      continue;
    }
    if (signal) {
      setter.kind = Setter::Kind::kSignal;
      setter.instruction = {signal->time, signal->pc, {}};
      return setter;
    }
    if (writer) setter.kind = Setter::Kind::kUnknown;
    return setter;
  }
  return Setter{};
}

// ---- Hops ---------------------------------------------------------------------------------------

absl::StatusOr<std::optional<ValueLocation>> OriginTracer::MemoryStep(ValueLocation place,
                                                                      Hop* hop) {
  const auto describe = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::string value, BytesOf(place));
    hop->place = TextOf(place, place.before);
    hop->value = std::move(value);
    hop->address = place.address;
    return absl::OkStatus();
  };
  AccessQuery query;
  query.ranges = {{place.address, place.address + place.size}};
  // The kernel's writes at this time come before the instruction.
  query.span = {Time(0), place.before == kTimeMax ? kTimeMax : place.before + 1};
  query.direction = Direction::kBackward;
  query.want_values = false;
  ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Access>> cursor, process_.Accesses(query, control_));
  std::optional<Access> write;
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<Access> next, cursor->Next());
    if (!next) break;
    if (next->time == place.before && next->actor == Actor::kInstruction) continue;
    write = *next;
    break;
  }
  if (!write) {
    RETURN_IF_ERROR(describe());
    ASSIGN_OR_RETURN(std::vector<Mapping> maps, process_.MappingsAt(place.before));
    for (const Mapping& map : maps) {
      if (!map.range.Contains(place.address)) continue;
      hop->time = map.since;
      hop->thread = place.thread;
      if (map.path.empty() || (map.path[0] == '[' && map.path != "[stack]")) {
        EndTrace(hop, "zero", fmt::format("fresh memory, mapped at {}", map.since.v));
      } else if (map.path[0] == '[') {
        EndTrace(hop, "start", "what the program was started with");
      } else {
        EndTrace(hop, "file",
                 fmt::format("{} offset {:#x}", map.path,
                             place.address.v - map.range.begin.v + map.file_offset));
      }
      return std::optional<ValueLocation>();
    }
    EndTrace(hop, "unknown", process_.DescribeUnmapped(place.address, place.before));
    return std::optional<ValueLocation>();
  }
  // The part of the place that this write made.
  const uint64_t begin = std::max(place.address.v, write->address.v);
  const uint64_t end = std::min(place.address.v + place.size, write->address.v + write->size);
  place.address = Address(begin);
  place.size = static_cast<uint32_t>(end - begin);
  RETURN_IF_ERROR(describe());
  hop->time = write->time;
  hop->thread = write->thread;
  hop->pc = write->pc;
  switch (write->actor) {
    case Actor::kInstruction:
      break;
    case Actor::kSyscall: {
      EventQuery events;
      events.span = {write->time.v == 0 ? Time(0) : write->time - 1, write->time + 1};
      events.kind = EventKind::kSyscall;
      events.thread = write->thread;
      events.direction = Direction::kBackward;
      std::string detail = SyscallName(write->syscall);
      if (auto found = process_.Events(events); found.ok()) {
        if (auto event = (*found)->Next(); event.ok() && *event) {
          if ((*event)->number == write->syscall) detail = (*event)->detail;
        }
      }
      EndTrace(hop, "syscall", detail);
      return std::optional<ValueLocation>();
    }
    case Actor::kSignal:
      EndTrace(hop, "signal", "the frame of a signal handler, made by the kernel");
      return std::optional<ValueLocation>();
    case Actor::kMap:
      EndTrace(hop, "map", "a mapping laid over it");
      return std::optional<ValueLocation>();
    case Actor::kThreadExit:
      EndTrace(hop, "constant", "$0x0, cleared by the kernel when the thread ended");
      return std::optional<ValueLocation>();
  }
  ASSIGN_OR_RETURN(std::optional<Instruction> instruction, InstructionAt(write->time));
  if (!instruction) {
    EndTrace(hop, "unknown", "the instruction's bytes are not known");
    return std::optional<ValueLocation>();
  }
  place.before = write->time;
  place.thread = write->thread;
  const std::string_view bytes = instruction->bytes;
  hop->instruction = disassembler_.Disassemble(Bytes8(bytes), write->pc, 1)[0].text;
  const std::optional<DecodedInstruction> decoded =
      disassembler_.Decode(Bytes8(bytes), instruction->pc);
  ASSIGN_OR_RETURN(Registers registers, process_.RegistersAt(write->time, write->thread));
  if (!decoded) {
    EndTrace(hop, "computation", "an instruction that is not understood");
    return std::optional<ValueLocation>();
  }
  // Bytes are counted from the start of the store.
  place.offset = static_cast<uint32_t>(begin - write->address.v);
  return FromInstruction(place, *decoded, registers, hop);
}

absl::StatusOr<std::optional<ValueLocation>> OriginTracer::RegisterStep(ValueLocation place,
                                                                        Hop* hop) {
  absl::StatusOr<std::string> value = BytesOf(place);
  if (!value.ok()) return value.status();
  hop->value = *std::move(value);
  hop->place = TextOf(place, place.before);
  hop->thread = place.thread;
  for (int tries = 0; tries < 1000; ++tries) {
    ASSIGN_OR_RETURN(Setter setter, FindSetter(place));
    const Instruction& instruction = setter.instruction;
    hop->time = instruction.time;
    hop->pc = instruction.pc;
    switch (setter.kind) {
      case Setter::Kind::kThreadStart:
        EndTrace(hop, "start",
                 place.thread.v == 1 ? "as the program started"
                                     : "as its parent left it when the thread started");
        return std::optional<ValueLocation>();
      case Setter::Kind::kSignal:
        EndTrace(hop, "signal", "set by the kernel for a signal handler");
        return std::optional<ValueLocation>();
      case Setter::Kind::kUnknown:
        EndTrace(hop, "unknown", "the kernel changed it after this");
        return std::optional<ValueLocation>();
      case Setter::Kind::kInstruction:
        break;
    }
    hop->instruction =
        disassembler_.Disassemble(Bytes8(instruction.bytes), instruction.pc, 1)[0].text;
    const std::optional<DecodedInstruction> decoded =
        disassembler_.Decode(Bytes8(instruction.bytes), instruction.pc);
    if (!decoded) {
      EndTrace(hop, "computation", "an instruction that is not understood");
      return std::optional<ValueLocation>();
    }
    ASSIGN_OR_RETURN(Registers registers, process_.RegistersAt(instruction.time, place.thread));
    // It may have left these bytes alone: the rest of the register, or a move whose condition did
    // not hold.
    bool kept = false;
    const bool is_first = !decoded->operands.empty() &&
                          decoded->operands[0].kind == Operand::Kind::kRegister &&
                          decoded->operands[0].reg.number == place.number;
    if (is_first &&
        (decoded->operation == Operation::kMove || decoded->operation == Operation::kCompute)) {
      const ByteSource source = Disassembler::SourceOf(*decoded, place.offset, place.size);
      kept = source.kind == ByteSource::Kind::kKept;
      // The rest it has made.
      if (kept) place.size = source.size;
    }
    if (decoded->operation == Operation::kConditionalMove && decoded->operands.size() == 2 &&
        place.kind == ValueLocation::Kind::kGeneral) {
      const Operand& source = decoded->operands[1];
      ASSIGN_OR_RETURN(std::optional<uint64_t> n,
                       ValueOf(source, *decoded, registers, instruction.time));
      std::string taken;
      if (n) taken.assign(reinterpret_cast<const char*>(&*n), 8);
      kept = place.offset + place.size <= 8 && taken.size() == 8 &&
             taken.substr(place.offset, place.size) != hop->value;
    }
    if (is_first && Disassembler::AddsOrSubtracts(*decoded)) {
      ASSIGN_OR_RETURN(const std::optional<uint64_t> added,
                       ValueOf(decoded->operands[1], *decoded, registers, instruction.time));
      kept = kept || (added == uint64_t{0} && decoded->operands[0].size == 8);
    }
    if (decoded->operation == Operation::kCompareExchange && decoded->operands.size() == 2 &&
        place.kind == ValueLocation::Kind::kGeneral && place.number == kRax) {
      // It sets %rax only where it finds another value than that.
      const Operand& found = decoded->operands[0];
      ASSIGN_OR_RETURN(std::optional<uint64_t> value,
                       ValueOf(found, *decoded, registers, instruction.time));
      const uint64_t unused = 64 - 8 * std::clamp<uint64_t>(found.size, 1, 8);
      kept = value && (*value ^ registers.gpr[kRax]) << unused == 0;
    }
    if (kept) {
      place.before = instruction.time;
      continue;
    }
    place.before = instruction.time;
    ASSIGN_OR_RETURN(std::optional<std::string> allocation,
                     AllocationAround(place, instruction.time, instruction.pc, hop));
    if (allocation) {
      EndTrace(hop, "allocation", *allocation);
      return std::optional<ValueLocation>();
    }
    return FromInstruction(place, *decoded, registers, hop);
  }
  EndTrace(hop, "unknown", "not found within 1000 instructions that keep it");
  return std::optional<ValueLocation>();
}

absl::StatusOr<std::optional<uint64_t>> OriginTracer::ValueOf(const Operand& operand,
                                                              const DecodedInstruction& decoded,
                                                              const Registers& registers, Time t) {
  if (operand.kind == Operand::Kind::kRegister) return RegisterValue(operand.reg, registers);
  const std::optional<Address> at = EffectiveAddress(operand, decoded, registers);
  if (!at) return std::nullopt;
  ASSIGN_OR_RETURN(MemoryImage image, process_.Memory(*at, std::min<uint32_t>(operand.size, 8), t));
  if (!image.all_present()) return std::nullopt;
  return NumberOf(image.bytes);
}

absl::StatusOr<std::optional<ValueLocation>> OriginTracer::FromMemory(const ValueLocation& place,
                                                                      Address address, Hop* hop) {
  ValueLocation next;
  next.kind = ValueLocation::Kind::kMemory;
  next.address = address;
  next.size = place.size;
  next.thread = place.thread;
  next.before = place.before;
  next.is_pointer = place.is_pointer;
  hop->kind = "memory";
  hop->from = TextOf(next, place.before);
  return std::optional<ValueLocation>(next);
}

absl::StatusOr<std::optional<ValueLocation>> OriginTracer::FromOperand(
    const ValueLocation& place, const DecodedInstruction& decoded, size_t operand, uint32_t offset,
    const Registers& registers, Hop* hop) {
  const Operand& source = decoded.operands[operand];
  switch (source.kind) {
    case Operand::Kind::kImmediate:
      EndTrace(hop, "constant", fmt::format("${:#x}", static_cast<uint64_t>(source.immediate)));
      return std::optional<ValueLocation>();
    case Operand::Kind::kMemory: {
      const std::optional<Address> address = EffectiveAddress(source, decoded, registers);
      if (!address) {
        EndTrace(hop, "unknown", "memory at an address that is not known");
        return std::optional<ValueLocation>();
      }
      return FromMemory(place, *address + offset, hop);
    }
    case Operand::Kind::kRegister:
      break;
  }
  ValueLocation next = place;
  next.address = Address(0);
  next.number = source.reg.number;
  next.offset = offset + source.reg.offset;
  switch (source.reg.file) {
    case RegisterName::File::kGeneral:
      next.kind = ValueLocation::Kind::kGeneral;
      break;
    case RegisterName::File::kVector:
      next.kind = ValueLocation::Kind::kVector;
      break;
    default:
      EndTrace(hop, "computation", "a register whose history is not kept: " + source.reg.Text());
      return std::optional<ValueLocation>();
  }
  hop->kind = "register";
  hop->from = TextOf(next, place.before);
  return std::optional<ValueLocation>(next);
}

// What a computation was made from: "%rax = 0x2, $0x3".
std::string InputsText(const DecodedInstruction& decoded, const Registers& registers) {
  std::string inputs;
  const auto add = [&](const std::string& input) {
    inputs += (inputs.empty() ? "" : ", ") + input;
  };
  for (const Operand& operand : decoded.operands) {
    if (operand.written && !operand.read) continue;
    if (decoded.operation != Operation::kLoadAddress) {
      add(OperandText(operand, decoded, registers));
      continue;
    }
    for (const RegisterName& name : {operand.base, operand.index}) {
      const std::optional<uint64_t> value = RegisterValue(name, registers);
      if (!value || name.file == RegisterName::File::kNone) continue;
      add(fmt::format("{} = {:#x}", name.Text(), *value));
    }
  }
  for (const RegisterName& name : decoded.implied) {
    add(fmt::format("{} = {:#x}", name.Text(), *RegisterValue(name, registers)));
  }
  return inputs.empty() ? "nothing but the instruction itself" : inputs;
}

// Which operand the place is; their number: none.
size_t OperandThatIs(const ValueLocation& place, const std::vector<Operand>& operands) {
  const bool is_memory = place.kind == ValueLocation::Kind::kMemory;
  const auto file = place.kind == ValueLocation::Kind::kGeneral ? RegisterName::File::kGeneral
                                                                : RegisterName::File::kVector;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    if (is_memory ? o.kind == Operand::Kind::kMemory
                  : o.kind == Operand::Kind::kRegister && o.reg.file == file &&
                        o.reg.number == place.number) {
      return i;
    }
  }
  return operands.size();
}

absl::StatusOr<std::optional<ValueLocation>> OriginTracer::FromAddress(
    const ValueLocation& place, const DecodedInstruction& decoded, bool is_destination,
    const Registers& registers, Hop* hop) {
  const std::vector<Operand>& operands = decoded.operands;
  const Operand& m = operands.back();
  const bool one =
      m.base.file == RegisterName::File::kGeneral && m.index.file == RegisterName::File::kNone;
  if (m.base.file == RegisterName::File::kInstructionPointer ||
      (m.base.file == RegisterName::File::kNone && m.index.file == RegisterName::File::kNone)) {
    const std::optional<Address> address = EffectiveAddress(m, decoded, registers);
    const std::string name = symbols_ && address ? symbols_->NameOf(*address) : "";
    std::string text = address ? fmt::format("${:#x}", address->v) : "a constant";
    std::optional<VariableInfo> variable;
    if (symbols_ && address) variable = symbols_->VariableAt(*address);
    if (variable) {
      text += fmt::format(" (&{})", variable->name);
    } else if (!name.empty()) {
      text += fmt::format(" ({})", name);
    }
    EndTrace(hop, "constant", text);
    return std::optional<ValueLocation>();
  }
  const uint32_t copied = std::min(m.base.size, operands.front().size);
  if (one && m.displacement == 0 && is_destination && place.offset < copied) {
    Operand base;
    base.reg = m.base;
    ValueLocation part = place;
    part.size = std::min(place.size, copied - place.offset);
    DecodedInstruction move = decoded;
    move.operands = {operands.front(), base};
    return FromOperand(part, move, 1, place.offset, registers, hop);
  }
  // An address some bytes away from another, or an element's: the origin of the other, or of
  // the index, is what is wanted.
  constexpr uint64_t kNullPage = 4096;
  const bool only_index = m.base.file == RegisterName::File::kNone && m.index.size == 8;
  const bool of_null = place.is_pointer && m.base.file == RegisterName::File::kGeneral &&
                       m.index.file == RegisterName::File::kGeneral && m.index.size == 8 &&
                       registers.gpr[m.base.number] < kNullPage;
  const bool followed = (one && copied == 8) || only_index || of_null;
  if (followed && operands.front().size == 8 && place.size == 8) {
    const RegisterName& from = only_index ? m.index : m.base;
    ValueLocation next = place;
    next.kind = ValueLocation::Kind::kGeneral;
    next.number = from.number;
    next.offset = 0;
    hop->kind = "address";
    hop->from = from.Text();
    if (only_index) hop->from += fmt::format(" * {}", m.scale);
    if (of_null) hop->from += fmt::format(" + {} * {}", m.index.Text(), m.scale);
    if (m.displacement != 0) {
      const uint64_t distance = static_cast<uint64_t>(m.displacement);
      hop->from += m.displacement < 0 ? fmt::format(" - {:#x}", -distance)
                                      : fmt::format(" + {:#x}", distance);
    }
    return std::optional<ValueLocation>(next);
  }
  EndTrace(hop, "computation", InputsText(decoded, registers));
  return std::optional<ValueLocation>();
}

void OriginTracer::EndInSystemCall(const ValueLocation& place, Hop* hop) {
  if (place.kind == ValueLocation::Kind::kGeneral && place.number != kRax) {
    EndTrace(hop, "syscall", "overwritten by the system call");
    return;
  }
  EventQuery query;
  query.kind = EventKind::kSyscall;
  query.span = {hop->time, hop->time + 2};
  query.thread = place.thread;
  std::string detail = "its result";
  if (auto cursor = process_.Events(query); cursor.ok()) {
    for (;;) {
      auto event = (*cursor)->Next();
      if (!event.ok() || !*event) break;
      detail = (*event)->detail;
    }
  }
  EndTrace(hop, "syscall", detail);
  return;
}

absl::StatusOr<std::optional<ValueLocation>> OriginTracer::FromInstruction(
    const ValueLocation& place, const DecodedInstruction& decoded, const Registers& registers,
    Hop* hop) {
  const std::vector<Operand>& operands = decoded.operands;
  const std::optional<ValueLocation> end;
  const size_t own = OperandThatIs(place, operands);
  switch (decoded.operation) {
    case Operation::kMove:
    case Operation::kCompute: {
      if (own != 0) break;
      const ByteSource source = Disassembler::SourceOf(decoded, place.offset, place.size);
      if (source.kind == ByteSource::Kind::kZero) {
        EndTrace(hop, "constant", "$0x0");
        return end;
      }
      const bool is_moved = place.is_pointer && place.size == 8 && operands[0].size == 8 &&
                            Disassembler::AddsOrSubtracts(decoded) &&
                            operands[1].kind == Operand::Kind::kImmediate;
      if (is_moved) {
        hop->kind = "address";
        hop->from = InputsText(decoded, registers);
        return std::optional<ValueLocation>(place);
      }
      if (source.kind != ByteSource::Kind::kOperand) break;
      ValueLocation part = place;
      part.size = source.size;
      return FromOperand(part, decoded, source.operand, source.offset, registers, hop);
    }
    case Operation::kConditionalMove: {
      if (own != 0 || operands.size() < 2) break;
      ValueLocation part = place;
      part.size = std::min<uint32_t>(part.size, operands[1].size);
      return FromOperand(part, decoded, 1, place.offset, registers, hop);
    }
    case Operation::kLoadAddress:
      return FromAddress(place, decoded, own == 0, registers, hop);
    case Operation::kPush:
      if (place.kind != ValueLocation::Kind::kMemory || operands.empty()) break;
      return FromOperand(place, decoded, 0, place.offset, registers, hop);
    case Operation::kPop:
      if (place.kind == ValueLocation::Kind::kGeneral && place.number == kRsp &&
          !(own < operands.size())) {
        break;
      }
      return FromMemory(place, Address(registers.gpr[kRsp] + place.offset), hop);
    case Operation::kLeave:
      if (place.kind != ValueLocation::Kind::kGeneral || place.number != kRbp) break;
      return FromMemory(place, Address(registers.gpr[kRbp] + place.offset), hop);
    case Operation::kCall:
      if (place.kind != ValueLocation::Kind::kMemory) break;
      EndTrace(hop, "constant",
               fmt::format("${:#x}, the call's return address", decoded.address.v + decoded.size));
      return end;
    case Operation::kExchange: {
      if (own >= 2 || operands.size() != 2) break;
      const uint32_t offset =
          place.offset -
          (operands[own].kind == Operand::Kind::kRegister ? operands[own].reg.offset : 0u);
      if (offset >= operands[own].size) {
        EndTrace(hop, "constant", "$0x0");  // the upper half of a register
        return end;
      }
      return FromOperand(place, decoded, 1 - own, offset, registers, hop);
    }
    case Operation::kExchangeAdd:
      if (own != 1) break;
      return FromOperand(place, decoded, 0, place.offset, registers, hop);
    case Operation::kCompareExchange:
      if (operands.size() != 2) break;
      if (place.kind == ValueLocation::Kind::kMemory) {
        return FromOperand(place, decoded, 1, place.offset, registers, hop);
      }
      if (place.kind == ValueLocation::Kind::kGeneral && place.number == kRax) {
        return FromOperand(place, decoded, 0, place.offset, registers, hop);
      }
      break;
    case Operation::kStringMove:
      if (place.kind != ValueLocation::Kind::kMemory) break;
      return FromMemory(place, Address(registers.gpr[kRsi] + place.offset), hop);
    case Operation::kStringLoad:
      if (place.kind != ValueLocation::Kind::kGeneral || place.number != kRax) break;
      return FromMemory(place, Address(registers.gpr[kRsi] + place.offset), hop);
    case Operation::kStringStore: {
      if (place.kind != ValueLocation::Kind::kMemory) break;
      ValueLocation next = place;
      next.kind = ValueLocation::Kind::kGeneral;
      next.number = kRax;
      hop->kind = "register";
      hop->from = TextOf(next, place.before);
      return std::optional<ValueLocation>(next);
    }
    case Operation::kSystemCall:
      EndInSystemCall(place, hop);
      return end;
    case Operation::kInput:
      EndTrace(hop, "input", "the processor");
      return end;
    case Operation::kReturn:
      break;
  }
  EndTrace(hop, "computation", InputsText(decoded, registers));
  return end;
}

// ---- Allocations --------------------------------------------------------------------------------

absl::StatusOr<std::optional<std::string>> OriginTracer::AllocationAround(
    const ValueLocation& place, Time t, Address pc, Hop* hop) {
  const std::optional<std::string> no;
  if (place.kind != ValueLocation::Kind::kGeneral || hop->value.size() != 8) return no;
  const uint64_t value = NumberOf(hop->value);
  if (value < 4096 || symbols_ == nullptr) return no;
  if (!allocator_) {
    ASSIGN_OR_RETURN(std::vector<HeapFunction> functions, FindAllocator(names_));
    allocator_.emplace();
    for (const HeapFunction& f : functions) {
      if (f.verb == HeapVerb::kFree || f.verb == HeapVerb::kPosixMemalign) continue;
      allocator_->emplace_back(f.entry, f.name);
    }
  }
  // Only what runs in an allocator's own module is worth the look.
  const Module* module = symbols_->ModuleAt(pc);
  std::vector<AddressRange> entries;
  for (const auto& [entry, name] : *allocator_) {
    if (module != nullptr && symbols_->ModuleAt(entry) == module) {
      entries.push_back({entry, entry + 1});
    }
  }
  if (entries.empty()) return no;
  ASSIGN_OR_RETURN(
      std::unique_ptr<Cursor<Execution>> calls,
      process_.Executions(entries, {Time(0), t + 1}, Direction::kBackward, place.thread, control_));
  ASSIGN_OR_RETURN(std::optional<Execution> call, calls->Next());
  if (!call) return no;
  ASSIGN_OR_RETURN(Registers at_entry, process_.RegistersAt(call->time, place.thread));
  // What the caller kept there is restored: an older pointer to the same memory.
  const bool is_preserved = (kPreservedByCalls >> place.number & 1) != 0;
  if (is_preserved && at_entry.gpr[place.number] == value) return no;
  const uint64_t sp = at_entry.gpr[kRsp];
  ASSIGN_OR_RETURN(MemoryImage word, process_.Memory(Address(sp), 8, call->time));
  if (!word.all_present()) return no;
  const Address return_address(NumberOf(word.bytes));
  if (return_address.v == 0 || return_address.v == ~uint64_t{0}) return no;
  ASSIGN_OR_RETURN(
      std::unique_ptr<Cursor<Execution>> returns,
      process_.Executions({{return_address, return_address + 1}}, {call->time, kTimeMax},
                          Direction::kForward, place.thread, control_));
  for (int i = 0; i < 100; ++i) {
    ASSIGN_OR_RETURN(std::optional<Execution> back, returns->Next());
    if (!back) return no;
    ASSIGN_OR_RETURN(Registers registers, process_.RegistersAt(back->time, place.thread));
    if (registers.gpr[kRsp] != sp + 8) continue;
    if (back->time <= t || registers.gpr[kRax] != value) return no;
    break;
  }
  std::string name = "the allocator";
  for (const auto& [entry, n] : *allocator_) {
    if (entry == call->pc) name = n;
  }
  const uint64_t size = name == "calloc" ? at_entry.gpr[kRdi] * at_entry.gpr[kRsi]
                        : name == "malloc" || name.rfind("operator new", 0) == 0
                            ? at_entry.gpr[kRdi]
                            : at_entry.gpr[kRsi];
  const std::string by = DescribeCaller(names_, return_address, call->time);
  hop->time = call->time;
  hop->pc = call->pc;
  hop->instruction.clear();
  return std::optional<std::string>(
      fmt::format("{}({}){}", name, size, by.empty() ? "" : " for " + by));
}

}  // namespace ttq
