// SPDX-License-Identifier: MIT

#include "diff/align.h"

#include <algorithm>

#include "base/status_macros.h"

namespace ttq::diff {

absl::Status ThreadStream::SeekTo(Time t) {
  run_ = nullptr;
  offset_ = 0;
  last_ = {};
  if (t >= side_.end()) return absl::OkStatus();
  ASSIGN_OR_RETURN(runs_, side_.process().RunsAround(t));
  const auto after = std::partition_point(
      runs_->begin(), runs_->end(), [&](const Run& r) { return r.time + r.instructions <= t; });
  RETURN_IF_ERROR(FindRun(after - runs_->begin()));
  if (run_ != nullptr && run_->time < t) offset_ = static_cast<uint32_t>(t.v - run_->time.v);
  return absl::OkStatus();
}

// The thread's first run from an index of runs_ on.
absl::Status ThreadStream::FindRun(size_t from) {
  for (;;) {
    for (index_ = from; index_ < runs_->size(); ++index_) {
      if ((*runs_)[index_].thread == thread_) {
        run_ = &(*runs_)[index_];
        return absl::OkStatus();
      }
    }
    run_ = nullptr;
    if (runs_->empty()) return absl::OkStatus();
    const Time next = runs_->back().time + runs_->back().instructions;
    if (next >= side_.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto runs, side_.process().RunsAround(next));
    // A damaged store must not make us go round in circles.
    if (runs->empty() || runs->front().time < next) return absl::OkStatus();
    runs_ = std::move(runs);
    from = 0;
  }
}

absl::Status ThreadStream::Advance(uint32_t instructions) {
  offset_ += instructions;
  if (offset_ < run_->instructions) return absl::OkStatus();
  last_ = *run_;
  offset_ = 0;
  return FindRun(index_ + 1);
}

Step ThreadStream::Last() const {
  if (last_.instructions == 0) return {};
  const Side::Code& code = side_.CodeOf(last_.code);
  const uint32_t at = last_.instructions - 1;
  return {last_.time + at, at < code.addresses.size() ? code.addresses[at] : Address(), true};
}

Step ThreadStream::Here() const {
  if (run_ == nullptr) return {};
  const Side::Code& code = side_.CodeOf(run_->code);
  return {run_->time + offset_,
          offset_ < code.addresses.size() ? code.addresses[offset_] : Address(), true};
}

absl::Status Aligner::Start(Time a, Time b) {
  RETURN_IF_ERROR(streams_[0].SeekTo(a));
  return streams_[1].SeekTo(b);
}

bool Aligner::SameCode(SuperblockId a, SuperblockId b) {
  if (a.v < equal_.size() && equal_[a.v] == b.v) return true;
  constexpr uint32_t kMaxIds = 1 << 25;  // what fits in a record's header
  const Side::Code& x = sides_[0]->CodeOf(a);
  const Side::Code& y = sides_[1]->CodeOf(b);
  if (x.keys.empty() || x.keys != y.keys || a.v >= kMaxIds) return false;
  if (a.v >= equal_.size()) equal_.resize(a.v + 1024, 0);
  equal_[a.v] = b.v;
  return true;
}

absl::StatusOr<std::optional<Divergence>> Aligner::Next(Time limit) {
  ThreadStream &a = streams_[0], &b = streams_[1];
  uint64_t alike = 0;
  // The last instruction that both executed, where it is not the last of a run on both sides.
  std::optional<std::pair<Step, Step>> last;
  for (uint64_t round = 0;; ++round) {
    const Run *x = a.run(), *y = b.run();
    if (x == nullptr && y == nullptr) return std::optional<Divergence>();
    if (x != nullptr && x->time >= limit) return std::optional<Divergence>();
    if (round % 65536 == 0 && control_ != nullptr && control_->cancelled) {
      return absl::CancelledError("interrupted");
    }
    uint32_t same = 0;
    bool parted = x == nullptr || y == nullptr;
    if (!parted) {
      const uint32_t left_a = x->instructions - a.offset(), left_b = y->instructions - b.offset();
      const uint32_t both = std::min(left_a, left_b);
      if (a.offset() == b.offset() && SameCode(x->code, y->code)) {
        same = both;
      } else {
        const Side::Code& m = sides_[0]->CodeOf(x->code);
        const Side::Code& n = sides_[1]->CodeOf(y->code);
        while (same < both && a.offset() + same < m.keys.size() &&
               b.offset() + same < n.keys.size() &&
               m.keys[a.offset() + same] == n.keys[b.offset() + same]) {
          ++same;
        }
        parted = same < both;
      }
    }
    if (same > 0) {
      last.reset();
      if (parted || same < x->instructions - a.offset() || same < y->instructions - b.offset()) {
        const uint32_t at_a = a.offset() + same - 1, at_b = b.offset() + same - 1;
        last = {Step{x->time + at_a, sides_[0]->CodeOf(x->code).addresses[at_a], true},
                Step{y->time + at_b, sides_[1]->CodeOf(y->code).addresses[at_b], true}};
      }
      alike += same;
      RETURN_IF_ERROR(a.Advance(same));
      RETURN_IF_ERROR(b.Advance(same));
    }
    if (parted) {
      Divergence d;
      d.thread = thread_;
      d.last = {last ? last->first : a.Last(), last ? last->second : b.Last()};
      d.next = {a.Here(), b.Here()};
      d.alike = alike;
      return std::optional<Divergence>(d);
    }
  }
}

}  // namespace ttq::diff
