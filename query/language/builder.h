// SPDX-License-Identifier: MIT
//
// ANTLR's parse tree → ast::Query. What the grammar accepts and the language does not (a clause
// with the wrong source, numbers out of range) is refused here; the first such error wins.

#ifndef TTQ_QUERY_LANGUAGE_BUILDER_H_
#define TTQ_QUERY_LANGUAGE_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "antlr4-runtime.h"
#include "base/text.h"
#include "grammar/TtqParser.h"
#include "query/language/ast.h"
#include "query/language/diagnostic.h"
#include "query/language/parser.h"

namespace ttq::internal {

using grammar::TtqParser;
using Tree = antlr4::ParserRuleContext;

template <class Context>
Context* As(antlr4::tree::ParseTree* tree) {
  return dynamic_cast<Context*>(tree);
}

// Where the values of parameters come from.
enum class Binding {
  kValues,  // from the caller, one per parameter
  kNone,    // nowhere: a parameter is an error
  kLater,   // not known yet: a parameter stands for whatever could stand there
};

class Builder {
 public:
  // `values` is only read for kValues, and must outlive the builder.
  Builder(std::string_view text, Binding binding, const std::vector<ParameterValue>& values)
      : text_(text), binding_(binding), values_(values) {}

  // Numbers the parameters below `tree`. REQUIRES: called before Build.
  void FindParameters(antlr4::tree::ParseTree* tree);
  std::vector<Parameter> TakeParameters() { return std::move(parameters_); }

  // The first thing that the grammar let pass and the language does not.
  std::optional<Diagnostic> TakeError() { return std::exchange(error_, std::nullopt); }

  ast::Query Build(TtqParser::QueryContext* context);

 private:
  // ---- Text and numbers ----

  static ast::Range RangeOf(Tree* context) {
    return {static_cast<uint32_t>(context->start->getStartIndex()),
            static_cast<uint32_t>(context->stop->getStopIndex() + 1)};
  }
  static ast::Range RangeOf(antlr4::tree::TerminalNode* node) { return RangeOf(node->getSymbol()); }
  static ast::Range RangeOf(const antlr4::Token* token) {
    return {static_cast<uint32_t>(token->getStartIndex()),
            static_cast<uint32_t>(token->getStopIndex() + 1)};
  }
  std::string_view Text(ast::Range range) const {
    return text_.substr(range.begin, range.end - range.begin);
  }
  template <class Node>
  std::string_view Text(Node* node) const {
    return Text(RangeOf(node));
  }

  void Fail(ast::Range range, std::string message, std::string hint = "") {
    if (error_) return;
    error_ = Diagnostic{std::move(message), range.begin, range.end, std::move(hint)};
  }

  // ---- Parameters ----

  // Null when there is no value (and then the error is noted, unless it comes later).
  const ParameterValue* ValueOf(TtqParser::ParameterContext* context);

  void WrongKind(TtqParser::ParameterContext* context, const char* wanted,
                 const ParameterValue& value);

  ast::Number NumberOf(TtqParser::ParameterContext* context);

  // A text, or a name without what it would be quoted in.
  std::string TextOf(TtqParser::ParameterContext* context);

  // Text may be a glob, a name is not.
  ast::Pattern PatternOf(TtqParser::ParameterContext* context, bool always_glob);

  // Whether a value of this kind is bound, without complaint when none is.
  template <class Kind>
  bool BoundTo(TtqParser::ParameterContext* context) const {
    if (binding_ != Binding::kValues) return false;
    const size_t number = number_of_parameter_at_.at(RangeOf(context).begin);
    return number < values_.size() && std::holds_alternative<Kind>(values_[number]);
  }

  ast::ExprPtr ExprOf(TtqParser::ParameterContext* context);

  // ---- Numbers and text ----

  ast::Number BuildNumber(TtqParser::NumberContext* context) {
    if (context->parameter() != nullptr) return NumberOf(context->parameter());
    return BuildNumber(context->Number());
  }

  ast::Number BuildNumber(antlr4::tree::TerminalNode* node);

  template <class Node>
  uint64_t PositiveNumber(Node* node, const char* message) {
    const uint64_t value = BuildNumber(node).value;
    if (value == 0) Fail(RangeOf(node), message);
    return value;
  }

  // The bytes that a quoted text stands for. An unknown escape stands for itself, backslash
  // included, so that globs and regexes can be written as they are.
  static std::string Unescape(std::string_view quoted);

  std::string WordText(Tree* word) const {
    std::string_view text = Text(word);
    if (text.front() == '`') text = text.substr(1, text.size() - 2);
    return std::string(text);
  }

  // A name of several tokens without the spaces and backticks between them.
  std::string JoinedText(antlr4::tree::ParseTree* tree) const;

