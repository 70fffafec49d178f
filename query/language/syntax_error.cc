// SPDX-License-Identifier: MIT

#include "query/language/syntax_error.h"

#include <string>
#include <utility>
#include <vector>

#include "antlr4-runtime.h"
#include "base/text.h"
#include "grammar/TtqLexer.h"

namespace ttq::internal {
namespace {

using grammar::TtqLexer;

// Beyond it no alternatives are tried: the cost of an error stays far below a second.
constexpr size_t kMaxProbedTokens = 300;

struct Synonym {
  std::string_view word, meant;
};
// What other languages and debuggers call our things.
constexpr Synonym kSources[] = {{"bt", "'backtrace'"},
                                {"where", "'backtrace'"},
                                {"watch", "'writes to'"},
                                {"x", "'memory'"},
                                {"dump", "'memory'"},
                                {"disas", "'disassemble'"},
                                {"regs", "'registers'"},
                                {"p", "'print'"},
                                {"list", "'source'"},
                                {"mappings", "'maps'"},
                                {"libraries", "'modules'"},
                                {"python", "'py'"},
                                {"execution", "'executions of'"},
                                {"call", "'calls to'"}};
constexpr Synonym kStages[] = {
    {"limit", "'first'"},   {"head", "'first'"},      {"take", "'first'"},   {"tail", "'last'"},
    {"order", "'sort by'"}, {"group", "'count by'"},  {"filter", "'where'"}, {"grep", "'where'"},
    {"uniq", "'distinct'"}, {"unique", "'distinct'"}, {"bt", "'backtrace'"}};

class Explainer {
 public:
  Explainer(std::string_view text, const Statement& statement, size_t bad, const Probe& probe)
      : text_(text), statement_(statement), bad_(bad), probe_(probe) {}

  Diagnostic Explain() {
    if (AtEnd()) {
      diagnostic_.begin = diagnostic_.end = statement_.back().end;
    } else {
      diagnostic_.begin = statement_[bad_].begin;
      diagnostic_.end = statement_[bad_].end;
    }
    if (!ExplainToken() && !ExplainBrackets()) ExplainContext();
    return std::move(diagnostic_);
  }

 private:
  bool AtEnd() const { return bad_ >= statement_.size(); }
  size_t BadType() const { return AtEnd() ? 0 : statement_[bad_].type; }
  size_t PreviousType() const { return bad_ == 0 ? 0 : statement_[bad_ - 1].type; }

  std::string_view TextOf(const Token& token) const {
    return text_.substr(token.begin, token.end - token.begin);
  }

  // A token in quotes, shortened.
  std::string Quote(const Token& token) const {
    std::string_view shown = TextOf(token);
    if (shown.size() <= 40) return Cat("'", shown, "'");
    size_t cut = 37;
    while (cut > 0 && (static_cast<unsigned char>(shown[cut]) & 0xc0) == 0x80) --cut;
    return Cat("'", shown.substr(0, cut), "…'");
  }

  // The end of what was good: the last word, or the last two of the language.
  std::string Before() const {
    const Token& last = statement_[bad_ - 1];
    const bool two = bad_ > 1 && IsKeyword(last.type) && IsKeyword(statement_[bad_ - 2].type);
    if (!two) return Quote(last);
    return Cat("'", TextOf(statement_[bad_ - 2]), " ", TextOf(last), "'");
  }

  // Tokens that are wrong wherever they stand.
  bool ExplainToken() {
    if (AtEnd()) return false;
    const Token& token = statement_[bad_];
    const std::string_view shown = TextOf(token);
    switch (token.type) {
      case TtqLexer::UnterminatedString:
        diagnostic_.message =
            Cat("the string is not closed: a ", shown.substr(0, 1), " is missing");
        return true;
      case TtqLexer::UnterminatedName:
        diagnostic_.message = "the name is not closed: a ` is missing";
        return true;
      case TtqLexer::BadNumber:
        diagnostic_.message = Cat("bad number ", Quote(token));
        return true;
      case TtqLexer::BadCharacter:
        diagnostic_.message = Cat("unexpected character ", Quote(token));
        return true;
      default:
        break;
    }
    if (token.type == TtqLexer::Slash && CanFollow(TtqLexer::Regex)) {
      diagnostic_.message = "the regular expression is not closed: a / is missing";
      diagnostic_.end = statement_.back().end;
      return true;
    }
    return false;
  }

