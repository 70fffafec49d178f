// SPDX-License-Identifier: MIT
//
// Python objects read from memory: what an address holds, and its repr as Python would print it
// where that needs no Python code to run. An instance of a class written in Python shows its
// attributes instead, as gdb's python support does: `<Point(x=1, y=2) at remote 0x7f…>`.
//
// Nothing is trusted. A pointer may dangle, a size may be garbage, containers may hold themselves:
// every read can fail, every count is compared with what was really there, and a repr ends after a
// number of characters, of items and of levels that the caller sets.
//
// An ObjectReader belongs to one thread and one time: what it remembers of types is forgotten by
// Forget.

#ifndef TTQ_QUERY_CPYTHON_OBJECTS_H_
#define TTQ_QUERY_CPYTHON_OBJECTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "query/cpython/layout.h"
#include "query/cpython/memory.h"

namespace ttq::python {

// Of base classes that are looked at.
inline constexpr int kMaxLevelsOfBases = 64;

// What a type object says.
struct TypeInfo {
  uint64_t address = 0;
  std::string name;  // tp_name: "int", "collections.deque", "Point"
  uint64_t flags = 0;
  int64_t basicsize = 0, itemsize = 0, dictoffset = 0;
  uint64_t repr = 0, base = 0;
  bool heap() const { return flags & kHeapType; }
  bool Is(uint64_t flag) const { return flags & flag; }
  // tp_name without its modules.
  std::string_view short_name() const;
};

struct Refcount {
  int64_t count = 0;  // as sys.getrefcount would give it, without its own reference
  bool immortal = false;
  // Free-threaded builds: the owner's count and the others' together make `count`.
  std::optional<int64_t> local, shared;
};

// What free-threaded builds keep in ob_ref_shared.
struct SharedReferences {
  int64_t count = 0;      // may be below 0: a reference of the owner's was given back
  bool deferred = false;  // 3.14: the collector holds the object too
  bool merged = false;    // it has no owner any more
};
SharedReferences SharedReferencesOf(int64_t word);

struct ReprLimits {
  size_t characters = 4096;
  size_t items = 200;  // of one container
  int levels = 8;
  // An instance whose class has no repr of its own: with its attributes, or the way Python prints
  // it, `<module.Point object at 0x7f…>`.
  bool attributes = true;
};

// A name with the address of an object.
struct Attribute {
  std::string name;
  uint64_t value = 0;
};

class ObjectReader {
 public:
  ObjectReader(Memory* memory, const Layout& layout) : memory_(*memory), layout_(layout) {}

  Memory& memory() { return memory_; }
  const Layout& layout() const { return layout_; }

  // The memory has changed.
  void Forget() { types_.clear(); }

  // What `type` says of itself when it is a type object; null when it is not one. Owned by the
  // reader, until Forget.
  const TypeInfo* Type(uint64_t type);
  // The type of the object at `object`; null when there is no object.
  const TypeInfo* TypeOf(uint64_t object);
  // "module.Name" of a type, as in `<class 'module.Name'>`.
  std::string FullTypeName(const TypeInfo& type);
  // `type` or one it inherits from (by tp_base) has this tp_name.
  bool Inherits(const TypeInfo& type, std::string_view name);

  // `wanted` is how a user would call this type: "dict", "Point", "module.Point", or what C calls
  // it: "PyDict", "PyDictObject", "PyDict_Type".
  bool IsCalled(const TypeInfo& type, std::string_view wanted);

  std::optional<Refcount> RefcountOf(uint64_t object);
  // Of a type with itemsize: how many items the object has, of an int its digits. 0 also where that
  // cannot be read; at most 2^24.
  uint64_t ItemsOf(uint64_t object, const TypeInfo& type);
  // Its bytes, its items among them; neither the collector's header before it nor the attributes
  // that some classes keep behind it.
  uint64_t SizeOf(uint64_t object, const TypeInfo& type);
  // Tracked by the cycle collector, where a header says so.
  bool IsGarbageCollected(const TypeInfo& type) const { return type.Is(kHaveGc); }

