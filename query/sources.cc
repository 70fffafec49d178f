// SPDX-License-Identifier: MIT
//
// The sources this version can answer, and what to use instead of the others; see sources.h.

#include "query/sources.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fmt/format.h"
#include "query/disassembler.h"

namespace ttq {
namespace {

constexpr char kInterrupted[] = "interrupted before the end";

Value OfThread(ThreadNo thread) { return thread.v == 0 ? Value(Null{}) : Value(int64_t{thread.v}); }

Value OfCount(uint64_t n) {
  return static_cast<int64_t>(std::min<uint64_t>(n, std::numeric_limits<int64_t>::max()));
}

// Times that never came are null.
Value OfTime(Time t) { return t == kTimeMax ? Value(Null{}) : Value(t); }

Value OfText(const std::string& s) { return s.empty() ? Value(Null{}) : Value(s); }

// Pulls from a cursor of the store; an interruption becomes the end.
template <class StoreRow>
class CursorSource : public Operator {
 public:
  using OpenCursor = std::function<absl::StatusOr<std::unique_ptr<Cursor<StoreRow>>>()>;
  using Fill = std::function<void(StoreRow&&, Row*)>;

  CursorSource(OpenCursor open, Fill fill, ScanControl* control, std::shared_ptr<Outcome> outcome)
      : open_(std::move(open)),
        fill_(std::move(fill)),
        control_(control),
        outcome_(std::move(outcome)) {}

  absl::StatusOr<bool> Next(Row* row) override {
    if (control_ && control_->cancelled.load(std::memory_order_relaxed)) return Interrupted();
    if (!cursor_) {
      auto cursor = open_();
      if (!cursor.ok()) return Failed(cursor.status());
      cursor_ = *std::move(cursor);
    }
    absl::StatusOr<std::optional<StoreRow>> next = cursor_->Next();
    if (!next.ok()) return Failed(next.status());
    if (!next->has_value()) {
      outcome_->source_ended = true;
      return false;
    }
    ++outcome_->source_rows;
    row->clear();
    fill_(std::move(**next), row);
    return true;
  }

 private:
  absl::StatusOr<bool> Interrupted() {
    outcome_->interrupted = true;
    outcome_->MarkIncomplete(kInterrupted);
    return false;
  }
  absl::StatusOr<bool> Failed(const absl::Status& status) {
    if (absl::IsCancelled(status)) return Interrupted();
    return status;
  }

  OpenCursor open_;
  Fill fill_;
  ScanControl* control_;
  std::shared_ptr<Outcome> outcome_;
  std::unique_ptr<Cursor<StoreRow>> cursor_;
};

// Rows that are cheap enough to make all at once, when the first is asked for.
class ComputedSource : public Operator {
 public:
  using Compute = std::function<absl::StatusOr<std::vector<Row>>()>;
  ComputedSource(Compute compute, std::shared_ptr<Outcome> outcome)
      : compute_(std::move(compute)), outcome_(std::move(outcome)) {}
  absl::StatusOr<bool> Next(Row* row) override {
    if (!rows_) {
      absl::StatusOr<std::vector<Row>> rows = compute_();
      if (!rows.ok()) return rows.status();
      rows_ = MakeRows(*std::move(rows));
    }
    absl::StatusOr<bool> more = rows_->Next(row);
    if (more.ok() && *more) ++outcome_->source_rows;
    if (more.ok() && !*more) outcome_->source_ended = true;
    return more;
  }