  bool ExplainBrackets() {
    std::vector<size_t> open;
    for (size_t i = 0; i < bad_; ++i) {
      const size_t type = statement_[i].type;
      if (type == TtqLexer::OpenParen || type == TtqLexer::OpenBracket) open.push_back(i);
      if ((type == TtqLexer::CloseParen || type == TtqLexer::CloseBracket) && !open.empty()) {
        open.pop_back();
      }
    }
    if ((BadType() == TtqLexer::CloseParen || BadType() == TtqLexer::CloseBracket) &&
        open.empty()) {
      diagnostic_.message =
          Cat("there is no bracket that this ", Quote(statement_[bad_]), " closes");
      return true;
    }
    if (!AtEnd() || open.empty()) return false;
    const bool paren = statement_[open.back()].type == TtqLexer::OpenParen;
    if (!CanFollow(paren ? TtqLexer::CloseParen : TtqLexer::CloseBracket)) return false;
    diagnostic_.message = Cat("this bracket is not closed: a '", paren ? ")" : "]", "' is missing");
    diagnostic_.begin = statement_[open.back()].begin;
    diagnostic_.end = statement_[open.back()].end;
    return true;
  }

  bool CanFollow(size_t type) {
    if (bad_ > kMaxProbedTokens) return false;
    Statement attempt(statement_.begin(), statement_.begin() + bad_);
    Token token;
    token.type = type;
    attempt.push_back(token);
    const std::optional<size_t> result = probe_(attempt);
    return !result || *result > bad_;
  }

  void FindExpected() {
    expected_.resize(MaxTokenType() + 1);
    if (bad_ > kMaxProbedTokens) return;
    for (size_t type = 1; type <= MaxTokenType(); ++type) {
      expected_[type] = CanFollow(type);
      if (expected_[type] && IsKeyword(type)) words_ += Cat(FixedText(type), " ");
    }
    complete_ =
        bad_ > 0 && !probe_(Statement(statement_.begin(), statement_.begin() + bad_)).has_value();
  }

  // Whether the statement would go on well if the bad token were a name.
  bool MeantAsName() {
    if (!expected_[TtqLexer::Identifier] || bad_ > kMaxProbedTokens) return false;
    Statement attempt = statement_;
    attempt[bad_].type = TtqLexer::Identifier;
    const std::optional<size_t> result = probe_(attempt);
    return !result || *result > bad_ + 1;
  }

  // A glob without its quotes: the bad token is its star, the tokens around it touch.
  bool FindGlob() {
    if (BadType() != TtqLexer::Star || bad_ > kMaxProbedTokens) return false;
    size_t first = bad_, last = bad_;
    while (first > 0 && statement_[first - 1].end == statement_[first].begin) --first;
    while (last + 1 < statement_.size() && statement_[last].end == statement_[last + 1].begin) {
      ++last;
    }
    Statement attempt(statement_.begin(), statement_.begin() + first);
    attempt.push_back({.type = TtqLexer::Text});
    const std::optional<size_t> result = probe_(attempt);
    if (result && *result < attempt.size()) return false;
    diagnostic_.message = "a pattern is written in quotes";
    diagnostic_.begin = statement_[first].begin;
    diagnostic_.end = statement_[last].end;
    diagnostic_.hint =
        Cat("\"", text_.substr(diagnostic_.begin, diagnostic_.end - diagnostic_.begin), "\"");
    return true;
  }

  void FindHint() {
    if (AtEnd() || FindGlob()) return;
    const Token& token = statement_[bad_];
    if (token.type != TtqLexer::Identifier && !IsKeyword(token.type)) return;
    const std::string word = Lower(TextOf(token));
    if (IsKeyword(token.type) && MeantAsName()) {
      diagnostic_.message =
          Cat(Quote(token), " is a word of the language; as a name it is written in backticks");
      diagnostic_.hint = Cat("`", TextOf(token), "`");
      return;
    }
    const std::string near = NearestWord(word, words_);
    if (!near.empty()) {
      diagnostic_.hint = Cat("'", near, "'");
      return;
    }
    if (bad_ == 0) FindSynonym(kSources, word);
    if (PreviousType() == TtqLexer::Pipe) FindSynonym(kStages, word);
  }

  template <size_t n>
  void FindSynonym(const Synonym (&synonyms)[n], std::string_view word) {
    for (const Synonym& synonym : synonyms) {
      if (synonym.word == word) diagnostic_.hint = synonym.meant;
    }
  }

