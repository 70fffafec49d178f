// SPDX-License-Identifier: MIT

#include "query/cpython/raises.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "query/cpython/frame_history.h"

namespace ttq::python {
namespace {

constexpr size_t kMaxKnown = 16;

}  // namespace

const char* RaisedByName(RaisedBy by) {
  switch (by) {
    case RaisedBy::kUnknown:
      return "";
    case RaisedBy::kRaise:
      return "raise";
    case RaisedBy::kC:
      return "C";
    case RaisedBy::kThrow:
      return "throw";
  }
  return "unknown";
}

// What happened to the exception of a thread state, as one block tells it.
struct RaiseScanner::Mark {
  enum class Kind : uint8_t {
    kRaised,   // the interpreter's loop had it in `frame`
    kForeign,  // C put an entry of its own in front of the traceback
    kHandled,  // `frame` goes on, at `offset`
    kCaught,   // … in a clause that matched
    kCleared,  // by C that `frame` called; it may set it again
    kEntered,  // a frame; `below` called it, at `offset`
    kLeft,     // a frame; `traceback`: the exception's that left it
  };
  Kind kind;
  Time time;
  ThreadNo thread;
  uint64_t thread_state = 0, frame = 0, below = 0;
  uint32_t code = kNoCode;
  int64_t offset = 0;
  uint64_t traceback = 0, next = 0;
  // kRaised.
  Time set_time;
  Address pc;
  RaisedBy by = RaisedBy::kC;
  bool passed_on = false;                            // another frame had it before
  std::shared_ptr<const RaisedException> exception;  // null where it was passed on
  // kForeign
  TracebackEntry entry;
  bool may_go_on = false;                             // kCaught: by a `raise` without an exception
  TransitionKind transition = TransitionKind::kCall;  // kEntered, kLeft
};

// What is known of a thread state's exceptions.
struct RaiseScanner::ExceptionState {
  struct Known {
    uint64_t key = 0;  // the instance or what it is yet to be made from
    uint64_t traceback = 0;
    bool raised = false;  // the frame's entry is the first of it
    uint64_t frame = 0;   // where it was set last
    Time time;
    Address pc;
  };
  std::vector<Known> known;  // the latest last
  uint64_t current = 0;      // the key of the one that is set; 0: none
  struct Setting {           // its words are being written
    Time time;
    Address pc;
    ThreadNo thread;
    StackEntry frame;
    int64_t offset = 0;
  };
  std::optional<Setting> setting;
  struct Handler {  // what a frame does when it goes on
    uint64_t frame = 0, word = 0, traceback = 0;
    uint32_t code = kNoCode;
    int64_t match = -1, jump = -1;
    int skip = 0, steps = 0;
  };
  std::optional<Handler> handler;

  // Nothing is under way: what memory says is enough to go on from.
  bool IsQuiet() const { return current == 0 && !setting && !handler; }
  Known* Find(uint64_t key) {
    for (Known& k : known) {
      if (k.key == key) return &k;
    }
    return nullptr;
  }
};

class RaiseScanner::Visitor : public TransitionVisitor {
 public:
  using States = absl::flat_hash_map<uint64_t, ExceptionState>;

  Visitor(const Process& process, const std::vector<Runtime>& runtimes, CodeTable* codes,
          std::shared_ptr<const std::vector<ThreadStack>> start,
          std::shared_ptr<const States> states)
      : TransitionVisitor(process, runtimes, codes, std::move(start)), given_(std::move(states)) {}

  const std::vector<Mark>& marks() const { return marks_; }
  const States& states() const { return states_; }
  bool IsQuiet() const {
    return std::all_of(states_.begin(), states_.end(),
                       [&](const auto& s) { return s.second.IsQuiet(); });
  }
  // An exception was set that may have been taken out of its word in an earlier block.
  bool IsUnsure() const { return unsure_; }

  absl::Status End(Time time) override {
    for (auto& [thread_state, state] : states_) AdoptException(thread_state);
    return TransitionVisitor::End(time);
  }

