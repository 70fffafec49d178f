// SPDX-License-Identifier: MIT
//
// Binding expressions to rows; see expression.h.

#include "query/engine/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/ctypes/evaluator.h"
#include "query/ctypes/expression_at.h"
#include "query/ctypes/frame_state.h"
#include "query/ctypes/name_scope.h"
#include "query/ctypes/render.h"
#include "query/engine/arithmetic.h"
#include "query/engine/functions.h"
#include "query/engine/glob.h"
#include "query/language/ast_walk.h"
#include "query/language/diagnostic.h"
#include "query/process/row_moment.h"
#include "query/process/stack.h"
#include "re2/re2.h"

namespace ttq {
namespace {

using Evaluate = std::function<absl::StatusOr<Value>(const Row&)>;

// What can be done with a value.
enum class Form {
  kNumber,
  kText,
  kCell,  // Type::kValue: a number when it has at most 8 bytes
  kAny,   // numbers or text, row by row
  kOther,
  kNull,
};

struct Bound {
  Evaluate value;
  Type type = Type::kInteger;
  Form kind = Form::kNumber;
};

Form KindOf(Type type) {
  switch (type) {
    case Type::kTime:
    case Type::kAddress:
    case Type::kInteger:
    case Type::kReal:
      return Form::kNumber;
    case Type::kString:
      return Form::kText;
    case Type::kValue:
      return Form::kCell;
    default:
      return Form::kOther;
  }
}

const char* KindName(Form kind) {
  switch (kind) {
    case Form::kNumber:
      return "a number";
    case Form::kText:
      return "text";
    case Form::kCell:
      return "a number";
    case Form::kAny:
      return "a number or text";
    case Form::kOther:
      return "neither a number nor text";
    case Form::kNull:
      return "null";
  }
  return "";
}

Value Truth(bool b) { return int64_t{b}; }

constexpr char kIsUnknown[] = " is at some rows is not known";

// What is computed with: of anything, row by row, where the column is.
Type OperandType(const Bound& bound) {
  return bound.kind == Form::kAny ? Type::kObject : bound.type;
}

// Of what a computation with numbers of the two types gives.
Type Common(Type a, Type b) {
  if (a == Type::kObject || b == Type::kObject) return Type::kObject;  // not known
  return a == Type::kReal || b == Type::kReal ? Type::kReal : Type::kInteger;
}

class Binder {
 public:
  // `condition`: an argument's name means the argument, whatever column has it.
  Binder(Columns& columns, const Context* context, bool condition)
      : columns_(columns), context_(context), condition_(condition), unknown_matters_(condition) {
    if (context != nullptr) names_.emplace(*context, columns.scope());
  }

  absl::StatusOr<Bound> Bind(const ast::Expr& expr) {
    if (++depth_ > 500) return ErrorAt(expr.range, "this expression is nested too deeply");
    absl::StatusOr<Bound> bound =
        std::visit([&](const auto& node) { return On(expr, node); }, expr.node);
    --depth_;
    return bound;
  }

  absl::StatusOr<Bound> Condition(const ast::Expr& expr) {
    absl::StatusOr<Bound> bound = Bind(expr);
    if (bound.ok() && (bound->kind == Form::kText || bound->kind == Form::kOther)) {
      return ErrorAt(
          expr.range,
          absl::StrCat("a condition must be true or false, and this is ", KindName(bound->kind)),
          "compare it with something");
    }
    return bound;
  }

 private:
  static Bound Constant(Value v, Type type, Form kind) {
    return {[v = std::move(v)](const Row&) { return v; }, type, kind};
  }

  absl::StatusOr<Bound> On(const ast::Expr&, const ast::Number& n) {
    return Constant(FromNumber(Wide(n.value)), Type::kInteger, Form::kNumber);
  }
  absl::StatusOr<Bound> On(const ast::Expr&, const ast::Character& c) {
    if (IsPython()) {  // a text of one character
      return Constant(std::string(1, static_cast<char>(c.value)), Type::kString, Form::kText);
    }
    return Constant(int64_t{c.value}, Type::kInteger, Form::kNumber);
  }
  absl::StatusOr<Bound> On(const ast::Expr&, const ast::String& s) {
    return Constant(s.value, Type::kString, Form::kText);
  }
  absl::StatusOr<Bound> On(const ast::Expr&, const ast::Null&) {
    return Constant(Null{}, Type::kInteger, Form::kNull);
  }
  absl::StatusOr<Bound> On(const ast::Expr&, const ast::Float& f) {
    return Constant(f.value, Type::kReal, Form::kNumber);
  }

  // The rows are of Python's code.
  bool IsPython() const { return columns_.scope().code == NameScope::Code::kNone; }

  // In this place the name means an argument of the function that a row's call is of.
  bool MeansArgument(const std::string& name) const { return condition_ && IsArgument(name); }

  // All of the functions that rows are of have an argument of that name.
  bool IsArgument(const std::string& name) const {
    const std::vector<std::string>& arguments = columns_.scope().arguments;
    return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
  }

