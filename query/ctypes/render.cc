// SPDX-License-Identifier: MIT

#include "query/ctypes/render.h"

#include <libdwarf/dwarf.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/byte_cursor.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/code/dwarf_expression.h"
#include "query/code/names.h"
#include "query/ctypes/characters.h"
#include "query/ctypes/floating_point.h"
#include "query/ctypes/process_types.h"

namespace ttq {
namespace {

using Kind = CType::Kind;

// gdb's `set print elements` and `max-depth`.
constexpr size_t kElements = 200;
constexpr int kDepth = 20;
constexpr uint64_t kMaxBytes = 1 << 20;
constexpr size_t kMaxText = 1 << 20;

constexpr char kUnknown[] = "<optimized out>";

uint64_t ExtendSign(uint64_t v, uint64_t size, bool is_signed) {
  if (size >= 8 || size == 0) return v;
  const auto unused = static_cast<unsigned>(64 - size * 8);
  v <<= unused;
  return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(v) >> unused) : v >> unused;
}

std::string ComplexText(const CType& type, std::string_view bytes) {
  const size_t half = bytes.size() / 2;
  return Cat(FloatText(type, bytes.substr(0, half)), " + ", FloatText(type, bytes.substr(half)),
             "i");
}

std::string WideText(const std::string& bytes, bool is_signed) {
  __int128 v = 0;
  std::memcpy(&v, bytes.data(), std::min<size_t>(16, bytes.size()));
  auto u = static_cast<unsigned __int128>(v);
  const bool negative = is_signed && v < 0;
  if (negative) u = 0 - u;
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(u % 10));
    u /= 10;
  } while (u != 0);
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

// A number of 128 bits: its digits, where 64 bits do not hold it.
Value WideNumber(const std::string& bytes, const CType& type) {
  __int128 n = 0;
  std::memcpy(&n, bytes.data(), std::min<size_t>(16, bytes.size()));
  const auto u = static_cast<unsigned __int128>(n);
  const bool negative = type.is_signed && n < 0;
  if (negative ? n >= INT64_MIN : u <= INT64_MAX) return Value(static_cast<int64_t>(n));
  return Value(Represented{Value(WideText(bytes, type.is_signed)),
                           Value(negative ? static_cast<double>(n) : static_cast<double>(u))});
}

// Every enumerator has bits of its own: values are combinations of them.
bool IsFlagEnum(const CType& type) {
  uint64_t seen = 0;
  for (const CEnumerator& e : type.enumerators) {
    const auto v = static_cast<uint64_t>(e.value);
    if (e.value < 0) return false;
    if (v & seen) return false;
    // gdb: the bits of one flag are next to each other.
    if (v != 0) {
      const uint64_t low = v / (v & (0 - v));
      if ((low & (low + 1)) != 0) return false;
    }
    seen |= v;
  }
  return !type.enumerators.empty();
}

std::string EnumText(const CType& type, uint64_t number) {
  const auto value = static_cast<int64_t>(number);
  for (const CEnumerator& e : type.enumerators) {
    const uint64_t size = type.size.value_or(4);
    if (ExtendSign(static_cast<uint64_t>(e.value), size, type.is_signed) == number) return e.name;
  }
  std::string plain = type.is_signed ? Cat(value) : Cat(number);
  if (!IsFlagEnum(type)) return plain;
  if (number == 0) return "0";
  std::string text;
  uint64_t rest = number;
  for (const CEnumerator& e : type.enumerators) {
    const auto v = static_cast<uint64_t>(e.value);
    if (v != 0 && (rest & v) == v) {
      Append(&text, text.empty() ? "(" : " | ", e.name);
      rest &= ~v;
    }
  }
  if (rest != 0) {
    Append(&text, text.empty() ? "(" : " | ", "unknown: ", Hex(rest));
  }
  return text + ")";
}

// "main+18": gdb's way of writing it.
std::string CodeName(const Symbolizer& symbols, Address address) {
  const std::shared_ptr<const CodeLocation> location = symbols.Symbolize(address);
  if (location->frames.empty()) return symbols.NameOf(address);
  // With its parameters, by which C++ tells functions of one name apart.
  const InlineFrame& frame = location->frames.back();
  const std::string name = IsMangled(frame.symbol) ? Demangle(frame.symbol).full : frame.function;
  return location->offset_in_function == 0 ? name : Cat(name, "+", location->offset_in_function);
}

