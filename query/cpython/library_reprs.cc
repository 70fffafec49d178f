// SPDX-License-Identifier: MIT

#include "query/cpython/library_reprs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <tuple>
#include <vector>

#include "base/number_text.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/cpython/array_reprs.h"
#include "query/cpython/frames.h"

namespace ttq::python {
namespace {

constexpr size_t kMaxText = 4096;  // of a name or a path

// What the functions below share: the object's memory, by offsets from the end of its head.
struct Source {
  ObjectReader& reader;
  uint64_t object;
  const TypeInfo& kind;
  const TypeInfo& type;
  ReprWriter& out;

  Memory& memory() const { return reader.memory(); }
  const Layout& layout() const { return reader.layout(); }
  uint64_t at(int64_t offset) const { return object + layout().object_head + offset; }
  uint64_t Pointer(int64_t offset) const { return memory().Pointer(at(offset)); }
  // The structure is the one that the offsets below are of.
  bool HasBytes(int64_t bytes) const { return kind.basicsize == layout().object_head + bytes; }
};

bool IsNone(ObjectReader& reader, uint64_t object) {
  const TypeInfo* type = reader.TypeOf(object);
  return type && type->name == "NoneType";
}

// ---- datetime (Include/datetime.h): {hash, has_tzinfo, data[], fold, tzinfo} -----------------

bool PrintTimeDelta(const Source& s) {
  int32_t parts[3];  // days, seconds, microseconds
  if (!s.HasBytes(24) || !s.memory().Read(s.at(8), sizeof parts, parts)) return false;
  static constexpr const char* kNames[] = {"days", "seconds", "microseconds"};
  std::string text;
  for (int i = 0; i < 3; ++i) {
    if (parts[i] == 0) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", kNames[i], parts[i]);
  }
  s.out.Add(fmt::format("{}({})", s.type.name, text.empty() ? "0" : text));
  return true;
}

bool PrintDate(const Source& s) {
  uint8_t data[4];
  if (!s.HasBytes(16) || !s.memory().Read(s.at(9), sizeof data, data)) return false;
  s.out.Add(fmt::format("{}({}, {}, {})", s.type.name, data[0] << 8 | data[1], +data[2], +data[3]));
  return true;
}

// One without a time zone ends before the pointer to it.
uint64_t TimeZone(const Source& s, bool has_zone, int64_t offset) {
  const uint64_t zone = has_zone ? s.Pointer(offset) : 0;
  return IsNone(s.reader, zone) ? 0 : zone;
}

void AddTimeZone(const Source& s, uint64_t zone) {
  if (zone == 0) return;
  s.out.Add(", tzinfo=");
  s.out.Print(zone);
}

bool PrintDateTime(const Source& s) {
  uint8_t data[12];  // has_tzinfo, 10 bytes, fold
  if (!s.HasBytes(32) || !s.memory().Read(s.at(8), sizeof data, data)) return false;
  const uint8_t* d = data + 1;
  std::string text = fmt::format("{}({}, {}, {}, {}, {}", s.type.name, d[0] << 8 | d[1], +d[2],
                                 +d[3], +d[4], +d[5]);
  const int microseconds = d[7] << 16 | d[8] << 8 | d[9];
  if (d[6] != 0 || microseconds != 0) text += fmt::format(", {}", +d[6]);
  if (microseconds != 0) text += fmt::format(", {}", microseconds);
  if (data[11] != 0) text += fmt::format(", fold={}", +data[11]);
  s.out.Add(text);
  AddTimeZone(s, TimeZone(s, data[0] != 0, 24));
  s.out.Add(")");
  return true;
}

bool PrintTime(const Source& s) {
  uint8_t data[8];  // has_tzinfo, 6 bytes, fold
  if (!s.HasBytes(24) || !s.memory().Read(s.at(8), sizeof data, data)) return false;
  const uint8_t* d = data + 1;
  std::string text = fmt::format("{}({}, {}", s.type.name, +d[0], +d[1]);
  const int microseconds = d[3] << 16 | d[4] << 8 | d[5];
  if (d[2] != 0 || microseconds != 0) text += fmt::format(", {}", +d[2]);
  if (microseconds != 0) text += fmt::format(", {}", microseconds);
  s.out.Add(text);
  AddTimeZone(s, TimeZone(s, data[0] != 0, 16));
  if (data[7] != 0) s.out.Add(fmt::format(", fold={}", +data[7]));
  s.out.Add(")");
  return true;
}

bool PrintTimeZone(const Source& s) {
  if (!s.HasBytes(16)) return false;
  const uint64_t offset = s.Pointer(0), name = s.Pointer(8);
  const TypeInfo* type = s.reader.TypeOf(offset);
  int32_t parts[3];
  if (!type || !s.memory().Read(offset + s.layout().object_head + 8, sizeof parts, parts)) {
    return false;
  }
  // The only one without an offset and a name is `utc` itself.
  if (name == 0 && parts[0] == 0 && parts[1] == 0 && parts[2] == 0) {
    s.out.Add("datetime.timezone.utc");
    return true;
  }
  s.out.Add(s.type.name + "(");
  s.out.Print(offset);
  if (name != 0) {
    s.out.Add(", ");
    s.out.Print(name);
  }
  s.out.Add(")");
  return true;
}

bool PrintZoneInfo(const Source& s) {
  if (!s.HasBytes(192)) return false;
  const uint64_t key = s.Pointer(0);
  if (!IsNone(s.reader, key)) {
    s.out.Add(s.type.name + "(key=");
    s.out.Print(key);
    s.out.Add(")");
    return true;
  }
  const auto file = s.reader.Str(s.Pointer(8), kMaxText);
  if (!file) return false;
  s.out.Add(fmt::format("{}.from_file({})", s.type.name, *file));
  return true;
}

// ---- decimal: {hash, mpd_t {flags, exponent, digits, words, allocated, data}} ----------------

constexpr uint64_t kWordRadix = 10'000'000'000'000'000'000u;
constexpr size_t kWordDigits = 19;

// The most significant digits of a coefficient, of which there are `digits`: as many as are shown.
std::optional<std::string> Coefficient(const Source& s, int64_t digits, int64_t words,
                                       uint64_t data) {
  if (words <= 0 || digits <= 0 || words > int64_t{1} << 56 ||
      static_cast<uint64_t>(digits - 1) / kWordDigits + 1 != static_cast<uint64_t>(words)) {
    return std::nullopt;
  }
  const size_t shown = std::min<uint64_t>(words, s.out.limits().characters / kWordDigits + 3);
  std::vector<uint64_t> values(shown);
  if (!s.memory().Read(data + 8 * (words - shown), 8 * shown, values.data())) return std::nullopt;
  std::string text;
  for (size_t i = shown; i-- > 0;) {
    if (values[i] >= kWordRadix) return std::nullopt;
    text += i + 1 == shown ? fmt::format("{}", values[i]) : fmt::format("{:019}", values[i]);
  }
  if (text.size() != digits - kWordDigits * (words - shown)) return std::nullopt;
  return text;
}

bool PrintDecimal(const Source& s) {
  constexpr uint8_t kNegative = 1, kInfinity = 2, kNan = 4, kSignalling = 8;
  struct {
    uint64_t flags;
    int64_t exponent, digits, words, allocated;
    uint64_t data;
  } number;
  if (!s.HasBytes(88) || !s.memory().Read(s.at(8), sizeof number, &number)) return false;
  const auto flags = static_cast<uint8_t>(number.flags);
  std::string text = flags & kNegative ? "-" : "";
  if (flags & kInfinity) {
    text += "Infinity";
  } else if (flags & (kNan | kSignalling)) {
    text += flags & kNan ? "NaN" : "sNaN";
    if (number.words > 0) {
      const auto payload = Coefficient(s, number.digits, number.words, number.data);
      if (!payload) return false;
      text += *payload;
    }
  } else {
    const auto digits = Coefficient(s, number.digits, number.words, number.data);
    constexpr int64_t kLargestExponent = int64_t{1} << 61;
    if (!digits || number.exponent < -kLargestExponent || number.exponent > kLargestExponent) {
      return false;
    }
    // Where the point stands, counted from the first digit.
    const int64_t left = number.exponent + number.digits;
    const int64_t point = number.exponent <= 0 && left > -6 ? left : 1;
    if (point <= 0) {
      text += "0." + std::string(-point, '0') + *digits;
    } else if (point >= static_cast<int64_t>(digits->size())) {
      text += *digits;
    } else {
      text += digits->substr(0, point) + "." + digits->substr(point);
    }
    if (point != left) text += fmt::format("E{:+}", left - point);
  }
  s.out.Add(fmt::format("Decimal('{}')", text));
  return true;
}

// ---- array: PyVarObject {items, allocated, descriptor {typecode, itemsize}} ------------------

std::string ArrayElement(char code, const char* bytes) {
  const auto read = [&](auto value) {
    memcpy(&value, bytes, sizeof value);
    return value;
  };
  switch (code) {
    case 'b':
      return fmt::format("{}", int{read(int8_t{})});
    case 'B':
      return fmt::format("{}", unsigned{read(uint8_t{})});
    case 'h':
      return fmt::format("{}", read(int16_t{}));
    case 'H':
      return fmt::format("{}", read(uint16_t{}));
    case 'i':
      return fmt::format("{}", read(int32_t{}));
    case 'I':
      return fmt::format("{}", read(uint32_t{}));
    case 'l':
    case 'q':
      return fmt::format("{}", read(int64_t{}));
    case 'L':
    case 'Q':
      return fmt::format("{}", read(uint64_t{}));
    case 'f':
      return RealText(read(float{}) + 0.0);
    case 'd':
      return RealText(read(double{}));
    default:
      return "";
  }
}

int ArrayElementBytes(char code) {
  switch (code) {
    case 'b':
    case 'B':
      return 1;
    case 'h':
    case 'H':
      return 2;
    case 'i':
    case 'I':
    case 'f':
    case 'u':
    case 'w':
      return 4;
    case 'l':
    case 'L':
    case 'q':
    case 'Q':
    case 'd':
      return 8;
    default:
      return 0;
  }
}

bool PrintArrayObject(const Source& s) {
  // Behind ob_size.
  if (!s.HasBytes(48)) return false;
  const int64_t size = s.memory().Get<int64_t>(s.at(0)).value_or(-1);
  const uint64_t items = s.Pointer(8), descriptor = s.Pointer(24);
  const char code = s.memory().Get<char>(descriptor).value_or(0);
  const int bytes = ArrayElementBytes(code);
  if (size < 0 || bytes == 0 || s.memory().Get<int32_t>(descriptor + 4) != bytes) return false;
  const std::string head = fmt::format("{}('{}'", s.type.short_name(), code);
  if (size == 0) {
    s.out.Add(head + ")");
    return true;
  }
  const bool is_text = code == 'u' || code == 'w';
  const ReprLimits& limits = s.out.limits();
  const uint64_t shown = std::min<uint64_t>(size, is_text ? limits.characters + 1 : limits.items);
  std::vector<char> data(shown * bytes);
  if (!s.memory().Read(items, data.size(), data.data())) return false;
  if (is_text) {
    std::u32string text(shown, 0);
    memcpy(text.data(), data.data(), data.size());
    for (const char32_t c : text) {
      if (c > 0x10ffff) return false;
    }
    s.out.Add(head + ", " + ReprOfText(text) + ")");
    return true;
  }
  std::string text = head + ", [";
  for (uint64_t i = 0; i < shown; ++i) {
    if (i > 0) text += ", ";
    text += ArrayElement(code, data.data() + i * bytes);
  }
  s.out.Add(text + (shown < static_cast<uint64_t>(size) ? ", ...])" : "])"));
  return true;
}

// ---- Views -----------------------------------------------------------------------------------

bool PrintMemoryView(const Source& s) {
  // PyVarObject {managed buffer, hash, flags}.
  const auto flags = s.memory().Get<int32_t>(s.at(24));
  if (!flags) return false;
  constexpr int32_t kReleased = 1;
  s.out.Add(fmt::format("<{}memory at {:#x}>", *flags & kReleased ? "released " : "", s.object));
  return true;
}

bool PrintDictView(const Source& s) {
  const std::string_view name = s.kind.name;
  const uint64_t dict = s.Pointer(0);
  const auto items = s.reader.OrderedItems(dict, s.out.limits().items + 1);
  if (!s.HasBytes(8) || !items) return false;
  if (!s.out.Enter(s.object, "...")) return true;
  s.out.Add(s.type.name + "([");
  if (name.ends_with("items")) {
    s.out.AddPairs(*items, true);
  } else {
    std::vector<uint64_t> column;
    for (const auto& [key, value] : *items) {
      column.push_back(name.ends_with("keys") ? key : value);
    }
    const uint64_t size = column.size();
    if (column.size() > s.out.limits().items) column.resize(s.out.limits().items);
    s.out.AddItems(column, size);
  }
  s.out.Add("])");
  s.out.Leave();
  return true;
}

// ---- asyncio ---------------------------------------------------------------------------------

// As reprlib.repr cuts what is longer than `most`. `always`: what is no longer, too.
std::string CutInTheMiddle(const std::string& text, size_t most, bool always = false) {
  std::vector<size_t> wide;  // where each character begins
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) wide.push_back(i);
  }
  const size_t before = (most - 3) / 2, behind = most - 3 - before;
  if (wide.size() <= (always ? behind : most)) return text;
  return text.substr(0, wide[before]) + "..." + text.substr(wide[wide.size() - behind]);
}

