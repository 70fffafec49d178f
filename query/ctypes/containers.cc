// SPDX-License-Identifier: MIT
//
// libstdc++'s containers, taken apart by the names of their members (GCC 5 and later). Summaries
// are worded as libstdc++'s own printers for gdb word them. Nodes are followed through untrusted
// memory: never more of them than the container says it has, nor than `most`.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/number_text.h"
#include "base/text.h"
#include "query/ctypes/render.h"

namespace ttq {
namespace {

using View = ContainerView;
using MaybeView = absl::StatusOr<std::optional<ContainerView>>;

// No honest container is larger than what can be addressed.
constexpr uint64_t kMaxItems = uint64_t{1} << 40;
constexpr uint64_t kMaxString = 1 << 20;
constexpr std::string_view kStdString =
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";

bool Consume(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

class ContainerReader {
 public:
  ContainerReader(const ValueReader& reader, const CValue& value, const CType* type, size_t most)
      : reader_(reader), value_(value), type_(type), most_(most) {}

  MaybeView ReadElements() {
    std::string_view name = type_->name;
    if (!Consume(&name, "std::")) return std::nullopt;
    if (name == "any") return Any();
    Consume(&name, "filesystem::");
    for (const std::string_view inner : {"__cxx11::", "__1::", "__debug::", "__cxx1998::"}) {
      Consume(&name, inner);
    }
    const auto is = [&name](std::string_view wanted) {
      return name.starts_with(wanted) && name.size() > wanted.size() && name[wanted.size()] == '<';
    };
    if (name == "path") return PathName();
    if (is("basic_string")) return String("_M_dataplus._M_p", "_M_string_length");
    if (is("basic_string_view")) return String("_M_str", "_M_len");
    if (is("vector")) return Vector();
    if (is("map") || is("multimap") || is("set") || is("multiset")) {
      return Tree(name.substr(0, name.find('<')));
    }
    if (is("unordered_map") || is("unordered_multimap") || is("unordered_set") ||
        is("unordered_multiset")) {
      return Hash(name.substr(0, name.find('<')));
    }
    if (is("unique_ptr")) return Unique();
    if (is("shared_ptr") || is("weak_ptr")) return Shared(name.substr(0, name.find('<')));
    if (is("optional")) return Optional();
    if (is("variant")) return Variant();
    if (is("tuple")) return Tuple();
    if (is("bitset")) return Bitset();
    if (is("list")) return ListOf();
    if (is("forward_list")) return ForwardList();
    if (is("deque")) return Deque();
    if (is("stack") || is("queue") || is("priority_queue")) {
      return Wrapped(name.substr(0, name.find('<')));
    }
    if (is("initializer_list")) return Range("initializer_list", "_M_array", "_M_len");
    if (is("span")) return Range("span", "_M_ptr", "_M_extent._M_extent_value");
    if (is("atomic")) return Atomic();
    return std::nullopt;
  }

 private:
  // The number at a path; false when it is not there or not known.
  bool Number(const CValue& object, std::string_view path, uint64_t* out) {
    absl::StatusOr<std::optional<CValue>> member = reader_.Path(object, path);
    if (!KeepError(member.status()) || !*member) return false;
    absl::StatusOr<std::optional<uint64_t>> n = reader_.Number(**member);
    if (!KeepError(n.status()) || !*n) return false;
    *out = **n;
    return true;
  }
  bool KeepError(const absl::Status& status) {
    if (!status.ok() && status_.ok()) status_ = status;
    return status.ok();
  }
  bool Word(uint64_t address, uint64_t* out) {
    absl::StatusOr<std::optional<uint64_t>> n = reader_.moment()->ReadNumber(Address(address), 8);
    if (!KeepError(n.status()) || !*n) return false;
    *out = **n;
    return true;
  }
  MaybeView Nothing() {
    if (!status_.ok()) return status_;
    return std::nullopt;
  }
  CValue At(uint64_t address, const CType* type) {
    CValue v;
    v.in_memory = true;
    v.address = address;
    v.type = type;
    v.past = value_.past;
    return v;
  }
  uint64_t AlignOf(const CType* type, int depth = 0) {
    type = reader_.types().Complete(type);
    if (depth > 16) return 8;
    if (type->IsRecord()) {
      uint64_t align = 1;
      for (const CMember& m : type->members) {
        if (!m.is_static) align = std::max(align, AlignOf(type->At(m.type), depth + 1));
      }
      return align;
    }
    if (type->kind == CType::Kind::kArray) return AlignOf(type->target(), depth + 1);
    return std::clamp<uint64_t>(type->Size().value_or(8), 1, 16);
  }
  // A node's value follows `header` bytes, aligned as its type wants.
  uint64_t After(uint64_t header, const CType* type) {
    const uint64_t align = AlignOf(type);
    return (header + align - 1) / align * align;
  }
  const CType* TemplateType(const CType* type, size_t index) {
    type = reader_.types().Complete(type);
    return index < type->template_types.size() ? type->At(type->template_types[index].second)
                                               : nullptr;
  }
  std::string TemplateName(size_t index) {
    const CType* type = TemplateType(type_, index);
    return type ? NameOf(type) : "";
  }
  static std::string NameOf(const CType* type) {
    const std::string text = ToText(type);
    return text == kStdString ? "std::string" : text;
  }

  MaybeView String(std::string_view start, std::string_view count) {
    uint64_t at = 0, length = 0;
    if (!Number(value_, start, &at) || !Number(value_, count, &length) || length > kMaxItems) {
      return Nothing();
    }
    const CType* element = TemplateType(type_, 0);
    View view;
    view.kind = View::Kind::kString;
    if (element) view.character = CharacterTypeOf(element);
    if (view.character.bytes == 0) return Nothing();
    const uint64_t shown = std::min<uint64_t>({length, std::max<size_t>(most_, 1), kMaxString});
    const uint64_t size = shown * view.character.bytes;
    view.text.resize(size);
    absl::StatusOr<uint64_t> got = reader_.moment()->Read(Address(at), size, view.text.data());
    if (!KeepError(got.status()) || *got < size) return Nothing();
    view.cut = shown < length;
    view.items.push_back({std::nullopt, At(at, element)});
    return view;
  }

  MaybeView PathName() {
    absl::StatusOr<std::optional<CValue>> text = reader_.Path(value_, "_M_pathname");
    if (!KeepError(text.status()) || !*text) return Nothing();
    MaybeView view = ViewContainer(reader_, **text, most_);
    if (view.ok() && *view) (*view)->summary = "filesystem::path ";
    return view;
  }

  MaybeView Vector() {
    const CType* element = TemplateType(type_, 0);
    uint64_t begin = 0, end = 0, limit = 0;
    if (!element) return Nothing();
    if (element->Strip()->kind == CType::Kind::kBool) return BoolVector();
    if (!Number(value_, "_M_impl._M_start", &begin) || !Number(value_, "_M_impl._M_finish", &end) ||
        !Number(value_, "_M_impl._M_end_of_storage", &limit)) {
      return Nothing();
    }
    const uint64_t step = reader_.types().SizeOf(element).value_or(0);
    if (step == 0 || end < begin || limit < end || (end - begin) % step != 0) return Nothing();
    View view;
    const uint64_t count = (end - begin) / step;
    view.summary = Cat("std::vector of length ", count, ", capacity ", (limit - begin) / step);
    for (uint64_t i = 0; i < count && i < most_; ++i) {
      view.items.push_back({std::nullopt, At(begin + i * step, element)});
    }
    view.cut = view.items.size() < count;
    return view;
  }

  MaybeView BoolVector() {
    uint64_t begin = 0, end = 0, bit = 0, limit = 0;
    if (!Number(value_, "_M_impl._M_start._M_p", &begin) ||
        !Number(value_, "_M_impl._M_finish._M_p", &end) ||
        !Number(value_, "_M_impl._M_finish._M_offset", &bit) ||
        !Number(value_, "_M_impl._M_end_of_storage", &limit) || end < begin || bit > 64) {
      return Nothing();
    }
    View view;
    const uint64_t count = (end - begin) * 8 + bit;
    view.summary = Cat("std::vector<bool> of length ", count, ", capacity ",
                       limit < begin ? 0 : (limit - begin) * 8);
    for (uint64_t i = 0; i < count && i < most_; ++i) {
      CValue item = At(begin + i / 8, BuiltinType("bool"));
      item.bit_offset = i % 8;
      item.bit_size = 1;
      view.items.push_back({std::nullopt, std::move(item)});
    }
    view.cut = view.items.size() < count;
    return view;
  }

  // Adds a node's value: a pair is a key and a value in a map, else an item.
  bool AddNode(View* view, CValue item, bool is_map) {
    if (!is_map) {
      view->items.push_back({std::nullopt, std::move(item)});
      return true;
    }
    absl::StatusOr<std::optional<CValue>> key = reader_.Path(item, "first"),
                                          mapped = reader_.Path(item, "second");
    if (!KeepError(key.status()) || !KeepError(mapped.status()) || !*key || !*mapped) return false;
    view->items.push_back({*std::move(key), **std::move(mapped)});
    return true;
  }

  MaybeView Tree(std::string_view name) {
    absl::StatusOr<std::optional<CValue>> tree = reader_.Path(value_, "_M_t");
    if (!KeepError(tree.status()) || !*tree) return Nothing();
    const CType* element = TemplateType((*tree)->type, 1);
    absl::StatusOr<std::optional<CValue>> header = reader_.Path(**tree, "_M_impl._M_header");
    uint64_t count = 0, node = 0;
    if (!element || !KeepError(header.status()) || !*header || !(*header)->in_memory ||
        !Number(**tree, "_M_impl._M_node_count", &count) || !Number(**header, "_M_left", &node) ||
        count > kMaxItems) {
      return Nothing();
    }
    const uint64_t end = (*header)->address;
    const bool is_map = name.ends_with("map");
    View view;
    view.kind = is_map ? View::Kind::kMap : View::Kind::kSequence;
    view.numbered = true;
    view.summary = Cat("std::", name, " with ", count, count == 1 ? " element" : " elements");
    // _Rb_tree_node_base: colour, parent, left, right.
    const uint64_t offset = After(32, element);
    for (uint64_t i = 0; i < count && i < most_ && node != end; ++i) {
      if (!AddNode(&view, At(node + offset, element), is_map)) return Nothing();
      if (!Successor(&node)) return Nothing();
    }
    view.cut = view.items.size() < count;
    return view;
  }

  // The next node in order; false for a tree that is damaged.
  bool Successor(uint64_t* node) {
    constexpr int kMaxHeight = 128;
    uint64_t next = 0;
    if (!Word(*node + 24, &next)) return false;
    if (next != 0) {
      for (int i = 0; i < kMaxHeight; ++i) {
        *node = next;
        if (!Word(*node + 16, &next)) return false;
        if (next == 0) return true;
      }
      return false;
    }
    uint64_t parent = 0, right = 0;
    if (!Word(*node + 8, &parent)) return false;
    for (int i = 0; i < kMaxHeight; ++i) {
      if (!Word(parent + 24, &right)) return false;
      if (right != *node) {
        *node = parent;
        return true;
      }
      *node = parent;
      if (!Word(*node + 8, &parent)) return false;
    }
    return false;
  }

  MaybeView Hash(std::string_view name) {
    absl::StatusOr<std::optional<CValue>> table = reader_.Path(value_, "_M_h");
    if (!KeepError(table.status()) || !*table) return Nothing();
    const CType* element = TemplateType((*table)->type, 1);
    uint64_t count = 0, node = 0;
    if (!element || !Number(**table, "_M_element_count", &count) ||
        !Number(**table, "_M_before_begin._M_nxt", &node) || count > kMaxItems) {
      return Nothing();
    }
    const bool is_map = name.ends_with("map");
    View view;
    view.kind = is_map ? View::Kind::kMap : View::Kind::kSequence;
    view.numbered = true;
    view.summary = Cat("std::", name, " with ", count, count == 1 ? " element" : " elements");
    const uint64_t offset = After(8, element);
    for (uint64_t i = 0; i < count && i < most_ && node != 0; ++i) {
      if (!AddNode(&view, At(node + offset, element), is_map)) return Nothing();
      if (!Word(node, &node)) return Nothing();
    }
    view.cut = view.items.size() < count;
    return view;
  }

  // The first item of a tuple of a pointer and a deleter.
  MaybeView Unique() {
    absl::StatusOr<std::optional<CValue>> tuple = reader_.Path(value_, "_M_t._M_t");
    if (!KeepError(tuple.status())) return Nothing();
    if (!*tuple) tuple = reader_.Path(value_, "_M_t");  // of GCC 6 and before
    if (!KeepError(tuple.status()) || !*tuple) return Nothing();
    const std::optional<CValue> items = BaseNamed(**tuple, "std::_Tuple_impl<");
    const std::optional<CValue> first =
        items ? BaseNamed(*items, "std::_Head_base<") : std::nullopt;
    if (!first) return Nothing();
    absl::StatusOr<std::optional<CValue>> pointer = reader_.Path(*first, "_M_head_impl");
    if (!KeepError(pointer.status()) || !*pointer || !(*pointer)->type->IsPointer())
      return Nothing();
    View view;
    view.kind = View::Kind::kPointer;
    view.summary = Cat("std::unique_ptr<", TemplateName(0), ">");
    view.items.push_back({std::nullopt, **std::move(pointer)});
    return view;
  }

  MaybeView Shared(std::string_view name) {
    absl::StatusOr<std::optional<CValue>> pointer = reader_.Path(value_, "_M_ptr");
    absl::StatusOr<std::optional<CValue>> count = reader_.Path(value_, "_M_refcount._M_pi");
    if (!KeepError(pointer.status()) || !KeepError(count.status()) || !*pointer || !*count)
      return Nothing();
    View view;
    view.kind = View::Kind::kPointer;
    view.summary = Cat("std::", name, "<", TemplateName(0), ">");
    absl::StatusOr<std::optional<uint64_t>> block = reader_.Number(**count);
    if (!KeepError(block.status()) || !*block) return Nothing();
    if (**block == 0) {
      Append(&view.summary, " (empty)");
    } else {
      absl::StatusOr<CValue> target = reader_.Target(**count);
      uint64_t use = 0, weak = 0;
      if (!KeepError(target.status()) || !Number(*target, "_M_use_count", &use) ||
          !Number(*target, "_M_weak_count", &weak)) {
        return Nothing();
      }
      const auto strong = static_cast<int64_t>(use);
      Append(&view.summary, strong > 0 ? " (use count " : " (expired, use count ", strong,
             ", weak count ", static_cast<int64_t>(weak) - (strong > 0 ? 1 : 0), ")");
    }
    view.items.push_back({std::nullopt, **std::move(pointer)});
    return view;
  }

  MaybeView Optional() {
    uint64_t engaged = 0;
    if (!Number(value_, "_M_payload._M_engaged", &engaged)) return Nothing();
    View view;
    view.kind = View::Kind::kOptional;
    view.summary = Cat("std::optional<", TemplateName(0), ">");
    if (engaged == 0) {
      Append(&view.summary, " [no contained value]");
      return view;
    }
    absl::StatusOr<std::optional<CValue>> held =
        reader_.Path(value_, "_M_payload._M_payload._M_value");
    if (!KeepError(held.status()) || !*held) return Nothing();
    view.items.push_back({std::nullopt, **std::move(held)});
    return view;
  }

  MaybeView Variant() {
    const CType* type = reader_.types().Complete(value_.type);
    uint64_t index = 0;
    if (!Number(value_, "_M_index", &index)) return Nothing();
    View view;
    view.kind = View::Kind::kVariant;
    view.summary = "std::variant<";
    for (size_t i = 0; i < type->template_types.size(); ++i) {
      Append(&view.summary, i > 0 ? ", " : "", TemplateName(i));
    }
    Append(&view.summary, ">");
    if (index >= type->template_types.size()) {  // all ones: valueless by an exception
      Append(&view.summary, " [no contained value]");
      return view;
    }
    Append(&view.summary, " [index ", index, "]");
    // A union of all of them, each at its beginning.
    absl::StatusOr<std::optional<CValue>> held = reader_.Path(value_, "_M_u");
    if (!KeepError(held.status()) || !*held) return Nothing();
    view.items.push_back({std::nullopt, reader_.Part(**held, TemplateType(type_, index), 0)});
    return view;
  }

  // A _Tuple_impl holds its first item in a base, and the others in another _Tuple_impl.
  MaybeView Tuple() {
    View view;
    view.summary = "std::tuple containing";
    view.numbered = true;
    view.first = 1;  // as gdb counts
    std::optional<CValue> rest = BaseNamed(value_, "std::_Tuple_impl<");
    while (rest && view.items.size() < most_) {
      const std::optional<CValue> head = BaseNamed(*rest, "std::_Head_base<");
      if (!head) return Nothing();
      absl::StatusOr<std::optional<CValue>> item = reader_.Path(*head, "_M_head_impl");
      if (!KeepError(item.status())) return Nothing();
      // An empty class is a base instead.
      if (!*item) *item = BaseNamed(*head, "");
      if (!*item) return Nothing();
      view.items.push_back({std::nullopt, **std::move(item)});
      rest = BaseNamed(*rest, "std::_Tuple_impl<");
    }
    view.cut = rest.has_value();
    if (view.items.empty()) return Nothing();
    return view;
  }

  // The first base class whose name begins so.
  std::optional<CValue> BaseNamed(const CValue& object, std::string_view prefix) {
    const CType* type = reader_.types().Complete(object.type);
    for (const CMember& member : type->members) {
      if (!member.is_base) continue;
      absl::StatusOr<CValue> base = reader_.MemberOf(object, member);
      if (!KeepError(base.status())) return std::nullopt;
      if (reader_.types().Complete(base->type)->name.starts_with(prefix)) return *std::move(base);
    }
    return std::nullopt;
  }

  MaybeView Bitset() {
    absl::StatusOr<std::optional<CValue>> words = reader_.Path(value_, "_M_w");
    if (!KeepError(words.status()) || !*words) return Nothing();
    absl::StatusOr<LoadedValue> loaded = reader_.Load(**words);
    if (!KeepError(loaded.status()) || !loaded->complete()) return Nothing();
    View view;
    view.kind = View::Kind::kMap;
    view.summary = "std::bitset";
    for (uint64_t i = 0; i < loaded->bytes.size() * 8; ++i) {
      if ((loaded->bytes[i / 8] >> (i % 8) & 1) == 0) continue;
      if (view.items.size() == most_) {
        view.cut = true;
        break;
      }
      CValue key, one;
      key.type = one.type = BuiltinType("int");
      for (int at = 0; at < 4; ++at) {
        key.bytes += static_cast<char>(i >> (8 * at));
        one.bytes += static_cast<char>(at == 0);
      }
      view.items.push_back({std::move(key), std::move(one)});
    }
    return view;
  }

  MaybeView ListOf() {
    const CType* element = TemplateType(type_, 0);
    absl::StatusOr<std::optional<CValue>> head = reader_.Path(value_, "_M_impl._M_node");
    uint64_t node = 0;
    if (!element || !KeepError(head.status()) || !*head || !(*head)->in_memory ||
        !Number(**head, "_M_next", &node)) {
      return Nothing();
    }
    View view;
    view.numbered = true;
    view.summary = node == (*head)->address ? "empty std::__cxx11::list" : "std::__cxx11::list";
    const uint64_t offset = After(16, element);
    while (node != (*head)->address && view.items.size() < most_) {
      view.items.push_back({std::nullopt, At(node + offset, element)});
      if (!Word(node, &node)) return Nothing();
    }
    view.cut = node != (*head)->address;
    return view;
  }

  MaybeView ForwardList() {
    const CType* element = TemplateType(type_, 0);
    uint64_t node = 0;
    if (!element || !Number(value_, "_M_impl._M_head._M_next", &node)) return Nothing();
    View view;
    view.numbered = true;
    view.summary = node == 0 ? "empty std::forward_list" : "std::forward_list";
    const uint64_t offset = After(8, element);
    while (node != 0 && view.items.size() < most_) {
      view.items.push_back({std::nullopt, At(node + offset, element)});
      if (!Word(node, &node)) return Nothing();
    }
    view.cut = node != 0;
    return view;
  }

  // An adapter, by what it adapts.
  MaybeView Wrapped(std::string_view name) {
    absl::StatusOr<std::optional<CValue>> inner = reader_.Path(value_, "c");
    if (!KeepError(inner.status()) || !*inner) return Nothing();
    MaybeView view = ViewContainer(reader_, **inner, most_);
    if (view.ok() && *view) {
      (*view)->summary = Cat("std::", name, " wrapping: ", (*view)->summary);
    }
    return view;
  }

  // Items that lie somewhere else.
  MaybeView Range(std::string_view name, std::string_view start, std::string_view length) {
    const CType* element = TemplateType(type_, 0);
    uint64_t at = 0, count = 0;
    const uint64_t step = element ? reader_.types().SizeOf(element).value_or(0) : 0;
    if (step == 0 || !Number(value_, start, &at)) return Nothing();
    if (!Number(value_, length, &count)) {
      if (!status_.ok()) return status_;
      // A span of fixed size has it in its type only: std::span<int, 3>.
      const std::string& type = type_->name;
      const size_t comma = type.rfind(", ");
      if (comma == std::string::npos || comma + 2 >= type.size() || !IsDigit(type[comma + 2])) {
        return Nothing();
      }
      count = std::strtoull(type.c_str() + comma + 2, nullptr, 10);
    }
    if (count > kMaxItems) return Nothing();
    View view;
    view.summary = Cat("std::", name, " of length ", count);
    for (uint64_t i = 0; i < count && i < most_; ++i) {
      view.items.push_back({std::nullopt, At(at + i * step, element)});
    }
    view.cut = view.items.size() < count;
    return view;
  }

  MaybeView Atomic() {
    View view;
    view.kind = View::Kind::kAtomic;
    view.summary = Cat("std::atomic<", TemplateName(0), ">");
    for (const char* const member : {"_M_i", "_M_base._M_i", "_M_fp", "_M_b._M_p"}) {
      absl::StatusOr<std::optional<CValue>> held = reader_.Path(value_, member);
      if (!KeepError(held.status())) return Nothing();
      if (!*held) continue;
      view.items.push_back({std::nullopt, **std::move(held)});
      return view;
    }
    return Nothing();
  }

  // The type is known by the name of the function that manages it.
  MaybeView Any() {
    uint64_t manager = 0;
    if (!Number(value_, "_M_manager", &manager)) return Nothing();
    View view;
    view.kind = View::Kind::kOptional;
    if (manager == 0) {
      view.summary = "std::any [no contained value]";
      return view;
    }
    const auto function = reader_.types().symbols().FunctionAt(Address(manager));
    if (!function) return Nothing();
    std::string_view name = function->name;
    const bool internal = name.starts_with("std::any::_Manager_internal<");
    if (!Consume(&name, "std::any::_Manager_internal<") &&
        !Consume(&name, "std::any::_Manager_external<")) {
      return Nothing();
    }
    name = name.substr(0, name.rfind(">::_S_manage"));
    const CType* type = reader_.types().Find(name, Address(manager));
    absl::StatusOr<std::optional<CValue>> storage =
        reader_.Path(value_, internal ? "_M_storage._M_buffer" : "_M_storage._M_ptr");
    if (!type || !KeepError(storage.status()) || !*storage) return Nothing();
    CValue held = internal ? reader_.Part(**storage, type, 0) : CValue();
    if (!internal) {
      absl::StatusOr<std::optional<uint64_t>> at = reader_.Number(**storage);
      if (!KeepError(at.status()) || !*at) return Nothing();
      held = At(**at, type);
    }
    view.summary = Cat("std::any containing ", NameOf(type));
    view.items.push_back({std::nullopt, std::move(held)});
    return view;
  }

  MaybeView Deque() {
    const CType* element = TemplateType(type_, 0);
    uint64_t at = 0, last = 0, node = 0, end = 0, end_node = 0, end_first = 0;
    const uint64_t step = element ? reader_.types().SizeOf(element).value_or(0) : 0;
    if (step == 0 || !Number(value_, "_M_impl._M_start._M_cur", &at) ||
        !Number(value_, "_M_impl._M_start._M_last", &last) ||
        !Number(value_, "_M_impl._M_start._M_node", &node) ||
        !Number(value_, "_M_impl._M_finish._M_cur", &end) ||
        !Number(value_, "_M_impl._M_finish._M_first", &end_first) ||
        !Number(value_, "_M_impl._M_finish._M_node", &end_node) || end_node < node) {
      return Nothing();
    }
    const uint64_t per_node = step < 512 ? 512 / step : 1;
    const uint64_t count = node == end_node
                               ? (end - at) / step
                               : (last - at) / step + ((end_node - node) / 8 - 1) * per_node +
                                     (end - end_first) / step;
    if (count > kMaxItems) return Nothing();
    View view;
    view.summary = Cat("std::deque with ", count, count == 1 ? " element" : " elements");
    while (at != end && view.items.size() < most_ && view.items.size() < count) {
      view.items.push_back({std::nullopt, At(at, element)});
      at += step;
      if (at == last) {
        node += 8;
        if (!Word(node, &at)) return Nothing();
        last = at + per_node * step;
      }
    }
    view.cut = view.items.size() < count;
    return view;
  }

  const ValueReader& reader_;
  const CValue& value_;
  const CType* type_;
  size_t most_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::optional<ContainerView>> ViewContainer(const ValueReader& reader,
                                                           const CValue& value, size_t most) {
  const CType* type = reader.types().Complete(value.type);
  if (type->kind != CType::Kind::kStruct || !type->name.starts_with("std::")) return std::nullopt;
  return ContainerReader(reader, value, type, most).ReadElements();
}

}  // namespace ttq
