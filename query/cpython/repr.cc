// SPDX-License-Identifier: MIT
//
// What Python's repr() would print of an object, read from its memory.

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/number_text.h"
#include "base/text.h"
#include "fmt/core.h"
#include "query/cpython/array_reprs.h"
#include "query/cpython/big_int.h"
#include "query/cpython/frames.h"
#include "query/cpython/library_reprs.h"
#include "query/cpython/objects.h"

namespace ttq::python {

struct ObjectReader::Printer : ReprWriter {
  Printer(ObjectReader& of, const ReprLimits& ends) : reader(of), limits_(ends) {}

  ObjectReader& reader;
  ReprLimits limits_;
  std::string out;
  std::vector<uint64_t> open;  // the containers being printed, outermost first
  bool full = false;           // nothing more is added
  int depth = 0;               // of Print in itself

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
  bool is_full() const override { return full; }

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
    constexpr int kMaxDepth = 64;
    if (depth >= kMaxDepth) return Add("...");
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
    for (int i = 0; base && !by_c(*base) && base->base != 0 && i < kMaxLevelsOfBases; ++i) {
      base = reader.Type(base->base);
    }
    if (base && base->name != "object") {
      const TypeInfo builtin = *base;
      // Sets and exceptions print the name of the class themselves.
      const bool own_repr = type.repr != builtin.repr && !type.Is(kExceptionSubclass) &&
                            builtin.name != "set" && builtin.name != "frozenset";
      if (own_repr) Add(fmt::format("{}(", type.short_name()));
      if (PrintBuiltin(object, builtin, own_repr ? builtin : type)) {
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
    for (int i = 0; base->base != 0 && i < kMaxLevelsOfBases; ++i) {
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
      const auto value = ReadBigInt(memory(), layout(), object, &total);
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
    if (name.starts_with("numpy.")) return PrintNumpy(reader, object, name, type, *this);
    return PrintOther(object, kind, type);
  }

  bool PrintInt(uint64_t object, const TypeInfo& type) {
    uint64_t total;
    const auto number = ReadBigInt(memory(), layout(), object, &total);
    if (!number) return Unreadable(object, type), true;
    if (total > kMaxDigits) {
      return Add(fmt::format("<int of {} bits at {:#x}>", total * 30, object)), true;
    }
    return Add(Decimal(*number)), true;
  }

  bool PrintComplex(uint64_t object, const TypeInfo& type) {
    double parts[2];
    if (!memory().Read(object + layout().float_value, sizeof parts, parts)) {
      return Unreadable(object, type), true;
    }
    return Add(ComplexText(parts[0], parts[1])), true;
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
      const bool as_dict = layout().traits.ordered_dicts_as_dicts;
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
      if (!l.traits.method_wrappers_show) return false;
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
    FrameReader frames(&reader);
    Frame read;
    const FrameReader::Kind kind =
        frames.ReadFrame(FrameOfObject(layout(), memory(), object), &read);
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
};

std::string ObjectReader::Repr(uint64_t object, const ReprLimits& limits) {
  Printer printer(*this, limits);
  printer.Print(object);
  if (printer.full) printer.out += "...(truncated)";
  return std::move(printer.out);
}

}  // namespace ttq::python
