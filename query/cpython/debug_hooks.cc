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
  const Frame* call = nullptr;  // the frame that a call made, of those that share its stack
  const Frame* passes = nullptr;
  Gpr with = kRdi;
  bool hooked = false, checks = false;
  for (const Frame& frame : stack.frames) {
    if (IsCallFrame(frame)) call = &frame;
    hooked |= frame.function.starts_with("_PyMem_Debug");
    checks |= frame.function == "_PyMem_DebugCheckAddress";
    if (frame.kind == Frame::Kind::kInlined) continue;
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

// A call of the allocators that wrote a block's header.
struct HeaderWrite {
  std::string function;  // the outermost of the allocators' own
  std::string by;        // who called that, or "somebody"
  Time time, begin;      // of the write; of the call
};

class Headers {
 public:
  explicit Headers(const ProcessNames& names)
      : names_(names), process_(names.process()), unwinder_(names) {}

  absl::StatusOr<std::optional<HeaderWrite>> LastBefore(Address block, Time t) {
    AccessQuery query;
    query.ranges = {{block - kHeaderBytes, block - kGuardBytes}};
    query.span = {Time(0), t};
    query.direction = Direction::kBackward;
    query.want_values = false;
    ASSIGN_OR_RETURN(const std::unique_ptr<Cursor<Access>> writes,
                     process_.Accesses(std::move(query), nullptr));
    for (int n = 0; n < kMaxHeaderWrites; ++n) {
      ASSIGN_OR_RETURN(const std::optional<Access> write, writes->Next());
      if (!write) break;
      if (write->actor != Actor::kInstruction) continue;
      ASSIGN_OR_RETURN(std::optional<HeaderWrite> found, AllocatorAt(*write));
      if (found) return found;
    }
    return std::optional<HeaderWrite>();
  }

 private:
  absl::StatusOr<std::optional<HeaderWrite>> AllocatorAt(const Access& write) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Moment> moment, process_.At(write.time));
    ASSIGN_OR_RETURN(const ttq::Stack stack,
                     unwinder_.StackOf(*moment, write.thread, {.max_frames = kMaxFramesOfCall}));
    const Frame *outermost = nullptr, *call = nullptr, *caller = nullptr;
    for (const Frame& frame : stack.frames) {
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
         write.time, begin.value_or(write.time)});
  }

  const ProcessNames& names_;
  const Process& process_;
  Unwinder unwinder_;
};

// As the header has it.
uint64_t SizeOf(const std::string& header) {
  uint64_t size = 0;
  memcpy(&size, header.data(), sizeof(size));
  return __builtin_bswap64(size);
}

bool IsAll(std::string_view bytes, char byte) {
  return bytes.find_first_not_of(byte) == bytes.npos;
}

// The 8 bytes of the block's surroundings that are not as the hooks left them; nullopt: all are.
absl::StatusOr<std::optional<Address>> WrongWord(const Process& process, Address block,
                                                 const std::string& header, Time t) {
  constexpr uint64_t kMaxSize = uint64_t{1} << 47;
  const bool known = kInterfaces.find(header[8]) != kInterfaces.npos;
  if (!known || !IsAll(std::string_view(header).substr(9), kGuardByte)) return block - kGuardBytes;
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
  ASSIGN_OR_RETURN(MemoryImage header, process.Memory(start, kHeaderBytes, given->time));
  if (!header.all_present()) return none;

  RefusedBlock refused;
  refused.block = block;
  refused.given_back = given->time;
  refused.with = given->with;
  refused.freed = IsAll(std::string_view(header.bytes).substr(8), kDeadByte);
  refused.check.word = block - kGuardBytes;  // where the interface is, if nothing else
  if (!refused.freed) {
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

  refused.text = word >= block   ? "right after a block"
                 : refused.freed ? "the start of a block"
                                 : fmt::format("{} bytes before a block", block.v - word.v);
  Headers headers(names);
  ASSIGN_OR_RETURN(std::optional<HeaderWrite> made, headers.LastBefore(block, given->time));
  std::string freed;
  if (refused.freed && made) {
    freed = fmt::format(", freed at {} by {}", made->begin.v, made->by);
    ASSIGN_OR_RETURN(made, headers.LastBefore(block, made->begin));
  }
  if (made) {
    ASSIGN_OR_RETURN(header, process.Memory(start, kHeaderBytes, made->time + 1));
    const uint64_t size = SizeOf(header.bytes);
    refused.text += fmt::format(" of {} byte{} that {} gave {} at {}", size, size == 1 ? "" : "s",
                                made->function, made->by, made->begin.v);
  }
  refused.text += freed;
  return std::optional<RefusedBlock>(std::move(refused));
}

}  // namespace ttq::python
