// SPDX-License-Identifier: MIT
//
// Tokens (query/tokens.h) → ANTLR's parse tree → ast::Query, at once: nothing of ANTLR leaves this
// file. Parsing stops at the first error, which query/syntax_error.h then explains. What the
// grammar accepts and the language does not (a clause with the wrong source, numbers out of range)
// is refused while the tree is built; the first such error wins.

#include "query/parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "antlr4-runtime.h"
#include "grammar/TtqParser.h"
#include "query/diagnostic.h"
#include "query/syntax_error.h"
#include "query/text.h"
#include "query/tokens.h"
#include "re2/re2.h"

namespace ttq {
namespace {

using grammar::TtqParser;
using internal::Statement;
using Tree = antlr4::ParserRuleContext;

constexpr size_t kMaxParameters = 1000;
// Beyond it no words are proposed: trying each costs a parse.
constexpr size_t kMaxProbedTokens = 100;
constexpr size_t kMaxRegexBytes = 4096;
constexpr int64_t kMaxRegexMemory = 1 << 20;

// ---- Driving ANTLR ---------------------------------------------------------------------------

// Ends the parse at the first error and remembers the token.
class StopAtFirstError : public antlr4::DefaultErrorStrategy {
 public:
  void recover(antlr4::Parser* parser, std::exception_ptr error) override {
    antlr4::Token* token = parser->getCurrentToken();
    try {
      std::rethrow_exception(error);
    } catch (const antlr4::RecognitionException& e) {
      if (e.getOffendingToken() != nullptr) token = e.getOffendingToken();
    }
    Stop(token);
  }
  antlr4::Token* recoverInline(antlr4::Parser* parser) override { Stop(parser->getCurrentToken()); }
  void sync(antlr4::Parser*) override {}
  void reportError(antlr4::Parser*, const antlr4::RecognitionException&) override {}

  size_t bad_token() const { return bad_token_; }

 private:
  [[noreturn]] void Stop(const antlr4::Token* token) {
    bad_token_ = token->getTokenIndex();
    throw antlr4::ParseCancellationException();
  }

  size_t bad_token_ = 0;
};

// One statement's tokens and parser. The tree lives as long as this.
class Parse {
 public:
  explicit Parse(const Statement& statement)
      : source_(Copy(statement)), stream_(&source_), parser_(&stream_) {
    parser_.removeErrorListeners();
    strategy_ = std::make_shared<StopAtFirstError>();
    parser_.setErrorHandler(strategy_);
  }

  // The tree; null if the statement is not in the grammar, and then bad_token() says where.
  TtqParser::StatementContext* Run() {
    // SLL is fast but may refuse a sentence of the language; LL never does.
    for (const auto mode : {antlr4::atn::PredictionMode::SLL, antlr4::atn::PredictionMode::LL}) {
      parser_.getInterpreter<antlr4::atn::ParserATNSimulator>()->setPredictionMode(mode);
      parser_.reset();
      try {
        return parser_.statement();
      } catch (const antlr4::ParseCancellationException&) {
      }
    }
    return nullptr;
  }
  size_t bad_token() const { return strategy_->bad_token(); }

 private:
  static std::vector<std::unique_ptr<antlr4::Token>> Copy(const Statement& statement) {
    TtqParser::ReadTables();
    std::vector<std::unique_ptr<antlr4::Token>> tokens;
    const auto add = [&](size_t type, uint32_t begin, uint32_t end) {
      tokens.push_back(std::make_unique<antlr4::CommonToken>(
          std::pair<antlr4::TokenSource*, antlr4::CharStream*>(nullptr, nullptr), type,
          antlr4::Token::DEFAULT_CHANNEL, begin, static_cast<size_t>(end) - 1));
    };
    for (const internal::Token& token : statement) add(token.type, token.begin, token.end);
    const uint32_t end = statement.empty() ? 0 : statement.back().end;
    add(antlr4::Token::EOF, end, end);
    return tokens;
  }

