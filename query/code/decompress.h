// SPDX-License-Identifier: MIT
//
// Compressed sections of ELF files. To decompress one takes longer than most questions about it, so
// what is decompressed is kept under the cache's folder (base/disk_cache.h), and a large section
// is read while the rest of it is being decompressed.

#ifndef TTQ_QUERY_CODE_DECOMPRESS_H_
#define TTQ_QUERY_CODE_DECOMPRESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/file_image.h"

namespace ttq {

struct CompressedSection {
  FileImage bytes;  // compressed: as zlib does (RFC 1950), or zstd
  bool zstd = false;
  uint64_t size = 0;     // decompressed, as the file claims
  std::string build_id;  // of the file; empty: it has none
};

// A section whose bytes come one after the other. A copy is of the same section.
// Thread-safe. The last copy waits for the thread that decompresses.
class SectionStream {
 public:
  // No bytes.
  SectionStream() = default;
  // All are there.
  explicit SectionStream(FileImage image) : image_(std::move(image)) {}

  // Of their size, at once; only what Wait() said is there may be read.
  const FileImage& image() const { return image_; }
  // Whether some may still come.
  bool pending() const;
  // Waits for the first `count` bytes. Returns `count`, or how many there are where the section is
  // shorter or damaged.
  uint64_t Wait(uint64_t count) const;
  // Waits for all. kDataLoss when the section is damaged.
  absl::Status Finish() const;

 private:
  friend absl::StatusOr<SectionStream> Decompress(CompressedSection section);
  struct Work;
  FileImage image_;
  std::shared_ptr<Work> work_;  // null: all are there
};

// kDataLoss when the size cannot be that of the bytes, kResourceExhausted when there is no memory
// for it.
absl::StatusOr<SectionStream> Decompress(CompressedSection section);

}  // namespace ttq

#endif  // TTQ_QUERY_CODE_DECOMPRESS_H_
