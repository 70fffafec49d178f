// SPDX-License-Identifier: MIT

#include "query/ctypes/evaluator.h"

#include <libdwarf/dwarf.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/ctypes/floating_point.h"
#include "query/language/diagnostic.h"
#include "query/language/operators.h"

namespace ttq {
namespace {

using Kind = CType::Kind;

constexpr int kMaxDepth = 200;
constexpr uint64_t kMaxElements = 1 << 20;

bool IsComparison(ast::BinaryOp op) {
  return op >= ast::BinaryOp::kLess && op <= ast::BinaryOp::kNotEqual;
}

bool IsArithmetic(const CValue& value) {
  const CType* type = value.type->Strip();
  return type->IsScalar() && !type->IsPointer();
}

// Of C's usual arithmetic conversions: the rank of an integer type after promotion.
const CType* Promoted(const CType* type) {
  type = type->Strip();
  const uint64_t size = type->Size().value_or(4);
  if (type->kind == Kind::kFloat) return type;
  if (size < 4) return BuiltinType("int");
  if (size == 4) return BuiltinType(type->is_signed ? "int" : "unsigned int");
  if (size == 8) return BuiltinType(type->is_signed ? "long" : "unsigned long");
  return BuiltinType(type->is_signed ? "__int128" : "unsigned __int128");
}

const CType* Common(const CType* a, const CType* b) {
  a = Promoted(a);
  b = Promoted(b);
  const uint64_t m = a->Size().value_or(4), n = b->Size().value_or(4);
  if (a->kind == Kind::kFloat || b->kind == Kind::kFloat) {
    if (a->kind != Kind::kFloat) return b;
    if (b->kind != Kind::kFloat) return a;
    return m >= n ? a : b;
  }
  if (m != n) return m > n ? a : b;
  return a->is_signed ? b : a;
}

__int128 Wrap(__int128 n, const CType* type) {
  const uint64_t size = type->Size().value_or(8);
  if (size >= 16) return n;
  const auto unused = static_cast<unsigned>(128 - size * 8);
  auto u = static_cast<unsigned __int128>(n) << unused;
  return type->is_signed ? static_cast<__int128>(u) >> unused : static_cast<__int128>(u >> unused);
}

}  // namespace

Evaluator::Evaluator(const ProcessTypes& context, const TypeSpace& types, Moment* moment,
                     FrameState* frame)
    : context_(context), types_(types), moment_(moment), frame_(frame), reader_(types, moment) {}

absl::StatusOr<CValue> Evaluator::Evaluate(const ast::Expr& expr) {
  failed_here_ = unknown_ = false;
  return Value(expr);
}

absl::StatusOr<CValue> Evaluator::Value(const ast::Expr& expr) {
  if (++depth_ > kMaxDepth) {
    --depth_;
    return ErrorAt(expr.range, "this expression is nested too deeply");
  }
  absl::StatusOr<CValue> value =
      std::visit([&](const auto& node) { return On(expr, node); }, expr.node);
  --depth_;
  return value;
}

CValue Evaluator::FromNumber(const CType* type, __int128 n) const {
  CValue value;
  value.type = type;
  const uint64_t size = std::min<uint64_t>(types_.SizeOf(type).value_or(8), 16);
  if (type->Strip()->kind == Kind::kBool) n = n != 0;
  value.bytes.assign(reinterpret_cast<const char*>(&n), size);
  return value;
}

CValue Evaluator::FromFloat(const CType* type, long double f) const {
  CValue value;
  value.type = type;
  value.bytes = FloatBytes(*type->Strip(), f);
  return value;
}

absl::StatusOr<CValue> Evaluator::Dereferenced(CValue value) {
  for (int i = 0; i < 4 && value.type->Strip()->IsReference() && value.missing.empty(); ++i) {
    ASSIGN_OR_RETURN(value, reader_.Target(value));
  }
  return value;
}

absl::StatusOr<Evaluator::Number> Evaluator::NumberOf(const ast::Expr& expr, const CValue& given) {
  absl::StatusOr<CValue> followed = Dereferenced(given);
  if (!followed.ok()) return followed.status();
  if (types_.Complete(followed->type)->IsRecord()) {
    ASSIGN_OR_RETURN(std::optional<ContainerView> view, ViewContainer(reader_, *followed, 1));
    if (view && view->kind == ContainerView::Kind::kAtomic) {
      CValue held = view->items[0].value;
      followed = std::move(held);
    }
  }
  const CValue& value = *followed;
  const CType* type = value.type->Strip();
  Number number;
  number.type = type;
  number.past = value.past;
  if (type->kind == Kind::kArray || type->kind == Kind::kFunction) {
    if (!value.in_memory) {
      return Here(ErrorAt(expr.range, "this is not in memory, so it has no address"));
    }
    number.type = types_.PointerTo(type->kind == Kind::kArray ? type->target() : value.type);
    number.i = value.address;
    return number;
  }
  if (!type->IsScalar()) {
    return ErrorAt(expr.range,
                   "this must be a number or a pointer, and it is a " + ToText(value.type));
  }
  ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
  if (!loaded.complete()) {
    std::string why = loaded.missing.empty() ? "a part of it is not known" : loaded.missing;
    if (why.starts_with("Cannot access memory")) {
      why = Cat(Hex(value.address), " was ",
                context_.process().DescribeUnmapped(Address(value.address), moment_->time()));
    }
    // What is in memory that is not mapped has no value; anything else has one that is not known.
    unknown_ = unknown_ || !value.missing.empty() || !value.known.empty();
    return Here(ErrorAt(expr.range, Cat("this has no value here: ", why)));
  }
  if (type->kind == Kind::kFloat) {
    number.is_float = true;
    number.f = FloatOf(*type, loaded.bytes);
    return number;
  }
  std::memcpy(&number.i, loaded.bytes.data(), std::min<size_t>(16, loaded.bytes.size()));
  number.i = Wrap(number.i, type);
  return number;
}

absl::Status Evaluator::NoValue(ast::Range range, std::string_view missing) {
  unknown_ = unknown_ || !missing.starts_with("Cannot access memory");
  return Here(ErrorAt(range, Cat("this has no value here: ", missing)));
}

// ---- Leaves ----------------------------------------------------------------------------------

template <class Node>
absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const Node& node) {
  if constexpr (std::is_same_v<Node, ast::Number>) {
    // C's rule for literals, with decimal ones that fit no signed type taken as unsigned.
    const bool is_int = !node.is_unsigned && !node.is_long && node.value <= INT32_MAX;
    const bool is_unsigned_int =
        (node.hex || node.is_unsigned) && !node.is_long && node.value <= UINT32_MAX;
    const bool is_long = !node.is_unsigned && node.value <= INT64_MAX;
    const char* type = is_int            ? "int"
                       : is_unsigned_int ? "unsigned int"
                       : is_long         ? "long"
                                         : "unsigned long";
    return FromNumber(BuiltinType(type), static_cast<__int128>(node.value));
  } else if constexpr (std::is_same_v<Node, ast::Float>) {
    return FromFloat(BuiltinType(node.is_float ? "float" : "double"), node.value);
  } else if constexpr (std::is_same_v<Node, ast::Character>) {
    return FromNumber(BuiltinType("char"), static_cast<signed char>(node.value));
  } else if constexpr (std::is_same_v<Node, ast::String>) {
    CValue value;
    value.bytes = node.value + '\0';
    value.type = types_.ArrayOf(BuiltinType("char"), value.bytes.size());
    return value;
  } else if constexpr (std::is_same_v<Node, ast::Null>) {
    return FromNumber(types_.PointerTo(VoidType()), 0);
  } else if constexpr (std::is_same_v<Node, ast::SizeofType>) {
    ASSIGN_OR_RETURN(const CType* type, Resolve(node.type));
    return SizeOf(expr, type);
  } else if constexpr (std::is_same_v<Node, ast::SizeofExpr>) {
    if (const auto* name = std::get_if<ast::Name>(&node.operand->node)) {
      // `sizeof(Point)` looks like a variable's. Its constructors are functions of that name.
      ASSIGN_OR_RETURN(std::optional<CValue> object, Object(*node.operand, name->name));
      if (object) return SizeOfValue(expr, *object);
      const CType* type = types_.Find(name->name, frame_ ? frame_->view().pc : Address(0));
      if (type) return SizeOf(expr, type);
    }
    ASSIGN_OR_RETURN(CValue value, Value(*node.operand));
    return SizeOfValue(expr, value);
  } else {
    return ErrorAt(expr.range, "this is a condition, not a value of the program",
                   "use it in `where`");
  }
}

