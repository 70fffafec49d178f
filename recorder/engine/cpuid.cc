// SPDX-License-Identifier: MIT

#include "recorder/engine/cpuid.h"

#include <initializer_list>

#include "recorder/engine/base.h"
#include "recorder/engine/context.h"

namespace ttq::engine {
namespace {

constexpr uint32_t Bits() { return 0; }
template <class... More>
constexpr uint32_t Bits(unsigned first, More... more) {
  return 1u << first | Bits(more...);
}

// Of leaf 7. FSGSBASE, HLE, ERMS, RTM, AVX512F, DQ, IFMA, PF, ER, CD, BW, VL.
constexpr uint32_t kHiddenB = Bits(0, 4, 9, 11, 16, 17, 21, 26, 27, 28, 30, 31);
// AVX512_VBMI, PKU, OSPKE, VBMI2, CET_SS, VNNI, BITALG, VPOPCNTDQ, ENQCMD.
constexpr uint32_t kHiddenC = Bits(1, 3, 4, 6, 7, 11, 12, 14, 29);
// AVX512_4VNNIW, 4FMAPS, FSRM, UINTR, VP2INTERSECT, RTM_ALWAYS_ABORT, RTM_FORCE_ABORT, TSXLDTRK,
// IBT, AMX_BF16, AVX512_FP16, AMX_TILE, AMX_INT8.
constexpr uint32_t kHiddenD = Bits(2, 3, 4, 5, 8, 11, 13, 16, 20, 22, 23, 24, 25);
// Of leaf 7, subleaf 1: AVX512_BF16, FZRM, FSRS, FRSC, AMX_FP16; AMX_COMPLEX, AVX10.
constexpr uint32_t kHiddenA1 = Bits(5, 10, 11, 12, 21), kHiddenD1 = Bits(8, 19);

constexpr uint64_t kStates = 0x2ff;  // without AMX's tiles

bool IsMadeByAmd() {
  constexpr uint32_t kAmd = 0x68747541, kHygon = 0x6f677948;  // "Auth", "Hygo"
  uint32_t leaf = 0, name, c = 0, d;
  __asm__ volatile("cpuid" : "+a"(leaf), "=b"(name), "+c"(c), "=d"(d));
  return name == kAmd || name == kHygon;
}

// What flags the instructions leave does not depend on AF before them.
bool LogicIgnoresAuxiliary() {
  constexpr uint32_t kAuxiliary = 0x10 << 8;  // in eax, where lahf and sahf have the flags
  for (uint32_t value : {0u, 1u, 0x80000018u}) {
    struct {
      uint32_t by_test, by_and, by_or, by_xor;
    } after[2];
    for (unsigned k = 0; k < 2; ++k) {
      uint32_t v = value;
      __asm__ volatile(
          "mov %[before], %%eax; sahf; test %[v], %[v]; lahf; mov %%eax, %[by_test]\n\t"
          "mov %[before], %%eax; sahf; and %[v], %[v]; lahf; mov %%eax, %[by_and]\n\t"
          "mov %[before], %%eax; sahf; or %[v], %[v]; lahf; mov %%eax, %[by_or]\n\t"
          "mov %[before], %%eax; sahf; xor $1, %[v]; lahf; mov %%eax, %[by_xor]"
          : [by_test] "=m"(after[k].by_test), [by_and] "=m"(after[k].by_and),
            [by_or] "=m"(after[k].by_or), [by_xor] "=m"(after[k].by_xor), [v] "+&r"(v)
          : [before] "r"(k * kAuxiliary)
          : "rax", "cc");
    }
    if (memcmp(&after[0], &after[1], sizeof(after[0])) != 0) return false;
  }
  return true;
}

}  // namespace

bool LoopIsFast() {
  static const bool is_fast = IsMadeByAmd();
  return is_fast;
}

bool LogicSetsAuxiliary() {
  static const bool sets = LogicIgnoresAuxiliary();
  return sets;
}

uint64_t EnabledComponents() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

unsigned StateBytes(uint64_t wanted, bool compact) {
  constexpr unsigned kLegacyAndHeader = 576, kFirst = 2, kComponents = 63, kAligned = 2;
  wanted &= EnabledComponents();
  unsigned bytes = kLegacyAndHeader;
  for (unsigned n = kFirst; n < kComponents; ++n) {
    if (!(wanted >> n & 1)) continue;
    uint32_t size = 0xd, offset, flags = n, d;
    __asm__ volatile("cpuid" : "+a"(size), "=b"(offset), "+c"(flags), "=d"(d));
    if (compact) {
      if (flags & kAligned) bytes = (bytes + 63) & ~63u;
      bytes += size;
    } else if (offset + size > bytes) {
      bytes = offset + size;
    }
  }
  return bytes;
}

uint64_t EnabledStates() { return EnabledComponents() & kStates; }

uint32_t StateBytes() {
  static uint32_t bytes = 0;
  if (bytes == 0) bytes = StateBytes(kStates, false);
  return bytes;
}

void EmulateCpuid(uint64_t* registers) {
  const auto leaf = static_cast<uint32_t>(registers[kRax]);
  const auto subleaf = static_cast<uint32_t>(registers[kRcx]);
  uint32_t a = leaf, b, c = subleaf, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  if (leaf == 7 && subleaf == 0) {
    b &= ~kHiddenB;
    c &= ~kHiddenC;
    d &= ~kHiddenD;
  } else if (leaf == 7 && subleaf == 1) {
    a &= ~kHiddenA1;
    d &= ~kHiddenD1;
  }
  if (leaf == 0xd && subleaf == 0) b = StateBytes();
  // XSAVEOPT, XSAVEC, XSAVES and XGETBV with 1 tell what the processor has in use, which does not
  // depend on the program alone.
  if (leaf == 0xd && subleaf == 1) a = b = c = d = 0;
  registers[kRax] = a;
  registers[kRbx] = b;
  registers[kRcx] = c;
  registers[kRdx] = d;
}

}  // namespace ttq::engine
