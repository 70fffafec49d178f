// SPDX-License-Identifier: MIT
// Virtual functions, exceptions, streams, closures, destructors.
#include <any>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

struct Shape {
  virtual ~Shape() = default;
  virtual double Area() const = 0;
};
struct Square final : Shape {
  explicit Square(double s) : side(s) {
    if (s < 0) throw std::invalid_argument("negative side");
  }
  double Area() const override { return side * side; }
  double side;
};
struct Circle : virtual Shape {
  explicit Circle(double r) : radius(r) {}
  double Area() const override { return 3 * radius * radius; }
  double radius;
};
struct Guard {
  explicit Guard(int* c) : count(c) { ++*count; }
  ~Guard() { --*count; }
  int* count;
};

static int Deep(int n, int* alive) {
  Guard guard(alive);
  if (n == 0) throw std::runtime_error("deep");
  try {
    return Deep(n - 1, alive) + 1;
  } catch (const std::logic_error&) {
    return -1;
  }
}

int main() {
  std::vector<std::unique_ptr<Shape>> shapes;
  std::ostringstream text;
  int alive = 0;
  for (int i = -1; i < 3; ++i) {
    try {
      if (i % 2)
        shapes.push_back(std::make_unique<Circle>(i));
      else
        shapes.push_back(std::make_unique<Square>(i));
    } catch (const std::exception& e) {
      text << e.what() << ' ';
    }
  }
  for (const auto& s : shapes) {
    const auto* square = dynamic_cast<const Square*>(s.get());
    text << s->Area() << (square && square->side > 1 ? "!" : "") << std::hex << 77 << std::dec;
  }
  for (int depth = 0; depth < 2; ++depth) {
    try {
      Deep(depth, &alive);
    } catch (const std::exception& e) {
      text << e.what() << alive;
    }
  }
  std::vector<std::function<int(int)>> steps;
  for (int k = 1; k < 5; ++k) steps.emplace_back([k, &alive](int x) { return x * k + alive; });
  int x = 1;
  for (const auto& f : steps) x = f(x);
  std::variant<int, std::string, double> v = "text";
  std::optional<int> o = x > 3 && x < 1000 ? std::optional<int>(x) : std::nullopt;
  text << std::visit([](const auto& a) { return sizeof(a); }, v) << o.value_or(0);
  std::any any = std::string("any");
  try {
    text << std::any_cast<int>(any);
  } catch (const std::bad_any_cast&) {
    text << std::any_cast<std::string>(any);
  }
  std::istringstream in("12 7.5 word 99");
  int a;
  double b;
  std::string c;
  in >> a >> b >> c;
  text << a << b << c;
  std::puts(text.str().c_str());
}
