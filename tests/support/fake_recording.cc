// SPDX-License-Identifier: MIT
//
// See fake_recording.h.

#include "tests/support/fake_recording.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/status_macros.h"
#include "fmt/core.h"

namespace ttq {
namespace {

template <class Row>
class ListCursor : public Cursor<Row> {
 public:
  explicit ListCursor(std::vector<Row> rows) : rows_(std::move(rows)) {}
  absl::StatusOr<std::optional<Row>> Next() override {
    if (given_ && cancel_after_ != 0 && *given_ >= cancel_after_) {
      return absl::CancelledError("interrupted");
    }
    if (next_ == rows_.size()) {
      if (!end_.ok()) return end_;
      return std::optional<Row>();
    }
    if (given_) ++*given_;
    return std::optional<Row>(rows_[next_++]);
  }

  uint64_t* given_ = nullptr;
  uint64_t cancel_after_ = 0;
  absl::Status end_;

 private:
  std::vector<Row> rows_;
  size_t next_ = 0;
};

bool InAny(const std::vector<AddressRange>& ranges, Address a) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [a](const AddressRange& r) { return r.Contains(a); });
}

// Asks the process anew each time.
class FakeMoment : public Moment {
 public:
  explicit FakeMoment(const FakeProcess& process) : process_(process) {}
  const Process& process() const override { return process_; }
  absl::Status MoveTo(Time t) override {
    if (t > process_.info().end) return absl::OutOfRangeError("past the end");
    time_ = t;
    return absl::OkStatus();
  }
  Time time() const override { return time_; }
  absl::StatusOr<uint64_t> Read(Address begin, uint64_t size, void* out) override {
    ASSIGN_OR_RETURN(const MemoryImage image, process_.Memory(begin, size, time_));
    const auto known = std::find(image.present.begin(), image.present.end(), false);
    const auto n = static_cast<size_t>(known - image.present.begin());
    std::memcpy(out, image.bytes.data(), n);
    return n;
  }
  absl::StatusOr<Registers> RegistersOf(std::optional<ThreadNo> thread) override {
    return process_.RegistersAt(time_, thread);
  }
  absl::StatusOr<ThreadNo> RunningThread() override { return process_.ThreadAt(time_); }

