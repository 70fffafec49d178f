// SPDX-License-Identifier: MIT
//
// Changes of Python variables: a watchpoint on a name, backwards as well as forwards.

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/code_names.h"
#include "query/cpython/evaluate.h"
#include "query/cpython/provenance.h"
#include "query/cpython/variables.h"
#include "query/language/diagnostic.h"
#include "query/rows/py_stack.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/py_history.h"

namespace ttq {
namespace {

using python::FrameHistory;
using python::Provenance;
using python::WatchedSlot;

// A variable of some functions: each activation has one of its own.
struct Local {
  std::string name;
  python::CodeFinder functions;
};

// What changes are asked of.
struct Target {
  std::vector<WatchedSlot> slots;  // unless it is a local
  std::optional<Local> local;
  std::string note;
  std::string missing;  // what the answer may lack; empty: nothing
};

enum Slot {
  kTime,
  kThread,
  kPc,
  kPython,
  kOld,
  kNew,
  kOldAddress,
  kNewAddress,
  kSlot,
  kFrame,
  kSlots
};

// Pulls writes to the slots and keeps those made while the slot was the variable's.
class SlotChanges {
 public:
  // `query` says when, which thread and in which direction. `control` may be null; it and
  // `provenance` outlive this.
  SlotChanges(const Context& context, std::vector<WatchedSlot> slots, AccessQuery query,
              const SourceRequest& request, Provenance* provenance, ScanControl* control)
      : context_(context),
        slots_(std::move(slots)),
        query_(std::move(query)),
        control_(control),
        want_values_(request.want_values),
        want_python_(request.want_python),
        provenance_(*provenance) {
    std::sort(slots_.begin(), slots_.end(), [](const WatchedSlot& a, const WatchedSlot& b) {
      return std::pair(a.word, a.begin) < std::pair(b.word, b.begin);
    });
    for (const WatchedSlot& slot : slots_) {
      if (!query_.ranges.empty() && query_.ranges.back().begin.v == slot.word) continue;
      query_.ranges.push_back({Address(slot.word), Address(slot.word + 8)});
    }
  }

  absl::StatusOr<bool> Next(Row* row) {
    if (slots_.empty()) return false;
    if (!cursor_) {
      ASSIGN_OR_RETURN(cursor_, context_.process().Accesses(query_, control_));
    }
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Access> access, cursor_->Next());
      if (!access) return false;
      const WatchedSlot* slot = SlotOf(*access);
      if (!slot) continue;
      absl::StatusOr<bool> is_change = Fill(*access, *slot, row);
      if (!is_change.ok() || *is_change) return is_change;
    }
  }

 private:
  // They are sorted by word, then time.
  const WatchedSlot* SlotOf(const Access& access) const {
    auto it =
        std::lower_bound(slots_.begin(), slots_.end(), access.address.v,
                         [](const WatchedSlot& s, uint64_t address) { return s.word < address; });
    while (it != slots_.end() && it->word + 8 <= access.address.v + access.size) {
      const uint64_t word = it->word;
      const auto end = std::partition_point(it, slots_.end(),
                                            [&](const WatchedSlot& s) { return s.word == word; });
      auto after = std::partition_point(
          it, end, [&](const WatchedSlot& s) { return s.begin < access.time; });
      // Activations do not overlap, but an item's last place ends where the next begins.
      if (after != it && access.time < std::prev(after)->end) return &*std::prev(after);
      it = end;
    }
    return nullptr;
  }

  // What the debug allocators fill new and freed memory with; it is no value of a variable.
  static bool IsFill(uint64_t word) {
    return word == 0xcdcdcdcdcdcdcdcd || word == 0xdddddddddddddddd;
  }

