// SPDX-License-Identifier: MIT

#include "query/cpython/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/cpython/context.h"
#include "query/language/diagnostic.h"
#include "query/language/operators.h"

namespace ttq::python {
namespace {

using Made = decltype(PyValue::made);

PyValue Of(Made made) { return {0, std::move(made), ""}; }
PyValue OfObject(uint64_t object) { return {object, {}, ""}; }

// An object's value where it is None, a number or a text: what arithmetic and subscripts need of
// it. Nothing: it is something else, or larger than what is computed with here.
std::optional<Made> Plain(const PyValue& value, ObjectReader& objects) {
  constexpr size_t kMaxCharacters = 1 << 20;
  if (value.object == 0) return value.made;
  const TypeInfo* type = objects.TypeOf(value.object);
  if (!type) return std::nullopt;
  if (type->name == "NoneType") return Made();
  if (type->name == "bool") return objects.Int(value.object).value_or(0) != 0;
  if (const auto number = objects.Int(value.object)) return *number;
  if (const auto number = objects.Float(value.object)) return *number;
  if (auto text = objects.Str(value.object, kMaxCharacters + 1)) {
    if (text->size() > kMaxCharacters) return std::nullopt;
    return *std::move(text);
  }
  return std::nullopt;
}

std::optional<int64_t> AsInt(const Made& made) {
  if (const auto* b = std::get_if<bool>(&made)) return *b;
  if (const auto* n = std::get_if<int64_t>(&made)) return *n;
  return std::nullopt;
}

// Exact: it has 64 bits of precision.
std::optional<long double> AsReal(const Made& made) {
  if (const auto n = AsInt(made)) return static_cast<long double>(*n);
  if (const auto* d = std::get_if<double>(&made)) return *d;
  return std::nullopt;
}

// -1, 0, 1; nothing where Python would raise TypeError, or has no order (NaN).
std::optional<int> Compare(const Made& a, const Made& b) {
  const auto p = AsReal(a), q = AsReal(b);
  if (p && q) {
    if (std::isnan(*p) || std::isnan(*q)) return std::nullopt;
    return *p < *q ? -1 : *p > *q;
  }
  const auto *s = std::get_if<std::string>(&a), *t = std::get_if<std::string>(&b);
  if (!s || !t) return std::nullopt;
  const int order = s->compare(*t);
  return order < 0 ? -1 : order > 0;
}

bool Equal(const Made& a, const Made& b) {
  const auto p = AsReal(a), q = AsReal(b);
  return p && q ? *p == *q : !p && !q && a == b;
}

// UTF-8 to code points; what is not UTF-8 becomes U+FFFD.
std::u32string CodePoints(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = text[i];
    const size_t more = first < 0x80 ? 0 : first >> 5 == 6 ? 1 : first >> 4 == 14 ? 2 : 3;
    char32_t c = more == 0 ? first : first & (0x3f >> more);
    if ((first & 0xc0) == 0x80 || i + more >= text.size()) {
      out += U'\ufffd';
      ++i;
      continue;
    }
    for (size_t k = 1; k <= more; ++k) c = c << 6 | (static_cast<uint8_t>(text[i + k]) & 0x3f);
    out += c;
    i += more + 1;
  }
  return out;
}

// Of two whole numbers; nothing where it does not fit 64 bits, or there is none.
std::optional<Made> Whole(ast::BinaryOp op, int64_t x, int64_t y) {
  using Op = ast::BinaryOp;
  int64_t result;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(x, y, &result)) return std::nullopt;
      return result;
    case Op::kSub:
      if (__builtin_sub_overflow(x, y, &result)) return std::nullopt;
      return result;
    case Op::kMul:
      if (__builtin_mul_overflow(x, y, &result)) return std::nullopt;
      return result;
    case Op::kDiv: {
      constexpr int64_t kExact = int64_t{1} << 53;
      if (y == 0 || x < -kExact || x > kExact || y < -kExact || y > kExact) return std::nullopt;
      return static_cast<double>(x) / static_cast<double>(y);
    }
    case Op::kMod: {
      if (y == 0) return std::nullopt;
      if (y == -1) return int64_t{0};
      // Python's remainder has the sign of the divisor.
      const int64_t rest = x % y;
      return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
    }
    case Op::kShiftLeft:
      if (y < 0 || y > 62 || x > INT64_MAX >> y || x < INT64_MIN >> y) return std::nullopt;
      return static_cast<int64_t>(static_cast<uint64_t>(x) << y);
    case Op::kShiftRight:
      if (y < 0) return std::nullopt;
      return x >> std::min<int64_t>(y, 63);
    case Op::kBitAnd:
      return x & y;
    case Op::kBitOr:
      return x | y;
    case Op::kBitXor:
      return x ^ y;
    default:
      return std::nullopt;
  }
}

