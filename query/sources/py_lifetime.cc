// SPDX-License-Identifier: MIT
//
// Lives of Python objects: when and by whom they were made and freed, and who held them.

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/cpython/balance.h"
#include "query/cpython/holders.h"
#include "query/cpython/lifetime.h"
#include "query/cpython/provenance.h"
#include "query/cpython/references.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/process/stack.h"
#include "query/rows/frame_values.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

using python::CountChange;
using python::Epoch;
using python::EpochScanner;
using python::Provenance;

// Of one address: objects looked at for one of a type, or listed.
constexpr size_t kMaxEpochs = 100000;

struct Asked {
  uint64_t address = 0;
  std::optional<std::string> type;
  ast::Range range;
  TimeSpan span;
  bool has_span = false;
};

absl::StatusOr<Asked> Resolve(const ast::ObjectAddress& object, const ast::Query& query,
                              const Context& context, const TimeOfQuery& ask) {
  const auto* number = std::get_if<ast::Number>(&object.address->node);
  if (!number) {
    return ErrorAt(object.address->range, "an object is named by its address",
                   "write it as 0x…; `py print EXPR` finds one by name");
  }
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  return Asked{number->value, object.type, object.range, span, query.clauses.span.has_value()};
}

// Pulls epochs whose type is the one asked for, newest first.
class Epochs {
 public:
  Epochs(const Context& context, const Asked& asked, const SourceRequest& request)
      : context_(context),
        asked_(asked),
        outcome_(request.outcome),
        control_(request.options->control),
        provenance_(&context, control_) {}

  absl::StatusOr<std::optional<Epoch>> Next() {
    if (!scanner_) {
      auto scanner = EpochScanner::Open(context_.process(), &provenance_, asked_.address,
                                        asked_.span, control_, births_only_);
      if (absl::IsNotFound(scanner.status())) {
        outcome_->AddNote(std::string(scanner.status().message()));
        return std::optional<Epoch>();
      }
      if (!scanner.ok()) return scanner.status();
      scanner_ = *std::move(scanner);
    }
    while (seen_ < kMaxEpochs) {
      absl::StatusOr<std::optional<Epoch>> epoch = scanner_->Next();
      if (absl::IsCancelled(epoch.status())) {
        outcome_->MarkInterrupted();
        return std::optional<Epoch>();
      }
      if (!epoch.ok() || !*epoch) return epoch;
      ++seen_;
      if (!asked_.type) return epoch;
      ASSIGN_OR_RETURN(bool is_called, IsCalled(**epoch));
      if (is_called) return epoch;
      if (std::find(others_.begin(), others_.end(), (*epoch)->type_name) == others_.end()) {
        others_.push_back((*epoch)->type_name);
      }
    }
    outcome_->MarkIncomplete(
        fmt::format("only the last {} objects at that address were looked at", kMaxEpochs));
    return std::optional<Epoch>();
  }

  // Why there was none.
  void Explain() {
    const std::string at = fmt::format("{:#x}", asked_.address);
    if (!others_.empty()) {
      outcome_->AddNote(fmt::format("no {} was at {}{}, but {}", *asked_.type, at,
                                    SpanText(asked_.span), absl::StrJoin(others_, ", ")));
    } else if (seen_ == 0) {
      const Time t = std::min(asked_.span.end, context_.process().info().end);
      outcome_->AddNote(
          fmt::format("no Python object was made at {}{}", at, SpanText(asked_.span)));
      absl::StatusOr<std::vector<Mapping>> maps = context_.process().MappingsAt(t);
      const auto holds = [&](const Mapping& m) {
        return m.range.Contains(Address(asked_.address));
      };
      if (maps.ok() && std::none_of(maps->begin(), maps->end(), holds)) {
        outcome_->AddNote(context_.process().DescribeUnmapped(Address(asked_.address), t));
      }
    }
  }

  absl::StatusOr<Value> ReprOf(const Epoch& epoch) {
    ASSIGN_OR_RETURN(python::PythonState * state, provenance_.StateAt(epoch.whole));
    for (const auto& instance : state->instances()) {
      if (instance->objects.TypeOf(asked_.address)) {
        return Value(instance->objects.Repr(asked_.address));
      }
    }
    return Value();
  }

