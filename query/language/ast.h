// SPDX-License-Identifier: MIT
//
// The syntax tree of a query: what the parser makes and the planner reads. It says what was asked,
// not what it means: a name may turn out to be a column, a variable or nothing at all, and a form
// that cannot be answered is represented like any other.
//
// Every node that an error can point to carries the bytes of the query text it was read from. Nodes
// are plain values, move-only where they own others, and safe to read from several threads.

#ifndef TTQ_QUERY_LANGUAGE_AST_H_
#define TTQ_QUERY_LANGUAGE_AST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ttq::ast {

// Bytes [begin, end) of the text that was parsed.
struct Range {
  uint32_t begin = 0, end = 0;
  bool operator==(const Range&) const = default;
};

struct Expr;
struct Query;
using ExprPtr = std::unique_ptr<Expr>;

// ---- Expressions ---------------------------------------------------------------------------
//
// One tree serves C expressions and conditions: a condition is an expression whose value is tested.
// Precedence is C's; `and`, `or`, `not` are `&&`, `||` and a `!` that binds looser than comparison.

struct Number {
  uint64_t value = 0;
  bool hex = false;                           // Written with 0x.
  bool is_unsigned = false, is_long = false;  // Written with u, l: of C's types.
};
struct Float {
  double value = 0;
  bool is_float = false;  // Written with f: `value` is a float's.
};
// 'a': one byte.
struct Character {
  unsigned char value = 0;
};
// Escapes are resolved. 'more than one byte' is a string too, as in Python.
struct String {
  std::string value;
};
// The word `null`, where it is not the right side of a test (see IsNull).
struct Null {};
// A column, a variable, a constant: `size`, `arg0`, `ns::Type<int>::member`. Without backticks.
struct Name {
  std::string name;
};
// $rax: without the dollar sign, in lower case.
struct Register {
  std::string name;
};

enum class UnaryOp { kAddress, kDereference, kPlus, kMinus, kBitNot, kNot };
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};

enum class BinaryOp {
  kMul,
  kDiv,
  kMod,
  kAdd,
  kSub,
  kShiftLeft,
  kShiftRight,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kBitAnd,
  kBitXor,
  kBitOr,
  kAnd,
  kOr,
};
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
};

struct Ternary {
  ExprPtr condition, then, otherwise;
};

// A type as C writes it without a declarator's name: `const struct Point **`, `unsigned char[4]`.
// `name` is in one canonical spacing: words separated by one space, `struct ` kept, no qualifiers.
struct TypeName {
  Range range;
  std::string name;                  // "unsigned char", "struct Point", "std::vector<int>"
  uint32_t pointers = 0;             // number of `*`
  std::optional<uint64_t> elements;  // [N], only after sizeof and in casts
};
struct Cast {
  TypeName type;
  ExprPtr operand;
};
struct SizeofType {
  TypeName type;
};
struct SizeofExpr {
  ExprPtr operand;
};

// object.member, object->member. `args.NAME` is Member of Name "args".
struct Member {
  ExprPtr object;
  std::string member;
  bool arrow = false;
  Range member_range;
};
struct Index {
  ExprPtr object, index;
};
// string(PTR); other names parse and are for the engine to refuse.
struct Call {
  std::string function;
  Range function_range;
  std::vector<ExprPtr> arguments;
};

struct InList {
  ExprPtr operand;
  std::vector<ExprPtr> values;  // not empty
  bool negated = false;
};
// Both ends included, as in SQL.
struct Between {
  ExprPtr operand, low, high;
  bool negated = false;
};
struct Pattern {
  enum class Kind { kName, kGlob, kRegex };
  Kind kind = Kind::kName;
  // Without delimiters. A regex has RE2's syntax and is found anywhere in the text; the parser has
  // compiled it once, so it is known to be valid. A glob has `*`, `?` and `[…]` and covers the
  // whole text.
  std::string text;
  Range range;
};
struct Matches {
  ExprPtr operand;
  Pattern pattern;  // kGlob or kRegex; a string without wildcards is a glob that matches itself
  bool negated = false;
};
struct IsNull {
  ExprPtr operand;
  bool negated = false;
  // Written `= null` or `!= null`, as C programmers do: a null pointer passes too, not only a
  // missing value.
  bool or_zero = false;
};

