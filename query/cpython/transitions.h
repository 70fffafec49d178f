// SPDX-License-Identifier: MIT
//
// Python frames being entered and left, found by watching the words that hold each thread state's
// current frame while blocks are walked.
//
// Every write of such a word is looked at, not only every change: a generator is resumed in the
// same frame, and a C stack slot holds the same pointer again. The stack of frames decides what a
// write means: a frame that is on the stack is returned to, any other is entered. Frames without a
// Python function are followed but not reported: those that stand for C (3.12 on), those that only
// make a generator object (3.11 on), and a delegating generator's while an exception is thrown past
// it.
//
// Code outside the interpreter writes such a word to switch to another stack of frames (greenlets).
// Then all frames of the one stack are suspended, and all of the other resume.
//
// In 3.11 and 3.12 the word is in a structure on the C stack that is installed first and filled in
// later: until then it holds an old value of the C stack, and the current frame does not change.
//
// A visitor begins with the frames that it finds in memory at its block's start. The caller joins
// the blocks: where these frames differ from the last ones of the block before, it walks the block
// again from those (a block may start between the two writes).

#ifndef TTQ_QUERY_CPYTHON_TRANSITIONS_H_
#define TTQ_QUERY_CPYTHON_TRANSITIONS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "query/cpython/frames.h"
#include "query/cpython/layout.h"
#include "query/cpython/memory.h"
#include "query/cpython/objects.h"
#include "query/cpython/runtime.h"
#include "store/read/reader.h"

namespace ttq::python {

enum class TransitionKind : uint8_t {
  kCall = 1,    // stored: do not renumber
  kResume = 2,  // of a generator or coroutine that had begun
  kThrow = 3,   // … to have an exception raised in it
  kReturn = 4,
  kYield = 5,
  kUnwind = 6,     // left by an exception
  kSwitchOut = 7,  // its greenlet is suspended
  kSwitchIn = 8,   // … and goes on
};
inline bool Enters(TransitionKind kind) {
  return kind <= TransitionKind::kThrow || kind == TransitionKind::kSwitchIn;
}
const char* TransitionKindName(TransitionKind kind);

inline constexpr uint32_t kNoCode = ~uint32_t{0};

// The code objects that frames ran, each once, with what was read of them. A Key recognises a code
// object; another one at the same address has another key. Thread-safe.
class CodeTable {
 public:
  // Differs between two code objects that had the same address one after the other.
  struct Key {
    uint64_t address = 0;
    uint64_t name = 0, filename = 0, linetable = 0, consts = 0, name_hash = 0;
    int32_t first_line = 0;
    bool operator==(const Key&) const = default;
    template <class H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.address, k.name, k.filename, k.linetable, k.consts,
                        k.name_hash, k.first_line);
    }
  };
  struct Entry {
    Code code;
    Key key;
    uint32_t runtime = 0;     // index of the runtime it belongs to
    bool is_cleanup = false;  // the interpreter's own, around a specialised __init__
  };

  // kNoCode when nothing can be read there.
  uint32_t Find(const Key& key, uint32_t runtime, const Layout& layout, Memory& memory);
  // Valid as long as the table. Takes no lock: asked for each frame that is entered or left.
  const Entry& at(uint32_t id) const {
    return *chunks_[id / kChunk].load(std::memory_order_acquire)->at(id % kChunk);
  }
  size_t size() const { return size_.load(std::memory_order_acquire); }
  // Of what a file holds. False: it is full.
  bool Append(Entry entry);

 private:
  static constexpr size_t kChunk = 1 << 10, kMaxCount = 1 << 20;
  using Chunk = std::array<std::unique_ptr<const Entry>, kChunk>;
  // The id it gets. REQUIRES: mutex_ is held; it is not full.
  uint32_t Put(std::unique_ptr<const Entry> entry);

  std::mutex mutex_;  // guards ids_ and what is added
  absl::flat_hash_map<Key, uint32_t> ids_;
  std::vector<std::unique_ptr<Chunk>> owned_;
  std::array<std::atomic<const Chunk*>, kMaxCount / kChunk> chunks_{};
  std::atomic<size_t> size_{0};
};

