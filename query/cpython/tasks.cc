// SPDX-License-Identifier: MIT

#include "query/cpython/tasks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "fmt/core.h"

namespace ttq::python {
namespace {

constexpr size_t kMaxTasks = 1 << 16;
constexpr int kMaxCoroutines = 100;  // that await one another
constexpr size_t kMaxNamed = 8;      // tasks of one sentence
constexpr int32_t kPending = 0;      // fut_state

std::string PlaceOf(const Frame& frame) {
  return fmt::format("{}() at {}:{}", frame.code->qualname, BaseName(frame.code->filename),
                     frame.position.line);
}

// Of one interpreter.
class Tasks {
 public:
  Tasks(PythonState::Instance& instance, const Interpreter& interpreter, std::vector<TaskWait>* out)
      : objects_(instance.objects),
        frames_(instance.frames),
        layout_(instance.objects.layout()),
        interpreter_(interpreter),
        out_(*out) {}

  // False: there may be tasks that were not found.
  bool Run() {
    const uint64_t modules = Pointer(interpreter_.address, layout_.interp_modules);
    const uint64_t module = objects_.DictGet(modules, "asyncio.tasks");
    if (module == 0) return true;
    std::set<uint64_t> tasks;
    bool any = false;
    for (const char* name : {"_all_tasks", "_scheduled_tasks", "_eager_tasks"}) {
      const uint64_t set = objects_.GetAttribute(module, name);
      if (set == 0) continue;
      const uint64_t data = objects_.GetAttribute(set, "data");  // of a WeakSet
      const auto items = objects_.SetItems(data != 0 ? data : set, kMaxTasks);
      if (!items) continue;
      any = true;
      for (const uint64_t item : *items) {
        // A weak reference keeps its object behind its head.
        const uint64_t task = data != 0 ? Pointer(item, layout_.object_head) : item;
        if (IsTask(task)) tasks.insert(task);
      }
    }
    if (!any || layout_.asyncio == nullptr || !AddLinked(&tasks)) return false;
    const size_t first = out_.size();
    for (const uint64_t task : tasks) Add(task);
    for (size_t i = first; i < out_.size(); ++i) index_[out_[i].task] = i;
    for (size_t i = first; i < out_.size(); ++i) Awaits(i);
    for (size_t i = first; i < out_.size(); ++i) {
      for (const size_t other : out_[i].awaited) out_[other].awaited_by.push_back(i);
    }
    for (size_t i = first; i < out_.size(); ++i) NameCycle(i);
    return true;
  }

 private:
  uint64_t Pointer(uint64_t object, int64_t offset) {
    return object == 0 ? 0 : objects_.memory().Pointer(object + static_cast<uint64_t>(offset));
  }
  uint64_t Field(uint64_t task, Offset offset) {
    return Pointer(task, int64_t{layout_.object_head} + offset);
  }
  bool IsTask(uint64_t object) {
    const TypeInfo* type = objects_.TypeOf(object);
    return type != nullptr && objects_.Inherits(*type, "_asyncio.Task");
  }

  // Those that are in no set of the module. False: the lists are not where they should be.
  bool AddLinked(std::set<uint64_t>* tasks) {
    if (layout_.thread_tasks == kAbsent) return true;
    for (const ThreadState& thread : interpreter_.threads) {
      if (!AddList(thread.address + static_cast<uint64_t>(layout_.thread_tasks), tasks))
        return false;
    }
    // A debug build has one more counter before it.
    const uint64_t head = interpreter_.address + static_cast<uint64_t>(layout_.interp_tasks);
    return AddList(head, tasks) || AddList(head + 8, tasks);
  }
  // The members of a struct llist_node (Include/internal/pycore_llist.h).
  bool AddList(uint64_t head, std::set<uint64_t>* tasks) {
    std::vector<uint64_t> nodes;
    uint64_t before = head;
    for (uint64_t node = Pointer(head, 0); node != head; node = Pointer(node, 0)) {
      if (node == 0 || Pointer(node, 8) != before || nodes.size() == kMaxTasks) return false;
      nodes.push_back(node);
      before = node;
    }
    if (Pointer(head, 8) != before) return false;
    for (const uint64_t node : nodes) {
      const uint64_t task =
          node - static_cast<uint64_t>(layout_.object_head + layout_.asyncio->node);
      if (IsTask(task)) tasks->insert(task);
    }
    return true;
  }

  void Add(uint64_t task) {
    const auto state = objects_.memory().Get<int32_t>(
        task + static_cast<uint64_t>(layout_.object_head + layout_.asyncio->state));
    // One that awaits nothing is about to run, or runs.
    const uint64_t waiter = Field(task, layout_.asyncio->waiter);
    const TypeInfo* type = objects_.TypeOf(waiter);
    if (!state || *state != kPending || type == nullptr || type->name == "NoneType") return;
    TaskWait wait;
    wait.task = task;
    const uint64_t name = Field(task, layout_.asyncio->name);
    if (const std::optional<int64_t> number = objects_.Int(name)) {
      wait.name = fmt::format("Task-{}", *number);
    } else {
      wait.name = objects_.Str(name).value_or(fmt::format("task {:#x}", task));
    }
    const uint64_t loop = Field(task, 0);
    if (const auto ident = objects_.Unsigned(objects_.GetAttribute(loop, "_thread_id"))) {
      for (const ThreadState& thread : interpreter_.threads) {
        if (thread.pthread == static_cast<uint64_t>(*ident)) wait.thread = thread.thread;
      }
    }
    out_.push_back(std::move(wait));
  }

