// SPDX-License-Identifier: MIT

#include "store/format/compressor.h"

#include <zstd.h>

#include <mutex>
#include <new>
#include <utility>

namespace ttq {
namespace {

std::mutex g_mutex;  // guards those that no one has
Compressor* g_unused = nullptr;

}  // namespace

Compressor::Ptr Compressor::Take() {
  {
    std::lock_guard lock(g_mutex);
    if (g_unused != nullptr) return Ptr(std::exchange(g_unused, g_unused->next_));
  }
  std::unique_ptr<Compressor> made(new (std::nothrow) Compressor);
  return made && made->zstd_ ? Ptr(made.release()) : nullptr;
}

void Compressor::GiveBack::operator()(Compressor* compressor) const {
  std::lock_guard lock(g_mutex);
  compressor->next_ = std::exchange(g_unused, compressor);
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
