// SPDX-License-Identifier: MIT

#include "query/cpython/evaluate.h"

#include <cmath>
#include <optional>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "fmt/format.h"
#include "query/cpython/context.h"
#include "query/language/diagnostic.h"

namespace ttq::python {
namespace {

using Made = decltype(PyValue::made);

PyValue Of(Made made) { return {0, std::move(made), ""}; }
PyValue OfObject(uint64_t object) { return {object, {}, ""}; }

// An object's value where it is a number or a text: what arithmetic and subscripts need of it.
Made Plain(const PyValue& value, ObjectReader& objects) {
  if (value.object == 0) return value.made;
  const TypeInfo* type = objects.TypeOf(value.object);
  if (!type) return {};
  if (type->name == "bool") return objects.Int(value.object).value_or(0) != 0;
  if (const auto number = objects.Int(value.object)) return *number;
  if (const auto number = objects.Float(value.object)) return *number;
  if (auto text = objects.Str(value.object)) return *std::move(text);
  return {};
}

std::optional<int64_t> AsInt(const Made& made) {
  if (const auto* b = std::get_if<bool>(&made)) return *b;
  if (const auto* n = std::get_if<int64_t>(&made)) return *n;
  return std::nullopt;
}

std::optional<double> AsFloat(const Made& made) {
  if (const auto n = AsInt(made)) return static_cast<double>(*n);
  if (const auto* d = std::get_if<double>(&made)) return *d;
  return std::nullopt;
}

class Evaluator {
 public:
  Evaluator(FrameReader& frames, const Frame* frame)
      : frames_(frames), objects_(frames.objects()), frame_(frame) {}

