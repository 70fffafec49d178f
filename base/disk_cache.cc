// SPDX-License-Identifier: MIT

#include "base/disk_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
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

// Calls f with the path and the state of each plain file of a kind.
template <class F>
void ForEachCacheFile(std::string_view kind, const F& f) {
  const std::string folder = CacheFolder();
  const std::string start = absl::StrCat(folder, "/", std::string(kind), "-");
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string& path = entry.path().native();
    struct stat st;
    if (absl::StartsWith(path, start) && lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode)) {
      f(path, st);
    }
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

// A file that is not seen before it is whole. It has no name until then, where the file system can
// have such files: then none is left, whenever the process ends.
class NewFile {
 public:
  NewFile(const std::string& path, mode_t mode) : path_(path), temporary_(TemporaryName(path)) {
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    fd_ = open(folder.empty() ? "." : folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
    has_name_ = fd_ < 0;
    if (has_name_) {
      fd_ = open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    }
  }
  ~NewFile() {
    if (fd_ < 0) return;
    close(fd_);
    if (has_name_) unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_; }  // negative: it could not be made
  // Gives it its name. REQUIRES: fd() >= 0.
  void Finish() {
    // linkat would not replace a file.
    has_name_ = has_name_ || linkat(AT_FDCWD, absl::StrCat("/proc/self/fd/", fd_).c_str(), AT_FDCWD,
                                    temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    const bool closed = close(fd_) == 0;
    fd_ = -1;
    if (has_name_ && (!closed || rename(temporary_.c_str(), path_.c_str()) != 0)) {
      unlink(temporary_.c_str());
    }
  }

 private:
  static std::string TemporaryName(const std::string& path) {
    static std::atomic<unsigned> count{0};
    return absl::StrCat(path, ".", getpid(), ".", count++);
  }

  const std::string path_, temporary_;
  bool has_name_;
  int fd_;
};

std::string CachePath(std::string_view kind, const std::string& id) {
  const std::string folder = CacheFolder();
  if (folder.empty() || id.empty() || id.size() > 128 ||
      id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return "";
  }
  return absl::StrCat(folder, "/", std::string(kind), "-", id);
}

bool ReadWholeFile(const std::string& path, uint64_t most, std::string* out) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  struct stat st;
  bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && static_cast<uint64_t>(st.st_size) <= most;
  if (ok) {
    out->resize(static_cast<size_t>(st.st_size));
    for (size_t done = 0; ok && done < out->size();) {
      const ssize_t n = read(fd, out->data() + done, out->size() - done);
      if (n < 0 && errno == EINTR) continue;
      ok = n > 0;
      if (ok) done += static_cast<size_t>(n);
    }
  }
  close(fd);
  return ok;
}

void WriteWholeFile(const std::string& path, std::initializer_list<std::string_view> parts,
                    mode_t mode) {
  NewFile file(path, mode);
  if (file.fd() < 0) return;
  if (std::all_of(parts.begin(), parts.end(),
                  [&file](auto part) { return WriteAll(file.fd(), part); })) {
    file.Finish();
  }
}

void WriteCacheFile(const std::string& path, std::initializer_list<std::string_view> parts) {
  MakeFolders(path);
  WriteWholeFile(path, parts, 0600);
}

void LinkCacheFile(const std::string& file, const std::string& path) {
  MakeFolders(path);
  [[maybe_unused]] const int ignored = link(file.c_str(), path.c_str());
}

std::string CachePrefix(std::string_view kind) {
  std::string prefix = CachePath(kind, "0");
  if (prefix.empty()) return prefix;
  prefix.pop_back();
  MakeFolders(prefix);
  return prefix;
}

void LimitCacheFiles(std::string_view kind, uint64_t most) {
  struct File {
    time_t used;
    uint64_t bytes;
    std::string path;
  };
  std::vector<File> files;
  uint64_t bytes = 0;
  ForEachCacheFile(kind, [&](const std::string& path, const struct stat& st) {
    files.push_back({std::max(st.st_atime, st.st_mtime), static_cast<uint64_t>(st.st_size), path});
    bytes += files.back().bytes;
  });
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (bytes <= most) return;
    if (unlink(file.path.c_str()) == 0) bytes -= file.bytes;
  }
}

void DropUnusedCacheFiles(std::string_view kind, std::chrono::seconds kept) {
  ForEachCacheFile(kind, [&](const std::string& path, const struct stat& st) {
    // st_ctime is when the number of names changed.
    if (st.st_nlink == 1 && time(nullptr) - st.st_ctime > kept.count()) unlink(path.c_str());
  });
}

LargeCacheFile::~LargeCacheFile() = default;

std::unique_ptr<LargeCacheFile> LargeCacheFile::Create(const std::string& path, uint64_t size) {
  MakeFolders(path);
  auto file = std::make_unique<NewFile>(path, 0600);
  // To write a page for which the disk has no room would end the process.
  if (file->fd() < 0 || posix_fallocate(file->fd(), 0, static_cast<off_t>(size)) != 0) {
    return nullptr;
  }
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd(), 0);
  if (memory == MAP_FAILED) return nullptr;
  std::unique_ptr<LargeCacheFile> out(new LargeCacheFile);
  out->file_ = std::move(file);
  out->memory_ = std::shared_ptr<uint8_t>(static_cast<uint8_t*>(memory),
                                          [size](uint8_t* p) { munmap(p, size); });
  out->size_ = size;
  return out;
}

void LargeCacheFile::Finish() {
  mprotect(memory_.get(), size_, PROT_READ);
  file_->Finish();
}

}  // namespace ttq
