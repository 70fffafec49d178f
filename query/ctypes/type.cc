// SPDX-License-Identifier: MIT

#include "query/ctypes/type.h"

#include <libdwarf/dwarf.h>

#include "base/number_text.h"
#include "base/text.h"
#include "query/ctypes/debug_file.h"

namespace ttq {
namespace {

// Of typedefs and qualifiers, or of arrays of arrays. Damaged DWARF may go in circles.
constexpr int kMaxSteps = 64;

// The part of a declaration before and after the declarator.
struct Declaration {
  std::string before, after;
  bool is_method = false;  // what is declared next is a member function
};

bool NeedsParentheses(const CType* target) {
  return target->kind == CType::Kind::kArray || target->kind == CType::Kind::kFunction;
}

// Between what an element or a result is and the brackets or parentheses that follow.
bool NeedsSpace(const CType* target, const Declaration& declaration) {
  while (target->IsQualifier()) target = target->target();
  const bool after_mark = target->kind == CType::Kind::kPointer || target->IsReference();
  const bool outer = target->kind == CType::Kind::kArray || target->kind == CType::Kind::kFunction;
  const std::string& before = declaration.before;
  return !after_mark && !(outer && before.empty()) && (before.empty() || before[0] != ' ') &&
         !(before.empty() && !declaration.after.empty() && declaration.after[0] == '[');
}

std::string TagName(const CType* type) {
  using Kind = CType::Kind;
  const char* tag = type->kind == Kind::kUnion  ? "union"
                    : type->kind == Kind::kEnum ? "enum"
                    : type->is_class            ? "class"
                                                : "struct";
  if (type->name.empty()) return Cat(tag, " {...}");
  return type->is_cpp ? type->name : Cat(tag, " ", type->name);
}

void Declare(const CType* type, Declaration* out, int depth) {
  using Kind = CType::Kind;
  if (depth > kMaxSteps) {
    out->before = Cat("…", out->before);
    return;
  }
  switch (type->kind) {
    case Kind::kVoid:
      out->before = Cat(type->name.empty() ? "void" : type->name, out->before);
      return;
    case Kind::kPointer:
    case Kind::kReference:
    case Kind::kRvalueReference: {
      if (type->kind == Kind::kPointer && !type->name.empty()) {
        out->before = Cat(type->name, out->before);
        return;
      }
      const char* mark = type->kind == Kind::kPointer     ? "*"
                         : type->kind == Kind::kReference ? "&"
                                                          : "&&";
      const CType* target = type->target();
      if (NeedsParentheses(target)) {
        out->before = Cat("(", mark, out->before);
        Append(&out->after, ")");
        Declare(target, out, depth + 1);
        return;
      }
      out->before = Cat(mark, out->before);
      if (!(target->kind == Kind::kPointer || target->IsReference() ||
            (target->IsQualifier() && target->target()->kind == Kind::kPointer))) {
        out->before = Cat(" ", out->before);
      }
      Declare(target, out, depth + 1);
      return;
    }
    case Kind::kMemberPointer: {
      const CType* target = type->target();
      const bool function = target->kind == Kind::kFunction;
      const Die die = type->file ? type->file->data().At(type->die) : Die();
      const DieRef record = die ? die.Ref(DW_AT_containing_type) : DieRef();
      out->before = Cat(function ? "(" : " ",
                        record.valid() ? type->file->TypeAt(record)->name : "", "::*", out->before);
      if (function) Append(&out->after, ")");
      out->is_method = function;
      Declare(target, out, depth + 1);
      return;
    }
    case Kind::kArray: {
      // `int [4]`, `int (*)[4]`, but `char *[4]`.
      if (NeedsSpace(type->target(), *out)) out->before = Cat(" ", out->before);
      Append(&out->after, "[", type->count ? Cat(*type->count) : "", "]");
      const CType* target = type->target();
      Declare(target, out, depth + 1);
      if (type->is_vector) {
        // gdb's words for a SIMD vector.
        Append(&out->after, " __attribute__ ((vector_size(", type->count.value_or(0), ")))");
      }
      return;
    }
    case Kind::kFunction: {
      if (NeedsSpace(type->target(), *out)) out->before = Cat(" ", out->before);
      Append(&out->after, "(");
      for (size_t i = 0; i < type->parameters.size(); ++i) {
        if (i > 0) Append(&out->after, ", ");
        Declaration parameter;
        Declare(type->At(type->parameters[i]), &parameter, depth + 8);
        // `this` cannot be changed.
        Append(&out->after, parameter.before, parameter.after,
               i == 0 && out->is_method ? " const" : "");
      }
      if (type->is_variadic) {
        Append(&out->after, type->parameters.empty() ? "..." : ", ...");
      } else if (type->parameters.empty() && type->is_prototyped) {
        Append(&out->after, "void");
      }
      Append(&out->after, ")");
      out->is_method = false;
      Declare(type->target(), out, depth + 1);
      return;
    }
    case Kind::kConst:
    case Kind::kVolatile:
    case Kind::kRestrict: {
      const char* word = type->kind == Kind::kConst      ? "const"
                         : type->kind == Kind::kVolatile ? "volatile"
                                                         : "restrict";
      const CType* target = type->target();
      if (target->kind == Kind::kPointer || target->IsReference()) {
        out->before = Cat(" ", word, out->before);
        Declare(target, out, depth + 1);
      } else if (type->kind == Kind::kRestrict) {
        Declare(target, out, depth + 1);
      } else {
        Declare(target, out, depth + 1);
        out->before = Cat(word, " ", out->before);
      }
      return;
    }
    case Kind::kStruct:
    case Kind::kUnion:
    case Kind::kEnum:
      out->before = Cat(TagName(type), out->before);
      return;
    default:
      out->before = Cat(type->name.empty() ? "<unknown type>" : type->name, out->before);
      return;
  }
}

}  // namespace

const CType* VoidType() {
  static const CType type = [] {
    CType t;
    t.kind = CType::Kind::kVoid;
    t.size = 1;  // as GNU C has it
    return t;
  }();
  return &type;
}

const CType* UnknownType() {
  static const CType type;
  return &type;
}

const CType* CType::target() const {
  if (target_type) return target_type;
  if (!target_ref.valid()) return VoidType();
  return file ? file->TypeAt(target_ref) : UnknownType();
}

const CType* CType::At(DieRef ref) const { return file ? file->TypeAt(ref) : UnknownType(); }

const CType* CType::Strip() const {
  const CType* type = this;
  for (int i = 0; i < kMaxSteps; ++i) {
    if (type->kind != Kind::kTypedef && !type->IsQualifier()) return type;
    type = type->target();
  }
  return UnknownType();
}

bool CType::IsIntegral() const {
  const Kind k = Strip()->kind;
  return k == Kind::kInteger || k == Kind::kBool || k == Kind::kChar || k == Kind::kEnum;
}
bool CType::IsPointer() const { return Strip()->kind == Kind::kPointer; }
bool CType::IsScalar() const {
  return IsIntegral() || IsPointer() || Strip()->kind == Kind::kFloat;
}
bool CType::IsRecord() const {
  const Kind k = Strip()->kind;
  return k == Kind::kStruct || k == Kind::kUnion;
}
bool CType::IsReference() const {
  return kind == Kind::kReference || kind == Kind::kRvalueReference;
}

std::optional<uint64_t> CType::Size() const {
  uint64_t factor = 1;
  const CType* type = this;
  for (int i = 0; i < kMaxSteps; ++i) {
    if (type->size) {
      if (*type->size != 0 && factor > UINT64_MAX / *type->size) return std::nullopt;
      return factor * *type->size;
    }
    switch (type->kind) {
      case Kind::kTypedef:
      case Kind::kConst:
      case Kind::kVolatile:
      case Kind::kRestrict:
        break;
      case Kind::kArray:
        if (!type->count) return std::nullopt;
        if (*type->count != 0 && factor > UINT64_MAX / *type->count) return std::nullopt;
        factor *= *type->count;
        break;
      case Kind::kFunction:
        return 1;
      default:
        return std::nullopt;
    }
    type = type->target();
  }
  return std::nullopt;
}

std::string ToText(const CType* type) {
  Declaration declaration;
  Declare(type, &declaration, 0);
  return declaration.before + declaration.after;
}

}  // namespace ttq
