// SPDX-License-Identifier: MIT
//
// malloc and its like, where they get no memory. RocksDB and zstd do not look at what they were
// given: RocksDB writes through the null pointer, or fails an assertion. So these functions do in
// want of memory what `operator new` does, [new.delete.single] of C++: they call the new-handler,
// which ends the process with a line or gives memory back, and try again. Without a handler they
// return null, as C has it.
//
// A program may define these functions ("Replacing malloc" in the manual of glibc). The memory is
// that of whoever comes next: glibc, or an allocator that the user preloads.

#include <dlfcn.h>
#include <stdlib.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

// The sanitizers have an allocator of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

// A larger request is looked at by who makes it, and may come from a number in a damaged file.
constexpr size_t kMaxUnchecked = size_t{16} << 20;

// The next definition of a function, looked up at its first call. A static object would do it
// before main, too late; its guard would not let dlsym allocate.
#define NEXT(name)                                                     \
  static decltype(&name) next = nullptr;                               \
  if (__builtin_expect(next == nullptr, 0)) {                          \
    next = reinterpret_cast<decltype(&name)>(dlsym(RTLD_NEXT, #name)); \
  }

template <class Allocate>
void* WithHandler(size_t bytes, Allocate allocate) {
  void* memory = allocate();
  while (__builtin_expect(memory == nullptr, 0) && bytes != 0 && bytes <= kMaxUnchecked) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) break;
    handler();
    memory = allocate();
  }
  return memory;
}

}  // namespace

// The libraries are to find them.
#pragma GCC visibility push(default)
extern "C" {

void* malloc(size_t bytes) noexcept {
  NEXT(malloc);
  return WithHandler(bytes, [=] { return next(bytes); });
}

void* calloc(size_t n, size_t bytes) noexcept {
  NEXT(calloc);
  size_t all = 0;
  if (__builtin_mul_overflow(n, bytes, &all)) all = SIZE_MAX;
  return WithHandler(all, [=] { return next(n, bytes); });
}

void* realloc(void* memory, size_t bytes) noexcept {
  NEXT(realloc);
  return WithHandler(bytes, [=] { return next(memory, bytes); });
}

int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  NEXT(posix_memalign);
  int error = 0;
  WithHandler(bytes, [=, &error]() -> void* {
    error = next(out, alignment, bytes);
    return error == ENOMEM ? nullptr : out;
  });
  return error;
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  NEXT(aligned_alloc);
  return WithHandler(bytes, [=] { return next(alignment, bytes); });
}

}  // extern "C"
#pragma GCC visibility pop

#endif
