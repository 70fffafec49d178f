// SPDX-License-Identifier: MIT
//
// The vDSO is an ELF image of one or two pages. The kernel compiles it to use general registers
// only, as this engine is compiled.

#include "recorder/engine/clock.h"

#include <elf.h>
#include <sys/syscall.h>

#include "recorder/engine/base.h"

namespace ttq::engine {
namespace {

constexpr int kRealtime = 0;  // CLOCK_REALTIME
struct Time {
  int64_t seconds, nanoseconds;
};
int (*g_get_time)(int clock, Time* out);

template <class T>
const T* At(uint64_t address) {
  return reinterpret_cast<const T*>(address);
}

// The address of a function; 0: the image has none of this name.
uint64_t Find(uint64_t image, const char* name) {
  const auto* head = At<Elf64_Ehdr>(image);
  const auto* sections = At<Elf64_Shdr>(image + head->e_shoff);
  for (unsigned k = 0; k < head->e_shnum; ++k) {
    const Elf64_Shdr& s = sections[k];
    if (s.sh_type != SHT_DYNSYM || s.sh_link >= head->e_shnum) continue;
    const auto* symbols = At<Elf64_Sym>(image + s.sh_offset);
    const uint64_t names = image + sections[s.sh_link].sh_offset;
    for (unsigned n = 0; n < s.sh_size / sizeof(Elf64_Sym); ++n) {
      const Elf64_Sym& symbol = symbols[n];
      if (symbol.st_shndx != SHN_UNDEF && Equal(At<char>(names + symbol.st_name), name)) {
        return image + symbol.st_value;
      }
    }
  }
  return 0;
}

}  // namespace

void SetUpClock(const uint64_t* auxiliary) {
  for (; auxiliary[0] != AT_NULL; auxiliary += 2) {
    if (auxiliary[0] != AT_SYSINFO_EHDR || auxiliary[1] == 0) continue;
    g_get_time = reinterpret_cast<int (*)(int, Time*)>(Find(auxiliary[1], "__vdso_clock_gettime"));
  }
}

int64_t WallNs() {
  Time t = {};
  if (g_get_time == nullptr || g_get_time(kRealtime, &t) != 0) {
    Syscall(SYS_clock_gettime, kRealtime, Number(&t));
  }
  return t.seconds * 1'000'000'000 + t.nanoseconds;
}

}  // namespace ttq::engine
