// SPDX-License-Identifier: MIT
//
// C++ exceptions: through frames with destructors, across threads, rethrown.

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Guard {
  int* count;
  ~Guard() { ++*count; }
};

int Deep(int n, int* count) {
  Guard guard{count};
  if (n == 0) throw std::runtime_error(std::string(100, 'x'));
  return Deep(n - 1, count) + 1;
}

}  // namespace

int main() {
  int count = 0, caught = 0;
  for (int i = 0; i < 200; ++i) {
    try {
      try {
        Deep(i % 40, &count);
      } catch (const std::exception& e) {
        caught += static_cast<int>(std::string(e.what()).size());
        throw;
      }
    } catch (const std::runtime_error&) {
      ++caught;
    }
  }
  std::exception_ptr from_thread;
  std::thread([&] {
    try {
      std::vector<int>().at(3);
    } catch (...) {
      from_thread = std::current_exception();
    }
  }).join();
  try {
    std::rethrow_exception(from_thread);
  } catch (const std::out_of_range&) {
    ++caught;
  }
  std::printf("%d %d\n", count, caught);
  return caught & 0x7f;
}
