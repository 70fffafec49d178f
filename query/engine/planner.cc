// SPDX-License-Identifier: MIT
//
// Making plans; see planner.h for what is decided.

#include "query/engine/planner.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/code/disassembler.h"
#include "query/cpython/provenance.h"
#include "query/language/diagnostic.h"
#include "query/outcome.h"
#include "query/process/row_moment.h"
#include "query/rows/frame_values.h"
#include "query/rows/mixed_stack.h"
#include "query/rows/py_stack.h"
#include "query/sources/sources.h"

namespace ttq {
namespace {

constexpr int kMaxNesting = 16;

// Appends function, module, file and line of the code at a row's pc.
Extend MakeLocate(const Context* context, size_t time_slot, size_t pc_slot) {
  using Cache = absl::flat_hash_map<std::pair<const Symbolizer*, uint64_t>, std::array<Value, 4>>;
  return [context, time_slot, pc_slot, cache = std::make_shared<Cache>()](Row* row) {
    const Address* pc = (*row)[pc_slot].get<Address>();
    const Time* time = (*row)[time_slot].get<Time>();
    if (!pc || !time) {
      row->resize(row->size() + 4);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context->SymbolsAt(*time));
    const auto [it, is_new] = cache->try_emplace(std::pair(symbols, pc->v));
    if (is_new) {
      const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(*pc);
      const auto text = [](const std::string& s) { return s.empty() ? Value() : Value(s); };
      it->second = {text(location->function), text(location->module), text(location->file),
                    location->line > 0 ? Value(int64_t{location->line}) : Value()};
    }
    row->insert(row->end(), it->second.begin(), it->second.end());
    return absl::OkStatus();
  };
}

// Appends the instruction at a row's pc. Code in a module does not change: it is read once.
Extend MakeDisassemble(const Context* context, size_t time_slot, size_t pc_slot) {
  using Cache = absl::flat_hash_map<std::pair<const Symbolizer*, uint64_t>, Value>;
  return [context, time_slot, pc_slot, cache = std::make_shared<Cache>()](Row* row) {
    const Address* pc = (*row)[pc_slot].get<Address>();
    const Time* time = (*row)[time_slot].get<Time>();
    if (!pc || !time) {
      row->push_back(Null{});
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context->SymbolsAt(*time));
    const std::pair key(symbols, pc->v);
    if (const auto it = cache->find(key); it != cache->end()) {
      row->push_back(it->second);
      return absl::OkStatus();
    }
    constexpr uint64_t kLongest = 15;  // bytes of an x86 instruction
    ASSIGN_OR_RETURN(MemoryImage image, context->process().Memory(*pc, kLongest, *time));
    const size_t known =
        std::find(image.present.begin(), image.present.end(), false) - image.present.begin();
    const Disassembler disassembler([s = symbols](Address a) { return s->NameOf(a); });
    std::vector<DisassembledInstruction> instructions = disassembler.Disassemble(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(image.bytes.data()), known), *pc, 1);
    const Value text = instructions.empty() ? Value() : Value(std::move(instructions[0].text));
    if (symbols->ModuleAt(*pc)) cache->emplace(key, text);
    row->push_back(text);
    return absl::OkStatus();
  };
}

// Appends the stack of a row's thread at its time: a list of frames.
Extend MakeBacktrace(const Context& context, std::shared_ptr<RowMoment> moment, size_t time_slot,
                     std::optional<size_t> thread_slot, std::optional<size_t> inlined_slot,
                     std::shared_ptr<Outcome> outcome) {
  return [&context, moment = std::move(moment), time_slot, thread_slot, inlined_slot,
          outcome = std::move(outcome)](Row* row) -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<Stack> stack, StackOfRow(*moment, *row, time_slot, thread_slot,
                                                            outcome.get(), inlined_slot));
    Value frames;
    if (stack) {
      ASSIGN_OR_RETURN(Moment * then, moment->At(stack->time));
      ASSIGN_OR_RETURN(frames, FrameList(context, *then, *stack));
    }
    row->push_back(std::move(frames));
    return absl::OkStatus();
  };
}

