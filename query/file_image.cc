// SPDX-License-Identifier: MIT

#include "query/file_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ttq {

FileImage FileImage::FromString(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  absl::Span<const uint8_t> span(reinterpret_cast<const uint8_t*>(owner->data()), owner->size());
  return FileImage(span, std::move(owner));
}

absl::StatusOr<FileImage> FileImage::Map(const std::string& path) {
  // O_NONBLOCK: a FIFO that a recording names must not stop us.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  size_t size = static_cast<size_t>(st.st_size);
  if (size == 0) {
    close(fd);
    return FileImage();
  }
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  int error = errno;
  close(fd);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": ", strerror(error)));
  }
  std::shared_ptr<const void> owner(memory,
                                    [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return FileImage(absl::MakeConstSpan(static_cast<const uint8_t*>(memory), size),
                   std::move(owner));
}

}  // namespace ttq
