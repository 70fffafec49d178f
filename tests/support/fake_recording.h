// SPDX-License-Identifier: MIT
//
// A recording held in lists, for tests of everything above the store. Fill the public lists, then
// ask. Accesses are given by their effects: memory at a time is the initial content plus the writes
// before it, so that a test cannot contradict itself.

#ifndef TTQ_TESTS_SUPPORT_FAKE_RECORDING_H_
#define TTQ_TESTS_SUPPORT_FAKE_RECORDING_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/read/reader.h"

namespace ttq {

class FakeProcess : public Process {
 public:
  FakeProcess();

  ProcessInfo info_;
  std::vector<Thread> threads_;
  std::vector<Access> accesses_;  // in time order; `previous` is filled in by AddWrite
  std::vector<Execution> executions_;
  std::vector<Call> calls_;
  std::vector<Event> events_;
  std::vector<Mapping> mappings_;
  std::vector<LoadedModule> modules_;
  std::map<Address, std::string> initial_;   // content of memory at time 0
  std::map<uint32_t, Registers> registers_;  // by thread; the same at all times
  mutable AccessQuery last_query_;           // what Accesses was last asked
  mutable uint64_t accesses_given_ = 0;      // rows pulled from cursors of Accesses
  // When not 0, cursors of Accesses cancel themselves after this many rows.
  uint64_t cancel_after_ = 0;
  absl::Status fail_;  // what Accesses' cursors give instead of their end

  // A write of the `size` low bytes of `value`.
  Access& AddWrite(uint64_t time, uint64_t address, uint64_t value, uint32_t size,
                   uint64_t pc = 0x401000, uint32_t thread = 1);
  Access& AddRead(uint64_t time, uint64_t address, uint32_t size, uint64_t pc = 0x401000,
                  uint32_t thread = 1);
  void Map(uint64_t begin, uint64_t end, std::string path = "", uint64_t since = 0);

  const ProcessInfo& info() const override { return info_; }
  const std::vector<Thread>& threads() const override { return threads_; }
  absl::StatusOr<std::unique_ptr<Cursor<Access>>> Accesses(AccessQuery query,
                                                           ScanControl* control) const override;
  absl::StatusOr<ScanPlan> ExplainAccesses(const AccessQuery& query) const override;
  absl::StatusOr<std::unique_ptr<Cursor<Execution>>> Executions(
      std::vector<AddressRange> code, TimeSpan span, Direction direction,
      std::optional<ThreadNo> thread, ScanControl* control) const override;
  absl::StatusOr<ScanPlan> ExplainExecutions(const std::vector<AddressRange>& code,
                                             TimeSpan span) const override;
  absl::StatusOr<std::unique_ptr<Cursor<Call>>> Calls(CallQuery query,
                                                      ScanControl* control) const override;
  absl::StatusOr<MemoryImage> Memory(Address begin, uint64_t size, Time t) const override;
  absl::StatusOr<Registers> RegistersAt(Time t, std::optional<ThreadNo> thread) const override;
  absl::StatusOr<ThreadNo> ThreadAt(Time t) const override;
  // One block, from the start to info_.end.
  absl::Status WatchBlocks(TimeSpan span,
                           const std::function<std::unique_ptr<BlockVisitor>(uint32_t block)>& make,
                           const std::function<absl::Status(std::unique_ptr<BlockVisitor>)>& take,
                           ScanControl* control) const override;
  std::vector<Time> BlockStarts() const override { return {Time(0)}; }
  absl::StatusOr<std::unique_ptr<Moment>> At(Time t) const override;
  absl::StatusOr<std::shared_ptr<const std::vector<Run>>> RunsAround(Time) const override {
    return std::make_shared<const std::vector<Run>>();
  }
  std::vector<CodeInstruction> CodeOf(SuperblockId) const override { return {}; }
  absl::Status OuterCalls(const std::vector<Address>&,
                          const std::function<void(const CallRecord&)>&,
                          ScanControl*) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<Mapping>> MappingsAt(Time t) const override;
  absl::StatusOr<std::vector<LoadedModule>> Modules() const override { return modules_; }
  absl::StatusOr<std::unique_ptr<Cursor<Event>>> Events(EventQuery query) const override;
  std::string DescribeUnmapped(Address address, Time t) const override;
  int64_t WallClock(Time t) const override { return static_cast<int64_t>(t.v); }
};

class FakeRecording : public Recording {
 public:
  FakeRecording();

  RecordingInfo info_;
  FakeProcess process_;
  std::map<uint64_t, std::string> files_;  // path on this machine, by Mapping::file_id

  const RecordingInfo& info() const override { return info_; }
  const std::vector<ProcessInfo>& processes() const override;
  ProcessNo default_process() const override { return process_.info_.number; }
  absl::StatusOr<const Process*> Open(ProcessNo number) const override;
  absl::StatusOr<FileImage> FileContents(uint64_t id) const override;
  absl::Status Check(const std::function<void(const std::string&)>& problem,
                     ScanControl* control) const override;

 private:
  mutable std::vector<ProcessInfo> processes_;
};

}  // namespace ttq

#endif  // TTQ_TESTS_SUPPORT_FAKE_RECORDING_H_
