// SPDX-License-Identifier: MIT
//
// What was executed, run after run, for those who follow a program backwards.

#include "base/status_macros.h"
#include "store/read/process_reader.h"
#include "store/read/track.h"

namespace ttq {
namespace {

class RunSink {
 public:
  RunSink(const LoadedBlock& block, const Walker& walker, std::vector<Run>* runs)
      : walker_(walker), threads_(block), runs_(*runs) {}
  void Load(const Op&, uint64_t) {}
  void Store(const Op&, uint64_t, const uint8_t*) {}
  bool Superblock(const Program& program, uint32_t id, const uint8_t*) {
    if (walker_.tid() != tid_) {
      tid_ = walker_.tid();
      thread_ = threads_.NumberOf(tid_);
    }
    if (program.instructions > 0) {
      runs_.push_back({walker_.time(), thread_, SuperblockId(id), program.instructions});
    }
    return true;
  }
  bool Control(uint32_t kind, std::string_view payload) {
    threads_.Control(kind, payload);
    tid_ = ~uint32_t{0};  // its number may be another thread's now
    return true;
  }

 private:
  const Walker& walker_;
  ThreadNumbers threads_;
  std::vector<Run>& runs_;
  uint32_t tid_ = ~uint32_t{0};
  ThreadNo thread_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const std::vector<Run>>> ProcessReader::RunsAround(Time t) const {
  RETURN_IF_ERROR(CheckIndexed(t));
  if (blocks_.empty()) return std::make_shared<const std::vector<Run>>();
  const uint32_t number = BlockAt(t);
  auto runs = std::make_shared<std::vector<Run>>();
  {
    std::lock_guard lock(mutex_);
    if (runs_ && runs_block_ == number) return runs_;
    if (runs_) runs->reserve(runs_->size() + runs_->size() / 8);  // about as many
  }
  ASSIGN_OR_RETURN(auto block, LoadBlock(number));
  Walker walker(*recipes_);
  StartWalk(*block, &walker);
  RunSink sink(*block, walker, runs.get());
  RETURN_IF_ERROR(walker.Walk(block->log, sink));
  std::lock_guard lock(mutex_);
  runs_ = runs;
  runs_block_ = number;
  return std::shared_ptr<const std::vector<Run>>(runs);
}

std::vector<CodeInstruction> ProcessReader::CodeOf(SuperblockId code) const {
  std::vector<CodeInstruction> out;
  const Recipe* recipe = recipes_->Find(code);
  if (recipe == nullptr) return out;
  const std::vector<uint32_t> set = recipe->RegistersSet();
  for (size_t i = 0; i < recipe->instructions().size(); ++i) {
    out.push_back({recipe->instructions()[i].address, recipe->InstructionBytes(i), set[i]});
  }
  return out;
}

}  // namespace ttq