// Appends the Python code that a row's thread was running.
Extend MakePython(const Context* context, ScanControl* control, size_t time_slot,
                  size_t thread_slot) {
  return
      [time_slot, thread_slot, provenance = std::make_shared<python::Provenance>(context, control)](
          Row* row) -> absl::Status {
        const int64_t* thread = (*row)[thread_slot].get<int64_t>();
        const Time* time = (*row)[time_slot].get<Time>();
        if (!thread || !time) {
          row->emplace_back();
          return absl::OkStatus();
        }
        ASSIGN_OR_RETURN(std::optional<python::SourceLocation> place,
                         provenance->Of(ThreadNo(static_cast<uint32_t>(*thread)), *time));
        row->push_back(python::ValueOf(place));
        return absl::OkStatus();
      };
}

// The columns visible at one point of the pipeline, and the operators up to there.
class Pipeline : public Columns {
 public:
  Pipeline(const Context* context, const RunOptions& options, const SourcePlan& source,
           OperatorPtr root, std::shared_ptr<Outcome> outcome)
      : context_(context),
        options_(options),
        root_(std::move(root)),
        width_(source.width),
        time_slot_(source.time_slot),
        pc_slot_(source.pc_slot),
        thread_slot_(source.thread_slot),
        inlined_slot_(source.inlined_slot),
        scope_(source.scope),
        arguments_(source.fields_of_args),
        moment_(std::make_shared<RowMoment>(*context, std::move(outcome))) {
    for (const SourceColumn& column : source.columns) {
      visible_.push_back(
          {column.column, column.slot, column.derived, column.compute, column.hidden});
    }
  }

  std::shared_ptr<RowMoment> moment() override { return moment_; }
  const NameScope& scope() const override { return scope_; }
  std::optional<size_t> inlined_slot() const override { return inlined_slot_; }

  std::optional<Found> Find(std::string_view name) override {
    for (Visible& column : visible_) {
      if (column.column.name != name) continue;
      Materialize(&column);
      return Found{column.slot, column.column};
    }
    return FindArgument(name);
  }

  // The rows' time; without one, their only other column that is a time, as after `select
  // return_time`.
  std::optional<Found> FindTime() {
    if (const auto time = Find("time"))
      return time->column.type == Type::kTime ? time : std::nullopt;
    std::string_view only;
    for (const Visible& column : visible_) {
      if (column.hidden || column.column.type != Type::kTime) continue;
      if (!only.empty()) return std::nullopt;
      only = column.column.name;
    }
    return only.empty() ? std::nullopt : Find(only);
  }

  std::vector<std::string> Names() const override {
    std::vector<std::string> names;
    for (const Visible& column : visible_) {
      if (!column.hidden) names.push_back(column.column.name);
    }
    return names;
  }

  std::vector<Column> columns() const {
    std::vector<Column> columns;
    for (const Visible& column : visible_) {
      if (!column.hidden) columns.push_back(column.column);
    }
    return columns;
  }

  // Wraps the operator on top.
  template <class Make>
  void Push(Make make) {
    root_ = make(std::move(root_));
  }

  // From here on rows have exactly these columns, in this order.
  void Replace(const std::vector<Column>& columns) {
    visible_.clear();
    arguments_.clear();
    inlined_slot_.reset();
    scope_.arguments.clear();
    width_ = 0;
    for (const Column& column : columns) Append(column);
  }

  // Like Replace, for rows that still are of the moments they were of: `bound` computes them.
  void Project(std::vector<BoundExpression> bound, const std::vector<Column>& columns) {
    const std::optional<size_t> inlined = inlined_slot_;
    if (inlined) {
      bound.push_back(
          {[slot = *inlined](const Row& row) { return row[slot]; }, {"", Type::kInteger}});
    }
    Push([&](OperatorPtr in) { return MakeProject(std::move(in), std::move(bound)); });
    Replace(columns);
    if (inlined) inlined_slot_ = width_++;
  }

  // A column that the operator just pushed appends to each row.
  void Append(Column column) {
    visible_.push_back({std::move(column), width_++, Derived::kNone, nullptr, false});
  }

  absl::StatusOr<std::vector<BoundExpression>> BindAll(const std::vector<ast::ExprPtr>& exprs) {
    std::vector<BoundExpression> bound;
    for (const ast::ExprPtr& expr : exprs) {
      ASSIGN_OR_RETURN(BoundExpression b, Bind(*expr, *this, context_));
      bound.push_back(std::move(b));
    }
    return bound;
  }

