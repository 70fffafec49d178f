// SPDX-License-Identifier: MIT

#include "query/language/ast_walk.h"

#include <memory>
#include <variant>
#include <vector>

namespace ttq::ast {
namespace {

struct Cloner {
  using Node = decltype(Expr::node);
  Node operator()(const Unary& n) const { return Unary{n.op, Clone(n.operand)}; }
  Node operator()(const Binary& n) const { return Binary{n.op, Clone(n.left), Clone(n.right)}; }
  Node operator()(const Ternary& n) const {
    return Ternary{Clone(n.condition), Clone(n.then), Clone(n.otherwise)};
  }
  Node operator()(const Cast& n) const { return Cast{n.type, Clone(n.operand)}; }
  Node operator()(const SizeofExpr& n) const { return SizeofExpr{Clone(n.operand)}; }
  Node operator()(const Member& n) const {
    return Member{Clone(n.object), n.member, n.arrow, n.member_range};
  }
  Node operator()(const Index& n) const { return Index{Clone(n.object), Clone(n.index)}; }
  Node operator()(const Call& n) const {
    return Call{n.function, n.function_range, All(n.arguments)};
  }
  Node operator()(const InList& n) const {
    return InList{Clone(n.operand), All(n.values), n.negated};
  }
  Node operator()(const Between& n) const {
    return Between{Clone(n.operand), Clone(n.low), Clone(n.high), n.negated};
  }
  Node operator()(const Matches& n) const {
    return Matches{Clone(n.operand), n.pattern, n.negated};
  }
  Node operator()(const IsNull& n) const { return IsNull{Clone(n.operand), n.negated, n.or_zero}; }
  template <class Leaf>
  Node operator()(const Leaf& n) const {
    return n;
  }
  static std::vector<ExprPtr> All(const std::vector<ExprPtr>& from) {
    std::vector<ExprPtr> out;
    for (const ExprPtr& e : from) out.push_back(Clone(e));
    return out;
  }
};

struct OperandWalk {
  const std::function<void(const Expr&)>& use;

  void Into(const ExprPtr& e) const {
    if (e) use(*e);
  }
  void operator()(const Unary& n) const { Into(n.operand); }
  void operator()(const Binary& n) const { Into(n.left), Into(n.right); }
  void operator()(const Ternary& n) const { Into(n.condition), Into(n.then), Into(n.otherwise); }
  void operator()(const Cast& n) const { Into(n.operand); }
  void operator()(const SizeofExpr& n) const { Into(n.operand); }
  void operator()(const Member& n) const { Into(n.object); }
  void operator()(const Index& n) const { Into(n.object), Into(n.index); }
  void operator()(const Call& n) const {
    for (const auto& a : n.arguments) Into(a);
  }
  void operator()(const InList& n) const {
    Into(n.operand);
    for (const auto& v : n.values) Into(v);
  }
  void operator()(const Between& n) const { Into(n.operand), Into(n.low), Into(n.high); }
  void operator()(const Matches& n) const { Into(n.operand); }
  void operator()(const IsNull& n) const { Into(n.operand); }
  template <class Leaf>
  void operator()(const Leaf&) const {}
};

}  // namespace

ExprPtr Clone(const ExprPtr& expr) { return expr ? Clone(*expr) : nullptr; }

ExprPtr Clone(const Expr& expr) {
  auto copy = std::make_unique<Expr>();
  copy->range = expr.range;
  copy->node = std::visit(Cloner{}, expr.node);
  return copy;
}

void ForEachOperand(const Expr& expr, const std::function<void(const Expr&)>& use) {
  std::visit(OperandWalk{use}, expr.node);
}

}  // namespace ttq::ast
