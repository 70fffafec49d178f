// SPDX-License-Identifier: MIT
//
// The ways to die that C++ adds, by name.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

namespace {

struct Shape {
  virtual ~Shape() { Leave(); }
  __attribute__((noinline)) void Leave() { Area(); }
  virtual long Area() = 0;
};

struct Square : Shape {
  long Area() override { return side * side; }
  long side = 2;
};

struct Named {
  virtual ~Named() = default;
  virtual const char* Name() const { return "named"; }
  long number = 1;
};
Named* kept;
// Its memory is given to somebody else then.
__attribute__((noinline)) void Delete(Named* named) { delete named; }
__attribute__((noinline)) void Reuse(size_t size) {
  void* block = memset(malloc(size), 0x5a, size);
  __asm__ volatile("" : : "r"(block) : "memory");
}

__attribute__((noinline)) void Throw() { throw std::runtime_error("nobody wants this"); }

__attribute__((noinline)) void MayNotThrow() noexcept(true) { Throw(); }

// A function of the program's own that is called like this.
__attribute__((noinline)) void terminate_session() { std::abort(); }

}  // namespace

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  if (!strcmp(how, "pure")) delete new Square;
  if (!strcmp(how, "deleted")) {
    kept = new Named;
    Delete(kept);
    Reuse(sizeof *kept);
    puts(kept->Name());
  }
  if (!strcmp(how, "thrown")) Throw();
  if (!strcmp(how, "noexcept")) MayNotThrow();
  if (!strcmp(how, "terminate")) std::thread([] {}).~thread();  // not joined
  if (!strcmp(how, "named")) terminate_session();
}
