// SPDX-License-Identifier: MIT
//
// Calls of a few functions that run very often, such as an allocator's.
//
// Blocks are walked by themselves, several at once: each gives the calls that begin in it as if no
// call were running when it starts. They are then joined in order. Where a call was in fact
// running, the block is walked again up to that call's return, and what the thread did before that
// is not an outer call.
//
// A call has come back when its thread runs with a stack pointer one word above what it was at the
// function's first instruction. It was left by an exception or a longjmp when the stack pointer is
// further up; a signal handler's own stack, anywhere else, means neither.

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <thread>

#include "base/status_macros.h"
#include "base/threads.h"
#include "store/read/process_reader.h"
#include "store/read/track.h"

namespace ttq {
namespace {

// Frames that are left all at once are not larger than this.
constexpr uint64_t kMaxUnwound = 8 << 20;

struct Entries {
  struct EntryPoint {
    uint32_t instruction;
    Address function;
  };
  std::vector<uint32_t> first_of_id;  // into `places`, + 1; 0: holds none
  std::vector<EntryPoint> places;     // runs of one superblock end with instruction kEnd
  static constexpr uint32_t kEnd = ~uint32_t{0};
};

// Whether a thread with stack pointer `sp` has left a call that was made with `call_sp`.
bool HasLeft(uint64_t sp, uint64_t call_sp) { return sp > call_sp && sp - call_sp <= kMaxUnwound; }

// Completes a call by what the registers hold when it has been left.
void Leave(CallRecord* call, uint64_t call_sp, const uint64_t* registers, Time time, Address pc) {
  if (registers[kRsp] != call_sp + 8) return;  // unwound: it has no result
  call->return_time = time;
  call->return_address = pc;
  call->result = registers[kRax];
}

struct OpenOuterCall {
  uint64_t sp = 0;
  CallRecord record;
};

// The calls of one block.
struct BlockOuterCalls {
  std::vector<CallRecord> calls;
  std::vector<OpenOuterCall> open;  // at the block's end, at most one per thread
};

class OuterCallSink {
 public:
  OuterCallSink(const ProcessReader& process, const LoadedBlock& block, Walker& walker,
                const Entries& entries, BlockOuterCalls* out)
      : process_(process),
        walker_(walker),
        entries_(entries),
        threads_(block),
        out_(*out),
        native_(process.recipes(), NativeUse::kRegisters) {}

  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    if (walker_.tid() != tid_ || call_ != nullptr) return at;
    return native_.Advance(at, end, kTimeMax, &walker_, nullptr,
                           [this](uint32_t id) { return IsEntry(id); });
  }
  void Load(const Op&, uint64_t) {}
  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    if (op.size != 8) return;
    last_store_.stored_at = address;
    memcpy(&last_store_.stored, bytes, 8);
    if (call_ != nullptr && address == call_->record.args[0])
      call_->record.stored = last_store_.stored;
  }

  bool Superblock(const Program& program, uint32_t id, const uint8_t* record) {
    if (walker_.tid() != tid_) Switch();
    const uint64_t* registers = walker_.registers();
    if (call_ != nullptr && HasLeft(registers[kRsp], call_->sp)) {
      const Recipe* recipe = process_.recipes().Find(SuperblockId(id));
      Leave(&call_->record, call_->sp, registers, walker_.time(), recipe->entry());
      out_.calls.push_back(call_->record);
      open_.erase(tid_);
      call_ = nullptr;
    }
    if (IsEntry(id)) {
      Enter(program, id, record, entries_.first_of_id[id] - 1);
    } else {
      native_.Interpreted(program);
    }
    return true;
  }

  bool Control(uint32_t kind, std::string_view payload) {
    if (kind == kTtqThreadStart || kind == kTtqThreadExit) {
      // Calls of a thread that is gone stay without an end.
      const auto tid = LoadPod<TtqThread>(payload).tid;
      if (auto it = open_.find(tid); it != open_.end()) {
        out_.calls.push_back(it->second.record);
        open_.erase(it);
      }
    }
    threads_.Control(kind, payload);
    tid_ = ~uint32_t{0};
    return true;
  }

  void Finish() {
    for (auto& [tid, call] : open_) out_.open.push_back(call);
  }

 private:
  bool IsEntry(uint32_t id) const {
    return id < entries_.first_of_id.size() && entries_.first_of_id[id] != 0;
  }

  void Switch() {
    tid_ = walker_.tid();
    auto it = open_.find(tid_);
    call_ = it == open_.end() ? nullptr : &it->second;
    last_store_.stored_at = 0;
  }