 private:
  const FakeProcess& process_;
  Time time_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Moment>> FakeProcess::At(Time t) const {
  auto moment = std::make_unique<FakeMoment>(*this);
  RETURN_IF_ERROR(moment->MoveTo(t));
  return std::unique_ptr<Moment>(std::move(moment));
}

absl::Status FakeProcess::WatchBlocks(
    TimeSpan span, const std::function<std::unique_ptr<BlockVisitor>(uint32_t block)>& make,
    const std::function<absl::Status(std::unique_ptr<BlockVisitor>)>& take,
    ScanControl* control) const {
  if (control != nullptr && control->cancelled) return absl::CancelledError("interrupted");
  std::unique_ptr<BlockVisitor> visitor = make(0);
  FakeMoment moment(*this);
  RETURN_IF_ERROR(moment.MoveTo(Time(0)));
  WordSet words;
  RETURN_IF_ERROR(visitor->Begin(0, &moment, &words));
  ThreadNo thread;
  for (const Access& access : accesses_) {
    if (access.time >= span.end) break;
    RETURN_IF_ERROR(moment.MoveTo(access.time));
    if (access.thread != thread) {
      thread = access.thread;
      RETURN_IF_ERROR(visitor->SwitchTo(access.time, thread));
    }
    bool watched = false;
    if (access.is_write) {
      words.ForEachIn(access.address.v, access.size, [&](Address) { watched = true; });
    }
    if (!watched) continue;
    const WatchedWrite write{.time = access.time,
                             .thread = access.thread,
                             .pc = access.pc,
                             .address = access.address,
                             .size = access.value.size(),
                             .bytes = reinterpret_cast<const uint8_t*>(access.value.data()),
                             .actor = access.actor};
    RETURN_IF_ERROR(visitor->Write(write));
  }
  const Time end = std::min(span.end, info_.end);
  RETURN_IF_ERROR(moment.MoveTo(end));
  RETURN_IF_ERROR(visitor->End(end));
  return take(std::move(visitor));
}

FakeProcess::FakeProcess() {
  info_.number = ProcessNo(1);
  info_.pid = 100;
  info_.program = "/bin/fake";
  info_.end = Time(1000);
  info_.exit_status = 0;
  info_.blocks = 1;
  threads_.push_back(
      {.number = ThreadNo(1), .os_tid = 100, .start = Time(0), .instructions = 1000});
  registers_[1].pc = Address(0x401000);
}

Access& FakeProcess::AddWrite(uint64_t time, uint64_t address, uint64_t value, uint32_t size,
                              uint64_t pc, uint32_t thread) {
  Access access{.time = Time(time),
                .thread = ThreadNo(thread),
                .pc = Address(pc),
                .address = Address(address),
                .size = size,
                .is_write = true};
  const MemoryImage before = *Memory(Address(address), size, kTimeMax);
  access.previous = before.bytes;
  access.value.resize(size);
  std::memcpy(access.value.data(), &value, std::min<size_t>(size, sizeof value));
  accesses_.push_back(access);
  return accesses_.back();
}

Access& FakeProcess::AddRead(uint64_t time, uint64_t address, uint32_t size, uint64_t pc,
                             uint32_t thread) {
  Access access{.time = Time(time),
                .thread = ThreadNo(thread),
                .pc = Address(pc),
                .address = Address(address),
                .size = size};
  access.value = Memory(Address(address), size, kTimeMax)->bytes;
  accesses_.push_back(access);
  return accesses_.back();
}

void FakeProcess::Map(uint64_t begin, uint64_t end, std::string path, uint64_t since) {
  mappings_.push_back({.range = {Address(begin), Address(end)},
                       .protection = 3,
                       .path = std::move(path),
                       .since = Time(since)});
}

absl::StatusOr<std::unique_ptr<Cursor<Access>>> FakeProcess::Accesses(AccessQuery query,
                                                                      ScanControl*) const {
  last_query_ = query;
  std::vector<Access> rows;
  for (Access access : accesses_) {
    const bool overlaps =
        std::any_of(query.ranges.begin(), query.ranges.end(),
                    [&](const AddressRange& r) { return r.Overlaps(access.address, access.size); });
    if (!overlaps || !query.span.Contains(access.time)) continue;
    if (access.is_write ? !query.writes : !query.reads) continue;
    if (query.thread && access.thread != *query.thread) continue;
    if (!query.code.empty() && !InAny(query.code, access.pc)) continue;
    if (!query.want_values) access.value.clear(), access.previous.clear();
    rows.push_back(std::move(access));
  }
  if (query.direction == Direction::kBackward) std::reverse(rows.begin(), rows.end());
  auto cursor = std::make_unique<ListCursor<Access>>(std::move(rows));
  cursor->given_ = &accesses_given_;
  cursor->cancel_after_ = cancel_after_;
  cursor->end_ = fail_;
  return cursor;
}

absl::StatusOr<ScanPlan> FakeProcess::ExplainAccesses(const AccessQuery& query) const {
  return ScanPlan{.uses_index = !query.full_scan, .blocks = 1, .blocks_total = 1};
}

absl::StatusOr<std::unique_ptr<Cursor<Execution>>> FakeProcess::Executions(
    std::vector<AddressRange> code, TimeSpan span, Direction direction,
    std::optional<ThreadNo> thread, ScanControl*) const {
  std::vector<Execution> rows;
  for (const Execution& execution : executions_) {
    if (InAny(code, execution.pc) && span.Contains(execution.time) &&
        (!thread || *thread == execution.thread)) {
      rows.push_back(execution);
    }
  }
  if (direction == Direction::kBackward) std::reverse(rows.begin(), rows.end());
  return std::make_unique<ListCursor<Execution>>(std::move(rows));
}

absl::StatusOr<ScanPlan> FakeProcess::ExplainExecutions(const std::vector<AddressRange>&,
                                                        TimeSpan) const {
  return ScanPlan{.uses_index = true, .blocks = 1, .blocks_total = 1};
}

absl::StatusOr<std::unique_ptr<Cursor<Call>>> FakeProcess::Calls(CallQuery query,
                                                                 ScanControl*) const {
  std::vector<Call> rows;
  for (Call call : calls_) {
    const bool wanted =
        std::find(query.entries.begin(), query.entries.end(), call.entry) != query.entries.end();
    if (!wanted || !query.span.Contains(call.time)) continue;
    if (query.thread && *query.thread != call.thread) continue;
    if (!query.callers.empty() &&
        (!call.return_address || !InAny(query.callers, *call.return_address - 1))) {
      continue;
    }
    if (!query.want_returns) call.return_time = kTimeMax;
    rows.push_back(call);
  }
  if (query.direction == Direction::kBackward) std::reverse(rows.begin(), rows.end());
  return std::make_unique<ListCursor<Call>>(std::move(rows));
}

absl::StatusOr<MemoryImage> FakeProcess::Memory(Address begin, uint64_t size, Time t) const {
  if (size > uint64_t{1} << 30) return absl::InvalidArgumentError("too much memory at once");
  MemoryImage image{
      .begin = begin, .bytes = std::string(size, 0), .present = std::vector<bool>(size)};
  const auto put = [&](Address at, const std::string& bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint64_t offset = at.v + i - begin.v;
      if (offset < size) image.bytes[offset] = bytes[i];
    }
  };
  for (uint64_t i = 0; i < size; ++i) {
    for (const Mapping& map : mappings_) {
      if (map.range.Contains(begin + i)) image.present[i] = true;
    }
  }
  for (const auto& [at, bytes] : initial_) put(at, bytes);
  for (const Access& access : accesses_) {
    if (access.is_write && access.time < t) put(access.address, access.value);
  }
  return image;
}

