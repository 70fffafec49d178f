// SPDX-License-Identifier: MIT

#ifndef TTQ_STORE_FORMAT_COMPRESSOR_H_
#define TTQ_STORE_FORMAT_COMPRESSOR_H_

#include <cstddef>
#include <memory>
#include <string_view>

struct ZSTD_CCtx_s;

namespace ttq {

// zstd into a buffer that is kept.
class Compressor {
 public:
  struct GiveBack {
    void operator()(Compressor* compressor) const;
  };
  using Ptr = std::unique_ptr<Compressor, GiveBack>;
  // One that no one else has, to be given back by ~Ptr: there are as many as were ever in use at a
  // time. Not one of each thread's, which ends the process where there is no memory to note its
  // destructor. Null when there is no memory for it.
  static Ptr Take();
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
  Compressor* next_ = nullptr;  // of those that no one has
};

}  // namespace ttq

#endif  // TTQ_STORE_FORMAT_COMPRESSOR_H_
