// SPDX-License-Identifier: MIT

#include "query/cpython/debug_hooks.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/process/heap.h"

namespace ttq::python {
namespace {

// Before a block: its size, highest byte first; the letter of the interface that gave it; 7 guard
// bytes. Behind it: 8 guard bytes.
constexpr uint64_t kHeaderBytes = 16, kGuardBytes = 8;
constexpr char kGuardByte = '\xfd', kDeadByte = '\xdd';
constexpr std::string_view kInterfaces = "rmo";
// Writes to one header that are looked at for the call of an allocator that made it.
constexpr int kMaxHeaderWrites = 64;
constexpr size_t kMaxFramesOfCall = 32,
                 kMaxFramesInside = 4;  // within an allocator's function: memset

bool IsAny(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// How a block is given back: interface(block, …) and hook(context, block, …).
bool IsInterface(std::string_view name) {
  return IsAny(name, {"PyMem_Free", "PyMem_Realloc", "PyMem_RawFree", "PyMem_RawRealloc",
                      "PyObject_Free", "PyObject_Realloc"});
}

bool IsHook(std::string_view name) {
  return IsAny(name, {"_PyMem_DebugFree", "_PyMem_DebugRealloc", "_PyMem_DebugRawFree",
                      "_PyMem_DebugRawRealloc"});
}

// What lies between the interpreter's own bookkeeping and the code that wants memory.
bool IsOfAllocator(std::string_view name) {
  return name.starts_with("PyMem_") || name.starts_with("_PyMem_") ||
         IsAny(name,
               {"PyObject_Malloc", "PyObject_Calloc", "PyObject_Realloc", "PyObject_Free",
                "PyObject_GC_Del", "PyType_GenericAlloc", "_PyType_AllocNoTrack", "_PyObject_New",
                "_PyObject_NewVar", "_PyObject_GC_New", "_PyObject_GC_NewVar", "_PyObject_GC_Alloc",
                "_PyObject_GC_Malloc", "gc_alloc"});
}

// A block as it was given back: by a call that found its stack pointer at `cfa`.
struct Given {
  Address block;
  Time time;            // of the call
  Gpr with = kRdi;      // what the call passed the block in
  bool checks = false;  // the hooks look at the block
};

absl::StatusOr<std::optional<Given>> GivenBack(const Process& process, const ttq::Stack& stack) {
  const ttq::Frame* call = nullptr;  // the frame that a call made, of those that share its stack
  const ttq::Frame* passes = nullptr;
  Gpr with = kRdi;
  bool hooked = false, checks = false;
  for (const ttq::Frame& frame : stack.frames) {
    if (IsCallFrame(frame)) call = &frame;
    hooked |= frame.function.starts_with("_PyMem_Debug");
    checks |= frame.function == "_PyMem_DebugCheckAddress";
    if (frame.kind == ttq::Frame::Kind::kInlined) continue;
    if (IsHook(frame.function)) {
      passes = call;
      with = kRsi;
    } else if (IsInterface(frame.function)) {
      passes = call;
      with = kRdi;
      break;
    } else if (passes != nullptr) {
      break;
    }
  }
  if (!hooked || passes == nullptr) return std::optional<Given>();
  ASSIGN_OR_RETURN(const std::optional<Time> time, CalledAt(process, *passes, stack.time));
  if (!time) return std::optional<Given>();
  ASSIGN_OR_RETURN(const Registers registers, process.RegistersAt(*time, stack.thread));
  return std::optional<Given>({Address(registers.gpr[with]), *time, with, checks});
}

// As the header has it.
uint64_t SizeOf(const std::string& header) {
  uint64_t size = 0;
  memcpy(&size, header.data(), sizeof(size));
  return __builtin_bswap64(size);
}

bool IsAll(std::string_view bytes, char byte) {
  return bytes.find_first_not_of(byte) == bytes.npos;
}

// Whether the hooks have written this header, and nobody else since.
bool IsHeader(std::string_view header) {
  return kInterfaces.find(header[8]) != kInterfaces.npos && IsAll(header.substr(9), kGuardByte);
}

// A call of the allocators that wrote what is before a block.
struct HeaderWrite {
  std::string function;  // the outermost of the allocators' own
  std::string by;        // who called that, or "somebody"
  Time begin;            // of the call
  std::string header;    // behind the write
};

class Headers {
 public:
  explicit Headers(const ProcessNames& names)
      : names_(names), process_(names.process()), unwinder_(names) {}

  // The last one before t; nullopt: there is none. Many writes of somebody else: OutOfRange.
  absl::StatusOr<std::optional<HeaderWrite>> LastBefore(Address block, Time t) {
    AccessQuery query;
    query.ranges = {{block - kGuardBytes, block}};
    query.span = {Time(0), t};
    query.direction = Direction::kBackward;
    query.want_values = false;
    ASSIGN_OR_RETURN(const std::unique_ptr<Cursor<Access>> writes,
                     process_.Accesses(std::move(query), nullptr));
    for (int n = 0; n < kMaxHeaderWrites; ++n) {
      ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
      if (!write) return std::optional<HeaderWrite>();
      if (write->actor != Actor::kInstruction) continue;
      ASSIGN_OR_RETURN(std::optional<HeaderWrite> found, AllocatorAt(*write));
      if (!found) continue;
      ASSIGN_OR_RETURN(MemoryImage header,
                       process_.Memory(block - kHeaderBytes, kHeaderBytes, write->time + 1));
      found->header = std::move(header.bytes);
      return found;
    }
    return absl::OutOfRangeError("the header was written to too often");
  }

 private:
  absl::StatusOr<std::optional<HeaderWrite>> AllocatorAt(const Access& write) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Moment> moment, process_.At(write.time));
    ASSIGN_OR_RETURN(const ttq::Stack stack,
                     unwinder_.StackOf(*moment, write.thread, {.max_frames = kMaxFramesOfCall}));
    const ttq::Frame *outermost = nullptr, *call = nullptr, *caller = nullptr;
    for (const ttq::Frame& frame : stack.frames) {
      const bool is_inside = outermost == nullptr && &frame < &stack.frames[0] + kMaxFramesInside;
      if (IsOfAllocator(frame.function)) {
        outermost = &frame;
      } else if (!is_inside) {
        caller = &frame;
        break;
      }
      if (IsCallFrame(frame)) call = &frame;
    }
    if (outermost == nullptr || call == nullptr) return std::optional<HeaderWrite>();
    ASSIGN_OR_RETURN(const std::optional<Time> begin, CalledAt(process_, *call, write.time));
    return std::optional<HeaderWrite>(
        {outermost->function,
         caller == nullptr ? "somebody" : DescribeCaller(names_, caller->pc, write.time),
         begin.value_or(write.time), ""});
  }

