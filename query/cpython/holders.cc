// SPDX-License-Identifier: MIT

#include "query/cpython/holders.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "fmt/core.h"
#include "query/code/symbols.h"
#include "query/cpython/lifetime.h"
#include "query/process/heap.h"

namespace ttq::python {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{2} << 30;
// An object is looked for so far before a word that it may hold, and a block so far before one that
// it may belong to.
constexpr uint64_t kLongestObject = 4096, kLongestBlock = 1 << 16;
// A pointer that stands where a count would is larger.
constexpr int64_t kMaxReferences = 1 << 24;
constexpr size_t kMaxWords = 256;     // that hold one object
constexpr size_t kMaxObjects = 2000;  // looked at on the way to a name
constexpr int kMaxSteps = 10;

// "['name'][3]" as ".name[3]".
std::string AsAttribute(const std::string& path) {
  const size_t end = path.find("']");
  if (!path.starts_with("['") || end == std::string::npos) return path;
  return "." + path.substr(2, end - 2) + path.substr(end + 2);
}

bool IsBuiltin(const TypeInfo& type, std::string_view name) {
  return !type.heap() && type.name == name;
}

// Keeps its frame, or a copy of one, inside itself or beside it.
bool HasFrame(const TypeInfo& type) {
  static constexpr std::string_view kNames[] = {"frame", "generator", "coroutine",
                                                "async_generator"};
  return !type.heap() &&
         std::find(std::begin(kNames), std::end(kNames), type.name) != std::end(kNames);
}

// Has no references but a subclass's attributes. A short str ends before its type's basicsize: what
// lies there was left by an earlier tenant.
bool HoldsNothing(const TypeInfo& type) {
  return type.Is(kUnicodeSubclass) || type.Is(kBytesSubclass) || type.Is(kLongSubclass) ||
         IsBuiltin(type, "float") || IsBuiltin(type, "complex");
}

// With the attributes that follow it and the frame in it.
uint64_t ExtentOf(ObjectReader& objects, uint64_t object, const TypeInfo& type) {
  uint64_t size = objects.SizeOf(object, type);
  // As many as the class has ever seen names (at most 30).
  const Layout& layout = objects.layout();
  if (layout.traits.attribute_values >= AttributeValues::kBehindHead && type.Is(kInlineValues)) {
    size += 8 * 34;
  }
  return HasFrame(type) ? std::max<uint64_t>(size, 2048) : size;
}

// Whether an object there would fill the block, as far as the allocator does not round it up. What
// does not is left over from what the block once was.
bool FitsBlock(ObjectReader& objects, uint64_t object, const TypeInfo& type, const Block& block) {
  if (HasFrame(type) || type.Is(kInlineValues)) return true;
  constexpr uint64_t kRoundedUp = 96;  // with what a debug build adds
  const uint64_t room = block.begin + block.size - object;
  const uint64_t size = ExtentOf(objects, object, type);
  return size <= room && room - size < kRoundedUp;
}

// Objects/obmalloc.c: a pool begins with {count, free list, next, previous, arena, size class,
// offset of what was never given out, the last such offset}; free blocks are linked by their first
// words.
std::optional<Block> PoolBlockAround(ObjectReader& objects, uint64_t word) {
  const Layout& layout = objects.layout();
  if (layout.free_threaded) return std::nullopt;  // another allocator
  struct Pool {
    uint32_t count, padding;
    uint64_t free_list, next, previous;
    uint32_t arena, size_class, next_offset, last_offset;
  };
  constexpr uint64_t kAlignment = 16, kSizeClasses = 32;
  const uint64_t pool_bytes = layout.traits.pool_bytes;
  const uint64_t at = word & ~(pool_bytes - 1);
  const std::optional<Pool> pool = objects.memory().Get<Pool>(at);
  if (!pool || pool->size_class >= kSizeClasses || word < at + sizeof(Pool)) return std::nullopt;
  const uint64_t size = (pool->size_class + 1) * kAlignment;
  const uint64_t most = (pool_bytes - sizeof(Pool)) / size;
  if (pool->count > most || pool->last_offset != pool_bytes - size ||
      pool->next_offset < sizeof(Pool) || pool->next_offset > pool_bytes ||
      (pool->next_offset - sizeof(Pool)) % size != 0) {
    return std::nullopt;
  }
  Block block;
  block.begin = at + sizeof(Pool) + (word - at - sizeof(Pool)) / size * size;
  block.size = size;
  block.used = pool->count > 0 && block.begin < at + pool->next_offset;
  uint64_t free = pool->free_list;
  for (uint64_t i = 0; i <= most && free != 0; ++i) {
    if (free < at + sizeof(Pool) || free >= at + pool_bytes) return std::nullopt;
    if (free == block.begin) block.used = false;
    free = objects.memory().Pointer(free);
  }
  return block;
}

// Which item of a deque (Modules/_collectionsmodule.c) the word is: items are in blocks of 64 with
// a link before and after them. nullopt: it is none.
std::optional<uint64_t> IndexInDeque(ObjectReader& objects, uint64_t deque, uint64_t word) {
  constexpr uint64_t kBlockItems = 64, kMaxItems = 1 << 20;
  Memory& memory = objects.memory();
  const uint64_t at = deque + static_cast<uint64_t>(objects.layout().object_size);
  const uint64_t size = std::min(memory.Pointer(at), kMaxItems);
  uint64_t block = memory.Pointer(at + 8), index = memory.Pointer(at + 24);
  for (uint64_t i = 0; block != 0 && i < size && index <= kBlockItems;) {
    if (index == kBlockItems) {
      block = memory.Pointer(block + 8 + 8 * kBlockItems);
      index = 0;
      continue;
    }
    if (word == block + 8 + 8 * index) return i;
    ++index;
    ++i;
  }
  return std::nullopt;
}

class Search {
 public:
  Search(const Context& context, PythonState& state, ScanControl* control)
      : context_(context), state_(state), control_(control) {}

