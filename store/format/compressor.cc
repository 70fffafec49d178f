// SPDX-License-Identifier: MIT

#include "store/format/compressor.h"

#include <zstd.h>

namespace ttq {

Compressor* Compressor::OfThread() {
  thread_local Compressor compressor;
  return compressor.zstd_ == nullptr ? nullptr : &compressor;
}

Compressor::Compressor() : zstd_(ZSTD_createCCtx()) {}
Compressor::~Compressor() { ZSTD_freeCCtx(zstd_); }

std::string_view Compressor::Compress(std::string_view bytes, int level) {
  const size_t room = ZSTD_compressBound(bytes.size());
  if (room > room_) {
    buffer_.reset(new char[room]);  // not value-initialised: it is written before it is read
    room_ = room;
  }
  const size_t n = ZSTD_compressCCtx(zstd_, buffer_.get(), room, bytes.data(), bytes.size(), level);
  if (ZSTD_isError(n) || n >= bytes.size()) return bytes;
  return {buffer_.get(), n};
}

}  // namespace ttq