 private:
  Compute compute_;
  std::shared_ptr<Outcome> outcome_;
  OperatorPtr rows_;
};

// Of a question about no time at all.
OperatorPtr NoRows(const SourceRequest& request) {
  request.outcome->source_ended = true;
  return MakeRows({});
}

void SetCompute(SourcePlan* plan, ComputedSource::Compute compute, std::string description) {
  plan->open =
      [compute = std::move(compute)](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    return OperatorPtr(std::make_unique<ComputedSource>(compute, request.outcome));
  };
  plan->explain = [description = std::move(description)](const SourceRequest&) {
    return absl::StatusOr<std::string>(description);
  };
}

// A column at the next free slot.
void Add(SourcePlan* plan, std::string name, Type type) {
  plan->columns.push_back({{std::move(name), type}, plan->width++, Derived::kNone});
}

void AddPlace(SourcePlan* plan) {
  plan->columns.push_back({{"function", Type::kString}, 0, Derived::kLocation});
  plan->columns.push_back({{"module", Type::kString}, 0, Derived::kLocation});
  plan->columns.push_back({{"file", Type::kString}, 0, Derived::kLocation});
  plan->columns.push_back({{"line", Type::kInteger}, 0, Derived::kLocation});
}

// The columns of every row that happens at a moment: slots 0, 1 and 2 are time, thread and pc.
void AddMoment(SourcePlan* plan) {
  plan->time_slot = plan->width;
  Add(plan, "time", Type::kTime);
  Add(plan, "thread", Type::kInteger);
  plan->pc_slot = plan->width;
  Add(plan, "pc", Type::kAddress);
  AddPlace(plan);
  plan->columns.push_back({{"python", Type::kObject}, 0, Derived::kAlwaysNull});
}

std::string SpanText(const TimeSpan& span) {
  const bool from = span.begin > Time(0), to = span.end != kTimeMax;
  if (from && to) return fmt::format(" between times {} and {}", span.begin.v, span.end.v);
  if (span.begin == kTimeMax) return " after the end of time";
  if (from) return fmt::format(" after time {}", span.begin.v - 1);
  if (to) return fmt::format(" before time {}", span.end.v);
  return "";
}

TimeSpan Intersect(const TimeSpan& a, const TimeSpan& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

void NotePastEnd(const TimeSpan& span, const ProcessInfo& info, SourcePlan* plan) {
  if (span.begin > info.end + 1 && span.begin != kTimeMax) {
    plan->notes.push_back(
        fmt::format("time {} is past the end of the recording, {}", span.begin.v, info.end.v));
  }
}

std::string ScanText(std::string_view what, const ScanPlan& scan) {
  return fmt::format("{}: {}, at most {} of {} blocks{}", what,
                     scan.uses_index ? "by index" : "by scanning in parallel", scan.blocks,
                     scan.blocks_total,
                     scan.description.empty() ? "" : absl::StrCat(" (", scan.description, ")"));
}

std::string ActorName(const Access& access) {
  switch (access.actor) {
    case Actor::kInstruction:
      return "instruction";
    case Actor::kSyscall:
      return "syscall " + SyscallName(access.syscall);
    case Actor::kSignal:
      return "signal";
    case Actor::kMap:
      return "map";
    case Actor::kThreadExit:
      return "thread exit";
  }
  return "unknown";
}

// ---- Accesses --------------------------------------------------------------------------------

// What is known of memory that nobody touched.
std::string WhereBytesComeFrom(const Process& process, Address address, Time t) {
  absl::StatusOr<std::vector<Mapping>> maps = process.MappingsAt(t);
  if (!maps.ok()) return "";
  for (const Mapping& map : *maps) {
    if (!map.range.Contains(address)) continue;
    if (map.path.empty()) {
      return fmt::format("{:#x} is in anonymous memory, mapped at time {} and zero since",
                         address.v, map.since.v);
    }
    if (map.path[0] == '[') {
      return fmt::format("{:#x} is in {}, mapped at time {}", address.v, map.path, map.since.v);
    }
    return fmt::format(
        "the bytes come from the mapping of {} at time {} ({:#x} is its offset {:#x})", map.path,
        map.since.v, address.v, address.v - map.range.begin.v + map.file_offset);
  }
  return process.DescribeUnmapped(address, t);
}

absl::StatusOr<SourcePlan> Plan(const ast::Accesses& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const Context::TimeOfQuery& ask) {
  using Kind = ast::Accesses::Kind;
  using Mode = ast::Accesses::Mode;
  const Process& process = context.process();
  const ProcessInfo& info = process.info();
  absl::StatusOr<ResolvedLocation> location = context.ResolveLocation(source.location, 1);
  if (!location.ok()) return location.status();
  absl::StatusOr<TimeSpan> span = context.ResolveSpan(query.clauses.span, ask);
  if (!span.ok()) return span.status();
  absl::StatusOr<std::optional<ThreadNo>> thread = context.ResolveThread(query.clauses.thread);
  if (!thread.ok()) return thread.status();

  AccessQuery base;
  base.ranges = location->ranges;
  base.span = *span;
  base.reads = source.kind != Kind::kWrites;
  base.writes = source.kind != Kind::kReads;
  base.thread = *thread;
  base.full_scan = options.full_scan;
  std::string filters;
  SourcePlan plan;
  if (query.clauses.by) {
    const ast::By& by = *query.clauses.by;
    const auto* function = std::get_if<ast::FunctionPattern>(&by.what);
    if (by.python || !function) {
      return ErrorAt(by.range, "`by python` is not yet available in this version",
                     "use `by FUNCTION` with a native function instead");
    }
    absl::StatusOr<ResolvedCode> code = context.ResolveFunction(*function);
    if (!code.ok()) return code.status();
    base.code = code->ranges;
    if (!code->note.empty()) plan.notes.push_back(code->note);
    absl::StrAppend(&filters, " by ", code->text);
  }
  if (*thread) absl::StrAppend(&filters, " in thread ", (*thread)->v);

  AddMoment(&plan);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "size", Type::kInteger);
  Add(&plan, "value", Type::kValue);
  Add(&plan, "previous", Type::kValue);
  Add(&plan, "actor", Type::kString);
  plan.presentation.table_columns = {"time", "thread", "address", "size"};
  auto& shown = plan.presentation.table_columns;
  if (source.kind == Kind::kAccesses) {
    Add(&plan, "kind", Type::kString);
    shown.push_back("kind");
  }
  if (source.kind != Kind::kReads) shown.push_back("previous");
  shown.insert(shown.end(), {"value", "actor", "function"});
  plan.reversible = true;
  if (source.mode == Mode::kLast) plan.take_one = Direction::kBackward;
  if (source.mode == Mode::kFirst || source.mode == Mode::kNext) {
    plan.take_one = Direction::kForward;
  }
  if (!location->note.empty()) plan.notes.push_back(location->note);
  NotePastEnd(*span, info, &plan);

  const char* verb = source.kind == Kind::kWrites  ? "wrote"
                     : source.kind == Kind::kReads ? "read"
                                                   : "read or wrote";
  plan.presentation.no_rows =
      fmt::format("nothing {} {}{}{} ({})", verb, location->text, SpanText(*span), filters,
                  !info.complete      ? "in what was recorded"
                  : options.full_scan ? "every block was read"
                                      : "proved from the index");
  plan.explain_nothing = [&process, kind = source.kind, begin = location->ranges[0].begin,
                          t = std::min(span->end, info.end)]() -> std::string {
    if (kind == Kind::kReads) {
      absl::StatusOr<std::vector<Mapping>> maps = process.MappingsAt(t);
      if (!maps.ok()) return "";
      for (const Mapping& map : *maps) {
        if (map.range.Contains(begin)) return "";
      }
      return process.DescribeUnmapped(begin, t);
    }
    return WhereBytesComeFrom(process, begin, t);
  };

  const auto refine = [base](const SourceRequest& request) {
    AccessQuery refined = base;
    refined.span = Intersect(base.span, request.span);
    if (request.thread && !refined.thread) refined.thread = request.thread;
    refined.direction = request.direction;
    refined.want_values = request.want_values;
    return refined;
  };
  plan.open = [refine, &process, with_kind = source.kind == Kind::kAccesses](
                  const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    AccessQuery refined = refine(request);
    if (refined.span.empty()) return NoRows(request);
    ScanControl* control = request.options->control;
    auto open = [refined = std::move(refined), &process, control] {
      return process.Accesses(refined, control);
    };
    auto fill = [with_kind](Access&& access, Row* row) {
      row->push_back(access.time);
      row->push_back(OfThread(access.thread));
      row->push_back(access.pc);
      row->push_back(access.address);
      row->push_back(int64_t{access.size});
      row->push_back(ValueOfBytes(access.value));
      row->push_back(access.is_write ? ValueOfBytes(access.previous) : Value(Null{}));
      row->push_back(ActorName(access));
      if (with_kind) row->push_back(access.is_write ? "write" : "read");
    };
    return OperatorPtr(
        std::make_unique<CursorSource<Access>>(open, fill, control, request.outcome));
  };
  plan.explain = [refine, &process, verb = std::string(verb), text = location->text,
                  filters](const SourceRequest& request) -> absl::StatusOr<std::string> {
    const AccessQuery refined = refine(request);
    if (refined.span.empty()) return std::string("no time to look at: no rows");
    absl::StatusOr<ScanPlan> scan = process.ExplainAccesses(refined);
    if (!scan.ok()) return scan.status();
    return ScanText(
        fmt::format("what {} {}{}{}, {}{}", verb, text, SpanText(refined.span), filters,
                    refined.direction == Direction::kForward ? "first to last" : "last to first",
                    refined.want_values ? "" : ", without values"),
        *scan);
  };
  return plan;
}

// ---- Memory, registers -----------------------------------------------------------------------

// Memory in rows of at most this many bytes.
constexpr uint64_t kMemoryChunk = 16 << 20;
constexpr uint64_t kMemoryMost = 1 << 30;
// Of an address without a length.
constexpr uint64_t kMemoryDefault = 64;

// A row per run of known or of unknown bytes.
class MemorySource : public Operator {
 public:
  MemorySource(const Process& process, AddressRange range, Time t, std::shared_ptr<Outcome> outcome,
               ScanControl* control)
      : process_(process),
        left_(range),
        time_(t),
        outcome_(std::move(outcome)),
        control_(control) {}

