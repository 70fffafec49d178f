// SPDX-License-Identifier: MIT

#include "query/language/tokens.h"

#include <string>
#include <utility>

#include "antlr4-runtime.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "grammar/TtqLexer.h"
#include "query/language/diagnostic.h"

namespace ttq::internal {
namespace {

using grammar::TtqLexer;

constexpr size_t kMaxStatementBytes = 64 * 1024;
constexpr size_t kMaxScriptBytes = 1024 * 1024;
constexpr size_t kMaxBrackets = 200;
// Tokens that may lie between a statement's beginning (or a comma, or a stage's bar) and one of its
// tokens, counted through all open brackets. It bounds the depth of the syntax tree, because each
// level of a tree costs a token: `- - - x`, `a.b.c`, `x ? y : x ? y : …`.
constexpr size_t kMaxDepth = 1000;

// The text for the lexer: bytes, with letters in lower case. Does not own the text.
class ByteStream : public antlr4::CharStream {
 public:
  explicit ByteStream(std::string_view text) : text_(text) {}

  void consume() override {
    if (position_ < text_.size()) ++position_;
  }
  size_t LA(ssize_t i) override {
    const ssize_t at = static_cast<ssize_t>(position_) + (i > 0 ? i - 1 : i);
    if (i == 0 || at < 0 || at >= static_cast<ssize_t>(text_.size())) return IntStream::EOF;
    const unsigned char c = static_cast<unsigned char>(text_[at]);
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
  }
  ssize_t mark() override { return -1; }
  void release(ssize_t) override {}
  size_t index() override { return position_; }
  void seek(size_t index) override { position_ = std::min(index, text_.size()); }
  size_t size() override { return text_.size(); }
  std::string getSourceName() const override { return "query"; }
  std::string getText(const antlr4::misc::Interval& interval) override {
    if (interval.a < 0 || static_cast<size_t>(interval.a) >= text_.size()) return "";
    return std::string(text_.substr(interval.a, interval.b - interval.a + 1));
  }
  std::string toString() const override { return std::string(text_); }

