// SPDX-License-Identifier: MIT

#include "query/cpython/exceptions.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "fmt/core.h"

namespace ttq::python {
namespace {

constexpr size_t kMaxChain = 32, kMaxMembers = 1000;
constexpr int kMaxLevels = 8;

// Fields of the built-in classes stand behind PyException_HEAD, whose last is a byte
// (Include/cpython/pyerrors.h).
uint64_t Field(const Layout& layout, uint64_t object, int number) {
  return object + static_cast<uint64_t>(layout.exception_cause) + 16 +
         8 * static_cast<uint64_t>(number);
}

class TextReader {
 public:
  explicit TextReader(ObjectReader& objects) : objects_(objects) {}

  // str() of any object.
  std::string StrOf(uint64_t object, int level) {
    const TypeInfo* type = objects_.TypeOf(object);
    if (type && type->Is(kUnicodeSubclass)) {
      return objects_.Str(object, 1 << 14).value_or("?");
    }
    if (type && type->Is(kExceptionSubclass) && level < kMaxLevels) {
      return MessageOf(*type, object, level + 1);
    }
    return objects_.Repr(object);
  }

  std::string MessageOf(const TypeInfo& type, uint64_t object, int level) {
    const Layout& layout = objects_.layout();
    const auto field = [&](int number) {
      return objects_.memory().Pointer(Field(layout, object, number));
    };
    const auto is = [&](std::string_view name) { return objects_.Inherits(type, name); };
    const uint64_t args = objects_.memory().Pointer(object + layout.exception_args);
    if (is("OSError") && IsSet(field(1))) {
      std::string text =
          fmt::format("[Errno {}] {}", StrOf(field(0), level), StrOf(field(1), level));
      if (field(2) != 0) absl::StrAppend(&text, ": ", objects_.Repr(field(2)));
      if (field(2) != 0 && field(3) != 0) absl::StrAppend(&text, " -> ", objects_.Repr(field(3)));
      return text;
    }
    if (is("ImportError") && IsSet(field(0))) return StrOf(field(0), level);
    if (is("SyntaxError")) {
      return SyntaxMessage(field(0), field(1), field(2), level);
    }
    if (is("UnicodeError") && (is("UnicodeDecodeError") || is("UnicodeEncodeError"))) {
      return CodecMessage(object, is("UnicodeDecodeError"), level);
    }
    if (is("BaseExceptionGroup")) {
      const auto members = objects_.Items(field(1));
      const size_t n = members ? members->size() : 0;
      return fmt::format("{} ({} sub-exception{})", StrOf(field(0), level), n, n == 1 ? "" : "s");
    }
    return OfArguments(args, is("KeyError"), level);
  }

  // SyntaxError_str in Objects/exceptions.c.
  std::string SyntaxMessage(uint64_t message, uint64_t file_name, uint64_t line_number, int level) {
    std::string text = message != 0 ? StrOf(message, level) : "None";
    const auto line = objects_.Int(line_number);
    auto file = objects_.Str(file_name);
    if (file) file->erase(0, file->rfind('/') + 1);
    if (file && line) return fmt::format("{} ({}, line {})", text, *file, *line);
    if (file) return fmt::format("{} ({})", text, *file);
    return line ? fmt::format("{} (line {})", text, *line) : text;
  }

  std::string OfArguments(uint64_t args, bool is_key_error, int level) {
    const auto items = objects_.Items(args, 1 << 10);
    if (!items) return "";
    if (items->empty()) return "";
    if (items->size() > 1) return objects_.Repr(args);
    return is_key_error ? objects_.Repr(items->front()) : StrOf(items->front(), level);
  }

 private:
  bool IsSet(uint64_t object) {
    const TypeInfo* type = object == 0 ? nullptr : objects_.TypeOf(object);
    return type && type->name != "NoneType";
  }

  // UnicodeDecodeError_str and UnicodeEncodeError_str in Objects/exceptions.c.
  std::string CodecMessage(uint64_t object, bool decodes, int level) {
    const Layout& layout = objects_.layout();
    Memory& memory = objects_.memory();
    const auto field = [&](int n) { return memory.Pointer(Field(layout, object, n)); };
    const std::string encoding = StrOf(field(0), level), reason = StrOf(field(4), level);
    const auto start = static_cast<int64_t>(field(2)), end = static_cast<int64_t>(field(3));
    std::string what;
    if (decodes) {
      const auto bytes = objects_.BytesOf(field(1));
      if (bytes && start >= 0 && end == start + 1 && start < static_cast<int64_t>(bytes->size())) {
        return fmt::format("'{}' codec can't decode byte 0x{:02x} in position {}: {}", encoding,
                           static_cast<uint8_t>((*bytes)[static_cast<size_t>(start)]), start,
                           reason);
      }
      what = "decode bytes";
    } else {
      const auto text = objects_.Text(field(1));
      if (text && start >= 0 && end == start + 1 && start < static_cast<int64_t>(text->size())) {
        const std::string name = EscapeOf((*text)[static_cast<size_t>(start)]);
        return fmt::format("'{}' codec can't encode character '{}' in position {}: {}", encoding,
                           name, start, reason);
      }
      what = "encode characters";
    }
    return fmt::format("'{}' codec can't {} in position {}-{}: {}", encoding, what, start, end - 1,
                       reason);
  }