  // Says so where it could have been meant otherwise.
  void NoteArgument(const std::string& name) {
    const std::vector<std::string> columns = columns_.Names();
    const std::shared_ptr<RowMoment> moment = columns_.moment();
    if (!moment || std::find(columns.begin(), columns.end(), name) == columns.end()) return;
    moment->AddNote(absl::StrCat(name, " is taken as the argument, args.", name,
                                 "; the column is meant after `select ", name, "`"));
  }

  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Name& name) {
    if (MeansArgument(name.name)) {
      return OfProgram(e, /*as_text=*/false);
    }
    if (const auto found = columns_.Find(name.name)) {
      const std::shared_ptr<RowMoment> moment = unknown_matters_ ? columns_.moment() : nullptr;
      return Bound{[slot = found->slot, moment, text = name.name](const Row& row) {
                     if (moment && row[slot].is_unknown()) {
                       moment->MarkIncomplete(
                           absl::StrCat("what ", text, kIsUnknown, "; they are left out"));
                     }
                     return row[slot];
                   },
                   // Alone it is what is shown.
                   found->column.any_operand && depth_ > 1 ? Type::kObject : found->column.type,
                   found->column.any ? Form::kAny : KindOf(found->column.type)};
    }
    if (IsOfCalls(name.name)) return Unknown(e.range, name.name);
    ASSIGN_OR_RETURN(bool known, IsOfProgram(name.name, /*alone=*/depth_ == 1));
    if (!known && IsTruth(name.name)) {
      return Constant(int64_t{name.name == "true"}, Type::kInteger, Form::kNumber);
    }
    if (!known) return Unknown(e.range, name.name);
    ASSIGN_OR_RETURN(Bound bound, OfProgram(e, /*as_text=*/false));
    const auto args = columns_.Find("args");
    if (!args || !IsArgument(name.name)) return bound;
    for (const Column& field : args->column.fields) {  // where it has one type in all of them
      if (field.name == name.name && !field.any) bound.type = field.type;
    }
    return bound;
  }

  // What only calls have; without them not even a variable of that name is meant.
  static bool IsOfCalls(std::string_view name) {
    return name == "args" ||
           (name.size() == 4 && name.starts_with("arg") && name[3] >= '0' && name[3] <= '9');
  }

  // The error that a name is neither a column nor the program's.
  absl::Status Unknown(ast::Range range, const std::string& name) {
    if (IsOfCalls(name)) {
      return ErrorAt(range, "only the rows of `calls to` have " + name,
                     "use registers at the time of the row instead ($rdi is the first argument)");
    }
    const std::vector<std::string> columns = columns_.Names();
    std::vector<std::string> near = Nearest(name, columns);
    if (near.empty() && names_ && !IsPython()) {
      ASSIGN_OR_RETURN(near, names_->Near(name));
    }
    std::string message = absl::StrCat("there is no column ", name);
    if (!near.empty()) return UnknownAt(range, std::move(message), near);
    return ErrorAt(range, message + " here; there are " + absl::StrJoin(columns, ", "),
                   "text is written in quotes");
  }

  static bool IsTruth(std::string_view name) { return name == "true" || name == "false"; }

  // A name of the program that can mean something at the rows. `alone`: it is all that is asked
  // for, and so must be a variable.
  absl::StatusOr<bool> IsOfProgram(const std::string& name, bool alone) {
    if (!names_) return false;
    return alone || IsPython() ? names_->IsVariable(name) : names_->HasValue(name);
  }

  // `args.NAME` must be an argument of some function, where it is known which they have.
  absl::Status CheckArgument(const ast::Member& member) {
    const auto* whole = std::get_if<ast::Name>(&member.object->node);
    const auto args = whole && whole->name == "args" ? columns_.Find("args") : std::nullopt;
    if (!args || args->column.fields.empty()) return absl::OkStatus();
    std::vector<std::string> names;
    for (const Column& field : args->column.fields) names.push_back(field.name);
    if (std::find(names.begin(), names.end(), member.member) != names.end()) {
      return absl::OkStatus();
    }
    return UnknownAt(member.member_range, absl::StrCat("there is no argument ", member.member),
                     Nearest(member.member, names));
  }

  // Every name in an expression of C's must be a column or the program's.
  absl::Status CheckNames(const ast::Expr& expr, int depth = 0) {
    if (depth > 100) return absl::OkStatus();
    if (const auto* member = std::get_if<ast::Member>(&expr.node)) {
      const auto* whole = std::get_if<ast::Name>(&member->object->node);
      if (whole && whole->name == "args") {
        const auto args = columns_.Find("args");
        if (!args) {  // then it may be a variable, with members
          ASSIGN_OR_RETURN(bool known, IsOfProgram("args", /*alone=*/false));
          return known ? absl::OkStatus() : Unknown(member->object->range, "args");
        }
        return CheckArgument(*member);
      }
      return CheckNames(*member->object, depth + 1);
    }
    if (const auto* size = std::get_if<ast::SizeofExpr>(&expr.node)) {
      if (const auto* name = std::get_if<ast::Name>(&size->operand->node); name && names_) {
        absl::StatusOr<bool> type = names_->IsType(name->name);
        if (!type.ok() || *type) return type.status();
      }
    }
    if (const auto* name = std::get_if<ast::Name>(&expr.node)) {
      if (MeansArgument(name->name)) return absl::OkStatus();
      if (const auto column = columns_.Find(name->name)) {
        const bool is_value = column->column.any || KindOf(column->column.type) != Form::kOther;
        if (is_value) return absl::OkStatus();
        return ErrorAt(expr.range, absl::StrCat("this must be a number or text, and ", name->name,
                                                " is neither"));
      }
      if (IsOfCalls(name->name)) return Unknown(expr.range, name->name);
      ASSIGN_OR_RETURN(bool known, IsOfProgram(name->name, /*alone=*/false));
      if (known || IsTruth(name->name)) return absl::OkStatus();
      return Unknown(expr.range, name->name);
    }
    absl::Status status;
    ast::ForEachOperand(expr, [&](const ast::Expr& operand) {
      if (status.ok()) status = CheckNames(operand, depth + 1);
    });
    return status;
  }

