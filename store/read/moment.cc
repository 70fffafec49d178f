// SPDX-License-Identifier: MIT

#include "store/read/moment.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "fmt/core.h"

namespace ttq {

absl::StatusOr<std::optional<uint64_t>> Moment::ReadNumber(Address at, uint32_t size) {
  uint64_t value = 0;
  if (size > sizeof(value)) return absl::InvalidArgumentError("a number of more than 8 bytes");
  ASSIGN_OR_RETURN(uint64_t read, Read(at, size, &value));
  if (read < size) return std::optional<uint64_t>();
  return std::optional<uint64_t>(value);
}

// Walks until the superblock that holds a time, applying what comes before it. With `inside` it
// walks one superblock only, and of that only the effects of the first instructions.
class StoredMoment::Sink {
 public:
  Sink(StoredMoment* moment, Time until, bool inside)
      : moment_(*moment), until_(until), inside_(inside) {
    moment_.native_.TellStores(
        moment,
        [](void* self, uint64_t address, const uint8_t* bytes, uint64_t size) {
          static_cast<StoredMoment*>(self)->Write(address, bytes, size, /*undoable=*/false);
        },
        /*watched=*/nullptr);
  }

  const uint8_t* Advance(const uint8_t* at, const uint8_t* end) {
    if (inside_) return at;
    const uint8_t* to =
        moment_.native_.Advance(at, end, until_, &moment_.walker_, &moment_.vectors_);
    if (to != at) last_tid_ = moment_.walker_.tid();
    return to;
  }
  void Load(const Op&, uint64_t) {}
  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    if (inside_ && moment_.walker_.time() + op.instruction >= until_) return;
    moment_.Write(address, bytes, op.size, inside_);
  }
  bool Superblock(const Program& program, uint32_t id, const uint8_t* record) {
    if (inside_ ? begun_ : moment_.walker_.time() + program.instructions > until_) {
      stopped_in_ = id;
      return false;
    }
    begun_ = true;
    last_tid_ = moment_.walker_.tid();
    if (inside_) return true;
    moment_.vectors_.Executed(last_tid_, program, record);
    moment_.native_.Interpreted(program);
    return true;
  }
  bool Control(uint32_t kind, std::string_view payload) {
    if (inside_) return false;
    moment_.Control(kind, payload);
    return true;
  }
  uint32_t stopped_in() const { return stopped_in_; }
  uint32_t last_tid() const { return last_tid_; }

 private:
  StoredMoment& moment_;
  Time until_;
  bool inside_, begun_ = false;
  uint32_t stopped_in_ = 0, last_tid_ = 0;
};

StoredMoment::StoredMoment(const ProcessReader& process)
    : process_(process),
      walker_(process.recipes()),
      native_(process.recipes(), NativeUse::kMemory) {}

StoredMoment::~StoredMoment() = default;

absl::Status StoredMoment::EnterBlock(uint32_t number) {
  for (auto& [page, data] : pages_) spare_.push_back(std::move(data));
  pages_.clear();
  layers_.clear();
  undo_.clear();
  outside_.reset();
  vectors_.Clear();
  native_.context().ClearPages();
  block_.reset();
  if (std::exchange(starts_of_, number) != number) starts_.clear();
  ASSIGN_OR_RETURN(auto block, process_.LoadBlock(number));
  walker_.Restart();
  StartWalk(*block, &walker_);
  threads_.emplace(*block);
  offset_ = 0;
  last_tid_ = stopped_in_ = 0;
  block_ = std::move(block);
  return absl::OkStatus();
}

absl::Status StoredMoment::MoveTo(Time t) {
  RETURN_IF_ERROR(process_.CheckIndexed(t));
  if (process_.blocks().empty()) return absl::OutOfRangeError("nothing was recorded");
  if (t > process_.info().end) {
    return absl::OutOfRangeError(
        fmt::format("time {} is past the end of the recording, {}", t.v, process_.info().end.v));
  }
  if (t == time_) return absl::OkStatus();
  RETURN_IF_ERROR(LeaveInside());
  uint32_t number = process_.BlockAt(t);
  if (!block_ || block_->number.v != number || t < walker_.time()) {
    time_ = kTimeMax;
    RETURN_IF_ERROR(EnterBlock(number));
  }
  time_ = kTimeMax;
  Sink sink(this, t, /*inside=*/false);
  absl::Status s = walker_.Walk(std::string_view(block_->log).substr(offset_), sink);
  if (!s.ok()) {
    block_.reset();
    return s;
  }
  stopped_in_ = sink.stopped_in();
  if (sink.last_tid() != 0) last_tid_ = sink.last_tid();
  offset_ = stopped_in_ == 0
                ? block_->log.size()
                : static_cast<size_t>(walker_.record() -
                                      reinterpret_cast<const uint8_t*>(block_->log.data()));
  if (stopped_in_ != 0 && t > walker_.time()) {
    if (s = EnterInside(t.v - walker_.time().v); !s.ok()) {
      block_.reset();
      return s;
    }
  }
  time_ = t;
  return absl::OkStatus();
}