// A struct's text where a byte is not known at all.
bool AllUnknown(const LoadedValue& loaded) {
  return !loaded.missing.empty() ||
         (!loaded.known.empty() && loaded.known.find('\1') == std::string::npos);
}

}  // namespace

// --- ValueReader ---

absl::StatusOr<LoadedValue> ValueReader::Load(const CValue& value) const {
  LoadedValue out;
  if (!value.missing.empty()) {
    out.missing = value.missing;
    return out;
  }
  const uint64_t size = types_.SizeOf(value.type).value_or(0);
  if (size > kMaxBytes) {
    out.missing = "it is larger than 1 MiB";
    return out;
  }
  const uint64_t want =
      value.bit_size > 0 ? (uint64_t{value.bit_offset} + value.bit_size + 7) / 8 : size;
  if (value.in_memory) {
    out.bytes.assign(want, 0);
    ASSIGN_OR_RETURN(uint64_t got, moment_->Read(Address(value.address), want, out.bytes.data()));
    if (got < want) {
      if (got == 0) {
        out.missing = fmt::format("Cannot access memory at address {:#x}", value.address);
        return out;
      }
      // Holes are rare: what follows the first is read byte by byte.
      out.known.assign(want, 0);
      std::fill_n(out.known.begin(), got, 1);
      for (uint64_t i = got; i < want && i < got + 4096; ++i) {
        ASSIGN_OR_RETURN(uint64_t one, moment_->Read(Address(value.address + i), 1, &out.bytes[i]));
        out.known[i] = one == 1;
      }
    }
  } else {
    out.bytes = value.bytes;
    out.known = value.known;
    if (out.bytes.size() < want) {
      if (out.known.empty()) out.known.assign(out.bytes.size(), 1);
      out.bytes.resize(want, 0);
      out.known.resize(want, 0);
    }
    out.bytes.resize(want);
    if (!out.known.empty()) out.known.resize(want);
  }
  if (!out.known.empty()) {
    if (out.known.find('\1') == std::string::npos) {
      out.missing = "it is not known";
      return out;
    }
    if (out.known.find('\0') == std::string::npos) out.known.clear();
  }
  if (value.bit_size > 0) {
    if (!out.known.empty()) {
      out.missing = "it is not known";
      return out;
    }
    unsigned __int128 raw = 0;
    std::memcpy(&raw, out.bytes.data(), std::min<size_t>(out.bytes.size(), 16));
    raw >>= value.bit_offset;
    uint64_t bits = static_cast<uint64_t>(raw);
    if (value.bit_size < 64) {
      const unsigned unused = 64 - value.bit_size;
      bits <<= unused;
      const CType* type = value.type->Strip();
      bits = type->is_signed && type->kind != Kind::kBool
                 ? static_cast<uint64_t>(static_cast<int64_t>(bits) >> unused)
                 : bits >> unused;
    }
    out.bytes.assign(reinterpret_cast<const char*>(&bits), 8);
    out.bytes.resize(size);
  }
  return out;
}

absl::StatusOr<std::optional<uint64_t>> ValueReader::Number(const CValue& value) const {
  ASSIGN_OR_RETURN(LoadedValue loaded, Load(value));
  if (!loaded.complete() || loaded.bytes.empty()) return std::nullopt;
  uint64_t v = 0;
  const uint64_t size = std::min<uint64_t>(8, loaded.bytes.size());
  std::memcpy(&v, loaded.bytes.data(), size);
  return ExtendSign(v, size, value.type->Strip()->is_signed);
}

absl::StatusOr<std::optional<std::string>> ValueReader::CString(uint64_t address, size_t most,
                                                                bool* cut, uint32_t unit) const {
  std::string text;
  *cut = false;
  most *= unit;
  while (text.size() < most) {
    char buffer[256];
    const uint64_t at = address + text.size();
    const uint64_t size = std::min<uint64_t>(sizeof(buffer), most - text.size());
    ASSIGN_OR_RETURN(uint64_t got, moment_->Read(Address(at), size, buffer));
    const uint64_t whole = got / unit * unit;
    if (whole == 0) {
      if (text.empty()) return std::nullopt;
      break;
    }
    static constexpr char kNul[sizeof(char32_t)] = {};
    for (uint64_t i = 0; i < whole; i += unit) {
      if (std::memcmp(buffer + i, kNul, unit) != 0) continue;
      text.append(buffer, i);
      return text;
    }
    text.append(buffer, whole);
  }
  *cut = true;
  return text;
}