  antlr4::ListTokenSource source_;
  antlr4::CommonTokenStream stream_;
  TtqParser parser_;
  std::shared_ptr<StopAtFirstError> strategy_;
};

std::optional<size_t> FirstBadToken(const Statement& statement) {
  Parse parse(statement);
  if (parse.Run() != nullptr) return std::nullopt;
  return parse.bad_token();
}

// ---- Building the tree -----------------------------------------------------------------------

template <class Context>
Context* As(antlr4::tree::ParseTree* tree) {
  return dynamic_cast<Context*>(tree);
}

// The clauses that go with each source; bits.
enum Allowed : unsigned {
  kAt = 1,
  kSpan = 2,
  kThread = 4,
  kAllThreads = 8,
  kFrame = 16,
  kBy = 32,
  kIn = 64,
  kDepth = 128,
  kMixed = 256,
  kByPython = 512,
};

unsigned AllowedClauses(const ast::Source& source) {
  constexpr unsigned kState = kAt | kThread | kAllThreads | kFrame;
  struct Visitor {
    unsigned operator()(const ast::Accesses&) {
      return kAt | kSpan | kThread | kFrame | kBy | kByPython;
    }
    unsigned operator()(const ast::Memory&) { return kAt | kThread | kFrame; }
    unsigned operator()(const ast::Print&) { return kAt | kThread | kFrame; }
    unsigned operator()(const ast::ShowRegisters&) { return kAt | kThread | kAllThreads; }
    unsigned operator()(const ast::Backtrace&) { return kAt | kThread | kAllThreads | kMixed; }
    unsigned operator()(const ast::ShowSource&) { return kAt | kThread | kFrame; }
    unsigned operator()(const ast::Disassemble&) { return kAt; }
    unsigned operator()(const ast::Threads&) { return kAt; }
    unsigned operator()(const ast::Modules&) { return kAt; }
    unsigned operator()(const ast::Maps&) { return kAt; }
    unsigned operator()(const ast::Events&) { return kSpan | kThread | kByPython; }
    unsigned operator()(const ast::Executions&) { return kSpan | kThread | kByPython; }
    unsigned operator()(const ast::Calls&) { return kSpan | kThread | kBy | kByPython; }
    unsigned operator()(const ast::Crash&) { return 0; }
    unsigned operator()(const ast::PyBacktrace&) { return kState; }
    unsigned operator()(const ast::PyLocals&) { return kState; }
    unsigned operator()(const ast::PySource&) { return kState; }
    unsigned operator()(const ast::PyPrint&) { return kAt | kThread | kFrame; }
    unsigned operator()(const ast::PyCalls&) { return kSpan | kThread; }
    unsigned operator()(const ast::PyExecutions&) { return kSpan | kThread; }
    unsigned operator()(const ast::PyChanges&) { return kSpan | kThread | kIn; }
    unsigned operator()(const ast::PyExceptions&) { return kSpan | kThread; }
    unsigned operator()(const ast::Creation&) { return kSpan; }
    unsigned operator()(const ast::Deallocation&) { return kSpan; }
    unsigned operator()(const ast::Lifetime&) { return kSpan; }
    unsigned operator()(const ast::Refcounts&) { return kSpan; }
    unsigned operator()(const ast::Object&) { return kAt; }
    unsigned operator()(const ast::ObjectsOfType&) { return kAt; }
    unsigned operator()(const ast::Heap&) { return kAt; }
    unsigned operator()(const ast::HeapLeaks&) { return kAt; }
    unsigned operator()(const ast::Why&) { return kAt; }
    unsigned operator()(const ast::Origin&) { return kAt | kThread | kFrame | kDepth; }
  };
  return std::visit(Visitor{}, source);
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
  void FindParameters(antlr4::tree::ParseTree* tree) {
    auto* parameter = As<TtqParser::ParameterContext>(tree);
    if (parameter == nullptr) {
      for (antlr4::tree::ParseTree* child : tree->children) FindParameters(child);
      return;
    }
    const ast::Range range = RangeOf(parameter);
    Parameter found{parameter->word() == nullptr ? "" : WordText(parameter->word()), range};
    if (range.begin + 1 != range.end && RangeOf(parameter->word()).begin != range.begin + 1) {
      Fail(range, "a parameter is written without a space after the colon");
    }
    size_t number = parameters_.size();
    if (!found.name.empty()) number = number_of_name_.try_emplace(found.name, number).first->second;
    if (number == parameters_.size()) parameters_.push_back(std::move(found));
    if (parameters_.size() > kMaxParameters) Fail(range, "too many parameters: more than 1000");
    number_of_parameter_at_[range.begin] = number;
  }
  std::vector<Parameter> TakeParameters() { return std::move(parameters_); }

  // The first thing that the grammar let pass and the language does not.
  std::optional<Diagnostic> TakeError() { return std::exchange(error_, std::nullopt); }

  ast::Query Build(TtqParser::QueryContext* context) {
    ast::Query query;
    query.range = query.source_range = RangeOf(context);
    query.source = BuildSource(context->source());
    query.source_range.end = RangeOf(context->source()).end;
    const unsigned allowed = AllowedClauses(query.source);
    for (auto* clause : context->clause()) {
      AddClause(clause, query.source, allowed, &query.clauses);
      query.source_range.end = RangeOf(clause).end;
    }
    if (context->Where() != nullptr) {
      ast::Stage stage;
      stage.range = {RangeOf(context->Where()).begin, RangeOf(context->expr()).end};
      stage.what = ast::Where{BuildExpr(context->expr())};
      query.stages.push_back(std::move(stage));
    }
    for (auto* stage : context->stage()) query.stages.push_back(BuildStage(stage));
    return query;
  }

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
  const ParameterValue* ValueOf(TtqParser::ParameterContext* context) {
    if (binding_ == Binding::kLater) return nullptr;
    const ast::Range range = RangeOf(context);
    if (binding_ == Binding::kNone) {
      Fail(range, Cat("'", Text(range), "' stands for a value, which only a program can give"));
      return nullptr;
    }
    const size_t number = number_of_parameter_at_.at(range.begin);
    if (number < values_.size() && !std::holds_alternative<std::monostate>(values_[number])) {
      return &values_[number];
    }
    Fail(range, Cat("no value is bound to '", Text(range), "'"));
    return nullptr;
  }

  void WrongKind(TtqParser::ParameterContext* context, const char* wanted,
                 const ParameterValue& value) {
    constexpr const char* kKinds[] = {"nothing",    "a number", "a number",
                                      "a fraction", "text",     "a name"};
    Fail(RangeOf(context), Cat("'", Text(context), "' must be ", wanted, " here, and ",
                               kKinds[value.index()], " is bound to it"));
  }

  ast::Number NumberOf(TtqParser::ParameterContext* context) {
    const ParameterValue* value = ValueOf(context);
    if (value == nullptr) return {1};
    if (const auto* number = std::get_if<uint64_t>(value)) return {*number};
    const auto* number = std::get_if<int64_t>(value);
    if (number == nullptr) {
      WrongKind(context, "a number", *value);
    } else if (*number < 0) {
      Fail(RangeOf(context),
           Cat("'", Text(context), "' cannot be negative here, but ", *number, " is bound to it"));
    } else {
      return {static_cast<uint64_t>(*number)};
    }
    return {1};
  }

  // A text, or a name without what it would be quoted in.
  std::string TextOf(TtqParser::ParameterContext* context) {
    const ParameterValue* value = ValueOf(context);
    if (value == nullptr) return "x";
    if (const auto* text = std::get_if<std::string>(value)) return *text;
    if (const auto* name = std::get_if<ast::Name>(value)) return name->name;
    WrongKind(context, "text or a name", *value);
    return "x";
  }

  // Text may be a glob, a name is not.
  ast::Pattern PatternOf(TtqParser::ParameterContext* context, bool always_glob) {
    const bool is_name = BoundTo<ast::Name>(context);
    std::string text = TextOf(context);
    if (is_name) return NamePattern(context, std::move(text));
    return TextPattern(RangeOf(context), std::move(text), always_glob);
  }

  // Whether a value of this kind is bound, without complaint when none is.
  template <class Kind>
  bool BoundTo(TtqParser::ParameterContext* context) const {
    if (binding_ != Binding::kValues) return false;
    const size_t number = number_of_parameter_at_.at(RangeOf(context).begin);
    return number < values_.size() && std::holds_alternative<Kind>(values_[number]);
  }

  ast::ExprPtr ExprOf(TtqParser::ParameterContext* context) {
    const ast::Range range = RangeOf(context);
    const ParameterValue* value = ValueOf(context);
    // Of a name nothing is known yet.
    if (value == nullptr) return Make(range, ast::Name{"x"});
    const auto negate = [&](ast::ExprPtr operand) {
      return Make(range, ast::Unary{ast::UnaryOp::kMinus, std::move(operand)});
    };
    if (const auto* number = std::get_if<uint64_t>(value)) return Make(range, ast::Number{*number});
    if (const auto* number = std::get_if<int64_t>(value)) {
      if (*number >= 0) return Make(range, ast::Number{static_cast<uint64_t>(*number)});
      return negate(Make(range, ast::Number{-static_cast<uint64_t>(*number)}));
    }
    if (const auto* number = std::get_if<double>(value)) {
      if (!std::isfinite(*number)) Fail(range, Cat("'", Text(range), "' must be finite"));
      if (!std::signbit(*number)) return Make(range, ast::Float{*number});
      return negate(Make(range, ast::Float{-*number}));
    }
    if (const auto* text = std::get_if<std::string>(value)) return Make(range, ast::String{*text});
    return Make(range, std::get<ast::Name>(*value));
  }

  // ---- Numbers and text ----

  ast::Number BuildNumber(TtqParser::NumberContext* context) {
    if (context->parameter() != nullptr) return NumberOf(context->parameter());
    return BuildNumber(context->Number());
  }

  ast::Number BuildNumber(antlr4::tree::TerminalNode* node) {
    std::string_view text = Text(node);
    ast::Number number;
    number.hex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
    if (number.hex) text.remove_prefix(2);
    while (!text.empty() && std::string_view("uUlL").find(text.back()) != text.npos) {
      text.remove_suffix(1);
    }
    if (!number.hex && text.size() > 1 && text[0] == '0') {
      Fail(RangeOf(node), "a decimal number does not begin with 0, and octal ones are not read");
    }
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data(), end, number.value, number.hex ? 16 : 10).ec != std::errc()) {
      Fail(RangeOf(node), "the number is too large: it does not fit 64 bits");
    }
    return number;
  }