  // What is at `object` also looks like one beyond its type: the sizes and pointers of the built-in
  // types are sound. For words found by searching memory. Items of a list or tuple that are
  // `broken` need not be objects.
  bool MayBeObject(uint64_t object, std::optional<uint64_t> broken = std::nullopt);

  // Why there is no object at `object`; "" when there is one.
  std::string WhyNoObject(uint64_t object);

  // Values; nullopt when the object is not of that kind (or of a subclass), or cannot be read.
  // Text is UTF-8; a lone surrogate is written as \udXXX.
  std::optional<std::string> Str(uint64_t object, size_t most = 1 << 20);
  std::optional<std::u32string> Text(uint64_t object, size_t most = 1 << 20);
  std::optional<std::string> BytesOf(uint64_t object, size_t most = 1 << 24);
  std::optional<int64_t> Int(uint64_t object);
  // An int that is not negative, of up to 128 bits.
  std::optional<unsigned __int128> Unsigned(uint64_t object);
  std::optional<double> Float(uint64_t object);  // of no subclass
  std::optional<std::vector<uint64_t>> Items(uint64_t object,
                                             size_t most = 1 << 16);  // list, tuple
  using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;
  // In insertion order. `most` bounds the rows looked at.
  std::optional<Pairs> DictItems(uint64_t object, size_t most = 1 << 20);
  // The first `most` items at least, in the order in which a dict or an OrderedDict gives them.
  std::optional<Pairs> OrderedItems(uint64_t object, size_t most);
  // The value of the key that is this text; 0: none.
  uint64_t DictGet(uint64_t object, std::string_view key);
  // Elements of a set or a frozenset, in the order of its table.
  std::optional<std::vector<uint64_t>> SetItems(uint64_t object, size_t most = 1 << 20);

  // What `vars(object)` holds, in whatever layout, then the filled __slots__ of its class and its
  // bases.
  std::vector<Attribute> Attributes(uint64_t object);
  // The attribute as found without running code: instance, slots, then the classes of its type
  // (functions as they are there, and class variables). A module's and a type's own dict too. 0:
  // none, or a descriptor, which runs code.
  uint64_t GetAttribute(uint64_t object, std::string_view name);

  std::string Repr(uint64_t object, const ReprLimits& limits = {});

 private:
  struct Printer;

  // What a class or a class that it inherits from holds. 0: nothing.
  uint64_t InClasses(uint64_t type, std::string_view name);
  // What an attribute of a class is of an object, or of the class itself. 0: a descriptor says,
  // which runs code.
  uint64_t Bound(uint64_t value, uint64_t object, bool is_type);

  void OrderByNodes(uint64_t node, Pairs* items);
  Pairs SplitItems(uint64_t keys, uint64_t values, size_t most);
  std::optional<Pairs> KeyRows(uint64_t keys, size_t most);
  std::optional<Pairs> InstanceDict(uint64_t object, const TypeInfo& type);
  // The dict object of an instance, when it has one of its own.
  uint64_t DictObject(uint64_t object, const TypeInfo& type);
  void AddSlots(uint64_t object, const TypeInfo& type, std::vector<Attribute>* attributes);

  // How the units of a str are kept.
  struct StrState {
    uint32_t kind = 0;  // bytes of each
    bool compact = false, ascii = false;
  };
  std::optional<StrState> StrStateOf(uint64_t object) const;

  Memory& memory_;
  const Layout& layout_;
  // Null: not a type. What Type gave stays where it is.
  absl::flat_hash_map<uint64_t, std::unique_ptr<const TypeInfo>> types_;
};

// As Python escapes a character by its number: "\x1b", "\u202e", "\U0001f600".
std::string EscapeOf(char32_t c);
// repr() of a text and of bytes, as Python prints them; in UTF-8.
std::string ReprOfText(std::u32string_view text);
std::string ReprOfBytes(std::string_view bytes);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_OBJECTS_H_