 protected:
  void Attached(uint32_t index) override {
    const ThreadStack& stack = stacks()[index];
    const Layout& layout = LayoutOf(stack);
    const uint64_t word = stack.thread_state + static_cast<uint64_t>(layout.thread_exception);
    for (uint64_t i = 0; i < Words(layout); ++i) {
      words_of_[(word + 8 * i) & ~uint64_t{7}] = index;
      words().Add(Address(word + 8 * i));
    }
    indices_[stack.thread_state] = index;
    if (states_.contains(stack.thread_state)) return;
    ExceptionState& state = states_[stack.thread_state];
    if (given_ != nullptr) {
      if (const auto it = given_->find(stack.thread_state); it != given_->end()) state = it->second;
      if (state.handler) Follow(state.handler->word, index);
      return;
    }
    const std::optional<HeldException> held = Read(stack);
    if (!held) return;
    ExceptionState::Known known{.key = held->key(), .traceback = held->traceback};
    if (!stack.frames.empty()) {
      known.frame = stack.frames.back().frame;
      known.raised = known.traceback != 0 && FrameOf(layout, known.traceback) == known.frame;
    }
    state.current = known.key;
    state.known = {known};
  }

  void Detached(uint32_t index) override {
    const uint64_t thread_state = stacks()[index].thread_state;
    std::vector<uint64_t> gone;
    for (const auto& [word, i] : words_of_) {
      if (i == index) gone.push_back(word);
    }
    for (const uint64_t word : gone) Leave(word);
    states_.erase(thread_state);
    indices_.erase(thread_state);
  }

  bool Needs(uint64_t word) const override { return words_of_.contains(word); }

  void Before(uint64_t word, uint64_t value, const WatchedWrite& write) override {
    const auto it = words_of_.find(word);
    if (it == words_of_.end()) return;
    const uint32_t index = it->second;
    const ThreadStack& stack = stacks()[index];
    ExceptionState& state = states_[stack.thread_state];
    const uint64_t first =
        stack.thread_state + static_cast<uint64_t>(LayoutOf(stack).thread_exception);
    if (word - first >= 24) return Step(index, &state, value, write);
    // The words of one exception are written together.
    constexpr uint64_t kTogether = 24;  // instructions
    const bool is_same = state.setting && word != first && state.setting->thread == write.thread &&
                         write.time.v - state.setting->time.v < kTogether;
    if (is_same) return;
    AdoptException(stack.thread_state);
    if (word != first) return;
    if (value == 0) return Clear(index, &state, write);
    ExceptionState::Setting setting{.time = write.time, .pc = write.pc, .thread = write.thread};
    if (!stack.frames.empty()) {
      setting.frame = stack.frames.back();
      setting.offset = OffsetOf(LayoutOf(stack), setting.frame);
    }
    state.setting = setting;
  }

  void Made(const RawTransition& t) override {
    const ThreadStack& stack = stacks()[t.thread_state];
    AdoptException(stack.thread_state);
    Mark mark{.kind = Enters(t.kind) ? Mark::Kind::kEntered : Mark::Kind::kLeft,
              .time = t.time,
              .thread = t.thread,
              .thread_state = stack.thread_state,
              .frame = t.frame,
              .below = stack.frames.empty() ? 0 : stack.frames.back().frame,
              .code = t.code,
              .offset = t.caller_offset,
              .transition = t.kind};
    ExceptionState& state = states_[stack.thread_state];
    if (t.kind == TransitionKind::kUnwind && state.current != 0) {
      if (const auto* known = state.Find(state.current)) mark.traceback = known->traceback;
    }
    marks_.push_back(std::move(mark));
  }

 private:
  static uint64_t Words(const Layout& layout) {
    return static_cast<uint64_t>(layout.traits.exception_words);
  }

  // A frame's word that says its instruction.
  void Follow(uint64_t word, uint32_t index) {
    words_of_[word & ~uint64_t{7}] = index;
    words().Add(Address(word));
  }
  void Leave(uint64_t word) {
    word &= ~uint64_t{7};
    words_of_.erase(word);
    if (!IsWatched(word)) words().Remove(Address(word));
  }
  void Forget(ExceptionState* state) {
    if (!state->handler) return;
    Leave(state->handler->word);
    state->handler.reset();
  }

  // The frame that a traceback's entry is of.
  uint64_t FrameOf(const Layout& layout, uint64_t traceback) {
    return FrameOfObject(layout, memory(), memory().Pointer(traceback + layout.traceback_frame));
  }

