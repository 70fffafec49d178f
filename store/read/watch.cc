// SPDX-License-Identifier: MIT

#include "store/read/watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>

#include "base/status_macros.h"
#include "base/threads.h"
#include "store/read/moment.h"
#include "store/read/process_reader.h"

namespace ttq {

absl::Status RunInOrder(size_t count, const std::function<absl::Status(size_t)>& work,
                        const std::function<absl::Status(size_t)>& done) {
  const size_t threads = std::min(count, UsefulThreads());
  const size_t ahead = 2 * threads;
  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0, finished = 0;  // begun, and handed on
  bool stop = false;
  std::vector<std::pair<bool, absl::Status>> results(ahead);  // of i % ahead
  const auto run = [&] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || next == count || next < finished + ahead; });
      if (stop || next == count) return;
      const size_t i = next++;
      lock.unlock();
      absl::Status s = WithinMemory([&] { return work(i); });
      lock.lock();
      results[i % ahead] = {true, std::move(s)};
      changed.notify_all();
    }
  };
  std::vector<std::future<void>> pool;
  while (threads > 1 && pool.size() < threads) {
    auto thread = InThreadIfPossible(run);
    if (thread.wait_for(std::chrono::seconds(0)) == std::future_status::deferred) break;
    pool.push_back(std::move(thread));
  }
  if (pool.empty()) {
    for (size_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(work(i));
      RETURN_IF_ERROR(done(i));
    }
    return absl::OkStatus();
  }
  absl::Status status;
  for (size_t i = 0; i < count && status.ok(); ++i) {
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return results[i % ahead].first; });
      status = std::move(results[i % ahead].second);
      results[i % ahead] = {false, absl::OkStatus()};
    }
    if (status.ok()) status = WithinMemory([&] { return done(i); });
    std::lock_guard lock(mutex);
    finished = i + 1;
    changed.notify_all();
  }
  {
    std::lock_guard lock(mutex);
    stop = true;
    changed.notify_all();
  }
  for (auto& thread : pool) thread.wait();
  return status;
}

// Keeps the moment up to date and tells the visitor.
class StoredMoment::WatchSink {
 public:
  WatchSink(StoredMoment* moment, uint32_t block, Time until, BlockVisitor* visitor, WordSet* words)
      : moment_(*moment), block_(block), until_(until), visitor_(*visitor), words_(*words) {
    moment_.native_.TellStores(
        this,
        [](void* self, uint64_t address, const uint8_t* bytes, uint64_t size) {
          static_cast<WatchSink*>(self)->Store(address, bytes, size);
        },
        words);
  }

