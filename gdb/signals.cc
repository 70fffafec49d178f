// SPDX-License-Identifier: MIT
//
// Signals as the remote protocol counts them (gdb's include/gdb/signals.def): as old BSDs did.

#include <array>

#include "gdb/stub.h"

namespace ttq::gdb {
namespace {

constexpr int kUnknown = 143;
// By Linux's number, from 1.
constexpr std::array<int, 31> kOfLinux = {
    1,  2,  3,  4,  5,  6,  10, 8,  9,  30, 11, 31, 13, 14, 15, 0,
    20, 19, 17, 18, 21, 22, 16, 24, 25, 26, 27, 28, 23, 32, 12,
};
// SIG32 stands alone; those from 33 to 63 follow each other; then 64 to 127.
constexpr int kRealtime32 = 77, kRealtime33 = 45, kRealtime64 = 78;

}  // namespace

int GdbSignal(int linux_number) {
  if (linux_number >= 1 && linux_number <= 31) {
    const int n = kOfLinux[static_cast<size_t>(linux_number - 1)];
    return n == 0 ? kUnknown : n;
  }
  if (linux_number == 32) return kRealtime32;
  if (linux_number > 32 && linux_number < 64) return kRealtime33 + linux_number - 33;
  if (linux_number >= 64 && linux_number <= 127) return kRealtime64 + linux_number - 64;
  return kUnknown;
}

int LinuxSignal(int gdb_number) {
  for (int n = 1; n <= 127; ++n) {
    if (GdbSignal(n) == gdb_number && gdb_number != kUnknown) return n;
  }
  return 0;
}

}  // namespace ttq::gdb