  absl::StatusOr<bool> Next(Row* row) override {
    if (begin_ == image_.bytes.size()) {
      if (left_.empty()) return false;
      if (control_ && control_->cancelled) {
        outcome_->interrupted = true;
        outcome_->MarkIncomplete(kInterrupted);
        return false;
      }
      const uint64_t size = std::min(left_.size(), kMemoryChunk);
      absl::StatusOr<MemoryImage> image = process_.Memory(left_.begin, size, time_);
      if (!image.ok()) return image.status();
      image_ = *std::move(image);
      if (image_.bytes.size() != size || image_.present.size() != size) {
        return absl::InternalError("the store gave less memory than was asked for");
      }
      left_.begin += size;
      begin_ = 0;
    }
    const bool present = image_.present[begin_];
    size_t end = begin_;
    while (end < image_.bytes.size() && image_.present[end] == present) ++end;
    const Address at = image_.begin + begin_;
    if (!present && !explained_) {
      explained_ = true;
      outcome_->AddNote(process_.DescribeUnmapped(at, time_));
    }
    row->clear();
    row->push_back(time_);
    row->push_back(at);
    row->push_back(OfCount(end - begin_));
    row->push_back(present ? Value(Bytes{image_.bytes.substr(begin_, end - begin_)})
                           : Value(Null{}));
    begin_ = end;
    ++outcome_->source_rows;
    return true;
  }

