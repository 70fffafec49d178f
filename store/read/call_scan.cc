// SPDX-License-Identifier: MIT
//
// Finding calls: executions of functions' first instructions, each with its return.
//
// A call returns when its return address is executed with rsp just above the word it was read from,
// unless that word was written again meanwhile: then the call was left in another way. What writes
// it is the call instruction of the return address, whatever function it calls, or the kernel, for
// a signal's handler. Blocks are decoded one by one, several at once, each without knowledge of the
// others: a block gives the calls that begin in it, most of them with their return, and what may
// end calls of earlier blocks: executions of return addresses that end none of its own calls, and
// words written again. The cursor puts these together in order. Which return addresses there are is
// learned on the way, so a block is decoded again in the rare case that it returns to one that was
// not known yet. Between blocks with calls, only those are decoded where the execution index says
// that a return address of a call that is still open was executed, or the call instruction before
// it.

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "store/read/moment.h"
#include "store/read/process_reader.h"
#include "store/read/track.h"
#include "store/walk/walk.h"

namespace ttq {
namespace {

// Rows that wait for an earlier one's return before that return is looked for by itself.
constexpr size_t kMaxWaiting = 200000;
// Blocks that may be looked at for a single row before it is given.
constexpr size_t kFewBlocks = 2;

// Return addresses: the superblocks that return there and call from there, and the blocks that
// execute these. Thread-safe.
class ReturnAddresses {
 public:
  explicit ReturnAddresses(const ProcessReader& process) : process_(process) {}

  struct Superblocks {
    // That begin at the address. Nothing that is returned to is inside one: a call ends it.
    std::vector<uint32_t> returns;
    std::vector<uint32_t> calls;  // that hold the call instruction before it
  };
  // Also makes the address known.
  absl::StatusOr<Superblocks> SuperblocksOf(uint64_t address) {
    std::lock_guard lock(mutex_);
    ASSIGN_OR_RETURN(auto entry, Find(address));
    return entry->superblocks;
  }
  absl::StatusOr<std::shared_ptr<const std::vector<uint32_t>>> Blocks(uint64_t address) {
    std::lock_guard lock(mutex_);
    ASSIGN_OR_RETURN(auto entry, Find(address));
    if (!entry->blocks) {
      auto all = std::make_shared<std::vector<uint32_t>>();
      for (const ProcessReader::Group& group : process_.groups()) {
        ASSIGN_OR_RETURN(auto returns, process_.BlocksExecuting(group, entry->superblocks.returns));
        ASSIGN_OR_RETURN(auto calls, process_.BlocksExecuting(group, entry->superblocks.calls));
        std::set_union(returns.begin(), returns.end(), calls.begin(), calls.end(),
                       std::back_inserter(*all));
      }
      entry->blocks = std::move(all);
    }
    return entry->blocks;
  }
  std::vector<uint64_t> known() {
    std::lock_guard lock(mutex_);
    return known_;
  }

 private:
  struct Entry {
    Superblocks superblocks;
    std::shared_ptr<const std::vector<uint32_t>> blocks;
  };
  absl::StatusOr<Entry*> Find(uint64_t address) {
    auto it = entries_.find(address);
    if (it != entries_.end()) return it->second.get();
    auto entry = std::make_unique<Entry>();
    if (address != ~uint64_t{0}) {
      constexpr uint64_t kLongestCall = 15;  // bytes
      const uint64_t before = address - std::min(address, kLongestCall);
      ASSIGN_OR_RETURN(auto ids, process_.SuperblocksIn({{Address(before), Address(address + 1)}}));
      for (uint32_t id : ids) {
        const Recipe* recipe = process_.recipes().Find(SuperblockId(id));
        if (recipe == nullptr) continue;
        if (recipe->entry().v == address) entry->superblocks.returns.push_back(id);
        const auto& list = recipe->instructions();
        const bool calls = std::any_of(list.begin(), list.end(), [&](const Instruction& i) {
          return i.address.v + i.size == address && i.address.v >= before;
        });
        if (calls) entry->superblocks.calls.push_back(id);
      }
    }
    known_.push_back(address);
    return entries_.emplace(address, std::move(entry)).first->second.get();
  }

  const ProcessReader& process_;
  std::mutex mutex_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Entry>> entries_;
  std::vector<uint64_t> known_;
};

struct CallFilter {
  CallQuery query;
  // Superblocks with an entry in them, and which instructions those are.
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> matches;
  uint32_t most_id = 0;  // of `matches`

