// SPDX-License-Identifier: MIT

#include "query/sources/crash_report.h"

#include <signal.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/debug_hooks.h"
#include "query/process/failed_check.h"
#include "query/process/heap.h"
#include "query/process/last_words.h"
#include "query/rows/frame_values.h"
#include "query/rows/py_stack.h"
#include "query/sources/builder.h"
#include "query/sources/code_place.h"
#include "query/sources/fault_object.h"
#include "query/sources/stale_pointer.h"
#include "query/sources/suspects.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

constexpr uint32_t kOriginDepth = 12;
constexpr uint32_t kTracedDepth = 60;  // before the hops are left out that tell nothing
constexpr size_t kLastWrites = 4;
constexpr size_t kMaxThreads = 100;
constexpr size_t kFramesOfOthers = 64, kFramesOfFaulting = 1000;
constexpr uint64_t kLongestInstruction = 15;

class Investigation {
 public:
  Investigation(const Context& context, ScanControl* control, Outcome* outcome)
      : context_(context),
        process_(context.process()),
        control_(control),
        outcome_(*outcome),
        tracer_(context, control),
        unwinder_(context) {}

  absl::StatusOr<CrashReport> Run() {
    const ProcessInfo& info = process_.info();
    r_.time = *info.crash;
    r_.signal = SignalName(info.fatal_signal);
    ASSIGN_OR_RETURN(r_.thread, process_.ThreadAt(r_.time));
    RETURN_IF_ERROR(FindSignal());
    ASSIGN_OR_RETURN(r_.registers, process_.RegistersAt(r_.time, r_.thread));
    RETURN_IF_ERROR(Backtraces());
    ASSIGN_OR_RETURN(LastWords words, FindLastWords(process_, r_.time));
    r_.message = std::move(words.message);
    reason_ = std::move(words.reason);
    RETURN_IF_ERROR(Fault());
    RETURN_IF_ERROR(JudgePointers());
    RETURN_IF_ERROR(LastWrites());
    RETURN_IF_ERROR(PythonObject());
    return std::move(r_);
  }