struct Expr {
  Range range;
  std::variant<Number, Float, Character, String, Null, Name, Register, Unary, Binary, Ternary, Cast,
               SizeofType, SizeofExpr, Member, Index, Call, InList, Between, Matches, IsNull>
      node;
};

// ---- Locations, times, places --------------------------------------------------------------

// ADDR | ADDR..ADDR | ADDR len N | EXPR.
struct Location {
  Range range;
  // A Number is an address; any other expression names memory by C's rules (an lvalue).
  ExprPtr start;
  // ADDR..END: the end, excluded. If both are Numbers, end > start. Never together with length.
  ExprPtr end;
  std::optional<uint64_t> length;  // ADDR len N; N > 0
};

struct Time {
  enum class Kind { kNumber, kStart, kEnd, kCrash, kQuery };
  Range range;
  Kind kind = Kind::kNumber;
  uint64_t number = 0;           // kNumber
  std::unique_ptr<Query> query;  // kQuery: the time of its first row
  int64_t offset = 0;            // the sum of all that follows: TIME + 3 - 1
};

// before T: times < T. after T: times > T. between A and B: A <= times < B.
struct Span {
  enum class Kind { kBefore, kAfter, kBetween };
  Range range;
  Kind kind = Kind::kBefore;
  Time first;                  // T, or A
  std::optional<Time> second;  // kBetween: B
};

// [module!]function. A pattern is kName unless it was written as "glob*" or /regex/.
struct FunctionPattern {
  Range range;
  std::optional<Pattern> module;
  Pattern function;
};

struct FileLine {
  Range range;
  std::string file;
  uint64_t line = 0;  // > 0
};

// FUNCTION | FILE:LINE | ADDR
struct Place {
  Range range;
  std::variant<FunctionPattern, FileLine, Number> what;
};

// by FUNCTION | by python FUNCTION | by python FILE:LINE
struct By {
  Range range;
  bool python = false;
  std::variant<FunctionPattern, FileLine> what;
};

struct ThreadFilter {
  Range range;
  bool all = false;     // all threads; else `number`
  uint64_t number = 0;  // in thread N, from 1
};

// A number that modifies a source: in frame N, depth N.
struct Numeral {
  Range range;
  uint64_t value = 0;
};

// What follows a source, in any order, each at most once. The parser refuses those that do not
// apply to the source, so that whatever is set here is meant.
struct Clauses {
  std::optional<Time> at;
  std::optional<Span> span;
  std::optional<ThreadFilter> thread;
  std::optional<Numeral> frame;  // in frame N
  std::optional<By> by;
  std::optional<FunctionPattern> in;  // py changes of V in FUNCTION
  std::optional<Numeral> depth;       // origin …, trace … depth N
  bool mixed = false;                 // backtrace mixed: Python frames among the native ones
  bool unfolded = false;              // trace …: each line of a loop, as often as it ran
};

// ---- Sources -------------------------------------------------------------------------------
//
// The clauses that a source takes; bits.
enum ClauseBit : unsigned {
  kAtClause = 1,
  kSpanClause = 2,
  kThreadClause = 4,
  kAllThreadsClause = 8,  // `all threads`
  kFrameClause = 16,
  kByClause = 32,
  kInClause = 64,
  kDepthClause = 128,
  kMixedClause = 256,
  kByPythonClause = 512,
  kUnfoldedClause = 1024,
};
// Of what is asked of a thread's stack.
inline constexpr unsigned kStateClauses =
    kAtClause | kThreadClause | kAllThreadsClause | kFrameClause;

// Each source has its name, as a query writes it, and the clauses that it takes.

