// SPDX-License-Identifier: MIT

#include "query/language/ast.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "fmt/core.h"

namespace ttq::ast {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

// Words that are no name without backticks, in order: the grammar's hard and clause words.
constexpr std::string_view kReservedWords[] = {
    "_bool",    "access",  "accesses", "after",   "all",   "and",    "asc",      "at",
    "before",   "between", "bool",     "by",      "char",  "const",  "created",  "desc",
    "distinct", "double",  "enum",     "first",   "float", "freed",  "in",       "int",
    "is",       "last",    "long",     "matches", "mixed", "next",   "not",      "null",
    "of",       "or",      "py",       "read",    "reads", "select", "short",    "signed",
    "sizeof",   "sort",    "still",    "struct",  "to",    "union",  "unsigned", "void",
    "volatile", "was",     "when",     "where",   "who",   "write",  "writes",   "wrote",
};

bool IsReserved(std::string_view word) {
  const std::string lower = Lower(word);
  // The standard typedefs are keywords of the grammar too.
  for (std::string_view base : {"int8_t", "int16_t", "int32_t", "int64_t", "intptr_t", "size_t"}) {
    if (lower == base || (lower.size() == base.size() + 1 && lower.ends_with(base) &&
                          lower[0] == (base == "size_t" ? 's' : 'u'))) {
      return true;
    }
  }
  return lower == "ptrdiff_t" || std::find(std::begin(kReservedWords), std::end(kReservedWords),
                                           lower) != std::end(kReservedWords);
}

bool IsWord(std::string_view text) {
  return !text.empty() && !IsDigit(text[0]) && std::all_of(text.begin(), text.end(), IsWordByte);
}

// Words joined by `joint`, of which the first can begin a name.
bool IsPath(std::string_view text, std::string_view joint) {
  bool first = true;
  for (std::string_view part : Split(text, joint)) {
    if (!IsWord(part) || (first && IsReserved(part))) return false;
    first = false;
  }
  return true;
}

std::string Escape(std::string_view bytes, char quote) {
  std::string result(1, quote);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    switch (c) {
      case '\n':
        result += "\\n";
        continue;
      case '\t':
        result += "\\t";
        continue;
      case '\r':
        result += "\\r";
        continue;
      case '\\':
        result += "\\\\";
        continue;
      default:
        break;
    }
    if (c == quote) {
      result += Cat("\\", c);
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
      // Bytes of a string need not be UTF-8, the text of a query must be.
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      result += c;
    }
  }
  return result + quote;
}

std::string NameText(std::string_view name) {
  return IsPath(name, "::") ? std::string(name) : Cat("`", name, "`");
}

std::string WordText(std::string_view word) {
  return IsWord(word) ? std::string(word) : Cat("`", word, "`");
}

std::string PatternText(const Pattern& pattern) {
  switch (pattern.kind) {
    case Pattern::Kind::kName:
      if (IsPath(pattern.text, "::")) return pattern.text;
      return pattern.text.find('`') != std::string::npos ? Escape(pattern.text, '"')
                                                         : Cat("`", pattern.text, "`");
    case Pattern::Kind::kGlob:
      return Escape(pattern.text, '"');
    case Pattern::Kind::kRegex:
      break;
  }
  std::string result = "/";
  for (size_t i = 0; i < pattern.text.size(); ++i) {
    if (pattern.text[i] == '\\' && i + 1 < pattern.text.size()) {
      result += pattern.text[i++];
    } else if (pattern.text[i] == '/') {
      result += '\\';
    }
    result += pattern.text[i];
  }
  return result + "/";
}

std::string NumberText(const Number& number) {
  return Cat(number.hex ? fmt::format("{:#x}", number.value) : Cat(number.value),
             number.is_unsigned ? "u" : "", number.is_long ? "l" : "");
}

// How tightly an expression's outermost operator binds; the order of the grammar's alternatives.
enum Precedence {
  kTernary,
  kOr,
  kAnd,
  kNot,
  kBitOr,
  kBitXor,
  kBitAnd,
  kEquality,
  kIsNull,
  kMatches,
  kBetween,
  kIn,
  kRelational,
  kShift,
  kAdd,
  kMul,
  kPrefix,
  kPostfix,
};

