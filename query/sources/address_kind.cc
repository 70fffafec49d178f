// SPDX-License-Identifier: MIT

#include "query/sources/address_kind.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/process/heap.h"
#include "store/read/moment_info.h"

namespace ttq {

namespace {

std::string At(Time t, ThreadNo thread, const Context& context) {
  if (context.process().threads().size() < 2) return fmt::format("at {}", t.v);
  return fmt::format("at {} in thread {}", t.v, thread.v);
}

// "24 bytes that malloc gave make_node (list.c:12) at 1234, freed at 2345 by drop (list.c:30)"
std::string DescribeLife(const Context& context, const HeapIndex& heap, const HeapLife& life,
                         Time t) {
  std::string text = fmt::format("{} byte{} that {} gave", life.size, life.size == 1 ? "" : "s",
                                 heap.functions()[life.allocated_with].name);
  const std::string by = DescribeCaller(context, life.allocated_from, life.allocated);
  text += fmt::format(" {} {}", by.empty() ? "out" : by,
                      At(life.allocated, life.allocated_thread, context));
  if (life.freed < t) {
    const std::string freer = DescribeCaller(context, life.freed_from, life.freed);
    text += fmt::format(", freed {}{}", At(life.freed, life.freed_thread, context),
                        freer.empty() ? "" : " by " + freer);
  }
  return text;
}

std::string ByteCount(uint64_t n) { return fmt::format("{} byte{}", n, n == 1 ? "" : "s"); }

}  // namespace

std::string DescribeInside(const Context& context, const HeapIndex& heap, const HeapLife& life,
                           Address address, Time t) {
  const uint64_t offset = address.v - life.begin.v;
  return fmt::format("{} a block of {}", offset == 0 ? "the start of" : ByteCount(offset) + " into",
                     DescribeLife(context, heap, life, t));
}

namespace {

// Whether glibc keeps the size of what comes after the block there (malloc/malloc.c, "struct
// malloc_chunk"), so that it is in no block, whatever was there before this one.
bool IsSizeBehind(const HeapIndex& heap, const HeapLife& life, Address address) {
  const auto is_other = [](const HeapFunction& f) {
    return f.verb == HeapVerb::kMalloc && f.name == "malloc" && !IsGlibc(f.module) &&
           !f.module.starts_with("ld-");
  };
  if (std::any_of(heap.functions().begin(), heap.functions().end(), is_other)) return false;
  constexpr uint64_t kSmallest = 32, kAlignment = 16, kSizeWord = 8;
  const uint64_t chunk =
      std::max(kSmallest, (life.size + kSizeWord + kAlignment - 1) / kAlignment * kAlignment);
  const uint64_t usable = chunk - kSizeWord;
  return address >= life.begin + life.size && address < life.begin + usable + kSizeWord;
}

std::optional<AddressKind> DescribeHeap(const Context& context, const HeapIndex& heap,
                                        Address address, Time t) {
  HeapIndex::Around around = heap.Find(address, t);
  const bool is_divided_anew =
      around.inside != nullptr && around.inside->freed < t && around.below != nullptr &&
      around.below->allocated > around.inside->freed && IsSizeBehind(heap, *around.below, address);
  if (is_divided_anew) around.inside = nullptr;
  if (around.inside != nullptr) {
    const HeapLife& life = *around.inside;
    return AddressKind{life.freed < t ? "freed heap" : "heap",
                       DescribeInside(context, heap, life, address, t)};
  }
  constexpr uint64_t kNear = 4096;
  const HeapLife *below = around.below, *above = around.above;
  const uint64_t past =
      below == nullptr ? ~uint64_t{0} : address.v - below->begin.v - below->extent();
  const uint64_t before = above == nullptr ? ~uint64_t{0} : above->begin.v - address.v;
  if (past <= before && past < kNear) {
    return AddressKind{"heap", fmt::format("{} a block of {}",
                                           past == 0 ? "right after" : ByteCount(past) + " after",
                                           DescribeLife(context, heap, *below, t))};
  }
  // The allocator's own word is before a block.
  if (before < kNear) {
    return AddressKind{"heap", fmt::format("{} before a block of {}", ByteCount(before),
                                           DescribeLife(context, heap, *above, t))};
  }
  return std::nullopt;
}

// The thread whose stack pointer is in `range`, as far as that is known.
std::optional<ThreadNo> StackOf(const Context& context, AddressRange range, Time t) {
  size_t asked = 0;
  for (const Thread& thread : context.process().threads()) {
    if (thread.start > t || thread.end < t) continue;
    if (++asked > 256) break;
    absl::StatusOr<Registers> registers = context.process().RegistersAt(t, thread.number);
    if (registers.ok() && range.Contains(Address(registers->gpr[kRsp]))) return thread.number;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<AddressKind> DescribeAddress(const Context& context, Address address, Time t,
                                            ScanControl* control) {
  const Process& process = context.process();
  if (address.v < kPageBytes) {
    return AddressKind{
        "null", address.v == 0 ? "the null pointer"
                               : fmt::format("{} behind the null pointer", ByteCount(address.v))};
  }
  const uint64_t top = address.v >> 47;
  if (top != 0 && top != 0x1ffff) {
    return AddressKind{"unmapped", "no address that the processor accepts (not canonical)"};
  }
  ASSIGN_OR_RETURN(std::vector<Mapping> maps, process.MappingsAt(t));
  const Mapping *mapping = nullptr, *next = nullptr;
  for (const Mapping& m : maps) {
    if (m.range.Contains(address)) mapping = &m;
    if (m.range.begin > address && (next == nullptr || m.range.begin < next->range.begin)) {
      next = &m;
    }
  }
  const auto names_stack = [&](const Mapping& m) -> std::string {
    if (m.path != "[stack]" && !m.path.empty()) return "";
    const std::optional<ThreadNo> thread = StackOf(context, m.range, t);
    if (thread) return fmt::format("the stack of thread {}", thread->v);
    return m.path == "[stack]" ? "the stack of thread 1" : "";
  };
  // Below a stack that has been used up lies nothing, or a page without access.
  constexpr uint64_t kBelowStack = 16 << 20;
  const bool guard = mapping != nullptr && mapping->protection == 0 && mapping->path.empty();
  if ((mapping == nullptr || guard) && next != nullptr &&
      next->range.begin.v - address.v < kBelowStack) {
    const std::string stack = names_stack(*next);
    absl::StatusOr<Registers> registers = process.RegistersAt(t, std::nullopt);
    // It is the stack's overflow when the stack pointer is there too.
    const bool overflow = registers.ok() && registers->gpr[kRsp] - address.v + 65536 < 131072 &&
                          registers->gpr[kRsp] < next->range.begin.v + 65536;
    if (!stack.empty() && (guard || overflow)) {
      return AddressKind{"guard page",
                         fmt::format("{} below {}{}", ByteCount(next->range.begin.v - address.v),
                                     stack, overflow ? ": stack overflow" : "")};
    }
    if (overflow) {
      return AddressKind{"guard page", fmt::format("{} below a stack: stack overflow",
                                                   ByteCount(next->range.begin.v - address.v))};
    }
  }
  const bool may_be_heap = mapping == nullptr || mapping->path.empty() || mapping->path == "[heap]";
  const bool unknown = HistoryUnknown(process);
  if (may_be_heap && !unknown) {
    ASSIGN_OR_RETURN(const HeapIndex* heap, context.Heap(control));
    std::optional<AddressKind> found = DescribeHeap(context, *heap, address, t);
    if (found) {
      if (mapping == nullptr) found->text += "; " + process.DescribeUnmapped(address, t);
      return *found;
    }
  }
  if (mapping == nullptr) return AddressKind{"unmapped", process.DescribeUnmapped(address, t)};
  if (const std::string stack = names_stack(*mapping); !stack.empty()) {
    return AddressKind{"stack", stack};
  }
  const std::string access = mapping->protection == 0 ? " without access" : "";
  if (mapping->path.empty() || mapping->path[0] == '[') {
    return AddressKind{
        mapping->path == "[heap]" ? "heap" : "anonymous",
        fmt::format("{} memory{}{}", mapping->path.empty() ? "anonymous" : mapping->path, access,
                    unknown ? ""
                            : fmt::format(", mapped at {}, in no block of the allocator",
                                          mapping->since.v))};
  }
  const std::string module(BaseName(mapping->path));
  absl::StatusOr<const Symbolizer*> symbols = context.SymbolsAt(t);
  if (symbols.ok() && (mapping->protection & 4) != 0) {
    const std::string name = (*symbols)->NameOf(address);
    return AddressKind{"code",
                       fmt::format("code of {}{}{}", module, name.empty() ? "" : ": ", name)};
  }
  if (symbols.ok()) {
    if (const std::optional<VariableInfo> variable = (*symbols)->VariableAt(address)) {
      const uint64_t offset = address.v - variable->address.v;
      return AddressKind{"data",
                         fmt::format("{}{}, data of {}", variable->name,
                                     offset == 0 ? "" : fmt::format("+{:#x}", offset), module)};
    }
  }
  return AddressKind{"file",
                     fmt::format("{}{}, offset {:#x}{}", module, access,
                                 address.v - mapping->range.begin.v + mapping->file_offset,
                                 unknown ? "" : fmt::format(", mapped at {}", mapping->since.v))};
}

}  // namespace ttq