 private:
  const Process& process_;
  AddressRange left_;
  Time time_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  MemoryImage image_;
  size_t begin_ = 0;  // of the next run in image_
  bool explained_ = false;
};

absl::StatusOr<SourcePlan> Plan(const ast::Memory& source, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<ResolvedLocation> location =
      context.ResolveLocation(source.location, kMemoryDefault);
  if (!location.ok()) return location.status();
  absl::StatusOr<Time> at = context.ResolveAt(query.clauses.at, ask);
  if (!at.ok()) return at.status();
  const AddressRange range = location->ranges[0];
  if (range.size() > kMemoryMost) {
    return ErrorAt(source.location.range, "more than 1 GiB of memory at once",
                   "ask for smaller ranges");
  }
  SourcePlan plan;
  Add(&plan, "time", Type::kTime);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "size", Type::kInteger);
  Add(&plan, "bytes", Type::kBytes);
  plan.presentation.layout = Presentation::Layout::kHexDump;
  if (!location->note.empty()) plan.notes.push_back(location->note);
  plan.open = [&process, range, t = *at](const SourceRequest& request) {
    return absl::StatusOr<OperatorPtr>(std::make_unique<MemorySource>(
        process, range, t, request.outcome, request.options->control));
  };
  plan.explain = [text = location->text, t = *at](const SourceRequest&) {
    return absl::StatusOr<std::string>(
        fmt::format("memory {} at time {}: the pages at the end of the last block that touched "
                    "them, and the writes of one block",
                    text, t.v));
  };
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::ShowRegisters&, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<Time> at = context.ResolveAt(query.clauses.at, ask);
  if (!at.ok()) return at.status();
  absl::StatusOr<std::optional<ThreadNo>> asked = context.ResolveThread(query.clauses.thread);
  if (!asked.ok()) return asked.status();
  std::vector<ThreadNo> threads;
  if (query.clauses.thread && query.clauses.thread->all) {
    for (const Thread& thread : process.threads()) {
      if (thread.start <= *at && *at <= thread.end) threads.push_back(thread.number);
    }
  } else if (*asked) {
    threads.push_back(**asked);
  } else {
    absl::StatusOr<ThreadNo> running = process.ThreadAt(*at);
    if (!running.ok()) return running.status();
    threads.push_back(*running);
  }
  SourcePlan plan;
  AddMoment(&plan);
  for (int i = 0; i < kGprCount; ++i) {
    Add(&plan, GprName(static_cast<Gpr>(i)), Type::kValue);
  }
  Add(&plan, "rip", Type::kValue);
  plan.presentation.layout = Presentation::Layout::kRecord;
  const ast::Range range = query.clauses.thread ? query.clauses.thread->range : query.source_range;
  SetCompute(
      &plan,
      [&process, threads, t = *at, range,
       one = threads.size() == 1]() -> absl::StatusOr<std::vector<Row>> {
        std::vector<Row> rows;
        for (const ThreadNo thread : threads) {
          absl::StatusOr<Registers> registers = process.RegistersAt(t, thread);
          if (absl::IsNotFound(registers.status())) {
            if (!one) continue;
            return ErrorAt(range, std::string(registers.status().message()));
          }
          if (!registers.ok()) return registers.status();
          Row row = {t, OfThread(thread), registers->pc};
          for (const uint64_t gpr : registers->gpr) row.push_back(Word{gpr});
          row.push_back(Word{registers->pc.v});
          rows.push_back(std::move(row));
        }
        return rows;
      },
      fmt::format("registers at time {}: the block's snapshot and a walk inside the block", at->v));
  return plan;
}

// ---- Executions, code ------------------------------------------------------------------------

absl::StatusOr<SourcePlan> Plan(const ast::Executions& source, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<ResolvedCode> code = context.ResolvePlace(source.place);
  if (!code.ok()) return code.status();
  absl::StatusOr<TimeSpan> span = context.ResolveSpan(query.clauses.span, ask);
  if (!span.ok()) return span.status();
  absl::StatusOr<std::optional<ThreadNo>> thread = context.ResolveThread(query.clauses.thread);
  if (!thread.ok()) return thread.status();
  std::vector<AddressRange> entries;
  for (const Address entry : code->entries) {
    if (entry.v != ~uint64_t{0}) entries.push_back({entry, entry + 1});
  }
  SourcePlan plan;
  AddMoment(&plan);
  plan.columns.push_back({{"instruction", Type::kString}, 0, Derived::kInstruction});
  plan.presentation.table_columns = {"time", "thread", "pc", "instruction", "function"};
  plan.presentation.no_rows =
      fmt::format("{} was not executed{}{} ({})", code->text, SpanText(*span),
                  *thread ? absl::StrCat(" in thread ", (*thread)->v) : "",
                  process.info().complete ? "proved from the index" : "in what was recorded");
  plan.reversible = true;
  if (!code->note.empty()) plan.notes.push_back(code->note);
  NotePastEnd(*span, process.info(), &plan);
  plan.open = [&process, entries, base = *span,
               base_thread = *thread](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const TimeSpan refined = Intersect(base, request.span);
    if (refined.empty() || entries.empty()) return NoRows(request);
    ScanControl* control = request.options->control;
    auto open = [&process, entries, refined, direction = request.direction,
                 thread = base_thread ? base_thread : request.thread, control] {
      return process.Executions(entries, refined, direction, thread, control);
    };
    auto fill = [](Execution&& execution, Row* row) {
      row->push_back(execution.time);
      row->push_back(OfThread(execution.thread));
      row->push_back(execution.pc);
    };
    return OperatorPtr(
        std::make_unique<CursorSource<Execution>>(open, fill, control, request.outcome));
  };
  plan.explain = [&process, entries, base = *span,
                  text = code->text](const SourceRequest& request) -> absl::StatusOr<std::string> {
    const TimeSpan refined = Intersect(base, request.span);
    if (refined.empty()) return std::string("no time to look at: no rows");
    absl::StatusOr<ScanPlan> scan = process.ExplainExecutions(entries, refined);
    if (!scan.ok()) return scan.status();
    return ScanText(
        fmt::format("executions of {}{}, {}", text, SpanText(refined),
                    request.direction == Direction::kForward ? "first to last" : "last to first"),
        *scan);
  };
  return plan;
}

// Of code that no function is known for.
constexpr uint64_t kDisassembleBytes = 64;
constexpr uint64_t kDisassembleMost = 16 << 20;

absl::StatusOr<SourcePlan> Plan(const ast::Disassemble& source, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<Time> at = context.ResolveAt(query.clauses.at, ask);
  if (!at.ok()) return at.status();
  absl::StatusOr<const Symbolizer*> symbols = context.SymbolsAt(*at);
  if (!symbols.ok()) return symbols.status();
  std::vector<AddressRange> ranges;
  SourcePlan plan;
  const auto own_code = [&ranges](const FunctionInfo& function) {
    for (const CodeRange& piece : function.ranges) {
      if (piece.kind != CodeRange::Kind::kInlined) ranges.push_back(piece.range);
    }
  };
  if (const auto* number = std::get_if<ast::Number>(&source.place.what)) {
    const Address address(number->value);
    if (const std::optional<FunctionInfo> function = (*symbols)->FunctionAt(address)) {
      own_code(*function);
    }
    if (ranges.empty()) {
      ranges.push_back(
          {address,
           Address(std::max(address.v + kDisassembleBytes,
                            address.v + kDisassembleBytes < address.v ? ~uint64_t{0} : 0))});
      plan.notes.push_back(fmt::format("no function is known at {:#x}; {} bytes are shown",
                                       address.v, kDisassembleBytes));
    }
  } else {
    absl::StatusOr<ResolvedCode> code = context.ResolvePlace(source.place);
    if (!code.ok()) return code.status();
    ranges = code->ranges;
    if (std::holds_alternative<ast::FunctionPattern>(source.place.what)) {
      // Copies of it inside other functions are those functions' code, unless there is no other.
      std::vector<AddressRange> copies = std::exchange(ranges, {});
      for (const Address entry : code->entries) {
        const std::optional<FunctionInfo> function = (*symbols)->FunctionAt(entry);
        if (function && function->entry == entry) own_code(*function);
      }
      if (ranges.empty()) ranges = std::move(copies);
    }
    if (!code->note.empty()) plan.notes.push_back(code->note);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.begin < b.begin; });
  uint64_t total = 0;
  for (const AddressRange& range : ranges) total += range.size();
  if (total > kDisassembleMost) {
    return ErrorAt(source.place.range, "this is more than 16 MiB of code",
                   "name a single function");
  }
  // Columns are derived as of `time`, which is no column of these rows.
  plan.time_slot = plan.width++;
  plan.pc_slot = plan.width;
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "bytes", Type::kBytes);
  Add(&plan, "instruction", Type::kString);
  AddPlace(&plan);
  plan.presentation.table_columns = {"address", "bytes", "instruction", "function"};
  SetCompute(
      &plan,
      [&process, ranges, t = *at, symbols = *symbols]() -> absl::StatusOr<std::vector<Row>> {
        const Disassembler disassembler([symbols](Address a) { return symbols->NameOf(a); });
        std::vector<Row> rows;
        for (const AddressRange& range : ranges) {
          absl::StatusOr<MemoryImage> image = process.Memory(range.begin, range.size(), t);
          if (!image.ok()) return image.status();
          for (size_t i = 0; i < image->bytes.size();) {
            if (!image->present[i]) {
              ++i;
              continue;
            }
            size_t end = i;
            while (end < image->bytes.size() && image->present[end]) ++end;
            const auto bytes = absl::MakeConstSpan(
                reinterpret_cast<const uint8_t*>(image->bytes.data()) + i, end - i);
            for (DisassembledInstruction& instruction :
                 disassembler.Disassemble(bytes, range.begin + i)) {
              rows.push_back(
                  {t, instruction.address,
                   Bytes{std::string(instruction.bytes.begin(), instruction.bytes.end())},
                   std::move(instruction.text)});
            }
            i = end;
          }
        }
        return rows;
      },
      fmt::format("{} bytes of code as memory at time {}", total, at->v));
  plan.presentation.no_rows =
      ranges.empty() ? "no code" : process.DescribeUnmapped(ranges[0].begin, *at);
  return plan;
}

