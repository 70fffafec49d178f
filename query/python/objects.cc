// SPDX-License-Identifier: MIT

#include "query/python/objects.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "query/format.h"
#include "query/python/frames.h"
#include "query/python/library_reprs.h"
#include "query/text.h"

namespace ttq::python {
namespace {

// The quote that Python chooses: single ones unless that would need escapes and double would not.
char Quote(bool has_single, bool has_double) { return has_single && !has_double ? '"' : '\''; }

constexpr int kMostLevelsOfBases = 64;

bool IsIdentifierLike(std::string_view name) {
  if (name.empty()) return false;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u == 0x7f) return false;
  }
  return true;
}

}  // namespace

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
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
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
  for (int i = 0; i < kMostLevelsOfBases && at != 0; ++i) {
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
  if (layout_.minor >= 14) {
    result.count = static_cast<uint32_t>(*word);
    result.immortal = result.count >= int64_t{1} << 31;
  } else if (layout_.minor >= 12) {
    result.immortal = static_cast<int32_t>(*word) < 0;
    if (result.immortal) result.count = static_cast<uint32_t>(*word);
  }
  return result;
}

// ---- Plain values ----------------------------------------------------------------------------

std::optional<std::u32string> ObjectReader::Text(uint64_t object, size_t most) {
  const TypeInfo* type = TypeOf(object);
  if (!type || !type->Is(kUnicodeSubclass)) return std::nullopt;
  const auto length = memory_.Get<int64_t>(object + layout_.str_length);
  const auto state = memory_.Get<uint32_t>(object + layout_.str_state);
  if (!length || !state || *length < 0) return std::nullopt;
  uint32_t kind = *state >> 2 & 7;
  bool compact = *state >> 5 & 1, ascii = *state >> 6 & 1;
  if (layout_.free_threaded && layout_.minor >= 14) {
    // `interned` has a byte of its own there.
    const uint32_t rest = *state >> 8;
    kind = rest & 7;
    compact = rest >> 3 & 1;
    ascii = rest >> 4 & 1;
  }
  uint64_t data = object + (ascii ? layout_.str_ascii_data : layout_.str_compact_data);
  if (!compact) data = memory_.Pointer(object + layout_.str_data);
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

namespace {

// An int as sign and 30-bit digits, the least first.
struct BigInt {
  bool negative = false;
  std::vector<uint32_t> digits;
};

std::string Decimal(BigInt number) {
  std::string out;
  std::vector<uint32_t>& digits = number.digits;
  while (!digits.empty()) {
    uint64_t rest = 0;
    for (size_t i = digits.size(); i-- > 0;) {
      const uint64_t value = rest << 30 | digits[i];
      digits[i] = static_cast<uint32_t>(value / 1000000000);
      rest = value % 1000000000;
    }
    while (!digits.empty() && digits.back() == 0) digits.pop_back();
    out.insert(0, digits.empty() ? fmt::format("{}", rest) : fmt::format("{:09}", rest));
  }
  if (out.empty()) out = "0";
  return number.negative ? "-" + out : out;
}

constexpr size_t kMostDigits = 4096;  // 37 thousand decimals

// Gives the number of digits in `total` even where they are more than are read.
std::optional<BigInt> ReadInt(Memory& memory, const Layout& layout, uint64_t object,
                              uint64_t* total) {
  const auto size = memory.Get<int64_t>(object + layout.long_size);
  if (!size) return std::nullopt;
  BigInt number;
  uint64_t count;
  if (layout.minor >= 12) {
    // lv_tag: 0 positive, 1 zero, 2 negative in the low two bits.
    const uint64_t sign = *size & 3;
    if (sign == 3) return std::nullopt;
    number.negative = sign == 2;
    count = sign == 1 ? 0 : static_cast<uint64_t>(*size) >> 3;
  } else {
    number.negative = *size < 0;
    count = number.negative ? -static_cast<uint64_t>(*size) : *size;
  }
  *total = count;
  if (count > kMostDigits) return number;
  number.digits.resize(count);
  if (count > 0 && !memory.Read(object + layout.long_digits, 4 * count, number.digits.data())) {
    return std::nullopt;
  }
  for (const uint32_t digit : number.digits) {
    if (digit >> 30 != 0) return std::nullopt;
  }
  return number;
}

}  // namespace

std::optional<int64_t> ObjectReader::Int(uint64_t object) {
  const TypeInfo* type = TypeOf(object);
  if (!type || !type->Is(kLongSubclass)) return std::nullopt;
  uint64_t total;
  const std::optional<BigInt> number = ReadInt(memory_, layout_, object, &total);
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
  const std::optional<BigInt> number = ReadInt(memory_, layout_, object, &total);
  constexpr size_t kMost = 5;  // digits of 30 bits, the last of 8
  if (!number || number->negative || total > kMost) return std::nullopt;
  if (total == kMost && number->digits.back() >> 8 != 0) return std::nullopt;
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
  if (layout_.minor < 11) {
    for (size_t i = 0; i < rows->size(); ++i) add(i);
    return found;
  }
  // The order of insertion is kept in bytes: before the values in 3.11 and 3.12, behind them later.
  const bool before = layout_.minor < 13;
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
  if (layout_.minor >= 11 && type.Is(kManagedDict)) {
    const uint64_t before = layout_.free_threaded ? 8 : 24;
    const uint64_t word = memory_.Pointer(object - before);
    // 3.12 keeps values there too, marked by the lowest bit.
    return layout_.minor == 12 && (word & 1) ? 0 : word;
  }
  int64_t offset = type.dictoffset;
  if (offset == 0) return 0;
  if (offset < 0) {
    // From the end of an object of variable size.
    const int64_t size = memory_.Get<int64_t>(object + layout_.object_size).value_or(0);
    constexpr int64_t kMost = int64_t{1} << 32;
    if (std::abs(size) > kMost || type.itemsize < 0 || type.itemsize > 1 << 20) return 0;
    offset += (type.basicsize + std::abs(size) * type.itemsize + 7) & ~int64_t{7};
    if (offset <= 0) return 0;
  }
  return memory_.Pointer(object + offset);
}

std::optional<ObjectReader::Pairs> ObjectReader::InstanceDict(uint64_t object,
                                                              const TypeInfo& type) {
  constexpr size_t kMost = 1 << 16;
  if (layout_.minor >= 11 && type.Is(kManagedDict)) {
    const uint64_t keys = memory_.Pointer(type.address + layout_.heap_cached_keys);
    if (layout_.minor == 11) {
      if (const uint64_t values = memory_.Pointer(object - 32)) {
        return SplitItems(keys, values, kMost);
      }
    }
    if (layout_.minor == 12) {
      const uint64_t word = memory_.Pointer(object - 24);
      if (word & 1) return SplitItems(keys, word + 1, kMost);
    }
    if (layout_.minor >= 13 && type.Is(kInlineValues) && DictObject(object, type) == 0) {
      const uint64_t values = object + (layout_.minor == 13 ? layout_.object_head : type.basicsize);
      if (memory_.Get<uint8_t>(values + 3).value_or(0) == 0) return Pairs();
      return SplitItems(keys, values, kMost);
    }
  } else if (type.dictoffset == 0) {
    return std::nullopt;
  }
  const uint64_t dict = DictObject(object, type);
  if (dict == 0) return Pairs();
  return DictItems(dict, kMost);
}

void ObjectReader::AddSlots(uint64_t object, const TypeInfo& type,
                            std::vector<Attribute>* attributes) {
  if (!type.heap()) return;
  // A heap type carries its members behind itself: PyMemberDef {name, type, offset, flags, doc}.
  const TypeInfo* metatype = TypeOf(type.address);
  const auto count = memory_.Get<int64_t>(type.address + layout_.object_size);
  if (!metatype || !count || *count <= 0) return;
  constexpr int64_t kMostSlots = 1024;
  for (int64_t i = 0; i < std::min(*count, kMostSlots); ++i) {
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
  for (uint64_t at = type.address; at != 0 && bases.size() < kMostLevelsOfBases;) {
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
  // Class variables and functions: of a type, its own and its bases'; else of the object's type.
  uint64_t at = type.Is(kTypeSubclass) ? object : type.address;
  for (int i = 0; at != 0 && i < kMostLevelsOfBases; ++i) {
    const TypeInfo* t = Type(at);
    if (!t) return 0;
    const uint64_t base = t->base;
    if (const uint64_t value = DictGet(memory_.Pointer(at + layout_.type_dict), name)) return value;
    at = base;
  }
  return 0;
}

// ---- repr ------------------------------------------------------------------------------------

struct ObjectReader::Printer : ReprWriter {
  Printer(ObjectReader& of, const ReprLimits& ends) : reader(of), limits_(ends) {}

  ObjectReader& reader;
  ReprLimits limits_;
  std::string out;
  std::vector<uint64_t> open;  // the containers being printed, outermost first
  bool full = false;
  int depth = 0;  // of Print in itself

  Memory& memory() { return reader.memory_; }
  const Layout& layout() { return reader.layout_; }
  uint64_t Pointer(uint64_t at) { return memory().Pointer(at); }

  void Add(std::string_view text) override {
    if (full) return;
    if (out.size() + text.size() <= limits_.characters) {
      out += text;
      return;
    }
    size_t room = limits_.characters - out.size();
    // Not in the middle of a character.
    while (room > 0 && (static_cast<uint8_t>(text[room]) & 0xc0) == 0x80) --room;
    out += text.substr(0, room);
    full = true;
  }

  // Opens a container; false when it is open already, or deeper than the limit: then `instead`
  // stands for it.
  bool Enter(uint64_t object, std::string_view instead) override {
    if (std::find(open.begin(), open.end(), object) != open.end() ||
        open.size() >= static_cast<size_t>(limits_.levels)) {
      Add(instead);
      return false;
    }
    open.push_back(object);
    return true;
  }
  void Leave() override { open.pop_back(); }

  void Unreadable(uint64_t object, const TypeInfo& type) {
    Add(fmt::format("<{} object at {:#x}: unreadable>", reader.FullTypeName(type), object));
  }

  void AddItems(const std::vector<uint64_t>& items, uint64_t size) override {
    for (size_t i = 0; i < items.size() && !full; ++i) {
      if (i > 0) Add(", ");
      Print(items[i]);
    }
    if (items.size() < size) Add(items.empty() ? "..." : ", ...");
  }

  void AddPairs(const ObjectReader::Pairs& items, bool as_tuples) override {
    for (size_t i = 0; i < items.size() && !full; ++i) {
      if (i > 0) Add(", ");
      if (i >= limits_.items) {
        Add("...");
        return;
      }
      if (as_tuples) Add("(");
      Print(items[i].first);
      Add(as_tuples ? ", " : ": ");
      Print(items[i].second);
      if (as_tuples) Add(")");
    }
  }

  const ReprLimits& limits() const override { return limits_; }

  std::string Text(uint64_t object) override {
    std::string before;
    before.swap(out);
    const bool was_full = std::exchange(full, false);
    const bool attributes = std::exchange(limits_.attributes, false);
    Print(object);
    if (full) out += "...(truncated)";
    full = was_full;
    limits_.attributes = attributes;
    before.swap(out);
    return before;
  }

  void Print(uint64_t object) override {
    if (full) return;
    // What is no container ends too, were it damaged or slices in slices.
    constexpr int kMostDepth = 64;
    if (depth >= kMostDepth) return Add("...");
    ++depth;
    PrintObject(object);
    --depth;
  }

  void PrintObject(uint64_t object) {
    const TypeInfo* found = reader.TypeOf(object);
    if (!found) {
      Add(object == 0
              ? "<NULL>"
              : fmt::format("<no object at {:#x}: {}>", object, reader.WhyNoObject(object)));
      return;
    }
    const TypeInfo type = *found;
    if (!type.heap()) {
      if (!PrintBuiltin(object, type, type)) PrintPlain(object, type);
      return;
    }
    PrintInstance(object, type);
  }

  // An instance of a class: by a builtin class that it extends, or by its attributes.
  void PrintInstance(uint64_t object, const TypeInfo& type) {
    if (PrintWellKnownClass(object, type)) return;
    const TypeInfo* base = &type;
    // Classes that C makes at run time are called by their module too: "collections.deque".
    const auto by_c = [](const TypeInfo& t) {
      return !t.heap() || t.name.find('.') != t.name.npos;
    };
    for (int i = 0; base && !by_c(*base) && base->base != 0 && i < kMostLevelsOfBases; ++i) {
      base = reader.Type(base->base);
    }
    if (base && base->name != "object") {
      const TypeInfo builtin = *base;
      // Sets and exceptions print the name of the class themselves.
      const bool own_repr = type.repr != builtin.repr && !type.Is(kExceptionSubclass) &&
                            builtin.name != "set" && builtin.name != "frozenset";
      if (own_repr) Add(fmt::format("{}(", type.short_name()));
      if (PrintBuiltin(object, builtin, type)) {
        if (own_repr) Add(")");
        return;
      }
      if (own_repr) out.resize(out.size() - type.short_name().size() - 1);
    }
    const std::vector<Attribute> attributes = reader.Attributes(object);
    if ((attributes.empty() && by_c(type)) || (!limits_.attributes && HasDefaultRepr(type))) {
      PrintPlain(object, type);
      return;
    }
    if (!Enter(object, "<...>")) return;
    Add(fmt::format("<{}(", type.short_name()));
    for (size_t i = 0; i < attributes.size() && !full; ++i) {
      if (i > 0) Add(", ");
      if (i >= limits_.items) {
        Add("...");
        break;
      }
      Add(attributes[i].name + "=");
      Print(attributes[i].value);
    }
    Add(fmt::format(") at remote {:#x}>", object));
    Leave();
  }

  bool HasDefaultRepr(const TypeInfo& type) {
    const TypeInfo* base = &type;
    for (int i = 0; base->base != 0 && i < kMostLevelsOfBases; ++i) {
      const TypeInfo* next = reader.Type(base->base);
      if (!next) return false;
      base = next;
    }
    return base->name == "object" && base->repr == type.repr;
  }

  void PrintPlain(uint64_t object, const TypeInfo& type) {
    Add(fmt::format("<{} object at {:#x}>", reader.FullTypeName(type), object));
  }

  // Classes of the standard library, written in Python, whose repr can be told from their data.
  bool PrintWellKnownClass(uint64_t object, const TypeInfo& type) {
    if (type.Is(kTypeSubclass)) return PrintType(object);
    if (PrintLibraryClass(reader, object, type, *this)) return true;
    if (type.Is(kTupleSubclass)) {
      const auto fields = reader.Items(reader.GetAttribute(type.address, "_fields"), 256);
      const auto items = reader.Items(object, 256);
      if (!fields || !items || fields->size() != items->size() || fields->empty()) return false;
      return PrintFields(object, type.short_name(), *fields, *items);
    }
    const uint64_t dataclass = reader.GetAttribute(type.address, "__dataclass_fields__");
    if (dataclass != 0 && HasDataclassRepr(type)) {
      const auto fields = reader.DictItems(dataclass, 1024);
      if (!fields) return false;
      std::vector<uint64_t> names, values;
      for (const auto& [name, field] : *fields) {
        const std::optional<std::string> text = reader.Str(name);
        const uint64_t value = text ? reader.GetAttribute(object, *text) : 0;
        if (value == 0) continue;
        names.push_back(name);
        values.push_back(value);
      }
      const auto qualname = reader.Str(Pointer(type.address + layout().heap_qualname));
      return PrintFields(object, qualname.value_or(type.name), names, values);
    }
    return false;
  }

  // The one that the decorator makes: it is wrapped against recursion by a function of dataclasses
  // or, later, reprlib.
  bool HasDataclassRepr(const TypeInfo& type) {
    const uint64_t function = reader.GetAttribute(type.address, "__repr__");
    const TypeInfo* kind = reader.TypeOf(function);
    if (!kind || kind->name != "function") return false;
    const uint64_t code = Pointer(function + layout().function_code);
    const std::string file = reader.Str(Pointer(code + layout().code_filename)).value_or("");
    return file.ends_with("reprlib.py") || file.ends_with("dataclasses.py");
  }

  bool PrintFields(uint64_t object, std::string_view name, const std::vector<uint64_t>& names,
                   const std::vector<uint64_t>& values) {
    if (!Enter(object, "...")) return true;
    Add(fmt::format("{}(", name));
    for (size_t i = 0; i < names.size() && !full; ++i) {
      Add(i > 0 ? ", " : "");
      Add(reader.Str(names[i]).value_or("?") + "=");
      Print(values[i]);
    }
    Add(")");
    Leave();
    return true;
  }

  bool PrintType(uint64_t object) {
    if (PrintLibraryType(reader, object, *this)) return true;
    const TypeInfo* type = reader.Type(object);
    if (!type) return false;
    Add(fmt::format("<class '{}'>", reader.FullTypeName(*type)));
    return true;
  }

  // `kind` says how it is laid out, `type` is its own. False: its repr is not known.
  bool PrintBuiltin(uint64_t object, const TypeInfo& kind, const TypeInfo& type) {
    const std::string_view name = kind.name;
    if (name == "NoneType") return Add("None"), true;
    if (name == "ellipsis") return Add("Ellipsis"), true;
    if (name == "NotImplementedType") return Add("NotImplemented"), true;
    if (name == "bool") {
      uint64_t total;
      const auto value = ReadInt(memory(), layout(), object, &total);
      if (!value) return Unreadable(object, type), true;
      return Add(total != 0 ? "True" : "False"), true;
    }
    if (kind.Is(kLongSubclass)) return PrintInt(object, type);
    if (kind.Is(kUnicodeSubclass)) {
      // One more than fits shows that it does not.
      const auto text = reader.Text(object, limits_.characters + 1);
      if (!text) return Unreadable(object, type), true;
      return Add(ReprOfText(*text)), true;
    }
    if (kind.Is(kBytesSubclass)) {
      const auto bytes = reader.BytesOf(object, limits_.characters + 1);
      if (!bytes) return Unreadable(object, type), true;
      return Add(ReprOfBytes(*bytes)), true;
    }
    if (kind.Is(kListSubclass) || kind.Is(kTupleSubclass)) return PrintSequence(object, kind, type);
    if (kind.Is(kDictSubclass)) return PrintDict(object, kind, type);
    if (kind.Is(kExceptionSubclass)) return PrintException(object, type);
    if (kind.Is(kTypeSubclass)) return PrintType(object);
    if (name == "float") {
      // Of a subclass, too.
      const auto value = memory().Get<double>(object + layout().float_value);
      if (!value) return Unreadable(object, type), true;
      return Add(RealText(*value)), true;
    }
    if (name == "complex") return PrintComplex(object, type);
    if (name == "bytearray") {
      const auto bytes = reader.BytesOf(object, limits_.characters + 1);
      if (!bytes) return Unreadable(object, type), true;
      return Add(fmt::format("{}({})", type.short_name(), ReprOfBytes(*bytes))), true;
    }
    if (name == "set" || name == "frozenset") return PrintSet(object, type);
    if (name.starts_with("numpy.")) return PrintNumpy(object, name);
    return PrintOther(object, kind, type);
  }

  bool PrintInt(uint64_t object, const TypeInfo& type) {
    uint64_t total;
    const auto number = ReadInt(memory(), layout(), object, &total);
    if (!number) return Unreadable(object, type), true;
    if (total > kMostDigits) {
      return Add(fmt::format("<int of {} bits at {:#x}>", total * 30, object)), true;
    }
    return Add(Decimal(*number)), true;
  }

  bool PrintComplex(uint64_t object, const TypeInfo& type) {
    double parts[2];
    if (!memory().Read(object + layout().float_value, sizeof parts, parts)) {
      return Unreadable(object, type), true;
    }
    std::string imaginary = RealText(parts[1], false) + "j";
    if (parts[0] == 0 && !std::signbit(parts[0])) return Add(imaginary), true;
    if (!std::signbit(parts[1]) || std::isnan(parts[1])) imaginary.insert(0, "+");
    return Add("(" + RealText(parts[0], false) + imaginary + ")"), true;
  }

  bool PrintSequence(uint64_t object, const TypeInfo& kind, const TypeInfo& type) {
    const bool tuple = kind.Is(kTupleSubclass);
    const auto items = reader.Items(object, limits_.items);
    if (!items) return Unreadable(object, type), true;
    const int64_t size = memory().Get<int64_t>(object + layout().object_size).value_or(0);
    if (!Enter(object, tuple ? "(...)" : "[...]")) return true;
    // sys.version_info and its like are static types with names for their items.
    if (tuple && kind.name != "tuple") Add(fmt::format("{}", kind.name));
    Add(tuple ? "(" : "[");
    AddItems(*items, size);
    Add(tuple ? (size == 1 ? ",)" : ")") : "]");
    Leave();
    return true;
  }

  bool PrintDict(uint64_t object, const TypeInfo& kind, const TypeInfo& type) {
    const auto items = reader.OrderedItems(object, limits_.items + 1);
    if (!items) return Unreadable(object, type), true;
    const std::string_view name = kind.name;
    if (!Enter(object, name == "collections.OrderedDict" ? "..." : "{...}")) return true;
    const uint64_t end = layout().dict_values + 8;  // of the part that is a dict
    if (name == "collections.OrderedDict") {
      Add(fmt::format("{}(", type.short_name()));
      // Its repr is that of a dict from 3.12 on.
      const bool as_dict = layout().minor >= 12;
      if (!items->empty()) {
        Add(as_dict ? "{" : "[");
        AddPairs(*items, !as_dict);
        Add(as_dict ? "}" : "]");
      }
      Add(")");
    } else if (name == "collections.defaultdict") {
      Add(fmt::format("{}(", type.short_name()));
      const uint64_t factory = Pointer(object + end);
      if (factory == 0) {
        Add("None");
      } else {
        Print(factory);
      }
      Add(", {");
      AddPairs(*items, false);
      Add("})");
    } else {
      Add("{");
      AddPairs(*items, false);
      Add("}");
    }
    Leave();
    return true;
  }

  bool PrintSet(uint64_t object, const TypeInfo& type) {
    auto items = reader.SetItems(object, 16 * limits_.items);
    const auto used = memory().Get<uint64_t>(object + layout().set_used);
    // Few of many that there were.
    if (items && used && items->size() < std::min<uint64_t>(*used, limits_.items + 1)) {
      items = reader.SetItems(object);
    }
    if (!items) return Unreadable(object, type), true;
    const bool bare = type.name == "set" && !type.heap();
    if (items->empty()) return Add(fmt::format("{}()", type.short_name())), true;
    if (!Enter(object, fmt::format("{}(...)", type.short_name()))) return true;
    Add(bare ? "{" : fmt::format("{}({{", type.short_name()));
    std::vector<uint64_t> shown = *items;
    if (shown.size() > limits_.items) shown.resize(limits_.items);
    AddItems(shown, items->size());
    Add(bare ? "}" : "})");
    Leave();
    return true;
  }

  bool PrintException(uint64_t object, const TypeInfo& type) {
    const uint64_t args = Pointer(object + layout().exception_args);
    const auto items = reader.Items(args, limits_.items);
    Add(type.short_name());
    if (!items) return Add("(...)"), true;
    if (!Enter(object, "(...)")) return true;
    // One argument stands without the tuple's comma.
    Add("(");
    AddItems(*items, items->size());
    Add(")");
    Leave();
    return true;
  }

  std::string TextAt(uint64_t at) { return reader.Str(Pointer(at), 4096).value_or("?"); }

  bool PrintOther(uint64_t object, const TypeInfo& kind, const TypeInfo& type) {
    const std::string_view name = kind.name;
    const Layout& l = layout();
    const uint64_t head = object + l.object_head;
    if (name == "range") {
      const uint64_t start = Pointer(head), stop = Pointer(head + 8), step = Pointer(head + 16);
      Add("range(");
      Print(start);
      Add(", ");
      Print(stop);
      if (reader.Int(step) != 1) Add(", "), Print(step);
      return Add(")"), true;
    }
    if (name == "slice") {
      Add("slice(");
      for (int i = 0; i < 3; ++i) {
        if (i > 0) Add(", ");
        Print(Pointer(head + 8 * i));
      }
      return Add(")"), true;
    }
    if (name == "function") {
      return Add(fmt::format("<function {} at {:#x}>", TextAt(object + l.function_qualname),
                             object)),
             true;
    }
    if (name == "method") return PrintMethod(object);
    if (name == "builtin_function_or_method" || name == "builtin_method") {
      return PrintBuiltinFunction(object);
    }
    if (name == "code") {
      const auto line = memory().Get<int32_t>(object + l.code_firstlineno);
      return Add(fmt::format("<code object {} at {:#x}, file \"{}\", line {}>",
                             TextAt(object + l.code_name), object, TextAt(object + l.code_filename),
                             line.value_or(0))),
             true;
    }
    if (name == "module") return PrintModule(object);
    if (name == "generator" || name == "coroutine" || name == "async_generator") {
      return Add(fmt::format("<{} object {} at {:#x}>", name, TextAt(object + l.generator_qualname),
                             object)),
             true;
    }
    if (name == "cell") {
      const uint64_t value = Pointer(object + l.cell_value);
      const TypeInfo* held = reader.TypeOf(value);
      if (value == 0 || !held) return Add(fmt::format("<cell at {:#x}: empty>", object)), true;
      return Add(fmt::format("<cell at {:#x}: {} object at {:#x}>", object, held->name, value)),
             true;
    }
    if (name == "frame") return PrintFrame(object);
    if (name == "traceback") return PrintPlain(object, type), true;
    if (name == "mappingproxy") {
      Add("mappingproxy(");
      Print(Pointer(head));
      return Add(")"), true;
    }
    if (name == "types.SimpleNamespace") {
      const auto items = reader.DictItems(Pointer(head), limits_.items);
      if (!items) return false;
      if (!Enter(object, "namespace(...)")) return true;
      Add("namespace(");
      for (size_t i = 0; i < items->size(); ++i) {
        if (i > 0) Add(", ");
        Add(reader.Str((*items)[i].first).value_or("?") + "=");
        Print((*items)[i].second);
      }
      Leave();
      return Add(")"), true;
    }
    if (name == "weakref" || name == "weakref.ReferenceType") return PrintWeakref(object);
    if (name == "collections.deque") return PrintDeque(object);
    if (name == "staticmethod" || name == "classmethod") {
      // Shows what it wraps from 3.10 on.
      if (l.minor < 10) return false;
      Add(fmt::format("<{}(", name));
      Print(Pointer(head));
      return Add(")>"), true;
    }
    return PrintLibraryObject(reader, object, kind, type, *this);
  }

  bool PrintMethod(uint64_t object) {
    const uint64_t function = Pointer(object + layout().method_function);
    std::string name = "?";
    if (const uint64_t text = reader.GetAttribute(function, "__qualname__")) {
      name = reader.Str(text).value_or("?");
    }
    if (!Enter(object, "<bound method ...>")) return true;
    Add(fmt::format("<bound method {} of ", name));
    Print(Pointer(object + layout().method_self));
    Add(">");
    Leave();
    return true;
  }

  bool PrintBuiltinFunction(uint64_t object) {
    const uint64_t definition = Pointer(object + layout().builtin_def);
    const std::string name = memory().CString(Pointer(definition)).value_or("?");
    const uint64_t self = Pointer(object + layout().builtin_self);
    const TypeInfo* type = reader.TypeOf(self);
    if (self == 0 || !type || type->name == "module") {
      return Add(fmt::format("<built-in function {}>", name)), true;
    }
    return Add(fmt::format("<built-in method {} of {} object at {:#x}>", name, type->name, self)),
           true;
  }

  // As importlib._bootstrap._module_repr.
  bool PrintModule(uint64_t object) {
    const uint64_t dict = Pointer(object + layout().module_dict);
    const uint64_t spec = reader.DictGet(dict, "__spec__");
    const auto text = [&](uint64_t at) { return reader.Text(at, 4096); };
    const TypeInfo* spec_type = reader.TypeOf(spec);
    if (spec_type && spec_type->name != "NoneType") {
      std::u32string name = text(reader.GetAttribute(spec, "name")).value_or(U"?");
      const auto origin = text(reader.GetAttribute(spec, "origin"));
      if (!origin) {
        const uint64_t loader = reader.GetAttribute(spec, "loader");
        const TypeInfo* type = reader.TypeOf(loader);
        if (!type || type->name == "NoneType")
          return Add("<module " + ReprOfText(name) + ">"), true;
        Add("<module " + ReprOfText(name) + " (");
        Print(loader);
        return Add(")>"), true;
      }
      const uint64_t has_location = reader.GetAttribute(spec, "_set_fileattr");
      if (reader.Int(has_location).value_or(0) != 0) {
        return Add("<module " + ReprOfText(name) + " from " + ReprOfText(*origin) + ">"), true;
      }
      return Add("<module " + ReprOfText(name) + " (" +
                 reader.Str(reader.GetAttribute(spec, "origin")).value_or("") + ")>"),
             true;
    }
    std::optional<std::u32string> name = text(reader.DictGet(dict, "__name__"));
    if (!name) name = text(Pointer(object + layout().module_name));
    if (const auto file = text(reader.DictGet(dict, "__file__"))) {
      return Add("<module " + ReprOfText(name.value_or(U"?")) + " from " + ReprOfText(*file) + ">"),
             true;
    }
    const uint64_t loader = reader.DictGet(dict, "__loader__");
    const TypeInfo* type = reader.TypeOf(loader);
    Add("<module " + ReprOfText(name.value_or(U"?")));
    if (type && type->name != "NoneType") {
      Add(" (");
      Print(loader);
      Add(")");
    }
    return Add(">"), true;
  }

  bool PrintFrame(uint64_t object) {
    uint64_t frame = object;
    if (layout().frame_object_frame != kAbsent) {
      frame = Pointer(object + layout().frame_object_frame);
    }
    FrameReader frames(&reader);
    Frame read;
    const FrameReader::Kind kind = frames.ReadFrame(frame, &read);
    if (kind != FrameReader::Kind::kPython && kind != FrameReader::Kind::kIncomplete) return false;
    const std::optional<std::u32string> file =
        reader.Text(Pointer(read.code->address + layout().code_filename), 4096);
    Add(fmt::format("<frame at {:#x}, file {}, line {}, code {}>", object,
                    ReprOfText(file.value_or(U"?")), read.position.line, read.code->name));
    return true;
  }

  bool PrintWeakref(uint64_t object) {
    const uint64_t target = Pointer(object + layout().object_head);
    const TypeInfo* type = reader.TypeOf(target);
    if (!type || type->name == "NoneType") {
      return Add(fmt::format("<weakref at {:#x}; dead>", object)), true;
    }
    return Add(fmt::format("<weakref at {:#x}; to '{}' at {:#x}>", object, type->name, target)),
           true;
  }

  // Blocks {left, 64 items, right} in a row.
  bool PrintDeque(uint64_t object) {
    constexpr uint64_t kBlockItems = 64;
    const int64_t size = memory().Get<int64_t>(object + layout().object_size).value_or(-1);
    const uint64_t part = object + layout().object_size + 8;
    uint64_t block = Pointer(part), index = Pointer(part + 16);
    if (size < 0 || index >= 2 * kBlockItems) return false;
    std::vector<uint64_t> items;
    while (block != 0 && items.size() < std::min<uint64_t>(size, limits_.items)) {
      if (index == kBlockItems) {
        block = Pointer(block + 8 + 8 * kBlockItems);
        index = 0;
        continue;
      }
      items.push_back(Pointer(block + 8 + 8 * index++));
    }
    if (!Enter(object, "[...]")) return true;
    Add("deque([");
    AddItems(items, size);
    Add("]");
    // maxlen follows the indices and the state.
    const int64_t most = memory().Get<int64_t>(part + 40).value_or(-1);
    if (most >= 0) Add(fmt::format(", maxlen={}", most));
    Add(")");
    Leave();
    return true;
  }

  // ---- numpy (numpy/ndarraytypes.h of 1.x and 2.x) ----

  static std::string NumpyElement(char kind, std::string_view bytes) {
    const auto read = [&](auto value) {
      memcpy(&value, bytes.data(), sizeof value);
      return value;
    };
    const size_t size = bytes.size();
    if (kind == 'b' && size == 1) return bytes[0] ? "True" : "False";
    if (kind == 'i') {
      if (size == 1) return fmt::format("{}", int{read(int8_t{})});
      if (size == 2) return fmt::format("{}", read(int16_t{}));
      if (size == 4) return fmt::format("{}", read(int32_t{}));
      if (size == 8) return fmt::format("{}", read(int64_t{}));
    }
    if (kind == 'u') {
      if (size == 1) return fmt::format("{}", unsigned{read(uint8_t{})});
      if (size == 2) return fmt::format("{}", read(uint16_t{}));
      if (size == 4) return fmt::format("{}", read(uint32_t{}));
      if (size == 8) return fmt::format("{}", read(uint64_t{}));
    }
    if (kind == 'f') {
      if (size == 4) return RealText(read(float{}));
      if (size == 8) return RealText(read(double{}));
      if (size == 2) {
        const uint16_t half = read(uint16_t{});
        const int exponent = half >> 10 & 31, fraction = half & 1023;
        double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp(fraction, -24)
                                       : std::ldexp(1024 + fraction, exponent - 25);
        if (half >> 15) value = -value;
        return RealText(static_cast<float>(value));
      }
    }
    if (kind == 'c' && (size == 8 || size == 16)) {
      const std::string real = NumpyElement('f', bytes.substr(0, size / 2));
      std::string imaginary = NumpyElement('f', bytes.substr(size / 2));
      if (imaginary[0] != '-') imaginary.insert(0, "+");
      return "(" + real + imaginary + "j)";
    }
    if (kind == 'S') return ReprOfBytes(bytes.substr(0, bytes.find_last_not_of('\0') + 1));
    if (kind == 'U') {
      std::u32string text(size / 4, 0);
      memcpy(text.data(), bytes.data(), 4 * text.size());
      text.resize(text.find_last_not_of(U'\0') + 1);
      for (const char32_t c : text) {
        if (c > 0x10ffff) return "?";
      }
      return ReprOfText(text);
    }
    return "?";
  }

  bool PrintNumpy(uint64_t object, std::string_view name) {
    struct Scalar {
      std::string_view name;
      char kind;
      uint8_t size;
    };
    static constexpr Scalar kScalars[] = {
        {"bool_", 'b', 1},      {"bool", 'b', 1},    {"int8", 'i', 1},     {"int16", 'i', 2},
        {"int32", 'i', 4},      {"int64", 'i', 8},   {"longlong", 'i', 8}, {"uint8", 'u', 1},
        {"uint16", 'u', 2},     {"uint32", 'u', 4},  {"uint64", 'u', 8},   {"ulonglong", 'u', 8},
        {"float16", 'f', 2},    {"float32", 'f', 4}, {"float64", 'f', 8},  {"complex64", 'c', 8},
        {"complex128", 'c', 16}};
    const std::string_view bare = name.substr(6);
    for (const Scalar& scalar : kScalars) {
      if (scalar.name != bare) continue;
      char bytes[16];
      if (!memory().Read(object + layout().object_head, scalar.size, bytes)) return false;
      return Add(NumpyElement(scalar.kind, std::string_view(bytes, scalar.size))), true;
    }
    return bare == "ndarray" && PrintArray(object);
  }

  struct Array {
    uint64_t data = 0;
    std::vector<int64_t> shape, strides;
    char kind = 0, byte_order = 0;
    int64_t element = 0;
    uint64_t descriptor = 0;
  };

  std::optional<Array> ReadArray(uint64_t object) {
    const uint64_t head = object + layout().object_head;
    Array array;
    array.data = Pointer(head);
    const int32_t dimensions = memory().Get<int32_t>(head + 8).value_or(-1);
    constexpr int32_t kMostDimensions = 64;
    if (dimensions < 0 || dimensions > kMostDimensions) return std::nullopt;
    array.shape.resize(dimensions);
    array.strides.resize(dimensions);
    if (dimensions > 0 &&
        (!memory().Read(Pointer(head + 16), 8 * dimensions, array.shape.data()) ||
         !memory().Read(Pointer(head + 24), 8 * dimensions, array.strides.data()))) {
      return std::nullopt;
    }
    array.descriptor = Pointer(head + 40);
    const uint64_t descriptor = array.descriptor + layout().object_head;
    array.kind = memory().Get<char>(descriptor + 8).value_or(0);
    array.byte_order = memory().Get<char>(descriptor + 10).value_or(0);
    // elsize: i32 behind type_num in 1.x; in 2.x flags are there and it is 8 bytes further.
    const int32_t first = memory().Get<int32_t>(descriptor + 16).value_or(0);
    const int64_t second = memory().Get<int64_t>(descriptor + 24).value_or(0);
    const bool numpy2 = TypeSizeIs2x(array.descriptor);
    array.element = numpy2 ? second : first;
    constexpr int64_t kLargestElement = 1 << 16;
    if (array.element <= 0 || array.element > kLargestElement) return std::nullopt;
    return array;
  }

  // numpy 2 moved `elsize`: the sizes of the fixed types tell which numpy this is.
  bool TypeSizeIs2x(uint64_t descriptor) {
    const uint64_t part = descriptor + layout().object_head;
    const int32_t number = memory().Get<int32_t>(part + 12).value_or(-1);
    static constexpr uint8_t kSizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 4, 8, 16, 8, 16, 32, 8};
    const int64_t second = memory().Get<int64_t>(part + 24).value_or(0);
    const int32_t first = memory().Get<int32_t>(part + 16).value_or(0);
    if (number >= 0 && number < static_cast<int32_t>(std::size(kSizes))) {
      return first != kSizes[number] && second == kSizes[number];
    }
    return false;
  }

  bool PrintArray(uint64_t object) {
    const std::optional<Array> array = ReadArray(object);
    if (!array) return false;
    uint64_t count = 1;
    for (const int64_t n : array->shape) {
      if (n < 0 || (n > 0 && count > (uint64_t{1} << 40) / n)) return false;
      count *= n;
    }
    std::vector<std::string> elements;
    std::vector<uint64_t> objects;
    const uint64_t shown = std::min<uint64_t>(count, limits_.items);
    for (uint64_t i = 0; i < shown; ++i) {
      uint64_t rest = i;
      uint64_t at = array->data;
      for (size_t d = array->shape.size(); d-- > 0;) {
        at += array->strides[d] * static_cast<int64_t>(rest % array->shape[d]);
        rest /= array->shape[d];
      }
      std::optional<std::string> bytes = memory().Bytes(at, array->element, array->element);
      if (!bytes) return false;
      if (array->byte_order == '>') {
        if (array->kind == 'U' || array->kind == 'S' || array->kind == 'c') return false;
        std::reverse(bytes->begin(), bytes->end());
      }
      if (array->kind == 'O') {
        uint64_t pointer;
        memcpy(&pointer, bytes->data(), 8);
        objects.push_back(pointer);
        continue;
      }
      elements.push_back(NumpyElement(array->kind, *bytes));
      if (elements.back() == "?") return false;
    }
    AlignNumbers(array->kind, &elements);
    if (!Enter(object, "array(...)")) return true;
    Add("array(");
    uint64_t next = 0;
    Dimension(*array, 0, elements, objects, &next);
    const bool usual = (array->kind == 'i' && array->element == 8) ||
                       (array->kind == 'f' && array->element == 8) ||
                       (array->kind == 'c' && array->element == 16) || array->kind == 'b';
    if (array->kind == 'S') {
      Add(fmt::format(", dtype='|S{}'", array->element));
    } else if (array->kind == 'U') {
      Add(fmt::format(", dtype='<U{}'", array->element / 4));
    } else if (array->kind == 'O') {
      Add(", dtype=object");
    } else if (!usual || count == 0) {
      const std::string_view kind = array->kind == 'i'   ? "int"
                                    : array->kind == 'u' ? "uint"
                                    : array->kind == 'c' ? "complex"
                                    : array->kind == 'b' ? "bool"
                                                         : "float";
      Add(fmt::format(", dtype={}{}", kind,
                      array->kind == 'b' ? "" : fmt::format("{}", 8 * array->element)));
    }
    Add(")");
    Leave();
    return true;
  }

  // numpy aligns whole numbers to the right and others at the point, without the zero of ".0".
  static void AlignNumbers(char kind, std::vector<std::string>* elements) {
    size_t left = 0, right = 0;
    const auto point = [](const std::string& e) { return std::min(e.find('.'), e.size()); };
    for (std::string& e : *elements) {
      if (kind == 'f' && e.size() > 2 && e.ends_with(".0")) e.pop_back();
      left = std::max(left, point(e));
      right = std::max(right, e.size() - point(e));
    }
    if (kind == 'S' || kind == 'U' || kind == 'c') return;
    for (std::string& e : *elements) {
      e.insert(0, left - point(e), ' ');
      if (kind == 'f') e.append(right - (e.size() - point(e)), ' ');
    }
  }

  void Dimension(const Array& array, size_t depth, const std::vector<std::string>& elements,
                 const std::vector<uint64_t>& objects, uint64_t* next) {
    if (full) return;
    if (depth == array.shape.size()) {
      if (*next < objects.size()) {
        Print(objects[*next]);
      } else if (*next < elements.size()) {
        Add(elements[*next]);
      }
      ++*next;
      return;
    }
    const uint64_t shown = std::max(elements.size(), objects.size());
    Add("[");
    for (int64_t i = 0; i < array.shape[depth] && !full; ++i) {
      if (i > 0) Add(", ");
      if (*next >= shown) {
        Add("...");
        break;
      }
      Dimension(array, depth + 1, elements, objects, next);
    }
    Add("]");
  }
};

std::string ObjectReader::Repr(uint64_t object, const ReprLimits& limits) {
  Printer printer(*this, limits);
  printer.Print(object);
  if (printer.full) printer.out += "...(truncated)";
  return std::move(printer.out);
}

}  // namespace ttq::python
