// SPDX-License-Identifier: MIT

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/ctypes/floating_point.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

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

// What the location's expression means is as of `at`, else of the time that the span names. `at`
// also ends the span of `last`.
absl::StatusOr<EvaluateAt> WhereToEvaluate(const ast::Accesses& source, const ast::Query& query,
                                           const Context& context, const TimeOfQuery& ask,
                                           TimeSpan* span) {
  const Time end = context.process().info().end;
  EvaluateAt where;
  if (query.clauses.at) {
    ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
    where.time = at;
    ASSIGN_OR_RETURN(where.inlined, InlinedAt(query.clauses.at, ask));
    if (!query.clauses.span && source.mode == ast::Accesses::Mode::kLast) span->end = at;
  } else if (query.clauses.span) {
    const bool after = query.clauses.span->kind == ast::Span::Kind::kAfter;
    where.time = std::min(after ? span->begin : span->end, end);
  }
  if (query.clauses.frame) {
    where.frame = query.clauses.frame->value;
    if (!where.time) where.time = end;
  }
  return where;
}

// At most 8 bytes, or a real.
Value NumberIn(std::string_view bytes, const NumberFormat& format) {
  if (format.real) {
    std::string whole(bytes);
    whole.resize(std::max<size_t>(bytes.size(), bytes.size() > 8 ? 16 : 0));
    return FloatValue(*format.real, whole);
  }
  uint64_t n = 0;
  std::memcpy(&n, bytes.data(), bytes.size());
  const size_t bits = format.bit_size > 0 ? format.bit_size : bytes.size() * 8;
  const size_t unused = 64 - std::min<size_t>(bits, 64);
  const uint64_t high = n >> format.bit_offset << unused;
  if (format.kind == NumberFormat::Kind::kSigned) {
    return Value(static_cast<int64_t>(high) >> unused);
  }
  return Value(Word{high >> unused});
}

// What was moved, shown whole. Compared and computed with is what of it lies in the location: a
// number of the location's type, where all of it was moved; of more than a word, what was moved of
// the location, or of the word at an address that has no length.
Value Moved(const std::string& bytes, Address at, const ResolvedLocation& location) {
  constexpr uint64_t kWord = 8;
  Value shown = ValueOfBytes(bytes);
  AddressRange asked = location.ranges[0];
  const NumberFormat* format = location.number ? &*location.number : nullptr;
  // Most are all of an integer that is not negative.
  if (format && at == asked.begin && bytes.size() == asked.size() && bytes.size() <= kWord &&
      format->bit_size == 0 && !format->real &&
      (format->kind == NumberFormat::Kind::kUnsigned || static_cast<int8_t>(bytes.back()) >= 0)) {
    return shown;
  }
  if (!format) {
    if (bytes.size() <= kWord || asked.size() > 1) return shown;
    asked.end = at + bytes.size();
    if (asked.size() > kWord) asked.end = asked.begin + kWord;
  }
  // x87 writes 10 bytes of 16.
  constexpr uint64_t kExtended = 10;
  if (format && asked.size() > kWord && !IsQuad(*format->real)) {
    asked.end = asked.begin + kExtended;
  }
  const uint64_t begin = std::max(at.v, asked.begin.v);
  const uint64_t end = std::min(at.v + bytes.size(), asked.end.v);
  if (begin >= end) return shown;
  const bool whole = end - begin == asked.size();
  if (!whole && (bytes.size() <= kWord || end - begin > kWord)) return shown;
  const std::string_view part = std::string_view(bytes).substr(begin - at.v, end - begin);
  Value operand = NumberIn(part, whole && format ? *format : NumberFormat());
  if (Compare(operand, shown) == 0) return shown;
  return Value(Represented{std::move(shown), std::move(operand)});
}