  void Enter(const Program& program, uint32_t id, const uint8_t* record, uint32_t place) {
    for (; entries_.places[place].instruction < program.instructions; ++place) {
      const uint32_t instruction = entries_.places[place].instruction;
      uint64_t registers[kTtqRegCount];
      memcpy(registers, walker_.registers(), sizeof(registers));
      if (instruction > 0) {
        process_.recipes().Find(SuperblockId(id))->RegistersInside(record, instruction, registers);
      }
      if (call_ != nullptr) {
        if (registers[kRsp] <= call_->sp) continue;  // made by the call that is running
        out_.calls.push_back(call_->record);         // left long ago, and not seen
      }
      OpenOuterCall call{.sp = registers[kRsp], .record = {}};
      call.record.time = walker_.time() + instruction;
      call.record.thread = threads_.NumberOf(tid_);
      call.record.function = entries_.places[place].function;
      call.record.args = {registers[kRdi], registers[kRsi], registers[kRdx]};
      if (instruction == 0 && last_store_.stored_at == registers[kRsp]) {
        call.record.return_address = Address(last_store_.stored);
      }
      call_ = &(open_[tid_] = call);
    }
  }

  const ProcessReader& process_;
  Walker& walker_;
  const Entries& entries_;
  ThreadNumbers threads_;
  BlockOuterCalls& out_;
  absl::flat_hash_map<uint32_t, OpenOuterCall> open_;  // by tid
  uint32_t tid_ = ~uint32_t{0};
  OpenOuterCall* call_ = nullptr;  // of tid_; valid until the next call of any thread begins
  NativeWalk native_;
  NativeContext& last_store_ = native_.context();  // stored_at, stored
};

absl::StatusOr<BlockOuterCalls> CallsOfBlock(const ProcessReader& process, uint32_t number,
                                             const Entries& entries) {
  ASSIGN_OR_RETURN(auto block, process.LoadBlock(number));
  BlockOuterCalls out;
  Walker walker(process.recipes());
  StartWalk(*block, &walker);
  OuterCallSink sink(process, *block, walker, entries, &out);
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  sink.Finish();
  return out;
}

// Walks until all of some calls have been left.
class ReturnSink {
 public:
  ReturnSink(const ProcessReader& process, const LoadedBlock& block, Walker& walker,
             std::vector<OpenOuterCall>* open, std::vector<Time>* left)
      : process_(process), walker_(walker), threads_(block), open_(*open), left_(*left) {}
  void Load(const Op&, uint64_t) {}
  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    if (current_ == kNone || op.size != 8 || address != open_[current_].record.args[0]) return;
    memcpy(&open_[current_].record.stored, bytes, 8);
  }
  bool Superblock(const Program&, uint32_t id, const uint8_t*) {
    if (walker_.tid() != tid_) Switch();
    if (current_ == kNone) return true;
    OpenOuterCall& call = open_[current_];
    if (!HasLeft(walker_.registers()[kRsp], call.sp)) return true;
    const Recipe* recipe = process_.recipes().Find(SuperblockId(id));
    Leave(&call.record, call.sp, walker_.registers(), walker_.time(), recipe->entry());
    left_[current_] = walker_.time();
    current_ = kNone;
    return ++count_ < open_.size();
  }
  bool Control(uint32_t kind, std::string_view payload) {
    threads_.Control(kind, payload);
    tid_ = ~uint32_t{0};
    return true;
  }

 private:
  static constexpr size_t kNone = ~size_t{0};
  void Switch() {
    tid_ = walker_.tid();
    current_ = kNone;
    const ThreadNo thread = threads_.NumberOf(tid_);
    for (size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].record.thread == thread && left_[i] == kTimeMax) current_ = i;
    }
  }

  const ProcessReader& process_;
  Walker& walker_;
  ThreadNumbers threads_;
  std::vector<OpenOuterCall>& open_;
  std::vector<Time>& left_;
  uint32_t tid_ = ~uint32_t{0};
  size_t current_ = kNone, count_ = 0;
};

// Joins the calls of blocks, in order.
class Joiner {
 public:
  Joiner(const ProcessReader& process, const std::function<void(const CallRecord&)>& row)
      : process_(process), row_(row) {}

  bool waits() const { return !open_.empty(); }

