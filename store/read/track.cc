// SPDX-License-Identifier: MIT

#include "store/read/track.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"

namespace ttq {

void StartWalk(const LoadedBlock& block, Walker* walker) {
  walker->set_time(block.start);
  for (const LoadedBlock::Snapshot& t : block.threads) walker->SetState(t.tid, t.state);
  if (block.current_tid != 0) walker->SwitchTo(block.current_tid);
}

void VectorTracker::Control(uint32_t kind, std::string_view payload) {
  // Set by the kernel: a handler's frame, or what was before it.
  if (kind == kTtqRegisters) known_.erase(LoadPod<TtqRegisters>(payload).tid);
  if (kind == kTtqVectors) {
    const auto v = LoadPod<TtqVectors>(payload);
    VectorState& state = known_[v.tid];
    memcpy(state.word.data(), v.word, sizeof(v.word));
    state.known = (1u << kTtqVectorWords) - 1;
  }
}

VectorState VectorTracker::Of(uint32_t tid) const {
  const auto it = known_.find(tid);
  return it == known_.end() ? VectorState() : it->second;
}

Registers RegistersFrom(ThreadState state, VectorState vectors,
                        const std::optional<Inside>& inside) {
  Registers out;
  out.pc = Address(state.pc);
  if (inside) {
    inside->recipe->RegistersInside(inside->record, inside->instruction, state.reg);
    inside->recipe->VectorsInside(inside->record, inside->instruction, &vectors);
    out.pc = inside->recipe->instructions()[inside->instruction].address;
  }
  memcpy(out.gpr, state.reg, sizeof(out.gpr));
  std::copy_n(vectors.word.begin(), out.xmm.size(), out.xmm.begin());
  std::copy_n(vectors.word.begin() + kTtqHighWord, out.xmm_high.size(), out.xmm_high.begin());
  out.xmm_known = static_cast<uint8_t>(vectors.known);
  out.xmm_high_known = static_cast<uint8_t>(vectors.known >> kTtqHighWord);
  out.st0 = std::bit_cast<double>(vectors.word[kTtqX87Word]);
  out.st0_known = vectors.known >> kTtqX87Word & 1;
  out.fs_base = state.reg[kTtqRegFs];
  out.gs_base = state.reg[kTtqRegGs];
  return out;
}

ThreadNumbers::ThreadNumbers(const LoadedBlock& block) : next_(block.next_thread) {
  for (const LoadedBlock::Snapshot& t : block.threads) numbers_[t.tid] = t.thread;
}

void ThreadNumbers::Control(uint32_t kind, std::string_view payload) {
  if (kind != kTtqThreadStart) return;
  const auto t = LoadPod<TtqThread>(payload);
  // One that was made before others may run after them.
  const auto number = t.number != 0 ? static_cast<uint32_t>(t.number) : next_;
  numbers_[t.tid] = ThreadNo(number);
  next_ = std::max(next_, number + 1);
}

ThreadNo ThreadNumbers::NumberOf(uint32_t tid) const {
  auto it = numbers_.find(tid);
  return it == numbers_.end() ? ThreadNo(0) : it->second;
}

std::optional<uint32_t> ThreadNumbers::TidOf(ThreadNo number) const {
  for (const auto& [tid, n] : numbers_) {
    if (n == number) return tid;
  }
  return std::nullopt;
}

NativeWalk::NativeWalk(const RecipeTable& recipes, NativeUse use)
    : native_(recipes.native(use).get()), use_(use) {
  context_->ClearPages();
}

void NativeWalk::TellStores(void* sink, decltype(NativeContext::store) store,
                            const WordSet* watched) {
  static const WordSet none;
  context_->sink = sink;
  context_->store = store;
  context_->watched = (watched == nullptr ? none : *watched).filter();
}

const uint8_t* NativeWalk::Advance(const uint8_t* at, const uint8_t* end, Time until,
                                   Walker* walker, VectorTracker* vectors,
                                   absl::FunctionRef<bool(uint32_t id)> skip) {
  NativeContext& context = *context_;
  if (native_ == nullptr || end - at < NativeCode::kReach || walker->time() >= until) return at;
  if (!knows_code_) {
    native_->ClearCode(&context);
    knows_code_ = true;
  }
  const auto knows_code = [&] {
    return context.KnowsCode(context.record, use_, walker,
                             [&](const Program&, uint32_t id) { return !skip(id); });
  };
  context.record = at;
  if (!knows_code()) return at;
  context.limit = end - NativeCode::kReach;
  context.time = walker->time().v;
  context.until = until.v;
  context.values = walker->registers();
  if (vectors != nullptr) context.vectors = vectors->Of(walker->tid());
  for (const uint8_t* from = nullptr; context.record != from;) {
    from = context.record;
    if (from <= context.limit && knows_code()) native_->Run(&context);
  }
  walker->set_time(Time(context.time));
  if (vectors != nullptr) vectors->Set(walker->tid(), context.vectors);
  return context.record;
}

absl::Status MemoryTracker::TrackSources() {
  const auto& span = process_.blocks()[block_];
  if (!span.changes_mappings) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto changes, process_.MapChanges());
  std::vector<const MapChange*> moves;
  for (const MapChange& c : *changes) {
    if (c.kind == MapChange::kRemap && span.start <= c.time && c.time <= span.end) {
      moves.push_back(&c);
    }
  }
  for (size_t i = moves.size(); i-- > 0;) {
    const MapChange& c = *moves[i];
    std::vector<uint64_t> sources;
    for (const auto& [page, tracked] : pages_) {
      uint64_t at = page * kPageBytes;
      if (at >= c.to.v && at < c.to.v + c.range.size()) {
        sources.push_back((at - c.to.v + c.range.begin.v) / kPageBytes);
      }
    }
    for (uint64_t page : sources) Track(page);
  }
  return absl::OkStatus();
}

