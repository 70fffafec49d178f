// SPDX-License-Identifier: MIT
//
// Exceptions thrown through ten frames, each with something to destroy; rethrown half way.

#include <cstdio>
#include <stdexcept>

static int destroyed, caught;

struct Guard {
  int level;
  explicit Guard(int n) : level(n) {}
  __attribute__((noinline)) ~Guard() { destroyed += level; }
};

__attribute__((noinline)) void Note(int n) { caught += n; }

__attribute__((noinline)) int Descend(int n) {
  Guard guard(n);
  if (n == 0) throw std::runtime_error("at the bottom");
  if (n == 5) {
    try {
      return Descend(n - 1) + 1;
    } catch (const std::exception&) {
      Note(n);
      throw;
    }
  }
  return Descend(n - 1) + 1;
}

int main() {
  for (int i = 0; i < 3; ++i) {
    try {
      Descend(10);
    } catch (const std::exception&) {
      Note(100);
    }
  }
  std::printf("%d %d\n", destroyed, caught);
}
