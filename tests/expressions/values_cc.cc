// SPDX-License-Identifier: MIT
//
// Values of C++: classes with bases, references, namespaces, templates, the standard containers.
#include <any>
#include <array>
#include <atomic>
#include <bitset>
#include <complex>
#include <deque>
#include <forward_list>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace shapes {

enum class Kind { kRound = 3, kSquare };

class Shape {
 public:
  explicit Shape(int id) : id_(id) {}
  virtual ~Shape() = default;
  virtual double Area() const { return 0; }
  static int count;

 protected:
  int id_;
};
int Shape::count = 2;

class Circle : public Shape {
 public:
  Circle(int id, double radius) : Shape(id), radius_(radius) {}
  double Area() const override;
  Kind kind = Kind::kRound;

 private:
  double radius_;
};

template <class T>
struct Stack {
  T items[4];
  int depth = 0;
  void push(const T& item) { items[depth++] = item; }
};

int level = 5;

}  // namespace shapes

// A library's type, then the program's own of the same name and size.
namespace library {
struct Spot {
  long far = 0;
};
}  // namespace library
struct Spot {
  int near = 3, more = 4;
};

struct Left {
  int left = 1;
};
struct Right {
  int right = 2;
};
struct Both : Left, Right {
  int both = 3;
};

// A base that two bases share, and pointers to members.
struct Shared {
  virtual ~Shared() {}
  int shared = 5;
};
struct West : virtual Shared {
  int west = 6;
};
struct East : virtual Shared {
  int east = 7;
};
struct Diamond : West, East {
  __attribute__((noinline)) Diamond(int low, int high) : facets(low + high) {}
  int facets;
  int Cut(int n) { return n + facets; }
  virtual int Polish(int n) { return n; }
};
struct Chosen {
  int Diamond::*facet = &Diamond::facets;
  int Diamond::*no_facet = nullptr;
  int (Diamond::*work)(int) = &Diamond::Cut;
  int (Diamond::*virtual_work)(int) = &Diamond::Polish;
  int (Diamond::*no_work)(int) = nullptr;
};

__attribute__((noinline)) void stop_here() { __asm__ volatile("" ::: "memory"); }

double shapes::Circle::Area() const {
  stop_here();
  return radius_ * radius_ * 3;
}

shapes::Circle circle(7, 1.5);
shapes::Stack<int> stack;

struct Made {
  explicit Made(int n) : numbers{n} {}
  int numbers[5];
};
Made made(3);
Both both;
Diamond diamond(4, 9);
Diamond diamonds[] = {{1, 2}, {3, 4}};
Chosen chosen;
library::Spot far_spot;
Spot spot;
int Left::*member_pointer = &Left::left;

std::complex<double> wave = {1.5, -2};
std::complex<float> ripple = {0, 4};
std::variant<int, std::string, double> choice = std::string("chosen");
std::variant<int, double> other_choice = 2.5;
std::tuple<int, std::string, Left> triple = {1, "two", Left()};
std::bitset<70> flag_bits = 5;
std::bitset<9> no_bits;
std::array<short, 3> trio = {7, 8, 9};

std::string_view view = "viewed";
std::wstring wide = L"w\u00efde";
std::u16string sixteen = u"sixteen \U0001F600";
std::u32string thirty_two(30, U'x');
std::atomic<int> atomic = 41;
std::atomic<bool> atomic_flag = true;
std::atomic<double> atomic_real = 2.5;
std::atomic<Left*> atomic_pointer = nullptr;
std::any any_number = 42, any_text = std::string("held"), any_nothing;
std::forward_list<int> forward = {5, 6}, no_forward;
std::stack<int> pile;
std::queue<std::string> line;
std::priority_queue<int> best;
std::initializer_list<int> initial = {1, 2, 3};
std::span<const int> span(initial);
std::span<short, 3> fixed_span(trio);
static void Release(int* p) { delete p; }
std::unique_ptr<int, void (*)(int*)> released(new int(3), Release);

// An enumerator of another scope has the name of a function.
enum class Verb { kRun, stop_there };
Verb verb = Verb::stop_there;
__attribute__((noinline)) int stop_there(int n) { return n + 1; }

__attribute__((noinline)) int containers(const std::string& name, int& number) {
  std::string text = "short";
  std::string empty;
  std::string long_text(60, 'x');
  std::vector<int> vector = {1, 2, 3};
  std::vector<std::string> words = {"a", "bc"};
  std::vector<bool> flags = {true, false, true};
  std::map<std::string, int> map = {{"one", 1}, {"two", 2}, {"three", 3}};
  std::map<int, double> empty_map;
  std::set<int> set = {3, 1, 2};
  std::unordered_map<int, std::string> table = {{1, "x"}};
  std::unique_ptr<int> unique = std::make_unique<int>(5);
  std::shared_ptr<int> shared = std::make_shared<int>(6);
  std::shared_ptr<int> other = shared;
  std::shared_ptr<int> none;
  std::optional<int> maybe = 8;
  std::optional<int> never;
  std::pair<int, std::string> pair = {1, "p"};
  std::list<int> list = {4, 5};
  int& alias = number;
  shapes::Shape* shape = &circle;
  stop_here();
  return static_cast<int>(text.size() + vector.size() + name.size() + empty.size()) + alias +
         *unique + *shared + *other + (none ? 1 : 0) + *maybe + never.value_or(1) + pair.first +
         static_cast<int>(list.size() + map.size() + empty_map.size() + set.size() + table.size() +
                          words.size() + flags.size() + long_text.size() + shape->Area());
}

int main() {
  stack.push(10);
  stack.push(20);
  pile.push(1);
  line.push("first");
  best.push(3);
  best.push(9);
  int number = stop_there(8);
  const int result = containers("the name", number);
  return result == 0;
}
