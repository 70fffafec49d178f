// SPDX-License-Identifier: MIT

#include "recorder/ring.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/core.h"
#include "recorder/inputs.h"

namespace ttq {
namespace {

void FutexWait(uint32_t* word, uint32_t seen, int milliseconds) {
  timespec timeout{milliseconds / 1000, milliseconds % 1000 * 1000000L};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void FutexWake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, nullptr, nullptr, 0);
}

uint32_t Load(const uint32_t* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

// The program could write here at any time: its end may be missing.
template <size_t n>
std::string TextOf(const char (&text)[n]) {
  return std::string(text, strnlen(text, n));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Ring>> Ring::Open(const std::string& path) {
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return absl::ErrnoToStatus(errno, path);
  struct stat st;
  void* at = MAP_FAILED;
  if (fstat(fd, &st) == 0 && st.st_size > kTtqRingHeaderBytes) {
    at = mmap(nullptr, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  int error = errno;
  close(fd);
  if (at == MAP_FAILED && error == ENOMEM) {
    return absl::UnavailableError(fmt::format(
        "no memory for a ring of {} MiB (see ulimit -v, and --block-size)", st.st_size >> 20));
  }
  if (at == MAP_FAILED) return absl::ErrnoToStatus(error, path);
  std::unique_ptr<Ring> ring(new Ring);
  ring->header_ = static_cast<TtqRing*>(at);
  ring->bytes_ = st.st_size;
  ring->name_ = path.substr(path.rfind('/') + 1);
  if (absl::Status s = ring->CheckHeader(path); !s.ok()) return s;
  ring->pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, ring->header_->pid, 0));
  if (ring->is_segment()) {
    ring->first_block_ = ring->taken_ = ring->released_ = Load(&ring->header_->consumed);
  }
  return ring;
}

absl::StatusOr<std::unique_ptr<Ring>> Ring::Adopt(TtqRing* header, size_t bytes,
                                                  const std::string& name) {
  std::unique_ptr<Ring> ring(new Ring);
  ring->header_ = header;
  ring->bytes_ = bytes;
  ring->name_ = name;
  if (absl::Status s = ring->CheckHeader(name); !s.ok()) return s;
  // While the producer is there, the ring is; it says when it is done.
  ring->pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  return ring;
}

absl::Status Ring::CheckHeader(const std::string& path) {
  const TtqRing& h = *header_;
  if (h.magic != TTQ_RING_MAGIC || h.version != kTtqStreamVersion) {
    return absl::FailedPreconditionError(fmt::format("{}: stream version {}, this ttq reads {}",
                                                     path, h.version,
                                                     static_cast<int>(kTtqStreamVersion)));
  }
  block_bytes_ = h.block_bytes;
  block_count_ = h.block_count;
  log_block_bytes_ = h.log_block_bytes != 0 ? uint32_t{h.log_block_bytes} : block_bytes_;
  if (log_block_bytes_ < sizeof(TtqBlock) || log_block_bytes_ > block_bytes_ || block_count_ == 0 ||
      (bytes_ - kTtqRingHeaderBytes) / block_bytes_ < block_count_) {
    return absl::DataLossError(path + ": blocks outside the ring");
  }
  return absl::OkStatus();
}

Ring::~Ring() {
  if (header_ != nullptr) munmap(header_, bytes_);
  if (pidfd_ >= 0) close(pidfd_);
}

bool Ring::ProcessIsGone() const {
  if (pidfd_ < 0) return true;
  pollfd p{pidfd_, POLLIN, 0};
  return poll(&p, 1, 0) == 1;
}

absl::Status Ring::Take(const TtqBlock* block, BlockView* out) const {
  // The program could write here at any time: what is checked must be what is used.
  memcpy(&out->head, block, sizeof(out->head));
  const char* begin = reinterpret_cast<const char*>(block);
  uint32_t first = 0;
  if (block_bytes_ - sizeof(TtqBlock) >= sizeof(first)) {
    memcpy(&first, begin + sizeof(TtqBlock), sizeof(first));
  }
  const bool is_log = out->head.number >= inputs_before() && first != kTtqCounted;
  const size_t bytes = is_log ? log_block_bytes_ : block_bytes_;
  const size_t room = bytes - sizeof(TtqBlock);
  if (out->head.log_bytes > room || out->head.recipe_bytes > room - out->head.log_bytes) {
    return absl::DataLossError(fmt::format("block {}: its log does not fit it", out->head.number));
  }
  out->log = {begin + sizeof(TtqBlock), out->head.log_bytes};
  out->recipes = {begin + bytes - out->head.recipe_bytes, out->head.recipe_bytes};
  return absl::OkStatus();
}

// The tool lowers the count when it gets no memory for more.
const char* Ring::BlockAt(uint32_t number) const {
  const uint32_t count = std::clamp(Load(&header_->block_count), 1u, block_count_);
  return reinterpret_cast<const char*>(header_) + kTtqRingHeaderBytes +
         static_cast<size_t>((number - first_block_) % count) * block_bytes_;
}

std::optional<std::string> Ring::NextSoFar(size_t known) const {
  const auto& noted = header_->so_far;
  const uint32_t changes = Load(&noted.changes);
  const uint32_t block = Load(&noted.block), log_bytes = Load(&noted.log_bytes);
  const size_t bytes = Load(&noted.bytes);
  const int64_t wall_ns = __atomic_load_n(&noted.wall_ns, __ATOMIC_ACQUIRE);
  constexpr size_t kHeads = sizeof(TtqBlock) + sizeof(TtqInputsBlock);
  if (changes == 0 || block != taken_ || bytes <= known || bytes > block_bytes_ - kHeads) {
    return std::nullopt;
  }
  const char* at = BlockAt(block) + sizeof(TtqBlock);
  TtqInputsBlock head;
  memcpy(&head, at, sizeof(head));
  head.log_bytes = log_bytes;
  head.ends_between_superblocks = 0;
  head.wall_end_ns = wall_ns;
  std::string out(reinterpret_cast<const char*>(&head), sizeof(head));
  out.append(at + sizeof(head) + known, bytes - known);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  // What a block holds stays as it is until it is released.
  if (changes % 2 != 0 || Load(&noted.changes) != changes) return std::nullopt;
  return out;
}

const TtqBlock* Ring::Next(const std::function<void()>& while_waiting) {
  for (;;) {
    uint32_t produced = Load(&header_->produced);
    // The program could write here at any time; without this it could keep us busy for ever.
    if (produced - taken_ > block_count_) damaged_ = true;
    if (damaged_) return nullptr;
    if (produced != taken_) break;
    // The order matters: what was produced before the end is seen after it.
    bool ended =
        Load(&header_->state) != kTtqRunning || superseded_ || (!goes_on() && ProcessIsGone());
    if (ended && Load(&header_->produced) == taken_) return nullptr;
    if (ended) continue;
    FutexWait(&header_->produced, produced, 50);
    if (while_waiting && Load(&header_->produced) == produced) while_waiting();
  }
  return reinterpret_cast<const TtqBlock*>(BlockAt(taken_++));
}

absl::Status Ring::status() const {
  if (!damaged_) return absl::OkStatus();
  return absl::DataLossError("the ring says that it has more blocks than it holds");
}

uint32_t Ring::waiting() const { return Load(&header_->produced) - taken_; }

bool Ring::HasEnded() const {
  return Load(&header_->state) != kTtqRunning || superseded_ || ProcessIsGone();
}

void Ring::Release() {
  __atomic_store_n(&header_->consumed, ++released_, __ATOMIC_RELEASE);
  FutexWake(&header_->consumed);
}

void Ring::Verified(uint32_t number) {
  __atomic_store_n(&header_->verified, number + 1, __ATOMIC_RELEASE);
  FutexWake(&header_->verified);
}

uint32_t Ring::hold_before() const { return Load(&header_->hold_before); }

void Ring::HoldBefore(uint32_t block) {
  __atomic_store_n(&header_->hold_before, block, __ATOMIC_RELEASE);
  FutexWake(&header_->hold_before);
}
void Ring::LetGoOn() { HoldBefore(0); }
void Ring::AskForNoMore() { HoldBefore(~uint32_t{0}); }

void Ring::Detach() {
  __atomic_store_n(&header_->command, static_cast<uint32_t>(kTtqDetach), __ATOMIC_RELEASE);
  FutexWake(&header_->consumed);
  FutexWake(&header_->verified);
  FutexWake(&header_->hold_before);
}

void Ring::Kill() const {
  if (pidfd_ >= 0) syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0);
}

std::string Ring::parent_ring() const { return TextOf(header_->parent_ring); }
std::string Ring::incomplete() const { return TextOf(header_->incomplete); }
std::string Ring::log_because() const { return TextOf(header_->log_because); }

uint32_t Ring::inputs_before() const { return Load(&header_->inputs_before); }

bool Ring::goes_on() const { return Load(&header_->again.goes_on) != 0; }

uint32_t Ring::WaitForEnd() const {
  pollfd p{pidfd_, POLLIN, 0};
  while (pidfd_ >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR) {
  }
  return Load(&header_->produced);
}

std::vector<std::pair<uint64_t, uint64_t>> Ring::pending() const {
  std::vector<std::pair<uint64_t, uint64_t>> out;
  uint32_t n = std::min<uint32_t>(header_->pending_count, kTtqMaxPending);
  for (uint32_t i = 0; i < n; ++i) {
    out.emplace_back(header_->pending[i].address, header_->pending[i].bytes);
  }
  return out;
}

bool Ring::finished() const { return Load(&header_->state) == kTtqFinished; }
bool Ring::was_killed() const { return Load(&header_->state) == kTtqRunning && ProcessIsGone(); }

std::vector<std::string> Ring::arguments() const {
  std::vector<std::string> out;
  size_t n = std::min<size_t>(header_->argument_bytes, sizeof(header_->arguments));
  for (size_t at = 0; at < n;) {
    size_t len = strnlen(header_->arguments + at, n - at);
    out.emplace_back(header_->arguments + at, len);
    at += len + 1;
  }
  return out;
}

}  // namespace ttq