  // False for a word that is made ready to hold a value: it says nothing before and after.
  absl::StatusOr<bool> Fill(const Access& access, const WatchedSlot& slot, Row* row) {
    row->assign(kSlots, Null{});
    (*row)[kTime] = access.time;
    (*row)[kThread] = OfThread(access.thread);
    (*row)[kPc] = access.pc;
    (*row)[kSlot] = Address(slot.word);
    if (slot.frame != 0) (*row)[kFrame] = Address(slot.frame);
    const uint64_t offset = slot.word - access.address.v;
    uint64_t before = 0, after = 0;
    if (access.value.size() >= offset + 8) memcpy(&after, access.value.data() + offset, 8);
    if (access.previous.size() >= offset + 8) memcpy(&before, access.previous.data() + offset, 8);
    if (IsFill(before)) before = 0;
    if (IsFill(after)) after = 0;
    if (slot.gone != 0) {
      before = slot.gone;
      after = 0;
    }
    if (after == 0 && before == 0) return false;
    if (slot.copied != 0 && after == slot.copied && access.time < slot.settled) return false;
    if (!want_values_ && after > 1) return FillPython(access, row);
    ASSIGN_OR_RETURN(python::PythonState * state, provenance_.StateAt(access.time));
    for (const auto& instance : state->instances()) {
      const python::Layout& layout = *instance->runtime.layout;
      before = layout.Untag(before);
      after = layout.Untag(after);
      const auto show = [&](uint64_t object) -> Value {
        if (object == 0 || !instance->objects.TypeOf(object)) return Null{};
        python::ReprLimits limits;
        limits.characters = 1000;
        return ReprValue(instance->objects, object, limits);
      };
      (*row)[kOld] = show(before);
      (*row)[kNew] = show(after);
      if (before != 0 && !(*row)[kOld].is_null()) (*row)[kOldAddress] = Address(before);
      if (after != 0) (*row)[kNewAddress] = Address(after);
      if (after == 0 && (*row)[kOld].is_null()) return false;
      break;
    }
    return FillPython(access, row);
  }

  absl::StatusOr<bool> FillPython(const Access& access, Row* row) {
    if (!want_python_) return true;
    ASSIGN_OR_RETURN(std::optional<python::SourceLocation> place,
                     provenance_.Of(access.thread, access.time));
    // Often the same again.
    if (place != place_) {
      place_ = std::move(place);
      python_ = python::ValueOf(place_);
    }
    (*row)[kPython] = python_;
    return true;
  }

  const Context& context_;
  std::vector<WatchedSlot> slots_;
  AccessQuery query_;
  ScanControl* control_;
  const bool want_values_, want_python_;
  Provenance& provenance_;
  std::unique_ptr<Cursor<Access>> cursor_;
  std::optional<python::SourceLocation> place_;  // of the last row
  Value python_;
};

// A local's slots are found for some blocks at a time, and their changes by several threads.
class ChangeSource : public Operator {
 public:
  ChangeSource(const Context& context, Target target, TimeSpan span, std::optional<ThreadNo> thread,
               const SourceRequest& request)
      : context_(context),
        local_(std::move(target.local)),
        span_(span),
        thread_(thread ? thread : request.thread),
        request_(request),
        control_(request.options->control),
        provenances_(&context, control_) {
    request_.options = nullptr;  // it is not there for longer
    if (local_) {
      const FrameHistory& history = local_->functions.history();
      std::tie(first_, last_) = history.ChunksOf(span_);
      rows_.emplace(history);
    } else {
      if (!target.missing.empty()) request_.outcome->MarkIncomplete(target.missing);
      own_ = provenances_.Take();
      changes_.emplace(context_, std::move(target.slots), QueryOf(span_, request_.direction),
                       request_, own_.get(), control_);
    }
  }

  absl::StatusOr<bool> Next(Row* row) override {
    return TellOutcome(
        changes_ ? changes_->Next(row) : rows_->Next(row, [this] { return BeginWindows(); }),
        request_.outcome.get());
  }

 private:
  AccessQuery QueryOf(TimeSpan span, Direction direction) const {
    AccessQuery query;
    query.span = span;
    query.direction = direction;
    query.thread = thread_;
    return query;
  }