absl::Status StoredMoment::EnterInside(uint64_t instructions) {
  const Time start = walker_.time();
  outside_ = walker_.StateOf(walker_.tid());
  Sink sink(this, start + instructions, /*inside=*/true);
  absl::Status s = walker_.Walk(std::string_view(block_->log).substr(offset_), sink);
  // The walker goes back to where the superblock starts; only memory is ahead of it.
  walker_.SetState(walker_.tid(), *outside_);
  walker_.set_time(start);
  return s;
}

absl::Status StoredMoment::LeaveInside() {
  for (size_t i = undo_.size(); i-- > 0;) {
    const Undo& u = undo_[i];
    Page* page = Touch(u.address / kPageBytes);
    page->bytes[u.address % kPageBytes] = u.byte;
    page->written[u.address % kPageBytes] = u.written;
    if (u.written == 0) page->base = false;  // what was there before is not known any more
  }
  undo_.clear();
  outside_.reset();
  return absl::OkStatus();
}

// ---- Memory -------------------------------------------------------------------------------------

StoredMoment::Page* StoredMoment::Touch(uint64_t page) {
  static_assert(offsetof(Page, bytes) == 0 && offsetof(Page, written) == kPageBytes);
  NativeContext::Page& slot = native_.context().PageSlot(page * kPageBytes);
  if (slot.address == page * kPageBytes) return static_cast<Page*>(slot.content);
  auto [it, is_new] = pages_.try_emplace(page);
  if (is_new) {
    if (spare_.empty()) {
      it->second.reset(new Page);
    } else {
      it->second = std::move(spare_.back());
      spare_.pop_back();
    }
    it->second->base = false;
    it->second->known = true;
    it->second->written.fill(0);
  }
  slot = {page * kPageBytes, it->second.get()};
  return it->second.get();
}

void StoredMoment::Write(uint64_t address, const uint8_t* bytes, uint64_t size, bool undoable) {
  while (size > 0) {
    uint64_t offset = address % kPageBytes, n = std::min(size, kPageBytes - offset);
    Page* page = Touch(address / kPageBytes);
    if (undoable) {
      for (uint64_t i = 0; i < n; ++i) {
        undo_.push_back({address + i, page->bytes[offset + i], page->written[offset + i]});
      }
    }
    memcpy(page->bytes.data() + offset, bytes, n);
    memset(page->written.data() + offset, 0xff, n);
    address += n;
    bytes += n;
    size -= n;
  }
}

void StoredMoment::Forget(uint64_t begin, uint64_t end) {
  native_.context().ClearPages();
  absl::erase_if(pages_, [&](const auto& entry) {
    return entry.first * kPageBytes >= begin && entry.first * kPageBytes < end;
  });
}

void StoredMoment::Control(uint32_t kind, std::string_view payload) {
  constexpr uint64_t kMask = ~(kPageBytes - 1);
  threads_->Control(kind, payload);
  switch (kind) {
    case kTtqKernelWrite: {
      auto w = LoadPod<TtqKernelWrite>(payload);
      payload.remove_prefix(sizeof(w));
      Write(w.address, reinterpret_cast<const uint8_t*>(payload.data()), payload.size(), false);
      break;
    }
    case kTtqMap: {
      Layer layer{Layer::kMapped, 0, 0, process_.MappingMadeBy(LoadPod<TtqMap>(payload)), 0};
      layer.begin = layer.mapping.range.begin.v;
      layer.end = layer.mapping.range.end.v;
      Forget(layer.begin, layer.end);
      layers_.push_back(std::move(layer));
      break;
    }
    case kTtqUnmap: {
      auto r = LoadPod<TtqRange>(payload);
      Layer layer{
          Layer::kUnmapped, r.address & kMask, (r.address + r.bytes + ~kMask) & kMask, {}, 0};
      Forget(layer.begin, layer.end);
      layers_.push_back(std::move(layer));
      break;
    }
    case kTtqRemap: {
      auto r = LoadPod<TtqRemap>(payload);
      std::vector<std::pair<uint64_t, std::unique_ptr<Page>>> moved;
      for (auto& [page, data] : pages_) {
        uint64_t at = page * kPageBytes;
        if (at >= r.from && at - r.from < r.bytes) {
          moved.emplace_back((at - r.from + r.to) / kPageBytes, std::move(data));
        }
      }
      Forget(r.from, r.from + r.bytes);
      Forget(r.to, r.to + r.bytes);
      for (auto& [page, data] : moved) pages_[page] = std::move(data);
      layers_.push_back(
          {Layer::kMoved, r.to & kMask, (r.to + r.bytes + ~kMask) & kMask, {}, r.from});
      layers_.push_back(
          {Layer::kUnmapped, r.from & kMask, (r.from + r.bytes + ~kMask) & kMask, {}, 0});
      break;
    }
    case kTtqRegisters:
    case kTtqVectors:
      vectors_.Control(kind, payload);
      break;
    case kTtqThreadExit: {
      auto t = LoadPod<TtqThread>(payload);
      static const uint8_t kZero[4] = {};
      if (t.clear_address != 0) Write(t.clear_address, kZero, 4, false);
      break;
    }
    default:
      break;
  }
}

