// SPDX-License-Identifier: MIT
//
// `calls to F`: executions of the function's first instruction, each with its return, and of the
// first instruction of each copy that was inlined elsewhere.

#include <algorithm>
#include <array>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/ctypes/frame.h"
#include "query/ctypes/frame_state.h"
#include "query/ctypes/name_scope.h"
#include "query/ctypes/render.h"
#include "query/outcome.h"
#include "query/process/row_moment.h"
#include "query/process/stack.h"
#include "query/rows/frame_values.h"
#include "query/rows/run_options.h"
#include "query/sources/builder.h"
#include "query/sources/plans.h"
#include "query/sources/resolve.h"

namespace ttq {
namespace {

// Functions whose return types are looked at before a query runs, and the size of a result that a
// column of values shows.
constexpr size_t kMaxTyped = 64;
constexpr const char* kArgumentNames[] = {"arg0", "arg1", "arg2", "arg3", "arg4", "arg5"};
constexpr uint64_t kMaxBytes = 4096;

// Slots of the rows as CallSource gives them.
enum Slot : size_t {
  kTime,
  kThread,
  kPc,
  kFunction,
  kModule,
  kFile,
  kLine,
  kAddress,
  kReturned,  // rax after the return
  kReturnTime,
  kCaller,
  kKind,
  kReturnAddress,
  kInlined,    // which of the functions inlined there
  kArguments,  // six of them
  kWidth = kArguments + 6,
};

struct CallRequest {
  CallQuery calls;
  std::vector<InlinedCopy> inlined;  // sorted
};

std::vector<AddressRange> FirstInstructions(const std::vector<InlinedCopy>& copies) {
  std::vector<AddressRange> ranges;
  for (const InlinedCopy& copy : copies) {
    if (ranges.empty() || ranges.back().begin != copy.entry) {
      ranges.push_back({copy.entry, copy.entry + 1});
    }
  }
  return ranges;
}

class CallSource : public Operator {
 public:
  CallSource(const Context& context, CallRequest request, std::shared_ptr<Outcome> outcome,
             ScanControl* control)
      : context_(context),
        request_(std::move(request)),
        outcome_(std::move(outcome)),
        control_(control) {}

  absl::StatusOr<bool> Next(Row* row) override {
    absl::StatusOr<bool> more = TryNext(row);
    if (absl::Status s = NotInterrupted(control_); !s.ok()) more = s;
    return TellOutcome(std::move(more), outcome_.get());
  }

 private:
  absl::Status Open() {
    opened_ = true;
    const CallQuery& q = request_.calls;
    if (!q.entries.empty()) {
      ASSIGN_OR_RETURN(calls_, context_.process().Calls(q, control_));
    }
    if (!request_.inlined.empty()) {
      ASSIGN_OR_RETURN(inlined_,
                       context_.process().Executions(FirstInstructions(request_.inlined), q.span,
                                                     q.direction, q.thread, control_));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<bool> TryNext(Row* row) {
    if (!opened_) {
      RETURN_IF_ERROR(Open());
    }
    if (calls_ && !call_) {
      ASSIGN_OR_RETURN(call_, calls_->Next());
      if (!call_) calls_.reset();
    }
    if (inlined_ && !copy_) {
      ASSIGN_OR_RETURN(copy_, inlined_->Next());
      nested_ = 0;
      if (!copy_) inlined_.reset();
    }
    if (!call_ && !copy_) return false;
    const bool backward = request_.calls.direction == Direction::kBackward;
    // A function may begin with one that is inlined: it is called first.
    const bool take_call =
        call_ && (!copy_ || (backward ? call_->time > copy_->time : call_->time <= copy_->time));
    if (take_call) {
      RETURN_IF_ERROR(Fill(*call_, row));
      call_.reset();
      return true;
    }
    ASSIGN_OR_RETURN(const std::vector<LocationColumns>* copies, CopiesAt(copy_->time, copy_->pc));
    Fill(*copy_, (*copies)[backward ? copies->size() - 1 - nested_ : nested_], row);
    if (++nested_ == copies->size()) copy_.reset();
    return true;
  }

  struct LocationColumns {
    Value function, module, file, line, caller, inlined;
  };

  // Of one of the location's frames.
  static LocationColumns ColumnsOf(const CodeLocation& location, size_t n) {
    LocationColumns place;
    place.module = OfText(location.module);
    if (n >= location.frames.size()) return place;
    place.inlined = static_cast<int64_t>(n);
    const InlineFrame& frame = location.frames[n];
    place.function = OfText(frame.function);
    place.file = OfText(frame.file);
    if (frame.line > 0) place.line = int64_t{frame.line};
    if (n + 1 < location.frames.size()) place.caller = OfText(location.frames[n + 1].function);
    return place;
  }

  // Of a function's first instruction.
  absl::StatusOr<const LocationColumns*> PlaceOf(Time t, Address pc) {
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(t));
    auto [it, is_new] = places_.try_emplace(std::pair(symbols, pc.v));
    if (is_new) {
      const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(pc);
      const size_t outermost = location->frames.empty() ? 0 : location->frames.size() - 1;
      it->second = std::make_unique<LocationColumns>(ColumnsOf(*location, outermost));
    }
    return it->second.get();
  }

  // Those of the functions asked for that are inlined and begin at `pc`, outermost first; not
  // empty.
  absl::StatusOr<const std::vector<LocationColumns>*> CopiesAt(Time t, Address pc) {
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(t));
    auto [it, is_new] = copies_.try_emplace(std::pair(symbols, pc.v));
    if (is_new) {
      const std::shared_ptr<const CodeLocation> location = symbols->Symbolize(pc);
      it->second = std::make_unique<std::vector<LocationColumns>>();
      for (size_t n = location->frames.size(); n-- > 0;) {
        const InlinedCopy copy{pc, location->frames[n].function};
        if (n + 1 == location->frames.size() ||
            !std::binary_search(request_.inlined.begin(), request_.inlined.end(), copy)) {
          continue;
        }
        it->second->push_back(ColumnsOf(*location, n));
      }
      if (it->second->empty()) it->second->push_back(ColumnsOf(*location, 0));
    }
    return it->second.get();
  }

