// SPDX-License-Identifier: MIT

#include "query/code/dwarf_expression.h"

#include <libdwarf/dwarf.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace ttq {
namespace {

// DWARF's order of the general registers.
constexpr Gpr kByDwarf[] = {kRax, kRdx, kRcx, kRbx, kRsi, kRdi, kRbp, kRsp,
                            kR8,  kR9,  kR10, kR11, kR12, kR13, kR14, kR15};

constexpr int kMaxSteps = 10000;
constexpr size_t kMaxStack = 256;
constexpr size_t kMaxPieces = 1024;
constexpr int kMaxDepth = 8;

using Kind = LocationPiece::Kind;

// The type of a number on the stack (DWARF 5 section 2.5.1): generic, which is an integer of eight
// bytes without a sign of its own, or a base type of at most eight bytes.
struct NumberType {
  enum class Class : uint8_t { kGeneric, kSigned, kUnsigned, kFloat };
  Class kind = Class::kGeneric;
  uint8_t size = 8;

  bool is_float() const { return kind == Class::kFloat; }
  bool is_signed() const { return kind == Class::kSigned; }
};

// Integers are kept extended to eight bytes by their own type, floating-point numbers as their
// bytes.
struct TypedNumber {
  uint64_t bits = 0;
  NumberType type;
};

TypedNumber OfType(uint64_t bits, NumberType type) {
  const unsigned unused = 64 - type.size * 8u;
  const uint64_t high = bits << unused;
  return {type.is_signed() ? static_cast<uint64_t>(static_cast<int64_t>(high) >> unused)
                           : high >> unused,
          type};
}

double FloatOf(const TypedNumber& n) {
  if (n.type.size == 4) {
    float f = 0;
    std::memcpy(&f, &n.bits, sizeof f);
    return f;
  }
  double d = 0;
  std::memcpy(&d, &n.bits, sizeof d);
  return d;
}

TypedNumber FloatNumber(double d, NumberType type) {
  TypedNumber n = {0, type};
  if (type.size == 4) {
    const auto f = static_cast<float>(d);
    std::memcpy(&n.bits, &f, sizeof f);
  } else {
    std::memcpy(&n.bits, &d, sizeof d);
  }
  return n;
}

// Of a number that is too large for the type: what x86-64's own conversions leave.
uint64_t IntegerOf(double d, NumberType type) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (!type.is_signed() && d >= kTwo63 && d < 2 * kTwo63) return static_cast<uint64_t>(d);
  if (!(d >= -kTwo63 && d < kTwo63)) return uint64_t{1} << 63;
  return static_cast<uint64_t>(static_cast<int64_t>(d));
}

double ToFloat(const TypedNumber& n) {
  if (n.type.is_float()) return FloatOf(n);
  if (n.type.kind == NumberType::Class::kUnsigned) return static_cast<double>(n.bits);
  return static_cast<double>(static_cast<int64_t>(n.bits));
}

TypedNumber Converted(const TypedNumber& n, NumberType type) {
  if (type.is_float()) return FloatNumber(ToFloat(n), type);
  return OfType(n.type.is_float() ? IntegerOf(FloatOf(n), type) : n.bits, type);
}

class Machine {
 public:
  Machine(const LocationInput& input, int depth) : input_(input), depth_(depth) {
    if (input.first) Push(*input.first);
  }

  void Run(ByteSpan expression) {
    if (depth_ > kMaxDepth) return Fail("its location refers to itself");
    ByteCursor cursor(expression, 0);
    for (int steps = 0; !cursor.AtEnd() && why_.empty(); ++steps) {
      if (steps > kMaxSteps || stack_.size() > kMaxStack || pieces_.size() > kMaxPieces) {
        return Fail("its location is too long to be evaluated");
      }
      Step(expression, &cursor);
      if (!cursor.ok()) return Fail("its location is damaged");
    }
  }

  std::vector<LocationPiece> Finish() {
    if (!why_.empty()) {
      // The pieces before the failure stand.
      LocationPiece rest;
      rest.why = why_;
      pieces_.push_back(std::move(rest));
    } else if (pieces_.empty() || simple_) {
      pieces_.push_back(TakeSimple());
    }
    return std::move(pieces_);
  }

