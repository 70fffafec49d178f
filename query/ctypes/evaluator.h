// SPDX-License-Identifier: MIT
//
// C expressions on the state at a time: names are looked for in the frame (if there is one), among
// the members of `this`, among the globals of the process, its enumerators and functions.
// Arithmetic follows C's conversions. Nothing is written and no code runs.
//
// Belongs to one thread; its moment must stay at its time while it is used.

#ifndef TTQ_QUERY_CTYPES_EVALUATOR_H_
#define TTQ_QUERY_CTYPES_EVALUATOR_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "query/ctypes/c_value.h"
#include "query/ctypes/frame_state.h"
#include "query/ctypes/process_types.h"
#include "query/ctypes/render.h"
#include "query/ctypes/type_space.h"
#include "query/language/ast.h"

namespace ttq {

class Evaluator {
 public:
  // `frame` may be null: then locals and registers are not known.
  Evaluator(const ProcessTypes& context, const TypeSpace& types, Moment* moment, FrameState* frame);

  // What a name means before anything else is asked: the columns of a row. Nullopt: nothing.
  using Names = std::function<absl::StatusOr<std::optional<CValue>>(std::string_view)>;
  void set_names(Names names) { names_ = std::move(names); }
  // What `args.NAME` means; without it `args` is a name like any other.
  void set_arguments(Names arguments) { arguments_ = std::move(arguments); }
  // Whether a variable without a place is given as it last was. Each look back costs some blocks.
  void set_look_back(bool look_back) { look_back_ = look_back; }

  // An error at the place of the part that cannot be evaluated. A result may still have no value
  // (CValue::missing): that of a variable that is nowhere.
  absl::StatusOr<CValue> Evaluate(const ast::Expr& expr);

  // Whether the last error was that a name is not visible here, or memory not mapped: true of this
  // moment, not of the expression.
  bool failed_here() const { return failed_here_; }
  // Whether it was that something in scope has a value which is not known: another answer than that
  // nothing is there.
  bool unknown() const { return unknown_; }

  // The name that nothing has, by which the last error came; "": by something else.
  const std::string& unknown_name() const { return unknown_name_; }

  // A sentence on a variable whose type no debug information has; "": there was none.
  std::string NoteOnTypes() const;

  // The type that a name in a cast means.
  absl::StatusOr<const CType*> Resolve(const ast::TypeName& name);

 private:
  struct Number {
    const CType* type = nullptr;
    bool is_float = false;
    __int128 i = 0;
    long double f = 0;
    std::shared_ptr<const PastValue> past;
  };

  absl::StatusOr<CValue> Value(const ast::Expr& expr);
  template <class Node>
  absl::StatusOr<CValue> On(const ast::Expr& expr, const Node& node);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Name& name);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Register& reg);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Unary& unary);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Binary& binary);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Ternary& ternary);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Cast& cast);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Member& member);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Index& index);
  absl::StatusOr<CValue> On(const ast::Expr& expr, const ast::Call& call);
  absl::StatusOr<CValue> SizeOf(const ast::Expr& expr, const CType* type);
  absl::StatusOr<CValue> SizeOfValue(const ast::Expr& expr, const CValue& value);

  // References followed.
  absl::StatusOr<CValue> Dereferenced(CValue value);
  absl::StatusOr<Number> NumberOf(const ast::Expr& expr, const CValue& value);
  // A variable, a member of `this` or an enumerator in scope; nullopt: the name is none of them.
  absl::StatusOr<std::optional<CValue>> Object(const ast::Expr& expr, const std::string& name);
  absl::StatusOr<std::optional<CValue>> Global(const ast::Expr& expr, const std::string& name);
  absl::StatusOr<std::optional<CValue>> Enumerator(const std::string& name, bool anywhere);
  // `exactly`: not one of that name in some namespace or class, as a constructor is.
  absl::StatusOr<std::optional<CValue>> Function(const ast::Expr& expr, const std::string& name,
                                                 bool exactly);
  absl::Status UnknownName(const ast::Expr& expr, const std::string& name);
  absl::StatusOr<CValue> Arithmetic(const ast::Expr& expr, ast::BinaryOp op, Number a, Number b);
  absl::StatusOr<CValue> PointerPlus(const ast::Expr& expr, const CValue& pointer, __int128 count);
  CValue FromNumber(const CType* type, __int128 n) const;
  CValue FromFloat(const CType* type, long double f) const;
  // The number as one of another scalar type.
  CValue Converted(const Number& n, const CType* type) const;
  absl::Status Here(absl::Status status) {
    failed_here_ = true;
    return status;
  }
  absl::Status NoValue(ast::Range range, std::string_view missing);

  const ProcessTypes& context_;
  const TypeSpace& types_;
  Moment* moment_;
  FrameState* frame_;
  ValueReader reader_;
  Names names_, arguments_;
  bool look_back_ = true;
  int depth_ = 0;
  bool failed_here_ = false, unknown_ = false;
  std::string unknown_name_, untyped_;
};

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_EVALUATOR_H_