  // The function that holds the call before a return address.
  absl::StatusOr<Value> CallerAt(Time t, Address return_address) {
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(t));
    auto [it, is_new] = callers_.try_emplace(std::pair(symbols, return_address.v));
    if (is_new) it->second = OfText(symbols->Symbolize(return_address - 1)->function);
    return it->second;
  }

  static void FillPlace(const LocationColumns& place, Row* row) {
    (*row)[kFunction] = place.function;
    (*row)[kModule] = place.module;
    (*row)[kFile] = place.file;
    (*row)[kLine] = place.line;
    (*row)[kInlined] = place.inlined;
  }

  absl::Status Fill(const Call& call, Row* row) {
    ASSIGN_OR_RETURN(const LocationColumns* place, PlaceOf(call.time, call.entry));
    row->assign(kWidth, Value());
    (*row)[kTime] = call.time;
    (*row)[kThread] = OfThread(call.thread);
    (*row)[kPc] = (*row)[kAddress] = call.entry;
    FillPlace(*place, row);
    if (call.return_time != kTimeMax) {
      (*row)[kReturned] = Word{call.result};
      (*row)[kReturnTime] = call.return_time;
    }
    if (call.return_address) {
      ASSIGN_OR_RETURN(Value caller, CallerAt(call.time, *call.return_address));
      (*row)[kCaller] = std::move(caller);
      (*row)[kReturnAddress] = *call.return_address;
    }
    (*row)[kKind] = "call";
    for (int i = 0; i < 6; ++i) {
      (*row)[kArguments + i] = Word{call.registers.gpr[ArgumentRegister(i)]};
    }
    return absl::OkStatus();
  }

  static void Fill(const Execution& copy, const LocationColumns& place, Row* row) {
    row->assign(kWidth, Value());
    (*row)[kTime] = copy.time;
    (*row)[kThread] = OfThread(copy.thread);
    (*row)[kPc] = (*row)[kAddress] = copy.pc;
    FillPlace(place, row);
    (*row)[kCaller] = place.caller;
    (*row)[kKind] = "inlined";
    (*row)[kReturned] = (*row)[kReturnTime] = Unknown{};
  }