  // What is set, as memory has it; false: nothing.
  std::optional<HeldException> Read(const ThreadStack& stack) {
    const Layout& layout = LayoutOf(stack);
    return ReadHeld(memory(), layout,
                    stack.thread_state + static_cast<uint64_t>(layout.thread_exception),
                    layout.traits.exception_words);
  }

  uint8_t OpcodeAt(const Layout& layout, uint32_t code, int64_t offset) {
    if (code == kNoCode || offset < 0) return 0;
    const uint64_t base = InstructionsOf(layout, memory(), codes().at(code).code);
    return memory().Get<uint8_t>(base + static_cast<uint64_t>(offset)).value_or(0);
  }

  // Whether the code has a `raise` that goes on with the exception it handles.
  bool HasBareRaise(const Layout& layout, uint32_t code) {
    const Code& c = codes().at(code).code;
    const uint64_t base = InstructionsOf(layout, memory(), c);
    // The code's own, in units of two bytes; or that of its object of bytes.
    const uint64_t sized =
        layout.code_bytes == kAbsent ? c.address : base - static_cast<uint64_t>(layout.bytes_data);
    int64_t units = memory().Get<int64_t>(sized + layout.object_size).value_or(0);
    if (layout.code_bytes != kAbsent) units /= 2;
    constexpr int64_t kMaxUnits = 1 << 20;
    const auto text = memory().Bytes(
        base, 2 * static_cast<uint64_t>(std::clamp<int64_t>(units, 0, kMaxUnits)), 2 * kMaxUnits);
    if (!text) return true;
    const uint8_t raise = layout.opcodes.raise;
    for (size_t i = 0; i + 1 < text->size(); i += 2) {
      if (static_cast<uint8_t>((*text)[i]) == raise && (*text)[i + 1] == 0) return true;
    }
    return false;
  }

  void Add(Mark mark) { marks_.push_back(std::move(mark)); }

  // What is to be known of an exception that a row is of. `next`: what was in front of its
  // traceback.
  std::shared_ptr<const RaisedException> ReadRaised(const Layout& layout, const HeldException& held,
                                                    uint64_t next) {
    ObjectReader objects(&memory(), layout);
    FrameReader frames(&objects);
    auto exception = std::make_shared<RaisedException>(python::ReadRaised(frames, held));
    if (next != 0 && !seen_.contains(next)) exception->before = ReadTraceback(frames, next);
    return exception;
  }

  // Takes in the exception that was being set, once all of its words are written.
  void AdoptException(uint64_t thread_state) {
    ExceptionState& state = states_[thread_state];
    if (!state.setting) return;
    const ExceptionState::Setting setting = *std::exchange(state.setting, std::nullopt);
    const auto index = indices_.find(thread_state);
    if (index == indices_.end()) return;
    const ThreadStack& stack = stacks()[index->second];
    const Layout& layout = LayoutOf(stack);
    const std::optional<HeldException> held = Read(stack);
    if (!held) return;
    const uint64_t key = held->key(), traceback = held->traceback;
    ExceptionState::Known* known = state.Find(key);
    const bool was_known = known != nullptr;
    if (known == nullptr) {
      unsure_ = unsure_ || traceback != 0;
      if (state.known.size() == kMaxKnown) state.known.erase(state.known.begin());
      known = &state.known.emplace_back(ExceptionState::Known{.key = key});
    } else if (known != &state.known.back()) {
      std::rotate(known, known + 1, state.known.data() + state.known.size());
      known = &state.known.back();
    }
    state.current = key;
    const uint64_t next =
        traceback == 0 ? 0
                       : memory().Pointer(traceback + static_cast<uint64_t>(layout.traceback_next));
    const bool is_longer =
        was_known && traceback != 0 && traceback != known->traceback && next == known->traceback;
    if (!is_longer) {
      if (state.handler && state.handler->traceback == traceback && traceback != 0) Forget(&state);
      *known = {.key = key,
                .traceback = traceback,
                .frame = setting.frame.frame,
                .time = setting.time,
                .pc = setting.pc};
      return;
    }
    Forget(&state);
    Mark mark{.kind = Mark::Kind::kRaised,
              .time = setting.time,
              .thread = setting.thread,
              .thread_state = thread_state,
              .frame = setting.frame.frame,
              .code = setting.frame.code,
              .offset = setting.offset,
              .traceback = traceback,
              .next = next};
    if (setting.frame.frame == 0 || FrameOf(layout, traceback) != setting.frame.frame) {
      ObjectReader objects(&memory(), layout);
      FrameReader frames(&objects);
      mark.kind = Mark::Kind::kForeign;
      std::vector<TracebackEntry> entries = ReadTraceback(frames, traceback, 1);
      if (!entries.empty()) mark.entry = std::move(entries.front());
      known->traceback = traceback;
      seen_.insert(traceback);
      return Add(std::move(mark));
    }
    const bool is_here = known->frame == mark.frame;
    mark.passed_on = !is_here && known->traceback != 0;
    mark.set_time = is_here ? known->time : setting.time;
    mark.pc = is_here ? known->pc : setting.pc;
    mark.by = OpcodeAt(layout, mark.code, mark.offset) == layout.opcodes.raise ? RaisedBy::kRaise
              : is_here                                                        ? RaisedBy::kC
                                                                               : RaisedBy::kThrow;
    if (!mark.passed_on || !seen_.contains(next)) {
      mark.exception = ReadRaised(layout, *held, next);
    }
    seen_.insert(traceback);
    *known = {.key = key,
              .traceback = traceback,
              .raised = true,
              .frame = mark.frame,
              .time = setting.time,
              .pc = setting.pc};
    Add(std::move(mark));
  }