  absl::Status Add(uint32_t number, BlockOuterCalls block) {
    std::vector<Time> left(open_.size(), kTimeMax);
    if (!open_.empty()) {
      ASSIGN_OR_RETURN(auto loaded, process_.LoadBlock(number));
      Walker walker(process_.recipes());
      StartWalk(*loaded, &walker);
      ReturnSink sink(process_, *loaded, walker, &open_, &left);
      RETURN_IF_ERROR(walker.Walk(loaded->log, sink));
    }
    const auto is_outer = [&](const CallRecord& call) {
      for (size_t i = 0; i < open_.size(); ++i) {
        if (open_[i].record.thread == call.thread) return call.time >= left[i];
      }
      return true;
    };
    for (const CallRecord& call : block.calls) {
      if (is_outer(call)) row_(call);
    }
    std::vector<OpenOuterCall> open;
    for (const OpenOuterCall& call : block.open) {
      if (is_outer(call.record)) open.push_back(call);
    }
    for (size_t i = 0; i < open_.size(); ++i) {
      if (left[i] == kTimeMax) {
        open.push_back(open_[i]);
      } else {
        row_(open_[i].record);
      }
    }
    open_ = std::move(open);
    return absl::OkStatus();
  }

  void Finish() {
    for (const OpenOuterCall& call : open_) row_(call.record);
  }

 private:
  const ProcessReader& process_;
  const std::function<void(const CallRecord&)>& row_;
  std::vector<OpenOuterCall> open_;  // running where the joined blocks end
};

}  // namespace

absl::Status ProcessReader::OuterCalls(const std::vector<Address>& functions,
                                       const std::function<void(const CallRecord&)>& row,
                                       ScanControl* control) const {
  RETURN_IF_ERROR(CheckIndexed(TimeSpan()));
  std::vector<AddressRange> code;
  for (Address f : functions) code.push_back({f, f + 1});
  ASSIGN_OR_RETURN(auto ids, SuperblocksIn(code));
  Entries entries;
  for (uint32_t id : ids) {
    const Recipe* recipe = recipes_->Find(SuperblockId(id));
    if (recipe == nullptr) continue;
    const size_t first = entries.places.size();
    for (uint32_t i = 0; i < recipe->instructions().size(); ++i) {
      const Address at = recipe->instructions()[i].address;
      if (std::find(functions.begin(), functions.end(), at) != functions.end()) {
        entries.places.push_back({i, at});
      }
    }
    if (entries.places.size() == first) continue;
    entries.places.push_back({Entries::kEnd, Address(0)});
    if (id >= entries.first_of_id.size()) entries.first_of_id.resize(id + 1);
    entries.first_of_id[id] = static_cast<uint32_t>(first) + 1;
  }
  std::vector<bool> wanted(blocks_.size());
  for (const Group& group : groups_) {
    ASSIGN_OR_RETURN(auto found, BlocksExecuting(group, ids));
    for (uint32_t b : found) {
      if (b < wanted.size()) wanted[b] = true;
    }
  }
  if (control != nullptr) {
    control->blocks_total += static_cast<uint64_t>(std::count(wanted.begin(), wanted.end(), true));
  }

  const size_t parallel = UsefulThreads();
  Joiner joiner(*this, row);
  std::deque<std::pair<uint32_t, std::future<absl::StatusOr<BlockOuterCalls>>>> running;
  uint32_t joined = 0;  // blocks before it are
  const auto join_one = [&]() -> absl::Status {
    auto [number, future] = std::move(running.front());
    running.pop_front();
    ASSIGN_OR_RETURN(auto calls, future.get());
    if (control != nullptr) ++control->blocks_done;
    // A call may last over blocks in which no other began.
    for (; joined < number && joiner.waits(); ++joined) {
      RETURN_IF_ERROR(joiner.Add(joined, {}));
    }
    joined = number + 1;
    return joiner.Add(number, std::move(calls));
  };
  absl::Status status;
  for (uint32_t b = 0; b < blocks_.size() && status.ok(); ++b) {
    if (!wanted[b]) continue;
    if (control != nullptr && control->cancelled) {
      status = absl::CancelledError("interrupted");
      break;
    }
    running.emplace_back(
        b, InThreadIfPossible([this, b, &entries] { return CallsOfBlock(*this, b, entries); }));
    if (running.size() > parallel) status = join_one();
  }
  while (!running.empty()) {
    if (status.ok()) {
      status = join_one();
    } else {
      running.front().second.wait();
      running.pop_front();
    }
  }
  if (!status.ok()) return status;
  for (; joined < blocks_.size() && joiner.waits(); ++joined) {
    if (status = joiner.Add(joined, {}); !status.ok()) return status;
  }
  joiner.Finish();
  return absl::OkStatus();
}

}  // namespace ttq