absl::StatusOr<StoredMoment::BaseState> StoredMoment::Base(uint64_t page, size_t layers,
                                                           uint8_t* bytes) const {
  const uint64_t at = page * kPageBytes;
  BaseState state;
  for (size_t i = layers; i-- > 0;) {
    const Layer& layer = layers_[i];
    if (at < layer.begin || at >= layer.end) continue;
    if (layer.kind == Layer::kMoved)
      return Base((at - layer.begin + layer.from) / kPageBytes, i, bytes);
    if (layer.kind == Layer::kUnmapped) {
      memset(bytes, 0, kPageBytes);
      return BaseState{.mapped = false, .known = false};
    }
    RETURN_IF_ERROR(process_.ReadMapped(layer.mapping, page, bytes, &state.known));
    return state;
  }
  auto table = process_.MappingsTable(block_->start);
  if (!table.ok()) return table.status();
  if (ProcessReader::FindMapping(**table, at) == nullptr) {
    // The stack grows without a record of its own.
    table = process_.MappingsTable(walker_.time());
    if (!table.ok()) return table.status();
  }
  if (ProcessReader::FindMapping(**table, at) == nullptr) {
    memset(bytes, 0, kPageBytes);
    return BaseState{.mapped = false, .known = false};
  }
  std::unique_ptr<const Start>& start = starts_[page];
  if (start == nullptr) {
    auto made = std::make_unique<Start>();
    RETURN_IF_ERROR(process_.PageBefore(page, block_->number.v, made->bytes.data(), &made->known));
    start = std::move(made);
  }
  memcpy(bytes, start->bytes.data(), kPageBytes);
  state.known = start->known;
  return state;
}

absl::StatusOr<const StoredMoment::Page*> StoredMoment::Filled(uint64_t number) {
  Page* page = Touch(number);
  if (page->base) return page;
  std::array<uint8_t, kPageBytes> base;
  ASSIGN_OR_RETURN(BaseState state, Base(number, layers_.size(), base.data()));
  bool written = false;
  for (uint64_t i = 0; i < kPageBytes; ++i) {
    if (page->written[i] == 0) {
      page->bytes[i] = base[i];
    } else {
      written = true;
    }
  }
  page->known = state.mapped && (state.known || written);
  page->base = true;
  return page;
}

absl::StatusOr<uint64_t> StoredMoment::Read(Address begin, uint64_t size, void* out) {
  if (time_ == kTimeMax) return absl::FailedPreconditionError("the moment has no time");
  uint64_t done = 0;
  while (done < size) {
    uint64_t address = begin.v + done;
    if (address < begin.v) break;
    uint64_t offset = address % kPageBytes, n = std::min(size - done, kPageBytes - offset);
    ASSIGN_OR_RETURN(const Page* page, Filled(address / kPageBytes));
    if (!page->known) break;
    memcpy(static_cast<uint8_t*>(out) + done, page->bytes.data() + offset, n);
    done += n;
  }
  return done;
}

// ---- Registers ----------------------------------------------------------------------------------

absl::StatusOr<ThreadNo> StoredMoment::RunningThread() {
  if (time_ == kTimeMax) return absl::FailedPreconditionError("the moment has no time");
  uint32_t tid = walker_.tid();
  if (stopped_in_ == 0 && last_tid_ != 0) tid = last_tid_;
  return threads_->NumberOf(tid);
}

absl::StatusOr<Registers> StoredMoment::RegistersOf(std::optional<ThreadNo> thread) {
  if (time_ == kTimeMax) return absl::FailedPreconditionError("the moment has no time");
  uint32_t tid = walker_.tid();
  if (stopped_in_ == 0 && last_tid_ != 0) tid = last_tid_;
  if (thread) {
    RETURN_IF_ERROR(process_.CheckAlive(*thread, time_));
    auto found = threads_->TidOf(*thread);
    if (!found) {
      return absl::NotFoundError(fmt::format("thread {} does not run at {}", thread->v, time_.v));
    }
    tid = *found;
  }
  if (EndsBehind(stopped_in_ != 0, tid, last_tid_, walker_)) {
    return process_.RegistersAt(time_ - 1, thread);
  }
  std::optional<Inside> inside;
  if (stopped_in_ != 0 && tid == walker_.tid()) {
    inside = {process_.recipes().Find(SuperblockId(stopped_in_)),
              reinterpret_cast<const uint8_t*>(block_->log.data()) + offset_,
              static_cast<uint32_t>(time_.v - walker_.time().v)};
  }
  return RegistersFrom(walker_.StateOf(tid), vectors_.Of(tid), inside);
}

absl::StatusOr<std::unique_ptr<Moment>> ProcessReader::At(Time t) const {
  auto moment = std::make_unique<StoredMoment>(*this);
  RETURN_IF_ERROR(moment->MoveTo(t));
  return std::unique_ptr<Moment>(std::move(moment));
}

}  // namespace ttq