  const ProcessNames& names_;
  const Process& process_;
  Unwinder unwinder_;
};

// The 8 bytes of the block's surroundings that are not as the hooks left them; nullopt: all are.
absl::StatusOr<std::optional<Address>> WrongWord(const Process& process, Address block,
                                                 const std::string& header, Time t) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 47;
  if (!IsHeader(header)) return block - kGuardBytes;
  const uint64_t size = SizeOf(header);
  if (size >= kMaxSize) return block - kHeaderBytes;
  ASSIGN_OR_RETURN(const MemoryImage guard, process.Memory(block + size, kGuardBytes, t));
  if (!guard.all_present() || IsAll(guard.bytes, kGuardByte)) return std::optional<Address>();
  return block + size;
}

}  // namespace

absl::StatusOr<std::optional<RefusedBlock>> FindRefusedBlock(const ProcessNames& names,
                                                             const ttq::Stack& stack) {
  const std::optional<RefusedBlock> none;
  const Process& process = names.process();
  ASSIGN_OR_RETURN(const std::optional<Given> given, GivenBack(process, stack));
  if (!given || given->block.v < kHeaderBytes) return none;
  const Address block = given->block, start = block - kHeaderBytes;
  ASSIGN_OR_RETURN(const MemoryImage header, process.Memory(start, kHeaderBytes, given->time));
  if (!header.all_present()) return none;

  RefusedBlock refused;
  refused.block = block;
  refused.given_back = given->time;
  refused.with = given->with;
  const bool is_dead = IsAll(std::string_view(header.bytes).substr(8), kDeadByte);
  refused.check.word = block - kGuardBytes;  // where the interface is, if nothing else
  if (!is_dead) {
    ASSIGN_OR_RETURN(const std::optional<Address> wrong,
                     WrongWord(process, block, header.bytes, given->time));
    if (!wrong && !given->checks) return none;
    if (wrong) refused.check.word = *wrong;
  }
  const Address word = refused.check.word;
  AccessQuery query;
  query.ranges = {{word, word + kGuardBytes}};
  query.span = {given->time, stack.time};
  query.direction = Direction::kBackward;
  query.reads = true;
  query.writes = false;
  query.thread = stack.thread;
  ASSIGN_OR_RETURN(const std::optional<Access> read, LastAccess(process, query));
  query.span = {Time(0), given->time};
  query.reads = false;
  query.writes = true;
  query.thread = std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<Access> write, LastAccess(process, query));
  if (!read || !write) return none;
  refused.check.read = read->time;
  refused.check.written = write->time;

  // The allocators' last word on this place: a block begins here, or was freed, or neither.
  Headers headers(names);
  absl::StatusOr<std::optional<HeaderWrite>> made = headers.LastBefore(block, given->time);
  std::string freed;
  if (is_dead && made.ok() && *made) {
    freed = fmt::format(", freed at {} by {}", (*made)->begin.v, (*made)->by);
    made = headers.LastBefore(block, (*made)->begin);
  }
  if (absl::IsOutOfRange(made.status())) return none;
  RETURN_IF_ERROR(made.status());
  if (!*made || !IsHeader((*made)->header)) return refused;
  refused.state = is_dead ? RefusedBlock::State::kFreed : RefusedBlock::State::kDamaged;
  const uint64_t size = SizeOf((*made)->header);
  refused.text = fmt::format("{} a block of {} byte{} that {} gave {} at {}{}",
                             word >= block ? "right after"
                             : is_dead     ? "the start of"
                                           : fmt::format("{} bytes before", block.v - word.v),
                             size, size == 1 ? "" : "s", (*made)->function, (*made)->by,
                             (*made)->begin.v, freed);
  return refused;
}

}  // namespace ttq::python
