// SPDX-License-Identifier: MIT

#include "query/sources/pointer_chain.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "query/code/disassembler.h"
#include "query/sources/address_kind.h"

namespace ttq {
namespace {

constexpr size_t kMaxPointers = 8;
constexpr uint32_t kMaxHops = 100;  // between registers and the stack

absl::StatusOr<uint64_t> ValueAt(const Process& process, const ValueLocation& place) {
  if (place.kind == ValueLocation::Kind::kGeneral) {
    ASSIGN_OR_RETURN(const Registers registers, process.RegistersAt(place.before, place.thread));
    return registers.gpr[place.number];
  }
  uint64_t value = 0;
  ASSIGN_OR_RETURN(const MemoryImage image,
                   process.Memory(place.address, sizeof value, place.before));
  if (image.all_present()) memcpy(&value, image.bytes.data(), sizeof value);
  return value;
}

// The register that the instruction at `t` read memory through; nullopt: none.
absl::StatusOr<std::optional<ValueLocation>> BaseOf(OriginTracer& tracer, ThreadNo thread, Time t) {
  ASSIGN_OR_RETURN(const std::optional<OriginTracer::Instruction> found, tracer.InstructionAt(t));
  if (!found) return std::nullopt;
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(found->bytes.data()),
                                         found->bytes.size());
  const std::optional<DecodedInstruction> decoded = Disassembler().Decode(bytes, found->pc);
  if (!decoded) return std::nullopt;
  for (const Operand& operand : decoded->operands) {
    if (operand.kind != Operand::Kind::kMemory ||
        operand.base.file != RegisterName::File::kGeneral || operand.base.number == kRsp) {
      continue;
    }
    ValueLocation base;
    base.kind = ValueLocation::Kind::kGeneral;
    base.number = operand.base.number;
    base.thread = thread;
    base.before = t;
    base.is_pointer = true;
    return base;
  }
  return std::nullopt;
}

// Whether what runs at t is CPython's own allocator (pymalloc; from 3.13 on also mimalloc): the
// words that it reads pointers from are its lists of free memory. Where malloc gave a pointer, its
// trace ends.
absl::StatusOr<bool> IsAllocating(const Context& context, ThreadNo thread, Time t) {
  ASSIGN_OR_RETURN(const Registers registers, context.process().RegistersAt(t, thread));
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context.SymbolsAt(t));
  const std::string& function = symbols->Symbolize(registers.pc)->function;
  static constexpr std::string_view kPrefixes[] = {"pymalloc_",
                                                   "_PyObject_Malloc",
                                                   "_PyObject_Realloc",
                                                   "_PyObject_Calloc",
                                                   "PyObject_Malloc",
                                                   "PyObject_Realloc",
                                                   "PyObject_Calloc",
                                                   "mi_",
                                                   "_mi_"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return function.starts_with(prefix); });
}

// The value at `place`, and the word that it went through last.
absl::StatusOr<Pointer> PointerAt(const Context& context, OriginTracer& tracer,
                                  const ValueLocation& place, ScanControl* control) {
  Pointer pointer;
  pointer.place = place;
  ASSIGN_OR_RETURN(pointer.value, ValueAt(context.process(), place));
  ASSIGN_OR_RETURN(pointer.holder, HolderOf(context, tracer, place, control));
  return pointer;
}

}  // namespace

absl::StatusOr<std::optional<Holder>> HolderOf(const Context& context, OriginTracer& tracer,
                                               const ValueLocation& place, ScanControl* control) {
  std::optional<ValueLocation> next = place;
  Time used = place.before;
  for (uint32_t i = 0; i < kMaxHops && next; ++i) {
    const ValueLocation at = *next;
    Hop hop;
    ASSIGN_OR_RETURN(next, tracer.Step(at, &hop));
    if (hop.address) {
      // The hop has the bytes that were written last.
      const Address word = at.kind == ValueLocation::Kind::kMemory ? at.address : *hop.address;
      ASSIGN_OR_RETURN(const AddressKind kind, DescribeAddress(context, word, used, control));
      if (kind.kind != "stack") return Holder{word, hop.time, used, next};
      ASSIGN_OR_RETURN(const Registers registers, context.process().RegistersAt(used, at.thread));
      if (IsBelowStack(word, registers)) return Holder{word, hop.time, used, next};
    }
    used = hop.time;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Pointer>> PointerUsedAt(const Context& context, OriginTracer& tracer,
                                                     ThreadNo thread, Time t,
                                                     ScanControl* control) {
  ASSIGN_OR_RETURN(const std::optional<ValueLocation> base, BaseOf(tracer, thread, t));
  if (!base) return std::nullopt;
  return PointerAt(context, tracer, *base, control);
}

absl::StatusOr<std::vector<Pointer>> PointersTo(const Context& context, OriginTracer& tracer,
                                                const ValueLocation& place, ScanControl* control) {
  std::vector<Pointer> pointers;
  std::optional<ValueLocation> next = place;
  while (next && pointers.size() < kMaxPointers) {
    ASSIGN_OR_RETURN(Pointer pointer, PointerAt(context, tracer, *next, control));
    next = std::nullopt;
    if (pointer.holder) {
      const Time read = pointer.holder->read;
      ASSIGN_OR_RETURN(const bool allocates, IsAllocating(context, place.thread, read));
      if (allocates) {
        pointer.holder = std::nullopt;
      } else {
        ASSIGN_OR_RETURN(next, BaseOf(tracer, place.thread, read));
      }
    }
    pointers.push_back(pointer);
  }
  return pointers;
}

}  // namespace ttq
