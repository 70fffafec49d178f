// SPDX-License-Identifier: MIT
//
// What an answer is made of: columns with a name and a type, and rows of values. A value knows what
// it is (a time, an address, the bytes of a store), never how it is shown: that is format.h's.
//
// Values are immutable and cheap to copy, whatever they hold; copies may be read from several
// threads at once.

#ifndef TTQ_QUERY_VALUE_H_
#define TTQ_QUERY_VALUE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/types.h"

namespace ttq {

// Every column may hold null besides.
enum class Type : uint8_t {
  kTime = 1,  // seen by front ends: do not renumber
  kAddress = 2,
  kInteger = 3,
  kString = 4,
  kBytes = 5,   // a piece of memory: always Bytes
  kObject = 6,  // names with values, in order
  kList = 7,
  kValue = 8,  // what an access moved or a register holds: a Word up to 8 bytes, else Bytes
  kReal = 9,   // a floating-point number
};
std::string_view TypeName(Type type);  // "time", "address", …

struct Column {
  std::string name;
  Type type = Type::kString;
  bool any = false;            // its values may be numbers or text, row by row
  std::vector<Column> fields;  // of objects: those whose type is known
  bool any_operand = false;    // what is computed with its values may be of any type, row by row
  bool operator==(const Column&) const = default;
};

// Up to 8 bytes of memory or a register, read as an unsigned little-endian number.
struct Word {
  uint64_t v = 0;
  auto operator<=>(const Word&) const = default;
};

// Bytes in the order of memory.
struct Bytes {
  std::string data;
  auto operator<=>(const Bytes&) const = default;
};

class Value;
struct Represented;
struct Object;
struct Boxed;
using List = std::vector<Value>;
using Null = std::monostate;
// Null, where there is a value and nobody knows it: a condition that asks for it makes the answer
// incomplete.
struct Unknown {};

class Value {
 public:
  // No more than eleven: with more, libstdc++ copies and moves by a table of functions.
  using Rep = std::variant<Null, Unknown, Time, Address, int64_t, Word, double, float, std::string,
                           Bytes, std::shared_ptr<const Boxed>>;

  Value() = default;
  Value(Null) {}                                  // NOLINT: a value is what it holds
  Value(Unknown u) : rep_(u) {}                   // NOLINT
  Value(Time t) : rep_(t) {}                      // NOLINT
  Value(Address a) : rep_(a) {}                   // NOLINT
  Value(int64_t n) : rep_(n) {}                   // NOLINT
  Value(Word w) : rep_(w) {}                      // NOLINT
  Value(double d) : rep_(d) {}                    // NOLINT
  Value(float f) : rep_(f) {}                     // NOLINT
  Value(std::string s) : rep_(std::move(s)) {}    // NOLINT
  Value(const char* s) : rep_(std::string(s)) {}  // NOLINT
  Value(Bytes b) : rep_(std::move(b)) {}          // NOLINT
  explicit Value(Represented r);
  explicit Value(Object o);
  explicit Value(List l);

  bool is_null() const { return std::holds_alternative<Null>(rep_) || is_unknown(); }
  bool is_unknown() const { return std::holds_alternative<Unknown>(rep_); }
  // Null when the value holds something else; of what is shown as another value, of that one.
  template <class T>
  const T* get() const;
  const Represented* represented() const { return boxed<Represented>(); }
  // What is shown, and what is compared and computed with: both the value itself, where it is not
  // represented by another.
  const Value& shown() const;
  const Value& operand() const;
  const Object* object() const { return boxed<Object>(); }
  const List* list() const { return boxed<List>(); }
  const Rep& rep() const { return rep_; }

  // Whether the value is a whole number of any kind (time, address, integer, word), and which. A
  // negative integer sets `negative` and gives its two's complement.
  bool AsNumber(uint64_t* magnitude, bool* negative) const;
  // The number in a floating-point value, which a float has exactly; nullopt for all else.
  std::optional<double> AsReal() const {
    if (const auto* d = get<double>()) return *d;
    if (const auto* f = get<float>()) return *f;
    return std::nullopt;
  }
  // The double nearest to a number of any kind; nullopt for what is none.
  std::optional<double> ToReal() const;

 private:
  template <class T>
  const T* boxed() const;
  Rep rep_;
};

// A value that is shown as another: a number by its enumerator's name, the number in the location
// asked about by all that was written there. Neither is represented itself.
struct Represented {
  Value shown;
  Value operand;
};

struct Object {
  std::vector<std::pair<std::string, Value>> fields;
};

// What is too large to be held in each row's Value.
struct Boxed {
  std::variant<Represented, Object, List> what;
};

template <class T>
const T* Value::boxed() const {
  const auto* p = std::get_if<std::shared_ptr<const Boxed>>(&rep_);
  return p ? std::get_if<T>(&(*p)->what) : nullptr;
}

inline const Value& Value::shown() const {
  const Represented* r = represented();
  return r ? r->shown : *this;
}

inline const Value& Value::operand() const {
  const Represented* r = represented();
  return r ? r->operand : *this;
}

template <class T>
const T* Value::get() const {
  if (const T* held = std::get_if<T>(&rep_)) return held;
  const Represented* r = represented();
  return r ? std::get_if<T>(&r->shown.rep_) : nullptr;
}

// A total order, for sorting: null first, numbers of all kinds by their exact size (-0.0 is 0, NaN
// is above all), then strings, bytes, objects, lists. Operands come before what is shown. Negative,
// zero or positive.
int Compare(const Value& a, const Value& b);
inline bool operator==(const Value& a, const Value& b) { return Compare(a, b) == 0; }
// Equal values have equal hashes.
size_t HashOf(const Value& value);

// At most 8 bytes give a Word, more give Bytes, none null.
Value ValueOfBytes(std::string_view bytes);

using Row = std::vector<Value>;

}  // namespace ttq

#endif  // TTQ_QUERY_VALUE_H_