  // What the suspended `frame` awaits. 0: not known.
  uint64_t AwaitedBy(const Frame& frame) {
    Memory& memory = objects_.memory();
    const uint64_t top = frame.address + static_cast<uint64_t>(layout_.frame_stack_top);
    const int64_t depth = memory.Get<int32_t>(top).value_or(0);
    switch (layout_.traits.stack_top) {
      case StackTop::kPointer:
        return layout_.Untag(
            Pointer(memory.Pointer(top), -8 * int64_t{layout_.traits.awaited_word}));
      case StackTop::kDepth:
        if (depth <= 0) return 0;
        return Pointer(Pointer(frame.address, layout_.frame_value_stack), 8 * (depth - 1));
      case StackTop::kDepthInFrame:
        if (depth <= static_cast<int64_t>(frame.code->variables.size())) return 0;
        return Pointer(frame.address, layout_.frame_localsplus + 8 * (depth - 1));
    }
    return 0;
  }

  // Its coroutine, and those that this awaits, the innermost last.
  std::vector<Frame> Coroutines(uint64_t task) {
    std::vector<Frame> frames;
    uint64_t at = Field(task, layout_.asyncio->coroutine);
    for (int i = 0; i < kMaxCoroutines; ++i) {
      const TypeInfo* type = objects_.TypeOf(at);
      if (type == nullptr || (type->name != "coroutine" && type->name != "generator")) break;
      std::optional<Frame> frame = frames_.SuspendedFrame(at);
      if (!frame) break;
      at = AwaitedBy(*frame);
      frames.push_back(*std::move(frame));
    }
    return frames;
  }

  uint64_t LocalOf(const Frame& frame, std::string_view name) {
    for (const LocalVariable& local : frames_.Locals(frame, 0)) {
      if (local.name == name) return local.value;
    }
    return 0;
  }

  void Awaits(size_t i) {
    const uint64_t waiter = Field(out_[i].task, layout_.asyncio->waiter);
    const std::vector<Frame> coroutines = Coroutines(out_[i].task);
    TaskWait& wait = out_[i];
    std::vector<uint64_t> tasks;
    std::string how;
    const TypeInfo* found = objects_.TypeOf(waiter);
    const std::string type = found == nullptr ? "" : std::string(found->short_name());
    if (IsTask(waiter)) {
      tasks = {waiter};
    } else if (type == "_GatheringFuture") {
      how = "gather";
      tasks = objects_.Items(objects_.GetAttribute(waiter, "_children"), kMaxTasks)
                  .value_or(std::vector<uint64_t>());
    } else if (!coroutines.empty()) {
      const Frame& inner = coroutines.back();
      const std::string_view file = BaseName(inner.code->filename);
      if (file == "taskgroups.py") {
        how = "TaskGroup";
        tasks =
            objects_.SetItems(objects_.GetAttribute(LocalOf(inner, "self"), "_tasks"), kMaxTasks)
                .value_or(std::vector<uint64_t>());
      } else if (file == "tasks.py" && inner.code->name == "_wait") {
        how = "wait";
        wait.needs_all = false;
        tasks =
            objects_.SetItems(LocalOf(inner, "fs"), kMaxTasks).value_or(std::vector<uint64_t>());
      } else if (file == "tasks.py" && inner.code->name == "wait_for") {
        how = "wait_for";
        tasks = {LocalOf(inner, "fut")};
      }
    }
    size_t named = 0;
    for (const uint64_t task : tasks) {
      const auto known = index_.find(task);
      if (known == index_.end()) continue;
      wait.awaited.push_back(known->second);
      if (++named <= kMaxNamed) {
        wait.awaits += (wait.awaits.empty() ? "" : ", ") + out_[known->second].name;
      }
    }
    if (named > kMaxNamed) wait.awaits += fmt::format(" and {} more", named - kMaxNamed);
    if (!wait.awaits.empty() && !how.empty()) wait.awaits += " (" + how + ")";
    if (!coroutines.empty()) wait.at = PlaceOf(coroutines.front());
    if (wait.awaits.empty() && coroutines.size() > 1) wait.awaits = PlaceOf(coroutines.back());
    if (wait.awaits.empty()) wait.awaits = fmt::format("a {} ({:#x})", type, waiter);
  }

  // The first way on which a task awaits itself.
  void NameCycle(size_t first) {
    if (!out_[first].cycle.empty()) return;
    std::vector<std::pair<size_t, size_t>> path = {{first, 0}};  // a task, its next to be followed
    std::set<size_t> seen = {first};
    while (!path.empty()) {
      const auto [at, next] = path.back();
      if (!out_[at].needs_all || next >= out_[at].awaited.size()) {
        path.pop_back();
        continue;
      }
      ++path.back().second;
      const size_t to = out_[at].awaited[next];
      if (to == first) {
        std::string text = "deadlock: ";
        for (const auto& [task, unused] : path) text += out_[task].name + " → ";
        text += out_[first].name;
        for (const auto& [task, unused] : path) out_[task].cycle = text;
        return;
      }
      if (seen.insert(to).second) path.emplace_back(to, 0);
    }
  }

  ObjectReader& objects_;
  FrameReader& frames_;
  const Layout& layout_;
  const Interpreter& interpreter_;
  std::vector<TaskWait>& out_;
  std::map<uint64_t, size_t> index_;
};

}  // namespace

std::vector<TaskWait> FindTaskWaits(PythonState& state, std::string* missing) {
  std::vector<TaskWait> waits;
  for (const auto& instance : state.instances()) {
    for (const Interpreter& interpreter : state.Interpreters(*instance)) {
      if (!Tasks(*instance, interpreter, &waits).Run()) {
        *missing =
            fmt::format("asyncio's tasks of {} are not read", VersionText(instance->runtime));
      }
    }
  }
  return waits;
}

}  // namespace ttq::python