// ---- Threads, modules, maps ------------------------------------------------------------------

absl::StatusOr<SourcePlan> Plan(const ast::Threads&, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<Time> at = context.ResolveAt(query.clauses.at, ask);
  if (!at.ok()) return at.status();
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "os_tid", Type::kInteger);
  Add(&plan, "start", Type::kTime);
  Add(&plan, "end", Type::kTime);
  Add(&plan, "instructions", Type::kInteger);
  plan.presentation.table_columns = {"thread", "os_tid", "start", "end", "instructions"};
  if (query.clauses.at) {
    plan.presentation.table_columns.insert(plan.presentation.table_columns.end(),
                                           {"pc", "function"});
  }
  SetCompute(
      &plan,
      [&process, t = *at,
       then = query.clauses.at.has_value()]() -> absl::StatusOr<std::vector<Row>> {
        std::vector<Row> rows;
        for (const Thread& thread : process.threads()) {
          Row row = {Null{}, OfThread(thread.number), Null{}};
          if (then) {
            if (thread.start > t || thread.end < t) continue;
            row[0] = t;
            absl::StatusOr<Registers> registers = process.RegistersAt(t, thread.number);
            if (registers.ok()) {
              row[2] = registers->pc;
            } else if (!absl::IsNotFound(registers.status())) {
              return registers.status();
            }
          }
          row.push_back(int64_t{thread.os_tid});
          row.push_back(thread.start);
          row.push_back(OfTime(thread.end));
          row.push_back(OfCount(thread.instructions));
          rows.push_back(std::move(row));
        }
        return rows;
      },
      "the list of threads");
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::Modules&, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<Time> at = context.ResolveAt(query.clauses.at, ask);
  if (!at.ok()) return at.status();
  SourcePlan plan;
  Add(&plan, "module", Type::kString);
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "end", Type::kAddress);
  Add(&plan, "load_bias", Type::kAddress);
  Add(&plan, "loaded", Type::kTime);
  Add(&plan, "unloaded", Type::kTime);
  Add(&plan, "build_id", Type::kString);
  Add(&plan, "path", Type::kString);
  plan.presentation.table_columns = {"address", "end", "loaded", "unloaded", "path"};
  SetCompute(
      &plan,
      [&process, t = *at,
       then = query.clauses.at.has_value()]() -> absl::StatusOr<std::vector<Row>> {
        absl::StatusOr<std::vector<LoadedModule>> modules = process.Modules();
        if (!modules.ok()) return modules.status();
        std::vector<Row> rows;
        for (const LoadedModule& module : *modules) {
          if (then && (module.loaded > t || module.unloaded <= t)) continue;
          rows.push_back({module.path.substr(module.path.rfind('/') + 1), module.range.begin,
                          module.range.end, Address(module.load_bias), module.loaded,
                          OfTime(module.unloaded), OfText(module.build_id), module.path});
        }
        return rows;
      },
      "the list of modules");
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::Maps&, const ast::Query& query, const Context& context,
                                const RunOptions&, const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<Time> at = context.ResolveAt(query.clauses.at, ask);
  if (!at.ok()) return at.status();
  SourcePlan plan;
  Add(&plan, "address", Type::kAddress);
  Add(&plan, "end", Type::kAddress);
  Add(&plan, "size", Type::kInteger);
  Add(&plan, "protection", Type::kString);
  Add(&plan, "since", Type::kTime);
  Add(&plan, "offset", Type::kAddress);
  Add(&plan, "path", Type::kString);
  SetCompute(
      &plan,
      [&process, t = *at]() -> absl::StatusOr<std::vector<Row>> {
        absl::StatusOr<std::vector<Mapping>> maps = process.MappingsAt(t);
        if (!maps.ok()) return maps.status();
        std::vector<Row> rows;
        for (const Mapping& map : *maps) {
          const char protection[] = {map.protection & 1 ? 'r' : '-', map.protection & 2 ? 'w' : '-',
                                     map.protection & 4 ? 'x' : '-', map.shared ? 's' : 'p'};
          rows.push_back({map.range.begin, map.range.end, OfCount(map.range.size()),
                          std::string(protection, sizeof protection), map.since,
                          map.path.empty() || map.path[0] == '[' ? Value(Null{})
                                                                 : Value(Address(map.file_offset)),
                          OfText(map.path)});
        }
        return rows;
      },
      fmt::format("the mappings at time {}", at->v));
  return plan;
}

