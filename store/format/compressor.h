// SPDX-License-Identifier: MIT

#ifndef TTQ_STORE_FORMAT_COMPRESSOR_H_
#define TTQ_STORE_FORMAT_COMPRESSOR_H_

#include <cstddef>
#include <memory>
#include <string_view>

struct ZSTD_CCtx_s;

namespace ttq {

// zstd into a buffer that is kept, one for each thread.
class Compressor {
 public:
  // Null when there is no memory for it.
  static Compressor* OfThread();
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // A frame, valid until the next call; where zstd gives none that is shorter, `bytes` itself.
  std::string_view Compress(std::string_view bytes, int level);

 private:
  Compressor();

  ZSTD_CCtx_s* const zstd_;
  std::unique_ptr<char[]> buffer_;
  size_t room_ = 0;
};

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_COMPRESSOR_H_
