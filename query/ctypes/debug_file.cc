// SPDX-License-Identifier: MIT

#include "query/ctypes/debug_file.h"

#include <libdwarf/dwarf.h>

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/text.h"

namespace ttq {
namespace {

constexpr int kMaxNested = 100;
// Steps from a DIE to what it is a copy or the definition of.
constexpr int kMaxOrigins = 8;
constexpr size_t kMaxMembers = 1u << 16;
constexpr size_t kMaxScopes = 1u << 22;

bool SameName(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  for (;;) {
    while (i < a.size() && a[i] == ' ') ++i;
    while (j < b.size() && b[j] == ' ') ++j;
    if (i == a.size() || j == b.size()) return i == a.size() && j == b.size();
    if (a[i++] != b[j++]) return false;
  }
}

// Where the last component of a qualified name begins; `::` in template arguments does not count.
size_t LastComponent(std::string_view name) {
  int depth = 0;
  for (size_t i = name.size(); i > 0; --i) {
    const char c = name[i - 1];
    if (c == '>' || c == ')') ++depth;
    if (c == '<' || c == '(') --depth;
    if (depth == 0 && c == ':') return i;
  }
  return 0;
}

// As people write it: compilers say "long unsigned int".
std::string ShortTypeName(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kShorter[] = {
      {"long int", "long"},           {"long unsigned int", "unsigned long"},
      {"short int", "short"},         {"short unsigned int", "unsigned short"},
      {"long long int", "long long"}, {"long long unsigned int", "unsigned long long"},
  };
  for (const auto& [from, to] : kShorter) {
    if (name == from) return std::string(to);
  }
  return std::string(name);
}

bool IsScopeTag(uint16_t tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_structure_type || tag == DW_TAG_class_type ||
         tag == DW_TAG_union_type;
}

bool IsScopedEnum(const Die& die) {
  return die.tag() == DW_TAG_enumeration_type && die.Flag(DW_AT_enum_class);
}

}  // namespace

// A namespace or class: what lies in (begin, end) is qualified by its name.
struct DebugFile::Enclosure {
  uint64_t begin, end;
  int32_t parent;
  std::string_view name;
};

struct DebugFile::UnitScopes {
  std::vector<Enclosure> enclosures;  // ascending by begin
  struct Function {
    uint64_t begin, end, die;
  };
  bool functions_read = false;
  std::vector<Function> functions;  // ascending by begin
};

struct DebugFile::Lazy {
  std::recursive_mutex mutex;
  absl::flat_hash_map<DieRef, std::unique_ptr<const CType>> types;
  absl::flat_hash_set<DieRef> being_read;
  std::vector<std::unique_ptr<const CType>> parts;  // inner dimensions of arrays
  std::vector<std::unique_ptr<UnitScopes>> units;
  std::once_flag indexed;
  std::optional<NameIndex> index;
};

DebugFile::~DebugFile() = default;

std::shared_ptr<const DebugFile> DebugFile::Open(const SymbolFile& file) {
  std::shared_ptr<DebugFile> out(new DebugFile);
  out->data_ = file.dwarf();
  if (!out->data_) return nullptr;
  out->build_id_ = file.build_id();
  out->lazy_ = std::make_unique<Lazy>();
  return out;
}

const NameIndex& DebugFile::Index() const {
  std::call_once(lazy_->indexed,
                 [this] { lazy_->index.emplace(NameIndex::Make(*data_, build_id_)); });
  return *lazy_->index;
}

// --- names ---

std::optional<DieAttribute> DebugFile::Inherited(const Die& die, uint16_t name, Die* owner) {
  Die at = die;
  for (int i = 0; at && i < kMaxOrigins; ++i) {
    if (auto found = at.Find(name)) {
      *owner = at;
      return found;
    }
    Die next = at.Follow(DW_AT_abstract_origin);
    if (!next) next = at.Follow(DW_AT_specification);
    if (!next) next = at.Follow(DW_AT_signature);
    at = next;
  }
  return std::nullopt;
}

std::string_view DebugFile::NameOf(const Die& die) {
  Die owner;
  const auto a = Inherited(die, DW_AT_name, &owner);
  return a ? owner.data().Text(owner.unit(), *a) : std::string_view();
}

DieRef DebugFile::TypeOf(const Die& die) {
  Die owner;
  const auto a = Inherited(die, DW_AT_type, &owner);
  return a ? owner.data().Ref(owner.unit(), *a) : DieRef();
}

const DebugFile::UnitScopes& DebugFile::ScopesOf(const DwarfUnit& unit) const {
  std::lock_guard<std::recursive_mutex> lock(lazy_->mutex);
  if (lazy_->units.empty()) lazy_->units.resize(data_->units().size());
  std::unique_ptr<UnitScopes>& slot = lazy_->units[unit.index];
  if (slot) return *slot;
  slot = std::make_unique<UnitScopes>();
  UnitScopes& scopes = *slot;
  struct Walk {
    UnitScopes& scopes;
    void Siblings(Die die, int32_t parent, uint64_t parent_end, int depth) {
      while (die && scopes.enclosures.size() < kMaxScopes) {
        const Die next = die.Sibling();
        if ((IsScopeTag(die.tag()) || IsScopedEnum(die)) && die.has_children() &&
            depth < kMaxNested) {
          const auto index = static_cast<int32_t>(scopes.enclosures.size());
          const uint64_t end = next ? next.ref().offset : parent_end;
          std::string_view name = die.Text(DW_AT_name);
          if (name.empty()) name = NameOf(die);
          if (name.empty() && die.tag() == DW_TAG_namespace) name = "(anonymous namespace)";
          scopes.enclosures.push_back({die.ref().offset, end, parent, name});
          if (die.tag() != DW_TAG_enumeration_type) Siblings(die.Child(), index, end, depth + 1);
        }
        die = next;
      }
    }
  };
  Walk{scopes}.Siblings(data_->RootDie(unit).Child(), -1, unit.end, 0);
  return scopes;
}

std::string DebugFile::QualifiedName(const Die& die) const {
  // The definition of a member is outside of its class: its declaration is inside.
  Die at = die;
  for (int i = 0; i < kMaxOrigins; ++i) {
    Die next = at.Follow(DW_AT_abstract_origin);
    if (!next) next = at.Follow(DW_AT_specification);
    if (!next) break;
    at = next;
  }
  std::string name(NameOf(die));
  const UnitScopes& scopes = ScopesOf(at.unit());
  auto it = std::upper_bound(scopes.enclosures.begin(), scopes.enclosures.end(), at.ref().offset,
                             [](uint64_t o, const Enclosure& e) { return o <= e.begin; });
  // The innermost that holds it: the last to begin before it, or one around that.
  int32_t index = static_cast<int32_t>(it - scopes.enclosures.begin()) - 1;
  while (index >= 0 && at.ref().offset >= scopes.enclosures[index].end) {
    index = scopes.enclosures[index].parent;
  }
  for (int depth = 0; index >= 0 && depth < kMaxNested; ++depth) {
    const Enclosure& e = scopes.enclosures[index];
    if (!e.name.empty()) name = Cat(e.name, "::", name);
    index = e.parent;
  }
  return name;
}

std::vector<Die> DebugFile::Find(std::string_view name, NameKind kind,
                                 const DwarfUnit* near) const {
  while (name.starts_with("::")) name.remove_prefix(2);
  const std::string_view last = name.substr(LastComponent(name));
  std::vector<Die> here, elsewhere;
  for (const DieRef ref : Index().Find(last, kind)) {
    const Die die = data_->At(ref);
    if (!die) continue;
    if (kind == NameKind::kEnumerator) {
      bool found = false;
      for (Die e = die.Child(); e && !found; e = e.Sibling()) {
        found = SameName(e.Text(DW_AT_name), last);
      }
      if (!found) continue;
    } else if (!SameName(NameOf(die), last)) {
      continue;
    }
    if (last.size() != name.size()) {
      std::string full = QualifiedName(die);
      if (kind == NameKind::kEnumerator) {
        // `Colour::RED`, and `ns::RED` of an enum that has no scope.
        std::string outer = full.substr(0, LastComponent(full));
        const bool in_scope =
            SameName(Cat(full, "::", last), name) || SameName(Cat(outer, last), name);
        const std::string wanted = Cat("::", name);
        const std::string a = Cat("::", full, "::", last), b = Cat("::", outer, last);
        if (!in_scope && !a.ends_with(wanted) && !b.ends_with(wanted)) continue;
      } else {
        full = Cat("::", full);
        std::string wanted = Cat("::", name);
        std::erase(full, ' ');
        std::erase(wanted, ' ');
        if (!full.ends_with(wanted)) continue;
      }
    }
    (near == &die.unit() ? here : elsewhere).push_back(die);
  }
  here.insert(here.end(), elsewhere.begin(), elsewhere.end());
  // `Point` is that of no namespace, if there is one, before a library's own.
  if (kind == NameKind::kType && here.size() > 1) {
    std::stable_partition(here.begin(), here.end(),
                          [&](const Die& die) { return SameName(QualifiedName(die), name); });
  }
  return here;
}

void DebugFile::ForEachName(NameKind kind, const std::function<void(std::string_view)>& use) const {
  Index().ForEach(kind, [&](DieRef ref) {
    const Die die = data_->At(ref);
    if (!die) return;
    if (kind != NameKind::kEnumerator) {
      use(NameOf(die));
      return;
    }
    for (Die e = die.Child(); e; e = e.Sibling()) use(e.Text(DW_AT_name));
  });
}

// --- code ---

std::vector<CodeScope> DebugFile::ScopesAt(uint64_t address) const {
  std::vector<CodeScope> out;
  const DwarfUnit* unit = data_->UnitAt(address);
  if (!unit) return out;
  ScopesOf(*unit);
  std::lock_guard<std::recursive_mutex> lock(lazy_->mutex);
  UnitScopes& scopes = *lazy_->units[unit->index];
  if (!scopes.functions_read) {
    scopes.functions_read = true;
    struct Walk {
      UnitScopes& scopes;
      void Siblings(Die die, int depth) {
        for (; die && scopes.functions.size() < kMaxScopes; die = die.Sibling()) {
          const uint16_t tag = die.tag();
          if (tag == DW_TAG_subprogram) {
            for (const CodeSpan& span : die.Ranges()) {
              scopes.functions.push_back({span.begin, span.end, die.ref().offset});
            }
          }
          // Functions nest in functions (GNU C) and in classes and blocks of functions.
          if (depth < kMaxNested && die.has_children() &&
              (tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block || IsScopeTag(tag))) {
            Siblings(die.Child(), depth + 1);
          }
        }
      }
    };
    Walk{scopes}.Siblings(data_->RootDie(*unit).Child(), 0);
    std::sort(scopes.functions.begin(), scopes.functions.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }
  auto it = std::upper_bound(scopes.functions.begin(), scopes.functions.end(), address,
                             [](uint64_t a, const UnitScopes::Function& f) { return a < f.begin; });
  Die die;
  for (int tries = 0; tries < 8 && it != scopes.functions.begin(); ++tries) {
    --it;
    if (address >= it->end) continue;
    die = data_->At(*unit, it->die);
    break;
  }
  if (!die) return out;
  out.push_back({die});
  for (int depth = 0; depth < kMaxNested; ++depth) {
    Die inner;
    for (Die child = die.Child(); child && !inner; child = child.Sibling()) {
      if (child.tag() != DW_TAG_lexical_block && child.tag() != DW_TAG_inlined_subroutine) continue;
      for (const CodeSpan& span : child.Ranges()) {
        if (span.Contains(address)) inner = child;
      }
    }
    if (!inner) break;
    out.push_back({inner});
    die = inner;
  }
  return out;
}

// --- types ---

const CType* DebugFile::TypeAt(DieRef ref) const {
  if (!ref.valid()) return VoidType();
  std::lock_guard<std::recursive_mutex> lock(lazy_->mutex);
  const auto known = lazy_->types.find(ref);
  if (known != lazy_->types.end()) return known->second.get();
  const Die die = data_->At(ref);
  if (!die) return UnknownType();
  if (const Die whole = die.Whole(); whole.ref() != ref) {
    return whole.Has(DW_AT_signature) ? UnknownType() : TypeAt(whole.ref());
  }
  // In a damaged file a type may need itself to be read.
  if (lazy_->being_read.size() >= kMaxNested || !lazy_->being_read.insert(ref).second) {
    return UnknownType();
  }
  std::unique_ptr<CType> type = ReadType(die);
  lazy_->being_read.erase(ref);
  const CType* result = type.get();
  lazy_->types.emplace(ref, std::move(type));
  return result;
}

const CType* DebugFile::Remember(std::unique_ptr<CType> type) const {
  lazy_->parts.push_back(std::move(type));
  return lazy_->parts.back().get();
}

void DebugFile::ReadBaseType(const Die& die, CType* type) const {
  using Kind = CType::Kind;
  type->name = ShortTypeName(die.Text(DW_AT_name));
  switch (die.Unsigned(DW_AT_encoding).value_or(0)) {
    case DW_ATE_boolean:
      type->kind = Kind::kBool;
      break;
    case DW_ATE_float:
      type->kind = Kind::kFloat;
      break;
    case DW_ATE_complex_float:
      type->kind = Kind::kComplex;
      break;
    case DW_ATE_signed_char:
      type->kind = Kind::kChar;
      type->is_signed = true;
      break;
    case DW_ATE_unsigned_char:
    case DW_ATE_UTF:
      type->kind = Kind::kChar;
      break;
    case DW_ATE_signed:
      type->kind = Kind::kInteger;
      type->is_signed = true;
      break;
    case DW_ATE_unsigned:
    case DW_ATE_address:
      type->kind = Kind::kInteger;
      break;
    default:
      type->kind = Kind::kUnknown;
      break;
  }
}

void DebugFile::ReadEnum(const Die& die, CType* type) const {
  using Kind = CType::Kind;
  type->kind = Kind::kEnum;
  if (!NameOf(die).empty()) type->name = QualifiedName(die);
  const CType* base = type->target_ref.valid() ? TypeAt(type->target_ref)->Strip() : nullptr;
  type->is_signed = base != nullptr && base->is_signed;
  const std::string scope = IsScopedEnum(die) ? Cat(type->name, "::")
                            : type->is_cpp    ? type->name.substr(0, LastComponent(type->name))
                                              : "";
  for (Die e = die.Child(); e && type->enumerators.size() < kMaxMembers; e = e.Sibling()) {
    const auto value = e.Find(DW_AT_const_value);
    if (e.tag() != DW_TAG_enumerator || !value) continue;
    if (value->is_signed && static_cast<int64_t>(value->value) < 0 && base == nullptr) {
      type->is_signed = true;
    }
    type->enumerators.push_back(
        {Cat(scope, e.Text(DW_AT_name)), static_cast<int64_t>(value->value)});
  }
}

void DebugFile::ReadArray(const Die& die, CType* type) const {
  using Kind = CType::Kind;
  type->kind = Kind::kArray;
  type->is_vector = die.Flag(DW_AT_GNU_vector);
  struct Dimension {
    std::optional<uint64_t> count;
    std::optional<DieAttribute> at;
  };
  std::vector<Dimension> dimensions;
  for (Die range = die.Child(); range && dimensions.size() < 16; range = range.Sibling()) {
    if (range.tag() != DW_TAG_subrange_type) continue;
    Dimension d;
    d.count = range.Unsigned(DW_AT_count);
    if (!d.count) {
      if ((d.at = range.Find(DW_AT_count))) {
        // As clang has it: a variable of its own, or an expression.
      } else if (const auto bound = range.Unsigned(DW_AT_upper_bound)) {
        d.count = *bound + 1;  // all ones: none
      } else {
        d.at = range.Find(DW_AT_upper_bound);
      }
    }
    dimensions.push_back(d);
  }
  if (dimensions.empty()) dimensions.emplace_back();
  type->count = dimensions[0].count;
  type->count_at = dimensions[0].at;
  // int[2][3] is an array of two arrays of three.
  const DieRef element = type->target_ref;
  const CType* inner = nullptr;
  for (size_t i = dimensions.size(); i-- > 1;) {
    auto part = std::make_unique<CType>();
    part->kind = Kind::kArray;
    part->file = this;
    part->die = die.ref();
    part->is_cpp = type->is_cpp;
    part->count = dimensions[i].count;
    part->count_at = dimensions[i].at;
    part->target_type = inner;
    if (!inner) part->target_ref = element;
    inner = Remember(std::move(part));
  }
  if (inner) type->target_type = inner;
}

std::unique_ptr<CType> DebugFile::ReadType(const Die& die) const {
  using Kind = CType::Kind;
  auto type = std::make_unique<CType>();
  type->file = this;
  type->die = die.ref();
  type->is_cpp = data_->RootOf(die.unit()).is_cpp();
  type->size = die.Unsigned(DW_AT_byte_size);
  type->target_ref = die.Ref(DW_AT_type);
  type->is_declaration = die.Flag(DW_AT_declaration);
  switch (die.tag()) {
    case DW_TAG_base_type:
      ReadBaseType(die, type.get());
      break;
    case DW_TAG_unspecified_type:
      type->name = std::string(die.Text(DW_AT_name));
      if (type->name == "decltype(nullptr)") {
        type->kind = Kind::kPointer;
        type->size = 8;
      } else {
        type->kind = Kind::kVoid;
      }
      break;
    case DW_TAG_pointer_type:
      type->kind = Kind::kPointer;
      type->size = 8;
      break;
    case DW_TAG_reference_type:
      type->kind = Kind::kReference;
      type->size = 8;
      break;
    case DW_TAG_rvalue_reference_type:
      type->kind = Kind::kRvalueReference;
      type->size = 8;
      break;
    case DW_TAG_ptr_to_member_type:
      type->kind = Kind::kMemberPointer;
      if (!type->size) {
        type->size = TypeAt(type->target_ref)->Strip()->kind == Kind::kFunction ? 16 : 8;
      }
      break;
    case DW_TAG_class_type:
      type->is_class = true;
      [[fallthrough]];
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
      type->kind = die.tag() == DW_TAG_union_type ? Kind::kUnion : Kind::kStruct;
      if (!NameOf(die).empty()) type->name = QualifiedName(die);
      ReadMembers(die, type.get());
      break;
    case DW_TAG_enumeration_type:
      ReadEnum(die, type.get());
      break;
    case DW_TAG_array_type:
      ReadArray(die, type.get());
      break;
    case DW_TAG_typedef:
      type->kind = Kind::kTypedef;
      type->name = QualifiedName(die);
      break;
    case DW_TAG_const_type:
      type->kind = Kind::kConst;
      break;
    case DW_TAG_volatile_type:
      type->kind = Kind::kVolatile;
      break;
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
      type->kind = Kind::kRestrict;
      break;
    case DW_TAG_subroutine_type:
    case DW_TAG_subprogram:
      type->kind = Kind::kFunction;
      if (die.tag() == DW_TAG_subprogram) type->target_ref = TypeOf(die);
      {
        Die owner;
        type->is_prototyped = type->is_cpp || Inherited(die, DW_AT_prototyped, &owner);
      }
      for (Die p = die.Child(); p && type->parameters.size() < kMaxMembers; p = p.Sibling()) {
        if (p.tag() == DW_TAG_formal_parameter) type->parameters.push_back(TypeOf(p));
        if (p.tag() == DW_TAG_unspecified_parameters) type->is_variadic = true;
      }
      break;
    default:
      break;
  }
  return type;
}

// What the Itanium C++ ABI calls "non-trivial for the purposes of calls", as far as the class's own
// functions decide it. GCC says it in no attribute.
bool DebugFile::IsCopiedByCode(const Die& die) const {
  if (const auto convention = die.Unsigned(DW_AT_calling_convention)) {
    return *convention == DW_CC_pass_by_reference;
  }
  std::string_view name = NameOf(die);
  name = name.substr(0, name.find('<'));
  bool copies = false, all_deleted = true;
  for (Die f = die.Child(); f; f = f.Sibling()) {
    if (f.tag() != DW_TAG_subprogram) continue;
    if (f.Unsigned(DW_AT_virtuality).value_or(DW_VIRTUALITY_none) != DW_VIRTUALITY_none) {
      return true;
    }
    // What the compiler made itself, or was told to, is as its members want it.
    const bool own = !f.Flag(DW_AT_artificial) &&
                     f.Unsigned(DW_AT_defaulted).value_or(DW_DEFAULTED_no) != DW_DEFAULTED_in_class;
    const std::string_view function = NameOf(f);
    if (function.starts_with('~')) {
      if (own) return true;
      continue;
    }
    if (function != name || !TakesItsOwnType(die, f)) continue;
    const bool deleted = f.Flag(DW_AT_deleted);
    copies = true;
    all_deleted = all_deleted && deleted;
    if (own && !deleted) return true;
  }
  return copies && all_deleted;
}

// A constructor `X(const X&)` or `X(X&&)` of the class `die`.
bool DebugFile::TakesItsOwnType(const Die& die, const Die& constructor) const {
  Die parameter;
  for (Die p = constructor.Child(); p; p = p.Sibling()) {
    if (p.tag() != DW_TAG_formal_parameter || p.Flag(DW_AT_artificial)) continue;
    if (parameter) return false;
    parameter = p;
  }
  if (!parameter) return false;
  Die type = parameter.Follow(DW_AT_type);
  if (!type ||
      (type.tag() != DW_TAG_reference_type && type.tag() != DW_TAG_rvalue_reference_type)) {
    return false;
  }
  type = type.Follow(DW_AT_type);
  if (type && type.tag() == DW_TAG_const_type) type = type.Follow(DW_AT_type);
  return type && type.ref() == die.ref();
}

void DebugFile::ReadMembers(const Die& die, CType* type) const {
  type->copied_by_code = type->is_cpp && IsCopiedByCode(die);
  const bool is_union = type->kind == CType::Kind::kUnion;
  for (Die child = die.Child(); child && type->members.size() < kMaxMembers;
       child = child.Sibling()) {
    const uint16_t tag = child.tag();
    if (tag == DW_TAG_template_type_param) {
      type->template_types.emplace_back(std::string(child.Text(DW_AT_name)), child.Ref(DW_AT_type));
      continue;
    }
    if (tag == DW_TAG_GNU_template_parameter_pack) {
      for (Die p = child.Child(); p && type->template_types.size() < kMaxMembers; p = p.Sibling()) {
        if (p.tag() == DW_TAG_template_type_param) {
          type->template_types.emplace_back("", p.Ref(DW_AT_type));
        }
      }
      continue;
    }
    if (tag != DW_TAG_member && tag != DW_TAG_inheritance && tag != DW_TAG_variable) continue;
    if (tag == DW_TAG_inheritance && child.Find(DW_AT_virtuality)) type->copied_by_code = true;
    CMember member;
    member.die = child.ref();
    member.name = std::string(child.Text(DW_AT_name));
    member.type = TypeOf(child);
    member.is_base = tag == DW_TAG_inheritance;
    member.is_artificial = child.Flag(DW_AT_artificial);
    member.is_static =
        tag == DW_TAG_variable || (tag == DW_TAG_member && child.Flag(DW_AT_external));
    if (const auto at = child.Find(DW_AT_data_member_location)) {
      if (at->block.empty()) {
        member.offset = at->value;
      } else if (at->block[0] == DW_OP_plus_uconst) {
        member.offset = ByteCursor(at->block, 1).Uleb();
      } else {
        member.virtual_offset = at->block;
      }
    } else if (!member.is_base && !is_union && !member.is_static &&
               !child.Find(DW_AT_data_bit_offset)) {
      // A constant member, or one whose place nobody says.
      if (child.Find(DW_AT_const_value)) member.is_static = true;
    }
    if (const auto bits = child.Unsigned(DW_AT_bit_size)) {
      member.bit_size = static_cast<uint32_t>(std::min<uint64_t>(*bits, 128));
      if (const auto from = child.Unsigned(DW_AT_data_bit_offset)) {
        member.offset = *from / 8;
        member.bit_offset = static_cast<uint32_t>(*from % 8);
      } else if (const auto big_endian = child.Find(DW_AT_bit_offset)) {
        // DWARF 2: counted from the most significant bit of the storage.
        const uint64_t storage =
            child.Unsigned(DW_AT_byte_size).value_or(TypeAt(member.type)->Size().value_or(4));
        const uint64_t low = storage * 8 - big_endian->value - *bits;
        member.offset += low / 8;
        member.bit_offset = static_cast<uint32_t>(low % 8);
      }
    }
    type->members.push_back(std::move(member));
  }
}

}  // namespace ttq