  // Cuts rows down to their visible columns, in order.
  void Finish() {
    std::vector<BoundExpression> all;
    std::erase_if(visible_, [](const Visible& column) { return column.hidden; });
    bool in_place = visible_.size() == width_;
    for (size_t i = 0; i < visible_.size(); ++i) {
      Materialize(&visible_[i]);
      const size_t slot = visible_[i].slot;
      in_place = in_place && slot == i;
      all.push_back({[slot](const Row& row) { return row[slot]; }, visible_[i].column});
    }
    if (in_place && visible_.size() == width_) return;
    const std::vector<Column> names = columns();
    Push([&](OperatorPtr in) { return MakeProject(std::move(in), std::move(all)); });
    Replace(names);
  }

  OperatorPtr Take() { return std::move(root_); }

 private:
  struct Visible {
    Column column;
    size_t slot;
    Derived derived;
    ComputeColumn compute;
    bool hidden;
  };

  // A field of `args`, as a slot of its own.
  std::optional<Found> FindArgument(std::string_view name) {
    if (std::find(arguments_.begin(), arguments_.end(), name) == arguments_.end()) {
      return std::nullopt;
    }
    const auto known = argument_slots_.find(std::string(name));
    Column column = {std::string(name), Type::kObject, /*any=*/true, {}};
    if (known != argument_slots_.end()) return Found{known->second, std::move(column)};
    const auto args = std::find_if(visible_.begin(), visible_.end(),
                                   [](const Visible& v) { return v.column.name == "args"; });
    if (args == visible_.end()) return std::nullopt;
    Push([&](OperatorPtr in) {
      return MakeExtend(std::move(in), [slot = args->slot, name = std::string(name)](Row* row) {
        Value value;
        if (const Object* object = (*row)[slot].object()) {
          for (const auto& [field, v] : object->fields) {
            if (field == name) value = v;
          }
        }
        row->push_back(std::move(value));
        return absl::OkStatus();
      });
    });
    argument_slots_[std::string(name)] = width_;
    return Found{width_++, std::move(column)};
  }

  void Materialize(Visible* wanted) {
    const Derived derived = wanted->derived;
    if (derived == Derived::kNone) return;
    if (derived == Derived::kComputed) {
      Push([&](OperatorPtr in) {
        return MakeExtend(std::move(in),
                          [moment = moment_, compute = std::move(wanted->compute)](Row* row) {
                            ASSIGN_OR_RETURN(Value value, compute(*moment, *row));
                            row->push_back(std::move(value));
                            return absl::OkStatus();
                          });
      });
      wanted->slot = width_++;
      wanted->derived = Derived::kNone;
      return;
    }
    static constexpr std::array<std::string_view, 4> kPlace = {"function", "module", "file",
                                                               "line"};
    const size_t base = width_;
    if (derived == Derived::kLocation) {
      Push([&](OperatorPtr in) {
        return MakeExtend(std::move(in), MakeLocate(context_, time_slot_, pc_slot_));
      });
      width_ += kPlace.size();
    } else if (derived == Derived::kInstruction) {
      Push([&](OperatorPtr in) {
        return MakeExtend(std::move(in), MakeDisassemble(context_, time_slot_, pc_slot_));
      });
      ++width_;
    } else {
      Push([&](OperatorPtr in) {
        return MakeExtend(std::move(in),
                          MakePython(context_, options_.control, time_slot_, thread_slot_));
      });
      ++width_;
    }
    for (Visible& column : visible_) {
      if (column.derived != derived) continue;
      size_t offset = 0;
      if (derived == Derived::kLocation) {
        offset = std::find(kPlace.begin(), kPlace.end(), column.column.name) - kPlace.begin();
      }
      column.slot = base + offset;
      column.derived = Derived::kNone;
    }
  }

  const Context* context_;
  const RunOptions& options_;
  OperatorPtr root_;
  std::vector<Visible> visible_;
  size_t width_;
  size_t time_slot_, pc_slot_, thread_slot_;
  std::optional<size_t> inlined_slot_;
  NameScope scope_;
  std::vector<std::string> arguments_;  // names of fields of `args`
  absl::flat_hash_map<std::string, size_t> argument_slots_;
  std::shared_ptr<RowMoment> moment_;
};