  // The exception is taken out of its word.
  void Clear(uint32_t index, ExceptionState* state, const WatchedWrite& write) {
    const ThreadStack& stack = stacks()[index];
    const Layout& layout = LayoutOf(stack);
    const ExceptionState::Known* known =
        state->current == 0 ? nullptr : state->Find(state->current);
    if (known == nullptr) return;
    state->current = 0;
    if (known->traceback == 0 || stack.frames.empty()) return;
    const StackEntry& top = stack.frames.back();
    if (top.frame != known->frame) {
      return Add({.kind = Mark::Kind::kCleared,
                  .time = write.time,
                  .thread = write.thread,
                  .thread_state = stack.thread_state,
                  .frame = top.frame,
                  .code = top.code,
                  .offset = OffsetOf(layout, top),
                  .traceback = known->traceback});
    }
    Forget(state);
    if (top.code == kNoCode) return;
    state->handler = ExceptionState::Handler{
        .frame = top.frame,
        .word = (top.frame + static_cast<uint64_t>(layout.frame_instruction)) & ~uint64_t{7},
        .traceback = known->traceback,
        .code = top.code};
    Follow(state->handler->word, index);
  }

  // The frame that handles the exception goes on to another instruction.
  void Step(uint32_t index, ExceptionState* state, uint64_t value, const WatchedWrite& write) {
    const ThreadStack& stack = stacks()[index];
    const Layout& layout = LayoutOf(stack);
    if (!state->handler) return;
    ExceptionState::Handler& h = *state->handler;
    if (stack.frames.empty() || stack.frames.back().frame != h.frame ||
        stack.frames.back().code != h.code) {
      return;
    }
    const int64_t offset = FrameOffset(layout, memory(), h.frame, codes().at(h.code).code, value);
    const Opcodes& opcodes = layout.opcodes;
    const uint8_t opcode = OpcodeAt(layout, h.code, offset);
    Mark mark{.kind = Mark::Kind::kHandled,
              .time = write.time,
              .thread = write.thread,
              .thread_state = stack.thread_state,
              .frame = h.frame,
              .code = h.code,
              .offset = offset,
              .traceback = h.traceback};
    const auto caught = [&](int64_t at) {
      mark.kind = Mark::Kind::kCaught;
      mark.offset = at;
      mark.may_go_on = HasBareRaise(layout, h.code);
      Add(mark);
      Forget(state);
    };
    if (opcode == opcodes.push_exc_info && opcode != 0) return;
    const bool is_first = h.steps++ == 0;
    if (is_first) Add(mark);
    constexpr int64_t kLongestJump = 4;  // of the jump itself, bytes
    constexpr int kMaxSteps = 64;
    bool begins_clause = is_first;
    if (h.jump >= 0) {
      if (offset > h.jump && offset - h.jump <= kLongestJump) return caught(h.match);
      h.match = h.jump = -1;
      begins_clause = true;
    }
    // `except:` has nothing to compare.
    if (begins_clause && opcode == opcodes.pop_top) return caught(offset);
    if (h.steps > kMaxSteps || opcode == opcodes.reraise || opcode == opcodes.raise) {
      return Forget(state);
    }
    if (h.match >= 0) {
      if (opcode == opcodes.extended) return;
      if (h.skip > 0) {
        --h.skip;
      } else {
        h.jump = offset;
      }
      return;
    }
    h.skip = 0;
    if (opcode == opcodes.match || (opcode == opcodes.match_group && opcode != 0)) {
      h.match = offset;
      if (opcodes.match_jumps) h.jump = offset;
      if (opcode != opcodes.match) h.skip = 1;
    }
  }

