// SPDX-License-Identifier: MIT

#include "query/sources/stale_pointer.h"

#include <algorithm>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "query/process/stack.h"

namespace ttq {
namespace {

class PointerJudge {
 public:
  PointerJudge(const Context& context, OriginTracer& tracer, const HeapIndex& heap,
               ScanControl* control)
      : context_(context), tracer_(tracer), heap_(heap), control_(control), unwinder_(context) {}

  // The block that the pointer is to and that was freed before `used`; null: there is none.
  absl::StatusOr<const HeapLife*> FreedBlockOf(const Pointer& pointer, Time used) {
    if (heap_.Find(Address(pointer.value), used).lives == 0) return nullptr;
    ASSIGN_OR_RETURN(const HeapLife* block, BlockOf(pointer));
    if (block == nullptr) return block;
    while (const HeapLife* grown = InPlaceOf(*block)) block = grown;
    return block->freed < used ? block : nullptr;
  }

  // The block that the word is in and whose owner did not write it; null: it did, or there is none.
  const HeapLife* UninitialisedBlockOf(const Holder& holder) const {
    const HeapLife* block = BlockAt(holder.word.v, holder.read);
    const bool is_left_over = block != nullptr && holder.stored < block->returned &&
                              holder.word.v + 8 <= block->begin.v + block->size;
    return is_left_over && GivesAnything(*block) ? block : nullptr;
  }

  // The function whose local variable the pointer is to, where that has returned before `used`;
  // nullopt: it has not, or the pointer is not to a local variable.
  absl::StatusOr<std::optional<std::string>> ReturnedFunctionOf(const Pointer& pointer, Time used) {
    if (!pointer.holder) return std::nullopt;
    const ThreadNo thread = pointer.place.thread;
    const Address address(pointer.value);
    const Time stored = pointer.holder->stored;
    ASSIGN_OR_RETURN(const Registers registers, context_.process().RegistersAt(used, thread));
    ASSIGN_OR_RETURN(const std::vector<Mapping> maps, context_.process().MappingsAt(used));
    const bool is_stack = std::any_of(maps.begin(), maps.end(), [&](const Mapping& m) {
      return m.range.Contains(address) && m.range.Contains(Address(registers.gpr[kRsp]));
    });
    if (!is_stack) return std::nullopt;
    if (!IsBelowStack(address, registers)) {
      ASSIGN_OR_RETURN(const std::optional<Frame> frame, FrameOf(address, thread, used));
      if (!frame) return std::nullopt;
      ASSIGN_OR_RETURN(const std::optional<Time> called,
                       CalledAt(context_.process(), *frame, used));
      if (!called || *called <= stored) return std::nullopt;
    }
    ASSIGN_OR_RETURN(const std::optional<Frame> then, FrameOf(address, thread, stored));
    return then ? std::optional<std::string>(then->function) : std::nullopt;
  }

  // Of one that no memory but the stack held. A local variable that it was read from may not have
  // been written by its function, or it was read through a pointer to what was there before.
  absl::StatusOr<std::optional<StalePointer>> OnStack(const Pointer& pointer) {
    std::optional<ValueLocation> next = pointer.place;
    Time used = next->before;
    for (uint32_t i = 0; i < kMaxDepth && next; ++i) {
      Hop hop;
      ASSIGN_OR_RETURN(next, tracer_.Step(*next, &hop));
      if (hop.address) {
        const Holder holder{*hop.address, hop.time, used, next};
        ASSIGN_OR_RETURN(const std::optional<Frame> frame, FrameOf(*hop.address, hop.thread, used));
        if (!frame) break;  // no thread's stack, from where the pointer went on
        ASSIGN_OR_RETURN(const std::optional<Time> called,
                         CalledAt(context_.process(), *frame, used));
        ASSIGN_OR_RETURN(const std::optional<Pointer> base,
                         PointerUsedAt(context_, tracer_, hop.thread, used, control_));
        const bool is_other = base && base->place.number != kRbp;
        if (is_other) {
          ASSIGN_OR_RETURN(const std::optional<std::string> returned,
                           ReturnedFunctionOf(*base, used));
          if (returned) {
            return StalePointer{.kind = StalePointer::Kind::kDangling,
                                .value = base->value,
                                .holder = base->holder,
                                .function = *returned};
          }
        }
        if (called && hop.time < *called) {
          return StalePointer{.kind = StalePointer::Kind::kUninitialised,
                              .value = pointer.value,
                              .holder = holder,
                              .function = frame->function};
        }
      }
      used = hop.time;
    }
    return std::nullopt;
  }

 private:
  static constexpr uint32_t kMaxDepth = 100;

