// SPDX-License-Identifier: MIT

#include "query/cpython/array_reprs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/text.h"
#include "fmt/core.h"

namespace ttq::python {
namespace {

// An element of a numpy kind, of as many bytes; "?": of one that is not known.
std::string ElementText(char kind, std::string_view bytes) {
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
  if (kind == 'B' && size == 2) {  // bfloat16: the upper half of a float
    const uint32_t bits = uint32_t{read(uint16_t{})} << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return RealText(value);
  }
  if (kind == 'c' && (size == 8 || size == 16)) {
    const auto text = [](const auto& parts) { return ComplexText(parts[0], parts[1]); };
    return size == 8 ? text(read(std::array<float, 2>{})) : text(read(std::array<double, 2>{}));
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

struct Array {
  uint64_t data = 0;
  std::vector<int64_t> shape, strides;  // strides in bytes
  char kind = 0, byte_order = 0;
  int64_t element = 0;
  uint64_t descriptor = 0;
};

struct Elements {
  uint64_t count = 0;  // of all
  // Of the first of them: one of the two.
  std::vector<std::string> texts;
  std::vector<uint64_t> objects;
  std::vector<std::string> imaginary;  // of complex numbers, whose `texts` are the real parts
};

// How many elements it has; false: more than there can be.
bool CountOf(const Array& array, uint64_t* count) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  *count = 1;
  for (const int64_t n : array.shape) {
    if (n < 0 || (n > 0 && *count > kMost / static_cast<uint64_t>(n))) return false;
    *count *= static_cast<uint64_t>(n);
  }
  return true;
}

// ---- numpy (numpy/ndarraytypes.h of 1.x and 2.x) ----

// numpy 2 moved `elsize`: the sizes of the fixed types tell which numpy this is.
bool TypeSizeIs2x(ObjectReader& reader, uint64_t descriptor) {
  const uint64_t part = descriptor + reader.layout().object_head;
  const int32_t number = reader.memory().Get<int32_t>(part + 12).value_or(-1);
  static constexpr uint8_t kSizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 4, 8, 16, 8, 16, 32, 8};
  const int64_t second = reader.memory().Get<int64_t>(part + 24).value_or(0);
  const int32_t first = reader.memory().Get<int32_t>(part + 16).value_or(0);
  if (number >= 0 && number < static_cast<int32_t>(std::size(kSizes))) {
    return first != kSizes[number] && second == kSizes[number];
  }
  return false;
}

std::optional<Array> ReadArray(ObjectReader& reader, uint64_t object) {
  Memory& memory = reader.memory();
  const uint64_t head = object + reader.layout().object_head;
  Array array;
  array.data = memory.Pointer(head);
  const int32_t dimensions = memory.Get<int32_t>(head + 8).value_or(-1);
  constexpr int32_t kMaxDimensions = 64;
  if (dimensions < 0 || dimensions > kMaxDimensions) return std::nullopt;
  array.shape.resize(dimensions);
  array.strides.resize(dimensions);
  if (dimensions > 0 &&
      (!memory.Read(memory.Pointer(head + 16), 8 * dimensions, array.shape.data()) ||
       !memory.Read(memory.Pointer(head + 24), 8 * dimensions, array.strides.data()))) {
    return std::nullopt;
  }
  array.descriptor = memory.Pointer(head + 40);
  const uint64_t descriptor = array.descriptor + reader.layout().object_head;
  array.kind = memory.Get<char>(descriptor + 8).value_or(0);
  array.byte_order = memory.Get<char>(descriptor + 10).value_or(0);
  // elsize: i32 behind type_num in 1.x; in 2.x flags are there and it is 8 bytes further.
  const int32_t first = memory.Get<int32_t>(descriptor + 16).value_or(0);
  const int64_t second = memory.Get<int64_t>(descriptor + 24).value_or(0);
  const bool numpy2 = TypeSizeIs2x(reader, array.descriptor);
  array.element = numpy2 ? second : first;
  constexpr int64_t kLargestElement = 1 << 16;
  if (array.element <= 0 || array.element > kLargestElement) return std::nullopt;
  return array;
}

// The first elements of an array; nothing when they cannot be read.
std::optional<Elements> ReadElements(ObjectReader& reader, const Array& array, size_t most) {
  Elements out;
  if (!CountOf(array, &out.count)) return std::nullopt;
  const uint64_t shown = std::min<uint64_t>(out.count, most);
  for (uint64_t i = 0; i < shown; ++i) {
    uint64_t rest = i;
    uint64_t at = array.data;
    for (size_t d = array.shape.size(); d-- > 0;) {
      at += static_cast<uint64_t>(
          array.strides[d] * static_cast<int64_t>(rest % static_cast<uint64_t>(array.shape[d])));
      rest /= static_cast<uint64_t>(array.shape[d]);
    }
    const auto size = static_cast<uint64_t>(array.element);
    std::optional<std::string> bytes = reader.memory().Bytes(at, size, size);
    if (!bytes) return std::nullopt;
    if (array.byte_order == '>') {
      if (array.kind == 'U' || array.kind == 'S' || array.kind == 'c') return std::nullopt;
      std::reverse(bytes->begin(), bytes->end());
    }
    if (array.kind == 'O') {
      uint64_t pointer;
      memcpy(&pointer, bytes->data(), 8);
      out.objects.push_back(pointer);
      continue;
    }
    if (array.kind == 'c') {
      out.texts.push_back(ElementText('f', std::string_view(*bytes).substr(0, size / 2)));
      const std::string part = ElementText('f', std::string_view(*bytes).substr(size / 2));
      out.imaginary.push_back(fmt::format("{}{}", part[0] == '-' ? "" : "+", part));
      if (out.imaginary.back() == "+?") return std::nullopt;
      continue;
    }
    out.texts.push_back(ElementText(array.kind, *bytes));
    if (out.texts.back() == "?") return std::nullopt;
  }
  return out;
}

// A real number as numpy writes it in an array: no zero behind the point, at most eight digits.
std::string RealInArray(std::string text) {
  constexpr size_t kDigits = 8;
  const size_t point = text.find('.');
  if (point == std::string::npos || text.find('e') != std::string::npos) return text;
  if (text.size() - point - 1 > kDigits) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    text = fmt::format("{:.{}f}", value, kDigits);
    text.resize(text.find_last_not_of('0') + 1);
  }
  if (text.ends_with(".0")) text.pop_back();
  return text;
}

// numpy aligns whole numbers to the right and others at the point; what has none, as nan, to the
// right.
void AlignNumbers(char kind, std::vector<std::string>* elements) {
  if (kind == 'S' || kind == 'U') return;
  const auto has_point = [kind](const std::string& e) {
    return kind != 'f' || e.find('.') != std::string::npos;
  };
  const auto point = [](const std::string& e) { return std::min(e.find('.'), e.size()); };
  size_t left = 0, right = 0;
  for (std::string& e : *elements) {
    if (kind == 'f') e = RealInArray(std::move(e));
    if (!has_point(e)) continue;
    left = std::max(left, point(e));
    right = std::max(right, e.size() - point(e));
  }
  for (const std::string& e : *elements) {
    left = std::max(left, e.size() - std::min(e.size(), right));
  }
  for (std::string& e : *elements) {
    if (!has_point(e)) {
      e.insert(0, left + right - e.size(), ' ');
      continue;
    }
    e.insert(0, left - point(e), ' ');
    if (kind == 'f') e.append(right - (e.size() - point(e)), ' ');
  }
}

void Align(char kind, Elements* elements) {
  if (kind != 'c') return AlignNumbers(kind, &elements->texts);
  AlignNumbers('f', &elements->texts);
  AlignNumbers('f', &elements->imaginary);
  for (size_t i = 0; i < elements->texts.size(); ++i) {
    std::string& part = elements->imaginary[i];
    part.insert(part.find_last_not_of(' ') + 1, 1, 'j');
    elements->texts[i] += part;
  }
}

void AddDimension(ObjectReader& reader, const Array& array, size_t depth, const Elements& elements,
                  uint64_t* next, ReprWriter& out) {
  if (out.is_full()) return;
  if (depth == array.shape.size()) {
    if (*next < elements.objects.size()) {
      const uint64_t object = elements.objects[*next];
      const TypeInfo* type = reader.TypeOf(object);
      const bool is_list = type != nullptr && type->name == "list";
      if (is_list) out.Add("list(");
      out.Print(object);
      if (is_list) out.Add(")");
    } else if (*next < elements.texts.size()) {
      out.Add(elements.texts[*next]);
    }
    ++*next;
    return;
  }
  const uint64_t shown = std::max(elements.texts.size(), elements.objects.size());
  out.Add("[");
  for (int64_t i = 0; i < array.shape[depth] && !out.is_full(); ++i) {
    if (i > 0) out.Add(", ");
    if (*next >= shown) {
      out.Add("...");
      break;
    }
    AddDimension(reader, array, depth + 1, elements, next, out);
  }
  out.Add("]");
}

// `name` is that of its class.
bool PrintArray(ObjectReader& reader, uint64_t object, std::string_view name, ReprWriter& out) {
  const std::optional<Array> array = ReadArray(reader, object);
  if (!array) return false;
  std::optional<Elements> elements = ReadElements(reader, *array, out.limits().items);
  if (!elements) return false;
  Align(array->kind, &*elements);
  if (name == "ndarray") name = "array";
  if (!out.Enter(object, fmt::format("{}(...)", name))) return true;
  out.Add(fmt::format("{}(", name));
  uint64_t next = 0;
  if (elements->count == 0) {
    out.Add("[]");
    if (array->shape.size() > 1)
      out.Add(fmt::format(", shape=({})", absl::StrJoin(array->shape, ", ")));
  } else {
    AddDimension(reader, *array, 0, *elements, &next, out);
  }
  const bool usual = (array->kind == 'i' && array->element == 8) ||
                     (array->kind == 'f' && array->element == 8) ||
                     (array->kind == 'c' && array->element == 16) || array->kind == 'b';
  if (array->kind == 'S') {
    out.Add(fmt::format(", dtype='|S{}'", array->element));
  } else if (array->kind == 'U') {
    out.Add(fmt::format(", dtype='<U{}'", array->element / 4));
  } else if (array->kind == 'O') {
    out.Add(", dtype=object");
  } else if (!usual || elements->count == 0) {
    const std::string_view kind = array->kind == 'i'   ? "int"
                                  : array->kind == 'u' ? "uint"
                                  : array->kind == 'c' ? "complex"
                                  : array->kind == 'b' ? "bool"
                                                       : "float";
    out.Add(fmt::format(", dtype={}{}", kind,
                        array->kind == 'b' ? "" : fmt::format("{}", 8 * array->element)));
  }
  out.Add(")");
  out.Leave();
  return true;
}

// ---- PyTorch: THPVariable and c10::TensorImpl, of versions 1.8 to 2.x ----

struct ScalarType {
  const char* name;
  char kind;  // as numpy's; 0: its elements are not shown
  uint8_t bytes;
};
// c10::ScalarType, in order. Complex numbers may be conjugated when they are looked at.
constexpr ScalarType kScalarTypes[] = {
    {"uint8", 'u', 1},   {"int8", 'i', 1},    {"int16", 'i', 2},     {"int32", 'i', 4},
    {"int64", 'i', 8},   {"float16", 'f', 2}, {"float32", 'f', 4},   {"float64", 'f', 8},
    {"complex32", 0, 4}, {"complex64", 0, 8}, {"complex128", 0, 16}, {"bool", 'b', 1},
    {"qint8", 0, 1},     {"quint8", 0, 1},    {"qint32", 0, 4},      {"bfloat16", 'B', 2}};

struct Tensor {
  Array array;  // data 0: its elements are not in memory that is known
  const ScalarType* type = nullptr;
};

// Where what a counted object of C++ has of its own begins: behind the table of its virtual
// functions and two counts, or one word that holds both. The count of weak references is at
// least 1.
uint64_t OwnPart(Memory& memory, uint64_t counted) {
  const uint64_t second = memory.Pointer(counted + 16);
  return counted + (second != 0 && second >> 32 == 0 ? 24 : 16);
}

// The elements of a tensor lie in the storage at `storage`, `first` elements behind its beginning.
uint64_t DataOf(Memory& memory, uint64_t storage, const Array& array, int64_t first) {
  if (storage == 0) return 0;
  // The data's address, who frees it (two words), its device; the size in bytes.
  const uint64_t own = OwnPart(memory, storage), data = memory.Pointer(own);
  const int64_t bytes = memory.Get<int64_t>(own + 32).value_or(-1);
  int64_t low = first, high = first;
  for (size_t d = 0; d < array.shape.size(); ++d) {
    int64_t reach;
    if (array.shape[d] == 0) return data;
    if (__builtin_mul_overflow(array.shape[d] - 1, array.strides[d], &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
      return 0;
    }
  }
  if (data == 0 || bytes < 0 || low < 0 || high >= bytes / array.element) return 0;
  return data + static_cast<uint64_t>(first * array.element);
}

// Where it lies in the structure differs from version to version. It is found by the pointer back
// to the Python object, and is one if its sizes give the number of elements that is beside them.
std::optional<Tensor> ReadImplementation(Memory& memory, uint64_t object, uint64_t implementation) {
  constexpr uint64_t kFirst = 16, kLast = 128, kInline = 5;
  uint64_t at = implementation + kFirst;
  // The pointer's lowest bit says who owns whom.
  while ((memory.Pointer(at) & ~uint64_t{1}) != object) {
    if ((at += 8) > implementation + kLast) return std::nullopt;
  }
  Tensor out;
  Array& array = out.array;
  const uint64_t dimensions = memory.Pointer(at + 8), sizes = at + 16;
  constexpr uint64_t kMaxDimensions = 64;
  if (dimensions > kMaxDimensions) return std::nullopt;
  array.shape.resize(dimensions);
  array.strides.resize(dimensions);
  const bool is_inline = dimensions <= kInline;
  const uint64_t shape = is_inline ? sizes : memory.Pointer(sizes);
  const uint64_t strides = is_inline ? sizes + 8 * kInline : shape + 8 * dimensions;
  if (dimensions != 0 && (!memory.Read(shape, 8 * dimensions, array.shape.data()) ||
                          !memory.Read(strides, 8 * dimensions, array.strides.data()))) {
    return std::nullopt;
  }
  struct {
    int64_t first, count;
    uint16_t type;
    uint8_t device[3];  // kind, number, that there is one; or the last before the others
  } behind;
  uint64_t count;
  if (!memory.Read(sizes + 16 * kInline, sizeof behind, &behind) || !CountOf(array, &count) ||
      behind.count < 0 || static_cast<uint64_t>(behind.count) != count ||
      behind.type >= std::size(kScalarTypes)) {
    return std::nullopt;
  }
  out.type = &kScalarTypes[behind.type];
  array.kind = out.type->kind;
  array.element = out.type->bytes;
  const uint8_t* d = behind.device;
  const bool is_processor = d[0] == 1 ? d[1] == 0 && d[2] == 0xff : d[0] == 0 && d[1] == 0xff;
  if (is_processor && array.kind != 0) {
    const uint64_t storage = memory.Pointer(OwnPart(memory, implementation));
    array.data = DataOf(memory, storage, array, behind.first);
  }
  for (int64_t& stride : array.strides) {
    if (__builtin_mul_overflow(stride, array.element, &stride)) array.data = 0;
  }
  return out;
}

std::optional<Tensor> ReadTensor(ObjectReader& reader, uint64_t object) {
  Memory& memory = reader.memory();
  const uint64_t own = object + reader.layout().object_head;
  // Behind a word that says whether it is borrowed, a tensor or the address of one; or a tensor.
  const uint64_t word = memory.Pointer(own + 8);
  for (const uint64_t candidate : {word, memory.Pointer(word), memory.Pointer(own)}) {
    if (auto tensor = ReadImplementation(memory, object, candidate)) return tensor;
  }
  return std::nullopt;
}

}  // namespace

bool PrintNumpy(ObjectReader& reader, uint64_t object, std::string_view name, const TypeInfo& type,
                ReprWriter& out) {
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
    if (!reader.memory().Read(object + reader.layout().object_head, scalar.size, bytes)) {
      return false;
    }
    out.Add(ElementText(scalar.kind, std::string_view(bytes, scalar.size)));
    return true;
  }
  return bare == "ndarray" && PrintArray(reader, object, type.short_name(), out);
}

bool PrintTensor(ObjectReader& reader, uint64_t object, const TypeInfo& type, ReprWriter& out) {
  const std::optional<Tensor> tensor = ReadTensor(reader, object);
  if (!tensor) return false;
  const Array& array = tensor->array;
  std::optional<Elements> elements;
  if (array.data != 0) elements = ReadElements(reader, array, out.limits().items);
  out.Add(fmt::format("<{}(shape=[{}], dtype=torch.{}", type.short_name(),
                      absl::StrJoin(array.shape, ", "), tensor->type->name));
  if (elements) {
    out.Add(", data=");
    uint64_t next = 0;
    AddDimension(reader, array, 0, *elements, &next, out);
  }
  out.Add(fmt::format(") at remote {:#x}>", object));
  return true;
}

}  // namespace ttq::python