std::vector<Column> ColumnsOf(const std::vector<BoundExpression>& bound) {
  std::vector<Column> columns;
  // A name must say which column it is: the second `size` is `size_2`.
  for (const BoundExpression& b : bound) {
    std::string name = b.column.name;
    const auto taken = [&](const Column& c) { return c.name == name; };
    for (int n = 2; std::any_of(columns.begin(), columns.end(), taken); ++n) {
      name = absl::StrCat(b.column.name, "_", n);
    }
    columns.push_back(b.column);
    columns.back().name = std::move(name);
  }
  return columns;
}

// Whether anything downstream looks at one of `names`; `whole_rows` when rows that no stage has
// narrowed are looked at in full.
bool Uses(const ast::Query& query, const std::set<std::string>& names, bool whole_rows) {
  bool used = false;
  const auto look = [&](const ast::ExprPtr& expr) {
    ForEachName(*expr, [&](const std::string& name) { used = used || names.contains(name); });
  };
  for (const ast::Stage& stage : query.stages) {
    if (const auto* where = std::get_if<ast::Where>(&stage.what)) look(where->condition);
    if (const auto* sort = std::get_if<ast::Sort>(&stage.what)) {
      for (const ast::SortKey& key : sort->keys) look(key.column);
    }
    if (const auto* select = std::get_if<ast::Select>(&stage.what)) {
      for (const ast::ExprPtr& expr : select->columns) look(expr);
      return used;
    }
    if (const auto* count = std::get_if<ast::Count>(&stage.what)) {
      for (const ast::ExprPtr& expr : count->by) look(expr);
      return used;
    }
    if (const auto* distinct = std::get_if<ast::Distinct>(&stage.what)) {
      if (distinct->columns.empty()) return true;
      for (const ast::ExprPtr& expr : distinct->columns) look(expr);
      return used;
    }
  }
  return used || whole_rows;
}

// Narrows a request by what a condition demands of time and thread. The condition itself is still
// tested on every row.
void Narrow(const ast::Expr& expr, SourceRequest* request) {
  const auto number = [](const ast::ExprPtr& e) { return std::get_if<ast::Number>(&e->node); };
  const auto is = [](const ast::ExprPtr& e, std::string_view name) {
    const auto* n = std::get_if<ast::Name>(&e->node);
    return n && n->name == name;
  };
  TimeSpan& span = request->span;
  const auto at_least = [&span](uint64_t t) { span.begin = std::max(span.begin, Time(t)); };
  const auto at_most = [&span](uint64_t t) {
    if (t != kTimeMax.v) span.end = std::min(span.end, Time(t + 1));
  };
  if (const auto* between = std::get_if<ast::Between>(&expr.node)) {
    if (!between->negated && is(between->operand, "time")) {
      if (const auto* low = number(between->low)) at_least(low->value);
      if (const auto* high = number(between->high)) at_most(high->value);
    }
    return;
  }
  const auto* binary = std::get_if<ast::Binary>(&expr.node);
  if (!binary) return;
  using Op = ast::BinaryOp;
  if (binary->op == Op::kAnd) {
    Narrow(*binary->left, request);
    Narrow(*binary->right, request);
    return;
  }
  const ast::Number* n = number(binary->right);
  if (!n) return;
  if (is(binary->left, "thread") && binary->op == Op::kEqual && n->value <= UINT32_MAX &&
      !request->thread) {
    request->thread = ThreadNo(static_cast<uint32_t>(n->value));
  }
  if (!is(binary->left, "time")) return;
  switch (binary->op) {
    case Op::kEqual:
      at_least(n->value), at_most(n->value);
      break;
    case Op::kLess:
      span.end = std::min(span.end, Time(n->value));
      break;
    case Op::kLessEqual:
      at_most(n->value);
      break;
    case Op::kGreater:
      at_least(n->value == kTimeMax.v ? n->value : n->value + 1);
      break;
    case Op::kGreaterEqual:
      at_least(n->value);
      break;
    default:
      break;
  }
}

std::string TextOf(const std::vector<ast::ExprPtr>& exprs) {
  return absl::StrJoin(exprs, ", ",
                       [](std::string* out, const ast::ExprPtr& e) { *out += ast::ToString(*e); });
}

class Planner {
 public:
  Planner(const Context& context, const RunOptions& options)
      : context_(context), options_(options) {}

