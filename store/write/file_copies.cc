// SPDX-License-Identifier: MIT

#include "store/write/file_copies.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <memory>
#include <new>
#include <string_view>

#include "base/disk_cache.h"
#include "fmt/core.h"
#include "store/format/format.h"
#include "store/format/inputs_log.h"
#include "store/write/disk_errors.h"

namespace ttq {
namespace {

constexpr int kLevel = 1;  // of zstd
constexpr char kCacheKind[] = "copy";
// How long a copy stays that no recording has.
constexpr auto kKeptUnused = std::chrono::hours(7 * 24);
constexpr uint64_t kSettledNs = 1'000'000'000;

// The first `bytes` of a file, as one zstd stream.
absl::Status Compress(int from, uint64_t bytes, const std::string& path,
                      const std::string& directory) {
  const int to = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
  if (to < 0) return NumberedError(errno, path, directory);
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> stream(ZSTD_createCCtx(),
                                                                    ZSTD_freeCCtx);
  if (stream == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(stream.get(), ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(stream.get(), ZSTD_c_checksumFlag, 1);
  std::string in(ZSTD_CStreamInSize(), '\0'), out(ZSTD_CStreamOutSize(), '\0');
  absl::Status s;
  uint64_t at = 0;
  bool ended = false;
  while (s.ok() && !ended) {
    const ssize_t n =
        pread(from, in.data(), std::min<uint64_t>(in.size(), bytes - at), static_cast<off_t>(at));
    if (n < 0 || (n == 0 && at < bytes)) {
      s = absl::UnavailableError("a file that was being copied became shorter");
      break;
    }
    at += static_cast<uint64_t>(n);
    const auto how = at == bytes ? ZSTD_e_end : ZSTD_e_continue;
    ZSTD_inBuffer input = {in.data(), static_cast<size_t>(n), 0};
    for (bool more = true; s.ok() && more;) {
      ZSTD_outBuffer output = {out.data(), out.size(), 0};
      const size_t left = ZSTD_compressStream2(stream.get(), &output, &input, how);
      s = WriteAll(to, std::string_view(out).substr(0, output.pos), path, directory);
      more = how == ZSTD_e_end ? left != 0 : input.pos < input.size;
    }
    ended = at == bytes;
  }
  close(to);
  return s;
}

// Where the copy of a file is, if one is. Nothing sets the time at which a file was last changed in
// any way, so that another content has another name. Empty: none is to be shared, as of a file that
// may change again within one tick of the clock.
std::string SharedPath(int fd) {
  const auto ns = [](const timespec& t) {
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
  };
  struct stat st;
  timespec now;
  if (fstat(fd, &st) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0 ||
      ns(st.st_ctim) + kSettledNs > ns(now)) {
    return "";
  }
  return CachePath(kCacheKind, fmt::format("{:016x}{:016x}{:016x}{:016x}{:016x}", st.st_dev,
                                           st.st_ino, st.st_size, ns(st.st_mtim), ns(st.st_ctim)));
}

}  // namespace

FileCopies::FileCopies(const std::string& directory) : directory_(directory) {}

absl::Status FileCopies::Keep(const TtqMap& map, const std::string& path) {
  std::lock_guard lock(mutex_);
  const std::string name = CopyName(map), copy = CopiesDirectory(directory_) + "/" + name;
  if (map.file_bytes > kMaxFileBytes || !kept_.emplace(name, "").second) return absl::OkStatus();
  const int fd = OpenUnchanged(map, path);
  if (fd < 0) return absl::OkStatus();
  absl::Status s;
  const std::string shared = SharedPath(fd);
  if (shared.empty() || link(shared.c_str(), copy.c_str()) != 0) {
    s = Compress(fd, map.file_bytes, copy, directory_);
    // Only if nothing has changed it meanwhile.
    if (s.ok() && SharedPath(fd) == shared) kept_[name] = shared;
  }
  close(fd);
  return s;
}

void FileCopies::Share() {
  std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& [name, shared] : kept_) {
    if (shared.empty()) continue;
    const std::string copy = CopiesDirectory(directory_) + "/" + name;
    // Before others rely on it.
    const int fd = open(copy.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (fdatasync(fd) == 0) LinkCacheFile(copy, shared);
    close(fd);
    any = true;
  }
  if (any) DropUnusedCacheFiles(kCacheKind, kKeptUnused);
}

}  // namespace ttq