CValue ValueReader::Part(const CValue& whole, const CType* type, uint64_t offset) const {
  CValue part;
  part.type = type;
  part.past = whole.past;
  part.missing = whole.missing;
  if (!whole.missing.empty()) return part;
  if (whole.in_memory) {
    part.in_memory = true;
    part.address = whole.address + offset;
    return part;
  }
  const uint64_t size = types_.SizeOf(type).value_or(0);
  if (offset >= whole.bytes.size() && size > 0) {
    part.missing = "it is not known";
    return part;
  }
  if (size == 0) return part;
  part.bytes = whole.bytes.substr(offset, size);
  if (!whole.known.empty()) {
    part.known = whole.known.substr(offset, size);
    if (part.known.find('\0') == std::string::npos) part.known.clear();
  }
  return part;
}

absl::StatusOr<CValue> ValueReader::MemberOf(const CValue& object, const CMember& member) const {
  const CType* type = types_.Complete(object.type);
  const CType* member_type = type->At(member.type);
  uint64_t offset = member.offset;
  if (!member.virtual_offset.empty()) {
    CValue out;
    out.type = member_type;
    out.missing = "where the virtual base is cannot be told";
    if (!object.in_memory || type->file == nullptr) return out;
    const Die die = type->file->data().At(member.die);
    LocationInput input;
    input.data = &type->file->data();
    input.unit = die ? &die.unit() : nullptr;
    input.first = object.address;
    absl::Status failed;
    input.memory = [&](uint64_t address, uint32_t size) -> std::optional<uint64_t> {
      absl::StatusOr<std::optional<uint64_t>> n = moment_->ReadNumber(Address(address), size);
      if (!n.ok()) {
        failed = n.status();
        return std::nullopt;
      }
      return *n;
    };
    input.register_value = [](int) { return std::nullopt; };
    std::string why;
    const auto address = EvaluateNumber(member.virtual_offset, input, &why);
    if (!failed.ok()) return failed;
    if (!address) return out;
    out.missing.clear();
    out.in_memory = true;
    out.address = *address;
    out.past = object.past;
    return out;
  }
  if (member.bit_size > 0) {
    CValue out;
    out.type = member_type;
    out.past = object.past;
    out.missing = object.missing;
    out.bit_offset = member.bit_offset;
    out.bit_size = member.bit_size;
    if (object.in_memory) {
      out.in_memory = true;
      out.address = object.address + offset;
    } else if (out.missing.empty()) {
      const uint64_t want = (uint64_t{member.bit_offset} + member.bit_size + 7) / 8;
      if (offset >= object.bytes.size()) {
        out.missing = "it is not known";
      } else {
        out.bytes = object.bytes.substr(offset, want);
        if (!object.known.empty()) out.known = object.known.substr(offset, want);
      }
    }
    return out;
  }
  CValue out = Part(object, member_type, offset);
  // `type name[]` at a struct's end has no size of its own.
  return out;
}