  // The native frames at a moment, as `| backtrace` shows them.
  absl::StatusOr<Value> Backtrace(ThreadNo thread, Time t) {
    ASSIGN_OR_RETURN(std::unique_ptr<Moment> moment, context_.process().At(t));
    Unwinder unwinder(context_);
    absl::StatusOr<Stack> stack = unwinder.StackOf(*moment, thread);
    if (absl::IsNotFound(stack.status())) return Value();
    if (!stack.ok()) return stack.status();
    return FrameList(context_, *moment, *stack);
  }

  Provenance& provenance() { return provenance_; }
  // Before the first Next: the death of the newest is of no interest.
  void set_births_only() { births_only_ = true; }

 private:
  absl::StatusOr<bool> IsCalled(const Epoch& epoch) {
    ASSIGN_OR_RETURN(python::PythonState * state, provenance_.StateAt(epoch.whole));
    for (const auto& instance : state->instances()) {
      const python::TypeInfo* type = instance->objects.TypeOf(asked_.address);
      if (type && instance->objects.IsCalled(*type, *asked_.type)) return true;
    }
    return false;
  }

  const Context& context_;
  const Asked asked_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  Provenance provenance_;
  std::unique_ptr<EpochScanner> scanner_;
  std::vector<std::string> others_;
  size_t seen_ = 0;
  bool births_only_ = false;
};

using MakeEpochRows =
    std::function<absl::StatusOr<std::vector<Row>>(Epochs&, const SourceRequest&)>;

// Goes through the epochs, newest first. `make` appends to the rows what it makes of one and says
// whether to go on.
using MakeEpochRow = std::function<absl::StatusOr<bool>(Epochs&, const SourceRequest&, const Epoch&,
                                                        std::vector<Row>*)>;
MakeEpochRows ForEachEpoch(MakeEpochRow make) {
  return [make = std::move(make)](
             Epochs& epochs, const SourceRequest& request) -> absl::StatusOr<std::vector<Row>> {
    std::vector<Row> rows;
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Epoch> epoch, epochs.Next());
      if (!epoch) return rows;
      ASSIGN_OR_RETURN(bool more, make(epochs, request, *epoch, &rows));
      if (!more) return rows;
    }
  };
}

// Rows made from epochs when the first is asked for.
void SetEpochs(SourcePlan* plan, const Context& context, const Asked& asked,
               std::string description, const MakeEpochRows& make) {
  plan->open = [&context, asked, make](const SourceRequest& request) {
    auto compute = [&context, asked, make, request = SourceRequest(request),
                    options = *request.options]() mutable -> absl::StatusOr<std::vector<Row>> {
      request.options = &options;
      Epochs epochs(context, asked, request);
      absl::StatusOr<std::vector<Row>> rows = make(epochs, request);
      if (rows.ok() && rows->empty()) epochs.Explain();
      return rows;
    };
    return absl::StatusOr<OperatorPtr>(
        std::make_unique<ComputedSource>(std::move(compute), request.outcome));
  };
  plan->explain = [description = std::move(description), asked](const SourceRequest&) {
    return absl::StatusOr<std::string>(fmt::format(
        "{} {:#x}{}: the writes to its reference count and type, newest first, by the page index",
        description, asked.address, SpanText(asked.span)));
  };
}

// The row of a birth or a death.
absl::StatusOr<Row> RowOf(Epochs& epochs, const Asked& asked, const Epoch& epoch,
                          const CountChange& change, bool whole) {
  const Access& access = change.access;
  Row row = {access.time, OfThread(access.thread), access.pc, Address(asked.address),
             epoch.type_name};
  if (!whole) {
    row.resize(8);
    return row;
  }
  ASSIGN_OR_RETURN(Value repr, epochs.ReprOf(epoch));
  row.push_back(std::move(repr));
  ASSIGN_OR_RETURN(Value python, epochs.provenance().StackOf(access.thread, access.time));
  row.push_back(std::move(python));
  ASSIGN_OR_RETURN(Value native, epochs.Backtrace(access.thread, access.time));
  row.push_back(std::move(native));
  return row;
}