class Evaluator {
 public:
  Evaluator(FrameReader& frames, const Frame* frame)
      : frames_(frames), objects_(frames.objects()), frame_(frame) {}

  absl::StatusOr<PyValue> Run(const ast::Expr& expr, int depth) {
    constexpr int kDeepest = 100;
    if (depth > kDeepest) return ErrorAt(expr.range, "this expression is nested too deeply");
    if (const auto* number = std::get_if<ast::Number>(&expr.node)) {
      if (number->is_unsigned || number->is_long) return NotPython(expr);
      if (number->value > INT64_MAX) return TooLarge(expr);
      return Of(static_cast<int64_t>(number->value));
    }
    if (const auto* number = std::get_if<ast::Float>(&expr.node)) {
      return number->is_float ? NotPython(expr) : absl::StatusOr<PyValue>(Of(number->value));
    }
    if (const auto* text = std::get_if<ast::String>(&expr.node)) return Of(text->value);
    if (const auto* text = std::get_if<ast::Character>(&expr.node)) {
      return Of(std::string(1, static_cast<char>(text->value)));
    }
    if (const auto* name = std::get_if<ast::Name>(&expr.node)) return Name(expr, name->name);
    if (const auto* member = std::get_if<ast::Member>(&expr.node)) {
      return Attribute(*member, depth);
    }
    if (const auto* index = std::get_if<ast::Index>(&expr.node)) return Subscript(*index, depth);
    if (const auto* call = std::get_if<ast::Call>(&expr.node)) return Call(expr, *call, depth);
    if (const auto* unary = std::get_if<ast::Unary>(&expr.node)) return Unary(expr, *unary, depth);
    if (const auto* binary = std::get_if<ast::Binary>(&expr.node)) {
      return Binary(expr, *binary, depth);
    }
    return ErrorAt(expr.range, "this is not Python that can be answered without running it",
                   "use names, attributes, subscripts, literals and arithmetic");
  }

 private:
  static absl::Status NotPython(const ast::Expr& expr) {
    return ErrorAt(expr.range, "Python's numbers have no such ending");
  }
  absl::StatusOr<PyValue> Name(const ast::Expr& expr, const std::string& name) {
    if (name == "None") return Of({});
    if (name == "True") return Of(true);
    if (name == "False") return Of(false);
    if (!frame_) return ErrorAt(expr.range, "no Python frame is there to look " + name + " up in");
    PyValue value;
    value.object = frames_.Lookup(*frame_, name, &value.scope);
    if (value.object != 0) return value;
    std::vector<std::string> names;
    for (const LocalVariable& variable : frames_.Locals(*frame_)) names.push_back(variable.name);
    for (const Code::Variable& variable : frame_->code->variables) {
      if (variable.name == name) {
        return ErrorAt(expr.range,
                       fmt::format("{} has no value here, in {}", name, frame_->code->qualname));
      }
    }
    return UnknownAt(expr.range, fmt::format("{} knows no name {}", frame_->code->qualname, name),
                     Nearest(name, names));
  }

  absl::StatusOr<PyValue> Attribute(const ast::Member& member, int depth) {
    ASSIGN_OR_RETURN(PyValue value, Run(*member.object, depth + 1));
    const uint64_t found =
        value.object == 0 ? 0 : objects_.GetAttribute(value.object, member.member);
    if (found != 0) return OfObject(found);
    std::vector<std::string> names;
    if (value.object != 0) {
      for (const python::Attribute& a : objects_.Attributes(value.object)) {
        names.push_back(a.name);
      }
    }
    return UnknownAt(member.member_range,
                     fmt::format("the {} object has no attribute {} that could be read without "
                                 "running code",
                                 TypeNameOf(value, objects_), member.member),
                     Nearest(member.member, names));
  }