std::string ShortRepr(ObjectReader& reader, uint64_t object, int level, ReprWriter& out);

// Of a list or a tuple: its first items.
std::string ShortItems(ObjectReader& reader, uint64_t object, bool is_tuple, int level,
                       ReprWriter& out) {
  constexpr size_t kMaxItems = 6;
  const auto items = reader.Items(object, kMaxItems + 1);
  if (!items) return "...";
  std::string text;
  if (level <= 0 && !items->empty()) {
    text = "...";
  } else {
    for (size_t i = 0; i < items->size(); ++i) {
      if (i > 0) text += ", ";
      text += i < kMaxItems ? ShortRepr(reader, (*items)[i], level - 1, out) : "...";
    }
    if (is_tuple && items->size() == 1) text += ",";
  }
  return is_tuple ? "(" + text + ")" : "[" + text + "]";
}

// Of a dict whose keys are all text or all numbers: its first items by the order of their keys.
std::string ShortDict(ObjectReader& reader, uint64_t object, int level, ReprWriter& out) {
  constexpr size_t kMaxItems = 4;
  const auto items = reader.DictItems(object);
  if (!items) return "...";
  if (items->empty()) return "{}";
  if (level <= 0) return "{...}";
  struct Key {
    int64_t number;
    std::u32string text;
    size_t index;
    bool operator<(const Key& other) const {
      return std::tie(number, text) < std::tie(other.number, other.text);
    }
  };
  std::vector<Key> keys;
  size_t texts = 0;
  for (size_t i = 0; i < items->size(); ++i) {
    const uint64_t key = (*items)[i].first;
    const TypeInfo* type = reader.TypeOf(key);
    const auto number = reader.Int(key);
    auto text = reader.Text(key);
    // Subclasses may compare in another way.
    if (!type || (type->name != "int" && type->name != "str") || (!number && !text)) return "...";
    texts += text.has_value();
    keys.push_back({number.value_or(0), std::move(text).value_or(U""), i});
  }
  if (texts != 0 && texts != keys.size()) return "...";
  std::sort(keys.begin(), keys.end());
  std::string shown;
  for (size_t i = 0; i < std::min(keys.size(), kMaxItems + 1); ++i) {
    if (i > 0) shown += ", ";
    const auto& [key, value] = (*items)[keys[i].index];
    shown += i == kMaxItems ? "..."
                            : ShortRepr(reader, key, level - 1, out) + ": " +
                                  ShortRepr(reader, value, level - 1, out);
  }
  return "{" + shown + "}";
}