// at, frame: where the location's expression is evaluated.
struct Accesses {
  static constexpr unsigned kClauses =
      kAtClause | kSpanClause | kThreadClause | kFrameClause | kByClause | kByPythonClause;
  enum class Kind { kWrites, kReads, kAccesses };
  // kFirst and kNext both take the earliest match of the span; "next" reads better after `after`.
  enum class Mode { kAll, kFirst, kLast, kNext };
  Kind kind = Kind::kWrites;
  Mode mode = Mode::kAll;
  Location location;
};
struct Memory {
  static constexpr const char* kName = "memory";
  static constexpr unsigned kClauses = kAtClause | kThreadClause | kFrameClause;
  Location location;
};
struct Print {
  static constexpr const char* kName = "print";
  static constexpr unsigned kClauses = kAtClause | kThreadClause | kFrameClause;
  ExprPtr expr;
};
struct ShowRegisters {
  static constexpr const char* kName = "registers";
  static constexpr unsigned kClauses = kAtClause | kThreadClause | kAllThreadsClause;
};
struct Backtrace {
  static constexpr const char* kName = "backtrace";
  static constexpr unsigned kClauses = kAtClause | kThreadClause | kAllThreadsClause | kMixedClause;
};
struct ShowSource {
  static constexpr const char* kName = "source";
  static constexpr unsigned kClauses = kAtClause | kThreadClause | kFrameClause;
};
struct Disassemble {
  static constexpr const char* kName = "disassemble";
  static constexpr unsigned kClauses = kAtClause;
  Place place;
};
struct Threads {
  static constexpr const char* kName = "threads";
  static constexpr unsigned kClauses = kAtClause;
};
struct Waits {
  static constexpr const char* kName = "waits";
  static constexpr unsigned kClauses = kAtClause;
};
struct Modules {
  static constexpr const char* kName = "modules";
  static constexpr unsigned kClauses = kAtClause;
};
struct Maps {
  static constexpr const char* kName = "maps";
  static constexpr unsigned kClauses = kAtClause;
};
struct Events {
  static constexpr const char* kName = "events";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause | kByPythonClause;
  std::optional<std::string> kind;  // lower case, not checked: "signal"
  Range kind_range;
};
struct Executions {
  static constexpr const char* kName = "executions of";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause | kByPythonClause;
  Place place;
};
struct Calls {
  static constexpr const char* kName = "calls to";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause | kByClause | kByPythonClause;
  FunctionPattern function;
};
// One activation: the first of a function, or the one that a thread is in at a time.
struct Trace {
  static constexpr const char* kName = "trace of";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause | kDepthClause | kUnfoldedClause;
  std::variant<FunctionPattern, Time> what;
};
// The event that ended the process.
struct Crash {
  static constexpr const char* kName = "crash";
  static constexpr unsigned kClauses = 0;
};

struct PyBacktrace {
  static constexpr const char* kName = "py backtrace";
  static constexpr unsigned kClauses = kStateClauses;
};
struct PyLocals {
  static constexpr const char* kName = "py locals";
  static constexpr unsigned kClauses = kStateClauses;
};
struct PySource {
  static constexpr const char* kName = "py source";
  static constexpr unsigned kClauses = kStateClauses;
};
// The part of Python that C shares: names, attributes, subscripts, literals, arithmetic.
struct PyPrint {
  static constexpr const char* kName = "py print";
  static constexpr unsigned kClauses = kAtClause | kThreadClause | kFrameClause;
  ExprPtr expr;
};
struct PyCalls {
  static constexpr const char* kName = "py calls to";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause;
  std::variant<FunctionPattern, FileLine> what;
};
// A function's lines, or one line.
struct PyExecutions {
  static constexpr const char* kName = "py executions of";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause;
  std::variant<FunctionPattern, FileLine> what;
};
struct PyTrace {
  static constexpr const char* kName = "py trace of";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause | kDepthClause | kUnfoldedClause;
  std::variant<FunctionPattern, FileLine, Time> what;
};
// Name: a variable; Member: EXPR.attribute; Index: EXPR[key].
struct PyChanges {
  static constexpr const char* kName = "py changes of";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause | kInClause;
  ExprPtr target;
};
struct PyExceptions {
  static constexpr const char* kName = "py exceptions";
  static constexpr unsigned kClauses = kSpanClause | kThreadClause;
};