  using Key = std::pair<const Symbolizer*, uint64_t>;
  const Context& context_;
  CallRequest request_;
  std::shared_ptr<Outcome> outcome_;
  ScanControl* control_;
  bool opened_ = false;
  std::unique_ptr<Cursor<Call>> calls_;
  std::unique_ptr<Cursor<Execution>> inlined_;
  std::optional<Call> call_;
  std::optional<Execution> copy_;
  size_t nested_ = 0;  // of the copies that begin there, those given
  absl::flat_hash_map<Key, std::unique_ptr<LocationColumns>> places_;
  absl::flat_hash_map<Key, std::unique_ptr<std::vector<LocationColumns>>> copies_;
  absl::flat_hash_map<Key, Value> callers_;
};

// What the column of a value of this type is; of a reference, that of what it refers to.
Column ColumnOf(std::string name, const TypeSpace& types, const CType* type, int depth = 0) {
  constexpr int kMaxDepth = 3;
  Column column = {std::move(name), Type::kObject, /*any=*/false, {}};
  while (type->Strip()->IsReference()) type = type->Strip()->target();
  type = types.Complete(type);
  switch (type->kind) {
    case CType::Kind::kPointer:
      column.type = Type::kAddress;
      return column;
    case CType::Kind::kEnum:  // its name, or a number that has none
      column.type = Type::kString;
      column.any = true;
      return column;
    case CType::Kind::kStruct:
    case CType::Kind::kUnion:
      // Shown by what it holds: a text, a list, an object.
      column.any = type->name.starts_with("std::");
      if (column.any) return column;
      for (const CMember& member : type->members) {
        if (depth == kMaxDepth || member.is_static || member.name.empty()) continue;
        column.fields.push_back(ColumnOf(member.name, types, type->At(member.type), depth + 1));
      }
      return column;
    case CType::Kind::kFloat:
      column.type = Type::kReal;
      return column;
    default:
      break;
  }
  // Above the greatest signed number a column of integers has no place for it.
  const uint64_t size = types.SizeOf(type).value_or(8);
  const bool fits = type->is_signed || size < 8;
  if (type->IsIntegral() && size <= 8) {
    column.type = fits ? Type::kInteger : Type::kValue;
  } else {
    column.any = true;
  }
  return column;
}

// The fields of the column `args`: of what type each is in all the functions that have it. Also
// fills in which arguments all of the scope's functions have. No fields: they are too many.
absl::StatusOr<std::vector<Column>> FieldsOfArguments(const Context& context, NameScope* scope) {
  std::vector<Column> fields;
  if (scope->entries.size() + scope->inlined.size() > kMaxTyped) return fields;
  std::map<std::string, size_t> functions_with;
  size_t functions = 0;
  const auto add = [&fields](Column column) {
    const auto same = std::find_if(fields.begin(), fields.end(),
                                   [&](const Column& c) { return c.name == column.name; });
    if (same == fields.end()) {
      fields.push_back(std::move(column));
    } else if (*same != column) {
      *same = {column.name, Type::kObject, /*any=*/true, {}};
    }
  };
  ASSIGN_OR_RETURN(const TypeSpace* types, context.TypesAt(context.process().info().end));
  absl::Status s = NamesInScope(context, *scope).ForEachEntry([&](FrameState& frame) {
    const std::vector<Die> parameters = frame.Parameters();
    ++functions;
    if (parameters.empty()) {
      for (const char* const name : kArgumentNames) add({name, Type::kValue});
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string name(DebugFile::NameOf(parameters[i]));
      if (!name.empty()) ++functions_with[name];
      const CType* type = frame.placed()->file->TypeAt(DebugFile::TypeOf(parameters[i]));
      add(ColumnOf(ArgumentName(name, i), *types, type));
    }
    return false;
  });
  if (!s.ok()) return s;
  for (const auto& [name, count] : functions_with) {
    if (count == functions) scope->arguments.push_back(name);
  }
  return fields;
}

// The column `result`. Each function's result is read by its own return type; the column has that
// type's kind when the functions agree in it, and is one of anything, row by row, when they do not.
// Belongs to one thread.
class Results {
 public:
  explicit Results(const Context& context) : context_(context), returns_(context) {}

  // REQUIRES: called once, before At.
  absl::Status Settle(const std::vector<Address>& entries) {
    column_ = {"result", Type::kObject, /*any=*/true, {}};
    if (entries.size() > kMaxTyped) return absl::OkStatus();
    std::optional<Column> common;
    for (const Address entry : entries) {
      ASSIGN_OR_RETURN(const FunctionResult* function,
                       ResultOf(context_.process().info().end, entry));
      if (common.value_or(function->column) != function->column) return absl::OkStatus();
      common = function->column;
    }
    column_ = common.value_or(Column{"result", Type::kValue});
    return absl::OkStatus();
  }

  const Column& column() const { return column_; }

