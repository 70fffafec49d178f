// SPDX-License-Identifier: MIT

#include "store/write/process_ingest.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/threads.h"
#include "fmt/core.h"
#include "recorder/producer.h"
#include "store/write/block_source.h"

namespace ttq {

ProcessIngest::ProcessIngest(RecordingWriter::Impl& recording, std::shared_ptr<Ring> ring,
                             ProcessNo number, ProcessNo parent)
    : recording_(recording), ring_(std::move(ring)), number_(number) {
  info_.number = number;
  info_.pid = ring_->pid();
  info_.parent = parent;
  info_.by_exec = parent.v != 0 && ring_->parent_ring().empty();
  info_.start_wall_ns = info_.end_wall_ns = ring_->start_wall_ns();
  moment_.beginning = static_cast<Beginning>(ring_->beginning());
  std::vector<std::string> words = ring_->arguments();
  if (words.size() >= 2) {
    info_.program = words[0];
    info_.working_directory = words[1];
    info_.arguments.assign(words.begin() + 2, words.end());
  }
  // The header is in a program's reach; that of one that is run again is the engine's.
  if (ring_->process() != 0 && ring_->hold_before() != 0) IndexNothingYet();
  NoteWhatRingLacks();
  const auto missing = recording_.missing.find(number);
  if (missing != recording_.missing.end()) Incomplete(missing->second);
  stored_.info = info_;
}

void ProcessIngest::NoteWhatRingLacks() {
  if (const std::string missing = ring_->incomplete(); !missing.empty()) Incomplete(missing);
}

void ProcessIngest::Run() {
  absl::Status s = Attempt([this] {
    // So that the process is known from the start, whatever happens.
    absl::Status stored = StoreProcess();
    return stored.ok() ? Ingest() : stored;
  });
  if (!s.ok()) {
    if (is_orphan_) {  // its own trouble, not the others'
      ring_->Detach();
      Incomplete(std::string(s.message()));
    } else {
      recording_.Fail(s);
    }
    // Keep taking blocks, or the program would wait for ever.
    while (ring_->Next() != nullptr) ring_->Release();
  } else if (!ring_->finished() && !ring_->superseded()) {
    Incomplete(ring_->became_other()   ? "it became a program that cannot be recorded"
               : ring_->process() != 0 ? "the process was killed; what came after is lost"
                                       : "the process was killed; its last block is lost");
  }
  NoteWhatRingLacks();
  if (!ring_->finished() && !ring_->superseded()) recording_.totals.lost = true;
  if (!broken_) (void)Attempt([this] { return StoreGroup(); });
  (void)FinishStoring();
  if (recording_.StorageHasFailed() || broken_) {
    info_ = stored_.info;
    threads_ = stored_.threads;
  }
  // Another process's trouble is this one's too: it went on unrecorded.
  if (absl::Status error = recording_.Error(); !error.ok()) {
    info_.complete = false;
    info_.incomplete_reason = std::string(error.message());
    crash_.reset();
  } else if (ring_->fatal_signal() != 0 && ring_->finished()) {
    info_.crash = crash_.has_value() ? crash_ : info_.end;
  }
  if (ring_->fatal_signal() != 0) {
    info_.fatal_signal = static_cast<int>(ring_->fatal_signal());
    info_.exit_status.reset();
  }
  closed_ = true;
  (void)StoreProcess();
}

absl::Status ProcessIngest::Ingest() {
  RETURN_IF_ERROR(Inherit());
  BlockSource::Tools tools;
  tools.workers = recording_.workers.get();
  tools.scratches = &recording_.scratches;
  tools.skims = [this](uint32_t block) { return block < indexed_from_block_ || is_past_history_; };
  tools.error = [this] { return recording_.Error(); };
  tools.ended = [this](const std::shared_ptr<Ring>& ring) { recording_.Forget(ring); };
  tools.has_segments = recording_.takes_segments;
  BlockSource blocks(ring_.get(), recipes_.get(), std::move(tools));
  RETURN_IF_ERROR(blocks.Start());
  const RecordingWriter::Impl::SegmentsOf segments(&recording_, ring_->name(), &blocks);
  for (;;) {
    // A program that rests must not keep what it did from being stored.
    std::optional<BlockSource::Clock::time_point> deadline;
    if (!summaries_.empty()) deadline = group_started_ + GroupAge();
    const BlockSource::Next next = blocks.WaitForNext(deadline);
    if (next == BlockSource::Next::kEnd) return blocks.status();
    if (next == BlockSource::Next::kNotYet) {
      RETURN_IF_ERROR(Attempt([this] { return StoreGroup(); }));
      continue;
    }
    uint32_t number = 0;
    const absl::Status s = Attempt([&]() -> absl::Status {
      BlockSource::Block block = blocks.Take();
      number = block.head.number;
      RETURN_IF_ERROR(block.digest.status());
      for (std::string& recipe : block.recipes) recipe_rows_.push_back(std::move(recipe));
      RETURN_IF_ERROR(Commit(block.head, *std::move(block.digest)));
      if (!indexes_ && !is_past_history_ && ring_->hold_before() == number + 1) {
        RETURN_IF_ERROR(BeginHistory(block.head));
      }
      return ring_->verify() && block.head.ends_between_superblocks ? Verify() : absl::OkStatus();
    });
    if (ring_->verify()) ring_->Verified(number);
    blocks.Release();
    RETURN_IF_ERROR(s);
  }
}

absl::Status ProcessIngest::Inherit() {
  std::string parent = ring_->parent_ring();
  if (parent.empty()) {
    recipes_ = std::make_shared<RecipeTable>();
    return absl::OkStatus();
  }
  const auto orphan = [this](const char* why) {
    is_orphan_ = true;
    return absl::DataLossError(why);
  };
  if (info_.parent.v == 0) {  // to wait for it might be for ever
    return orphan("the process that forked this one was not recorded");
  }
  if (parent == kLostRing) return orphan("what it was forked from is not recorded up to there");
  std::unique_lock lock(recording_.mutex);
  auto key = std::make_pair(parent, ring_->fork_number());
  recording_.fork_known.wait(
      lock, [&] { return recording_.forks.contains(key) || recording_.ended.contains(parent); });
  auto it = recording_.forks.find(key);
  if (it == recording_.forks.end()) {
    return orphan("the process that forked this one was lost");
  }
  image_ = *it->second.image;
  NoteSharedMemory();
  recipes_ = std::make_shared<RecipeTable>(it->second.recipes);
  fork_time_ = it->second.time;
  fork_blocks_ = it->second.blocks;
  if (!it->second.is_indexed) {  // what it goes on from is not known
    IndexNothingYet();
    fork_blocks_ = 0;
    ring_->AskForNoMore();
  }
  recording_.forks.erase(it);
  return absl::OkStatus();
}

absl::Status ProcessIngest::Verify() {
  // Memory the kernel may still be about to clear, or others share, gets a second look.
  for (int attempt = 0;; ++attempt) {
    absl::Status s = Compare();
    if (s.ok() || attempt == 20 || !absl::IsAborted(s)) return s;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void ProcessIngest::IndexNothingYet() {
  indexes_ = false;
  indexed_from_block_ = ~uint32_t{0};
  info_.indexed.begin = kTimeMax;
}

absl::Status ProcessIngest::BeginHistory(const TtqBlock& before) {
  absl::Status s = TakeMemory();
  if (s.ok()) {
    // Content is of a block: of one in which nothing happens.
    absl::StatusOr<BlockDigest> nothing =
        DigestBlock(*recipes_, "", &recording_.scratches, Packing::kPack);
    if (!nothing.ok()) return nothing.status();
    nothing->end_tid = current_tid_;
    TtqBlock block = before;
    block.between_superblocks = 0;
    block.wall_start_ns = before.wall_end_ns;
    indexes_ = true;
    info_.indexed.begin = info_.end;
    s = Commit(block, *std::move(nothing));
  }
  starts_anew_ = true;
  indexed_from_block_ = before.number + 1;
  ring_->LetGoOn();
  return s;
}

absl::Status ProcessIngest::TakeMemory() {
  const int memory =
      open(fmt::format("/proc/{}/mem", ring_->filler_pid()).c_str(), O_RDONLY | O_CLOEXEC);
  if (memory < 0) {
    return absl::PermissionDeniedError(
        fmt::format("the memory of the second run cannot be read: {}", strerror(errno)));
  }
  absl::Status s;
  for (auto area = image_.areas().begin(); s.ok() && area != image_.areas().end(); ++area) {
    if (area->second.content_unknown) continue;
    for (const AddressRange& run : RunsToCompare(area->first, area->second)) {
      if (s = TakeMemoryOf(memory, run); !s.ok()) break;
    }
  }
  close(memory);
  return s;
}

absl::Status ProcessIngest::TakeMemoryOf(int memory, const AddressRange& run) {
  std::vector<uint8_t> actual(1 << 20);
  uint8_t mapped[kPageBytes];
  const std::vector<uint64_t> inherited = image_.PagesIn(run.begin.v, run.end.v);
  for (uint64_t at = run.begin.v; at < run.end.v;) {
    const size_t want = std::min<uint64_t>(actual.size(), run.end.v - at);
    const ssize_t got = pread(memory, actual.data(), want, static_cast<off_t>(at));
    if (got < static_cast<ssize_t>(kPageBytes)) {
      at += kPageBytes;  // beyond the end of a mapped file
      continue;
    }
    const auto whole = static_cast<size_t>(got) & ~(kPageBytes - 1);
    for (size_t done = 0; done < whole; done += kPageBytes) {
      const uint64_t page = (at + done) / kPageBytes;
      const uint8_t* bytes = actual.data() + done;
      image_.Read(page, mapped);
      // A page that moved has no content where it was mapped.
      if (memcmp(mapped, bytes, kPageBytes) == 0 &&
          !std::binary_search(inherited.begin(), inherited.end(), page)) {
        continue;
      }
      EntryMaps& entry = Entry(page);
      entry.content.set();
      entry.whole = true;
      memcpy(image_.Touch(page).bytes, bytes, kPageBytes);
    }
    at += whole;
    if (entries_.size() < kTakenPages) continue;
    StorePages(group_first_, static_cast<uint32_t>(info_.blocks));
    RETURN_IF_ERROR(StoreEarly());
  }
  return absl::OkStatus();
}

absl::Status ProcessIngest::StoreEarly() {
  if (batch_.bytes() < kGroupBytes) return absl::OkStatus();
  absl::Status s = recording_.database->Add(std::exchange(batch_, Database::Batch()));
  if (!s.ok()) recording_.StorageFailed(s);
  return s;
}

void ProcessIngest::TakePending(uint64_t begin, const uint8_t* actual, uint8_t* expected) const {
  for (const auto& [address, bytes] : ring_->pending()) {
    uint64_t from = std::max(begin, address);
    uint64_t to = std::min(begin + kPageBytes, address + bytes);
    if (from < to) memcpy(expected + (from - begin), actual + (from - begin), to - from);
  }
}

// Runs of an area's pages that hold something, in the program or in the image: of a large one most
// may only be reserved.
std::vector<AddressRange> ProcessIngest::RunsToCompare(uint64_t begin,
                                                       const LiveImage::Area& area) const {
  constexpr uint64_t kLarge = uint64_t{1} << 30;
  constexpr size_t kEntries = 128 << 10;
  std::vector<AddressRange> runs;
  const std::string name = fmt::format("/proc/{}/pagemap", ring_->filler_pid());
  const int fd = area.file || area.shared || area.end - begin < kLarge
                     ? -1
                     : open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {{Address(begin), Address(area.end)}};
  const auto add = [&runs](uint64_t page) {
    const Address at(page * kPageBytes);
    if (runs.empty() || runs.back().end < at) runs.push_back({at, at});
    runs.back().end = std::max(runs.back().end, at + kPageBytes);
  };
  const std::vector<uint64_t> touched = image_.PagesIn(begin, area.end);
  auto next = touched.begin();
  std::vector<uint64_t> entries(kEntries);
  const uint64_t end = area.end / kPageBytes;
  for (uint64_t page = begin / kPageBytes; page < end;) {
    const size_t wanted = std::min<uint64_t>(kEntries, end - page) * sizeof(uint64_t);
    const ssize_t got =
        pread(fd, entries.data(), wanted, static_cast<off_t>(page * sizeof(uint64_t)));
    if (got <= 0) break;
    for (size_t k = 0; k < static_cast<size_t>(got) / sizeof(uint64_t); ++k, ++page) {
      constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;
      const bool is_touched = next != touched.end() && *next == page;
      if (is_touched) ++next;
      if (is_touched || entries[k] & kPresentOrSwapped) add(page);
    }
  }
  close(fd);
  for (; next != touched.end(); ++next) add(*next);
  return runs;
}

absl::Status ProcessIngest::Compare() {
  // Other processes' writes to shared memory are not seen.
  const bool alone = recording_.totals.processes == 1;
  std::vector<uint8_t> actual(1 << 20);
  for (const auto& [begin, area] : image_.areas()) {
    if ((area.shared && !alone) || area.content_unknown || !(area.protection & 1)) continue;
    for (const AddressRange& run : RunsToCompare(begin, area)) {
      absl::Status s = ComparePages(run, &actual);
      if (absl::IsAborted(s)) {
        s = absl::AbortedError(fmt::format("{}, area {:#x}-{:#x} kind {}", std::string(s.message()),
                                           begin, area.end, area.kind));
      }
      RETURN_IF_ERROR(s);
    }
  }
  return absl::OkStatus();
}

absl::Status ProcessIngest::ComparePages(const AddressRange& run, std::vector<uint8_t>* actual) {
  uint8_t expected[kPageBytes];
  for (uint64_t at = run.begin.v; at < run.end.v;) {
    const size_t want = std::min<uint64_t>(actual->size(), run.end.v - at);
    const iovec local{actual->data(), want};
    const iovec remote{reinterpret_cast<void*>(at), want};
    const ssize_t got =
        process_vm_readv(static_cast<pid_t>(ring_->filler_pid()), &local, 1, &remote, 1, 0);
    if (got <= 0) {
      if (errno == EPERM || errno == ENOSYS) {
        return absl::PermissionDeniedError(
            "--verify needs to read the program's memory, which this system forbids");
      }
      at += kPageBytes;  // beyond the end of a mapped file
      continue;
    }
    for (ssize_t done = 0; done + static_cast<ssize_t>(kPageBytes) <= got; done += kPageBytes) {
      const uint64_t page = (at + static_cast<uint64_t>(done)) / kPageBytes;
      image_.Read(page, expected);
      if (memcmp(expected, actual->data() + done, kPageBytes) == 0) continue;
      TakePending(page * kPageBytes, actual->data() + done, expected);
      if (memcmp(expected, actual->data() + done, kPageBytes) == 0) continue;
      uint64_t i = 0;
      while (expected[i] == (*actual)[static_cast<size_t>(done) + i]) ++i;
      i &= ~uint64_t{7};
      uint64_t is, derived;
      memcpy(&is, actual->data() + done + i, 8);
      memcpy(&derived, expected + i, 8);
      return absl::AbortedError(
          fmt::format("verify: at time {} (block {}) word {:#x} is {:#018x} in the program, "
                      "{:#018x} in the image",
                      now_.v, info_.blocks - 1, page * kPageBytes + i, is, derived));
    }
    at += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace ttq