// [TYPE] ADDR
struct ObjectAddress {
  Range range;
  std::optional<std::string> type;
  Range type_range;
  ExprPtr address;
};
struct Creation {
  static constexpr const char* kName = "creation of";
  static constexpr unsigned kClauses = kSpanClause;
  ObjectAddress object;
};
struct Deallocation {
  static constexpr const char* kName = "deallocation of";
  static constexpr unsigned kClauses = kSpanClause;
  ObjectAddress object;
};
struct Lifetime {
  static constexpr const char* kName = "lifetime of";
  static constexpr unsigned kClauses = kSpanClause;
  ObjectAddress object;
};
struct Refcounts {
  static constexpr const char* kName = "refcounts of";
  static constexpr unsigned kClauses = kSpanClause;
  ObjectAddress object;
};
struct Object {
  static constexpr const char* kName = "object";
  static constexpr unsigned kClauses = kAtClause;
  ObjectAddress object;
};
struct ObjectsOfType {
  static constexpr const char* kName = "objects of type";
  static constexpr unsigned kClauses = kAtClause;
  std::string type;
  Range type_range;
};
struct Heap {
  static constexpr const char* kName = "heap";
  static constexpr unsigned kClauses = kAtClause;
  ExprPtr address;
};
struct HeapLeaks {
  static constexpr const char* kName = "heap leaks";
  static constexpr unsigned kClauses = kAtClause;
};
struct Why {
  static constexpr const char* kName = "why";
  static constexpr unsigned kClauses = kAtClause;
  enum class Question { kStillAlive, kFreedTooEarly };
  Question question = Question::kStillAlive;
  ObjectAddress object;
};
// A Register in `location.start` asks for a register.
struct Origin {
  static constexpr const char* kName = "origin of";
  static constexpr unsigned kClauses = kAtClause | kThreadClause | kFrameClause | kDepthClause;
  Location location;
};

// All sources. Each is an alternative of Source, and has a plan: see query/sources/plans.h.
// clang-format off
#define TTQ_SOURCES(X)                                                                       \
  X(Accesses) X(Memory) X(Print) X(ShowRegisters) X(Backtrace) X(ShowSource) X(Disassemble)  \
  X(Threads) X(Waits) X(Modules) X(Maps) X(Events) X(Executions) X(Calls) X(Crash)           \
  X(PyBacktrace) X(PyLocals) X(PySource) X(PyPrint) X(PyCalls) X(PyExecutions) X(PyChanges)  \
  X(PyExceptions) X(Creation) X(Deallocation) X(Lifetime) X(Refcounts) X(Object)             \
  X(ObjectsOfType) X(Heap) X(HeapLeaks) X(Why) X(Origin) X(Trace) X(PyTrace)
// clang-format on

template <class, class... Nodes>
struct VariantOf {
  using Type = std::variant<Nodes...>;
};
#define TTQ_SOURCE_NODE(Node) , Node
using Source = VariantOf<void TTQ_SOURCES(TTQ_SOURCE_NODE)>::Type;
#undef TTQ_SOURCE_NODE

// ---- The pipeline --------------------------------------------------------------------------

struct Where {
  ExprPtr condition;
};
// Clauses: not empty.
struct Select {
  std::vector<ExprPtr> columns;
};
struct SortKey {
  ExprPtr column;
  bool descending = false;
};
// Clauses: not empty.
struct Sort {
  std::vector<SortKey> keys;
};
struct First {
  uint64_t count = 0;
};
struct Last {
  uint64_t count = 0;
};
// Clauses: empty: one row.
struct Count {
  std::vector<ExprPtr> by;
};
// Clauses: empty: whole rows.
struct Distinct {
  std::vector<ExprPtr> columns;
};
struct WithBacktrace {
  bool mixed = false;
};
struct WithPyBacktrace {};

struct Stage {
  Range range;
  std::variant<Where, Select, Sort, First, Last, Count, Distinct, WithBacktrace, WithPyBacktrace>
      what;
};

struct Query {
  Range range;
  Range source_range;  // the source with its clauses
  Source source;
  Clauses clauses;
  std::vector<Stage> stages;  // a `where` that follows the source directly is the first stage
};

// The canonical text. Parsing it gives a tree with the same canonical text.
std::string ToString(const Query& query);
std::string ToString(const Expr& expr);
std::string ToString(const Location& location);
std::string ToString(const Time& time);
std::string ToString(const TypeName& type);
std::string ToString(const FunctionPattern& function);
std::string ToString(const Place& place);
std::string ToString(const std::variant<FunctionPattern, FileLine>& what);

// The words a user would use for this kind of source: "writes to", "py backtrace". For messages.
const char* SourceName(const Source& source);

}  // namespace ttq::ast

#endif  // TTQ_QUERY_LANGUAGE_AST_H_