  absl::StatusOr<Value> At(RowMoment& moment, const Row& row) {
    const Word* rax = row[kReturned].get<Word>();
    if (!rax) return row[kReturned];
    ASSIGN_OR_RETURN(const FunctionResult* found,
                     ResultOf(*row[kTime].get<Time>(), *row[kAddress].get<Address>()));
    if (!found->convention) {
      moment.AddNote("results are by the ABI: rax, where no debug information has the type");
      return Value(*rax);
    }
    const ReturnConvention& result = *found->convention;
    Registers registers;
    Moment* then = nullptr;
    if (result.in_rax) {
      registers.gpr[kRax] = rax->v;
    } else if (result.type->Strip()->kind != CType::Kind::kVoid) {
      ASSIGN_OR_RETURN(then, returns_.At(*row[kReturnTime].get<Time>()));
      ASSIGN_OR_RETURN(
          registers,
          then->RegistersOf(ThreadNo(static_cast<uint32_t>(*row[kThread].get<int64_t>()))));
    }
    ASSIGN_OR_RETURN(CValue value, ResultAtReturn(result, registers));
    if (!value.missing.empty()) {
      if (then) moment.AddNote(absl::StrCat("a result is not known: ", value.missing));
      return Value(Unknown{});
    }
    const CType* type = result.type->Strip();
    if (type->IsReference()) return Value(Address(registers.gpr[kRax]));
    if (found->column.type != Type::kValue) {
      return Renderer(*result.types, then).Structured(value);
    }
    // As in `args`; a column of integers would have no place for the greatest.
    const bool is_unsigned = type->kind == CType::Kind::kInteger && !type->is_signed;
    if (is_unsigned || type->is_vector) {
      return Renderer(*result.types, then).Structured(value);
    }
    if (result.types->SizeOf(result.type).value_or(kMaxBytes + 1) > kMaxBytes) {
      return Value(Null{});
    }
    ASSIGN_OR_RETURN(LoadedValue loaded, ValueReader(*result.types, then).Load(value));
    return loaded.complete() ? ValueOfBytes(loaded.bytes) : Value(Null{});
  }

 private:
  // Of a function: how it returns (nothing: no debug information says so), and what column is its
  // result's.
  struct FunctionResult {
    std::optional<ReturnConvention> convention;
    Column column = {"result", Type::kValue};
  };

  static Column ColumnOfResult(const ReturnConvention& result) {
    if (result.type->IsReference()) return {"result", Type::kAddress};
    Column column = ColumnOf("result", *result.types, result.type);
    // What has no value to speak of: void, for one.
    const CType* type = result.type->Strip();
    const bool has_value = !column.any || column.type != Type::kObject || type->IsIntegral() ||
                           type->kind == CType::Kind::kStruct;
    return has_value ? column : Column{"result", Type::kValue};
  }

  absl::StatusOr<const FunctionResult*> ResultOf(Time t, Address entry) {
    ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(t));
    auto [it, is_new] = functions_.try_emplace(std::pair(symbols, entry.v));
    if (is_new) {
      auto function = std::make_unique<FunctionResult>();
      ASSIGN_OR_RETURN(function->convention, ReturnConventionOf(context_, t, entry));
      if (function->convention) function->column = ColumnOfResult(*function->convention);
      it->second = std::move(function);
    }
    return it->second.get();
  }

  const Context& context_;
  // Calls end in another order than they begin, so returns have a moment of their own.
  RowMoment returns_;
  absl::flat_hash_map<std::pair<const Symbolizer*, uint64_t>, std::unique_ptr<FunctionResult>>
      functions_;
  Column column_;
};

// The function that called, or that jumped there.
absl::StatusOr<Value> CallerOfCall(RowMoment& moment, const Row& row) {
  const Address* return_address = row[kReturnAddress].get<Address>();
  const int64_t* thread = row[kThread].get<int64_t>();
  if (!return_address || !thread) return row[kCaller];
  ASSIGN_OR_RETURN(Moment * then, moment.At(*row[kTime].get<Time>()));
  ASSIGN_OR_RETURN(std::optional<std::string> jumped,
                   moment.unwinder().JumpedFrom(*then, ThreadNo(static_cast<uint32_t>(*thread)),
                                                *row[kAddress].get<Address>(), *return_address));
  return jumped ? OfText(*jumped) : row[kCaller];
}