constexpr int kShortLevels = 6;

// What reprlib.repr gives; "..." where it is not known.
std::string ShortRepr(ObjectReader& reader, uint64_t object, int level, ReprWriter& out) {
  const TypeInfo* found = reader.TypeOf(object);
  if (!found) return "...";
  const TypeInfo type = *found;
  constexpr size_t kMaxString = 30, kMaxInt = 40, kMaxOther = 30;
  if (type.name == "str") {
    const auto text = reader.Text(object);
    if (!text) return "...";
    const std::string whole = ReprOfText(text->substr(0, kMaxString));
    if (CutInTheMiddle(whole, kMaxString) == whole) return whole;
    // It takes the last characters by a slice, which counts from the end for a short text.
    constexpr int64_t kBefore = (kMaxString - 3) / 2, kBehind = kMaxString - 3 - kBefore;
    const auto size = static_cast<int64_t>(text->size());
    const int64_t begin =
        size >= kBehind ? size - kBehind : std::max<int64_t>(0, 2 * size - kBehind);
    return CutInTheMiddle(ReprOfText(text->substr(0, kBefore) + text->substr(begin)), kMaxString,
                          true);
  }
  if (type.name == "int") return CutInTheMiddle(out.Text(object), kMaxInt);
  if (type.name == "list" || type.name == "tuple") {
    return ShortItems(reader, object, type.name == "tuple", level, out);
  }
  if (type.name == "dict") return ShortDict(reader, object, level, out);
  for (const std::string_view built : {"array", "set", "frozenset", "deque"}) {
    if (type.short_name() == built) return "...";
  }
  const std::string text = out.Text(object);
  if (text.ends_with("(truncated)")) return "...";
  // Shown by its attributes, which is no repr of Python's.
  if (text.find(" at remote 0x") != text.npos) return text;
  return CutInTheMiddle(text, kMaxOther);
}