absl::StatusOr<std::optional<CValue>> ValueReader::FindMember(const CValue& object,
                                                              std::string_view name,
                                                              int depth) const {
  if (depth > 32) return std::nullopt;
  const CType* type = types_.Complete(object.type);
  if (!type->IsRecord()) return std::nullopt;
  for (const CMember& member : type->members) {
    if (member.name == name && !member.is_base && !member.is_static) {
      ASSIGN_OR_RETURN(CValue found, MemberOf(object, member));
      return std::optional<CValue>(std::move(found));
    }
  }
  for (const CMember& member : type->members) {
    if (member.is_static || !(member.is_base || member.name.empty())) continue;
    ASSIGN_OR_RETURN(CValue inner, MemberOf(object, member));
    absl::StatusOr<std::optional<CValue>> found = FindMember(inner, name, depth + 1);
    if (!found.ok() || *found) return found;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<CValue>> ValueReader::FindMember(const CValue& object,
                                                              std::string_view name) const {
  return FindMember(object, name, 0);
}

absl::StatusOr<std::optional<CValue>> ValueReader::Path(const CValue& object,
                                                        std::string_view path) const {
  std::optional<CValue> at = object;
  for (const std::string_view step : Split(path, ".")) {
    absl::StatusOr<std::optional<CValue>> next = FindMember(*at, step);
    if (!next.ok() || !*next) return next;
    at = *std::move(next);
  }
  return at;
}

absl::StatusOr<CValue> ValueReader::Target(const CValue& pointer) const {
  if (pointer.pointee) return *pointer.pointee;
  CValue out;
  out.type = pointer.type->Strip()->target();
  out.past = pointer.past;
  ASSIGN_OR_RETURN(LoadedValue loaded, Load(pointer));
  if (!loaded.complete() || loaded.bytes.size() < 8) {
    out.missing = loaded.missing.empty() ? "the pointer is not known" : loaded.missing;
    return out;
  }
  out.in_memory = true;
  std::memcpy(&out.address, loaded.bytes.data(), 8);
  return out;
}

// --- Renderer ---

absl::StatusOr<std::string> Renderer::Text(const CValue& value) {
  written_ = 0;
  return Inner(value, true, 0);
}

absl::StatusOr<std::string> Renderer::Inner(const CValue& value, bool top, int depth) {
  if (!value.missing.empty()) {
    return value.missing.starts_with("Cannot access memory") ? Cat("<error: ", value.missing, ">")
           : top                                             ? Cat("<", value.missing, ">")
                                                             : std::string(kUnknown);
  }
  if (depth > kDepth) return std::string("{...}");
  if (written_ > kMaxText) return std::string("...");
  const CType* type = reader_.types().Complete(value.type);
  absl::StatusOr<std::string> text = std::string();
  switch (type->kind) {
    case Kind::kVoid:
      return std::string("void");
    case Kind::kReference:
    case Kind::kRvalueReference: {
      ASSIGN_OR_RETURN(CValue target, reader_.Target(value));
      ASSIGN_OR_RETURN(std::string inner, Inner(target, false, depth + 1));
      // Containers show what they hold, as gdb's printers do.
      ASSIGN_OR_RETURN(std::optional<ContainerView> view, ViewContainer(reader_, target, 1));
      if (view) return inner;
      std::string prefix = top ? Cat("(", ToText(value.type), ") ") : "";
      if (target.in_memory) Append(&prefix, "@", Hex(target.address), ": ");
      return prefix + inner;
    }
    case Kind::kStruct:
    case Kind::kUnion:
      text = Record(value, type, depth);
      break;
    case Kind::kArray:
      text = Array(value, type, depth);
      break;
    case Kind::kFunction:
      return Cat("{", ToText(value.type), "} ", Hex(value.address), " <",
                 CodeName(reader_.types().symbols(), Address(value.address)), ">");
    case Kind::kPointer:
      text = Pointer(value, type, top);
      break;
    default:
      text = Scalar(value, type, top);
      break;
  }
  if (text.ok()) written_ += depth == 0 ? 0 : text->size() / 4;
  return text;
}

// While one object is shown.
class Renderer::Bases {
 public:
  explicit Bases(Renderer* renderer) : renderer_(*renderer) {
    if (!std::exchange(renderer_.in_base_, false)) {
      saved_ = std::exchange(renderer_.virtual_bases_, {});
    }
  }
  ~Bases() {
    if (saved_) renderer_.virtual_bases_ = *std::move(saved_);
  }
  // Says false to a virtual base that has been shown. The record shown next is that base.
  bool Begin(const CMember& base, const CType* type) {
    if (!base.is_base) return true;
    if (!base.virtual_offset.empty()) {
      std::vector<const CType*>& shown = renderer_.virtual_bases_;
      if (std::find(shown.begin(), shown.end(), type) != shown.end()) return false;
      shown.push_back(type);
    }
    renderer_.in_base_ = true;
    return true;
  }
  void End() { renderer_.in_base_ = false; }

 private:
  Renderer& renderer_;
  std::optional<std::vector<const CType*>> saved_;  // unless this is a base itself
};

std::optional<std::string> Renderer::MemberPointer(std::string_view bytes,
                                                   const CType* type) const {
  const uint64_t n = NumberOf(bytes);
  const Die die = type->file ? type->file->data().At(type->die) : Die();
  Die record = die ? die.Follow(DW_AT_containing_type) : Die();
  if (record) record = record.Whole();
  if (bytes.size() <= 8) {
    if (n == ~uint64_t{0}) return std::nullopt;
    const CType* owner = record ? reader_.types().Complete(type->file->TypeAt(record.ref())) : type;
    for (const CMember& member : owner->members) {
      if (!member.is_static && !member.is_base && member.bit_size == 0 && member.offset == n &&
          !member.name.empty() && !member.is_artificial) {
        return Cat("&", owner->name, "::", member.name);
      }
    }
    return Cat(n);
  }
  // The Itanium C++ ABI, 2.3: the function, or 1 more than its offset in the virtual table; then
  // what is added to `this`.
  if (n == 0) return std::nullopt;
  const auto adjustment = static_cast<int64_t>(NumberOf(bytes.substr(8)));
  std::string text;
  if (n & 1) {
    text = Cat("&virtual table offset ", n - 1);
    for (Die method = record ? record.Child() : Die(); method; method = method.Sibling()) {
      const auto at = method.Find(DW_AT_vtable_elem_location);
      if (!at || at->block.size() < 2 || at->block[0] != DW_OP_constu) continue;
      ByteCursor number(at->block, 1);
      if (number.Uleb() != (n - 1) / 8) continue;
      std::string_view symbol = method.Text(DW_AT_linkage_name);
      if (symbol.empty()) symbol = method.Text(DW_AT_MIPS_linkage_name);
      const DemangledName name = Demangle(std::string(symbol));
      text = Cat("&virtual ", name.full.empty() ? type->file->QualifiedName(method) : name.full);
    }
  } else {
    text = Cat("(", ToText(type), ") ", Hex(n), " <",
               CodeName(reader_.types().symbols(), Address(n)), ">");
  }
  if (adjustment != 0) Append(&text, ", this adjustment ", adjustment);
  return text;
}

absl::StatusOr<std::string> Renderer::Scalar(const CValue& value, const CType* type, bool top) {
  ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
  if (!loaded.complete()) {
    if (loaded.missing.starts_with("Cannot access memory")) {
      return Cat("<error: ", loaded.missing, ">");
    }
    return top && !loaded.missing.empty() ? Cat("<", loaded.missing, ">") : std::string(kUnknown);
  }
  if (type->kind == Kind::kFloat) return FloatText(*type, loaded.bytes);
  if (type->kind == Kind::kComplex) return ComplexText(*type, loaded.bytes);
  if (type->kind == Kind::kMemberPointer) {
    return MemberPointer(loaded.bytes, type).value_or("NULL");
  }
  if (loaded.bytes.size() > 8) return WideText(loaded.bytes, type->is_signed);
  if (loaded.bytes.empty()) return std::string("<incomplete type>");
  uint64_t n = 0;
  std::memcpy(&n, loaded.bytes.data(), loaded.bytes.size());
  n = ExtendSign(n, loaded.bytes.size(), type->is_signed);
  if (const CharacterType character = CharacterTypeOf(value.type); character.bytes != 0) {
    const auto c = static_cast<char32_t>(ExtendSign(n, character.bytes, false));
    const std::string number = type->is_signed ? Cat(static_cast<int64_t>(n)) : Cat(n);
    return Cat(number, " ", character.prefix, "'", EscapedCharacter(c, '\'', character), "'");
  }
  switch (type->kind) {
    case Kind::kBool:
      return n == 0 ? "false" : n == 1 ? "true" : Cat(n);
    case Kind::kEnum:
      return EnumText(*type, n);
    default:
      return type->is_signed ? Cat(static_cast<int64_t>(n)) : Cat(n);
  }
}

absl::StatusOr<std::string> Renderer::Pointer(const CValue& value, const CType* type, bool top) {
  if (value.pointee) {
    ASSIGN_OR_RETURN(std::string inner, Inner(*value.pointee, false, kDepth - 2));
    return Cat("(", ToText(value.type), ") <not in memory: points to ", inner, ">");
  }
  ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
  if (!loaded.complete() || loaded.bytes.size() < 8) return Scalar(value, type, top);
  uint64_t n = 0;
  std::memcpy(&n, loaded.bytes.data(), 8);
  const CType* target = type->target()->Strip();
  std::string text = Hex(n);
  if (const CharacterType character = CharacterTypeOf(type->target()); character.bytes != 0) {
    if (n == 0) return text;
    bool cut = false;
    ASSIGN_OR_RETURN(std::optional<std::string> string,
                     reader_.CString(n, kElements, &cut, character.bytes));
    if (!string) {
      return Cat(text, " <error: Cannot access memory at address ", text, ">");
    }
    return Cat(text, " ", QuotedString(*string, cut, character));
  }
  if (top) text = Cat("(", ToText(value.type), ") ", text);
  if (n == 0) return text;
  const Symbolizer& symbols = reader_.types().symbols();
  if (target->kind == Kind::kFunction) {
    const std::string name = CodeName(symbols, Address(n));
    return name.empty() ? text : Cat(text, " <", name, ">");
  }
  if (const auto variable = symbols.VariableAt(Address(n))) {
    const uint64_t offset = n - variable->address.v;
    Append(&text, " <", variable->name, offset ? Cat("+", offset) : "", ">");
  } else if (const Module* module = symbols.ModuleAt(Address(n))) {
    // Into code, as labels and function pointers kept as void *.
    const auto function = symbols.FunctionAt(Address(n));
    (void)module;
    if (function) Append(&text, " <", CodeName(symbols, Address(n)), ">");
  }
  return text;
}

absl::StatusOr<std::string> Renderer::Record(const CValue& value, const CType* type, int depth) {
  ASSIGN_OR_RETURN(std::optional<ContainerView> view, ViewContainer(reader_, value, kElements));
  if (view) {
    const ContainerView& v = *view;
    if (v.kind == ContainerView::Kind::kString) {
      return v.summary + QuotedString(v.text, v.cut, v.character);
    }
    std::string text = v.summary;
    if (v.items.empty()) return text;
    const char* const space = v.kind == ContainerView::Kind::kAtomic ? " " : "";  // as gdb does
    Append(&text, " = {", space);
    for (size_t i = 0; i < v.items.size(); ++i) {
      if (i > 0) Append(&text, ", ");
      if (v.items[i].key) {
        ASSIGN_OR_RETURN(std::string key, Inner(*v.items[i].key, false, depth + 1));
        Append(&text, "[", key, "] = ");
      } else if (v.kind == ContainerView::Kind::kPointer) {
        Append(&text, "get() = ");
      } else if (v.kind == ContainerView::Kind::kOptional) {
        Append(&text, "[contained value] = ");
      } else if (v.numbered) {
        Append(&text, "[", v.first + i, "] = ");
      }
      ASSIGN_OR_RETURN(std::string item, Inner(v.items[i].value, false, depth + 1));
      Append(&text, item);
      if (text.size() > kMaxText) break;
    }
    return Cat(text, v.cut ? "..." : "", space, "}");
  }
  if (type->is_declaration) return std::string("<incomplete type>");
  if (value.in_memory) {
    // One reading decides for all of an object that is not mapped.
    CValue first = value;
    first.type = BuiltinType("char");
    ASSIGN_OR_RETURN(LoadedValue byte, reader_.Load(first));
    if (!byte.missing.empty() && !type->members.empty()) {
      return Cat("<error: ", byte.missing, ">");
    }
  } else {
    ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
    if (AllUnknown(loaded) && !type->members.empty()) return std::string(kUnknown);
  }
  std::string text = "{";
  bool first = true;
  Bases bases(this);
  for (const CMember& member : type->members) {
    const CType* member_type = type->At(member.type);
    if (member.is_static) {
      if (type->kind == Kind::kUnion || member.die.offset == 0) continue;
      // A static member is a global of its own; its place is in its definition.
      if (!first) Append(&text, ", ");
      first = false;
      std::string shown = kUnknown;
      if (const Die die = type->file->data().At(member.die)) {
        if (const auto constant = die.Find(DW_AT_const_value);
            constant && constant->block.empty()) {
          CValue v;
          v.type = member_type;
          v.bytes.assign(reinterpret_cast<const char*>(&constant->value), 8);
          v.bytes.resize(std::min<uint64_t>(8, reader_.types().SizeOf(member_type).value_or(8)));
          ASSIGN_OR_RETURN(shown, Inner(v, false, depth + 1));
        } else {
          absl::StatusOr<std::vector<VariableInfo>> found = reader_.types().symbols().FindVariables(
              {.kind = NamePattern::Kind::kName, .text = Cat(type->name, "::", member.name)});
          if (found.ok() && found->size() == 1 && depth < 3) {
            CValue v;
            v.type = member_type;
            v.in_memory = true;
            v.address = found->front().address.v;
            ASSIGN_OR_RETURN(shown, Inner(v, false, depth + 1));
          }
        }
      }
      Append(&text, "static ", member.name, " = ", shown);
      continue;
    }
    const CType* complete = reader_.types().Complete(member_type);
    if (!bases.Begin(member, complete)) continue;
    ASSIGN_OR_RETURN(CValue part, reader_.MemberOf(value, member));
    if (member.is_base && complete->members.empty()) {
      bases.End();
      if (type->name.starts_with("std::")) continue;
      if (!first) Append(&text, ", ");
      first = false;
      Append(&text, "<", ToText(member_type), "> = {<No data fields>}");
      continue;
    }
    absl::StatusOr<std::string> inner = Inner(part, false, depth + 1);
    bases.End();
    if (!inner.ok()) return inner;
    if (!first) Append(&text, ", ");
    first = false;
    if (member.is_base) {
      Append(&text, "<", ToText(member_type), "> = ");
    } else if (!member.name.empty()) {
      Append(&text, member.name, " = ");
    }
    Append(&text, *inner);
    if (text.size() > kMaxText) {
      Append(&text, "...");
      break;
    }
  }
  if (first) return std::string("{<No data fields>}");
  return text + "}";
}

absl::StatusOr<std::string> Renderer::Array(const CValue& value, const CType* type, int depth) {
  const CType* element = type->target();
  const CharacterType character = CharacterTypeOf(element);
  const uint64_t step = reader_.types().SizeOf(element).value_or(0);
  const uint64_t count = type->count.value_or(0);
  if (step == 0 || (!type->count && !value.in_memory)) return std::string("<incomplete type>");
  if (character.bytes != 0 && !type->is_vector) {
    CValue shown = value;
    const uint64_t wanted = std::min<uint64_t>(count, kElements);
    shown.type = reader_.types().ArrayOf(element, std::max<uint64_t>(wanted, 1));
    if (count == 0) return QuotedString("", /*cut=*/false, character);
    ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(shown));
    if (!loaded.complete()) return Scalar(shown, type, false);
    std::string_view text = loaded.bytes;
    const bool cut = count > wanted;
    // gdb: a last NUL is the string's end; more of them are its content, unless nothing else
    // follows within what is shown.
    const size_t last = text.size() - std::min<size_t>(text.size(), character.bytes);
    if (!cut && text.find_first_not_of('\0', last) == std::string_view::npos) {
      text = text.substr(0, last);
    }
    return QuotedString(text, cut, character);
  }
  std::string text = "{";
  size_t shown = 0;
  for (uint64_t i = 0; i < count;) {
    if (shown >= kElements) {
      Append(&text, "...");
      break;
    }
    const CValue part = reader_.Part(value, element, i * step);
    ASSIGN_OR_RETURN(std::string inner, Inner(part, false, depth + 1));
    // Equal elements in a row are shown once.
    uint64_t same = i + 1;
    ASSIGN_OR_RETURN(LoadedValue first, reader_.Load(part));
    while (same < count && same - i < 100000) {
      ASSIGN_OR_RETURN(LoadedValue next, reader_.Load(reader_.Part(value, element, same * step)));
      if (next.bytes != first.bytes || next.known != first.known ||
          next.missing.empty() != first.missing.empty()) {
        break;
      }
      ++same;
    }
    if (i > 0) Append(&text, ", ");
    if (same - i >= kRepeats) {
      Append(&text, inner, " <repeats ", same - i, " times>");
      i = same;
      shown += kRepeats;
    } else {
      Append(&text, inner);
      ++i;
      ++shown;
    }
    if (text.size() > kMaxText) {
      Append(&text, "...");
      break;
    }
  }
  return text + "}";
}

absl::StatusOr<Value> Renderer::Structured(const CValue& value) {
  written_ = 0;
  return Structure(value, 0);
}

absl::StatusOr<Value> Renderer::Structure(const CValue& value, int depth) {
  if (!value.missing.empty() || depth > kDepth || ++written_ > 100000) return Value(Null{});
  const CType* type = reader_.types().Complete(value.type);
  const auto text_of = [&](const CValue& v) -> absl::StatusOr<std::string> {
    const size_t kept = written_;
    absl::StatusOr<std::string> text = Inner(v, false, depth + 1);
    written_ = kept;
    return text;
  };
  switch (type->kind) {
    case Kind::kReference:
    case Kind::kRvalueReference: {
      ASSIGN_OR_RETURN(CValue target, reader_.Target(value));
      return Structure(target, depth + 1);
    }
    case Kind::kStruct:
    case Kind::kUnion: {
      ASSIGN_OR_RETURN(std::optional<ContainerView> view, ViewContainer(reader_, value, 10000));
      if (view) {
        const ContainerView& v = *view;
        if (v.kind == ContainerView::Kind::kString) return Value(TextOf(v.text, v.character));
        if (v.kind == ContainerView::Kind::kPointer || v.kind == ContainerView::Kind::kOptional ||
            v.kind == ContainerView::Kind::kVariant || v.kind == ContainerView::Kind::kAtomic) {
          if (v.items.empty()) return Value(Null{});
          return Structure(v.items[0].value, depth + 1);
        }
        if (v.kind == ContainerView::Kind::kMap) {
          Object object;
          for (const auto& item : v.items) {
            ASSIGN_OR_RETURN(Value key, Structure(*item.key, depth + 1));
            std::string name;
            if (const auto* s = key.get<std::string>()) {
              name = *s;
            } else {
              ASSIGN_OR_RETURN(name, text_of(*item.key));
            }
            ASSIGN_OR_RETURN(Value inner, Structure(item.value, depth + 1));
            object.fields.emplace_back(std::move(name), std::move(inner));
          }
          return Value(std::move(object));
        }
        List list;
        for (const auto& item : v.items) {
          ASSIGN_OR_RETURN(Value inner, Structure(item.value, depth + 1));
          list.push_back(std::move(inner));
        }
        return Value(std::move(list));
      }
      Object object;
      Bases bases(this);
      for (const CMember& member : type->members) {
        if (member.is_static) continue;
        if (!bases.Begin(member, reader_.types().Complete(type->At(member.type)))) continue;
        ASSIGN_OR_RETURN(CValue part, reader_.MemberOf(value, member));
        absl::StatusOr<Value> inner = Structure(part, depth + 1);
        bases.End();
        if (!inner.ok()) return inner;
        if (member.is_base || member.name.empty()) {
          // Found by their own names, as in the language.
          if (const Object* fields = inner->object()) {
            for (const auto& field : fields->fields) object.fields.push_back(field);
          }
          continue;
        }
        object.fields.emplace_back(member.name, *std::move(inner));
      }
      return Value(std::move(object));
    }
    case Kind::kArray: {
      const CType* element = type->target();
      const CharacterType character = CharacterTypeOf(element);
      if (character.bytes != 0 && !type->is_vector) {
        ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
        if (!loaded.complete()) return Value(Null{});
        const std::string text = TextOf(loaded.bytes, character);
        return Value(text.substr(0, text.find('\0')));
      }
      const uint64_t step = reader_.types().SizeOf(element).value_or(0);
      List list;
      for (uint64_t i = 0; step > 0 && i < type->count.value_or(0) && i < 10000; ++i) {
        ASSIGN_OR_RETURN(Value inner, Structure(reader_.Part(value, element, i * step), depth + 1));
        list.push_back(std::move(inner));
      }
      return Value(std::move(list));
    }
    case Kind::kFunction:
      return Value(Address(value.address));
    case Kind::kMemberPointer: {
      ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
      if (!loaded.complete()) return Value(Null{});
      std::optional<std::string> text = MemberPointer(loaded.bytes, type);
      return text ? Value(*std::move(text)) : Value(Null{});
    }
    case Kind::kVoid:
    case Kind::kUnknown:
      return Value(Null{});
    case Kind::kFloat:
    case Kind::kComplex: {
      ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
      if (!loaded.complete()) return Value(Null{});
      if (type->kind == Kind::kComplex) return Value(ComplexText(*type, loaded.bytes));
      return FloatValue(*type, loaded.bytes);
    }
    default:
      return StructuredScalar(value, type, depth);
  }
}

absl::StatusOr<Value> Renderer::StructuredScalar(const CValue& value, const CType* type,
                                                 int depth) {
  if (value.pointee) {
    ASSIGN_OR_RETURN(Value pointee, Structure(*value.pointee, depth + 1));
    Object object;
    object.fields.emplace_back("points_to", std::move(pointee));
    return Value(std::move(object));
  }
  ASSIGN_OR_RETURN(LoadedValue loaded, reader_.Load(value));
  if (loaded.complete() && loaded.bytes.size() > 8) return WideNumber(loaded.bytes, *type);
  ASSIGN_OR_RETURN(std::optional<uint64_t> n, reader_.Number(value));
  if (!n) return Value(Null{});
  if (type->kind == Kind::kPointer) return Value(Address(*n));
  const bool fits = type->is_signed || *n <= static_cast<uint64_t>(INT64_MAX);
  Value number = fits ? Value(static_cast<int64_t>(*n)) : Value(Word{*n});
  if (type->kind == Kind::kEnum) {
    std::string text = EnumText(*type, *n);
    const bool named = !text.empty() && text[0] != '-' && (text[0] < '0' || text[0] > '9');
    if (named) return Value(Represented{std::move(text), std::move(number)});
  }
  return number;
}

}  // namespace ttq
