// SPDX-License-Identifier: MIT

#include "store/write/block_source.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "base/threads.h"
#include "recorder/stream.h"

namespace ttq {
namespace {

// Of segments, digested and not taken, for each thread that digests. One takes a megabyte or less.
constexpr size_t kBufferedPerWorker = 64;
// How long to wait at most before the recording's error is looked at.
constexpr auto kLookEvery = std::chrono::milliseconds(100);

}  // namespace

BlockSource::BlockSource(Ring* ring, RecipeTable* recipes, Tools tools)
    : ring_(ring), recipes_(recipes), tools_(std::move(tools)) {}

BlockSource::~BlockSource() {
  Stop();
  if (taker_.joinable()) taker_.join();
  for (auto& [first, segment] : segments_) {
    if (segment->thread.joinable()) segment->thread.join();
  }
  // Digests still under way use blocks of the ring.
  for (Entry& entry : entries_) {
    if (!entry.digest.valid()) continue;
    entry.digest.wait();
    ReleaseLocked(entry.taken);
  }
}

void BlockSource::Stop() {
  std::lock_guard lock(mutex_);
  stops_ = true;
  for (auto& [first, segment] : segments_) segment->ring->Detach();
  changed_.notify_all();
}

absl::Status BlockSource::Start() {
  ASSIGN_OR_RETURN(taker_, StartThread([this] {
                     absl::Status s = Guarded([this] { return TakeRing(); });
                     std::lock_guard lock(mutex_);
                     if (status_.ok()) status_ = std::move(s);
                     has_ended_ = true;
                     changed_.notify_all();
                   }));
  return absl::OkStatus();
}

absl::Status BlockSource::AddSegment(std::shared_ptr<Ring> ring) {
  std::lock_guard lock(mutex_);
  if (stops_) ring->Detach();
  auto& segment = segments_[ring->first_block()];
  if (segment != nullptr) return absl::DataLossError("two segments begin with one block");
  segment = std::make_unique<Segment>();
  segment->ring = std::move(ring);
  ASSIGN_OR_RETURN(segment->thread, StartThread([this, segment = segment.get()] {
                     absl::Status s = Guarded([&] { return TakeSegment(segment); });
                     if (!s.ok()) segment->ring->Detach();
                     tools_.ended(segment->ring);
                     std::lock_guard locked(mutex_);
                     segment->status = std::move(s);
                     segment->has_ended = true;
                     changed_.notify_all();
                   }));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> BlockSource::AddRecipes(std::string_view bytes) {
  // A copy: what is checked must be what is used and stored.
  const std::string all(bytes);
  std::vector<std::string> out;
  std::lock_guard lock(recipes_mutex_);
  for (std::string_view rest = all; !rest.empty();) {
    auto size = LoadPod<uint32_t>(rest);
    if (size < sizeof(TtqRecipe) || size > rest.size()) {
      return absl::DataLossError("a recipe is cut off");
    }
    const std::string_view encoded = rest.substr(0, size);
    // A block that a segment logs comes twice.
    const bool is_known =
        tools_.has_segments && recipes_->HasOwn(SuperblockId(LoadPod<TtqRecipe>(encoded).id));
    if (!is_known) RETURN_IF_ERROR(recipes_->Add(encoded));
    out.emplace_back(encoded);
    rest.remove_prefix(size);
  }
  return out;
}

std::future<absl::StatusOr<BlockDigest>> BlockSource::Digest(const Ring& ring,
                                                             const BlockView& block) {
  const bool skim = tools_.skims(block.head.number);
  const Packing packing = ring.verify() ? Packing::kCompare : Packing::kPack;
  return tools_.workers->Submit([this, skim, packing, log = block.log] {
    if (skim) return SkimBlock(*recipes_, log, tools_.scratches);
    return DigestBlock(*recipes_, log, tools_.scratches, packing);
  });
}

absl::Status BlockSource::TakeRing() {
  // Of those that wait to be committed some are digested already.
  constexpr size_t kBeyondWorkers = 4;
  const size_t most = std::max<size_t>(
      2, std::min<size_t>(tools_.workers->size() + kBeyondWorkers, ring_->block_count() - 1));
  for (;;) {
    const TtqBlock* block = ring_->Next();
    if (block == nullptr) return ring_->status();
    BlockView view;
    RETURN_IF_ERROR(ring_->Take(block, &view));
    ASSIGN_OR_RETURN(std::vector<std::string> recipes, AddRecipes(view.recipes));
    const bool is_of_segment =
        tools_.has_segments && IsCounted(view.log) && !tools_.skims(view.head.number);
    std::unique_lock lock(mutex_);
    const size_t taken = released_ + done_.size();
    done_.push_back(false);
    entries_.push_back({view.head, taken, std::move(recipes), {}});
    blocks_taken_ = view.head.number + 1;
    changed_.notify_all();
    if (is_of_segment) {
      ReleaseLocked(taken);
    } else {
      try {
        entries_.back().digest = Digest(*ring_, view);
      } catch (...) {
        entries_.pop_back();
        throw;
      }
      ++digesting_;
    }
    changed_.wait(lock, [&] { return digesting_ < most || stops_; });
    if (stops_) return absl::OkStatus();
  }
}

absl::Status BlockSource::TakeSegment(Segment* segment) {
  Ring& ring = *segment->ring;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return blocks_taken_ >= ring.first_block() || has_ended_ || stops_; });
    if (blocks_taken_ < ring.first_block()) return absl::CancelledError("it is not needed");
  }
  const size_t most = std::max<size_t>(1, ring.block_count() - 1);
  const size_t most_buffered = kBufferedPerWorker * tools_.workers->size();
  Digesting digesting;
  const auto finish_one = [&] {
    auto& [head, digest] = digesting.blocks.front();
    Digested done = {head, digest.get()};
    digesting.blocks.pop_front();
    ring.Release();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return buffered_ < most_buffered || segment == current_ || stops_; });
    segment->digested.push_back(std::move(done));
    ++buffered_;
    changed_.notify_all();
  };
  while (const TtqBlock* block = ring.Next()) {
    BlockView view;
    RETURN_IF_ERROR(ring.Take(block, &view));
    RETURN_IF_ERROR(AddRecipes(view.recipes).status());
    digesting.blocks.emplace_back(view.head, Digest(ring, view));
    while (digesting.blocks.size() >= most || (!digesting.blocks.empty() && ring.waiting() == 0)) {
      finish_one();
    }
  }
  RETURN_IF_ERROR(ring.status());
  while (!digesting.blocks.empty()) finish_one();
  if (!ring.was_killed()) return absl::OkStatus();
  RETURN_IF_ERROR(tools_.error());
  return absl::UnavailableError("a process of the second run was killed");
}