SourcePlan PlanEvent() {
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "object", Type::kAddress);
  Add(&plan, "type", Type::kString);
  Add(&plan, "repr", Type::kString);
  Add(&plan, "py_backtrace", Type::kList);
  Add(&plan, "backtrace", Type::kList);
  plan.presentation.table_columns = {"time", "thread", "type", "repr", "python", "function"};
  return plan;
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Creation& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<Asked> asked = Resolve(source.object, query, context, ask);
  if (!asked.ok()) return asked.status();
  SourcePlan plan = PlanEvent();
  const auto make = [asked = *asked](Epochs& epochs, const SourceRequest& request,
                                     const Epoch& epoch,
                                     std::vector<Row>* rows) -> absl::StatusOr<bool> {
    if (!epoch.birth) {
      request.outcome->AddNote(
          fmt::format("the {} at {:#x} was not made by the program: it was there, with its "
                      "references counted, from when its memory was mapped",
                      epoch.type_name, asked.address));
      return false;
    }
    if (epoch.birth->access.time < asked.span.begin) return false;
    ASSIGN_OR_RETURN(Row row, RowOf(epochs, asked, epoch, *epoch.birth, request.want_values));
    rows->push_back(std::move(row));
    return false;
  };
  SetEpochs(&plan, context, *asked, "the creation of the object at",
            [rows = ForEachEpoch(make)](Epochs& epochs, const SourceRequest& request) {
              epochs.set_births_only();
              return rows(epochs, request);
            });
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::Deallocation& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<Asked> asked = Resolve(source.object, query, context, ask);
  if (!asked.ok()) return asked.status();
  SourcePlan plan = PlanEvent();
  const auto make = [asked = *asked](Epochs& epochs, const SourceRequest& request,
                                     const Epoch& epoch,
                                     std::vector<Row>* rows) -> absl::StatusOr<bool> {
    if (!epoch.death) {
      request.outcome->AddNote(
          fmt::format("the {} at {:#x}{} is alive at time {}", epoch.type_name, asked.address,
                      epoch.birth ? fmt::format(", made at {},", epoch.birth->access.time.v) : "",
                      epoch.alive.v));
      return true;
    }
    if (epoch.death->access.time < asked.span.begin) return false;
    if (epoch.replaced) {
      request.outcome->AddNote(fmt::format(
          "the count of the {} at {:#x}{} never became 0: its memory was another's from "
          "{} on, as of what realloc moved",
          epoch.type_name, asked.address,
          epoch.birth ? fmt::format(", made at {},", epoch.birth->access.time.v) : "",
          epoch.death->access.time.v));
      return true;
    }
    ASSIGN_OR_RETURN(Row row, RowOf(epochs, asked, epoch, *epoch.death, request.want_values));
    rows->push_back(std::move(row));
    return false;
  };
  SetEpochs(&plan, context, *asked, "the deallocation of the object at", ForEachEpoch(make));
  return plan;
}