absl::StatusOr<CValue> Evaluator::SizeOf(const ast::Expr& expr, const CType* type) {
  const std::optional<uint64_t> size = types_.SizeOf(type);
  if (!size) return ErrorAt(expr.range, "the size of " + ToText(type) + " is not known");
  return FromNumber(BuiltinType("unsigned long"), *size);
}

absl::StatusOr<CValue> Evaluator::SizeOfValue(const ast::Expr& expr, const CValue& value) {
  const CType* type = value.type->Strip();
  return SizeOf(expr, type->IsReference() ? type->target() : value.type);
}

absl::StatusOr<const CType*> Evaluator::Resolve(const ast::TypeName& name) {
  const Address near = frame_ ? frame_->view().pc : Address(0);
  const CType* type = types_.Find(name.name, near);
  if (!type) {
    return UnknownAt(name.range, "no module has a type named " + name.name,
                     types_.NamesLike(name.name));
  }
  for (uint32_t i = 0; i < std::min<uint32_t>(name.pointers, 64); ++i) {
    type = types_.PointerTo(type);
  }
  if (name.elements) {
    if (*name.elements > (uint64_t{1} << 40)) {
      return ErrorAt(name.range, "no array has so many elements");
    }
    type = types_.ArrayOf(type, *name.elements);
  }
  return type;
}

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Register& reg) {
  static constexpr struct {
    const char* name;
    Gpr gpr;
    uint8_t size, shift;
  } kParts[] = {
      {"eax", kRax, 4, 0}, {"ebx", kRbx, 4, 0}, {"ecx", kRcx, 4, 0}, {"edx", kRdx, 4, 0},
      {"esi", kRsi, 4, 0}, {"edi", kRdi, 4, 0}, {"ebp", kRbp, 4, 0}, {"esp", kRsp, 4, 0},
      {"ax", kRax, 2, 0},  {"bx", kRbx, 2, 0},  {"cx", kRcx, 2, 0},  {"dx", kRdx, 2, 0},
      {"al", kRax, 1, 0},  {"bl", kRbx, 1, 0},  {"cl", kRcx, 1, 0},  {"dl", kRdx, 1, 0},
      {"ah", kRax, 1, 8},  {"bh", kRbx, 1, 8},  {"ch", kRcx, 1, 8},  {"dh", kRdx, 1, 8},
  };
  if (!frame_) return ErrorAt(expr.range, "there is no frame here that has registers");
  const FrameView& view = frame_->view();
  if (reg.name == "rip" || reg.name == "pc") {
    CValue value = FromNumber(types_.PointerTo(VoidType()), view.registers.pc.v);
    static const CType* code = [] {
      auto* type = new CType;
      type->kind = Kind::kFunction;
      type->is_prototyped = false;
      return type;
    }();
    value.type = types_.PointerTo(code);
    return value;
  }
  const CType* pointer = types_.PointerTo(VoidType());
  const auto known = [&](Gpr gpr) { return (view.known >> gpr & 1) != 0; };
  const auto unknown = [&] {
    unknown_ = true;
    return Here(ErrorAt(expr.range, Cat("what ", reg.name, " held in this frame is not known: ",
                                        "calls need not preserve it")));
  };
  for (int i = 0; i < kGprCount; ++i) {
    const auto gpr = static_cast<Gpr>(i);
    const bool alias = (reg.name == "sp" && gpr == kRsp) || (reg.name == "fp" && gpr == kRbp);
    if (reg.name != GprName(gpr) && !alias) continue;
    if (!known(gpr)) return unknown();
    const bool is_stack = gpr == kRsp || gpr == kRbp;
    return FromNumber(is_stack ? pointer : BuiltinType("long"),
                      static_cast<int64_t>(view.registers.gpr[i]));
  }
  for (const auto& part : kParts) {
    if (reg.name != part.name) continue;
    if (!known(part.gpr)) return unknown();
    const uint64_t v = view.registers.gpr[part.gpr] >> part.shift;
    return FromNumber(BuiltinType(part.size == 4   ? "int"
                                  : part.size == 2 ? "short"
                                                   : "signed char"),
                      static_cast<__int128>(v));
  }
  return ErrorAt(expr.range, "no general register is called " + reg.name);
}