  // With `time_only` the only column is the time of a row.
  absl::StatusOr<Plan> Make(const ast::Query& query, bool time_only, bool explain, int nesting) {
    if (nesting > kMaxNesting) {
      return ErrorAt(query.range, "queries are nested too deeply");
    }
    Plan plan;
    plan.outcome = std::make_shared<Outcome>();
    // What is asked twice is looked up once.
    absl::flat_hash_map<const ast::Query*, QueryTime> answers;
    const auto ask = [&](const ast::Query& nested) -> absl::StatusOr<QueryTime> {
      const auto known = answers.find(&nested);
      if (known != answers.end()) return known->second;
      absl::StatusOr<QueryTime> time = FirstTime(nested, nesting + 1, plan.outcome.get());
      if (time.ok()) answers.emplace(&nested, *time);
      return time;
    };
    ASSIGN_OR_RETURN(SourcePlan source, PlanSource(query, context_, options_, ask));
    for (const std::string& note : source.notes) plan.outcome->AddNote(note);
    const ProcessInfo& info = context_.process().info();
    if (!info.complete) {
      plan.outcome->MarkIncomplete(info.incomplete_reason.empty() ? "the recording is incomplete"
                                                                  : info.incomplete_reason);
    }
    plan.presentation = source.presentation;
    plan.explain_nothing = source.explain_nothing;

    // Conditions that come before any limit, then the limit.
    size_t conditions = 0;
    SourceRequest request;
    request.outcome = plan.outcome;
    request.options = &options_;
    while (conditions < query.stages.size()) {
      const auto* where = std::get_if<ast::Where>(&query.stages[conditions].what);
      if (!where) break;
      if (source.reversible) Narrow(*where->condition, &request);
      ++conditions;
    }
    const ast::Last* last = nullptr;
    if (source.take_one) {
      request.direction = *source.take_one;
    } else if (source.reversible && conditions < query.stages.size()) {
      last = std::get_if<ast::Last>(&query.stages[conditions].what);
      if (last) request.direction = Direction::kBackward;
    }
    std::set<std::string> costly = {"value", "previous", "repr",        "py_backtrace", "backtrace",
                                    "args",  "result",   "return_time", "ended",        "old",
                                    "new",   "changes",  "calls"};
    for (const std::string& field : source.fields_of_args) {
      const auto is_field = [&](const SourceColumn& c) { return c.column.name == field; };
      if (std::none_of(source.columns.begin(), source.columns.end(), is_field)) {
        costly.insert(field);
      }
    }
    request.want_values = Uses(query, costly, /*whole_rows=*/!time_only);
    request.want_python = Uses(query, {"python"}, /*whole_rows=*/!time_only);
    request.want_returns = Uses(query, {"result", "return_time"}, /*whole_rows=*/!time_only);

    OperatorPtr root;
    if (explain) {
      ASSIGN_OR_RETURN(std::string text, source.explain(request));
      plan.steps.push_back(std::move(text));
    } else {
      ASSIGN_OR_RETURN(root, source.open(request));
    }
    Pipeline pipeline(&context_, options_, source, std::move(root), plan.outcome);
    const auto first = [&](uint64_t count) {
      pipeline.Push([&](OperatorPtr in) { return MakeFirst(std::move(in), count); });
    };
    for (size_t i = 0; i <= query.stages.size(); ++i) {
      if (i == conditions) {
        if (source.take_one) {
          first(1);
          plan.steps.push_back("stop after the first row that passes");
        }
        if (last) {
          first(last->count);
          pipeline.Push([](OperatorPtr in) { return MakeReverse(std::move(in)); });
          plan.steps.push_back(fmt::format("stop after {} rows; turn them round", last->count));
          continue;
        }
      }
      if (i == query.stages.size()) break;
      const ast::Stage* next = i + 1 < query.stages.size() ? &query.stages[i + 1] : nullptr;
      RETURN_IF_ERROR(AddStage(query.stages[i], next, &pipeline, &plan));
    }
    if (time_only) {
      const auto time = pipeline.FindTime();
      if (!time) return ErrorAt(query.range, "the rows of this query have no time");
      // Another time of a row is not the one that it is of.
      const auto inlined = time->column.name == "time" ? pipeline.inlined_slot() : std::nullopt;
      pipeline.Push([&](OperatorPtr in) {
        return MakeProject(
            std::move(in),
            {{[slot = time->slot](const Row& row) { return row[slot]; }, time->column},
             {[inlined](const Row& row) { return inlined ? row[*inlined] : Value(); },
              {"inlined", Type::kInteger}}});
      });
      pipeline.Replace({{"time", Type::kTime}, {"inlined", Type::kInteger}});
    }
    pipeline.Finish();
    plan.columns = pipeline.columns();
    if (!explain) plan.root = pipeline.Take();
    return plan;
  }

