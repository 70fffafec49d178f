// SPDX-License-Identifier: MIT

#include "store/write/ingest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/elf.h"
#include "base/threads.h"
#include "base/version.h"
#include "fmt/core.h"
#include "store/format/inputs_log.h"
#include "store/format/message.h"
#include "store/format/seal.h"
#include "store/write/process_ingest.h"

namespace ttq {
std::array<uint64_t, 6> ArgumentsOf(const TtqSyscall& s) {
  std::array<uint64_t, 6> out;
  memcpy(out.data(), &s.args, sizeof(out));
  return out;
}

void RecordingWriter::Impl::EndLocked(const std::shared_ptr<Ring>& ring) {
  ended.insert(ring->name());
  std::erase(rings, ring);
  fork_known.notify_all();
  --running;
}

RecordingWriter::Impl::SegmentsOf::SegmentsOf(Impl* recording, std::string ring,
                                              BlockSource* source)
    : recording_(recording), ring_(std::move(ring)) {
  std::lock_guard lock(recording_->mutex);
  recording_->sources[ring_] = source;
  const auto [begin, end] = recording_->early_segments.equal_range(ring_);
  for (auto it = begin; it != end; ++it) recording_->AddSegmentLocked(it->second);
  recording_->early_segments.erase(begin, end);
}

RecordingWriter::Impl::SegmentsOf::~SegmentsOf() {
  std::lock_guard lock(recording_->mutex);
  recording_->sources[ring_] = nullptr;
}

void RecordingWriter::Impl::AddSegmentLocked(const std::shared_ptr<Ring>& ring) {
  const auto source = sources.find(ring->parent_ring());
  if (source == sources.end()) {
    early_segments.emplace(ring->parent_ring(), ring);
  } else if (source->second == nullptr) {
    ring->Detach();
    std::erase(rings, ring);
  } else if (const absl::Status s = source->second->AddSegment(ring); !s.ok()) {
    FailLocked(s);
  }
}

void RecordingWriter::Impl::StorageFailed(const absl::Status& s) {
  {
    std::lock_guard lock(mutex);
    if (storage_failed) return;
    storage_failed = true;
  }
  Fail(absl::IsResourceExhausted(s) ? DiskFull(directory) : s);
  unlink(Reserve().c_str());
  database->Recover();
}

absl::Status RecordingWriter::Impl::KeepReserve() const {
  int fd = open(Reserve().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return NumberedError(errno, Reserve(), directory);
  const std::string record = EncodeRecording(info, false);
  const ssize_t n = write(fd, record.data(), record.size());
  int error = n == static_cast<ssize_t>(record.size()) ? posix_fallocate(fd, 0, kReserveBytes)
              : n < 0                                  ? errno
                                                       : ENOSPC;
  close(fd);
  if (error == ENOSPC || error == EDQUOT) return DiskFull(directory);
  return absl::OkStatus();  // where it cannot be kept, it is not
}

std::shared_ptr<const RecordingWriter::Impl::StoredFile> RecordingWriter::Impl::File(
    const std::string& path, const std::string& bytes_at, const TtqMap& m) {
  // Copies: the record is packed.
  const std::tuple key(uint64_t{m.dev}, uint64_t{m.ino}, uint64_t{m.file_bytes},
                       int64_t{m.mtime_ns});
  std::lock_guard lock(file_mutex);
  auto it = files.find(key);
  if (it != files.end()) return it->second;
  if (m.file_bytes > kMaxFileBytes) return nullptr;
  int fd = OpenUnchanged(m, bytes_at);
  if (fd < 0 && !copies.empty()) {
    fd = open((copies + "/" + CopyName(m)).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  }
  if (fd < 0) return nullptr;
  std::shared_ptr<const StoredFile> file = StoreFile(path, fd, m.file_bytes);
  close(fd);
  if (file != nullptr) files.emplace(key, file);
  return file;
}

std::shared_ptr<const RecordingWriter::Impl::StoredFile> RecordingWriter::Impl::StoreFile(
    const std::string& path, int fd, uint64_t size) {
  // Chunks are found by the hash of all of it, so it is read twice rather than held in memory.
  const auto hash = HashOf(fd, size, nullptr);
  if (!hash) return nullptr;
  const uint64_t id = FileIdOf(*hash);
  auto file = std::make_shared<StoredFile>(*this, id, size);
  for (const auto& [key, other] : files) {
    if (other->id() == id) return file;
  }
  Database::Batch batch;
  absl::Status s;
  const auto again = HashOf(fd, size, [&](uint32_t number, const std::string& bytes) {
    batch.Put(Family::kFile, FileChunkKey(id, number), bytes);
    if (!s.ok() || batch.bytes() < kFileBatchBytes) return;
    s = database->Add(std::move(batch));
    batch = Database::Batch();
  });
  if (again != hash) return nullptr;
  if (s.ok()) s = database->Add(std::move(batch));
  if (s.ok()) {
    MessageBuilder message;
    auto r = message.initRoot<schema::File>();
    r.setPath(path);
    r.setSize(size);
    r.setBuildId(ElfBuildId([fd](uint64_t offset, size_t n, void* out) {
      return pread(fd, out, n, static_cast<off_t>(offset)) == static_cast<ssize_t>(n);
    }));
    s = database->Put(FileKey(id), BytesOf(message));
  }
  if (!s.ok()) StorageFailed(s);
  return file;
}

std::optional<uint64_t> RecordingWriter::Impl::HashOf(
    int fd, uint64_t size, const std::function<void(uint32_t, const std::string&)>& chunk) {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                 XXH3_freeState);
  if (state == nullptr) return std::nullopt;
  XXH3_64bits_reset(state.get());
  std::string bytes;
  for (uint64_t at = 0; at < size; at += bytes.size()) {
    bytes.resize(std::min<uint64_t>(kFileChunkBytes, size - at));
    for (size_t done = 0; done < bytes.size();) {
      ssize_t n =
          pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
      if (n <= 0) return std::nullopt;
      done += static_cast<size_t>(n);
    }
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    if (chunk) chunk(static_cast<uint32_t>(at / kFileChunkBytes), bytes);
  }
  return XXH3_64bits_digest(state.get());
}

void RecordingWriter::Impl::StoredFile::Read(uint64_t offset, size_t n, uint8_t* out) const {
  std::lock_guard lock(recording_.chunk_mutex);
  std::string& chunk = recording_.chunk;
  const size_t inside = std::min<uint64_t>(n, bytes_ - std::min(offset, bytes_));
  memset(out + inside, 0, n - inside);
  for (size_t done = 0; done < inside;) {
    const auto number = static_cast<uint32_t>((offset + done) / kFileChunkBytes);
    const size_t from = (offset + done) % kFileChunkBytes;
    const size_t part = std::min<size_t>(inside - done, kFileChunkBytes - from);
    if (recording_.chunk_file != id_ || recording_.chunk_number != number) {
      recording_.chunk_file = 0;
      auto bytes = recording_.database->Get(Family::kFile, FileChunkKey(id_, number));
      absl::Status s = bytes.status();
      if (s.ok() && bytes->size() < from + part) s = absl::DataLossError("a file is cut off");
      if (!s.ok()) {
        recording_.Fail(s);
        memset(out + done, 0, inside - done);
        return;
      }
      chunk = *std::move(bytes);
      recording_.chunk_file = id_;
      recording_.chunk_number = number;
    }
    memcpy(out + done, chunk.data() + from, part);
    done += part;
  }
}

RecordingWriter::RecordingWriter() : impl_(std::make_unique<Impl>()) {}

RecordingWriter::~RecordingWriter() {
  for (std::thread& t : impl_->threads) {
    if (t.joinable()) t.join();
  }
}

absl::StatusOr<std::unique_ptr<RecordingWriter>> RecordingWriter::Create(
    const std::string& directory, const RecordingInfo& info, size_t jobs) {
  if (mkdir(directory.c_str(), 0700) != 0) {
    return NumberedError(errno, "cannot make " + directory, directory);
  }
  std::unique_ptr<RecordingWriter> out(new RecordingWriter);
  Impl& impl = *out->impl_;
  impl.directory = directory;
  impl.info = info;
  absl::Status s = WithinMemory([&]() -> absl::Status {
    if (absl::Status opened = impl.Open(); !opened.ok()) {
      return absl::IsResourceExhausted(opened) ? DiskFull(directory) : opened;
    }
    impl.workers =
        std::make_unique<WorkerPool>(jobs != 0 ? jobs : std::max<size_t>(2, UsefulThreads()));
    return impl.workers->status();
  });
  if (s.ok()) return out;
  out.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  // That may have needed what was just not to be had.
  if (access((directory + "/db").c_str(), F_OK) == 0) return s;  // the reserve says what it is
  unlink((directory + "/reserve").c_str());
  rmdir(directory.c_str());
  return s;
}

void RecordingWriter::Start(std::shared_ptr<Ring> ring) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.mutex);
  if (impl.takes_segments && ring->is_segment()) {
    impl.rings.push_back(ring);
    if (!impl.error.ok()) ring->Detach();
    return impl.AddSegmentLocked(ring);
  }
  const ProcessNumbers::Numbers numbers = impl.numbers.Next(*ring);
  impl.rings.push_back(ring);
  impl.threads.emplace_back();
  if (!impl.error.ok()) {
    impl.totals.ran_on = true;
    ring->Detach();
  }
  ++impl.running;
  ++impl.totals.processes;
  if (ring->verify()) impl.database->SetCacheBytes(kVerifyCacheBytes);
  const absl::Status started = Guarded([&]() -> absl::Status {
    absl::StatusOr<std::thread> thread = StartThread([&impl, ring, numbers]() mutable {
      absl::Status s = Guarded([&]() -> absl::Status {
        ProcessIngest(impl, ring, numbers.process, numbers.parent).Run();
        return absl::OkStatus();
      });
      std::lock_guard lock(impl.mutex);
      if (!s.ok()) impl.FailLocked(s);
      // A ring is memory: a program may start thousands of others, one after the other.
      impl.EndLocked(std::exchange(ring, nullptr));
    });
    if (!thread.ok()) return thread.status();
    impl.threads.back() = *std::move(thread);
    return absl::OkStatus();
  });
  if (!started.ok()) {
    impl.FailLocked(started);
    impl.EndLocked(ring);
  }
}

