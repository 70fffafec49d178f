// SPDX-License-Identifier: MIT
//
// Tokens (query/language/tokens.h) → ANTLR's parse tree → ast::Query, at once: nothing of ANTLR
// leaves this file. Parsing stops at the first error, which query/language/syntax_error.h then
// explains; query/language/builder.h makes the query.

#include "query/language/parser.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "antlr4-runtime.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "grammar/TtqParser.h"
#include "query/language/builder.h"
#include "query/language/diagnostic.h"
#include "query/language/syntax_error.h"
#include "query/language/tokens.h"

namespace ttq {
namespace {

using grammar::TtqParser;
using internal::Binding;
using internal::Builder;
using internal::Statement;

// Beyond it no words are proposed: trying each costs a parse.
constexpr size_t kMaxProbedTokens = 100;

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
  ASSIGN_OR_RETURN(std::vector<Statement> statements, internal::Tokenize(text));
  if (statements.empty()) return DiagnosticError({.message = "the query is empty"});
  std::vector<ast::Query> queries;
  for (const Statement& statement : statements) {
    ASSIGN_OR_RETURN(ast::Query query,
                     ParseStatement(text, statement, Binding::kNone, {}, nullptr));
    queries.push_back(std::move(query));
  }
  return queries;
}

namespace {

absl::StatusOr<ast::Query> ParseOne(std::string_view text, Binding binding,
                                    const std::vector<ParameterValue>& values,
                                    std::vector<Parameter>* parameters) {
  ASSIGN_OR_RETURN(std::vector<Statement> statements, internal::Tokenize(text));
  if (statements.empty()) return DiagnosticError({.message = "the query is empty"});
  if (statements.size() > 1) {
    const internal::Token& second = statements[1].front();
    return DiagnosticError({.message = "a second query begins here; several are read from a file",
                            .begin = second.begin,
                            .end = second.end});
  }
  return ParseStatement(text, statements.front(), binding, values, parameters);
}

}  // namespace

absl::StatusOr<ast::Query> ParseQuery(std::string_view text) {
  return ParseOne(text, Binding::kNone, {}, nullptr);
}

absl::StatusOr<std::vector<Parameter>> ParseParameters(std::string_view text) {
  std::vector<Parameter> parameters;
  ASSIGN_OR_RETURN(ast::Query query, ParseOne(text, Binding::kLater, {}, &parameters));
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