struct BinaryText {
  const char* text;
  Precedence precedence;
};

BinaryText TextOf(BinaryOp op) {
  switch (op) {
    case BinaryOp::kMul:
      return {"*", kMul};
    case BinaryOp::kDiv:
      return {"/", kMul};
    case BinaryOp::kMod:
      return {"%", kMul};
    case BinaryOp::kAdd:
      return {"+", kAdd};
    case BinaryOp::kSub:
      return {"-", kAdd};
    case BinaryOp::kShiftLeft:
      return {"<<", kShift};
    case BinaryOp::kShiftRight:
      return {">>", kShift};
    case BinaryOp::kLess:
      return {"<", kRelational};
    case BinaryOp::kLessEqual:
      return {"<=", kRelational};
    case BinaryOp::kGreater:
      return {">", kRelational};
    case BinaryOp::kGreaterEqual:
      return {">=", kRelational};
    case BinaryOp::kEqual:
      return {"==", kEquality};
    case BinaryOp::kNotEqual:
      return {"!=", kEquality};
    case BinaryOp::kBitAnd:
      return {"&", kBitAnd};
    case BinaryOp::kBitXor:
      return {"^", kBitXor};
    case BinaryOp::kBitOr:
      return {"|", kBitOr};
    case BinaryOp::kAnd:
      return {"and", kAnd};
    case BinaryOp::kOr:
      return {"or", kOr};
  }
  return {"?", kPostfix};
}

struct Printed {
  std::string text;
  Precedence precedence = kPostfix;
};

Printed PrintExpr(const Expr& expr);

// The text of an operand that must bind at least as tightly as `least`.
std::string Operand(const Expr& expr, Precedence least) {
  Printed printed = PrintExpr(expr);
  return printed.precedence >= least ? std::move(printed.text) : Cat("(", printed.text, ")");
}

std::string JoinExprs(const std::vector<ExprPtr>& exprs) {
  std::string result;
  for (const ExprPtr& expr : exprs) {
    result += Cat(result.empty() ? "" : ", ", ToString(*expr));
  }
  return result;
}

// Whether a text begins with a word that would turn a `|` before it into the bar of a stage.
bool BeginsLikeStage(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsWordByte);
  const std::string word = Lower(text.substr(0, end - text.begin()));
  return word == "count" || word == "backtrace";
}

Printed PrintUnary(const Unary& unary) {
  if (unary.op == UnaryOp::kNot) {
    Printed operand = PrintExpr(*unary.operand);
    if (operand.precedence >= kPostfix) return {"!" + operand.text, kPrefix};
    return {"not " + (operand.precedence >= kNot ? operand.text : "(" + operand.text + ")"), kNot};
  }
  const char* sign = "";
  switch (unary.op) {
    case UnaryOp::kAddress:
      sign = "&";
      break;
    case UnaryOp::kDereference:
      sign = "*";
      break;
    case UnaryOp::kPlus:
      sign = "+";
      break;
    case UnaryOp::kMinus:
      sign = "-";
      break;
    case UnaryOp::kBitNot:
      sign = "~";
      break;
    case UnaryOp::kNot:
      break;
  }
  const auto* inner = std::get_if<Unary>(&unary.operand->node);
  const bool dereferences =
      unary.op == UnaryOp::kDereference && inner != nullptr && inner->op == UnaryOp::kDereference;
  // `&&` is a token, and `- -x` is easier to read with brackets.
  const bool brackets = inner != nullptr && !dereferences;
  return {sign + Operand(*unary.operand, brackets ? kPostfix : kPrefix), kPrefix};
}