// As asyncio.coroutines._format_coroutine. "": not known.
std::string CoroutineText(ObjectReader& reader, uint64_t coroutine) {
  const Layout& layout = reader.layout();
  const TypeInfo* type = reader.TypeOf(coroutine);
  if (!type || (type->name != "coroutine" && type->name != "generator")) return "";
  const auto name =
      reader.Str(reader.memory().Pointer(coroutine + layout.generator_qualname), kMaxText);
  if (!name) return "";
  FrameReader frames(&reader);
  bool has_frame;
  uint64_t code;
  if (layout.generator_iframe != kAbsent) {
    const auto state = reader.memory().Get<int8_t>(coroutine + layout.generator_state);
    if (!state) return "";
    has_frame = *state <= layout.traits.generator_executing;
    // The code stays there when the frame is gone.
    code = layout.Untag(
        reader.memory().Pointer(coroutine + layout.generator_iframe + layout.frame_code));
  } else {
    has_frame = reader.memory().Pointer(coroutine + layout.generator_frame) != 0;
    code = reader.memory().Pointer(coroutine + layout.generator_code);
  }
  if (!has_frame) {
    const std::shared_ptr<const Code> read = frames.ReadCode(code);
    if (!read) return "";
    return fmt::format("{}() done, defined at {}:{}", *name, read->filename, read->first_line);
  }
  const uint64_t address = layout.generator_iframe != kAbsent
                               ? coroutine + layout.generator_iframe
                               : reader.memory().Pointer(coroutine + layout.generator_frame);
  Frame frame;
  if (frames.ReadFrame(address, &frame) != FrameReader::Kind::kPython) return "";
  return fmt::format("{}() running at {}:{}", *name, frame.code->filename, frame.position.line);
}