// ---- Names -----------------------------------------------------------------------------------

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Name& name) {
  absl::StatusOr<std::optional<CValue>> found = Object(expr, name.name);
  if (!found.ok()) return found.status();
  const CType* type =
      *found ? nullptr : types_.Find(name.name, frame_ ? frame_->view().pc : Address(0));
  // An enumerator of another scope comes after a function of that very name.
  if (!*found) found = Function(expr, name.name, /*exactly=*/type != nullptr);
  if (!found.ok()) return found.status();
  if (!*found && !type) found = Enumerator(name.name, /*anywhere=*/true);
  if (!found.ok()) return found.status();
  if (*found) return **std::move(found);
  if (name.name == "true" || name.name == "false") {
    return FromNumber(BuiltinType("bool"), name.name == "true");
  }
  if (type) {
    return ErrorAt(expr.range, name.name + " is a type",
                   Cat("`(", name.name, "*)ADDRESS` and `sizeof(", name.name, ")` take one"));
  }
  return UnknownName(expr, name.name);
}

absl::StatusOr<std::optional<CValue>> Evaluator::Object(const ast::Expr& expr,
                                                        const std::string& name) {
  if (names_) {
    absl::StatusOr<std::optional<CValue>> value = names_(name);
    if (!value.ok() || *value) return value;
  }
  if (frame_ && name.find("::") == std::string::npos) {
    if (const Die local = frame_->FindLocal(name)) {
      if (local.Find(DW_AT_location) || !local.Flag(DW_AT_external)) {
        ASSIGN_OR_RETURN(CValue value, frame_->ValueOf(local, look_back_));
        return std::optional<CValue>(std::move(value));
      }
    }
    if (const Die self = frame_->FindLocal("this")) {
      ASSIGN_OR_RETURN(CValue object, frame_->ValueOf(self, look_back_));
      if (object.missing.empty()) {
        ASSIGN_OR_RETURN(CValue target, reader_.Target(object));
        absl::StatusOr<std::optional<CValue>> member = reader_.FindMember(target, name);
        if (!member.ok() || *member) return member;
      }
    }
  }
  absl::StatusOr<std::optional<CValue>> found = Global(expr, name);
  if (!found.ok() || *found) return found;
  return Enumerator(name, /*anywhere=*/false);
}

std::string Evaluator::NoteOnTypes() const {
  if (untyped_.empty()) return "";
  return Cat("no debug information has the type of ", untyped_,
             ": it is taken for a number, or bytes, of its size; `*(TYPE*)&", untyped_,
             "` says it");
}

