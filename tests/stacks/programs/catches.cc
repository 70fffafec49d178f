// SPDX-License-Identifier: MIT
//
// Small functions with a catch, a loop over a vector, a guard: much of it is inlined where the
// compiler optimizes, and a copy goes on in its handler, elsewhere in the code.

#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

struct Guard {
  int& count;
  explicit Guard(int& c) : count(c) { ++count; }
  ~Guard() { --count; }
};

static int depth = 0;

int Leaf(int x) {
  Guard guard(depth);
  if (x % 3 == 0) throw std::runtime_error("bad " + std::to_string(x));
  return x * 2;
}

int Middle(int x) {
  int result = 0;
  try {
    result = Leaf(x);
  } catch (const std::runtime_error&) {
    result = -1;
  }
  return result;
}

int Sum(const std::vector<int>& values) {
  int total = 0;
  for (int x : values) {
    total += Middle(x);
  }
  return total;
}

int Factorial(int n) { return n <= 1 ? 1 : n * Factorial(n - 1); }

int main() {
  const std::vector<int> values{1, 2, 3, 4};
  std::map<int, std::string> names;
  for (int i = 0; i < 3; i++) {
    names[i] = std::to_string(i);
  }
  std::printf("%d %d %zu\n", Sum(values), Factorial(4), names.size());
  return 0;
}