  std::shared_ptr<const States> given_;
  States states_;
  absl::flat_hash_map<uint64_t, uint32_t> words_of_;  // index of the stack
  absl::flat_hash_map<uint64_t, uint32_t> indices_;   // by thread state
  absl::flat_hash_set<uint64_t> seen_;                // tracebacks in marks
  std::vector<Mark> marks_;
  bool unsure_ = false;
};

// An entry of a traceback, with those that follow it towards where it was raised.
struct RaiseScanner::Node {
  TracebackEntry entry;
  std::shared_ptr<const Node> next;
  std::vector<TracebackEntry> rest;  // instead of `next`
  std::weak_ptr<Flight> flight;
  std::shared_ptr<const RaisedException> exception;
};

struct RaiseScanner::Flight {
  Raise raise;
  uint64_t thread_state = 0;
  std::shared_ptr<const Node> last;
  uint64_t frame = 0;  // that had it last
  struct Position {
    uint64_t frame;
    uint32_t code;
    int64_t offset;
    Time time;
  };
  std::optional<Position> handled, cleared;
  bool closed = false;
};

absl::StatusOr<std::unique_ptr<RaiseScanner>> RaiseScanner::Open(const Recording& recording,
                                                                 const Process& process,
                                                                 TimeSpan span,
                                                                 std::optional<ThreadNo> thread,
                                                                 ScanControl* control) {
  ASSIGN_OR_RETURN(std::vector<Runtime> runtimes, RuntimesEver(recording, process));
  std::unique_ptr<RaiseScanner> scanner(new RaiseScanner(process, span, thread, control));
  scanner->runtimes_ = std::move(runtimes);
  scanner->blocks_ = process.BlockStarts();
  scanner->unindexed_ = process.info().indexed.begin.v == 0 ? 0 : 1;
  const auto& blocks = scanner->blocks_;
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), span.begin);
  scanner->next_block_ =
      after == blocks.begin() ? 0 : static_cast<size_t>(after - blocks.begin()) - 1;
  return scanner;
}

absl::StatusOr<std::optional<Raise>> RaiseScanner::Next() {
  while (true) {
    while (!flights_.empty() && flights_.front()->closed) {
      const std::shared_ptr<Flight> flight = flights_.front();
      flights_.pop_front();
      if (!span_.Contains(flight->raise.time)) continue;
      if (thread_ && flight->raise.thread != *thread_) continue;
      return std::optional<Raise>(Finish(*flight));
    }
    const bool past =
        flights_.empty() && next_block_ < blocks_.size() && blocks_[next_block_] >= span_.end;
    if (next_block_ < blocks_.size() && !past) {
      RETURN_IF_ERROR(Advance());
    } else if (flights_.empty()) {
      return std::optional<Raise>();
    } else {
      for (const auto& flight : flights_) flight->closed = true;
    }
  }
}