  // Only C's rules give the expression a meaning: it has types, memory or the program's names.
  bool NeedsProgram(const ast::Expr& expr, int depth = 0) {
    if (depth > 100) return false;
    if (const auto* name = std::get_if<ast::Name>(&expr.node)) {
      if (MeansArgument(name->name)) return true;
      if (columns_.Find(name->name)) return false;
      const absl::StatusOr<bool> known = IsOfProgram(name->name, /*alone=*/false);
      return known.ok() && *known;
    }
    if (std::get_if<ast::Cast>(&expr.node) || std::get_if<ast::SizeofType>(&expr.node) ||
        std::get_if<ast::SizeofExpr>(&expr.node) || std::get_if<ast::Index>(&expr.node)) {
      return true;
    }
    if (const auto* member = std::get_if<ast::Member>(&expr.node)) return !FieldOf(*member);
    if (const auto* unary = std::get_if<ast::Unary>(&expr.node)) {
      return unary->op == ast::UnaryOp::kAddress || unary->op == ast::UnaryOp::kDereference ||
             NeedsProgram(*unary->operand, depth + 1);
    }
    if (const auto* binary = std::get_if<ast::Binary>(&expr.node)) {
      return NeedsProgram(*binary->left, depth + 1) || NeedsProgram(*binary->right, depth + 1);
    }
    return false;
  }

  // A function of conditions is called in it.
  static bool HasFunction(const ast::Expr& expr, int depth = 0) {
    if (depth > 100) return false;
    if (const auto* call = std::get_if<ast::Call>(&expr.node)) {
      if (FindFunction(call->function) != nullptr) return true;
    }
    bool found = false;
    ast::ForEachOperand(
        expr, [&](const ast::Expr& operand) { found = found || HasFunction(operand, depth + 1); });
    return found;
  }

  // A C expression, evaluated in the frame that the row is of, else that its thread is in at the
  // row's time; null where a name is not in scope there or memory is not mapped. A row at which the
  // value of something in scope is not known makes the answer of a condition incomplete. `as_text`:
  // a char * is what it points to.
  absl::StatusOr<Bound> OfProgram(const ast::Expr& e, bool as_text) {
    const auto time = columns_.Find("time");
    const auto thread = columns_.Find("thread");
    if (!time || !context_) {
      return ErrorAt(e.range, "this is evaluated at the time of a row, and these rows have none");
    }
    RETURN_IF_ERROR(CheckNames(e));
    struct Column {
      std::string name;
      size_t slot;
    };
    struct State {
      ast::ExprPtr expr;
      const Context* context;
      size_t time;
      std::optional<size_t> thread, inlined, args;
      std::vector<Column> columns;
      std::vector<std::string> arguments;  // names that mean one
      bool as_text, condition;
      std::shared_ptr<RowMoment> moment;
    };
    auto state = std::make_shared<State>();
    state->expr = ast::Clone(e);
    state->context = context_;
    state->time = time->slot;
    if (thread) state->thread = thread->slot;
    state->inlined = columns_.inlined_slot();
    state->as_text = as_text;
    state->condition = unknown_matters_;
    ForEachName(e, [&](const std::string& name) {
      if (MeansArgument(name)) {
        state->arguments.push_back(name);
        NoteArgument(name);
        return;
      }
      const auto found = columns_.Find(name);
      if (!found) return;
      if (name == "args") {
        state->args = found->slot;
      } else {
        state->columns.push_back({name, found->slot});
      }
    });
    state->moment = columns_.moment();
    if (!state->moment) state->moment = std::make_shared<RowMoment>(*context_);
    return Bound{
        [state](const Row& row) -> absl::StatusOr<Value> { return EvaluateRow(*state, row); },
        Type::kObject, Form::kNull};  // of any type, row by row
  }

  static std::string UnknownText(const std::string& expression) {
    return absl::StrCat("what ", expression, kIsUnknown,
                        ", since a variable in it has no place there; they are left out");
  }

