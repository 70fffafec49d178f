// SPDX-License-Identifier: MIT

#include "store/write/inputs_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <new>

#include "base/status_macros.h"
#include "base/threads.h"
#include "fmt/core.h"
#include "store/format/format.h"
#include "store/write/disk_errors.h"
#include "store/write/recording_record.h"

namespace ttq {
namespace {

constexpr auto kSyncedAfter = std::chrono::seconds(1);
// How long a block may take until what there is of it is kept.
constexpr auto kSoFarAfter = std::chrono::milliseconds(500);

}  // namespace

// The log of one process.
class InputsWriter::File {
 public:
  // The directory outlives it.
  explicit File(const std::string& directory) : directory_(directory) {}
  ~File() {
    if (fd_ < 0) return;
    fdatasync(fd_);
    close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  absl::Status Open(const std::string& path) {
    path_ = path;
    fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd_ < 0 ? NumberedError(errno, path, directory_) : absl::OkStatus();
  }

  absl::Status Append(InputsFrame kind, std::string_view payload, bool in_haste = false) {
    const std::string frame = frames_.Next(kind, payload, in_haste);
    RETURN_IF_ERROR(WriteAll(fd_, frame, path_, directory_));
    const auto now = std::chrono::steady_clock::now();
    if (now - synced_ > kSyncedAfter) {
      if (fdatasync(fd_) != 0) return NumberedError(errno, path_, directory_);
      synced_ = now;
    }
    return absl::OkStatus();
  }

 private:
  const std::string& directory_;
  std::string path_;
  int fd_ = -1;
  InputsFrameWriter frames_;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

absl::StatusOr<std::unique_ptr<InputsWriter>> InputsWriter::Create(const std::string& directory,
                                                                   const RecordingInfo& info) {
  if (mkdir(directory.c_str(), 0700) != 0) {
    return NumberedError(errno, "cannot make " + directory, directory);
  }
  for (const std::string& made : {InputsDirectory(directory), CopiesDirectory(directory)}) {
    if (mkdir(made.c_str(), 0700) == 0) continue;
    const absl::Status s = NumberedError(errno, "cannot make " + made, directory);
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    return s;
  }
  std::unique_ptr<InputsWriter> out(new InputsWriter(directory, info));
  RETURN_IF_ERROR(out->WriteRecord(false));
  return out;
}

InputsWriter::~InputsWriter() {
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
}

// In the place of one that was there, at once.
absl::Status InputsWriter::WriteRecord(bool finished) const {
  const std::string path = InputsRecordPath(directory_), made = path + ".new";
  const std::string record = EncodeRecording(info_, finished);
  const int fd = open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return NumberedError(errno, made, directory_);
  absl::Status s = WriteAll(fd, record, made, directory_);
  if (s.ok() && fdatasync(fd) != 0) s = NumberedError(errno, made, directory_);
  close(fd);
  if (s.ok() && rename(made.c_str(), path.c_str()) != 0) {
    s = NumberedError(errno, made, directory_);
  }
  return s;
}

// With copies of the files that the process has mapped by then.
absl::Status InputsWriter::KeepRecords(InputsFrame kind, std::string_view block, bool in_haste,
                                       File* file) {
  absl::Status s = file->Append(kind, block, in_haste);
  ForEachMappedFile(block.substr(std::min(block.size(), sizeof(TtqInputsBlock))),
                    [&](const TtqMap& map, const std::string& path) {
                      if (s.ok()) s = copies_.Keep(map, path);
                    });
  return s;
}

// Blocks of a log follow.
absl::Status InputsWriter::BeginLog(const Ring& ring, File* file) {
  const std::string why = ring.log_because();
  if (why.empty()) return absl::OkStatus();  // as with the process that forked it
  {
    std::lock_guard lock(mutex_);
    if (log_because_.empty()) log_because_ = why;
  }
  return file->Append(InputsFrame::kLogBecause, why);
}

absl::Status InputsWriter::Consume(Ring* ring, ProcessNumbers::Numbers numbers) {
  File file(directory_);
  RETURN_IF_ERROR(file.Open(InputsPath(directory_, numbers.process)));
  InputsFile inputs;
  inputs.Begin(*ring);
  inputs.head.block_bytes = ring->log_block_bytes();
  inputs.head.log_follows = ring->inputs_before() == 0 ? 1 : 0;
  inputs.head.process = numbers.process.v;
  inputs.head.parent = numbers.parent.v;
  const auto head = [&inputs] {
    return std::string_view(reinterpret_cast<const char*>(&inputs.head), sizeof(inputs.head));
  };
  RETURN_IF_ERROR(file.Append(InputsFrame::kBegin, std::string(head()) + inputs.arguments));
  bool has_log = false;
  size_t kept = 0;  // bytes of the next block's records
  const auto keep_so_far = [&]() -> absl::Status {
    const std::optional<std::string> more = ring->NextSoFar(kept);
    if (!more) return absl::OkStatus();
    kept += more->size() - sizeof(TtqInputsBlock);
    return KeepRecords(InputsFrame::kBlockSoFar, *more, false, &file);
  };
  absl::Status s;
  auto looked_at = std::chrono::steady_clock::now();
  const auto while_waiting = [&] {
    const auto now = std::chrono::steady_clock::now();
    if (!s.ok() || now - looked_at < kSoFarAfter) return;
    looked_at = now;
    s = keep_so_far();
  };
  bool in_haste = false;
  while (const TtqBlock* block = ring->Next(while_waiting)) {
    RETURN_IF_ERROR(s);
    // Until it has caught up: to change costs what was learnt of the blocks before.
    const uint32_t behind = ring->waiting();
    in_haste = in_haste ? behind > 0 : behind >= ring->block_count() / 2;
    BlockView view;
    RETURN_IF_ERROR(ring->Take(block, &view));
    if (view.head.number >= ring->inputs_before()) {
      if (!std::exchange(has_log, true)) RETURN_IF_ERROR(BeginLog(*ring, &file));
      RETURN_IF_ERROR(file.Append(InputsFrame::kLog, EncodeLogBlock(view)));
    } else if (kept == 0) {
      RETURN_IF_ERROR(KeepRecords(InputsFrame::kBlock, view.log, in_haste, &file));
    } else if (view.log.size() >= sizeof(TtqInputsBlock) + kept) {
      std::string rest(view.log.substr(0, sizeof(TtqInputsBlock)));
      rest += view.log.substr(rest.size() + std::exchange(kept, 0));
      RETURN_IF_ERROR(KeepRecords(InputsFrame::kBlock, rest, in_haste, &file));
    } else {
      return absl::DataLossError(fmt::format("block {}: it lacks inputs", view.head.number));
    }
    ring->Release();
  }
  RETURN_IF_ERROR(s);
  // Of a process that was killed.
  if (!ring->finished()) RETURN_IF_ERROR(keep_so_far());
  RETURN_IF_ERROR(ring->status());
  inputs.End(*ring);
  inputs.head.log_follows = has_log || inputs.head.log_follows != 0;
  const bool has_ended = ring->finished() || ring->superseded();
  if (!has_ended) totals_.lost = true;
  std::string incomplete = ring->incomplete();
  if (!incomplete.empty()) {
    std::lock_guard lock(mutex_);
    incomplete_because_ = incomplete;
  } else if (!has_ended) {
    incomplete = std::string(error().message());
  }
  if (!incomplete.empty()) RETURN_IF_ERROR(file.Append(InputsFrame::kIncomplete, incomplete));
  return file.Append(InputsFrame::kEnd, head());
}

void InputsWriter::Start(std::shared_ptr<Ring> ring) {
  std::lock_guard lock(mutex_);
  const ProcessNumbers::Numbers numbers = numbers_.Next(*ring);
  ++running_;
  ++totals_.processes;
  rings_.push_back(ring);
  if (!error_.ok()) {
    totals_.ran_on = true;
    ring->Detach();
  }
  auto thread = StartThread([this, ring, numbers]() mutable {
    const absl::Status s = WithinMemory([&] { return Consume(ring.get(), numbers); });
    if (!s.ok()) {
      FailBy(s);
      // Keep taking blocks, or the program would wait for ever.
      while (ring->Next() != nullptr) ring->Release();
    }
    ring = nullptr;
    --running_;
  });
  if (thread.ok()) {
    threads_.push_back(*std::move(thread));
    return;
  }
  --running_;
  ring->Detach();
  if (error_.ok()) error_ = thread.status();
}

absl::Status InputsWriter::Finish() {
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
  absl::Status s = error();
  s.Update(WriteRecord(true));
  copies_.Share();
  return s;
}

void InputsWriter::Fail(const absl::Status& why) {
  FailBy(absl::IsResourceExhausted(why) ? absl::UnavailableError(why.message()) : why);
}

void InputsWriter::FailBy(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  if (!error_.ok()) return;
  error_ = why;
  for (const auto& ring : rings_) {
    const auto alive = ring.lock();
    if (alive == nullptr) continue;
    if (!alive->finished()) totals_.ran_on = true;
    alive->Detach();
  }
}

absl::Status InputsWriter::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

std::string InputsWriter::incomplete_because() const {
  std::lock_guard lock(mutex_);
  return incomplete_because_;
}

std::string InputsWriter::log_because() const {
  std::lock_guard lock(mutex_);
  return log_because_;
}

}  // namespace ttq