// Walks the blocks that come next: few at first, so that rows come soon.
absl::Status RaiseScanner::Advance() {
  constexpr size_t kMaxWindow = 64;
  const size_t first = next_block_, last = std::min(blocks_.size(), first + window_);
  window_ = std::min(2 * window_, kMaxWindow);
  const Time end = last < blocks_.size() ? blocks_[last] : kTimeMax;
  RETURN_IF_ERROR(process_.WatchBlocks(
      {blocks_[first] + (first == 0 ? 0 : 1), end},
      [&](uint32_t) {
        return std::make_unique<Visitor>(process_, runtimes_, &codes_, nullptr, nullptr);
      },
      [&](std::unique_ptr<BlockVisitor> visitor) { return Take(std::move(visitor)); }, control_));
  next_block_ = last;
  return absl::OkStatus();
}

absl::Status RaiseScanner::Take(std::unique_ptr<BlockVisitor> taken) {
  auto* visitor = static_cast<Visitor*>(taken.get());
  // A span begins with the end of the block before.
  if (unindexed_ + visitor->block() < next_block_) return absl::OkStatus();
  const bool goes_on =
      !stacks_ || (is_quiet_ && !visitor->IsUnsure() && GoesOn(*stacks_, visitor->start_stacks()));
  if (!goes_on) {
    // From what the block before ended with.
    ASSIGN_OR_RETURN(
        std::unique_ptr<BlockVisitor> again, WalkAgain(process_, *visitor, [&](uint32_t) {
          return std::make_unique<Visitor>(process_, runtimes_, &codes_, stacks_, states_);
        }));
    if (again) {
      taken = std::move(again);
      visitor = static_cast<Visitor*>(taken.get());
    }
  }
  for (const Mark& mark : visitor->marks()) Follow(mark);
  std::vector<ThreadStack> now;
  for (const ThreadStack& stack : visitor->stacks()) {
    std::erase_if(now, [&](const ThreadStack& s) { return s.thread_state == stack.thread_state; });
    if (!stack.frames.empty() || !stack.cframes.empty()) now.push_back(stack);
  }
  stacks_ = std::make_shared<const std::vector<ThreadStack>>(std::move(now));
  is_quiet_ = visitor->IsQuiet();
  // What was known before this block is so still.
  auto states = std::make_shared<Visitor::States>(visitor->states());
  if (states_) {
    for (auto& [thread_state, state] : *states) {
      const auto before = states_->find(thread_state);
      if (before == states_->end()) continue;
      std::vector<ExceptionState::Known> known;
      for (const auto& k : before->second.known) {
        if (!state.Find(k.key)) known.push_back(k);
      }
      const size_t room = kMaxKnown - state.known.size();
      if (known.size() > room) {
        known.erase(known.begin(), known.end() - static_cast<ptrdiff_t>(room));
      }
      state.known.insert(state.known.begin(), known.begin(), known.end());
    }
  }
  states_ = std::move(states);
  return absl::OkStatus();
}

TracebackEntry RaiseScanner::EntryOf(uint32_t code, int64_t offset) const {
  if (code == kNoCode) return {};
  const CodeTable::Entry& entry = codes_.at(code);
  return {entry.code.qualname, entry.code.filename,
          LineAt(*runtimes_[entry.runtime].layout, entry.code, offset)};
}

std::shared_ptr<RaiseScanner::Flight> RaiseScanner::FlightOf(uint64_t traceback) const {
  const auto it = traceback == 0 ? nodes_.end() : nodes_.find(traceback);
  if (it == nodes_.end()) return nullptr;
  std::shared_ptr<Flight> flight = it->second->flight.lock();
  return flight && !flight->closed ? flight : nullptr;
}

void RaiseScanner::Close(const std::shared_ptr<Flight>& flight) {
  flight->closed = true;
  std::erase(open_, flight);
}

