// SPDX-License-Identifier: MIT

#include "query/cpython/transitions.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/status_macros.h"

namespace ttq::python {
namespace {

// Of a stack: deeper ones are cut at their outer end.
constexpr size_t kMaxFrames = 100000;
constexpr size_t kMaxShims = 64;
constexpr uint32_t kNoStack = ~uint32_t{0};  // of a watch: no thread's

bool HasCFrames(const Layout& layout) { return layout.thread_cframe != kAbsent; }

// Of a thread state without them.
uint64_t CurrentFrameWord(const Layout& layout) {
  return static_cast<uint64_t>(layout.thread_frame != kAbsent ? layout.thread_frame
                                                              : layout.thread_current_frame);
}

}  // namespace

const char* TransitionKindName(TransitionKind kind) {
  switch (kind) {
    case TransitionKind::kCall:
      return "call";
    case TransitionKind::kResume:
      return "resume";
    case TransitionKind::kThrow:
      return "throw";
    case TransitionKind::kReturn:
      return "return";
    case TransitionKind::kYield:
      return "yield";
    case TransitionKind::kUnwind:
      return "unwind";
    case TransitionKind::kSwitchOut:
      return "switch out";
    case TransitionKind::kSwitchIn:
      return "switch in";
  }
  return "unknown";
}

// ---- Code objects -------------------------------------------------------------------------------

uint32_t CodeTable::Find(const Key& key, uint32_t runtime, const Layout& layout, Memory& memory) {
  {
    std::lock_guard lock(mutex_);
    const auto it = ids_.find(key);
    if (it != ids_.end()) return it->second;
    if (size() >= kMaxCount) return kNoCode;
  }
  ObjectReader objects(&memory, layout);
  FrameReader frames(&objects);
  const std::shared_ptr<const Code> code = frames.ReadCode(key.address);
  if (!code) return kNoCode;
  auto entry = std::make_unique<Entry>();
  entry->code = *code;
  entry->key = key;
  entry->runtime = runtime;
  if (layout.traits.cleanup_codes) {
    // _Py_InitCleanup is never traced.
    const int64_t units = memory.Get<int64_t>(key.address + layout.object_size).value_or(0);
    entry->is_cleanup = code->first_traceable >= 2 * units;
  }
  std::lock_guard lock(mutex_);
  const auto it = ids_.find(key);
  if (it != ids_.end()) return it->second;
  return size() < kMaxCount ? Put(std::move(entry)) : kNoCode;
}

bool CodeTable::Append(Entry entry) {
  std::lock_guard lock(mutex_);
  if (size() >= kMaxCount) return false;
  Put(std::make_unique<const Entry>(std::move(entry)));
  return true;
}

uint32_t CodeTable::Put(std::unique_ptr<const Entry> entry) {
  const auto id = static_cast<uint32_t>(size());
  ids_.try_emplace(entry->key, id);
  if (id % kChunk == 0) {
    owned_.push_back(std::make_unique<Chunk>());
    chunks_[id / kChunk].store(owned_.back().get(), std::memory_order_release);
  }
  (*owned_.back())[id % kChunk] = std::move(entry);
  size_.store(id + 1, std::memory_order_release);
  return id;
}

// ---- Frames -------------------------------------------------------------------------------------

int64_t FrameOffset(const Layout& layout, Memory& memory, uint64_t frame, const Code& code) {
  return FrameOffset(layout, memory, frame, code, memory.Pointer(frame + layout.frame_instruction));
}

int64_t FrameOffset(const Layout& layout, Memory& memory, uint64_t frame, const Code& code,
                    uint64_t word) {
  if (layout.traits.frame_is_object) return layout.OffsetOfLasti(static_cast<int32_t>(word));
  uint64_t base = code.instructions;
  if (layout.frame_tlbc_index != kAbsent && layout.code_tlbc != kAbsent) {
    // Each thread runs a copy of its own of the instructions.
    const int32_t index = memory.Get<int32_t>(frame + layout.frame_tlbc_index).value_or(0);
    const uint64_t copies = memory.Pointer(code.address + layout.code_tlbc);
    if (index > 0 && copies != 0) {
      const uint64_t copy = memory.Pointer(copies + 8 + 8 * static_cast<uint64_t>(index));
      if (copy != 0) base = copy;
    }
  }
  return static_cast<int64_t>(word - base);
}

int64_t TransitionVisitor::OffsetOf(const Layout& layout, const StackEntry& frame) {
  if (frame.code == kNoCode) return 0;
  return FrameOffset(layout, memory_, frame.frame, codes_.at(frame.code).code);
}

uint32_t TransitionVisitor::CodeOf(const Layout& layout, uint32_t runtime, uint64_t frame) {
  const uint64_t code = layout.Untag(memory_.Pointer(frame + layout.frame_code));
  if (code == 0) return kNoCode;
  CodeTable::Key key;
  key.address = code;
  key.name = memory_.Pointer(code + layout.code_name);
  if (key.name == 0) return kNoCode;
  key.filename = memory_.Pointer(code + layout.code_filename);
  key.linetable = memory_.Pointer(code + layout.code_linetable);
  key.consts = memory_.Pointer(code + layout.code_consts);
  key.first_line = memory_.Get<int32_t>(code + layout.code_firstlineno).value_or(0);
  // A name's hash is computed when it is interned, and all names of code are.
  key.name_hash = memory_.Pointer(key.name + layout.str_length + 8);
  CodeSeen& seen = codes_seen_[code];
  if (!(seen.key == key) || seen.id == kNoCode) {
    seen.key = key;
    seen.id = codes_.Find(key, runtime, layout, memory_);
  }
  return seen.id;
}

bool TransitionVisitor::IsShim(const Layout& layout, uint32_t runtime, uint64_t frame) {
  if (!layout.traits.shims) return false;
  constexpr uint8_t kFirstOfC = 3;  // of the raw owner: everything from here on stands for C
  if (memory_.Get<uint8_t>(frame + layout.frame_owner).value_or(0) >= kFirstOfC) return true;
  if (!layout.traits.cleanup_codes) return false;
  const uint32_t code = CodeOf(layout, runtime, frame);
  return code != kNoCode && codes_.at(code).is_cleanup;
}

uint64_t TransitionVisitor::SkipShims(const Layout& layout, uint32_t runtime, uint64_t frame) {
  for (size_t i = 0; i < kMaxShims && frame != 0 && IsShim(layout, runtime, frame); ++i) {
    frame = memory_.Pointer(frame + layout.frame_previous);
  }
  return frame;
}

StackEntry TransitionVisitor::Describe(const Layout& layout, uint32_t runtime, uint64_t frame) {
  StackEntry entry;
  entry.frame = frame;
  entry.code = CodeOf(layout, runtime, frame);
  if (entry.code == kNoCode) {
    entry.state = StackEntry::kHidden;
    return entry;
  }
  if (layout.frame_generator != kAbsent) {
    entry.generator = memory_.Pointer(frame + layout.frame_generator) != 0;
    return entry;
  }
  constexpr uint8_t kOwnedByGenerator = 1;
  entry.generator =
      memory_.Get<uint8_t>(frame + layout.frame_owner).value_or(0) == kOwnedByGenerator;
  // A generator's function called: all it does in this frame is to make the generator.
  if (!entry.generator && codes_.at(entry.code).code.flags & kCodeGeneratorLike) {
    entry.state = StackEntry::kHidden;
  }
  return entry;
}

bool ThreadStack::SameAs(const ThreadStack& other) const {
  const auto same = [](const StackEntry& a, const StackEntry& b) {
    return a.frame == b.frame && a.state == b.state && a.code == b.code;
  };
  return thread_state == other.thread_state && cframes == other.cframes &&
         std::equal(frames.begin(), frames.end(), other.frames.begin(), other.frames.end(), same);
}

absl::StatusOr<std::unique_ptr<BlockVisitor>> WalkAgain(
    const Process& process, const TransitionVisitor& visitor,
    const std::function<std::unique_ptr<BlockVisitor>(uint32_t block)>& make) {
  std::unique_ptr<BlockVisitor> again;
  // At its start the block before ends, which would be walked too.
  const Time inside = visitor.start() + 1;
  RETURN_IF_ERROR(process.WatchBlocks(
      {inside < visitor.end() ? inside : visitor.start(), visitor.end()}, make,
      [&](std::unique_ptr<BlockVisitor> walked) {
        if (static_cast<TransitionVisitor*>(walked.get())->block() == visitor.block()) {
          again = std::move(walked);
        }
        return absl::OkStatus();
      },
      nullptr));
  return again;
}

bool GoesOn(const std::vector<ThreadStack>& before, const std::vector<ThreadStack>& start) {
  const auto find = [](const std::vector<ThreadStack>& stacks, uint64_t thread_state) {
    return std::find_if(stacks.begin(), stacks.end(), [&](const ThreadStack& stack) {
      return stack.thread_state == thread_state;
    });
  };
  for (const ThreadStack& stack : before) {
    const auto other = find(start, stack.thread_state);
    if (other == start.end() ? !stack.frames.empty() : !stack.SameAs(*other)) return false;
  }
  return std::all_of(start.begin(), start.end(), [&](const ThreadStack& stack) {
    return stack.frames.empty() || find(before, stack.thread_state) != before.end();
  });
}

// ---- Which words --------------------------------------------------------------------------------

void TransitionVisitor::AddWatch(uint64_t address, Watched what, uint32_t stack) {
  watches_[address & ~uint64_t{7}] = {what, stack};
  words_->Add(Address(address));
}

void TransitionVisitor::DropWatch(uint64_t address) {
  watches_.erase(address & ~uint64_t{7});
  if (!Needs(address & ~uint64_t{7})) words_->Remove(Address(address));
}

void TransitionVisitor::WatchStack(uint32_t index) {
  const ThreadStack& stack = stacks_[index];
  const Layout& layout = LayoutOf(stack);
  AddWatch(stack.thread_state + layout.thread_next, Watched::kList, index);
  if (HasCFrames(layout)) {
    AddWatch(stack.thread_state + layout.thread_cframe, Watched::kCFrame, index);
    if (!stack.cframes.empty()) {
      AddWatch(stack.cframes.back().address + layout.cframe_current, Watched::kCurrent, index);
    }
  } else {
    AddWatch(stack.thread_state + CurrentFrameWord(layout), Watched::kFrame, index);
  }
  for (const StackEntry& frame : stack.frames) {
    if (frame.state == StackEntry::kPending) {
      AddWatch(frame.frame + layout.frame_instruction, Watched::kInstruction, index);
    }
  }
  Attached(index);
}

void TransitionVisitor::UnwatchStack(uint32_t index) {
  std::vector<uint64_t> words;
  for (const auto& [word, watch] : watches_) {
    const bool of_runtime = watch.what == Watched::kNewThread ||
                            (watch.what == Watched::kList && watch.stack == kNoStack);
    if (watch.stack == index && !of_runtime) words.push_back(word);
  }
  for (const uint64_t word : words) DropWatch(word);
  Detached(index);
}

void TransitionVisitor::ListThreads(bool drop) {
  absl::flat_hash_map<uint64_t, uint32_t> alive;  // thread state: runtime
  std::vector<bool> at_work(runtimes_.size());
  for (uint32_t r = 0; r < runtimes_.size(); ++r) {
    const Layout& layout = *runtimes_[r].layout;
    const uint64_t head = runtimes_[r].address + layout.runtime_interpreters_head;
    AddWatch(head, Watched::kList, kNoStack);
    // A forked child takes the list apart and puts the main interpreter back, which follows the
    // head in the structure.
    at_work[r] = memory_.Pointer(head) == 0 && memory_.Pointer(head + 8) != 0;
    for (const Interpreter& interpreter : FindInterpreters(process_, memory_, runtimes_[r])) {
      AddWatch(interpreter.address + layout.interp_threads_head, Watched::kList, kNoStack);
      AddWatch(interpreter.address + layout.interp_next, Watched::kList, kNoStack);
      for (const ThreadState& thread : interpreter.threads) alive[thread.address] = r;
    }
  }
  std::vector<uint64_t> gone;
  for (const auto& [address, index] : by_thread_) {
    if (drop && !alive.contains(address) && !at_work[stacks_[index].runtime]) {
      gone.push_back(address);
    }
  }
  for (const uint64_t address : gone) {
    const uint32_t index = by_thread_[address];
    UnwatchStack(index);
    stacks_[index].frames.clear();
    stacks_[index].cframes.clear();
    by_thread_.erase(address);
  }
  std::vector<std::pair<uint64_t, uint32_t>> sorted(alive.begin(), alive.end());
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [address, runtime] : sorted) {
    if (!by_thread_.contains(address)) Attach(address, runtime);
  }
}

