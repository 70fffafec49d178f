// SPDX-License-Identifier: MIT

#include "recorder/engine/threads.h"

#include <sys/syscall.h>

#include "recorder/engine/context.h"
#include "recorder/engine/ring.h"

namespace ttq::engine::threads {
namespace {

constexpr uint32_t kFirst = 1;
bool g_alive;

// The value of st(0) as a double, as far as one can hold it. `at`: ten bytes.
uint64_t NarrowExtended(const uint8_t* at) {
  uint64_t mantissa;
  uint16_t head;
  memcpy(&mantissa, at, 8);
  memcpy(&head, at + 8, 2);
  constexpr int kBias = 16383 - 1023, kMost = 2047;
  const uint64_t sign = static_cast<uint64_t>(head >> 15) << 63;
  const int exponent = (head & 0x7fff) - kBias;
  if ((head & 0x7fff) == 0x7fff) {
    const bool is_nan = mantissa << 1 != 0;
    return sign | uint64_t{kMost} << 52 |
           (is_nan ? uint64_t{1} << 51 | (mantissa >> 11 & ((1ull << 51) - 1)) : 0);
  }
  if (mantissa == 0 || exponent <= 0) return sign;
  // To the nearest, ties to even; a carry goes into the exponent.
  const uint64_t kept = mantissa >> 11 & ((uint64_t{1} << 52) - 1), rest = mantissa & 2047;
  const uint64_t up = rest > 1024 || (rest == 1024 && kept & 1) ? 1 : 0;
  const uint64_t value = (static_cast<uint64_t>(exponent) << 52 | kept) + up;
  if (exponent >= kMost || value >> 52 >= static_cast<uint64_t>(kMost)) {
    return sign | uint64_t{kMost} << 52;
  }
  return sign | value;
}

}  // namespace

uint32_t Current() { return kFirst; }

void Begin() {
  g_alive = true;
  TtqThread s = {};
  s.tid = kFirst;
  s.os_tid = static_cast<uint32_t>(Syscall(SYS_gettid));
  s.number = 1;
  ring::AppendStruct(kTtqThreadStart, s);
  BeginBlock();
}

void TellRegisters() {
  constexpr uint64_t kDirectionFlag = 0x400;
  TtqRegisters r = {};
  r.tid = kFirst;
  memcpy(r.reg, g_context.r, sizeof(g_context.r));
  r.reg[kTtqRegFs] = g_context.fs_base;
  r.reg[kTtqRegGs] = g_context.gs_base;
  r.reg[kTtqRegDirection] = g_context.flags & kDirectionFlag ? ~uint64_t{0} : 1;
  r.pc = g_context.pc;
  ring::AppendStruct(kTtqRegisters, r);
}

void TellVectors() {
  alignas(16) static uint8_t state[512];
  __asm__ volatile("fxsave64 %0" : "=m"(state));
  TtqVectors v = {};
  v.tid = kFirst;
  constexpr unsigned kX87 = 32, kXmm = 160, kRegisterBytes = 16;
  for (unsigned i = 0; i < kTtqVectorCount; ++i) {
    memcpy(&v.word[i], state + kXmm + i * kRegisterBytes, 8);
    memcpy(&v.word[kTtqHighWord + i], state + kXmm + i * kRegisterBytes + 8, 8);
  }
  v.word[kTtqX87Word] = NarrowExtended(state + kX87);
  ring::AppendStruct(kTtqVectors, v);
}

void BeginBlock() {
  if (!g_alive) return;
  TellRegisters();
  TellVectors();
  const uint32_t tid = kFirst;
  ring::Append(kTtqThread, &tid, sizeof(tid));
}

void TellExit() {
  TtqThread s = {};
  s.tid = kFirst;
  ring::AppendStruct(kTtqThreadExit, s);
  g_alive = false;
}

}  // namespace ttq::engine::threads
