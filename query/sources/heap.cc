// SPDX-License-Identifier: MIT

#include "query/process/heap.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/ctypes/expression_at.h"
#include "query/ctypes/render.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/process/glibc_heap.h"
#include "query/process/stack.h"
#include "query/rows/run_options.h"
#include "query/sources/address_kind.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"
#include "store/read/moment_info.h"

namespace ttq {
namespace {

// The address a `heap` question is about: a number, a register's value, or what a pointer variable
// holds at that time.
absl::StatusOr<Address> AddressOf(const ast::ExprPtr& expr, const Context& context, Time t) {
  const Process& process = context.process();
  if (const auto* number = std::get_if<ast::Number>(&expr->node)) return Address(number->value);
  if (const auto* reg = std::get_if<ast::Register>(&expr->node)) {
    for (int i = 0; i < kGprCount; ++i) {
      if (reg->name != GprName(static_cast<Gpr>(i))) continue;
      ASSIGN_OR_RETURN(Registers registers, process.RegistersAt(t, std::nullopt));
      return Address(registers.gpr[i]);
    }
    return ErrorAt(expr->range, absl::StrCat("there is no register $", reg->name),
                   "the general registers are $rax, $rbx … $r15");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process.At(t));
  ASSIGN_OR_RETURN(EvaluatedValue result,
                   EvaluateExpression(context, *expr, moment.get(), true, std::nullopt, 0));
  const CType* type = result.value.type->Strip();
  if (type->kind == CType::Kind::kArray && result.value.has_address()) {
    return Address(result.value.address);
  }
  const std::optional<uint64_t> size = result.types->SizeOf(result.value.type);
  // A number that is no variable's is an address, whatever its type: 0x1000 + 8.
  if (!type->IsScalar() || (size != 8 && result.value.has_address())) {
    return ErrorAt(expr->range,
                   size ? fmt::format("this is {} byte{} of memory, not a pointer", *size,
                                      *size == 1 ? "" : "s")
                        : "this is no pointer",
                   "give an address, or a pointer variable");
  }
  ASSIGN_OR_RETURN(std::optional<uint64_t> pointer,
                   ValueReader(*result.types, moment.get()).Number(result.value));
  if (!pointer) return ErrorAt(expr->range, "this has no value at that time");
  return Address(*pointer);
}

// Whether the instruction that runs at t touches the block.
bool TouchedAt(const Process& process, const HeapLife& life, Time t) {
  AccessQuery query;
  query.ranges = {{life.begin, life.begin + life.extent()}};
  query.span = {t, t + 1};
  query.reads = true;
  query.want_values = false;
  absl::StatusOr<std::unique_ptr<Cursor<Access>>> cursor = process.Accesses(query, nullptr);
  if (!cursor.ok()) return false;
  absl::StatusOr<std::optional<Access>> access = (*cursor)->Next();
  return access.ok() && access->has_value() && (*access)->actor == Actor::kInstruction;
}

// A mapping that the program made for itself.
struct MappedBlock {
  AddressRange range;
  Time mapped, unmapped = kTimeMax;
  ThreadNo thread, unmapped_thread;
};

// The last anonymous mapping made before t that covers `address`, however it ended.
absl::StatusOr<std::optional<MappedBlock>> FindMapped(const Process& process, Address address,
                                                      Time t) {
  EventQuery query;
  query.kind = EventKind::kMap;
  ASSIGN_OR_RETURN(std::unique_ptr<Cursor<Event>> cursor, process.Events(query));
  std::optional<MappedBlock> found;
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<Event> event, cursor->Next());
    if (!event) return found;
    const Event& e = *event;
    const AddressRange range{Address(e.args[0]), Address(e.args[0] + e.args[1])};
    if (!range.Contains(address)) continue;
    if (e.detail.rfind("map ", 0) == 0) {
      if (e.time > t) return found;
      // Only a path follows the protection: "map 0x1000-0x2000 rw- /lib/…"
      const bool anonymous = std::count(e.detail.begin(), e.detail.end(), ' ') < 3;
      found.reset();
      if (anonymous) {
        found = MappedBlock{range, e.time, kTimeMax, e.thread, {}};
      }
    } else if (e.detail.rfind("unmap ", 0) == 0 && found && found->unmapped == kTimeMax) {
      found->unmapped = e.time;
      found->unmapped_thread = e.thread;
    }
  }
}