  bool Passes(const std::optional<Address>& return_address) const {
    if (query.callers.empty()) return true;
    if (!return_address) return false;
    return std::any_of(query.callers.begin(), query.callers.end(),
                       [&](const AddressRange& r) { return r.Contains(*return_address - 1); });
  }
};

// What may end a call: an execution of its return address, or a write to where that was kept.
struct CallEnd {
  Time time;
  ThreadNo thread;
  AddressRange slots;
  bool is_return;
  uint64_t address, result;  // of a return
};

// Where a return address is kept, by thread.
using Slot = std::pair<uint32_t, uint64_t>;

// A call that has not returned, as an index into a list of calls.
struct OpenCall {
  size_t index;
  uint64_t return_address;
};
using OpenCalls = absl::flat_hash_map<Slot, std::vector<OpenCall>>;

// Removes the calls of a thread whose return addresses were kept in `slots`, and passes them to f.
template <class F>
void EraseSlots(ThreadNo thread, const AddressRange& slots, OpenCalls* open, const F& f) {
  const auto erase = [&](OpenCalls::iterator it) {
    for (const OpenCall& call : it->second) f(call);
    open->erase(it);
  };
  if (slots.size() == 8) {
    if (const auto it = open->find(Slot(thread.v, slots.begin.v)); it != open->end()) erase(it);
    return;
  }
  for (auto it = open->begin(); it != open->end();) {
    const auto here = it++;
    if (here->first.first == thread.v && slots.Contains(Address(here->first.second))) erase(here);
  }
}

struct BlockCalls {
  std::vector<Call> calls;
  std::vector<bool> fresh;  // of each call: it was entered by a call instruction
  OpenCalls open;
  std::vector<CallEnd> ends;            // of earlier calls, in order
  absl::flat_hash_set<uint64_t> known;  // return addresses that were looked for from its start
};

class CallSink {
 public:
  CallSink(const ProcessReader& process, const LoadedBlock& block, Walker& walker,
           const CallFilter& filter, bool entries, ReturnAddresses* addresses, BlockCalls* out)
      : process_(process),
        walker_(walker),
        filter_(filter),
        addresses_(addresses),
        threads_(block),
        out_(*out),
        native_(process.recipes(), NativeUse::kRegisters) {
    if (entries) {
      flags_.resize(size_t{filter.most_id} + 1);
      for (const auto& [id, which] : filter.matches) flags_[id] |= kEntry;
    }
    if (filter.query.want_returns) {
      for (uint64_t address : addresses_->known()) Know(address);
      out_.known.insert(known_.begin(), known_.end());
    }
  }

  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    return native_.Advance(at, end, kTimeMax, &walker_, nullptr,
                           [this](uint32_t id) { return IsLookedFor(id); });
  }
  void Load(const Op&, uint64_t) {}
  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    last_store_.stored_at = op.size == 8 ? address : ~uint64_t{0};
    if (op.size != 8) return;
    memcpy(&last_store_.stored, bytes, 8);
    if (may_call_ && known_.contains(last_store_.stored)) {
      Overwritten(walker_.tid(), {Address(address), Address(address + 8)});
    }
  }
  bool Superblock(const Program& program, uint32_t id, const uint8_t* record) {
    may_call_ = id < flags_.size() && flags_[id] & kCall;
    if (!IsLookedFor(id)) {
      native_.Interpreted(program);
      return true;
    }
    const Recipe* recipe = process_.recipes().Find(SuperblockId(id));
    if ((flags_[id] & kReturn) && program.instructions > 0) Returned(recipe->entry().v);
    if (flags_[id] & kEntry) {
      for (uint32_t i : filter_.matches.find(id)->second) {
        if (i < program.instructions) Entered(*recipe, i, record);
      }
    }
    return status_.ok();
  }
  bool Control(uint32_t kind, std::string_view payload) {
    threads_.Control(kind, payload);
    if (kind == kTtqKernelWrite) {
      const auto write = LoadPod<TtqKernelWrite>(payload);
      const uint64_t bytes = payload.size() - sizeof(write);
      if (write.actor == kTtqBySignal) {
        Overwritten(write.tid, {Address(write.address), Address(write.address + bytes)});
      }
    }
    return true;
  }
  const absl::Status& status() const { return status_; }

 private:
  enum : uint8_t { kEntry = 1, kReturn = 2, kCall = 4 };

