// SPDX-License-Identifier: MIT

#include "query/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace ttq {
namespace {

// Empty: no place to keep anything.
std::string CacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/ttq");
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return absl::StrCat(home, "/.cache/ttq");
  return "";
}

void MakeFolders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), 0700);
  }
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

}  // namespace

std::string CachePath(std::string_view kind, const std::string& id) {
  const std::string folder = CacheFolder();
  if (folder.empty() || id.empty() || id.size() > 128 ||
      id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return "";
  }
  return absl::StrCat(folder, "/", std::string(kind), "-", id);
}

void WriteWholeFile(const std::string& path, std::initializer_list<std::string_view> parts,
                    mode_t mode) {
  static std::atomic<unsigned> count{0};
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".", count++);
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return;
  const bool written =
      std::all_of(parts.begin(), parts.end(), [fd](auto part) { return WriteAll(fd, part); });
  if (close(fd) != 0 || !written || rename(temporary.c_str(), path.c_str()) != 0) {
    unlink(temporary.c_str());
  }
}

void WriteCacheFile(const std::string& path, std::initializer_list<std::string_view> parts) {
  MakeFolders(path);
  WriteWholeFile(path, parts, 0600);
}

}  // namespace ttq
