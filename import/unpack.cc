// SPDX-License-Identifier: MIT

#include "import/unpack.h"

#include <fcntl.h>
#include <lz4frame.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/types.h"
#include "fmt/core.h"

namespace ttq {
namespace {

constexpr size_t kPiece = 1 << 20;

// The unpacked bytes, on their way into a file that has no name. Pages of zeros become holes.
class Output {
 public:
  static absl::StatusOr<Output> Make() {
    const char* named = getenv("TMPDIR");
    const std::string directory = named != nullptr && *named != 0 ? named : "/var/tmp";
    const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
      return absl::UnavailableError(
          fmt::format("cannot make a file in {}: {}", directory, strerror(errno)));
    }
    return Output(fd, directory);
  }
  Output(Output&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), size_(other.size_), directory_(other.directory_) {}
  ~Output() {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Add(const char* bytes, size_t n) {
    static const char kZeros[kPageBytes] = {};
    while (n > 0) {
      const size_t part = std::min(n, kPageBytes - size_ % kPageBytes);
      if (part < kPageBytes || memcmp(bytes, kZeros, kPageBytes) != 0) {
        const ssize_t done = pwrite(fd_, bytes, part, static_cast<off_t>(size_));
        if (done != static_cast<ssize_t>(part)) {
          return absl::UnavailableError(fmt::format("cannot unpack into {}: {}", directory_,
                                                    done < 0 ? strerror(errno) : strerror(ENOSPC)));
        }
      }
      size_ += part;
      bytes += part;
      n -= part;
    }
    return absl::OkStatus();
  }
  uint64_t size() const { return size_; }

  absl::StatusOr<FileImage> Image() {
    if (size_ == 0) return FileImage();
    if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) {
      return absl::UnavailableError(fmt::format("cannot unpack into {}", directory_));
    }
    void* at = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
    if (at == MAP_FAILED) return absl::UnavailableError("no memory for the unpacked core dump");
    std::shared_ptr<const void> owner(
        at, [n = size_](const void* p) { munmap(const_cast<void*>(p), n); });
    return FileImage({static_cast<const uint8_t*>(at), size_}, owner);
  }

 private:
  Output(int fd, std::string directory) : fd_(fd), directory_(std::move(directory)) {}

  int fd_;
  uint64_t size_ = 0;
  std::string directory_;
};

// What a format's loop says at its end: why there is no more; empty when all is there.
using Unpacked = absl::StatusOr<std::string>;

Unpacked Zstd(absl::Span<const uint8_t> in, Output* out) {
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                    ZSTD_freeDStream);
  if (stream == nullptr) return absl::UnavailableError("out of memory");
  std::vector<char> piece(kPiece);
  ZSTD_inBuffer from{in.data(), in.size(), 0};
  size_t left = 1;
  for (;;) {
    ZSTD_outBuffer to{piece.data(), piece.size(), 0};
    left = ZSTD_decompressStream(stream.get(), &to, &from);
    if (ZSTD_isError(left)) return fmt::format("zstd: {}", ZSTD_getErrorName(left));
    RETURN_IF_ERROR(out->Add(piece.data(), to.pos));
    if (from.pos == from.size && to.pos < to.size) break;
  }
  return left == 0 ? "" : "its zstd frame is cut off";
}

Unpacked Lz4(absl::Span<const uint8_t> in, Output* out) {
  LZ4F_dctx* context = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) {
    return absl::UnavailableError("out of memory");
  }
  std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> owner(
      context, LZ4F_freeDecompressionContext);
  std::vector<char> piece(kPiece);
  size_t at = 0, hint = 1;
  for (;;) {
    size_t to = piece.size(), from = in.size() - at;
    hint = LZ4F_decompress(context, piece.data(), &to, in.data() + at, &from, nullptr);
    if (LZ4F_isError(hint)) return fmt::format("lz4: {}", LZ4F_getErrorName(hint));
    at += from;
    RETURN_IF_ERROR(out->Add(piece.data(), to));
    if (at == in.size() && to < piece.size()) break;
  }
  return hint == 0 ? "" : "its lz4 frame is cut off";
}

Unpacked Gzip(absl::Span<const uint8_t> in, Output* out) {
  z_stream stream = {};
  constexpr int kGzip = 16;  // zlib.h, inflateInit2
  if (inflateInit2(&stream, MAX_WBITS + kGzip) != Z_OK) {
    return absl::UnavailableError("out of memory");
  }
  std::unique_ptr<z_stream, decltype(&inflateEnd)> owner(&stream, inflateEnd);
  std::vector<char> piece(kPiece);
  size_t at = 0;
  int state = Z_OK;
  for (;;) {
    const auto more = static_cast<uInt>(std::min<size_t>(in.size() - at, 1 << 30));
    stream.next_in = const_cast<Bytef*>(in.data() + at);
    stream.avail_in = more;
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = inflate(&stream, Z_NO_FLUSH);
    at += more - stream.avail_in;
    RETURN_IF_ERROR(out->Add(piece.data(), piece.size() - stream.avail_out));
    // Files of several members are one after the other.
    if (state == Z_STREAM_END && at < in.size() && inflateReset(&stream) == Z_OK) continue;
    if (state == Z_STREAM_END) return "";
    if (state == Z_BUF_ERROR || (state == Z_OK && at == in.size() && stream.avail_out > 0)) {
      return "its gzip stream is cut off";
    }
    if (state != Z_OK)
      return fmt::format("gzip: {}", stream.msg != nullptr ? stream.msg : "damaged");
  }
}

}  // namespace

absl::StatusOr<FileImage> ReadPacked(const std::string& path, std::string* remark) {
  absl::StatusOr<FileImage> file = FileImage::Map(path);
  if (!file.ok()) return file.status();
  const absl::Span<const uint8_t> bytes = file->bytes();
  const auto begins = [&](std::string_view magic) {
    return bytes.size() >= magic.size() && memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  Unpacked (*unpack)(absl::Span<const uint8_t>, Output*) = nullptr;
  if (begins("\x28\xb5\x2f\xfd")) unpack = Zstd;
  if (begins("\x04\x22\x4d\x18")) unpack = Lz4;
  if (begins("\x1f\x8b")) unpack = Gzip;
  if (unpack == nullptr) return file;
  ASSIGN_OR_RETURN(Output out, Output::Make());
  ASSIGN_OR_RETURN(std::string trouble, unpack(bytes, &out));
  if (!trouble.empty() && out.size() == 0) {
    return absl::DataLossError(fmt::format("{}: {}", path, trouble));
  }
  *remark = std::move(trouble);
  return out.Image();
}

}  // namespace ttq