// ---- Events ----------------------------------------------------------------------------------

absl::StatusOr<SourcePlan> Plan(const ast::Events& source, const ast::Query& query,
                                const Context& context, const RunOptions&,
                                const Context::TimeOfQuery& ask) {
  const Process& process = context.process();
  EventQuery base;
  if (source.kind) {
    std::string_view name = *source.kind;
    base.kind = EventKindFromName(name);
    // "events syscalls" reads well too.
    if (!base.kind && name.ends_with('s')) {
      base.kind = EventKindFromName(name.substr(0, name.size() - 1));
    }
    if (!base.kind) {
      std::vector<std::string> names;
      for (int kind = 1; kind <= static_cast<int>(EventKind::kMark); ++kind) {
        names.push_back(EventKindName(static_cast<EventKind>(kind)));
      }
      const std::vector<std::string> near = Nearest(name, names);
      const std::string message = fmt::format("there are no events of kind {}", name);
      if (!near.empty()) return UnknownAt(source.kind_range, message, near);
      return ErrorAt(source.kind_range, message,
                     absl::StrCat("the kinds are ", absl::StrJoin(names, ", ")));
    }
  }
  absl::StatusOr<TimeSpan> span = context.ResolveSpan(query.clauses.span, ask);
  if (!span.ok()) return span.status();
  absl::StatusOr<std::optional<ThreadNo>> thread = context.ResolveThread(query.clauses.thread);
  if (!thread.ok()) return thread.status();
  base.span = *span;
  base.thread = *thread;
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "kind", Type::kString);
  Add(&plan, "detail", Type::kString);
  Add(&plan, "number", Type::kInteger);
  Add(&plan, "result", Type::kInteger);
  Add(&plan, "bytes", Type::kBytes);
  Add(&plan, "wall_ns", Type::kInteger);
  plan.presentation.table_columns = {"time", "thread", "kind", "detail", "function"};
  plan.presentation.no_rows =
      fmt::format("no {}event{}", source.kind ? absl::StrCat(EventKindName(*base.kind), " ") : "",
                  SpanText(*span));
  plan.reversible = true;
  NotePastEnd(*span, process.info(), &plan);
  plan.open = [&process, base](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    EventQuery refined = base;
    refined.span = Intersect(base.span, request.span);
    if (refined.span.empty()) return NoRows(request);
    if (!refined.thread) refined.thread = request.thread;
    refined.direction = request.direction;
    auto open = [&process, refined] { return process.Events(refined); };
    auto fill = [](Event&& event, Row* row) {
      row->push_back(event.time);
      row->push_back(OfThread(event.thread));
      row->push_back(event.pc == Address() ? Value(Null{}) : Value(event.pc));
      row->push_back(EventKindName(event.kind));
      row->push_back(std::move(event.detail));
      row->push_back(event.number);
      row->push_back(event.kind == EventKind::kSyscall ? Value(event.result) : Value(Null{}));
      row->push_back(event.kind == EventKind::kOutput ? Value(Bytes{std::move(event.bytes)})
                                                      : Value(Null{}));
      row->push_back(event.wall_ns == 0 ? Value(Null{}) : Value(event.wall_ns));
    };
    return OperatorPtr(std::make_unique<CursorSource<Event>>(open, fill, request.options->control,
                                                             request.outcome));
  };
  plan.explain = [base](const SourceRequest& request) {
    return absl::StatusOr<std::string>(fmt::format(
        "{} events{}, {}: by their order in the store, no block is decoded",
        base.kind ? EventKindName(*base.kind) : "all", SpanText(Intersect(base.span, request.span)),
        request.direction == Direction::kForward ? "first to last" : "last to first"));
  };
  return plan;
}

