// SPDX-License-Identifier: MIT

#include "query/cpython/objects.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/number_text.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/cpython/big_int.h"
#include "query/cpython/frames.h"
#include "query/cpython/library_reprs.h"

namespace ttq::python {
namespace {

// The quote that Python chooses: single ones unless that would need escapes and double would not.
char Quote(bool has_single, bool has_double) { return has_single && !has_double ? '"' : '\''; }

bool IsIdentifierLike(std::string_view name) {
  if (name.empty()) return false;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) return false;
  }
  return true;
}

}  // namespace

std::string EscapeOf(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

std::string ReprOfText(std::u32string_view text) {
  const bool has_single = text.find(U'\'') != text.npos, has_double = text.find(U'"') != text.npos;
  const char quote = Quote(has_single, has_double);
  std::string out(1, quote);
  for (const char32_t c : text) {
    if (c == static_cast<char32_t>(quote) || c == U'\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == U'\n') {
      out += "\\n";
    } else if (c == U'\r') {
      out += "\\r";
    } else if (c == U'\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      AppendUtf8(c, &out);
    } else {
      out += EscapeOf(c);
    }
  }
  out += quote;
  return out;
}

std::string ReprOfBytes(std::string_view bytes) {
  const char quote = Quote(bytes.find('\'') != bytes.npos, bytes.find('"') != bytes.npos);
  std::string out = "b";
  out += quote;
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (u < 0x20 || u >= 0x7f) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  out += quote;
  return out;
}

std::string_view TypeInfo::short_name() const {
  const std::string_view text = name;
  return text.substr(text.rfind('.') + 1);
}

// ---- Types -----------------------------------------------------------------------------------

const TypeInfo* ObjectReader::Type(uint64_t address) {
  if (const auto known = types_.find(address); known != types_.end()) return known->second.get();
  types_.emplace(address, nullptr);
  if (address == 0 || address % 8 != 0) return nullptr;
  // All that is asked of it lies in its first words.
  uint64_t words[48];
  const Offset last = std::max({layout_.type_flags, layout_.type_name, layout_.type_repr,
                                layout_.type_base, layout_.type_dictoffset});
  const size_t bytes = static_cast<size_t>(last) + sizeof(uint64_t);
  if (bytes > sizeof words || !memory_.Read(address, bytes, words)) return nullptr;
  const auto field = [&](Offset offset) { return words[offset / Offset{sizeof(uint64_t)}]; };
  // A type's own type inherits from `type`.
  const uint64_t metatype = field(layout_.object_type);
  if (metatype % 8 != 0) return nullptr;
  const auto meta_flags = memory_.Get<uint64_t>(metatype + layout_.type_flags);
  if (!meta_flags || (*meta_flags & kTypeSubclass) == 0) return nullptr;
  // One bit is soon found in what is no type at all: that one must be a type itself.
  if (metatype != address && Type(metatype) == nullptr) return nullptr;
  TypeInfo type;
  type.address = address;
  type.flags = field(layout_.type_flags);
  type.basicsize = static_cast<int64_t>(field(layout_.type_basicsize));
  constexpr int64_t kLargest = 1 << 30;
  if (type.basicsize < layout_.object_head || type.basicsize > kLargest) return nullptr;
  std::optional<std::string> name = memory_.CString(field(layout_.type_name));
  if (!name || !IsIdentifierLike(*name)) return nullptr;
  type.name = *std::move(name);
  type.itemsize = static_cast<int64_t>(field(layout_.type_itemsize));
  type.dictoffset = static_cast<int64_t>(field(layout_.type_dictoffset));
  type.repr = field(layout_.type_repr);
  type.base = field(layout_.type_base);
  std::unique_ptr<const TypeInfo>& kept = types_[address];
  kept = std::make_unique<const TypeInfo>(std::move(type));
  return kept.get();
}

const TypeInfo* ObjectReader::TypeOf(uint64_t object) {
  if (object == 0 || object % 8 != 0) return nullptr;
  const auto type = memory_.Get<uint64_t>(object + layout_.object_type);
  return type ? Type(*type) : nullptr;
}

std::string ObjectReader::WhyNoObject(uint64_t object) {
  if (object == 0) return "a null pointer";
  if (object % 8 != 0) return "not aligned as objects are";
  const auto type = memory_.Get<uint64_t>(object + layout_.object_type);
  if (!type) return "no memory there";
  if (Type(*type)) return "";
  // What memory allocators leave (Objects/obmalloc.c).
  if (*type == 0xdddddddddddddddd) return "freed: filled with 0xdd by the debug allocator";
  if (*type == 0xcdcdcdcdcdcdcdcd)
    return "not initialised: filled with 0xcd by the debug allocator";
  if (*type == 0xfdfdfdfdfdfdfdfd) return "the guard bytes 0xfd of the debug allocator";
  if (*type == 0) return "its type is a null pointer";
  return fmt::format("its type, {:#x}, is not a type", *type);
}

bool ObjectReader::Inherits(const TypeInfo& type, std::string_view name) {
  uint64_t at = type.address;
  for (int i = 0; i < kMaxLevelsOfBases && at != 0; ++i) {
    const TypeInfo* t = Type(at);
    if (!t) return false;
    if (t->name == name) return true;
    at = t->base;
  }
  return false;
}

std::string ObjectReader::FullTypeName(const TypeInfo& type) {
  if (!type.heap()) return type.name;
  const uint64_t dict = memory_.Pointer(type.address + layout_.type_dict);
  const std::optional<std::string> module = Str(DictGet(dict, "__module__"));
  const std::optional<std::string> qualname =
      Str(memory_.Pointer(type.address + layout_.heap_qualname));
  if (!qualname) return type.name;
  if (!module || *module == "builtins") return *qualname;
  return *module + "." + *qualname;
}

bool ObjectReader::IsCalled(const TypeInfo& type, std::string_view wanted) {
  if (type.name == wanted || type.short_name() == wanted) return true;
  if (type.heap() && FullTypeName(type) == wanted) return true;
  if (!wanted.starts_with("Py") || type.heap()) return false;
  // C's names of the built-in types.
  std::string_view bare = wanted.substr(2);
  for (const std::string_view ending : {"_Type", "Object"}) {
    if (bare.ends_with(ending) && bare.size() > ending.size()) bare.remove_suffix(ending.size());
  }
  struct Named {
    std::string_view c, python;
  };
  static constexpr Named kNamed[] = {
      {"Function", "function"},
      {"Long", "int"},
      {"Unicode", "str"},
      {"Dict", "dict"},
      {"List", "list"},
      {"Tuple", "tuple"},
      {"Set", "set"},
      {"FrozenSet", "frozenset"},
      {"Float", "float"},
      {"Complex", "complex"},
      {"Bool", "bool"},
      {"Bytes", "bytes"},
      {"ByteArray", "bytearray"},
      {"Code", "code"},
      {"Frame", "frame"},
      {"Gen", "generator"},
      {"Coro", "coroutine"},
      {"AsyncGen", "async_generator"},
      {"Cell", "cell"},
      {"Method", "method"},
      {"Module", "module"},
      {"Type", "type"},
      {"HeapType", "type"},
      {"CFunction", "builtin_function_or_method"},
      {"Slice", "slice"},
      {"Range", "range"},
      {"Property", "property"},
      {"TraceBack", "traceback"},
      {"Traceback", "traceback"},
      {"MemoryView", "memoryview"},
      {"WeakReference", "weakref"},
  };
  for (const Named& named : kNamed) {
    if (named.c == bare) {
      return type.name == named.python ||
             (named.python == "weakref" && type.name == "weakref.ReferenceType");
    }
  }
  return type.short_name() == bare;
}

bool ObjectReader::MayBeObject(uint64_t object, std::optional<uint64_t> broken) {
  const TypeInfo* type = TypeOf(object);
  if (!type) return false;
  if (type->heap() && type->Is(kHaveGc) && !layout_.free_threaded) {
    // The collector tracks instances: the links {next, prev} before the object lead back to it.
    const uint64_t head = object - 16;
    const uint64_t next = memory_.Pointer(head) & ~uint64_t{3};
    const uint64_t prev = memory_.Pointer(head + 8) & ~uint64_t{3};
    if ((memory_.Pointer(next + 8) & ~uint64_t{3}) != head &&
        (memory_.Pointer(prev) & ~uint64_t{3}) != head) {
      return false;
    }
  }
  if (type->Is(kUnicodeSubclass)) return Str(object, 16).has_value();
  if (type->Is(kLongSubclass)) {
    const auto size = memory_.Get<int64_t>(object + layout_.long_size);
    return size && std::abs(*size) < int64_t{1} << 32;
  }
  if (type->Is(kListSubclass) || type->Is(kTupleSubclass)) {
    const auto items = Items(object, 4);
    if (!items) return false;
    for (const uint64_t item : *items) {
      if (item != 0 && item != broken && !TypeOf(item)) return false;
    }
    return true;
  }
  if (type->Is(kDictSubclass)) return DictItems(object, 4).has_value();
  if (type->Is(kTypeSubclass)) return Type(object) != nullptr;
  if (type->name == "function") {
    const TypeInfo* code = TypeOf(memory_.Pointer(object + layout_.function_code));
    return code && code->name == "code";
  }
  return true;
}

SharedReferences SharedReferencesOf(int64_t word) {
  // _Py_REF_DEFERRED: added to the count of what the collector holds.
  constexpr int64_t kDeferred = INT64_MAX / 8;
  SharedReferences shared;
  shared.count = word >> 2;
  shared.deferred = shared.count > kDeferred / 2;
  if (shared.deferred) shared.count -= kDeferred;
  shared.merged = (word & 3) == 3;
  return shared;
}

uint64_t ObjectReader::ItemsOf(uint64_t object, const TypeInfo& type) {
  constexpr uint64_t kMax = 1 << 24;
  constexpr unsigned kTagBits = 3;  // of an int that has them, below its size
  const int64_t size =
      memory_.Get<int64_t>(object + static_cast<uint64_t>(layout_.object_size)).value_or(0);
  auto items = static_cast<uint64_t>(size);
  if (type.Is(kLongSubclass) && layout_.traits.tagged_ints) {
    items >>= kTagBits;
  } else if (size < 0) {  // an int's sign, up to 3.11; nothing else has fewer than 0
    items = type.Is(kLongSubclass) ? 0 - items : 0;
  }
  return std::min(items, kMax);
}

uint64_t ObjectReader::SizeOf(uint64_t object, const TypeInfo& type) {
  if (type.Is(kTypeSubclass)) {
    // One that C defines is shorter than what its metaclass says.
    const TypeInfo* info = Type(object);
    constexpr uint64_t kStaticType = 416;  // sizeof(PyTypeObject)
    if (info && !info->heap()) return kStaticType;
  }
  if (type.Is(kUnicodeSubclass)) {
    const std::optional<StrState> state = StrStateOf(object);
    const auto length = memory_.Get<int64_t>(object + layout_.str_length);
    if (state && state->compact && length && *length >= 0) {
      const uint64_t units = static_cast<uint64_t>(*length) + 1;  // one is 0
      return state->ascii ? layout_.str_ascii_data + units
                          : layout_.str_compact_data + units * state->kind;
    }
  }
  const auto size = static_cast<uint64_t>(std::clamp<int64_t>(type.basicsize, 0, 1 << 20));
  return type.itemsize > 0 ? size + ItemsOf(object, type) * static_cast<uint64_t>(type.itemsize)
                           : size;
}

std::optional<Refcount> ObjectReader::RefcountOf(uint64_t object) {
  Refcount result;
  if (layout_.free_threaded) {
    const auto local = memory_.Get<uint32_t>(object + layout_.object_ref_local);
    const auto shared = memory_.Get<int64_t>(object + layout_.object_ref_shared);
    if (!local || !shared) return std::nullopt;
    result.immortal = *local == UINT32_MAX;
    result.local = *local;
    result.shared = SharedReferencesOf(*shared).count;
    result.count = result.immortal ? UINT32_MAX : *result.local + *result.shared;
    return result;
  }
  const auto word = memory_.Get<uint64_t>(object + layout_.object_refcount);
  if (!word) return std::nullopt;
  result.count = static_cast<int64_t>(*word);
  // The upper half is the sign, or flags; anything else there is no count but what is left in
  // memory.
  const auto upper = static_cast<uint32_t>(*word >> 32);
  const bool has_count = layout_.traits.count_has_flags || upper == 0 || upper == UINT32_MAX;
  result.immortal = layout_.traits.immortal_counts && has_count && static_cast<int32_t>(*word) < 0;
  if (result.immortal || layout_.traits.count_has_flags) {
    result.count = static_cast<uint32_t>(*word);
  }
  return result;
}

// ---- Plain values ----------------------------------------------------------------------------

std::optional<ObjectReader::StrState> ObjectReader::StrStateOf(uint64_t object) const {
  const auto word = memory_.Get<uint32_t>(object + layout_.str_state);
  if (!word) return std::nullopt;
  const uint32_t rest = *word >> layout_.traits.str_kind_bit;
  return StrState{.kind = rest & 7, .compact = (rest >> 3 & 1) != 0, .ascii = (rest >> 4 & 1) != 0};
}

std::optional<std::u32string> ObjectReader::Text(uint64_t object, size_t most) {
  const TypeInfo* type = TypeOf(object);
  if (!type || !type->Is(kUnicodeSubclass)) return std::nullopt;
  const auto length = memory_.Get<int64_t>(object + layout_.str_length);
  const std::optional<StrState> state = StrStateOf(object);
  if (!length || !state || *length < 0) return std::nullopt;
  uint32_t kind = state->kind;
  uint64_t data = object + (state->ascii ? layout_.str_ascii_data : layout_.str_compact_data);
  if (!state->compact) data = memory_.Pointer(object + layout_.str_data);
  int64_t units = *length;
  if (kind == 0 && layout_.str_wstr != kAbsent) {
    // Not made ready: wchar_t, whose length is kept before the data pointer.
    data = memory_.Pointer(object + layout_.str_wstr);
    units = memory_.Get<int64_t>(object + layout_.str_data - 8).value_or(-1);
    kind = 4;
    if (units < 0) return std::nullopt;
  }
  if (kind != 1 && kind != 2 && kind != 4) return std::nullopt;
  const size_t count = std::min<uint64_t>(units, most);
  const std::optional<std::string> raw = memory_.Bytes(data, count * kind, count * kind);
  if (!raw) return std::nullopt;
  std::u32string text(count, 0);
  for (size_t i = 0; i < count; ++i) {
    if (kind == 1) text[i] = static_cast<uint8_t>((*raw)[i]);
    if (kind == 2) {
      uint16_t unit;
      memcpy(&unit, raw->data() + 2 * i, 2);
      text[i] = unit;
    }
    if (kind == 4) memcpy(&text[i], raw->data() + 4 * i, 4);
    if (text[i] > 0x10ffff) return std::nullopt;
  }
  return text;
}

std::optional<std::string> ObjectReader::Str(uint64_t object, size_t most) {
  const std::optional<std::u32string> text = Text(object, most);
  if (!text) return std::nullopt;
  std::string out;
  for (const char32_t c : *text) {
    if (c >= 0xd800 && c < 0xe000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      AppendUtf8(c, &out);
    }
  }
  return out;
}

std::optional<std::string> ObjectReader::BytesOf(uint64_t object, size_t most) {
  const TypeInfo* type = TypeOf(object);
  if (!type) return std::nullopt;
  uint64_t data = object + layout_.bytes_data;
  if (!type->Is(kBytesSubclass)) {
    if (!Inherits(*type, "bytearray")) return std::nullopt;
    data = memory_.Pointer(object + layout_.bytearray_start);
  }
  const auto size = memory_.Get<int64_t>(object + layout_.object_size);
  if (!size || *size < 0) return std::nullopt;
  return memory_.Bytes(data, *size, most);
}

std::optional<int64_t> ObjectReader::Int(uint64_t object) {
  const TypeInfo* type = TypeOf(object);
  if (!type || !type->Is(kLongSubclass)) return std::nullopt;
  uint64_t total;
  const std::optional<BigInt> number = ReadBigInt(memory_, layout_, object, &total);
  if (!number || total > 3) return std::nullopt;
  unsigned __int128 value = 0;
  for (size_t i = number->digits.size(); i-- > 0;) value = value << 30 | number->digits[i];
  if (value > (number->negative ? uint64_t{1} << 63 : uint64_t{INT64_MAX})) return std::nullopt;
  const uint64_t magnitude = static_cast<uint64_t>(value);
  return static_cast<int64_t>(number->negative ? -magnitude : magnitude);
}

std::optional<unsigned __int128> ObjectReader::Unsigned(uint64_t object) {
  const TypeInfo* type = TypeOf(object);
  if (!type || !type->Is(kLongSubclass)) return std::nullopt;
  uint64_t total;
  const std::optional<BigInt> number = ReadBigInt(memory_, layout_, object, &total);
  constexpr size_t kMaxCount = 5;  // digits of 30 bits, the last of 8
  if (!number || number->negative || total > kMaxCount) return std::nullopt;
  if (total == kMaxCount && number->digits.back() >> 8 != 0) return std::nullopt;
  unsigned __int128 value = 0;
  for (size_t i = number->digits.size(); i-- > 0;) value = value << 30 | number->digits[i];
  return value;
}

std::optional<double> ObjectReader::Float(uint64_t object) {
  const TypeInfo* type = TypeOf(object);
  if (!type || type->name != "float") return std::nullopt;
  return memory_.Get<double>(object + layout_.float_value);
}

// ---- Containers ------------------------------------------------------------------------------

std::optional<std::vector<uint64_t>> ObjectReader::Items(uint64_t object, size_t most) {
  const TypeInfo* type = TypeOf(object);
  if (!type) return std::nullopt;
  const auto size = memory_.Get<int64_t>(object + layout_.object_size);
  if (!size || *size < 0) return std::nullopt;
  uint64_t items;
  if (type->Is(kTupleSubclass)) {
    items = object + layout_.tuple_items;
  } else if (type->Is(kListSubclass)) {
    items = memory_.Pointer(object + layout_.list_items);
  } else {
    return std::nullopt;
  }
  std::vector<uint64_t> found(std::min<uint64_t>(*size, most));
  if (!found.empty() && !memory_.Read(items, 8 * found.size(), found.data())) return std::nullopt;
  return found;
}

// The rows of a keys object, unused ones included: their position is their index in a split dict.
std::optional<ObjectReader::Pairs> ObjectReader::KeyRows(uint64_t keys, size_t most) {
  const auto count = memory_.Get<int64_t>(keys + layout_.keys_nentries);
  if (!count || *count < 0) return std::nullopt;
  uint64_t rows = keys + layout_.keys_indices;
  bool general = true;
  if (layout_.keys_log2_index_bytes != kAbsent) {
    const auto log2 = memory_.Get<uint8_t>(keys + layout_.keys_log2_index_bytes);
    const auto kind = memory_.Get<uint8_t>(keys + layout_.keys_kind);
    if (!log2 || *log2 > 40 || !kind || *kind > 2) return std::nullopt;
    rows += uint64_t{1} << *log2;
    general = *kind == 0;
  } else {
    const auto size = memory_.Get<int64_t>(keys + layout_.keys_size);
    if (!size || *size < 0 || *size > int64_t{1} << 40) return std::nullopt;
    rows += *size * (*size <= 0xff ? 1 : *size <= 0xffff ? 2 : *size <= 0xffffffff ? 4 : 8);
  }
  // {hash, key, value}, or {key, value} where all keys are str.
  const size_t width = general ? 3 : 2;
  const size_t used = std::min<uint64_t>(*count, most);
  std::vector<uint64_t> words(used * width);
  if (used > 0 && !memory_.Read(rows, 8 * words.size(), words.data())) return std::nullopt;
  Pairs pairs(used);
  for (size_t i = 0; i < used; ++i) {
    pairs[i] = {words[width * i + width - 2], words[width * i + width - 1]};
  }
  return pairs;
}

// A dict whose values are apart from its keys.
ObjectReader::Pairs ObjectReader::SplitItems(uint64_t keys, uint64_t values, size_t most) {
  Pairs found;
  const std::optional<Pairs> rows = KeyRows(keys, most);
  if (!rows) return found;
  const uint64_t array = values + layout_.values_array;
  const auto add = [&](size_t index) {
    if (index >= rows->size()) return;
    const uint64_t value = memory_.Pointer(array + 8 * index);
    if (value != 0 && (*rows)[index].first != 0) found.emplace_back((*rows)[index].first, value);
  };
  if (layout_.traits.order_of_values == ValueOrder::kByKeys) {
    for (size_t i = 0; i < rows->size(); ++i) add(i);
    return found;
  }
  const bool before = layout_.traits.order_of_values == ValueOrder::kBefore;
  const uint8_t count = memory_.Get<uint8_t>(before ? values - 2 : values + 1).value_or(0);
  const uint8_t capacity = before ? 0 : memory_.Get<uint8_t>(values).value_or(0);
  for (int i = 0; i < count; ++i) {
    const auto index = memory_.Get<uint8_t>(before ? values - 3 - i : array + 8 * capacity + i);
    if (index) add(*index);
  }
  return found;
}

std::optional<ObjectReader::Pairs> ObjectReader::DictItems(uint64_t object, size_t most) {
  const TypeInfo* type = TypeOf(object);
  if (!type || !type->Is(kDictSubclass)) return std::nullopt;
  const uint64_t keys = memory_.Pointer(object + layout_.dict_keys);
  const uint64_t values = memory_.Pointer(object + layout_.dict_values);
  if (keys == 0) return std::nullopt;
  if (values != 0) return SplitItems(keys, values, most);
  std::optional<Pairs> rows = KeyRows(keys, most);
  if (!rows) return std::nullopt;
  std::erase_if(*rows, [](const auto& row) { return row.first == 0 || row.second == 0; });
  return rows;
}

// An OrderedDict keeps its order in a list of nodes {key, hash, next, prev}.
void ObjectReader::OrderByNodes(uint64_t node, Pairs* items) {
  absl::flat_hash_map<uint64_t, uint64_t> values(items->begin(), items->end());
  Pairs ordered;
  for (; node != 0 && ordered.size() < items->size(); node = memory_.Pointer(node + 16)) {
    const auto value = values.find(memory_.Pointer(node));
    if (value == values.end()) break;
    ordered.push_back(*value);
  }
  if (ordered.size() == items->size()) *items = std::move(ordered);
}

std::optional<ObjectReader::Pairs> ObjectReader::OrderedItems(uint64_t object, size_t most) {
  const TypeInfo* type = TypeOf(object);
  if (!type) return std::nullopt;
  const bool has_nodes = Inherits(*type, "collections.OrderedDict");
  std::optional<Pairs> items;
  if (!has_nodes) {
    // Rows of what was removed stay in between.
    items = DictItems(object, 4 * most + 64);
    const uint64_t used = memory_.Get<uint64_t>(object + layout_.dict_used).value_or(0);
    if (!items || items->size() >= std::min<uint64_t>(used, most)) return items;
  }
  items = DictItems(object);
  // The first node is the first thing behind the dict.
  if (items && has_nodes) OrderByNodes(memory_.Pointer(object + layout_.dict_values + 8), &*items);
  return items;
}

uint64_t ObjectReader::DictGet(uint64_t object, std::string_view key) {
  const std::optional<Pairs> items = DictItems(object);
  if (!items) return 0;
  for (const auto& [k, value] : *items) {
    // Compare lengths before texts: a dict of globals is long.
    const auto length = memory_.Get<int64_t>(k + layout_.str_length);
    if (!length || *length > static_cast<int64_t>(key.size())) continue;
    if (Str(k, key.size() + 1) == key) return value;
  }
  return 0;
}

std::optional<std::vector<uint64_t>> ObjectReader::SetItems(uint64_t object, size_t most) {
  const TypeInfo* type = TypeOf(object);
  if (!type || !(Inherits(*type, "set") || Inherits(*type, "frozenset"))) return std::nullopt;
  const auto mask = memory_.Get<int64_t>(object + layout_.set_mask);
  const uint64_t table = memory_.Pointer(object + layout_.set_table);
  if (!mask || *mask < 0 || table == 0) return std::nullopt;
  std::vector<uint64_t> found;
  const uint64_t slots = std::min<uint64_t>(*mask, most) + 1;
  for (uint64_t i = 0; i < slots; ++i) {
    uint64_t entry[2];  // key, hash
    if (!memory_.Read(table + 16 * i, sizeof entry, entry)) return std::nullopt;
    // A removed one leaves a dummy with hash -1.
    if (entry[0] != 0 && entry[1] != ~uint64_t{0}) found.push_back(entry[0]);
  }
  return found;
}

// ---- Instances -------------------------------------------------------------------------------

uint64_t ObjectReader::DictObject(uint64_t object, const TypeInfo& type) {
  const AttributeValues values_at = layout_.traits.attribute_values;
  if (values_at != AttributeValues::kNone && type.Is(kManagedDict)) {
    const uint64_t before = layout_.free_threaded ? 8 : 24;
    const uint64_t word = memory_.Pointer(object - before);
    return values_at == AttributeValues::kTagged && (word & 1) ? 0 : word;
  }
  int64_t offset = type.dictoffset;
  if (offset == 0) return 0;
  if (offset < 0) {
    // From the end of an object of variable size.
    const int64_t size = memory_.Get<int64_t>(object + layout_.object_size).value_or(0);
    constexpr int64_t kMaxCount = int64_t{1} << 32;
    if (std::abs(size) > kMaxCount || type.itemsize < 0 || type.itemsize > 1 << 20) return 0;
    offset += (type.basicsize + std::abs(size) * type.itemsize + 7) & ~int64_t{7};
    if (offset <= 0) return 0;
  }
  return memory_.Pointer(object + offset);
}

std::optional<ObjectReader::Pairs> ObjectReader::InstanceDict(uint64_t object,
                                                              const TypeInfo& type) {
  constexpr size_t kMaxCount = 1 << 16;
  const AttributeValues values_at = layout_.traits.attribute_values;
  if (values_at != AttributeValues::kNone && type.Is(kManagedDict)) {
    const uint64_t keys = memory_.Pointer(type.address + layout_.heap_cached_keys);
    if (values_at == AttributeValues::kPointer) {
      if (const uint64_t values = memory_.Pointer(object - 32)) {
        return SplitItems(keys, values, kMaxCount);
      }
    }
    if (values_at == AttributeValues::kTagged) {
      const uint64_t word = memory_.Pointer(object - 24);
      if (word & 1) return SplitItems(keys, word + 1, kMaxCount);
    }
    if (values_at >= AttributeValues::kBehindHead && type.Is(kInlineValues) &&
        DictObject(object, type) == 0) {
      const uint64_t values =
          object +
          (values_at == AttributeValues::kBehindHead ? layout_.object_head : type.basicsize);
      if (memory_.Get<uint8_t>(values + 3).value_or(0) == 0) return Pairs();
      return SplitItems(keys, values, kMaxCount);
    }
  } else if (type.dictoffset == 0) {
    return std::nullopt;
  }
  const uint64_t dict = DictObject(object, type);
  if (dict == 0) return Pairs();
  return DictItems(dict, kMaxCount);
}

void ObjectReader::AddSlots(uint64_t object, const TypeInfo& type,
                            std::vector<Attribute>* attributes) {
  if (!type.heap()) return;
  // A heap type carries its members behind itself: PyMemberDef {name, type, offset, flags, doc}.
  const TypeInfo* metatype = TypeOf(type.address);
  const auto count = memory_.Get<int64_t>(type.address + layout_.object_size);
  if (!metatype || !count || *count <= 0) return;
  constexpr int64_t kMaxSlots = 1024;
  for (int64_t i = 0; i < std::min(*count, kMaxSlots); ++i) {
    const uint64_t member = type.address + metatype->basicsize + 40 * i;
    const auto kind = memory_.Get<int32_t>(member + 8);
    const auto offset = memory_.Get<int64_t>(member + 16);
    constexpr int32_t kObject = 6, kObjectEx = 16;
    if (!kind || !offset || (*kind != kObject && *kind != kObjectEx)) continue;
    if (*offset < layout_.object_head || *offset > 1 << 24) continue;
    std::optional<std::string> name = memory_.CString(memory_.Pointer(member));
    const uint64_t value = memory_.Pointer(object + *offset);
    if (name && value != 0) attributes->push_back({*std::move(name), value});
  }
}

std::vector<Attribute> ObjectReader::Attributes(uint64_t object) {
  std::vector<Attribute> attributes;
  const TypeInfo* found = TypeOf(object);
  if (!found) return attributes;
  const TypeInfo type = *found;
  if (const std::optional<Pairs> items = InstanceDict(object, type)) {
    for (const auto& [key, value] : *items) {
      if (std::optional<std::string> name = Str(key)) {
        attributes.push_back({*std::move(name), value});
      }
    }
  }
  // Base classes first, as their slots come first in the object.
  std::vector<uint64_t> bases;
  for (uint64_t at = type.address; at != 0 && bases.size() < kMaxLevelsOfBases;) {
    const TypeInfo* t = Type(at);
    if (!t || !t->heap()) break;
    bases.push_back(at);
    at = t->base;
  }
  for (size_t i = bases.size(); i-- > 0;) {
    const TypeInfo base = *Type(bases[i]);
    AddSlots(object, base, &attributes);
  }
  return attributes;
}

uint64_t ObjectReader::GetAttribute(uint64_t object, std::string_view name) {
  const TypeInfo* found = TypeOf(object);
  if (!found) return 0;
  const TypeInfo type = *found;
  if (name == "__class__") return type.address;
  if (type.name == "module" && !type.heap()) {
    return DictGet(memory_.Pointer(object + layout_.module_dict), name);
  }
  if (name == "__dict__") {
    if (const uint64_t dict = DictObject(object, type)) return dict;
  }
  // Class variables and functions: of a type, its own and its bases'; else of the object's type.
  const bool is_type = type.Is(kTypeSubclass);
  const uint64_t in_class = InClasses(is_type ? object : type.address, name);
  // A property goes before what the object itself has of that name.
  const TypeInfo* descriptor = in_class == 0 || is_type ? nullptr : TypeOf(in_class);
  if (descriptor != nullptr && descriptor->name == "property") return 0;
  for (const Attribute& attribute : Attributes(object)) {
    if (attribute.name == name) return attribute.value;
  }
  // What C keeps outside of dicts, by the names Python code knows it by.
  struct Known {
    std::string_view type, name;
    Offset Layout::*field;
  };
  static constexpr Known kKnown[] = {
      {"function", "__code__", &Layout::function_code},
      {"function", "__globals__", &Layout::function_globals},
      {"function", "__defaults__", &Layout::function_defaults},
      {"function", "__kwdefaults__", &Layout::function_kwdefaults},
      {"function", "__closure__", &Layout::function_closure},
      {"function", "__name__", &Layout::function_name},
      {"function", "__qualname__", &Layout::function_qualname},
      {"function", "__module__", &Layout::function_module},
      {"method", "__func__", &Layout::method_function},
      {"method", "__self__", &Layout::method_self},
      {"builtin_function_or_method", "__self__", &Layout::builtin_self},
      {"cell", "cell_contents", &Layout::cell_value},
      {"code", "co_name", &Layout::code_name},
      {"code", "co_qualname", &Layout::code_qualname},
      {"code", "co_filename", &Layout::code_filename},
      {"code", "co_consts", &Layout::code_consts},
      {"code", "co_names", &Layout::code_names},
      {"traceback", "tb_next", &Layout::traceback_next},
      {"traceback", "tb_frame", &Layout::traceback_frame},
      {"generator", "gi_code", &Layout::generator_code},
  };
  for (const Known& known : kKnown) {
    if (known.name == name && known.type == type.name && layout_.*known.field != kAbsent) {
      return memory_.Pointer(object + layout_.*known.field);
    }
  }
  if (type.Is(kExceptionSubclass)) {
    if (name == "args") return memory_.Pointer(object + layout_.exception_args);
    if (name == "__traceback__") return memory_.Pointer(object + layout_.exception_traceback);
    if (name == "__context__") return memory_.Pointer(object + layout_.exception_context);
    if (name == "__cause__") return memory_.Pointer(object + layout_.exception_cause);
  }
  return in_class == 0 ? 0 : Bound(in_class, object, is_type);
}

uint64_t ObjectReader::InClasses(uint64_t type, std::string_view name) {
  for (int i = 0; type != 0 && i < kMaxLevelsOfBases; ++i) {
    const TypeInfo* t = Type(type);
    if (!t) return 0;
    const uint64_t base = t->base;
    const uint64_t value = DictGet(memory_.Pointer(type + layout_.type_dict), name);
    if (value != 0) return value;
    type = base;
  }
  return 0;
}

uint64_t ObjectReader::Bound(uint64_t value, uint64_t object, bool is_type) {
  const TypeInfo* type = TypeOf(value);
  if (!type) return value;
  // A field of a named tuple: its index.
  if (type->short_name() == "_tuplegetter" && !is_type) {
    const auto index = memory_.Get<int64_t>(value + layout_.object_head);
    const auto items = Items(object);
    return index && items && *index >= 0 && *index < static_cast<int64_t>(items->size())
               ? (*items)[*index]
               : 0;
  }
  if (type->heap()) return InClasses(type->address, "__get__") == 0 ? value : 0;
  if (is_type && type->name == "property") return value;
  for (const std::string_view descriptor :
       {"property", "staticmethod", "classmethod", "getset_descriptor", "member_descriptor"}) {
    if (type->name == descriptor) return 0;
  }
  return value;
}

}  // namespace ttq::python
