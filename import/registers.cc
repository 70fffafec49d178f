// SPDX-License-Identifier: MIT

#include "import/registers.h"

#include <cstring>

#include "base/types.h"

namespace ttq {
namespace {

// Intel 64 manual, volume 1, 10.5: the FXSAVE area, which every XSAVE area begins with.
constexpr size_t kStatusWord = 2, kTagByte = 4, kFirstX87 = 32, kFirstXmm = 160;
constexpr size_t kFxsaveBytes = 512;
constexpr uint64_t kDirectionFlag = 0x400;

}  // namespace

void TakeRegisters(const user_regs_struct& r, MomentThread* thread) {
  TtqRegisters& out = thread->registers;
  const uint64_t values[] = {r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi,
                             r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
  static_assert(sizeof(values) / sizeof(values[0]) == kGprCount);
  memcpy(&out.reg, values, sizeof(values));
  out.reg[kTtqRegFs] = r.fs_base;
  out.reg[kTtqRegGs] = r.gs_base;
  out.reg[kTtqRegDirection] = (r.eflags & kDirectionFlag) != 0 ? ~uint64_t{0} : 1;
  out.pc = r.rip;
  // After an interrupt or a fault it is negative.
  thread->syscall = static_cast<int64_t>(r.orig_rax) >= 0 ? static_cast<int64_t>(r.orig_rax) : -1;
}

void TakeVectors(std::string_view area, MomentThread* thread) {
  if (area.size() < kFxsaveBytes) return;
  uint64_t words[kTtqVectorWords] = {};
  for (int i = 0; i < kTtqVectorCount; ++i) {
    memcpy(&words[i], area.data() + kFirstXmm + 16 * i, 8);
    memcpy(&words[kTtqHighWord + i], area.data() + kFirstXmm + 16 * i + 8, 8);
  }
  uint16_t status;
  memcpy(&status, area.data() + kStatusWord, sizeof(status));
  const int top = status >> 11 & 7;
  if (area[kTagByte] >> top & 1) {
    long double value = 0;
    static_assert(sizeof(value) >= 10);
    memcpy(&value, area.data() + kFirstX87, 10);
    const auto rounded = static_cast<double>(value);
    memcpy(&words[kTtqX87Word], &rounded, sizeof(rounded));
  }
  memcpy(&thread->vectors.word, words, sizeof(words));
  thread->has_vectors = true;
}

}  // namespace ttq
