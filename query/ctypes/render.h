// SPDX-License-Identifier: MIT
//
// C values as people read them: the text that gdb prints (with libstdc++'s containers shown by what
// they hold), and as structured values for programs. Memory is read at the moment's time. Values
// are untrusted: depth, elements and nodes are bounded, and what is cut says so.

#ifndef TTQ_QUERY_CTYPES_RENDER_H_
#define TTQ_QUERY_CTYPES_RENDER_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "query/ctypes/c_value.h"
#include "query/ctypes/characters.h"
#include "query/ctypes/type_space.h"
#include "query/value.h"
#include "store/read/reader.h"

namespace ttq {

// The bytes of a value; a bit-field's are widened to its type.
struct LoadedValue {
  std::string bytes;
  std::string known;    // empty: all
  std::string missing;  // not empty: nothing is known, and why
  bool complete() const { return known.empty() && missing.empty(); }
};

class ValueReader {
 public:
  ValueReader(const TypeSpace& types, Moment* moment) : types_(types), moment_(moment) {}

  const TypeSpace& types() const { return types_; }
  Moment* moment() const { return moment_; }

  absl::StatusOr<LoadedValue> Load(const CValue& value) const;
  // Integers, enums, pointers: sign- or zero-extended by the type. nullopt: not known.
  absl::StatusOr<std::optional<uint64_t>> Number(const CValue& value) const;
  // Up to the first NUL or `most` characters of `unit` bytes; nullopt: the first is not known.
  absl::StatusOr<std::optional<std::string>> CString(uint64_t address, size_t most, bool* cut,
                                                     uint32_t unit = 1) const;

  // A part of an object.
  CValue Part(const CValue& whole, const CType* type, uint64_t offset) const;
  absl::StatusOr<CValue> MemberOf(const CValue& object, const CMember& member) const;
  // The member called `name`, looked for in bases and in members without a name too.
  absl::StatusOr<std::optional<CValue>> FindMember(const CValue& object,
                                                   std::string_view name) const;
  // "a.b.c" by FindMember.
  absl::StatusOr<std::optional<CValue>> Path(const CValue& object, std::string_view path) const;
  // What a pointer or reference points to.
  absl::StatusOr<CValue> Target(const CValue& pointer) const;

 private:
  absl::StatusOr<std::optional<CValue>> FindMember(const CValue& object, std::string_view name,
                                                   int depth) const;
  const TypeSpace& types_;
  Moment* moment_;
};

class Renderer {
 public:
  Renderer(const TypeSpace& types, Moment* moment) : reader_(types, moment) {}

  // As gdb's print shows it. Only store errors.
  absl::StatusOr<std::string> Text(const CValue& value);
  // Struct: Object; array, vector, set: List; map: Object by key; pointer: Address; char*, string,
  // enumerator, floating-point number: text; nothing known: null.
  absl::StatusOr<Value> Structured(const CValue& value);

 private:
  friend class Containers;
  absl::StatusOr<std::string> Inner(const CValue& value, bool top, int depth);
  absl::StatusOr<std::string> Scalar(const CValue& value, const CType* type, bool top);
  absl::StatusOr<std::string> Pointer(const CValue& value, const CType* type, bool top);
  // What a pointer to a member holds; nullopt: null.
  std::optional<std::string> MemberPointer(std::string_view bytes, const CType* type) const;
  absl::StatusOr<std::string> Record(const CValue& value, const CType* type, int depth);
  absl::StatusOr<std::string> Array(const CValue& value, const CType* type, int depth);
  absl::StatusOr<Value> Structure(const CValue& value, int depth);
  // Of a number, an address or an enumerator.
  absl::StatusOr<Value> StructuredScalar(const CValue& value, const CType* type, int depth);

  // The bases of an object that are shown: virtual ones once, however many of its bases have them.
  class Bases;

  ValueReader reader_;
  size_t written_ = 0;                       // characters, over all
  std::vector<const CType*> virtual_bases_;  // of the object that is being shown
  bool in_base_ = false;                     // the next record is a base of it
};

// A standard container, taken apart.
struct ContainerView {
  enum class Kind { kString, kSequence, kMap, kPointer, kOptional, kVariant, kAtomic };
  Kind kind = Kind::kSequence;
  std::string summary;  // "std::vector of length 3, capacity 4"
  std::string text;     // kString: the bytes of characters of this type, the first in `items`
  CharacterType character;
  bool cut = false;       // there is more than `items` or `text`
  bool numbered = false;  // a sequence whose items gdb shows with [0], [1]
  size_t first = 0;       // the number of its first item
  struct Item {
    std::optional<CValue> key;
    CValue value;
  };
  std::vector<Item> items;
};
// nullopt: not a container that is known, or it cannot be read: shown as the struct it is.
absl::StatusOr<std::optional<ContainerView>> ViewContainer(const ValueReader& reader,
                                                           const CValue& value, size_t most);

}  // namespace ttq

#endif  // TTQ_QUERY_CTYPES_RENDER_H_
