// SPDX-License-Identifier: MIT

#include "store/write/kept_logs.h"

#include <utility>

#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "recorder/launcher.h"
#include "store/write/disk_errors.h"

namespace ttq {

RingHead RingHeadOf(const RecordedInputs& inputs) {
  const TtqInputs& recorded = inputs.file.head;
  RingHead head;
  head.pid = recorded.pid;
  head.block_bytes = recorded.block_bytes;
  head.wall_ns = recorded.start_wall_ns;
  head.arguments = inputs.file.Words();
  head.fork_number = recorded.fork_number;
  head.process = recorded.process;
  head.parent = recorded.parent;
  head.superseded = recorded.superseded != 0;
  head.became_other = recorded.became_other != 0;
  return head;
}

KeptLogs::~KeptLogs() { (void)Finish(); }

void KeptLogs::Add(ProcessNo process, RecordedInputs inputs) {
  const TtqInputs& head = inputs.file.head;
  if (BeginsWithLog(inputs)) children_[ProcessNo(head.parent)].push_back(process);
  inputs.file.records.clear();  // the second run has them
  logs_.emplace(process, std::move(inputs));
}

void KeptLogs::Follow(std::shared_ptr<Ring> ring) {
  std::lock_guard lock(mutex_);
  auto thread = StartThread([this, ring] {
    const absl::Status s = WithinMemory([&] { return FollowOne(ring); });
    std::lock_guard locked(mutex_);
    if (error_.ok()) error_ = s;
  });
  if (thread.ok()) {
    threads_.push_back(*std::move(thread));
    return;
  }
  RingProducer::GoOn(std::move(ring))->FinishAs(0, false);
  if (error_.ok()) error_ = thread.status();
}

absl::Status KeptLogs::Finish() {
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
  return error_;
}

absl::Status KeptLogs::FollowOne(const std::shared_ptr<Ring>& ring) {
  const ProcessNo process(ring->process());
  const uint32_t blocks = ring->WaitForEnd();
  const std::unique_ptr<RingProducer> out = RingProducer::GoOn(ring);
  const auto log = logs_.find(process);
  // Where the second run did not come to the log, the engine has said why.
  if (log == logs_.end() || blocks != log->second.file.blocks.size()) {
    out->FinishAs(0, false);
    return absl::OkStatus();
  }
  return Put(process, out.get());
}

absl::Status KeptLogs::Put(ProcessNo process, RingProducer* out) {
  const RecordedInputs& log = logs_.at(process);
  absl::Status s =
      ForEachLogBlock(InputsPath(directory_, process), log, [&](const BlockView& block) {
        if (Interrupted()) return absl::CancelledError("interrupted");
        RETURN_IF_ERROR(writer_->error());
        return out->PutBlock(block);
      });
  // They need what the image was when they were forked, and that the ring has not ended.
  for (const ProcessNo child : children_[process]) {
    if (s.ok()) s = PutChild(child, out->ring()->name());
  }
  const TtqInputs& head = log.file.head;
  out->FinishAs(head.fatal_signal, log.has_ended && head.finished != 0);
  return s;
}

absl::Status KeptLogs::PutChild(ProcessNo process, const std::string& parent_ring) {
  RingHead head = RingHeadOf(logs_.at(process));
  head.name = fmt::format("log-{}", process.v);
  head.parent_ring = parent_ring;
  ASSIGN_OR_RETURN(const std::unique_ptr<RingProducer> producer, RingProducer::Make(head));
  writer_->Start(producer->ring());
  return Put(process, producer.get());
}

}  // namespace ttq