 private:
  std::string_view text_;
  size_t position_ = 0;
};

absl::Status Bad(uint32_t begin, uint32_t end, std::string message) {
  return DiagnosticError({.message = std::move(message), .begin = begin, .end = end});
}

// UTF-8 without control characters.
absl::Status CheckBytes(std::string_view text) {
  for (uint32_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) -> unsigned char {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0;
    };
    const unsigned char c = byte(0);
    if (c < 0x80) {
      if (c == 0) return Bad(i, i + 1, "the query contains a NUL byte");
      if ((c < 0x20 && !(c >= '\t' && c <= '\r')) || c == 0x7f) {
        return Bad(i, i + 1, fmt::format("the query contains the control character {:#04x}", c));
      }
      ++i;
      continue;
    }
    uint32_t length = 0, point = 0;
    if (c >= 0xc2 && c <= 0xdf) length = 2, point = c & 0x1f;
    if (c >= 0xe0 && c <= 0xef) length = 3, point = c & 0x0f;
    if (c >= 0xf0 && c <= 0xf4) length = 4, point = c & 0x07;
    bool valid = length != 0;
    for (uint32_t k = 1; k < length; ++k) {
      valid = valid && (byte(k) & 0xc0) == 0x80;
      point = point << 6 | (byte(k) & 0x3f);
    }
    valid = valid && !(length == 3 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) &&
            !(length == 4 && (point < 0x10000 || point > 0x10ffff));
    if (!valid) {
      return Bad(i, i + 1, fmt::format("the query is not UTF-8: byte {:#04x}", c));
    }
    i += length;
  }
  return absl::OkStatus();
}

struct LexedToken : Token {
  bool after_newline = false;
};

std::vector<LexedToken> Lex(std::string_view text) {
  TtqLexer::ReadTables();
  ByteStream stream(text);
  TtqLexer lexer(&stream);
  lexer.removeErrorListeners();
  std::vector<LexedToken> tokens;
  bool after_newline = false;
  while (true) {
    const std::unique_ptr<antlr4::Token> token = lexer.nextToken();
    if (token->getType() == antlr4::Token::EOF) return tokens;
    if (token->getType() == TtqLexer::NewLine) after_newline = true;
    if (token->getChannel() != antlr4::Token::DEFAULT_CHANNEL) continue;
    LexedToken lexed;
    lexed.type = token->getType();
    lexed.begin = static_cast<uint32_t>(token->getStartIndex());
    lexed.end = static_cast<uint32_t>(token->getStopIndex() + 1);
    lexed.after_newline = std::exchange(after_newline, false);
    tokens.push_back(lexed);
  }
}

bool BeginsStage(size_t type) {
  switch (type) {
    case TtqLexer::Where:
    case TtqLexer::Select:
    case TtqLexer::Sort:
    case TtqLexer::First:
    case TtqLexer::Last:
    case TtqLexer::Count:
    case TtqLexer::Distinct:
    case TtqLexer::Backtrace:
    case TtqLexer::Py:
      return true;
    default:
      return false;
  }
}

bool Opens(size_t type) { return type == TtqLexer::OpenParen || type == TtqLexer::OpenBracket; }
bool Closes(size_t type) { return type == TtqLexer::CloseParen || type == TtqLexer::CloseBracket; }

absl::Status CheckStatement(std::string_view text, const Statement& statement) {
  if (statement.back().end - statement.front().begin > kMaxStatementBytes) {
    return Bad(statement.front().begin, statement.front().end,
               "the query is too long: more than 64 KiB");
  }
  // Tokens since the last comma or bar, for each open bracket, and their sum.
  std::vector<size_t> lengths = {0};
  size_t depth = 0;
  for (const Token& token : statement) {
    if (token.type == TtqLexer::Identifier) {
      // They are letters to the lexer, and never meant.
      for (std::string_view quote : {"“", "”", "‘", "’"}) {
        if (text.substr(token.begin, token.end - token.begin).find(quote) == text.npos) continue;
        return Bad(token.begin, token.end, "typographic quotation marks: write strings in \" or '");
      }
    }
    if (Closes(token.type) && lengths.size() > 1) {
      depth -= lengths.back();
      lengths.pop_back();
    }
    if (token.type == TtqLexer::Comma || token.type == TtqLexer::Pipe) {
      depth -= std::exchange(lengths.back(), 0);
    }
    ++lengths.back();
    ++depth;
    if (Opens(token.type)) lengths.push_back(0);
    if (lengths.size() > kMaxBrackets + 1) {
      return Bad(token.begin, token.end,
                 Cat("the query is nested too deeply: more than ", kMaxBrackets,
                     " brackets are open here"));
    }
    if (depth > kMaxDepth) {
      return Bad(token.begin, token.end,
                 Cat("the expression is too long: more than ", kMaxDepth, " words and signs"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Statement>> Tokenize(std::string_view text) {
  if (text.size() > kMaxScriptBytes) return Bad(0, 0, "the query is too long: more than 1 MiB");
  RETURN_IF_ERROR(CheckBytes(text));
  std::vector<LexedToken> tokens = Lex(text);

  std::vector<Statement> statements;
  Statement current;
  size_t open = 0;
  const auto finish = [&] {
    if (!current.empty()) statements.push_back(std::exchange(current, {}));
    open = 0;
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    const LexedToken& token = tokens[i];
    if (token.type == TtqLexer::Semicolon) {
      finish();
      continue;
    }
    if (token.after_newline && open == 0 && token.type != TtqLexer::Pipe && !current.empty() &&
        current.back().type != TtqLexer::Pipe) {
      finish();
    }
    current.push_back(token);
    if (Opens(token.type)) ++open;
    if (Closes(token.type) && open > 0) --open;
    const bool stage = i + 1 < tokens.size() && BeginsStage(tokens[i + 1].type);
    if (token.type == TtqLexer::Pipe && open > 0 && !stage) current.back().type = TtqLexer::BitOr;
  }
  finish();
  for (const Statement& statement : statements) {
    RETURN_IF_ERROR(CheckStatement(text, statement));
  }
  return statements;
}

std::string_view FixedText(size_t type) {
  if (type == TtqLexer::BitOr) return "|";
  if (type == TtqLexer::Mixed) return "mixed";
  if (type == TtqLexer::Bool) return "bool";
  if (type == TtqLexer::Equal) return "=";
  if (type > MaxTokenType()) return "";
  static const std::vector<std::string>* const texts = [] {
    TtqLexer::ReadTables();
    ByteStream empty("");
    const TtqLexer lexer(&empty);
    auto* result = new std::vector<std::string>;
    for (size_t t = 0; t <= MaxTokenType(); ++t) {
      const std::string literal = lexer.getVocabulary().getLiteralName(t);
      result->push_back(literal.size() < 3 ? "" : literal.substr(1, literal.size() - 2));
    }
    return result;
  }();
  return (*texts)[type];
}

size_t MaxTokenType() { return TtqLexer::BadCharacter; }

bool IsKeyword(size_t type) {
  const std::string_view text = FixedText(type);
  return !text.empty() && text[0] >= 'a' && text[0] <= 'z';
}

}  // namespace ttq::internal
