// SPDX-License-Identifier: MIT

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "query/language/builder.h"
#include "re2/re2.h"

namespace ttq::internal {
namespace {

constexpr size_t kMaxParameters = 1000;
constexpr size_t kMaxRegexBytes = 4096;
constexpr int64_t kMaxRegexMemory = 1 << 20;

}  // namespace

void Builder::FindParameters(antlr4::tree::ParseTree* tree) {
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

ast::Query Builder::Build(TtqParser::QueryContext* context) {
  ast::Query query;
  query.range = query.source_range = RangeOf(context);
  query.source = BuildSource(context->source());
  query.source_range.end = RangeOf(context->source()).end;
  const unsigned allowed =
      std::visit([](const auto& source) { return source.kClauses; }, query.source);
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

const ParameterValue* Builder::ValueOf(TtqParser::ParameterContext* context) {
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

void Builder::WrongKind(TtqParser::ParameterContext* context, const char* wanted,
                        const ParameterValue& value) {
  constexpr const char* kKinds[] = {"nothing",    "a number", "a number",
                                    "a fraction", "text",     "a name"};
  Fail(RangeOf(context), Cat("'", Text(context), "' must be ", wanted, " here, and ",
                             kKinds[value.index()], " is bound to it"));
}

ast::Number Builder::NumberOf(TtqParser::ParameterContext* context) {
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

std::string Builder::TextOf(TtqParser::ParameterContext* context) {
  const ParameterValue* value = ValueOf(context);
  if (value == nullptr) return "x";
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  if (const auto* name = std::get_if<ast::Name>(value)) return name->name;
  WrongKind(context, "text or a name", *value);
  return "x";
}

ast::Pattern Builder::PatternOf(TtqParser::ParameterContext* context, bool always_glob) {
  const bool is_name = BoundTo<ast::Name>(context);
  std::string text = TextOf(context);
  if (is_name) return NamePattern(context, std::move(text));
  return TextPattern(RangeOf(context), std::move(text), always_glob);
}

ast::ExprPtr Builder::ExprOf(TtqParser::ParameterContext* context) {
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

ast::Number Builder::BuildNumber(antlr4::tree::TerminalNode* node) {
  std::string_view text = Text(node);
  ast::Number number;
  number.hex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
  if (number.hex) text.remove_prefix(2);
  const size_t digits = std::min(text.find_first_of("uUlL"), text.size());
  const std::string suffix = Lower(text.substr(digits));
  text = text.substr(0, digits);
  number.is_unsigned = suffix.find('u') != suffix.npos;
  number.is_long = suffix.find('l') != suffix.npos;
  static constexpr std::string_view kSuffixes[] = {"", "u", "l", "ll", "ul", "ull", "lu", "llu"};
  if (std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix) == std::end(kSuffixes)) {
    Fail(RangeOf(node), Cat("'", suffix, "' is no ending of a number: u, l, ul and ll, ull are"));
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

std::string Builder::Unescape(std::string_view quoted) {
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

std::string Builder::JoinedText(antlr4::tree::ParseTree* tree) const {
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

std::string Builder::TightText(Tree* context, const char* what) {
  const std::string_view text = Text(context);
  if (text.find_first_of(" \t\r\n#") != text.npos) {
    Fail(RangeOf(context), Cat(what, " with spaces in it is written as a string, \"…\""));
  }
  return std::string(text);
}

ast::Pattern Builder::RegexPattern(antlr4::tree::TerminalNode* node) {
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

ast::Pattern Builder::TextPattern(ast::Range range, std::string text, bool always_glob) {
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

ast::Pattern Builder::NamePattern(Tree* context, std::string name) {
  ast::Pattern pattern;
  pattern.range = RangeOf(context);
  pattern.text = std::move(name);
  return pattern;
}

ast::FunctionPattern Builder::BuildFunction(TtqParser::FunctionContext* context) {
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

ast::FileLine Builder::BuildFileLine(TtqParser::FileLineContext* context) {
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

ast::Place Builder::BuildPlace(TtqParser::PlaceContext* context) {
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

ast::Location Builder::BuildLocation(TtqParser::LocationContext* context) {
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

ast::Time Builder::BuildTime(TtqParser::TimeContext* context) {
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

ast::Time Builder::BuildTimeStart(TtqParser::TimeStartContext* context) {
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

void Builder::AddClause(TtqParser::ClauseContext* context, const ast::Source& source,
                        unsigned allowed, ast::Clauses* clauses) {
  const ast::Range range = RangeOf(context);
  const auto claim = [&](unsigned kind, bool taken, const char* words) {
    const std::string name = ast::SourceName(source);
    if (!(allowed & kind)) {
      std::string message = Cat("'", words, "' does not go with '", name, "'");
      if (kind == ast::kAtClause && (allowed & ast::kSpanClause))
        message += "; it takes before, after or between";
      if (kind == ast::kSpanClause && (allowed & ast::kAtClause)) message += "; it takes 'at TIME'";
      Fail(range, std::move(message));
    } else if (taken) {
      Fail(range, kind == ast::kSpanClause
                      ? "a query has one span: between TIME and TIME has two ends"
                      : Cat("'", words, "' is given twice"));
    }
    return true;
  };
  if (auto* at = As<TtqParser::AtClauseContext>(context)) {
    claim(ast::kAtClause, clauses->at.has_value(), "at");
    clauses->at = BuildTime(at->time());
  } else if (auto* before = As<TtqParser::BeforeClauseContext>(context)) {
    claim(ast::kSpanClause, clauses->span.has_value(), "before");
    clauses->span = ast::Span{range, ast::Span::Kind::kBefore, BuildTime(before->time()), {}};
  } else if (auto* after = As<TtqParser::AfterClauseContext>(context)) {
    claim(ast::kSpanClause, clauses->span.has_value(), "after");
    clauses->span = ast::Span{range, ast::Span::Kind::kAfter, BuildTime(after->time()), {}};
  } else if (auto* between = As<TtqParser::BetweenClauseContext>(context)) {
    claim(ast::kSpanClause, clauses->span.has_value(), "between");
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
    claim(ast::kThreadClause, clauses->thread.has_value(), "in thread");
    clauses->thread = ast::ThreadFilter{
        range, false, PositiveNumber(thread->number(), "threads are numbered from 1")};
  } else if (As<TtqParser::AllThreadsClauseContext>(context)) {
    claim(ast::kAllThreadsClause, clauses->thread.has_value(), "all threads");
    clauses->thread = ast::ThreadFilter{range, true, 0};
  } else if (auto* frame = As<TtqParser::FrameClauseContext>(context)) {
    claim(ast::kFrameClause, clauses->frame.has_value(), "in frame");
    clauses->frame = ast::Numeral{range, BuildNumber(frame->number()).value};
  } else if (auto* python = As<TtqParser::ByPythonClauseContext>(context)) {
    claim(ast::kByPythonClause, clauses->by.has_value(), "by python");
    clauses->by = ast::By{range, true, BuildFunctionOrLine(python)};
  } else if (auto* by = As<TtqParser::ByClauseContext>(context)) {
    claim(ast::kByClause, clauses->by.has_value(), "by");
    clauses->by = ast::By{range, false, BuildFunction(by->function())};
  } else if (auto* in = As<TtqParser::InClauseContext>(context)) {
    if (!(allowed & ast::kInClause)) {
      Fail(range, allowed & ast::kThreadClause
                      ? "expected 'thread N' after 'in'"
                      : Cat("'in' does not go with '", ast::SourceName(source), "'"));
    }
    claim(ast::kInClause, clauses->in.has_value(), "in");
    clauses->in = BuildFunction(in->function());
  } else if (As<TtqParser::MixedClauseContext>(context)) {
    claim(ast::kMixedClause, clauses->mixed, "mixed");
    clauses->mixed = true;
  } else if (As<TtqParser::UnfoldedClauseContext>(context)) {
    claim(ast::kUnfoldedClause, clauses->unfolded, "unfolded");
    clauses->unfolded = true;
  } else if (auto* depth = As<TtqParser::DepthClauseContext>(context)) {
    claim(ast::kDepthClause, clauses->depth.has_value(), "depth");
    clauses->depth =
        ast::Numeral{range, PositiveNumber(depth->number(), "a depth of 0 shows nothing")};
  }
}

ast::ObjectAddress Builder::BuildObject(TtqParser::ObjectAddressContext* context) {
  ast::ObjectAddress object;
  object.range = RangeOf(context);
  object.address = BuildArith(context->arith());
  if (context->typeRef() != nullptr) {
    object.type_range = RangeOf(context->typeRef());
    object.type = TypeText(context->typeRef());
  }
  return object;
}

std::string Builder::TypeText(TtqParser::TypeRefContext* context) {
  std::string text = context->parameter() != nullptr ? TextOf(context->parameter())
                     : context->Text() != nullptr    ? Unescape(Text(context))
                                                     : JoinedText(context);
  if (text.empty()) Fail(RangeOf(context), "the type's name is empty");
  return text;
}

ast::Source Builder::BuildSource(TtqParser::SourceContext* context) {
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
  if (As<P::WaitsSourceContext>(context)) return ast::Waits{};
  if (As<P::ModulesSourceContext>(context)) return ast::Modules{};
  if (As<P::MapsSourceContext>(context)) return ast::Maps{};
  if (auto* c = As<P::EventsSourceContext>(context)) return BuildEvents(c->eventKind());
  if (auto* c = As<P::ExecutionsSourceContext>(context)) {
    return ast::Executions{BuildPlace(c->place())};
  }
  if (auto* c = As<P::CallsSourceContext>(context)) {
    return ast::Calls{BuildFunction(c->function())};
  }
  if (auto* c = As<P::TraceSourceContext>(context)) {
    if (c->function() != nullptr) return ast::Trace{BuildFunction(c->function())};
    return ast::Trace{BuildMoment(c)};
  }
  if (auto* c = As<P::PyTraceSourceContext>(context)) {
    if (c->fileLine() != nullptr) return ast::PyTrace{BuildFileLine(c->fileLine())};
    if (c->function() != nullptr) return ast::PyTrace{BuildFunction(c->function())};
    return ast::PyTrace{BuildMoment(c)};
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

ast::Source Builder::BuildEvents(TtqParser::EventKindContext* kind) {
  ast::Events events;
  if (kind == nullptr) return events;
  events.kind_range = RangeOf(kind);
  events.kind = Lower(kind->parameter() != nullptr ? TextOf(kind->parameter())
                      : kind->Text() != nullptr    ? Unescape(Text(kind))
                                                   : WordText(kind));
  if (events.kind->empty()) Fail(events.kind_range, "the kind of event is empty");
  return events;
}

ast::Source Builder::BuildChanges(TtqParser::ArithContext* context) {
  ast::PyChanges changes{BuildArith(context)};
  const auto& node = changes.target->node;
  if (!std::holds_alternative<ast::Name>(node) && !std::holds_alternative<ast::Member>(node) &&
      !std::holds_alternative<ast::Index>(node)) {
    Fail(changes.target->range,
         "expected a variable, EXPR.attribute or EXPR[key] after 'py changes of'");
  }
  return changes;
}

ast::Stage Builder::BuildStage(TtqParser::StageContext* context) {
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

}  // namespace ttq::internal
