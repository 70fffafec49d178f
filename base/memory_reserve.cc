// SPDX-License-Identifier: MIT

#include "base/memory_reserve.h"

#include <atomic>

namespace ttq {
namespace {

std::atomic<char*> g_reserve{nullptr};
std::atomic<bool> g_spent{false};
void (*g_last_words)() = nullptr;

// `operator new` calls it and tries again.
void GiveBack() {
  if (char* reserve = g_reserve.exchange(nullptr)) {
    g_spent = true;
    return operator delete(reserve);
  }
  // Another thread may be giving it back at this moment: each tries once more.
  thread_local bool tried = false;
  if (tried) g_last_words();
  tried = true;
}

}  // namespace

MemoryReserve::MemoryReserve(size_t bytes, void (*last_words)()) {
  g_reserve = static_cast<char*>(operator new(bytes));
  g_spent = false;
  g_last_words = last_words;
  before_ = std::set_new_handler(GiveBack);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(before_);
  operator delete(g_reserve.exchange(nullptr));
}

bool MemoryReserve::Spent() { return g_spent; }

}  // namespace ttq