  // What could stand here, in words; empty if that is too much to say.
  std::string Expected() const {
    const auto can = [&](size_t type) { return static_cast<bool>(expected_[type]); };
    if (can(TtqLexer::Start) && can(TtqLexer::Crash) && !can(TtqLexer::Identifier)) {
      return "a time (a number, start, end, crash or a query in brackets)";
    }
    if (can(TtqLexer::Regex) && can(TtqLexer::Identifier)) {
      switch (PreviousType()) {
        case TtqLexer::Of:
        case TtqLexer::Disassemble:
          return "a function, FILE:LINE or an address";
        default:
          return "a function (a name, \"glob*\" or /regex/)";
      }
    }
    if (can(TtqLexer::Regex)) return "/regex/ or \"glob\"";
    if (can(TtqLexer::Identifier) && can(TtqLexer::Minus) && can(TtqLexer::Number)) {
      switch (PreviousType()) {
        case TtqLexer::Where:
          return "a condition";
        case TtqLexer::Select:
        case TtqLexer::Distinct:
        case TtqLexer::By:
          return "a column";
        case TtqLexer::To:
        case TtqLexer::Of:
        case TtqLexer::Wrote:
        case TtqLexer::Memory:
        case TtqLexer::Heap:
        case TtqLexer::Was:
        case TtqLexer::Is:
        case TtqLexer::Object:
        case TtqLexer::Created:
        case TtqLexer::Freed:
          return "an address, a name or an expression";
        default:
          return "an expression";
      }
    }
    if (can(TtqLexer::Identifier)) return "a name";
    std::vector<std::string> choices;
    for (size_t type = 1; type < expected_.size(); ++type) {
      if (!expected_[type]) continue;
      // Where there can be a value there can be a parameter; people at a terminal do not bind any.
      if ((type == TtqLexer::Question || type == TtqLexer::Colon) && can(TtqLexer::Number))
        continue;
      const std::string_view fixed = FixedText(type);
      if (fixed.empty() && type != TtqLexer::Number) return "";
      choices.push_back(type == TtqLexer::Number ? "a number" : Cat("'", fixed, "'"));
    }
    if (choices.empty() || choices.size() > 8) return "";
    std::string result;
    for (size_t i = 0; i < choices.size(); ++i) {
      result += Cat(i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ", choices[i]);
    }
    return result;
  }

  bool AfterDirectWhere() const {
    for (size_t i = 1; i < bad_; ++i) {
      if (statement_[i].type == TtqLexer::Pipe) return false;
      if (statement_[i].type == TtqLexer::Where) return true;
    }
    return false;
  }

  static bool BeginsClause(size_t type) {
    switch (type) {
      case TtqLexer::At:
      case TtqLexer::Before:
      case TtqLexer::After:
      case TtqLexer::Between:
      case TtqLexer::In:
      case TtqLexer::By:
        return true;
      default:
        return false;
    }
  }

  void ExplainContext() {
    FindExpected();
    FindHint();
    if (!diagnostic_.message.empty()) return;
    const std::string instead = AtEnd() ? "" : Cat(", not ", Quote(statement_[bad_]));
    if (bad_ == 0) {
      diagnostic_.message = Cat("a query cannot begin with ", Quote(statement_[0]));
      if (diagnostic_.hint.empty()) {
        diagnostic_.message += " ('ttq help language' lists the forms)";
      }
      return;
    }
    if (PreviousType() == TtqLexer::Pipe) {
      diagnostic_.message =
          Cat("expected a stage after '|'", instead,
              ": where, select, sort by, first, last, count, distinct, backtrace or py backtrace");
      return;
    }
    if (BeginsClause(BadType()) && AfterDirectWhere()) {
      diagnostic_.message = Cat(Quote(statement_[bad_]), " belongs before 'where'");
      return;
    }
    const std::string what = complete_ ? "" : Expected();
    if (!what.empty()) {
      diagnostic_.message = Cat("expected ", what, " after ", Before(), instead);
    } else if (AtEnd()) {
      diagnostic_.message = Cat("the query ends too early, after ", Before());
    } else {
      diagnostic_.message = Cat("unexpected ", Quote(statement_[bad_]), " after ", Before());
    }
  }

  std::string_view text_;
  const Statement& statement_;
  const size_t bad_;
  const Probe& probe_;
  std::vector<bool> expected_;  // by token type
  std::string words_;           // the expected ones that are words, each followed by a space
  bool complete_ = false;       // what stands before is a statement
  Diagnostic diagnostic_;
};

}  // namespace

Diagnostic ExplainSyntaxError(std::string_view text, const Statement& statement, size_t bad,
                              const Probe& probe) {
  return Explainer(text, statement, bad, probe).Explain();
}

}  // namespace ttq::internal
