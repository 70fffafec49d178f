// SPDX-License-Identifier: MIT

#include "base/file_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace ttq {

namespace {

// Its descriptor, which is the caller's.
absl::StatusOr<int> OpenFile(const std::string& path, size_t* size) {
  // O_NONBLOCK: a FIFO that a recording names must not stop us.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    // As below: it is there.
    throw std::system_error(errno, std::generic_category(), path);
  }
  if (fd < 0) return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  struct stat st;
  if (fstat(fd, &st) != 0) {
    const int error = errno;
    close(fd);
    throw std::system_error(error, std::generic_category(), path);
  }
  if (!S_ISREG(st.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  *size = static_cast<size_t>(st.st_size);
  return fd;
}

}  // namespace

FileImage FileImage::FromString(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  absl::Span<const uint8_t> span(reinterpret_cast<const uint8_t*>(owner->data()), owner->size());
  return FileImage(span, std::move(owner));
}

absl::StatusOr<FileImage> FileImage::Map(const std::string& path) {
  size_t size = 0;
  ASSIGN_OR_RETURN(const int opened, OpenFile(path, &size));
  const int fd = opened;
  if (size == 0) {
    close(fd);
    return FileImage();
  }
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return Read(path);
  std::shared_ptr<const void> owner(memory,
                                    [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return FileImage(absl::MakeConstSpan(static_cast<const uint8_t*>(memory), size),
                   std::move(owner));
}

absl::StatusOr<FileImage> FileImage::Read(const std::string& path) {
  size_t size = 0;
  ASSIGN_OR_RETURN(const int fd, OpenFile(path, &size));
  const std::shared_ptr<uint8_t[]> out(new (std::nothrow) uint8_t[size + 1]);
  size_t done = 0;
  while (out != nullptr && done < size) {
    const ssize_t n = pread(fd, out.get() + done, size - done, static_cast<off_t>(done));
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  close(fd);
  // Who asks for a debug file or a cache does without one that is not there. This one is, and an
  // answer without it would be another one.
  if (out == nullptr) throw std::bad_alloc();
  return FileImage(absl::MakeConstSpan(out.get(), done), out);
}

}  // namespace ttq
