// SPDX-License-Identifier: MIT
//
// Types of C and C++ as DWARF describes them. A type is read when somebody asks for it, with its
// own members but not with what it points to: that is another question. Types are immutable and
// live as long as the TypeSpace they came from.

#ifndef TTQ_QUERY_CTYPES_TYPE_H_
#define TTQ_QUERY_CTYPES_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/number_text.h"
#include "query/code/die.h"

namespace ttq {

class DebugFile;
struct CType;

struct CMember {
  std::string name;  // "" for an anonymous struct or union
  DieRef type;
  uint64_t offset = 0;         // bytes; with bit_size, of the bits' storage
  uint32_t bit_offset = 0;     // from `offset`, least significant first
  uint32_t bit_size = 0;       // 0: no bit-field
  bool is_base = false;        // a base class
  bool is_static = false;      // has no place in the object
  bool is_artificial = false;  // made by the compiler: _vptr.X
  ByteSpan virtual_offset;     // where a virtual base is, as an expression
  DieRef die;
};

struct CEnumerator {
  std::string name;
  int64_t value = 0;
};

struct CType {
  enum class Kind : uint8_t {
    kVoid,
    kInteger,
    kBool,
    kChar,
    kFloat,
    kComplex,  // of floating-point numbers: the real part, then the imaginary one
    kPointer,
    kReference,
    kRvalueReference,
    kStruct,  // and class
    kUnion,
    kArray,
    kEnum,
    kTypedef,
    kConst,
    kVolatile,
    kRestrict,  // and _Atomic
    kFunction,
    kMemberPointer,
    kUnknown,  // damaged, or of a kind that C and C++ do not have
  };
  Kind kind = Kind::kUnknown;
  bool is_signed = false;
  bool is_class = false;        // written `class`
  bool is_cpp = false;          // from a unit in C++: `struct` is not part of its name
  bool is_declaration = false;  // struct, union, enum: the definition is elsewhere
  bool is_variadic = false;     // functions
  bool is_prototyped = true;    // functions: no parameters means none
  bool is_vector = false;       // arrays: a SIMD vector
  // struct, union: its own copy or move constructor, destructor or virtual table forbids that it
  // is copied bit by bit. Its members and bases may as well.
  bool copied_by_code = false;
  std::string name;               // qualified: "ns::Point", "unsigned long"; "" without one
  std::optional<uint64_t> size;   // bytes
  std::optional<uint64_t> count;  // arrays: elements
  // Arrays: where their variable length is, or their last index.
  std::optional<DieAttribute> count_at;
  std::vector<CMember> members;
  std::vector<CEnumerator> enumerators;
  std::vector<DieRef> parameters;                              // functions
  std::vector<std::pair<std::string, DieRef>> template_types;  // in order

  // What it points to, is an array of, returns, renames, qualifies; invalid: void.
  DieRef target_ref;
  const CType* target_type = nullptr;  // the same for a type that is in no file
  DieRef die;
  const DebugFile* file = nullptr;

  // Never null.
  const CType* target() const;
  const CType* At(DieRef ref) const;  // a type of the same file

  // Without typedefs and qualifiers.
  const CType* Strip() const;
  bool IsScalar() const;  // after Strip: number, bool, char, enum, pointer
  bool IsIntegral() const;
  bool IsPointer() const;
  bool IsRecord() const;
  bool IsReference() const;
  bool IsQualifier() const {
    return kind == Kind::kConst || kind == Kind::kVolatile || kind == Kind::kRestrict;
  }
  // Through typedefs and arrays; nullopt: not known.
  std::optional<uint64_t> Size() const;
};

// As C writes it: "struct point *", "int [4]", "int (*)(char)", "const ns::Point &".
std::string ToText(const CType* type);
const CType* VoidType();
const CType* UnknownType();

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_TYPE_H_