// Where a system call that had just been made at t was wanted: what called the C library.
Address CallerOutside(const Context& context, Time t, ThreadNo thread) {
  absl::StatusOr<std::unique_ptr<Moment>> moment = context.process().At(t);
  if (!moment.ok()) return Address(0);
  Unwinder unwinder(context);
  absl::StatusOr<Stack> stack = unwinder.StackOf(**moment, thread, {.max_frames = 16});
  if (!stack.ok() || stack->frames.empty()) return Address(0);
  const std::string& library = stack->frames[0].module;
  for (const Frame& frame : stack->frames) {
    if (frame.kind == Frame::Kind::kNormal && frame.module != library) return frame.pc;
  }
  return stack->frames[0].pc;
}

bool HasPython(const Process& process) {
  absl::StatusOr<std::vector<LoadedModule>> modules = process.Modules();
  if (!modules.ok()) return false;
  return std::any_of(modules->begin(), modules->end(), [](const LoadedModule& m) {
    const std::string name(BaseName(m.path));
    return name.rfind("python", 0) == 0 || name.rfind("libpython", 0) == 0;
  });
}

// CPython's own allocator takes memory from the system in pieces of these sizes.
bool LooksLikeArena(const Process& process, uint64_t size) {
  return (size == 256 << 10 || size == 1 << 20) && HasPython(process);
}

constexpr size_t kHeapColumns = 19;

constexpr char kArena[] =
    "this is an arena of CPython's own allocator; the objects in it are not blocks of malloc";

std::vector<Value> CallColumns(const Context& context, Time t, Time asked, ThreadNo thread,
                               std::string with, Address from) {
  if (t == kTimeMax || t >= asked) return {Null{}, Null{}, Null{}, Null{}, Null{}};
  return {t, OfThread(thread), OfText(with), from.v == 0 ? Value(Null{}) : Value(from - 1),
          OfText(DescribeCaller(context, from, t))};
}

Row RowOf(const Context& context, const HeapIndex& heap, const HeapLife& life, Address address,
          Time t, std::string position, uint64_t lives) {
  const bool freed = life.freed < t;
  const std::optional<uint64_t> usable = UsableSize(context, heap, life, t);
  Row row = {t,
             address,
             freed ? "freed" : "allocated",
             std::move(position),
             life.begin,
             OfCount(life.size),
             usable ? OfCount(*usable) : Value(Null{}),
             static_cast<int64_t>(address.v - life.begin.v)};
  const auto append = [&row](std::vector<Value> values) {
    row.insert(row.end(), values.begin(), values.end());
  };
  append(CallColumns(context, life.allocated, t, life.allocated_thread,
                     heap.functions()[life.allocated_with].name, life.allocated_from));
  append(CallColumns(context, life.freed, t, life.freed_thread,
                     life.freed_thread.v == 0 ? "" : heap.functions()[life.freed_with].name,
                     life.freed_from));
  row.push_back(OfCount(lives));
  return row;
}

Row RowOf(const Context& context, const MappedBlock& block, Address address, Time t) {
  const bool freed = block.unmapped <= t;
  Row row = {t,
             address,
             freed ? "freed" : "allocated",
             "inside",
             block.range.begin,
             OfCount(block.range.size()),
             OfCount(block.range.size()),
             static_cast<int64_t>(address.v - block.range.begin.v)};
  const auto append = [&row](std::vector<Value> values) {
    row.insert(row.end(), values.begin(), values.end());
  };
  append(CallColumns(context, block.mapped, t + 1, block.thread, "mmap",
                     CallerOutside(context, block.mapped, block.thread)));
  append(CallColumns(
      context, block.unmapped, t + 1, block.unmapped_thread, "munmap",
      freed ? CallerOutside(context, block.unmapped, block.unmapped_thread) : Address(0)));
  row.push_back(OfCount(1));
  return row;
}

// Frees of an address that was not out when they were made.
void NoteBadFrees(const Context& context, const HeapIndex& heap, const HeapLife& life, Time t,
                  Outcome* outcome) {
  for (const BadFree& bad : heap.bad_frees()) {
    if (bad.pointer != life.begin || bad.time > t || bad.time < life.allocated) continue;
    const std::string by = DescribeCaller(context, bad.from, bad.time);
    outcome->AddNote(fmt::format("double free: {} again at {}{}", heap.functions()[bad.with].name,
                                 bad.time.v, by.empty() ? "" : " by " + by));
  }
}