  template <class State>
  static absl::StatusOr<Value> EvaluateRow(State& state, const Row& row) {
    const Time* at = row[state.time].template get<Time>();
    if (!at) return Null{};
    const Context& context = *state.context;
    absl::StatusOr<Moment*> moment = state.moment->At(*at);
    if (absl::IsOutOfRange(moment.status())) return Null{};
    if (!moment.ok()) return moment.status();
    std::optional<ThreadNo> thread;
    if (state.thread) {
      if (const int64_t* n = row[*state.thread].template get<int64_t>()) {
        thread = ThreadNo(static_cast<uint32_t>(*n));
      }
    }
    ASSIGN_OR_RETURN(const TypeSpace* types, context.TypesAt(*at));
    std::optional<FrameState> frame;
    std::optional<uint32_t> inlined;
    if (state.inlined) {
      if (const int64_t* n = row[*state.inlined].template get<int64_t>()) {
        inlined = static_cast<uint32_t>(*n);
      }
    }
    absl::StatusOr<FrameView> view = FrameAt(context, *moment, thread, 0, inlined);
    if (view.ok()) {
      frame.emplace(context, *types, *moment, *view);
    } else if (!absl::IsNotFound(view.status())) {
      return view.status();
    }
    Evaluator evaluator(context, *types, *moment, frame ? &*frame : nullptr);
    // What a variable was before is not what it is at the row.
    evaluator.set_look_back(false);
    const auto argument = [&](std::string_view name) -> absl::StatusOr<std::optional<CValue>> {
      for (const Die& parameter : frame ? frame->Parameters() : std::vector<Die>()) {
        if (DebugFile::NameOf(parameter) != name) continue;
        ASSIGN_OR_RETURN(CValue value, frame->ValueOf(parameter, /*look_back=*/false));
        return std::optional<CValue>(std::move(value));
      }
      const Object* object = state.args ? row[*state.args].object() : nullptr;
      if (object == nullptr) return std::optional<CValue>();
      for (const auto& [field, value] : object->fields) {
        if (field == name) return std::optional<CValue>(OfColumn(*types, value));
      }
      return std::optional<CValue>();
    };
    if (state.args) evaluator.set_arguments(argument);
    evaluator.set_names([&](std::string_view name) -> absl::StatusOr<std::optional<CValue>> {
      for (const std::string& known : state.arguments) {
        if (known == name) return argument(name);
      }
      for (const auto& column : state.columns) {
        if (column.name == name) return std::optional<CValue>(OfColumn(*types, row[column.slot]));
      }
      return std::optional<CValue>();
    });
    const auto unknown = [&] {
      const std::string text = ast::ToString(*state.expr);
      if (state.condition) {
        state.moment->MarkIncomplete(UnknownText(text));
      } else {
        state.moment->AddNote(
            absl::StrCat("where ", text, " is null a variable in it may have no place"));
      }
      return Value(Null{});
    };
    absl::StatusOr<CValue> value = evaluator.Evaluate(*state.expr);
    if (const std::string note = evaluator.NoteOnTypes(); !note.empty()) {
      state.moment->AddNote(note);
    }
    if (!value.ok()) {
      if (evaluator.unknown()) return unknown();
      if (evaluator.failed_here()) return Null{};
      return value.status();
    }
    if (!value->missing.empty()) {
      return value->missing.starts_with("Cannot access memory") ? Value(Null{}) : unknown();
    }
    absl::StatusOr<Value> result = Renderer(*types, *moment).Structured(*value);
    if (!result.ok() || !state.as_text) return result;
    if (const Address* address = result->template get<Address>()) {
      return ReadString(**moment, *address);
    }
    return result;
  }

  static std::optional<CValue> OfColumn(const TypeSpace& types, const Value& of_row) {
    const Value& value = of_row.operand();
    CValue out;
    if (const auto* text = value.get<std::string>()) {
      out.bytes = *text + '\0';
      out.type = types.ArrayOf(BuiltinType("char"), out.bytes.size());
      return out;
    }
    if (const std::optional<double> real = value.AsReal()) {
      out.type = BuiltinType("double");
      out.bytes.assign(reinterpret_cast<const char*>(&*real), sizeof *real);
      return out;
    }
    uint64_t n;
    bool negative;
    if (!value.AsNumber(&n, &negative)) {
      out.type = BuiltinType("long");
      out.missing = "the row has no number there";
      return out;
    }
    out.type =
        BuiltinType(n > static_cast<uint64_t>(INT64_MAX) && !negative ? "unsigned long" : "long");
    out.bytes.assign(reinterpret_cast<const char*>(&n), 8);
    return out;
  }