  template <class Node>
  uint64_t PositiveNumber(Node* node, const char* message) {
    const uint64_t value = BuildNumber(node).value;
    if (value == 0) Fail(RangeOf(node), message);
    return value;
  }

  // The bytes that a quoted text stands for. An unknown escape stands for itself, backslash
  // included, so that globs and regexes can be written as they are.
  static std::string Unescape(std::string_view quoted) {
    const std::string_view body = quoted.substr(1, quoted.size() - 2);
    std::string result;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '\\' || i + 1 == body.size()) {
        result += body[i];
        continue;
      }
      switch (const char c = body[++i]) {
        case 'n':
          result += '\n';
          break;
        case 't':
          result += '\t';
          break;
        case 'r':
          result += '\r';
          break;
        case '0':
          result += '\0';
          break;
        case '\\':
        case '"':
        case '\'':
          result += c;
          break;
        case 'x': {
          unsigned value = 0;
          const char* begin = body.data() + i + 1;
          const size_t digits = std::min<size_t>(2, body.size() - i - 1);
          const auto [end, error] = std::from_chars(begin, begin + digits, value, 16);
          if (error == std::errc()) {
            result += static_cast<char>(value);
            i += end - begin;
          } else {
            result += "\\x";
          }
          break;
        }
        default:
          result += '\\';
          result += c;
      }
    }
    return result;
  }

  std::string WordText(Tree* word) const {
    std::string_view text = Text(word);
    if (text.front() == '`') text = text.substr(1, text.size() - 2);
    return std::string(text);
  }

  // A name of several tokens without the spaces and backticks between them.
  std::string JoinedText(antlr4::tree::ParseTree* tree) const {
    if (auto* node = As<antlr4::tree::TerminalNode>(tree)) {
      std::string_view text = Text(node);
      if (text.front() == '`') text = text.substr(1, text.size() - 2);
      return std::string(text);
    }
    std::string result;
    for (antlr4::tree::ParseTree* child : tree->children) {
      const std::string part = JoinedText(child);
      // `unsigned char` in a template's argument.
      if (!result.empty() && IsWordByte(result.back()) && IsWordByte(part.front())) result += ' ';
      result += part;
    }
    return result;
  }

  // What must be written without spaces: file names, module names.
  std::string TightText(Tree* context, const char* what) {
    const std::string_view text = Text(context);
    if (text.find_first_of(" \t\r\n#") != text.npos) {
      Fail(RangeOf(context), Cat(what, " with spaces in it is written as a string, \"…\""));
    }
    return std::string(text);
  }

  // ---- Patterns, functions, places ----

  ast::Pattern RegexPattern(antlr4::tree::TerminalNode* node) {
    ast::Pattern pattern;
    pattern.kind = ast::Pattern::Kind::kRegex;
    pattern.range = RangeOf(node);
    const std::string_view text = Text(node);
    const std::string_view body = text.substr(1, text.size() - 2);
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] == '\\' && i + 1 < body.size()) {
        if (body[++i] != '/') pattern.text += '\\';
      }
      pattern.text += body[i];
    }
    if (pattern.text.size() > kMaxRegexBytes) {
      Fail(pattern.range,
           Cat("the regular expression is too long: more than ", kMaxRegexBytes, " bytes"));
      return pattern;
    }
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(kMaxRegexMemory);
    const re2::RE2 regex(pattern.text, options);
    if (!regex.ok()) {
      std::string reason = regex.error();
      for (char& c : reason) {
        if (c == '\n' || c == '\r') c = ' ';
      }
      Fail(pattern.range, Cat("bad regular expression: ", reason));
    }
    return pattern;
  }

  ast::Pattern TextPattern(antlr4::tree::TerminalNode* node, bool always_glob) {
    return TextPattern(RangeOf(node), Unescape(Text(node)), always_glob);
  }

  ast::Pattern TextPattern(ast::Range range, std::string text, bool always_glob) {
    ast::Pattern pattern;
    pattern.range = range;
    pattern.text = std::move(text);
    const bool wild = pattern.text.find_first_of("*?[") != std::string::npos;
    pattern.kind = wild || always_glob ? ast::Pattern::Kind::kGlob : ast::Pattern::Kind::kName;
    if (pattern.text.empty()) Fail(pattern.range, "the pattern is empty");
    if (pattern.text.find('\0') != std::string::npos) {
      Fail(pattern.range, "the pattern contains a NUL byte");
    }
    return pattern;
  }

  ast::Pattern NamePattern(Tree* context, std::string name) {
    ast::Pattern pattern;
    pattern.range = RangeOf(context);
    pattern.text = std::move(name);
    return pattern;
  }

  ast::FunctionPattern BuildFunction(TtqParser::FunctionContext* context) {
    ast::FunctionPattern result;
    result.range = RangeOf(context);
    if (auto* module = context->module()) {
      if (module->parameter() != nullptr) {
        result.module = PatternOf(module->parameter(), false);
      } else if (module->Text() != nullptr) {
        result.module = TextPattern(module->Text(), false);
      } else if (module->Regex() != nullptr) {
        result.module = RegexPattern(module->Regex());
      } else if (module->QuotedName() != nullptr) {
        result.module = NamePattern(module, WordText(module));
      } else {
        result.module = NamePattern(module, TightText(module, "a module's name"));
        if (result.module->text.find('`') != std::string::npos) {
          result.module->text = JoinedText(module);
        }
      }
    }
    auto* name = context->functionName();
    if (name->parameter() != nullptr) {
      result.function = PatternOf(name->parameter(), false);
    } else if (name->Text() != nullptr) {
      result.function = TextPattern(name->Text(), false);
    } else if (name->Regex() != nullptr) {
      result.function = RegexPattern(name->Regex());
    } else {
      result.function = NamePattern(name, JoinedText(name));
    }
    return result;
  }

  ast::FileLine BuildFileLine(TtqParser::FileLineContext* context) {
    ast::FileLine result;
    result.range = RangeOf(context);
    if (context->file()->parameter() != nullptr) {
      result.file = TextOf(context->file()->parameter());
    } else if (context->file()->Text() != nullptr) {
      result.file = Unescape(Text(context->file()));
    } else if (context->file()->QuotedName() != nullptr) {
      result.file = WordText(context->file());
    } else {
      result.file = TightText(context->file(), "a file's name");
    }
    if (result.file.empty()) Fail(RangeOf(context->file()), "the file's name is empty");
    result.line = PositiveNumber(context->number(), "lines are numbered from 1");
    return result;
  }

  ast::Place BuildPlace(TtqParser::PlaceContext* context) {
    ast::Place place;
    place.range = RangeOf(context);
    if (context->fileLine() != nullptr) {
      place.what = BuildFileLine(context->fileLine());
    } else if (auto* function = context->function()) {
      auto* parameter = function->functionName()->parameter();
      const bool number = parameter != nullptr && function->module() == nullptr &&
                          (BoundTo<uint64_t>(parameter) || BoundTo<int64_t>(parameter));
      if (number) {
        place.what = NumberOf(parameter);
      } else {
        place.what = BuildFunction(function);
      }
    } else {
      place.what = BuildNumber(context->Number());
    }
    return place;
  }

  // ---- Locations and times ----

  ast::Location BuildLocation(TtqParser::LocationContext* context) {
    ast::Location location;
    location.range = RangeOf(context);
    location.start = BuildArith(context->arith(0));
    const auto* start = std::get_if<ast::Number>(&location.start->node);
    if (context->DotDot() != nullptr) {
      location.end = BuildArith(context->arith(1));
      const auto* end = std::get_if<ast::Number>(&location.end->node);
      if (start != nullptr && end != nullptr && end->value <= start->value) {
        Fail(location.range, "the range is empty: its end is excluded and must be above its start");
      }
    }
    if (context->Len() != nullptr) {
      location.length = PositiveNumber(context->number(), "a length of 0 names no memory");
      if (start != nullptr && *location.length - 1 > ~uint64_t{0} - start->value) {
        Fail(location.range, "the range goes beyond the end of the address space");
      }
    }
    return location;
  }

  ast::Time BuildTime(TtqParser::TimeContext* context) {
    ast::Time time = BuildTimeStart(context->timeStart());
    time.range = RangeOf(context);
    for (size_t i = 1; i + 1 < context->children.size(); i += 2) {
      auto* sign = As<antlr4::tree::TerminalNode>(context->children[i]);
      auto* node = As<TtqParser::NumberContext>(context->children[i + 1]);
      const uint64_t amount = BuildNumber(node).value;
      const bool minus = sign->getSymbol()->getType() == TtqParser::Minus;
      int64_t signed_amount = static_cast<int64_t>(amount);
      if (amount > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
          (minus ? __builtin_sub_overflow(time.offset, signed_amount, &time.offset)
                 : __builtin_add_overflow(time.offset, signed_amount, &time.offset))) {
        Fail(RangeOf(node), "the time is out of range");
      }
    }
    return time;
  }

  ast::Time BuildTimeStart(TtqParser::TimeStartContext* context) {
    if (context->time() != nullptr) return BuildTime(context->time());
    ast::Time time;
    if (auto* number = context->number()) {
      // A time that is not known yet must not make a span look empty.
      const bool later = number->parameter() != nullptr && binding_ == Binding::kLater;
      if (later) time.kind = ast::Time::Kind::kEnd;
      time.number = BuildNumber(number).value;
    } else if (context->Start() != nullptr) {
      time.kind = ast::Time::Kind::kStart;
    } else if (context->End() != nullptr) {
      time.kind = ast::Time::Kind::kEnd;
    } else if (context->Crash() != nullptr) {
      time.kind = ast::Time::Kind::kCrash;
    } else {
      time.kind = ast::Time::Kind::kQuery;
      time.query = std::make_unique<ast::Query>(Build(context->query()));
    }
    return time;
  }

  // ---- Clauses ----

  void AddClause(TtqParser::ClauseContext* context, const ast::Source& source, unsigned allowed,
                 ast::Clauses* clauses) {
    const ast::Range range = RangeOf(context);
    const auto claim = [&](unsigned kind, bool taken, const char* words) {
      const std::string name = ast::SourceName(source);
      if (!(allowed & kind)) {
        std::string message = Cat("'", words, "' does not go with '", name, "'");
        if (kind == kAt && (allowed & kSpan)) message += "; it takes before, after or between";
        if (kind == kSpan && (allowed & kAt)) message += "; it takes 'at TIME'";
        Fail(range, std::move(message));
      } else if (taken) {
        Fail(range, kind == kSpan ? "a query has one span: between TIME and TIME has two ends"
                                  : Cat("'", words, "' is given twice"));
      }
      return true;
    };
    if (auto* at = As<TtqParser::AtClauseContext>(context)) {
      claim(kAt, clauses->at.has_value(), "at");
      clauses->at = BuildTime(at->time());
    } else if (auto* before = As<TtqParser::BeforeClauseContext>(context)) {
      claim(kSpan, clauses->span.has_value(), "before");
      clauses->span = ast::Span{range, ast::Span::Kind::kBefore, BuildTime(before->time()), {}};
    } else if (auto* after = As<TtqParser::AfterClauseContext>(context)) {
      claim(kSpan, clauses->span.has_value(), "after");
      clauses->span = ast::Span{range, ast::Span::Kind::kAfter, BuildTime(after->time()), {}};
    } else if (auto* between = As<TtqParser::BetweenClauseContext>(context)) {
      claim(kSpan, clauses->span.has_value(), "between");
      ast::Span span{range, ast::Span::Kind::kBetween, BuildTime(between->time(0)),
                     BuildTime(between->time(1))};
      const auto plain = [](const ast::Time& t) {
        return t.kind == ast::Time::Kind::kNumber && t.offset == 0;
      };
      if (plain(span.first) && plain(*span.second) && span.second->number < span.first.number) {
        Fail(range, "the span is empty: the earlier time comes first");
      }
      clauses->span = std::move(span);
    } else if (auto* thread = As<TtqParser::ThreadClauseContext>(context)) {
      claim(kThread, clauses->thread.has_value(), "in thread");
      clauses->thread = ast::ThreadFilter{
          range, false, PositiveNumber(thread->number(), "threads are numbered from 1")};
    } else if (As<TtqParser::AllThreadsClauseContext>(context)) {
      claim(kAllThreads, clauses->thread.has_value(), "all threads");
      clauses->thread = ast::ThreadFilter{range, true, 0};
    } else if (auto* frame = As<TtqParser::FrameClauseContext>(context)) {
      claim(kFrame, clauses->frame.has_value(), "in frame");
      clauses->frame = ast::Numeral{range, BuildNumber(frame->number()).value};
    } else if (auto* python = As<TtqParser::ByPythonClauseContext>(context)) {
      claim(kByPython, clauses->by.has_value(), "by python");
      clauses->by = ast::By{range, true, BuildFunctionOrLine(python)};
    } else if (auto* by = As<TtqParser::ByClauseContext>(context)) {
      claim(kBy, clauses->by.has_value(), "by");
      clauses->by = ast::By{range, false, BuildFunction(by->function())};
    } else if (auto* in = As<TtqParser::InClauseContext>(context)) {
      if (!(allowed & kIn)) {
        Fail(range, allowed & kThread
                        ? "expected 'thread N' after 'in'"
                        : Cat("'in' does not go with '", ast::SourceName(source), "'"));
      }
      claim(kIn, clauses->in.has_value(), "in");
      clauses->in = BuildFunction(in->function());
    } else if (As<TtqParser::MixedClauseContext>(context)) {
      claim(kMixed, clauses->mixed, "mixed");
      clauses->mixed = true;
    } else if (auto* depth = As<TtqParser::DepthClauseContext>(context)) {
      claim(kDepth, clauses->depth.has_value(), "depth");
      clauses->depth =
          ast::Numeral{range, PositiveNumber(depth->number(), "a depth of 0 shows nothing")};
    }
  }

  template <class Context>
  std::variant<ast::FunctionPattern, ast::FileLine> BuildFunctionOrLine(Context* context) {
    if (context->fileLine() != nullptr) return BuildFileLine(context->fileLine());
    return BuildFunction(context->function());
  }

  // ---- Sources ----

  ast::ObjectAddress BuildObject(TtqParser::ObjectAddressContext* context) {
    ast::ObjectAddress object;
    object.range = RangeOf(context);
    object.address = BuildArith(context->arith());
    if (context->typeRef() != nullptr) {
      object.type_range = RangeOf(context->typeRef());
      object.type = TypeText(context->typeRef());
    }
    return object;
  }

  std::string TypeText(TtqParser::TypeRefContext* context) {
    std::string text = context->parameter() != nullptr ? TextOf(context->parameter())
                       : context->Text() != nullptr    ? Unescape(Text(context))
                                                       : JoinedText(context);
    if (text.empty()) Fail(RangeOf(context), "the type's name is empty");
    return text;
  }

  template <class Context>
  static ast::Accesses::Mode ModeOf(Context* context) {
    return context->Last() != nullptr    ? ast::Accesses::Mode::kLast
           : context->First() != nullptr ? ast::Accesses::Mode::kFirst
           : context->Next() != nullptr  ? ast::Accesses::Mode::kNext
                                         : ast::Accesses::Mode::kAll;
  }

  ast::Source BuildSource(TtqParser::SourceContext* context) {
    using P = TtqParser;
    using Kind = ast::Accesses::Kind;
    if (auto* c = As<P::AccessSourceContext>(context)) {
      const Kind kind = c->Write() || c->Writes() ? Kind::kWrites
                        : c->Read() || c->Reads() ? Kind::kReads
                                                  : Kind::kAccesses;
      return ast::Accesses{kind, ModeOf(c), BuildLocation(c->location())};
    }
    if (auto* c = As<P::WhoSourceContext>(context)) {
      return ast::Accesses{c->Wrote() ? Kind::kWrites : Kind::kReads, ModeOf(c),
                           BuildLocation(c->location())};
    }
    if (auto* c = As<P::MemorySourceContext>(context)) {
      return ast::Memory{BuildLocation(c->location())};
    }
    if (auto* c = As<P::PrintSourceContext>(context)) return ast::Print{BuildExpr(c->expr())};
    if (As<P::RegistersSourceContext>(context)) return ast::ShowRegisters{};
    if (As<P::BacktraceSourceContext>(context)) return ast::Backtrace{};
    if (As<P::SourceSourceContext>(context)) return ast::ShowSource{};
    if (auto* c = As<P::DisassembleSourceContext>(context)) {
      return ast::Disassemble{BuildPlace(c->place())};
    }
    if (As<P::ThreadsSourceContext>(context)) return ast::Threads{};
    if (As<P::ModulesSourceContext>(context)) return ast::Modules{};
    if (As<P::MapsSourceContext>(context)) return ast::Maps{};
    if (auto* c = As<P::EventsSourceContext>(context)) return BuildEvents(c->eventKind());
    if (auto* c = As<P::ExecutionsSourceContext>(context)) {
      return ast::Executions{BuildPlace(c->place())};
    }
    if (auto* c = As<P::CallsSourceContext>(context)) {
      return ast::Calls{BuildFunction(c->function())};
    }
    if (As<P::CrashSourceContext>(context)) return ast::Crash{};
    if (As<P::PyBacktraceSourceContext>(context)) return ast::PyBacktrace{};
    if (As<P::PyLocalsSourceContext>(context)) return ast::PyLocals{};
    if (As<P::PySourceSourceContext>(context)) return ast::PySource{};
    if (auto* c = As<P::PyPrintSourceContext>(context)) return ast::PyPrint{BuildExpr(c->expr())};
    if (auto* c = As<P::PyCallsSourceContext>(context)) return ast::PyCalls{BuildFunctionOrLine(c)};
    if (auto* c = As<P::PyExecutionsSourceContext>(context)) {
      return ast::PyExecutions{BuildFunctionOrLine(c)};
    }
    if (auto* c = As<P::PyChangesSourceContext>(context)) return BuildChanges(c->arith());
    if (As<P::PyExceptionsSourceContext>(context)) return ast::PyExceptions{};
    if (auto* c = As<P::CreationSourceContext>(context)) {
      return ast::Creation{BuildObject(c->objectAddress())};
    }
    if (auto* c = As<P::DeallocationSourceContext>(context)) {
      return ast::Deallocation{BuildObject(c->objectAddress())};
    }
    if (auto* c = As<P::WhenSourceContext>(context)) return CreatedOrFreed(c);
    if (auto* c = As<P::WhoObjectSourceContext>(context)) return CreatedOrFreed(c);
    if (auto* c = As<P::LifetimeSourceContext>(context)) {
      return ast::Lifetime{BuildObject(c->objectAddress())};
    }
    if (auto* c = As<P::RefcountsSourceContext>(context)) {
      return ast::Refcounts{BuildObject(c->objectAddress())};
    }
    if (auto* c = As<P::ObjectSourceContext>(context)) {
      return ast::Object{BuildObject(c->objectAddress())};
    }
    if (auto* c = As<P::ObjectsSourceContext>(context)) {
      return ast::ObjectsOfType{TypeText(c->typeRef()), RangeOf(c->typeRef())};
    }
    if (As<P::HeapLeaksSourceContext>(context)) return ast::HeapLeaks{};
    if (auto* c = As<P::HeapSourceContext>(context)) return ast::Heap{BuildArith(c->arith())};
    if (auto* c = As<P::WhySourceContext>(context)) {
      return ast::Why{
          c->Freed() ? ast::Why::Question::kFreedTooEarly : ast::Why::Question::kStillAlive,
          BuildObject(c->objectAddress())};
    }
    auto* c = As<P::OriginSourceContext>(context);
    return ast::Origin{BuildLocation(c->location())};
  }

  template <class Context>
  ast::Source CreatedOrFreed(Context* context) {
    if (context->Freed()) return ast::Deallocation{BuildObject(context->objectAddress())};
    return ast::Creation{BuildObject(context->objectAddress())};
  }

  ast::Source BuildEvents(TtqParser::EventKindContext* kind) {
    ast::Events events;
    if (kind == nullptr) return events;
    events.kind_range = RangeOf(kind);
    events.kind = Lower(kind->parameter() != nullptr ? TextOf(kind->parameter())
                        : kind->Text() != nullptr    ? Unescape(Text(kind))
                                                     : WordText(kind));
    if (events.kind->empty()) Fail(events.kind_range, "the kind of event is empty");
    return events;
  }

  ast::Source BuildChanges(TtqParser::ArithContext* context) {
    ast::PyChanges changes{BuildArith(context)};
    const auto& node = changes.target->node;
    if (!std::holds_alternative<ast::Name>(node) && !std::holds_alternative<ast::Member>(node) &&
        !std::holds_alternative<ast::Index>(node)) {
      Fail(changes.target->range,
           "expected a variable, EXPR.attribute or EXPR[key] after 'py changes of'");
    }
    return changes;
  }

  // ---- Stages ----

  std::vector<ast::ExprPtr> BuildExprs(const std::vector<TtqParser::ExprContext*>& contexts) {
    std::vector<ast::ExprPtr> result;
    for (auto* context : contexts) result.push_back(BuildExpr(context));
    return result;
  }

  ast::Stage BuildStage(TtqParser::StageContext* context) {
    using P = TtqParser;
    ast::Stage stage;
    stage.range = RangeOf(context);
    // Without the bar.
    stage.range.begin = RangeOf(As<antlr4::tree::TerminalNode>(context->children[1])).begin;
    if (auto* c = As<P::WhereStageContext>(context)) {
      stage.what = ast::Where{BuildExpr(c->expr())};
    } else if (auto* c = As<P::SelectStageContext>(context)) {
      stage.what = ast::Select{BuildExprs(c->expr())};
    } else if (auto* c = As<P::SortStageContext>(context)) {
      ast::Sort sort;
      for (auto* key : c->sortKey()) {
        sort.keys.push_back({BuildExpr(key->expr()), key->Desc() != nullptr});
      }
      stage.what = std::move(sort);
    } else if (auto* c = As<P::FirstStageContext>(context)) {
      stage.what = ast::First{BuildNumber(c->number()).value};
    } else if (auto* c = As<P::LastStageContext>(context)) {
      stage.what = ast::Last{BuildNumber(c->number()).value};
    } else if (auto* c = As<P::CountStageContext>(context)) {
      stage.what = ast::Count{BuildExprs(c->expr())};
    } else if (auto* c = As<P::DistinctStageContext>(context)) {
      stage.what = ast::Distinct{BuildExprs(c->expr())};
    } else if (auto* c = As<P::BacktraceStageContext>(context)) {
      stage.what = ast::WithBacktrace{c->Mixed() != nullptr};
    } else {
      stage.what = ast::WithPyBacktrace{};
    }
    return stage;
  }

  // ---- Expressions ----

  template <class Node>
  static ast::ExprPtr Make(ast::Range range, Node node) {
    auto expr = std::make_unique<ast::Expr>();
    expr->range = range;
    expr->node = std::move(node);
    return expr;
  }

  static ast::BinaryOp OperatorOf(Tree* context) {
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

  ast::ExprPtr BinaryExpr(Tree* context, ast::ExprPtr left, ast::ExprPtr right) {
    const ast::BinaryOp op = OperatorOf(context);
    const bool equality = op == ast::BinaryOp::kEqual || op == ast::BinaryOp::kNotEqual;
    if (equality && std::holds_alternative<ast::Null>(right->node)) {
      return Make(RangeOf(context),
                  ast::IsNull{std::move(left), op == ast::BinaryOp::kNotEqual, true});
    }
    return Make(RangeOf(context), ast::Binary{op, std::move(left), std::move(right)});
  }

  ast::ExprPtr BuildExpr(TtqParser::ExprContext* context) {
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
      return Make(
          range, ast::Ternary{BuildExpr(c->expr(0)), BuildExpr(c->expr(1)), BuildExpr(c->expr(2))});
    }
    // All the others are EXPR op EXPR.
    return BinaryExpr(context, BuildExpr(As<P::ExprContext>(context->children.front())),
                      BuildExpr(As<P::ExprContext>(context->children.back())));
  }

  ast::ExprPtr BuildArith(TtqParser::ArithContext* context) {
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

  ast::ExprPtr BuildCast(TtqParser::CastContext* context) {
    ast::TypeName type;
    type.range = RangeOf(context->qualifiedName());
    type.name = JoinedText(context->qualifiedName());
    ast::ExprPtr operand = context->postfix() != nullptr ? BuildPostfix(context->postfix())
                                                         : BuildCast(context->cast());
    return Make(RangeOf(context), ast::Cast{std::move(type), std::move(operand)});
  }

  // The words of a type in one spacing, without const and volatile.
  ast::TypeName BuildType(TtqParser::StrictTypeContext* context) {
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

  ast::ExprPtr BuildPostfix(TtqParser::PostfixContext* context) {
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

  ast::ExprPtr BuildPrimary(TtqParser::PrimaryContext* context) {
    using P = TtqParser;
    const ast::Range range = RangeOf(context);
    if (auto* c = As<P::NumberPrimaryContext>(context)) {
      return Make(range, BuildNumber(c->Number()));
    }
    if (auto* c = As<P::ParameterPrimaryContext>(context)) return ExprOf(c->parameter());
    if (As<P::FloatPrimaryContext>(context)) {
      ast::Float number;
      const std::string_view text = Text(context);
      if (std::from_chars(text.data(), text.data() + text.size(), number.value).ec != std::errc()) {
        Fail(range, "the number is out of range");
      }
      return Make(range, number);
    }
    if (As<P::CharPrimaryContext>(context)) {
      std::string value = Unescape(Text(context));
      if (value.size() == 1) {
        return Make(range, ast::Character{static_cast<unsigned char>(value[0])});
      }
      return Make(range, ast::String{std::move(value)});
    }
    if (As<P::TextPrimaryContext>(context))
      return Make(range, ast::String{Unescape(Text(context))});
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

  std::string_view text_;
  const Binding binding_;
  const std::vector<ParameterValue>& values_;
  std::vector<Parameter> parameters_;  // in the order of the text
  std::map<uint32_t, size_t> number_of_parameter_at_;
  std::map<std::string, size_t> number_of_name_;
  std::optional<Diagnostic> error_;
};

absl::StatusOr<ast::Query> ParseStatement(std::string_view text, const Statement& statement,
                                          Binding binding,
                                          const std::vector<ParameterValue>& values,
                                          std::vector<Parameter>* parameters) {
  try {
    Parse parse(statement);
    TtqParser::StatementContext* tree = parse.Run();
    if (tree == nullptr) {
      return DiagnosticError(
          internal::ExplainSyntaxError(text, statement, parse.bad_token(), FirstBadToken));
    }
    Builder builder(text, binding, values);
    builder.FindParameters(tree);
    ast::Query query = builder.Build(tree->query());
    if (auto error = builder.TakeError()) return DiagnosticError(*std::move(error));
    if (parameters != nullptr) *parameters = builder.TakeParameters();
    return query;
  } catch (const std::exception& e) {
    // ANTLR's own exceptions end inside Parse; this is what it does not foresee.
    return absl::InternalError(Cat("the query parser failed: ", e.what()));
  }
}

}  // namespace

absl::StatusOr<std::vector<ast::Query>> ParseScript(std::string_view text) {
  absl::StatusOr<std::vector<Statement>> statements = internal::Tokenize(text);
  if (!statements.ok()) return statements.status();
  if (statements->empty()) return DiagnosticError({.message = "the query is empty"});
  std::vector<ast::Query> queries;
  for (const Statement& statement : *statements) {
    absl::StatusOr<ast::Query> query = ParseStatement(text, statement, Binding::kNone, {}, nullptr);
    if (!query.ok()) return query.status();
    queries.push_back(*std::move(query));
  }
  return queries;
}

namespace {

absl::StatusOr<ast::Query> ParseOne(std::string_view text, Binding binding,
                                    const std::vector<ParameterValue>& values,
                                    std::vector<Parameter>* parameters) {
  absl::StatusOr<std::vector<Statement>> statements = internal::Tokenize(text);
  if (!statements.ok()) return statements.status();
  if (statements->empty()) return DiagnosticError({.message = "the query is empty"});
  if (statements->size() > 1) {
    const internal::Token& second = (*statements)[1].front();
    return DiagnosticError({.message = "a second query begins here; several are read from a file",
                            .begin = second.begin,
                            .end = second.end});
  }
  return ParseStatement(text, statements->front(), binding, values, parameters);
}

}  // namespace

absl::StatusOr<ast::Query> ParseQuery(std::string_view text) {
  return ParseOne(text, Binding::kNone, {}, nullptr);
}

absl::StatusOr<std::vector<Parameter>> ParseParameters(std::string_view text) {
  std::vector<Parameter> parameters;
  absl::StatusOr<ast::Query> query = ParseOne(text, Binding::kLater, {}, &parameters);
  if (!query.ok()) return query.status();
  return parameters;
}

std::vector<std::string> NextWords(std::string_view text) {
  absl::StatusOr<std::vector<Statement>> statements = internal::Tokenize(text);
  if (!statements.ok()) return {};
  Statement statement = statements->empty() ? Statement() : std::move(statements->back());
  if (statement.size() > kMaxProbedTokens) return {};
  std::string begun;
  if (!statement.empty() && statement.back().end == text.size() && IsWordByte(text.back())) {
    begun = Lower(text.substr(statement.back().begin));
    statement.pop_back();
  }
  std::vector<std::string> words;
  const size_t good = statement.size();
  statement.push_back({});
  for (size_t type = 1; type <= internal::MaxTokenType(); ++type) {
    const std::string_view word = internal::FixedText(type);
    if (!internal::IsKeyword(type) || word.substr(0, begun.size()) != begun) continue;
    statement.back().type = type;
    const std::optional<size_t> bad = FirstBadToken(statement);
    if (!bad || *bad > good) words.emplace_back(word);
  }
  std::sort(words.begin(), words.end());
  return words;
}

absl::StatusOr<ast::Query> ParseQuery(std::string_view text,
                                      const std::vector<ParameterValue>& values) {
  return ParseOne(text, Binding::kValues, values, nullptr);
}

}  // namespace ttq