 private:
  absl::StatusOr<QueryTime> FirstTime(const ast::Query& query, int nesting, Outcome* outer) {
    ASSIGN_OR_RETURN(Plan plan, Make(query, /*time_only=*/true, /*explain=*/false, nesting));
    Row row;
    ASSIGN_OR_RETURN(bool found, plan.root->Next(&row));
    if (plan.outcome->interrupted) return absl::CancelledError("interrupted");
    outer->complete = outer->complete && plan.outcome->complete;
    outer->AddNote(plan.outcome->note);
    if (!found) {
      std::string why;
      if (plan.outcome->source_rows > 0) {
        why = absl::StrCat(": ", kNoRowPasses);
      } else if (!plan.presentation.no_rows.empty()) {
        why = ": " + plan.presentation.no_rows;
      }
      return absl::NotFoundError("this query has no rows, so it gives no time" + why);
    }
    const Time* time = row[0].get<Time>();
    if (!time) return absl::NotFoundError("the first row of this query has no time");
    QueryTime first = {*time, std::nullopt};
    if (const int64_t* n = row[1].get<int64_t>()) first.inlined = static_cast<uint32_t>(*n);
    return first;
  }

  absl::Status AddStage(const ast::Stage& stage, const ast::Stage* next, Pipeline* pipeline,
                        Plan* plan) {
    if (const auto* where = std::get_if<ast::Where>(&stage.what)) {
      ASSIGN_OR_RETURN(BoundExpression condition,
                       BindCondition(*where->condition, *pipeline, &context_));
      pipeline->Push(
          [&](OperatorPtr in) { return MakeFilter(std::move(in), std::move(condition)); });
      plan->steps.push_back("where " + ast::ToString(*where->condition));
      return absl::OkStatus();
    }
    if (const auto* select = std::get_if<ast::Select>(&stage.what)) {
      ASSIGN_OR_RETURN(std::vector<BoundExpression> bound, pipeline->BindAll(select->columns));
      plan->steps.push_back("select " + TextOf(select->columns));
      plan->presentation.table_columns.clear();
      plan->presentation.layout = plan->presentation.layout == Presentation::Layout::kRecord
                                      ? Presentation::Layout::kRecord
                                      : Presentation::Layout::kRows;
      const std::vector<Column> columns = ColumnsOf(bound);
      pipeline->Project(std::move(bound), columns);
      return absl::OkStatus();
    }
    if (const auto* sort = std::get_if<ast::Sort>(&stage.what)) {
      std::vector<BoundSortKey> keys;
      std::string text;
      for (const ast::SortKey& key : sort->keys) {
        ASSIGN_OR_RETURN(BoundExpression bound, Bind(*key.column, *pipeline, &context_));
        absl::StrAppend(&text, text.empty() ? "" : ", ", bound.column.name,
                        key.descending ? " desc" : "");
        keys.push_back({std::move(bound), key.descending});
      }
      std::optional<uint64_t> limit;
      if (next) {
        if (const auto* first = std::get_if<ast::First>(&next->what)) limit = first->count;
      }
      pipeline->Push(
          [&](OperatorPtr in) { return MakeSort(std::move(in), std::move(keys), limit); });
      plan->steps.push_back(absl::StrCat(
          "sort by ", text, limit ? absl::StrCat(", keeping the first ", *limit) : ""));
      return absl::OkStatus();
    }
    if (const auto* first = std::get_if<ast::First>(&stage.what)) {
      pipeline->Push([&](OperatorPtr in) { return MakeFirst(std::move(in), first->count); });
      plan->steps.push_back(absl::StrCat("stop after ", first->count, " rows"));
      return absl::OkStatus();
    }
    if (const auto* last = std::get_if<ast::Last>(&stage.what)) {
      pipeline->Push([&](OperatorPtr in) { return MakeLast(std::move(in), last->count); });
      plan->steps.push_back(absl::StrCat("keep the last ", last->count, " rows"));
      return absl::OkStatus();
    }
    if (const auto* count = std::get_if<ast::Count>(&stage.what)) {
      ASSIGN_OR_RETURN(std::vector<BoundExpression> by, pipeline->BindAll(count->by));
      std::vector<Column> columns = ColumnsOf(by);
      columns.push_back({"count", Type::kInteger});
      pipeline->Push([&](OperatorPtr in) { return MakeCount(std::move(in), std::move(by)); });
      pipeline->Replace(columns);
      plan->steps.push_back(count->by.empty() ? "count" : "count by " + TextOf(count->by));
      plan->presentation.table_columns.clear();
      plan->presentation.layout = Presentation::Layout::kRows;
      return absl::OkStatus();
    }
    if (const auto* distinct = std::get_if<ast::Distinct>(&stage.what)) {
      plan->steps.push_back(absl::StrCat(
          "distinct ", distinct->columns.empty() ? "rows" : TextOf(distinct->columns)));
      if (distinct->columns.empty()) {
        pipeline->Finish();
      } else {
        ASSIGN_OR_RETURN(std::vector<BoundExpression> bound, pipeline->BindAll(distinct->columns));
        plan->presentation.table_columns.clear();
        plan->presentation.layout = Presentation::Layout::kRows;
        const std::vector<Column> columns = ColumnsOf(bound);
        pipeline->Push(
            [&](OperatorPtr in) { return MakeProject(std::move(in), std::move(bound)); });
        pipeline->Replace(columns);
      }
      pipeline->Push([](OperatorPtr in) { return MakeDistinct(std::move(in)); });
      return absl::OkStatus();
    }
    if (const auto* with = std::get_if<ast::WithBacktrace>(&stage.what)) {
      return AddBacktrace(stage.range, with->mixed, pipeline, plan);
    }
    return AddPyBacktrace(stage.range, pipeline, plan);
  }