Printed PrintExpr(const Expr& expr) {
  return std::visit(
      Overload{
          [](const Number& n) -> Printed { return {NumberText(n)}; },
          [](const Float& f) -> Printed {
            std::string text = f.is_float ? fmt::format("{}", static_cast<float>(f.value))
                                          : fmt::format("{}", f.value);
            if (text.find_first_of(".e") == std::string::npos) text += ".0";
            return {f.is_float ? text + "f" : text};
          },
          [](const Character& c) -> Printed {
            const char byte = static_cast<char>(c.value);
            return {Escape(std::string_view(&byte, 1), '\'')};
          },
          [](const String& s) -> Printed { return {Escape(s.value, '"')}; },
          [](const Null&) -> Printed { return {"null"}; },
          [](const Name& n) -> Printed { return {NameText(n.name)}; },
          [](const Register& r) -> Printed { return {"$" + r.name}; },
          [](const Unary& u) -> Printed { return PrintUnary(u); },
          [](const Binary& b) -> Printed {
            const auto [sign, precedence] = TextOf(b.op);
            const std::string left = Operand(*b.left, precedence);
            std::string right = Operand(*b.right, static_cast<Precedence>(precedence + 1));
            if (b.op != BinaryOp::kBitOr) {
              return {Cat(left, " ", sign, " ", right), precedence};
            }
            // A bare `|` separates stages.
            if (BeginsLikeStage(right)) right = Cat("(", right, ")");
            return {Cat("(", left, " | ", right, ")")};
          },
          [](const Ternary& t) -> Printed {
            return {Cat(Operand(*t.condition, kOr), " ? ", ToString(*t.then), " : ",
                        Operand(*t.otherwise, kTernary)),
                    kTernary};
          },
          [](const Cast& c) -> Printed {
            const bool cast = std::holds_alternative<Cast>(c.operand->node);
            return {Cat("(", ToString(c.type), ")", Operand(*c.operand, cast ? kPrefix : kPostfix)),
                    kPrefix};
          },
          [](const SizeofType& s) -> Printed {
            return {Cat("sizeof(", ToString(s.type), ")"), kPrefix};
          },
          [](const SizeofExpr& s) -> Printed {
            return {Cat("sizeof(", ToString(*s.operand), ")"), kPrefix};
          },
          [](const Member& m) -> Printed {
            return {Cat(Operand(*m.object, kPostfix), m.arrow ? "->" : ".", WordText(m.member))};
          },
          [](const Index& i) -> Printed {
            return {Cat(Operand(*i.object, kPostfix), "[", ToString(*i.index), "]")};
          },
          [](const Call& c) -> Printed {
            return {Cat(NameText(c.function), "(", JoinExprs(c.arguments), ")")};
          },
          [](const InList& in) -> Printed {
            return {Cat(Operand(*in.operand, kIn), in.negated ? " not in (" : " in (",
                        JoinExprs(in.values), ")"),
                    kIn};
          },
          [](const Between& b) -> Printed {
            return {Cat(Operand(*b.operand, kBetween), b.negated ? " not between " : " between ",
                        Operand(*b.low, kShift), " and ", Operand(*b.high, kShift)),
                    kBetween};
          },
          [](const Matches& m) -> Printed {
            return {Cat(Operand(*m.operand, kMatches), m.negated ? " not matches " : " matches ",
                        PatternText(m.pattern)),
                    kMatches};
          },
          [](const IsNull& n) -> Printed {
            if (n.or_zero) {
              return {Cat(Operand(*n.operand, kEquality), n.negated ? " != null" : " == null"),
                      kEquality};
            }
            return {Cat(Operand(*n.operand, kIsNull), n.negated ? " is not null" : " is null"),
                    kIsNull};
          },
      },
      expr.node);
}

// For where the grammar takes no comparison: locations, objects.
std::string Arithmetic(const Expr& expr) { return Operand(expr, kShift); }

std::string ToString(const FileLine& place) {
  const bool bare = IsPath(place.file, ".");
  return Cat(bare ? place.file : Escape(place.file, '"'), ":", place.line);
}

std::string ToString(const ObjectAddress& object) {
  const std::string address = Arithmetic(*object.address);
  if (!object.type) return address;
  // `Type *p` and `Type (p)` read as a product and a call; only a quoted type never does.
  const bool plain = IsWordByte(address[0]) || address[0] == '$';
  if (!plain) return Cat(Escape(*object.type, '"'), " (", address, ")");
  return Cat(IsPath(*object.type, ".") ? *object.type : Escape(*object.type, '"'), " ", address);
}

