// SPDX-License-Identifier: MIT

#include "recorder/producer.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/core.h"

namespace ttq {
namespace {

constexpr uint32_t kBlocks = 6;

void Futex(uint32_t* word, int operation, uint32_t value) {
  const timespec timeout{0, 50'000'000};
  syscall(SYS_futex, word, operation, value, operation == FUTEX_WAIT ? &timeout : nullptr, nullptr,
          0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingProducer>> RingProducer::Make(const RingHead& head) {
  static_assert(kMaxPayload + sizeof(TtqBlock) + 4096 < kRingBlockBytes);
  const size_t bytes = kTtqRingHeaderBytes + size_t{head.block_bytes} * kBlocks;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    return absl::UnavailableError(fmt::format("no memory for a ring of {} MiB", bytes >> 20));
  }
  auto* h = static_cast<TtqRing*>(at);
  h->magic = TTQ_RING_MAGIC;
  h->version = kTtqStreamVersion;
  h->pid = head.pid;
  h->beginning = head.beginning;
  h->block_bytes = head.block_bytes;
  h->block_count = kBlocks;
  h->start_wall_ns = head.wall_ns;
  h->fatal_signal = head.fatal_signal;
  head.incomplete.copy(h->incomplete, sizeof(h->incomplete) - 1);
  for (const std::string& word : head.arguments) {
    const size_t n = word.size() + 1;
    if (n > sizeof(h->arguments) - h->argument_bytes) break;
    memcpy(h->arguments + h->argument_bytes, word.c_str(), n);
    h->argument_bytes += static_cast<uint32_t>(n);
  }
  h->again = {.pid = head.process != 0 ? head.pid : 0,
              .process = head.process,
              .parent = head.parent,
              .superseded = head.superseded,
              .goes_on = 0};
  h->became_other = head.became_other;
  h->fork_number = head.fork_number;
  head.parent_ring.copy(h->parent_ring, sizeof(h->parent_ring) - 1);
  auto ring = Ring::Adopt(h, bytes, head.name);
  if (!ring.ok()) return ring.status();
  std::unique_ptr<RingProducer> out(new RingProducer);
  out->header_ = h;
  out->ring_ = *std::move(ring);
  return out;
}

std::unique_ptr<RingProducer> RingProducer::GoOn(std::shared_ptr<Ring> ring) {
  std::unique_ptr<RingProducer> out(new RingProducer);
  out->header_ = ring->header_;
  out->ring_ = std::move(ring);
  return out;
}

RingProducer::~RingProducer() {
  if (!finished_) Finish();
}

TtqBlock* RingProducer::Block() {
  return reinterpret_cast<TtqBlock*>(reinterpret_cast<char*>(header_) + kTtqRingHeaderBytes +
                                     size_t{header_->produced % header_->block_count} *
                                         header_->block_bytes);
}

// The reader has to have given the block back.
void RingProducer::WaitForRoom() {
  for (;;) {
    const uint32_t consumed = __atomic_load_n(&header_->consumed, __ATOMIC_ACQUIRE);
    if (header_->produced - consumed < header_->block_count) return;
    Futex(&header_->consumed, FUTEX_WAIT, consumed);
  }
}

void RingProducer::HandOver() {
  __atomic_store_n(&header_->produced, header_->produced + 1, __ATOMIC_RELEASE);
  Futex(&header_->produced, FUTEX_WAKE, 1 << 30);
}

void RingProducer::Append(uint32_t kind, std::string_view head, std::string_view more) {
  const size_t payload = head.size() + more.size(), all = 8 + payload;
  if (sizeof(TtqBlock) + log_bytes_ + all > ring_->log_block_bytes()) EndBlock();
  if (log_bytes_ == 0) WaitForRoom();
  char* at = reinterpret_cast<char*>(Block() + 1) + log_bytes_;
  const auto size = static_cast<uint32_t>(payload);
  memcpy(at, &kind, 4);
  memcpy(at + 4, &size, 4);
  memcpy(at + 8, head.data(), head.size());
  if (!more.empty()) memcpy(at + 8 + head.size(), more.data(), more.size());
  log_bytes_ += static_cast<uint32_t>(all);
}

void RingProducer::EndBlock() {
  if (log_bytes_ == 0) return;
  TtqBlock* block = Block();
  *block = {.number = header_->produced,
            .log_bytes = std::exchange(log_bytes_, 0),
            .wall_start_ns = header_->start_wall_ns,
            .wall_end_ns = header_->start_wall_ns};
  HandOver();
}

absl::Status RingProducer::PutBlock(const BlockView& block) {
  EndBlock();
  const size_t room = ring_->log_block_bytes();
  if (block.head.number != header_->produced ||
      sizeof(TtqBlock) + block.log.size() + block.recipes.size() > room) {
    return absl::DataLossError("a block of a log is damaged");
  }
  WaitForRoom();
  TtqBlock* to = Block();
  *to = block.head;
  to->log_bytes = static_cast<uint32_t>(block.log.size());
  to->recipe_bytes = static_cast<uint32_t>(block.recipes.size());
  auto* begin = reinterpret_cast<char*>(to);
  block.log.copy(begin + sizeof(*to), block.log.size());
  block.recipes.copy(begin + room - block.recipes.size(), block.recipes.size());
  HandOver();
  return absl::OkStatus();
}

void RingProducer::FinishAs(uint32_t fatal_signal, bool said_so) {
  header_->fatal_signal = fatal_signal;
  Finish(said_so ? kTtqFinished : kTtqCutOff);
}

void RingProducer::Finish(uint32_t state) {
  EndBlock();
  finished_ = true;
  __atomic_store_n(&header_->state, state, __ATOMIC_RELEASE);
  Futex(&header_->produced, FUTEX_WAKE, 1 << 30);
}

}  // namespace ttq