  void Begin() {
    begun_ = true;
    moment_.time_ = moment_.walker_.time();
    status_ = visitor_.Begin(block_, &moment_, &words_);
    thread_ = moment_.threads_->NumberOf(moment_.walker_.tid());
    if (status_.ok()) status_ = visitor_.SwitchTo(moment_.time_, thread_);
  }
  bool begun() const { return begun_; }

  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    if (!begun_ || !status_.ok()) return at;
    return moment_.native_.Advance(at, end, until_, &moment_.walker_, &moment_.vectors_);
  }
  void Load(const Op&, uint64_t) {}
  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    if (words_.MayContain(address, op.size)) [[unlikely]]
      Told(op.instruction, address, bytes, op.size);
    moment_.Write(address, bytes, op.size, false);
  }
  bool Superblock(const Program& program, uint32_t id, const uint8_t*) {
    id_ = id;
    if (!begun_) [[unlikely]]
      Begin();
    if (!status_.ok() || moment_.walker_.time() >= until_) return false;
    moment_.native_.Interpreted(program);
    return true;
  }
  bool Control(uint32_t kind, std::string_view payload) {
    if (!status_.ok() || moment_.walker_.time() > until_) return false;
    moment_.time_ = moment_.walker_.time();
    if (kind == kTtqKernelWrite && begun_) {
      const auto w = LoadPod<TtqKernelWrite>(payload);
      const std::string_view bytes = payload.substr(sizeof(w));
      if (!bytes.empty() && words_.MayContain(w.address, bytes.size())) {
        Tell({.time = moment_.time_,
              .thread = moment_.threads_->NumberOf(w.tid),
              .pc = Address(),
              .address = Address(w.address),
              .size = bytes.size(),
              .bytes = reinterpret_cast<const uint8_t*>(bytes.data()),
              .actor = w.actor == kTtqBySyscall ? Actor::kSyscall : Actor::kSignal});
      }
    }
    moment_.Control(kind, payload);
    if (kind == kTtqThread && begun_ && status_.ok()) {
      thread_ = moment_.threads_->NumberOf(LoadPod<uint32_t>(payload));
      status_ = visitor_.SwitchTo(moment_.time_, thread_);
    }
    return status_.ok();
  }
  const absl::Status& status() const { return status_; }

 private:
  // For machine code.
  void Store(uint64_t address, const uint8_t* bytes, uint64_t size) {
    if (words_.MayContain(address, size)) {
      NativeContext& context = moment_.native_.context();
      moment_.walker_.set_time(Time(context.time));
      id_ = NativeContext::WordOf(context.record) >> kTtqExitBits;
      Told(context.instruction, address, bytes, size);
      if (!status_.ok()) context.until = 0;
    }
    moment_.Write(address, bytes, size, false);
  }
  void Told(uint64_t instruction, uint64_t address, const uint8_t* bytes, uint64_t size) {
    const Time t = moment_.walker_.time() + instruction;
    if (!status_.ok() || t >= until_) return;
    const auto& instructions = moment_.process_.recipes().Find(SuperblockId(id_))->instructions();
    moment_.time_ = t;
    Tell({.time = t,
          .thread = thread_,
          .pc = instructions[std::min<size_t>(instruction, instructions.size() - 1)].address,
          .address = Address(address),
          .size = size,
          .bytes = bytes,
          .actor = Actor::kInstruction});
  }
  void Tell(const WatchedWrite& write) {
    bool watched = false;
    words_.ForEachIn(write.address.v, write.size, [&](Address) { watched = true; });
    if (watched) status_ = visitor_.Write(write);
  }

  StoredMoment& moment_;
  const uint32_t block_;
  const Time until_;
  BlockVisitor& visitor_;
  WordSet& words_;
  bool begun_ = false;
  uint32_t id_ = 0;
  ThreadNo thread_;
  absl::Status status_;
};

absl::Status StoredMoment::Watch(uint32_t number, Time until, BlockVisitor* visitor) {
  time_ = kTimeMax;
  RETURN_IF_ERROR(EnterBlock(number));
  WordSet words;
  WatchSink sink(this, number, until, visitor, &words);
  time_ = walker_.time();
  const absl::Status s = [&] {
    // The memory that a process begins with (a forked child's is its parent's) comes in its first
    // block, before the first instruction; the visitor finds it there.
    if (number > 0) sink.Begin();
    if (!sink.status().ok()) return sink.status();
    RETURN_IF_ERROR(walker_.Walk(block_->log, sink));
    if (!sink.begun()) sink.Begin();
    if (!sink.status().ok()) return sink.status();
    time_ = std::min(walker_.time(), until);
    return visitor->End(time_);
  }();
  // Where the walk stands is no place to move on from.
  time_ = kTimeMax;
  block_.reset();
  return s;
}

absl::Status ProcessReader::WatchBlocks(
    TimeSpan span, const std::function<std::unique_ptr<BlockVisitor>(uint32_t block)>& make,
    const std::function<absl::Status(std::unique_ptr<BlockVisitor>)>& take,
    ScanControl* control) const {
  RETURN_IF_ERROR(CheckIndexed(span));
  const auto [first, last] = BlocksOf(span);
  if (first >= last) return absl::OkStatus();
  if (control != nullptr) control->blocks_total += last - first;
  std::vector<std::unique_ptr<BlockVisitor>> visitors(last - first);
  std::mutex mutex;
  std::vector<std::unique_ptr<StoredMoment>> idle;  // keep their memory
  const auto work = [&, first = first](size_t i) -> absl::Status {
    if (control != nullptr && control->cancelled) return absl::CancelledError("interrupted");
    std::unique_ptr<StoredMoment> moment;
    {
      std::lock_guard lock(mutex);
      if (!idle.empty()) {
        moment = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (!moment) moment = std::make_unique<StoredMoment>(*this);
    const auto block = static_cast<uint32_t>(first + i);
    std::unique_ptr<BlockVisitor> visitor = make(block);
    absl::Status s = moment->Watch(block, span.end, visitor.get());
    visitors[i] = std::move(visitor);
    std::lock_guard lock(mutex);
    idle.push_back(std::move(moment));
    return s;
  };
  const auto done = [&](size_t i) {
    if (control != nullptr) ++control->blocks_done;
    return take(std::move(visitors[i]));
  };
  return RunInOrder(last - first, work, done);
}

}  // namespace ttq