// As asyncio.format_helpers._format_callback_source, of functions and methods; "..." of others.
std::string CallbackText(ObjectReader& reader, uint64_t callback) {
  const Layout& layout = reader.layout();
  const TypeInfo* found = reader.TypeOf(callback);
  if (!found) return "...";
  const TypeInfo type = *found;
  Memory& memory = reader.memory();
  if (type.name == "function") {
    const auto name = reader.Str(memory.Pointer(callback + layout.function_qualname), kMaxText);
    // What it wraps is at another place.
    uint64_t function = callback;
    constexpr int kMaxWrappers = 16;
    for (int i = 0; i < kMaxWrappers; ++i) {
      const uint64_t wrapped =
          reader.DictGet(memory.Pointer(function + layout.function_dict), "__wrapped__");
      const TypeInfo* inner = reader.TypeOf(wrapped);
      if (wrapped == 0) break;
      if (!inner || inner->name != "function") return "...";
      function = wrapped;
    }
    FrameReader frames(&reader);
    const auto code = frames.ReadCode(memory.Pointer(function + layout.function_code));
    if (!name || !code) return "...";
    return fmt::format("{}() at {}:{}", *name, code->filename, code->first_line);
  }
  if (type.name == "method") {
    const uint64_t function = memory.Pointer(callback + layout.method_function);
    const TypeInfo* inner = reader.TypeOf(function);
    if (!inner || inner->name != "function" ||
        reader.DictGet(memory.Pointer(function + layout.function_dict), "__wrapped__") != 0) {
      return "...";
    }
    const auto name = reader.Str(memory.Pointer(function + layout.function_qualname), kMaxText);
    return name ? *name + "()" : "...";
  }
  if (type.name == "builtin_function_or_method") {
    const auto name = memory.CString(memory.Pointer(memory.Pointer(callback + layout.builtin_def)));
    const uint64_t self = memory.Pointer(callback + layout.builtin_self);
    const TypeInfo* owner = reader.TypeOf(self);
    if (!name) return "...";
    if (self == 0 || !owner || owner->name == "module") return *name + "()";
    if (owner->Is(kTypeSubclass)) return "...";
    std::string qualname(owner->short_name());
    if (owner->heap()) {
      qualname = reader.Str(memory.Pointer(owner->address + layout.heap_qualname), kMaxText)
                     .value_or(qualname);
    }
    return fmt::format("{}.{}()", qualname, *name);
  }
  if (type.short_name() == "TaskWakeupMethWrapper" || type.short_name() == "TaskStepMethWrapper") {
    return fmt::format("<{} object at {:#x}>()", type.name, callback);
  }
  return "...";
}

// The callbacks of a future: one in the object, others as tuples in a list behind it. As text.
std::string CallbacksText(const Source& s) {
  std::vector<uint64_t> callbacks;
  uint64_t count = 0;
  if (const uint64_t first = s.Pointer(8)) {
    callbacks.push_back(first);
    ++count;
  }
  const uint64_t list = s.Pointer(24);
  if (const auto items = s.reader.Items(list)) {
    for (const uint64_t item : *items) {
      const auto pair = s.reader.Items(item, 2);
      callbacks.push_back(pair && !pair->empty() ? (*pair)[0] : 0);
      ++count;
    }
  }
  if (count == 0) return "";
  std::string text = " cb=[" + CallbackText(s.reader, callbacks.front());
  if (count > 2) text += fmt::format(", <{} more>", count - 2);
  if (count > 1) text += ", " + CallbackText(s.reader, callbacks.back());
  return text + "]";
}

