// SPDX-License-Identifier: MIT

#include "query/ctypes/abi.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "query/ctypes/floating_point.h"

namespace ttq {
namespace {

constexpr int kMaxMemberDepth = 32;
constexpr uint64_t kMaxArrayElements = 16;

enum class Class : uint8_t { kNone, kInteger, kSse, kSseUp, kX87, kMemory };

Class Merge(Class a, Class b) {
  if (a == b || b == Class::kNone) return a;
  if (a == Class::kNone) return b;
  if (a == Class::kMemory || b == Class::kMemory) return Class::kMemory;
  if (a == Class::kInteger || b == Class::kInteger) return Class::kInteger;
  if (a == Class::kX87 || b == Class::kX87) return Class::kMemory;
  return Class::kSse;
}

// The classes of the eightbytes that `type` at `offset` of an object covers.
void Classify(const TypeSpace& types, const CType* type, uint64_t offset, std::array<Class, 2>* out,
              int depth) {
  type = types.Complete(type);
  const auto put = [&](Class c, uint64_t at) {
    if (at / 8 < 2) {
      (*out)[at / 8] = Merge((*out)[at / 8], c);
    } else {
      (*out)[0] = Class::kMemory;
    }
  };
  const uint64_t size = types.SizeOf(type).value_or(0);
  if (depth > kMaxMemberDepth) return put(Class::kMemory, 0);
  switch (type->kind) {
    case CType::Kind::kFloat:
      if (size > 8 && !IsQuad(*type)) return put(Class::kX87, 0);
      put(Class::kSse, offset);
      if (size > 8) put(Class::kSseUp, offset + 8);
      return;
    case CType::Kind::kComplex:
      if (size > 16) return put(Class::kMemory, 0);
      put(Class::kSse, offset);
      if (size > 8) put(Class::kSse, offset + 8);
      return;
    case CType::Kind::kStruct:
    case CType::Kind::kUnion:
      for (const CMember& member : type->members) {
        if (member.is_static) continue;
        if (!member.virtual_offset.empty()) return put(Class::kMemory, 0);
        if (member.bit_size > 0) {
          put(Class::kInteger, offset + member.offset + member.bit_offset / 8);
          continue;
        }
        Classify(types, type->At(member.type), offset + member.offset, out, depth + 1);
      }
      return;
    case CType::Kind::kArray: {
      if (type->is_vector) {
        put(Class::kSse, offset);
        if (size > 8) put(Class::kSseUp, offset + 8);
        return;
      }
      const CType* element = type->target();
      const uint64_t step = types.SizeOf(element).value_or(0);
      const uint64_t count = type->count.value_or(0);
      if (count > kMaxArrayElements) return put(Class::kMemory, 0);
      for (uint64_t i = 0; i < count; ++i) {
        Classify(types, element, offset + i * step, out, depth + 1);
      }
      return;
    }
    case CType::Kind::kUnknown:
    case CType::Kind::kVoid:
      return put(Class::kMemory, 0);
    default:
      put(Class::kInteger, offset);
      if (size > 8) put(Class::kInteger, offset + 8);
      return;
  }
}

// Objects that may not be copied bit by bit are passed by their address.
bool PassedByReference(const TypeSpace& types, const CType* type, int depth = 0) {
  type = types.Complete(type);
  if (type->kind == CType::Kind::kArray) {
    return depth < kMaxMemberDepth && PassedByReference(types, type->target(), depth + 1);
  }
  if (!type->IsRecord()) return false;
  if (type->copied_by_code) return true;
  return type->is_cpp && depth < kMaxMemberDepth &&
         std::any_of(type->members.begin(), type->members.end(), [&](const CMember& member) {
           return !member.is_static && PassedByReference(types, type->At(member.type), depth + 1);
         });
}

std::vector<Class> ClassesOf(const TypeSpace& types, const CType* type) {
  const uint64_t size = types.SizeOf(type).value_or(8);
  if (size > 16 || size == 0) return {Class::kMemory};
  std::array<Class, 2> classes = {Class::kNone, Class::kNone};
  Classify(types, type, 0, &classes, 0);
  if (classes[0] == Class::kMemory || classes[1] == Class::kMemory) return {Class::kMemory};
  if (classes[0] == Class::kX87) return {Class::kX87};
  std::vector<Class> out = {classes[0]};
  if (size > 8 && classes[1] != Class::kNone) out.push_back(classes[1]);
  return out;
}

// The eightbyte goes into the next register of its class.
void AddPiece(Class c, int* gprs, int* sses, AbiLocation* place) {
  if (c == Class::kSseUp) {
    place->pieces.back().whole = true;
  } else if (c == Class::kSse) {
    place->pieces.push_back({true, (*sses)++});
  } else {
    place->pieces.push_back({false, (*gprs)++});
  }
}

}  // namespace

std::vector<AbiLocation> PlacesOfArguments(const TypeSpace& types, const CType* returns,
                                           const std::vector<const CType*>& arguments) {
  int gprs = 0, sses = 0;
  uint64_t stack = 0;
  if (returns->Strip()->kind != CType::Kind::kVoid) {
    const AbiLocation result = PlaceOfResult(types, returns);
    if (result.pieces.empty() && !result.x87) gprs = 1;
  }
  std::vector<AbiLocation> places;
  for (const CType* type : arguments) {
    AbiLocation place;
    std::vector<Class> classes = {Class::kInteger};
    uint64_t size = 8;
    if (type->Strip()->IsReference()) {
      // An address like any other.
    } else if (PassedByReference(types, type)) {
      place.by_reference = true;
    } else {
      classes = ClassesOf(types, type);
      size = types.SizeOf(type).value_or(8);
    }
    int need_gpr = 0, need_sse = 0;
    bool memory = false;
    for (const Class c : classes) {
      if (c == Class::kSseUp) continue;
      memory = memory || c == Class::kMemory || c == Class::kX87 || c == Class::kNone;
      need_gpr += c == Class::kInteger;
      need_sse += c == Class::kSse;
    }
    if (!memory && gprs + need_gpr <= 6 && sses + need_sse <= 8) {
      for (const Class c : classes) AddPiece(c, &gprs, &sses, &place);
    } else {
      if (size >= 16 && classes[0] == Class::kX87) stack = (stack + 15) / 16 * 16;
      place.stack_offset = stack;
      stack += (size + 7) / 8 * 8;
    }
    places.push_back(std::move(place));
  }
  return places;
}

AbiLocation PlaceOfResult(const TypeSpace& types, const CType* type) {
  AbiLocation place;
  if (type->Strip()->IsReference()) {
    place.pieces.push_back({false, 0});
    return place;
  }
  const std::vector<Class> classes =
      PassedByReference(types, type) ? std::vector<Class>{Class::kMemory} : ClassesOf(types, type);
  if (classes[0] == Class::kX87) {
    place.x87 = true;
    return place;
  }
  int gprs = 0, sses = 0;
  for (const Class c : classes) {
    if (c != Class::kInteger && c != Class::kSse && c != Class::kSseUp) {
      place.pieces.clear();
      place.by_reference = true;
      break;
    }
    AddPiece(c, &gprs, &sses, &place);
  }
  return place;
}

absl::StatusOr<CValue> ValueAtPlace(const TypeSpace& types, const AbiLocation& place,
                                    const CType* type, const Registers& registers, uint64_t stack,
                                    bool result) {
  CValue value;
  value.type = type;
  const auto gpr = [&](int index) {
    return registers.gpr[result ? ResultGpr(index) : ArgumentGpr(index)];
  };
  if (place.x87) {
    if (registers.st0_known && type->Strip()->kind == CType::Kind::kFloat) {
      value.bytes = FloatBytes(*type->Strip(), registers.st0);
    } else {
      value.missing = "it is in st0, which was not recorded here";
    }
    return value;
  }
  if (place.pieces.empty() || place.by_reference) {
    value.in_memory = true;
    value.address = result               ? registers.gpr[kRax]
                    : place.by_reference ? gpr(place.pieces[0].index)
                                         : stack + place.stack_offset;
    return value;
  }
  const uint64_t size = types.SizeOf(type).value_or(8);
  value.bytes.assign(size, 0);
  value.known.assign(size, 0);
  bool any = false;
  std::string sse;
  const auto put = [&](size_t eightbyte, uint64_t word) {
    for (uint64_t at = eightbyte * 8; at < size && at < eightbyte * 8 + 8; ++at) {
      value.bytes[at] = static_cast<char>(word >> (at % 8 * 8));
      value.known[at] = 1;
      any = true;
    }
  };
  for (size_t i = 0; i < place.pieces.size(); ++i) {
    const auto& [is_sse, index, whole] = place.pieces[i];
    if (!is_sse) {
      put(i, gpr(index));
      continue;
    }
    if (registers.xmm_known >> index & 1) {
      put(i, registers.xmm[index]);
    } else {
      sse = absl::StrCat("it is in xmm", index, ", which was not recorded here");
    }
    if (whole && registers.xmm_high_known >> index & 1) put(i + 1, registers.xmm_high[index]);
  }
  if (!any && size > 0) value.missing = sse;
  if (value.known.find('\0') == std::string::npos) value.known.clear();
  return value;
}

Gpr ArgumentGpr(int index) {
  static constexpr Gpr kOrder[] = {kRdi, kRsi, kRdx, kRcx, kR8, kR9};
  return kOrder[index < 6 ? index : 0];
}

Gpr ResultGpr(int index) { return index == 0 ? kRax : kRdx; }

}  // namespace ttq