absl::StatusOr<SourcePlan> Plan(const ast::Lifetime& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<Asked> asked = Resolve(source.object, query, context, ask);
  if (!asked.ok()) return asked.status();
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "object", Type::kAddress);
  Add(&plan, "type", Type::kString);
  Add(&plan, "repr", Type::kString);
  Add(&plan, "created_time", Type::kTime);
  Add(&plan, "freed_time", Type::kTime);
  Add(&plan, "freed_by", Type::kObject);
  Add(&plan, "freed_in", Type::kString);
  Add(&plan, "state", Type::kString);
  Add(&plan, "used_after_free", Type::kTime);
  plan.presentation.table_columns = {"type",     "repr",       "created_time",
                                     "python",   "freed_time", "freed_by",
                                     "freed_in", "state",      "used_after_free"};
  const auto make = [asked = *asked](Epochs& epochs, const SourceRequest& request, const Epoch& e,
                                     std::vector<Row>* rows) -> absl::StatusOr<bool> {
    if (e.death && e.death->access.time < asked.span.begin) return false;
    Row row = {Null{}, Null{}, Null{}, Address(asked.address), e.type_name, Null{}, Null{},
               Null{}, Null{}, Null{}, python::StateOf(e),     Null{}};
    if (e.birth) {
      row[0] = e.birth->access.time;
      row[1] = OfThread(e.birth->access.thread);
      row[2] = e.birth->access.pc;
      row[6] = e.birth->access.time;
    }
    if (request.want_values) {
      ASSIGN_OR_RETURN(row[5], epochs.ReprOf(e));
    }
    if (e.death) {
      row[7] = e.death->access.time;
    }
    if (e.death && !e.replaced) {
      ASSIGN_OR_RETURN(auto place,
                       epochs.provenance().Of(e.death->access.thread, e.death->access.time));
      row[8] = python::ValueOf(place);
      ASSIGN_OR_RETURN(std::string function,
                       python::NativeFunction(epochs.provenance().context(), e.death->access.pc,
                                              e.death->access.time));
      row[9] = OfText(function);
    }
    if (e.use_after) row[11] = e.use_after->access.time;
    rows->push_back(std::move(row));
    return true;
  };
  SetEpochs(&plan, context, *asked, "the objects at",
            [newest_first = ForEachEpoch(make)](Epochs& epochs, const SourceRequest& request) {
              absl::StatusOr<std::vector<Row>> rows = newest_first(epochs, request);
              if (rows.ok()) std::reverse(rows->begin(), rows->end());
              return rows;
            });
  return plan;
}

namespace {

// What a question about counts looks at: the newest epoch, or the span as it was given.
absl::StatusOr<TimeSpan> SpanOfCounts(Epochs& epochs, const Asked& asked, Outcome* outcome,
                                      std::optional<Epoch>* epoch) {
  ASSIGN_OR_RETURN(*epoch, epochs.Next());
  if (asked.has_span || !*epoch) return asked.span;
  TimeSpan span = asked.span;
  if ((*epoch)->birth) span.begin = (*epoch)->birth->access.time;
  if ((*epoch)->birth && span.begin.v > 0) {
    outcome->AddNote(fmt::format(
        "of the {} made at {}{}", (*epoch)->type_name, span.begin.v,
        (*epoch)->death ? fmt::format(" and freed at {}", (*epoch)->death->access.time.v) : ""));
  }
  return span;
}

absl::StatusOr<python::CountWord> WordAt(Epochs& epochs, const Context& context, TimeSpan span) {
  const Time t = std::min(span.end, context.process().info().end);
  ASSIGN_OR_RETURN(python::PythonState * state, epochs.provenance().StateAt(t));
  if (state == nullptr || state->instances().empty()) return python::CountWord{0, 8};
  return python::CountWordOf(*state->instances()[0]->runtime.layout);
}

// Gives each change of a count.
class CountSource : public Operator {
 public:
  CountSource(const Context& context, const Asked& asked, const SourceRequest& request)
      : context_(context), asked_(asked), options_(*request.options), request_(request) {
    request_.options = &options_;
  }
  absl::StatusOr<bool> Next(Row* row) override {
    if (!cursor_) {
      Epochs epochs(context_, asked_, request_);
      std::optional<Epoch> epoch;
      ASSIGN_OR_RETURN(TimeSpan span, SpanOfCounts(epochs, asked_, request_.outcome.get(), &epoch));
      if (!epoch) {
        epochs.Explain();
        return false;
      }
      ASSIGN_OR_RETURN(python::CountWord word, WordAt(epochs, context_, span));
      if (epoch->birth) born_ = epoch->birth->access.time;
      if (epoch->death) died_ = epoch->death->access.time;
      if (epoch->use_after) used_ = epoch->use_after->access.time;
      const TimeSpan both = Intersect(span, request_.span);
      ASSIGN_OR_RETURN(auto cursor, python::CountsOf(context_.process(), asked_.address, word, both,
                                                     request_.direction, options_.control));
      const Time start = request_.direction == Direction::kForward
                             ? both.begin
                             : std::min(both.end, context_.process().info().end);
      ASSIGN_OR_RETURN(counts_, python::CountReader::Open(epochs.provenance(), asked_.address, word,
                                                          request_.direction, start));
      cursor_ = std::move(cursor);
    }
    while (true) {
      absl::StatusOr<std::optional<Access>> access = cursor_->Next();
      if (absl::IsCancelled(access.status())) {
        request_.outcome->MarkInterrupted();
        return false;
      }
      if (!access.ok()) return access.status();
      if (!*access) {
        request_.outcome->source_ended = true;
        return false;
      }
      std::optional<CountChange> change = counts_->Read(**std::move(access));
      if (!change) continue;
      ++request_.outcome->source_rows;
      // What was there before it was made is no count of it.
      if (change->access.time == born_) change->before = 0;
      const bool before = python::IsCount(change->before), after = python::IsCount(change->after);
      *row = {change->access.time,
              OfThread(change->access.thread),
              change->access.pc,
              Address(asked_.address),
              before && after ? Value(change->after - change->before) : Value(),
              before ? Value(change->before) : Value(),
              after ? Value(change->after) : Value(),
              EventOf(*change)};
      return true;
    }
  }