  bool IsLookedFor(uint32_t id) const { return id < flags_.size() && flags_[id] != 0; }

  void Know(uint64_t address) {
    if (!known_.insert(address).second) return;
    auto superblocks = addresses_->SuperblocksOf(address);
    if (!superblocks.ok()) {
      status_ = superblocks.status();
      return;
    }
    for (uint32_t id : superblocks->returns) LookFor(id, kReturn);
    for (uint32_t id : superblocks->calls) LookFor(id, kCall);
  }

  void LookFor(uint32_t id, uint8_t flag) {
    if (id >= flags_.size()) flags_.resize(size_t{id} + 1);
    if (flags_[id] == 0) native_.Skip(id);
    flags_[id] |= flag;
  }

  // Words where return addresses may have been have another content: the calls are over.
  void Overwritten(uint32_t tid, const AddressRange& slots) {
    const ThreadNo thread = threads_.NumberOf(tid);
    EraseSlots(thread, slots, &out_.open, [](const OpenCall&) {});
    out_.ends.push_back({walker_.time(), thread, slots, /*is_return=*/false, 0, 0});
  }

  void Returned(uint64_t address) {
    const ThreadNo thread = threads_.NumberOf(walker_.tid());
    const uint64_t slot = walker_.registers()[kRsp] - 8, result = walker_.registers()[kRax];
    const auto it = out_.open.find(Slot(thread.v, slot));
    bool ended = false;  // a call of this block, and none that an earlier block may have begun
    if (it != out_.open.end()) {
      for (const OpenCall& open : it->second) {
        if (open.return_address != address) continue;
        out_.calls[open.index].return_time = walker_.time();
        out_.calls[open.index].result = result;
        ended = ended || out_.fresh[open.index];
      }
      out_.open.erase(it);
    }
    if (!ended) {
      out_.ends.push_back({walker_.time(),
                           thread,
                           {Address(slot), Address(slot + 8)},
                           /*is_return=*/true,
                           address,
                           result});
    }
  }

  void Entered(const Recipe& recipe, uint32_t i, const uint8_t* record) {
    const Time time = walker_.time() + i;
    const CallQuery& q = filter_.query;
    if (!q.span.Contains(time)) return;
    const ThreadNo thread = threads_.NumberOf(walker_.tid());
    if (q.thread && thread != *q.thread) return;
    Call call;
    call.time = time;
    call.thread = thread;
    call.entry = recipe.instructions()[i].address;
    uint64_t registers[kTtqRegCount];
    memcpy(registers, walker_.registers(), sizeof(registers));
    if (i > 0) recipe.RegistersInside(record, i, registers);
    memcpy(call.registers.gpr, registers, sizeof(call.registers.gpr));
    call.registers.pc = call.entry;
    const uint64_t slot = registers[kRsp];
    bool fresh = false;
    if (i == 0) {
      fresh = last_store_.stored_at == slot;
      if (fresh) call.return_address = Address(last_store_.stored);
      // One call instruction makes one call: who jumps on from its first instruction, or to it
      // again, returns for it.
      last_store_.stored_at = ~uint64_t{0};
    } else {
      const Instruction& before = recipe.instructions()[i - 1];
      const std::string_view code = recipe.InstructionBytes(i - 1);
      fresh = !code.empty() && static_cast<uint8_t>(code[0]) == 0xe8;
      if (fresh) call.return_address = before.address + before.size;
    }
    // Jumped to: a tail call, or through the dynamic linker.
    if (!fresh) call.return_address = ReadReturnAddress(time, slot);
    if (!filter_.Passes(call.return_address)) return;
    const size_t index = out_.calls.size();
    out_.calls.push_back(call);
    out_.fresh.push_back(fresh);
    if (!q.want_returns || !call.return_address) return;
    Know(call.return_address->v);
    if (fresh) Overwritten(walker_.tid(), {Address(slot), Address(slot + 8)});
    out_.open[Slot(thread.v, slot)].push_back({index, call.return_address->v});
  }

  std::optional<Address> ReadReturnAddress(Time time, uint64_t slot) {
    if (!moment_) moment_ = std::make_unique<StoredMoment>(process_);
    status_ = moment_->MoveTo(time);
    if (!status_.ok()) return std::nullopt;
    auto word = moment_->ReadNumber(Address(slot), 8);
    if (!word.ok()) {
      status_ = word.status();
      return std::nullopt;
    }
    if (!*word) return std::nullopt;
    return Address(**word);
  }