  ObjectReader& objects_;
};

// A class of exceptions by the name that a traceback prints.
std::string TypeNameOf(ObjectReader& objects, const TypeInfo& type) {
  const std::string name = objects.FullTypeName(type);
  constexpr std::string_view kMain = "__main__.";
  return name.starts_with(kMain) ? name.substr(kMain.size()) : name;
}

// Whether str() runs Python code.
bool HasOwnText(ObjectReader& objects, uint64_t object) {
  const TypeInfo* found = objects.TypeOf(objects.GetAttribute(object, "__str__"));
  return found && found->name == "function";
}

RelatedException ReadRelated(FrameReader& frames, uint64_t object, std::string relation) {
  ObjectReader& objects = frames.objects();
  RelatedException related;
  related.relation = std::move(relation);
  related.object = object;
  const uint64_t type =
      objects.memory().Pointer(object + static_cast<uint64_t>(objects.layout().object_type));
  related.text = ReadException(objects, type, object);
  const uint64_t traceback = objects.memory().Pointer(
      object + static_cast<uint64_t>(objects.layout().exception_traceback));
  const std::vector<TracebackEntry> entries = ReadTraceback(frames, traceback);
  if (!entries.empty()) related.raised = entries.back();
  return related;
}

std::vector<RelatedException> ReadMembers(FrameReader& frames, uint64_t object, int level) {
  ObjectReader& objects = frames.objects();
  std::vector<RelatedException> members;
  const TypeInfo* type = objects.TypeOf(object);
  if (!type || level > kMaxLevels || !objects.Inherits(*type, "BaseExceptionGroup")) return members;
  const auto items =
      objects.Items(objects.memory().Pointer(Field(objects.layout(), object, 1)), kMaxMembers);
  if (!items) return members;
  for (const uint64_t item : *items) {
    members.push_back(ReadRelated(frames, item, ""));
    members.back().members = ReadMembers(frames, item, level + 1);
  }
  return members;
}

}  // namespace

std::vector<TracebackEntry> ReadTraceback(FrameReader& frames, uint64_t traceback, size_t most) {
  ObjectReader& objects = frames.objects();
  Memory& memory = objects.memory();
  const Layout& layout = frames.layout();
  std::vector<TracebackEntry> entries;
  absl::flat_hash_set<uint64_t> seen;
  for (uint64_t at = traceback; at != 0 && entries.size() < most && seen.insert(at).second;
       at = memory.Pointer(at + layout.traceback_next)) {
    const TypeInfo* type = objects.TypeOf(at);
    if (!type || type->name != "traceback") break;
    Frame frame;
    frames.ReadFrame(FrameOfObject(layout, memory, memory.Pointer(at + layout.traceback_frame)),
                     &frame);
    TracebackEntry entry;
    if (frame.code) {
      entry.function = frame.code->qualname;
      entry.file = frame.code->filename;
      entry.line = memory.Get<int32_t>(at + layout.traceback_lineno).value_or(0);
      // From 3.12 on it is worked out when somebody asks.
      if (entry.line <= 0) {
        const int64_t lasti = memory.Get<int32_t>(at + layout.traceback_lasti).value_or(0);
        entry.line = LineAt(layout, *frame.code, lasti);
      }
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

ExceptionText ReadException(ObjectReader& objects, uint64_t type, uint64_t value) {
  ExceptionText text;
  TextReader reader(objects);
  const TypeInfo* found = value == 0 ? nullptr : objects.TypeOf(value);
  if (found && found->Is(kExceptionSubclass)) {
    const TypeInfo info = *found;
    text.type = TypeNameOf(objects, info);
    text.own_text = HasOwnText(objects, value);
    if (text.own_text) {
      const uint64_t args =
          objects.memory().Pointer(value + static_cast<uint64_t>(objects.layout().exception_args));
      text.message = reader.OfArguments(args, false, 0);
    } else {
      text.message = reader.MessageOf(info, value, 0);
    }
    return text;
  }
  // PyErr_NormalizeException would call the type with it.
  const TypeInfo* made = objects.Type(type);
  text.type = made ? TypeNameOf(objects, *made) : "?";
  if (!found || found->name == "NoneType") return text;
  const auto is = [&](std::string_view name) { return made && objects.Inherits(*made, name); };
  if (!found->Is(kTupleSubclass)) {
    text.message = is("KeyError") ? objects.Repr(value) : reader.StrOf(value, 0);
    return text;
  }
  const auto items = objects.Items(value, 16);
  if (is("OSError") && items && items->size() >= 2) {
    text.message =
        fmt::format("[Errno {}] {}", reader.StrOf((*items)[0], 0), reader.StrOf((*items)[1], 0));
    if (items->size() > 2) absl::StrAppend(&text.message, ": ", objects.Repr((*items)[2]));
  } else if (is("SyntaxError") && items && items->size() == 2) {
    const auto at = objects.Items((*items)[1], 16);
    text.message = at && at->size() >= 2 ? reader.SyntaxMessage((*items)[0], (*at)[0], (*at)[1], 0)
                                         : reader.StrOf((*items)[0], 0);
  } else {
    text.message = reader.OfArguments(value, is("KeyError"), 0);
  }
  return text;
}

std::vector<RelatedException> ChainOf(FrameReader& frames, uint64_t object) {
  ObjectReader& objects = frames.objects();
  Memory& memory = objects.memory();
  const Layout& layout = objects.layout();
  std::vector<RelatedException> chain;
  absl::flat_hash_set<uint64_t> seen = {object};
  const auto is_exception = [&](uint64_t at) {
    const TypeInfo* type = at == 0 ? nullptr : objects.TypeOf(at);
    return type && type->Is(kExceptionSubclass);
  };
  while (is_exception(object) && chain.size() < kMaxChain) {
    const uint64_t cause = memory.Pointer(object + layout.exception_cause);
    const uint64_t context = memory.Pointer(object + layout.exception_context);
    const bool suppressed =
        memory.Get<uint8_t>(object + static_cast<uint64_t>(layout.exception_cause) + 8) != 0;
    const uint64_t next = cause != 0 ? cause : context;
    if (!is_exception(next) || !seen.insert(next).second) break;
    const bool hidden = cause == 0 && suppressed;
    chain.push_back(ReadRelated(frames, next,
                                cause != 0 ? "cause"
                                : hidden   ? "suppressed context"
                                           : "context"));
    if (hidden) break;
    object = next;
  }
  return chain;
}

std::vector<RelatedException> MembersOf(FrameReader& frames, uint64_t object) {
  return ReadMembers(frames, object, 0);
}

std::optional<HeldException> ReadHeld(Memory& memory, const Layout& layout, uint64_t word,
                                      int words) {
  HeldException held;
  const uint64_t first = memory.Pointer(word);
  if (first == 0) return std::nullopt;
  if (words == 3) {
    held.type = first;
    held.value = memory.Pointer(word + 8);
    held.traceback = memory.Pointer(word + 16);
  } else {
    held.type = memory.Pointer(first + static_cast<uint64_t>(layout.object_type));
    held.value = first;
    held.traceback = memory.Pointer(first + static_cast<uint64_t>(layout.exception_traceback));
  }
  return held;
}

RaisedException ReadRaised(FrameReader& frames, const HeldException& held) {
  ObjectReader& objects = frames.objects();
  const uint64_t value = held.value;
  RaisedException exception;
  exception.text = ReadException(objects, held.type, value);
  const TypeInfo* instance = value == 0 ? nullptr : objects.TypeOf(value);
  if (instance && instance->Is(kExceptionSubclass)) {
    exception.object = value;
    exception.chain = ChainOf(frames, value);
    exception.members = MembersOf(frames, value);
  }
  return exception;
}

std::vector<ExceptionInFlight> ExceptionsInFlight(FrameReader& frames, uint64_t thread_state) {
  constexpr size_t kMaxItems = 1000;  // a generator that is executed has one
  ObjectReader& objects = frames.objects();
  Memory& memory = objects.memory();
  const Layout& layout = frames.layout();
  std::vector<ExceptionInFlight> found;
  const auto add = [&](const HeldException& held, bool is_handled) {
    found.push_back({ReadRaised(frames, held), ReadTraceback(frames, held.traceback), is_handled});
  };
  const auto set =
      ReadHeld(memory, layout, thread_state + static_cast<uint64_t>(layout.thread_exception),
               layout.traits.exception_words);
  if (set) add(*set, false);
  const int words = layout.traits.handled_words;
  uint64_t item = memory.Pointer(thread_state + static_cast<uint64_t>(layout.thread_exc_info));
  for (size_t i = 0; item != 0 && i < kMaxItems; ++i) {
    const auto held = ReadHeld(memory, layout, item, words);
    // None: there was one, and its handler has ended.
    const TypeInfo* type = held ? objects.TypeOf(held->value) : nullptr;
    if (type && type->Is(kExceptionSubclass)) add(*held, true);
    item = memory.Pointer(item + 8 * static_cast<uint64_t>(words));
  }
  return found;
}

}  // namespace ttq::python
