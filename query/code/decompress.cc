// SPDX-License-Identifier: MIT

#include "query/code/decompress.h"

#include <isa-l/igzip_lib.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/disk_cache.h"
#include "base/threads.h"
#include "base/types.h"

namespace ttq {
namespace {

using Bytes = absl::Span<const uint8_t>;

// Deflate cannot expand by more than this (zlib's technical details: 1032:1); zstd can, but does
// not in a debug section worth reading.
constexpr uint64_t kMaxExpansion = 1100;

// To inflate a megabyte takes 2 ms, and a process may ask one question only: what was inflated is
// kept, named after what it was inflated from. A file is the bytes, then the HashOf() them.
constexpr uint64_t kWorthKeeping = 1 << 20, kMaxKept = uint64_t{2} << 30;
// Smaller ones are there before a thread would be.
constexpr uint64_t kWorthAThread = 256 << 10;
// Of those that come one after the other.
constexpr uint64_t kPiece = 1 << 20;

// Of one page in each megabyte, where that is enough to tell one section from another.
XXH128_hash_t Sampled(Bytes bytes) {
  constexpr uint64_t kEvery = 1 << 20;
  XXH128_hash_t hash = {bytes.size(), 0};
  for (uint64_t at = 0; at < bytes.size(); at += kEvery) {
    const Bytes page = bytes.subspan(at, kPageBytes);
    hash = XXH3_128bits_withSeed(page.data(), page.size(), hash.low64 ^ hash.high64);
  }
  return hash;
}

// Of all bytes, in pieces for which all processors can be used.
XXH128_hash_t HashOf(Bytes bytes) {
  constexpr uint64_t kEach = 4 << 20;
  std::vector<uint64_t> pieces((bytes.size() + kEach - 1) / kEach);
  InParallel(pieces.size(), [&](size_t i) {
    const Bytes piece = bytes.subspan(i * kEach, kEach);
    pieces[i] = XXH3_64bits(piece.data(), piece.size());
  });
  return XXH3_128bits_withSeed(pieces.data(), pieces.size() * sizeof(pieces[0]), bytes.size());
}

// A build-id stands for all that is in the file. Without one all bytes do.
std::string KeptAt(const CompressedSection& section) {
  if (section.size < kWorthKeeping || section.size > kMaxKept) return "";
  const Bytes in = section.bytes.bytes();
  XXH128_hash_t hash = section.build_id.empty() ? XXH3_128bits(in.data(), in.size()) : Sampled(in);
  const std::string id =
      absl::StrCat(section.build_id, ".", section.size, ".", hash.high64, ".", hash.low64);
  hash = XXH3_128bits(id.data(), id.size());
  return CachePath("inflated", absl::StrCat(absl::Hex(hash.high64, absl::kZeroPad16),
                                            absl::Hex(hash.low64, absl::kZeroPad16)));
}

std::optional<FileImage> LoadKept(const std::string& path, uint64_t size) {
  absl::StatusOr<FileImage> file = FileImage::Map(path);
  if (!file.ok() || file->bytes().size() != size + sizeof(XXH128_hash_t)) return std::nullopt;
  const Bytes bytes = file->bytes().subspan(0, size);
  XXH128_hash_t hash;
  std::memcpy(&hash, bytes.data() + size, sizeof(hash));
  if (!XXH128_isEqual(hash, HashOf(bytes))) return std::nullopt;
  return FileImage(bytes, file->owner());
}

// Calls `tell(n)` when the first n bytes are there. False when it is not a whole stream of that
// size.
bool Inflate(Bytes in, uint8_t* out, uint64_t size, const std::function<void(uint64_t)>& tell) {
  const std::unique_ptr<inflate_state> state(new (std::nothrow) inflate_state);
  if (state == nullptr) return false;
  isal_inflate_init(state.get());
  state->crc_flag = ISAL_ZLIB;
  // Gives how many bytes came; nothing when the stream is damaged.
  const auto inflate = [&](uint8_t* to, uint64_t most) -> std::optional<uint64_t> {
    state->next_out = to;
    state->avail_out = static_cast<uint32_t>(most);
    while (state->avail_out > 0 && state->block_state != ISAL_BLOCK_FINISH) {
      if (state->avail_in == 0) {
        state->next_in = const_cast<uint8_t*>(in.data());
        state->avail_in = static_cast<uint32_t>(std::min<uint64_t>(in.size(), 1u << 30));
        in.remove_prefix(state->avail_in);
      }
      const uint32_t in_before = state->avail_in, out_before = state->avail_out;
      if (isal_inflate(state.get()) != ISAL_DECOMP_OK) return std::nullopt;
      const bool stuck = state->avail_in == in_before && state->avail_out == out_before;
      if (stuck && state->block_state != ISAL_BLOCK_FINISH) return std::nullopt;
    }
    return most - state->avail_out;
  };
  for (uint64_t done = 0; done < size;) {
    const std::optional<uint64_t> came = inflate(out + done, std::min(kPiece, size - done));
    if (!came || *came == 0) return false;
    done += *came;
    tell(done);
  }
  uint8_t more;  // its checksum is compared when the end is seen
  return inflate(&more, 1) == uint64_t{0};
}

}  // namespace

struct SectionStream::Work {
  CompressedSection section;
  std::unique_ptr<LargeCacheFile> file;  // null: it is not kept
  std::shared_ptr<uint8_t> memory;       // the file's, or its own