// A frame on the stack of a thread state.
struct StackEntry {
  uint64_t frame = 0;
  uint32_t code = kNoCode;
  enum State : uint8_t {
    kShown = 0,    // stored: do not renumber
    kHidden = 1,   // no function runs in it
    kPending = 2,  // a suspended generator's that has not yet executed anything
  } state = kShown;
  bool generator = false;
  // Only within one block: where it was on the stack at the block's start, or, -1, when it was
  // entered.
  int32_t initial = -1;
  Time pushed;
};

// The frames of a thread state, outermost first.
struct ThreadStack {
  uint64_t thread_state = 0;
  uint32_t runtime = 0;
  ThreadNo thread;  // that last entered or left a frame of it; 0: none did yet
  std::vector<StackEntry> frames;
  // 3.11 and 3.12, outermost first.
  struct CFrame {
    uint64_t address = 0;
    bool set = true;
    bool operator==(const CFrame&) const = default;
  };
  std::vector<CFrame> cframes;

  bool SameAs(const ThreadStack& other) const;
};

// One transition as a visitor found it.
struct RawTransition {
  Time time;
  TransitionKind kind = TransitionKind::kCall;
  uint32_t thread_state = 0;  // index into TransitionVisitor::stacks
  ThreadNo thread;
  uint32_t code = kNoCode;
  uint64_t frame = 0;
  int64_t offset = 0;         // of the frame's instruction in its code, bytes
  int64_t caller_offset = 0;  // kCall, kResume, kThrow: of the frame below
};

class TransitionVisitor : public BlockVisitor {
 public:
  // `runtimes` have layouts and outlive the visitor, as does `codes`. `start`: what the stacks are
  // at the block's start; null: read from memory.
  TransitionVisitor(const Process& process, const std::vector<Runtime>& runtimes, CodeTable* codes,
                    std::shared_ptr<const std::vector<ThreadStack>> start)
      : process_(process), runtimes_(runtimes), codes_(*codes), given_(std::move(start)) {}

  absl::Status Begin(uint32_t block, Moment* moment, WordSet* words) override;
  absl::Status Write(const WatchedWrite& write) override;
  absl::Status SwitchTo(Time, ThreadNo) override { return absl::OkStatus(); }
  absl::Status End(Time time) override;

  uint32_t block() const { return block_; }
  Time start() const { return start_time_; }
  Time end() const { return end_time_; }
  // At the block's start, and at its end. A thread state that began within the block has no frames
  // at the start.
  const std::vector<ThreadStack>& start_stacks() const { return start_stacks_; }
  const std::vector<ThreadStack>& stacks() const { return stacks_; }
  const std::vector<RawTransition>& transitions() const { return transitions_; }

 protected:
  // For subclasses that watch more than frames.

  // The thread state of stacks()[stack] is followed from now on, or not any more.
  virtual void Attached(uint32_t) {}
  virtual void Detached(uint32_t) {}
  // `word` is about to become `value`; frames are still as they are before it.
  virtual void Before(uint64_t /*word*/, uint64_t /*value*/, const WatchedWrite&) {}
  // The stack is as it is below the frame that was entered, or without the one that was left.
  virtual void Made(const RawTransition&) {}
  // Whether a word that frames do not need is to be watched all the same.
  virtual bool Needs(uint64_t /*word*/) const { return false; }

  const Layout& LayoutOf(const ThreadStack& stack) const {
    return *runtimes_[stack.runtime].layout;
  }
  const CodeTable& codes() const { return codes_; }
  Memory& memory() { return memory_; }
  bool IsWatched(uint64_t word) const { return watches_.contains(word); }
  WordSet& words() { return *words_; }
  int64_t OffsetOf(const Layout& layout, const StackEntry& frame);

 private:
  // Straight from the moment, which changes from call to call.
  class LiveMemory : public Memory {
   public:
    bool Read(uint64_t at, size_t size, void* out) override {
      if (at >= uint64_t{1} << 47) return false;
      const absl::StatusOr<uint64_t> n = moment->Read(Address(at), size, out);
      if (!n.ok() && status.ok()) status = n.status();
      return n.ok() && *n == size;
    }
    Moment* moment = nullptr;
    absl::Status status;
  };
  enum class Watched : uint8_t { kList, kNewThread, kFrame, kCFrame, kCurrent, kInstruction };
  struct Watch {
    Watched what;
    uint32_t stack = 0;  // kNewThread: the runtime
  };
  struct CodeSeen {
    CodeTable::Key key;
    uint32_t id = kNoCode;
  };