  absl::StatusOr<PyValue> Run(const ast::Expr& expr, int depth) {
    constexpr int kDeepest = 100;
    if (depth > kDeepest) return ErrorAt(expr.range, "this expression is nested too deeply");
    if (const auto* number = std::get_if<ast::Number>(&expr.node)) {
      return Of(static_cast<int64_t>(number->value));
    }
    if (const auto* number = std::get_if<ast::Float>(&expr.node)) return Of(number->value);
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

  absl::StatusOr<PyValue> Subscript(const ast::Index& node, int depth) {
    ASSIGN_OR_RETURN(PyValue value, Run(*node.object, depth + 1));
    ASSIGN_OR_RETURN(PyValue index, Run(*node.index, depth + 1));
    const Made key = Plain(index, objects_);
    if (const auto items = objects_.DictItems(value.object)) {
      for (const auto& [k, v] : *items) {
        if (k == index.object) return OfObject(v);
        const Made candidate = Plain(OfObject(k), objects_);
        if (!std::holds_alternative<std::monostate>(key) && Equal(candidate, key)) {
          return OfObject(v);
        }
      }
      return ErrorAt(node.index->range,
                     fmt::format("the dict has no key {}", ReprOf(index, objects_)));
    }
    const std::optional<int64_t> wanted = AsInt(key);
    const auto items = objects_.Items(value.object, size_t{1} << 24);
    if (items && wanted) {
      const int64_t size = static_cast<int64_t>(items->size());
      const int64_t at = *wanted < 0 ? *wanted + size : *wanted;
      if (at >= 0 && at < size) return OfObject((*items)[at]);
      return ErrorAt(node.index->range, fmt::format("there are only {} items", size));
    }
    if (const auto bytes = objects_.BytesOf(value.object); bytes && wanted) {
      const int64_t size = static_cast<int64_t>(bytes->size());
      const int64_t at = *wanted < 0 ? *wanted + size : *wanted;
      if (at >= 0 && at < size) return Of(int64_t{static_cast<uint8_t>((*bytes)[at])});
      return ErrorAt(node.index->range, fmt::format("there are only {} bytes", size));
    }
    return ErrorAt(node.object->range,
                   fmt::format("a {} cannot be subscripted without running code",
                               TypeNameOf(value, objects_)));
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
    if (call.function == "len" && value.object != 0) {
      constexpr size_t kMaxCount = size_t{1} << 24;
      if (const auto items = objects_.Items(value.object, kMaxCount)) return Length(items->size());
      if (const auto items = objects_.DictItems(value.object, kMaxCount)) {
        return Length(items->size());
      }
      if (const auto items = objects_.SetItems(value.object, kMaxCount))
        return Length(items->size());
      if (const auto text = objects_.Text(value.object, kMaxCount)) return Length(text->size());
      if (const auto text = objects_.BytesOf(value.object, kMaxCount)) return Length(text->size());
    }
    return ErrorAt(expr.range, fmt::format("a {} has no {} that could be read",
                                           TypeNameOf(value, objects_), call.function));
  }
  static PyValue Length(size_t n) { return Of(static_cast<int64_t>(n)); }

  absl::StatusOr<PyValue> Unary(const ast::Expr& expr, const ast::Unary& node, int depth) {
    ASSIGN_OR_RETURN(PyValue value, Run(*node.operand, depth + 1));
    const Made plain = Plain(value, objects_);
    const std::optional<int64_t> number = AsInt(plain);
    const std::optional<double> real = AsFloat(plain);
    if (node.op == ast::UnaryOp::kNot) {
      if (real) return Of(*real == 0);
      if (const auto* text = std::get_if<std::string>(&plain)) return Of(text->empty());
    }
    if (number) {
      if (node.op == ast::UnaryOp::kMinus) return Of(static_cast<int64_t>(-uint64_t(*number)));
      if (node.op == ast::UnaryOp::kPlus) return Of(*number);
      if (node.op == ast::UnaryOp::kBitNot) return Of(~*number);
    } else if (real) {
      if (node.op == ast::UnaryOp::kMinus) return Of(-*real);
      if (node.op == ast::UnaryOp::kPlus) return Of(*real);
    }
    return Unsupported(expr);
  }

  static bool Equal(const Made& a, const Made& b) {
    const auto x = AsInt(a), y = AsInt(b);
    if (x && y) return *x == *y;
    const auto p = AsFloat(a), q = AsFloat(b);
    if (p && q) return *p == *q;
    return !p && !q && a == b;
  }

  absl::StatusOr<PyValue> Binary(const ast::Expr& expr, const ast::Binary& node, int depth) {
    using Op = ast::BinaryOp;
    ASSIGN_OR_RETURN(PyValue left, Run(*node.left, depth + 1));
    ASSIGN_OR_RETURN(PyValue right, Run(*node.right, depth + 1));
    const Made a = Plain(left, objects_), b = Plain(right, objects_);
    if (node.op == Op::kEqual || node.op == Op::kNotEqual) {
      const bool plain =
          left.object == 0 || right.object == 0 || !std::holds_alternative<std::monostate>(a);
      const bool equal = plain ? Equal(a, b) : left.object == right.object;
      return Of(equal == (node.op == Op::kEqual));
    }
    const auto x = AsInt(a), y = AsInt(b);
    const auto p = AsFloat(a), q = AsFloat(b);
    const auto* s = std::get_if<std::string>(&a);
    const auto* t = std::get_if<std::string>(&b);
    if (s && t && node.op == Op::kAdd) return Of(*s + *t);
    int order = 2;  // neither
    if (s && t) order = s->compare(*t) < 0 ? -1 : *s == *t ? 0 : 1;
    if (p && q) order = *p < *q ? -1 : *p == *q ? 0 : *p > *q ? 1 : 2;
    if (order != 2) {
      if (node.op == Op::kLess) return Of(order < 0);
      if (node.op == Op::kLessEqual) return Of(order <= 0);
      if (node.op == Op::kGreater) return Of(order > 0);
      if (node.op == Op::kGreaterEqual) return Of(order >= 0);
    }
    if (x && y) {
      int64_t result;
      if (node.op == Op::kAdd && !__builtin_add_overflow(*x, *y, &result)) return Of(result);
      if (node.op == Op::kSub && !__builtin_sub_overflow(*x, *y, &result)) return Of(result);
      if (node.op == Op::kMul && !__builtin_mul_overflow(*x, *y, &result)) return Of(result);
      if (node.op == Op::kBitAnd) return Of(*x & *y);
      if (node.op == Op::kBitOr) return Of(*x | *y);
      if (node.op == Op::kBitXor) return Of(*x ^ *y);
      if (node.op == Op::kMod && *y != 0 && *y != -1) {
        // Python's remainder has the sign of the divisor.
        const int64_t rest = *x % *y;
        return Of(rest != 0 && (rest < 0) != (*y < 0) ? rest + *y : rest);
      }
    }
    if (p && q) {
      if (node.op == Op::kAdd) return Of(*p + *q);
      if (node.op == Op::kSub) return Of(*p - *q);
      if (node.op == Op::kMul) return Of(*p * *q);
      if (node.op == Op::kDiv && *q != 0) return Of(*p / *q);
    }
    return Unsupported(expr);
  }

  static absl::Status Unsupported(const ast::Expr& expr) {
    return ErrorAt(expr.range, "this operation needs numbers (and no zero divisor) or texts");
  }

  FrameReader& frames_;
  ObjectReader& objects_;
  const Frame* frame_;
};

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