  const ProcessReader& process_;
  Walker& walker_;
  const CallFilter& filter_;
  ReturnAddresses* addresses_;
  ThreadNumbers threads_;
  BlockCalls& out_;
  std::vector<uint8_t> flags_;           // by superblock
  bool may_call_ = false;                // the superblock that is executed has kCall
  absl::flat_hash_set<uint64_t> known_;  // return addresses that are looked for
  std::unique_ptr<StoredMoment> moment_;
  NativeWalk native_;
  NativeContext& last_store_ = native_.context();  // stored_at, stored
  absl::Status status_;
};

absl::StatusOr<BlockCalls> DecodeCalls(const ProcessReader& process, uint32_t number,
                                       const CallFilter& filter, bool entries,
                                       ReturnAddresses* addresses) {
  ASSIGN_OR_RETURN(auto block, process.LoadBlock(number));
  BlockCalls out;
  Walker walker(process.recipes());
  StartWalk(*block, &walker);
  CallSink sink(process, *block, walker, filter, entries, addresses, &out);
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  if (!sink.status().ok()) return sink.status();
  return out;
}

class CallCursor : public Cursor<Call> {
 public:
  CallCursor(const ProcessReader& process, std::shared_ptr<const CallFilter> filter,
             std::vector<uint32_t> blocks, ScanControl* control)
      : process_(process),
        filter_(std::move(filter)),
        blocks_(std::move(blocks)),
        control_(control),
        addresses_(process),
        backward_(filter_->query.direction == Direction::kBackward) {
    if (backward_) std::reverse(blocks_.begin(), blocks_.end());
    if (control_ != nullptr) control_->blocks_total += blocks_.size();
    parallel_ = UsefulThreads();
  }
  ~CallCursor() override {
    for (auto& job : jobs_) job.second.wait();
  }

  absl::StatusOr<std::optional<Call>> Next() override {
    for (;;) {
      if (control_ != nullptr && control_->cancelled) return absl::CancelledError("interrupted");
      if (!waiting_.empty() && (waiting_.front().done || !filter_->query.want_returns)) {
        Call call = waiting_.front().call;
        waiting_.pop_front();
        ++first_;
        return std::optional<Call>(call);
      }
      if (backward_) {
        if (!waiting_.empty()) {
          RETURN_IF_ERROR(FinishBackward());
          continue;
        }
        ASSIGN_OR_RETURN(auto more, LoadBackward());
        if (!more) return std::optional<Call>();
        continue;
      }
      if (!waiting_.empty()) {
        ASSIGN_OR_RETURN(auto found, LookAhead());
        if (found) continue;
      }
      ASSIGN_OR_RETURN(auto more, Advance());
      if (more) continue;
      if (waiting_.empty()) return std::optional<Call>();
      // The end: what is open has not returned.
      for (Waiting& w : waiting_) w.done = true;
    }
  }

 private:
  struct Waiting {
    Call call;
    bool done = false;
  };

  // The next block with entries, decoded. Several are decoded at once when the caller keeps asking.
  absl::StatusOr<BlockCalls> TakeBlock() {
    while (jobs_.size() < std::min<size_t>(taken_ + 1, parallel_) && started_ < blocks_.size()) {
      const uint32_t block = blocks_[started_++];
      const auto decode = [this, block] {
        return DecodeCalls(process_, block, *filter_, /*entries=*/true, &addresses_);
      };
      jobs_.emplace_back(block, taken_ == 0 ? std::async(std::launch::deferred, decode)
                                            : InThreadIfPossible(decode));
    }
    auto first = std::move(jobs_.front().second);  // it goes, also when it throws
    jobs_.pop_front();
    auto result = first.get();
    ++taken_;
    if (control_ != nullptr) ++control_->blocks_done;
    return result;
  }

  // Return addresses of the calls that are open.
  absl::flat_hash_set<uint64_t> OpenAddresses() const {
    absl::flat_hash_set<uint64_t> all;
    for (const auto& [slot, open] : open_) {
      for (const OpenCall& o : open) all.insert(o.return_address);
    }
    return all;
  }

  // The first block from `from` on in which one of the addresses is executed.
  absl::StatusOr<std::optional<uint32_t>> NextReturnBlock(
      const absl::flat_hash_set<uint64_t>& addresses, uint32_t from) {
    std::optional<uint32_t> next;
    for (uint64_t address : addresses) {
      ASSIGN_OR_RETURN(auto blocks, addresses_.Blocks(address));
      const auto it = std::lower_bound(blocks->begin(), blocks->end(), from);
      if (it != blocks->end() && (!next || *it < *next)) next = *it;
    }
    return next;
  }