void MemoryTracker::Load(uint64_t page, Tracked* t) {
  if (t->loaded) return;
  t->loaded = true;
  t->Allocate();
  absl::Status s = process_.PageBefore(page, block_, t->bytes(), &t->known);
  if (!s.ok() && status_.ok()) status_ = s;
}

MemoryTracker::Tracked* MemoryTracker::Find(uint64_t page) {
  auto it = pages_.find(page);
  if (it == pages_.end()) return nullptr;
  Load(page, &it->second);
  return &it->second;
}

void MemoryTracker::Read(uint64_t address, uint64_t size, uint8_t* out) {
  while (size > 0) {
    uint64_t offset = address % kPageBytes, n = std::min(size, kPageBytes - offset);
    if (Tracked* t = Find(address / kPageBytes)) memcpy(out, t->bytes() + offset, n);
    address += n;
    out += n;
    size -= n;
  }
}

void MemoryTracker::Write(uint64_t address, uint64_t size, const uint8_t* bytes) {
  while (size > 0) {
    uint64_t offset = address % kPageBytes, n = std::min(size, kPageBytes - offset);
    if (Tracked* t = Find(address / kPageBytes)) {
      memcpy(t->bytes() + offset, bytes, n);
      t->known = true;
    }
    address += n;
    bytes += n;
    size -= n;
  }
}

void MemoryTracker::Reset(uint64_t begin, uint64_t end, const Mapping* mapping) {
  for (auto& [page, t] : pages_) {
    uint64_t at = page * kPageBytes;
    if (at < begin || at >= end) continue;
    t.loaded = true;
    t.Allocate();
    memset(t.bytes(), 0, kPageBytes);
    t.known = mapping != nullptr;
    if (mapping == nullptr) continue;
    absl::Status s = process_.ReadMapped(*mapping, page, t.bytes(), &t.known);
    if (!s.ok() && status_.ok()) status_ = s;
  }
}

void MemoryTracker::Control(uint32_t kind, std::string_view payload) {
  switch (kind) {
    case kTtqKernelWrite: {
      auto w = LoadPod<TtqKernelWrite>(payload);
      payload.remove_prefix(sizeof(w));
      Write(w.address, payload.size(), reinterpret_cast<const uint8_t*>(payload.data()));
      break;
    }
    case kTtqMap: {
      Mapping mapping = process_.MappingMadeBy(LoadPod<TtqMap>(payload));
      Reset(mapping.range.begin.v, mapping.range.end.v, &mapping);
      break;
    }
    case kTtqUnmap: {
      auto r = LoadPod<TtqRange>(payload);
      Reset(r.address, r.address + r.bytes, nullptr);
      break;
    }
    case kTtqRemap: {
      auto r = LoadPod<TtqRemap>(payload);
      for (auto& [page, to] : pages_) {
        uint64_t at = page * kPageBytes - r.to;
        if (page * kPageBytes < r.to || at >= r.bytes) continue;
        Tracked* from = Find((r.from + at) / kPageBytes);
        if (from == nullptr) continue;
        to.Allocate();
        memcpy(to.bytes(), from->bytes(), kPageBytes);
        to.loaded = true;
        to.known = from->known;
      }
      Reset(r.from, r.from + r.bytes, nullptr);
      break;
    }
    case kTtqThreadExit: {
      auto t = LoadPod<TtqThread>(payload);
      static const uint8_t kZero[4] = {};
      if (t.clear_address != 0) Write(t.clear_address, 4, kZero);
      break;
    }
    default:
      break;
  }
}

namespace {

class TrackSink {
 public:
  TrackSink(MemoryTracker* tracker, const Walker& walker, Time until)
      : tracker_(*tracker), walker_(walker), until_(until) {}
  void Load(const Op&, uint64_t) {}
  void Store(const Op& op, uint64_t address, const uint8_t* bytes) {
    if (!tracker_.Tracks(address / kPageBytes) &&
        !tracker_.Tracks((address + op.size - 1) / kPageBytes)) {
      return;
    }
    if (walker_.time() + op.instruction >= until_) return;
    tracker_.Write(address, op.size, bytes);
  }
  // State at t is that before instruction t: what the kernel did just before it counts.
  bool Superblock(const Program&, uint32_t, const uint8_t*) { return walker_.time() < until_; }
  bool Control(uint32_t kind, std::string_view payload) {
    if (walker_.time() > until_) return false;
    tracker_.Control(kind, payload);
    return tracker_.status().ok();
  }

 private:
  MemoryTracker& tracker_;
  const Walker& walker_;
  Time until_;
};

}  // namespace

absl::Status MemoryTracker::RunTo(Time t, const std::vector<uint64_t>& pages) {
  const auto& span = process_.blocks()[block_];
  bool needed = span.changes_mappings;
  if (!needed) {
    ASSIGN_OR_RETURN(needed, process_.PagesChangedIn(block_, pages));
  }
  if (!needed) return absl::OkStatus();
  RETURN_IF_ERROR(TrackSources());
  ASSIGN_OR_RETURN(auto block, process_.LoadBlock(block_));
  Walker walker(process_.recipes());
  StartWalk(*block, &walker);
  TrackSink sink(this, walker, t);
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  return status_;
}

absl::StatusOr<const uint8_t*> MemoryTracker::Page(uint64_t page, bool* known) {
  Tracked* t = Find(page);
  if (!status_.ok()) return status_;
  if (t == nullptr) return absl::InternalError("a page that is not tracked");
  *known = t->known;
  return t->bytes();
}

}  // namespace ttq