std::string ToString(const Span& span) {
  switch (span.kind) {
    case Span::Kind::kBefore:
      return Cat("before ", ToString(span.first));
    case Span::Kind::kAfter:
      return Cat("after ", ToString(span.first));
    case Span::Kind::kBetween:
      break;
  }
  return Cat("between ", ToString(span.first), " and ", ToString(*span.second));
}

std::string ToString(const Clauses& clauses) {
  std::string result;
  if (clauses.at) result += Cat(" at ", ToString(*clauses.at));
  if (clauses.span) result += Cat(" ", ToString(*clauses.span));
  if (clauses.thread) {
    result +=
        Cat(clauses.thread->all ? " all threads" : Cat(" in thread ", clauses.thread->number));
  }
  if (clauses.frame) result += Cat(" in frame ", clauses.frame->value);
  if (clauses.in) result += Cat(" in ", ToString(*clauses.in));
  if (clauses.by) {
    result += Cat(clauses.by->python ? " by python " : " by ", ToString(clauses.by->what));
  }
  if (clauses.depth) result += Cat(" depth ", clauses.depth->value);
  if (clauses.mixed) result += " mixed";
  if (clauses.unfolded) result += " unfolded";
  return result;
}

std::string AccessText(const Accesses& accesses, const std::string& name) {
  const bool reads = accesses.kind == Accesses::Kind::kReads;
  std::string mode;
  switch (accesses.mode) {
    case Accesses::Mode::kAll:
      return Cat(name, " ", ToString(accesses.location));
    case Accesses::Mode::kFirst:
      mode = "first ";
      break;
    case Accesses::Mode::kLast:
      mode = "last ";
      break;
    case Accesses::Mode::kNext:
      mode = "next ";
      break;
  }
  const char* noun = reads                                      ? "read of "
                     : accesses.kind == Accesses::Kind::kWrites ? "write to "
                                                                : "access to ";
  return Cat(mode, noun, ToString(accesses.location));
}

// A function or a line, or a time in brackets.
template <class... What>
std::string ActivationText(const std::variant<What...>& what) {
  return std::visit(Overload{[](const Time& time) {
                               const bool has = time.kind == Time::Kind::kQuery && time.offset == 0;
                               return has ? ToString(time) : Cat("(", ToString(time), ")");
                             },
                             [](const auto& place) { return ToString(place); }},
                    what);
}

std::string SourceText(const Source& source) {
  const std::string name = SourceName(source);
  return std::visit(Overload{
                        [&](const Accesses& s) { return AccessText(s, name); },
                        [&](const Memory& s) { return name + " " + ToString(s.location); },
                        [&](const Print& s) { return name + " " + ToString(*s.expr); },
                        [&](const Disassemble& s) { return name + " " + ToString(s.place); },
                        [&](const Events& s) {
                          if (!s.kind) return name;
                          // Some of the soft words are kinds, none of the reserved ones is.
                          return name + " " +
                                 (IsPath(*s.kind, "::") ? WordText(*s.kind) : Escape(*s.kind, '"'));
                        },
                        [&](const Executions& s) { return name + " " + ToString(s.place); },
                        [&](const Calls& s) { return name + " " + ToString(s.function); },
                        [&](const PyPrint& s) { return name + " " + ToString(*s.expr); },
                        [&](const PyCalls& s) { return name + " " + ToString(s.what); },
                        [&](const PyExecutions& s) { return name + " " + ToString(s.what); },
                        [&](const PyChanges& s) { return name + " " + Arithmetic(*s.target); },
                        [&](const Creation& s) { return name + " " + ToString(s.object); },
                        [&](const Deallocation& s) { return name + " " + ToString(s.object); },
                        [&](const Lifetime& s) { return name + " " + ToString(s.object); },
                        [&](const Refcounts& s) { return name + " " + ToString(s.object); },
                        [&](const Object& s) { return name + " " + ToString(s.object); },
                        [&](const ObjectsOfType& s) {
                          return name + " " + (IsPath(s.type, ".") ? s.type : Escape(s.type, '"'));
                        },
                        [&](const Heap& s) {
                          const std::string address = Arithmetic(*s.address);
                          const bool leaks = Lower(address).starts_with("leaks");
                          return name + " " + (leaks ? "(" + address + ")" : address);
                        },
                        [&](const Why& s) {
                          return Cat("why is ", ToString(s.object),
                                     s.question == Why::Question::kStillAlive ? " still alive"
                                                                              : " freed too early");
                        },
                        [&](const Origin& s) { return name + " " + ToString(s.location); },
                        [&](const Trace& s) { return name + " " + ActivationText(s.what); },
                        [&](const PyTrace& s) { return name + " " + ActivationText(s.what); },
                        [&](const auto&) { return name; },
                    },
                    source);
}