 private:
  const Context& context_;
  const Asked asked_;
  const RunOptions options_;
  SourceRequest request_;
  // What the change was to the object that the question is about.
  Value EventOf(const CountChange& change) const {
    const Time t = change.access.time;
    if (t == born_) return "created";
    if (t == died_) return "freed";
    const int64_t delta = change.after - change.before;
    const bool counts = delta == 1 || delta == -1 || change.after == int64_t{UINT32_MAX};
    if (used_ && t >= *used_ && counts) return "used after free";
    return Null{};
  }

  std::optional<python::CountReader> counts_;
  std::optional<Time> born_, died_, used_;
  std::unique_ptr<Cursor<Access>> cursor_;
};

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Refcounts& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<Asked> asked = Resolve(source.object, query, context, ask);
  if (!asked.ok()) return asked.status();
  SourcePlan plan;
  AddMoment(&plan);
  Add(&plan, "object", Type::kAddress);
  Add(&plan, "delta", Type::kInteger);
  Add(&plan, "before", Type::kInteger);
  Add(&plan, "after", Type::kInteger);
  Add(&plan, "event", Type::kString);
  plan.presentation.table_columns = {"time",  "thread", "delta",  "before",
                                     "after", "event",  "python", "function"};
  plan.reversible = true;
  plan.open = [&context, asked = *asked](const SourceRequest& request) {
    return absl::StatusOr<OperatorPtr>(std::make_unique<CountSource>(context, asked, request));
  };
  plan.explain = [asked = *asked](const SourceRequest&) {
    return absl::StatusOr<std::string>(
        fmt::format("writes to the reference count of {:#x}{}, by the page index", asked.address,
                    SpanText(asked.span)));
  };
  return plan;
}

namespace {

enum Verdict : int { kUnbalanced, kHolder, kBalanced };

// What `why` says of one object.
class Why {
 public:
  Why(const Context& context, const Asked& asked, bool too_early, Epochs& epochs,
      const SourceRequest& request)
      : context_(context),
        asked_(asked),
        too_early_(too_early),
        epochs_(epochs),
        outcome_(*request.outcome),
        control_(request.options->control) {}

  absl::StatusOr<std::vector<Row>> Rows() {
    std::optional<Epoch> epoch;
    ASSIGN_OR_RETURN(TimeSpan span, SpanOfCounts(epochs_, asked_, &outcome_, &epoch));
    if (!epoch) return std::vector<Row>();
    end_ = std::min(span.end, context_.process().info().end);
    if (!too_early_ && epoch->death) {
      outcome_.AddNote(
          fmt::format("it is not alive: it was freed at {}", epoch->death->access.time.v));
    } else if (too_early_ && !epoch->death) {
      outcome_.AddNote("it was not freed");
    }
    ASSIGN_OR_RETURN(python::CountWord word, WordAt(epochs_, context_, span));
    if (!epoch->birth) {
      outcome_.AddNote("it was there, with its references counted, before the program began");
      if (too_early_ && epoch->death && !asked_.has_span) {
        ASSIGN_OR_RETURN(span.begin, LastChanges(word, {span.begin, epoch->death->access.time}));
      }
    }
    begin_ = span.begin;
    ASSIGN_OR_RETURN(balance_, python::Balance::Make(context_, epochs_.provenance(), asked_.address,
                                                     end_, control_));
    ASSIGN_OR_RETURN(owners_,
                     python::OwnersOf(context_, epochs_.provenance(), asked_.address, word, *epoch,
                                      span, control_, ~uint64_t{0}, balance_.get()));
    absl::Status s = absl::OkStatus();
    if (!too_early_ && !epoch->death) s = FindLeft(*epoch);
    if (too_early_ && epoch->death) s = FindMissing(*epoch);
    if (!s.ok()) return s;
    if (!balance_->incomplete().empty()) outcome_.MarkIncomplete(balance_->incomplete());
    return MakeRows();
  }