  // `args.NAME.member`: the column's slot, the path of fields, and what the last of them is.
  struct Field {
    size_t slot;
    std::vector<std::string> path;
    Column column;
    Form kind = Form::kNull;  // of any
  };
  std::optional<Field> FieldOf(const ast::Member& member) {
    // Only a pointer of the program's has `->`.
    if (member.arrow) return std::nullopt;
    std::vector<std::string> path = {member.member};
    const ast::Expr* at = member.object.get();
    for (int i = 0; i < 100; ++i) {
      if (const auto* outer = std::get_if<ast::Member>(&at->node)) {
        if (outer->arrow) return std::nullopt;
        path.insert(path.begin(), outer->member);
        at = outer->object.get();
        continue;
      }
      const auto* name = std::get_if<ast::Name>(&at->node);
      if (!name || MeansArgument(name->name)) return std::nullopt;
      const auto found = columns_.Find(name->name);
      if (!found || found->column.type != Type::kObject) return std::nullopt;
      Field field = {found->slot, std::move(path), {"", Type::kObject, /*any=*/true, {}}};
      const Column* column = &found->column;
      for (const std::string& step : field.path) {
        // A `.` through a pointer is as good, to the program.
        if (column->type != Type::kObject && !column->any) return std::nullopt;
        const auto known = std::find_if(column->fields.begin(), column->fields.end(),
                                        [&](const Column& c) { return c.name == step; });
        // A base's member, or none: the program's types tell.
        if (known == column->fields.end() && !column->fields.empty()) return std::nullopt;
        if (known == column->fields.end()) return field;
        column = &*known;
      }
      field.column = *column;
      if (column->any) {
        field.kind = Form::kAny;
      } else if (column->type != Type::kObject && column->type != Type::kList) {
        field.kind = KindOf(column->type);
      }
      return field;
    }
    return std::nullopt;
  }

  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Register& reg) {
    const auto time = columns_.Find("time");
    const auto thread = columns_.Find("thread");
    if (!time || !thread) return ErrorAt(e.range, "these rows have no time and thread");
    int index = -1;
    for (int i = 0; i < kGprCount; ++i) {
      if (reg.name == GprName(static_cast<Gpr>(i))) index = i;
    }
    if (reg.name == "rip" || reg.name == "pc") index = kGprCount;
    if (index < 0) {
      return ErrorAt(e.range, "no general register is called " + reg.name);
    }
    return Bound{
        [context = context_, index, t = time->slot,
         n = thread->slot](const Row& row) -> absl::StatusOr<Value> {
          const Time* at = row[t].get<Time>();
          const int64_t* number = row[n].get<int64_t>();
          if (!at || !number) return Null{};
          const absl::StatusOr<Registers> registers =
              context->process().RegistersAt(*at, ThreadNo(static_cast<uint32_t>(*number)));
          if (absl::IsNotFound(registers.status()) || absl::IsOutOfRange(registers.status())) {
            return Null{};
          }
          if (!registers.ok()) return registers.status();
          if (index == kGprCount) return Word{registers->pc.v};
          // A number with a sign, as gdb has it.
          const uint64_t held = registers->gpr[index];
          if (static_cast<int64_t>(held) >= 0) return Word{held};
          return Value(Represented{Word{held}, static_cast<int64_t>(held)});
        },
        Type::kValue, Form::kNumber};
  }

  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Unary& unary) {
    const bool is_place =
        unary.op == ast::UnaryOp::kAddress || unary.op == ast::UnaryOp::kDereference;
    // By C's rules, as binary operators are.
    const bool is_arithmetic = unary.op != ast::UnaryOp::kNot && NeedsProgram(e) && !HasFunction(e);
    if (is_place || is_arithmetic) return OfProgram(e, false);
    ASSIGN_OR_RETURN(Bound operand, unary.op == ast::UnaryOp::kNot ? Condition(*unary.operand)
                                                                   : Bind(*unary.operand));
    RETURN_IF_ERROR(WantNumber(*unary.operand, operand, unary.op == ast::UnaryOp::kBitNot));
    const Type type = unary.op == ast::UnaryOp::kNot ? Type::kInteger
                                                     : Common(OperandType(operand), Type::kInteger);
    return Bound{
        [op = unary.op, f = std::move(operand.value)](const Row& row) -> absl::StatusOr<Value> {
          absl::StatusOr<Value> v = f(row);
          if (!v.ok()) return v;
          if (v->represented()) v = Value(v->operand());
          if (op == ast::UnaryOp::kNot && v->AsReal()) return Truth(*v->AsReal() == 0);
          if (op == ast::UnaryOp::kMinus) {
            if (const float* f = v->get<float>()) return -*f;
            if (const double* d = v->get<double>()) return -*d;
          }
          const std::optional<Wide> n = Number(*v);
          if (!n) return op == ast::UnaryOp::kPlus && v->AsReal() ? v : Null{};
          switch (op) {
            case ast::UnaryOp::kMinus:
              return FromNumber(-*n);
            case ast::UnaryOp::kBitNot:
              return FromNumber(~*n);
            case ast::UnaryOp::kNot:
              return Truth(*n == 0);
            default:
              return v;
          }
        },
        type, Form::kNumber};
  }

  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Binary& binary) {
    using Op = ast::BinaryOp;
    if (binary.op == Op::kAnd || binary.op == Op::kOr) return Logic(binary);
    // By C's rules as a whole: `name == "x"` compares texts, `ratio > 0.5` fractions. C knows none
    // of the functions of conditions.
    if (NeedsProgram(e) && !HasFunction(e)) return OfProgram(e, false);
    ASSIGN_OR_RETURN(Bound left, Bind(*binary.left));
    ASSIGN_OR_RETURN(Bound right, Bind(*binary.right));
    const bool comparison = binary.op == Op::kLess || binary.op == Op::kLessEqual ||
                            binary.op == Op::kGreater || binary.op == Op::kGreaterEqual ||
                            binary.op == Op::kEqual || binary.op == Op::kNotEqual;
    if (comparison) {
      RETURN_IF_ERROR(Comparable(*binary.left, left, *binary.right, right));
      return Bound{[op = binary.op, a = std::move(left.value),
                    b = std::move(right.value)](const Row& row) -> absl::StatusOr<Value> {
                     ASSIGN_OR_RETURN(Value x, a(row));
                     ASSIGN_OR_RETURN(Value y, b(row));
                     const auto c = CompareOrNull(x, y);
                     if (!c) return Null{};
                     switch (op) {
                       case Op::kLess:
                         return Truth(*c < 0);
                       case Op::kLessEqual:
                         return Truth(*c <= 0);
                       case Op::kGreater:
                         return Truth(*c > 0);
                       case Op::kGreaterEqual:
                         return Truth(*c >= 0);
                       case Op::kEqual:
                         return Truth(*c == 0);
                       default:
                         return Truth(*c != 0);
                     }
                   },
                   Type::kInteger, Form::kNumber};
    }
    const bool whole = IsOfWhole(binary.op);
    RETURN_IF_ERROR(WantNumber(*binary.left, left, whole));
    RETURN_IF_ERROR(WantNumber(*binary.right, right, whole));
    const Type type = Common(OperandType(left), OperandType(right));
    return Bound{[op = binary.op, a = std::move(left.value),
                  b = std::move(right.value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value x, a(row));
                   ASSIGN_OR_RETURN(Value y, b(row));
                   return Compute(op, x, y);
                 },
                 type, Form::kNumber};
  }

  absl::StatusOr<Bound> Logic(const ast::Binary& binary) {
    ASSIGN_OR_RETURN(Bound left, Condition(*binary.left));
    ASSIGN_OR_RETURN(Bound right, Condition(*binary.right));
    // The value that decides alone.
    const bool decisive = binary.op == ast::BinaryOp::kOr;
    return Bound{[decisive, a = std::move(left.value),
                  b = std::move(right.value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value x, a(row));
                   if (!x.is_null() && IsTrue(x) == decisive) return Truth(decisive);
                   ASSIGN_OR_RETURN(Value y, b(row));
                   if (!y.is_null() && IsTrue(y) == decisive) return Truth(decisive);
                   if (x.is_null() || y.is_null()) return Null{};
                   return Truth(!decisive);
                 },
                 Type::kInteger, Form::kNumber};
  }

  absl::StatusOr<Bound> On(const ast::Expr&, const ast::Ternary& t) {
    ASSIGN_OR_RETURN(Bound condition, Condition(*t.condition));
    ASSIGN_OR_RETURN(Bound then, Bind(*t.then));
    ASSIGN_OR_RETURN(Bound otherwise, Bind(*t.otherwise));
    RETURN_IF_ERROR(Comparable(*t.then, then, *t.otherwise, otherwise));
    const Bound& typed = then.kind == Form::kNull ? otherwise : then;
    const Form kind = typed.kind;
    const Type type = kind == Form::kNumber && then.type != otherwise.type
                          ? Common(then.type, otherwise.type)
                          : typed.type;
    return Bound{[c = std::move(condition.value), a = std::move(then.value),
                  b = std::move(otherwise.value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value which, c(row));
                   return IsTrue(which) ? a(row) : b(row);
                 },
                 type, kind};
  }

  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Cast&) { return OfProgram(e, false); }
  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::SizeofType&) {
    return OfProgram(e, false);
  }
  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::SizeofExpr&) {
    return OfProgram(e, false);
  }
  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Index&) { return OfProgram(e, false); }
  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Member& member) {
    // A field of an object column.
    if (const auto field = FieldOf(member)) {
      RETURN_IF_ERROR(CheckArgument(member));
      // A null pointer is not null: what is, is not known.
      const bool is_argument = columns_.scope().code == NameScope::Code::kEntries;
      const std::shared_ptr<RowMoment> moment =
          unknown_matters_ && is_argument ? columns_.moment() : nullptr;
      return Bound{[slot = field->slot, path = field->path, moment,
                    text = ast::ToString(e)](const Row& row) -> Value {
                     Value at = row[slot];
                     for (const std::string& name : path) {
                       const Object* object = at.object();
                       if (!object) return Null{};
                       Value next;
                       for (const auto& [key, value] : object->fields) {
                         if (key == name) next = value;
                       }
                       at = std::move(next);
                     }
                     if (moment && at.is_null()) moment->MarkIncomplete(UnknownText(text));
                     return at;
                   },
                   field->column.type, field->kind};
    }
    return OfProgram(e, false);
  }

  absl::StatusOr<Bound> On(const ast::Expr& e, const ast::Call& call) {
    if (const Function* function = FindFunction(call.function)) return OfValue(e, call, *function);
    if (call.function != "string") {
      return ErrorAt(call.function_range, absl::StrCat("there is no function ", call.function),
                     absl::StrCat("there are ", FunctionNames(), ", and string(ADDR)"));
    }
    if (call.arguments.size() != 1) return ErrorAt(e.range, "string takes one address");
    ASSIGN_OR_RETURN(Bound argument, Bind(*call.arguments[0]));
    RETURN_IF_ERROR(WantNumber(*call.arguments[0], argument, /*whole=*/true));
    const auto time = columns_.Find("time");
    if (!time)
      return ErrorAt(e.range, "string reads memory at the time of a row, and these rows have none");
    std::shared_ptr<RowMoment> moment = columns_.moment();
    if (!moment) moment = std::make_shared<RowMoment>(*context_);
    return Bound{[moment, t = time->slot,
                  f = std::move(argument.value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value address, f(row));
                   const std::optional<Wide> n = Number(address);
                   const Time* at = row[t].get<Time>();
                   if (!n || *n < 0 || !at) return Null{};
                   absl::StatusOr<Moment*> then = moment->At(*at);
                   if (absl::IsOutOfRange(then.status())) return Null{};
                   if (!then.ok()) return then.status();
                   return ReadString(**then, Address(static_cast<uint64_t>(*n)));
                 },
                 Type::kString, Form::kText};
  }

  absl::StatusOr<Bound> OfValue(const ast::Expr& e, const ast::Call& call,
                                const Function& function) {
    if (call.arguments.size() != 1) {
      return ErrorAt(e.range, absl::StrCat(call.function, " takes one value"));
    }
    const ast::Expr& operand = *call.arguments[0];
    ASSIGN_OR_RETURN(Bound argument, Bind(operand));
    if (!function.takes_text) {
      RETURN_IF_ERROR(WantNumber(operand, argument, /*whole=*/false));
    } else if (argument.kind != Form::kText && argument.kind != Form::kAny &&
               argument.kind != Form::kNull) {
      return ErrorAt(operand.range,
                     absl::StrCat("this must be text, and it is ", KindName(argument.kind)));
    }
    const Type type =
        function.result.value_or(argument.type == Type::kReal ? Type::kReal : Type::kInteger);
    return Bound{[compute = function.compute,
                  f = std::move(argument.value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value value, f(row));
                   if (value.is_null()) return Null{};
                   return compute(value);
                 },
                 type, KindOf(type)};
  }

  // The bytes up to the first NUL, at most 4096; null when the first byte is not known.
  static absl::StatusOr<Value> ReadString(Moment& moment, Address from) {
    constexpr uint64_t kMaxText = 4096;
    std::string text;
    while (text.size() < kMaxText) {
      char bytes[256];
      const uint64_t size =
          std::min<uint64_t>(text.empty() ? 64 : sizeof(bytes), kMaxText - text.size());
      ASSIGN_OR_RETURN(uint64_t read, moment.Read(from + text.size(), size, bytes));
      const size_t length = strnlen(bytes, read);
      text.append(bytes, length);
      if (length < read) return Value(std::move(text));
      if (read < size) break;
    }
    return text.empty() ? Value(Null{}) : Value(std::move(text));
  }

  absl::StatusOr<Bound> On(const ast::Expr&, const ast::InList& in) {
    ASSIGN_OR_RETURN(Bound operand, Bind(*in.operand));
    std::vector<Evaluate> values;
    for (const ast::ExprPtr& value : in.values) {
      ASSIGN_OR_RETURN(Bound bound, Bind(*value));
      RETURN_IF_ERROR(Comparable(*in.operand, operand, *value, bound));
      values.push_back(std::move(bound.value));
    }
    return Bound{[negated = in.negated, f = std::move(operand.value),
                  values = std::move(values)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value x, f(row));
                   bool unknown = false;
                   for (const Evaluate& value : values) {
                     ASSIGN_OR_RETURN(Value y, value(row));
                     const auto c = CompareOrNull(x, y);
                     if (c && *c == 0) return Truth(!negated);
                     unknown = unknown || !c;
                   }
                   if (unknown) return Null{};
                   return Truth(negated);
                 },
                 Type::kInteger, Form::kNumber};
  }

  absl::StatusOr<Bound> On(const ast::Expr&, const ast::Between& between) {
    ASSIGN_OR_RETURN(Bound operand, Bind(*between.operand));
    ASSIGN_OR_RETURN(Bound low, Bind(*between.low));
    ASSIGN_OR_RETURN(Bound high, Bind(*between.high));
    for (const auto& [expr, bound] : {std::pair(&*between.low, &low), {&*between.high, &high}}) {
      RETURN_IF_ERROR(Comparable(*between.operand, operand, *expr, *bound));
    }
    return Bound{[negated = between.negated, f = std::move(operand.value), a = std::move(low.value),
                  b = std::move(high.value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value x, f(row));
                   ASSIGN_OR_RETURN(Value y, a(row));
                   ASSIGN_OR_RETURN(Value z, b(row));
                   const auto c = CompareOrNull(x, y), d = CompareOrNull(x, z);
                   if (!c || !d) return Null{};
                   return Truth((*c >= 0 && *d <= 0) != negated);
                 },
                 Type::kInteger, Form::kNumber};
  }

  absl::StatusOr<Bound> On(const ast::Expr&, const ast::Matches& matches) {
    ASSIGN_OR_RETURN(Bound operand, NeedsProgram(*matches.operand)
                                        ? OfProgram(*matches.operand, true)
                                        : Bind(*matches.operand));
    if (operand.kind != Form::kText && operand.kind != Form::kAny && operand.kind != Form::kNull) {
      return ErrorAt(matches.operand->range,
                     absl::StrCat("`matches` looks at text, and this is ", KindName(operand.kind)));
    }
    const bool regex = matches.pattern.kind == ast::Pattern::Kind::kRegex;
    RE2::Options options(RE2::Quiet);
    options.set_encoding(RE2::Options::EncodingLatin1);  // any bytes can be matched
    auto compiled = std::make_shared<const RE2>(
        regex ? matches.pattern.text : GlobToRegex(matches.pattern.text), options);
    if (!compiled->ok()) {
      return ErrorAt(matches.pattern.range,
                     absl::StrCat("this pattern is not understood: ", compiled->error()));
    }
    return Bound{[negated = matches.negated, regex, compiled,
                  f = std::move(operand.value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value x, f(row));
                   const auto matched = [&](const Value& value) {
                     const std::string* text = value.get<std::string>();
                     if (!text) return false;
                     return regex ? RE2::PartialMatch(*text, *compiled)
                                  : RE2::FullMatch(*text, *compiled);
                   };
                   if (!x.get<std::string>()) return Null{};
                   // A Python str is shown as its repr, and may be meant by its characters.
                   const bool found = matched(x) || (x.represented() && matched(x.operand()));
                   return Truth(found != negated);
                 },
                 Type::kInteger, Form::kNumber};
  }

  absl::StatusOr<Bound> On(const ast::Expr&, const ast::IsNull& test) {
    const bool matters = std::exchange(unknown_matters_, false);  // it is what is asked
    absl::StatusOr<Bound> operand = Bind(*test.operand);
    unknown_matters_ = matters;
    if (!operand.ok()) return operand;
    return Bound{[negated = test.negated, or_zero = test.or_zero,
                  f = std::move(operand->value)](const Row& row) -> absl::StatusOr<Value> {
                   ASSIGN_OR_RETURN(Value x, f(row));
                   const bool null = x.is_null() || (or_zero && x == Value(int64_t{0}));
                   return Truth(null != negated);
                 },
                 Type::kInteger, Form::kNumber};
  }

  static absl::Status WantNumber(const ast::Expr& expr, const Bound& bound, bool whole) {
    if (whole && bound.type == Type::kReal) {
      return ErrorAt(expr.range, "this must be a whole number, and it is real");
    }
    if (bound.kind == Form::kText || bound.kind == Form::kOther) {
      return ErrorAt(expr.range,
                     absl::StrCat("this must be a number, and it is ", KindName(bound.kind)));
    }
    return absl::OkStatus();
  }

  static absl::Status Comparable(const ast::Expr& a, const Bound& x, const ast::Expr& b,
                                 const Bound& y) {
    const auto number = [](Form k) { return k == Form::kNumber || k == Form::kCell; };
    if (x.kind == y.kind || (number(x.kind) && number(y.kind)) || x.kind == Form::kNull ||
        y.kind == Form::kNull || x.kind == Form::kAny || y.kind == Form::kAny) {
      return absl::OkStatus();
    }
    return ErrorAt(
        b.range, absl::StrCat(ast::ToString(a), " is ", KindName(x.kind), " and ", ast::ToString(b),
                              " is ", KindName(y.kind), ": they are never equal"));
  }

  Columns& columns_;
  const Context* context_;
  const bool condition_;
  bool unknown_matters_;               // a value that is not known makes the answer incomplete
  std::optional<NamesInScope> names_;  // none without a context
  int depth_ = 0;
};

}  // namespace