absl::Status TransitionVisitor::ListIfChanged(Time now) {
  constexpr uint64_t kChanging = 1000;  // instructions
  if (list_changed_ && now.v - list_changed_->v >= kChanging) {
    list_changed_.reset();
    ListThreads(/*drop=*/true);
  }
  return memory_.status;
}

void TransitionVisitor::Attach(uint64_t thread_state, uint32_t runtime) {
  const auto index = static_cast<uint32_t>(stacks_.size());
  ThreadStack stack;
  stack.thread_state = thread_state;
  stack.runtime = runtime;
  ReadStack(&stack);
  stacks_.push_back(std::move(stack));
  by_thread_[thread_state] = index;
  WatchStack(index);
}

void TransitionVisitor::ReadStack(ThreadStack* stack) {
  const Layout& layout = LayoutOf(*stack);
  uint64_t frame = 0;
  if (HasCFrames(layout)) {
    stack->cframes =
        CFramesFrom(layout, memory_.Pointer(stack->thread_state + layout.thread_cframe));
    if (!stack->cframes.empty()) {
      frame = memory_.Pointer(stack->cframes.back().address + layout.cframe_current);
      if (stack->cframes.size() > 1 &&
          !CFrameLooksSet(layout, memory_, stack->cframes.back().address)) {
        stack->cframes.back().set = false;
        frame = memory_.Pointer(stack->cframes[stack->cframes.size() - 2].address +
                                layout.cframe_current);
      }
    }
  } else {
    frame = memory_.Pointer(stack->thread_state + CurrentFrameWord(layout));
  }
  stack->frames = FramesFrom(layout, stack->runtime, frame);
}

