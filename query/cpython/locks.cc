// SPDX-License-Identifier: MIT

#include "query/cpython/locks.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "fmt/core.h"

namespace ttq::python {
namespace {

constexpr size_t kFrames = 12;         // that are looked at for a lock and its name
constexpr size_t kMaxAttributes = 64;  // of one object
constexpr size_t kMaxStackWords = 1024;

bool IsLock(const TypeInfo& type) {
  return type.name == "_thread.lock" || type.name == "_thread.RLock";
}

// How deep the stack of a frame is where an exception at `offset` would be handled, by
// co_exceptiontable (Objects/exception_handling_notes.txt); 0: nobody handles it.
uint64_t HandledDepth(ObjectReader& objects, const Code& code, int64_t offset) {
  const auto at_table = static_cast<uint64_t>(objects.layout().code_exceptiontable);
  const auto table = objects.BytesOf(objects.memory().Pointer(code.address + at_table));
  if (!table || offset < 0) return 0;
  size_t at = 0;
  const auto number = [&]() {
    uint64_t value = 0;
    while (at < table->size()) {
      const auto byte = static_cast<uint8_t>((*table)[at++]);
      value = value << 6 | (byte & 63);
      if ((byte & 64) == 0) break;
    }
    return value;
  };
  const uint64_t unit = static_cast<uint64_t>(offset) / 2;
  while (at < table->size()) {
    const uint64_t begin = number(), size = number();
    number();  // the handler
    const uint64_t depth = number() >> 1;
    if (begin <= unit && unit < begin + size) return std::min<uint64_t>(depth, kMaxStackWords);
  }
  return 0;
}

// The library's own waits, whose inner locks nobody asks for.
bool IsLibrary(const Code& code) {
  return absl::EndsWith(code.filename, "/threading.py") ||
         absl::EndsWith(code.filename, "/queue.py") ||
         absl::EndsWith(code.filename, "/concurrent/futures/_base.py");
}

// The word for what an object of that class is waited for by; "": none.
std::string_view KindOf(std::string_view type) {
  struct Kind {
    std::string_view type, kind;
  };
  static constexpr std::array<Kind, 11> kKinds = {{{"Queue", "queue"},
                                                   {"LifoQueue", "queue"},
                                                   {"PriorityQueue", "queue"},
                                                   {"Condition", "condition"},
                                                   {"Event", "event"},
                                                   {"Semaphore", "semaphore"},
                                                   {"BoundedSemaphore", "semaphore"},
                                                   {"Barrier", "barrier"},
                                                   {"Future", "future"},
                                                   {"Thread", "join"},
                                                   {"_MainThread", "join"}}};
  for (const Kind& kind : kKinds) {
    if (kind.type == type) return kind.kind;
  }
  return "";
}

}  // namespace

uint64_t LockFinder::LockOf(ObjectReader& objects, uint64_t object) {
  if (object == 0 || object % 8 != 0) return 0;
  const Layout& layout = objects.layout();
  const TypeInfo* type = objects.TypeOf(object);
  if (type == nullptr) return 0;
  if (IsLock(*type)) return object;
  if (type->name != "builtin_function_or_method") return 0;
  const uint64_t self =
      objects.memory().Pointer(object + static_cast<uint64_t>(layout.builtin_self));
  const TypeInfo* of = objects.TypeOf(self);
  return of != nullptr && IsLock(*of) ? self : 0;
}

uint64_t LockFinder::LockWithWord(const ThreadStack& stack, uint64_t futex) {
  ObjectReader& objects = stack.instance->objects;
  Memory& memory = objects.memory();
  const Layout& layout = objects.layout();
  const auto semaphore = static_cast<uint64_t>(layout.lock_semaphore);
  const auto right = [&](uint64_t object) -> uint64_t {
    const uint64_t lock = LockOf(objects, layout.Untag(object));
    return lock != 0 && memory.Pointer(lock + semaphore) == futex ? lock : 0;
  };
  for (size_t i = 0; i < std::min(kFrames, stack.stack.frames.size()); ++i) {
    const Frame& frame = stack.stack.frames[i];
    const uint64_t slots = frame.address + static_cast<uint64_t>(layout.frame_localsplus);
    const uint64_t depth = std::min<uint64_t>(
        memory.Get<uint32_t>(frame.code->address + static_cast<uint64_t>(layout.code_stacksize))
            .value_or(0),
        kMaxStackWords);
    // What the stack held before is there too: the word of the lock itself tells.
    for (uint64_t slot = 0; slot < frame.code->variables.size() + depth; ++slot) {
      if (const uint64_t lock = right(memory.Pointer(slots + 8 * slot))) return lock;
    }
    for (const LocalVariable& local : stack.instance->frames.Locals(frame, kMaxAttributes)) {
      if (const uint64_t lock = right(local.value)) return lock;
      if (local.name != "self") continue;
      for (const Attribute& attribute : objects.Attributes(local.value)) {
        if (const uint64_t lock = right(attribute.value)) return lock;
      }
    }
  }
  return 0;
}

// As the program calls it: a variable of a frame, an attribute of one, a global.
std::string LockFinder::NameOf(const ThreadStack& stack, size_t first_frame, uint64_t object) {
  ObjectReader& objects = stack.instance->objects;
  const auto& frames = stack.stack.frames;
  for (size_t i = first_frame; i < std::min(first_frame + kFrames, frames.size()); ++i) {
    const std::vector<LocalVariable> locals =
        stack.instance->frames.Locals(frames[i], kMaxAttributes);
    for (const LocalVariable& local : locals) {
      if (local.value == object && local.name != "self") return local.name;
    }
    for (const LocalVariable& local : locals) {
      const TypeInfo* type = objects.TypeOf(local.value);
      if (type == nullptr || !type->heap()) continue;
      size_t looked_at = 0;
      for (const Attribute& attribute : objects.Attributes(local.value)) {
        if (++looked_at > kMaxAttributes) break;
        if (attribute.value == object) return local.name + "." + attribute.name;
      }
    }
    if (const auto globals = objects.DictItems(frames[i].globals)) {
      for (const auto& [key, value] : *globals) {
        if (value != object) continue;
        if (const std::optional<std::string> name = objects.Str(key)) return *name;
      }
    }
  }
  return "";
}

std::optional<ThreadNo> LockFinder::WithIdent(uint64_t ident) {
  if (ident == 0) return std::nullopt;
  for (const auto& instance : state_.instances()) {
    for (const Interpreter& interpreter : state_.Interpreters(*instance)) {
      for (const ThreadState& thread : interpreter.threads) {
        if (thread.pthread == ident && thread.thread != ThreadNo()) return thread.thread;
      }
    }
  }
  return std::nullopt;
}

// Which threads are in `with lock:` of which locks. What is below the depth at which the block's
// exceptions are handled is there for certain: the method that leaves it, bound to the lock.
void LockFinder::FindHolders() {
  holders_known_ = true;
  for (const ThreadStack& stack : state_.Stacks(std::nullopt)) {
    const Layout& layout = stack.instance->objects.layout();
    if (layout.code_exceptiontable == kAbsent || layout.lock_semaphore == kAbsent) continue;
    if (stack.state.thread == ThreadNo()) continue;
    for (const Frame& frame : stack.stack.frames) {
      const uint64_t depth = HandledDepth(stack.instance->objects, *frame.code, frame.offset);
      const uint64_t begin = frame.address + static_cast<uint64_t>(layout.frame_localsplus) +
                             8 * frame.code->variables.size();
      for (uint64_t i = 0; i < depth; ++i) {
        const uint64_t word = layout.Untag(stack.instance->objects.memory().Pointer(begin + 8 * i));
        const TypeInfo* type = stack.instance->objects.TypeOf(word);
        if (type == nullptr || type->name != "builtin_function_or_method") continue;
        if (const uint64_t lock = LockOf(stack.instance->objects, word)) {
          // Of two that are in it, one has given it back there.
          const auto [known, is_new] = holders_.try_emplace(lock, stack.state.thread);
          if (!is_new && known->second != stack.state.thread) known->second = ThreadNo();
        }
      }
    }
  }
}

// The outermost of the library's frames that are innermost on the stack.
std::optional<LockWait> LockFinder::InLibrary(const ThreadStack& stack) {
  ObjectReader& objects = stack.instance->objects;
  const auto& frames = stack.stack.frames;
  std::optional<LockWait> found;
  for (size_t i = 0; i < frames.size() && IsLibrary(*frames[i].code); ++i) {
    std::string scope;
    const uint64_t self = stack.instance->frames.Lookup(frames[i], "self", &scope);
    const TypeInfo* type = scope == "local" ? objects.TypeOf(self) : nullptr;
    if (type == nullptr) continue;
    std::string_view kind = KindOf(type->short_name());
    // A class of the program's own that is a Thread or a Queue.
    for (const char* base : {"Thread", "Queue", "Condition", "Event", "Semaphore"}) {
      if (kind.empty() && objects.Inherits(*type, base)) kind = KindOf(base);
    }
    const bool runs =
        frames[i].code->name == "run" || absl::StartsWith(frames[i].code->name, "_bootstrap");
    if (kind.empty() || runs) continue;
    found.emplace();
    found->kind = kind;
    const std::string name = NameOf(stack, i + 1, self);
    found->what = fmt::format(
        "{}.{} of {}", type->short_name(), frames[i].code->name,
        name.empty() ? fmt::format("{:#x}", self) : fmt::format("{} ({:#x})", name, self));
    if (kind == "join") {
      const uint64_t ident = objects.GetAttribute(self, "_ident");
      if (const auto number = objects.Unsigned(ident)) {
        found->owner = WithIdent(static_cast<uint64_t>(*number));
      }
    }
  }
  return found;
}

std::optional<LockWait> LockFinder::Find(ThreadNo thread, uint64_t futex) {
  const std::optional<ThreadStack> stack = state_.StackOf(thread);
  if (!stack || stack->stack.frames.empty()) return std::nullopt;
  if (std::optional<LockWait> wait = InLibrary(*stack)) return wait;
  ObjectReader& objects = stack->instance->objects;
  const Layout& layout = objects.layout();
  if (layout.lock_semaphore == kAbsent) return std::nullopt;
  const uint64_t lock = LockWithWord(*stack, futex);
  if (lock == 0) return std::nullopt;
  const bool reentrant = objects.TypeOf(lock)->name == "_thread.RLock";
  LockWait wait;
  wait.kind = reentrant ? "RLock" : "lock";
  const std::string name = NameOf(*stack, 0, lock);
  wait.what = name.empty() ? fmt::format("{:#x}", lock) : fmt::format("{} ({:#x})", name, lock);
  if (reentrant) {
    wait.owner =
        WithIdent(objects.memory().Pointer(lock + static_cast<uint64_t>(layout.rlock_owner)));
  } else {
    if (!holders_known_) FindHolders();
    if (const auto holder = holders_.find(lock);
        holder != holders_.end() && holder->second != ThreadNo()) {
      wait.owner = holder->second;
    }
  }
  return wait;
}

}  // namespace ttq::python