  // What must be written without spaces: file names, module names.
  std::string TightText(Tree* context, const char* what);

  // ---- Patterns, functions, places ----

  ast::Pattern RegexPattern(antlr4::tree::TerminalNode* node);

  ast::Pattern TextPattern(antlr4::tree::TerminalNode* node, bool always_glob) {
    return TextPattern(RangeOf(node), Unescape(Text(node)), always_glob);
  }

  ast::Pattern TextPattern(ast::Range range, std::string text, bool always_glob);

  ast::Pattern NamePattern(Tree* context, std::string name);

  ast::FunctionPattern BuildFunction(TtqParser::FunctionContext* context);

  ast::FileLine BuildFileLine(TtqParser::FileLineContext* context);

  ast::Place BuildPlace(TtqParser::PlaceContext* context);

  // ---- Locations and times ----

  ast::Location BuildLocation(TtqParser::LocationContext* context);

  ast::Time BuildTime(TtqParser::TimeContext* context);

  ast::Time BuildTimeStart(TtqParser::TimeStartContext* context);

  // (TIME) or (QUERY).
  template <class Context>
  ast::Time BuildMoment(Context* context) {
    if (context->time() != nullptr) return BuildTime(context->time());
    ast::Time time;
    time.range = RangeOf(context->query());
    time.kind = ast::Time::Kind::kQuery;
    time.query = std::make_unique<ast::Query>(Build(context->query()));
    return time;
  }

  // ---- Clauses ----

  void AddClause(TtqParser::ClauseContext* context, const ast::Source& source, unsigned allowed,
                 ast::Clauses* clauses);

  template <class Context>
  std::variant<ast::FunctionPattern, ast::FileLine> BuildFunctionOrLine(Context* context) {
    if (context->fileLine() != nullptr) return BuildFileLine(context->fileLine());
    return BuildFunction(context->function());
  }

  // ---- Sources ----

  ast::ObjectAddress BuildObject(TtqParser::ObjectAddressContext* context);

  std::string TypeText(TtqParser::TypeRefContext* context);

  template <class Context>
  static ast::Accesses::Mode ModeOf(Context* context) {
    return context->Last() != nullptr    ? ast::Accesses::Mode::kLast
           : context->First() != nullptr ? ast::Accesses::Mode::kFirst
           : context->Next() != nullptr  ? ast::Accesses::Mode::kNext
                                         : ast::Accesses::Mode::kAll;
  }

  ast::Source BuildSource(TtqParser::SourceContext* context);

  template <class Context>
  ast::Source CreatedOrFreed(Context* context) {
    if (context->Freed()) return ast::Deallocation{BuildObject(context->objectAddress())};
    return ast::Creation{BuildObject(context->objectAddress())};
  }

  ast::Source BuildEvents(TtqParser::EventKindContext* kind);

  ast::Source BuildChanges(TtqParser::ArithContext* context);

  // ---- Stages ----

  std::vector<ast::ExprPtr> BuildExprs(const std::vector<TtqParser::ExprContext*>& contexts) {
    std::vector<ast::ExprPtr> result;
    for (auto* context : contexts) result.push_back(BuildExpr(context));
    return result;
  }

  ast::Stage BuildStage(TtqParser::StageContext* context);

  // ---- Expressions ----

  template <class Node>
  static ast::ExprPtr Make(ast::Range range, Node node) {
    auto expr = std::make_unique<ast::Expr>();
    expr->range = range;
    expr->node = std::move(node);
    return expr;
  }

  static ast::BinaryOp OperatorOf(Tree* context);

  ast::ExprPtr BinaryExpr(Tree* context, ast::ExprPtr left, ast::ExprPtr right);

  ast::ExprPtr BuildExpr(TtqParser::ExprContext* context);

  ast::ExprPtr BuildArith(TtqParser::ArithContext* context);

  ast::ExprPtr BuildCast(TtqParser::CastContext* context);

  // The words of a type in one spacing, without const and volatile.
  ast::TypeName BuildType(TtqParser::StrictTypeContext* context);

  ast::ExprPtr BuildPostfix(TtqParser::PostfixContext* context);

  ast::ExprPtr BuildPrimary(TtqParser::PrimaryContext* context);

  std::string_view text_;
  const Binding binding_;
  const std::vector<ParameterValue>& values_;
  std::vector<Parameter> parameters_;  // in the order of the text
  std::map<uint32_t, size_t> number_of_parameter_at_;
  std::map<std::string, size_t> number_of_name_;
  std::optional<Diagnostic> error_;
};

}  // namespace ttq::internal

#endif  // TTQ_QUERY_LANGUAGE_BUILDER_H_