  absl::Status ReadMemory();
  absl::StatusOr<Holders> Of(uint64_t object);

 private:
  using Instance = PythonState::Instance;
  struct Region {
    uint64_t begin;
    std::vector<uint64_t> words;
    bool is_module = false, is_stack = false;
  };
  // How a word is reached: from an object of Python, a variable of a frame, a global.
  struct Step {
    Holder::Kind kind = Holder::Kind::kUnknown;
    uint64_t container = 0;
    std::string text;  // of an object: ".attribute" or "[3]"; of a root: the whole name
  };

  void FindRoots();
  template <class F>
  void ForEachWord(F f) const {
    for (const Region& region : regions_) {
      if (region.is_stack) continue;
      for (size_t i = 0; i < region.words.size(); ++i) {
        f(region.begin + 8 * i, region.words[i]);
      }
    }
  }
  std::vector<uint64_t> WordsThatHold(uint64_t object) const;
  bool InModule(uint64_t word) const;
  Step Describe(uint64_t word, uint64_t value);
  // Of a word in the memory of `container` or in a block of its own.
  Step Inside(uint64_t container, uint64_t word, uint64_t value);
  Step InsideFrame(const TypeInfo& type, uint64_t container, uint64_t word, Step step);
  Step InsideDict(uint64_t container, uint64_t word, uint64_t value, Step step);
  std::optional<Step> InBlock(uint64_t word, uint64_t value);
  std::optional<Block> BlockOf(uint64_t word);
  uint64_t ObjectOf(uint64_t word);
  Step InGlobal(uint64_t word, uint64_t through);
  bool OwnsBlock(uint64_t container, uint64_t pointer, uint64_t block, uint64_t word, bool whole);
  std::string NameOfType(uint64_t object);
  std::string NameOfClass(uint64_t type);
  std::string NameOfModule(uint64_t module);
  // Adds to the holder's text how it is reached from a name.
  void FindName(uint64_t object, Holder* holder);
  absl::Status NotCancelled() const {
    return control_ && control_->cancelled ? absl::CancelledError("interrupted") : absl::OkStatus();
  }