  // Ends open calls of earlier blocks by what happened in a block.
  void EndBy(const BlockCalls& block) {
    for (const CallEnd& end : block.ends) {
      if (!end.is_return) {  // the calls were left otherwise
        EraseSlots(end.thread, end.slots, &open_,
                   [this](const OpenCall& open) { waiting_[open.index - first_].done = true; });
        continue;
      }
      const auto it = open_.find(Slot(end.thread.v, end.slots.begin.v));
      if (it == open_.end()) continue;
      std::erase_if(it->second, [&](const OpenCall& open) {
        if (open.return_address != end.address) return false;
        Waiting& w = waiting_[open.index - first_];
        w.call.return_time = end.time;
        w.call.result = end.result;
        w.done = true;
        return true;
      });
      if (it->second.empty()) open_.erase(it);
    }
  }

  // The same, and takes in the block's calls.
  void Merge(BlockCalls&& block) {
    EndBy(block);
    const size_t base = first_ + waiting_.size();
    for (const Call& call : block.calls) waiting_.push_back({call, true});
    for (auto& [slot, open] : block.open) {
      for (OpenCall o : open) {
        o.index += base;
        waiting_[o.index - first_].done = false;
        open_[slot].push_back(o);
      }
    }
  }

  // Decodes the next block that matters. False at the end.
  absl::StatusOr<bool> Advance() {
    const bool want_returns = filter_->query.want_returns;
    const std::optional<uint32_t> entries =
        taken_ < blocks_.size() ? std::optional<uint32_t>(blocks_[taken_]) : std::nullopt;
    absl::flat_hash_set<uint64_t> addresses;
    if (want_returns && !open_.empty()) {
      addresses = OpenAddresses();
      ASSIGN_OR_RETURN(auto returns, NextReturnBlock(addresses, next_block_));
      if (returns && (!entries || *returns < *entries)) {
        ASSIGN_OR_RETURN(auto block,
                         DecodeCalls(process_, *returns, *filter_, /*entries=*/false, &addresses_));
        next_block_ = *returns + 1;
        Merge(std::move(block));
        return true;
      }
    }
    if (!entries) return false;
    next_block_ = *entries + 1;
    auto block = TakeBlock();
    if (!block.ok()) return block.status();
    for (uint64_t address : addresses) {
      if (block->known.contains(address)) continue;
      ASSIGN_OR_RETURN(auto executed, addresses_.Blocks(address));
      if (!std::binary_search(executed->begin(), executed->end(), *entries)) continue;
      block = DecodeCalls(process_, *entries, *filter_, /*entries=*/true, &addresses_);
      if (!block.ok()) return block.status();
      break;
    }
    Merge(*std::move(block));
    return true;
  }

  // The row to be given next waits for its return. Where that can be in few blocks only, they are
  // looked at now, so that a long call does not hold up the rows behind it. True when it is done.
  absl::StatusOr<bool> LookAhead() {
    if (looked_ahead_ == first_ + 1 && waiting_.size() <= kMaxWaiting) return false;
    looked_ahead_ = first_ + 1;
    const Call call = waiting_.front().call;
    ASSIGN_OR_RETURN(auto blocks, addresses_.Blocks(call.return_address->v));
    auto it = std::lower_bound(blocks->begin(), blocks->end(), next_block_);
    if (static_cast<size_t>(blocks->end() - it) > kFewBlocks && waiting_.size() <= kMaxWaiting) {
      return false;
    }
    const Slot slot(call.thread.v, call.registers.gpr[kRsp]);
    OpenCalls others;
    others.swap(open_);
    if (const auto open = others.find(slot); open != others.end()) {
      std::erase_if(open->second, [&](const OpenCall& o) { return o.index == first_; });
      if (open->second.empty()) others.erase(open);
    }
    open_[slot].push_back({first_, call.return_address->v});
    for (; it != blocks->end() && !waiting_.front().done; ++it) {
      if (control_ != nullptr && control_->cancelled) return absl::CancelledError("interrupted");
      ASSIGN_OR_RETURN(auto block,
                       DecodeCalls(process_, *it, *filter_, /*entries=*/true, &addresses_));
      EndBy(block);
    }
    waiting_.front().done = true;
    open_.swap(others);
    return true;
  }