void AddColumns(ast::Accesses::Kind kind, const ResolvedLocation& location, SourcePlan* plan) {
  AddMoment(plan);
  Add(plan, "address", Type::kAddress);
  Add(plan, "size", Type::kInteger);
  for (const char* const name : {"value", "previous"}) {
    Add(plan, name, Type::kValue);
    plan->columns.back().column.any_operand =
        location.number && location.number->kind == NumberFormat::Kind::kReal;
  }
  Add(plan, "actor", Type::kString);
  plan->presentation.table_columns = {"time", "thread", "address", "size"};
  auto& shown = plan->presentation.table_columns;
  if (kind == ast::Accesses::Kind::kAccesses) {
    Add(plan, "kind", Type::kString);
    shown.push_back("kind");
  }
  if (kind != ast::Accesses::Kind::kReads) shown.push_back("previous");
  shown.insert(shown.end(), {"value", "actor", "function"});
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Accesses& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  using Kind = ast::Accesses::Kind;
  using Mode = ast::Accesses::Mode;
  const Process& process = context.process();
  const ProcessInfo& info = process.info();
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  ASSIGN_OR_RETURN(EvaluateAt where, WhereToEvaluate(source, query, context, ask, &span));
  where.thread = thread;
  ASSIGN_OR_RETURN(ResolvedLocation location, ResolveLocation(context, source.location, 1, where));

  AccessQuery base;
  base.ranges = location.ranges;
  base.span = span;
  base.reads = source.kind != Kind::kWrites;
  base.writes = source.kind != Kind::kReads;
  base.thread = thread;
  base.full_scan = options.full_scan;
  std::string filters;
  SourcePlan plan;
  if (query.clauses.by && !query.clauses.by->python) {
    ASSIGN_OR_RETURN(
        ResolvedCode code,
        ResolveFunction(context, std::get<ast::FunctionPattern>(query.clauses.by->what)));
    base.code = code.ranges;
    if (!code.note.empty()) plan.notes.push_back(code.note);
    absl::StrAppend(&filters, " by ", code.text);
  }
  if (thread) absl::StrAppend(&filters, " in thread ", thread->v);

  AddColumns(source.kind, location, &plan);
  plan.reversible = true;
  if (source.mode == Mode::kLast) plan.take_one = Direction::kBackward;
  if (source.mode == Mode::kFirst || source.mode == Mode::kNext) {
    plan.take_one = Direction::kForward;
  }
  if (!location.note.empty()) plan.notes.push_back(location.note);
  NotePastEnd(span, info, &plan);

  const char* verb = source.kind == Kind::kWrites  ? "wrote"
                     : source.kind == Kind::kReads ? "read"
                                                   : "read or wrote";
  plan.presentation.no_rows =
      fmt::format("nothing {} {}{}{} ({})", verb, location.text, SpanText(span), filters,
                  !info.complete      ? "in what was recorded"
                  : options.full_scan ? "every block was read"
                                      : "proved from the index");
  plan.explain_nothing = [&process, kind = source.kind, begin = location.ranges[0].begin,
                          t = std::min(span.end, info.end)]() -> std::string {
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
  plan.open = [refine, &process, location, with_kind = source.kind == Kind::kAccesses](
                  const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    AccessQuery refined = refine(request);
    if (refined.span.empty()) return NoRows(request);
    ScanControl* control = request.options->control;
    auto open = [refined = std::move(refined), &process, control] {
      return process.Accesses(refined, control);
    };
    auto fill = [with_kind, location](Access&& access, Row* row) {
      row->push_back(access.time);
      row->push_back(OfThread(access.thread));
      row->push_back(access.pc);
      row->push_back(access.address);
      row->push_back(int64_t{access.size});
      row->push_back(Moved(access.value, access.address, location));
      row->push_back(access.is_write ? Moved(access.previous, access.address, location)
                                     : Value(Null{}));
      row->push_back(ActorName(access));
      if (with_kind) row->push_back(access.is_write ? "write" : "read");
    };
    return OperatorPtr(
        std::make_unique<CursorSource<Access>>(open, fill, control, request.outcome));
  };
  plan.explain = [refine, &process, verb = std::string(verb), text = location.text,
                  filters](const SourceRequest& request) -> absl::StatusOr<std::string> {
    const AccessQuery refined = refine(request);
    if (refined.span.empty()) return std::string("no time to look at: no rows");
    ASSIGN_OR_RETURN(ScanPlan scan, process.ExplainAccesses(refined));
    return ScanText(
        fmt::format("what {} {}{}{}, {}{}", verb, text, SpanText(refined.span), filters,
                    refined.direction == Direction::kForward ? "first to last" : "last to first",
                    refined.want_values ? "" : ", without values"),
        scan);
  };
  return plan;
}

}  // namespace ttq