// ---- What comes later ------------------------------------------------------------------------

// What this version offers somebody who asks for a later one's source.
struct Instead {
  const char* operator()(const ast::Print&) const { return "`memory LOCATION` or `registers`"; }
  const char* operator()(const ast::Backtrace&) const {
    return "`registers` (its row names function and line)";
  }
  const char* operator()(const ast::ShowSource&) const {
    return "`registers | select function, file, line`";
  }
  const char* operator()(const ast::Calls&) const { return "`executions of FUNCTION`"; }
  const char* operator()(const ast::Crash&) const { return "`events signal | last 1`"; }
  const char* operator()(const ast::PyBacktrace&) const { return "`registers`"; }
  const char* operator()(const ast::PyLocals&) const { return "`memory LOCATION`"; }
  const char* operator()(const ast::PySource&) const { return "`registers`"; }
  const char* operator()(const ast::PyPrint&) const { return "`memory LOCATION`"; }
  const char* operator()(const ast::PyCalls&) const {
    return "`executions of _PyEval_EvalFrameDefault`";
  }
  const char* operator()(const ast::PyChanges&) const { return "`writes to ADDR`"; }
  const char* operator()(const ast::Creation&) const { return "`first write to ADDR`"; }
  const char* operator()(const ast::Deallocation&) const { return "`last write to ADDR`"; }
  const char* operator()(const ast::Lifetime&) const { return "`writes to ADDR`"; }
  const char* operator()(const ast::Refcounts&) const {
    return "`writes to ADDR` (the reference count is an object's first word)";
  }
  const char* operator()(const ast::Object&) const { return "`memory ADDR len 64`"; }
  const char* operator()(const ast::ObjectsOfType&) const { return "`memory LOCATION`"; }
  const char* operator()(const ast::Heap&) const { return "`executions of malloc`"; }
  const char* operator()(const ast::HeapLeaks&) const { return "`executions of malloc`"; }
  const char* operator()(const ast::Why&) const { return "`writes to ADDR`"; }
  const char* operator()(const ast::Origin&) const { return "`last write to LOCATION`"; }
};

template <class Later>
absl::StatusOr<SourcePlan> Plan(const Later& source, const ast::Query& query, const Context&,
                                const RunOptions&, const Context::TimeOfQuery&) {
  return ErrorAt(
      query.source_range,
      absl::StrCat("`", ast::SourceName(query.source), "` is not yet available in this version"),
      absl::StrCat("use ", Instead()(source), " instead"));
}

}  // namespace

void Outcome::AddNote(std::string_view sentence) {
  if (sentence.empty() || note.find(sentence) != std::string::npos) return;
  if (!note.empty()) note += "; ";
  note += sentence;
}

void Outcome::MarkIncomplete(std::string_view reason) {
  complete = false;
  AddNote(reason);
}

absl::StatusOr<SourcePlan> PlanSource(const ast::Query& query, const Context& context,
                                      const RunOptions& options, const Context::TimeOfQuery& ask) {
  return std::visit([&](const auto& source) { return Plan(source, query, context, options, ask); },
                    query.source);
}

}  // namespace ttq