 private:
  // Of an object that all of the program counts, such as None, the last changes tell enough:
  // whoever gave back so many references that it died did so until the end. When they begin.
  absl::StatusOr<Time> LastChanges(const python::CountWord& word, TimeSpan span) {
    constexpr size_t kMaxChanges = 1000;
    ASSIGN_OR_RETURN(const auto cursor, python::CountsOf(context_.process(), asked_.address, word,
                                                         span, Direction::kBackward, control_));
    Time begin = span.begin;
    for (size_t i = 0; i < kMaxChanges; ++i) {
      ASSIGN_OR_RETURN(const std::optional<Access> change, cursor->Next());
      if (!change) return span.begin;
      begin = change->time;
    }
    outcome_.MarkIncomplete(fmt::format(
        "the last {} changes of its count were looked at, from {} on; `after T` looks at more",
        kMaxChanges, begin.v));
    return begin;
  }

  absl::StatusOr<python::Holders> HoldersAt(Time t) {
    ASSIGN_OR_RETURN(python::PythonState * state, epochs_.provenance().StateAt(t));
    absl::StatusOr<python::Holders> holders =
        python::HoldersOf(context_, *state, asked_.address, control_);
    if (holders.ok() && !holders->incomplete.empty()) {
      outcome_.MarkIncomplete(holders->incomplete);
    }
    return holders;
  }

