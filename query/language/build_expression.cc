// SPDX-License-Identifier: MIT

#include <charconv>
#include <cstdlib>

#include "query/language/builder.h"

namespace ttq::internal {

ast::BinaryOp Builder::OperatorOf(Tree* context) {
  using P = TtqParser;
  using Op = ast::BinaryOp;
  switch (As<antlr4::tree::TerminalNode>(context->children[1])->getSymbol()->getType()) {
    case P::Star:
      return Op::kMul;
    case P::Slash:
      return Op::kDiv;
    case P::Percent:
      return Op::kMod;
    case P::Plus:
      return Op::kAdd;
    case P::Minus:
      return Op::kSub;
    case P::ShiftLeft:
      return Op::kShiftLeft;
    case P::Less:
      return Op::kLess;
    case P::LessEqual:
      return Op::kLessEqual;
    // In an arith it is the first half of `>>`.
    case P::Greater:
      return As<P::ArithContext>(context) ? Op::kShiftRight : Op::kGreater;
    case P::GreaterEqual:
      return Op::kGreaterEqual;
    case P::Equal:
      return Op::kEqual;
    case P::NotEqual:
      return Op::kNotEqual;
    case P::Ampersand:
      return Op::kBitAnd;
    case P::Caret:
      return Op::kBitXor;
    case P::BitOr:
      return Op::kBitOr;
    case P::And:
    case P::AndAnd:
      return Op::kAnd;
    default:
      return Op::kOr;
  }
}

ast::ExprPtr Builder::BinaryExpr(Tree* context, ast::ExprPtr left, ast::ExprPtr right) {
  const ast::BinaryOp op = OperatorOf(context);
  const bool equality = op == ast::BinaryOp::kEqual || op == ast::BinaryOp::kNotEqual;
  if (equality && std::holds_alternative<ast::Null>(right->node)) {
    return Make(RangeOf(context),
                ast::IsNull{std::move(left), op == ast::BinaryOp::kNotEqual, true});
  }
  return Make(RangeOf(context), ast::Binary{op, std::move(left), std::move(right)});
}

ast::ExprPtr Builder::BuildExpr(TtqParser::ExprContext* context) {
  using P = TtqParser;
  const ast::Range range = RangeOf(context);
  if (auto* c = As<P::PlainExprContext>(context)) return BuildArith(c->arith());
  if (auto* c = As<P::InExprContext>(context)) {
    ast::InList in;
    in.negated = c->Not() != nullptr;
    for (auto* value : c->expr()) {
      (in.operand == nullptr ? in.operand : in.values.emplace_back()) = BuildExpr(value);
    }
    return Make(range, std::move(in));
  }
  if (auto* c = As<P::BetweenExprContext>(context)) {
    return Make(range, ast::Between{BuildExpr(c->expr()), BuildArith(c->arith(0)),
                                    BuildArith(c->arith(1)), c->Not() != nullptr});
  }
  if (auto* c = As<P::MatchesExprContext>(context)) {
    return Make(range, ast::Matches{BuildExpr(c->expr()),
                                    c->parameter() != nullptr ? PatternOf(c->parameter(), true)
                                    : c->Regex() != nullptr   ? RegexPattern(c->Regex())
                                                              : TextPattern(c->Text(), true),
                                    c->Not() != nullptr});
  }
  if (auto* c = As<P::IsNullExprContext>(context)) {
    return Make(range, ast::IsNull{BuildExpr(c->expr()), c->Not() != nullptr, false});
  }
  if (auto* c = As<P::NotExprContext>(context)) {
    return Make(range, ast::Unary{ast::UnaryOp::kNot, BuildExpr(c->expr())});
  }
  if (auto* c = As<P::TernaryExprContext>(context)) {
    return Make(range,
                ast::Ternary{BuildExpr(c->expr(0)), BuildExpr(c->expr(1)), BuildExpr(c->expr(2))});
  }
  // All the others are EXPR op EXPR.
  return BinaryExpr(context, BuildExpr(As<P::ExprContext>(context->children.front())),
                    BuildExpr(As<P::ExprContext>(context->children.back())));
}

ast::ExprPtr Builder::BuildArith(TtqParser::ArithContext* context) {
  using P = TtqParser;
  const ast::Range range = RangeOf(context);
  if (auto* c = As<P::PostfixArithContext>(context)) return BuildPostfix(c->postfix());
  if (auto* c = As<P::CastArithContext>(context)) return BuildCast(c->cast());
  if (auto* c = As<P::PrefixArithContext>(context)) {
    ast::ExprPtr operand = BuildArith(c->arith());
    switch (c->start->getType()) {
      case P::Plus:
        return Make(range, ast::Unary{ast::UnaryOp::kPlus, std::move(operand)});
      case P::Minus:
        return Make(range, ast::Unary{ast::UnaryOp::kMinus, std::move(operand)});
      case P::Tilde:
        return Make(range, ast::Unary{ast::UnaryOp::kBitNot, std::move(operand)});
      case P::Bang:
        return Make(range, ast::Unary{ast::UnaryOp::kNot, std::move(operand)});
      case P::Star:
        return Make(range, ast::Unary{ast::UnaryOp::kDereference, std::move(operand)});
      default:
        return Make(range, ast::Unary{ast::UnaryOp::kAddress, std::move(operand)});
    }
  }
  if (auto* c = As<P::StrictCastArithContext>(context)) {
    return Make(range, ast::Cast{BuildType(c->strictType()), BuildArith(c->arith())});
  }
  if (auto* c = As<P::SizeofTypeArithContext>(context)) {
    return Make(range, ast::SizeofType{BuildType(c->strictType())});
  }
  if (auto* c = As<P::SizeofArithContext>(context)) {
    return Make(range, ast::SizeofExpr{BuildPostfix(c->postfix())});
  }
  return BinaryExpr(context, BuildArith(As<P::ArithContext>(context->children.front())),
                    BuildArith(As<P::ArithContext>(context->children.back())));
}

ast::ExprPtr Builder::BuildCast(TtqParser::CastContext* context) {
  ast::TypeName type;
  type.range = RangeOf(context->qualifiedName());
  type.name = JoinedText(context->qualifiedName());
  ast::ExprPtr operand =
      context->postfix() != nullptr ? BuildPostfix(context->postfix()) : BuildCast(context->cast());
  return Make(RangeOf(context), ast::Cast{std::move(type), std::move(operand)});
}

ast::TypeName Builder::BuildType(TtqParser::StrictTypeContext* context) {
  ast::TypeName type;
  type.range = RangeOf(context);
  type.name =
      JoinedText(context->basicType() != nullptr ? static_cast<Tree*>(context->basicType())
                                                 : static_cast<Tree*>(context->typeNameRef()));
  type.pointers = static_cast<uint32_t>(context->pointer().size());
  if (context->Number() != nullptr) {
    type.elements = PositiveNumber(context->Number(), "an array of no elements");
  }
  return type;
}

ast::ExprPtr Builder::BuildPostfix(TtqParser::PostfixContext* context) {
  ast::ExprPtr expr = BuildPrimary(context->primary());
  const uint32_t begin = RangeOf(context).begin;
  for (auto* postfix : context->postfixOperator()) {
    const ast::Range range{begin, RangeOf(postfix).end};
    if (postfix->expr() != nullptr) {
      expr = Make(range, ast::Index{std::move(expr), BuildExpr(postfix->expr())});
    } else {
      expr = Make(range, ast::Member{std::move(expr), WordText(postfix->word()),
                                     postfix->Arrow() != nullptr, RangeOf(postfix->word())});
    }
  }
  return expr;
}

ast::ExprPtr Builder::BuildPrimary(TtqParser::PrimaryContext* context) {
  using P = TtqParser;
  const ast::Range range = RangeOf(context);
  if (auto* c = As<P::NumberPrimaryContext>(context)) {
    return Make(range, BuildNumber(c->Number()));
  }
  if (auto* c = As<P::ParameterPrimaryContext>(context)) return ExprOf(c->parameter());
  if (As<P::FloatPrimaryContext>(context)) {
    ast::Float number;
    const std::string_view text = Text(context);
    number.is_float = text.back() == 'f' || text.back() == 'F';
    const char* const end = text.data() + text.size() - number.is_float;
    float single = 0;
    const std::errc error = number.is_float ? std::from_chars(text.data(), end, single).ec
                                            : std::from_chars(text.data(), end, number.value).ec;
    if (error != std::errc()) Fail(range, "the number is out of range");
    if (number.is_float) number.value = single;
    return Make(range, number);
  }
  if (As<P::CharPrimaryContext>(context)) {
    std::string value = Unescape(Text(context));
    if (value.size() == 1) {
      return Make(range, ast::Character{static_cast<unsigned char>(value[0])});
    }
    return Make(range, ast::String{std::move(value)});
  }
  if (As<P::TextPrimaryContext>(context)) return Make(range, ast::String{Unescape(Text(context))});
  if (As<P::RegisterPrimaryContext>(context)) {
    return Make(range, ast::Register{Lower(Text(context).substr(1))});
  }
  if (As<P::NullPrimaryContext>(context)) return Make(range, ast::Null{});
  if (auto* c = As<P::CallPrimaryContext>(context)) {
    return Make(range, ast::Call{JoinedText(c->qualifiedName()), RangeOf(c->qualifiedName()),
                                 BuildExprs(c->expr())});
  }
  if (auto* c = As<P::NamePrimaryContext>(context)) {
    return Make(range, ast::Name{JoinedText(c->qualifiedName())});
  }
  return BuildExpr(As<P::ParenPrimaryContext>(context)->expr());
}

}  // namespace ttq::internal