absl::StatusOr<std::optional<CValue>> Evaluator::Global(const ast::Expr& expr,
                                                        const std::string& name) {
  FrameState anywhere(context_, types_, moment_, FrameView{});
  FrameState* state = frame_ ? frame_ : &anywhere;
  // Of the unit, then of the module, that the frame is in.
  std::vector<std::pair<TypeSpace::Placed, Die>> candidates;
  const auto collect = [&](const TypeSpace::Placed& placed, const DwarfUnit* unit) {
    for (const Die& die : placed.file->Find(name, NameKind::kVariable, unit)) {
      candidates.emplace_back(placed, die);
    }
  };
  if (frame_ && frame_->placed()) {
    const DwarfUnit* unit = frame_->unit();
    collect(*frame_->placed(), unit);
    if (!candidates.empty() && (&candidates[0].second.unit() == unit || candidates.size() == 1)) {
      ASSIGN_OR_RETURN(CValue value, state->GlobalValue(candidates[0].first, candidates[0].second));
      return std::optional<CValue>(std::move(value));
    }
  }
  types_.OpenProgramAhead();
  ASSIGN_OR_RETURN(std::optional<VariableInfo> symbol, context_.FindGlobal(expr.range, name));
  if (symbol) {
    const VariableInfo& info = *symbol;
    CValue value;
    value.in_memory = true;
    value.address = info.address.v;
    if (const std::optional<TypeSpace::Placed> placed = types_.FileAt(info.address)) {
      if (!frame_ || !frame_->placed() || frame_->placed()->file != placed->file) {
        collect(*placed, nullptr);
      }
      for (const auto& [where, die] : candidates) {
        if (where.file != placed->file) continue;
        ASSIGN_OR_RETURN(CValue typed, state->GlobalValue(where, die));
        if (typed.in_memory && typed.address == value.address) {
          return std::optional<CValue>(std::move(typed));
        }
      }
    }
    // A symbol without a type: as many bytes as it has.
    if (untyped_.empty()) untyped_ = name;
    value.type = info.size == 1   ? BuiltinType("signed char")
                 : info.size == 2 ? BuiltinType("short")
                 : info.size == 4 ? BuiltinType("int")
                 : info.size == 8 ? BuiltinType("long")
                 : info.size == 0 ? UnknownType()
                                  : types_.ArrayOf(BuiltinType("unsigned char"), info.size);
    return std::optional<CValue>(std::move(value));
  }
  // Thread-local variables and constants have no symbol with an address.
  if (candidates.empty()) {
    for (const Module* module : types_.Modules(nullptr)) {
      if (const auto placed = types_.FileOf(*module)) collect(*placed, nullptr);
      if (!candidates.empty()) break;
    }
  }
  if (candidates.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(CValue value, state->GlobalValue(candidates[0].first, candidates[0].second));
  return std::optional<CValue>(std::move(value));
}

absl::StatusOr<std::optional<CValue>> Evaluator::Enumerator(const std::string& name,
                                                            bool anywhere) {
  const Module* first = frame_ ? types_.symbols().ModuleAt(frame_->view().pc) : nullptr;
  for (const Module* module : types_.Modules(first)) {
    const auto placed = types_.FileOf(*module);
    if (!placed) continue;
    const DwarfUnit* unit = frame_ && module == first ? frame_->unit() : nullptr;
    for (const Die& die : placed->file->Find(name, NameKind::kEnumerator, unit)) {
      const CType* type = placed->file->TypeAt(die.ref());
      for (const CEnumerator& e : type->enumerators) {
        const size_t scope = e.name.rfind("::"), asked = name.rfind("::");
        const std::string_view last = scope == std::string::npos
                                          ? std::string_view(e.name)
                                          : std::string_view(e.name).substr(scope + 2);
        const std::string_view wanted = asked == std::string::npos
                                            ? std::string_view(name)
                                            : std::string_view(name).substr(asked + 2);
        if (anywhere ? last == wanted : e.name == name) {
          return std::optional<CValue>(FromNumber(type, e.value));
        }
      }
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<CValue>> Evaluator::Function(const ast::Expr& expr,
                                                          const std::string& name, bool exactly) {
  absl::StatusOr<NameMatches<FunctionInfo>> matches =
      types_.symbols().FindFunctions({.kind = NamePattern::Kind::kName, .text = name});
  if (!matches.ok()) return ErrorAt(expr.range, std::string(matches.status().message()));
  for (const FunctionInfo& f : matches->found) {
    if (!f.entry || (exactly && f.name != name)) continue;
    CValue value;
    value.in_memory = true;
    value.address = f.entry->v;
    static const CType* untyped = [] {
      auto* type = new CType;
      type->kind = Kind::kFunction;
      type->target_type = BuiltinType("int");
      return type;
    }();
    value.type = untyped;
    if (const auto placed = types_.FileAt(*f.entry)) {
      const std::vector<CodeScope> scopes = placed->file->ScopesAt(f.entry->v - placed->bias);
      if (!scopes.empty()) value.type = placed->file->TypeAt(scopes[0].die.ref());
    }
    return std::optional<CValue>(std::move(value));
  }
  return std::nullopt;
}

absl::Status Evaluator::UnknownName(const ast::Expr& expr, const std::string& name) {
  unknown_name_ = name;
  std::vector<std::string> near;
  if (frame_) near = Nearest(name, frame_->LocalNames());
  if (near.empty()) near = context_.GlobalsLike(name);
  // `sizeof(Pont)` looks like a variable's.
  if (near.empty()) near = types_.NamesLike(name);
  if (frame_ && frame_->function()) {
    return Here(UnknownAt(expr.range, Cat("nothing is called ", name, " here"), near));
  }
  return Here(context_.NoGlobal(expr.range, name, near));
}

// ---- Operators -------------------------------------------------------------------------------

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Unary& unary) {
  const ast::Expr& inner = *unary.operand;
  const bool was_typed = untyped_.empty();
  ASSIGN_OR_RETURN(CValue operand, Value(inner));
  switch (unary.op) {
    case ast::UnaryOp::kAddress: {
      ASSIGN_OR_RETURN(CValue object, Dereferenced(operand));
      if (!object.has_address() && !object.home) {
        const std::string why = object.bit_size > 0 ? "a bit-field has no address"
                                : object.past       ? "this is not in memory now"
                                : !object.missing.empty()
                                    ? "this has no address here: " + object.missing
                                    : "this is not in memory, so it has no address";
        return Here(ErrorAt(inner.range, why));
      }
      if (was_typed) untyped_.clear();  // an address is one whatever is there
      CValue value =
          FromNumber(types_.PointerTo(object.type), object.home.value_or(object.address));
      value.past = object.past;
      return value;
    }
    case ast::UnaryOp::kDereference: {
      ASSIGN_OR_RETURN(CValue pointer, Dereferenced(operand));
      const CType* type = pointer.type->Strip();
      if (type->kind == Kind::kFunction) return pointer;
      if (type->kind == Kind::kArray) return reader_.Part(pointer, type->target(), 0);
      if (type->IsRecord()) {
        // Smart pointers and optionals, as their own operator* does.
        ASSIGN_OR_RETURN(std::optional<ContainerView> view, ViewContainer(reader_, pointer, 1));
        if (view && view->items.size() == 1 && view->kind == ContainerView::Kind::kOptional) {
          return view->items[0].value;
        }
        if (view && view->items.size() == 1 && view->kind == ContainerView::Kind::kPointer) {
          return reader_.Target(view->items[0].value);
        }
      }
      if (type->kind != Kind::kPointer) {
        // gdb takes a number for an address of a long.
        if (!type->IsIntegral()) {
          return ErrorAt(inner.range, "only a pointer can be dereferenced");
        }
        ASSIGN_OR_RETURN(Number n, NumberOf(inner, pointer));
        CValue value;
        value.type = BuiltinType("long");
        value.in_memory = true;
        value.address = static_cast<uint64_t>(n.i);
        value.past = n.past;
        return value;
      }
      if (type->target()->Strip()->kind == Kind::kVoid) {
        return ErrorAt(inner.range, "a void * points to nothing that has a type",
                       "cast it to a pointer to one");
      }
      if (!pointer.missing.empty()) {
        return NoValue(inner.range, pointer.missing);
      }
      return reader_.Target(pointer);
    }
    case ast::UnaryOp::kNot: {
      ASSIGN_OR_RETURN(Number n, NumberOf(inner, operand));
      CValue value = FromNumber(BuiltinType("int"), n.is_float ? n.f == 0 : n.i == 0);
      value.past = n.past;
      return value;
    }
    default:
      break;
  }
  ASSIGN_OR_RETURN(Number n, NumberOf(inner, operand));
  if (n.type->IsPointer()) return ErrorAt(expr.range, "this does not go with a pointer");
  CValue value;
  if (n.is_float) {
    if (unary.op == ast::UnaryOp::kBitNot) {
      return ErrorAt(inner.range, "~ takes an integer");
    }
    value = FromFloat(n.type, unary.op == ast::UnaryOp::kMinus ? -n.f : n.f);
  } else {
    const CType* type = Promoted(n.type);
    const __int128 v = unary.op == ast::UnaryOp::kMinus    ? -n.i
                       : unary.op == ast::UnaryOp::kBitNot ? ~n.i
                                                           : n.i;
    value = FromNumber(type, Wrap(v, type));
  }
  value.past = n.past;
  return value;
}

absl::StatusOr<CValue> Evaluator::PointerPlus(const ast::Expr& expr, const CValue& pointer,
                                              __int128 count) {
  const CType* target = pointer.type->Strip()->target();
  const std::optional<uint64_t> step = types_.SizeOf(target);
  if (!step) return ErrorAt(expr.range, "the size of " + ToText(target) + " is not known");
  ASSIGN_OR_RETURN(Number base, NumberOf(expr, pointer));
  CValue value = FromNumber(
      pointer.type, static_cast<__int128>(static_cast<uint64_t>(
                        static_cast<uint64_t>(base.i) + static_cast<uint64_t>(count) * *step)));
  value.past = pointer.past;
  return value;
}

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Binary& binary) {
  using Op = ast::BinaryOp;
  ASSIGN_OR_RETURN(CValue left, Value(*binary.left));
  if (binary.op == Op::kAnd || binary.op == Op::kOr) {
    ASSIGN_OR_RETURN(Number a, NumberOf(*binary.left, left));
    const bool truth = a.is_float ? a.f != 0 : a.i != 0;
    if (truth == (binary.op == Op::kOr)) return FromNumber(BuiltinType("int"), truth);
    ASSIGN_OR_RETURN(CValue right, Value(*binary.right));
    ASSIGN_OR_RETURN(Number b, NumberOf(*binary.right, right));
    return FromNumber(BuiltinType("int"), b.is_float ? b.f != 0 : b.i != 0);
  }
  ASSIGN_OR_RETURN(CValue right, Value(*binary.right));
  // `name == "text"` compares what is written, as people mean it.
  const bool texts[] = {std::holds_alternative<ast::String>(binary.left->node),
                        std::holds_alternative<ast::String>(binary.right->node)};
  if ((texts[0] || texts[1]) && IsComparison(binary.op)) {
    std::string sides[2];
    for (int i = 0; i < 2; ++i) {
      ASSIGN_OR_RETURN(CValue side, Dereferenced(i == 0 ? left : right));
      ASSIGN_OR_RETURN(ttq::Value value, Renderer(types_, moment_).Structured(side));
      const ast::Expr& where = i == 0 ? *binary.left : *binary.right;
      if (const auto* text = value.get<std::string>()) {
        sides[i] = *text;
      } else if (const auto* address = value.get<Address>();
                 address && side.type->Strip()->target()->Strip()->kind == Kind::kChar) {
        bool cut = false;
        ASSIGN_OR_RETURN(std::optional<std::string> string,
                         reader_.CString(address->v, 1 << 16, &cut));
        if (!string) {
          return Here(
              ErrorAt(where.range, context_.process().DescribeUnmapped(*address, moment_->time())));
        }
        sides[i] = *string;
      } else {
        return ErrorAt(where.range, "this is not text");
      }
    }
    const int c = sides[0].compare(sides[1]);
    return FromNumber(BuiltinType("int"), *Compared(binary.op, c, 0));
  }
  ASSIGN_OR_RETURN(Number a, NumberOf(*binary.left, left));
  ASSIGN_OR_RETURN(Number b, NumberOf(*binary.right, right));
  const auto past = a.past ? a.past : b.past;
  const bool p = a.type->IsPointer(), q = b.type->IsPointer();
  absl::StatusOr<CValue> result;
  if ((p || q) && (binary.op == Op::kAdd || binary.op == Op::kSub)) {
    if (p && q) {
      if (binary.op == Op::kAdd) return ErrorAt(expr.range, "two pointers cannot be added");
      const uint64_t step = types_.SizeOf(a.type->Strip()->target()).value_or(0);
      if (step == 0) return ErrorAt(expr.range, "the size of what they point to is not known");
      const auto distance =
          static_cast<int64_t>(static_cast<uint64_t>(a.i) - static_cast<uint64_t>(b.i));
      result = FromNumber(BuiltinType("long"), distance / static_cast<int64_t>(step));
    } else if (!p && binary.op == Op::kSub) {
      return ErrorAt(expr.range, "a pointer cannot be subtracted from a number");
    } else {
      const Number& base = p ? a : b;
      const Number& count = p ? b : a;
      if (count.is_float) return ErrorAt(expr.range, "a pointer moves by whole elements");
      CValue pointer = FromNumber(base.type, base.i);
      pointer.past = base.past;
      result = PointerPlus(p ? *binary.left : *binary.right, pointer,
                           binary.op == Op::kSub ? -count.i : count.i);
    }
  } else if ((p || q) && !IsComparison(binary.op)) {
    // As gdb: a pointer is an address.
    if (p) a.type = BuiltinType("unsigned long");
    if (q) b.type = BuiltinType("unsigned long");
    result = Arithmetic(expr, binary.op, a, b);
  } else {
    if (p) a.type = BuiltinType("unsigned long");
    if (q) b.type = BuiltinType("unsigned long");
    result = Arithmetic(expr, binary.op, a, b);
    if (result.ok() && IsComparison(binary.op) && frame_ && frame_->unit() &&
        frame_->unit()->section == 0 && frame_->function() &&
        frame_->function().data().RootOf(*frame_->unit()).is_cpp()) {
      result->type = BuiltinType("bool");
      result->bytes.resize(1);
    }
  }
  if (result.ok()) result->past = past;
  return result;
}

absl::StatusOr<CValue> Evaluator::Arithmetic(const ast::Expr& expr, ast::BinaryOp op, Number a,
                                             Number b) {
  using Op = ast::BinaryOp;
  const bool shift = op == Op::kShiftLeft || op == Op::kShiftRight;
  const CType* type = shift ? Promoted(a.type) : Common(a.type, b.type);
  const CType* truth = BuiltinType("int");
  if (type->kind == Kind::kFloat) {
    // In the type itself: what is rounded twice may come out otherwise.
    const auto in_type = [&]<class T>(T) -> absl::StatusOr<CValue> {
      const T x = a.is_float ? static_cast<T>(a.f) : static_cast<T>(a.i);
      const T y = b.is_float ? static_cast<T>(b.f) : static_cast<T>(b.i);
      if (const auto holds = Compared(op, x, y)) return FromNumber(truth, *holds);
      if (const auto result = Computed(op, x, y)) return FromFloat(type, *result);
      return ErrorAt(expr.range, "this takes integers");
    };
    const uint64_t size = type->Size().value_or(sizeof(long double));
    return size == sizeof(float)    ? in_type(float{})
           : size == sizeof(double) ? in_type(double{})
                                    : in_type(static_cast<long double>(0));
  }
  if (a.is_float || b.is_float) return ErrorAt(expr.range, "this takes integers");
  const __int128 x = Wrap(a.i, type), y = shift ? b.i : Wrap(b.i, type);
  const auto ux = static_cast<unsigned __int128>(x), uy = static_cast<unsigned __int128>(y);
  const auto bits = static_cast<int>(type->Size().value_or(8) * 8);
  if (const auto holds = Compared(op, x, y)) return FromNumber(truth, *holds);
  switch (op) {
    case Op::kAdd:
      return FromNumber(type, Wrap(static_cast<__int128>(ux + uy), type));
    case Op::kSub:
      return FromNumber(type, Wrap(static_cast<__int128>(ux - uy), type));
    case Op::kMul:
      return FromNumber(type, Wrap(static_cast<__int128>(ux * uy), type));
    case Op::kDiv:
    case Op::kMod: {
      if (y == 0) return Here(ErrorAt(expr.range, "division by zero"));
      if (y == -1) {
        return FromNumber(type, op == Op::kDiv ? Wrap(static_cast<__int128>(0 - ux), type) : 0);
      }
      return FromNumber(type, Wrap(op == Op::kDiv ? x / y : x % y, type));
    }
    case Op::kShiftLeft:
      return FromNumber(type, y < 0 || y >= bits
                                  ? 0
                                  : Wrap(static_cast<__int128>(ux << static_cast<int>(y)), type));
    case Op::kShiftRight:
      return FromNumber(
          type, y < 0 || y >= bits ? (x < 0 ? -1 : 0) : Wrap(x >> static_cast<int>(y), type));
    case Op::kBitAnd:
      return FromNumber(type, Wrap(x & y, type));
    case Op::kBitXor:
      return FromNumber(type, Wrap(x ^ y, type));
    case Op::kBitOr:
      return FromNumber(type, Wrap(x | y, type));
    default:
      return ErrorAt(expr.range, "this takes truth values");
  }
}

absl::StatusOr<CValue> Evaluator::On(const ast::Expr&, const ast::Ternary& ternary) {
  ASSIGN_OR_RETURN(CValue condition, Value(*ternary.condition));
  ASSIGN_OR_RETURN(Number n, NumberOf(*ternary.condition, condition));
  const bool truth = n.is_float ? n.f != 0 : n.i != 0;
  ASSIGN_OR_RETURN(CValue chosen, Value(truth ? *ternary.then : *ternary.otherwise));
  if (!IsArithmetic(chosen)) return chosen;
  // Of two numbers the result has the common type, whichever is taken. The other may have no value.
  const bool unknown = unknown_;
  const absl::StatusOr<CValue> other = Value(truth ? *ternary.otherwise : *ternary.then);
  unknown_ = unknown;
  if (!other.ok() || !IsArithmetic(*other)) return chosen;
  const CType* type = Common(chosen.type->Strip(), other->type->Strip());
  if (type == chosen.type->Strip()) return chosen;
  ASSIGN_OR_RETURN(const Number number,
                   NumberOf(truth ? *ternary.then : *ternary.otherwise, chosen));
  return Converted(number, type);
}

CValue Evaluator::Converted(const Number& n, const CType* type) const {
  CValue value;
  if (type->Strip()->kind == Kind::kFloat) {
    value = FromFloat(type, n.is_float ? n.f : static_cast<long double>(n.i));
  } else if (n.is_float && type->Strip()->kind == Kind::kBool) {
    value = FromNumber(type, n.f != 0);
  } else if (n.is_float) {
    const bool fits = std::isfinite(n.f) && std::fabs(n.f) < 1e38L;
    value = FromNumber(type, fits ? static_cast<__int128>(n.f) : 0);
  } else {
    value = FromNumber(type, n.i);
  }
  value.past = n.past;
  return value;
}

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Cast& cast) {
  ASSIGN_OR_RETURN(const CType* type, Resolve(cast.type));
  ASSIGN_OR_RETURN(CValue operand, Value(*cast.operand));
  ASSIGN_OR_RETURN(CValue object, Dereferenced(operand));
  const CType* to = type->Strip();
  if (to->IsRecord() || to->kind == Kind::kArray) {
    // The same memory, seen otherwise.
    if (object.in_memory) {
      object.type = type;
      return object;
    }
    return ErrorAt(expr.range, "a number cannot be cast to " + ToText(type),
                   "cast to a pointer to it and dereference that");
  }
  if (to->kind == Kind::kVoid || !to->IsScalar()) {
    return ErrorAt(cast.type.range, "nothing can be cast to " + ToText(type));
  }
  ASSIGN_OR_RETURN(Number n, NumberOf(*cast.operand, object));
  return Converted(n, type);
}

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Member& member) {
  const auto* whole = std::get_if<ast::Name>(&member.object->node);
  if (arguments_ && whole && whole->name == "args") {
    ASSIGN_OR_RETURN(std::optional<CValue> argument, arguments_(member.member));
    if (argument) return *std::move(argument);
    return Here(ErrorAt(member.member_range, "there is no argument " + member.member));
  }
  ASSIGN_OR_RETURN(CValue operand, Value(*member.object));
  absl::StatusOr<CValue> object = Dereferenced(operand);
  if (!object.ok()) return object;
  if (!object->missing.empty()) {
    return NoValue(member.object->range, object->missing);
  }
  // `.` through a pointer is taken as `->`, as gdb does.
  const CType* type = object->type->Strip();
  if (type->kind == Kind::kPointer) {
    object = reader_.Target(*object);
    if (!object.ok()) return object;
  } else if (type->kind == Kind::kArray && member.arrow) {
    object = reader_.Part(*object, type->target(), 0);
  } else if (member.arrow && type->IsRecord()) {
    ASSIGN_OR_RETURN(std::optional<ContainerView> view, ViewContainer(reader_, *object, 1));
    if (view && view->items.size() == 1 && view->kind == ContainerView::Kind::kPointer) {
      object = reader_.Target(view->items[0].value);
      if (!object.ok()) return object;
    } else if (view && view->items.size() == 1 && view->kind == ContainerView::Kind::kOptional) {
      object = view->items[0].value;
    }
  }
  if (!object->missing.empty()) {
    return NoValue(member.object->range, object->missing);
  }
  const CType* record = types_.Complete(object->type);
  if (!record->IsRecord()) {
    return ErrorAt(member.member_range, Cat(ast::ToString(*member.object), " is a ",
                                            ToText(object->type), " and has no members"));
  }
  if (record->is_declaration) {
    return ErrorAt(member.object->range, Cat("no module says what is in a ", ToText(record)));
  }
  ASSIGN_OR_RETURN(std::optional<CValue> found, reader_.FindMember(*object, member.member));
  if (found) {
    if (object->in_memory && !found->in_memory && !found->missing.empty()) return *found;
    return *std::move(found);
  }
  // A static member is a global in the class's name.
  std::vector<std::string> names;
  for (const CMember& m : record->members) {
    if (m.is_static && m.name == member.member) {
      ASSIGN_OR_RETURN(std::optional<CValue> global,
                       Global(expr, Cat(record->name, "::", member.member)));
      if (global) return *std::move(global);
    }
    if (!m.name.empty()) names.push_back(m.name);
  }
  std::string message = Cat(ToText(record), " has no member named ", member.member);
  const std::vector<std::string> near = Nearest(member.member, names);
  if (!near.empty()) return UnknownAt(member.member_range, message, near);
  if (names.size() > 12) {
    names.resize(12);
    names.push_back("…");
  }
  std::string all;
  for (const std::string& name : names) Append(&all, all.empty() ? "" : ", ", name);
  return ErrorAt(member.member_range, message, all.empty() ? "" : "it has " + all);
}

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Index& index) {
  ASSIGN_OR_RETURN(CValue operand, Value(*index.object));
  absl::StatusOr<CValue> object = Dereferenced(operand);
  if (!object.ok()) return object;
  ASSIGN_OR_RETURN(CValue at, Value(*index.index));
  if (!object->missing.empty()) {
    return NoValue(index.object->range, object->missing);
  }
  const CType* type = types_.Complete(object->type);
  if (type->IsRecord()) {
    ASSIGN_OR_RETURN(std::optional<ContainerView> view,
                     ViewContainer(reader_, *object, kMaxElements));
    const auto within = [&](size_t count, const char* what) -> absl::StatusOr<size_t> {
      ASSIGN_OR_RETURN(Number n, NumberOf(*index.index, at));
      if (n.i >= 0 && n.i < static_cast<__int128>(count)) return static_cast<size_t>(n.i);
      return Here(ErrorAt(index.index->range, Cat("it has ", count, " ", what)));
    };
    if (view && view->kind == ContainerView::Kind::kSequence && !view->items.empty()) {
      ASSIGN_OR_RETURN(size_t n, within(view->items.size(), "elements"));
      return view->items[n].value;
    }
    if (view && view->kind == ContainerView::Kind::kString) {
      const uint32_t bytes = view->character.bytes;
      ASSIGN_OR_RETURN(size_t n, within(view->text.size() / bytes, "characters"));
      CValue character = view->items[0].value;
      character.address += n * bytes;
      return character;
    }
    if (view && view->kind == ContainerView::Kind::kMap) {
      Renderer renderer(types_, moment_);
      ASSIGN_OR_RETURN(ttq::Value key, renderer.Structured(at));
      for (const auto& item : view->items) {
        ASSIGN_OR_RETURN(ttq::Value other, renderer.Structured(*item.key));
        if (other == key) return item.value;
      }
      return Here(ErrorAt(index.index->range, "it has no such key"));
    }
    ASSIGN_OR_RETURN(std::optional<CValue> array, reader_.Path(*object, "_M_elems"));
    if (!type->name.starts_with("std::array<") || !array) {
      return ErrorAt(index.object->range, Cat("a ", ToText(object->type), " has no elements"));
    }
    object = *std::move(array);
    type = types_.Complete(object->type);
  }
  ASSIGN_OR_RETURN(Number n, NumberOf(*index.index, at));
  if (n.is_float) return ErrorAt(index.index->range, "an index is a whole number");
  if (type->kind == Kind::kArray) {
    const uint64_t step = types_.SizeOf(type->target()).value_or(0);
    if (step == 0) return ErrorAt(expr.range, "the size of its elements is not known");
    if (!object->in_memory && n.i < 0) return ErrorAt(index.index->range, "this is before it");
    return reader_.Part(*object, type->target(), static_cast<uint64_t>(n.i) * step);
  }
  if (type->kind != Kind::kPointer) {
    return ErrorAt(index.object->range, Cat("a ", ToText(object->type), " has no elements"));
  }
  ASSIGN_OR_RETURN(CValue moved, PointerPlus(*index.object, *object, n.i));
  return reader_.Target(moved);
}

absl::StatusOr<CValue> Evaluator::On(const ast::Expr& expr, const ast::Call& call) {
  if (call.function != "string") {
    return ErrorAt(call.function_range, Cat("there is no function ", call.function),
                   "no code of the program runs; string(ADDR) is the only one there is");
  }
  if (call.arguments.size() != 1) return ErrorAt(expr.range, "string takes one address");
  ASSIGN_OR_RETURN(CValue argument, Value(*call.arguments[0]));
  ASSIGN_OR_RETURN(Number n, NumberOf(*call.arguments[0], argument));
  bool cut = false;
  ASSIGN_OR_RETURN(std::optional<std::string> text,
                   reader_.CString(static_cast<uint64_t>(n.i), 4096, &cut));
  if (!text) {
    return Here(ErrorAt(
        call.arguments[0]->range,
        context_.process().DescribeUnmapped(Address(static_cast<uint64_t>(n.i)), moment_->time())));
  }
  CValue value;
  value.bytes = *text + '\0';
  value.type = types_.ArrayOf(BuiltinType("char"), value.bytes.size());
  value.past = n.past;
  return value;
}

}  // namespace ttq