  void AddWatch(uint64_t address, Watched what, uint32_t stack);
  void DropWatch(uint64_t address);
  void WatchStack(uint32_t stack);
  void UnwatchStack(uint32_t stack);
  // Follows the thread states that exist, and with `drop` no others.
  void ListThreads(bool drop);
  // Notes that a list changed. While it is being changed it does not show all of its members.
  void ListChanged(Time time) { list_changed_ = time; }
  absl::Status ListIfChanged(Time now);
  void Attach(uint64_t thread_state, uint32_t runtime);
  void ReadStack(ThreadStack* stack);
  // From `cframe` on, and from `frame` on: outermost first.
  std::vector<ThreadStack::CFrame> CFramesFrom(const Layout& layout, uint64_t cframe);
  std::vector<StackEntry> FramesFrom(const Layout& layout, uint32_t runtime, uint64_t frame);

  void Handle(const Watch& watch, uint64_t address, uint64_t value, const WatchedWrite& write);
  void SetCFrame(uint32_t stack, uint64_t cframe, const WatchedWrite& write);
  void SetFrame(uint32_t stack, uint64_t frame, const WatchedWrite& write);
  // Whether another module than the interpreter's own made it.
  bool IsForeign(const WatchedWrite& write, uint32_t runtime);
  void SwitchStack(uint32_t stack, uint64_t frame, const WatchedWrite& write);
  void Push(uint32_t stack, uint64_t frame, const WatchedWrite& write);
  StackEntry TakeOff(uint32_t stack);  // the innermost frame
  void Pop(uint32_t stack, const WatchedWrite& write);
  void Emit(TransitionKind kind, uint32_t stack, const StackEntry& frame, Time time,
            ThreadNo thread, int64_t offset, int64_t caller_offset);

  bool IsShim(const Layout& layout, uint32_t runtime, uint64_t frame);
  uint64_t SkipShims(const Layout& layout, uint32_t runtime, uint64_t frame);
  uint32_t CodeOf(const Layout& layout, uint32_t runtime, uint64_t frame);
  StackEntry Describe(const Layout& layout, uint32_t runtime, uint64_t frame);

  const Process& process_;
  const std::vector<Runtime>& runtimes_;
  CodeTable& codes_;
  std::shared_ptr<const std::vector<ThreadStack>> given_;

  uint32_t block_ = 0;
  Time start_time_, end_time_;
  LiveMemory memory_;
  WordSet* words_ = nullptr;
  std::vector<ThreadStack> start_stacks_, stacks_;
  std::vector<RawTransition> transitions_;
  absl::flat_hash_map<uint64_t, Watch> watches_;       // by word
  absl::flat_hash_map<uint64_t, uint32_t> by_thread_;  // live thread states: index of stack
  absl::flat_hash_map<uint64_t, CodeSeen> codes_seen_;
  std::optional<Time> list_changed_;
  std::optional<std::vector<AddressRange>> modules_;  // of all that were ever loaded
};

// The byte offset in its code of a frame's current instruction, as `layout` keeps it. Up to 3.10 -1
// before the first. REQUIRES: `code` is the frame's.
int64_t FrameOffset(const Layout& layout, Memory& memory, uint64_t frame, const Code& code);
// The same of what the word that says it holds, or is about to.
int64_t FrameOffset(const Layout& layout, Memory& memory, uint64_t frame, const Code& code,
                    uint64_t word);

// Walks the block of `visitor` again, with a visitor that `make` gives. Null: there is no such
// block.
absl::StatusOr<std::unique_ptr<BlockVisitor>> WalkAgain(
    const Process& process, const TransitionVisitor& visitor,
    const std::function<std::unique_ptr<BlockVisitor>(uint32_t block)>& make);

// Whether a block that begins with the stacks `start` goes on from `before`, where the block before
// it ended.
bool GoesOn(const std::vector<ThreadStack>& before, const std::vector<ThreadStack>& start);

}  // namespace ttq::python

#endif  // TTQ_QUERY_CPYTHON_TRANSITIONS_H_
