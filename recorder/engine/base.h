// SPDX-License-Identifier: MIT
//
// What the engine has instead of a C library: it shares its process with the program that it
// records, so that nothing of its own may live in that program's heap, thread-local storage or
// descriptors. It is compiled to use general registers only: vector registers always hold the
// program's values.
//
// Thread-safety: none of the engine's functions may run on two threads at a time.

#ifndef TTQ_RECORDER_ENGINE_BASE_H_
#define TTQ_RECORDER_ENGINE_BASE_H_

#include <cstddef>
#include <cstdint>

namespace ttq::engine {

constexpr uint64_t kPage = 4096;
constexpr uint64_t PageDown(uint64_t a) { return a & ~(kPage - 1); }
constexpr uint64_t PageUp(uint64_t a) { return PageDown(a + kPage - 1); }
constexpr uint64_t Least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Gives the result, a negative errno when it failed.
int64_t Syscall(int64_t number, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
                uint64_t e = 0, uint64_t f = 0);

inline uint64_t Number(const void* p) { return reinterpret_cast<uint64_t>(p); }
inline bool Failed(int64_t result) { return result < 0 && result > -4096; }

// Maps memory of the engine's own, as mmap does with `flags`, where a program has none: what the
// kernel gives the program does not depend on what the engine needs. Gives mmap's result.
constexpr uint64_t kOwnBegin = 0x7e8000000000, kOwnEnd = 0x7f0000000000;
int64_t MapOwn(size_t bytes, int flags, int64_t fd = -1);
// Has the kernel back memory by pages of 2 MiB where it can: one fault in place of 512.
void PreferHugePages(const void* at, size_t bytes);
// Memory of the engine's own, zero; it is never given back.
void* Allocate(size_t bytes);
template <class T>
T* AllocateArray(size_t count) {
  return static_cast<T*>(Allocate(count * sizeof(T)));
}

// A line of text in a buffer of its own; what does not fit is cut off.
class Text {
 public:
  Text& operator<<(const char* s);
  Text& operator<<(uint64_t number);
  Text& operator<<(char) = delete;
  Text& Hex(uint64_t number);
  const char* c_str() const { return buffer_; }
  size_t size() const { return used_; }

 private:
  char buffer_[512] = {};
  size_t used_ = 0;
};

size_t Length(const char* s);
bool Equal(const char* a, const char* b);
// What follows `start` in `s`; null when it does not begin so.
const char* After(const char* s, const char* start);

// Up to `bytes` from an address of the program's choosing; how many could be read.
size_t ReadGuest(uint64_t address, void* into, size_t bytes);
// Whether a fault in ReadGuest is caught now, and ends the copy there; null: never. Where it is
// not, the kernel copies, which takes longer.
void SetCatchesFaults(bool (*catches)());

// Something that the engine cannot record: says so in one line of the recorder's log, ends what has
// been recorded so far, and the process, with status 125.
[[noreturn]] void Refuse(const Text& what);
// The same with a line that says all.
[[noreturn]] void EndWith(const Text& line);

}  // namespace ttq::engine

extern "C" {
void* memcpy(void* to, const void* from, size_t bytes);
void* memmove(void* to, const void* from, size_t bytes);
void* memset(void* at, int value, size_t bytes);
int memcmp(const void* a, const void* b, size_t bytes);
}

#endif  // TTQ_RECORDER_ENGINE_BASE_H_