  // The slots of time and thread of the rows so far, for a stage that needs the moment.
  struct When {
    size_t time;
    std::optional<size_t> thread;
  };
  absl::StatusOr<When> FindWhen(ast::Range range, std::string_view column, Pipeline* pipeline) {
    const auto time = pipeline->Find("time"), thread = pipeline->Find("thread");
    if (!time || time->column.type != Type::kTime) {
      return ErrorAt(range, "these rows have no time, so there is no stack to them",
                     "put this stage before the one that leaves `time` out");
    }
    if (pipeline->Find(column)) return ErrorAt(range, "these rows have their stacks already");
    return When{time->slot, thread ? std::optional(thread->slot) : std::nullopt};
  }

  void Append(const Column& column, Pipeline* pipeline, Plan* plan) {
    pipeline->Append(column);
    if (!plan->presentation.table_columns.empty()) {
      plan->presentation.table_columns.push_back(column.name);
    }
  }

  absl::Status AddPyBacktrace(ast::Range range, Pipeline* pipeline, Plan* plan) {
    ASSIGN_OR_RETURN(When when, FindWhen(range, "py_backtrace", pipeline));
    pipeline->Push([&](OperatorPtr in) {
      return MakeExtend(std::move(in),
                        MakePyBacktrace(&context_, when.time, when.thread, plan->outcome));
    });
    Append({"py_backtrace", Type::kList}, pipeline, plan);
    plan->steps.push_back("the Python stack at each row's time, from the memory of that time");
    return absl::OkStatus();
  }

  absl::Status AddBacktrace(ast::Range range, bool mixed, Pipeline* pipeline, Plan* plan) {
    ASSIGN_OR_RETURN(When when, FindWhen(range, "backtrace", pipeline));
    const auto make = mixed ? MakeMixedBacktrace : MakeBacktrace;
    pipeline->Push([&](OperatorPtr in) {
      return MakeExtend(std::move(in), make(context_, pipeline->moment(), when.time, when.thread,
                                            pipeline->inlined_slot(), plan->outcome));
    });
    Append({"backtrace", Type::kList}, pipeline, plan);
    plan->steps.push_back(mixed ? "the native and Python stack of each row's thread at its time"
                                : "the stack of each row's thread at its time");
    return absl::OkStatus();
  }

  const Context& context_;
  const RunOptions& options_;
};

}  // namespace

absl::StatusOr<Plan> MakePlan(const ast::Query& query, const Context& context,
                              const RunOptions& options, bool explain) {
  return Planner(context, options).Make(query, /*time_only=*/false, explain, 0);
}

}  // namespace ttq