bool PrintFuture(const Source& s, bool is_task) {
  const AsyncioOffsets* known = s.layout().asyncio;
  if (!known || !s.HasBytes(is_task ? known->task_bytes : known->future_bytes)) return false;
  const AsyncioOffsets& l = *known;
  enum : int32_t { kPending, kCancelled, kFinished };
  static constexpr const char* kStates[] = {"pending", "cancelled", "finished"};
  const auto state = s.memory().Get<int32_t>(s.at(l.state));
  if (!state || *state < kPending || *state > kFinished) return false;
  if (!s.out.Enter(s.object, "...")) return true;
  std::string text = fmt::format("<{} ", s.type.short_name());
  const Offset cancel = l.must_cancel != kAbsent ? l.must_cancel : l.cancels_requested;
  const bool is_cancelling =
      is_task && *state == kPending && s.memory().Get<int32_t>(s.at(cancel)).value_or(0) != 0;
  s.out.Add(text + (is_cancelling ? "cancelling" : kStates[*state]));
  if (is_task) {
    const uint64_t name = s.Pointer(l.name);
    // A name that nobody asked for yet is a number.
    const auto number = s.reader.Int(name);
    s.out.Add(" name=");
    if (number) {
      s.out.Add(fmt::format("'Task-{}'", *number));
    } else {
      s.out.Print(name);
    }
    const uint64_t coroutine = s.Pointer(l.coroutine);
    if (coroutine != 0 && !IsNone(s.reader, coroutine)) {
      const std::string where = CoroutineText(s.reader, coroutine);
      s.out.Add(fmt::format(" coro=<{}>", where.empty() ? "..." : where));
    }
    if (const uint64_t waiter = s.Pointer(l.waiter); waiter != 0 && !IsNone(s.reader, waiter)) {
      s.out.Add(" wait_for=");
      s.out.Print(waiter);
    }
  }
  if (*state == kFinished) {
    const uint64_t exception = s.Pointer(l.exception);
    if (exception != 0 && !IsNone(s.reader, exception)) {
      s.out.Add(" exception=");
      s.out.Print(exception);
    } else {
      s.out.Add(" result=" + ShortRepr(s.reader, s.Pointer(l.result), kShortLevels, s.out));
    }
  }
  s.out.Add(CallbacksText(s));
  const auto created = s.reader.Items(s.Pointer(l.source_traceback));
  if (created && !created->empty()) {
    const uint64_t last = created->back();
    const auto file = s.reader.Str(s.reader.GetAttribute(last, "filename"), kMaxText);
    const auto line = s.reader.Int(s.reader.GetAttribute(last, "lineno"));
    s.out.Add(file && line ? fmt::format(" created at {}:{}", *file, *line) : " created at ...");
  }
  s.out.Add(">");
  s.out.Leave();
  return true;
}

// ---- Classes written in Python ---------------------------------------------------------------

std::vector<uint64_t> Bases(ObjectReader& reader, uint64_t type) {
  constexpr size_t kMaxBases = 256;
  return reader.Items(reader.memory().Pointer(type + reader.layout().type_mro), kMaxBases)
      .value_or(std::vector<uint64_t>());
}

// The function in Python that repr() of the type's instances calls: "module.qualname"; "" when it
// is another one.
std::string ReprFunction(ObjectReader& reader, uint64_t type) {
  const Layout& layout = reader.layout();
  Memory& memory = reader.memory();
  for (const uint64_t base : Bases(reader, type)) {
    const TypeInfo* info = reader.Type(base);
    if (!info) return "";
    if (!info->heap()) {
      // A type in C: from 3.12 on its names are not kept with it.
      if (info->name == "object" || info->base == 0) return "";
      const TypeInfo* above = reader.Type(info->base);
      if (!above || above->repr != info->repr) return "";
      continue;
    }
    const uint64_t function = reader.DictGet(memory.Pointer(base + layout.type_dict), "__repr__");
    if (function == 0) continue;
    const TypeInfo* kind = reader.TypeOf(function);
    if (!kind || kind->name != "function") return "";
    const auto module = reader.Str(memory.Pointer(function + layout.function_module), kMaxText);
    const auto name = reader.Str(memory.Pointer(function + layout.function_qualname), kMaxText);
    return module && name ? *module + "." + *name : "";
  }
  return "";
}

bool HasBase(ObjectReader& reader, uint64_t type, std::string_view name) {
  for (const uint64_t base : Bases(reader, type)) {
    const TypeInfo* info = reader.Type(base);
    if (info && info->name == name) return true;
  }
  return false;
}

// The members that make up an unnamed Flag, as enum._decompose of 3.9 and 3.10 finds them: names
// with "|" between them.
std::optional<std::string> FlagNames(ObjectReader& reader, uint64_t type, int64_t value) {
  struct Member {
    int64_t value;
    std::string name;
  };
  const auto text = [&](uint64_t member) {
    const auto name = reader.Str(reader.GetAttribute(member, "_name_"), kMaxText);
    return name ? *name
                : fmt::format("{}", reader.Int(reader.GetAttribute(member, "_value_")).value_or(0));
  };
  const auto names = reader.Items(reader.GetAttribute(type, "_member_names_"));
  const uint64_t map = reader.GetAttribute(type, "_member_map_");
  const auto by_value = reader.DictItems(reader.GetAttribute(type, "_value2member_map_"));
  if (!names || map == 0 || !by_value) return std::nullopt;
  std::vector<Member> members;
  for (const uint64_t name : *names) {
    const auto key = reader.Str(name, kMaxText);
    const uint64_t member = key ? reader.DictGet(map, *key) : 0;
    const auto of = reader.Int(reader.GetAttribute(member, "_value_"));
    if (!of) return std::nullopt;
    if (*of != 0 && (*of & value) == *of) members.push_back({*of, text(member)});
  }
  uint64_t rest = value;
  for (const Member& member : members) rest &= ~static_cast<uint64_t>(member.value);
  const auto named = [&](int64_t wanted) -> uint64_t {
    for (const auto& [key, member] : *by_value) {
      if (reader.Int(key) == wanted) return member;
    }
    return 0;
  };
  for (int bit = 62; value >= 0 && bit >= 0; --bit) {
    const int64_t flag = int64_t{1} << bit;
    if ((rest & flag) == 0) continue;
    if (const uint64_t member = named(flag)) members.push_back({flag, text(member)});
  }
  if (members.empty()) {
    if (const uint64_t member = named(value)) members.push_back({value, text(member)});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const Member& a, const Member& b) { return a.value > b.value; });
  if (members.size() > 1 && members[0].value == value) members.erase(members.begin());
  std::string all;
  for (const Member& member : members) all += (all.empty() ? "" : "|") + member.name;
  return all;
}