 private:
  absl::Status FindSignal() {
    EventQuery query;
    query.span = {r_.time, r_.time + 3};
    query.kind = EventKind::kSignal;
    query.direction = Direction::kBackward;
    ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Event>> cursor, process_.Events(query));
    for (;;) {
      ASSIGN_OR_RETURN(std::optional<Event> event, cursor->Next());
      if (!event) return absl::OkStatus();
      if (event->number != process_.info().fatal_signal) continue;
      r_.event = *event;
      r_.by_processor = r_.event.args[1] != 0 && IsFault(r_.event.number);
      if (r_.event.thread.v != 0) r_.thread = r_.event.thread;
      return absl::OkStatus();
    }
  }

  absl::Status Backtraces() {
    ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process_.At(r_.time));
    std::vector<ThreadNo> threads = {r_.thread};
    for (const Thread& t : process_.threads()) {
      if (t.number == r_.thread || t.start > r_.time || t.end < r_.time) continue;
      if (threads.size() == kMaxThreads) {
        outcome_.AddNote(fmt::format("the stacks of {} threads are shown", kMaxThreads));
        break;
      }
      threads.push_back(t.number);
    }
    std::unique_ptr<python::PythonState> python;
    python::SourceText source(&process_);
    if (context_.HasPython()) {
      ASSIGN_OR_RETURN(python, python::PythonState::At(&context_.recording(), &process_, r_.time));
      if (!python->problem().empty()) outcome_.AddNote(python->problem());
    }
    for (ThreadNo thread : threads) {
      RETURN_IF_ERROR(NotInterrupted(control_));
      const bool faulting = thread == r_.thread;
      absl::StatusOr<Stack> stack = unwinder_.StackOf(
          *moment, thread, {.max_frames = faulting ? kFramesOfFaulting : kFramesOfOthers});
      if (absl::IsNotFound(stack.status())) continue;
      if (!stack.ok()) return stack.status();
      List frames;
      for (const Frame& frame : stack->frames) {
        ASSIGN_OR_RETURN(Object object, FrameObject(context_, *moment, thread, frame));
        frames.emplace_back(std::move(object));
      }
      if (faulting || stack->truncated) Describe(*stack, &outcome_);
      if (python && faulting) {
        const auto running = python->StackOf(thread);
        if (running && !running->stack.frames.empty()) {
          r_.py_function = running->stack.frames.front().function;
        }
      }
      Object one;
      one.fields = {
          {"thread", OfThread(thread)},
          {"frames", Value(std::move(frames))},
          {"py_frames", python ? PyBacktraceValue(*python, source, thread, outcome_) : Value()}};
      r_.backtraces.push_back(Value(std::move(one)));
      if (faulting) r_.stack = *std::move(stack);
    }
    return absl::OkStatus();
  }

  // Of one moment: what the memory at pc says is what was to be executed.
  absl::Status FaultInMoment() {
    outcome_.AddNote(fmt::format(
        "what happened before {} is unknown: there is no origin, no last write and no history of "
        "an object",
        MomentName(MomentInfoOf(process_).beginning)));
    if (!r_.by_processor) return Raised();
    const int signal = process_.info().fatal_signal;
    if (signal == SIGTRAP) return Trapped();
    ASSIGN_OR_RETURN(MemoryImage image,
                     process_.Memory(r_.registers.pc, kLongestInstruction, r_.time));
    const auto known = std::find(image.present.begin(), image.present.end(), false);
    const std::string code =
        image.bytes.substr(0, static_cast<size_t>(known - image.present.begin()));
    ASSIGN_OR_RETURN(std::vector<Mapping> maps, process_.MappingsAt(r_.time));
    const bool executable = std::any_of(maps.begin(), maps.end(), [&](const Mapping& m) {
      return m.range.Contains(r_.registers.pc) && (m.protection & 4) != 0;
    });
    if (!executable) return Jumped();
    if (code.empty()) {
      outcome_.AddNote(process_.DescribeUnmapped(r_.registers.pc, r_.time));
      r_.address = Address(r_.event.args[0]);
      ASSIGN_OR_RETURN(r_.memory, DescribeAddress(context_, *r_.address, r_.time, control_));
      // Which register the address came of is not known without the instruction.
      const bool is_access = signal == SIGSEGV || signal == SIGBUS;
      const bool is_low = r_.memory.kind == "null";
      if (is_access) r_.cause = is_low ? "a null pointer or a small number" : CauseOfAccess();
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::optional<DecodedInstruction> decoded, Show(code, r_.registers.pc));
    if (decoded) AddOperands(*decoded);
    switch (signal) {
      case SIGILL:
        return Illegal();
      case SIGFPE:
        return decoded ? Divided(*decoded) : absl::OkStatus();
      default:
        return Accessed(decoded);
    }
  }

  absl::Status Fault() {
    if (HistoryUnknown(process_)) return FaultInMoment();
    if (!r_.by_processor) return Raised();
    ASSIGN_OR_RETURN(std::optional<OriginTracer::Instruction> found,
                     tracer_.InstructionAt(r_.time));
    const bool executed = found && found->pc == r_.registers.pc;
    if (!executed) {
      // It came here by a jump, or the instruction is none.
      switch (process_.info().fatal_signal) {
        case SIGILL:
          return Illegal();
        case SIGTRAP:
          return Trapped();
        default:
          return Jumped();
      }
    }
    std::string code(found->bytes);
    // One that the recorder does not execute has no bytes: the memory there has.
    const bool refused = code.empty();
    if (refused) {
      ASSIGN_OR_RETURN(MemoryImage image,
                       process_.Memory(r_.registers.pc, kLongestInstruction, r_.time));
      code = image.bytes;
    }
    ASSIGN_OR_RETURN(const std::optional<DecodedInstruction> decoded, Show(code, found->pc));
    if (decoded) AddOperands(*decoded);
    if (process_.info().fatal_signal == SIGSEGV && (refused || (decoded && decoded->privileged))) {
      r_.cause = "an instruction that only the kernel may execute";
      return absl::OkStatus();
    }
    switch (process_.info().fatal_signal) {
      case 4:
        return Illegal();
      case 5:
        r_.cause = "a breakpoint instruction";
        return absl::OkStatus();
      case 8:
        return decoded ? Divided(*decoded) : absl::OkStatus();
      default:
        return Accessed(decoded);
    }
  }

  // Makes it the instruction that the report shows; nullopt when it is none that is known.
  absl::StatusOr<std::optional<DecodedInstruction>> Show(std::string_view code, Address pc) {
    const auto bytes =
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(code.data()), code.size());
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(r_.time));
    const Disassembler disassembler([&](Address a) { return symbols->NameOf(a); });
    const auto lines = disassembler.Disassemble(bytes, pc, 1);
    if (!lines.empty()) r_.instruction = lines[0].text;
    return disassembler.Decode(bytes, pc);
  }

  void AddOperands(const DecodedInstruction& decoded) {
    const auto add = [&](const RegisterName& name) {
      if (name.file != RegisterName::File::kGeneral) return;
      const RegisterName whole{name.file, name.number, 0, 8};
      const std::string text = whole.Text().substr(1);
      for (const auto& [known, value] : r_.operands.fields) {
        if (known == text) return;
      }
      r_.operands.fields.emplace_back(text, Word{r_.registers.gpr[name.number]});
    };
    for (const Operand& operand : decoded.operands) {
      add(operand.reg);
      add(operand.base);
      add(operand.index);
    }
    const bool uses_stack =
        decoded.operation == Operation::kPush || decoded.operation == Operation::kPop ||
        decoded.operation == Operation::kCall || decoded.operation == Operation::kReturn;
    if (uses_stack) add({RegisterName::File::kGeneral, kRsp, 0, 8});
  }

  static bool IsFault(int64_t number) {
    return number == SIGILL || number == SIGTRAP || number == SIGBUS || number == SIGFPE ||
           number == SIGSEGV;
  }

  // Who sent a signal that no fault of the program is.
  std::string Sender() const {
    if (r_.event.number == 0) return fmt::format("killed by {}", r_.signal);
    // si_code above 0: the kernel on its own account (a timer, a terminal, a limit).
    if (r_.event.args[1] != 0) return fmt::format("the kernel sent {}", r_.signal);
    // What kill(2) and its like tell: si_pid, then si_uid.
    const auto pid = static_cast<uint32_t>(r_.event.args[0]);
    if (pid == process_.info().pid) return fmt::format("the program raised {}", r_.signal);
    return pid == 0 ? fmt::format("another process sent {}", r_.signal)
                    : fmt::format("process {} sent {}", pid, r_.signal);
  }

  bool IsRunning(std::initializer_list<std::string_view> functions) const {
    return std::any_of(r_.stack.frames.begin(), r_.stack.frames.end(), [&](const Frame& f) {
      return std::find(functions.begin(), functions.end(), f.function) != functions.end();
    });
  }

  // Not by the processor: abort, assert, an uncaught exception, another process.
  absl::Status Raised() {
    r_.cause = IsRunning({"__assert_fail", "__assert_perror_fail"}) ? "an assertion failed"
               : IsRunning({"__cxa_pure_virtual"})           ? "a pure virtual function was called"
               : IsRunning({"__cxa_deleted_virtual"})        ? "a deleted function was called"
               : IsRunning({"__cxa_throw", "__cxa_rethrow"}) ? "an exception that nobody caught"
               : IsRunning({"std::terminate"})               ? "the program called std::terminate"
               : IsRunning({"__r_.stackchk_fail", "__fortify_fail"})
                   ? "the C library found a buffer overrun"
               : IsRunning({"abort"}) ? "the program called abort"
                                      : Sender();
    if (!reason_.empty()) r_.cause = reason_;
    if (HistoryUnknown(process_)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::optional<FailedCheck> guard,
                     FindOverwrittenGuard(context_, r_.stack));
    if (guard) {
      r_.cause = fmt::format("a buffer overrun in {}: its stack guard was overwritten",
                             guard->function.empty() ? "a function" : guard->function);
      return TellOf(*guard,
                    {"stack", fmt::format("the stack guard of {}, on the stack of thread {}",
                                          guard->function, r_.thread.v)});
    }
    return AllocatorFailed();
  }

  // As the names look: whether it is worth while to make the heap's index.
  bool IsInAllocator() const {
    return std::any_of(r_.stack.frames.begin(), r_.stack.frames.end(),
                       [](const Frame& frame) { return MayBeAllocator(frame.function); });
  }

  // In a call of an allocator, which was given what it did not give, or whose own words were
  // overwritten.
  absl::Status AllocatorFailed() {
    ASSIGN_OR_RETURN(const std::optional<python::RefusedBlock> refused,
                     python::FindRefusedBlock(context_, r_.stack));
    if (refused && refused->state == python::RefusedBlock::State::kDamaged) {
      if (reason_.empty()) {
        r_.cause = "heap corruption: a guard of CPython's debug hooks was overwritten";
      }
      return TellOf(refused->check, {"heap", refused->text});
    }
    if (refused) {
      AddressKind kind{"freed heap", refused->text};
      if (refused->state == python::RefusedBlock::State::kNotGiven) {
        ASSIGN_OR_RETURN(kind,
                         DescribeAddress(context_, refused->block, refused->given_back, control_));
      }
      return BadlyFreed(refused->block, std::move(kind), refused->given_back, refused->with);
    }
    if (!IsInAllocator()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const HeapIndex* heap, context_.Heap(control_));
    ASSIGN_OR_RETURN(const std::optional<AllocatorCall> call,
                     FindAllocatorCall(context_, *heap, r_.stack));
    if (!call) return absl::OkStatus();
    for (const BadFree& bad : heap->bad_frees()) {
      if (bad.thread != r_.thread || bad.time < call->begin || bad.time > r_.time) continue;
      ASSIGN_OR_RETURN(AddressKind kind,
                       DescribeAddress(context_, bad.pointer, bad.time, control_));
      return BadlyFreed(bad.pointer, std::move(kind), bad.time, kRdi);
    }
    ASSIGN_OR_RETURN(const std::optional<FailedCheck> found,
                     FindOverwrittenHeapWord(context_, *heap, r_.stack, control_));
    if (!found) return absl::OkStatus();
    ASSIGN_OR_RETURN(AddressKind kind,
                     DescribeAddress(context_, found->word, found->written, control_));
    r_.cause = kind.kind == "freed heap"
                   ? "heap corruption: a freed block was written to"
                   : "heap corruption: what the allocator keeps outside of blocks was overwritten";
    return TellOf(*found, std::move(kind));
  }

  // By a call that got the pointer in `with`.
  absl::Status BadlyFreed(Address pointer, AddressKind kind, Time call, Gpr with) {
    r_.address = pointer;
    r_.access = "free";
    r_.memory = std::move(kind);
    r_.word = std::nullopt;
    r_.word_memory = {};
    ValueLocation place;
    place.kind = ValueLocation::Kind::kGeneral;
    place.number = static_cast<uint8_t>(with);
    place.thread = r_.thread;
    place.before = call;
    RETURN_IF_ERROR(Trace(place));
    r_.cause = r_.memory.kind == "freed heap" ? "double free"
               : r_.word_memory.kind == "freed heap"
                   ? "use after free: the pointer to free was read from a freed block"
                   : "free of a pointer that the allocator did not give";
    return absl::OkStatus();
  }

  absl::Status TellOf(const FailedCheck& check, AddressKind kind) {
    r_.word = check.word;
    r_.word_memory = std::move(kind);
    ValueLocation place;
    place.address = check.word;
    place.thread = r_.thread;
    place.before = check.read;
    return TraceOrigin(place);
  }

  absl::Status Illegal() {
    r_.cause = "an instruction that the processor does not have";
    return absl::OkStatus();
  }

  // The processor has executed a breakpoint when it tells of it.
  absl::Status Trapped() {
    r_.cause = "a breakpoint instruction";
    ASSIGN_OR_RETURN(std::optional<OriginTracer::Instruction> before,
                     tracer_.InstructionBefore(r_.thread, r_.time));
    return before ? Show(before->bytes, before->pc).status() : absl::OkStatus();
  }

  absl::Status Divided(const DecodedInstruction& decoded) {
    r_.cause = "a division whose result is too large";
    if (decoded.operands.size() != 1) return absl::OkStatus();
    const Operand& divisor = decoded.operands[0];
    ValueLocation place;
    place.thread = r_.thread;
    place.before = r_.time;
    place.size = divisor.size;
    if (divisor.kind == Operand::Kind::kRegister) {
      place.kind = ValueLocation::Kind::kGeneral;
      place.number = divisor.reg.number;
      const uint64_t whole = r_.registers.gpr[divisor.reg.number];
      const uint64_t value =
          divisor.size >= 8 ? whole : whole & ((uint64_t{1} << (8 * divisor.size)) - 1);
      if (value == 0) r_.cause = "division by zero";
    } else if (const auto at = EffectiveAddress(divisor, decoded, r_.registers)) {
      place.address = *at;
      ASSIGN_OR_RETURN(MemoryImage image, process_.Memory(*at, divisor.size, r_.time));
      if (image.bytes.find_first_not_of('\0') == std::string::npos) {
        r_.cause = "division by zero";
      }
    } else {
      return absl::OkStatus();
    }
    return Trace(place);
  }

  absl::Status Accessed(const std::optional<DecodedInstruction>& decoded) {
    r_.address = Address(r_.event.args[0]);
    r_.access = "access";
    std::optional<uint8_t> pointer;  // the register that the address came from
    if (decoded) {
      for (const Operand& operand : decoded->operands) {
        if (operand.kind != Operand::Kind::kMemory) continue;
        const std::optional<Address> at = EffectiveAddress(operand, *decoded, r_.registers);
        if (!at) continue;
        // The processor does not tell the address of one that is not canonical.
        const uint64_t size = std::max<uint64_t>(operand.size, 1);
        const bool canonical = at->v + (uint64_t{1} << 47) < uint64_t{1} << 48;
        if (r_.address->v - at->v >= size && canonical) continue;
        if (!canonical) r_.address = *at;
        r_.access = operand.written ? "write" : "read";
        if (operand.base.file == RegisterName::File::kGeneral) pointer = operand.base.number;
        const bool small_base = pointer && r_.registers.gpr[*pointer] < 4096;
        if (operand.index.file == RegisterName::File::kGeneral && (!pointer || !small_base)) {
          // Of base and index the one that is not a good address.
          ASSIGN_OR_RETURN(std::vector<Mapping> maps, process_.MappingsAt(r_.time));
          const bool base_is_good =
              !pointer || std::any_of(maps.begin(), maps.end(), [&](const Mapping& m) {
                return m.range.Contains(Address(r_.registers.gpr[*pointer]));
              });
          if (base_is_good) pointer = operand.index.number;
        }
        break;
      }
      if (!pointer && r_.access == "access") {
        switch (decoded->operation) {
          case Operation::kPush:
          case Operation::kCall:
            r_.access = "write";
            break;
          case Operation::kPop:
          case Operation::kReturn:
          case Operation::kLeave:
            r_.access = "read";
            break;
          default:
            break;
        }
      }
    }
    ASSIGN_OR_RETURN(r_.memory, DescribeAddress(context_, *r_.address, r_.time, control_));
    r_.base = pointer;
    if (pointer && *pointer != kRsp) {
      ValueLocation place;
      place.kind = ValueLocation::Kind::kGeneral;
      place.number = *pointer;
      place.thread = r_.thread;
      place.before = r_.time;
      place.is_pointer = true;
      RETURN_IF_ERROR(Trace(place));
    }
    r_.cause = CauseOfAccess();
    return HistoryUnknown(process_) ? absl::OkStatus() : AllocatorFailed();
  }

  static std::string SmallNumber(uint64_t pointer) {
    return fmt::format("a small number, {}, where a pointer should be",
                       static_cast<int64_t>(pointer));
  }

  std::string CauseOfAccess() const {
    const std::string& kind = r_.memory.kind;
    if (r_.word_memory.kind == "freed heap") {
      return "use after free: the address was read from a freed block";
    }
    if (kind == "null") {
      // What was added to a null pointer before this instruction is a member's offset.
      const uint64_t pointer = r_.base ? r_.registers.gpr[*r_.base] : 0;
      const bool is_offset = std::any_of(r_.origin.begin(), r_.origin.end(), [](const Hop& hop) {
        return !hop.value.empty() && hop.value.find_first_not_of('\0') == std::string::npos;
      });
      return pointer == 0 || is_offset ? "a null pointer" : SmallNumber(pointer);
    }
    if (kind == "freed heap") return "use after free";
    if (kind == "guard page") {
      return r_.memory.text.find("overflow") != std::string::npos ? "stack overflow"
                                                                  : "an access to a guard page";
    }
    if (process_.info().fatal_signal == 7) return "memory that has no contents";
    if (kind == "unmapped") {
      return r_.memory.text.find("canonical") != std::string::npos
                 ? "a wild pointer"
                 : "an address where nothing is mapped";
    }
    return fmt::format("the memory there may not be {}", r_.access == "write" ? "written"
                                                         : r_.access == "read"
                                                             ? "read"
                                                             : "accessed like this");
  }

  // Execution went to where there is no code.
  absl::Status Jumped() {
    r_.address = r_.registers.pc;
    r_.access = "execute";
    ASSIGN_OR_RETURN(AddressKind kind, DescribeAddress(context_, *r_.address, r_.time, control_));
    r_.memory = kind;
    r_.cause = kind.kind != "null"      ? "a jump to where no code is"
               : r_.registers.pc.v == 0 ? "a jump to a null pointer"
                                        : "a jump to " + SmallNumber(r_.registers.pc.v);
    ASSIGN_OR_RETURN(std::optional<OriginTracer::Instruction> before,
                     tracer_.InstructionBefore(r_.thread, r_.time));
    if (!before) return absl::OkStatus();
    ASSIGN_OR_RETURN(Registers registers, process_.RegistersAt(before->time, r_.thread));
    ASSIGN_OR_RETURN(const std::optional<DecodedInstruction> decoded,
                     Show(before->bytes, before->pc));
    if (!decoded) return absl::OkStatus();
    r_.registers = registers;
    AddOperands(*decoded);
    ValueLocation place;
    place.thread = r_.thread;
    place.before = before->time;
    if (decoded->operation == Operation::kReturn) {
      r_.cause += ": the return address on the stack was overwritten";
      place.address = Address(registers.gpr[kRsp]);
      return Trace(place);
    }
    if (decoded->operands.size() != 1) return absl::OkStatus();
    const Operand& target = decoded->operands[0];
    if (target.kind == Operand::Kind::kRegister) {
      place.kind = ValueLocation::Kind::kGeneral;
      place.number = target.reg.number;
    } else if (const auto at = EffectiveAddress(target, *decoded, registers)) {
      place.address = *at;
    } else {
      return absl::OkStatus();
    }
    return Trace(place);
  }

  // Without the pairs of hops in which a register was restored from the stack and, before, saved
  // there. A word of a data structure that the same register happens to have written is none.
  absl::StatusOr<std::vector<Hop>> WithoutSaves(std::vector<Hop> hops) {
    std::vector<Hop> kept;
    for (size_t i = 0; i < hops.size(); ++i) {
      const std::string& restores = hops[i].instruction;
      const bool is_frames = restores.starts_with("pop") || absl::StrContains(restores, "(%rsp") ||
                             absl::StrContains(restores, "(%rbp");
      bool saved = is_frames && i + 1 < hops.size() && hops[i].kind == "memory" &&
                   !hops[i].address && hops[i + 1].kind == "register" &&
                   hops[i + 1].from == hops[i].place;
      if (saved && hops[i + 1].address) {
        ASSIGN_OR_RETURN(AddressKind kind,
                         DescribeAddress(context_, *hops[i + 1].address, hops[i].time, control_));
        saved = kind.kind == "stack";
      }
      if (saved) {
        ++i;
      } else {
        kept.push_back(std::move(hops[i]));
      }
    }
    return kept;
  }

  absl::Status TraceOrigin(const ValueLocation& place) {
    std::string note;
    ASSIGN_OR_RETURN(std::vector<Hop> hops, tracer_.Trace(place, kTracedDepth, &note));
    ASSIGN_OR_RETURN(r_.origin, WithoutSaves(std::move(hops)));
    if (r_.origin.size() > kOriginDepth) r_.origin.resize(kOriginDepth);
    return absl::OkStatus();
  }

  absl::Status Trace(const ValueLocation& place) {
    if (HistoryUnknown(process_)) return absl::OkStatus();
    RETURN_IF_ERROR(TraceOrigin(place));
    // The word of a data structure tells more than where a compiler kept it for a while.
    Time used = place.before;
    for (const Hop& hop : r_.origin) {
      if (hop.address) {
        ASSIGN_OR_RETURN(AddressKind kind, DescribeAddress(context_, *hop.address, used, control_));
        if (!r_.word || kind.kind != "stack") {
          r_.word = hop.address;
          r_.word_memory = kind;
        }
        if (kind.kind != "stack") break;
      }
      used = hop.time;
    }
    if (!r_.word) return absl::OkStatus();
    ASSIGN_OR_RETURN(r_.pointers, PointersTo(context_, tracer_, place, control_));
    return absl::OkStatus();
  }

  absl::Status LastWrites() {
    if (!r_.word) return absl::OkStatus();
    AccessQuery query;
    query.ranges = {{*r_.word, *r_.word + 8}};
    query.span = {Time(0), r_.time};
    query.direction = Direction::kBackward;
    ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Access>> cursor, process_.Accesses(query, control_));
    while (r_.last_writes.size() < kLastWrites) {
      ASSIGN_OR_RETURN(std::optional<Access> access, cursor->Next());
      if (!access) break;
      const Access& a = *access;
      Object one;
      one.fields = {{"time", a.time},
                    {"thread", OfThread(a.thread)},
                    {"pc", a.pc},
                    {"address", a.address},
                    {"size", int64_t{a.size}},
                    {"previous", ValueOfBytes(a.previous)},
                    {"value", ValueOfBytes(a.value)},
                    {"actor", ActorName(a)},
                    {"by", OfText(DescribeWriter(context_, unwinder_, a))}};
      r_.last_writes.push_back(Value(std::move(one)));
    }
    return absl::OkStatus();
  }

  absl::Status JudgePointers() {
    if (r_.pointers.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const HeapIndex* heap, context_.Heap(control_));
    // The allocator's own words lead to freed blocks; what it was given does not.
    if (r_.access != "free") {
      ASSIGN_OR_RETURN(const std::optional<AllocatorCall> call,
                       FindAllocatorCall(context_, *heap, r_.stack));
      if (call) return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const std::optional<StalePointer> stale,
                     FindStalePointer(context_, tracer_, r_.pointers, r_.time, control_));
    if (!stale) return absl::OkStatus();
    const bool dangles = stale->kind == StalePointer::Kind::kDangling;
    if (!r_.cause.starts_with("use after free") && r_.cause != "double free") {
      r_.cause = !dangles ? "an uninitialised pointer: what was in the memory before"
                 : stale->block != nullptr
                     ? "use after free: a pointer to a freed block was used"
                     : "use after return: a pointer to a local variable was used that is gone";
    }
    Object pointer;
    pointer.fields = {{"value", Word{stale->value}},
                      {"state", dangles ? "dangling" : "uninitialised"}};
    ASSIGN_OR_RETURN(Object where, WhereItWas(*stale));
    for (auto& field : where.fields) pointer.fields.push_back(std::move(field));
    r_.stale_pointer = Value(std::move(pointer));
    return absl::OkStatus();
  }

  // The word that held a stale pointer, who stored it there, and the block.
  absl::StatusOr<Object> WhereItWas(const StalePointer& stale) {
    const bool dangles = stale.kind == StalePointer::Kind::kDangling;
    Value word, memory, stored, by, block;
    if (stale.holder) {
      const Holder& holder = *stale.holder;
      ASSIGN_OR_RETURN(const AddressKind kind,
                       DescribeAddress(context_, holder.word, holder.read, control_));
      AccessQuery query;
      query.ranges = {{holder.word, holder.word + 8}};
      query.span = {holder.stored, holder.stored + 1};
      ASSIGN_OR_RETURN(const std::optional<Access> access, LastAccess(process_, std::move(query)));
      word = holder.word;
      const bool is_local = !dangles && stale.block == nullptr;
      memory = OfText(is_local ? "a local variable of " + stale.function : kind.text);
      stored = holder.stored;
      by = access ? OfText(DescribeWriter(context_, unwinder_, *access)) : Value("fresh memory");
    }
    if (stale.block != nullptr) {
      ASSIGN_OR_RETURN(const HeapIndex* heap, context_.Heap(control_));
      const Address address = dangles ? Address(stale.value) : stale.holder->word;
      block = DescribeInside(context_, *heap, *stale.block, address, r_.time);
    } else if (dangles) {
      block = fmt::format("a local variable of {}, which has returned", stale.function);
    }
    Object where;
    where.fields = {{"word", std::move(word)},
                    {"word_memory", std::move(memory)},
                    {"stored", std::move(stored)},
                    {"stored_by", std::move(by)},
                    {"block", std::move(block)}};
    return where;
  }

  absl::Status PythonObject() {
    if (HistoryUnknown(process_)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<Suspect> suspects,
                     SuspectsOf(context_, tracer_, unwinder_, r_, control_));
    ASSIGN_OR_RETURN(FaultObject found,
                     ObjectAtFault(context_, r_.stack, suspects, r_.time, control_, &outcome_));
    if (found.dangling) r_.cause = "use after free: a Python object was used that was freed";
    r_.python_object = std::move(found.object);
    return absl::OkStatus();
  }

  const Context& context_;
  const Process& process_;
  ScanControl* control_;
  Outcome& outcome_;
  OriginTracer tracer_;
  Unwinder unwinder_;
  CrashReport r_;
  std::string reason_;  // why it ended, as it said
};

}  // namespace

absl::StatusOr<CrashReport> InvestigateCrash(const Context& context, ScanControl* control,
                                             Outcome* outcome) {
  return Investigation(context, control, outcome).Run();
}

}  // namespace ttq