  // Whether a class written in Python says what this operation does.
  bool IsOverridden(const PyValue& value, std::string_view method) {
    const TypeInfo* type = value.object == 0 ? nullptr : objects_.TypeOf(value.object);
    if (type == nullptr || !type->heap()) return false;
    const TypeInfo* found = objects_.TypeOf(objects_.GetAttribute(type->address, method));
    return found != nullptr && found->name == "function";
  }

  // Whether a number or a text is of a subclass, whose operators may give something else.
  bool IsOfSubclass(const PyValue& value) {
    const TypeInfo* type = value.object == 0 ? nullptr : objects_.TypeOf(value.object);
    return type != nullptr && type->heap();
  }

  // Where a subscript of so many items leads; nothing: out of range.
  static std::optional<size_t> Position(int64_t at, size_t count) {
    const auto size = static_cast<int64_t>(count);
    if (at < 0) at += size;
    if (at < 0 || at >= size) return std::nullopt;
    return static_cast<size_t>(at);
  }

  absl::StatusOr<PyValue> Item(const ast::Index& node, const ObjectReader::Pairs& items,
                               const PyValue& index) {
    const std::optional<Made> key = Plain(index, objects_);
    for (const auto& [k, v] : items) {
      if (k == index.object) return OfObject(v);
      const std::optional<Made> candidate = key ? Plain(OfObject(k), objects_) : std::nullopt;
      if (candidate && Equal(*candidate, *key)) return OfObject(v);
    }
    if (!key) {
      return ErrorAt(node.index->range,
                     "whether the dict has an equal key cannot be told without running code");
    }
    return ErrorAt(node.index->range,
                   fmt::format("the dict has no key {}", ReprOf(index, objects_)));
  }

  absl::StatusOr<PyValue> Subscript(const ast::Index& node, int depth) {
    ASSIGN_OR_RETURN(PyValue value, Run(*node.object, depth + 1));
    ASSIGN_OR_RETURN(PyValue index, Run(*node.index, depth + 1));
    const bool is_overridden = IsOverridden(value, "__getitem__");
    const auto pairs = is_overridden ? std::nullopt : objects_.DictItems(value.object);
    if (pairs) return Item(node, *pairs, index);
    const std::optional<Made> plain = Plain(index, objects_);
    const std::optional<int64_t> wanted = plain ? AsInt(*plain) : std::nullopt;
    const auto beyond = [&](size_t count, const char* what) {
      return ErrorAt(node.index->range, fmt::format("there are only {} {}", count, what));
    };
    if (wanted && !is_overridden) {
      if (const auto items = objects_.Items(value.object, size_t{1} << 24)) {
        const auto at = Position(*wanted, items->size());
        return at ? absl::StatusOr<PyValue>(OfObject((*items)[*at]))
                  : beyond(items->size(), "items");
      }
      if (const auto bytes = objects_.BytesOf(value.object)) {
        const auto at = Position(*wanted, bytes->size());
        return at ? absl::StatusOr<PyValue>(Of(int64_t{static_cast<uint8_t>((*bytes)[*at])}))
                  : beyond(bytes->size(), "bytes");
      }
      if (const auto text = objects_.Text(value.object, size_t{1} << 24)) {
        const auto at = Position(*wanted, text->size());
        if (!at) return beyond(text->size(), "characters");
        std::string character;
        AppendUtf8((*text)[*at], &character);
        return Of(character);
      }
    }
    return ErrorAt(node.object->range,
                   fmt::format("a {} cannot be subscripted without running code",
                               TypeNameOf(value, objects_)));
  }