// Of one moment, whose calls of the allocator nobody saw.
absl::StatusOr<std::vector<Row>> HeapRowsByHeaders(const Process& process, Address address, Time t,
                                                   ScanControl* control, Outcome* outcome) {
  outcome->AddNote(fmt::format(
      "from the headers of glibc's malloc: what {} cannot tell is who allocated a block, how many "
      "bytes were asked for, and whether one that is not free lies in a cache of the allocator",
      MomentName(MomentInfoOf(process).beginning)));
  ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, process.At(t));
  ASSIGN_OR_RETURN(const std::optional<GlibcBlock> block,
                   FindGlibcBlock(*moment, address, control));
  std::vector<Row> rows;
  if (!block) {
    outcome->MarkIncomplete(
        fmt::format("{:#x} lies in no chain of malloc's headers that could be followed: it may be "
                    "another allocator's block",
                    address.v));
    return rows;
  }
  const bool in_header = address < block->begin;
  Row row(kHeapColumns);
  row[0] = t;
  row[1] = address;
  row[2] = block->is_free ? "freed" : "allocated, or in a cache";
  row[3] = in_header ? "in its header" : "inside";
  row[4] = block->begin;
  row[6] = OfCount(block->usable);
  row[7] = static_cast<int64_t>(address.v - block->begin.v);
  rows.push_back(std::move(row));
  return rows;
}

absl::StatusOr<std::vector<Row>> HeapRows(const Context& context, Address address, Time t,
                                          ScanControl* control, Outcome* outcome) {
  const Process& process = context.process();
  if (HistoryUnknown(process)) return HeapRowsByHeaders(process, address, t, control, outcome);
  ASSIGN_OR_RETURN(const HeapIndex* made, context.Heap(control));
  const HeapIndex& heap = *made;
  outcome->AddNote(heap.note());
  if (!process.info().complete) outcome->MarkIncomplete(process.info().incomplete_reason);
  const HeapIndex::Around around = heap.Find(address, t);
  std::vector<Row> rows;
  if (around.inside != nullptr) {
    const HeapLife& life = *around.inside;
    rows.push_back(RowOf(context, heap, life, address, t, "inside", around.lives));
    if (life.freed < t) {
      const std::string by = DescribeCaller(context, life.freed_from, life.freed);
      outcome->AddNote(fmt::format("{}freed at {}{}",
                                   TouchedAt(process, life, t) ? "use after free: " : "",
                                   life.freed.v, by.empty() ? "" : " by " + by));
    }
    NoteBadFrees(context, heap, life, t, outcome);
    if (LooksLikeArena(process, life.size)) outcome->AddNote(kArena);
    return rows;
  }
  ASSIGN_OR_RETURN(AddressKind kind, DescribeAddress(context, address, t, control));
  outcome->AddNote(fmt::format("{:#x}: {}", address.v, kind.text));
  if (kind.kind == "anonymous" || kind.kind == "unmapped") {
    ASSIGN_OR_RETURN(std::optional<MappedBlock> mapped, FindMapped(process, address, t));
    if (mapped) {
      rows.push_back(RowOf(context, *mapped, address, t));
      if (LooksLikeArena(process, mapped->range.size())) outcome->AddNote(kArena);
      return rows;
    }
  }
  if (kind.kind != "heap" && kind.kind != "anonymous") return rows;
  if (around.below != nullptr) {
    const HeapLife& life = *around.below;
    rows.push_back(RowOf(context, heap, life, address, t,
                         fmt::format("{} after its end", address.v - life.begin.v - life.extent()),
                         1));
  }
  if (around.above != nullptr) {
    const HeapLife& life = *around.above;
    rows.push_back(RowOf(context, heap, life, address, t,
                         fmt::format("{} before it", life.begin.v - address.v), 1));
  }
  return rows;
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Heap& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  absl::StatusOr<Address> address = AddressOf(source.address, context, at);
  if (!address.ok()) return address.status();
  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "state", Type::kString);
  Add(&plan, "position", Type::kString);
  Add(&plan, "begin", Type::kAddress);
  Add(&plan, "size", Type::kInteger);
  Add(&plan, "usable", Type::kInteger);
  Add(&plan, "offset", Type::kInteger);
  Add(&plan, "allocated_at", Type::kTime);
  Add(&plan, "allocated_thread", Type::kInteger);
  Add(&plan, "allocated_with", Type::kString);
  Add(&plan, "allocated_pc", Type::kAddress);
  Add(&plan, "allocated_by", Type::kString);
  Add(&plan, "freed_at", Type::kTime);
  Add(&plan, "freed_thread", Type::kInteger);
  Add(&plan, "freed_with", Type::kString);
  Add(&plan, "freed_pc", Type::kAddress);
  Add(&plan, "freed_by", Type::kString);
  Add(&plan, "lives", Type::kInteger);
  plan.presentation.layout = Presentation::Layout::kRecord;
  // Of a moment's blocks those that malloc's headers lead to are known, no more.
  if (!HistoryUnknown(context.process())) {
    plan.presentation.no_rows = fmt::format("no block at {:#x} at time {}", address->v, at.v);
  }
  plan.open = [&context, address = *address,
               t = at](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const std::shared_ptr<Outcome> outcome = request.outcome;
    ScanControl* control = request.options->control;
    return OperatorPtr(std::make_unique<ComputedSource>(
        [&context, address, t, control, outcome] {
          return HeapRows(context, address, t, control, outcome.get());
        },
        outcome));
  };
  plan.explain = [address = *address, t = at](const SourceRequest&) {
    return absl::StatusOr<std::string>(fmt::format(
        "the block around {:#x} at time {}, from the index of the heap (made once, by a walk over "
        "the blocks in which the allocator ran)",
        address.v, t.v));
  };
  return plan;
}