  // The block that the pointer was to when it was made; null: that is not known.
  absl::StatusOr<const HeapLife*> BlockOf(const Pointer& pointer) {
    std::string note;
    ASSIGN_OR_RETURN(const std::vector<Hop> hops, tracer_.Trace(pointer.place, kMaxDepth, &note));
    if (!hops.empty() && hops.back().kind == "allocation") {
      return BlockAt(pointer.value, hops.back().time + 1);
    }
    if (!pointer.holder) return nullptr;
    constexpr size_t kMaxCopies = 8;  // that it went through
    Holder holder = *pointer.holder;
    const HeapLife* block = BlockAt(pointer.value, holder.stored);
    for (size_t i = 0; i < kMaxCopies && holder.source; ++i) {
      ASSIGN_OR_RETURN(const std::optional<Holder> before,
                       HolderOf(context_, tracer_, *holder.source, control_));
      if (!before) break;
      // Where the allocator had it from, which gave the block.
      if (block != nullptr && before->read <= block->returned) break;
      holder = *before;
      // It may have been copied when it was dangling already.
      const bool is_older = block == nullptr || holder.stored < block->allocated;
      if (is_older) block = BlockAt(pointer.value, holder.stored);
    }
    return block;
  }

  // The innermost frame at t that has the address on the thread's stack; nullopt: none.
  absl::StatusOr<std::optional<Frame>> FrameOf(Address address, ThreadNo thread, Time t) {
    constexpr size_t kMaxFrames = 32;
    ASSIGN_OR_RETURN(const std::unique_ptr<Moment> moment, context_.process().At(t));
    ASSIGN_OR_RETURN(const Stack stack,
                     unwinder_.StackOf(*moment, thread, {.max_frames = kMaxFrames}));
    ASSIGN_OR_RETURN(const Registers registers, moment->RegistersOf(thread));
    if (IsBelowStack(address, registers)) return std::nullopt;
    for (const Frame& frame : stack.frames) {
      if (!IsCallFrame(frame)) continue;
      if (!frame.cfa) break;
      if (address.v + 8 <= frame.cfa->v) return frame;
    }
    return std::nullopt;
  }

  // The one that is allocated at t and holds the address; null: none.
  const HeapLife* BlockAt(uint64_t address, Time t) const {
    const HeapLife* block = heap_.Find(Address(address), t).inside;
    return block != nullptr && block->IsAlive(t) ? block : nullptr;
  }

  // What realloc made of the block without moving it; null: it did not.
  const HeapLife* InPlaceOf(const HeapLife& block) const {
    if (block.freed == kTimeMax) return nullptr;
    const HeapLife* next = heap_.Find(block.begin, block.freed + 1).inside;
    return next != nullptr && next != &block && next->begin == block.begin &&
                   next->allocated == block.freed
               ? next
               : nullptr;
  }

  // Whether what it gives has any contents.
  bool GivesAnything(const HeapLife& block) const {
    const HeapVerb verb = heap_.functions()[block.allocated_with].verb;
    return verb != HeapVerb::kCalloc && verb != HeapVerb::kRealloc &&
           verb != HeapVerb::kReallocArray;
  }

  const Context& context_;
  OriginTracer& tracer_;
  const HeapIndex& heap_;
  ScanControl* control_;
  Unwinder unwinder_;
};

}  // namespace

absl::StatusOr<std::optional<StalePointer>> FindStalePointer(const Context& context,
                                                             OriginTracer& tracer,
                                                             const std::vector<Pointer>& pointers,
                                                             Time fault, ScanControl* control) {
  if (pointers.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(const HeapIndex* heap, context.Heap(control));
  PointerJudge judge(context, tracer, *heap, control);
  for (size_t i = pointers.size(); i-- > 0;) {
    const Pointer& pointer = pointers[i];
    const HeapLife* left = pointer.holder ? judge.UninitialisedBlockOf(*pointer.holder) : nullptr;
    if (left != nullptr) {
      return StalePointer{.kind = StalePointer::Kind::kUninitialised,
                          .value = pointer.value,
                          .holder = pointer.holder,
                          .block = left};
    }
    const Time used = i == 0 ? fault : pointers[i - 1].holder->read;
    ASSIGN_OR_RETURN(const HeapLife* freed, judge.FreedBlockOf(pointer, used));
    if (freed != nullptr) {
      return StalePointer{.kind = StalePointer::Kind::kDangling,
                          .value = pointer.value,
                          .holder = pointer.holder,
                          .block = freed};
    }
    ASSIGN_OR_RETURN(const std::optional<std::string> returned,
                     judge.ReturnedFunctionOf(pointer, used));
    if (returned) {
      return StalePointer{.kind = StalePointer::Kind::kDangling,
                          .value = pointer.value,
                          .holder = pointer.holder,
                          .function = *returned};
    }
  }
  if (pointers.front().holder) return std::nullopt;
  return judge.OnStack(pointers.front());
}

}  // namespace ttq