  // The top of the stack.
  std::optional<uint64_t> Number(std::string* why) {
    if (why_.empty() && simple_ && simple_->kind == Kind::kRegister) {
      const auto v = input_.register_value ? input_.register_value(static_cast<int>(simple_->value))
                                           : std::optional<uint64_t>();
      if (v) return v;
      *why = NoRegister(simple_->value);
      return std::nullopt;
    }
    if (why_.empty() && simple_ && simple_->kind == Kind::kValue) return simple_->value;
    if (!why_.empty() || stack_.empty()) {
      *why = why_.empty() ? "its expression gives nothing" : why_;
      return std::nullopt;
    }
    return stack_.back().bits;
  }

 private:
  void Fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }
  static std::string NoRegister(uint64_t number) {
    if (number >= 17 && number <= 32) {
      return absl::StrCat("it is in ", DwarfRegisterName(number), ", which is not recorded");
    }
    return absl::StrCat("it depends on ", DwarfRegisterName(number),
                        ", whose value in this frame is not known");
  }
  TypedNumber PopNumber() {
    if (stack_.empty()) {
      Fail("its location is damaged");
      return {};
    }
    const TypedNumber n = stack_.back();
    stack_.pop_back();
    return n;
  }
  uint64_t Pop() { return PopNumber().bits; }
  void Push(uint64_t v) { stack_.push_back({v, NumberType()}); }
  void Push(const TypedNumber& n) { stack_.push_back(n); }
  void PushOr(std::optional<uint64_t> v, const std::function<std::string()>& why) {
    if (v) {
      Push(*v);
    } else {
      Fail(why());
    }
  }
  void PushRegister(uint64_t number, int64_t offset, NumberType type = {}) {
    const auto v = input_.register_value ? input_.register_value(static_cast<int>(number))
                                         : std::optional<uint64_t>();
    if (!v) return Fail(NoRegister(number));
    Push(OfType(*v + static_cast<uint64_t>(offset), type));
  }
  void Simple(Kind kind, uint64_t value) {
    simple_.emplace();
    simple_->kind = kind;
    simple_->value = value;
  }
  LocationPiece TakeSimple() {
    LocationPiece piece;
    if (simple_) {
      piece = *simple_;
      simple_.reset();
    } else if (!stack_.empty()) {
      piece.kind = Kind::kMemory;
      piece.value = Pop();
    }
    return piece;
  }

  void Binary(uint8_t op) {
    const TypedNumber b = PopNumber(), a = PopNumber();
    if (a.type.is_float() != b.type.is_float()) return Fail("its location is damaged");
    if (a.type.is_float()) return BinaryFloat(op, a, b);
    // Signs matter to these: what is generic has one, but for the rest of a division.
    const bool is_unsigned = a.type.kind == NumberType::Class::kUnsigned;
    const uint64_t ua = a.bits, ub = b.bits;
    const auto sa = static_cast<int64_t>(ua), sb = static_cast<int64_t>(ub);
    const unsigned bits = a.type.size * 8u;
    const auto push = [&](uint64_t v) { Push(OfType(v, a.type)); };
    const bool shifts = op == DW_OP_shl || op == DW_OP_shr || op == DW_OP_shra;
    // GCC 12 writes a shift to the right that way, at calls.
    if (shifts && sb < 0) return Fail("its location shifts by a negative number");
    switch (op) {
      case DW_OP_and:
        return push(ua & ub);
      case DW_OP_div:
        if (ub == 0) return Fail("its location divides by zero");
        if (is_unsigned) return push(ua / ub);
        return push(sb == -1 ? 0 - ua : static_cast<uint64_t>(sa / sb));
      case DW_OP_minus:
        return push(ua - ub);
      case DW_OP_mod:
        if (ub == 0) return Fail("its location divides by zero");
        if (!a.type.is_signed()) return push(ua % ub);
        return push(sb == -1 ? 0 : static_cast<uint64_t>(sa % sb));
      case DW_OP_mul:
        return push(ua * ub);
      case DW_OP_or:
        return push(ua | ub);
      case DW_OP_plus:
        return push(ua + ub);
      case DW_OP_shl:
        return push(ub < bits ? ua << ub : 0);
      case DW_OP_shr:
        return push(ub < bits ? OfType(ua, {NumberType::Class::kUnsigned, a.type.size}).bits >> ub
                              : 0);
      case DW_OP_shra: {
        const TypedNumber number = OfType(ua, {NumberType::Class::kSigned, a.type.size});
        return push(
            static_cast<uint64_t>(static_cast<int64_t>(number.bits) >> (ub < 64 ? ub : 63)));
      }
      case DW_OP_xor:
        return push(ua ^ ub);
      case DW_OP_eq:
        return Push(ua == ub);
      case DW_OP_ge:
        return Push(is_unsigned ? ua >= ub : sa >= sb);
      case DW_OP_gt:
        return Push(is_unsigned ? ua > ub : sa > sb);
      case DW_OP_le:
        return Push(is_unsigned ? ua <= ub : sa <= sb);
      case DW_OP_lt:
        return Push(is_unsigned ? ua < ub : sa < sb);
      default:
        return Push(ua != ub);
    }
  }

  // Both numbers have the same type.
  void BinaryFloat(uint8_t op, const TypedNumber& na, const TypedNumber& nb) {
    const double a = FloatOf(na), b = FloatOf(nb);
    switch (op) {
      case DW_OP_div:
        return Push(FloatNumber(a / b, na.type));
      case DW_OP_minus:
        return Push(FloatNumber(a - b, na.type));
      case DW_OP_mul:
        return Push(FloatNumber(a * b, na.type));
      case DW_OP_plus:
        return Push(FloatNumber(a + b, na.type));
      case DW_OP_eq:
        return Push(a == b);
      case DW_OP_ge:
        return Push(a >= b);
      case DW_OP_gt:
        return Push(a > b);
      case DW_OP_le:
        return Push(a <= b);
      case DW_OP_lt:
        return Push(a < b);
      case DW_OP_ne:
        return Push(a != b);
      default:
        return Fail("its location is damaged");
    }
  }

  void Unary(uint8_t op) {
    const TypedNumber n = PopNumber();
    if (n.type.is_float()) {
      if (op == DW_OP_not) return Fail("its location is damaged");
      const double d = FloatOf(n);
      return Push(FloatNumber(op == DW_OP_abs ? std::fabs(d) : -d, n.type));
    }
    const bool negative =
        static_cast<int64_t>(n.bits) < 0 && n.type.kind != NumberType::Class::kUnsigned;
    if (op == DW_OP_not) return Push(OfType(~n.bits, n.type));
    if (op == DW_OP_neg || negative) return Push(OfType(0 - n.bits, n.type));
    Push(n);
  }

  void Load(uint32_t size, std::optional<NumberType> type = {}) {
    const uint64_t address = Pop();
    if (size == 0 || size > 8) return Fail("its location is damaged");
    const auto v = input_.memory ? input_.memory(address, size) : std::nullopt;
    if (!v) {
      return Fail(
          absl::StrCat("its place is kept at 0x", absl::Hex(address), ", which is not mapped"));
    }
    Push(type ? OfType(*v, *type) : TypedNumber{*v, NumberType()});
  }

  void Entry(ByteSpan inner) {
    // Of the caller's values only registers occur in practice: DW_OP_regN, DW_OP_bregN 0, and
    // DW_OP_regval_type.
    ByteCursor cursor(inner, 0);
    const uint8_t op = cursor.Fixed<uint8_t>();
    uint64_t number = ~uint64_t{0};
    NumberType type;
    if (op >= DW_OP_reg0 && op <= DW_OP_reg31) number = op - DW_OP_reg0;
    if (op == DW_OP_regx) number = cursor.Uleb();
    if (op >= DW_OP_breg0 && op <= DW_OP_breg31 && cursor.Sleb() == 0) number = op - DW_OP_breg0;
    if (op == DW_OP_regval_type || op == DW_OP_GNU_regval_type) {
      number = cursor.Uleb();
      const auto given = TypeAt(cursor.Uleb());
      if (!given) return;
      type = *given;
    }
    const auto v = number <= 32 && input_.entry_register
                       ? input_.entry_register(static_cast<int>(number))
                       : std::nullopt;
    if (!v) {
      return Fail(absl::StrCat("it is what ", DwarfRegisterName(number),
                               " held when the function was entered, which is not known"));
    }
    Push(OfType(*v, type));
  }

  void Step(ByteSpan expression, ByteCursor* cursor) {
    const uint8_t op = cursor->Fixed<uint8_t>();
    if (op >= DW_OP_lit0 && op <= DW_OP_lit31) return Push(op - DW_OP_lit0);
    if (op >= DW_OP_reg0 && op <= DW_OP_reg31) return Simple(Kind::kRegister, op - DW_OP_reg0);
    if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
      return PushRegister(op - DW_OP_breg0, cursor->Sleb());
    }
    const unsigned offset_size = input_.unit ? input_.unit->offset_size : 4;
    switch (op) {
      case DW_OP_addr:
        return Push(cursor->Fixed<uint64_t>() + input_.bias);
      case DW_OP_addrx:
      case DW_OP_constx:
      case DW_OP_GNU_addr_index:
      case DW_OP_GNU_const_index: {
        const uint64_t index = cursor->Uleb();
        if (!input_.data || !input_.unit) return Fail("its location is damaged");
        const auto v = input_.data->AddressByIndex(*input_.unit, index);
        const bool address = op == DW_OP_addrx || op == DW_OP_GNU_addr_index;
        if (!v) return Fail("its location is damaged");
        return Push(*v + (address ? input_.bias : 0));
      }
      case DW_OP_const1u:
        return Push(cursor->Fixed<uint8_t>());
      case DW_OP_const1s:
        return Push(static_cast<uint64_t>(int64_t{cursor->Fixed<int8_t>()}));
      case DW_OP_const2u:
        return Push(cursor->Fixed<uint16_t>());
      case DW_OP_const2s:
        return Push(static_cast<uint64_t>(int64_t{cursor->Fixed<int16_t>()}));
      case DW_OP_const4u:
        return Push(cursor->Fixed<uint32_t>());
      case DW_OP_const4s:
        return Push(static_cast<uint64_t>(int64_t{cursor->Fixed<int32_t>()}));
      case DW_OP_const8u:
      case DW_OP_const8s:
        return Push(cursor->Fixed<uint64_t>());
      case DW_OP_constu:
        return Push(cursor->Uleb());
      case DW_OP_consts:
        return Push(static_cast<uint64_t>(cursor->Sleb()));
      case DW_OP_regx:
        return Simple(Kind::kRegister, cursor->Uleb());
      case DW_OP_bregx: {
        const uint64_t number = cursor->Uleb();
        return PushRegister(number, cursor->Sleb());
      }
      case DW_OP_fbreg: {
        const int64_t offset = cursor->Sleb();
        const auto base = input_.frame_base ? input_.frame_base() : std::nullopt;
        if (!base) return Fail("where its frame is cannot be told here");
        return Push(*base + static_cast<uint64_t>(offset));
      }
      case DW_OP_call_frame_cfa:
        return PushOr(input_.frame_address ? input_.frame_address() : std::nullopt,
                      [] { return std::string("where its frame is cannot be told here"); });
      case DW_OP_push_object_address:
        return PushOr(input_.object_address,
                      [] { return std::string("its location needs an object"); });
      case DW_OP_dup:
        return Pick(0);
      case DW_OP_drop:
        Pop();
        return;
      case DW_OP_over:
        return Pick(1);
      case DW_OP_pick:
        return Pick(cursor->Fixed<uint8_t>());
      case DW_OP_swap: {
        const TypedNumber b = PopNumber(), a = PopNumber();
        Push(b);
        return Push(a);
      }
      case DW_OP_rot: {
        const TypedNumber c = PopNumber(), b = PopNumber(), a = PopNumber();
        Push(c);
        Push(a);
        return Push(b);
      }
      case DW_OP_deref:
        return Load(8);
      case DW_OP_deref_size:
        return Load(cursor->Fixed<uint8_t>());
      case DW_OP_deref_type:
      case DW_OP_GNU_deref_type: {
        const uint8_t size = cursor->Fixed<uint8_t>();
        const auto type = TypeAt(cursor->Uleb());
        if (type) Load(size, type);
        return;
      }
      case DW_OP_abs:
      case DW_OP_neg:
      case DW_OP_not:
        return Unary(op);
      case DW_OP_plus_uconst: {
        const uint64_t n = cursor->Uleb();
        const TypedNumber to = PopNumber();
        return Push(OfType(to.bits + n, to.type));
      }
      case DW_OP_and:
      case DW_OP_div:
      case DW_OP_minus:
      case DW_OP_mod:
      case DW_OP_mul:
      case DW_OP_or:
      case DW_OP_plus:
      case DW_OP_shl:
      case DW_OP_shr:
      case DW_OP_shra:
      case DW_OP_xor:
      case DW_OP_eq:
      case DW_OP_ge:
      case DW_OP_gt:
      case DW_OP_le:
      case DW_OP_lt:
      case DW_OP_ne:
        return Binary(op);
      case DW_OP_skip:
      case DW_OP_bra: {
        const int16_t by = cursor->Fixed<int16_t>();
        if (op == DW_OP_bra && Pop() == 0) return;
        const int64_t to = static_cast<int64_t>(cursor->at()) + by;
        if (to < 0 || static_cast<uint64_t>(to) > expression.size()) {
          return Fail("its location is damaged");
        }
        *cursor = ByteCursor(expression, static_cast<uint64_t>(to));
        return;
      }
      case DW_OP_nop:
        return;
      case DW_OP_stack_value: {
        const uint64_t v = Pop();
        return Simple(Kind::kValue, v);
      }
      case DW_OP_implicit_value: {
        const ByteSpan bytes = cursor->Block(cursor->Uleb());
        Simple(Kind::kBytes, 0);
        simple_->bytes = bytes;
        return;
      }
      case DW_OP_implicit_pointer:
      case DW_OP_GNU_implicit_pointer: {
        const uint64_t target = cursor->Number(offset_size);
        const int64_t offset = cursor->Sleb();
        Simple(Kind::kPointer, 0);
        simple_->target = {target, input_.unit ? input_.unit->section : uint8_t{0}};
        simple_->offset = offset;
        return;
      }
      case DW_OP_piece:
      case DW_OP_bit_piece: {
        const uint64_t size = cursor->Uleb();
        const uint64_t at = op == DW_OP_bit_piece ? cursor->Uleb() : 0;
        LocationPiece piece = TakeSimple();
        if (size > uint64_t{1} << 32) return Fail("its location is damaged");
        piece.bits = op == DW_OP_piece ? size * 8 : size;
        piece.bit_offset = at;
        if (piece.bits > 0) pieces_.push_back(std::move(piece));
        return;
      }
      case DW_OP_entry_value:
      case DW_OP_GNU_entry_value:
        return Entry(cursor->Block(cursor->Uleb()));
      case DW_OP_GNU_parameter_ref: {
        const uint64_t offset = cursor->Fixed<uint32_t>();
        const bool can = input_.unit && input_.removed_parameter;
        return PushOr(
            can ? input_.removed_parameter({input_.unit->begin + offset, input_.unit->section})
                : std::nullopt,
            [] { return std::string("it is a parameter that the compiler removed"); });
      }
      case DW_OP_form_tls_address:
      case DW_OP_GNU_push_tls_address: {
        const uint64_t offset = Pop();
        return PushOr(
            input_.thread_local_address ? input_.thread_local_address(offset) : std::nullopt, [] {
              return std::string(
                  "it is thread-local, and where the thread keeps its own variables is not known");
            });
      }
      case DW_OP_const_type:
      case DW_OP_GNU_const_type: {
        const auto type = TypeAt(cursor->Uleb());
        const uint8_t size = cursor->Fixed<uint8_t>();
        if (!type) return;
        if (size > 8) return Fail("its location is damaged");
        return Push(OfType(cursor->Number(size), *type));
      }
      case DW_OP_regval_type:
      case DW_OP_GNU_regval_type: {
        const uint64_t number = cursor->Uleb();
        const auto type = TypeAt(cursor->Uleb());
        if (type) PushRegister(number, 0, *type);
        return;
      }
      case DW_OP_convert:
      case DW_OP_GNU_convert: {
        const auto type = TypeAt(cursor->Uleb());
        if (type) Push(Converted(PopNumber(), *type));
        return;
      }
      case DW_OP_reinterpret:
      case DW_OP_GNU_reinterpret: {
        const auto type = TypeAt(cursor->Uleb());
        if (type) Push(OfType(Pop(), *type));
        return;
      }
      case DW_OP_call2:
      case DW_OP_call4:
      case DW_OP_call_ref: {
        const uint64_t offset = cursor->Number(op == DW_OP_call2   ? 2
                                               : op == DW_OP_call4 ? 4
                                                                   : offset_size);
        if (!input_.data || !input_.unit) return Fail("its location is damaged");
        const uint64_t base = op == DW_OP_call_ref ? 0 : input_.unit->begin;
        const Die die = input_.data->At(DieRef{base + offset, input_.unit->section});
        const auto a = die.Find(DW_AT_location);
        if (!a || a->block.empty()) return;
        ++depth_;
        Run(a->block);
        --depth_;
        return;
      }
      default:
        return Fail(absl::StrCat("its location uses the operation 0x", absl::Hex(op),
                                 ", which this version does not know"));
    }
  }

  // The base type at an offset in the unit; 0: generic. Nothing after a failure.
  std::optional<NumberType> TypeAt(uint64_t offset) {
    if (offset == 0) return NumberType();
    Die die;
    if (input_.unit && input_.data) {
      die = input_.data->At(*input_.unit, input_.unit->begin + offset);
    }
    const uint64_t size = die ? die.Unsigned(DW_AT_byte_size).value_or(0) : 0;
    if (size == 0) {
      Fail("its location is damaged");
      return std::nullopt;
    }
    if (size > 8) {
      Fail("its location computes with numbers of more than 8 bytes");
      return std::nullopt;
    }
    NumberType type = {NumberType::Class::kUnsigned, static_cast<uint8_t>(size)};
    const uint64_t encoding = die.Unsigned(DW_AT_encoding).value_or(0);
    if (encoding == DW_ATE_signed || encoding == DW_ATE_signed_char) {
      type.kind = NumberType::Class::kSigned;
    } else if (encoding == DW_ATE_float) {
      type.kind = NumberType::Class::kFloat;
      if (size != 4 && size != 8) {
        Fail("its location computes with floating-point numbers of an unknown format");
        return std::nullopt;
      }
    }
    return type;
  }

  void Pick(size_t index) {
    if (index >= stack_.size()) return Fail("its location is damaged");
    Push(stack_[stack_.size() - 1 - index]);
  }

  const LocationInput& input_;
  int depth_;
  std::vector<TypedNumber> stack_;
  std::vector<LocationPiece> pieces_;
  std::optional<LocationPiece> simple_;
  std::string why_;
};

}  // namespace

Gpr GprOfDwarf(int dwarf_register) { return kByDwarf[dwarf_register & 15]; }

int DwarfOfGpr(Gpr reg) {
  return static_cast<int>(std::find(std::begin(kByDwarf), std::end(kByDwarf), reg) - kByDwarf);
}

std::vector<LocationPiece> EvaluateLocation(ByteSpan expression, const LocationInput& input) {
  Machine machine(input, 0);
  machine.Run(expression);
  return machine.Finish();
}

std::optional<uint64_t> EvaluateNumber(ByteSpan expression, const LocationInput& input,
                                       std::string* why) {
  Machine machine(input, 0);
  machine.Run(expression);
  std::string unused;
  return machine.Number(why != nullptr ? why : &unused);
}

std::string DwarfRegisterName(uint64_t number) {
  if (number < 16) return GprName(GprOfDwarf(static_cast<int>(number)));
  if (number == 16) return "rip";
  if (number <= 32) return absl::StrCat("xmm", number - 17);
  if (number <= 40) return absl::StrCat("st", number - 33);
  return absl::StrCat("register ", number);
}

}  // namespace ttq