  std::mutex mutex;
  std::condition_variable came;
  uint64_t there = 0;
  bool over = false, damaged = false;
  std::future<void> thread;  // the last, so that it ends first

  void Tell(uint64_t count) {
    std::lock_guard lock(mutex);
    there = count;
    came.notify_all();
  }
  void Run() {
    const uint64_t size = section.size;
    const Bytes in = section.bytes.bytes();
    uint8_t* const out = memory.get();
    const bool whole = section.zstd ? ZSTD_decompress(out, size, in.data(), in.size()) == size
                                    : Inflate(in, out, size, [this](uint64_t n) { Tell(n); });
    {
      std::lock_guard lock(mutex);
      over = true;
      damaged = !whole;
      if (whole) there = size;
      came.notify_all();
    }
    if (!whole || file == nullptr) return;
    const XXH128_hash_t hash = HashOf({out, size});
    std::memcpy(out + size, &hash, sizeof(hash));
    file->Finish();
  }
};

bool SectionStream::pending() const {
  if (work_ == nullptr) return false;
  std::lock_guard lock(work_->mutex);
  return !work_->over;
}

uint64_t SectionStream::Wait(uint64_t count) const {
  count = std::min<uint64_t>(count, image_.bytes().size());
  if (work_ == nullptr) return count;
  std::unique_lock lock(work_->mutex);
  work_->came.wait(lock, [&] { return work_->over || work_->there >= count; });
  return std::min(count, work_->there);
}

absl::Status SectionStream::Finish() const {
  if (work_ == nullptr) return absl::OkStatus();
  std::unique_lock lock(work_->mutex);
  work_->came.wait(lock, [&] { return work_->over; });  // its checksum is compared last
  return work_->damaged ? absl::DataLossError("a compressed section is damaged") : absl::OkStatus();
}

absl::StatusOr<SectionStream> Decompress(CompressedSection section) {
  const uint64_t size = section.size;
  if (size > section.bytes.bytes().size() * kMaxExpansion + 64) {
    return absl::DataLossError(absl::StrCat("a compressed section claims ", size, " bytes"));
  }
  SectionStream stream;
  stream.work_ = std::make_shared<SectionStream::Work>();
  SectionStream::Work& work = *stream.work_;
  if (const std::string kept = KeptAt(section); !kept.empty()) {
    if (auto image = LoadKept(kept, size)) return SectionStream(*std::move(image));
    work.file = LargeCacheFile::Create(kept, size + sizeof(XXH128_hash_t));
  }
  if (work.file != nullptr) {
    work.memory = work.file->memory();
  } else {
    work.memory.reset(new (std::nothrow) uint8_t[size + 1], std::default_delete<uint8_t[]>());
  }
  if (work.memory == nullptr) {
    return absl::ResourceExhaustedError("no memory for a compressed section");
  }
  stream.image_ = FileImage(absl::MakeConstSpan(work.memory.get(), size), work.memory);
  work.section = std::move(section);
  if (size < kWorthAThread) {
    work.Run();
  } else {
    work.thread = InThreadIfPossible([&work] { work.Run(); });
    // One that will only be run when it is waited for: then nobody else would wait in vain.
    if (work.thread.wait_for(std::chrono::seconds(0)) == std::future_status::deferred) {
      work.thread.get();
    }
  }
  return stream;
}

}  // namespace ttq