  // Who holds it, and whose references nobody holds.
  absl::Status FindLeft(const Epoch& epoch) {
    ASSIGN_OR_RETURN(python::Holders holders, HoldersAt(end_));
    for (python::Holder& holder : holders.words) {
      ASSIGN_OR_RETURN(bool since, IsStored(holder, epoch, end_));
      if (since) holders_.push_back(std::move(holder));
    }
    ASSIGN_OR_RETURN(python::PythonState * state, epochs_.provenance().StateAt(end_));
    std::optional<python::Refcount> count;
    for (const auto& instance : state->instances()) {
      count = instance->objects.RefcountOf(asked_.address);
    }
    if (!count) return absl::OkStatus();
    if (count->immortal) {
      outcome_.AddNote("it is immortal: its references are not counted");
      return absl::OkStatus();
    }
    // Each reference has a word: there is nothing to explain.
    const int64_t left = count->count - static_cast<int64_t>(holders_.size());
    if (left <= 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(imbalances_, balance_->LeftOver(end_));
    if (imbalances_.empty() && epoch.birth) {
      outcome_.AddNote(fmt::format(
          "of {} references {} {} in no word that is known: functions that run, values that wait "
          "in frames and memory of C have them",
          count->count, left, left == 1 ? "is" : "are"));
    }
    return absl::OkStatus();
  }

  // Who still counted on it, and who gave away what was theirs.
  absl::Status FindMissing(const Epoch& epoch) {
    const Time death = epoch.death->access.time;
    if (!epoch.birth) {  // half of the program holds it
      ASSIGN_OR_RETURN(imbalances_, balance_->Missing(begin_, death, {}));
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(python::Holders words, HoldersAt(death));
    // Who frees something soon clears what held it. That is over once the call is.
    constexpr uint64_t kClearedWithin = 2000;
    const Time soon = std::min(death + kClearedWithin, context_.process().info().end);
    ASSIGN_OR_RETURN(python::Holders holders, HoldersAt(soon));
    for (python::Holder& holder : holders.words) {
      ASSIGN_OR_RETURN(bool since, IsStored(holder, epoch, soon));
      if (since) holders_.push_back(std::move(holder));
    }
    const bool used = std::any_of(owners_.begin(), owners_.end(),
                                  [](const python::Owner& owner) { return owner.after_free != 0; });
    if (holders_.empty() && !used) {
      outcome_.AddNote("when it was freed nobody held it");
      return absl::OkStatus();
    }
    std::vector<uint64_t> places;
    for (const python::Holder& holder : words.words) places.push_back(holder.word);
    ASSIGN_OR_RETURN(imbalances_, balance_->Missing(begin_, death, places));
    return absl::OkStatus();
  }

  // Whether the word holds this object, and not one that was at its address before or after it.
  absl::StatusOr<bool> IsStored(const python::Holder& holder, const Epoch& epoch, Time before) {
    if (!holder.certain()) return false;
    ASSIGN_OR_RETURN(std::optional<Access> stored, LastStore(holder.word, before));
    if (!stored) return !epoch.birth;
    const Time t = stored->time;
    return (!epoch.birth || t >= epoch.birth->access.time) &&
           (!epoch.death || t < epoch.death->access.time);
  }

  absl::StatusOr<std::optional<Access>> LastStore(uint64_t word, Time before) {
    AccessQuery query;
    query.ranges = {{Address(word), Address(word + 8)}};
    query.span.end = before;
    query.want_values = false;
    return LastAccess(context_.process(), std::move(query));
  }

  // Calls of one place that are wrong in the same way.
  struct Unbalanced {
    python::Imbalance first;
    std::optional<python::SourceLocation> place;  // in Python
    Time last;
    int64_t times = 1;
  };
  absl::StatusOr<std::vector<Unbalanced>> UnbalancedCalls() {
    std::vector<Unbalanced> all;
    for (const python::Imbalance& one : imbalances_) {
      ASSIGN_OR_RETURN(std::optional<python::SourceLocation> place,
                       epochs_.provenance().Of(one.thread, one.time));
      const auto same = std::find_if(all.begin(), all.end(), [&](const Unbalanced& known) {
        const python::Site &x = known.first.site, &y = one.site;
        return std::tie(x.function, x.module, x.file, x.line) ==
                   std::tie(y.function, y.module, y.file, y.line) &&
               known.first.excess == one.excess && known.first.detail == one.detail &&
               known.place == place;
      });
      if (same == all.end()) {
        all.push_back({one, std::move(place), one.time});
      } else {
        same->last = one.time;
        ++same->times;
      }
    }
    return all;
  }

  absl::StatusOr<std::vector<Row>> MakeRows() {
    std::vector<std::pair<int, Row>> rows;
    std::vector<bool> named(owners_.size());
    ASSIGN_OR_RETURN(const std::vector<Unbalanced> calls, UnbalancedCalls());
    for (const Unbalanced& unbalanced : calls) {
      const python::Imbalance& imbalance = unbalanced.first;
      const std::optional<python::SourceLocation>& place = unbalanced.place;
      // The row of what it counted, if it did.
      python::Owner owner;
      owner.first = imbalance.time;
      owner.last = unbalanced.last;
      owner.place = place;
      for (size_t i = 0; i < owners_.size(); ++i) {
        if (owners_[i].function == imbalance.site.function &&
            owners_[i].module == imbalance.site.module && owners_[i].place == place) {
          if (!named[i]) owner = owners_[i];
          named[i] = true;
          break;
        }
      }
      owner.function = imbalance.site.function;
      owner.module = imbalance.site.module;
      owner.file = imbalance.site.file;
      owner.line = imbalance.site.line;
      const std::string times =
          unbalanced.times == 1 ? "" : fmt::format(", {} times", unbalanced.times);
      rows.emplace_back(kUnbalanced, RowOf(owner, "unbalanced", "", imbalance.detail + times));
    }
    for (const python::Holder& holder : holders_) {
      ASSIGN_OR_RETURN(Row row, RowOf(holder));
      rows.emplace_back(kHolder, std::move(row));
    }
    std::vector<std::pair<int, Row>> rest;
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (!named[i]) rest.emplace_back(kBalanced, RowOf(owners_[i], "balanced", "", ""));
    }
    std::stable_sort(rest.begin(), rest.end(), [this](const auto& a, const auto& b) {
      const int64_t x = *a.second[kBalance].template get<int64_t>();
      const int64_t y = *b.second[kBalance].template get<int64_t>();
      return too_early_ ? x < y : x > y;
    });
    std::vector<Row> all;
    all.reserve(rows.size() + rest.size());
    for (auto& [verdict, row] : rows) all.push_back(std::move(row));
    for (auto& [verdict, row] : rest) all.push_back(std::move(row));
    return all;
  }

  static constexpr size_t kBalance = 8;
  static Row RowOf(const python::Owner& owner, const char* verdict, const std::string& held_in,
                   const std::string& detail) {
    return {Value(verdict),
            OfText(held_in),
            OfText(detail),
            OfText(owner.function),
            OfText(owner.module),
            OfText(owner.file),
            owner.line > 0 ? Value(int64_t{owner.line}) : Value(),
            python::ValueOf(owner.place),
            owner.balance(),
            owner.increments,
            owner.decrements,
            owner.after_free,
            owner.first,
            owner.last};
  }

  // Of a word: who stored it there.
  absl::StatusOr<Row> RowOf(const python::Holder& holder) {
    ASSIGN_OR_RETURN(std::optional<Access> stored, LastStore(holder.word, end_));
    python::Owner owner;
    if (stored) {
      const Access& access = *stored;
      owner.first = owner.last = access.time;
      ASSIGN_OR_RETURN(owner.place, epochs_.provenance().Of(access.thread, access.time));
      ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(access.time));
      const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(access.pc);
      owner.function =
          location->frames.empty() ? location->function : location->frames.back().function;
      owner.module = location->module;
    }
    Row row = RowOf(owner, "holder", holder.held_in, "");
    if (!stored) row[12] = row[13] = Value();
    return row;
  }