absl::StatusOr<Value> DepthOfCall(RowMoment& moment, const Row& row) {
  const Time* time = row[kTime].get<Time>();
  const int64_t* thread = row[kThread].get<int64_t>();
  if (!time || !thread) return Value(Null{});
  ASSIGN_OR_RETURN(Moment * then, moment.At(*time));
  const std::string* function = row[kFunction].get<std::string>();
  ASSIGN_OR_RETURN(int64_t depth,
                   moment.unwinder().DepthOf(*then, ThreadNo(static_cast<uint32_t>(*thread)),
                                             function ? *function : std::string()));
  return Value(depth);
}

// Of an inlined copy, where its debug information has them.
absl::StatusOr<Value> ArgumentsOfCopy(const Context& context, RowMoment& moment, const Row& row) {
  const int64_t* inlined = row[kInlined].get<int64_t>();
  if (!inlined) return Value(Null{});
  ASSIGN_OR_RETURN(Moment * then, moment.At(*row[kTime].get<Time>()));
  const ThreadNo thread(static_cast<uint32_t>(*row[kThread].get<int64_t>()));
  StackOptions options;
  options.max_frames = 1;
  options.inlined = static_cast<uint32_t>(*inlined);
  absl::StatusOr<Stack> stack = moment.unwinder().StackOf(*then, thread, options);
  if (absl::IsNotFound(stack.status())) return Value(Null{});
  if (!stack.ok()) return stack.status();
  if (stack->frames.empty()) return Value(Null{});
  return FrameArguments(context, *then, thread, stack->frames.front());
}

absl::StatusOr<Value> ArgumentsOfCall(const Context& context, RowMoment& moment, const Row& row) {
  if (row[kArguments].is_null()) return ArgumentsOfCopy(context, moment, row);
  ASSIGN_OR_RETURN(Moment * then, moment.At(*row[kTime].get<Time>()));
  FrameView view;
  view.thread = ThreadNo(static_cast<uint32_t>(*row[kThread].get<int64_t>()));
  ASSIGN_OR_RETURN(Registers registers, then->RegistersOf(view.thread));
  view.registers = registers;
  view.pc = registers.pc;
  view.cfa = Address(registers.gpr[kRsp] + 8);
  view.entered = *row[kTime].get<Time>();
  view.present_only = true;
  if (const int64_t* inlined = row[kInlined].get<int64_t>()) {
    view.inlined = static_cast<size_t>(*inlined);
  }
  ASSIGN_OR_RETURN(std::vector<Argument> arguments, ArgumentsOf(context, view, then));
  if (!arguments.empty()) return ArgumentsObject(arguments);
  moment.AddNote("arguments are by the ABI: the six registers for integers and pointers");
  uint64_t gpr[kGprCount] = {};
  for (int i = 0; i < 6; ++i) gpr[ArgumentRegister(i)] = row[kArguments + i].get<Word>()->v;
  return ArgumentsByAbi(gpr);
}

}  // namespace