namespace {

struct Leak {
  uint64_t blocks = 0, bytes = 0;
  const HeapLife* first = nullptr;
};

absl::StatusOr<std::vector<Row>> LeakRows(const Context& context, Time t, ScanControl* control,
                                          Outcome* outcome) {
  ASSIGN_OR_RETURN(const HeapIndex* made, context.Heap(control));
  const HeapIndex& heap = *made;
  outcome->AddNote(heap.note());
  if (!context.process().info().complete) {
    outcome->MarkIncomplete(context.process().info().incomplete_reason);
  }
  std::map<std::pair<uint64_t, uint16_t>, Leak> leaks;  // by caller and function
  uint64_t blocks = 0, bytes = 0;
  for (const HeapLife& life : heap.lives()) {
    if (!life.IsAlive(t)) continue;
    Leak& leak = leaks[{life.allocated_from.v, life.allocated_with}];
    ++leak.blocks;
    leak.bytes += life.size;
    if (leak.first == nullptr || life.allocated < leak.first->allocated) leak.first = &life;
    ++blocks;
    bytes += life.size;
  }
  std::vector<std::pair<std::pair<uint64_t, uint16_t>, Leak>> sorted(leaks.begin(), leaks.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::vector<Row> rows;
  for (const auto& [key, leak] : sorted) {
    const HeapLife& first = *leak.first;
    rows.push_back({first.allocated, OfThread(first.allocated_thread),
                    key.first == 0 ? Value(Null{}) : Value(Address(key.first - 1)),
                    OfCount(leak.blocks), OfCount(leak.bytes), heap.functions()[key.second].name,
                    OfText(DescribeCaller(context, Address(key.first), first.allocated)),
                    first.begin, OfCount(first.size)});
  }
  if (blocks > 0) {
    outcome->AddNote(
        fmt::format("{} {} of {} bytes had not been given back at {}; whether anything still "
                    "points there is not looked at",
                    blocks, blocks == 1 ? "block" : "blocks", bytes, t.v));
  }
  return rows;
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::HeapLeaks&, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "blocks", Type::kInteger);
  Add(&plan, "bytes", Type::kInteger);
  Add(&plan, "allocated_with", Type::kString);
  Add(&plan, "allocated_by", Type::kString);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "size", Type::kInteger);
  plan.presentation.table_columns = {"bytes",        "blocks", "allocated_with",
                                     "allocated_by", "time",   "address"};
  plan.presentation.no_rows = fmt::format("every block had been given back at time {}", at.v);
  plan.open = [&context, t = at](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const std::shared_ptr<Outcome> outcome = request.outcome;
    ScanControl* control = request.options->control;
    return OperatorPtr(std::make_unique<ComputedSource>(
        [&context, t, control, outcome] { return LeakRows(context, t, control, outcome.get()); },
        outcome));
  };
  plan.explain = [t = at](const SourceRequest&) {
    return absl::StatusOr<std::string>(fmt::format(
        "blocks that had not been given back at time {}, from the index of the heap", t.v));
  };
  return plan;
}

}  // namespace ttq