const NameScope& Columns::scope() const {
  static const NameScope* const any = new NameScope;
  return *any;
}

bool IsTrue(const Value& value) {
  if (const std::optional<double> real = value.operand().AsReal()) return *real != 0;
  const std::optional<Wide> n = Number(value);
  return n && *n != 0;
}

absl::StatusOr<BoundExpression> Bind(const ast::Expr& expr, Columns& columns,
                                     const Context* context) {
  ASSIGN_OR_RETURN(Bound bound, Binder(columns, context, /*condition=*/false).Bind(expr));
  const auto* name = std::get_if<ast::Name>(&expr.node);
  // What is computed from what is not known is not known.
  const bool any = bound.kind == Form::kAny || bound.type == Type::kObject;
  return BoundExpression{std::move(bound.value),
                         {name ? name->name : ast::ToString(expr), bound.type, any, {}}};
}

absl::StatusOr<BoundExpression> BindCondition(const ast::Expr& expr, Columns& columns,
                                              const Context* context) {
  ASSIGN_OR_RETURN(Bound bound, Binder(columns, context, /*condition=*/true).Condition(expr));
  return BoundExpression{std::move(bound.value), {ast::ToString(expr), bound.type, false, {}}};
}

void ForEachName(const ast::Expr& expr, const std::function<void(const std::string&)>& use) {
  if (const auto* name = std::get_if<ast::Name>(&expr.node)) use(name->name);
  ast::ForEachOperand(expr, [&](const ast::Expr& operand) { ForEachName(operand, use); });
}

}  // namespace ttq