absl::StatusOr<SourcePlan> Plan(const ast::Calls& source, const ast::Query& query,
                                const Context& context, const RunOptions&, const TimeOfQuery& ask) {
  const Process& process = context.process();
  absl::StatusOr<ResolvedCode> code = ResolveFunction(context, source.function);
  if (!code.ok()) return code.status();
  ASSIGN_OR_RETURN(TimeSpan span, ResolveSpan(context, query.clauses.span, ask));
  ASSIGN_OR_RETURN(std::optional<ThreadNo> thread, ResolveThread(context, query.clauses.thread));
  CallRequest base;
  base.calls.span = span;
  base.calls.thread = thread;
  const Address none(~uint64_t{0});
  for (const Address entry : code->functions) {
    if (entry != none) base.calls.entries.push_back(entry);
  }
  base.inlined = code->inlined;
  std::erase_if(base.inlined, [&](const InlinedCopy& copy) { return copy.entry == none; });
  SourcePlan plan;
  std::string filters;
  if (query.clauses.by && !query.clauses.by->python) {
    ASSIGN_OR_RETURN(
        ResolvedCode callers,
        ResolveFunction(context, std::get<ast::FunctionPattern>(query.clauses.by->what)));
    base.calls.callers = callers.ranges;
    // An inlined copy is called by the function it lies in.
    std::erase_if(base.inlined, [&](const InlinedCopy& copy) {
      return std::none_of(callers.ranges.begin(), callers.ranges.end(),
                          [&](const AddressRange& r) { return r.Contains(copy.entry); });
    });
    if (!callers.note.empty()) plan.notes.push_back(callers.note);
    absl::StrAppend(&filters, " by ", callers.text);
  }
  if (thread) absl::StrAppend(&filters, " in thread ", thread->v);

  plan.width = kWidth;
  plan.time_slot = kTime;
  plan.thread_slot = kThread;
  plan.pc_slot = kPc;
  const auto add = [&plan](const char* name, Type type, size_t slot, bool hidden = false) {
    plan.columns.push_back({{name, type}, slot, Derived::kNone, nullptr, hidden});
  };
  add("time", Type::kTime, kTime);
  add("thread", Type::kInteger, kThread);
  add("pc", Type::kAddress, kPc);
  add("function", Type::kString, kFunction);
  add("module", Type::kString, kModule);
  add("file", Type::kString, kFile);
  add("line", Type::kInteger, kLine);
  plan.columns.push_back({{"python", Type::kObject}, 0, Derived::kPython});
  add("address", Type::kAddress, kAddress);
  plan.scope.code = NameScope::Code::kEntries;
  plan.scope.entries = base.calls.entries;
  plan.scope.inlined = base.inlined;
  plan.inlined_slot = kInlined;
  ASSIGN_OR_RETURN(std::vector<Column> fields, FieldsOfArguments(context, &plan.scope));
  plan.columns.push_back({{"args", Type::kObject, /*any=*/false, std::move(fields)},
                          0,
                          Derived::kComputed,
                          [&context](RowMoment& moment, const Row& row) {
                            return ArgumentsOfCall(context, moment, row);
                          }});
  auto results = std::make_shared<Results>(context);
  RETURN_IF_ERROR(results->Settle(base.calls.entries));
  plan.columns.push_back(
      {results->column(), 0, Derived::kComputed,
       [results](RowMoment& moment, const Row& row) { return results->At(moment, row); }});
  add("return_time", Type::kTime, kReturnTime);
  plan.columns.push_back({{"depth", Type::kInteger}, 0, Derived::kComputed, DepthOfCall});
  plan.columns.push_back({{"caller", Type::kString}, 0, Derived::kComputed, CallerOfCall});
  add("kind", Type::kString, kKind);
  add("return_address", Type::kAddress, kReturnAddress, /*hidden=*/true);
  for (size_t i = 0; i < std::size(kArgumentNames); ++i) {
    add(kArgumentNames[i], Type::kValue, kArguments + i, /*hidden=*/true);
  }
  plan.presentation.table_columns = {"time",   "thread",      "function", "args",
                                     "result", "return_time", "depth",    "caller"};
  plan.presentation.no_rows =
      fmt::format("{} was not called{}{} ({})", code->text, SpanText(span), filters,
                  process.info().complete ? "proved from the index" : "in what was recorded");
  plan.reversible = true;
  if (!code->note.empty()) plan.notes.push_back(code->note);
  NotePastEnd(span, process.info(), &plan);
  const auto refine = [base](const SourceRequest& request) {
    CallRequest refined = base;
    refined.calls.span = Intersect(base.calls.span, request.span);
    if (!refined.calls.thread) refined.calls.thread = request.thread;
    refined.calls.direction = request.direction;
    refined.calls.want_returns = request.want_returns;
    return refined;
  };
  plan.open = [refine, &context](const SourceRequest& request) -> absl::StatusOr<OperatorPtr> {
    CallRequest refined = refine(request);
    if (refined.calls.span.empty()) return NoRows(request);
    return OperatorPtr(std::make_unique<CallSource>(context, std::move(refined), request.outcome,
                                                    request.options->control));
  };
  plan.explain = [refine, &process, text = code->text,
                  filters](const SourceRequest& request) -> absl::StatusOr<std::string> {
    const CallRequest refined = refine(request);
    if (refined.calls.span.empty()) return std::string("no time to look at: no rows");
    std::vector<AddressRange> code = FirstInstructions(refined.inlined);
    for (const Address entry : refined.calls.entries) code.push_back({entry, entry + 1});
    ASSIGN_OR_RETURN(ScanPlan scan, process.ExplainExecutions(code, refined.calls.span));
    return ScanText(
        fmt::format(
            "calls to {}{}{}, {}{}", text, SpanText(refined.calls.span), filters,
            refined.calls.direction == Direction::kForward ? "first to last" : "last to first",
            refined.calls.want_returns ? "" : ", without returns"),
        scan);
  };
  return plan;
}

}  // namespace ttq