void RecordingWriter::Fail(const absl::Status& why) {
  impl_->Fail(absl::IsResourceExhausted(why) ? absl::UnavailableError(why.message()) : why);
}

void RecordingWriter::ReachLimit(const std::string& what) {
  impl_->Fail(absl::ResourceExhaustedError(what));
}

void RecordingWriter::SetWorkingDirectory(const std::string& path) {
  impl_->info.working_directory = path;
}

void RecordingWriter::SetUnread() { impl_->database->GatherBatches(); }
void RecordingWriter::SetCopies(const std::string& path) { impl_->copies = path; }
void RecordingWriter::SetMissing(ProcessNo process, const std::string& what) {
  impl_->missing[process] = what;
}
void RecordingWriter::SetTakesSegments() { impl_->takes_segments = true; }
void RecordingWriter::SetHistoryEnd(Time end) { impl_->history_end = end; }
const std::map<ProcessNo, std::vector<Time>>& RecordingWriter::skimmed() const {
  return impl_->skimmed;
}

size_t RecordingWriter::running() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->running;
}

absl::Status RecordingWriter::Finish() {
  for (std::thread& t : impl_->threads) {
    if (t.joinable()) t.join();
  }
  absl::Status s = error();
  absl::Status record = impl_->WriteRecord(true);
  if (record.ok()) record = impl_->database->Flush();
  impl_->database.reset();
  unlink(impl_->Reserve().c_str());
  if (record.ok()) record = WriteSeal(impl_->directory);
  if (absl::IsResourceExhausted(record)) record = DiskFull(impl_->directory);
  return s.ok() ? record : s;
}

absl::Status RecordingWriter::error() const { return impl_->Error(); }

const IngestTotals& RecordingWriter::totals() const { return impl_->totals; }

}  // namespace ttq
