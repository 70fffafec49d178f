// SPDX-License-Identifier: MIT

#include "recorder/engine/base.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "recorder/engine/ring.h"
#include "recorder/engine/traces.h"
#include "recorder/refusal.h"

extern "C" {

void* memcpy(void* to, const void* from, size_t bytes) {
  void* result = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
  return result;
}

void* memmove(void* to, const void* from, size_t bytes) {
  auto* d = static_cast<uint8_t*>(to);
  const auto* s = static_cast<const uint8_t*>(from);
  if (d <= s || d >= s + bytes) return memcpy(to, from, bytes);
  while (bytes-- > 0) {
    d[bytes] = s[bytes];
    __asm__ volatile("");  // or the compiler makes it a call to memmove
  }
  return to;
}

void* memset(void* at, int value, size_t bytes) {
  void* result = at;
  __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
  return result;
}

int memcmp(const void* a, const void* b, size_t bytes) {
  const auto* x = static_cast<const uint8_t*>(a);
  const auto* y = static_cast<const uint8_t*>(b);
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t a_word, b_word;
    __builtin_memcpy(&a_word, x + i, 8);
    __builtin_memcpy(&b_word, y + i, 8);
    if (a_word != b_word) break;
  }
  for (; i < bytes; ++i) {
    if (x[i] != y[i]) return x[i] - y[i];
  }
  return 0;
}

}  // extern "C"

namespace ttq::engine {

int64_t Syscall(int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                uint64_t f) {
  register uint64_t r10 __asm__("r10") = d;
  register uint64_t r8 __asm__("r8") = e;
  register uint64_t r9 __asm__("r9") = f;
  int64_t result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

void PreferHugePages(const void* at, size_t bytes) {
  Syscall(SYS_madvise, reinterpret_cast<uint64_t>(at), bytes, MADV_HUGEPAGE);
}

int64_t MapOwn(size_t bytes, int flags, int64_t fd) {
  constexpr uint64_t kApart = 1 << 21;
  static uint64_t next = kOwnBegin;
  const uint64_t place = next;
  next += (bytes + 2 * kApart - 1) & ~(kApart - 1);
  return Syscall(SYS_mmap, place, bytes, PROT_READ | PROT_WRITE, static_cast<uint64_t>(flags),
                 static_cast<uint64_t>(fd));
}

void* Allocate(size_t bytes) {
  constexpr size_t kChunk = 2 << 20;
  static uint8_t* at = nullptr;
  static size_t left = 0;
  bytes = (bytes + 15) & ~size_t{15};
  if (bytes > left) {
    const size_t want = bytes > kChunk / 4 ? PageUp(bytes) : kChunk;
    const int64_t r = MapOwn(want, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (Failed(r)) Refuse(Text() << "the engine gets no memory (see ulimit -v)");
    PreferHugePages(reinterpret_cast<void*>(r), want);
    if (want > kChunk) return reinterpret_cast<void*>(r);
    at = reinterpret_cast<uint8_t*>(r);
    left = want;
  }
  void* result = at;
  at += bytes;
  left -= bytes;
  return result;
}

Text& Text::operator<<(const char* s) {
  while (*s != 0 && used_ + 1 < sizeof(buffer_)) buffer_[used_++] = *s++;
  return *this;
}

Text& Text::operator<<(uint64_t number) {
  char digits[24];
  int n = 0;
  do digits[n++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  while (n > 0 && used_ + 1 < sizeof(buffer_)) buffer_[used_++] = digits[--n];
  return *this;
}

Text& Text::Hex(uint64_t number) {
  int shift = 60;
  while (shift > 0 && number >> shift == 0) shift -= 4;
  for (; shift >= 0 && used_ + 1 < sizeof(buffer_); shift -= 4) {
    buffer_[used_++] = "0123456789abcdef"[number >> shift & 15];
  }
  return *this;
}

size_t Length(const char* s) {
  size_t n = 0;
  while (s[n] != 0) {
    ++n;
    __asm__ volatile("");  // or the compiler makes it a call to strlen
  }
  return n;
}

bool Equal(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

const char* After(const char* s, const char* start) {
  while (*start != 0 && *s == *start) ++s, ++start;
  return *start == 0 ? s : nullptr;
}

static bool (*g_catches_faults)();
void SetCatchesFaults(bool (*catches)()) { g_catches_faults = catches; }

// Copies; gives how many bytes are left where the program has none.
extern "C" size_t EngineRead(void* into, uint64_t address, size_t bytes);
__asm__(
    ".text\n.globl EngineRead, kEngineReadInstruction, kEngineReadGivenUp\n"
    "EngineRead:\n  mov %rdx, %rcx\n"
    "kEngineReadInstruction:\n  rep movsb\n"
    "kEngineReadGivenUp:\n  mov %rcx, %rax\n  ret\n");

size_t ReadGuest(uint64_t address, void* into, size_t bytes) {
  size_t done = g_catches_faults != nullptr && g_catches_faults()
                    ? bytes - EngineRead(into, address, bytes)
                    : 0;
  if (done == bytes) return done;
  struct {
    uint64_t base, length;
  } local, remote;
  // Any thread's number leads to the memory, but for that of one that has ended: the first may
  // have.
  const auto self = static_cast<uint64_t>(Syscall(SYS_gettid));
  const auto read = [&](uint64_t n) {
    local = {reinterpret_cast<uint64_t>(into) + done, n};
    remote = {address + done, n};
    const int64_t r = Syscall(SYS_process_vm_readv, self, reinterpret_cast<uint64_t>(&local), 1,
                              reinterpret_cast<uint64_t>(&remote), 1, 0);
    return r <= 0 ? 0 : static_cast<size_t>(r);
  };
  // Mostly all of it can be read; else page by page, as far as there is one.
  done += read(bytes - done);
  while (done < bytes) {
    const size_t n = read(Least(bytes - done, kPage - ((address + done) & (kPage - 1))));
    if (n == 0) break;
    done += n;
  }
  return done;
}

void Refuse(const Text& what) {
  Text line;
  line << "ttq: process " << static_cast<uint64_t>(Syscall(SYS_getpid)) << " is not recorded";
  line << (ring::IsOpen() ? " any further: " : ": ") << what.c_str()
       << (traces::Left() ? kRefusedSeen : kRefusedUnseen) << "\n";
  EndWith(line);
}

void EndWith(const Text& line) {
  ring::WriteLog(line);
  // Of a segment the recorder is to see that it lacks something.
  if (!ring::IsSegment()) ring::Finish(0, false);
  for (;;) Syscall(SYS_exit_group, 125);
}

}  // namespace ttq::engine
