// SPDX-License-Identifier: MIT
// As symbols_c.c for what C++ adds: namespaces, templates, members, operators, lambdas, internal
// linkage, exceptions (a cold part of its own).
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// Nothing is inside of it.
namespace nothing {}
using namespace nothing;

namespace app {

template <class T>
class Stack {
 public:
  __attribute__((noinline)) void Push(T value) {
    if (items_.size() > 1000) throw std::runtime_error("full");
    items_.push_back(value);
  }
  T Pop() {
    T top = items_.back();
    items_.pop_back();
    return top;
  }
  static int depth;

 private:
  std::vector<T> items_;
};
template <class T>
int Stack<T>::depth = 7;

template <class T>
__attribute__((noinline)) T Largest(const std::vector<T>& all) {
  T best = all[0];
  for (const T& x : all) {
    if (best < x) best = x;
  }
  return best;
}

struct Point {
  int x, y;
  __attribute__((noinline)) Point operator+(const Point& o) const { return {x + o.x, y + o.y}; }
};

namespace {
__attribute__((noinline)) int Helper(int n) {
  std::map<std::string, int> counts;
  for (int i = 0; i < n; ++i) ++counts[std::to_string(i % 3)];
  return counts["0"];
}
}  // namespace

static __attribute__((noinline)) int Internal(int n) { return Helper(n) + Stack<int>::depth; }

}  // namespace app

int main(int argc, char**) {
  app::Stack<int> ints;
  app::Stack<std::string> strings;
  for (int i = 0; i < argc + 3; ++i) {
    ints.Push(i);
    strings.Push(std::to_string(i));
  }
  auto twice = [&](int n) __attribute__((noinline)) { return 2 * n + argc; };
  app::Point p = app::Point{argc, 1} + app::Point{1, argc};
  std::printf("%d %s %d %d\n", ints.Pop() + app::Largest(std::vector<int>{argc, 2}),
              strings.Pop().c_str(), app::Internal(twice(p.x)), p.y);
  return 0;
}