  // How many items it has; nothing: that takes code to run, or it is too many.
  std::optional<int64_t> LengthOf(const PyValue& value) {
    constexpr size_t kMaxCount = size_t{1} << 24;
    if (value.object == 0) {
      const auto* text = std::get_if<std::string>(&value.made);
      if (text == nullptr) return std::nullopt;
      return static_cast<int64_t>(CodePoints(*text).size());
    }
    if (IsOverridden(value, "__len__")) return std::nullopt;
    const auto count = [](const auto& items) -> std::optional<int64_t> {
      if (items->size() >= kMaxCount) return std::nullopt;
      return static_cast<int64_t>(items->size());
    };
    if (const auto items = objects_.Items(value.object, kMaxCount)) return count(items);
    if (const auto items = objects_.DictItems(value.object, kMaxCount)) return count(items);
    if (const auto items = objects_.SetItems(value.object, kMaxCount)) return count(items);
    if (const auto text = objects_.Text(value.object, kMaxCount)) return count(text);
    if (const auto bytes = objects_.BytesOf(value.object, kMaxCount)) return count(bytes);
    return std::nullopt;
  }

  absl::StatusOr<PyValue> Call(const ast::Expr& expr, const ast::Call& call, int depth) {
    if (call.arguments.size() != 1 || (call.function != "len" && call.function != "type")) {
      return ErrorAt(expr.range, "a call would run code in the program",
                     "only len(x) and type(x) can be answered");
    }
    ASSIGN_OR_RETURN(PyValue value, Run(*call.arguments[0], depth + 1));
    if (call.function == "type" && value.object != 0) {
      return OfObject(objects_.GetAttribute(value.object, "__class__"));
    }
    if (call.function == "len") {
      if (const auto length = LengthOf(value)) return Of(*length);
    }
    return ErrorAt(expr.range, fmt::format("a {} has no {} that could be read",
                                           TypeNameOf(value, objects_), call.function));
  }

  // Whether Python takes it for true; nothing: that takes code to run.
  std::optional<bool> Truth(const PyValue& value) {
    if (IsOverridden(value, "__bool__")) return std::nullopt;
    if (const std::optional<Made> plain = Plain(value, objects_)) {
      if (std::holds_alternative<std::monostate>(*plain)) return false;
      if (const auto* text = std::get_if<std::string>(&*plain)) return !text->empty();
      return *AsReal(*plain) != 0;
    }
    const std::optional<int64_t> length = LengthOf(value);
    if (!length) return std::nullopt;
    return *length != 0;
  }

  absl::StatusOr<PyValue> Unary(const ast::Expr& expr, const ast::Unary& node, int depth) {
    ASSIGN_OR_RETURN(PyValue value, Run(*node.operand, depth + 1));
    if (node.op == ast::UnaryOp::kNot) {
      const std::optional<bool> truth = Truth(value);
      return truth ? absl::StatusOr<PyValue>(Of(!*truth)) : Unsupported(expr);
    }
    const std::optional<Made> plain = Plain(value, objects_);
    if (!plain || IsOfSubclass(value)) return Unsupported(expr);
    if (const std::optional<int64_t> number = AsInt(*plain)) {
      if (node.op == ast::UnaryOp::kMinus) {
        return *number == INT64_MIN ? TooLarge(expr) : absl::StatusOr<PyValue>(Of(-*number));
      }
      if (node.op == ast::UnaryOp::kPlus) return Of(*number);
      if (node.op == ast::UnaryOp::kBitNot) return Of(~*number);
    } else if (const auto* real = std::get_if<double>(&*plain)) {
      if (node.op == ast::UnaryOp::kMinus) return Of(-*real);
      if (node.op == ast::UnaryOp::kPlus) return Of(*real);
    }
    return Unsupported(expr);
  }

  absl::StatusOr<PyValue> Comparison(const ast::Expr& expr, ast::BinaryOp op, const PyValue& left,
                                     const PyValue& right) {
    using Op = ast::BinaryOp;
    static constexpr std::string_view kMethods[] = {"__eq__", "__ne__", "__lt__",
                                                    "__le__", "__gt__", "__ge__"};
    for (const std::string_view method : kMethods) {
      if (IsOverridden(left, method) || IsOverridden(right, method)) return Unsupported(expr);
    }
    const std::optional<Made> a = Plain(left, objects_), b = Plain(right, objects_);
    if (op == Op::kEqual || op == Op::kNotEqual) {
      // Of what is no number or text, only that it is itself is known, and that None is nothing
      // else.
      const bool is_none = (a && std::holds_alternative<std::monostate>(*a)) ||
                           (b && std::holds_alternative<std::monostate>(*b));
      const bool same = left.object != 0 && left.object == right.object;
      if (!(a && b) && !is_none && !same) return Unsupported(expr);
      const bool equal = a && b ? Equal(*a, *b) : !is_none && same;
      return Of(equal == (op == Op::kEqual));
    }
    const std::optional<int> order = a && b ? Compare(*a, *b) : std::nullopt;
    if (!order) return Unsupported(expr);
    return Of(*Compared(op, *order, 0));
  }