bool BlockSource::IsReady() {
  const Entry& next = entries_.front();
  if (next.digest.valid()) return true;
  for (;;) {
    if (current_ == nullptr) {
      const auto found = segments_.find(next.head.number);
      if (found == segments_.end()) return false;
      current_ = found->second.get();
      changed_.notify_all();
    }
    if (!current_->digested.empty()) return true;
    if (!current_->has_ended) return false;
    if (status_.ok()) status_ = current_->status;
    if (!status_.ok()) return false;
    current_->thread.join();
    segments_.erase(current_->ring->first_block());
    current_ = nullptr;
  }
}

BlockSource::Next BlockSource::WaitForNext(std::optional<Clock::time_point> deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (entries_.empty() && has_ended_) return Next::kEnd;
    if (!entries_.empty()) {
      if (IsReady()) return Next::kBlock;
      if (!status_.ok()) return Next::kEnd;
      lock.unlock();
      const absl::Status error = tools_.error();
      lock.lock();
      if (!error.ok()) {
        status_ = error;
        return Next::kEnd;
      }
    }
    const Clock::time_point now = Clock::now();
    if (deadline.has_value() && now >= *deadline) return Next::kNotYet;
    // A segment may never come: of a program that rests there is nothing to look at.
    std::optional<Clock::time_point> until = deadline;
    if (!entries_.empty()) {
      until = std::min(until.value_or(Clock::time_point::max()), now + kLookEvery);
    }
    if (until.has_value()) {
      changed_.wait_until(lock, *until);
    } else {
      changed_.wait(lock);
    }
  }
}

BlockSource::Block BlockSource::Take() {
  std::unique_lock lock(mutex_);
  Entry entry = std::move(entries_.front());
  entries_.pop_front();
  if (entry.digest.valid()) {
    last_taken_ = entry.taken;
    lock.unlock();
    return {entry.head, std::move(entry.recipes), entry.digest.get()};
  }
  Digested digested = std::move(current_->digested.front());
  current_->digested.pop_front();
  --buffered_;
  changed_.notify_all();
  if (digested.head.number != entry.head.number) {
    digested.digest = absl::DataLossError("a segment begins with another block");
  }
  return {digested.head, std::move(entry.recipes), std::move(digested.digest)};
}

void BlockSource::Release() {
  std::lock_guard lock(mutex_);
  if (!last_taken_.has_value()) return;
  ReleaseLocked(*last_taken_);
  last_taken_.reset();
  --digesting_;
  changed_.notify_all();
}

void BlockSource::ReleaseLocked(size_t taken) {
  done_[taken - released_] = true;
  for (; !done_.empty() && done_.front(); done_.pop_front(), ++released_) ring_->Release();
}

absl::Status BlockSource::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace ttq
