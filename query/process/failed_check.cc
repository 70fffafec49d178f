// SPDX-License-Identifier: MIT

#include "query/process/failed_check.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"

namespace ttq {
namespace {

// Writes of one guard that are looked at: an overrun writes it byte by byte.
constexpr int kMaxWritesOfGuard = 256;
// Between the check of a guard and the call that gives up.
constexpr uint64_t kCheckInstructions = 1000;
constexpr int kMaxReadsOfCall = 4096, kMaxWordsRead = 256;  // all calls together
constexpr size_t kMaxCallsFollowed = 16;
constexpr size_t kMaxFramesOfWriter = 64;

// Whether glibc itself wrote, outside of the functions that give and take blocks: what it locks and
// unlocks around a fork, trims, or gives back when a thread ends.
bool IsGlibcsOwn(const Stack& stack) {
  static constexpr std::string_view kOwn[] = {"fork",          "__libc_fork", "malloc_trim",
                                              "__malloc_trim", "mallopt",     "__libc_mallopt"};
  for (const Frame& frame : stack.frames) {
    if (!IsGlibc(frame.module)) return false;
    if (std::find(std::begin(kOwn), std::end(kOwn), frame.function) != std::end(kOwn)) return true;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::optional<FailedCheck>> FindOverwrittenGuard(const ProcessNames& names,
                                                                const Stack& stack) {
  const std::optional<FailedCheck> none;
  const Process& process = names.process();
  const auto fails = std::find_if(stack.frames.begin(), stack.frames.end(),
                                  [](const Frame& f) { return f.function == "__stack_chk_fail"; });
  if (fails == stack.frames.end()) return none;
  const auto checked = std::find_if(std::next(fails), stack.frames.end(), IsCallFrame);
  if (checked == stack.frames.end() || !checked->cfa || !fails->cfa) return none;
  ASSIGN_OR_RETURN(const std::optional<Time> failed, CalledAt(process, *fails, stack.time));
  if (!failed) return none;
  ASSIGN_OR_RETURN(const Registers registers, process.RegistersAt(*failed, stack.thread));
  // Where the compilers keep the guard's value (gcc/config/i386/gnu-user64.h,
  // TARGET_THREAD_SSP_OFFSET).
  constexpr uint64_t kGuardOffset = 0x28;
  ASSIGN_OR_RETURN(const MemoryImage guard,
                   process.Memory(Address(registers.fs_base + kGuardOffset), 8, *failed));
  if (!guard.all_present()) return none;

  AccessQuery query;
  query.ranges = {{*fails->cfa, *checked->cfa}};
  query.span = {failed->v < kCheckInstructions ? Time(0) : *failed - kCheckInstructions, *failed};
  query.reads = true;
  query.writes = false;
  query.direction = Direction::kBackward;
  query.thread = stack.thread;
  ASSIGN_OR_RETURN(const std::unique_ptr<Cursor<Access>> reads,
                   process.Accesses(std::move(query), nullptr));
  std::optional<Access> read;
  do {
    ASSIGN_OR_RETURN(read, reads->Next());
    if (!read) return none;
  } while (read->size != 8);

  AccessQuery of_word;
  of_word.ranges = {{read->address, read->address + 8}};
  of_word.span = {Time(0), read->time};
  of_word.direction = Direction::kBackward;
  ASSIGN_OR_RETURN(const std::unique_ptr<Cursor<Access>> writes,
                   process.Accesses(std::move(of_word), nullptr));
  std::optional<Time> last;
  for (int n = 0; n < kMaxWritesOfGuard; ++n) {
    ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
    if (!write) return none;
    if (write->size == 8 && write->address == read->address && write->value == guard.bytes) {
      return last ? FailedCheck{read->address, read->time, *last, checked->function} : none;
    }
    if (!last) last = write->time;
  }
  return none;
}

absl::StatusOr<std::optional<AllocatorCall>> FindAllocatorCall(const ProcessNames& names,
                                                               const HeapIndex& heap,
                                                               const Stack& stack) {
  ASSIGN_OR_RETURN(const Symbolizer* symbols, names.SymbolsAt(stack.time));
  const Frame* outermost = nullptr;
  for (const Frame& frame : stack.frames) {
    if (!IsCallFrame(frame) || frame.kind == Frame::Kind::kSignal) continue;
    const std::optional<FunctionInfo> function = symbols->FunctionAt(frame.lookup_pc);
    const bool is_allocators =
        function && function->entry &&
        std::any_of(heap.functions().begin(), heap.functions().end(),
                    [&](const HeapFunction& f) { return f.entry == *function->entry; });
    if (is_allocators) {
      outermost = &frame;
    } else if (outermost != nullptr) {
      break;
    }
  }
  if (outermost == nullptr) return std::optional<AllocatorCall>();
  ASSIGN_OR_RETURN(const std::optional<Time> begin,
                   CalledAt(names.process(), *outermost, stack.time));
  return std::optional<AllocatorCall>({stack.thread, begin.value_or(stack.time), stack.time});
}

namespace {

class AllocatorWords {
 public:
  AllocatorWords(const ProcessNames& names, const HeapIndex& heap, ScanControl* control)
      : names_(names),
        process_(names.process()),
        heap_(heap),
        control_(control),
        unwinder_(names) {}

  // First the call that failed, then those that wrote what it read: a list that somebody changed
  // may have been followed by one call and used by the next.
  absl::StatusOr<std::optional<FailedCheck>> Find(const Stack& stack) {
    ASSIGN_OR_RETURN(const std::optional<AllocatorCall> failed,
                     FindAllocatorCall(names_, heap_, stack));
    if (failed) calls_.push_back(*failed);
    for (size_t i = 0; i < calls_.size(); ++i) {
      const AllocatorCall call = calls_[i];
      ASSIGN_OR_RETURN(std::optional<FailedCheck> found, FindIn(call));
      if (found) return found;
    }
    return std::optional<FailedCheck>();
  }

 private:
  absl::StatusOr<std::optional<FailedCheck>> FindIn(const AllocatorCall& call) {
    const std::optional<FailedCheck> none;
    AccessQuery query;
    ASSIGN_OR_RETURN(query.ranges, HeapRanges(call.thread, call.end));
    if (query.ranges.empty()) return none;
    query.span = {call.begin, call.end + 1};
    query.reads = true;
    query.writes = false;
    query.direction = Direction::kBackward;
    query.thread = call.thread;
    query.want_values = false;
    ASSIGN_OR_RETURN(const std::unique_ptr<Cursor<Access>> reads,
                     process_.Accesses(std::move(query), control_));
    absl::flat_hash_set<uint64_t> seen;
    for (int n = 0; n < kMaxReadsOfCall && words_ < kMaxWordsRead; ++n) {
      ASSIGN_OR_RETURN(const std::optional<Access> read, reads->Next());
      if (!read) break;
      const Address word(read->address.v & ~uint64_t{7});
      if (!seen.insert(word.v).second) continue;
      ++words_;
      ASSIGN_OR_RETURN(const std::optional<Access> write, LastWrite(word, read->time));
      if (!write) continue;
      ASSIGN_OR_RETURN(const bool wrong, IsWrong(word, *write));
      if (wrong) return std::optional<FailedCheck>({word, read->time, write->time, ""});
    }
    return none;
  }

  // Memory that belongs to no file, without the stack and the thread's own variables.
  absl::StatusOr<std::vector<AddressRange>> HeapRanges(ThreadNo thread, Time t) const {
    ASSIGN_OR_RETURN(const std::vector<Mapping> maps, process_.MappingsAt(t));
    ASSIGN_OR_RETURN(const Registers registers, process_.RegistersAt(t, thread));
    std::vector<AddressRange> ranges;
    for (const Mapping& m : maps) {
      const bool is_heap = m.path.empty() || m.path == "[heap]";
      const bool is_thread = m.range.Contains(Address(registers.gpr[kRsp])) ||
                             m.range.Contains(Address(registers.fs_base));
      if (is_heap && !is_thread && (m.protection & 2) != 0) ranges.push_back(m.range);
    }
    return ranges;
  }

  static bool IsNear(Address word, const HeapIndex::Around& around) {
    const HeapLife *below = around.below, *above = around.above;
    return (below != nullptr && word.v - below->begin.v - below->extent() < kPageBytes) ||
           (above != nullptr && above->begin.v - word.v < kPageBytes);
  }

  absl::StatusOr<std::optional<Access>> LastWrite(Address word, Time before) const {
    AccessQuery query;
    query.ranges = {{word, word + 8}};
    query.span = {Time(0), before};
    query.direction = Direction::kBackward;
    query.want_values = false;
    return LastAccess(process_, std::move(query));
  }

  // Not the allocator's, and not into a block either, but near one.
  absl::StatusOr<bool> IsWrong(Address word, const Access& write) {
    if (write.actor != Actor::kInstruction && write.actor != Actor::kSyscall) return false;
    const HeapIndex::Around around = heap_.Find(word, write.time);
    if (around.inside != nullptr) {
      if (around.inside->IsAlive(write.time)) return false;
    } else if (!IsNear(word, around)) {
      return false;
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<Moment> moment, process_.At(write.time));
    ASSIGN_OR_RETURN(const Stack stack,
                     unwinder_.StackOf(*moment, write.thread, {.max_frames = kMaxFramesOfWriter}));
    ASSIGN_OR_RETURN(const std::optional<AllocatorCall> call,
                     FindAllocatorCall(names_, heap_, stack));
    if (!call) return !IsGlibcsOwn(stack);
    const bool known = std::any_of(calls_.begin(), calls_.end(), [&](const AllocatorCall& c) {
      return c.thread == call->thread && c.begin == call->begin;
    });
    if (!known && calls_.size() < kMaxCallsFollowed) calls_.push_back(*call);
    return false;
  }

  const ProcessNames& names_;
  const Process& process_;
  const HeapIndex& heap_;
  ScanControl* control_;
  Unwinder unwinder_;
  std::vector<AllocatorCall> calls_;  // whose reads are looked at, in this order
  int words_ = 0;                     // that were looked at
};

}  // namespace

absl::StatusOr<std::optional<FailedCheck>> FindOverwrittenHeapWord(const ProcessNames& names,
                                                                   const HeapIndex& heap,
                                                                   const Stack& stack,
                                                                   ScanControl* control) {
  return AllocatorWords(names, heap, control).Find(stack);
}

}  // namespace ttq