  const Context& context_;
  const Asked& asked_;
  const bool too_early_;
  Epochs& epochs_;
  Outcome& outcome_;
  ScanControl* control_;
  Time begin_, end_;  // of the changes that are looked at
  std::unique_ptr<python::Balance> balance_;
  std::vector<python::Owner> owners_;
  std::vector<python::Holder> holders_;
  std::vector<python::Imbalance> imbalances_;
};

}  // namespace

// Who holds references, who took and who gave them back, and who is out of balance.
absl::StatusOr<SourcePlan> Plan(const ast::Why& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  absl::StatusOr<Asked> asked = Resolve(source.object, query, context, ask);
  if (!asked.ok()) return asked.status();
  ASSIGN_OR_RETURN(Time at, ResolveAt(context, query.clauses.at, ask));
  if (query.clauses.at) asked->span.end = at;
  const bool too_early = source.question == ast::Why::Question::kFreedTooEarly;
  SourcePlan plan;
  Add(&plan, "verdict", Type::kString);
  Add(&plan, "held_in", Type::kString);
  Add(&plan, "detail", Type::kString);
  Add(&plan, "function", Type::kString);
  Add(&plan, "module", Type::kString);
  Add(&plan, "file", Type::kString);
  Add(&plan, "line", Type::kInteger);
  Add(&plan, "python", Type::kObject);
  Add(&plan, "balance", Type::kInteger);
  Add(&plan, "increments", Type::kInteger);
  Add(&plan, "decrements", Type::kInteger);
  Add(&plan, "after_free", Type::kInteger);
  Add(&plan, "first", Type::kTime);
  Add(&plan, "last", Type::kTime);
  plan.presentation.table_columns = {"verdict",    "held_in", "balance",  "increments",
                                     "decrements", "python",  "function", "line"};
  SetEpochs(&plan, context, *asked, "who holds, took and gave back references to",
            [asked = *asked, &context, too_early](Epochs& epochs, const SourceRequest& request) {
              return Why(context, asked, too_early, epochs, request).Rows();
            });
  return plan;
}

}  // namespace ttq