void RaiseScanner::Follow(const Mark& mark) {
  const auto place = [&] {
    return Flight::Position{mark.frame, mark.code, mark.offset, mark.time};
  };
  switch (mark.kind) {
    case Mark::Kind::kRaised:
      return FollowRaised(mark);
    case Mark::Kind::kForeign: {
      auto node = std::make_shared<Node>();
      node->entry = mark.entry;
      if (const auto it = nodes_.find(mark.next); mark.next != 0 && it != nodes_.end()) {
        node->next = it->second;
      }
      const std::shared_ptr<Flight> flight = FlightOf(mark.next);
      if (node->next) node->exception = node->next->exception;
      if (flight) flight->last = node;
      node->flight = flight;
      nodes_[mark.traceback] = std::move(node);
      return;
    }
    case Mark::Kind::kHandled:
    case Mark::Kind::kCaught: {
      const std::shared_ptr<Flight> flight = FlightOf(mark.traceback);
      if (!flight) return;
      flight->handled = place();
      flight->cleared.reset();
      if (mark.kind == Mark::Kind::kCaught && !mark.may_go_on) Close(flight);
      return;
    }
    case Mark::Kind::kCleared:
      if (const std::shared_ptr<Flight> flight = FlightOf(mark.traceback)) {
        flight->cleared = place();
      }
      return;
    case Mark::Kind::kEntered: {
      const std::vector<std::shared_ptr<Flight>> open = open_;
      for (const auto& f : open) {
        if (f->thread_state == mark.thread_state && f->cleared && f->cleared->frame == mark.below &&
            f->cleared->offset != mark.offset) {
          Close(f);
        }
      }
      return;
    }
    case Mark::Kind::kLeft:
      return FollowLeft(mark);
  }
}

void RaiseScanner::FollowRaised(const Mark& mark) {
  const auto it = mark.next == 0 ? nodes_.end() : nodes_.find(mark.next);
  std::shared_ptr<Flight> flight = FlightOf(mark.next);
  if (flight && !mark.passed_on) {
    // C may have had it in its hands, and gone on with it.
    const bool set_again = mark.by == RaisedBy::kC && flight->cleared &&
                           flight->cleared->frame == mark.frame &&
                           flight->cleared->offset == mark.offset;
    if (!set_again) flight = nullptr;
  }
  auto node = std::make_shared<Node>();
  node->entry = EntryOf(mark.code, mark.offset);
  node->exception = mark.exception;
  if (it != nodes_.end()) {
    node->next = it->second;
    if (!node->exception) node->exception = it->second->exception;
  } else if (mark.exception) {
    node->rest = mark.exception->before;
  }
  if (!flight) {
    flight = std::make_shared<Flight>();
    flight->thread_state = mark.thread_state;
    Raise& raise = flight->raise;
    raise.time = mark.set_time;
    raise.thread = mark.thread;
    raise.pc = mark.pc;
    raise.frame = mark.frame;
    raise.place = node->entry;
    raise.by = mark.by;
    raise.exception = node->exception;
    raise.begun_before = mark.passed_on && it == nodes_.end();
    open_.push_back(flight);
    flights_.push_back(flight);
  }
  flight->frame = mark.frame;
  flight->last = node;
  flight->handled.reset();
  flight->cleared.reset();
  node->flight = flight;
  nodes_[mark.traceback] = std::move(node);
}

void RaiseScanner::FollowLeft(const Mark& mark) {
  const std::shared_ptr<Flight> flying = FlightOf(mark.traceback);
  const std::vector<std::shared_ptr<Flight>> open = open_;
  for (const auto& f : open) {
    if (f->thread_state != mark.thread_state) continue;
    if (f == flying) {
      if (f->handled && f->handled->frame == mark.frame) f->handled.reset();
      if (f->cleared && f->cleared->frame == mark.frame) f->cleared.reset();
      f->frame = mark.below;
      if (mark.below == 0) {
        f->raise.left_python = true;
        Close(f);
      }
      continue;
    }
    const bool goes_on =
        mark.transition == TransitionKind::kYield || mark.transition == TransitionKind::kSwitchOut;
    if (goes_on) continue;
    const uint64_t at = f->handled ? f->handled->frame : f->cleared ? f->cleared->frame : f->frame;
    if (at == mark.frame) Close(f);
  }
}

Raise RaiseScanner::Finish(const Flight& flight) const {
  Raise raise = flight.raise;
  for (std::shared_ptr<const Node> node = flight.last; node && raise.traceback.size() < kMaxEntries;
       node = node->next) {
    raise.traceback.push_back(node->entry);
    raise.traceback.insert(raise.traceback.end(), node->rest.begin(), node->rest.end());
  }
  if (raise.left_python) return raise;
  if (const auto& place = flight.handled ? flight.handled : flight.cleared) {
    raise.caught = Raise::Caught{place->time, EntryOf(place->code, place->offset), !flight.handled};
  }
  return raise;
}

}  // namespace ttq::python