  absl::StatusOr<PyValue> Binary(const ast::Expr& expr, const ast::Binary& node, int depth) {
    using Op = ast::BinaryOp;
    ASSIGN_OR_RETURN(PyValue left, Run(*node.left, depth + 1));
    if (node.op == Op::kAnd || node.op == Op::kOr) {
      const std::optional<bool> truth = Truth(left);
      if (!truth) return Unsupported(expr);
      if (*truth == (node.op == Op::kOr)) return left;
      return Run(*node.right, depth + 1);
    }
    ASSIGN_OR_RETURN(PyValue right, Run(*node.right, depth + 1));
    switch (node.op) {
      case Op::kEqual:
      case Op::kNotEqual:
      case Op::kLess:
      case Op::kLessEqual:
      case Op::kGreater:
      case Op::kGreaterEqual:
        return Comparison(expr, node.op, left, right);
      default:
        break;
    }
    const std::optional<Made> a = Plain(left, objects_), b = Plain(right, objects_);
    if (!a || !b || IsOfSubclass(left) || IsOfSubclass(right)) return Unsupported(expr);
    const auto *s = std::get_if<std::string>(&*a), *t = std::get_if<std::string>(&*b);
    if (s && t && node.op == Op::kAdd) return Of(*s + *t);
    const auto x = AsInt(*a), y = AsInt(*b);
    std::optional<Made> result;
    if (x && y) {
      result = Whole(node.op, *x, *y);
      const bool of_bits =
          node.op == Op::kBitAnd || node.op == Op::kBitOr || node.op == Op::kBitXor;
      if (of_bits && std::holds_alternative<bool>(*a) && std::holds_alternative<bool>(*b)) {
        result = std::get<int64_t>(*result) != 0;
      }
    } else if (const auto p = AsReal(*a), q = AsReal(*b); p && q) {
      if (node.op == Op::kDiv && *q == 0) return Unsupported(expr);
      result = Computed(node.op, static_cast<double>(*p), static_cast<double>(*q));
    }
    return result ? absl::StatusOr<PyValue>(Of(*std::move(result))) : Unsupported(expr);
  }

  static absl::Status TooLarge(const ast::Expr& expr) {
    return ErrorAt(expr.range, "this does not fit 64 bits, which is what is computed with here");
  }
  static absl::Status Unsupported(const ast::Expr& expr) {
    return ErrorAt(expr.range, "this cannot be told without running code, or does not fit 64 bits",
                   "operators are answered for numbers and texts");
  }

  FrameReader& frames_;
  ObjectReader& objects_;
  const Frame* frame_;
};

}  // namespace

absl::StatusOr<PyValue> Evaluate(const ast::Expr& expr, FrameReader& frames, const Frame* frame) {
  return Evaluator(frames, frame).Run(expr, 0);
}

std::string ReprOf(const PyValue& value, ObjectReader& objects, const ReprLimits& limits) {
  if (value.object != 0) return objects.Repr(value.object, limits);
  if (const auto* b = std::get_if<bool>(&value.made)) return *b ? "True" : "False";
  if (const auto* n = std::get_if<int64_t>(&value.made)) return fmt::format("{}", *n);
  if (const auto* d = std::get_if<double>(&value.made)) return RealText(*d);
  if (const auto* s = std::get_if<std::string>(&value.made)) return ReprOfText(CodePoints(*s));
  return "None";
}

std::string TypeNameOf(const PyValue& value, ObjectReader& objects) {
  if (value.object != 0) {
    const TypeInfo* type = objects.TypeOf(value.object);
    return type ? objects.FullTypeName(*type) : "broken";
  }
  static constexpr const char* kNames[] = {"NoneType", "bool", "int", "float", "str"};
  return kNames[value.made.index()];
}

}  // namespace ttq::python