std::string StageText(const Stage& stage) {
  return std::visit(
      Overload{
          [](const Where& s) { return "where " + ToString(*s.condition); },
          [](const Select& s) { return "select " + JoinExprs(s.columns); },
          [](const Sort& s) {
            std::string keys;
            for (const SortKey& key : s.keys) {
              keys += Cat(keys.empty() ? "" : ", ", ToString(*key.column),
                          key.descending ? " desc" : "");
            }
            return "sort by " + keys;
          },
          [](const First& s) { return Cat("first ", s.count); },
          [](const Last& s) { return Cat("last ", s.count); },
          [](const Count& s) { return s.by.empty() ? "count" : "count by " + JoinExprs(s.by); },
          [](const Distinct& s) {
            return s.columns.empty() ? "distinct" : "distinct " + JoinExprs(s.columns);
          },
          [](const WithBacktrace& s) {
            return std::string(s.mixed ? "backtrace mixed" : "backtrace");
          },
          [](const WithPyBacktrace&) { return std::string("py backtrace"); },
      },
      stage.what);
}

}  // namespace

std::string ToString(const Query& query) {
  std::string result = SourceText(query.source) + ToString(query.clauses);
  for (const Stage& stage : query.stages) result += Cat(" | ", StageText(stage));
  return result;
}

std::string ToString(const Expr& expr) { return PrintExpr(expr).text; }

std::string ToString(const Location& location) {
  std::string result = Arithmetic(*location.start);
  if (location.end) result += Cat("..", Arithmetic(*location.end));
  if (location.length) result += Cat(" len ", *location.length);
  return result;
}

std::string ToString(const Time& time) {
  std::string result;
  switch (time.kind) {
    case Time::Kind::kNumber:
      result = Cat(time.number);
      break;
    case Time::Kind::kStart:
      result = "start";
      break;
    case Time::Kind::kEnd:
      result = "end";
      break;
    case Time::Kind::kCrash:
      result = "crash";
      break;
    case Time::Kind::kQuery:
      result = Cat("(", ToString(*time.query), ")");
      break;
  }
  if (time.offset > 0) result += Cat(" + ", time.offset);
  if (time.offset < 0) result += Cat(" - ", 0 - static_cast<uint64_t>(time.offset));
  return result;
}

std::string ToString(const TypeName& type) {
  std::string result = type.name;
  result.append(type.pointers, '*');
  if (type.elements) result += Cat("[", *type.elements, "]");
  return result;
}

std::string ToString(const FunctionPattern& function) {
  return function.module ? Cat(PatternText(*function.module), "!", PatternText(function.function))
                         : PatternText(function.function);
}

std::string ToString(const Place& place) {
  return std::visit(Overload{[](const Number& n) { return NumberText(n); },
                             [](const auto& other) { return ToString(other); }},
                    place.what);
}

const char* SourceName(const Source& source) {
  return std::visit(Overload{[](const Accesses& s) {
                               return s.kind == Accesses::Kind::kWrites  ? "writes to"
                                      : s.kind == Accesses::Kind::kReads ? "reads of"
                                                                         : "accesses to";
                             },
                             [](const auto& s) { return s.kName; }},
                    source);
}

std::string ToString(const std::variant<FunctionPattern, FileLine>& what) {
  return std::visit([](const auto& place) { return ToString(place); }, what);
}

}  // namespace ttq::ast