absl::StatusOr<Registers> FakeProcess::RegistersAt(Time, std::optional<ThreadNo> thread) const {
  const auto it = registers_.find(thread.value_or(ThreadNo(1)).v);
  if (it == registers_.end()) return absl::NotFoundError("that thread does not live at that time");
  return it->second;
}

absl::StatusOr<ThreadNo> FakeProcess::ThreadAt(Time) const { return ThreadNo(1); }

absl::StatusOr<std::vector<Mapping>> FakeProcess::MappingsAt(Time t) const {
  std::vector<Mapping> maps;
  for (const Mapping& map : mappings_) {
    if (map.since <= t) maps.push_back(map);
  }
  return maps;
}

absl::StatusOr<std::unique_ptr<Cursor<Event>>> FakeProcess::Events(EventQuery query) const {
  std::vector<Event> rows;
  for (const Event& event : events_) {
    if (query.span.Contains(event.time) && (!query.kind || *query.kind == event.kind) &&
        (!query.thread || *query.thread == event.thread)) {
      rows.push_back(event);
    }
  }
  if (query.direction == Direction::kBackward) std::reverse(rows.begin(), rows.end());
  return std::make_unique<ListCursor<Event>>(std::move(rows));
}

std::string FakeProcess::DescribeUnmapped(Address address, Time) const {
  return fmt::format("{:#x} was never mapped", address.v);
}

FakeRecording::FakeRecording() {
  info_.path = "/traces/fake-1.ttq";
  info_.name = "fake-1";
  info_.finished = true;
}

const std::vector<ProcessInfo>& FakeRecording::processes() const {
  processes_ = {process_.info_};
  return processes_;
}

absl::StatusOr<const Process*> FakeRecording::Open(ProcessNo number) const {
  if (number != process_.info_.number) {
    return absl::NotFoundError(fmt::format("this recording has no process {}", number.v));
  }
  return &process_;
}

absl::StatusOr<FileImage> FakeRecording::FileContents(uint64_t id) const {
  const auto it = files_.find(id);
  if (it == files_.end()) return absl::NotFoundError("contents were not kept");
  std::ifstream file(it->second, std::ios::binary);
  if (!file) return absl::NotFoundError("cannot open " + it->second);
  return FileImage::FromString({std::istreambuf_iterator<char>(file), {}});
}

absl::Status FakeRecording::Check(const std::function<void(const std::string&)>&,
                                  ScanControl*) const {
  return absl::OkStatus();
}

}  // namespace ttq