std::vector<ThreadStack::CFrame> TransitionVisitor::CFramesFrom(const Layout& layout,
                                                                uint64_t cframe) {
  std::vector<ThreadStack::CFrame> cframes;
  while (cframe != 0 && cframes.size() < kMaxFrames) {
    cframes.push_back({cframe, true});
    cframe = memory_.Pointer(cframe + layout.cframe_previous);
  }
  std::reverse(cframes.begin(), cframes.end());
  return cframes;
}

std::vector<StackEntry> TransitionVisitor::FramesFrom(const Layout& layout, uint32_t runtime,
                                                      uint64_t frame) {
  std::vector<StackEntry> frames;
  while (frames.size() < kMaxFrames) {
    frame = SkipShims(layout, runtime, frame);
    if (frame == 0) break;
    frames.push_back(Describe(layout, runtime, frame));
    if (frames.back().code == kNoCode) break;
    frame = memory_.Pointer(frame + layout.frame_previous);
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

// ---- What happens -------------------------------------------------------------------------------

absl::Status TransitionVisitor::Begin(uint32_t block, Moment* moment, WordSet* words) {
  block_ = block;
  words_ = words;
  memory_.moment = moment;
  start_time_ = moment->time();
  if (given_) {
    stacks_ = *given_;
    for (uint32_t i = 0; i < stacks_.size(); ++i) {
      by_thread_[stacks_[i].thread_state] = i;
      WatchStack(i);
    }
  }
  ListThreads(/*drop=*/false);
  if (given_) ListChanged(start_time_);
  for (ThreadStack& stack : stacks_) {
    for (size_t i = 0; i < stack.frames.size(); ++i) {
      stack.frames[i].initial = static_cast<int32_t>(i);
    }
  }
  start_stacks_ = stacks_;
  return memory_.status;
}

absl::Status TransitionVisitor::Write(const WatchedWrite& write) {
  RETURN_IF_ERROR(ListIfChanged(write.time));
  // Handling a word may change which are watched.
  uint64_t found[16];
  size_t n = 0;
  words_->ForEachIn(write.address.v, write.size, [&](Address word) {
    if (n < std::size(found)) found[n++] = word.v;
  });
  for (size_t i = 0; i < n; ++i) {
    const uint64_t value = write.After(Address(found[i]), memory_.Pointer(found[i]));
    Before(found[i], value, write);
    const auto it = watches_.find(found[i]);
    if (it == watches_.end()) continue;
    const Watch watch = it->second;
    Handle(watch, found[i], value, write);
  }
  return memory_.status;
}

absl::Status TransitionVisitor::End(Time time) {
  RETURN_IF_ERROR(ListIfChanged(time));
  end_time_ = time;
  memory_.moment = nullptr;
  return memory_.status;
}

void TransitionVisitor::Handle(const Watch& watch, uint64_t address, uint64_t value,
                               const WatchedWrite& write) {
  switch (watch.what) {
    case Watched::kList: {
      ListChanged(write.time);
      // A thread state put at the head of its list may run before the list is looked at. 3.11 puts
      // it there before it is filled in.
      for (uint32_t r = 0; r < runtimes_.size(); ++r) {
        const Layout& layout = *runtimes_[r].layout;
        if (value == 0 || by_thread_.contains(value)) continue;
        const uint64_t interpreter = address - static_cast<uint64_t>(layout.interp_threads_head);
        const uint64_t its = value + static_cast<uint64_t>(layout.thread_interp);
        if (memory_.Pointer(its) == interpreter) {
          Attach(value, r);
        } else if (layout.traits.threads_link_first && watch.stack == kNoStack && its % 8 == 0) {
          AddWatch(its, Watched::kNewThread, r);
        }
      }
      return;
    }
    case Watched::kNewThread: {
      const Layout& layout = *runtimes_[watch.stack].layout;
      const uint64_t thread_state = address - static_cast<uint64_t>(layout.thread_interp);
      const uint64_t head = value + static_cast<uint64_t>(layout.interp_threads_head);
      DropWatch(address);
      if (value != 0 && memory_.Pointer(head) == thread_state &&
          !by_thread_.contains(thread_state)) {
        Attach(thread_state, watch.stack);
      }
      return;
    }
    case Watched::kFrame:
      if (IsForeign(write, stacks_[watch.stack].runtime)) {
        return SwitchStack(watch.stack, value, write);
      }
      return SetFrame(watch.stack, value, write);
    case Watched::kCFrame:
      return SetCFrame(watch.stack, value, write);
    case Watched::kCurrent: {
      const bool is_foreign = IsForeign(write, stacks_[watch.stack].runtime);
      // The C stack is copied to and fro: what is current then is told by what comes next.
      if (is_foreign && (write.address.v != address || write.size != 8)) return;
      stacks_[watch.stack].cframes.back().set = true;
      return is_foreign ? SwitchStack(watch.stack, value, write)
                        : SetFrame(watch.stack, value, write);
    }
    case Watched::kInstruction: {
      ThreadStack& stack = stacks_[watch.stack];
      const Layout& layout = LayoutOf(stack);
      for (size_t i = stack.frames.size(); i-- > 0;) {
        StackEntry& frame = stack.frames[i];
        if (frame.state != StackEntry::kPending ||
            ((frame.frame + layout.frame_instruction) & ~uint64_t{7}) != address) {
          continue;
        }
        frame.state = StackEntry::kShown;
        const int64_t caller = i == 0 ? 0 : OffsetOf(layout, stack.frames[i - 1]);
        Emit(TransitionKind::kResume, watch.stack, frame, frame.pushed, write.thread,
             OffsetOf(layout, frame), caller);
        break;
      }
      DropWatch(address);
      return;
    }
  }
}

void TransitionVisitor::SetCFrame(uint32_t index, uint64_t cframe, const WatchedWrite& write) {
  ThreadStack& stack = stacks_[index];
  const Layout& layout = LayoutOf(stack);
  const auto same = [cframe](const ThreadStack::CFrame& c) { return c.address == cframe; };
  const auto found = std::find_if(stack.cframes.rbegin(), stack.cframes.rend(), same);
  if (!stack.cframes.empty()) DropWatch(stack.cframes.back().address + layout.cframe_current);
  if (cframe != 0 && IsForeign(write, stack.runtime)) {
    stack.cframes = CFramesFrom(layout, cframe);
    AddWatch(cframe + layout.cframe_current, Watched::kCurrent, index);
    return SwitchStack(index, memory_.Pointer(cframe + layout.cframe_current), write);
  }
  if (found != stack.cframes.rend()) {
    stack.cframes.erase(found.base(), stack.cframes.end());
    AddWatch(cframe + layout.cframe_current, Watched::kCurrent, index);
    if (stack.cframes.back().set) {
      SetFrame(index, memory_.Pointer(cframe + layout.cframe_current), write);
    }
    return;
  }
  if (cframe == 0 || stack.cframes.size() >= kMaxFrames) return;
  // The outermost one is in the thread state and never filled in: it holds none.
  constexpr uint64_t kMaxThreadState = 4096;
  stack.cframes.push_back({cframe, cframe - stack.thread_state < kMaxThreadState});
  AddWatch(cframe + layout.cframe_current, Watched::kCurrent, index);
}

void TransitionVisitor::SetFrame(uint32_t index, uint64_t raw, const WatchedWrite& write) {
  const Layout& layout = LayoutOf(stacks_[index]);
  const uint64_t frame = SkipShims(layout, stacks_[index].runtime, raw);
  std::vector<StackEntry>& frames = stacks_[index].frames;
  size_t keep = frames.size();
  while (keep > 0 && frames[keep - 1].frame != frame) --keep;
  if (keep == 0 && frame != 0) return Push(index, frame, write);
  while (frames.size() > keep) Pop(index, write);
}

bool TransitionVisitor::IsForeign(const WatchedWrite& write, uint32_t runtime) {
  const auto holds = [pc = write.pc](const AddressRange& range) { return range.Contains(pc); };
  if (write.pc.v == 0 || holds(runtimes_[runtime].range)) return false;
  if (!modules_) {
    modules_.emplace();
    if (const auto modules = process_.Modules(); modules.ok()) {
      for (const LoadedModule& module : *modules) modules_->push_back(module.range);
    }
  }
  // Not by what is in none: code that the interpreter has made.
  return absl::c_any_of(*modules_, holds);
}

void TransitionVisitor::SwitchStack(uint32_t index, uint64_t frame, const WatchedWrite& write) {
  const Layout& layout = LayoutOf(stacks_[index]);
  std::vector<StackEntry>& frames = stacks_[index].frames;
  std::vector<StackEntry> other = FramesFrom(layout, stacks_[index].runtime, frame);
  const auto is_same = [](const StackEntry& a, const StackEntry& b) { return a.frame == b.frame; };
  const auto parting =
      std::mismatch(frames.begin(), frames.end(), other.begin(), other.end(), is_same);
  const auto same = static_cast<size_t>(parting.first - frames.begin());
  while (frames.size() > same) {
    const StackEntry left = TakeOff(index);
    if (left.state != StackEntry::kShown) continue;
    Emit(TransitionKind::kSwitchOut, index, left, write.time, write.thread, OffsetOf(layout, left),
         0);
  }
  for (size_t i = same; i < other.size(); ++i) {
    StackEntry& entered = other[i];
    entered.pushed = write.time;
    if (entered.state == StackEntry::kShown) {
      const int64_t caller = i == 0 ? 0 : OffsetOf(layout, other[i - 1]);
      Emit(TransitionKind::kSwitchIn, index, entered, write.time, write.thread,
           OffsetOf(layout, entered), caller);
    }
    frames.push_back(entered);
  }
}

void TransitionVisitor::Push(uint32_t index, uint64_t frame, const WatchedWrite& write) {
  ThreadStack& stack = stacks_[index];
  if (stack.frames.size() >= kMaxFrames) return;
  const Layout& layout = LayoutOf(stack);
  StackEntry entry = Describe(layout, stack.runtime, frame);
  entry.pushed = write.time;
  int64_t offset = 0;
  TransitionKind kind = TransitionKind::kCall;
  if (entry.state == StackEntry::kShown) {
    offset = OffsetOf(layout, entry);
    if (entry.generator) {
      const bool raised = memory_.Pointer(stack.thread_state + layout.thread_exception) != 0;
      const int64_t first =
          layout.code_firsttraceable == kAbsent ? 0 : codes_.at(entry.code).code.first_traceable;
      if (raised) {
        kind = TransitionKind::kThrow;
      } else if (offset >= first) {
        entry.state = StackEntry::kPending;
        AddWatch(frame + layout.frame_instruction, Watched::kInstruction, index);
      }
    }
  }
  if (entry.state == StackEntry::kShown) {
    const int64_t caller = stack.frames.empty() ? 0 : OffsetOf(layout, stack.frames.back());
    Emit(kind, index, entry, write.time, write.thread, offset, caller);
  }
  stack.frames.push_back(entry);
}

StackEntry TransitionVisitor::TakeOff(uint32_t index) {
  ThreadStack& stack = stacks_[index];
  const StackEntry frame = stack.frames.back();
  stack.frames.pop_back();
  if (frame.state == StackEntry::kPending) {
    DropWatch(frame.frame + LayoutOf(stack).frame_instruction);
  }
  return frame;
}

void TransitionVisitor::Pop(uint32_t index, const WatchedWrite& write) {
  ThreadStack& stack = stacks_[index];
  const Layout& layout = LayoutOf(stack);
  const StackEntry frame = TakeOff(index);
  if (frame.state != StackEntry::kShown) return;
  TransitionKind kind = TransitionKind::kReturn;
  if (memory_.Pointer(stack.thread_state + layout.thread_exception) != 0) {
    kind = TransitionKind::kUnwind;
  } else if (frame.generator) {
    bool suspended = false;
    const int8_t executing = layout.traits.generator_executing;
    if (layout.generator_state != kAbsent) {
      const uint64_t generator = frame.frame - static_cast<uint64_t>(layout.generator_iframe);
      suspended =
          memory_.Get<int8_t>(generator + layout.generator_state).value_or(executing) < executing;
    } else if (layout.frame_state != kAbsent) {
      suspended =
          memory_.Get<int8_t>(frame.frame + layout.frame_state).value_or(executing) < executing;
    } else {
      suspended = memory_.Pointer(frame.frame + layout.frame_stack_top) != 0;
    }
    if (suspended) kind = TransitionKind::kYield;
  }
  Emit(kind, index, frame, write.time, write.thread, OffsetOf(layout, frame), 0);
}

void TransitionVisitor::Emit(TransitionKind kind, uint32_t index, const StackEntry& frame,
                             Time time, ThreadNo thread, int64_t offset, int64_t caller_offset) {
  stacks_[index].thread = thread;
  transitions_.push_back({.time = time,
                          .kind = kind,
                          .thread_state = index,
                          .thread = thread,
                          .code = frame.code,
                          .frame = frame.frame,
                          .offset = offset,
                          .caller_offset = caller_offset});
  Made(transitions_.back());
}

}  // namespace ttq::python