  // Goes on to the blocks that come next. Few at first, so that rows come soon.
  absl::Status BeginWindows() {
    const FrameHistory& history = local_->functions.history();
    while (rows_->wants() && first_ < last_) {
      constexpr size_t kMaxAtOnce = 4;
      const size_t count = std::min(window_, last_ - first_);
      window_ = std::min(2 * window_, kMaxAtOnce);
      const bool forward = request_.direction == Direction::kForward;
      const size_t from = forward ? first_ : last_ - count;
      const size_t to = from + count;
      RETURN_IF_ERROR(history.Wait(to, control_));
      const TimeSpan span =
          Intersect(span_, {from == 0 ? Time(0) : history.ChunkSpan(from).begin,
                            to == history.chunks() ? kTimeMax : history.ChunkSpan(to).begin});
      (forward ? first_ : last_) = forward ? to : from;
      rows_->Begin(
          [this, span, codes = local_->functions.Find()] { return ChangesIn(span, codes); });
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Row>> ChangesIn(TimeSpan span, const std::vector<uint32_t>& codes) {
    std::unique_ptr<Provenance> provenance = provenances_.Take();
    ASSIGN_OR_RETURN(auto slots, python::LocalSlots(local_->functions.history(), *provenance, codes,
                                                    local_->name, span));
    // What is read of them is, going forward, soon read.
    SlotChanges changes(context_, std::move(slots), QueryOf(span, Direction::kForward), request_,
                        provenance.get(), control_);
    std::vector<Row> rows;
    Row row;
    while (true) {
      ASSIGN_OR_RETURN(bool more, changes.Next(&row));
      if (!more) break;
      rows.push_back(std::move(row));
    }
    if (request_.direction == Direction::kBackward) std::reverse(rows.begin(), rows.end());
    provenances_.Give(std::move(provenance));
    return rows;
  }

  const Context& context_;
  std::optional<Local> local_;
  const TimeSpan span_;
  const std::optional<ThreadNo> thread_;
  SourceRequest request_;
  ScanControl* control_;
  python::ProvenancePool provenances_;
  // Of what is no local.
  std::unique_ptr<Provenance> own_;
  std::optional<SlotChanges> changes_;
  // Of a local: chunks still to come, how many next.
  size_t first_ = 0, last_ = 0, window_ = 2;
  std::optional<RowsAhead> rows_;
};

// A key as a literal of the query.
absl::StatusOr<python::Key> KeyOf(const ast::Expr& expr) {
  if (const auto* text = std::get_if<ast::String>(&expr.node)) return python::Key(text->value);
  if (const auto* c = std::get_if<ast::Character>(&expr.node)) {
    return python::Key(std::string(1, static_cast<char>(c->value)));
  }
  if (const auto* n = std::get_if<ast::Number>(&expr.node)) {
    return python::Key(static_cast<int64_t>(n->value));
  }
  if (const auto* minus = std::get_if<ast::Unary>(&expr.node)) {
    const auto* n = std::get_if<ast::Number>(&minus->operand->node);
    if (minus->op == ast::UnaryOp::kMinus && n) {
      return python::Key(-static_cast<int64_t>(n->value));
    }
  }
  return ErrorAt(expr.range, "a key must be text or a whole number here");
}

// The object an expression names in a frame, at a time. 0: none.
absl::StatusOr<uint64_t> ObjectIn(Provenance& provenance, const ast::Expr& expr, uint64_t frame,
                                  Time t, absl::Status* why) {
  ASSIGN_OR_RETURN(python::PythonState * state, provenance.StateAt(t));
  for (const auto& instance : state->instances()) {
    python::Frame read;
    if (instance->frames.ReadFrame(frame, &read) != python::FrameReader::Kind::kPython) continue;
    absl::StatusOr<python::PyValue> value = python::Evaluate(expr, instance->frames, &read);
    if (value.ok() && value->object != 0) return value->object;
    if (!value.ok()) *why = value.status();
  }
  return 0;
}

// An item or attribute of what `object` names.
absl::StatusOr<Target> ItemTarget(const ast::Expr& object, const python::Key& key, bool attribute,
                                  const ast::Query& query, const Context& context,
                                  const FrameHistory& history, Provenance& provenance,
                                  TimeSpan span) {
  // Where the expression is looked at: in each activation of a function, or in the main module.
  std::vector<std::pair<Time, uint64_t>> places;
  if (query.clauses.in) {
    ASSIGN_OR_RETURN(std::vector<uint32_t> codes, python::FindCodes(history, *query.clauses.in));
    ASSIGN_OR_RETURN(auto activations, python::ActivationsOf(history, codes, span));
    for (const python::Activation& a : activations) {
      places.emplace_back(std::min({a.end, span.end, context.process().info().end}), a.frame);
    }
  } else {
    absl::StatusOr<python::MainFrame> main = python::FindMainFrame(history, span);
    if (!main.ok()) return ErrorAt(query.source_range, std::string(main.status().message()));
    places.emplace_back(std::min(main->time, context.process().info().end), main->frame);
  }
  Target target;
  constexpr size_t kMaxPlaces = 2000;
  if (places.size() > kMaxPlaces) {
    target.missing =
        fmt::format("only the last {} activations were asked for their object", kMaxPlaces);
    places.erase(places.begin(), places.end() - kMaxPlaces);
  }
  // The latest time at which each object was named.
  std::vector<std::pair<uint64_t, Time>> objects;
  absl::Status why;
  for (const auto& [t, frame] : places) {
    ASSIGN_OR_RETURN(uint64_t found, ObjectIn(provenance, object, frame, t, &why));
    if (found == 0) continue;
    const auto known = std::find_if(objects.begin(), objects.end(),
                                    [&](const auto& o) { return o.first == found; });
    if (known == objects.end()) {
      objects.emplace_back(found, t);
    } else {
      known->second = t;
    }
  }
  if (objects.empty()) {
    if (!why.ok()) return why;
    return ErrorAt(object.range, absl::StrCat("nothing was called ", ast::ToString(object)));
  }
  for (const auto& [address, t] : objects) {
    ASSIGN_OR_RETURN(auto slots, python::ItemSlots(context.process(), provenance, address, key,
                                                   attribute, t, span, &target.missing));
    target.slots.insert(target.slots.end(), slots.begin(), slots.end());
  }
  return target;
}

// A variable of the functions that `in` names.
absl::StatusOr<Target> LocalTarget(const ast::Expr& expr, const std::string& name,
                                   const ast::FunctionPattern& in,
                                   std::shared_ptr<const FrameHistory> history,
                                   ScanControl* control) {
  Target target;
  target.local = Local{name, {history, in, name}};
  ASSIGN_OR_RETURN(auto first, target.local->functions.FindFirst(control));
  if (!first.empty()) return target;
  ASSIGN_OR_RETURN(std::vector<uint32_t> codes, python::FindCodes(*history, in));
  std::vector<std::string> names;
  for (const uint32_t code : codes) {
    for (const auto& v : history->code(code).variables) names.push_back(v.name);
  }
  return UnknownAt(expr.range, fmt::format("{} has no variable {}", ast::ToString(in), name),
                   Nearest(name, names));
}

// A global of the main module or, where there is none, a variable of any function.
absl::StatusOr<Target> GlobalTarget(const ast::Expr& expr, const std::string& name,
                                    const Context& context,
                                    std::shared_ptr<const FrameHistory> history,
                                    Provenance& provenance, TimeSpan span) {
  Target target;
  std::vector<uint32_t> with = python::CodesWithVariable(*history, name);
  absl::StatusOr<python::MainFrame> main = python::FindMainFrame(*history, span);
  if (main.ok()) {
    const Time t = std::min(main->time, context.process().info().end);
    ASSIGN_OR_RETURN(python::PythonState * state, provenance.StateAt(t));
    for (const auto& instance : state->instances()) {
      python::Frame frame;
      const auto kind = instance->frames.ReadFrame(main->frame, &frame);
      if (kind != python::FrameReader::Kind::kPython || frame.globals == 0) continue;
      const uint64_t globals = frame.globals;
      ASSIGN_OR_RETURN(auto slots,
                       python::ItemSlots(context.process(), provenance, globals, python::Key(name),
                                         false, t, span, &target.missing));
      if (slots.empty()) break;
      target.slots = std::move(slots);
      if (!with.empty()) {
        target.note = fmt::format(
            "of the global {0}; `py changes of {0} in FUNCTION` is of a function's own", name);
      }
      return target;
    }
  }
  if (with.empty()) {
    return ErrorAt(expr.range, fmt::format("no Python function that ran has a variable {}, and "
                                           "the main module has no global of that name",
                                           name));
  }
  if (with.size() > 1) {
    target.note = fmt::format("of {} in {} functions", name, with.size());
  }
  target.local = Local{name, {std::move(history), std::move(with)}};
  return target;
}

absl::StatusOr<Target> FindTarget(const ast::Expr& expr, const ast::Query& query,
                                  const Context& context,
                                  std::shared_ptr<const FrameHistory> history,
                                  Provenance& provenance, TimeSpan span, ScanControl* control) {
  if (const auto* member = std::get_if<ast::Member>(&expr.node)) {
    return ItemTarget(*member->object, python::Key(member->member), true, query, context, *history,
                      provenance, span);
  }
  if (const auto* index = std::get_if<ast::Index>(&expr.node)) {
    ASSIGN_OR_RETURN(python::Key key, KeyOf(*index->index));
    return ItemTarget(*index->object, key, false, query, context, *history, provenance, span);
  }
  const auto* name = std::get_if<ast::Name>(&expr.node);
  if (!name) {
    return ErrorAt(expr.range, "only a variable, an attribute or an item has changes");
  }
  if (query.clauses.in) {
    return LocalTarget(expr, name->name, *query.clauses.in, std::move(history), control);
  }
  return GlobalTarget(expr, name->name, context, std::move(history), provenance, span);
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::PyChanges& source, const ast::Query& query,
                                const Context& context, const RunOptions& options,
                                const TimeOfQuery& ask) {
  const bool is_local = std::holds_alternative<ast::Name>(source.target->node) && query.clauses.in;
  ASSIGN_OR_RETURN(HistoryAsked asked,
                   ResolveHistory(query, context, options, ask,
                                  is_local ? HistoryWanted::kGrowing : HistoryWanted::kWhole));
  Provenance provenance(&context, options.control);
  absl::StatusOr<Target> target = FindTarget(*source.target, query, context, asked.history,
                                             provenance, asked.span, options.control);
  if (!target.ok()) return target.status();
  SourcePlan plan;
  AddMoment(&plan);
  plan.columns.back().derived = Derived::kNone;  // python
  plan.columns.back().slot = plan.width++;
  plan.scope.code = NameScope::Code::kNone;
  AddRepr(&plan, "old");
  AddRepr(&plan, "new");
  Add(&plan, "old_address", Type::kAddress);
  Add(&plan, "new_address", Type::kAddress);
  Add(&plan, "slot", Type::kAddress);
  Add(&plan, "frame_address", Type::kAddress);
  plan.presentation.table_columns = {"time", "thread", "old", "new", "python", "function"};
  plan.presentation.no_rows =
      fmt::format("{} was not changed{}", ast::ToString(*source.target), SpanText(asked.span));
  plan.reversible = true;
  if (!target->note.empty()) plan.notes.push_back(target->note);
  plan.open = [&context, target = *target, span = asked.span,
               thread = asked.thread](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    return OperatorPtr(std::make_unique<ChangeSource>(
        context, target, Intersect(span, request.span), thread, request));
  };
  plan.explain = [slots = target->slots.size(), is_local = target->local.has_value(),
                  span = asked.span](const SourceRequest& request) {
    const std::string places =
        is_local ? "place in each frame" : fmt::format("{} places where it was kept", slots);
    return absl::StatusOr<std::string>(fmt::format("writes to its {}{}, by the page index", places,
                                                   SpanText(Intersect(span, request.span))));
  };
  return plan;
}

}  // namespace ttq