  // ---- Last to first: each block's calls by themselves ----

  absl::StatusOr<bool> LoadBackward() {
    if (taken_ == blocks_.size()) return false;
    const uint32_t number = blocks_[taken_];
    ASSIGN_OR_RETURN(auto block, TakeBlock());
    first_ = 0;
    open_.clear();
    next_block_ = number + 1;
    Merge(std::move(block));
    std::reverse(waiting_.begin(), waiting_.end());
    for (auto& [slot, open] : open_) {
      for (OpenCall& o : open) o.index = waiting_.size() - 1 - o.index;
    }
    return true;
  }

  // Finds the returns of all that is still open of the current block.
  absl::Status FinishBackward() {
    while (!open_.empty()) {
      if (control_ != nullptr && control_->cancelled) return absl::CancelledError("interrupted");
      // What was given to the caller need not be found any more.
      ASSIGN_OR_RETURN(auto next, NextReturnBlock(OpenAddresses(), next_block_));
      if (!next) break;
      ASSIGN_OR_RETURN(auto block,
                       DecodeCalls(process_, *next, *filter_, /*entries=*/true, &addresses_));
      next_block_ = *next + 1;
      EndBy(block);
      if (waiting_.front().done) return absl::OkStatus();
    }
    for (Waiting& w : waiting_) w.done = true;
    open_.clear();
    return absl::OkStatus();
  }

  const ProcessReader& process_;
  std::shared_ptr<const CallFilter> filter_;
  std::vector<uint32_t> blocks_;  // with entries, in the order they are taken
  ScanControl* control_;
  ReturnAddresses addresses_;
  const bool backward_;
  uint32_t parallel_ = 1;
  size_t started_ = 0, taken_ = 0;  // of blocks_
  uint32_t next_block_ = 0;         // the first not looked at for returns
  std::deque<std::pair<uint32_t, std::future<absl::StatusOr<BlockCalls>>>> jobs_;
  std::deque<Waiting> waiting_;
  size_t first_ = 0;         // the index of waiting_.front(), as OpenCall counts
  size_t looked_ahead_ = 0;  // 1 + the index of the last call LookAhead tried
  OpenCalls open_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Cursor<Call>>> ProcessReader::Calls(CallQuery query,
                                                                   ScanControl* control) const {
  // They may return at any time.
  if (query.want_returns && LacksEnd({query.span.begin, kTimeMax})) return NoteUnindexed();
  return WhereIndexed<Call>(query.span, query.direction, [&](TimeSpan part) {
    query.span = part;
    return IndexedCalls(std::move(query), control);
  });
}

absl::StatusOr<std::unique_ptr<Cursor<Call>>> ProcessReader::IndexedCalls(
    CallQuery query, ScanControl* control) const {
  auto filter = std::make_shared<CallFilter>();
  std::vector<AddressRange> code;
  absl::flat_hash_set<uint64_t> entries;
  for (const Address entry : query.entries) {
    if (entry.v == ~uint64_t{0}) continue;
    if (entries.insert(entry.v).second) code.push_back({entry, entry + 1});
  }
  ASSIGN_OR_RETURN(auto ids, SuperblocksIn(code));
  for (uint32_t id : ids) {
    const Recipe* recipe = recipes_->Find(SuperblockId(id));
    if (recipe == nullptr) {
      return absl::DataLossError(fmt::format("the recipe of superblock {} is missing", id));
    }
    for (uint32_t i = 0; i < recipe->instructions().size(); ++i) {
      if (entries.contains(recipe->instructions()[i].address.v)) filter->matches[id].push_back(i);
    }
  }
  std::vector<uint32_t> kept;
  for (const auto& [id, which] : filter->matches) {
    kept.push_back(id);
    filter->most_id = std::max(filter->most_id, id);
  }
  std::sort(kept.begin(), kept.end());
  std::vector<uint32_t> blocks;
  const auto [first, last] = BlocksOf(query.span);
  for (const Group& group : groups_) {
    if (group.end <= first || group.first >= last) continue;
    ASSIGN_OR_RETURN(auto executing, BlocksExecuting(group, kept));
    for (uint32_t b : executing) {
      if (b >= first && b < last) blocks.push_back(b);
    }
  }
  filter->query = std::move(query);
  return std::make_unique<CallCursor>(*this, std::move(filter), std::move(blocks), control);
}

}  // namespace ttq