bool PrintEnum(ObjectReader& reader, uint64_t object, const TypeInfo& type, bool is_flag,
               ReprWriter& out) {
  const uint64_t value = reader.GetAttribute(object, "_value_");
  const uint64_t name_object = reader.GetAttribute(object, "_name_");
  if (value == 0 || name_object == 0) return false;
  // From 3.11 on a class can say how its values are shown. Slots of C and repr() show them as they
  // are shown anyhow.
  if (const uint64_t shown = reader.GetAttribute(type.address, "_value_repr_");
      shown != 0 && !IsNone(reader, shown)) {
    const TypeInfo* kind = reader.TypeOf(shown);
    if (!kind ||
        (kind->name != "wrapper_descriptor" && kind->name != "builtin_function_or_method")) {
      return false;
    }
  }
  std::string name;
  if (const auto text = reader.Str(name_object, kMaxText)) {
    name = "." + *text;
  } else if (!is_flag) {
    return false;
  } else if (reader.layout().traits.flags_have_no_name) {
    const auto number = reader.Int(value);
    const auto names = number ? FlagNames(reader, type.address, *number) : std::nullopt;
    if (!names) return false;
    name = "." + *names;
  }
  if (!out.Enter(object, "<...>")) return true;
  out.Add(fmt::format("<{}{}: ", type.short_name(), name));
  out.Print(value);
  out.Add(">");
  out.Leave();
  return true;
}

bool PrintPath(ObjectReader& reader, uint64_t object, const TypeInfo& type, ReprWriter& out) {
  const bool is_posix = HasBase(reader, type.address, "PurePosixPath");
  const auto attribute = [&](std::string_view name) { return reader.GetAttribute(object, name); };
  constexpr size_t kMaxParts = 4096;
  const TypeInfo* kept = reader.TypeOf(attribute("_str"));
  std::optional<std::u32string> path;
  if (kept && kept->Is(kUnicodeSubclass)) {
    path = reader.Text(attribute("_str"), out.limits().characters + 1);
  } else if (!is_posix) {
    return false;
  } else if (reader.layout().traits.paths_keep_parts) {
    const auto drive = reader.Text(attribute("_drv"), kMaxText);
    const auto root = reader.Text(attribute("_root"), kMaxText);
    const auto parts = reader.Items(attribute("_parts"), kMaxParts);
    if (!drive || !root || !parts || parts->size() == kMaxParts) return false;
    path = *drive + *root;
    const size_t first = path->empty() ? 0 : 1;
    for (size_t i = first; i < parts->size(); ++i) {
      const auto part = reader.Text((*parts)[i], kMaxText);
      if (!part) return false;
      if (i > first) *path += U'/';
      *path += *part;
    }
  } else {
    // What the path was made of, not taken apart yet. As posixpath.join and _parse_path.
    const auto raw = reader.Items(attribute("_raw_paths"), kMaxParts);
    if (!raw || raw->size() == kMaxParts) return false;
    std::u32string joined;
    for (const uint64_t item : *raw) {
      const auto part = reader.Text(item, out.limits().characters + 1);
      if (!part) return false;
      if (part->starts_with(U'/')) {
        joined = *part;
      } else {
        if (!joined.empty() && !joined.ends_with(U'/')) joined += U'/';
        joined += *part;
      }
    }
    const size_t slashes = std::min(joined.find_first_not_of(U'/'), joined.size());
    path = std::u32string(slashes == 0 ? 0 : slashes == 2 ? 2 : 1, U'/');
    bool is_first = true;
    for (size_t begin = slashes; begin < joined.size();) {
      const size_t end = std::min(joined.find(U'/', begin), joined.size());
      const std::u32string part = joined.substr(begin, end - begin);
      begin = end + 1;
      if (part.empty() || part == U".") continue;
      if (!is_first) *path += U'/';
      is_first = false;
      *path += part;
    }
  }
  if (!path) return false;
  if (path->empty()) *path = U".";
  if (!is_posix) std::replace(path->begin(), path->end(), U'\\', U'/');
  out.Add(fmt::format("{}({})", type.short_name(), ReprOfText(*path)));
  return true;
}

bool PrintUuid(ObjectReader& reader, uint64_t object, const TypeInfo& type, ReprWriter& out) {
  const auto number = reader.Unsigned(reader.GetAttribute(object, "int"));
  if (!number) return false;
  const std::string hex = fmt::format("{:016x}{:016x}", static_cast<uint64_t>(*number >> 64),
                                      static_cast<uint64_t>(*number));
  out.Add(fmt::format("{}('{}-{}-{}-{}-{}')", type.short_name(), hex.substr(0, 8), hex.substr(8, 4),
                      hex.substr(12, 4), hex.substr(16, 4), hex.substr(20)));
  return true;
}

