// SPDX-License-Identifier: MIT

#include "query/process/origin.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

constexpr uint64_t kDefaultDepth = 20;
constexpr uint64_t kMaxDepth = 1000;
// Of an address without a length.
constexpr uint64_t kDefaultBytes = 8;

// $rax, $eax, $xmm0.
absl::StatusOr<ValueLocation> RegisterPlace(const ast::Register& reg, ast::Range range) {
  ValueLocation place;
  if (reg.name.rfind("xmm", 0) == 0 || reg.name.rfind("ymm", 0) == 0) {
    unsigned number = 0;
    const std::string digits = reg.name.substr(3);
    for (char c : digits) number = number * 10 + static_cast<unsigned>(c - '0');
    if (!digits.empty() && digits.size() <= 2 && number < 16) {
      place.kind = ValueLocation::Kind::kVector;
      place.number = static_cast<uint8_t>(number);
      place.size = reg.name[0] == 'x' ? 16 : 32;
      return place;
    }
  }
  place.kind = ValueLocation::Kind::kGeneral;
  for (uint8_t i = 0; i < kGprCount; ++i) {
    for (const uint8_t size : {8, 4, 2, 1}) {
      const RegisterName name{RegisterName::File::kGeneral, i, 0, size};
      if (name.Text() != "%" + reg.name) continue;
      place.number = i;
      place.size = size;
      return place;
    }
  }
  return ErrorAt(range, absl::StrCat("there is no register $", reg.name),
                 "the registers are $rax, $eax, $ax, $al … $r15 and $xmm0 … $xmm15");
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Origin& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  if (!thread) {
    ASSIGN_OR_RETURN(thread, process.ThreadAt(at));
  }
  uint64_t depth = kDefaultDepth;
  if (query.clauses.depth) {
    depth = query.clauses.depth->value;
    if (depth == 0 || depth > kMaxDepth) {
      return ErrorAt(query.clauses.depth->range, fmt::format("a depth is from 1 to {}", kMaxDepth));
    }
  }
  ValueLocation place;
  SourcePlan plan;
  std::string text;
  const auto* reg = std::get_if<ast::Register>(&source.location.start->node);
  if (reg != nullptr) {
    if (query.clauses.frame) {
      return ErrorAt(query.clauses.frame->range, "a register is followed from the innermost frame",
                     "leave out `in frame`");
    }
    ASSIGN_OR_RETURN(place, RegisterPlace(*reg, source.location.range));
    text = "$" + reg->name;
  } else {
    EvaluateAt where;
    if (query.clauses.at || query.clauses.frame || query.clauses.thread) where.time = at;
    where.thread = thread;
    ASSIGN_OR_RETURN(where.inlined, InlinedAt(query.clauses.at, ask));
    if (query.clauses.frame) where.frame = query.clauses.frame->value;
    ASSIGN_OR_RETURN(ResolvedLocation location,
                     ResolveLocation(context, source.location, kDefaultBytes, where));
    if (!location.note.empty()) plan.notes.push_back(location.note);
    const AddressRange range = location.ranges[0];
    place.address = range.begin;
    place.size = static_cast<uint32_t>(std::min<uint64_t>(range.size(), 4096));
    text = location.text;
  }
  place.thread = *thread;
  place.before = at;
  AddMoment(&plan);
  Add(&plan, "hop", Type::kInteger);
  Add(&plan, "kind", Type::kString);
  Add(&plan, "instruction", Type::kString);
  Add(&plan, "location", Type::kString);
  Add(&plan, "value", Type::kValue);
  Add(&plan, "origin", Type::kString);
  plan.presentation.table_columns = {"hop",    "time",        "location", "value",
                                     "origin", "instruction", "function"};
  plan.open = [&context, place,
               depth](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    const std::shared_ptr<Outcome> outcome = request.outcome;
    ScanControl* control = request.options->control;
    return OperatorPtr(std::make_unique<ComputedSource>(
        [&context, place, depth, control, outcome]() -> absl::StatusOr<std::vector<Row>> {
          OriginTracer tracer(context, control);
          std::string note;
          ASSIGN_OR_RETURN(std::vector<Hop> hops,
                           tracer.Trace(place, static_cast<uint32_t>(depth), &note));
          outcome->AddNote(note);
          std::vector<Row> rows;
          int64_t number = 0;
          for (const Hop& hop : hops) {
            rows.push_back({hop.time, OfThread(hop.thread),
                            hop.pc.v == 0 ? Value(Null{}) : Value(hop.pc), number++, hop.kind,
                            OfText(hop.instruction), hop.place, ValueOfBytes(hop.value),
                            OfText(hop.from)});
          }
          return rows;
        },
        outcome));
  };
  plan.explain = [text, t = at, depth](const SourceRequest&) {
    return absl::StatusOr<std::string>(fmt::format(
        "the origin of {} at time {}: at most {} hops, each a last write by index or a walk back "
        "through executed code, block by block",
        text, t.v, depth));
  };
  return plan;
}

}  // namespace ttq
