// SPDX-License-Identifier: MIT
//
// The bytes of a file, wherever they live: mapped from disk, decompressed, or held inside a
// recording. Contiguous, read-only and shared: a copy is cheap and keeps the bytes alive.
// Thread-safe: nothing changes after construction.

#ifndef TTQ_BASE_FILE_IMAGE_H_
#define TTQ_BASE_FILE_IMAGE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ttq {

class FileImage {
 public:
  // No bytes.
  FileImage() = default;
  // `bytes` must stay valid as long as `owner` lives. A null owner: forever.
  FileImage(absl::Span<const uint8_t> bytes, std::shared_ptr<const void> owner)
      : bytes_(bytes), owner_(std::move(owner)) {}

  static FileImage FromString(std::string bytes);
  // Maps a regular file, or reads it. kNotFound: it cannot be opened. kInvalidArgument: it is no
  // regular file. Throws std::bad_alloc without memory, std::system_error without a descriptor.
  static absl::StatusOr<FileImage> Map(const std::string& path);
  // The same, but what happens to the file later does not matter: its bytes are copied.
  static absl::StatusOr<FileImage> Read(const std::string& path);

  absl::Span<const uint8_t> bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  absl::Span<const uint8_t> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace ttq

#endif  // TTQ_BASE_FILE_IMAGE_H_