bool PrintFraction(ObjectReader& reader, uint64_t object, const TypeInfo& type, ReprWriter& out) {
  const uint64_t numerator = reader.GetAttribute(object, "_numerator");
  const uint64_t denominator = reader.GetAttribute(object, "_denominator");
  if (!reader.TypeOf(numerator) || !reader.TypeOf(denominator)) return false;
  out.Add(fmt::format("{}(", type.short_name()));
  out.Print(numerator);
  out.Add(", ");
  out.Print(denominator);
  out.Add(")");
  return true;
}

// The most common first; equal ones as they were put in.
bool PrintCounter(ObjectReader& reader, uint64_t object, const TypeInfo& type, ReprWriter& out) {
  const auto items = reader.DictItems(object);
  if (!items) return false;
  if (items->empty()) {
    out.Add(fmt::format("{}()", type.short_name()));
    return true;
  }
  std::vector<std::pair<double, size_t>> order;
  for (const auto& [key, value] : *items) {
    // Numbers that a double holds are compared as Python compares them.
    constexpr int64_t kExact = int64_t{1} << 53;
    const auto number = reader.Int(value);
    const auto real = reader.Float(value);
    if ((!number || std::abs(*number) > kExact) && (!real || std::isnan(*real))) return false;
    order.emplace_back(number ? static_cast<double>(*number) : *real, order.size());
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  ObjectReader::Pairs sorted;
  for (const auto& [number, index] : order) sorted.push_back((*items)[index]);
  if (!out.Enter(object, "...")) return true;
  out.Add(fmt::format("{}({{", type.short_name()));
  out.AddPairs(sorted, false);
  out.Add("})");
  out.Leave();
  return true;
}

}  // namespace

bool PrintLibraryObject(ObjectReader& reader, uint64_t object, const TypeInfo& kind,
                        const TypeInfo& type, ReprWriter& out) {
  const Source source{reader, object, kind, type, out};
  const std::string_view name = kind.name;
  if (name == "datetime.timedelta") return PrintTimeDelta(source);
  if (name == "datetime.date") return PrintDate(source);
  if (name == "datetime.datetime") return PrintDateTime(source);
  if (name == "datetime.time") return PrintTime(source);
  if (name == "datetime.timezone") return PrintTimeZone(source);
  if (name == "zoneinfo.ZoneInfo") return PrintZoneInfo(source);
  if (name == "decimal.Decimal") return PrintDecimal(source);
  if (name == "array.array") return PrintArrayObject(source);
  if (name == "memoryview") return PrintMemoryView(source);
  if (name == "dict_keys" || name == "dict_values" || name == "dict_items" ||
      name == "odict_keys" || name == "odict_values" || name == "odict_items") {
    return PrintDictView(source);
  }
  if (name == "_asyncio.Future") return PrintFuture(source, false);
  if (name == "_asyncio.Task") return PrintFuture(source, true);
  return false;
}

bool PrintLibraryClass(ObjectReader& reader, uint64_t object, const TypeInfo& type,
                       ReprWriter& out) {
  const std::string function = ReprFunction(reader, type.address);
  if (function == "enum.Enum.__repr__") return PrintEnum(reader, object, type, false, out);
  if (function == "enum.Flag.__repr__") return PrintEnum(reader, object, type, true, out);
  if (function == "pathlib.PurePath.__repr__" || function == "pathlib._local.PurePath.__repr__") {
    return PrintPath(reader, object, type, out);
  }
  if (function == "torch._tensor.Tensor.__repr__" ||
      function == "torch.nn.parameter.Parameter.__repr__") {
    return PrintTensor(reader, object, type, out);
  }
  if (function == "uuid.UUID.__repr__") return PrintUuid(reader, object, type, out);
  if (function == "fractions.Fraction.__repr__") return PrintFraction(reader, object, type, out);
  if (function == "collections.Counter.__repr__") return PrintCounter(reader, object, type, out);
  return false;
}

bool PrintLibraryType(ObjectReader& reader, uint64_t object, ReprWriter& out) {
  const TypeInfo* type = reader.Type(object);
  const TypeInfo* metatype = reader.TypeOf(object);
  if (!type || !metatype || !metatype->heap()) return false;
  const TypeInfo kept = *type;
  const std::string function = ReprFunction(reader, metatype->address);
  if (function != "enum.EnumMeta.__repr__" && function != "enum.EnumType.__repr__") return false;
  const bool is_flag = reader.layout().traits.flag_classes && HasBase(reader, object, "Flag");
  out.Add(fmt::format("<{} '{}'>", is_flag ? "flag" : "enum", kept.short_name()));
  return true;
}

}  // namespace ttq::python