  const Context& context_;
  PythonState& state_;
  ScanControl* control_;
  Instance* instance_ = nullptr;
  std::vector<Region> regions_;
  std::string incomplete_;
  absl::flat_hash_map<uint64_t, std::string> module_dicts_, locals_;
  std::vector<AddressRange> frames_;  // memory that frames are made in
};

absl::Status Search::ReadMemory() {
  if (state_.instances().empty()) return absl::OkStatus();
  instance_ = state_.instances()[0].get();
  ASSIGN_OR_RETURN(std::vector<Mapping> mappings, state_.process().MappingsAt(state_.time()));
  std::vector<uint64_t> stacks;
  for (const Thread& thread : state_.process().threads()) {
    absl::StatusOr<Registers> registers =
        state_.process().RegistersAt(state_.time(), thread.number);
    if (registers.ok()) stacks.push_back(registers->gpr[kRsp]);
  }
  uint64_t bytes = 0;
  for (const Mapping& mapping : mappings) {
    if ((mapping.protection & 2) == 0 || mapping.content_unknown) continue;
    RETURN_IF_ERROR(NotCancelled());
    bytes += mapping.range.size();
    if (bytes > kMaxBytes) {
      incomplete_ = "more than 2 GiB of memory to search for who holds it";
      break;
    }
    Region region{mapping.range.begin.v, std::vector<uint64_t>(mapping.range.size() / 8)};
    region.is_stack =
        mapping.path == "[stack]" || std::any_of(stacks.begin(), stacks.end(), [&](uint64_t rsp) {
          return mapping.range.Contains(Address(rsp));
        });
    ASSIGN_OR_RETURN(uint64_t known, state_.moment().Read(mapping.range.begin, mapping.range.size(),
                                                          region.words.data()));
    region.words.resize(known / 8);
    region.is_module = !mapping.path.empty() && mapping.path[0] == '/';
    regions_.push_back(std::move(region));
  }
  // The zeros behind a module's data are memory without a name.
  ASSIGN_OR_RETURN(const Symbolizer* symbols, context_.SymbolsAt(state_.time()));
  for (Region& region : regions_) {
    if (!region.is_module) {
      region.is_module = symbols->VariableAt(Address(region.begin)).has_value();
    }
  }
  FindRoots();
  return absl::OkStatus();
}

void Search::FindRoots() {
  ObjectReader& objects = instance_->objects;
  Memory& memory = objects.memory();
  const Layout& layout = objects.layout();
  for (const Interpreter& interpreter : state_.Interpreters(*instance_)) {
    const uint64_t modules =
        memory.Pointer(interpreter.address + static_cast<uint64_t>(layout.interp_modules));
    for (const auto& [key, module] : objects.DictItems(modules).value_or(ObjectReader::Pairs())) {
      const TypeInfo* type = objects.TypeOf(module);
      const std::optional<std::string> name = objects.Str(key);
      if (!type || !name || !objects.Inherits(*type, "module")) continue;
      const uint64_t dict = memory.Pointer(module + static_cast<uint64_t>(layout.module_dict));
      if (dict != 0) module_dicts_.try_emplace(dict, *name);
    }
    for (const ThreadState& thread : interpreter.threads) {
      if (layout.thread_datastack_chunk == kAbsent) break;
      uint64_t chunk =
          memory.Pointer(thread.address + static_cast<uint64_t>(layout.thread_datastack_chunk));
      for (int i = 0; i < 1000 && chunk != 0; ++i) {
        const uint64_t size = memory.Pointer(chunk + 8);
        if (size == 0 || size > kMaxBytes) break;
        frames_.push_back({Address(chunk), Address(chunk + size)});
        chunk = memory.Pointer(chunk);
      }
    }
  }
  for (const PythonState::ThreadStack& stack : state_.Stacks(std::nullopt)) {
    if (stack.instance != instance_) continue;
    for (const Frame& frame : stack.stack.frames) {
      for (const LocalVariable& variable : instance_->frames.Locals(frame)) {
        if (variable.kind == LocalVariable::Kind::kName || variable.slot == 0) continue;
        const bool cell = variable.kind == LocalVariable::Kind::kCell ||
                          variable.kind == LocalVariable::Kind::kFree;
        locals_.try_emplace(variable.slot, fmt::format("{} `{}` of {}", cell ? "cell" : "local",
                                                       variable.name, frame.code->qualname));
      }
    }
  }
}

std::vector<uint64_t> Search::WordsThatHold(uint64_t object) const {
  std::vector<uint64_t> words;
  const uint64_t tags = instance_->objects.layout().traits.tagged_references ? 3 : 0;
  ForEachWord([&](uint64_t word, uint64_t value) {
    if ((value & ~tags) == object && words.size() < kMaxWords) words.push_back(word);
  });
  return words;
}

bool Search::InModule(uint64_t word) const {
  return std::any_of(regions_.begin(), regions_.end(), [&](const Region& region) {
    return region.is_module && word >= region.begin &&
           word < region.begin + 8 * region.words.size();
  });
}

std::string Search::NameOfType(uint64_t object) {
  const TypeInfo* type = instance_->objects.TypeOf(object);
  return type ? instance_->objects.FullTypeName(*type) : "?";
}

std::string Search::NameOfClass(uint64_t type) {
  const TypeInfo* info = instance_->objects.Type(type);
  return info ? std::string(info->short_name()) : "?";
}

Search::Step Search::InGlobal(uint64_t word, uint64_t through) {
  Step step;
  absl::StatusOr<const Symbolizer*> symbols = context_.SymbolsAt(state_.time());
  if (!symbols.ok()) return step;
  const AddressRange& runtime = instance_->runtime.range;
  // The interpreter's own: free lists and caches are among them, and nobody clears those.
  step.kind = runtime.Contains(Address(word)) ? Holder::Kind::kUnknown : Holder::Kind::kGlobal;
  const std::optional<VariableInfo> variable = (*symbols)->VariableAt(Address(word));
  const Module* module = (*symbols)->ModuleAt(Address(word));
  const std::string in = module ? fmt::format(" in {}", module->name()) : "";
  if (variable && !variable->name.empty()) {
    const uint64_t offset = word - variable->address.v;
    step.text = fmt::format("C global `{}`{}{}", variable->name,
                            offset != 0 ? fmt::format("+{}", offset) : "", in);
  } else {
    step.text = fmt::format("C global at {:#x}{}", word, in);
  }
  if (through != 0) step.text += fmt::format(", through the block at {:#x}", through);
  return step;
}

// Whether the block that `pointer`, a word of `container`, points at holds `word`, by what the type
// says of its size.
bool Search::OwnsBlock(uint64_t container, uint64_t pointer, uint64_t block, uint64_t word,
                       bool whole) {
  ObjectReader& objects = instance_->objects;
  Memory& memory = objects.memory();
  const Layout& layout = objects.layout();
  const TypeInfo* type = objects.TypeOf(container);
  if (!type) return false;
  const auto at = [&](Offset offset) { return container + static_cast<uint64_t>(offset); };
  if (type->Is(kListSubclass) && pointer == at(layout.list_items)) {
    const int64_t n = memory.Get<int64_t>(at(layout.object_size)).value_or(0);
    return n > 0 && word < block + 8 * static_cast<uint64_t>(n);
  }
  if (type->Is(kDictSubclass) &&
      (pointer == at(layout.dict_keys) || pointer == at(layout.dict_values))) {
    return true;  // whether the word is one of its items the items say
  }
  if ((IsBuiltin(*type, "set") || IsBuiltin(*type, "frozenset")) &&
      pointer == at(layout.set_table)) {
    return true;
  }
  // Attributes of an instance, outside of it: whether it is one of them they say.
  if (pointer < container) return type->heap();
  // What C types keep in blocks of their own, where it is known how far those reach.
  if (IsBuiltin(*type, "module")) return pointer == at(layout.module_dict) + 16 && whole;
  static constexpr std::string_view kWithoutBlocks[] = {"function",
                                                        "code",
                                                        "cell",
                                                        "method",
                                                        "builtin_function_or_method",
                                                        "getset_descriptor",
                                                        "member_descriptor",
                                                        "method_descriptor",
                                                        "wrapper_descriptor",
                                                        "property",
                                                        "slice"};
  return pointer < container + static_cast<uint64_t>(type->basicsize) &&
         !type->Is(kListSubclass | kDictSubclass | kTypeSubclass | kUnicodeSubclass |
                   kLongSubclass | kTupleSubclass | kBytesSubclass | kExceptionSubclass |
                   kManagedDict) &&
         std::find(std::begin(kWithoutBlocks), std::end(kWithoutBlocks), type->name) ==
             std::end(kWithoutBlocks) &&
         whole;
}

std::optional<Block> Search::BlockOf(uint64_t word) {
  auto block = BlockAround(context_, state_, instance_->objects, word, control_);
  return block.ok() ? *block : std::nullopt;
}

uint64_t Search::ObjectOf(uint64_t word) {
  // Objects without a block lie in modules.
  return ObjectAround(instance_->objects, word, InModule(word) ? std::nullopt : BlockOf(word));
}

std::optional<Search::Step> Search::InBlock(uint64_t word, uint64_t value) {
  const std::optional<Block> block = BlockOf(word);
  const uint64_t first = block ? block->begin : word - std::min(word, kLongestBlock);
  std::vector<std::pair<uint64_t, uint64_t>> pointers;  // that point at or before it; whereto
  ForEachWord([&](uint64_t at, uint64_t target) {
    if (target >= first && target <= word && pointers.size() < kMaxWords * 16) {
      pointers.emplace_back(at, target);
    }
  });
  // The nearest is the block's own, if any is.
  std::stable_sort(pointers.begin(), pointers.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::optional<Step> global;
  for (const auto& [at, target] : pointers) {
    // A debug build puts 16 bytes of its own before what it gives out, once or twice.
    const bool whole = block && target - block->begin <= 32;
    const uint64_t before = ObjectOf(at);
    uint64_t container = before;
    if (container == 0) {
      // In front of an object, where its attributes' block is.
      for (const uint64_t head : {24u, 32u}) {
        const TypeInfo* type = instance_->objects.TypeOf(at + head);
        if (type && type->heap() && (type->Is(kManagedDict) || head == 32) &&
            ObjectOf(at + head + 8) == at + head) {
          container = at + head;
        }
      }
    }
    if (container != 0 && container != word) {
      const std::optional<Refcount> count = instance_->objects.RefcountOf(container);
      if (!count || (!count->immortal && count->count <= 0)) continue;
      if (!OwnsBlock(container, at, target, word, whole)) continue;
      const Step step = Inside(container, word, value);
      if (step.kind == Holder::Kind::kObject || step.kind == Holder::Kind::kGlobal) return step;
    } else if (!global && InModule(at) && whole) {
      global = InGlobal(at, target);
    }
  }
  return global;
}

Search::Step Search::InsideFrame(const TypeInfo& type, uint64_t container, uint64_t word,
                                 Step step) {
  ObjectReader& objects = instance_->objects;
  const Layout& layout = objects.layout();
  std::optional<Frame> frame;
  if (IsBuiltin(type, "frame")) {
    Frame read;
    const uint64_t at = FrameOfObject(layout, objects.memory(), container);
    if (instance_->frames.ReadFrame(at, &read) == FrameReader::Kind::kPython) frame = read;
  } else {
    frame = instance_->frames.SuspendedFrame(container);
  }
  if (frame) {
    for (const LocalVariable& variable : instance_->frames.Locals(*frame)) {
      if (variable.slot == word) {
        step.text = fmt::format(".local `{}` of {}", variable.name, frame->code->qualname);
        return step;
      }
    }
  }
  const Offset end = IsBuiltin(type, "frame") ? layout.frame_localsplus : layout.generator_iframe;
  if (!IsBuiltin(type, "frame") && layout.generator_frame != kAbsent &&
      word == container + static_cast<uint64_t>(layout.generator_frame)) {
    step.text = ".gi_frame";
    return step;
  }
  // Behind the variables are values that come and go.
  if (end == kAbsent || word >= container + static_cast<uint64_t>(end)) {
    step.kind = Holder::Kind::kUnknown;
  }
  step.text = fmt::format(".field+{}", word - container);
  return step;
}

Search::Step Search::InsideDict(uint64_t container, uint64_t word, uint64_t value, Step step) {
  ObjectReader& objects = instance_->objects;
  for (const auto& [key, item] : objects.DictItems(container).value_or(ObjectReader::Pairs())) {
    if (item != value && key != value) continue;
    const std::optional<std::string> name = objects.Str(key);
    const auto module = module_dicts_.find(container);
    if (module != module_dicts_.end()) {
      step.kind = Holder::Kind::kGlobal;
      step.text = fmt::format("`{}` in module {}", name.value_or("?"), module->second);
    } else {
      ReprLimits limits;
      limits.characters = 60;
      step.text = item == value ? fmt::format("[{}]", objects.Repr(key, limits)) : ".key";
    }
    return step;
  }
  // Nobody cleared it.
  step.kind =
      word < container || word >= container + 64 ? Holder::Kind::kUnknown : Holder::Kind::kObject;
  return step;
}

namespace {

// The field of a built-in object that `word` is: "__closure__"; empty: none that has a name.
std::string_view NameOfField(const Layout& layout, const TypeInfo& type, uint64_t container,
                             uint64_t word) {
  struct Field {
    std::string_view type, name;
    Offset Layout::*field;
  };
  static constexpr Field kFields[] = {
      {"function", "__closure__", &Layout::function_closure},
      {"function", "__defaults__", &Layout::function_defaults},
      {"function", "__kwdefaults__", &Layout::function_kwdefaults},
      {"function", "__dict__", &Layout::function_dict},
      {"function", "__globals__", &Layout::function_globals},
      {"function", "__code__", &Layout::function_code},
      {"method", "__func__", &Layout::method_function},
      {"method", "__self__", &Layout::method_self},
      {"builtin_function_or_method", "__self__", &Layout::builtin_self},
      {"cell", "cell_contents", &Layout::cell_value},
      {"traceback", "tb_next", &Layout::traceback_next},
      {"traceback", "tb_frame", &Layout::traceback_frame},
  };
  for (const Field& field : kFields) {
    if (IsBuiltin(type, field.type) && layout.*field.field != kAbsent &&
        word == container + static_cast<uint64_t>(layout.*field.field)) {
      return field.name;
    }
  }
  if (!type.Is(kExceptionSubclass)) return "";
  const std::pair<Offset, std::string_view> fields[] = {
      {layout.exception_args, "args"},
      {layout.exception_traceback, "__traceback__"},
      {layout.exception_context, "__context__"},
      {layout.exception_cause, "__cause__"}};
  for (const auto& [offset, name] : fields) {
    if (word == container + static_cast<uint64_t>(offset)) {
      return name;
    }
  }
  return "";
}

}  // namespace

Search::Step Search::Inside(uint64_t container, uint64_t word, uint64_t value) {
  ObjectReader& objects = instance_->objects;
  const Layout& layout = objects.layout();
  Step step;
  const TypeInfo* found = objects.TypeOf(container);
  const std::optional<Refcount> count = objects.RefcountOf(container);
  if (!found || !count) return step;
  const TypeInfo type = *found;
  step.container = container;
  if (!count->immortal && count->count <= 0) {
    step.kind = Holder::Kind::kGone;
    return step;
  }
  step.kind = Holder::Kind::kObject;
  if (type.name == "weakref.ReferenceType" || type.name == "weakref" ||
      type.name.starts_with("weakref.") || type.name.starts_with("weak")) {
    step.kind = Holder::Kind::kBorrower;
    step.text = "a weak reference";
    return step;
  }
  if (HasFrame(type)) return InsideFrame(type, container, word, step);
  if (type.Is(kDictSubclass)) return InsideDict(container, word, value, step);
  if (type.Is(kListSubclass) || type.Is(kTupleSubclass)) {
    const std::vector<uint64_t> items = objects.Items(container).value_or(std::vector<uint64_t>());
    const uint64_t begin =
        type.Is(kTupleSubclass)
            ? container + static_cast<uint64_t>(layout.tuple_items)
            : objects.memory().Pointer(container + static_cast<uint64_t>(layout.list_items));
    const uint64_t i = (word - begin) / 8;
    if (word >= begin && i < items.size()) {
      step.text = fmt::format("[{}]", i);
      return step;
    }
    if (!type.heap()) {
      step.kind = Holder::Kind::kUnknown;
      return step;
    }
  }
  if (IsBuiltin(type, "set") || IsBuiltin(type, "frozenset")) {
    const auto items = objects.SetItems(container);
    if (!items || std::find(items->begin(), items->end(), value) == items->end()) {
      step.kind = Holder::Kind::kUnknown;
    }
    step.text = "{…}";
    return step;
  }
  if (type.Is(kTypeSubclass)) {
    step.text = word == container + static_cast<uint64_t>(layout.type_dict)
                    ? ".__dict__"
                    : fmt::format(".field+{}", word - container);
    return step;
  }
  if (word == container + static_cast<uint64_t>(layout.object_type)) {
    step.text = ".__class__";
    return step;
  }
  if (const std::string_view name = NameOfField(layout, type, container, word); !name.empty()) {
    step.text = fmt::format(".{}", name);
    return step;
  }
  if (objects.Inherits(type, "collections.deque")) {
    if (const std::optional<uint64_t> i = IndexInDeque(objects, container, word)) {
      step.text = fmt::format("[{}]", *i);
      return step;
    }
  }
  if (objects.GetAttribute(container, "__dict__") == value) {
    step.text = ".__dict__";
    return step;
  }
  for (const Attribute& attribute : objects.Attributes(container)) {
    if (attribute.value == value) {
      step.text = fmt::format(".{}", attribute.name);
      return step;
    }
  }
  if (HoldsNothing(type)) {
    step.kind = Holder::Kind::kUnknown;  // left over behind its value
  } else if (IsBuiltin(type, "module") &&
             (word < container || word >= container + static_cast<uint64_t>(type.basicsize))) {
    step.kind = Holder::Kind::kGlobal;
    step.text = fmt::format("state of module {}", NameOfModule(container));
  } else if (type.Is(kManagedDict) &&
             (word < container || word >= container + ExtentOf(objects, container, type))) {
    step.kind = Holder::Kind::kUnknown;  // not an attribute
  } else if (word >= container && word < container + static_cast<uint64_t>(type.basicsize)) {
    step.text = fmt::format(".field+{} of {}", word - container, type.name);
  } else if (word > container && word < container + ExtentOf(objects, container, type)) {
    step.kind = Holder::Kind::kUnknown;  // an attribute that is not there any more
  } else if (objects.Inherits(type, "collections.deque")) {
    step.kind = Holder::Kind::kUnknown;  // not an item any more
  } else {
    step.text = fmt::format(".block of {}", type.name);
  }
  return step;
}

Search::Step Search::Describe(uint64_t word, uint64_t value) {
  if (const auto it = locals_.find(word); it != locals_.end()) {
    Step step;
    step.kind = Holder::Kind::kLocal;
    step.text = it->second;
    return step;
  }
  for (const AddressRange& range : frames_) {
    if (range.Contains(Address(word))) return Step();
  }
  const std::optional<Block> block = InModule(word) ? std::nullopt : BlockOf(word);
  if (block && !block->used) {
    Step step;
    step.kind = Holder::Kind::kGone;
    return step;
  }
  if (const uint64_t container = ObjectAround(instance_->objects, word, block)) {
    const Step step = Inside(container, word, value);
    // Gone or kept for later: or the block is another's now, and this is left over in it.
    return step.kind == Holder::Kind::kGone ? InBlock(word, value).value_or(step) : step;
  }
  if (InModule(word)) return InGlobal(word, 0);
  return InBlock(word, value).value_or(Step());
}

std::string Search::NameOfModule(uint64_t module) {
  const auto it = module_dicts_.find(instance_->objects.memory().Pointer(
      module + static_cast<uint64_t>(instance_->objects.layout().module_dict)));
  return it == module_dicts_.end() ? "?" : it->second;
}

void Search::FindName(uint64_t object, Holder* holder) {
  struct Node {
    uint64_t object;
    std::string path;  // from it to the object asked about
    int steps;
  };
  ObjectReader& objects = instance_->objects;
  std::deque<Node> queue = {{holder->container, holder->held_in, 0}};
  absl::flat_hash_set<uint64_t> seen = {holder->container};
  std::string cycle, best_local;
  while (!queue.empty() && seen.size() < kMaxObjects) {
    const Node node = std::move(queue.front());
    queue.pop_front();
    if (node.object == object) {
      cycle = NameOfType(object) + node.path;
      continue;
    }
    const TypeInfo* type = objects.TypeOf(node.object);
    if (type && type->Is(kTypeSubclass)) {
      holder->kind = Holder::Kind::kGlobal;
      holder->held_in = fmt::format("class {}{}", NameOfClass(node.object), node.path);
      return;
    }
    if (type && objects.Inherits(*type, "module")) {
      holder->kind = Holder::Kind::kGlobal;
      holder->held_in = fmt::format("module {}", NameOfModule(node.object)) + node.path;
      return;
    }
    if (node.steps >= kMaxSteps) continue;
    if (control_ && control_->cancelled) return;
    for (const uint64_t word : WordsThatHold(node.object)) {
      const Step step = Describe(word, node.object);
      switch (step.kind) {
        case Holder::Kind::kGlobal:
          holder->kind = step.kind;
          // "`cache` in module app" with "[3]" is "`cache[3]` in module app".
          if (step.text[0] == '`') {
            const size_t end = step.text.find('`', 1);
            holder->held_in = step.text.substr(0, end) + node.path + step.text.substr(end);
          } else {
            holder->held_in = fmt::format("{}: {}", step.text, node.path);
          }
          return;
        case Holder::Kind::kLocal:
          if (best_local.empty()) best_local = fmt::format("{}: {}", step.text, node.path);
          break;
        case Holder::Kind::kObject: {
          // A dict of attributes is no step of its own.
          std::string path =
              step.text == ".__dict__" ? AsAttribute(node.path) : step.text + node.path;
          if (!seen.insert(step.container).second) {
            if (cycle.empty()) cycle = NameOfType(step.container) + path;
            break;
          }
          queue.push_back({step.container, std::move(path), node.steps + 1});
          break;
        }
        default:
          break;
      }
    }
  }
  if (!best_local.empty()) {
    holder->kind = Holder::Kind::kLocal;
    holder->held_in = best_local;
  } else if (!cycle.empty()) {
    holder->kind = Holder::Kind::kCycle;
    holder->held_in = fmt::format("a cycle that nothing else holds: {}", cycle);
  } else {
    holder->held_in = fmt::format("{} of the {} at {:#x}", holder->held_in,
                                  NameOfType(holder->container), holder->container);
  }
}

absl::StatusOr<Holders> Search::Of(uint64_t object) {
  Holders found;
  if (!instance_) return found;
  const std::vector<uint64_t> words = WordsThatHold(object);
  constexpr size_t kMaxNamed = 32;
  size_t named = 0;
  for (const uint64_t word : words) {
    RETURN_IF_ERROR(NotCancelled());
    const Step step = Describe(word, object);
    Holder holder{word, step.kind, step.container, step.text};
    if (holder.kind == Holder::Kind::kObject && ++named <= kMaxNamed) FindName(object, &holder);
    found.words.push_back(std::move(holder));
  }
  if (words.size() == kMaxWords) {
    incomplete_ = fmt::format("only {} of the words that hold it were looked at", kMaxWords);
  }
  found.incomplete = incomplete_;
  std::stable_sort(found.words.begin(), found.words.end(),
                   [](const Holder& a, const Holder& b) { return a.kind < b.kind; });
  return found;
}

}  // namespace

absl::StatusOr<std::optional<Block>> BlockAround(const Context& context, PythonState& state,
                                                 ObjectReader& objects, uint64_t word,
                                                 ScanControl* control) {
  if (const std::optional<Block> block = PoolBlockAround(objects, word)) return block;
  absl::StatusOr<const HeapIndex*> heap = context.Heap(control);
  if (absl::IsCancelled(heap.status())) return heap.status();
  if (!heap.ok()) return std::optional<Block>();
  const HeapLife* life = (*heap)->Find(Address(word), state.time()).inside;
  if (!life) return std::optional<Block>();
  return std::optional<Block>({life->begin.v, life->extent(), life->IsAlive(state.time())});
}

namespace {

uint64_t TypeWord(ObjectReader& objects, uint64_t object) {
  return object + static_cast<uint64_t>(objects.layout().object_type);
}

// Its type, where an object may be: it has one, and a count that an object may have.
std::optional<TypeInfo> TypeOfPlausible(ObjectReader& objects, uint64_t at) {
  const uint64_t pointer = objects.memory().Pointer(TypeWord(objects, at));
  if (pointer < 4096 || pointer % 8 != 0 || pointer >> 47 != 0) return std::nullopt;
  const TypeInfo* type = objects.TypeOf(at);
  if (!type) return std::nullopt;
  const std::optional<Refcount> count = objects.RefcountOf(at);
  if (!count) return std::nullopt;
  const bool is_count = count->count >= 0 && count->count <= kMaxReferences;
  return count->immortal || is_count ? std::optional(*type) : std::nullopt;
}

bool Covers(ObjectReader& objects, uint64_t object, const TypeInfo& type, uint64_t word) {
  return word < object + ExtentOf(objects, object, type) && word >= TypeWord(objects, object);
}

}  // namespace

uint64_t ObjectAround(ObjectReader& objects, uint64_t word, const std::optional<Block>& block) {
  // Links of the allocator stand where counts were.
  if (block && !block->used) return 0;
  // One that the collector knows nothing of begins with its block. While it is made, what the block
  // held before may look like one that begins behind the collector's words.
  if (block) {
    const std::optional<TypeInfo> type = TypeOfPlausible(objects, block->begin);
    if (type && !objects.IsGarbageCollected(*type)) {
      // A short str is smaller than its type says.
      if (HoldsNothing(*type)) return block->begin;
      if (FitsBlock(objects, block->begin, *type, *block)) {
        return Covers(objects, block->begin, *type, word) ? block->begin : 0;
      }
    }
  }
  for (uint64_t at = word & ~uint64_t{15}; word - at < kLongestObject && at >= 4096; at -= 16) {
    if (block && at < block->begin) return 0;
    // What may stand before an object in its block are the allocator's, the collector's and the
    // attributes' words.
    if (block && at - block->begin > 64) continue;
    const std::optional<TypeInfo> type = TypeOfPlausible(objects, at);
    if (!type || (block && !FitsBlock(objects, at, *type, *block))) continue;
    if (Covers(objects, at, *type, word)) return at;
  }
  return 0;
}

absl::StatusOr<Holders> HoldersOf(const Context& context, PythonState& state, uint64_t object,
                                  ScanControl* control) {
  Search search(context, state, control);
  RETURN_IF_ERROR(search.ReadMemory());
  return search.Of(object);
}

}  // namespace ttq::python
